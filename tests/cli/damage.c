/*
 * damage - alters a checkpoint in ways that a shell cannot, for tests.
 *
 *   damage where STEP_DIR                  each piece: SHARD DATASET OFFSET BYTES
 *   damage flip FILE OFFSET                flip one bit of a byte
 *   damage rename STEP_DIR SHARD FROM TO   the dataset FROM of a shard gets another name
 *   damage commit STEP_DIR SHARDS          the COMMIT that belongs to the manifest as it is now
 */
#include "checkpoint/format/hdf5.h"
#include "checkpoint/io/files.h"
#include "checkpoint/store/reader.h"
#include "checkpoint/store/store.h"
#include "lib/base/mem.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const struct sn_err *err)
{
    (void)fprintf(stderr, "damage: %s\n", err->text);
    return 1;
}

static int where(const char *dir)
{
    struct sn_reader r;
    struct sn_err err;
    if (sn_reader_open(&r, dir, &err) != SN_OK)
        return fail(&err);
    for (int i = 0; i < r.manifest.n_tensors; i++) {
        const struct sn_manifest_tensor *t = &r.manifest.tensors[i];
        for (int k = 0; k < t->n_pieces; k++) {
            struct sn_aio_request at = {0};
            if (sn_reader_locate(&r, t, &t->pieces[k], &at, &err) != SN_OK)
                return fail(&err);
            printf("%s %s %" PRIu64 " %" PRId64 "\n", r.manifest.shards[t->pieces[k].shard].file,
                   t->pieces[k].dataset, at.offset, sn_manifest_bytes(t, t->pieces[k].box));
        }
    }
    sn_reader_close(&r);
    return 0;
}

static int flip(const char *path, const char *offset)
{
    unsigned char c;
    off_t at = (off_t)strtoll(offset, NULL, 10);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && pread(fd, &c, 1, at) == 1) {
        c ^= 16;
        if (pwrite(fd, &c, 1, at) == 1 && close(fd) == 0)
            return 0;
    }
    perror(path);
    return 1;
}

/* Lay the shard out again with the one name changed, and bring the bytes over. */
static enum sn_status lay_out_again(struct sn_reader *r, int shard, const char *from,
                                    const char *to, struct sn_h5_slot *slots, struct sn_err *err)
{
    int n = 0;
    struct sn_h5_slot *renamed = NULL;
    for (int i = 0; i < r->manifest.n_pieces; i++) {
        const struct sn_manifest_piece *p = &r->manifest.pieces[i];
        if (p->shard != shard)
            continue;
        slots[n] = (struct sn_h5_slot){.rows = p->set_rows, .cols = p->set_cols, .dtype = SN_F32};
        (void)snprintf(slots[n].dataset, sizeof(slots[n].dataset), "%s", p->dataset);
        if (strcmp(p->dataset, from) == 0)
            renamed = &slots[n];
        n++;
    }
    if (!renamed)
        return sn_fail(err, SN_EINPUT, "no dataset '%s' in shard %d", from, shard);
    (void)snprintf(renamed->dataset, sizeof(renamed->dataset), "%s", to);
    char *path = sn_format("%s/%s", r->dir, r->manifest.shards[shard].file), *old = NULL;
    size_t len = 0;
    SN_TRY(sn_file_load(&old, &len, path, err));
    SN_TRY(sn_h5_layout(path, n, slots, err));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    for (int i = 0; i < n; i++) /* the same names in length, so the same offsets */
        SN_TRY(sn_file_put(fd, old + slots[i].offset,
                           (size_t)(slots[i].rows * slots[i].cols) * sizeof(float), slots[i].offset,
                           path, "", err));
    if (fd < 0 || ftruncate(fd, (off_t)len) != 0 || close(fd) != 0)
        return sn_file_fail(err, path, "write");
    sn_free(old);
    sn_free(path);
    return SN_OK;
}

static int rename_dataset(const char *dir, const char *shard, const char *from, const char *to)
{
    struct sn_reader r;
    struct sn_err err;
    if (strlen(from) != strlen(to)) {
        (void)fprintf(stderr, "damage: '%s' and '%s' must be equally long\n", from, to);
        return 2;
    }
    if (sn_reader_open(&r, dir, &err) != SN_OK)
        return fail(&err);
    int number = 0;
    while (number + 1 < r.manifest.n_shards && strcmp(r.manifest.shards[number].file, shard) != 0)
        number++;
    struct sn_h5_slot *slots = sn_alloc_n((size_t)r.manifest.n_pieces, sizeof(*slots));
    enum sn_status st = lay_out_again(&r, number, from, to, slots, &err);
    sn_free(slots);
    sn_reader_close(&r);
    return st == SN_OK ? 0 : fail(&err);
}

static int commit(const char *dir, const char *shards)
{
    struct sn_err err;
    char *path = sn_format("%s/manifest.json", dir), *text = NULL, line[SN_COMMIT_MAX];
    size_t len = 0;
    if (sn_file_load(&text, &len, path, &err) != SN_OK)
        return fail(&err);
    sn_commit_format(line, text, len, atoi(shards));
    sn_free(text);
    sn_free(path);
    return sn_store_put(dir, "COMMIT", line, strlen(line), &err) == SN_OK ? 0 : fail(&err);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "where") == 0 && argc == 3)
        return where(argv[2]);
    if (strcmp(what, "flip") == 0 && argc == 4)
        return flip(argv[2], argv[3]);
    if (strcmp(what, "rename") == 0 && argc == 6)
        return rename_dataset(argv[2], argv[3], argv[4], argv[5]);
    if (strcmp(what, "commit") == 0 && argc == 4)
        return commit(argv[2], argv[3]);
    (void)fprintf(stderr, "usage: see tests/cli/damage.c\n");
    return 2;
}
