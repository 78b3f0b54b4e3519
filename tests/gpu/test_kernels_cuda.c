/*
 * Every CUDA kernel against the CPU's on the sizes of a layer. The kernels' unit tests, which run
 * on the same table (other_table.h), have the odd shapes; here are those at which grids are full,
 * sums are long and the fast paths are taken.
 *
 * usage: test_kernels_cuda [DIVISOR] [--only NAME] [--references DIR | --write DIR]
 *        test_kernels_cuda --list
 *
 * DIVISOR divides sizes, for the emulation. NAME is one case, as --list prints it. The CPU's result
 * is the reference, rounded to storage as it is: a tolerance has room for two roundings. It is
 * computed, or read from DIR (reference.h), where --write has put it.
 *
 * Longer than 500 lines because each kernel has its cases.
 */
#include "tests/gpu/expert_cases.h"
#include "tests/gpu/reference.h"

static const char *only, *references, *writes;

/* --- what the two tables are given ------------------------------------------------------------ */

static void pointwise(struct kt *k, enum sn_op_kind kind)
{
    int64_t t = size(4096, 8), f = size(4096, 64);
    bool glu = kind == SN_OP_SWIGLU || kind == SN_OP_SWIGLU_DX;
    bool dx = kind == SN_OP_ACT_DX || kind == SN_OP_SWIGLU_DX || kind == SN_OP_ADD;
    kt_in(k, 0, shape(type, t, kind == SN_OP_SWIGLU ? 2 * f : f));
    k->a.attr.scale = kind == SN_OP_SCALE ? 2.75f : 0;
    if (dx)
        kt_in(k, 1, shape(type, t, glu ? 2 * f : f));
    kt_out(k, 0, shape(type, t, kind == SN_OP_SWIGLU_DX ? 2 * f : f), SN_WRITE);
}

static void gate(struct kt *k, enum sn_op_kind kind)
{
    int64_t t = size(4096, 8), f = size(4096, 64);
    bool dx = kind == SN_OP_GATE_DX;
    k->magnitude = dx ? sqrt((double)f) : 1.0;
    kt_in(k, 0, shape(type, t, f));
    if (dx)
        kt_in(k, 1, shape(type, t, f));
    kt_in(k, dx ? 2 : 1, shape(SN_F32, t, 1));
    kt_out(k, 0, shape(type, t, f), SN_WRITE);
    if (dx)
        kt_out(k, 1, shape(type, t, 1), SN_WRITE);
}

static void dropout(struct kt *k, enum sn_op_kind kind)
{
    int64_t s = size(2048, 16), d = size(4096, 64);
    kt_in(k, 0, shape(type, 2 * s, d));
    kt_in(k, 1, shape(type, 2 * s, d));
    k->a.attr = (struct sn_attr){.position.seq = s, .random.site = 9, .random.drop = 0.2f};
    k->a.attr.random.jitter = kind == SN_OP_JITTER ? 0.1f : 0;
    kt_out(k, 0, shape(type, 2 * s, d), SN_WRITE);
}

static void copy(struct kt *k, enum sn_op_kind kind)
{
    int64_t n = size(1 << 24, 64);
    if (kind == SN_OP_COPY)
        kt_in(k, 0, shape(SN_F32, 1, n));
    kt_out(k, 0, shape(type, 1, n), SN_WRITE);
}

static void norm(struct kt *k, enum sn_op_kind kind)
{
    int64_t t = size(4096, 8), d = size(8192, 64);
    bool layer =
        kind == SN_OP_LAYERNORM || kind == SN_OP_LAYERNORM_DX || kind == SN_OP_LAYERNORM_DW;
    bool forward = kind == SN_OP_LAYERNORM || kind == SN_OP_RMSNORM;
    bool dw = kind == SN_OP_LAYERNORM_DW || kind == SN_OP_RMSNORM_DW;
    k->a.attr.eps = 1e-5f;
    kt_in(k, 0, shape(type, t, d));
    if (forward) {
        kt_in(k, 1, shape(type, 1, d));
        if (layer)
            kt_in(k, 2, shape(type, 1, d));
        kt_out(k, 0, shape(type, t, d), SN_WRITE);
        kt_out(k, 1, shape(SN_F32, t, layer ? 2 : 1), SN_WRITE);
        return;
    }
    kt_in(k, 1, shape(type, t, d));
    if (!dw)
        kt_in(k, 2, shape(type, 1, d));
    struct sn_mat *stats = kt_in(k, dw ? 2 : 3, shape(SN_F32, t, layer ? 2 : 1));
    for (int64_t r = 0; r < t; r++)
        kt_set(stats, r, layer ? 1 : 0, 1.0 + 1e-3 * (double)(r % 7));
    kt_out(k, 0, shape(dw ? SN_F32 : type, dw ? 1 : t, d), SN_WRITE);
    if (layer && dw)
        kt_out(k, 1, shape(SN_F32, 1, d), SN_ADD);
}

static void norm_of_sum(struct kt *k, enum sn_op_kind kind)
{
    norm(k, kind);
    kt_in(k, 3, shape(type, k->a.in[0].rows, k->a.in[0].cols));
    kt_out(k, 2, shape(type, k->a.in[0].rows, k->a.in[0].cols), SN_WRITE);
}

/* Of a slice; `columns` K of what is known of it. */
static void norm_part(struct kt *k, enum sn_op_kind kind, int columns)
{
    int64_t t = size(4096, 8), d = size(8192, 64);
    kt_in(k, 0, shape(type, t, d));
    if (kind == SN_OP_NORM_DX_PART) {
        kt_in(k, 1, shape(type, t, d));
        kt_in(k, 2, shape(type, 1, d));
        kt_in(k, 3, shape(SN_F32, t, columns));
    }
    kt_out(k, 0, shape(SN_F32, t, columns), SN_WRITE);
}

static void rms_part(struct kt *k, enum sn_op_kind kind)
{
    norm_part(k, kind, 1);
}

static void layer_part(struct kt *k, enum sn_op_kind kind)
{
    norm_part(k, kind, 2);
}

/* One of two slices of rows, of which `parts` (input 4, or 5 of a gradient) say the rest. */
static void norm_of_parts(struct kt *k, enum sn_op_kind kind)
{
    norm(k, kind);
    bool forward = kind == SN_OP_LAYERNORM || kind == SN_OP_RMSNORM;
    int64_t columns = kind == SN_OP_LAYERNORM || kind == SN_OP_LAYERNORM_DX ? 2 : 1;
    struct sn_mat *parts = kt_in(k, forward ? 4 : 5, shape(SN_F32, 2 * k->a.in[0].rows, columns));
    for (int64_t i = 0; i < parts->rows; i++) /* of squares */
        kt_set(parts, i, columns - 1, 1.0 + 1e-3 * (double)(i % 7));
}

static void embed(struct kt *k, enum sn_op_kind kind)
{
    int64_t s = size(2048, 16), d = size(4096, 64), v = size(32000, 64);
    k->a.attr.position.seq = s;
    if (kind == SN_OP_POS_GRAD) {
        kt_in(k, 0, shape(type, 2 * s, d));
        kt_out(k, 0, shape(SN_F32, s, d), SN_ADD);
        return;
    }
    put_integers(k, 0, 2 * s, 1, v);
    if (kind == SN_OP_EMBED) {
        kt_in(k, 1, shape(type, v, d));
        kt_in(k, 2, shape(type, s, d));
        kt_out(k, 0, shape(type, 2 * s, d), SN_WRITE);
        return;
    }
    for (int64_t r = 0; r < 2 * s; r += 5) /* a frequent word */
        kt_set(&k->a.in[0], r, 0, 7);
    kt_in(k, 1, shape(type, 2 * s, d));
    kt_out(k, 0, shape(SN_F32, v, d), SN_ADD);
}

static void head_norm(struct kt *k, enum sn_op_kind kind)
{
    int64_t t = size(2048, 8), d = 128, cols = 12 * d + 256;
    k->a.attr = (struct sn_attr){
        .eps = 1e-5f, .attention.heads = 8, .attention.kv_heads = 4, .attention.head_dim = 128};
    bool forward = kind == SN_OP_HEAD_NORM, dw = kind == SN_OP_HEAD_NORM_DW;
    kt_in(k, 0, shape(type, t, cols));
    if (forward) {
        kt_in(k, 1, shape(type, 1, 2 * d));
        kt_out(k, 0, shape(type, t, cols), SN_WRITE);
        kt_out(k, 1, shape(SN_F32, t, 12), SN_WRITE);
        return;
    }
    kt_in(k, 1, shape(type, t, cols));
    if (!dw)
        kt_in(k, 2, shape(type, 1, 2 * d));
    struct sn_mat *stats = kt_in(k, dw ? 2 : 3, shape(SN_F32, t, 12));
    for (int64_t i = 0; i < 12 * t; i++)
        kt_set(stats, i / 12, i % 12, 1.0 + 1e-3 * (double)(i % 7));
    kt_out(k, 0, dw ? shape(SN_F32, 1, 2 * d) : shape(type, t, cols), SN_WRITE);
    if (!dw)
        kt_out(k, 1, shape(SN_F32, 1, 2 * d), SN_ADD);
}

static void rope(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    int64_t s = size(2048, 16);
    k->a.attr = (struct sn_attr){.attention.heads = 12,
                                 .attention.head_dim = 128,
                                 .attention.rotary_dim = 128,
                                 .position.seq = s,
                                 .attention.theta = 10000.0f};
    kt_in(k, 0, shape(type, 2 * s, 12 * 128 + 256));
    kt_out(k, 0, shape(type, 2 * s, 12 * 128 + 256), SN_WRITE);
}

static void rope_given(struct kt *k, enum sn_op_kind kind)
{
    static double w[64];
    rope(k, kind);
    for (int i = 0; i < 64; i++)
        w[i] = pow(10000.0, -i / 64.0) / (1.5 + i % 3);
    k->a.attr.attention.frequencies = w;
    k->a.attr.attention.amplitude = 1.25f;
}

/* Heads of 128 + 64 features, and of 128 of v. */
static void mla_join(struct kt *k, enum sn_op_kind kind)
{
    int64_t t = size(2048, 16), h = 16, n = 128, e = 128, r = 64;
    struct kt_shape all = shape(type, t, h * (2 * (n + r) + e));
    struct kt_shape of[] = {shape(type, t, h * (n + r)), shape(type, t, h * (n + e)), shape(type, t, r)};
    k->magnitude = 4.0;
    k->a.attr = (struct sn_attr){
        .attention.heads = 16, .attention.kv_heads = 16, .attention.head_dim = 192, .attention.v_dim = 128};
    for (int i = 0; i < 3; i++)
        if (kind == SN_OP_MLA_JOIN)
            kt_in(k, i, of[i]);
        else
            kt_out(k, i, of[i], SN_WRITE);
    if (kind == SN_OP_MLA_JOIN)
        kt_out(k, 0, all, SN_WRITE);
    else
        kt_in(k, 0, all);
}

/* A layer's linear map, with its bias. */
static void linear(struct kt *k)
{
    int64_t m = size(2048, 16), n = size(1024, 16), d = size(1024, 16);
    k->magnitude = sqrt((double)d);
    k->a.attr.gemm.trans_b = true;
    kt_in(k, 0, shape(type, m, d));
    kt_in(k, 1, shape(type, n, d));
    kt_in(k, 2, shape(type, 1, n));
    kt_out(k, 0, shape(type, m, n), SN_WRITE);
}

static void gemm(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    linear(k);
    kt_in(k, 3, shape(type, k->a.out[0].rows, k->a.out[0].cols));
}

/* An activation in one with the product may be taken of the sum before it is rounded to storage, so
 * it may be off by a unit of that. */
static void may_round_once(struct kt *k, double tolerance)
{
    double unit = type == SN_BF16 ? 0x1p-8 : type == SN_F16 ? 0x1p-11 : 0;
    k->magnitude *= 1 + 1.2 * unit / tolerance;
}

static void gemm_gelu(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    linear(k);
    k->a.attr.gemm.epilogue = SN_EPILOGUE_ACT;
    kt_out(k, 1, shape(type, k->a.out[0].rows, k->a.out[0].cols), SN_WRITE);
    may_round_once(k, 2e-5);
}

static void gemm_slope(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    int64_t m = size(2048, 16), n = size(4096, 16), d = size(1024, 16);
    k->magnitude = sqrt((double)d);
    k->a.attr.gemm.epilogue = SN_EPILOGUE_ACT_DX;
    kt_in(k, 0, shape(type, m, d));
    kt_in(k, 1, shape(type, d, n));
    kt_in(k, 4, shape(type, m, n));
    kt_out(k, 0, shape(type, m, n), SN_WRITE);
    may_round_once(k, 2e-5);
}

static void gemm_sums(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    int64_t t = size(2048, 16), m = size(1024, 16), n = size(1024, 16);
    k->magnitude = sqrt((double)t);
    k->a.attr.gemm.trans_a = true;
    k->a.attr.gemm.epilogue = SN_EPILOGUE_COLSUM;
    kt_in(k, 0, shape(type, t, m));
    kt_in(k, 1, shape(type, t, n));
    kt_out(k, 0, shape(SN_F32, m, n), SN_ADD);
    kt_out(k, 1, shape(SN_F32, 1, m), SN_ADD);
}

static void colsum(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    k->magnitude = 64;
    kt_in(k, 0, shape(type, size(16384, 64), size(4096, 64)));
    kt_out(k, 0, shape(SN_F32, 1, size(4096, 64)), SN_ADD);
}

static void attention(struct kt *k, enum sn_op_kind kind)
{
    enum { HEADS = 8, KV = 2, D = 128 };
    int64_t s = size(1024, 16);
    k->a.attr = (struct sn_attr){.attention.heads = HEADS,
                                 .attention.kv_heads = KV,
                                 .attention.head_dim = D,
                                 .position.seq = s,
                                 .attention.scale = 0.088388f};
    kt_in(k, 0, shape(type, 2 * s, HEADS * D));
    kt_in(k, 1, shape(type, 2 * s, KV * D));
    kt_in(k, 2, shape(type, 2 * s, KV * D));
    kt_out(k, 0, shape(type, 2 * s, HEADS * D), SN_WRITE);
    kt_out(k, 1, shape(SN_F32, 2 * s, HEADS), SN_WRITE);
    if (kind == SN_OP_ATTENTION)
        return;
    bool ran =
        kt_run(k, sn_ops_cpu(), SN_OP_ATTENTION, 2); /* o and lse, which the backward takes */
    struct sn_mat o = k->a.out[0], lse = k->a.out[1];
    struct sn_mat *in_o = kt_new(k, 3, shape(type, 2 * s, HEADS * D));
    kt_in(k, 4, shape(type, 2 * s, HEADS * D));
    struct sn_mat *in_lse = kt_new(k, 5, shape(SN_F32, 2 * s, HEADS));
    memcpy(in_o->p, o.p, (size_t)(o.rows * o.ld) * sn_dtype_size(o.dtype));
    memcpy(in_lse->p, lse.p, (size_t)(lse.rows * lse.ld) * sizeof(float));
    for (int i = 0; i < 2; i++) {
        free(k->image[SN_MAX_IN + i]);
        free(k->saved[SN_MAX_IN + i]);
        free(k->first_run[SN_MAX_IN + i]);
    }
    if (!ran)
        abort();
    kt_out(k, 0, shape(type, 2 * s, HEADS * D), SN_WRITE);
    kt_out(k, 1, shape(type, 2 * s, KV * D), SN_WRITE);
    kt_out(k, 2, shape(type, 2 * s, KV * D), SN_WRITE);
}

static void cross_entropy(struct kt *k, enum sn_op_kind kind)
{
    int64_t r = size(512, 8), v = size(50304, 64);
    k->magnitude = 1e-3;
    k->scalars.tokens_in_step = k->scalars.targets_in_step = 4096;
    k->scalars.loss_scale = 1024;
    kt_in(k, 0, shape(type, r, v));
    put_integers(k, 1, r, 1, v);
    if (kind == SN_OP_CE_PART) {
        kt_out(k, 0, shape(SN_F32, r, 3), SN_WRITE);
        return;
    }
    kt_out(k, 0, shape(type, r, v), SN_WRITE);
    kt_out(k, 1, shape(SN_F32, r, 1), SN_WRITE);
}

static void cross_entropy_z(struct kt *k, enum sn_op_kind kind)
{
    cross_entropy(k, kind);
    k->a.attr.vocab.z_loss = 0.01F;
    kt_out(k, 2, shape(SN_F32, size(512, 8), 1), SN_WRITE);
}

static void swap(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    int64_t t = size(4096, 16);
    k->a.attr.blocks_a = 8;
    k->a.attr.blocks_b = 4;
    kt_in(k, 0, shape(type, t, 1024));
    kt_out(k, 0, shape(type, t, 1024), SN_WRITE);
}

/* --- the end of a step ------------------------------------------------------------------------ */

static void prune(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    int64_t n = size(1 << 22, 4) + 3;
    const struct sn_mat *p = kt_in(k, SN_PRUNE_P, shape(SN_F32, 1, n));
    for (int64_t i = 0; i < n; i += 3)
        kt_set(p, 0, i, 0);
    kt_out(k, SN_PRUNE_G, shape(SN_F32, 1, n), SN_ADD);
}

static void average(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    int64_t n = size(1 << 22, 4) + 3;
    k->scalars = (struct sn_scalars){.ok = 1, .adam_count = 10};
    k->a.attr.optimizer.beta1 = 0.99f;
    kt_in(k, 0, shape(SN_F32, 1, n));
    kt_out(k, 0, shape(SN_F32, 1, n), SN_ADD);
}

static void optimizer(struct kt *k, enum sn_op_kind kind)
{
    int64_t n = size(1 << 22, 4) + 3;
    k->scalars = (struct sn_scalars){.ok = 1, .lr = 1e-3f, .grad_scale = 0.5f, .adam_count = 10};
    k->a.attr = (struct sn_attr){.optimizer.beta1 = 0.9f,
                                 .optimizer.beta2 = 0.95f,
                                 .optimizer.eps = 1e-8f,
                                 .optimizer.momentum = 0.9f,
                                 .optimizer.decay = 0.1f};
    kt_in(k, 0, shape(SN_F32, 1, n));
    int moments = kind == SN_OP_ADAMW ? 2 : 1; /* the second one is no less than 0 */
    for (int o = 0; o < 1 + moments; o++)
        kt_out(k, o, shape(SN_F32, 1, n), SN_ADD);
    for (int64_t i = 0; i < n && moments > 1; i++)
        kt_set(&k->a.out[2], 0, i, fabs(kt_get(&k->a.out[2], 0, i)) + 1e-3);
    kt_out(k, 3, shape(type, 1, n), SN_WRITE);
}

/* Three rows of features of the second of two levels, behind a soft token; of a rank of a ring. */
static void prompt(struct kt *k, enum sn_op_kind kind)
{
    int64_t s = size(2048, 16), d = size(4096, 64), e = size(1024, 24);
    k->a.attr.position = (struct sn_position_attr){.seq = 2 * s, .context = 2, .zigzag = true};
    k->a.attr.prompt = (struct sn_prompt_attr){.first = 1, .rows = 3, .level = 1, .levels = 2};
    struct sn_mat *x = kt_in(k, 0, shape(type, 2 * s, d));
    if (kind == SN_OP_PROMPT)
        kt_in(k, 1, shape(type, d, e));
    if (kind != SN_OP_PROMPT_DX)
        kt_in(k, kind == SN_OP_PROMPT ? 2 : 1, shape(SN_F32, 2 * 2 * 3, e));
    if (kind == SN_OP_PROMPT_DW)
        kt_out(k, 0, shape(SN_F32, d, e), SN_ADD);
    else
        kt_out(k, 0, shape(type, x->rows, d), SN_WRITE);
}

static void soft_tokens(struct kt *k, enum sn_op_kind kind)
{
    int64_t s = size(2048, 16), d = size(4096, 64);
    k->a.attr.position.seq = s;
    k->a.attr.prompt.rows = 3;
    kt_in(k, 0, shape(type, 2 * s, d));
    if (kind == SN_OP_PROMPT) {
        kt_in(k, 1, shape(type, d, 3));
        kt_out(k, 0, shape(type, 2 * s, d), SN_WRITE);
    } else {
        kt_out(k, 0, shape(SN_F32, d, 3), SN_WRITE);
    }
}

static void sq_norm(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    kt_in(k, 0, shape(SN_F32, 1, size(1 << 24, 4) + 1));
}

static const struct {
    enum sn_op_kind kind;
    const char *name;
    void (*make)(struct kt *k, enum sn_op_kind kind);
    double tolerance;
} cases[] = {
    {SN_OP_ZERO, "ZERO", copy, 0},
    {SN_OP_COPY, "COPY", copy, 0},
    {SN_OP_EMBED, "EMBED", embed, 1e-6},
    {SN_OP_EMBED_GRAD, "EMBED_GRAD", embed, 1e-6},
    {SN_OP_POS_GRAD, "POS_GRAD", embed, 1e-6},
    {SN_OP_LAYERNORM, "LAYERNORM", norm, 4e-6},
    {SN_OP_LAYERNORM, "LAYERNORM of a sum", norm_of_sum, 4e-6},
    {SN_OP_LAYERNORM_DX, "LAYERNORM_DX", norm, 1e-5},
    {SN_OP_LAYERNORM_DW, "LAYERNORM_DW", norm, 1e-4},
    {SN_OP_LAYERNORM, "LAYERNORM of parts", norm_of_parts, 4e-6},
    {SN_OP_LAYERNORM_DX, "LAYERNORM_DX of parts", norm_of_parts, 1e-5},
    {SN_OP_NORM_PART, "NORM_PART of LAYERNORM", layer_part, 4e-6},
    {SN_OP_NORM_DX_PART, "NORM_DX_PART of LAYERNORM", layer_part, 1e-5},
    {SN_OP_RMSNORM, "RMSNORM", norm, 4e-6},
    {SN_OP_RMSNORM, "RMSNORM of a sum", norm_of_sum, 4e-6},
    {SN_OP_RMSNORM_DX, "RMSNORM_DX", norm, 1e-5},
    {SN_OP_RMSNORM_DW, "RMSNORM_DW", norm, 1e-4},
    {SN_OP_RMSNORM, "RMSNORM of parts", norm_of_parts, 4e-6},
    {SN_OP_RMSNORM_DX, "RMSNORM_DX of parts", norm_of_parts, 1e-5},
    {SN_OP_NORM_PART, "NORM_PART of RMSNORM", rms_part, 4e-6},
    {SN_OP_NORM_DX_PART, "NORM_DX_PART of RMSNORM", rms_part, 1e-5},
    {SN_OP_GEMM, "GEMM", gemm, 2e-5},
    {SN_OP_GEMM, "GEMM with GELU", gemm_gelu, 2e-5},
    {SN_OP_GEMM, "GEMM with its slope", gemm_slope, 2e-5},
    {SN_OP_GEMM, "GEMM with sums", gemm_sums, 2e-5},
    {SN_OP_COLSUM, "COLSUM", colsum, 1e-5},
    {SN_OP_HEAD_NORM, "HEAD_NORM", head_norm, 4e-6},
    {SN_OP_HEAD_NORM_DX, "HEAD_NORM_DX", head_norm, 1e-5},
    {SN_OP_HEAD_NORM_DW, "HEAD_NORM_DW", head_norm, 1e-4},
    {SN_OP_ROPE, "ROPE", rope, 1e-6},
    {SN_OP_ROPE, "ROPE of given frequencies", rope_given, 1e-6},
    {SN_OP_MLA_JOIN, "MLA_JOIN", mla_join, 0},
    {SN_OP_MLA_JOIN_DX, "MLA_JOIN_DX", mla_join, 1e-6},
    {SN_OP_ATTENTION, "ATTENTION", attention, 4e-6},
    {SN_OP_ATTENTION_DX, "ATTENTION_DX", attention, 2e-5},
    {SN_OP_ACT, "ACT", pointwise, 4e-6},
    {SN_OP_ACT_DX, "ACT_DX", pointwise, 4e-6},
    {SN_OP_SWIGLU, "SWIGLU", pointwise, 4e-6},
    {SN_OP_SWIGLU_DX, "SWIGLU_DX", pointwise, 4e-6},
    {SN_OP_ADD, "ADD", pointwise, 1e-7},
    {SN_OP_SCALE, "SCALE", pointwise, 1e-7},
    {SN_OP_GATE, "GATE", gate, 4e-6},
    {SN_OP_GATE_DX, "GATE_DX", gate, 1e-5},
    {SN_OP_DROPOUT, "DROPOUT", dropout, 1e-6},
    {SN_OP_JITTER, "JITTER", dropout, 1e-6},
    {SN_OP_PROMPT, "PROMPT", prompt, 2e-6},
    {SN_OP_PROMPT, "PROMPT of soft tokens", soft_tokens, 0},
    {SN_OP_PROMPT_DX, "PROMPT_DX", prompt, 0},
    {SN_OP_PROMPT_DW, "PROMPT_DW", prompt, 1e-6},
    {SN_OP_PROMPT_DW, "PROMPT_DW of soft tokens", soft_tokens, 1e-6},
    {SN_OP_CROSS_ENTROPY, "CROSS_ENTROPY", cross_entropy, 2e-5},
    {SN_OP_CROSS_ENTROPY, "CROSS_ENTROPY with a z-loss", cross_entropy_z, 2e-5},
    {SN_OP_CE_PART, "CE_PART", cross_entropy, 1e-5},
    {SN_OP_TRANSPOSE, "TRANSPOSE", swap, 0},
    {SN_OP_ROUTE, "ROUTE", route, 1e-6},
    {SN_OP_ROUTE_DX, "ROUTE_DX", route, 1e-5},
    {SN_OP_ROUTE, "ROUTE among all", route_of_all, 1e-6},
    {SN_OP_ROUTE_DX, "ROUTE_DX among all", route_of_all, 1e-5},
    {SN_OP_ROUTE, "ROUTE of sigmoids", route_sigmoid, 1e-6},
    {SN_OP_ROUTE_DX, "ROUTE_DX of sigmoids", route_sigmoid, 1e-5},
    {SN_OP_ROUTE, "ROUTE by sequence", route_sequences, 1e-6},
    {SN_OP_ROUTE_DX, "ROUTE_DX by sequence", route_sequences, 1e-5},
    {SN_OP_ROUTE, "ROUTE of a sparsemixer", mix, 1e-6},
    {SN_OP_ROUTE_DX, "ROUTE_DX of a sparsemixer", mix, 1e-5},
    {SN_OP_MOE_PERMUTE, "MOE_PERMUTE", place, 0},
    {SN_OP_RECV_OFFSETS, "RECV_OFFSETS", arrive, 0},
    {SN_OP_RECV_OFFSETS, "RECV_OFFSETS in chunks", arrive_in_chunks, 0},
    {SN_OP_DISPATCH, "DISPATCH", move_rows, 1e-6},
    {SN_OP_COMBINE, "COMBINE", move_rows, 1e-6},
    {SN_OP_COMBINE_DW, "COMBINE_DW", move_rows, 1e-6},
    {SN_OP_EXPERT_GEMM, "EXPERT_GEMM", expert_gemm, 2e-5},
    {SN_OP_SQ_NORM, "SQ_NORM", sq_norm, 0},
    {SN_OP_ADAMW, "ADAMW", optimizer, 2e-6},
    {SN_OP_LION, "LION", optimizer, 2e-6},
    {SN_OP_SGD, "SGD", optimizer, 2e-6},
    {SN_OP_AVERAGE, "AVERAGE", average, 2e-7},
    {SN_OP_PRUNE, "PRUNE", prune, 0},
    {SN_OP_ROUTER_BIAS, "ROUTER_BIAS", balance, 0},
};

/* "ROUTE-of-a-sparsemixer:bf16" */
static void name_of(char name[80], size_t i, enum sn_dtype t)
{
    (void)snprintf(name, 80, "%s:%s", cases[i].name, sn_dtype_name(t));
    for (char *blank; (blank = strchr(name, ' ')) != NULL;)
        *blank = '-';
}

static void one(size_t i, const char *name)
{
    struct kt k = {.magnitude = 1.0,
                   .scalars = {.seed = 5, .step = 3, .first_sample = 17, .ok = 1}};
    struct kt_case c = {name, cases[i].kind, type, cases[i].tolerance, references};
    cases[i].make(&k, cases[i].kind);
    if (writes)
        tap_ok(kt_keep(&k, &c, writes), "%s of %s is kept", cases[i].name, sn_dtype_name(type));
    else
        tap_ok(kt_agrees(&k, &c), "%s of %s equals the CPU's", cases[i].name, sn_dtype_name(type));
    kt_free(&k);
}

int main(int argc, char **argv)
{
    static const enum sn_dtype types[] = {SN_F32, SN_BF16, SN_F16};
    bool lists = argc == 2 && strcmp(argv[1], "--list") == 0, is_wrong = false;
    for (int i = 1; i < argc && !lists; i++) {
        const char *word = argv[i], *value = argv[i + 1]; /* NULL behind the last */
        const char **to = strcmp(word, "--only") == 0         ? &only
                          : strcmp(word, "--references") == 0 ? &references
                          : strcmp(word, "--write") == 0      ? &writes
                                                              : NULL;
        if (to && value)
            *to = argv[++i];
        else
            divisor = strtol(word, NULL, 10);
        is_wrong = is_wrong || divisor < 1;
    }
    if (is_wrong) {
        (void)fprintf(stderr, "test_kernels_cuda: want [DIVISOR] [--only NAME] [--references DIR | "
                              "--write DIR], or --list\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int t = 0; t < 3; t++) {
            char name[80];
            type = types[t];
            name_of(name, i, type);
            if (lists)
                printf("%s\n", name);
            else if (!only || strcmp(only, name) == 0)
                one(i, name);
        }
    if (lists)
        return 0;
    if (tap_count == 0)
        tap_ok(false, "there is a case %s (--list prints them)", only);
    return tap_done();
}
