/*
 * test_pass_files.c - what the first rank of a host has opened the others read, without a name; and they
 * go without where it is not there.
 */
#include "lib/base/mem.h"
#include "lib/comm/pass_files.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILES = 300, SOON = 1, LATE = 60 }; /* more files than a message takes; seconds */

/* One line, by rank 0, of what holds on all. */
static void point(struct sn_comm *c, bool good, const char *what)
{
    struct sn_err err;
    bool all_good[16] = {false}, all = true;
    if (c->ops->gather(c, &good, sizeof(good), all_good, 0, &err) != SN_OK)
        all = false;
    for (int r = 0; r < c->size; r++)
        all = all && all_good[r];
    if (c->rank == 0)
        tap_ok(all, "%s", what);
}

/* Rank 0 opens FILES files, each with its number, and takes their names away. */
static bool open_and_remove(struct sn_open_files *f)
{
    char folder[] = "/tmp/sennit-pass-XXXXXX", path[64];
    struct stat id;
    bool good = mkdtemp(folder) != NULL;
    for (int i = 0; i < FILES && good; i++) {
        (void)snprintf(path, sizeof(path), "%s/%d", folder, i);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        good = write(fd, &i, sizeof(i)) == (ssize_t)sizeof(i) && close(fd) == 0;
        fd = sn_open_files_get(f, path, &id);
        good = good && fd >= 0 && id.st_size == (off_t)sizeof(i) && close(fd) == 0 &&
               unlink(path) == 0;
    }
    return rmdir(folder) == 0 && good;
}

static bool are_given(struct sn_open_files *f)
{
    bool good = f->is_given && f->n == FILES;
    for (int i = 0, number; i < FILES && good; i++) {
        struct stat id;
        int fd = sn_open_files_get(f, "/there/is/no/such/file", &id);
        good = fd >= 0 && pread(fd, &number, sizeof(number), 0) == (ssize_t)sizeof(number) &&
               number == i && id.st_size == (off_t)sizeof(number) &&
               (fcntl(fd, F_GETFD) & FD_CLOEXEC) && close(fd) == 0;
    }
    struct stat id;
    return good && sn_open_files_get(f, "/there/is/no/such/file", &id) < 0;
}

static void passes(struct sn_comm *c, struct sn_open_files *f)
{
    struct sn_err err;
    struct sn_pass_socket pass;
    bool good = true;
    sn_pass_open(&pass, c);
    if (c->rank == 0)
        good = open_and_remove(f) && f->n == FILES;
    good = c->ops->barrier(c, &err) == SN_OK && good;
    good = sn_pass_files(&pass, c, f, LATE) == 0 && good;
    sn_pass_close(&pass);
    good = good && (c->rank == 0 ? f->n == 0 : are_given(f));
    sn_open_files_close(f);
    point(c, good, "300 files that have no name any more are read by all");
}

/* Nobody listens. */
static void goes_without(struct sn_comm *c, struct sn_open_files *f)
{
    struct sn_err err;
    struct sn_pass_socket pass = {.fd = -1};
    bool good = c->ops->barrier(c, &err) == SN_OK;
    int missing = sn_pass_files(&pass, c, f, SOON);
    good = good && missing == (c->rank == 0 ? c->size - 1 : 1) && !f->is_given && f->n == 0;
    point(c, good, "without the first rank's socket all are told to open for themselves");
}

/* Only the last one comes to fetch. */
static void counts_the_missing(struct sn_comm *c, struct sn_open_files *f)
{
    struct sn_err err;
    struct sn_pass_socket pass;
    sn_pass_open(&pass, c);
    bool good = c->rank != 0 || open_and_remove(f);
    good = c->ops->barrier(c, &err) == SN_OK && good;
    if (c->rank == 0)
        good = sn_pass_files(&pass, c, f, SOON) == c->size - 2 && good;
    else if (c->rank == c->size - 1)
        good = sn_pass_files(&pass, c, f, LATE) == 0 && are_given(f) && good;
    sn_pass_close(&pass);
    sn_open_files_close(f);
    point(c, good, "who does not come for them is counted, and not waited for");
}

int main(void)
{
    struct sn_comm *c = NULL;
    struct sn_err err;
    struct sn_open_files *f = sn_alloc(sizeof(*f));
    if (!f || sn_comm_create_mpi(&c, &err) != SN_OK || c->node_size != c->size || c->size > 16) {
        printf("not ok - up to 16 ranks of one host\n");
        return 1;
    }
    passes(c, f);
    goes_without(c, f);
    counts_the_missing(c, f);
    int rank = c->rank;
    c->ops->destroy(c);
    sn_free(f);
    return rank == 0 ? tap_done() : tap_failed != 0;
}
