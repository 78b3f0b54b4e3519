/*
 * test_data_bytes.c - token files on a file system that fails: for a while, for good, and by files that are
 * cut while they are read.
 */
#include "lib/base/log.h"
#include "lib/data/data.h"
#include "lib/data/data_format.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

ssize_t __real_pread(int fd, void *out, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *out, size_t n, off_t at);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);

static int failures, errnum, naps; /* reads that fail from now on, how; waits since */
static size_t most = SIZE_MAX;     /* bytes that a read gives */
static double slept;

ssize_t __wrap_pread(int fd, void *out, size_t n, off_t at)
{
    if (failures > 0) {
        failures--;
        errno = errnum;
        return -1;
    }
    return __real_pread(fd, out, n < most ? n : most, at);
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    (void)left;
    naps++;
    slept += (double)t->tv_sec + 1e-9 * (double)t->tv_nsec;
    return 0;
}

enum { TOKENS = 20001, SEQ = 10000 };

static struct sn_data *open_tokens(void)
{
    static int32_t token[TOKENS];
    struct sn_err err = {0};
    struct sn_data *d = NULL;
    struct sn_data_writer *w = NULL;
    for (int i = 0; i < TOKENS; i++)
        token[i] = i;
    if (sn_data_writer_create(&w, "tok", SN_TOK_I32, &err) != SN_OK ||
        sn_data_writer_add(w, token, TOKENS, &err) != SN_OK ||
        sn_data_writer_finish(w, &err) != SN_OK || sn_data_open(&d, "tok", &err) != SN_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    sn_data_writer_destroy(w);
    return d;
}

/* Sample 1: is it what was written? */
static enum sn_status read_one(const struct sn_data *d, bool *good, struct sn_err *err)
{
    static int32_t ids[SEQ], targets[SEQ];
    memset(ids, 0, sizeof(ids));
    memset(targets, 0, sizeof(targets));
    naps = 0;
    slept = 0;
    enum sn_status st = sn_data_read(d, 1, SEQ, TOKENS, ids, targets, err);
    *good = st == SN_OK;
    for (int k = 0; k < SEQ && *good; k++)
        *good = ids[k] == SEQ + k && targets[k] == SEQ + k + 1;
    return st;
}

static void what_passes_is_waited_for(const struct sn_data *d)
{
    struct sn_err err = {0};
    bool good;
    (void)read_one(d, &good, &err);
    tap_ok(good && naps == 0, "a sample of several reads");
    most = 777;
    (void)read_one(d, &good, &err);
    tap_ok(good && naps == 0, "reads may give less than was asked for");
    most = SIZE_MAX;
    failures = 3, errnum = EINTR;
    (void)read_one(d, &good, &err);
    tap_ok(good && naps == 0, "a signal is no failure");
    failures = 5, errnum = EIO;
    (void)read_one(d, &good, &err);
    tap_ok(good && naps == 5 && slept > 30 && slept < 40, "five failures are waited for, %.1f s",
           slept);
}

static void what_stays_is_named(const struct sn_data *d)
{
    struct sn_err err = {0};
    bool good;
    failures = 6, errnum = EIO;
    tap_ok(read_one(d, &good, &err) == SN_EIO && naps == 5, "the sixth failure is one");
    tap_text(err.text,
             "tok.bin: byte 40000: cannot be read (Input/output error), in 6 tries; check its file "
             "system",
             "and is named");
    failures = 1, errnum = ESTALE;
    tap_ok(read_one(d, &good, &err) == SN_EIO && naps == 0,
           "a file that is another is none to wait for");
    tap_text(err.text,
             "tok.bin: byte 40000: cannot be read (Stale file handle), in 1 try; check its file "
             "system",
             "and is named");
    failures = 0;
    if (truncate("tok.bin", 60004) != 0)
        abort();
    tap_ok(read_one(d, &good, &err) == SN_EIO && naps == 0, "a file that was cut is an error");
    tap_text(err.text,
             "tok.bin: ends at byte 60004, which it did not when it was opened; do not change it "
             "while a run reads it",
             "that says where");
    tap_ok(sn_data_scan(d, TOKENS, 1 << 20, &err) == SN_EIO, "so does the look at all tokens");
}

int main(void)
{
    char folder[] = "/tmp/sennit-bytes-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return 1;
    struct sn_data *d = open_tokens();
    what_passes_is_waited_for(d);
    what_stays_is_named(d);
    sn_data_close(d);
    (void)unlink("tok.bin"), (void)unlink("tok.idx"), (void)rmdir(folder);
    return tap_done();
}
