/* Every value of the field's files comes to its place in our tensors. */
#include "lib/base/log.h"
#include "tests/lib/dice.h"
#include "tests/lib/hf_test.h"

/* Where element (r, c) of our tensor lies in theirs. */
typedef int64_t place(int64_t r, int64_t c);

static int64_t wide; /* columns of ours, for the places below */
static int64_t as_ours(int64_t r, int64_t c)
{
    return r * wide + c;
}

static void comes_from(struct bench *b, const char *piece, const char *name, place *at)
{
    const struct sn_state_tensor *t = ours(b, piece);
    bool good = t && number(b, name) >= 0;
    wide = t ? t->cols : 0;
    for (int64_t r = 0; good && r < t->rows; r++)
        for (int64_t c = 0; good && c < t->cols; c++)
            good = t->p[r * t->cols + c] == theirs(b, name, at(r, c));
    tap_ok(good, "%s comes from %s", piece, name);
}

/* --- gpt2 ------------------------------------------------------------------------------------ */

static int64_t conv_q(int64_t r, int64_t c)
{
    return c * 3 * D + r;
}
static int64_t conv_k(int64_t r, int64_t c)
{
    return c * 3 * D + D + r;
}
static int64_t conv_v(int64_t r, int64_t c)
{
    return c * 3 * D + 2 * D + r;
}
static int64_t third_q(int64_t r, int64_t c)
{
    return r + c;
}
static int64_t third_k(int64_t r, int64_t c)
{
    return D + r + c;
}
static int64_t third_v(int64_t r, int64_t c)
{
    return 2 * D + r + c;
}
static int64_t turned_to_d(int64_t r, int64_t c)
{
    return c * D + r;
}
static int64_t turned_to_f(int64_t r, int64_t c)
{
    return c * F + r;
}

static void gpt2_is_transposed_and_cut(void)
{
    struct bench b;
    setup(&b, SN_GPT2);
    make_model(&b);
    list_gpt2(&b, "");
    write_file(&b, -1, -1);
    init_says(&b, "");
    comes_from(&b, "embed.weight", "wte.weight", as_ours);
    comes_from(&b, "embed.position", "wpe.weight", as_ours);
    comes_from(&b, "layers.1.attn_norm.weight", "h.1.ln_1.weight", as_ours);
    comes_from(&b, "layers.1.attn_norm.bias", "h.1.ln_1.bias", as_ours);
    comes_from(&b, "layers.0.attn.q.weight", "h.0.attn.c_attn.weight", conv_q);
    comes_from(&b, "layers.0.attn.k.weight", "h.0.attn.c_attn.weight", conv_k);
    comes_from(&b, "layers.1.attn.v.weight", "h.1.attn.c_attn.weight", conv_v);
    comes_from(&b, "layers.1.attn.q.bias", "h.1.attn.c_attn.bias", third_q);
    comes_from(&b, "layers.1.attn.k.bias", "h.1.attn.c_attn.bias", third_k);
    comes_from(&b, "layers.0.attn.v.bias", "h.0.attn.c_attn.bias", third_v);
    comes_from(&b, "layers.0.attn.o.weight", "h.0.attn.c_proj.weight", turned_to_d);
    comes_from(&b, "layers.0.attn.o.bias", "h.0.attn.c_proj.bias", as_ours);
    comes_from(&b, "layers.0.ffn_norm.weight", "h.0.ln_2.weight", as_ours);
    comes_from(&b, "layers.0.ffn_norm.bias", "h.0.ln_2.bias", as_ours);
    comes_from(&b, "layers.0.ffn.up.weight", "h.0.mlp.c_fc.weight", turned_to_f);
    comes_from(&b, "layers.0.ffn.up.bias", "h.0.mlp.c_fc.bias", as_ours);
    comes_from(&b, "layers.1.ffn.down.weight", "h.1.mlp.c_proj.weight", turned_to_d);
    comes_from(&b, "layers.1.ffn.down.bias", "h.1.mlp.c_proj.bias", as_ours);
    comes_from(&b, "final_norm.weight", "ln_f.weight", as_ours);
    comes_from(&b, "final_norm.bias", "ln_f.bias", as_ours);
    teardown(&b);
}

/* --- gpt-neox -------------------------------------------------------------------------------- */

static void list_gpt_neox(struct bench *b)
{
    (void)add(b, V, D, "gpt_neox.embed_in.weight");
    add_layers(b, D, 0, "gpt_neox.layers", "input_layernorm.weight");
    add_layers(b, D, 0, "gpt_neox.layers", "input_layernorm.bias");
    add_layers(b, 3 * D, D, "gpt_neox.layers", "attention.query_key_value.weight");
    add_layers(b, 3 * D, 0, "gpt_neox.layers", "attention.query_key_value.bias");
    add_layers(b, D, D, "gpt_neox.layers", "attention.dense.weight");
    add_layers(b, D, 0, "gpt_neox.layers", "attention.dense.bias");
    add_layers(b, D, 0, "gpt_neox.layers", "post_attention_layernorm.weight");
    add_layers(b, D, 0, "gpt_neox.layers", "post_attention_layernorm.bias");
    add_layers(b, F, D, "gpt_neox.layers", "mlp.dense_h_to_4h.weight");
    add_layers(b, F, 0, "gpt_neox.layers", "mlp.dense_h_to_4h.bias");
    add_layers(b, D, F, "gpt_neox.layers", "mlp.dense_4h_to_h.weight");
    add_layers(b, D, 0, "gpt_neox.layers", "mlp.dense_4h_to_h.bias");
    (void)add(b, D, 0, "gpt_neox.final_layer_norm.weight");
    (void)add(b, D, 0, "gpt_neox.final_layer_norm.bias");
    (void)add(b, V, D, "embed_out.weight");
    (void)add(b, d / 2, 0, "gpt_neox.layers.0.attention.rotary_emb.inv_freq");
}

/* Rows of one head: q, then k, then v, d of each. */
static int64_t head_q(int64_t r, int64_t c)
{
    return ((r / d * 3 + 0) * d + r % d) * wide + c;
}
static int64_t head_k(int64_t r, int64_t c)
{
    return ((r / d * 3 + 1) * d + r % d) * wide + c;
}
static int64_t head_v(int64_t r, int64_t c)
{
    return ((r / d * 3 + 2) * d + r % d) * wide + c;
}

static void gpt_neox_heads_are_taken_apart(void)
{
    struct bench b;
    setup(&b, SN_GPT_NEOX);
    make_model(&b);
    list_gpt_neox(&b);
    write_file(&b, -1, -1);
    init_says(&b, "");
    comes_from(&b, "embed.weight", "gpt_neox.embed_in.weight", as_ours);
    comes_from(&b, "layers.0.attn_norm.bias", "gpt_neox.layers.0.input_layernorm.bias", as_ours);
    comes_from(&b, "layers.0.attn.q.weight", "gpt_neox.layers.0.attention.query_key_value.weight",
               head_q);
    comes_from(&b, "layers.1.attn.k.weight", "gpt_neox.layers.1.attention.query_key_value.weight",
               head_k);
    comes_from(&b, "layers.1.attn.v.weight", "gpt_neox.layers.1.attention.query_key_value.weight",
               head_v);
    comes_from(&b, "layers.0.attn.q.bias", "gpt_neox.layers.0.attention.query_key_value.bias",
               head_q);
    comes_from(&b, "layers.0.attn.k.bias", "gpt_neox.layers.0.attention.query_key_value.bias",
               head_k);
    comes_from(&b, "layers.1.attn.v.bias", "gpt_neox.layers.1.attention.query_key_value.bias",
               head_v);
    comes_from(&b, "layers.1.attn.o.weight", "gpt_neox.layers.1.attention.dense.weight", as_ours);
    comes_from(&b, "layers.1.attn.o.bias", "gpt_neox.layers.1.attention.dense.bias", as_ours);
    comes_from(&b, "layers.1.ffn_norm.weight", "gpt_neox.layers.1.post_attention_layernorm.weight",
               as_ours);
    comes_from(&b, "layers.1.ffn.up.weight", "gpt_neox.layers.1.mlp.dense_h_to_4h.weight", as_ours);
    comes_from(&b, "layers.1.ffn.up.bias", "gpt_neox.layers.1.mlp.dense_h_to_4h.bias", as_ours);
    comes_from(&b, "layers.0.ffn.down.weight", "gpt_neox.layers.0.mlp.dense_4h_to_h.weight",
               as_ours);
    comes_from(&b, "layers.0.ffn.down.bias", "gpt_neox.layers.0.mlp.dense_4h_to_h.bias", as_ours);
    comes_from(&b, "final_norm.bias", "gpt_neox.final_layer_norm.bias", as_ours);
    comes_from(&b, "head.weight", "embed_out.weight", as_ours);
    teardown(&b);
}

/* --- llama ----------------------------------------------------------------------------------- */

static void llama_is_as_ours(void)
{
    struct bench b;
    setup(&b, SN_LLAMA);
    make_model(&b);
    list_llama(&b);
    write_file(&b, -1, -1);
    init_says(&b, "");
    comes_from(&b, "embed.weight", "model.embed_tokens.weight", as_ours);
    comes_from(&b, "layers.1.attn_norm.weight", "model.layers.1.input_layernorm.weight", as_ours);
    comes_from(&b, "layers.1.attn.q.weight", "model.layers.1.self_attn.q_proj.weight", as_ours);
    comes_from(&b, "layers.1.attn.k.weight", "model.layers.1.self_attn.k_proj.weight", as_ours);
    comes_from(&b, "layers.0.attn.v.weight", "model.layers.0.self_attn.v_proj.weight", as_ours);
    comes_from(&b, "layers.0.attn.o.weight", "model.layers.0.self_attn.o_proj.weight", as_ours);
    comes_from(&b, "layers.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight",
               as_ours);
    comes_from(&b, "layers.0.ffn.gate.weight", "model.layers.0.mlp.gate_proj.weight", as_ours);
    comes_from(&b, "layers.0.ffn.up.weight", "model.layers.0.mlp.up_proj.weight", as_ours);
    comes_from(&b, "layers.0.ffn.down.weight", "model.layers.0.mlp.down_proj.weight", as_ours);
    comes_from(&b, "final_norm.weight", "model.norm.weight", as_ours);
    comes_from(&b, "head.weight", "lm_head.weight", as_ours);
    teardown(&b);
}

static void qwen2_is_llama_with_three_biases(void)
{
    struct bench b;
    setup(&b, SN_QWEN2);
    make_model(&b);
    list_llama(&b);
    add_layers(&b, D, 0, "model.layers", "self_attn.q_proj.bias");
    add_layers(&b, d, 0, "model.layers", "self_attn.k_proj.bias");
    add_layers(&b, d, 0, "model.layers", "self_attn.v_proj.bias");
    write_file(&b, -1, -1);
    init_says(&b, "");
    comes_from(&b, "layers.1.attn.k.weight", "model.layers.1.self_attn.k_proj.weight", as_ours);
    comes_from(&b, "layers.0.attn.q.bias", "model.layers.0.self_attn.q_proj.bias", as_ours);
    comes_from(&b, "layers.1.attn.k.bias", "model.layers.1.self_attn.k_proj.bias", as_ours);
    comes_from(&b, "layers.1.attn.v.bias", "model.layers.1.self_attn.v_proj.bias", as_ours);
    comes_from(&b, "layers.0.ffn.gate.weight", "model.layers.0.mlp.gate_proj.weight", as_ours);
    teardown(&b);
}

/* A llama does not take weights with biases, nor does a qwen2 go without. */
static void biases_are_not_lost(void)
{
    struct bench b;
    setup(&b, SN_LLAMA);
    make_model(&b);
    list_llama(&b);
    add_layers(&b, D, 0, "model.layers", "self_attn.q_proj.bias");
    write_file(&b, -1, -1);
    tap_ok(init(&b) == SN_EINPUT && strstr(b.err.text, "self_attn.q_proj.bias"), "llama: %s",
           b.err.text);
    teardown(&b);
    setup(&b, SN_QWEN2);
    make_model(&b);
    list_llama(&b);
    write_file(&b, -1, -1);
    tap_ok(init(&b) == SN_EINPUT && strstr(b.err.text, "self_attn.q_proj.bias"), "qwen2: %s",
           b.err.text);
    teardown(&b);
}

/* --- boxes ----------------------------------------------------------------------------------- */

/* A box of every tensor, between gaps that must stay as they are. */
static bool boxes_agree(struct bench *b, struct dice *cuts)
{
    enum { GAP = 3, UNTOUCHED = -7 };
    struct sn_state_tensor boxes[MOST];
    struct sn_state part = b->state;
    bool good = true;
    for (int i = 0; i < b->state.n_tensors; i++) {
        struct sn_state_tensor *t = &boxes[i];
        *t = b->tensors[i];
        t->row = roll(cuts, t->rows);
        t->col = roll(cuts, t->cols);
        t->n_rows = roll(cuts, t->rows - t->row + 1);
        t->n_cols = 1 + roll(cuts, t->cols - t->col);
        t->ld = t->n_cols + (roll(cuts, 2) ? GAP : 0);
        t->p = sn_alloc_n((size_t)(t->n_rows * t->ld), sizeof(float));
        for (int64_t e = 0; e < t->n_rows * t->ld; e++)
            t->p[e] = UNTOUCHED;
    }
    part.tensors = boxes;
    good = init_at(b, b->root, &part) == SN_OK;
    for (int i = 0; i < b->state.n_tensors; i++) {
        struct sn_state_tensor *t = &boxes[i];
        for (int64_t e = 0; e < t->n_rows * t->ld; e++) {
            int64_t r = e / t->ld, c = e % t->ld;
            float want = UNTOUCHED;
            if (c < t->n_cols)
                want = b->tensors[i].p[(t->row + r) * t->cols + t->col + c];
            good = good && t->p[e] == want;
        }
        sn_free(t->p);
    }
    return good;
}

static void any_box_holds_what_the_whole_tensor_has_there(void)
{
    static const enum sn_family families[] = {SN_GPT2, SN_GPT_NEOX, SN_LLAMA};
    for (int f = 0; f < 3; f++) {
        struct bench b;
        struct dice cuts = {sn_rng_key((uint64_t)f, "boxes"), 0};
        setup(&b, families[f]);
        make_model(&b);
        if (families[f] == SN_GPT2)
            list_gpt2(&b, "");
        else if (families[f] == SN_GPT_NEOX)
            list_gpt_neox(&b);
        else
            list_llama(&b);
        write_file(&b, -1, -1);
        init_says(&b, "");
        bool good = true;
        for (int round = 0; round < 50; round++)
            good = good && boxes_agree(&b, &cuts);
        tap_ok(good, "%s: 50 random boxes of every tensor", sn_family_name(families[f]));
        teardown(&b);
    }
}

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    gpt2_is_transposed_and_cut();
    gpt_neox_heads_are_taken_apart();
    llama_is_as_ours();
    qwen2_is_llama_with_three_biases();
    biases_are_not_lost();
    any_box_holds_what_the_whole_tensor_has_there();
    return tap_done();
}
