#include "checkpoint/store/init_model.h"

#include "checkpoint/hf/hfrules.h"
#include "checkpoint/store/model_text.h"
#include "checkpoint/store/source.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* A model that weights come with. */
struct origin {
    const char *where; /* for messages */
    bool is_field;     /* described by config.json */
    struct sn_model_config model;
};

static bool covers(const struct sn_model_config *m, int seq)
{
    return m->sliding_window == 0 || m->sliding_window >= seq;
}

/* Does the function that the weights compute stay the same? */
static bool is_harmless(const char *key, const struct sn_model_config *ours, const struct origin *o)
{
    const struct sn_model_config *theirs = &o->model;
    if (strcmp(key, "seq") == 0)
        return sn_family_traits(ours->family)->positions != SN_LEARNED && ours->seq < theirs->seq;
    if (strcmp(key, "sliding_window") == 0)
        return covers(ours, ours->seq) && covers(theirs, ours->seq);
    if (strcmp(key, "share_layers") == 0 || strcmp(key, "mtp") == 0) /* the tensors tell */
        return o->is_field;
    return strcmp(key, "experts.bias") == 0 && theirs->experts.bias == SN_BIAS_NONE;
}

static bool is_meant(const char *key, const struct sn_train_config *t)
{
    for (int i = 0; i < t->n_init_changes; i++)
        if (strcmp(t->init_changes[i], key) == 0)
            return true;
    return false;
}

static enum sn_status refuse(const struct sn_model_difference *d, const char *key,
                             const struct origin *o, struct sn_err *err)
{
    if (strcmp(key, "mtp") == 0)
        return sn_fail(
            err, SN_EINPUT,
            "%s: these weights come with '%s: %s', but the run file has '%s: %s'; want as "
            "many, or a copy with fewer by sennit-convert --mtp",
            o->where, key, d->theirs, key, d->ours);
    return sn_fail(err, SN_EINPUT,
                   "%s: these weights come with '%s: %s', but the run file has '%s: %s'; want the "
                   "same model%s%s%s, or train.init_changes: [%s] to begin as another one",
                   o->where, key, d->theirs, key, d->ours, o->is_field ? " (model: {config: " : "",
                   o->is_field ? o->where : "", o->is_field ? "})" : "", key);
}

static enum sn_status compare(const struct origin *o, const struct sn_config *c, int rank,
                              struct sn_err *err)
{
    struct sn_model_difference d;
    for (int i = 0; (i = sn_model_differs(&d, i, &c->model, &o->model)) >= 0; i++) {
        const char *key = d.key + strlen("model.");
        if (is_harmless(key, &c->model, o))
            continue;
        if (!is_meant(key, &c->train))
            return refuse(&d, key, o, err);
        if (rank == 0)
            sn_log(SN_LOG_INFO,
                   "%s: these weights come with '%s: %s'; the run has %s, as meant by "
                   "train.init_changes",
                   o->where, key, d.theirs, d.ours);
    }
    return SN_OK;
}

enum sn_status sn_init_check_path(const char *path, struct sn_err *err)
{
    if (access(path, F_OK) == 0)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: cannot open: %s; train.init_from wants a safetensors file or directory, or "
                   "a checkpoint",
                   path, strerror(errno));
}

enum sn_status sn_init_check_field(const char *path, const struct sn_config *c, int rank,
                                   struct sn_err *err)
{
    if (!c->train.lora.init_from[0]) /* by which adapters are taken from where it says */
        SN_TRY(sn_hf_no_adapters(path, err));
    char *config = sn_hf_config_path(path);
    struct origin o = {.where = config, .is_field = true};
    enum sn_status st =
        config ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory to find its config.json", path);
    bool is_missing = config && access(config, F_OK) != 0 && errno == ENOENT;
    if (is_missing && rank == 0)
        sn_log(
            SN_LOG_WARN,
            "%s: no config.json is beside these weights, so names and shapes of tensors alone are "
            "compared; heads, norms, rotary embedding and the like are the run file's",
            path);
    if (st == SN_OK && !is_missing)
        st = sn_hf_load_model(&o.model, path, err);
    if (st == SN_OK && !is_missing)
        st = compare(&o, c, rank, err);
    sn_free(config);
    return st;
}

enum sn_status sn_init_check_text(const char *text, const char *where, const struct sn_config *c,
                                  int rank, struct sn_err *err)
{
    struct sn_config *theirs = sn_alloc(sizeof(*theirs)); /* large for a stack */
    if (!theirs)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to read its model", where);
    enum sn_status st = sn_model_text_parse(theirs, text, where, err);
    struct origin o = {.where = where, .model = theirs->model};
    if (st == SN_OK)
        st = compare(&o, c, rank, err);
    sn_free(theirs);
    return st;
}

enum sn_status sn_init_check_adapters(const struct sn_manifest *m, const char *where,
                                      const struct sn_config *c, struct sn_err *err)
{
    const struct sn_lora_config *l = &c->train.lora;
    bool has = false;
    for (int i = 0; i < m->n_tensors; i++)
        has = has || sn_hf_is_adapter(m->tensors[i].name);
    if (!has || l->init_from[0])
        return SN_OK;
    if (l->r == 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: has adapters; want train.lora as they were trained, or what "
                       "sennit-convert --merge makes of it",
                       where);
    if (m->scalars.adapter_scale == sn_lora_scale(l))
        return SN_OK;
    return sn_fail(
        err, SN_EINPUT,
        "%s: its adapters were trained with alpha / rank %g, but train.lora has %g; want "
        "the same, or what sennit-convert --merge makes of it",
        where, (double)m->scalars.adapter_scale, (double)sn_lora_scale(l));
}
