/* Blocks on their way to a file: all arrive, in whatever memory, and a failure is told. */
#include "checkpoint/format/manifest.h"
#include "checkpoint/io/files.h"
#include "checkpoint/io/writer.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "tests/lib/dice.h"
#include "tests/lib/tap.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILE_BYTES = 24 << 20 };

struct bench {
    char dir[64], path[96];
    struct sn_aio *pool;
    struct sn_aio_file *file;
    struct sn_writer *writer;
    void *arena;
    size_t bytes;
    struct sn_err err;
};

/* An empty file of FILE_BYTES and a writer with an arena of `bytes`. */
static void setup(struct bench *b, size_t bytes, int64_t most, int threads)
{
    *b = (struct bench){.dir = "/tmp/sn-writer-XXXXXX", .bytes = bytes, .err = {.text = ""}};
    if (!mkdtemp(b->dir)) {
        perror(b->dir);
        exit(1);
    }
    (void)snprintf(b->path, sizeof(b->path), "%s/file", b->dir);
    b->arena = sn_arena_map(bytes);
    if (!b->arena || sn_file_save(b->path, "", 0, &b->err) != SN_OK ||
        truncate(b->path, FILE_BYTES) != 0 ||
        sn_aio_open(&b->file, b->path, true, &b->err) != SN_OK ||
        sn_aio_create(&b->pool, threads, &b->err) != SN_OK ||
        sn_writer_create(&b->writer, b->pool, b->arena, bytes, most, &b->err) != SN_OK)
        exit(1);
}

static void teardown(struct bench *b)
{
    sn_writer_destroy(b->writer);
    sn_aio_destroy(b->pool);
    sn_aio_close(b->file);
    sn_arena_unmap(b->arena, b->bytes);
    (void)sn_dir_remove(b->dir, &b->err);
}

/* Fill the file with blocks of random sizes; byte i of it is a function of i. */
static bool write_all(struct bench *b, struct dice *d)
{
    for (size_t at = 0; at < FILE_BYTES;) {
        size_t n = 1 + (size_t)roll(d, roll(d, 3) ? SN_BLOCK_BYTES : 3000);
        n = roll(d, 4) ? n : SN_BLOCK_BYTES;
        n = n < FILE_BYTES - at ? n : FILE_BYTES - at;
        unsigned char *p = sn_writer_take(b->writer, n);
        if (!p || (uintptr_t)p % SN_AIO_ALIGN)
            return false;
        for (size_t i = 0; i < n; i++)
            p[i] = (unsigned char)((at + i) * 2654435761u >> 13);
        sn_writer_put(b->writer,
                      &(struct sn_aio_request){.file = b->file, .offset = at, .bytes = n});
        at += n;
    }
    return true;
}

static bool is_complete(struct bench *b)
{
    char *text = NULL;
    size_t len = 0;
    bool good = sn_file_load(&text, &len, b->path, &b->err) == SN_OK && len == FILE_BYTES;
    for (size_t i = 0; i < len && good; i++)
        good = (unsigned char)text[i] == (unsigned char)(i * 2654435761u >> 13);
    sn_free(text);
    return good;
}

static void all_blocks_arrive_in_any_memory(void)
{
    static const struct {
        size_t bytes;
        int64_t most;
    } row[] = {{2 << 20, 100}, {(3 << 20) + 4096, 4}, {2 << 20, 1}, {32 << 20, 1000}};
    for (int i = 0; i < 4; i++) {
        struct bench b;
        struct dice d = {sn_rng_key((uint64_t)i, "blocks"), 0};
        setup(&b, row[i].bytes, row[i].most, 3);
        bool good = write_all(&b, &d) && sn_writer_drain(b.writer, &b.err) == SN_OK;
        tap_ok(good && is_complete(&b), "through %zu bytes and %d blocks %s", row[i].bytes,
               (int)row[i].most, b.err.text);
        d.i = 0;
        good = write_all(&b, &d) && sn_writer_drain(b.writer, &b.err) == SN_OK;
        tap_ok(good && is_complete(&b), "and once more");
        teardown(&b);
    }
}

static void rows_go_where_they_belong(void)
{
    struct bench b;
    char *text = NULL;
    size_t len = 0;
    setup(&b, 2 << 20, 10, 2);
    char *p = sn_writer_take(b.writer, 300);
    uint64_t hash = 0, want;
    for (int i = 0; i < 300; i++)
        p[i] = (char)(i % 100 + 1);
    want = sn_hash64(p, 300);
    sn_writer_put(b.writer, &(struct sn_aio_request){.file = b.file,
                                                     .offset = 1040,
                                                     .bytes = 300,
                                                     .row = 100,
                                                     .stride = 500,
                                                     .skip = 40,
                                                     .hash = &hash});
    bool good = sn_writer_drain(b.writer, &b.err) == SN_OK &&
                sn_file_load(&text, &len, b.path, &b.err) == SN_OK;
    for (size_t i = 0; i < len && good; i++) {
        size_t row = (i - 1000) / 500, col = (i - 1000) % 500, at = row * 100 + col;
        bool in = i >= 1000 && col < 100 && at >= 40 && at < 340;
        good = text[i] == (in ? (char)((at - 40) % 100 + 1) : 0);
    }
    tap_ok(good && hash == want, "three rows of a wider dataset, and nothing beside them %s",
           b.err.text);
    sn_free(text);
    teardown(&b);
}

/* No thread ever writes: whoever waits for one is ended by the alarm. */
static void with_room_for_all_nobody_waits(void)
{
    enum { BLOCKS = 20 };
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct bench b;
        (void)alarm(20);
        setup(&b, BLOCKS << 20, BLOCKS, 0);
        for (int i = 0; i < BLOCKS; i++) {
            if (!sn_writer_take(b.writer, SN_BLOCK_BYTES))
                _exit(1);
            sn_writer_put(b.writer,
                          &(struct sn_aio_request){.file = b.file, .bytes = SN_BLOCK_BYTES});
        }
        (void)sn_dir_remove(b.dir, &b.err);
        _exit(0);
    }
    int how = -1;
    tap_ok(waitpid(pid, &how, 0) == pid && WIFEXITED(how) && WEXITSTATUS(how) == 0,
           "an arena for all takes all before the first is written");
}

static void a_full_disk_is_told(void)
{
    struct bench b;
    struct dice d = {sn_rng_key(9, "blocks"), 0};
    struct rlimit before, low;
    setup(&b, 3 << 20, 100, 3);
    (void)getrlimit(RLIMIT_FSIZE, &before);
    low = (struct rlimit){FILE_BYTES / 2, before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)setrlimit(RLIMIT_FSIZE, &low);
    tap_ok(!write_all(&b, &d), "no room is handed out after a failure");
    tap_ok(!sn_writer_take(b.writer, 1), "nor later");
    enum sn_status st = sn_writer_drain(b.writer, &b.err);
    (void)setrlimit(RLIMIT_FSIZE, &before);
    tap_ok(st == SN_EIO && strncmp(b.err.text, b.path, strlen(b.path)) == 0 &&
               strstr(b.err.text, ": cannot write: File too large; free some space"),
           "%s", b.err.text);
    teardown(&b);
}

static void what_is_under_way_is_waited_for(void)
{
    struct bench b;
    struct dice d = {sn_rng_key(11, "blocks"), 0};
    setup(&b, 32 << 20, 1000, 3);
    bool good = write_all(&b, &d) && sn_writer_take(b.writer, 100); /* taken, never put */
    sn_writer_destroy(b.writer);
    b.writer = NULL;
    tap_ok(good && is_complete(&b), "destroy waits for blocks under way");
    teardown(&b);
}

static void no_memory_is_told(void)
{
    struct bench b;
    setup(&b, 2 << 20, 10, 1);
    for (uint64_t n = 1; n <= 2; n++) {
        struct sn_writer *w = NULL;
        sn_mem_fail_at(n);
        enum sn_status st = sn_writer_create(&w, b.pool, b.arena, b.bytes, 10, &b.err);
        sn_mem_fail_at(0);
        tap_ok(st == SN_ENOMEM, "%s", b.err.text);
    }
    teardown(&b);
}

int main(void)
{
    all_blocks_arrive_in_any_memory();
    rows_go_where_they_belong();
    with_room_for_all_nobody_waits();
    a_full_disk_is_told();
    what_is_under_way_is_waited_for();
    no_memory_is_told();
    return tap_done();
}
