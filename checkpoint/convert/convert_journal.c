/*
 * convert_journal.c - what a conversion has finished, so that a killed one goes on.
 *
 * DST.tmp.convert/journal-RRRRR, one for each rank, 64-bit words in this machine's order:
 *   header  magic, source and plan, hash of the two
 *   record  tensor, number of its blocks, their hashes, hash of all that
 * A record is written after its tensor was synced. A torn last record is as good as none.
 */
#include "checkpoint/convert/conversion.h"
#include "checkpoint/io/files.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { HEADER = 3 }; /* words */
static const uint64_t magic = UINT64_C(0x316e6f43746e6e73);

struct sn_conversion_journal {
    const struct sn_conversion *v;
    char *path;
    int fd;
    uint64_t at; /* bytes */
};

static uint64_t hash_words(const uint64_t *w, uint64_t n)
{
    return sn_hash64(w, (size_t)n * sizeof(*w));
}

/* The hashes of a tensor's blocks lie one after the other in the plan. */
static uint64_t *hashes_of(const struct sn_conversion *v, int tensor, uint64_t *n)
{
    const struct sn_manifest_tensor *t = &v->plan->tensors[tensor];
    *n = 0;
    for (int i = 0; i < t->n_pieces; i++)
        *n += (uint64_t)t->pieces[i].n_blocks;
    return t->n_pieces ? t->pieces[0].hashes : NULL;
}

/* --- reading --------------------------------------------------------------------------------- */

/* Take over the whole records among `n` words; returns how many words they and the header are. */
static uint64_t take_records(struct sn_conversion *v, const uint64_t *w, uint64_t n)
{
    uint64_t at = HEADER, have;
    while (n - at > 2 && w[at] < (uint64_t)v->plan->n_tensors) {
        const uint64_t *record = w + at;
        uint64_t *hashes = hashes_of(v, (int)record[0], &have);
        if (record[1] != have || n - at < have + 3 ||
            record[have + 2] != hash_words(record, have + 2))
            break;
        if (have > 0)
            memcpy(hashes, record + 2, (size_t)have * sizeof(*hashes));
        v->done[record[0]] = true;
        at += have + 3;
    }
    return at;
}

/* *good is how many bytes of it are valid: 0 when not even its header was written. */
static enum sn_status read_one(struct sn_conversion *v, const char *path, uint64_t *good,
                               struct sn_err *err)
{
    char *text;
    size_t len;
    *good = 0;
    SN_TRY(sn_file_load(&text, &len, path, err));
    const uint64_t *w = (const uint64_t *)(const void *)text; /* allocated: aligned */
    enum sn_status st = SN_OK;
    if (len >= HEADER * sizeof(*w) && (w[0] != magic || w[2] != hash_words(w, 2)))
        st = sn_fail(err, SN_EINPUT,
                     "%s: is no journal of a conversion; --fresh removes %s and begins anew", path,
                     v->tmp);
    else if (len >= HEADER * sizeof(*w) && w[1] != v->id)
        st = sn_fail(err, SN_EINPUT,
                     "%s: was left by a conversion of another source, or to another layout; "
                     "finish that one, or --fresh removes it and begins anew",
                     v->tmp);
    else if (len >= HEADER * sizeof(*w))
        *good = take_records(v, w, len / sizeof(*w)) * sizeof(*w);
    sn_free(text);
    return st;
}

typedef enum sn_status use_journal(struct sn_conversion *v, const char *path, void *arg,
                                   struct sn_err *err);

static enum sn_status for_each(struct sn_conversion *v, use_journal *use, void *arg,
                               struct sn_err *err)
{
    DIR *d = opendir(v->tmp);
    if (!d)
        return sn_file_fail(err, v->tmp, "list the directory");
    enum sn_status st = SN_OK;
    for (struct dirent *e; st == SN_OK && (e = readdir(d));) {
        if (strncmp(e->d_name, "journal-", 8) != 0)
            continue;
        char *path = sn_format("%s/%s", v->tmp, e->d_name);
        st = path ? use(v, path, arg, err)
                  : sn_fail(err, SN_ENOMEM, "%s: no memory to read its journals", v->tmp);
        sn_free(path);
    }
    (void)closedir(d); /* read only */
    return st;
}

static enum sn_status use_read(struct sn_conversion *v, const char *path, void *arg,
                               struct sn_err *err)
{
    uint64_t good;
    bool *found = arg;
    SN_TRY(read_one(v, path, &good, err));
    *found = *found || good > 0;
    return SN_OK;
}

static enum sn_status use_remove(struct sn_conversion *v, const char *path, void *arg,
                                 struct sn_err *err)
{
    (void)v, (void)arg;
    return unlink(path) == 0 ? SN_OK : sn_file_fail(err, path, "remove");
}

enum sn_status sn_journal_read(struct sn_conversion *v, bool *found, struct sn_err *err)
{
    *found = false;
    return for_each(v, use_read, found, err);
}

enum sn_status sn_journal_remove(struct sn_conversion *v, struct sn_err *err)
{
    return for_each(v, use_remove, NULL, err);
}

/* --- writing --------------------------------------------------------------------------------- */

static enum sn_status put(struct sn_conversion_journal *j, const uint64_t *w, uint64_t n,
                          struct sn_err *err)
{
    SN_TRY(sn_file_put(j->fd, w, (size_t)n * sizeof(*w), j->at, j->path, "", err));
    j->at += n * sizeof(*w);
    return SN_OK;
}

/* Behind the records of the run that was killed, if this rank's number had one. */
static enum sn_status begin(struct sn_conversion_journal *j, struct sn_conversion *v,
                            struct sn_err *err)
{
    uint64_t header[HEADER] = {magic, v->id, 0};
    header[2] = hash_words(header, 2);
    j->path = sn_format("%s/journal-%05d", v->tmp, v->o->comm->rank);
    if (!j->path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its journal", v->tmp);
    j->fd = sn_output_open(j->path, O_RDWR, 0666);
    if (j->fd < 0)
        return sn_file_fail(err, j->path, "create");
    SN_TRY(read_one(v, j->path, &j->at, err));
    if (ftruncate(j->fd, (off_t)j->at) != 0)
        return sn_file_fail(err, j->path, "cut");
    if (j->at == 0)
        SN_TRY(put(j, header, HEADER, err));
    SN_TRY(sn_journal_sync(j, err));
    return sn_dir_sync(v->tmp, err);
}

enum sn_status sn_journal_open(struct sn_conversion_journal **out, struct sn_conversion *v,
                               struct sn_err *err)
{
    struct sn_conversion_journal *j = sn_alloc(sizeof(*j));
    if (!j)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its journal", v->tmp);
    *j = (struct sn_conversion_journal){.v = v, .fd = -1};
    enum sn_status st = begin(j, v, err);
    if (st == SN_OK)
        *out = j;
    else
        sn_journal_close(j);
    return st;
}

enum sn_status sn_journal_add(struct sn_conversion_journal *j, int tensor, struct sn_err *err)
{
    uint64_t n, *hashes = hashes_of(j->v, tensor, &n);
    uint64_t *record = sn_alloc_n((size_t)n + 3, sizeof(*record));
    if (!record)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a record of %" PRIu64 " hashes", j->path,
                       n);
    record[0] = (uint64_t)tensor;
    record[1] = n;
    if (n > 0)
        memcpy(record + 2, hashes, (size_t)n * sizeof(*hashes));
    record[n + 2] = hash_words(record, n + 2);
    enum sn_status st = put(j, record, n + 3, err);
    sn_free(record);
    return st;
}

enum sn_status sn_journal_sync(struct sn_conversion_journal *j, struct sn_err *err)
{
    return fdatasync(j->fd) == 0 ? SN_OK : sn_file_fail(err, j->path, "sync");
}

void sn_journal_close(struct sn_conversion_journal *j)
{
    if (!j)
        return;
    if (j->fd >= 0)
        (void)close(j->fd); /* synced after every record */
    sn_free(j->path);
    sn_free(j);
}
