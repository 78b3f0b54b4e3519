/*
 * preflight_probe.c - what one rank can measure and check by itself, and with one other.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/output.h"
#include "lib/probe/preflight.h"
#include "lib/probe/preflight_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- patterns -------------------------------------------------------------------------------- */

/* Both bits of every position occur, neighbours differ, and no two places hold the same. */
static uint64_t word(uint64_t seed, size_t i)
{
    return (seed + i) * UINT64_C(0x9e3779b97f4a7c15);
}

void sn_pattern_fill(uint64_t *p, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = word(seed, i);
}

bool sn_pattern_holds(const uint64_t *p, size_t n, uint64_t seed)
{
    uint64_t differs = 0;
    for (size_t i = 0; i < n; i++)
        differs |= p[i] ^ word(seed, i);
    return differs == 0;
}

/* ---- products -------------------------------------------------------------------------------- */

static int64_t x_of(int64_t j)
{
    return 1 + j % 7;
}

void sn_known_product_fill(struct sn_known_product *p, int64_t *room)
{
    int64_t n = p->side;
    for (int64_t i = 0; i < n * n; i++) {
        p->a[i] = (float)((i * 7 + i / n * 3) % 5 - 2);
        p->b[i] = (float)((i * 5 + i / n * 11) % 7 - 3);
    }
    for (int64_t k = 0; k < n; k++) {
        room[k] = 0;
        for (int64_t j = 0; j < n; j++)
            room[k] += (int64_t)p->b[k * n + j] * x_of(j);
    }
    for (int64_t i = 0; i < n; i++) {
        p->want[i] = 0;
        for (int64_t k = 0; k < n; k++)
            p->want[i] += (int64_t)p->a[i * n + k] * room[k];
    }
}

bool sn_known_product_holds(const struct sn_known_product *p)
{
    for (int64_t i = 0; i < p->side; i++) {
        double sum = 0; /* whole numbers far below 2^53: exact */
        for (int64_t j = 0; j < p->side; j++)
            sum += (double)p->c[i * p->side + j] * (double)x_of(j);
        if (sum != (double)p->want[i])
            return false;
    }
    return true;
}

enum sn_status sn_probe_product(double *rate, bool *wrong, const struct sn_preflight_env *env,
                                double seconds, struct sn_err *err)
{
    if (env->accelerator && env->accelerator->device)
        return sn_probe_device_product(rate, wrong, env, seconds, err);
    enum { SIDE = 192, LEAST = 64 };
    /* A product takes a fraction of a millisecond whatever the threads: shorter than the shortest
     * time slice, so that the best one was not interrupted, whatever else runs. */
    int64_t n = (int64_t)(SIDE * cbrt(env->threads) / 64) * 64;
    struct sn_known_product p = {.side = n};
    struct sn_args a = {.in = {{NULL, SN_F32, n, n, n}, {NULL, SN_F32, n, n, n}},
                        .out = {{NULL, SN_F32, n, n, n}}};
    size_t matrix = (size_t)(n * n) * sizeof(float), vector = (size_t)n * sizeof(int64_t);
    size_t scratch = env->ops->scratch(SN_OP_GEMM, &a, env->threads);
    size_t bytes = 3 * matrix + 2 * vector + scratch; /* each a multiple of 64 but the last */
    char *memory = sn_arena_map(bytes);
    if (!memory)
        return sn_fail(err, SN_ENOMEM, "preflight: no memory for a product of %d", (int)n);
    p.a = (float *)(void *)memory;
    p.b = p.a + n * n;
    p.c = p.b + n * n;
    p.want = (int64_t *)(void *)(memory + 3 * matrix);
    a.in[SN_GEMM_A].p = p.a;
    a.in[SN_GEMM_B].p = p.b;
    a.out[SN_GEMM_C].p = p.c;
    a.scratch = memory + 3 * matrix + 2 * vector;
    sn_known_product_fill(&p, p.want + n);
    double began = sn_clock(), best = INFINITY;
    int failed = 0;
    for (int i = 0; !failed && !*wrong && (i < LEAST || sn_clock() - began < seconds); i++) {
        memset(p.c, 0xff, matrix);
        double t = sn_clock();
        failed = env->ops->run[SN_OP_GEMM](&a, env->threads);
        best = fmin(best, sn_clock() - t);
        *wrong = !sn_known_product_holds(&p);
    }
    sn_arena_unmap(memory, bytes);
    if (failed)
        return sn_fail(err, SN_EFAIL, "preflight: the %s backend cannot multiply", env->ops->name);
    *rate = fmax(*rate, 2.0 * (double)n * (double)n * (double)n / best);
    return SN_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Copies the lower half to the upper one, piece by piece; the best piece counts. */
static enum sn_status copy_halves(double *rate, const struct sn_preflight_env *env, char *memory,
                                  size_t half, struct sn_err *err)
{
    enum { PIECE = 4 << 20 };
    for (size_t at = 0; at < half; at += PIECE) {
        size_t bytes = half - at < PIECE ? half - at : PIECE;
        int64_t n = (int64_t)(bytes / sizeof(float));
        struct sn_args a = {.in = {{memory + at, SN_F32, 1, n, n}},
                            .out = {{memory + half + at, SN_F32, 1, n, n}}};
        double t = sn_clock();
        if (env->ops->run[SN_OP_COPY](&a, env->threads) != 0)
            return sn_fail(err, SN_EFAIL, "preflight: the %s backend cannot copy", env->ops->name);
        t = sn_clock() - t;
        if (t > 0)
            *rate = fmax(*rate, 2 * (double)bytes / t);
    }
    return SN_OK;
}

enum sn_status sn_probe_memory(double *rate, bool *wrong, const struct sn_preflight_env *env,
                               size_t bytes, struct sn_err *err)
{
    if (env->accelerator && env->accelerator->device)
        return sn_probe_device_memory(rate, wrong, env, err);
    size_t half = bytes / 2 / sizeof(uint64_t) * sizeof(uint64_t), n = half / sizeof(uint64_t);
    char *memory = sn_arena_map(2 * half);
    if (!memory)
        return sn_fail(err, SN_ENOMEM, "preflight: no memory for %zu bytes", bytes);
    uint64_t *lower = (uint64_t *)(void *)memory, *upper = lower + n;
    enum sn_status st = SN_OK;
    for (int pass = 0; pass < 2 && st == SN_OK; pass++) { /* each bit is written as 0 and as 1 */
        sn_pattern_fill(lower, n, 1);
        for (size_t i = 0; pass == 1 && i < n; i++)
            lower[i] = ~lower[i];
        st = copy_halves(rate, env, memory, half, err);
        for (size_t i = 0; pass == 1 && i < n; i++)
            upper[i] = ~upper[i];
        *wrong = *wrong || (st == SN_OK && !sn_pattern_holds(upper, n, 1));
    }
    sn_arena_unmap(memory, 2 * half);
    return st;
}

/* ---- storage --------------------------------------------------------------------------------- */

static bool put_all(int fd, const char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return fsync(fd) == 0;
}

static bool get_all(int fd, char *p, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = pread(fd, p + at, len - at, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return false;
        }
        at += (size_t)n;
    }
    return true;
}

/* From an open file; false: errno says why. */
static bool write_and_read(struct sn_preflight_rank *r, int fd, uint64_t *p, size_t bytes)
{
    size_t n = bytes / sizeof(*p);
    sn_pattern_fill(p, n, (uint64_t)r->rank << 32);
    double t = sn_clock();
    if (!put_all(fd, (const char *)p, bytes))
        return false;
    r->storage_write = (double)bytes / fmax(sn_clock() - t, 1e-9);
    /* From the storage, not from this node's cache, where the file system takes the hint. */
    (void)posix_fadvise(fd, 0, (off_t)bytes, POSIX_FADV_DONTNEED);
    memset(p, 0, bytes);
    t = sn_clock();
    if (!get_all(fd, (char *)p, bytes))
        return false;
    r->storage_read = (double)bytes / fmax(sn_clock() - t, 1e-9);
    if (!sn_pattern_holds(p, n, (uint64_t)r->rank << 32))
        r->wrong |= SN_WRONG_STORAGE;
    return true;
}

enum sn_status sn_probe_storage(struct sn_preflight_rank *r, const char *folder, size_t bytes,
                                struct sn_err *err)
{
    char path[4200];
    uint64_t *p = sn_alloc(bytes);
    if (!p)
        return sn_fail(err, SN_ENOMEM, "preflight: no memory for a file of %zu bytes", bytes);
    (void)snprintf(path, sizeof(path), "%s/preflight-%05d-%ld.tmp", folder, (int)r->rank,
                   (long)getpid()); /* cut short: open fails */
    int fd = sn_output_open(path, O_RDWR | O_EXCL, 0666);
    bool good = fd >= 0 && write_and_read(r, fd, p, bytes);
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        why = errno;
        good = false;
    }
    if (fd >= 0 && unlink(path) != 0 && good) {
        why = errno;
        good = false;
    }
    if (!good) {
        r->wrong |= SN_FAILED_STORAGE;
        r->error = why;
    }
    sn_free(p);
    return SN_OK;
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Both ways at once; *seconds until both have gone. */
static enum sn_status exchange(const struct sn_preflight_env *env, int peer, uint64_t *mine,
                               uint64_t *theirs, int64_t bytes, double *seconds, struct sn_err *err)
{
    struct sn_comm *c = env->comm;
    struct sn_transfer get = {.kind = SN_RECV,
                              .group = SN_GROUP_WORLD,
                              .dtype = SN_F32,
                              .n = bytes / 4,
                              .out = theirs,
                              .peer = peer,
                              .label = "preflight"};
    struct sn_transfer put = get;
    put.kind = SN_SEND;
    put.in = mine;
    put.out = NULL;
    double t = sn_clock();
    sn_request a = c->ops->post(c, &get), b = c->ops->post(c, &put);
    SN_TRY(c->ops->wait(c, a, err));
    SN_TRY(c->ops->wait(c, b, err));
    *seconds = sn_clock() - t;
    return SN_OK;
}

/* What goes over a link: so much, so many times. */
struct load {
    int64_t bytes, times;
};

enum { LINK_LEAST = 64 << 10, LINK_MOST = 1 << 20 }; /* bytes of a message */

/* The lower rank of a pair says what, by the slowest of its first exchanges of LINK_LEAST: messages
 * of a quarter of a second where the link is slow, a second of them where it is not. */
static enum sn_status agree_on_load(const struct sn_preflight_env *env, int peer, double first,
                                    struct load *load, struct sn_err *err)
{
    enum { LEAST = 3, MOST = 64 };
    static const double enough = 1.0, longest = 0.25; /* seconds */
    first = fmax(first, 1e-6);
    double bytes = fmin(fmax(LINK_LEAST * longest / first, LINK_LEAST), LINK_MOST);
    double each = first * bytes / LINK_LEAST;
    uint64_t mine[2] = {(uint64_t)(bytes / 8) * 8,
                        (uint64_t)fmin(fmax(enough / each, LEAST), MOST)};
    uint64_t theirs[2] = {0, 0}, *said = env->comm->rank < peer ? mine : theirs;
    double unused;
    SN_TRY(exchange(env, peer, mine, theirs, (int64_t)sizeof(mine), &unused, err));
    /* What was said may be altered on its way. */
    load->bytes =
        said[0] < LINK_LEAST || said[0] > LINK_MOST ? LINK_LEAST : (int64_t)said[0] / 8 * 8;
    load->times = said[1] < LEAST ? LEAST : said[1] > MOST ? MOST : (int64_t)said[1];
    return SN_OK;
}

enum sn_status sn_probe_link(struct sn_preflight_rank *r, const struct sn_preflight_env *env,
                             int round, int peer, struct sn_err *err)
{
    enum { WARM = 5 }; /* the first makes the connection, a shaped link lets some pass at once */
    uint64_t *memory = sn_alloc((size_t)2 * LINK_MOST), *theirs = NULL;
    if (!memory)
        return sn_fail(err, SN_ENOMEM, "preflight: no memory for messages");
    theirs = memory + LINK_MOST / 8;
    uint64_t own_seed = (uint64_t)env->comm->rank << 40, their_seed = (uint64_t)peer << 40;
    struct load load = {.bytes = LINK_LEAST};
    double t = 0, slowest = 0;
    enum sn_status st = SN_OK;
    for (int64_t i = 0; i < WARM + load.times && st == SN_OK; i++) {
        size_t words = (size_t)load.bytes / 8;
        sn_pattern_fill(memory, words, own_seed + (uint64_t)i);
        memset(theirs, 0, (size_t)load.bytes);
        st = exchange(env, peer, memory, theirs, load.bytes, &t, err);
        if (st == SN_OK && !sn_pattern_holds(theirs, words, their_seed + (uint64_t)i)) {
            r->wrong |= SN_WRONG_MESSAGE;
            r->wrong_rounds |= INT64_C(1) << round;
        }
        slowest = i > 0 ? fmax(slowest, t) : 0;
        if (st == SN_OK && i >= WARM)
            r->link[round] = fmax(r->link[round], 2.0 * (double)load.bytes / fmax(t, 1e-9));
        else if (st == SN_OK && i == WARM - 1)
            st = agree_on_load(env, peer, slowest, &load, err);
    }
    sn_free(memory);
    return st;
}
