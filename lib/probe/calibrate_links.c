/*
 * calibrate_links.c - collectives and sends between the ranks of a job, by size.
 */
#include "lib/probe/calibrate_links.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST = 256,      /* bytes */
    STEP = 4,         /* from one size to the next */
    SIZES = 9,        /* 256 B .. 16 MiB */
    MOST = 16 << 20,  /* bytes */
    MOST_ROUNDS = 32, /* LEAST_ROUNDS even if they take longer than asked for */
    LEAST_ROUNDS = 3,
    SMALL = 64 << 10, /* up to here several are timed together */
    TOGETHER = 8,
    SIDE = 192, /* of the product that is computed meanwhile */
    OVERLAPS = 9
};

/* Of a sender that computes: before, so that the receiver has begun to nap, and after. */
static const double before = 3e-3, after = 10e-3;

/* RECV needs a clock that both sides share: last, and only on one host. */
static const enum sn_collective kinds[] = {SN_ALL_REDUCE, SN_ALL_GATHER, SN_REDUCE_SCATTER,
                                           SN_ALL_TO_ALL, SN_SEND,       SN_RECV};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* What is computed meanwhile. */
struct product {
    const struct sn_ops *ops;
    struct sn_args a;
    int threads;
};

struct bench {
    struct sn_comm *comm;
    struct product product;
    int kinds;
    enum sn_group group;
    int members, index;
    char *in, *out, *staging;
    double (*t)[MOST_ROUNDS]; /* of each kind and size */
};

static enum sn_status post_and_wait(struct bench *b, const struct sn_transfer *t,
                                    struct sn_err *err)
{
    return b->comm->ops->wait(b->comm, b->comm->ops->post(b->comm, t), err);
}

static struct sn_transfer transfer(const struct bench *b, enum sn_collective kind, int64_t bytes)
{
    return (struct sn_transfer){.kind = kind,
                                .group = b->group,
                                .dtype = SN_F32,
                                .n = bytes / 4,
                                .in = kind == SN_ALL_REDUCE ? NULL : b->in,
                                .out = b->out,
                                .staging = b->staging,
                                .label = "calibrate"};
}

/* The first two members send to and fro: half of the way there and back. */
static enum sn_status to_and_fro(struct bench *b, int64_t bytes, struct sn_err *err)
{
    for (int way = 0; way < 2 && b->index < 2; way++) {
        struct sn_transfer t = transfer(b, b->index == way ? SN_SEND : SN_RECV, bytes);
        t.peer = 1 - b->index;
        SN_TRY(post_and_wait(b, &t, err));
    }
    return SN_OK;
}

static void compute(const struct bench *b, double seconds)
{
    const struct product *p = &b->product;
    for (double began = sn_clock(); sn_clock() - began < seconds;)
        (void)p->ops->run[SN_OP_GEMM](&p->a, p->threads);
}

/* As between stages: the first member posts and goes on computing, the second has waited for a
 * while. Its communication thread naps between looks, and the sender's has to share a core, so
 * that this takes longer than to and fro. The message says when it was posted. */
static enum sn_status send_and_compute(struct bench *b, int64_t bytes, double *seconds,
                                       struct sn_err *err)
{
    struct sn_transfer t = transfer(b, b->index == 0 ? SN_SEND : SN_RECV, bytes);
    t.peer = 1 - b->index;
    *seconds = 0;
    if (b->index > 1)
        return SN_OK;
    if (b->index == 1) {
        double posted;
        SN_TRY(post_and_wait(b, &t, err));
        memcpy(&posted, b->out, sizeof(posted));
        *seconds = sn_clock() - posted;
        return SN_OK;
    }
    compute(b, before);
    double now = sn_clock();
    memcpy(b->in, &now, sizeof(now));
    sn_request request = b->comm->ops->post(b->comm, &t);
    compute(b, after);
    return b->comm->ops->wait(b->comm, request, err);
}

static enum sn_status time_once(struct bench *b, enum sn_collective kind, int64_t bytes,
                                double *seconds, struct sn_err *err)
{
    int n = bytes <= SMALL ? TOGETHER : 1;
    struct sn_transfer t = transfer(b, kind, bytes);
    SN_TRY(b->comm->ops->barrier(b->comm, err));
    if (kind == SN_RECV)
        return send_and_compute(b, bytes, seconds, err);
    double began = sn_clock();
    for (int i = 0; i < n; i++)
        SN_TRY(kind == SN_SEND ? to_and_fro(b, bytes, err) : post_and_wait(b, &t, err));
    *seconds = (sn_clock() - began) / (kind == SN_SEND ? 2 * n : n);
    return SN_OK;
}

/* Bytes of the longest buffer, so that all kinds of a size touch as much memory. */
static int64_t bytes_of(const struct bench *b, enum sn_collective kind, int size)
{
    int64_t bytes = LEAST;
    for (int i = 0; i < size; i++)
        bytes *= STEP;
    bool is_whole = kind == SN_ALL_REDUCE || kind >= SN_SEND;
    return is_whole ? bytes : bytes / b->members / 4 * 4;
}

/* Rank 0's word counts for all. */
static enum sn_status goes_on(struct bench *b, bool *more, struct sn_err *err)
{
    return b->comm->ops->broadcast(b->comm, more, (int64_t)sizeof(*more), 0, err);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *t, int n)
{
    qsort(t, (size_t)n, sizeof(*t), ascending);
    return n % 2 ? t[n / 2] : (t[n / 2 - 1] + t[n / 2]) / 2;
}

/* Mean over ranks, so that all go on with the same number. */
static enum sn_status mean(struct bench *b, double *x, struct sn_err *err)
{
    struct sn_transfer t = {.kind = SN_ALL_REDUCE,
                            .group = SN_GROUP_WORLD,
                            .dtype = SN_F64,
                            .n = 1,
                            .out = x,
                            .staging = b->staging,
                            .label = "calibrate"};
    SN_TRY(post_and_wait(b, &t, err));
    *x /= b->comm->size;
    return SN_OK;
}

static enum sn_status add_median(struct sn_links *out, struct bench *b, int i, int rounds,
                                 struct sn_err *err)
{
    enum sn_collective kind = kinds[i / SIZES];
    struct sn_measured_link x = {.kind = kind,
                                 .members = kind >= SN_SEND ? 2 : b->members,
                                 .bytes = bytes_of(b, kind, i % SIZES),
                                 .seconds = median(b->t[i], rounds)};
    if (kind == SN_RECV) { /* one of each group has seen it */
        SN_TRY(mean(b, &x.seconds, err));
        x.seconds *= b->members;
    }
    return sn_links_add(out, x, err);
}

static enum sn_status sweep(struct sn_links *out, struct bench *b, double seconds,
                            struct sn_err *err)
{
    double began = sn_clock();
    int rounds = 0;
    for (bool more = true; more && rounds < MOST_ROUNDS;) {
        for (int i = 0; i < b->kinds * SIZES; i++) {
            enum sn_collective kind = kinds[i / SIZES];
            SN_TRY(time_once(b, kind, bytes_of(b, kind, i % SIZES), &b->t[i][rounds], err));
        }
        rounds++;
        more = rounds < LEAST_ROUNDS || sn_clock() - began < seconds;
        SN_TRY(goes_on(b, &more, err));
    }
    for (int i = 0; i < b->kinds * SIZES; i++)
        SN_TRY(add_median(out, b, i, rounds, err));
    return SN_OK;
}

/* --- what computing loses --------------------------------------------------------------------- */

static enum sn_status overlap_once(struct bench *b, int64_t bytes, int products, double *seconds,
                                   struct sn_err *err)
{
    const struct product *p = &b->product;
    struct sn_transfer t = transfer(b, SN_ALL_REDUCE, bytes);
    SN_TRY(b->comm->ops->barrier(b->comm, err));
    double began = sn_clock();
    sn_request request = bytes ? b->comm->ops->post(b->comm, &t) : 0;
    for (int i = 0; i < products; i++)
        (void)p->ops->run[SN_OP_GEMM](&p->a, p->threads);
    if (request)
        SN_TRY(b->comm->ops->wait(b->comm, request, err));
    *seconds = sn_clock() - began;
    return SN_OK;
}

/* Of an all-reduce alone, of computing as long, and of both at once: what the two together take
 * longer than the longer one is what communication takes from computing. */
static enum sn_status overlap(double *processor, struct bench *b, struct sn_err *err)
{
    int64_t bytes = MOST / 4;
    double alone[OVERLAPS], work[OVERLAPS], both[OVERLAPS], one = 0;
    SN_TRY(overlap_once(b, bytes, 0, &alone[0], err));
    SN_TRY(overlap_once(b, 0, 8, &one, err));
    double ratio = 8 * alone[0] / one;
    SN_TRY(mean(b, &ratio, err));
    int products = (int)fmin(fmax(ceil(ratio), 1), 1e6);
    for (int i = 0; i < OVERLAPS; i++) {
        SN_TRY(overlap_once(b, bytes, 0, &alone[i], err));
        SN_TRY(overlap_once(b, 0, products, &work[i], err));
        SN_TRY(overlap_once(b, bytes, products, &both[i], err));
    }
    double a = median(alone, OVERLAPS), w = median(work, OVERLAPS), ab = median(both, OVERLAPS);
    *processor = fmin(fmax((ab - fmax(a, w)) / fmin(a, w), 0), 1);
    return mean(b, processor, err);
}

static enum sn_status measure(struct sn_links *out, double *processor, struct bench *b,
                              double seconds, struct sn_err *err)
{
    struct product *p = &b->product;
    size_t side = (size_t)SIDE * SIDE * sizeof(float);
    p->a.in[SN_GEMM_A] = p->a.in[SN_GEMM_B] = p->a.out[SN_GEMM_C] =
        (struct sn_mat){NULL, SN_F32, SIDE, SIDE, SIDE};
    size_t scratch = p->ops->scratch(SN_OP_GEMM, &p->a, p->threads);
    int64_t staging = sn_collective_staging(b->comm->size);
    b->in = sn_arena_map(MOST);
    b->out = sn_arena_map(MOST);
    b->staging = sn_arena_map((size_t)staging);
    char *room = sn_arena_map(3 * side + scratch);
    b->t = sn_alloc_n(KINDS * SIZES, sizeof(*b->t));
    bool has_room = b->in && b->out && b->staging && room && b->t;
    enum sn_status st =
        has_room ? SN_OK : sn_fail(err, SN_ENOMEM, "calibrate: no memory for messages of 16 MiB");
    st = b->comm->ops->agree(b->comm, st, err);
    if (st == SN_OK) {
        p->a.in[SN_GEMM_A].p = room;
        p->a.in[SN_GEMM_B].p = room + side;
        p->a.out[SN_GEMM_C].p = room + 2 * side;
        p->a.scratch = room + 3 * side;
        st = sweep(out, b, seconds, err);
    }
    if (st == SN_OK)
        st = overlap(processor, b, err);
    sn_free(b->t);
    sn_arena_unmap(room, 3 * side + scratch);
    sn_arena_unmap(b->staging, (size_t)staging);
    sn_arena_unmap(b->out, MOST);
    sn_arena_unmap(b->in, MOST);
    return st;
}

enum sn_status sn_calibrate_links(struct sn_links *out, double *processor,
                                  const struct sn_link_bench *how, struct sn_err *err)
{
    struct bench b = {.comm = how->comm,
                      .product = {.ops = how->ops, .threads = how->threads},
                      .kinds = how->on_host ? KINDS : KINDS - 1,
                      .group = how->group,
                      .members = sn_group_size(how->grid, how->comm->rank, how->group),
                      .index = sn_group_index(how->grid, how->comm->rank, how->group)};
    return measure(out, processor, &b, how->seconds, err);
}
