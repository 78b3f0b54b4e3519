/* Do the field's files and a model hold the same tensors? */
#include "checkpoint/hf/hfnames.h"
#include "checkpoint/hf/hfrules.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Constants that some writers save along with the weights. */
static const char *const harmless[] = {
    "*.attn.bias",           "*.attn.masked_bias", "*.attention.bias", "*.attention.masked_bias",
    "*.rotary_emb.inv_freq", "*.masked_bias",
};

void sn_left_over_add(struct sn_left_over *l, const char *name)
{
    enum { SHOWN = 5 };
    size_t at = strlen(l->text);
    if (l->n < SHOWN)
        (void)snprintf(l->text + at, sizeof(l->text) - at, "%s'%.64s'", l->n ? ", " : "", name);
    l->n++;
}

enum sn_status sn_left_over_explain(const struct sn_left_over *l, const char *where,
                                    struct sn_err *err)
{
    if (l->n == 0)
        return SN_OK;
    return sn_fail(err, SN_EINPUT, "%s: the model has no place for %d of its tensors: %s%s", where,
                   l->n, l->text, l->n > 5 ? ", ..." : "");
}

bool sn_hf_is_adapter(const char *tensor)
{
    return sn_str_glob("*.lora_a", tensor) || sn_str_glob("*.lora_b", tensor);
}

bool sn_hf_is_prompt(const char *tensor)
{
    return sn_str_glob("*.prompt.soft", tensor) || sn_str_glob("prompt.projection", tensor);
}

/* --- the field's files ----------------------------------------------------------------------- */

static bool is_harmless(const char *name)
{
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
        if (sn_str_glob(harmless[i], name))
            return true;
    return false;
}

/* Is the layer of a tensor, behind the model's, a block for multi-token prediction? */
static bool is_of_block(const struct sn_safetensors *st, const char *theirs)
{
    static const char layer[] = "layers.";
    const char *number = strstr(theirs, layer) + sizeof(layer) - 1;
    char *mark = sn_format("%.*s.enorm.weight",
                           (int)(number - theirs) + (int)strspn(number, "0123456789"), theirs);
    bool is_there = mark && sn_safetensors_find(st, mark) != NULL;
    sn_free(mark);
    return is_there;
}

/* A tensor that no piece was read from: fine, an error of its own, or left over. */
static enum sn_status judge(const struct sn_safetensors *st, const struct sn_model_config *m,
                            const struct sn_st_tensor *t, struct sn_left_over *left,
                            struct sn_err *err)
{
    int layer = 0;
    bool same;
    const struct sn_st_tensor *embed = sn_hf_source(st, m->family, "embed.weight");
    const struct sn_st_tensor *twin =
        sn_hf_sibling(st, m->family, t->name, m->share_layers > 0 ? m->share_layers : 1, &layer);
    int further = sn_hf_further(m->family, t->name, m->layers);
    if (is_harmless(t->name) || (further >= m->mtp && is_of_block(st, t->name)))
        return SN_OK;
    const struct sn_st_tensor *copied =
        further >= 0 && further < m->mtp ? sn_hf_copied(st, m, t->name) : NULL;
    if (copied) {
        SN_TRY(sn_safetensors_same(t, copied, &same, err));
        if (same)
            return SN_OK;
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s' differs from '%s', which the model's blocks for multi-token prediction share; "
                       "leave them out with model.mtp: 0 (sennit-convert: without --mtp)",
                       t->file, t->name, copied->name);
    }
    if (m->tied_embeddings && t == sn_hf_source(st, m->family, "head.weight")) {
        SN_TRY(sn_safetensors_same(t, embed, &same, err));
        if (same)
            return SN_OK;
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s' differs from '%s', but the model ties them; set "
                       "model.tied_embeddings: false",
                       t->file, t->name, embed->name);
    }
    if (twin && layer < m->layers) {
        SN_TRY(sn_safetensors_same(t, twin, &same, err));
        if (same)
            return SN_OK;
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s' differs from '%s', but the model's layers share them "
                       "(model.share_layers: %d)",
                       t->file, t->name, twin->name, m->share_layers);
    }
    sn_left_over_add(left, t->name);
    return SN_OK;
}

/* Which tensors of the file the whole model takes, also where this rank takes nothing of them. */
static enum sn_status check_fit(const struct sn_safetensors *st, const struct sn_model_config *m,
                                const struct sn_state_shape *all, int n, bool *used,
                                struct sn_err *err)
{
    for (int i = 0; i < n; i++) {
        const struct sn_state_shape *t = &all[i];
        if (strcmp(t->group, "model") != 0)
            continue;
        SN_TRY(sn_hf_check(st, m, t, err));
        used[sn_hf_source(st, m->family, t->name) - sn_safetensors_get(st, 0)] = true;
    }
    return SN_OK;
}

enum sn_status sn_hf_fit(const struct sn_safetensors *st, const char *path,
                         const struct sn_model_config *m, const struct sn_state_shape *all, int n,
                         struct sn_err *err)
{
    struct sn_left_over left = {0};
    int n_theirs = sn_safetensors_count(st);
    bool *used = sn_alloc_n((size_t)n_theirs, sizeof(*used));
    if (!used)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list %d tensors", path, n_theirs);
    enum sn_status status = check_fit(st, m, all, n, used, err);
    for (int i = 0; i < n_theirs && status == SN_OK; i++)
        if (!used[i])
            status = judge(st, m, sn_safetensors_get(st, i), &left, err);
    sn_free(used);
    return status == SN_OK ? sn_left_over_explain(&left, path, err) : status;
}

/* --- a model's tensors ----------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct sn_state_shape *)a)->name,
                  ((const struct sn_state_shape *)b)->name);
}

enum sn_status sn_hf_list_create(struct sn_hf_list *out, const struct sn_model_config *m,
                                 struct sn_err *err)
{
    static const struct sn_train_config any = {.global_batch = 1};
    struct sn_hf_list l = {0};
    SN_TRY(sn_model_create(&l.model, m, &any, err));
    size_t most = (size_t)sn_model_tensor_count(l.model);
    l.shapes = sn_alloc_n(most, sizeof(*l.shapes));
    if (!l.shapes) {
        sn_model_destroy(l.model);
        return sn_fail(err, SN_ENOMEM, "model: no memory to list %zu tensors", most);
    }
    for (int i = 0; i < l.model->n_params; i++) {
        const struct sn_param *p = &l.model->params[i];
        for (int k = 0; k < p->n_tensors; k++)
            l.shapes[l.n++] =
                (struct sn_state_shape){"model", p->tensor[k].name, p->tensor[k].rows, p->cols};
    }
    qsort(l.shapes, (size_t)l.n, sizeof(*l.shapes), by_name);
    *out = l;
    return SN_OK;
}

void sn_hf_list_fini(struct sn_hf_list *l)
{
    sn_model_destroy(l->model);
    sn_free(l->shapes);
    *l = (struct sn_hf_list){0};
}

const struct sn_state_shape *sn_hf_list_find(const struct sn_hf_list *l, const char *name)
{
    struct sn_state_shape key = {.name = name};
    return bsearch(&key, l->shapes, (size_t)l->n, sizeof(key), by_name);
}
