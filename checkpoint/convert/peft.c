/* peft.c - adapters as PEFT has them (checkpoint/hf/hfadapter.c: their names). */
#include "checkpoint/convert/peft.h"

#include "checkpoint/convert/tile.h"
#include "checkpoint/format/safetensors_write.h"
#include "checkpoint/hf/hfrules.h"
#include "checkpoint/io/files.h"
#include "checkpoint/io/numbers.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A tensor to write. */
struct half {
    int tensor; /* of the source */
    struct sn_hf_adapter_name name;
};

struct writing {
    struct sn_source *source;
    const struct sn_model_config *model;
    enum sn_dtype dtype;
    struct half *half;
    struct sn_st_entry *entry;
    int n;
    int64_t r, largest; /* values of a tensor */
};

/* --- names ------------------------------------------------------------------------------------ */

static enum sn_status add(struct writing *w, int tensor, struct sn_err *err)
{
    const struct sn_source_tensor *t = &w->source->tensors[tensor];
    if (strcmp(t->group, "model") != 0 || !sn_hf_is_adapter(t->name))
        return SN_OK;
    const char *rest;
    if (sn_source_layer(t->name, &rest) >= w->model->layers)
        return sn_fail(err, SN_EINPUT,
                       "%s: %s is of a block for multi-token prediction (model.mtp), which PEFT's models do not "
                       "have; drop those with --mtp 0",
                       w->source->name, t->name);
    struct half *h = &w->half[w->n];
    h->tensor = tensor;
    SN_TRY(sn_hf_adapter_name(&h->name, w->model->family, t->name, w->source->name, err));
    w->entry[w->n] = (struct sn_st_entry){.name = h->name.text,
                                          .dtype = w->dtype,
                                          .rank = 2,
                                          .shape = {t->rows, t->cols},
                                          .tag = w->n};
    bool is_a = t->name[strlen(t->name) - 1] == 'a';
    int64_t r = is_a ? t->rows : t->cols, size = t->rows * t->cols;
    if (w->r != 0 && r != w->r)
        return sn_fail(err, SN_EINPUT, "%s: adapters are of rank %lld and of %lld; want one rank",
                       w->source->name, (long long)w->r, (long long)r);
    w->r = r;
    w->largest = size > w->largest ? size : w->largest;
    w->n++;
    return SN_OK;
}

static enum sn_status list(struct writing *w, struct sn_err *err)
{
    size_t most = (size_t)w->source->n_tensors + 1;
    w->half = sn_alloc_n(most, sizeof(*w->half));
    w->entry = sn_alloc_n(most, sizeof(*w->entry));
    if (!w->half || !w->entry)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list its adapters", w->source->name);
    if (w->model->share_layers > 1)
        return sn_fail(err, SN_EINPUT,
                       "%s: its layers share weights, which the field's adapters do not; use "
                       "--merge, or --delink first",
                       w->source->name);
    for (int i = 0; i < w->source->n_tensors; i++)
        SN_TRY(add(w, i, err));
    if (w->n == 0 || w->source->scalars.adapter_scale == 0)
        return sn_fail(err, SN_EINPUT, "%s: has no adapters to write; want a run with train.lora",
                       w->source->name);
    return SN_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static enum sn_status put_one(const struct writing *w, struct sn_st_writer *to, int half,
                              float *room, struct sn_err *err)
{
    const struct sn_source_tensor *t = &w->source->tensors[w->half[half].tensor];
    struct sn_source_want want = {w->half[half].tensor, {0, 0, t->rows, t->cols}};
    int64_t n = t->rows * t->cols;
    float lost;
    SN_TRY(w->source->begin(w->source->self, &want, 1, w->source->least, err));
    SN_TRY(w->source->next(w->source->self, room, t->cols, err));
    if (w->dtype != SN_F32 && !sn_narrow((uint16_t *)(void *)room, room, n, w->dtype, &lost))
        return sn_narrow_fail(w->source->name, t->name, w->dtype, lost, err);
    return sn_st_put(to, room, (size_t)n * sn_dtype_size(w->dtype), err);
}

static enum sn_status write_tensors(const struct writing *w, const char *path, int64_t *bytes,
                                    struct sn_err *err)
{
    struct sn_st_writer *to = NULL;
    float *room = sn_alloc_n((size_t)w->largest, sizeof(*room));
    if (!room)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for one of its adapters", w->source->name);
    enum sn_status st = sn_st_create(&to, path, w->entry, w->n, err);
    for (int i = 0; i < w->n && st == SN_OK; i++)
        st = put_one(w, to, w->entry[i].tag, room, err);
    sn_free(room);
    if (st == SN_OK)
        return sn_st_finish(to, bytes, err);
    sn_st_abandon(to);
    return st;
}

static const char *last_of(const char *module)
{
    const char *dot = strrchr(module, '.');
    return dot ? dot + 1 : module;
}

/* Modules whose A is written, with this last name. */
static int count_of(const struct writing *w, const char *last)
{
    int n = 0;
    for (int i = 0; i < w->n; i++)
        n += strstr(w->half[i].name.text, ".lora_A.") &&
             strcmp(last_of(w->half[i].name.module), last) == 0;
    return n;
}

/* Was a module of this name listed before number i? */
static bool is_listed(const struct writing *w, int i, const char *name, bool whole)
{
    for (int k = 0; k < i; k++)
        if (strcmp(whole ? w->half[k].name.module : last_of(w->half[k].name.module), name) == 0)
            return true;
    return false;
}

/* By the last name where all layers have it; else one by one. */
static void add_targets(struct sn_str *out, const struct writing *w)
{
    bool begun = false;
    for (int i = 0; i < w->n; i++) {
        const char *module = w->half[i].name.module, *last = last_of(module);
        bool whole = count_of(w, last) != w->model->layers;
        if (is_listed(w, i, whole ? module : last, whole))
            continue;
        sn_str_add(out, "%s\n    \"%s\"", begun ? "," : "", whole ? module : last);
        begun = true;
    }
}

static enum sn_status write_config(const struct writing *w, const char *path, struct sn_err *err)
{
    struct sn_str s = {0};
    bool is_turned = false; /* is any weight a Conv1D? */
    for (int i = 0; i < w->n; i++)
        is_turned = is_turned || w->half[i].name.is_turned;
    sn_str_add(&s,
               "{\n  \"base_model_name_or_path\": null,\n  \"bias\": \"none\",\n"
               "  \"fan_in_fan_out\": %s,\n  \"inference_mode\": true,\n"
               "  \"init_lora_weights\": true,\n  \"lora_alpha\": %.9g,\n"
               "  \"lora_dropout\": 0.0,\n  \"modules_to_save\": null,\n"
               "  \"peft_type\": \"LORA\",\n  \"r\": %lld,\n  \"target_modules\": [",
               is_turned ? "true" : "false",
               (double)w->source->scalars.adapter_scale * (double)w->r, (long long)w->r);
    add_targets(&s, w);
    sn_str_add(&s, "\n  ],\n  \"task_type\": \"CAUSAL_LM\"\n}\n");
    enum sn_status st =
        s.failed ? sn_fail(err, SN_ENOMEM, "%s: no memory to describe its adapters", path)
                 : sn_file_save(path, s.p, s.len, err);
    sn_str_fini(&s);
    return st;
}

/* Everything, into a directory that is there. */
static enum sn_status write_all(const struct writing *w, const char *dir, int64_t *bytes,
                                struct sn_err *err)
{
    char *tensors = sn_format("%s/adapter_model.safetensors", dir);
    char *config = sn_format("%s/adapter_config.json", dir);
    enum sn_status st = tensors && config ? write_tensors(w, tensors, bytes, err)
                                          : sn_fail(err, SN_ENOMEM, "%s: no memory for names", dir);
    if (st == SN_OK)
        st = write_config(w, config, err);
    if (st == SN_OK)
        st = sn_dir_sync(dir, err);
    sn_free(tensors);
    sn_free(config);
    return st;
}

/* Aside, then renamed. */
static enum sn_status write_new(const struct writing *w, const char *dst, int64_t *bytes,
                                struct sn_err *err)
{
    struct stat sb;
    struct sn_err ignored;
    if (lstat(dst, &sb) == 0)
        return sn_fail(err, SN_EINPUT, "%s: is there already; name a new directory", dst);
    char *aside = sn_format("%s.tmp.%lld", dst, (long long)getpid());
    if (!aside)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its name", dst);
    enum sn_status st = sn_dir_make(aside, err);
    if (st == SN_OK) {
        st = write_all(w, aside, bytes, err);
        if (st == SN_OK && rename(aside, dst) != 0)
            st = sn_file_fail(err, dst, "rename the finished directory to it");
        if (st != SN_OK)
            (void)sn_dir_remove(aside, &ignored); /* the first failure is the one to tell */
    }
    sn_free(aside);
    return st;
}

enum sn_status sn_peft_write(struct sn_source *s, const struct sn_model_config *m, const char *dst,
                             enum sn_dtype dtype, struct sn_convert_report *report,
                             struct sn_err *err)
{
    double began = sn_clock();
    int64_t bytes = 0;
    struct writing w = {.source = s, .model = m, .dtype = dtype};
    enum sn_status st = list(&w, err);
    if (st == SN_OK)
        st = write_new(&w, dst, &bytes, err);
    if (st == SN_OK)
        *report = (struct sn_convert_report){.tensors = w.n,
                                             .bytes = bytes,
                                             .peak_buffers =
                                                 s->least + w.largest * (int64_t)sizeof(float),
                                             .seconds = sn_clock() - began};
    sn_free(w.half);
    sn_free(w.entry);
    return st;
}
