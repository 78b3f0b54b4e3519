/*
 * fake_cudnn_run.c - executes a graph of the stand-in for cuDNN, operation by operation, on the
 * host.
 */
#include "kernels/half.h"
#include "tests/gpu/fake_cudnn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 64 };

/* A tensor while a graph is executed. */
struct value {
    int64_t id, n[4], step[4];
    int dtype;
    char *memory; /* an operand; else */
    float *kept;  /* packed */
};

struct run {
    int n;
    bool has_failed;
    struct value v[VALUES];
    const struct descriptor *variant;
};

static void fail(struct run *r, const char *why)
{
    if (!r->has_failed)
        (void)fake_says(BAD, why);
    r->has_failed = true;
}

static void *pointer_of(const struct descriptor *variant, int64_t id)
{
    const struct attribute *ids = fake_find(variant, SN_CUDNN_VARIANT_IDS);
    const struct attribute *at = fake_find(variant, SN_CUDNN_VARIANT_POINTERS);
    for (int64_t i = 0; i < ids->n; i++)
        if (((int64_t *)ids->values)[i] == id)
            return ((void **)at->values)[i];
    return NULL;
}

static int64_t count(const struct value *v)
{
    return v->n[0] * v->n[1] * v->n[2] * v->n[3];
}

static struct value *value_of(struct run *r, const struct descriptor *t)
{
    int64_t id = fake_int(t, SN_CUDNN_TENSOR_ID);
    for (int i = 0; i < r->n; i++)
        if (r->v[i].id == id)
            return &r->v[i];
    struct value *v = &r->v[r->n++];
    if (r->n > VALUES)
        abort();
    *v = (struct value){.id = id, .dtype = (int)fake_int(t, SN_CUDNN_TENSOR_DTYPE)};
    memcpy(v->n, fake_find(t, SN_CUDNN_TENSOR_SIZES)->values, sizeof(v->n));
    memcpy(v->step, fake_find(t, SN_CUDNN_TENSOR_STRIDES)->values, sizeof(v->step));
    if (fake_flag(t, SN_CUDNN_TENSOR_IS_VIRTUAL)) {
        v->kept = calloc((size_t)count(v), sizeof(float));
        return v;
    }
    v->memory = pointer_of(r->variant, id);
    if (!v->memory)
        fail(r, "an operand has no pointer");
    else if (!fake_flag(t, SN_CUDNN_TENSOR_BY_VALUE) &&
             (uintptr_t)v->memory % (size_t)fake_int(t, SN_CUDNN_TENSOR_ALIGNMENT))
        fail(r, "an operand is not aligned as its tensor says");
    return v;
}

static int64_t packed_at(const struct value *v, const int64_t i[4])
{
    return ((i[0] * v->n[1] + i[1]) * v->n[2] + i[2]) * v->n[3] + i[3];
}

static int64_t strided_at(const struct value *v, const int64_t i[4])
{
    return i[0] * v->step[0] + i[1] * v->step[1] + i[2] * v->step[2] + i[3] * v->step[3];
}

/* What has one element along an axis has it everywhere; heads may share one. */
static double get(const struct value *v, const int64_t at[4], int64_t heads)
{
    int64_t i[4];
    for (int k = 0; k < 4; k++)
        i[k] = v->n[k] == 1 ? 0 : at[k];
    if (v->n[1] > 1 && heads > v->n[1])
        i[1] = at[1] / (heads / v->n[1]);
    if (v->kept)
        return (double)v->kept[packed_at(v, i)];
    int64_t where = strided_at(v, i);
    return v->dtype == SN_CUDNN_F32 ? (double)((float *)(void *)v->memory)[where]
           : v->dtype == SN_CUDNN_BF16
               ? (double)sn_bf16_to_f32(((uint16_t *)(void *)v->memory)[where])
               : (double)sn_f16_to_f32(((uint16_t *)(void *)v->memory)[where]);
}

static void put(const struct value *v, const int64_t i[4], double x)
{
    float y = (float)x;
    uint16_t half = v->dtype == SN_CUDNN_BF16 ? sn_f32_to_bf16(y) : sn_f32_to_f16(y);
    if (v->kept) {
        v->kept[packed_at(v, i)] = v->dtype == SN_CUDNN_BF16  ? sn_bf16_to_f32(half)
                                   : v->dtype == SN_CUDNN_F16 ? sn_f16_to_f32(half)
                                                              : y;
        return;
    }
    if (v->dtype == SN_CUDNN_F32)
        ((float *)(void *)v->memory)[strided_at(v, i)] = y;
    else
        ((uint16_t *)(void *)v->memory)[strided_at(v, i)] = half;
}

/* i to the next index; false after the last. */
static bool step(const struct value *v, int64_t i[4])
{
    for (int k = 3; k >= 0; k--) {
        if (++i[k] < v->n[k])
            return true;
        i[k] = 0;
    }
    return false;
}

/* One matrix of c; y: room for the numbers of b's, and of a row of a's. */
static void multiply_one(const struct value *a, const struct value *b, const struct value *c,
                         int64_t i[4], double *y)
{
    int64_t deep = a->n[3], columns = c->n[3];
    double *x = y + deep * columns;
    for (int64_t l = 0; l < deep; l++)
        for (int64_t k = 0; k < columns; k++)
            y[k * deep + l] = get(b, (int64_t[4]){i[0], i[1], l, k}, c->n[1]);
    for (i[2] = 0; i[2] < c->n[2]; i[2]++) {
        for (int64_t l = 0; l < deep; l++)
            x[l] = get(a, (int64_t[4]){i[0], i[1], i[2], l}, c->n[1]);
        for (i[3] = 0; i[3] < columns; i[3]++) {
            double sum = 0;
            for (int64_t l = 0; l < deep; l++)
                sum += x[l] * y[i[3] * deep + l];
            put(c, i, sum);
        }
    }
}

static void multiply(const struct value *a, const struct value *b, const struct value *c)
{
    double *numbers = calloc((size_t)(a->n[3] * (c->n[3] + 1)), sizeof(double));
    if (!numbers)
        abort();
    for (int64_t n = 0; n < c->n[0]; n++)
        for (int64_t head = 0; head < c->n[1]; head++)
            multiply_one(a, b, c, (int64_t[4]){n, head, 0, 0}, numbers);
    free(numbers);
}

static double applied(int mode, double x, double b, bool choice)
{
    switch (mode) {
    case SN_CUDNN_ADD:
        return x + b;
    case SN_CUDNN_SUB:
        return x - b;
    case SN_CUDNN_MUL:
        return x * b;
    case SN_CUDNN_DIV:
        return x / b;
    case SN_CUDNN_EXP:
        return exp(x);
    case SN_CUDNN_LOG:
        return log(x);
    case SN_CUDNN_IDENTITY:
        return x;
    case SN_CUDNN_AT_LEAST:
        return x >= b;
    case SN_CUDNN_SELECT:
        return choice ? x : b;
    default:
        abort();
    }
}

static void pointwise(struct run *r, const struct descriptor *op)
{
    const struct descriptor *how = fake_descriptor(op, SN_CUDNN_POINTWISE_OP_HOW);
    const struct descriptor *second = fake_descriptor(op, SN_CUDNN_POINTWISE_OP_B);
    const struct descriptor *third = fake_descriptor(op, SN_CUDNN_POINTWISE_OP_T);
    const struct value *x = value_of(r, fake_descriptor(op, SN_CUDNN_POINTWISE_OP_X));
    const struct value *b = second ? value_of(r, second) : NULL;
    const struct value *t = third ? value_of(r, third) : NULL;
    const struct value *y = value_of(r, fake_descriptor(op, SN_CUDNN_POINTWISE_OP_Y));
    int mode = (int)fake_int(how, SN_CUDNN_POINTWISE_MODE);
    int64_t i[4] = {0}, axis = fake_int(how, SN_CUDNN_POINTWISE_AXIS);
    if (r->has_failed)
        return;
    do
        put(y, i,
            mode == SN_CUDNN_INDEX ? (double)i[axis]
                                   : applied(mode, get(x, i, y->n[1]), b ? get(b, i, y->n[1]) : 0,
                                             t && get(t, i, y->n[1]) != 0));
    while (step(y, i));
}

static void reduce(const struct value *x, const struct value *y, int mode)
{
    int64_t i[4] = {0}, n = count(y);
    double *sum = malloc((size_t)n * sizeof(*sum));
    if (!sum)
        abort();
    for (int64_t k = 0; k < n; k++)
        sum[k] = mode == SN_CUDNN_SUM ? 0 : -INFINITY;
    do {
        int64_t to[4];
        for (int k = 0; k < 4; k++)
            to[k] = i[k] / (x->n[k] / y->n[k]);
        double e = get(x, i, x->n[1]), *at = &sum[packed_at(y, to)];
        *at = mode == SN_CUDNN_SUM ? *at + e : e > *at ? e : *at;
    } while (step(x, i));
    memset(i, 0, sizeof(i));
    do
        put(y, i, sum[packed_at(y, i)]);
    while (step(y, i));
    free(sum);
}

/* The same memory with other sizes and strides. */
static void reshape(const struct value *x, const struct value *y)
{
    int64_t i[4] = {0}, span = 1;
    for (int k = 0; k < 4; k++)
        span += (x->n[k] - 1) * x->step[k];
    double *flat = malloc((size_t)span * sizeof(*flat));
    if (!flat)
        abort();
    do
        flat[strided_at(x, i)] = get(x, i, x->n[1]);
    while (step(x, i));
    memset(i, 0, sizeof(i));
    do
        put(y, i, flat[strided_at(y, i)]);
    while (step(y, i));
    free(flat);
}

static void operate(struct run *r, const struct descriptor *op)
{
    if (op->kind == SN_CUDNN_POINTWISE_OP) {
        pointwise(r, op);
    } else if (op->kind == SN_CUDNN_MATMUL_OP) {
        const struct value *a = value_of(r, fake_descriptor(op, SN_CUDNN_MATMUL_OP_A));
        const struct value *b = value_of(r, fake_descriptor(op, SN_CUDNN_MATMUL_OP_B));
        const struct value *c = value_of(r, fake_descriptor(op, SN_CUDNN_MATMUL_OP_C));
        if (a->n[3] != b->n[2] || a->n[2] != c->n[2] || b->n[3] != c->n[3])
            fail(r, "the sizes of a product do not fit");
        if (!r->has_failed)
            multiply(a, b, c);
    } else {
        bool sums = op->kind == SN_CUDNN_REDUCTION_OP;
        const struct value *x = value_of(
            r, fake_descriptor(op, sums ? SN_CUDNN_REDUCTION_OP_X : SN_CUDNN_RESHAPE_OP_X));
        const struct value *y = value_of(
            r, fake_descriptor(op, sums ? SN_CUDNN_REDUCTION_OP_Y : SN_CUDNN_RESHAPE_OP_Y));
        if (r->has_failed)
            return;
        if (sums)
            reduce(x, y,
                   (int)fake_int(fake_descriptor(op, SN_CUDNN_REDUCTION_OP_HOW),
                                 SN_CUDNN_REDUCTION_HOW));
        else
            reshape(x, y);
    }
}

static void note_execution(int operations)
{
    const char *path = getenv("FAKE_CUDNN_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    (void)fprintf(f, "a graph of %d operations\n", operations);
    (void)fclose(f);
}

int cudnnBackendExecute(void *handle, void *plan, void *variant)
{
    const struct descriptor *p = plan, *v = variant;
    const struct descriptor *config = fake_descriptor(p, SN_CUDNN_PLAN_CONFIG);
    const struct attribute *ops = fake_find(config->answer, SN_CUDNN_GRAPH_OPS);
    struct run r = {.variant = v};
    int64_t bytes = 0, n;
    if (!handle || !p->is_final || !v->is_final)
        return fake_says(BAD, "a plan or its pointers are not finalized");
    if (fake_habit("fails=", 0))
        return fake_says(UNSUPPORTED, "the launch failed");
    (void)cudnnBackendGetAttribute(plan, SN_CUDNN_PLAN_WORKSPACE, SN_CUDNN_IS_INT64, 1, &n, &bytes);
    if (bytes > 0)
        memset(*(void **)fake_find(v, SN_CUDNN_VARIANT_WORKSPACE)->values, 0xff, (size_t)bytes);
    for (int64_t i = 0; i < ops->n && !r.has_failed; i++)
        operate(&r, ((struct descriptor **)ops->values)[i]);
    for (int i = 0; i < r.n; i++)
        free(r.v[i].kept);
    note_execution((int)ops->n);
    return r.has_failed ? BAD : SUCCESS;
}
