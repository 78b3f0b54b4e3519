/*
 * hfnames.c - one row per kind of tensor and family. Sources: transformers modeling_gpt2.py,
 * modeling_gpt_neox.py, modeling_llama.py (facts/checkpoints.md 4.2).
 */
#include "checkpoint/hfnames.h"

#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum form {
    SAME,     /* as ours */
    CONV,     /* Conv1D: [in, out] */
    CONV_QKV, /* Conv1D: [in, q | k | v] */
    ROWS_QKV, /* [q | k | v, in] */
    HEADS_QKV /* [heads, 3, d, in]: q, k and v of one head after the other */
};

struct rule {
    const char *ours, *theirs; /* # stands for the number of the layer */
    enum form form;
    int part; /* of the _QKV forms: 0 q, 1 k, 2 v */
};

/* clang-format off */
static const struct rule gpt2[] = {
    {"embed.weight",              "wte.weight",                 SAME,     0},
    {"embed.position",            "wpe.weight",                 SAME,     0},
    {"layers.#.attn_norm.weight", "h.#.ln_1.weight",            SAME,     0},
    {"layers.#.attn_norm.bias",   "h.#.ln_1.bias",              SAME,     0},
    {"layers.#.attn.q.weight",    "h.#.attn.c_attn.weight",     CONV_QKV, 0},
    {"layers.#.attn.k.weight",    "h.#.attn.c_attn.weight",     CONV_QKV, 1},
    {"layers.#.attn.v.weight",    "h.#.attn.c_attn.weight",     CONV_QKV, 2},
    {"layers.#.attn.q.bias",      "h.#.attn.c_attn.bias",       ROWS_QKV, 0},
    {"layers.#.attn.k.bias",      "h.#.attn.c_attn.bias",       ROWS_QKV, 1},
    {"layers.#.attn.v.bias",      "h.#.attn.c_attn.bias",       ROWS_QKV, 2},
    {"layers.#.attn.o.weight",    "h.#.attn.c_proj.weight",     CONV,     0},
    {"layers.#.attn.o.bias",      "h.#.attn.c_proj.bias",       SAME,     0},
    {"layers.#.ffn_norm.weight",  "h.#.ln_2.weight",            SAME,     0},
    {"layers.#.ffn_norm.bias",    "h.#.ln_2.bias",              SAME,     0},
    {"layers.#.ffn.up.weight",    "h.#.mlp.c_fc.weight",        CONV,     0},
    {"layers.#.ffn.up.bias",      "h.#.mlp.c_fc.bias",          SAME,     0},
    {"layers.#.ffn.down.weight",  "h.#.mlp.c_proj.weight",      CONV,     0},
    {"layers.#.ffn.down.bias",    "h.#.mlp.c_proj.bias",        SAME,     0},
    {"final_norm.weight",         "ln_f.weight",                SAME,     0},
    {"final_norm.bias",           "ln_f.bias",                  SAME,     0},
    {"head.weight",               "lm_head.weight",             SAME,     0},
    {0}
};

static const struct rule gpt_neox[] = {
    {"embed.weight",              "embed_in.weight",                           SAME,      0},
    {"layers.#.attn_norm.weight", "layers.#.input_layernorm.weight",           SAME,      0},
    {"layers.#.attn_norm.bias",   "layers.#.input_layernorm.bias",             SAME,      0},
    {"layers.#.attn.q.weight",    "layers.#.attention.query_key_value.weight", HEADS_QKV, 0},
    {"layers.#.attn.k.weight",    "layers.#.attention.query_key_value.weight", HEADS_QKV, 1},
    {"layers.#.attn.v.weight",    "layers.#.attention.query_key_value.weight", HEADS_QKV, 2},
    {"layers.#.attn.q.bias",      "layers.#.attention.query_key_value.bias",   HEADS_QKV, 0},
    {"layers.#.attn.k.bias",      "layers.#.attention.query_key_value.bias",   HEADS_QKV, 1},
    {"layers.#.attn.v.bias",      "layers.#.attention.query_key_value.bias",   HEADS_QKV, 2},
    {"layers.#.attn.o.weight",    "layers.#.attention.dense.weight",           SAME,      0},
    {"layers.#.attn.o.bias",      "layers.#.attention.dense.bias",             SAME,      0},
    {"layers.#.ffn_norm.weight",  "layers.#.post_attention_layernorm.weight",  SAME,      0},
    {"layers.#.ffn_norm.bias",    "layers.#.post_attention_layernorm.bias",    SAME,      0},
    {"layers.#.ffn.up.weight",    "layers.#.mlp.dense_h_to_4h.weight",         SAME,      0},
    {"layers.#.ffn.up.bias",      "layers.#.mlp.dense_h_to_4h.bias",           SAME,      0},
    {"layers.#.ffn.down.weight",  "layers.#.mlp.dense_4h_to_h.weight",         SAME,      0},
    {"layers.#.ffn.down.bias",    "layers.#.mlp.dense_4h_to_h.bias",           SAME,      0},
    {"final_norm.weight",         "final_layer_norm.weight",                   SAME,      0},
    {"final_norm.bias",           "final_layer_norm.bias",                     SAME,      0},
    {"head.weight",               "embed_out.weight",                          SAME,      0},
    {0}
};

static const struct rule llama[] = {
    {"embed.weight",              "embed_tokens.weight",                      SAME, 0},
    {"layers.#.attn_norm.weight", "layers.#.input_layernorm.weight",          SAME, 0},
    {"layers.#.attn.q.weight",    "layers.#.self_attn.q_proj.weight",         SAME, 0},
    {"layers.#.attn.k.weight",    "layers.#.self_attn.k_proj.weight",         SAME, 0},
    {"layers.#.attn.v.weight",    "layers.#.self_attn.v_proj.weight",         SAME, 0},
    {"layers.#.attn.o.weight",    "layers.#.self_attn.o_proj.weight",         SAME, 0},
    {"layers.#.ffn_norm.weight",  "layers.#.post_attention_layernorm.weight", SAME, 0},
    {"layers.#.ffn.gate.weight",  "layers.#.mlp.gate_proj.weight",            SAME, 0},
    {"layers.#.ffn.up.weight",    "layers.#.mlp.up_proj.weight",              SAME, 0},
    {"layers.#.ffn.down.weight",  "layers.#.mlp.down_proj.weight",            SAME, 0},
    {"final_norm.weight",         "norm.weight",                              SAME, 0},
    {"head.weight",               "lm_head.weight",                           SAME, 0},
    {0}
};

/* Many files have the prefix before all names, or before all but the head's. */
static const struct family {
    const char *prefix;
    const struct rule *rules;
} families[] = {
    [SN_GPT2]     = {"transformer.", gpt2},
    [SN_GPT_NEOX] = {"gpt_neox.",    gpt_neox},
    [SN_LLAMA]    = {"model.",       llama},
    [SN_MIXTRAL]  = {"",             NULL},
};
/* clang-format on */

/* Does the name fit the pattern? *layer is what stands for the #, if there is one. */
static bool fits(const char *pattern, const char *name, int *layer)
{
    const char *hash = strchr(pattern, '#');
    if (!hash)
        return strcmp(pattern, name) == 0;
    size_t before = (size_t)(hash - pattern);
    if (strncmp(pattern, name, before) != 0)
        return false;
    size_t digits = strspn(name + before, "0123456789");
    if (digits < 1 || digits > 6 || strcmp(hash + 1, name + before + digits) != 0)
        return false;
    *layer = (int)strtol(name + before, NULL, 10);
    return true;
}

struct name {
    char text[128];
};

static struct name numbered(const char *prefix, const char *pattern, int layer)
{
    struct name n;
    size_t before = strcspn(pattern, "#");
    if (pattern[before])
        (void)snprintf(n.text, sizeof(n.text), "%s%.*s%d%s", prefix, (int)before, pattern, layer,
                       pattern + before + 1);
    else
        (void)snprintf(n.text, sizeof(n.text), "%s%s", prefix, pattern);
    return n;
}

static const struct rule *rule_of(enum sn_family family, const char *piece, int *layer)
{
    const struct rule *r = families[family].rules;
    for (; r && r->ours; r++)
        if (fits(r->ours, piece, layer))
            return r;
    return NULL;
}

static const struct sn_st_tensor *lookup(const struct sn_safetensors *st, enum sn_family family,
                                         const char *theirs, int layer)
{
    const struct sn_st_tensor *t =
        sn_safetensors_find(st, numbered(families[family].prefix, theirs, layer).text);
    return t ? t : sn_safetensors_find(st, numbered("", theirs, layer).text);
}

const struct sn_st_tensor *sn_hf_source(const struct sn_safetensors *st, enum sn_family family,
                                        const char *piece)
{
    int layer = 0;
    const struct rule *r = rule_of(family, piece, &layer);
    return r ? lookup(st, family, r->theirs, layer) : NULL;
}

const struct sn_st_tensor *sn_hf_sibling(const struct sn_safetensors *st, enum sn_family family,
                                         const char *theirs, int share, int *layer)
{
    const char *prefix = families[family].prefix;
    size_t skip = strncmp(theirs, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    for (const struct rule *r = families[family].rules; r && r->ours; r++)
        if (strchr(r->theirs, '#') && fits(r->theirs, theirs + skip, layer))
            return *layer % share ? lookup(st, family, r->theirs, *layer - *layer % share) : NULL;
    return NULL;
}

/* --- reading --------------------------------------------------------------------------------- */

/* The shape that the file's tensor must have for our rows x cols. */
static enum sn_status want_shape(const struct sn_st_tensor *t, enum form form,
                                 const struct sn_state_shape *ours, struct sn_err *err)
{
    char shape[SN_ST_SHAPE_MAX];
    const char *piece = ours->name;
    int64_t rows = ours->rows, cols = ours->cols;
    if (form == CONV || form == CONV_QKV) {
        rows = ours->cols;
        cols = form == CONV ? ours->rows : 3 * ours->rows;
    } else if (form == ROWS_QKV || form == HEADS_QKV) {
        rows = 3 * ours->rows;
    }
    if (t->rank <= 2 && sn_st_rows(t) == rows && sn_st_cols(t) == cols)
        return SN_OK;
    if (cols == 1)
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s' has shape %s; the model's %s needs [%" PRId64 "]", t->file,
                       t->name, sn_st_shape(shape, t), piece, rows);
    return sn_fail(err, SN_EINPUT,
                   "%s: tensor '%s' has shape %s; the model's %s needs [%" PRId64 ", %" PRId64 "]",
                   t->file, t->name, sn_st_shape(shape, t), piece, rows, cols);
}

/* out[r][c] = t[theirs.row + c][theirs.col + r], a strip of their rows at a time. */
static enum sn_status read_transposed(const struct sn_st_tensor *t, struct sn_st_box theirs,
                                      float *out, struct sn_err *err)
{
    enum { STRIP = 64 };
    int64_t rows = theirs.cols, cols = theirs.rows;
    float *strip = sn_alloc_n((size_t)rows * STRIP, sizeof(*strip));
    if (!strip)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to transpose '%s'", t->file, t->name);
    enum sn_status st = SN_OK;
    for (int64_t c = 0; c < cols && st == SN_OK; c += STRIP) {
        int64_t n = cols - c < STRIP ? cols - c : STRIP;
        struct sn_st_box part = {theirs.row + c, n, theirs.col, rows};
        st = sn_safetensors_read(t, &part, strip, err);
        for (int64_t r = 0; r < rows && st == SN_OK; r++)
            for (int64_t k = 0; k < n; k++)
                out[r * cols + c + k] = strip[k * rows + r];
    }
    sn_free(strip);
    return st;
}

/* Row r of ours is row r % d of head r / d; read are the rows of one head at a time. */
static enum sn_status read_heads(const struct sn_st_tensor *t, int64_t d, int part,
                                 const struct sn_state_tensor *box, float *out, struct sn_err *err)
{
    for (int64_t r = box->row, n; r < box->row + box->n_rows; r += n) {
        int64_t left = box->row + box->n_rows - r;
        n = d - r % d < left ? d - r % d : left;
        struct sn_st_box theirs = {(3 * (r / d) + part) * d + r % d, n, box->col, box->n_cols};
        SN_TRY(sn_safetensors_read(t, &theirs, out + (r - box->row) * box->n_cols, err));
    }
    return SN_OK;
}

static enum sn_status no_source(const struct sn_safetensors *st, enum sn_family family,
                                const struct rule *r, int layer, const char *piece,
                                struct sn_err *err)
{
    const char *file =
        sn_safetensors_count(st) > 0 ? sn_safetensors_get(st, 0)->file : "safetensors";
    if (!r)
        return sn_fail(err, SN_EINPUT,
                       "%s: no name is known for the model's %s in files of the family %s", file,
                       piece, sn_family_name(family));
    return sn_fail(err, SN_EINPUT, "%s: has no tensor '%s', which the model's %s is read from",
                   file, numbered(families[family].prefix, r->theirs, layer).text, piece);
}

/* What ours is read from, and how. */
struct source {
    const struct sn_st_tensor *t;
    const struct rule *rule;
};

static enum sn_status find_source(struct source *out, const struct sn_safetensors *st,
                                  enum sn_family family, const struct sn_state_shape *ours,
                                  struct sn_err *err)
{
    int layer = 0;
    const struct rule *r = rule_of(family, ours->name, &layer);
    const struct sn_st_tensor *t = r ? lookup(st, family, r->theirs, layer) : NULL;
    if (!t)
        return no_source(st, family, r, layer, ours->name, err);
    SN_TRY(want_shape(t, r->form, ours, err));
    *out = (struct source){t, r};
    return SN_OK;
}

enum sn_status sn_hf_check(const struct sn_safetensors *st, const struct sn_model_config *m,
                           const struct sn_state_shape *t, struct sn_err *err)
{
    struct source any;
    return find_source(&any, st, m->family, t, err);
}

enum sn_status sn_hf_read_box(const struct sn_safetensors *st, const struct sn_model_config *m,
                              const struct sn_state_tensor *t, float *out, struct sn_err *err)
{
    struct sn_state_shape shape = {t->group, t->name, t->rows, t->cols};
    struct source s;
    SN_TRY(find_source(&s, st, m->family, &shape, err));
    int64_t first =
        s.rule->part * t->rows + t->row; /* of q | k | v; part is 0 where there is one */
    switch (s.rule->form) {
    case CONV:
    case CONV_QKV:
        return read_transposed(s.t, (struct sn_st_box){t->col, t->n_cols, first, t->n_rows}, out,
                               err);
    case HEADS_QKV:
        return read_heads(s.t, t->rows / m->heads, s.rule->part, t, out, err);
    case SAME:
    case ROWS_QKV:
        break;
    }
    return sn_safetensors_read(s.t, &(struct sn_st_box){first, t->n_rows, t->col, t->n_cols}, out,
                               err);
}
