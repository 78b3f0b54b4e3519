/*
 * hfconfig_format.c - a model as the config.json that Hugging Face's classes read, and the page of
 * what the keys of such files are to us: both from the table of hfkeys.c.
 */
#include "lib/config/hfconfig.h"
#include "lib/config/hfkeys.h"
#include "lib/config/keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- what the field's config cannot say ------------------------------------------------------ */

static enum sn_status check_heads(const struct sn_hf_type *t, const struct sn_model_config *m,
                                  struct sn_err *err)
{
    const char *family = sn_family_name(m->family);
    if (!sn_hf_type_has(t, "kv_heads") && m->kv_heads != m->heads)
        return sn_fail(err, SN_EINPUT,
                       "config.json: model.kv_heads: %d differs from model.heads (%d), which the "
                       "field's %s does not know",
                       m->kv_heads, m->heads, family);
    if (sn_family_traits(m->family)->positions != SN_ROTARY || sn_model_has_latents(m))
        return SN_OK;
    if (!sn_hf_type_has(t, "rotary_pct") && m->rotary_pct != 1)
        return sn_fail(
            err, SN_EINPUT,
            "config.json: model.rotary_pct: %g, but the field's %s rotates whole heads (1)",
            m->rotary_pct, family);
    int width = m->heads > 0 ? sn_model_head_dim(m) : 0, theirs = (int)(m->rotary_pct * width);
    if (m->heads > 0 && theirs != sn_model_rotated(m))
        return sn_fail(err, SN_EINPUT,
                       "config.json: model.rotary_pct: %g of %d features is %d, but the field's %s "
                       "takes %d; want a factor slightly larger",
                       m->rotary_pct, width, sn_model_rotated(m), family, theirs);
    return SN_OK;
}

/* The row that says which layers have a window; NULL: none. */
static const struct sn_hf_key *row_of_layers(const struct sn_hf_type *t)
{
    const struct sn_hf_key *row;
    for (int i = 0; (row = sn_hf_key_at(t, i)); i++)
        if (row->class == SN_HF_LAYERS)
            return row;
    return NULL;
}

static enum sn_status check_mask(const struct sn_hf_type *t, const struct sn_model_config *m,
                                 struct sn_err *err)
{
    const char *alien = m->score_cap > 0 && !sn_hf_type_has(t, "score_cap")         ? "score_cap"
                        : m->global_every > 0 && !sn_hf_type_has(t, "global_every") ? "global_every"
                        : m->window_from > 0 && !sn_hf_type_has(t, "window_from")   ? "window_from"
                                                                                    : NULL;
    const struct sn_hf_key *layers = row_of_layers(t);
    if (m->sliding_window == 0 && layers && !layers->layers.on)
        return sn_fail(
            err, SN_EINPUT,
            "config.json: model.sliding_window: none, but the field's %s has one in some layers; "
            "want one, or model.window_from: %d",
            sn_family_name(m->family), m->layers);
    return !alien
               ? SN_OK
               : sn_fail(err, SN_EINPUT, "config.json: model.%s: the field's %s does not know it",
                         alien, sn_family_name(m->family));
}

/* Of any width, or as wide as so many experts. */
static bool knows_shared(const struct sn_hf_type *t, const struct sn_experts_config *x)
{
    return sn_hf_type_has(t, "experts.shared_ffn") ||
           (x->shared_ffn == 0 && sn_hf_type_has(t, "experts.shared"));
}

static enum sn_status check_model(const struct sn_hf_type *t, const struct sn_model_config *m,
                                  struct sn_err *err)
{
    SN_TRY(check_heads(t, m, err));
    SN_TRY(check_mask(t, m, err));
    if (!sn_hf_type_has(t, "dropout") && m->dropout > 0)
        return sn_fail(err, SN_EINPUT,
                       "config.json: model.dropout: %g, but the field's %s drops probabilities of "
                       "attention alone; want 0",
                       m->dropout, sn_family_name(m->family));
    if (m->rope_scaling.kind == SN_ROPE_DYNAMIC && m->rope_scaling.original_seq > 0 &&
        m->rope_scaling.original_seq < m->seq)
        return sn_fail(err, SN_EINPUT,
                       "config.json: model.rope_scaling.original_seq: %d is less than model.seq "
                       "(%d), but with dynamic the field's %s takes the latter; want another type",
                       m->rope_scaling.original_seq, m->seq, sn_family_name(m->family));
    if (m->rope_local_theta == 0 && sn_hf_type_has(t, "rope_local_theta") &&
        m->rope_scaling.kind != SN_ROPE_PLAIN)
        return sn_fail(
            err, SN_EINPUT,
            "config.json: model.rope_local_theta: none, but the field's %s scales no wavelengths "
            "of layers with a window; want a number",
            sn_family_name(m->family));
    const struct sn_experts_config *x = &m->experts;
    bool sigmoids = sn_family_traits(m->family)->sigmoid_router;
    const char *alien = x->every > 1 && !sn_hf_type_has(t, "experts.every") ? "every"
                        : x->shared > 0 && !knows_shared(t, x)              ? "shared"
                        : x->capacity_factor > 0                            ? "capacity_factor"
                        : x->bias != SN_BIAS_NONE && !sigmoids              ? "bias"
                        : x->router == SN_ROUTER_SPARSEMIXER                ? "router"
                        : x->router == SN_ROUTER_SIGMOID && !sigmoids       ? "router"
                                                                            : NULL;
    if (x->count > 0 && alien)
        return sn_fail(err, SN_EINPUT,
                       "config.json: model.experts.%s: the field's %s has experts in every "
                       "layer, which take all tokens, none that is shared, no bias, and a "
                       "router of softmax",
                       alien, sn_family_name(m->family));
    return SN_OK;
}

static enum sn_status fail_alien(const struct sn_config *c, const char *alien, struct sn_err *err)
{
    char name[64], value[SN_VALUE_SIZE];
    (void)snprintf(name, sizeof(name), "model.%s", alien ? alien : "family");
    const struct sn_key *k = &sn_keys[sn_key_find(name, strlen(name))];
    return sn_fail(err, SN_EINPUT, "config.json: %s: %.60s, which the field's %s does not know",
                   name, sn_key_format(k, sn_key_get(k, c), value),
                   sn_family_name(c->model.family));
}

/* Members of which 0 says "as usual", as numbers. */
static void say_all(struct sn_model_config *m)
{
    if (m->heads > 0)
        m->head_dim = sn_model_head_dim(m);
    m->attention_scale = m->attention_scale > 0 ? m->attention_scale : 1 / sqrt(m->head_dim);
    if (m->rope_scaling.original_seq == 0)
        m->rope_scaling.original_seq = m->seq;
    m->dense_ffn = m->dense_ffn > 0 ? m->dense_ffn : m->ffn;
    m->experts.shared_ffn = (int)sn_model_shared_ffn(m);
    m->experts.groups = m->experts.groups > 0 ? m->experts.groups : 1;
    m->experts.top_groups = m->experts.top_groups > 0 ? m->experts.top_groups : 1;
    m->experts.route_scale = m->experts.route_scale > 0 ? m->experts.route_scale : 1;
    m->embed_scale = m->embed_scale > 0 ? m->embed_scale : 1;
    m->rope_local_theta = m->rope_local_theta > 0 ? m->rope_local_theta : m->rope_theta;
    m->residual_scale = m->residual_scale > 0 ? m->residual_scale : 1;
    m->logits_divisor = m->logits_divisor > 0 ? m->logits_divisor : 1;
}

/* --- writing --------------------------------------------------------------------------------- */

static void write_value(struct sn_str *out, const char *name, const char *value, const char *tail)
{
    bool is_list = value[0] == '[';
    double number;
    char end;
    bool is_word = !is_list && strcmp(value, "true") != 0 && strcmp(value, "false") != 0 &&
                   strcmp(value, "null") != 0 && sscanf(value, "%lf%c", &number, &end) != 1;
    const char *quote = is_word ? "\"" : "";
    sn_str_add(out, ",\n  \"%s\": %s%s%s%s", name, quote, value, tail, quote);
}

/* The whole number of which v is one over the root. */
static enum sn_status square_inverse(double *v, const char *name, const char *family,
                                     struct sn_err *err)
{
    double whole = round(1 / (*v * *v));
    if (whole < 1 || fabs(1 / sqrt(whole) / *v - 1) > 1e-12)
        return sn_fail(
            err, SN_EINPUT,
            "config.json: %s: %g, but the field's %s has one over the root of a whole number "
            "(next: %.17g)",
            name, *v, family, 1 / sqrt(fmax(whole, 1)));
    *v = whole;
    return SN_OK;
}

/* "key": value, of our key of that name. A number that is not counted has a point: transformers 5
 * refuses whole numbers for some of them. */
static enum sn_status write_used(struct sn_str *out, const struct sn_hf_key *row,
                                 const struct sn_config *c, const char *object, struct sn_err *err)
{
    char name[64], value[SN_VALUE_SIZE];
    struct sn_config scaled = *c;
    (void)snprintf(name, sizeof(name), "model.%s", row->ours);
    const struct sn_key *k = &sn_keys[sn_key_find(name, strlen(name))];
    if (row->scale == SN_HF_TOP_K_OVER_LAYERS)
        *(double *)sn_key_at(k, &scaled) *=
            (double)sn_expert_layers_before(&c->model, c->model.layers) / c->model.experts.top_k;
    if (row->scale == SN_HF_INVERSE_ROOT)
        SN_TRY(square_inverse(sn_key_at(k, &scaled), name, sn_family_name(c->model.family), err));
    (void)sn_key_format(k, sn_key_get(k, &scaled), value);
    bool is_whole = k->type == SN_KEY_FLOAT && row->scale != SN_HF_INVERSE_ROOT &&
                    !value[strspn(value, "-0123456789")];
    const char *theirs = sn_hf_word_theirs(row, value);
    if (!theirs)
        return sn_fail(err, SN_EINPUT,
                       "config.json: model.%s: %s, which the field's %s does not know", row->ours,
                       value, sn_family_name(c->model.family));
    write_value(out, (row->as ? row->as : row->name) + strlen(object), theirs,
                is_whole ? ".0" : "");
    return SN_OK;
}

/* Keys of scaled wavelengths that their kind reads; under the name that both
 * versions of transformers read. */
static enum sn_status write_object(struct sn_str *out, const struct sn_hf_type *t,
                                   const struct sn_hf_key *object, const struct sn_config *c,
                                   struct sn_err *err)
{
    const struct sn_hf_key *row;
    char dotted[64], name[64], kind[SN_VALUE_SIZE];
    const struct sn_key *type = &sn_keys[sn_key_find("model.rope_scaling.type", 23)];
    (void)sn_key_format(type, sn_key_get(type, c), kind);
    (void)snprintf(dotted, sizeof(dotted), "%s.", object->name);
    struct sn_str inner = {0};
    enum sn_status st = SN_OK;
    for (int i = 0; (row = sn_hf_key_at(t, i)) && st == SN_OK; i++) {
        if (row->class != SN_HF_USED || strncmp(row->name, dotted, strlen(dotted)) != 0)
            continue;
        (void)snprintf(name, sizeof(name), "model.%s", row->ours);
        enum sn_hf_reads reads = sn_hfconfig_rope_reads(kind, strrchr(row->ours, '.') + 1);
        if (reads == SN_HF_READS_ALWAYS ||
            (reads == SN_HF_READS && sn_key_is_said(&sn_keys[sn_key_find(name, strlen(name))], c)))
            st = write_used(&inner, row, c, dotted, err);
    }
    if (st == SN_OK && inner.p)
        sn_str_add(out, ",\n  \"rope_scaling\": {%s}", inner.p + 1); /* without the first comma */
    sn_str_fini(&inner);
    return st;
}

/* Where the type says whether layers have a window, and they have none, it says so alone. */
static void write_layers(struct sn_str *out, const struct sn_hf_key *row,
                         const struct sn_model_config *m)
{
    const struct sn_hf_layers *l = &row->layers;
    bool any = m->sliding_window > 0;
    if (l->on)
        write_value(out, l->on, any ? "true" : "false", "");
    if (l->on && any)
        sn_str_add(out, ",\n  \"%s\": %d,\n  \"%s\": %d", l->window, m->sliding_window, l->from,
                   m->window_from);
    if (l->on && !any)
        return;
    sn_str_add(out, ",\n  \"%s\": [", row->name);
    for (int i = 0; i < m->layers; i++)
        sn_str_add(out, "%s\"%s\"", i ? ", " : "",
                   sn_layer_is_local(m, i) ? "sliding_attention" : "full_attention");
    sn_str_add(out, "]");
}

static void write_dense(struct sn_str *out, const struct sn_hf_key *row,
                        const struct sn_model_config *m)
{
    if (m->experts.from == 0)
        return;
    sn_str_add(out, ",\n  \"%s\": [0", row->name);
    for (int i = 1; i < m->experts.from; i++)
        sn_str_add(out, ", %d", i);
    sn_str_add(out, "]");
}

/* How experts are chosen: of groups, where there are several. */
static void write_grouped(struct sn_str *out, const struct sn_hf_key *row,
                          const struct sn_model_config *m)
{
    write_value(out, row->name, row->values[m->experts.groups > 1], "");
}

/* What another key says, once more. */
static enum sn_status write_repeat(struct sn_str *out, const struct sn_hf_type *t,
                                   const struct sn_hf_key *row, const struct sn_config *c,
                                   struct sn_err *err)
{
    struct sn_hf_key again = *sn_hf_key_find(t, row->ours);
    again.name = row->name;
    again.as = NULL;
    return write_used(out, &again, c, "", err);
}

/* Of those that are one of several values which model.`ours` decides here: model.mtp. */
static void write_fixed(struct sn_str *out, const struct sn_hf_key *row,
                        const struct sn_model_config *m)
{
    write_value(out, row->name, row->values[row->ours ? m->mtp : 0], "");
}

/* A checkpoint does not say how its model was trained (sn_config_format_model). */
static bool is_unknown(const struct sn_hf_key *row, const struct sn_model_config *m)
{
    bool of_balance =
        strcmp(row->ours, "experts.aux_loss") == 0 || strcmp(row->ours, "experts.balance") == 0;
    return (strcmp(row->ours, "init_std") == 0 && m->init_std <= 0) ||
           (of_balance && m->experts.aux_loss <= 0);
}

enum sn_status sn_hfconfig_format(struct sn_str *out, const struct sn_model_config *m,
                                  enum sn_dtype dtype, const char *tokens, struct sn_err *err)
{
    const char *alien;
    const struct sn_hf_type *t = sn_hf_type_of(m, &alien);
    const struct sn_hf_key *row;
    struct sn_config c = {.model = *m};
    if (!t)
        return fail_alien(&c, alien, err);
    SN_TRY(check_model(t, m, err));
    say_all(&c.model);
    sn_str_add(out, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\"", t->architecture,
               t->name);
    for (int i = 0; (row = sn_hf_key_at(t, i)); i++) {
        if (row->class == SN_HF_USED && row->is_written && !is_unknown(row, m) &&
            !strchr(row->name, '.'))
            SN_TRY(write_used(out, row, &c, "", err));
        if (row->class == SN_HF_LAYERS)
            write_layers(out, row, m);
        if (row->class == SN_HF_DENSE)
            write_dense(out, row, m);
        if (row->class == SN_HF_GROUPED)
            write_grouped(out, row, m);
        if (row->class == SN_HF_REPEAT && row->is_written)
            SN_TRY(write_repeat(out, t, row, &c, err));
        if (row->class == SN_HF_OBJECT && m->rope_scaling.kind != SN_ROPE_PLAIN &&
            !strchr(row->name, '.'))
            SN_TRY(write_object(out, t, row, &c, err));
        if (row->class == SN_HF_FIXED && row->is_written)
            write_fixed(out, row, m);
    }
    sn_str_add(out, "%s,\n  \"torch_dtype\": \"%s\"\n}\n",
               tokens ? tokens
                      : ",\n  \"bos_token_id\": null,\n  \"eos_token_id\": null,"
                        "\n  \"pad_token_id\": null",
               dtype == SN_F32    ? "float32"
               : dtype == SN_BF16 ? "bfloat16"
                                  : "float16");
    if (out->failed)
        return sn_fail(err, SN_ENOMEM, "config.json: no memory to write it");
    return SN_OK;
}

/* --- the page -------------------------------------------------------------------------------- */

static const char intro[] =
    "# config.json\n\n"
    "Generated from the table in `lib/config/hfkeys_table.c` by\n"
    "`sennit-plan --help-keys=huggingface > docs/HUGGINGFACE.md`; do not edit.\n\n"
    "What each key of a Hugging Face `config.json` is to `model.config`, to `train.init_from` and "
    "to\n"
    "`sennit-convert --from safetensors`: it becomes a key of the model section, or has the value\n"
    "that sennit computes, or changes nothing that is computed here. A key that is in none of "
    "these\n"
    "lists is refused by name, and so are two names of one thing with different values. Defaults\n"
    "are those of transformers, versions 4.57.1 and 5.23.0 of which were compared.\n";

static void help_values(struct sn_str *out, const struct sn_hf_key *row)
{
    sn_str_add(out, "must be `%s`", row->values[0]);
    for (int i = 1; i < SN_HF_VALUES && row->values[i]; i++)
        sn_str_add(out, " or `%s`", row->values[i]);
    sn_str_add(out, ": %s", row->why);
}

static void help_layers(struct sn_str *out, const struct sn_hf_layers *l)
{
    sn_str_add(out,
               "`model.window_from` and `model.global_every`, of words for each layer; left out: ");
    if (l->on)
        sn_str_add(out, "those from `%s` on have the window of `%s`, if `%s` is true", l->from,
                   l->window, l->on);
    else
        sn_str_add(out, "all but every n-th have it, n %s", l->every);
}

static void help_row(struct sn_str *out, const struct sn_hf_key *row)
{
    sn_str_add(out, "| `%s` | ", row->name);
    switch (row->class) {
    case SN_HF_USED:
        sn_str_add(out, "`model.%s`", row->ours);
        for (const struct sn_hf_word *w = row->words; w->theirs; w++)
            sn_str_add(out, "%s`%s` is %s", w == row->words ? ": " : ", ", w->theirs, w->ours);
        sn_str_add(out, "%s; left out: %s",
                   row->scale == SN_HF_TOP_K_OVER_LAYERS
                       ? ", times `num_experts_per_tok` / the layers that have experts"
                   : row->scale == SN_HF_INVERSE_ROOT ? ", which is one over its root"
                                                      : "",
                   !row->value                       ? "refused"
                   : strcmp(row->value, "null") == 0 ? "none, or what follows from others"
                                                     : row->value);
        break;
    case SN_HF_FIXED:
        help_values(out, row);
        break;
    case SN_HF_REPEAT:
        sn_str_add(out, "must be that of `%s`%s%s%s", row->ours, row->per ? " / `" : "",
                   row->per ? row->per : "", row->per ? "`" : "");
        break;
    case SN_HF_EVERY:
        sn_str_add(out, "must be `null`, or a list with 0 for every n-th layer, n that of `%s`",
                   row->ours);
        break;
    case SN_HF_LAYERS:
        help_layers(out, &row->layers);
        break;
    case SN_HF_DENSE:
        sn_str_add(out,
                   "`model.experts.from`: a list of the first layers, which have no experts beside "
                   "those by "
                   "`%s`; left out: none",
                   row->ours);
        break;
    case SN_HF_GROUPED:
        sn_str_add(out, "must be `%s`, of all experts, where `%s` is 1 or null, or `%s`; left out: `%s`",
                   row->values[0], row->ours, row->values[1], row->values[0]);
        break;
    case SN_HF_CODE:
        sn_str_add(out,
                   "`null`, or the type's own classes (which are those of `architectures` and "
                   "their kin): %s",
                   row->why);
        break;
    case SN_HF_PART:
        sn_str_add(out, "read with `%s`; left out: %s", row->ours, row->value);
        break;
    case SN_HF_OBJECT:
        sn_str_add(out, "an object with keys of its own, or null");
        break;
    case SN_HF_ALIAS:
        sn_str_add(out, "another name of `%s`", row->ours);
        break;
    case SN_HF_INERT:
        sn_str_add(out, "changes nothing: %s", row->why);
        break;
    }
    sn_str_add(out, " |\n");
}

void sn_hf_help(struct sn_str *out)
{
    const struct sn_hf_key *list;
    char title[SN_HF_NAMES_SIZE];
    sn_str_add(out, "%s", intro);
    for (int i = 0; (list = sn_hf_list_at(i, title)); i++) {
        sn_str_add(out, "\n## %s\n\n| key | here |\n|---|---|\n", title);
        for (; list->name; list++)
            help_row(out, list);
    }
}
