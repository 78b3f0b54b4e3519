/*
 * rules.c - defaults that follow from other keys, and the rules between keys.
 *
 * One short function per rule, called in the order of a person reading the file.
 */
#include "lib/config/batch.h"
#include "lib/config/settings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- nearest values that work ----------------------------------------------------------------- */

static const char *one_or_two(char buf[SN_NEAR_SIZE], int64_t below, int64_t above)
{
    if (below > 0 && above > 0)
        (void)snprintf(buf, SN_NEAR_SIZE, "%lld or %lld", (long long)below, (long long)above);
    else
        (void)snprintf(buf, SN_NEAR_SIZE, "%lld", (long long)(below > 0 ? below : above));
    return buf;
}

const char *sn_near_divisors(char buf[SN_NEAR_SIZE], int64_t of, int64_t n)
{
    int64_t below = n > of ? of : n, above = n;
    while (below > 0 && of % below != 0)
        below--;
    while (above <= of && of % above != 0)
        above++;
    return one_or_two(buf, below, above > of ? 0 : above);
}

const char *sn_near_multiples(char buf[SN_NEAR_SIZE], int64_t of, int64_t n)
{
    int64_t below = n / of * of;
    return one_or_two(buf, below, below + of);
}

/* --- derived defaults ------------------------------------------------------------------------- */

/* A tenth, and what the warm-up leaves. */
static int64_t default_decay(const struct sn_train_config *t)
{
    int64_t tenth = t->steps < 10 ? 1 : t->steps / 10, left = t->steps - t->schedule.warmup;
    if (!sn_lr_has_decay(t->schedule.kind) || left < 0)
        return 0;
    return tenth < left ? tenth : left;
}

/* Z shares weights out, and gathers them for use: what ZeRO 3 does. */
static enum sn_status derive_grid(struct sn_config *c, const struct sn_settings *s,
                                  struct sn_err *err)
{
    const struct sn_yaml_node *z = sn_settings_grid_z(s);
    if (!z)
        return SN_OK;
    if (c->layout.zero_node == 0)
        return sn_yaml_fail(z, err, "layout.tensor: z: 0 is no number of ranks; want at least 1");
    if (c->layout.zero_node == 1) { /* nobody to share with */
        c->layout.zero_node = 0;
        return SN_OK;
    }
    if (sn_settings_get(s, "layout.zero") && c->layout.zero != 3)
        return sn_yaml_fail(z, err,
                            "layout.tensor: z: %d shares weights out as layout.zero: 3 does, which "
                            "is %d; leave layout.zero out",
                            c->layout.zero_node, c->layout.zero);
    c->layout.zero = 3;
    return SN_OK;
}

static enum sn_status derive(struct sn_config *c, const struct sn_settings *s, struct sn_err *err)
{
    struct sn_model_config *m = &c->model;
    const struct sn_traits *f = sn_family_traits(m->family);
    if (!sn_settings_get(s, "run.output"))
        (void)snprintf(c->run.output, sizeof(c->run.output), "runs/%s", c->run.name);
    if (!sn_settings_get(s, "model.kv_heads"))
        m->kv_heads = m->heads;
    if (m->head_dim > 0 && (int64_t)m->head_dim * m->heads == m->hidden)
        m->head_dim = 0; /* as usual */
    SN_TRY(sn_experts_derive(m, s, err));
    if (m->dense_ffn > 0 && !sn_model_mixes_layers(m) && sn_settings_own(s, "model.dense_ffn"))
        return sn_settings_fail(s, "model.dense_ffn", err,
                                "%d is of layers without experts beside others with them; %s, or leave it out",
                                m->dense_ffn,
                                m->experts.count > 0 ? "set model.experts.every or model.experts.from"
                                                     : "want model.ffn");
    if (!sn_model_mixes_layers(m) || m->dense_ffn == m->ffn)
        m->dense_ffn = 0; /* of no layer, or as usual */
    if (!sn_settings_get(s, "model.activation"))
        m->activation = f->activation;
    if (!sn_settings_get(s, "model.tied_embeddings"))
        m->tied_embeddings = f->tied_embeddings;
    if (!sn_settings_get(s, "model.rotary_pct"))
        m->rotary_pct = f->rotary_pct;
    if (!sn_settings_get(s, "model.parallel_residual"))
        m->parallel_residual = f->parallel_residual;
    if (!sn_settings_get(s, "train.schedule.decay"))
        c->train.schedule.decay = default_decay(&c->train);
    SN_TRY(sn_ramp_derive(c, s, err));
    SN_TRY(sn_mup_derive(c, s, err));
    SN_TRY(derive_grid(c, s, err));
    if (sn_settings_get(s, "model.ffn"))
        return SN_OK;
    if (f->ffn == 0)
        return sn_settings_fail(
            s, "model.ffn", err,
            "missing; want a number of features, such as %d (8/3 x model.hidden, "
            "rounded up to 16)",
            (m->hidden * 8 / 3 + 15) / 16 * 16);
    m->ffn = f->ffn * m->hidden;
    return SN_OK;
}

/* --- model ------------------------------------------------------------------------------------ */

static enum sn_status heads_divide_hidden(const struct sn_config *c, const struct sn_settings *s,
                                          struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    char near[SN_NEAR_SIZE];
    if (m->head_dim > 0 || sn_model_has_latents(m) || m->hidden % m->heads == 0)
        return SN_OK;
    return sn_settings_fail(s, "model.heads", err,
                            "%d does not divide model.hidden (%d); nearest that do: %s", m->heads,
                            m->hidden, sn_near_divisors(near, m->hidden, m->heads));
}

static enum sn_status kv_heads_divide_heads(const struct sn_config *c, const struct sn_settings *s,
                                            struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    char near[SN_NEAR_SIZE];
    if (!sn_family_traits(m->family)->grouped_heads && m->kv_heads != m->heads)
        return sn_settings_fail(s, "model.kv_heads", err,
                                "%d differs from model.heads (%d), but %s has one key per query "
                                "head; leave kv_heads out",
                                m->kv_heads, m->heads, sn_family_name(m->family));
    if (m->heads % m->kv_heads == 0)
        return SN_OK;
    return sn_settings_fail(s, "model.kv_heads", err,
                            "%d does not divide model.heads (%d); nearest that do: %s", m->kv_heads,
                            m->heads, sn_near_divisors(near, m->heads, m->kv_heads));
}

static enum sn_status window_is_there(const struct sn_config *c, const struct sn_settings *s,
                                      struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    const char *key = m->global_every > 0  ? "model.global_every"
                      : m->window_from > 0 ? "model.window_from"
                                           : NULL;
    if (!key || m->sliding_window > 0)
        return SN_OK;
    return sn_settings_fail(s, key, err,
                            "says which layers have a sliding window, but there is none; want "
                            "model.sliding_window, or leave it out");
}

static bool may_be_parallel(enum sn_family f)
{
    return sn_family_traits(f)->parallel_residual;
}

static enum sn_status residual_fits(const struct sn_config *c, const struct sn_settings *s,
                                    struct sn_err *err)
{
    char names[SN_FAMILIES_SIZE];
    if (!c->model.parallel_residual || may_be_parallel(c->model.family))
        return SN_OK;
    return sn_settings_fail(
        s, "model.parallel_residual", err, "true needs family %s, not %s; use false",
        sn_families_that(names, may_be_parallel), sn_family_name(c->model.family));
}

static bool is_gated(enum sn_family f)
{
    return sn_family_traits(f)->gated;
}

static bool is_not_gated(enum sn_family f)
{
    return !sn_family_traits(f)->gated;
}

/* A family has one gate, and silu is built in gates alone. */
static enum sn_status activation_fits(const struct sn_config *c, const struct sn_settings *s,
                                      struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    const char *key = "model.activation", *family = sn_family_name(m->family);
    char names[SN_FAMILIES_SIZE];
    bool gated = is_gated(m->family);
    enum sn_activation own = sn_family_traits(m->family)->activation;
    if (gated ? m->activation == own : m->activation != SN_SILU)
        return SN_OK;
    const char *word = own == SN_SILU ? "silu" : "gelu_tanh";
    if (gated)
        return sn_settings_fail(s, key, err,
                                "the gate of family %s is by %s, others are not built; want "
                                "%s, or family %s",
                                family, word, word, sn_families_that(names, is_not_gated));
    return sn_settings_fail(s, key, err,
                            "silu is built for gates alone, and family %s has none; want gelu or "
                            "gelu_tanh, or family %s",
                            family, sn_families_that(names, is_gated));
}

/* What a family has cannot be added. */
static enum sn_status biases_fit(const struct sn_config *c, const struct sn_settings *s,
                                 struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    unsigned own = sn_family_traits(m->family)->biases;
    const struct {
        const char *key;
        bool is_set;
        unsigned bits;
    } all[] = {{"model.attention_bias", m->attention_bias, SN_LINEAR_QKV | SN_LINEAR_O},
               {"model.mlp_bias", m->mlp_bias, SN_LINEAR_UP | SN_LINEAR_DOWN}};
    for (int i = 0; i < 2; i++)
        if (all[i].is_set && (own & all[i].bits) == all[i].bits)
            return sn_settings_fail(s, all[i].key, err, "%s has these biases; leave it out",
                                    sn_family_name(m->family));
    if (m->mlp_bias && m->experts.count > 0)
        return sn_settings_fail(s, "model.mlp_bias", err, "experts have no biases; want false");
    return SN_OK;
}

static enum sn_status share_divides_layers(const struct sn_config *c, const struct sn_settings *s,
                                           struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    char near[SN_NEAR_SIZE];
    if (m->layers % m->share_layers == 0)
        return SN_OK;
    return sn_settings_fail(
        s, "model.share_layers", err, "%d does not divide model.layers (%d); nearest that do: %s",
        m->share_layers, m->layers, sn_near_divisors(near, m->layers, m->share_layers));
}

/* --- train ------------------------------------------------------------------------------------ */

static enum sn_status batch_divides(const struct sn_config *c, const struct sn_settings *s,
                                    struct sn_err *err)
{
    int64_t data = c->layout.data ? c->layout.data : 1;
    int64_t one = data * c->layout.micro_batch;
    char near[SN_NEAR_SIZE];
    int size = sn_batch_misfit(&c->train, one);
    if (size == 0)
        return SN_OK;
    return sn_settings_fail(s, sn_batch_key(&c->train, size), err,
                            "%d is not a multiple of data x micro_batch (%lld x %d); nearest that "
                            "are: %s",
                            size, (long long)data, c->layout.micro_batch,
                            sn_near_multiples(near, one, size));
}

static enum sn_status schedule_fits(const struct sn_config *c, const struct sn_settings *s,
                                    struct sn_err *err)
{
    const struct sn_train_config *t = &c->train;
    if (t->schedule.warmup > t->steps)
        return sn_settings_fail(s, "train.schedule.warmup", err,
                                "%lld is more than train.steps (%lld); want at most that",
                                (long long)t->schedule.warmup, (long long)t->steps);
    if (sn_settings_get(s, "train.schedule.decay") && !sn_lr_has_decay(t->schedule.kind))
        return sn_settings_fail(s, "train.schedule.decay", err,
                                "%s has no such number; leave it out, or set train.schedule.kind "
                                "to one that has",
                                sn_lr_names[t->schedule.kind]);
    if (t->schedule.decay > t->steps - t->schedule.warmup)
        return sn_settings_fail(s, "train.schedule.decay", err,
                                "%lld is more than the steps after the warm-up (%lld); want at "
                                "most that",
                                (long long)t->schedule.decay,
                                (long long)(t->steps - t->schedule.warmup));
    if (t->schedule.min_lr > t->optimizer.lr)
        return sn_settings_fail(s, "train.schedule.min_lr", err,
                                "%g is more than train.optimizer.lr (%g); want at most that",
                                t->schedule.min_lr, t->optimizer.lr);
    return SN_OK;
}

/* A checkpoint brings its weights. */
static enum sn_status one_start(const struct sn_config *c, const struct sn_settings *s,
                                struct sn_err *err)
{
    const struct sn_train_config *t = &c->train;
    if (!t->continue_from[0] || (!t->init_from[0] && !t->lora.init_from[0]))
        return SN_OK;
    return sn_settings_fail(s, "train.continue_from", err,
                            "takes weights and state from a checkpoint, and train.%s other "
                            "weights; leave one of the two out",
                            t->init_from[0] ? "init_from" : "lora.init_from");
}

/* A number that nothing would read. */
static enum sn_status optimizer_reads(const struct sn_config *c, const struct sn_settings *s,
                                      struct sn_err *err)
{
    enum sn_optimizer o = c->train.optimizer.kind;
    for (int i = 0; i < sn_n_keys; i++)
        if (s->set[i] && sn_optimizer_ignores(o, sn_keys[i].name))
            return sn_settings_fail(s, sn_keys[i].name, err,
                                    "%s has no such number; leave it out, or set "
                                    "train.optimizer.kind to one that has",
                                    sn_optimizer_row(o)->name);
    return SN_OK;
}

static enum sn_status evaluation_has_data(const struct sn_config *c, const struct sn_settings *s,
                                          struct sn_err *err)
{
    if (c->train.eval_every == 0 || sn_valid_sets(&c->data) > 0)
        return SN_OK;
    return sn_settings_fail(s, "train.eval_every", err,
                            "%lld needs data.valid; name validation data or use 0",
                            (long long)c->train.eval_every);
}

static enum sn_status scale_fits_precision(const struct sn_config *c, const struct sn_settings *s,
                                           struct sn_err *err)
{
    if (c->train.loss_scale == 0 || c->train.precision == SN_F16)
        return SN_OK;
    return sn_settings_fail(s, "train.loss_scale", err,
                            "%g is for precision fp16, not %s; leave it out or use dynamic",
                            c->train.loss_scale, sn_dtype_name(c->train.precision));
}

static enum sn_status fp8_fits_precision(const struct sn_config *c, const struct sn_settings *s,
                                         struct sn_err *err)
{
    if (!c->train.fp8 || c->train.precision == SN_BF16)
        return SN_OK;
    return sn_settings_fail(s, "train.fp8", err,
                            "is for precision bf16, not %s; set train.precision: bf16 or leave it "
                            "out",
                            sn_dtype_name(c->train.precision));
}

/* What cuDNN is not asked for (kernels/cuda/sdpa.h), as far as the run file tells. */
static enum sn_status cudnn_fits(const struct sn_config *c, const struct sn_settings *s,
                                 struct sn_err *err)
{
    const char *key = "run.attention", *other = "take own or auto";
    int d = sn_model_head_dim(&c->model);
    if (c->run.attention != SN_LIBRARY_MUST)
        return SN_OK;
    if (c->run.backend == SN_BACKEND_CPU)
        return sn_settings_fail(s, key, err, "cudnn needs a GPU, and run.backend is cpu; %s",
                                other);
    if (c->train.precision == SN_F32)
        return sn_settings_fail(s, key, err, "cudnn needs train.precision: bf16 or fp16; %s",
                                other);
    if (c->model.dropout > 0)
        return sn_settings_fail(s, key, err, "cudnn has no dropout of ours (model.dropout); %s",
                                other);
    if (sn_model_has_mask(&c->model))
        return sn_settings_fail(
            s, key, err, "cudnn has no model.sliding_window and no model.score_cap; %s", other);
    if (c->layout.context > 1)
        return sn_settings_fail(s, key, err, "cudnn takes whole sequences (layout.context: 1); %s",
                                other);
    if (d % 8 != 0 || d > 128)
        return sn_settings_fail(s, key, err,
                                "cudnn takes heads of 8, 16, ... 128 columns, and those of the "
                                "model have %d; %s",
                                d, other);
    return SN_OK;
}

/* Keys in which two models are compared. */
static enum sn_status changes_are_keys(const struct sn_config *c, const struct sn_settings *s,
                                       struct sn_err *err)
{
    for (int i = 0; i < c->train.n_init_changes; i++) {
        char name[SN_NAME_MAX + 8];
        int len = snprintf(name, sizeof(name), "model.%s", c->train.init_changes[i]);
        int row = sn_key_find(name, (size_t)len);
        if (row < 0 || !sn_keys[row].decides || sn_keys[row].is_free)
            return sn_settings_fail(s, "train.init_changes", err,
                                    "'%s' is no key in which models are compared; want keys of "
                                    "model, such as rope_theta or experts.top_k",
                                    c->train.init_changes[i]);
    }
    return SN_OK;
}

static struct sn_text_place place_of(const struct sn_settings *s, const char *key)
{
    const struct sn_yaml_node *n = sn_settings_own(s, key);
    return n ? (struct sn_text_place){n->line, n->col} : (struct sn_text_place){0};
}

enum sn_status sn_rules_apply(struct sn_config *c, const struct sn_settings *s, struct sn_err *err)
{
    static sn_rule *const rules[] = {sn_rule_latents,
                                     heads_divide_hidden,
                                     kv_heads_divide_heads,
                                     sn_rule_rotary,
                                     sn_rule_rope_scaling,
                                     window_is_there,
                                     residual_fits,
                                     changes_are_keys,
                                     activation_fits,
                                     share_divides_layers,
                                     biases_fit,
                                     sn_rule_experts_family,
                                     sn_rule_experts,
                                     batch_divides,
                                     schedule_fits,
                                     one_start,
                                     optimizer_reads,
                                     evaluation_has_data,
                                     scale_fits_precision,
                                     fp8_fits_precision,
                                     cudnn_fits,
                                     sn_rule_groups,
                                     sn_rule_sparse,
                                     sn_rule_lora,
                                     sn_rule_prompts,
                                     sn_rule_mtp,
                                     sn_rule_data};
    SN_TRY(derive(c, s, err));
    c->machine.preset_at = place_of(s, "machine.preset");
    c->slurm.site_at = place_of(s, "slurm.site");
    SN_TRY(sn_compress_derive(c, s, err));
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        SN_TRY(rules[i](c, s, err));
    SN_TRY(sn_rules_layout(c, s, err));
    return sn_rules_slurm(c, s, err);
}
