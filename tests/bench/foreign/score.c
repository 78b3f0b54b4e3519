/*
 * score.c - how far off: tables in Markdown.
 */
#include "tests/bench/foreign/bench.h"

#include "lib/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Timed rows of a sheet (NULL: of all) that are looked at; how many. */
static int choose(int *row, const struct bench *b, const char *sheet)
{
    int n = 0;
    for (int i = 0; i < b->rows.n; i++) {
        const struct row *r = &b->rows.row[i];
        if (b->used[i] && r->outcome == ROW_TIMED && (!sheet || strcmp(sheet, r->sheet) == 0))
            row[n++] = i;
    }
    return n;
}

static double error_of(const struct bench *b, int i)
{
    return b->seconds[i] / b->rows.row[i].seconds - 1;
}

/* Between the two nearest of n sorted values. */
static double quantile(const double *sorted, int n, double q)
{
    double at = q * (n - 1);
    int low = (int)at;
    double vstage = at - low;
    return sorted[low] + (low + 1 < n ? vstage * (sorted[low + 1] - sorted[low]) : 0);
}

/* Rank of each value, ties shared. */
static void ranks(const double *value, int n, double *rank)
{
    for (int i = 0; i < n; i++) {
        rank[i] = 0;
        for (int k = 0; k < n; k++)
            rank[i] += value[k] < value[i] ? 1 : value[k] == value[i] ? 0.5 : 0;
    }
}

static double correlation(const double *a, const double *b, int n)
{
    double sa = 0, sb = 0, aa = 0, bb = 0, ab = 0;
    for (int i = 0; i < n; i++) {
        sa += a[i] / n;
        sb += b[i] / n;
    }
    for (int i = 0; i < n; i++) {
        aa += (a[i] - sa) * (a[i] - sa);
        bb += (b[i] - sb) * (b[i] - sb);
        ab += (a[i] - sa) * (b[i] - sb);
    }
    return ab / sqrt(aa * bb);
}

struct score bench_score(const struct bench *b, const char *sheet)
{
    static const struct score none;
    struct score score = none;
    int *row = sn_alloc_n((size_t)b->rows.n + 1, sizeof(*row)), first = 0;
    double *v = sn_alloc_n(5 * (size_t)b->rows.n + 1, sizeof(*v)), best = HUGE_VAL;
    int n = row && v ? choose(row, b, sheet) : 0;
    double *error = v, *ours = v + n, *theirs = ours + n, *rank = theirs + n;
    for (int i = 0; i < n; i++) {
        error[i] = fabs(error_of(b, row[i]));
        score.bias += error_of(b, row[i]) / n;
        ours[i] = b->seconds[row[i]];
        theirs[i] = b->rows.row[row[i]].seconds;
        best = fmin(best, theirs[i]);
        first = ours[i] < ours[first] ? i : first;
    }
    if (n > 0) {
        qsort(error, (size_t)n, sizeof(*error), by_value);
        ranks(ours, n, rank);
        ranks(theirs, n, rank + n);
        score = (struct score){
            n,          quantile(error, n, 0.5),        quantile(error, n, 0.9), error[n - 1],
            score.bias, correlation(rank, rank + n, n), theirs[first] / best - 1};
    }
    sn_free(row);
    sn_free(v);
    return score;
}

static void print_score(const char *name, const struct score *s, bool ranked)
{
    if (s->rows == 0)
        return;
    printf("| %s | %d | %.2f | %.2f | %.1f | %+.2f |", name, s->rows, 100 * s->median, 100 * s->p90,
           100 * s->most, 100 * s->bias);
    if (ranked && s->rows >= 10)
        printf(" %.3f | %+.1f |\n", s->spearman, 100 * s->first);
    else
        printf(" | |\n");
}

/* Measured over planned of a group's timed rows, sorted; how many. */
static int ratios(double *out, const struct bench *b, const char *group)
{
    int n = 0;
    for (int i = 0; i < b->rows.n; i++) {
        const struct row *r = &b->rows.row[i];
        if (r->outcome == ROW_TIMED && strcmp(group, r->group) == 0)
            out[n++] = r->seconds / b->seconds[i];
    }
    qsort(out, (size_t)n, sizeof(*out), by_value);
    return n;
}

/* The interval that has at least nine in ten rows of every group, but one's (NULL: of all): a step
 * of tomorrow is of a group of its own, so the group told worst decides, not the largest. */
static bool interval(double *low, double *high, double *room, const struct bench *b,
                     const char *without)
{
    *low = HUGE_VAL;
    *high = 0;
    for (int i = 0; i < b->rows.n; i++) {
        const char *group = b->rows.row[i].group;
        int n = without && strcmp(group, without) == 0 ? 0 : ratios(room, b, group);
        if (n > 0) {
            *low = fmin(*low, quantile(room, n, 0.05));
            *high = fmax(*high, quantile(room, n, 0.95));
        }
    }
    return *high > 0;
}

static void widen(double *least, double *most, double x)
{
    *least = *least > 0 ? fmin(*least, x) : x;
    *most = fmax(*most, x);
}

enum sn_status bench_accuracy(struct sn_software *s, const struct bench *b, struct sn_err *err)
{
    double *v = sn_alloc_n((size_t)b->rows.n + 1, sizeof(*v));
    if (!v || !interval(&s->low, &s->high, v, b, NULL)) {
        sn_free(v);
        return sn_fail(err, SN_ENOMEM, "no memory for %d rows", b->rows.n);
    }
    s->devices_least = s->hidden_least = s->seq_least = 0;
    for (int i = 0; i < b->rows.n; i++) {
        const struct sn_config *c = &b->rows.row[i].config;
        if (b->rows.row[i].outcome != ROW_TIMED)
            continue;
        widen(&s->devices_least, &s->devices_most, sn_config_ranks(c));
        widen(&s->hidden_least, &s->hidden_most, c->model.hidden);
        widen(&s->seq_least, &s->seq_most, c->model.seq);
    }
    sn_free(v);
    return SN_OK;
}

void bench_print_interval(const struct bench *b)
{
    double *v = sn_alloc_n((size_t)b->rows.n + 1, sizeof(*v)), low, high;
    int in_all = 0, in_any = 0;
    if (v && interval(&low, &high, v, b, NULL))
        printf("Measured over planned, of nine in ten left-out rows of each group: %.3f to %.3f.",
               low, high);
    for (int i = 0; v && i < b->rows.n; i++) {
        const char *group = b->rows.row[i].group;
        int in = 0, first = 0;
        while (strcmp(b->rows.row[first].group, group) != 0)
            first++;
        if (first < i || !interval(&low, &high, v, b, group))
            continue;
        int n = ratios(v, b, group);
        for (int k = 0; k < n; k++)
            in += v[k] >= low && v[k] <= high;
        in_any += in;
        in_all += n;
        printf(" In the others' such interval: %s %d of %d.", group, in, n);
    }
    if (in_all > 0)
        printf(" Together %d of %d, %.1f %%.", in_any, in_all, 100.0 * in_any / in_all);
    printf("\n\n");
    sn_free(v);
}

const char *bench_sheet(const struct bench *b, int k)
{
    for (int i = 0; i < b->rows.n; i++) {
        bool seen = false;
        for (int p = 0; p < i && !seen; p++)
            seen = strcmp(b->rows.row[p].sheet, b->rows.row[i].sheet) == 0;
        if (!seen && k-- == 0)
            return b->rows.row[i].sheet;
    }
    return NULL;
}

void bench_print_times(const struct bench *b, const char *title)
{
    const char *sheet;
    printf(
        "| %s | rows | median, %% | p90, %% | max, %% | bias, %% | Spearman | first ranked above "
        "best, %% |\n|---|---|---|---|---|---|---|---|\n",
        title);
    for (int k = 0; (sheet = bench_sheet(b, k)); k++) {
        struct score s = bench_score(b, sheet);
        print_score(sheet, &s, true);
    }
    struct score all = bench_score(b, NULL);
    print_score("all", &all, false);
    printf("\n");
}

void bench_print_rows(const struct bench *b)
{
    static const char *const kernel[] = {"flash2", "flash1", "fused", "torch"};
    printf("sheet,run,profile,attention,fused_norm,recompute,sp,tensor,pipeline,micro_batch,data,"
           "measured_s,planned_s,error\n");
    for (int i = 0; i < b->rows.n; i++) {
        const struct row *r = &b->rows.row[i];
        const struct sn_layout_config *l = &r->config.layout;
        if (b->used[i] && r->outcome == ROW_TIMED)
            printf("%s,%s,%s,%s,%d,%d,%d,%d,%d,%d,%d,%.3f,%.3f,%+.4f\n", r->sheet, r->id,
                   r->software, kernel[r->attention], r->fused_norm, l->recompute != 0,
                   l->sequence_parallel, l->tensor, l->pipeline, l->micro_batch, l->data,
                   r->seconds, b->seconds[i], error_of(b, i));
    }
}

/* --- memory ----------------------------------------------------------------------------------- */

static void count(struct tally *t, const struct bench *b, int i)
{
    bool fitted = b->rows.row[i].outcome == ROW_TIMED;
    if (!b->used[i])
        return;
    t->rows++;
    t->right += b->fits[i] == fitted;
    t->missed += b->fits[i] && !fitted;
    t->alarms += !b->fits[i] && fitted;
    t->low += b->filled[i] < 0.75 && !fitted;
    if (fitted)
        t->most_fit = fmax(t->most_fit, b->filled[i]);
    else
        t->least_oom = fmin(t->least_oom, b->filled[i]);
}

struct tally bench_tally(const struct bench *b, const char *sheet)
{
    struct tally t = {.least_oom = HUGE_VAL};
    for (int i = 0; i < b->rows.n; i++) {
        if (!sheet || strcmp(sheet, b->rows.row[i].sheet) == 0)
            count(&t, b, i);
    }
    return t;
}

static void print_tally(const char *name, const struct tally *t)
{
    if (t->rows > 0)
        printf("| %s | %d | %.1f | %d | %d | %d | %.3f | %.3f |\n", name, t->rows,
               100.0 * t->right / t->rows, t->missed, t->alarms, t->low, t->least_oom, t->most_fit);
}

void bench_print_memory(const struct bench *b, const char *title)
{
    const char *sheet;
    printf("| %s | rows | right, %% | false fits | false out of memory | out of memory though "
           "under 75 %% | least full that ran out | fullest that fitted |\n"
           "|---|---|---|---|---|---|---|---|\n",
           title);
    for (int k = 0; (sheet = bench_sheet(b, k)); k++) {
        struct tally t = bench_tally(b, sheet);
        print_tally(sheet, &t);
    }
    struct tally all = bench_tally(b, NULL);
    print_tally("all", &all);
    printf("\n");
}
