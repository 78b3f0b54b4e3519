#include "checkpoint/store/init_adapter.h"

#include "checkpoint/hf/hfrules.h"
#include "checkpoint/io/files.h"
#include "checkpoint/io/numbers.h"
#include "checkpoint/store/source.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <stdio.h>
#include <string.h>

/* --- adapter_config.json ---------------------------------------------------------------------- */

/* Keys of peft.LoraConfig (version 0.21) that do not change what saved adapters compute, or that say
 * what the tensors say. What is not here must be off. */
static const char *const inert[] = {
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "lora_dropout",
    "lora_ga_config",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "target_modules",
    "task_type",
};

static bool is_word(struct sn_json v, const char *word)
{
    return v.at && v.len == strlen(word) && memcmp(v.at, word, v.len) == 0;
}

/* null, false, "none", {} or []. */
static bool is_off(struct sn_json v)
{
    size_t at = 0;
    struct sn_json name, item;
    bool is_group = v.at && (v.at[0] == '{' || v.at[0] == '[');
    return is_word(v, "null") || is_word(v, "false") || is_word(v, "\"none\"") ||
           (is_group && !sn_json_next(v, &at, &name, &item));
}

static bool is_inert(const char *key)
{
    for (size_t i = 0; i < sizeof(inert) / sizeof(inert[0]); i++)
        if (strcmp(inert[i], key) == 0)
            return true;
    return false;
}

static enum sn_status check_number(const char *path, const char *key, struct sn_json v, double want,
                                   struct sn_err *err)
{
    double x = 0;
    if (sn_json_number(v, &x) && x == want)
        return SN_OK;
    return sn_fail(err, SN_EINPUT, "%s: '%s' is %.*s, but train.lora has %g; want the same", path,
                   key, (int)v.len, v.at, want);
}

static enum sn_status check_key(const char *path, const char *key, struct sn_json v,
                                const struct sn_lora_config *l, struct sn_err *err)
{
    if (strcmp(key, "r") == 0)
        return check_number(path, key, v, l->r, err);
    if (strcmp(key, "lora_alpha") == 0)
        return check_number(path, key, v, l->alpha, err);
    bool is_usual = strcmp(key, "peft_type") == 0 && is_word(v, "\"LORA\"");
    /* others begin with changed weights (pissa, olora, loftq) */
    if (strcmp(key, "init_lora_weights") == 0)
        is_usual = is_word(v, "true") || is_word(v, "\"gaussian\"");
    if (is_usual || is_inert(key) || is_off(v))
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: '%s' is %.*s, which adapters of train.lora do not do; want it off", path,
                   key, v.len < 60 ? (int)v.len : 60, v.at);
}

static enum sn_status check_text(const char *path, const char *text, size_t len,
                                 const struct sn_lora_config *l, struct sn_err *err)
{
    struct sn_json all, name, v;
    size_t at = 0;
    if (!sn_json_parse(&all, text, len) || all.at[0] != '{')
        return sn_fail(err, SN_EINPUT, "%s: is no JSON object; want a configuration of PEFT", path);
    if (!sn_json_get(all, "r").at || !sn_json_get(all, "lora_alpha").at ||
        !sn_json_get(all, "peft_type").at)
        return sn_fail(err, SN_EINPUT,
                       "%s: lacks 'peft_type', 'r' or 'lora_alpha'; want adapters "
                       "of LoRA",
                       path);
    while (sn_json_next(all, &at, &name, &v)) {
        char key[64];
        if (!sn_json_text(name, key, sizeof(key)))
            key[0] = '\0';
        SN_TRY(check_key(path, key, v, l, err));
    }
    return SN_OK;
}

static enum sn_status check_config(const char *dir, const struct sn_lora_config *l,
                                   struct sn_err *err)
{
    char *text = NULL, *path = sn_format("%s/adapter_config.json", dir);
    size_t len = 0;
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", dir);
    enum sn_status st = sn_file_load(&text, &len, path, err);
    if (st == SN_OK)
        st = check_text(path, text, len, l, err);
    sn_free(text);
    sn_free(path);
    return st == SN_EIO ? SN_EINPUT : st; /* nobody but the user names it */
}

/* --- adapter_model.safetensors ---------------------------------------------------------------- */

static enum sn_status theirs_of(const struct sn_st_tensor **out, const struct sn_safetensors *st,
                                const struct sn_model_config *m, const struct sn_state_shape *ours,
                                const char *dir, struct sn_err *err)
{
    struct sn_hf_adapter_name name;
    char shape[SN_ST_SHAPE_MAX];
    const char *rest;
    if (sn_source_layer(ours->name, &rest) >= m->layers)
        return sn_fail(err, SN_EINPUT,
                       "%s: the run's %s is of a block for multi-token prediction (model.mtp), which "
                       "PEFT's models do not have; want model.mtp: 0, or train.lora.targets without "
                       "these blocks",
                       dir, ours->name);
    SN_TRY(sn_hf_adapter_name(&name, m->family, ours->name, dir, err));
    const struct sn_st_tensor *t = sn_safetensors_find(st, name.text);
    if (!t)
        return sn_fail(err, SN_EINPUT, "%s: has no tensor '%s', which the run's %s is read from",
                       dir, name.text, ours->name);
    if (t->rank != 2 || sn_st_rows(t) != ours->rows || sn_st_cols(t) != ours->cols)
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s' has shape %s; the run's %s needs [%lld, %lld]", dir,
                       t->name, sn_st_shape(shape, t), ours->name, (long long)ours->rows,
                       (long long)ours->cols);
    *out = t;
    return SN_OK;
}

static bool is_adapter(const char *group, const char *name)
{
    return strcmp(group, "model") == 0 && sn_hf_is_adapter(name);
}

/* What the whole model takes, also where this rank takes nothing of it. */
static enum sn_status check_fit(const struct sn_safetensors *st, const struct sn_config *c,
                                const struct sn_state *s, struct sn_err *err)
{
    const char *dir = c->train.lora.init_from;
    int n = 0;
    for (int i = 0; i < s->n_all; i++) {
        const struct sn_st_tensor *t;
        if (!is_adapter(s->all[i].group, s->all[i].name))
            continue;
        SN_TRY(theirs_of(&t, st, &c->model, &s->all[i], dir, err));
        n++;
    }
    if (n != sn_safetensors_count(st))
        return sn_fail(err, SN_EINPUT,
                       "%s: has %d tensors, of which train.lora.targets takes %d; name all "
                       "matrices that it adapts",
                       dir, sn_safetensors_count(st), n);
    return SN_OK;
}

static enum sn_status read_box(const struct sn_safetensors *st, const struct sn_config *c,
                               const struct sn_state_tensor *t, struct sn_err *err)
{
    const struct sn_st_tensor *from;
    struct sn_state_shape shape = {t->group, t->name, t->rows, t->cols};
    struct sn_st_box box = {t->row, t->n_rows, t->col, t->n_cols};
    SN_TRY(theirs_of(&from, st, &c->model, &shape, c->train.lora.init_from, err));
    SN_TRY(sn_safetensors_read(from, &box, t->p, t->ld, err));
    for (int64_t r = 0; r < t->n_rows; r++)
        if (sn_find_nonfinite(t->p + r * t->ld, t->n_cols) >= 0)
            return sn_fail(err, SN_EINPUT, "%s: tensor '%s' holds what is no number",
                           c->train.lora.init_from, from->name);
    return SN_OK;
}

enum sn_status sn_init_adapter(const struct sn_config *c, struct sn_state *s, struct sn_err *err)
{
    const char *dir = c->train.lora.init_from;
    struct sn_safetensors *st;
    SN_TRY(check_config(dir, &c->train.lora, err));
    char *path = sn_format("%s/adapter_model.safetensors", dir);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", dir);
    enum sn_status status = sn_safetensors_open(&st, path, err);
    sn_free(path);
    if (status != SN_OK)
        return status;
    status = check_fit(st, c, s, err);
    for (int i = 0; i < s->n_tensors && status == SN_OK; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        if (is_adapter(t->group, t->name) && t->n_rows > 0 && t->n_cols > 0)
            status = read_box(st, c, t, err);
    }
    sn_safetensors_close(st);
    return status;
}
