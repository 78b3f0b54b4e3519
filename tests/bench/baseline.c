/*
 * baseline.c - published rows foretold by what is not our planner: a closed formula with 15 fitted
 * constants, or another program's answers. Scored as published.c scores ours.
 *
 * usage: build/tests/bench/baseline [LAYOUTS]                the formula, and what it makes of a
 * model that it was not fitted on build/tests/bench/baseline --answers FILE [LAYOUTS]
 * "sheet,run,seconds,filled" a line
 *
 * The formula, for T tokens a micro-batch, h features, f of the feed-forward, L layers, V words, s
 * tokens a sequence, t tensor, p pipeline, d data ranks, m micro-batches; P device peak:
 *
 *   step  = (m - 1) max(stage) + sum(stage) + data + fixed
 *   stage = layers (products + attention + moved + tensor) + head + boundary
 *   products  = 2 T (4 h h + 3 h f) / t r / (P g T / (T + c t))        r: 3, 4 if recomputed
 *   attention = 4 T s h / t / (P a_kernel) (1 + back, or 2 + back)
 *   moved     = r w (norm T h / (t with sequence parallelism, else 1) + T (8 h + 6 f) / t)
 *   tensor    = (4, 6 if recomputed) (alpha + 2 (t-1)/t 2 T h / beta)
 *   boundary  = 2 (alpha_p + 2 T h / beta_p)
 *   data      = 2 (d-1)/d 2 (weights of the stage) / beta_d
 *
 * with g, c, four a, back, w, norm (0.3 of it when fused), alpha, beta, alpha_p, beta_p, beta_d and
 * fixed fitted: 15. Terms: GEMM efficiency by tokens, traffic of unfused norms, ring all-reduce
 * volumes (Narayanan et al. 2021, arXiv 2104.04473), uneven ends (bigscience). Memory: activations
 * of Korthikanti et al. 2022 (arXiv 2205.05198) for SwiGLU and flash, logits 18 bytes a word and
 * token that tensor ranks do not share, 71 GiB of 80 GB usable: nothing of it is fitted here.
 */
#include "tests/bench/foreign/bench.h"
#include "tests/bench/foreign/fit.h"

#include "lib/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double PEAK = 312e12; /* A100, bf16, dense */
static const double FUSED = 0.3;   /* of the traffic of norms is left when they are fused */
static const double GIB = 1 << 30, USABLE = 71, DEVICE = 80;

enum {
    GEMM,
    HALF_TOKENS,
    ATTENTION, /* of each kernel */
    BACK = ATTENTION + SN_NATTENTIONS,
    MOVED,
    NORM,
    TENSOR_LATENCY,
    TENSOR_RATE,
    PIPE_LATENCY,
    PIPE_RATE,
    DATA_RATE,
    FIXED,
    N
};
_Static_assert(N == 15, "as many as the published formula has");

static const struct {
    const char *name;
    double first, least, most; /* fitted as logarithms */
} constants[N] = {
    [GEMM] = {"product efficiency", 0.8, 0.3, 1},
    [HALF_TOKENS] = {"tokens at half of it, a tensor rank", 80, 1, 2000},
    [ATTENTION + SN_ATTENTION_FLASH2] = {"attention efficiency, flash 2", 0.6, 0.05, 1},
    [ATTENTION + SN_ATTENTION_FLASH1] = {"flash 1", 0.4, 0.03, 1},
    [ATTENTION + SN_ATTENTION_FUSED] = {"fused softmax", 0.2, 0.02, 1},
    [ATTENTION + SN_ATTENTION_TORCH] = {"torch", 0.1, 0.01, 1},
    [BACK] = {"attention backward over forward", 2, 1, 4},
    [MOVED] = {"seconds of an element moved", 2e-12, 1e-14, 1e-10},
    [NORM] = {"elements moved of a feature by unfused norms", 40, 0.1, 400},
    [TENSOR_LATENCY] = {"tensor latency, s", 2e-5, 1e-7, 1e-3},
    [TENSOR_RATE] = {"tensor rate, B/s", 2e11, 1e10, 1e12},
    [PIPE_LATENCY] = {"pipeline latency, s", 2e-5, 1e-7, 1e-1},
    [PIPE_RATE] = {"pipeline rate, B/s", 2e10, 1e8, 1e12},
    [DATA_RATE] = {"data rate, B/s", 1e10, 1e8, 1e12},
    [FIXED] = {"fixed, s", 0.1, 1e-3, 5},
};

/* What the formula reads of a row. */
struct shape {
    double T, h, f, L, V, s, t, p, d, m, r;
    bool sp, recompute;
};

static struct shape shape_of(const struct row *row)
{
    const struct sn_model_config *model = &row->config.model;
    const struct sn_layout_config *l = &row->config.layout;
    struct shape x = {.h = (double)model->hidden,
                      .f = (double)model->ffn,
                      .L = (double)model->layers,
                      .V = (double)model->vocab,
                      .s = (double)model->seq,
                      .t = l->tensor,
                      .p = l->pipeline,
                      .d = l->data,
                      .sp = l->sequence_parallel,
                      .recompute = l->recompute != 0};
    x.T = l->micro_batch * x.s;
    x.m = (double)row->config.train.global_batch / (x.d * l->micro_batch);
    x.r = x.recompute ? 4 : 3;
    return x;
}

static double layer_weights(const struct shape *x)
{
    return 4 * x->h * x->h + 3 * x->h * x->f;
}

static double product_rate(const struct shape *x, const double *c)
{
    return PEAK * c[GEMM] * x->T / (x->T + c[HALF_TOKENS] * x->t);
}

static double layer_seconds(const struct row *row, const struct shape *x, const double *c)
{
    double t = x->t;
    double products = 2 * x->T * layer_weights(x) / t * x->r / product_rate(x, c);
    double attention =
        4 * x->T * x->s * x->h / t / (PEAK * c[ATTENTION + row->attention]) * (x->r - 2 + c[BACK]);
    double norm = (row->fused_norm ? FUSED : 1) * c[NORM] * x->T * x->h / (x->sp ? t : 1);
    double moved = x->r * c[MOVED] * (norm + x->T * (8 * x->h + 6 * x->f) / t);
    double reduce = c[TENSOR_LATENCY] + 2 * (t - 1) / t * 2 * x->T * x->h / c[TENSOR_RATE];
    return products + attention + moved + (t > 1 ? (x->recompute ? 6 : 4) * reduce : 0);
}

static double formula(const struct row *row, const double *c)
{
    struct shape x = shape_of(row);
    double body = x.L / x.p * layer_seconds(row, &x, c);
    double head = 6 * x.T * x.h * x.V / x.t / product_rate(&x, c);
    double boundary = x.p > 1 ? 2 * (c[PIPE_LATENCY] + 2 * x.T * x.h / c[PIPE_RATE]) : 0;
    double stage = body + boundary, last = stage + head;
    double weights = (x.L / x.p * layer_weights(&x) + x.h * x.V * (x.p > 1 ? 1 : 2)) / x.t;
    double data = 2 * (x.d - 1) / x.d * 2 * weights / c[DATA_RATE];
    return (x.m - 1) * last + (x.p - 1) * stage + last + data + c[FIXED];
}

/* What a layer keeps of a micro-batch. */
static double layer_memory(const struct row *row, const struct shape *x)
{
    bool scores = row->attention == SN_ATTENTION_FUSED || row->attention == SN_ATTENTION_TORCH;
    double norm_bytes = row->fused_norm ? 2 : 8, heads = (double)row->config.model.heads;
    double replicated = x->T * x->h * (2 * norm_bytes + 4) / (x->sp ? x->t : 1);
    return replicated + (x->T * x->h * 12 + x->T * x->f * 8) / x->t +
           (scores ? 5 * heads * x->s * x->T / x->t : 0);
}

/* Bytes of the fullest rank: of the first stage, or of the last, which has the logits. */
static double memory(const struct row *row)
{
    struct shape x = shape_of(row);
    double layer = layer_memory(row, &x), kept = x.recompute ? 2 * x.T * x.h : layer;
    double layers = x.L / x.p, weights = (layers * layer_weights(&x) + x.h * x.V) / x.t;
    double live = x.recompute ? layer : 0, logits = 18 * x.T * x.V, each = 4 + 12 / x.d;
    double first = weights * each + layers * fmin(x.m, x.p) * kept + live;
    double last = weights * each + layers * kept + live + logits;
    double only = last + x.h * x.V / x.t * each;
    return x.p > 1 ? fmax(first, last) : only;
}

/* --- fit -------------------------------------------------------------------------------------- */

static void price(struct bench *b, const double *x)
{
    double c[N];
    for (int k = 0; k < N; k++)
        c[k] = exp(x[k]);
    for (int i = 0; i < b->rows.n; i++)
        b->seconds[i] = formula(&b->rows.row[i], c);
}

static bool is_timed(const struct bench *b, int i)
{
    return b->used[i] && b->rows.row[i].outcome == ROW_TIMED;
}

static enum sn_status residuals(void *arg, const double *x, double *r, struct sn_err *err)
{
    struct bench *b = arg;
    int n = 0;
    (void)err;
    price(b, x);
    for (int i = 0; i < b->rows.n; i++)
        if (is_timed(b, i))
            r[n++] = log(b->seconds[i] / b->rows.row[i].seconds);
    return SN_OK;
}

/* Priors are so wide that they only keep the equations solvable. */
static enum sn_status fit(struct bench *b, double *x, struct sn_err *err)
{
    struct fit f = {.n = N, .scale = 0.03, .residuals = residuals, .arg = b};
    double cost;
    for (int i = 0; i < b->rows.n; i++)
        f.rows += is_timed(b, i);
    for (int k = 0; k < N; k++) {
        x[k] = log(constants[k].first);
        f.c[k] = (struct fit_constant){x[k], 5, log(constants[k].least), log(constants[k].most)};
    }
    SN_TRY(fit_run(&f, x, &cost, err));
    price(b, x);
    return SN_OK;
}

/* --- report ----------------------------------------------------------------------------------- */

static bool is_first_of_group(const struct bench *b, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(b->rows.row[k].group, b->rows.row[i].group) == 0)
            return false;
    return true;
}

/* All rows but those of one model; or those alone. */
static void use(struct bench *b, const char *group, bool alone)
{
    for (int i = 0; i < b->rows.n; i++)
        b->used[i] = (strcmp(b->rows.row[i].group, group) == 0) == alone;
}

static enum sn_status report(struct bench *b, struct sn_err *err)
{
    double x[N];
    char title[96];
    SN_TRY(fit(b, x, err));
    bench_print_times(b, "closed formula, fitted to all");
    printf("| constant | fitted |\n|---|---|\n");
    for (int k = 0; k < N; k++)
        printf("| %s | %.3g |\n", constants[k].name, exp(x[k]));
    printf("\n");
    for (int i = 0; i < b->rows.n; i++) {
        b->filled[i] = memory(&b->rows.row[i]) / (DEVICE * GIB);
        b->fits[i] = b->filled[i] <= USABLE / DEVICE;
    }
    bench_print_memory(b, "memory, nothing fitted");
    for (int i = 0; i < b->rows.n; i++) {
        const char *group = b->rows.row[i].group;
        if (!is_first_of_group(b, i))
            continue;
        use(b, group, false);
        SN_TRY(fit(b, x, err));
        use(b, group, true);
        (void)snprintf(title, sizeof(title), "closed formula, fitted without %s: %s", group, group);
        bench_print_times(b, title);
    }
    return SN_OK;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The median of measured over answered: what one constant can do. */
static double best_factor(const struct bench *b)
{
    static double ratio[4096];
    int n = 0;
    for (int i = 0; i < b->rows.n && n < 4096; i++)
        if (is_timed(b, i))
            ratio[n++] = b->rows.row[i].seconds / b->seconds[i];
    qsort(ratio, (size_t)n, sizeof(*ratio), by_value);
    return n ? ratio[n / 2] : 1;
}

/* Lines in any order; every row of ours must have one. */
static enum sn_status answers(struct bench *b, const char *path, struct sn_err *err)
{
    char line[256], sheet[64], id[24];
    double seconds, filled;
    int found = 0;
    FILE *f = fopen(path, "r");
    if (!f)
        return sn_fail(err, SN_EINPUT, "%s: cannot be read", path);
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%63[^,],%23[^,],%lf,%lf", sheet, id, &seconds, &filled) != 4)
            continue;
        for (int i = 0; i < b->rows.n; i++)
            if (strcmp(b->rows.row[i].sheet, sheet) == 0 && strcmp(b->rows.row[i].id, id) == 0) {
                b->seconds[i] = seconds;
                b->filled[i] = filled;
                b->fits[i] = filled <= 1;
                found++;
            }
    }
    (void)fclose(f); /* it was only read */
    if (found != b->rows.n)
        return sn_fail(err, SN_EINPUT, "%s: answers for %d of %d rows", path, found, b->rows.n);
    bench_print_times(b, "as answered");
    bench_print_memory(b, "memory");
    double factor = best_factor(b);
    for (int i = 0; i < b->rows.n; i++)
        b->seconds[i] *= factor;
    (void)snprintf(line, sizeof(line), "times the one factor that fits best, %.3f", factor);
    bench_print_times(b, line);
    return SN_OK;
}

static enum sn_status open_rows(struct bench *b, const char *folder, struct sn_err *err)
{
    SN_TRY(rows_read_sweep(&b->rows, folder, err));
    size_t n = (size_t)b->rows.n + 1;
    b->seconds = sn_alloc_n(n, sizeof(*b->seconds));
    b->filled = sn_alloc_n(n, sizeof(*b->filled));
    b->fits = sn_alloc_n(n, sizeof(*b->fits));
    b->used = sn_alloc_n(n, sizeof(*b->used));
    if (!b->seconds || !b->filled || !b->fits || !b->used)
        return sn_fail(err, SN_ENOMEM, "no memory for %d rows", b->rows.n);
    for (int i = 0; i < b->rows.n; i++)
        b->used[i] = true;
    return SN_OK;
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct sn_err err = {0};
    bool given = argc > 2 && strcmp(argv[1], "--answers") == 0;
    int next = given ? 3 : 1;
    if (argc > next + 1 || (argc > 1 && argv[1][0] == '-' && !given)) {
        (void)fprintf(stderr, "usage: baseline [--answers FILE] [LAYOUTS]\n");
        return 2;
    }
    enum sn_status st = open_rows(&b, argc > next ? argv[next] : "tests/bench/layouts", &err);
    if (st == SN_OK)
        st = given ? answers(&b, argv[2], &err) : report(&b, &err);
    if (st != SN_OK)
        (void)fprintf(stderr, "baseline: %s\n", err.text);
    bench_close(&b);
    return sn_exit_code(st);
}
