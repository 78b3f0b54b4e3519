/*
 * test_data_size.c - what a set costs a rank does not grow with the set: the rank that checks an index reads
 * it once, the others look at its head, and samples from anywhere in it are read into memory that was there.
 *
 * The tokens are a hole in a file, so a set of many GB takes no room: 256 MB, and with ALL=1 32 GB, the
 * index 4 and 200 MB.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/data/data_format.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { SEQ = 4096, VOCAB = 50000, SAMPLES = 2000 };

static void put(FILE *f, uint64_t v, int bytes)
{
    unsigned char b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (unsigned char)(v >> 8 * i);
    (void)fwrite(b, 1, (size_t)bytes, f);
}

/* Sequences of `each` tokens of two bytes, each a document. */
static bool write_set(int64_t sequences, int64_t each)
{
    FILE *f = fopen("large.idx", "w");
    if (!f)
        return false;
    (void)fwrite("MMIDIDX\0\0", 1, 9, f);
    put(f, 1, 8);
    put(f, 8, 1);
    put(f, (uint64_t)sequences, 8);
    put(f, (uint64_t)sequences + 1, 8);
    for (int64_t i = 0; i < sequences; i++)
        put(f, (uint64_t)each, 4);
    for (int64_t i = 0; i < sequences; i++)
        put(f, (uint64_t)(2 * each * i), 8);
    for (int64_t i = 0; i <= sequences; i++)
        put(f, (uint64_t)i, 8);
    bool good = fclose(f) == 0;
    int fd = open("large.bin", O_CREAT | O_WRONLY, 0600);
    good = good && fd >= 0 && ftruncate(fd, 2 * each * sequences) == 0;
    return fd >= 0 && close(fd) == 0 && good;
}

/* KiB of a line of /proc/self/status; -1: it has none. */
static long status(const char *name)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && kib < 0 && fgets(line, sizeof(line), f))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtol(line + strlen(name) + 1, NULL, 10);
    if (f)
        (void)fclose(f);
    return kib;
}

static void fail(const struct sn_err *err)
{
    printf("Bail out! %s\n", err->text);
    exit(1);
}

static void a_rank_that_does_not_check_looks_at_the_head(long index_kib)
{
    struct sn_err err = {0};
    struct sn_data *d = NULL;
    long before = status("RssFile");
    if (sn_data_open_shared(&d, "large", false, NULL, &err) != SN_OK)
        fail(&err);
    long others = status("RssFile") - before;
    tap_ok(others < 512, "a rank that another one checks for has %ld KiB of an index of %ld", others,
           index_kib);
    sn_data_close(d);
    before = status("RssFile");
    if (sn_data_open(&d, "large", &err) != SN_OK)
        fail(&err);
    long first = status("RssFile") - before;
    tap_ok(first > index_kib / 2, "the one that checks has read it (%ld KiB)", first);
    sn_data_close(d);
}

static void samples_are_read_into_memory_that_was_there(void)
{
    static int32_t inputs[SEQ], targets[SEQ];
    struct sn_err err = {0};
    struct sn_data *d = NULL;
    if (sn_data_open_shared(&d, "large", false, NULL, &err) != SN_OK)
        fail(&err);
    int64_t n = sn_data_samples(d, SEQ);
    long anon = status("RssAnon"), file = status("RssFile");
    uint64_t allocated = sn_mem_count();
    for (int64_t i = 0; i < SAMPLES; i++)
        if (sn_data_read(d, (int64_t)sn_rng_permute(7, (uint64_t)n, (uint64_t)i), SEQ, VOCAB, inputs,
                         targets, &err) != SN_OK)
            fail(&err);
    anon = status("RssAnon") - anon;
    file = status("RssFile") - file;
    tap_ok(anon < 256 && file < 256 && sn_mem_count() == allocated,
           "%d samples from all over %lld: %ld KiB of its own, %ld of the file", SAMPLES, (long long)n,
           anon, file);
    sn_data_close(d);
}

int main(void)
{
    char folder[] = "/tmp/test_data_size.XXXXXX";
    bool all = getenv("ALL") != NULL;
    int64_t sequences = all ? 10000000 : 200000, each = all ? 1600 : 640;
    if (!mkdtemp(folder) || chdir(folder) != 0 || !write_set(sequences, each)) {
        printf("Bail out! no room in %s\n", folder);
        return 1;
    }
    if (status("RssFile") < 0) {
        printf("1..0 # skip: this system does not tell what a process has of files\n");
    } else {
        samples_are_read_into_memory_that_was_there();
        a_rank_that_does_not_check_looks_at_the_head((long)(20 * sequences / 1024));
    }
    bool gone = unlink("large.idx") == 0 && unlink("large.bin") == 0 && chdir("/") == 0;
    tap_ok(gone && rmdir(folder) == 0, "the files go");
    return tap_done();
}
