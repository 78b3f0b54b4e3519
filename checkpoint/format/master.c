#include "checkpoint/format/master.h"

#include "checkpoint/format/hdf5.h"
#include "checkpoint/io/files.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct sn_master {
    const struct sn_manifest *manifest;
    struct sn_h5 *file;
    struct sn_h5_map *maps; /* room for those of any tensor */
};

bool sn_master_is_due(const struct sn_manifest *m)
{
    bool is_single = m->n_shards == 1 && strcmp(m->shards[0].file, SN_MASTER_NAME) == 0;
    return m->block != INT64_MAX && !is_single;
}

/* Tensor t as it shows in the master; its maps go to `maps`. */
static enum sn_status describe(struct sn_h5_virtual *out, struct sn_h5_map *maps,
                               const struct sn_manifest *m, const struct sn_manifest_tensor *t,
                               struct sn_err *err)
{
    struct sn_box all = {0, 0, t->rows, t->cols};
    *out =
        (struct sn_h5_virtual){.rows = t->rows, .cols = t->cols, .dtype = t->dtype, .maps = maps};
    for (int i = 0; i < t->n_pieces; i++) {
        const struct sn_manifest_piece *p = &t->pieces[i];
        if (sn_box_size(p->box) > 0)
            maps[out->n_maps++] = (struct sn_h5_map){.row = p->box.row,
                                                     .col = p->box.col,
                                                     .rows = p->box.rows,
                                                     .cols = p->box.cols,
                                                     .file = m->shards[p->shard].file,
                                                     .dataset = p->dataset,
                                                     .at_row = p->at_row,
                                                     .at_col = p->at_col,
                                                     .set_rows = p->set_rows,
                                                     .set_cols = p->set_cols};
    }
    return sn_manifest_dataset(out->dataset, sizeof(out->dataset), t, all, err);
}

/* The texts stay as they are for ever: of a checkpoint whose manifest has no hash of its master,
 * the master is compared with what is made here. */
static enum sn_status make_of_sets(struct sn_h5_image *out, const struct sn_manifest *m,
                                   const struct sn_h5_virtual *sets, const char *path,
                                   struct sn_err *err)
{
    char schema[16], step[24], tokens[24], hash[24];
    const struct sn_h5_attribute attributes[] = {
        {"about", "sennit checkpoint: virtual datasets over the shards beside this file. Where a "
                  "shard is missing or damaged they show NaN and no error; sennit-convert --verify "
                  "tells. Format: docs/FORMAT.md"},
        {"schema", schema},
        {"step", step},
        {"tokens", tokens},
        {"model", m->model_text},
        {"layout", m->layout_text ? m->layout_text : ""},
        {"config_hash", hash}};
    (void)snprintf(schema, sizeof(schema), "%d", SN_MANIFEST_SCHEMA);
    (void)snprintf(step, sizeof(step), "%" PRId64, m->scalars.step);
    (void)snprintf(tokens, sizeof(tokens), "%" PRId64, m->scalars.tokens);
    (void)snprintf(hash, sizeof(hash), "%016" PRIx64, m->config_hash);
    struct sn_h5_master master = {.n_sets = m->n_tensors,
                                  .n_attributes = sizeof(attributes) / sizeof(attributes[0]),
                                  .sets = sets,
                                  .attributes = attributes};
    return sn_h5_make_master(out, &master, path, err);
}

/* The whole file. */
static enum sn_status make(struct sn_h5_image *out, const struct sn_manifest *m, const char *path,
                           struct sn_err *err)
{
    size_t n_maps = 0;
    for (int i = 0; i < m->n_tensors; i++)
        n_maps += (size_t)m->tensors[i].n_pieces;
    struct sn_h5_virtual *sets = sn_alloc_n((size_t)m->n_tensors, sizeof(*sets));
    struct sn_h5_map *maps = sn_alloc_n(n_maps, sizeof(*maps)), *next = maps;
    enum sn_status st = SN_OK;
    if (!sets || !maps)
        st =
            sn_fail(err, SN_ENOMEM, "%s: no memory for a master of %d tensors", path, m->n_tensors);
    for (int i = 0; i < m->n_tensors && st == SN_OK; i++) {
        st = describe(&sets[i], next, m, &m->tensors[i], err);
        next += sets[i].n_maps;
    }
    if (st == SN_OK)
        st = make_of_sets(out, m, sets, path, err);
    sn_free(maps);
    sn_free(sets);
    return st;
}

static enum sn_status name(char **path, const char *dir, struct sn_err *err)
{
    *path = sn_format("%s/%s", dir, SN_MASTER_NAME);
    return *path ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory for its master", dir);
}

enum sn_status sn_master_write(const char *dir, const struct sn_manifest *m,
                               struct sn_manifest_master *out, struct sn_err *err)
{
    char *path;
    struct sn_h5_image image = {0};
    *out = (struct sn_manifest_master){0};
    if (!sn_master_is_due(m))
        return SN_OK;
    SN_TRY(name(&path, dir, err));
    enum sn_status st = make(&image, m, path, err);
    if (st == SN_OK)
        st = sn_file_save(path, image.p, image.bytes, err);
    if (st == SN_OK)
        *out = (struct sn_manifest_master){(int64_t)image.bytes, sn_hash64(image.p, image.bytes)};
    sn_free(image.p);
    sn_free(path);
    return st;
}

/* --- proving it ------------------------------------------------------------------------------ */

static enum sn_status compare_with_manifest(const char *path, const struct sn_manifest_master *want,
                                            struct sn_err *err)
{
    struct sn_manifest_master have = {.bytes = want->bytes};
    SN_TRY(sn_file_hash(path, &have.bytes, &have.hash, err));
    if (have.bytes != want->bytes)
        return sn_fail(err, SN_EIO,
                       "%s: has %" PRId64 " bytes where %" PRId64
                       " were saved; it was cut or altered, and no value is read from it",
                       path, have.bytes, want->bytes);
    if (have.hash != want->hash)
        return sn_fail(err, SN_EIO,
                       "%s: its bytes are not those that were saved (their hash differs); it was "
                       "altered, and no value is read from it",
                       path);
    return SN_OK;
}

/* Of an older writer, which has left no hash: equal contents are equal bytes. */
static enum sn_status compare_with_image(const char *path, const struct sn_h5_image *want,
                                         struct sn_err *err)
{
    char *text = NULL;
    size_t len = 0, same = 0;
    SN_TRY(sn_file_load(&text, &len, path, err));
    while (same < len && same < want->bytes && text[same] == want->p[same])
        same++;
    bool is_same = same == len && len == want->bytes;
    sn_free(text);
    if (is_same)
        return SN_OK;
    return sn_fail(err, SN_EIO,
                   "%s: from byte %zu on it is not what is written for this manifest, which has no "
                   "hash of it (an older sennit saved it): it was altered, or another release of "
                   "HDF5 made it; no value is read from it, and a sennit-convert of the checkpoint "
                   "makes a new one",
                   path, same);
}

enum sn_status sn_master_prove(const char *dir, const struct sn_manifest *m, struct sn_err *err)
{
    char *path;
    struct sn_h5_image image = {0};
    if (!sn_master_is_due(m))
        return SN_OK;
    SN_TRY(name(&path, dir, err));
    enum sn_status st = SN_OK;
    if (m->master.bytes > 0) {
        st = compare_with_manifest(path, &m->master, err);
    } else {
        st = make(&image, m, path, err);
        if (st == SN_OK)
            st = compare_with_image(path, &image, err);
        sn_free(image.p);
    }
    sn_free(path);
    return st;
}

enum sn_status sn_master_open(struct sn_master **out, const char *dir, const struct sn_manifest *m,
                              struct sn_err *err)
{
    int most = 0;
    for (int i = 0; i < m->n_tensors; i++)
        most = m->tensors[i].n_pieces > most ? m->tensors[i].n_pieces : most;
    struct sn_master *v = sn_alloc(sizeof(*v));
    char *path = sn_format("%s/%s", dir, SN_MASTER_NAME);
    if (v) {
        v->manifest = m;
        v->maps = sn_alloc_n((size_t)most, sizeof(*v->maps));
    }
    enum sn_status st = SN_OK;
    if (!v || !v->maps || !path)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to check its master", dir);
    else
        st = sn_h5_open(&v->file, path, err);
    sn_free(path);
    if (st == SN_OK)
        *out = v;
    else
        sn_master_close(v);
    return st;
}

enum sn_status sn_master_check(struct sn_master *v, int i, struct sn_err *err)
{
    const struct sn_manifest_tensor *t = &v->manifest->tensors[i];
    struct sn_h5_virtual set;
    struct sn_err why;
    enum sn_status st = describe(&set, v->maps, v->manifest, t, &why);
    if (st == SN_OK)
        st = sn_h5_check_virtual(v->file, &set, &why);
    return st == SN_OK ? SN_OK : sn_fail(err, st, "%s (tensor %s %s)", why.text, t->group, t->name);
}

void sn_master_close(struct sn_master *v)
{
    if (!v)
        return;
    sn_h5_close(v->file);
    sn_free(v->maps);
    sn_free(v);
}
