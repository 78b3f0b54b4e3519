/*
 * GEMM against plain loops in double: every transposition, storage type, epilogue and remainder.
 */
#include "kernels/fp8.h"
#include "tests/lib/kernel_test.h"

struct gemm {
    int64_t m, n, k;
    int64_t pad; /* elements between rows, of every operand */
};

struct variant {
    enum sn_dtype in, out;
    bool bias, addend, addend_is_c;
    enum sn_acc acc;
    enum sn_fp8 fp8;
};

static const struct variant plain = {SN_F32, SN_F32, false, false, false, SN_WRITE, SN_FP8_NONE};

/* Rows r0 .. r1 - 1, columns c0 .. c1 - 1 of x are rounded to 8-bit floats with one scale. */
static void round_part(double *x, int64_t cols, const int64_t rows[2], const int64_t depth[2],
                       enum sn_fp8_format t)
{
    double amax = 0;
    for (int64_t r = rows[0]; r < rows[1]; r++)
        for (int64_t l = depth[0]; l < depth[1]; l++)
            amax = fmax(fabs(x[r * cols + l]), amax);
    float most = (float)amax;
    uint32_t bits;
    memcpy(&bits, &most, sizeof(bits));
    int e = sn_fp8_exponent(bits, t);
    for (int64_t r = rows[0]; r < rows[1]; r++)
        for (int64_t l = depth[0]; l < depth[1]; l++)
            x[r * cols + l] = (double)sn_fp8_round((float)x[r * cols + l], e, t);
}

/* An operand [rows, depth] that is to be rounded to 8-bit floats is, as ops.h says. */
static void round_operand(const struct kt *k, int operand, double *x, int64_t rows, int64_t depth)
{
    enum sn_fp8 how = k->a.attr.gemm.fp8;
    enum sn_fp8_format t = how == SN_FP8_BACKWARD && operand == 0 ? SN_E5M2 : SN_E4M3;
    bool parts = how == SN_FP8_BLOCKS || how == SN_FP8_LINES;
    int64_t high = how == SN_FP8_BLOCKS && operand == 1 ? 128 : parts ? 1 : rows + 1;
    int64_t deep = parts ? 128 : depth + 1;
    if (how == SN_FP8_NONE)
        return;
    for (int64_t r = 0; r < rows; r += high)
        for (int64_t l = 0; l < depth; l += deep)
            round_part(x, depth, (int64_t[2]){r, r + high < rows ? r + high : rows},
                       (int64_t[2]){l, l + deep < depth ? l + deep : depth}, t);
}

/* Operand as doubles, rows of length k: A's rows, or B's columns. Caller frees. */
static double *unpack(const struct kt *k, int operand, bool trans, int64_t rows, int64_t depth)
{
    const struct sn_mat *x = &k->a.in[operand];
    double *d = malloc((size_t)(rows * depth) * sizeof(*d) + 1);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t l = 0; l < depth; l++)
            d[r * depth + l] = trans ? kt_get(x, l, r) : kt_get(x, r, l);
    round_operand(k, operand, d, rows, depth);
    return d;
}

static void reference(const struct kt *k, const struct gemm *g, double *want)
{
    double *a = unpack(k, 0, k->a.attr.gemm.trans_a, g->m, g->k);
    double *b = unpack(k, 1, !k->a.attr.gemm.trans_b, g->n, g->k);
    for (int64_t r = 0; r < g->m; r++) {
        for (int64_t c = 0; c < g->n; c++) {
            double sum = 0;
            for (int64_t l = 0; l < g->k; l++)
                sum += a[r * g->k + l] * b[c * g->k + l];
            if (k->a.in[2].p)
                sum += kt_get(&k->a.in[2], 0, c);
            if (k->a.in[3].p)
                sum += kt_get(&k->a.in[3], r, c);
            want[r * g->n + c] += sum;
        }
    }
    free(a);
    free(b);
}

/*
 * Tolerance: k terms of size 1 in fp32, so sqrt(k) 6e-8 for each of about sqrt(k) roundings that
 * do not cancel; 2e-6 + 2e-8 k is four times what was seen. Storage rounding is the harness's.
 */
static bool right(const struct gemm *g, bool trans_a, bool trans_b, const struct variant *v)
{
    struct kt k = {.magnitude = 1.0 + sqrt((double)g->k)};
    k.a.attr.gemm.trans_a = trans_a;
    k.a.attr.gemm.trans_b = trans_b;
    k.a.attr.gemm.fp8 = v->fp8;
    kt_in(&k, 0, (struct kt_shape){v->in, trans_a ? g->k : g->m, trans_a ? g->m : g->k, g->pad});
    kt_in(&k, 1, (struct kt_shape){v->in, trans_b ? g->n : g->k, trans_b ? g->k : g->n, g->pad});
    if (v->bias)
        kt_in(&k, 2, (struct kt_shape){v->in, 1, g->n, 0});
    if (v->addend)
        kt_in(&k, 3, (struct kt_shape){v->out, g->m, g->n, g->pad});
    if (v->addend_is_c)
        kt_take(&k, 0, 3);
    else
        kt_out(&k, 0, (struct kt_shape){v->out, g->m, g->n, g->pad}, v->acc);
    reference(&k, g, kt_ref(&k, 0));
    bool good = kt_check(&k, SN_OP_GEMM, 2e-6 + 2e-8 * (double)g->k);
    kt_free(&k);
    if (!good)
        printf("# m %ld n %ld k %ld trans %d%d bias %d addend %d%s acc %d\n", (long)g->m,
               (long)g->n, (long)g->k, trans_a, trans_b, v->bias, v->addend,
               v->addend_is_c ? " = C" : "", v->acc);
    return good;
}

/* Tiles are 8 x 48, 4 x 24 and 4 x 12; a k up to 768 is one block, deeper ones are at most 384;
 * blocks of columns are 1152 wide, or 576 for a k of 385 to 768. */
static const struct gemm shapes[] = {
    {1, 1, 1, 0},     {7, 5, 3, 0},      {64, 64, 64, 0}, {100, 100, 100, 3},
    {257, 49, 33, 1}, {8, 48, 16, 0},    {9, 47, 385, 5}, {16, 1200, 20, 0},
    {3, 97, 800, 2},  {33, 150, 384, 0}, {1, 300, 65, 0}, {70, 1, 64, 0},
};
enum { NSHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static void every_transposition_of_every_shape_is_right(void)
{
    for (int t = 0; t < 4; t++) {
        bool good = true;
        for (int s = 0; s < NSHAPES; s++)
            good = right(&shapes[s], t & 1, t & 2, &plain) && good;
        tap_ok(good, "fp32, A%s B%s: all shapes", t & 1 ? "^T" : "", t & 2 ? "^T" : "");
    }
}

static void half_storage_is_summed_in_fp32(void)
{
    static const enum sn_dtype half[] = {SN_BF16, SN_F16};
    for (int d = 0; d < 2; d++) {
        for (int wide = 0; wide < 2; wide++) {
            struct variant v = {.in = half[d], .out = wide ? SN_F32 : half[d]};
            bool good = true;
            for (int s = 0; s < NSHAPES; s++) {
                int t = s + wide; /* each shape with two transpositions */
                good = right(&shapes[s], t & 1, t & 2, &v) && good;
            }
            tap_ok(good, "%s operands, %s result: all shapes", sn_dtype_name(v.in),
                   sn_dtype_name(v.out));
        }
    }
}

static void epilogues_are_right(void)
{
    static const struct gemm some[] = {{37, 100, 50, 4}, {16, 96, 800, 0}, {5, 110, 770, 1}};
    static const enum sn_dtype types[][2] = {
        {SN_F32, SN_F32}, {SN_BF16, SN_BF16}, {SN_F16, SN_F16}, {SN_BF16, SN_F32}};
    for (int d = 0; d < 4; d++) {
        bool good = true;
        for (int e = 0; e < 16; e++) {
            struct variant v = {
                types[d][0], types[d][1],        e & 1,
                e & 2,       (e & 2) && (e & 4), e & 8 && !((e & 2) && (e & 4)) ? SN_ADD : SN_WRITE,
                SN_FP8_NONE};
            for (int s = 0; s < 3; s++)
                good = right(&some[s], false, true, &v) && good;
        }
        tap_ok(good, "%s to %s: bias, addend, addend in place, accumulation",
               sn_dtype_name(types[d][0]), sn_dtype_name(types[d][1]));
    }
}

/* The whole path of a large matrix: several blocks in every direction, wide sums. */
static void large_shapes_are_right(void)
{
    static const struct gemm large = {270, 1160, 770, 0}, tall = {1030, 20, 770, 0};
    struct variant bf16 = {.in = SN_BF16, .out = SN_BF16};
    tap_ok(right(&large, false, true, &plain), "fp32, several blocks of rows, columns and depth");
    tap_ok(right(&large, true, false, &bf16), "bf16, several blocks of rows, columns and depth");
    tap_ok(right(&tall, false, false, &bf16), "bf16, more rows than the block of fp32 sums");
}

/* Tiles of bf16 may take the depth in parts of 256 for groups of up to 512 columns, and write a
 * fp32 C of more than 2^20 elements past the caches. */
static void parts_and_groups_of_bf16_are_right(void)
{
    static const struct gemm deep = {40, 70, 1600, 0}, group = {36, 600, 520, 0},
                             wide = {1000, 1056, 20, 0};
    static const enum sn_dtype out[] = {SN_BF16, SN_F32};
    for (int d = 0; d < 2; d++) {
        bool good = true;
        for (int t = 0; t < 4; t++) {
            struct variant v = {.in = SN_BF16, .out = out[d], .bias = t & 1};
            v.acc = t & 2 ? SN_ADD : SN_WRITE;
            good = right(&deep, t & 1, t & 2, &v) && right(&group, t & 1, t & 2, &v) && good;
        }
        tap_ok(good, "bf16 to %s, several parts of the depth, several groups of columns",
               sn_dtype_name(out[d]));
    }
    struct variant v = {.in = SN_BF16, .out = SN_F32};
    tap_ok(right(&wide, true, false, &v), "bf16 to a fp32 C larger than the caches");
}

static void empty_depth_leaves_the_rest_of_the_contract(void)
{
    static const struct gemm none = {9, 50, 0, 2};
    struct variant v = {SN_F32, SN_F32, true, true, false, SN_ADD, SN_FP8_NONE};
    tap_ok(right(&none, false, false, &v), "k = 0: bias and addend are added to C");
}

/* Forward: a bias; backward: dx with an addend, dw added to sums in fp32. Widths of whole 16 are
 * what a device's library takes. */
static void operands_are_rounded_to_8_bits(void)
{
    static const struct gemm some[] = {{64, 64, 64, 0},    {80, 48, 32, 16}, {37, 100, 50, 4},
                                       {9, 47, 385, 5},    {16, 96, 800, 0}, {128, 256, 128, 0},
                                       {144, 272, 528, 16}};
    enum { NSOME = sizeof(some) / sizeof(some[0]) };
    static const struct variant ways[] = {
        {SN_BF16, SN_BF16, true, false, false, SN_WRITE, SN_FP8_FORWARD},
        {SN_BF16, SN_BF16, false, true, false, SN_WRITE, SN_FP8_BACKWARD},
        {SN_BF16, SN_BF16, false, true, true, SN_WRITE, SN_FP8_BACKWARD},
        {SN_BF16, SN_F32, false, false, false, SN_ADD, SN_FP8_BACKWARD},
        {SN_BF16, SN_F32, false, false, false, SN_WRITE, SN_FP8_BACKWARD},
        {SN_BF16, SN_BF16, true, false, false, SN_WRITE, SN_FP8_BLOCKS},
        {SN_BF16, SN_BF16, false, true, true, SN_WRITE, SN_FP8_BLOCKS},
        {SN_BF16, SN_F32, false, false, false, SN_ADD, SN_FP8_LINES},
        {SN_BF16, SN_F32, false, false, false, SN_WRITE, SN_FP8_LINES}};
    static const char *const names[] = {
        "forward",         "dx",         "dx in place",     "dw added", "dw",
        "blocks, forward", "blocks, dx", "lines, dw added", "lines, dw"};
    for (int w = 0; w < 9; w++) {
        bool good = true;
        for (int s = 0; s < NSOME; s++)
            for (int t = 0; t < 4; t++)
                good = right(&some[s], t & 1, t & 2, &ways[w]) && good;
        tap_ok(good, "operands in 8 bits, %s: all transpositions", names[w]);
    }
}

/* Inf and NaN must come through: overflow detection reads them. */
static void infinities_arrive(void)
{
    float a[3] = {1, INFINITY, 1}, b[3] = {2, 3, 4}, c = 0, nan_a[3] = {1, NAN, 1};
    struct sn_args args = {.in = {{a, SN_F32, 1, 3, 3}, {b, SN_F32, 3, 1, 1}},
                           .out = {{&c, SN_F32, 1, 1, 1}}};
    const struct sn_ops *ops = sn_ops_cpu();
    args.scratch = kt_alloc(ops->scratch(SN_OP_GEMM, &args, 1));
    bool ran = ops->run[SN_OP_GEMM](&args, 1) == 0;
    tap_ok(ran && isinf(c), "an infinity in A arrives in C");
    args.in[0].p = nan_a;
    ran = ops->run[SN_OP_GEMM](&args, 1) == 0;
    tap_ok(ran && isnan(c), "a NaN in A arrives in C");
    free(args.scratch);
}

/* With an argument: what an emulator of another processor does in seconds. */
int main(int argc, char **argv)
{
    (void)argv;
    every_transposition_of_every_shape_is_right();
    half_storage_is_summed_in_fp32();
    if (argc > 1)
        return tap_done();
    epilogues_are_right();
    large_shapes_are_right();
    parts_and_groups_of_bf16_are_right();
    empty_depth_leaves_the_rest_of_the_contract();
    operands_are_rounded_to_8_bits();
    infinities_arrive();
    return tap_done();
}
