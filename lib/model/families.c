/*
 * families.c - what a model computes: one block, with the choices that its family's traits make
 * (lib/config/family.h). Experts in place of the feed-forward part are in experts.c.
 *
 * Longer than 500 lines because layers and blocks behind them are made of the same parts.
 */
#include "lib/model/build.h"

#include "kernels/half.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const enum sn_act kernel_of[] = {
    [SN_GELU_TANH] = SN_ACT_GELU_TANH,
    [SN_GELU] = SN_ACT_GELU_ERF,
};

static struct sn_param param(int64_t cols, enum sn_init init, double std, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static struct sn_param param(int64_t cols, enum sn_init init, double std, const char *fmt, ...)
{
    struct sn_param p = {.cols = cols, .init = init, .std = (float)std};
    p.decay = cols > 1;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(p.name, sizeof(p.name), fmt, ap);
    va_end(ap);
    return p;
}

/* A parameter of one tensor, named like it. */
static int single(struct sn_model_builder *b, int64_t rows, int64_t cols, enum sn_init init,
                  double std, const char *name)
{
    struct sn_param p = param(cols, init, std, "%s", name);
    sn_model_tensor(b, &p, rows, "%s", name);
    return sn_model_param(b, &p);
}

/* The layer whose weights this layer uses. */
static int owner(const struct sn_model_builder *b)
{
    if (b->layer >= b->config->layers)
        return b->layer;
    return b->layer - b->layer % b->config->share_layers;
}

/* What all weights of norms are together with the shift: 1. */
static enum sn_init init_of_norms(const struct sn_model_builder *b)
{
    return b->traits->norm_shift == 1 ? SN_INIT_ZEROS : SN_INIT_ONES;
}

static int norm_of(struct sn_model_builder *b, int x, const char *which, int64_t d, double eps)
{
    enum sn_node_kind kind = b->traits->norm == SN_RMSNORM ? SN_NODE_RMSNORM : SN_NODE_LAYERNORM;
    char name[96];
    const char *prefix = b->layer < 0 ? "" : "layers.";
    char number[16] = "";
    if (b->layer >= 0)
        (void)snprintf(number, sizeof(number), "%d.", owner(b));
    (void)snprintf(name, sizeof(name), "%s%s%s.weight", prefix, number, which);
    int w = single(b, d, 1, init_of_norms(b), 0, name);
    int bias = -1;
    if (kind == SN_NODE_LAYERNORM) {
        (void)snprintf(name, sizeof(name), "%s%s%s.bias", prefix, number, which);
        bias = single(b, d, 1, SN_INIT_ZEROS, 0, name);
    }
    int y = sn_model_value(b, d);
    struct sn_node *n = b->layer < 0 ? sn_model_node(b, kind, "%s", which)
                                     : sn_model_node(b, kind, "l%d.%s", b->layer, which);
    n->in[0] = x;
    n->out = y;
    n->param[0] = w;
    n->param[1] = bias;
    n->attr.eps = (float)eps;
    n->attr.shift = (float)b->traits->norm_shift;
    return y;
}

static int norm(struct sn_model_builder *b, int x, const char *which)
{
    return norm_of(b, x, which, b->config->hidden, b->config->norm_eps);
}

/* y = x W^T (+ b) at a point of the current layer. The logical tensors of the weight are given; a
 * bias has the same ones. */
static int linear(struct sn_model_builder *b, enum sn_linear which, int x, struct sn_param *w,
                  const char *point)
{
    struct sn_param p = {0};
    bool has_bias = sn_model_biases(b->config) & which;
    if (has_bias) {
        p = param(1, SN_INIT_ZEROS, 0, "layers.%d.%s.bias", owner(b), point);
        for (int i = 0; i < w->n_tensors; i++) {
            int stem = (int)snprintf(NULL, 0, "%s", w->tensor[i].name) - (int)sizeof("weight") + 1;
            sn_model_tensor(b, &p, w->tensor[i].rows, "%.*sbias", stem, w->tensor[i].name);
        }
    }
    int weight = sn_model_param(b, w); /* its logical tensors are the model's from here on */
    int bias = has_bias ? sn_model_param(b, &p) : -1;
    int y = sn_model_value(b, w->rows);
    struct sn_node *n = sn_model_node(b, SN_NODE_LINEAR, "l%d.%s", b->layer, point);
    n->in[0] = x;
    n->out = y;
    n->param[0] = weight;
    n->param[1] = bias;
    return sn_lora_build(b, weight, x, y, point);
}

static int unary(struct sn_model_builder *b, enum sn_node_kind kind, int x, int64_t cols,
                 const char *point, struct sn_node **node)
{
    int y = sn_model_value(b, cols);
    struct sn_node *n = sn_model_node(b, kind, "l%d.%s", b->layer, point);
    n->in[0] = x;
    n->out = y;
    *node = n;
    return y;
}

uint32_t sn_model_site(const struct sn_model_builder *b, uint32_t which)
{
    return b->layer < 0 ? 0 : 4u * ((uint32_t)b->layer + 1u) + which;
}

uint32_t sn_model_sites(const struct sn_model_config *c)
{
    return 4u * ((uint32_t)sn_model_blocks(c) + 1u);
}

static int dropout(struct sn_model_builder *b, int x, uint32_t which, const char *point)
{
    if (b->config->dropout <= 0)
        return x;
    struct sn_node *n;
    int y = unary(b, SN_NODE_DROPOUT, x, b->config->hidden, point, &n);
    n->attr.random.drop = (float)b->config->dropout;
    n->attr.random.site = sn_model_site(b, which);
    return y;
}

/* y = factor x; nothing where the factor is 1, or 0: as usual. */
static int scale(struct sn_model_builder *b, int x, double factor, const char *point)
{
    struct sn_node *n;
    if (factor <= 0 || factor == 1)
        return x;
    int y = unary(b, SN_NODE_SCALE, x, b->config->hidden, point, &n);
    if (b->layer < 0)
        (void)snprintf(n->point, sizeof(n->point), "%s", point);
    n->attr.scale = (float)factor;
    return y;
}

static int add(struct sn_model_builder *b, int x, int y, const char *point)
{
    struct sn_node *n;
    int z = unary(b, SN_NODE_ADD, x, b->config->hidden, point, &n);
    n->in[1] = y;
    return z;
}

/* Or with norms over all heads of q, and all of k. */
static int wide_norms(struct sn_model_builder *b, int qkv, int64_t q, int64_t kv)
{
    struct sn_node *n;
    if (!b->traits->wide_norms)
        return qkv;
    char name[2][96];
    (void)snprintf(name[0], sizeof(name[0]), "layers.%d.attn.q_norm.weight", owner(b));
    (void)snprintf(name[1], sizeof(name[1]), "layers.%d.attn.k_norm.weight", owner(b));
    int of_q = single(b, q, 1, init_of_norms(b), 0, name[0]);
    int of_k = single(b, kv, 1, init_of_norms(b), 0, name[1]);
    int y = unary(b, SN_NODE_WIDE_NORM, qkv, q + 2 * kv, "attn.wide_norm", &n);
    n->param[0] = of_q;
    n->param[1] = of_k;
    n->attr.eps = (float)b->config->norm_eps;
    n->attr.shift = (float)b->traits->norm_shift;
    return y;
}

/* Does this layer rotate? */
static bool turns(const struct sn_model_builder *b)
{
    int every = b->config->no_rope_every, like = sn_layer_like(b->config, b->layer);
    return b->traits->positions == SN_ROTARY && !(every > 0 && (like + 1) % every == 0);
}

/* What q and k are before they are rotated: with norms of their heads, where the family has them. */
static int head_norms(struct sn_model_builder *b, int qkv, int64_t cols)
{
    const struct sn_model_config *c = b->config;
    int64_t width = sn_model_head_dim(c);
    struct sn_node *n;
    if (!b->traits->head_norms)
        return qkv;
    struct sn_param w = param(1, init_of_norms(b), 0, "layers.%d.attn.qk_norm.weight", owner(b));
    sn_model_tensor(b, &w, width, "layers.%d.attn.q_norm.weight", owner(b));
    sn_model_tensor(b, &w, width, "layers.%d.attn.k_norm.weight", owner(b));
    int weight = sn_model_param(b, &w);
    int y = unary(b, SN_NODE_HEAD_NORM, qkv, cols, "attn.qk_norm", &n);
    n->param[0] = weight;
    n->attr.eps = (float)c->norm_eps;
    n->attr.shift = (float)b->traits->norm_shift;
    n->attr.attention.heads = c->heads;
    n->attr.attention.kv_heads = c->kv_heads;
    n->attr.attention.head_dim = (int32_t)width;
    return y;
}

/* q and k, turned by their positions: slower or faster in layers with a window, where the model has it. */
static int rotated(struct sn_model_builder *b, int qkv, int64_t cols)
{
    const struct sn_model_config *c = b->config;
    bool local = c->rope_local_theta > 0 && sn_layer_is_local(c, b->layer);
    double amplitude = local ? 1 : sn_rope_amplitude(c);
    struct sn_node *n;
    if (!turns(b))
        return qkv;
    int y = unary(b, SN_NODE_ROPE, qkv, cols, "attn.rope", &n);
    n->attr.attention.heads = c->heads + c->kv_heads;
    n->attr.attention.head_dim = (int32_t)sn_model_head_dim(c);
    n->attr.attention.rotary_dim = sn_model_rotated(c);
    n->attr.attention.rotary_from = sn_model_has_latents(c) ? c->latent.nope : 0;
    n->attr.attention.interleaved = sn_model_has_latents(c);
    n->attr.attention.theta = (float)(local ? c->rope_local_theta : c->rope_theta);
    n->attr.attention.frequencies = local ? NULL : sn_rope_frequencies(b);
    n->attr.attention.amplitude = amplitude == 1 ? 0 : (float)amplitude;
    return y;
}

/* x W^T, of a matrix that is one tensor, without a bias. */
static int product(struct sn_model_builder *b, int x, int64_t cols, int64_t rows, const char *point)
{
    struct sn_param w =
        param(cols, SN_INIT_NORMAL, b->config->init_std, "layers.%d.%s.weight", owner(b), point);
    sn_model_tensor(b, &w, rows, "layers.%d.%s.weight", owner(b), point);
    return linear(b, SN_LINEAR_NONE, x, &w, point);
}

/* q | k | v of latents c (DeepSeek-AI, arXiv 2405.04434, 2.1), of which norms have an eps of their own:
 *
 *   q = W_q_b norm(W_q_a x), or W_q x; k' | v of each head = W_kv_b norm(W_kv_a x);
 *   k = k' | W_k_rope x, the same for all heads
 */
static int of_latents(struct sn_model_builder *b, int x)
{
    static const double eps = 1e-6;
    const struct sn_model_config *c = b->config;
    const struct sn_latent_config *a = &c->latent;
    int64_t d = c->hidden, q_cols = sn_model_query_width(c);
    int q;
    if (a->q > 0) {
        q = norm_of(b, product(b, x, d, a->q, "attn.q_a"), "attn.q_a_norm", a->q, eps);
        q = product(b, q, a->q, q_cols, "attn.q_b");
    } else {
        q = product(b, x, d, q_cols, "attn.q");
    }
    int kv = norm_of(b, product(b, x, d, a->kv, "attn.kv_a"), "attn.kv_a_norm", a->kv, eps);
    int r = product(b, x, d, a->rope, "attn.k_rope");
    kv = product(b, kv, a->kv, (int64_t)c->heads * (a->nope + a->v), "attn.kv_b");
    struct sn_node *n;
    int y = unary(b, SN_NODE_JOIN, q, 2 * q_cols + sn_model_value_width(c), "attn.join", &n);
    n->in[1] = kv;
    n->in[2] = r;
    n->attr.attention.heads = n->attr.attention.kv_heads = c->heads;
    n->attr.attention.head_dim = sn_model_head_dim(c);
    n->attr.attention.v_dim = a->v;
    return y;
}

/* q | k | v of the block's input, with norms of what the family has some of. */
static int of_input(struct sn_model_builder *b, int x)
{
    const struct sn_model_config *c = b->config;
    int64_t q = sn_model_query_width(c), kv = (int64_t)sn_model_head_dim(c) * c->kv_heads;
    int l = owner(b);
    struct sn_param wqkv =
        param(c->hidden, SN_INIT_NORMAL, c->init_std, "layers.%d.attn.qkv.weight", l);
    sn_model_tensor(b, &wqkv, q, "layers.%d.attn.q.weight", l);
    sn_model_tensor(b, &wqkv, kv, "layers.%d.attn.k.weight", l);
    sn_model_tensor(b, &wqkv, kv, "layers.%d.attn.v.weight", l);
    int qkv = head_norms(b, linear(b, SN_LINEAR_QKV, x, &wqkv, "attn.qkv"), q + 2 * kv);
    return wide_norms(b, qkv, q, kv);
}

static int attention(struct sn_model_builder *b, int x)
{
    const struct sn_model_config *c = b->config;
    int64_t width = sn_model_head_dim(c), v = sn_model_value_width(c);
    int64_t cols = sn_model_query_width(c) + width * c->kv_heads +
                   (int64_t)sn_model_value_dim(c) * c->kv_heads;
    struct sn_node *n;
    int qkv = rotated(b, sn_model_has_latents(c) ? of_latents(b, x) : of_input(b, x), cols);
    int o = unary(b, SN_NODE_ATTENTION, qkv, v, "attn.core", &n);
    n->attr.attention.heads = c->heads;
    n->attr.attention.kv_heads = c->kv_heads;
    n->attr.attention.head_dim = (int32_t)width;
    n->attr.attention.v_dim = sn_model_has_latents(c) ? c->latent.v : 0;
    n->attr.attention.scale =
        (float)(c->attention_scale > 0 ? c->attention_scale
                                       : sn_rope_score_scale(c) / sqrt((double)width));
    n->attr.attention.window = sn_layer_window(c, b->layer);
    n->attr.attention.cap = (float)c->score_cap;
    n->attr.random.drop = (float)c->dropout;
    n->attr.random.site = sn_model_site(b, 0);
    struct sn_param wo = param(v, SN_INIT_NORMAL, c->init_std / sqrt(2.0 * c->layers),
                               "layers.%d.attn.o.weight", owner(b));
    sn_model_tensor(b, &wo, c->hidden, "layers.%d.attn.o.weight", owner(b));
    return dropout(b, linear(b, SN_LINEAR_O, o, &wo, "attn.o"), 1, "attn.drop");
}

/* down(act(gate x) * up x), inner width f, at points that begin with `where`. */
static int swiglu(struct sn_model_builder *b, int x, int64_t f, const char *where)
{
    const struct sn_model_config *c = b->config;
    char point[64];
    int l = owner(b);
    struct sn_node *n;
    struct sn_param w =
        param(c->hidden, SN_INIT_NORMAL, c->init_std, "layers.%d.%s.gate_up.weight", l, where);
    sn_model_tensor(b, &w, f, "layers.%d.%s.gate.weight", l, where);
    sn_model_tensor(b, &w, f, "layers.%d.%s.up.weight", l, where);
    (void)snprintf(point, sizeof(point), "%s.gate_up", where);
    int h = linear(b, SN_LINEAR_UP, x, &w, point);
    (void)snprintf(point, sizeof(point), "%s.swiglu", where);
    h = unary(b, SN_NODE_SWIGLU, h, f, point, &n);
    n->attr.gate = c->activation == SN_SILU ? SN_GATE_SILU : SN_GATE_GELU_TANH;
    struct sn_param v = param(f, SN_INIT_NORMAL, c->init_std / sqrt(2.0 * c->layers),
                              "layers.%d.%s.down.weight", l, where);
    sn_model_tensor(b, &v, c->hidden, "layers.%d.%s.down.weight", l, where);
    (void)snprintf(point, sizeof(point), "%s.down", where);
    return linear(b, SN_LINEAR_DOWN, h, &v, point);
}

static int plain_ffn(struct sn_model_builder *b, int x)
{
    const struct sn_model_config *c = b->config;
    int64_t d = c->hidden, f = c->ffn;
    int l = owner(b);
    struct sn_node *n;
    struct sn_param w = param(d, SN_INIT_NORMAL, c->init_std, "layers.%d.ffn.up.weight", l);
    sn_model_tensor(b, &w, f, "layers.%d.ffn.up.weight", l);
    int h = linear(b, SN_LINEAR_UP, x, &w, "ffn.up");
    h = unary(b, SN_NODE_ACT, h, f, "ffn.act", &n);
    n->attr.act = kernel_of[b->config->activation];
    struct sn_param v = param(f, SN_INIT_NORMAL, c->init_std / sqrt(2.0 * c->layers),
                              "layers.%d.ffn.down.weight", l);
    sn_model_tensor(b, &v, d, "layers.%d.ffn.down.weight", l);
    return linear(b, SN_LINEAR_DOWN, h, &v, "ffn.down");
}

/* Shared experts are one of their joint width: sums of products side by side (Dai et al.,
 * "DeepSeekMoE", arXiv 2401.06066, equation 9). */
static int shared_experts(struct sn_model_builder *b, int x)
{
    const struct sn_model_config *c = b->config;
    struct sn_node *n;
    int y = swiglu(b, x, sn_model_shared_ffn(c), "ffn.shared");
    if (!b->traits->shared_gate)
        return y;
    struct sn_param w = param(c->hidden, SN_INIT_NORMAL, c->init_std,
                              "layers.%d.ffn.shared_gate.weight", owner(b));
    sn_model_tensor(b, &w, 1, "layers.%d.ffn.shared_gate.weight", owner(b));
    int gate = sn_model_param(b, &w);
    y = unary(b, SN_NODE_GATE, y, c->hidden, "ffn.shared_gate", &n);
    n->in[1] = x;
    n->param[0] = gate;
    return y;
}

static int ffn(struct sn_model_builder *b, int x)
{
    const struct sn_model_config *c = b->config;
    int y;
    if (sn_layer_has_experts(c, b->layer)) {
        y = sn_experts_build(b, owner(b), x);
        if (c->experts.shared > 0)
            y = add(b, y, shared_experts(b, x), "ffn.shared.add");
    } else {
        y = b->traits->gated ? swiglu(b, x, c->dense_ffn > 0 ? c->dense_ffn : c->ffn, "ffn")
                             : plain_ffn(b, x);
    }
    return dropout(b, y, 2, "ffn.drop");
}

/* What attention (or else the feed-forward part) adds, with its norms before and behind it. */
static int branch(struct sn_model_builder *b, int x, bool attends)
{
    static const char *const names[][2] = {{"ffn_norm", "ffn_post_norm"},
                                           {"attn_norm", "attn_post_norm"}};
    enum sn_norm_at at = b->traits->norm_at;
    int y = at == SN_NORM_AFTER ? x : norm(b, x, names[attends][0]);
    y = attends ? attention(b, y) : ffn(b, y);
    y = at == SN_NORM_BEFORE ? y : norm(b, y, names[attends][at == SN_NORM_AROUND]);
    return scale(b, y, b->config->residual_scale, attends ? "attn.scale" : "ffn.scale");
}

static int block(struct sn_model_builder *b, int x)
{
    int a = branch(b, x, true);
    if (b->config->parallel_residual)
        return add(b, x, add(b, a, branch(b, x, false), "attn.add"), "ffn.add");
    x = add(b, x, a, "attn.add");
    return add(b, x, branch(b, x, false), "ffn.add");
}

/* A root is rounded to the type of activations, as transformers multiplies by it. */
static double embed_scale(const struct sn_model_builder *b)
{
    double root = sn_model_embed_scale(b->config);
    if (b->config->embed_scale > 0)
        return b->config->embed_scale;
    switch (b->train->precision) {
    case SN_BF16:
        return (double)sn_bf16_to_f32(sn_f32_to_bf16((float)root));
    case SN_F16:
        return (double)sn_f16_to_f32(sn_f32_to_f16((float)root));
    default:
        return root;
    }
}

static int embedding(struct sn_model_builder *b, int *table)
{
    const struct sn_model_config *c = b->config;
    int ids = sn_model_value(b, 1);
    int x = sn_model_value(b, c->hidden);
    *table = single(b, c->vocab, c->hidden, SN_INIT_NORMAL, c->init_std, "embed.weight");
    int positions =
        b->traits->positions == SN_LEARNED
            ? single(b, c->seq, c->hidden, SN_INIT_NORMAL, c->init_std, "embed.position")
            : -1;
    struct sn_node *n = sn_model_node(b, SN_NODE_EMBED, "embed");
    n->in[0] = ids;
    n->out = x;
    n->param[0] = *table;
    n->param[1] = positions;
    x = scale(b, x, embed_scale(b), "embed.scale");
    return dropout(b, x, 0, "embed.drop");
}

/* The head: logits of x, and their loss. depth: as struct sn_node has it. */
static void predict(struct sn_model_builder *b, int x, int table, int depth)
{
    const struct sn_model_config *c = b->config;
    x = scale(b, x, c->logits_divisor > 0 ? 1 / c->logits_divisor : 1,
              depth ? "mtp.head.scale" : "head.scale");
    int head = c->tied_embeddings
                   ? table
                   : single(b, c->vocab, c->hidden, SN_INIT_NORMAL, c->init_std, "head.weight");
    int loss = sn_model_value(b, 1);
    struct sn_node *n = depth ? sn_model_node(b, SN_NODE_HEAD_LOSS, "l%d.mtp.head", b->layer)
                              : sn_model_node(b, SN_NODE_HEAD_LOSS, "head");
    n->in[0] = x;
    n->out = loss;
    n->param[0] = head;
    n->depth = depth;
    n->attr.vocab.cap = (float)c->logit_cap;
    n->attr.vocab.weight = depth ? (float)(b->train->mtp_loss / c->mtp) : 0;
}

/* What the embedding gives for the token `depth` further on. */
static int embed_further(struct sn_model_builder *b, int ids, int table, int depth)
{
    struct sn_node *n;
    int x = unary(b, SN_NODE_EMBED, ids, b->config->hidden, "mtp.embed", &n);
    n->param[0] = table;
    n->depth = depth;
    return scale(b, x, embed_scale(b), "mtp.embed.scale");
}

/* Multi-token prediction (DeepSeek-AI, "DeepSeek-V3", arXiv 2412.19437, 2.2) of depth k: a block on
 *
 *   h' = M [norm(e) | norm(h)] = M_e norm(e) + M_h norm(h)
 *
 * with e of token i + k and h what the head reads of the model (k = 1) or of the block before: behind its norm, as
 * Megatron-LM and transformers have it. The head predicts token i + k + 1 of what the block gives, after a norm
 * of its own. That is the value here. */
static int further(struct sn_model_builder *b, int h, int ids, int table, int depth)
{
    int64_t d = b->config->hidden;
    int e = norm(b, embed_further(b, ids, table, depth), "mtp.embed_norm");
    e = product(b, e, d, d, "mtp.embed_proj");
    h = product(b, norm(b, h, "mtp.hidden_norm"), d, d, "mtp.hidden_proj");
    h = norm(b, block(b, add(b, h, e, "mtp.add")), "mtp.norm");
    predict(b, h, table, depth);
    return h;
}

void sn_family_build(struct sn_model_builder *b)
{
    const struct sn_model_config *c = b->config;
    int table, ids = 0;
    int x = embedding(b, &table);
    for (b->layer = 0; b->layer < c->layers; b->layer++)
        x = block(b, sn_prompt_build(b, x));
    b->layer = -1;
    x = norm(b, x, "final_norm");
    predict(b, x, table, 0);
    for (int depth = 1; depth <= c->mtp; depth++) {
        b->layer = c->layers + depth - 1;
        x = further(b, x, ids, table, depth);
    }
    b->layer = -1;
}
