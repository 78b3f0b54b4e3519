/* Large reads and writes by threads: the bytes are those of pread and pwrite, whatever the offset,
 * the size, the rows and the file system. */
#include "checkpoint/io/aio.h"
#include "checkpoint/io/files.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "tests/lib/dice.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES = 3 << 20, MOST = 1 << 20, THREADS = 3, IN_FLIGHT = 7 };

/* A file of random bytes, its copy in memory, and a pool. */
struct bench {
    char dir[64], path[96];
    unsigned char *copy;
    struct sn_aio *pool;
    struct sn_err err;
};

static unsigned char noise(size_t seed, size_t i)
{
    return (unsigned char)((seed * 40503 + i) * 2654435761u >> 13);
}

static void *aligned(size_t bytes)
{
    void *p = aligned_alloc(SN_AIO_ALIGN, (bytes + 3 * SN_AIO_ALIGN) / SN_AIO_ALIGN * SN_AIO_ALIGN);
    if (!p)
        exit(1);
    return p;
}

static void setup(struct bench *b, const char *root)
{
    *b = (struct bench){.err = {.text = ""}};
    (void)snprintf(b->dir, sizeof(b->dir), "%s/sn-aio-XXXXXX", root);
    if (!mkdtemp(b->dir)) {
        perror(b->dir);
        exit(1);
    }
    (void)snprintf(b->path, sizeof(b->path), "%s/file", b->dir);
    b->copy = aligned(FILE_BYTES);
    for (size_t i = 0; i < FILE_BYTES; i++)
        b->copy[i] = noise(17, i);
    if (sn_file_save(b->path, b->copy, FILE_BYTES, &b->err) != SN_OK ||
        sn_aio_create(&b->pool, THREADS, &b->err) != SN_OK)
        exit(1);
}

static void teardown(struct bench *b)
{
    sn_aio_destroy(b->pool);
    free(b->copy);
    (void)sn_dir_remove(b->dir, &b->err);
}

/* A random request inside the file: a run, or rows of a wider matrix. */
static struct sn_aio_request draw(struct dice *d)
{
    struct sn_aio_request r = {.bytes = (size_t)roll(d, roll(d, 2) ? MOST : 5000)};
    if (roll(d, 3) > 0) {
        r.offset = (uint64_t)roll(d, FILE_BYTES - (int64_t)r.bytes + 1);
        r.offset -= roll(d, 2) ? r.offset % SN_AIO_ALIGN : 0;
        return r;
    }
    r.row = 1 + (size_t)roll(d, 3000);
    r.stride = r.row + (size_t)roll(d, 20000);
    r.skip = (size_t)roll(d, (int64_t)r.row);
    size_t rows = FILE_BYTES / r.stride - 1;
    if (r.bytes > rows * r.row - r.skip)
        r.bytes = rows * r.row - r.skip;
    r.offset = r.skip + (uint64_t)roll(d, (int64_t)(FILE_BYTES - (rows + 1) * r.stride) + 1);
    return r;
}

/* Where byte i of the request is in the file. */
static size_t place(const struct sn_aio_request *r, size_t i)
{
    if (r->row == 0)
        return r->offset + i;
    size_t at = r->skip + i;
    return r->offset - r->skip + at / r->row * r->stride + at % r->row;
}

static bool is_like(const struct sn_aio_request *r, const unsigned char *copy)
{
    for (size_t i = 0; i < r->bytes; i++)
        if ((unsigned char)r->data[i] != copy[place(r, i)])
            return false;
    return true;
}

static void reads_are_right(const char *root)
{
    struct bench b;
    struct sn_aio_file *f;
    struct sn_aio_request r[IN_FLIGHT];
    uint64_t hash[IN_FLIGHT];
    struct dice d = {sn_rng_key(1, "reads"), 0};
    setup(&b, root);
    bool good = sn_aio_open(&f, b.path, false, &b.err) == SN_OK && sn_aio_size(f) == FILE_BYTES &&
                strcmp(sn_aio_path(f), b.path) == 0;
    for (int round = 0; round < 30 && good; round++) {
        for (int i = 0; i < IN_FLIGHT; i++) {
            r[i] = draw(&d);
            r[i].file = f;
            r[i].hash = &hash[i];
            r[i].buf = aligned(r[i].bytes + 2 * SN_AIO_ALIGN);
            sn_aio_submit(b.pool, &r[i]);
        }
        for (int i = 0; i < IN_FLIGHT; i++) {
            good = sn_aio_wait(b.pool, &r[i], &b.err) == SN_OK && sn_aio_is_done(b.pool, &r[i]) &&
                   is_like(&r[i], b.copy) && hash[i] == sn_hash64(r[i].data, r[i].bytes) && good;
            free(r[i].buf);
        }
    }
    sn_aio_close(f);
    tap_ok(good, "%s: random runs and rows are read right, and hashed %s", root, b.err.text);
    teardown(&b);
}

static void writes_are_right(const char *root)
{
    struct bench b;
    struct sn_aio_file *f;
    struct dice d = {sn_rng_key(2, "writes"), 0};
    char *text = NULL;
    size_t len = 0;
    setup(&b, root);
    bool good = sn_aio_open(&f, b.path, true, &b.err) == SN_OK;
    for (int round = 0; round < 100 && good; round++) {
        struct sn_aio_request r = draw(&d);
        uint64_t hash = 0;
        r.hash = &hash;
        r.file = f;
        r.is_write = true;
        r.buf = aligned(r.bytes);
        for (size_t i = 0; i < r.bytes; i++)
            b.copy[place(&r, i)] = (unsigned char)(r.buf[i] = (char)noise((size_t)round, i));
        sn_aio_submit(b.pool, &r);
        good = sn_aio_wait(b.pool, &r, &b.err) == SN_OK && hash == sn_hash64(r.buf, r.bytes);
        free(r.buf);
    }
    good = good && sn_aio_sync(f, NULL, &b.err) == SN_OK &&
           sn_file_load(&text, &len, b.path, &b.err) == SN_OK && len == FILE_BYTES &&
           memcmp(text, b.copy, len) == 0;
    sn_aio_close(f);
    sn_free(text);
    tap_ok(good, "%s: random runs and rows are written right, nothing else is touched %s", root,
           b.err.text);
    teardown(&b);
}

/* A buffer that no device takes: EINVAL at the transfer, as from a file system that accepts
 * O_DIRECT only at open. */
static void a_refusal_at_the_transfer_falls_back_to_the_cache(void)
{
    struct bench b;
    struct sn_aio_file *f = NULL;
    setup(&b, "/tmp");
    char *buf = aligned(MOST + 3 * SN_AIO_ALIGN);
    bool good = sn_aio_open(&f, b.path, false, &b.err) == SN_OK;
    for (int i = 0; i < 2 && good; i++) {
        struct sn_aio_request r = {.file = f, .offset = 4097, .bytes = MOST, .buf = buf + 1 - i};
        sn_aio_submit(b.pool, &r);
        good = sn_aio_wait(b.pool, &r, &b.err) == SN_OK && is_like(&r, b.copy);
    }
    tap_ok(good, "the bytes are the same, and so are those of the next request %s", b.err.text);
    sn_aio_close(f);
    free(buf);
    teardown(&b);
}

static void far_offsets_are_reached(void)
{
    struct bench b;
    struct sn_aio_file *f = NULL;
    const uint64_t far = (UINT64_C(5) << 30) + 4096;
    setup(&b, "/tmp");
    struct sn_aio_request w = {
        .offset = far, .bytes = MOST, .is_write = true, .buf = (char *)b.copy};
    struct sn_aio_request r = {.offset = far, .bytes = MOST, .buf = aligned(MOST + 8192)};
    bool good = sn_aio_open(&f, b.path, true, &b.err) == SN_OK;
    w.file = f;
    sn_aio_submit(b.pool, &w);
    good = sn_aio_wait(b.pool, &w, &b.err) == SN_OK && good;
    sn_aio_close(f);
    good = good && sn_aio_open(&f, b.path, false, &b.err) == SN_OK && sn_aio_size(f) == far + MOST;
    r.file = f;
    sn_aio_submit(b.pool, &r);
    good = sn_aio_wait(b.pool, &r, &b.err) == SN_OK && good;
    tap_ok(good && memcmp(r.data, b.copy, MOST) == 0, "a block behind 5 GiB %s", b.err.text);
    sn_aio_close(f);
    free(r.buf);
    teardown(&b);
}

/* --- what fails ------------------------------------------------------------------------------ */

/* The sentence without the file's path. */
static const char *after_path(const struct bench *b)
{
    size_t n = strlen(b->path);
    return strncmp(b->err.text, b->path, n) == 0 ? b->err.text + n : b->err.text;
}

static void a_file_that_ends_too_early_is_told(void)
{
    struct bench b;
    struct sn_aio_file *f = NULL;
    setup(&b, "/tmp");
    (void)sn_aio_open(&f, b.path, false, &b.err);
    struct sn_aio_request r[] = {
        {.offset = FILE_BYTES - 100, .bytes = 101},       /* small */
        {.offset = FILE_BYTES - MOST + 1, .bytes = MOST}, /* direct */
        {.offset = (uint64_t)1 << 40, .bytes = MOST},     /* far behind the end */
        {.offset = 5, .bytes = 30000, .row = 10, .stride = 4096, .skip = 5}, /* rows */
    };
    const char *says[] = {
        ": ends after 3145728 bytes where 3145729 are needed",
        ": ends after 3145728 bytes where 3145729 are needed",
        ": ends after 3145728 bytes where 1099512676352 are needed",
        ": ends after 3145728 bytes where 12288005 are needed",
    };
    char *buf = aligned(MOST + 2 * SN_AIO_ALIGN);
    for (size_t i = 0; i < sizeof(r) / sizeof(r[0]); i++) {
        r[i].file = f;
        r[i].buf = buf;
        sn_aio_submit(b.pool, &r[i]);
        tap_ok(sn_aio_wait(b.pool, &r[i], &b.err) == SN_EIO, "request %d fails", (int)i);
        tap_text(after_path(&b), says[i], "and says where the file ends");
    }
    struct sn_aio_request last = {
        .file = f, .offset = FILE_BYTES - MOST, .bytes = MOST, .buf = buf};
    sn_aio_submit(b.pool, &last);
    tap_ok(sn_aio_wait(b.pool, &last, &b.err) == SN_OK && is_like(&last, b.copy),
           "the last bytes are there");
    sn_aio_close(f);
    free(buf);
    teardown(&b);
}

static void a_file_that_cannot_grow_is_told(void)
{
    struct bench b;
    struct sn_aio_file *f = NULL;
    struct rlimit before, low = {FILE_BYTES, RLIM_INFINITY};
    setup(&b, "/tmp");
    (void)sn_aio_open(&f, b.path, true, &b.err);
    (void)getrlimit(RLIMIT_FSIZE, &before);
    low.rlim_max = before.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)setrlimit(RLIMIT_FSIZE, &low);
    struct sn_aio_request r = {.file = f,
                               .is_write = true,
                               .offset = FILE_BYTES - MOST / 2,
                               .bytes = MOST,
                               .buf = (char *)b.copy};
    sn_aio_submit(b.pool, &r);
    enum sn_status st = sn_aio_wait(b.pool, &r, &b.err);
    (void)setrlimit(RLIMIT_FSIZE, &before);
    tap_ok(st == SN_EIO, "a write beyond the limit fails");
    tap_text(after_path(&b),
             ": cannot write: File too large; free some space, or lower checkpoint.keep",
             "and says why");
    sn_aio_close(f);
    teardown(&b);
}

static void what_is_no_file_is_refused(void)
{
    struct bench b;
    struct sn_aio_file *f;
    setup(&b, "/tmp");
    (void)unlink(b.path);
    tap_ok(sn_aio_open(&f, b.path, false, &b.err) == SN_EIO, "a missing file is refused");
    tap_text(after_path(&b), ": cannot open: No such file or directory", "by name");
    (void)mkfifo(b.path, 0600);
    tap_ok(sn_aio_open(&f, b.path, false, &b.err) == SN_EIO, "a pipe is refused, not waited for");
    tap_text(after_path(&b), ": is not a plain file", "by name");
    (void)unlink(b.path);
    (void)mkdir(b.path, 0700);
    tap_ok(sn_aio_open(&f, b.path, false, &b.err) == SN_EIO, "a directory is refused");
    tap_text(after_path(&b), ": is not a plain file", "by name");
    teardown(&b);
}

static void a_file_may_be_closed_while_it_is_read(void)
{
    struct bench b;
    struct sn_aio_file *f = NULL;
    struct sn_aio_request r[IN_FLIGHT] = {0};
    setup(&b, "/tmp");
    bool good = sn_aio_open(&f, b.path, false, &b.err) == SN_OK;
    for (int i = 0; i < IN_FLIGHT; i++) {
        uint64_t at = (uint64_t)i * 100000 + (i == IN_FLIGHT - 1 ? FILE_BYTES : 0);
        r[i] = (struct sn_aio_request){.file = f, .offset = at, .bytes = MOST};
        r[i].buf = aligned(MOST + 2 * SN_AIO_ALIGN);
        sn_aio_submit(b.pool, &r[i]);
    }
    sn_aio_close(f);
    for (int i = 0; i + 1 < IN_FLIGHT; i++)
        good = sn_aio_wait(b.pool, &r[i], &b.err) == SN_OK && is_like(&r[i], b.copy) && good;
    good = sn_aio_wait(b.pool, &r[IN_FLIGHT - 1], &b.err) == SN_EIO &&
           strncmp(b.err.text, b.path, strlen(b.path)) == 0 && good;
    tap_ok(good, "requests under way end as if it were open, with its name in their sentences");
    for (int i = 0; i < IN_FLIGHT; i++)
        free(r[i].buf);
    teardown(&b);
}

static void threads_take_no_signals(void)
{
    struct bench b;
    sigset_t set;
    struct timespec none = {0};
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    setup(&b, "/tmp");
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* of this thread alone */
    (void)kill(getpid(), SIGUSR1);            /* would end the process in any other */
    (void)usleep(20000);
    tap_ok(sigtimedwait(&set, NULL, &none) == SIGUSR1, "a signal waits for the program's thread");
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    teardown(&b);
}

static void no_memory_is_told(void)
{
    struct bench b;
    setup(&b, "/tmp");
    int failed = 0;
    for (int n = 1; n <= 2; n++) {
        struct sn_aio_file *f = NULL;
        sn_mem_fail_at((uint64_t)n);
        failed += sn_aio_open(&f, b.path, false, &b.err) == SN_ENOMEM;
        sn_mem_fail_at(0);
    }
    tap_ok(failed == 2, "opening: %s", b.err.text);
    struct sn_aio *a = NULL;
    sn_mem_fail_at(1);
    tap_ok(sn_aio_create(&a, THREADS, &b.err) == SN_ENOMEM, "a pool: %s", b.err.text);
    sn_mem_fail_at(0);
    sn_aio_destroy(NULL);
    sn_aio_close(NULL);
    teardown(&b);
}

int main(void)
{
    reads_are_right("/tmp");
    reads_are_right("/dev/shm");
    writes_are_right("/tmp");
    writes_are_right("/dev/shm");
    a_refusal_at_the_transfer_falls_back_to_the_cache();
    far_offsets_are_reached();
    a_file_that_ends_too_early_is_told();
    a_file_that_cannot_grow_is_told();
    what_is_no_file_is_refused();
    a_file_may_be_closed_while_it_is_read();
    threads_take_no_signals();
    no_memory_is_told();
    return tap_done();
}
