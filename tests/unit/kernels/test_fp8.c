/*
 * 8-bit floats against what PyTorch rounds to (tests/parity/make_fp8.py), the scale of a tensor,
 * and products of operands with one scale and with scales of blocks and lines.
 */
#include "kernels/fp8.h"
#include "kernels/half.h"
#include "kernels/ops.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <stdlib.h>

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static bool is_nan(unsigned code, enum sn_fp8_format t)
{
    return t == SN_E4M3 ? (code & 0x7f) == 0x7f : (code & 0x7f) > 0x7c;
}

static void rounding_is_pytorch_s(void)
{
    static const char *const names[] = {"e4m3", "e5m2"};
    unsigned bits, want[2];
    int n = 0, wrong[2] = {0, 0};
    FILE *f = fopen("tests/parity/fixtures/fp8", "r");
    tap_ok(f != NULL, "the fixture is there");
    while (f && fscanf(f, "%x %x %x", &bits, &want[0], &want[1]) == 3) {
        n++;
        for (int t = 0; t < 2; t++) {
            unsigned got = sn_f32_to_fp8(sn_fp8_bits(bits), (enum sn_fp8_format)t);
            if (t == SN_E4M3 && (bits & 0x7fffffffu) > 0x43e80000u) /* 464, and beyond: see fp8.h */
                want[t] = 0x7f;
            bool same = got == want[t] || (is_nan(got, (enum sn_fp8_format)t) &&
                                           is_nan(want[t], (enum sn_fp8_format)t));
            if (!same && wrong[t]++ < 5)
                printf("# %08x in %s is %02x, want %02x\n", bits, names[t], got, want[t]);
        }
    }
    if (f)
        (void)fclose(f);
    for (int t = 0; t < 2; t++)
        tap_ok(n > 3000 && wrong[t] == 0, "%s: %d numbers are rounded as PyTorch does", names[t],
               n);
}

static void every_code_comes_back(void)
{
    for (int t = 0; t < 2; t++) {
        bool good = true, halves = true;
        for (unsigned c = 0; c < 256; c++) {
            float x = sn_fp8_to_f32((uint8_t)c, (enum sn_fp8_format)t);
            if (is_nan(c, (enum sn_fp8_format)t)) {
                good = good && isnan(x);
                continue;
            }
            good = good && sn_f32_to_fp8(x, (enum sn_fp8_format)t) == c;
            halves = halves && bits_of(sn_bf16_to_f32(sn_f32_to_bf16(x))) == bits_of(x);
            if (t == SN_E5M2) /* fp16 cut short */
                halves = halves && bits_of(sn_f16_to_f32((uint16_t)(c << 8))) == bits_of(x);
        }
        tap_ok(good && halves, "%s: every code is its own rounding, and exact in bf16",
               t ? "e5m2" : "e4m3");
    }
}

static void scales_fill_the_range(void)
{
    static const float most[] = {448.0f, 57344.0f};
    bool good = true, alike = true;
    for (int t = 0; t < 2; t++)
        for (float amax = 0x1p-70f; amax < 0x1p100f; amax *= 1.37f) {
            int e = sn_fp8_exponent(bits_of(amax), (enum sn_fp8_format)t);
            float top = amax * sn_power_of_two(e);
            good = good && top <= most[t] && 2 * top > most[t];
            /* what is not far below amax is rounded alike whatever the scale */
            for (float x = amax; x > amax * 0x1p-10f; x *= 0.71f)
                alike = alike && sn_fp8_round(x, e, (enum sn_fp8_format)t) ==
                                     sn_fp8_round(x, e - 3, (enum sn_fp8_format)t);
        }
    tap_ok(good, "the largest value is within the format, and twice it is not");
    tap_ok(alike, "a scale that is a power of two does not change what it does not push out");
    tap_ok(sn_fp8_exponent(0, SN_E4M3) == 0 && sn_fp8_exponent(0x7f800000, SN_E4M3) == 0 &&
               sn_fp8_exponent(0x7fc00000, SN_E5M2) == 0 && sn_fp8_exponent(1, SN_E4M3) == 100,
           "zeros and what is not finite have no scale, and none exceeds 2^100");
    tap_ok(isnan(sn_fp8_round(INFINITY, 0, SN_E4M3)) && isinf(sn_fp8_round(INFINITY, 0, SN_E5M2)) &&
               isnan(sn_fp8_round(NAN, 0, SN_E4M3)) && isnan(sn_fp8_round(NAN, 0, SN_E5M2)),
           "what is not finite stays so");
}

/* --- products --------------------------------------------------------------------------------- */

enum { M = 96, N = 256, K = 384 };

/* x[M, K], w[N, K], dy[M, N]; element (r, c) of x and dy shrinks by `fall` bits in each row. */
static void fill(uint16_t *p, int rows, int cols, double fall, unsigned seed)
{
    for (int i = 0; i < rows * cols; i++) {
        seed = seed * 1664525u + 1013904223u;
        double u = (double)(seed >> 8) / (1 << 23) - 1;
        p[i] = sn_f32_to_bf16((float)ldexp(u, -(int)(fall * (i / cols))));
    }
}

struct product {
    struct sn_mat a, b;
    bool trans_a, trans_b;
    int64_t rows, cols, depth;
    float *c;
};

static void multiply(const struct product *p, enum sn_fp8 how)
{
    const struct sn_ops *ops = sn_ops_cpu();
    struct sn_args a = {.in = {p->a, p->b}, .out = {{p->c, SN_F32, p->rows, p->cols, p->cols}}};
    a.attr.gemm.trans_a = p->trans_a;
    a.attr.gemm.trans_b = p->trans_b;
    a.attr.gemm.fp8 = how;
    size_t bytes = (ops->scratch(SN_OP_GEMM, &a, 2) + 63) / 64 * 64;
    a.scratch = aligned_alloc(64, bytes);
    if (!a.scratch || ops->run[SN_OP_GEMM](&a, 2) != 0)
        abort();
    free(a.scratch);
}

static double element(const struct sn_mat *x, bool turned, int64_t r, int64_t l)
{
    int64_t at = turned ? l * x->ld + r : r * x->ld + l;
    return (double)sn_bf16_to_f32(((const uint16_t *)x->p)[at]);
}

/*
 * The largest error of the product's rows, each over the sum of its terms' magnitudes. Each factor
 * is off by half of the last of e4m3's 3 bits at most (2^-4 of it, as long as it is a normal
 * number), so a term by 2 2^-4 + 2^-8, about 0.13.
 */
static double worst_row(const struct product *p)
{
    double worst = 0;
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t c = 0; c < p->cols; c++) {
            double sum = 0, size = 0;
            for (int64_t l = 0; l < p->depth; l++) {
                double term = element(&p->a, p->trans_a, r, l) * element(&p->b, !p->trans_b, c, l);
                sum += term;
                size += fabs(term);
            }
            double off = fabs((double)p->c[r * p->cols + c] - sum) / size;
            worst = off > worst || isnan(off) ? off : worst;
        }
    return worst;
}

static uint16_t x[M * K], w[N * K], dy[M * N];
static float c_whole[N * K], c_part[N * K];

/* Activations whose rows differ by 2^(M/2) in all: a scale of the whole matrix loses the small
 * ones, that of a line does not. */
static void errors_are_within_the_format_s_bound(void)
{
    const double bound = 0.13;
    struct product p = {
        {x, SN_BF16, M, K, K}, {w, SN_BF16, N, K, K}, false, true, M, N, K, c_whole};
    fill(x, M, K, 0, 1);
    fill(w, N, K, 0, 2);
    multiply(&p, SN_FP8_FORWARD);
    double whole = worst_row(&p);
    multiply(&p, SN_FP8_BLOCKS);
    double parts = worst_row(&p);
    tap_ok(whole < bound && parts < bound && whole > 1e-4 && parts > 1e-4,
           "of rows alike: error %.4f with one scale, %.4f with many, bound %.2f", whole, parts,
           bound);
    fill(x, M, K, 0.5, 1);
    multiply(&p, SN_FP8_FORWARD);
    whole = worst_row(&p);
    multiply(&p, SN_FP8_BLOCKS);
    parts = worst_row(&p);
    tap_ok(whole > bound && parts < bound,
           "of rows that fall off: error %.4f with one scale, %.4f with many", whole, parts);
    fill(x, M, K, 0, 1);
    fill(dy, M, N, 0, 3);
    struct product dx = {
        {dy, SN_BF16, M, N, N}, {w, SN_BF16, N, K, K}, false, false, M, K, N, c_whole};
    multiply(&dx, SN_FP8_BLOCKS);
    double of_dx = worst_row(&dx);
    struct product dw = {
        {dy, SN_BF16, M, N, N}, {x, SN_BF16, M, K, K}, true, false, N, K, M, c_whole};
    multiply(&dw, SN_FP8_LINES);
    double of_dw = worst_row(&dw);
    tap_ok(of_dx < bound && of_dx > 1e-4 && of_dw < bound && of_dw > 1e-4,
           "gradients: error %.4f and %.4f", of_dx, of_dw);
}

/* A tensor rank has 128 rows of w, or 128 columns of w and x: its operands are rounded as in the
 * whole, so its product has the bits of the whole's columns, and products add up to the whole. */
static void cuts_at_whole_blocks_change_nothing(void)
{
    struct product p = {
        {x, SN_BF16, M, K, K}, {w, SN_BF16, N, K, K}, false, true, M, N, K, c_whole};
    bool same = true;
    double off = 0;
    fill(x, M, K, 0.1, 4);
    fill(w, N, K, 0, 5);
    multiply(&p, SN_FP8_BLOCKS);
    struct product cut = p;
    cut.c = c_part;
    cut.cols = cut.b.rows = N / 2;
    for (int i = 0; i < 2; i++) {
        cut.b.p = w + i * N / 2 * K;
        multiply(&cut, SN_FP8_BLOCKS);
        for (int r = 0; r < M; r++)
            same = same && memcmp(c_part + r * N / 2, c_whole + r * N + i * N / 2,
                                  N / 2 * sizeof(float)) == 0;
    }
    tap_ok(same, "outputs of 128 each: the bits of the whole");
    static double sum[M * N];
    cut = p;
    cut.c = c_part;
    cut.depth = cut.a.cols = cut.b.cols = 128;
    for (int i = 0; i < K / 128; i++) {
        cut.a.p = x + i * 128;
        cut.b.p = w + i * 128;
        multiply(&cut, SN_FP8_BLOCKS);
        for (int k = 0; k < M * N; k++)
            sum[k] += (double)c_part[k];
    }
    for (int k = 0; k < M * N; k++)
        off = fmax(off, fabs(sum[k] - (double)c_whole[k]) / ldexp(1, -(int)(0.1 * (k / N))));
    tap_ok(off < 1e-4, "inputs of 128 each: sums within %.1e of the whole", off);
}

int main(void)
{
    rounding_is_pytorch_s();
    every_code_comes_back();
    scales_fill_the_range();
    errors_are_within_the_format_s_bound();
    cuts_at_whole_blocks_change_nothing();
    return tap_done();
}
