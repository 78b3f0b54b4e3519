/*
 * sdpa_graph.c - attention as a graph of cuDNN's operations, forward and backward.
 *
 * cuDNN fuses only graphs that it recognises, so each operation, its types and the order are those
 * of cudnn-frontend (include/cudnn_frontend/node/scaled_dot_product_flash_attention.h). Tensors
 * have the sizes [samples, heads, rows, columns]; strides say where ours lie.
 *
 *   forward    s = scale q k', masked; m = max s, e = exp(s - m), l = sum e; lse = m + log l,
 *              o = (e / l) v
 *   backward   delta = sum dy o; p = exp(masked(scale q k' - lse)); dv = p' dy;
 *              ds = scale p (dy v' - delta); dk = ds' q; dq = ds k
 */
#include "kernels/cuda/sdpa.h"

#include <math.h>

/* Numbers of tensors: operands have their own + 1, then scalars, then what is made on the way. */
enum { SCALE = SN_SDPA_NOPERANDS + 1, MASKED, ONE, FIRST_VIRTUAL };
const int64_t sn_sdpa_scalar_id[SN_SDPA_NSCALARS] = {SCALE, MASKED, ONE};
enum { MOST_OPS = 32 };

struct build {
    struct sn_cudnn_set *set;
    const struct sn_sdpa_shape *s;
    int64_t next; /* number of a tensor */
    int narrow;   /* cuDNN's storage type */
    int n_ops;
    void *op[MOST_OPS];
};

struct dims {
    int64_t n[4], step[4];
};

static struct dims packed(int64_t a, int64_t b, int64_t c, int64_t d)
{
    struct dims x = {{a, b, c, d}, {b * c * d, c * d, d, 1}};
    return x;
}

/* Rows of an operand of ours, `ld` elements apart; a head is d columns. */
static struct dims rows_of(const struct sn_sdpa_shape *s, int64_t heads, int64_t ld)
{
    struct dims x = {{s->samples, heads, s->seq, s->d}, {s->seq * ld, s->d, ld, 1}};
    return x;
}

static struct dims turned(struct dims x)
{
    struct dims y = {{x.n[0], x.n[1], x.n[3], x.n[2]},
                     {x.step[0], x.step[1], x.step[3], x.step[2]}};
    return y;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static void *tensor(struct build *b, int64_t id, int dtype, struct dims x, bool is_virtual,
                    bool by_value)
{
    void *t = sn_cudnn_make(b->set, SN_CUDNN_TENSOR);
    sn_cudnn_put_enum(b->set, t, SN_CUDNN_TENSOR_DTYPE, SN_CUDNN_IS_DTYPE, dtype);
    sn_cudnn_put(b->set, t, SN_CUDNN_TENSOR_SIZES, SN_CUDNN_IS_INT64, 4, x.n);
    sn_cudnn_put(b->set, t, SN_CUDNN_TENSOR_STRIDES, SN_CUDNN_IS_INT64, 4, x.step);
    sn_cudnn_put_int(b->set, t, SN_CUDNN_TENSOR_ID, id);
    sn_cudnn_put_int(b->set, t, SN_CUDNN_TENSOR_ALIGNMENT, 16);
    sn_cudnn_put(b->set, t, SN_CUDNN_TENSOR_IS_VIRTUAL, SN_CUDNN_IS_BOOL, 1, &is_virtual);
    sn_cudnn_put(b->set, t, SN_CUDNN_TENSOR_BY_VALUE, SN_CUDNN_IS_BOOL, 1, &by_value);
    sn_cudnn_finalize(b->set, t, "a tensor");
    return t;
}

/* In memory. */
static void *operand(struct build *b, enum sn_sdpa_operand o, int dtype, struct dims x)
{
    return tensor(b, (int64_t)o + 1, dtype, x, false, false);
}

static void *scalar(struct build *b, int64_t id)
{
    return tensor(b, id, SN_CUDNN_F32, packed(1, 1, 1, 1), false, true);
}

/* Between two operations: nowhere, where they are fused. */
static void *passing(struct build *b, int dtype, struct dims x)
{
    return tensor(b, b->next++, dtype, x, true, false);
}

static struct dims of_scores(const struct build *b)
{
    return packed(b->s->samples, b->s->heads, b->s->seq, b->s->seq);
}

static struct dims of_rows(const struct build *b)
{
    return packed(b->s->samples, b->s->heads, b->s->seq, 1);
}

static void *scores(struct build *b)
{
    return passing(b, SN_CUDNN_F32, of_scores(b));
}

/* --- operations: each returns its result ------------------------------------------------------ */

static void *keep(struct build *b, void *op, void *y, const char *what)
{
    sn_cudnn_finalize(b->set, op, what);
    if (b->n_ops < MOST_OPS)
        b->op[b->n_ops++] = op;
    return y;
}

static void *matmul(struct build *b, void *x, void *w, void *y)
{
    void *how = sn_cudnn_make(b->set, SN_CUDNN_MATMUL);
    sn_cudnn_put_enum(b->set, how, SN_CUDNN_MATMUL_PRECISION, SN_CUDNN_IS_DTYPE, SN_CUDNN_F32);
    sn_cudnn_finalize(b->set, how, "a product");
    void *op = sn_cudnn_make(b->set, SN_CUDNN_MATMUL_OP);
    sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_MATMUL_OP_A, x);
    sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_MATMUL_OP_B, w);
    sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_MATMUL_OP_C, y);
    sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_MATMUL_OP_HOW, how);
    return keep(b, op, y, "a product");
}

/* Of each element: x, with a second operand and a choice where there is one; axis of INDEX. */
static void *pointwise(struct build *b, int mode, void *x, void *second, void *choice, void *y,
                       int64_t axis)
{
    void *how = sn_cudnn_make(b->set, SN_CUDNN_POINTWISE);
    int precision = mode == SN_CUDNN_AT_LEAST ? SN_CUDNN_BOOL : SN_CUDNN_F32;
    sn_cudnn_put_enum(b->set, how, SN_CUDNN_POINTWISE_MODE, SN_CUDNN_IS_POINTWISE, mode);
    sn_cudnn_put_enum(b->set, how, SN_CUDNN_POINTWISE_PRECISION, SN_CUDNN_IS_DTYPE, precision);
    if (mode == SN_CUDNN_INDEX)
        sn_cudnn_put_int(b->set, how, SN_CUDNN_POINTWISE_AXIS, axis);
    sn_cudnn_finalize(b->set, how, "a pointwise operation");
    void *op = sn_cudnn_make(b->set, SN_CUDNN_POINTWISE_OP);
    sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_POINTWISE_OP_HOW, how);
    sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_POINTWISE_OP_X, x);
    if (second)
        sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_POINTWISE_OP_B, second);
    if (choice)
        sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_POINTWISE_OP_T, choice);
    sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_POINTWISE_OP_Y, y);
    return keep(b, op, y, "a pointwise operation");
}

static void *unary(struct build *b, int mode, void *x, void *y)
{
    return pointwise(b, mode, x, NULL, NULL, y, 0);
}

static void *binary(struct build *b, int mode, void *x, void *second, void *y)
{
    return pointwise(b, mode, x, second, NULL, y, 0);
}

/* Over whatever y has one of. */
static void *reduce(struct build *b, int mode, void *x, void *y)
{
    void *how = sn_cudnn_make(b->set, SN_CUDNN_REDUCTION);
    sn_cudnn_put_enum(b->set, how, SN_CUDNN_REDUCTION_HOW, SN_CUDNN_IS_REDUCTION, mode);
    sn_cudnn_put_enum(b->set, how, SN_CUDNN_REDUCTION_PRECISION, SN_CUDNN_IS_DTYPE, SN_CUDNN_F32);
    sn_cudnn_finalize(b->set, how, "a sum");
    void *op = sn_cudnn_make(b->set, SN_CUDNN_REDUCTION_OP);
    sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_REDUCTION_OP_X, x);
    sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_REDUCTION_OP_Y, y);
    sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_REDUCTION_OP_HOW, how);
    return keep(b, op, y, "a sum");
}

/* The same elements, rows and columns exchanged by strides. */
static void *reshape(struct build *b, void *x, void *y)
{
    void *op = sn_cudnn_make(b->set, SN_CUDNN_RESHAPE_OP);
    sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_RESHAPE_OP_X, x);
    sn_cudnn_put_descriptor(b->set, op, SN_CUDNN_RESHAPE_OP_Y, y);
    return keep(b, op, y, "a transposition");
}

/* A query sees no key that comes after it. */
static void *masked(struct build *b, void *s)
{
    struct dims n = of_scores(b);
    void *row = pointwise(b, SN_CUDNN_INDEX, s, NULL, NULL, passing(b, SN_CUDNN_I32, n), 2);
    void *col = pointwise(b, SN_CUDNN_INDEX, s, NULL, NULL, passing(b, SN_CUDNN_I32, n), 3);
    void *sees = binary(b, SN_CUDNN_AT_LEAST, row, col, passing(b, SN_CUDNN_BOOL, n));
    return pointwise(b, SN_CUDNN_SELECT, s, scalar(b, MASKED), sees, scores(b), 0);
}

/* --- attention -------------------------------------------------------------------------------- */

static void forward(struct build *b)
{
    const struct sn_sdpa_shape *s = b->s;
    struct dims lse = {{s->samples, s->heads, s->seq, 1}, {s->seq * s->lse, 1, s->lse, 1}};
    void *q = operand(b, SN_SDPA_Q, b->narrow, rows_of(s, s->heads, s->q));
    void *kt = operand(b, SN_SDPA_K, b->narrow, turned(rows_of(s, s->kv_heads, s->k)));
    void *x = matmul(b, q, kt, scores(b));
    x = masked(b, binary(b, SN_CUDNN_MUL, x, scalar(b, SCALE), scores(b)));
    void *most = reduce(b, SN_CUDNN_MAXIMUM, x, passing(b, SN_CUDNN_F32, of_rows(b)));
    x = unary(b, SN_CUDNN_EXP, binary(b, SN_CUDNN_SUB, x, most, scores(b)), scores(b));
    void *sum = reduce(b, SN_CUDNN_SUM, x, passing(b, SN_CUDNN_F32, of_rows(b)));
    void *log = unary(b, SN_CUDNN_LOG, sum, passing(b, SN_CUDNN_F32, of_rows(b)));
    (void)binary(b, SN_CUDNN_ADD, most, log, operand(b, SN_SDPA_LSE, SN_CUDNN_F32, lse));
    x = binary(b, SN_CUDNN_DIV, x, sum, passing(b, b->narrow, of_scores(b)));
    (void)matmul(b, x, operand(b, SN_SDPA_V, b->narrow, rows_of(s, s->kv_heads, s->v)),
                 operand(b, SN_SDPA_O, b->narrow, rows_of(s, s->heads, s->o)));
}

/* dk or dv: scores' x, [S, S] of each head, times the rows w; heads that share keys are summed. */
static void of_keys(struct build *b, void *x, void *w, enum sn_sdpa_operand to, int64_t ld)
{
    const struct sn_sdpa_shape *s = b->s;
    void *y = operand(b, to, b->narrow, rows_of(s, s->kv_heads, ld));
    void *xt = reshape(b, x, passing(b, b->narrow, turned(of_scores(b))));
    if (s->heads == s->kv_heads) {
        (void)matmul(b, xt, w, y);
        return;
    }
    void *each = passing(b, b->narrow, packed(s->samples, s->heads, s->seq, s->d));
    (void)reduce(b, SN_CUDNN_SUM, matmul(b, xt, w, each), y);
}

static void *delta(struct build *b, void *dy, void *o)
{
    const struct sn_sdpa_shape *s = b->s;
    /* cudnn-frontend has these strides, which nothing has:
     * kept, since that is what is recognised */
    struct dims n = {{s->samples, s->heads, s->seq, s->d},
                     {s->heads * s->seq * s->d, s->seq * s->d, s->heads * s->d, 1}};
    void *x = binary(b, SN_CUDNN_MUL, dy, o, passing(b, SN_CUDNN_F32, n));
    x = reduce(b, SN_CUDNN_SUM, x, passing(b, SN_CUDNN_F32, of_rows(b)));
    return binary(b, SN_CUDNN_MUL, x, scalar(b, ONE),
                  operand(b, SN_SDPA_DELTA, SN_CUDNN_F32, of_rows(b)));
}

static void backward(struct build *b)
{
    const struct sn_sdpa_shape *s = b->s;
    struct dims keys = rows_of(s, s->kv_heads, s->k);
    void *q = operand(b, SN_SDPA_Q, b->narrow, rows_of(s, s->heads, s->q));
    void *kt = operand(b, SN_SDPA_K, b->narrow, turned(keys));
    void *vt = operand(b, SN_SDPA_V, b->narrow, turned(rows_of(s, s->kv_heads, s->v)));
    void *o = operand(b, SN_SDPA_O, b->narrow, rows_of(s, s->heads, s->o));
    void *dy = operand(b, SN_SDPA_DY, b->narrow, rows_of(s, s->heads, s->dy));
    void *lse = operand(b, SN_SDPA_LSE, SN_CUDNN_F32, of_rows(b));
    void *dq = operand(b, SN_SDPA_DQ, b->narrow, rows_of(s, s->heads, s->dq));
    void *scale = scalar(b, SCALE), *sum = delta(b, dy, o);
    void *x = binary(b, SN_CUDNN_MUL, matmul(b, q, kt, scores(b)), scale, scores(b));
    x = masked(b, binary(b, SN_CUDNN_SUB, x, lse, scores(b)));
    void *p = unary(b, SN_CUDNN_EXP, x, scores(b));
    of_keys(b, p, dy, SN_SDPA_DV, s->dv);
    x = binary(b, SN_CUDNN_SUB, matmul(b, dy, vt, scores(b)), sum, scores(b));
    x = binary(b, SN_CUDNN_MUL, x, p, scores(b));
    void *ds = binary(b, SN_CUDNN_MUL, x, scale, scores(b));
    of_keys(b, ds, q, SN_SDPA_DK, s->dk);
    void *k = reshape(b, kt, passing(b, SN_CUDNN_F32, keys));
    if (s->in_order) {
        (void)matmul(b, ds, k, dq);
        return;
    }
    struct dims sums = packed(s->samples, s->heads, s->seq, s->d);
    x = matmul(b, ds, k, operand(b, SN_SDPA_SUMS, SN_CUDNN_F32, sums));
    (void)unary(b, SN_CUDNN_IDENTITY, x, dq);
}

void *sn_sdpa_graph(struct sn_sdpa_plan *p, void *handle)
{
    struct build b = {.set = &p->set, .s = &p->shape, .next = FIRST_VIRTUAL};
    b.narrow = p->shape.dtype == SN_BF16 ? SN_CUDNN_BF16 : SN_CUDNN_F16;
    if (p->shape.is_backward)
        backward(&b);
    else
        forward(&b);
    void *graph = sn_cudnn_make(&p->set, SN_CUDNN_GRAPH);
    if (handle)
        sn_cudnn_put(&p->set, graph, SN_CUDNN_GRAPH_HANDLE, SN_CUDNN_IS_HANDLE, 1, &handle);
    sn_cudnn_put(&p->set, graph, SN_CUDNN_GRAPH_OPS, SN_CUDNN_IS_DESCRIPTOR, b.n_ops, b.op);
    sn_cudnn_finalize(&p->set, graph, "the graph");
    return p->set.has_failed ? NULL : graph;
}

int sn_sdpa_scalars(const struct sn_sdpa_shape *s, float value[SN_SDPA_NSCALARS])
{
    value[0] = (float)s->scale;
    value[1] = -INFINITY;
    value[2] = 1.0f;
    return s->is_backward ? 3 : 2;
}

unsigned sn_sdpa_operands(const struct sn_sdpa_shape *s)
{
    unsigned all =
        1u << SN_SDPA_Q | 1u << SN_SDPA_K | 1u << SN_SDPA_V | 1u << SN_SDPA_O | 1u << SN_SDPA_LSE;
    if (s->is_backward)
        all |= 1u << SN_SDPA_DY | 1u << SN_SDPA_DQ | 1u << SN_SDPA_DK | 1u << SN_SDPA_DV |
               1u << SN_SDPA_DELTA;
    return s->is_backward && !s->in_order ? all | 1u << SN_SDPA_SUMS : all;
}
