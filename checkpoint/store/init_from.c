/* First weights from the field's files or from a checkpoint of ours. */
#include "checkpoint/hf/hfnames.h"
#include "checkpoint/hf/hfrules.h"
#include "checkpoint/io/numbers.h"
#include "checkpoint/store/init_adapter.h"
#include "checkpoint/store/init_model.h"
#include "checkpoint/store/store.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- what a source may lack --------------------------------------------------------------------
 * The bias of a router begins at 0, in a run whose weights were trained without one too; adapters
 * as ever (sn_weights_init) where the weights come without. */

static bool is_bias(const char *name)
{
    return sn_str_glob("*.ffn.router.bias", name);
}

static void lists_free(struct sn_state *s)
{
    sn_free(s->tensors);
    sn_free(s->all);
}

/* What begins by itself. */
struct lacks {
    bool biases, adapters, prompts;
};

static bool is_lacking(const struct lacks *l, const char *name)
{
    return (l->biases && is_bias(name)) || (l->adapters && sn_hf_is_adapter(name)) ||
           (l->prompts && sn_hf_is_prompt(name));
}

/* The state without what a source lacks, in lists of its own (lists_free) over the same memory. */
static enum sn_status without(struct sn_state *out, const struct sn_state *s, struct lacks l,
                              struct sn_err *err)
{
    *out = *s;
    out->n_tensors = out->n_all = 0;
    out->tensors = sn_alloc_n((size_t)s->n_tensors + 1, sizeof(*out->tensors));
    out->all = sn_alloc_n((size_t)s->n_all + 1, sizeof(*out->all));
    if (!out->tensors || !out->all)
        return sn_fail(err, SN_ENOMEM, "train.init_from: no memory to list %d tensors", s->n_all);
    for (int i = 0; i < s->n_tensors; i++)
        if (!is_lacking(&l, s->tensors[i].name))
            out->tensors[out->n_tensors++] = s->tensors[i];
    for (int i = 0; i < s->n_all; i++)
        if (!is_lacking(&l, s->all[i].name))
            out->all[out->n_all++] = s->all[i];
    return SN_OK;
}

/* --- the field's ------------------------------------------------------------------------------ */

/* Of another type: by way of some rows in fp32. */
static enum sn_status read_narrow(const struct sn_safetensors *st, const struct sn_model_config *m,
                                  const struct sn_state_tensor *t, struct sn_err *err)
{
    enum { ROOM = 1 << 20 }; /* values */
    int64_t most = ROOM / t->n_cols > 0 ? ROOM / t->n_cols : 1;
    float *room = sn_alloc_n((size_t)(most * t->n_cols), sizeof(*room));
    enum sn_status status = SN_OK;
    if (!room)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to read some rows of it", t->name);
    for (int64_t r = 0; r < t->n_rows && status == SN_OK; r += most) {
        struct sn_state_tensor band = *t;
        band.row = t->row + r;
        band.n_rows = t->n_rows - r < most ? t->n_rows - r : most;
        band.ld = t->n_cols;
        status = sn_hf_read_box(st, m, &band, room, err);
        for (int64_t i = 0; i < band.n_rows && status == SN_OK; i++)
            sn_state_put(t, r + i, 0, t->n_cols, room + i * t->n_cols);
    }
    sn_free(room);
    return status;
}

static enum sn_status read_boxes(const struct sn_safetensors *st, const struct sn_model_config *m,
                                 struct sn_state *s, struct sn_err *err)
{
    for (int i = 0; i < s->n_tensors; i++) {
        struct sn_state_tensor *t = &s->tensors[i];
        if (strcmp(t->group, "model") == 0 && t->n_rows > 0 && t->n_cols > 0)
            SN_TRY(t->dtype == SN_F32 ? sn_hf_read_box(st, m, t, t->p, err)
                                      : read_narrow(st, m, t, err));
        sn_progress_mark(s->progress);
    }
    return SN_OK;
}

static enum sn_status from_safetensors(const char *path, const struct sn_config *c,
                                       struct sn_state *s, struct sn_err *err)
{
    struct sn_safetensors *st;
    struct sn_state known = {0};
    const struct sn_model_config *m = &c->model;
    bool biases =
        sn_family_traits(m->family)->sigmoid_router; /* adapters the field has in others */
    SN_TRY(sn_state_check_boxes(s, err));
    SN_TRY(sn_safetensors_open(&st, path, err));
    enum sn_status status = sn_init_check_field(path, c, s->rank, err);
    if (status == SN_OK)
        status = without(&known, s, (struct lacks){!biases, true, true}, err);
    if (status == SN_OK)
        status = sn_hf_fit(st, path, m, known.all, known.n_all, err);
    if (status == SN_OK)
        status = read_boxes(st, m, &known, err);
    lists_free(&known);
    sn_safetensors_close(st);
    return status;
}

/* --- ours ------------------------------------------------------------------------------------ */

/* Of those of a row that are no number the first; -1. */
static int64_t nonfinite_in(const struct sn_state_tensor *t, int64_t r, double *value)
{
    enum { SOME = 1024 };
    float x[SOME];
    for (int64_t c = 0; c < t->n_cols; c += SOME) {
        int64_t n = t->n_cols - c < SOME ? t->n_cols - c : SOME;
        sn_state_get(t, r, c, n, x);
        int64_t at = sn_find_nonfinite(x, n);
        if (at >= 0) {
            *value = (double)x[at];
            return c + at;
        }
    }
    return -1;
}

/* No run saves what is no number, but what was converted with fewer checks may hold it. */
static enum sn_status check_numbers(const struct sn_state *s, const char *dir, struct sn_err *err)
{
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        bool is_read = strcmp(t->group, "model") == 0 && t->n_cols > 0;
        for (int64_t r = 0; is_read && r < t->n_rows; r++) {
            double value = 0;
            int64_t at = nonfinite_in(t, r, &value);
            if (at >= 0)
                return sn_fail(err, SN_EINPUT,
                               "%s: tensor %s is %g at [%lld, %lld]; want weights that are all "
                               "numbers",
                               dir, t->name, value, (long long)(t->row + r),
                               (long long)(t->col + at));
        }
    }
    return SN_OK;
}

static enum sn_status read_ours(struct sn_reader *r, struct sn_state *s, bool *used,
                                struct sn_err *err)
{
    struct sn_left_over left = {0};
    SN_TRY(sn_reader_match(r, s, "model", used, err));
    for (int i = 0; i < r->manifest.n_tensors; i++)
        if (strcmp(r->manifest.tensors[i].group, "model") == 0 && !used[i])
            sn_left_over_add(&left, r->manifest.tensors[i].name);
    SN_TRY(sn_left_over_explain(&left, r->dir, err));
    SN_TRY(sn_reader_fill(r, s, "model", err));
    return check_numbers(s, r->dir, err);
}

static enum sn_status from_step(const char *dir, const struct sn_config *c, struct sn_state *s,
                                struct sn_err *err)
{
    struct sn_reader r;
    sn_h5_setup();
    SN_TRY(sn_reader_open(&r, dir, err));
    r.progress = s->progress;
    bool *used = sn_alloc_n((size_t)r.manifest.n_tensors, sizeof(*used));
    struct lacks lacks = {true, true, true};
    struct sn_state known = {0};
    enum sn_status st =
        used ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory to list its tensors", dir);
    if (st == SN_OK)
        st = sn_init_check_text(r.manifest.model_text, r.dir, c, s->rank, err);
    if (st == SN_OK)
        st = sn_init_check_adapters(&r.manifest, r.dir, c, err);
    for (int i = 0; i < r.manifest.n_tensors; i++) {
        lacks.biases = lacks.biases && !is_bias(r.manifest.tensors[i].name);
        lacks.adapters = lacks.adapters && !sn_hf_is_adapter(r.manifest.tensors[i].name);
        lacks.prompts = lacks.prompts && !sn_hf_is_prompt(r.manifest.tensors[i].name);
    }
    if (st == SN_OK)
        st = without(&known, s, lacks, err);
    if (st == SN_OK)
        st = read_ours(&r, &known, used, err);
    lists_free(&known);
    sn_free(used);
    sn_reader_close(&r);
    return st;
}

static enum sn_status from_newest(const char *dir, const struct sn_config *c, struct sn_state *s,
                                  struct sn_err *err)
{
    int64_t step = -1;
    SN_TRY(sn_store_newest(&step, dir, err));
    struct sn_store store = {.dir = (char *)dir}; /* only read */
    char *path = sn_store_path(&store, step, "");
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open a checkpoint", dir);
    enum sn_status st = from_step(path, c, s, err);
    sn_free(path);
    return st;
}

static enum sn_status weights_from(const struct sn_config *c, struct sn_state *s,
                                   struct sn_err *err)
{
    const char *path = c->train.init_from;
    int64_t *steps = NULL;
    int n = 0;
    struct sn_err not_a_directory; /* then it is a file of the field */
    SN_TRY(sn_init_check_path(path, err));
    char *manifest = sn_format("%s/manifest.json", path);
    if (!manifest)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
    bool is_step = access(manifest, F_OK) == 0;
    sn_free(manifest);
    if (is_step)
        return from_step(path, c, s, err);
    if (sn_store_list(&steps, &n, path, &not_a_directory) == SN_ENOMEM)
        return sn_fail(err, SN_ENOMEM, "%s", not_a_directory.text);
    sn_free(steps);
    return n > 0 ? from_newest(path, c, s, err) : from_safetensors(path, c, s, err);
}

/* Adapters of their own file go before those of the weights'. */
enum sn_status sn_init_from(const struct sn_config *c, struct sn_state *s, struct sn_err *err)
{
    SN_TRY(weights_from(c, s, err));
    return c->train.lora.init_from[0] ? sn_init_adapter(c, s, err) : SN_OK;
}
