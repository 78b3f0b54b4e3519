/* First weights from the field's files or from a checkpoint of ours. */
#include "checkpoint/hfnames.h"
#include "checkpoint/store.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Constants that some writers save along with the weights. */
static const char *const harmless[] = {
    "*.attn.bias",           "*.attn.masked_bias", "*.attention.bias", "*.attention.masked_bias",
    "*.rotary_emb.inv_freq", "*.masked_bias",
};

/* Names of what is left over, the first few. */
struct left_over {
    char text[400];
    int n;
};

static void add_left_over(struct left_over *l, const char *name)
{
    enum { SHOWN = 5 };
    size_t at = strlen(l->text);
    if (l->n < SHOWN)
        (void)snprintf(l->text + at, sizeof(l->text) - at, "%s'%.64s'", l->n ? ", " : "", name);
    l->n++;
}

static enum sn_status explain_left_over(const struct left_over *l, const char *where,
                                        struct sn_err *err)
{
    if (l->n == 0)
        return SN_OK;
    return sn_fail(err, SN_EINPUT, "%s: the model has no place for %d of its tensors: %s%s", where,
                   l->n, l->text, l->n > 5 ? ", ..." : "");
}

/* --- the field's files ----------------------------------------------------------------------- */

static bool same_bytes(const struct sn_st_tensor *a, const struct sn_st_tensor *b)
{
    return strcmp(a->dtype, b->dtype) == 0 && a->bytes == b->bytes &&
           memcmp(a->data, b->data, a->bytes) == 0;
}

static bool is_harmless(const char *name)
{
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
        if (sn_str_glob(harmless[i], name))
            return true;
    return false;
}

/* A tensor that no piece was read from: fine, an error of its own, or left over. */
static enum sn_status judge(const struct sn_safetensors *st, const struct sn_model_config *m,
                            const struct sn_st_tensor *t, struct left_over *left,
                            struct sn_err *err)
{
    int layer = 0;
    const struct sn_st_tensor *embed = sn_hf_source(st, m->family, "embed.weight");
    const struct sn_st_tensor *twin =
        sn_hf_sibling(st, m->family, t->name, m->share_layers > 0 ? m->share_layers : 1, &layer);
    if (is_harmless(t->name))
        return SN_OK;
    if (m->tied_embeddings && t == sn_hf_source(st, m->family, "head.weight")) {
        if (same_bytes(t, embed))
            return SN_OK;
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s' differs from '%s', but the model ties them; set "
                       "model.tied_embeddings: false",
                       t->file, t->name, embed->name);
    }
    if (twin && layer < m->layers) {
        if (same_bytes(t, twin))
            return SN_OK;
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s' differs from '%s', but the model's layers share them "
                       "(model.share_layers: %d)",
                       t->file, t->name, twin->name, m->share_layers);
    }
    add_left_over(left, t->name);
    return SN_OK;
}

/* Which tensors of the file the whole model takes, also where this rank takes nothing of them. */
static enum sn_status check_fit(const struct sn_safetensors *st, const struct sn_model_config *m,
                                const struct sn_state *s, bool *used, struct sn_err *err)
{
    for (int i = 0; i < s->n_all; i++) {
        const struct sn_state_shape *t = &s->all[i];
        if (strcmp(t->group, "model") != 0)
            continue;
        SN_TRY(sn_hf_check(st, m, t, err));
        used[sn_hf_source(st, m->family, t->name) - sn_safetensors_get(st, 0)] = true;
    }
    return SN_OK;
}

/* A box with gaps between its rows goes through a copy of it without. */
static enum sn_status read_spread(const struct sn_safetensors *st, const struct sn_model_config *m,
                                  const struct sn_state_tensor *t, struct sn_err *err)
{
    float *box = sn_alloc_n((size_t)t->n_rows * (size_t)t->n_cols, sizeof(*box));
    if (!box)
        return sn_fail(err, SN_ENOMEM, "train.init_from: no memory to read %s", t->name);
    enum sn_status status = sn_hf_read_box(st, m, t, box, err);
    for (int64_t r = 0; r < t->n_rows && status == SN_OK; r++)
        memcpy(t->p + r * t->ld, box + r * t->n_cols, (size_t)t->n_cols * sizeof(*box));
    sn_free(box);
    return status;
}

static enum sn_status read_boxes(const struct sn_safetensors *st, const struct sn_model_config *m,
                                 struct sn_state *s, struct sn_err *err)
{
    for (int i = 0; i < s->n_tensors; i++) {
        struct sn_state_tensor *t = &s->tensors[i];
        if (strcmp(t->group, "model") != 0 || t->n_rows == 0 || t->n_cols == 0)
            continue;
        SN_TRY(t->ld == t->n_cols ? sn_hf_read_box(st, m, t, t->p, err)
                                  : read_spread(st, m, t, err));
    }
    return SN_OK;
}

static enum sn_status from_safetensors(const char *path, const struct sn_model_config *m,
                                       struct sn_state *s, struct sn_err *err)
{
    struct sn_safetensors *st;
    struct left_over left = {0};
    SN_TRY(sn_state_check_boxes(s, err));
    SN_TRY(sn_safetensors_open(&st, path, err));
    int n = sn_safetensors_count(st);
    bool *used = sn_alloc_n((size_t)n, sizeof(*used));
    enum sn_status status = SN_OK;
    if (!used)
        status = sn_fail(err, SN_ENOMEM, "%s: no memory to list %d tensors", path, n);
    if (status == SN_OK)
        status = check_fit(st, m, s, used, err);
    for (int i = 0; i < n && status == SN_OK; i++)
        if (!used[i])
            status = judge(st, m, sn_safetensors_get(st, i), &left, err);
    if (status == SN_OK)
        status = explain_left_over(&left, path, err);
    if (status == SN_OK)
        status = read_boxes(st, m, s, err);
    sn_free(used);
    sn_safetensors_close(st);
    return status;
}

/* --- ours ------------------------------------------------------------------------------------ */

static enum sn_status read_ours(struct sn_reader *r, struct sn_state *s, bool *used,
                                struct sn_err *err)
{
    struct left_over left = {0};
    SN_TRY(sn_reader_match(r, s, "model", used, err));
    for (int i = 0; i < r->manifest.n_tensors; i++)
        if (strcmp(r->manifest.tensors[i].group, "model") == 0 && !used[i])
            add_left_over(&left, r->manifest.tensors[i].name);
    SN_TRY(explain_left_over(&left, r->dir, err));
    return sn_reader_fill(r, s, "model", err);
}

static enum sn_status from_step(const char *dir, struct sn_state *s, struct sn_err *err)
{
    struct sn_reader r;
    sn_h5_setup();
    SN_TRY(sn_reader_open(&r, dir, err));
    bool *used = sn_alloc_n((size_t)r.manifest.n_tensors, sizeof(*used));
    enum sn_status st = used ? read_ours(&r, s, used, err)
                             : sn_fail(err, SN_ENOMEM, "%s: no memory to list its tensors", dir);
    sn_free(used);
    sn_reader_close(&r);
    return st;
}

static enum sn_status from_newest(const char *dir, struct sn_state *s, struct sn_err *err)
{
    int64_t step = -1;
    SN_TRY(sn_store_newest(&step, dir, err));
    struct sn_store store = {.dir = (char *)dir}; /* only read */
    char *path = sn_store_path(&store, step, "");
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open a checkpoint", dir);
    enum sn_status st = from_step(path, s, err);
    sn_free(path);
    return st;
}

enum sn_status sn_init_from(const char *path, const struct sn_model_config *m, struct sn_state *s,
                            struct sn_err *err)
{
    int64_t *steps = NULL;
    int n = 0;
    struct sn_err not_a_directory; /* then it is a file of the field */
    if (access(path, F_OK) != 0)
        return sn_fail(
            err, SN_EINPUT,
            "%s: cannot open: %s; train.init_from wants a safetensors file or directory, or "
            "a checkpoint",
            path, strerror(errno));
    char *manifest = sn_format("%s/manifest.json", path);
    if (!manifest)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
    bool is_step = access(manifest, F_OK) == 0;
    sn_free(manifest);
    if (is_step)
        return from_step(path, s, err);
    if (sn_store_list(&steps, &n, path, &not_a_directory) == SN_ENOMEM)
        return sn_fail(err, SN_ENOMEM, "%s", not_a_directory.text);
    sn_free(steps);
    return n > 0 ? from_newest(path, s, err) : from_safetensors(path, m, s, err);
}
