/*
 * test_plan.cc - plans of GEMM on the emulated cuBLASLt: measured once, kept as text, taken again.
 *
 * Of the library's four algorithms (blas.cc) the guess is the first, the second fails when it is
 * run, the third is fastest.
 */
#include "tests/cuda_emul/emul.h"

static int points, failed;

static void ok(bool good, const char *what, const char *of = NULL)
{
    printf("%sok %d - %s%s%s\n", good ? "" : "not ", ++points, of ? of : "", of ? ": " : "", what);
    failed += !good;
}

enum { M = 6, N = 10, K = 7, REFUSED = 9 }; /* 2 n + M is what blas.cc looks at */

struct product {
    struct sn_args a;
    float x[M * K], y[K * N], z[M * N];
};

static void make(struct product *p, int n)
{
    memset((void *)p, 0, sizeof(*p));
    for (int i = 0; i < M * K; i++)
        p->x[i] = (float)(i % 5 - 2);
    for (int i = 0; i < K * n; i++)
        p->y[i] = (float)(i % 7 - 3);
    p->a.in[0] = {p->x, SN_F32, M, K, K};
    p->a.in[1] = {p->y, SN_F32, K, n, n};
    p->a.out[0] = {p->z, SN_F32, M, n, n};
}

static bool is_right(const struct product *p, int n)
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int k = 0; k < K; k++)
                sum += p->x[i * K + k] * p->y[k * n + j];
            if (p->z[i * n + j] != sum)
                return false;
        }
    return true;
}

static struct sn_cuda *context(int arch, bool tunes)
{
    struct sn_cuda *cx = (struct sn_cuda *)calloc(1, sizeof(*cx));
    cx->device = {arch, 4, 227 * 1024, 0};
    cx->tunes = tunes;
    return cx;
}

static bool runs(struct sn_cuda *cx, int n)
{
    struct product p;
    make(&p, n);
    return sn_cuda_run_op(cx, SN_OP_GEMM, &p.a) == 0 && is_right(&p, n);
}

static void a_plan_is_measured_once(char line[400])
{
    struct sn_cuda *cx = context(90, true);
    ok(runs(cx, N) && sn_emul_taken == 2, "the fastest that works is taken");
    ok(runs(cx, N) && sn_emul_asked == 1 && sn_emul_taken == 2, "the library is asked once");
    ok(runs(cx, REFUSED) && cx->plans.n == 1, "what the library refuses has no plan");
    ok(sn_cuda_plan_format(cx, 0, line, 400) == 0 && sn_cuda_plan_format(cx, 1, line, 400) == 1 &&
           sn_cuda_plan_format(cx, 0, line, 320) == 0,
       "a line for each plan, within what kernels/device.h has room for");
    printf("# %s\n", line);
    free(cx);
}

static void what_runs_without_the_library_is_told(void)
{
    struct sn_cuda *cx = context(90, false);
    char line[320];
    ok(runs(cx, N) && sn_cuda_gemm_note(cx, 0, line, sizeof(line)) == 1,
       "nothing is told of what the library computes");
    ok(runs(cx, REFUSED) && runs(cx, REFUSED) && sn_cuda_gemm_note(cx, 0, line, sizeof(line)) == 0 &&
           sn_cuda_gemm_note(cx, 1, line, sizeof(line)) == 1,
       "a shape that it refuses is told once");
    ok(strcmp(line, "a product of 6 x 9, 7 deep, of fp32 to fp32 is computed without cuBLASLt, which "
                    "refuses this shape; that is slower") == 0,
       line);
    struct product p;
    make(&p, N);
    p.a.in[3] = p.a.out[0];
    p.a.acc[0] = SN_ADD;
    ok(sn_cuda_run_op(cx, SN_OP_GEMM, &p.a) == 0 &&
           sn_cuda_gemm_note(cx, 1, line, sizeof(line)) == 0 &&
           strstr(line, "6 x 10, 7 deep") && strstr(line, "has none with such operands"),
       "so is what the library has no way for");
    for (int n = 1; n < 60; n++) {
        struct product *q = (struct product *)calloc(1, sizeof(*q));
        make(q, N);
        q->a.in[1].cols = q->a.out[0].cols = n % N + 1;
        q->a.in[0].cols = q->a.in[1].rows = n / N + 1;
        q->a.in[3] = q->a.out[0];
        q->a.acc[0] = SN_ADD;
        (void)sn_cuda_run_op(cx, SN_OP_GEMM, &q->a);
        free(q);
    }
    ok(cx->n_own == SN_CUDA_OWN, "no more of them are kept than there is room for");
    free(cx);
}

static void a_plan_is_taken_again(const char *line)
{
    struct sn_cuda *cx = context(90, false);
    int asked = sn_emul_asked;
    ok(sn_cuda_plan_parse(cx, line) == 0 && runs(cx, N) && sn_emul_taken == 2 &&
           sn_emul_asked == asked,
       "a line that was read is taken unasked");
    ok(runs(cx, N - 2) && sn_emul_taken == 0 && sn_emul_asked == asked + 1,
       "another shape is asked for, and gets the guess");
    free(cx);
}

static void lines_of_others_are_passed_over(const char *line)
{
    struct sn_cuda *cx = context(80, false);
    ok(sn_cuda_plan_parse(cx, line) == 1 && runs(cx, N) && sn_emul_taken == 0,
       "a line of another architecture is passed over");
    cx->device = {90, 5, 227 * 1024, 0};
    ok(sn_cuda_plan_parse(cx, line) == 1, "and one of another number of multiprocessors");
    cx->device.multiprocessors = 4;
    setenv("SN_EMUL_LT", "120000", 1);
    ok(sn_cuda_plan_parse(cx, line) == 1, "and one of another version of the library");
    unsetenv("SN_EMUL_LT");
    ok(cx->plans.n == 1, "none of them is a plan");
    free(cx);
}

static void nonsense_is_refused(const char *line)
{
    struct sn_cuda *cx = context(90, false);
    char bad[410];
    bool good = true;
    static const char *const lines[] = {"", "cublasLt", "cublasLt 130000 sm_90 4 :",
                                        "cublasLt 130000 sm_90 4 : 1 2 3", "fake 1 : 1"};
    for (const char *l : lines)
        good = good && sn_cuda_plan_parse(cx, l) == -1;
    snprintf(bad, sizeof(bad), "%s 1", line);
    good = good && sn_cuda_plan_parse(cx, bad) == -1;
    snprintf(bad, sizeof(bad), "%sg", line);
    good = good && sn_cuda_plan_parse(cx, bad) == -1;
    ok(good && cx->plans.n == 0, "lines that are cut, longer or no numbers are refused");
    free(cx);
}

static void an_algorithm_that_fails_is_a_failure(const char *line)
{
    struct sn_cuda *cx = context(90, false);
    char other[400];
    snprintf(other, sizeof(other), "%s", line);
    char *at = strstr(other, " 2a "); /* 42, the third of blas.cc */
    ok(at != NULL, "the algorithm stands in the line");
    if (at)
        at[2] = '9';
    struct product p;
    make(&p, N);
    ok(sn_cuda_plan_parse(cx, other) == 0 && sn_cuda_run_op(cx, SN_OP_GEMM, &p.a) != 0 &&
           strcmp(cx->fault.op, "gemm") == 0,
       "one that the library then refuses fails by name, and no other is taken in silence");
    free(cx);
}

/* One product with operands in 8 bits: bits of its result in z; how many went to the library. */
static long in_8_bits(int arch, enum sn_fp8 how, uint16_t *z, bool *ran)
{
    enum { ROWS = 80, COLS = 208, DEPTH = 304 };
    static uint16_t x[ROWS * DEPTH], y[COLS * DEPTH];
    for (int i = 0; i < ROWS * DEPTH; i++) /* each line of 128 of another size */
        x[i] = sn_f32_to_bf16(ldexpf((float)(i * 37 % 101) / 7 - 6, -(i / 128 % 9)));
    for (int i = 0; i < COLS * DEPTH; i++)
        y[i] = sn_f32_to_bf16(ldexpf((float)(i * 53 % 89) / 11 - 4, -(i / 4096 % 7)));
    struct sn_cuda *cx = context(arch, false);
    long before = sn_emul_codes;
    struct sn_args a;
    memset((void *)&a, 0, sizeof(a));
    bool turned = how == SN_FP8_LINES; /* as of a gradient: the depth is rows */
    a.in[0] = {x, SN_BF16, turned ? DEPTH : ROWS, turned ? ROWS : DEPTH, turned ? ROWS : DEPTH};
    a.in[1] = {y, SN_BF16, turned ? DEPTH : COLS, turned ? COLS : DEPTH, turned ? COLS : DEPTH};
    a.out[0] = {z, SN_BF16, ROWS, COLS, COLS};
    a.attr.trans_a = turned;
    a.attr.trans_b = !turned;
    a.attr.fp8 = how;
    a.scratch = aligned_alloc(256, (sn_cuda_scratch(SN_OP_GEMM, &a, 1) + 255) / 256 * 256);
    *ran = sn_cuda_run_op(cx, SN_OP_GEMM, &a) == 0 && *ran;
    free(a.scratch);
    free(cx);
    return sn_emul_codes - before;
}

/* Results of codes and of the same values in bf16 may differ by how their sums are rounded. */
static bool alike(const uint16_t *p, const uint16_t *q, int n)
{
    float size = 0, off = 0;
    for (int i = 0; i < n; i++) {
        size = fmaxf(size, fabsf(sn_bf16_to_f32(p[i])));
        off = fmaxf(off, fabsf(sn_bf16_to_f32(p[i]) - sn_bf16_to_f32(q[i])));
    }
    return off <= 0.005f * size && size > 0;
}

/* 8-bit operands: by the library where it takes them, else as the same values in bf16. */
static void codes_go_to_the_library(void)
{
    static uint16_t z[2][80 * 208];
    static const struct {
        enum sn_fp8 how;
        const char *name;
        bool parts;
    } ways[] = {{SN_FP8_FORWARD, "one scale for each", false},
                {SN_FP8_BACKWARD, "gradients", false},
                {SN_FP8_BLOCKS, "lines and blocks", true},
                {SN_FP8_LINES, "lines along the tokens", true}};
    for (int w = 0; w < 4; w++) {
        bool ran = true;
        long parts = sn_emul_parts;
        long here = in_8_bits(90, ways[w].how, z[0], &ran);
        parts = sn_emul_parts - parts;
        long older = in_8_bits(80, ways[w].how, z[1], &ran);
        ok(ran && here == 1 && older == 0 && parts == ways[w].parts,
           "8-bit codes are the library's on sm_90, and none are made on sm_80", ways[w].name);
        ok(alike(z[0], z[1], 80 * 208), "both have the same result", ways[w].name);
    }
    bool ran = true;
    setenv("SN_EMUL_LT", "120805", 1);
    long old = in_8_bits(90, SN_FP8_BLOCKS, z[0], &ran) + in_8_bits(90, SN_FP8_LINES, z[1], &ran);
    long whole = in_8_bits(90, SN_FP8_FORWARD, z[0], &ran);
    unsetenv("SN_EMUL_LT");
    ok(ran && old == 0 && whole == 1 && in_8_bits(100, SN_FP8_BLOCKS, z[0], &ran) == 0,
       "scales of parts: not by a cuBLASLt before 12.9, nor on sm_100");
}

int main(void)
{
    char line[400];
    a_plan_is_measured_once(line);
    what_runs_without_the_library_is_told();
    a_plan_is_taken_again(line);
    lines_of_others_are_passed_over(line);
    nonsense_is_refused(line);
    an_algorithm_that_fails_is_a_failure(line);
    codes_go_to_the_library();
    printf("1..%d\n", points);
    return failed != 0;
}
