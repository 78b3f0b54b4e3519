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
    ok(runs(cx, REFUSED) && runs(cx, REFUSED) &&
           sn_cuda_gemm_note(cx, 0, line, sizeof(line)) == 0 &&
           sn_cuda_gemm_note(cx, 1, line, sizeof(line)) == 1,
       "a shape that it refuses is told once");
    ok(strcmp(line,
              "a product of 6 x 9, 7 deep, of fp32 to fp32 is computed without cuBLASLt, which "
              "refuses this shape; that is slower") == 0,
       line);
    struct product p;
    make(&p, N);
    p.a.in[3] = p.a.out[0];
    p.a.acc[0] = SN_ADD;
    ok(sn_cuda_run_op(cx, SN_OP_GEMM, &p.a) == 0 &&
           sn_cuda_gemm_note(cx, 1, line, sizeof(line)) == 0 && strstr(line, "6 x 10, 7 deep") &&
           strstr(line, "has none with such operands"),
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
    a.attr.gemm.trans_a = turned;
    a.attr.gemm.trans_b = !turned;
    a.attr.gemm.fp8 = how;
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

/* --- epilogues ------------------------------------------------------------------------------- */

/* A product of bf16 with an epilogue; JOINED_REFUSED rows are what blas.cc refuses with one. */
enum { ROWS = 8, COLS = 16, DEPTH = 16, JOINED_REFUSED = 9, MOST = 16 * 16 };

struct joined {
    struct sn_args a;
    alignas(16) uint16_t x[MOST]; /* what the library takes; the others follow at multiples */
    uint16_t y[MOST], z[MOST], aux[MOST], bias[COLS];
    float dw[MOST], db[MOST];
};

static enum sn_acc acc_of_sums = SN_ADD; /* sums of columns are added, or written */

static void make_joined(struct joined *j, enum sn_epilogue e, int rows, int cols)
{
    memset((void *)j, 0, sizeof(*j));
    for (int i = 0; i < MOST; i++) {
        j->x[i] = sn_f32_to_bf16((float)(i % 5 - 2) / 2);
        j->y[i] = sn_f32_to_bf16((float)(i % 7 - 3) / 4);
        j->aux[i] = sn_f32_to_bf16((float)(i % 9 - 4) / 2);
    }
    bool dw = e == SN_EPILOGUE_COLSUM, forward = e == SN_EPILOGUE_ACT;
    j->a.attr.gemm.epilogue = e;
    j->a.attr.gemm.trans_a = dw;
    j->a.attr.gemm.trans_b = forward;
    j->a.in[0] = {j->x, SN_BF16, dw ? DEPTH : rows, dw ? rows : DEPTH, dw ? rows : DEPTH};
    j->a.in[1] = {j->y, SN_BF16, forward ? cols : DEPTH, forward ? DEPTH : cols,
                  forward ? DEPTH : cols};
    j->a.out[0] = {j->z, SN_BF16, rows, cols, cols};
    if (forward) {
        j->a.in[2] = {j->bias, SN_BF16, 1, cols, cols};
        j->a.out[1] = {j->aux, SN_BF16, rows, cols, cols};
    } else if (dw) {
        j->a.out[0] = {j->dw, SN_F32, rows, cols, cols};
        j->a.out[1] = {j->db, SN_F32, 1, rows, rows};
        j->a.acc[0] = SN_ADD;
        j->a.acc[1] = acc_of_sums;
    } else
        j->a.in[4] = {j->aux, SN_BF16, rows, cols, cols};
}

static float at(const struct sn_mat *m, int64_t r, int64_t c)
{
    int64_t i = r * m->ld + c;
    return m->dtype == SN_F32 ? ((float *)m->p)[i] : sn_bf16_to_f32(((uint16_t *)m->p)[i]);
}

static float gelu(float x)
{
    return x / 2 * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

/* What outputs 0 and 1 are to hold at (r, c), by plain loops; slopes by differences. */
static float want(const struct sn_args *a, int out, int64_t r, int64_t c)
{
    enum sn_epilogue e = a->attr.gemm.epilogue;
    float sum = 0, rows = 0;
    for (int64_t l = 0; l < DEPTH; l++) {
        float x = a->attr.gemm.trans_a ? at(&a->in[0], l, r) : at(&a->in[0], r, l);
        sum += x * (a->attr.gemm.trans_b ? at(&a->in[1], c, l) : at(&a->in[1], l, c));
        rows += e == SN_EPILOGUE_COLSUM ? at(&a->in[0], l, c) : 0;
    }
    if (out == 1)
        return e == SN_EPILOGUE_COLSUM ? rows : sum;
    float x = e == SN_EPILOGUE_ACT_DX ? at(&a->in[4], r, c) : 0;
    return e == SN_EPILOGUE_ACT      ? gelu(sum)
           : e == SN_EPILOGUE_ACT_DX ? sum * (gelu(x + 0.01f) - gelu(x - 0.01f)) / 0.02f
                                     : sum;
}

static bool is_near(const struct sn_args *a, int out)
{
    const struct sn_mat *m = &a->out[out];
    for (int64_t i = 0; m->p && i < m->rows * m->cols; i++) {
        float p = at(m, i / m->cols, i % m->cols), q = want(a, out, i / m->cols, i % m->cols);
        if (!(fabsf(p - q) <= 0.02f * (1 + fabsf(q))))
            return false;
    }
    return true;
}

/* Runs it: is it right? *in_one: products of the library that had the epilogue. When algorithms are
 * timed results are lost, and not looked at. */
static bool runs_joined(struct sn_cuda *cx, enum sn_epilogue e, int rows, int cols, long *in_one)
{
    static struct joined j;
    make_joined(&j, e, rows, cols);
    j.a.scratch = aligned_alloc(256, (sn_cuda_scratch(SN_OP_GEMM, &j.a, 1) + 255) / 256 * 256);
    long before = sn_emul_joined;
    bool good = sn_cuda_run_op(cx, SN_OP_GEMM, &j.a) == 0;
    *in_one = sn_emul_joined - before;
    for (int o = 0; o < 2 && !cx->tunes; o++)
        good = good && is_near(&j.a, o);
    free(j.a.scratch);
    return good;
}

static const struct {
    enum sn_epilogue epilogue;
    const char *name;
} kinds[] = {{SN_EPILOGUE_ACT, "GELU"},
             {SN_EPILOGUE_ACT_DX, "its slope"},
             {SN_EPILOGUE_COLSUM, "sums of columns"}};

/* The line of the product with its epilogue: it is the first. */
static bool tuned(enum sn_epilogue e, float joined_ms, char line[400])
{
    struct sn_cuda *cx = context(90, true);
    long calls, again;
    sn_emul_joined_ms = joined_ms;
    bool good = runs_joined(cx, e, ROWS, COLS, &calls) && calls > 4;
    int asked = sn_emul_asked;
    cx->tunes = false;
    good = good && runs_joined(cx, e, ROWS, COLS, &again) && sn_emul_asked == asked &&
           again == (joined_ms < 1) && cx->plans.n == 2 &&
           sn_cuda_plan_format(cx, 0, line, 320) == 0;
    free(cx);
    return good;
}

static void the_faster_form_is_measured_and_kept(void)
{
    for (int k = 0; k < 3; k++) {
        enum sn_epilogue e = kinds[k].epilogue;
        char one[400] = "", apart[400] = "", bad[410];
        long calls;
        ok(tuned(e, 0.25f, one) && !strstr(one, "apart"),
           "where it is faster in one, that is kept, and done", kinds[k].name);
        ok(tuned(e, 8.0f, apart) && strstr(apart, " apart") && strlen(strstr(apart, " apart")) == 6,
           "where a kernel of its own is faster, that is kept, and done", kinds[k].name);
        printf("# %s\n", apart);
        struct sn_cuda *cx = context(90, false);
        ok(sn_cuda_plan_parse(cx, one) == 0 && runs_joined(cx, e, ROWS, COLS, &calls) && calls == 1,
           "a line that says in one is followed", kinds[k].name);
        acc_of_sums = SN_WRITE;
        ok(runs_joined(cx, e, ROWS, COLS, &calls) && calls == 1, "also where sums are written",
           kinds[k].name);
        acc_of_sums = SN_ADD;
        cx->plans.n = 0;
        ok(sn_cuda_plan_parse(cx, apart) == 0 && runs_joined(cx, e, ROWS, COLS, &calls) &&
               calls == 0,
           "one that says apart, too", kinds[k].name);
        snprintf(bad, sizeof(bad), "%s 1", apart);
        int rc = sn_cuda_plan_parse(cx, bad);
        snprintf(bad, sizeof(bad), "%.*s", (int)strlen(apart) - 1, apart);
        ok(rc == -1 && sn_cuda_plan_parse(cx, bad) == -1, "one with more or less is refused");
        free(cx);
    }
    sn_emul_joined_ms = 0.5f;
}

static void what_is_done_unmeasured(void)
{
    long on_90, on_80, odd, refused, again;
    for (int k = 0; k < 3; k++) {
        enum sn_epilogue e = kinds[k].epilogue;
        struct sn_cuda *cx = context(90, false), *old = context(80, false);
        bool good =
            runs_joined(cx, e, ROWS, COLS, &on_90) && runs_joined(old, e, ROWS, COLS, &on_80);
        ok(good && on_90 == (e != SN_EPILOGUE_COLSUM) && on_80 == 0,
           "in one from sm_90 on, but for sums of columns", kinds[k].name);
        ok(runs_joined(cx, e, ROWS, 12, &odd) && (odd == 0 || e == SN_EPILOGUE_COLSUM),
           "apart where rows are no multiples of 8 elements", kinds[k].name);
        char line[320] = "";
        cx->n_own = 0;
        good = runs_joined(cx, e, JOINED_REFUSED, COLS, &refused);
        int asked = sn_emul_asked;
        good = good && runs_joined(cx, e, JOINED_REFUSED, COLS, &again) && sn_emul_asked == asked;
        (void)sn_cuda_gemm_note(cx, 0, line, sizeof(line));
        ok(good && refused == 0 && again == 0 &&
               (e == SN_EPILOGUE_COLSUM ||
                strstr(line, "a product of 9 x 16, 16 deep, of bf16 to bf16 "
                             "is a kernel of its own, because cuBLASLt "
                             "refuses both in one")),
           "apart where the library refuses, which is told, and it is asked once", kinds[k].name);
        free(cx);
        free(old);
    }
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
    the_faster_form_is_measured_and_kept();
    what_is_done_unmeasured();
    printf("1..%d\n", points);
    return failed != 0;
}
