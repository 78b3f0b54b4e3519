/*
 * score.c - how far off: tables in Markdown.
 */
#include "tests/bench/foreign/bench.h"

#include "lib/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHEETS = 64, MOST_ROWS = 4096 };

struct set {
    int row[MOST_ROWS], n; /* timed, used */
};

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void choose(struct set *s, const struct bench *b, const char *sheet)
{
    s->n = 0;
    for (int i = 0; i < b->rows.n && s->n < MOST_ROWS; i++) {
        const struct row *r = &b->rows.row[i];
        if (b->used[i] && r->outcome == ROW_TIMED && (!sheet || strcmp(sheet, r->sheet) == 0))
            s->row[s->n++] = i;
    }
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
    double part = at - low;
    return sorted[low] + (low + 1 < n ? part * (sorted[low + 1] - sorted[low]) : 0);
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

static void print_set(const struct bench *b, const char *name, const struct set *s, bool ranked)
{
    static double e[MOST_ROWS], ours[MOST_ROWS], theirs[MOST_ROWS], ra[MOST_ROWS], rb[MOST_ROWS];
    double bias = 0, best = HUGE_VAL;
    int first = 0;
    for (int i = 0; i < s->n; i++) {
        e[i] = fabs(error_of(b, s->row[i]));
        bias += error_of(b, s->row[i]) / s->n;
        ours[i] = b->seconds[s->row[i]];
        theirs[i] = b->rows.row[s->row[i]].seconds;
        best = fmin(best, theirs[i]);
        first = ours[i] < ours[first] ? i : first;
    }
    qsort(e, (size_t)s->n, sizeof(*e), by_value);
    printf("| %s | %d | %.2f | %.2f | %.1f | %+.2f |", name, s->n, 100 * quantile(e, s->n, 0.5),
           100 * quantile(e, s->n, 0.9), 100 * e[s->n - 1], 100 * bias);
    if (ranked && s->n >= 10) {
        ranks(ours, s->n, ra);
        ranks(theirs, s->n, rb);
        printf(" %.3f | %+.1f |\n", correlation(ra, rb, s->n), 100 * (theirs[first] / best - 1));
    } else
        printf(" | |\n");
}

void bench_print_times(const struct bench *b, const char *title)
{
    const char *sheet[SHEETS];
    int n = 0;
    static struct set s;
    printf(
        "| %s | rows | median, %% | p90, %% | max, %% | bias, %% | Spearman | first ranked above "
        "best, %% |\n|---|---|---|---|---|---|---|---|\n",
        title);
    for (int i = 0; i < b->rows.n; i++) {
        int k = 0;
        while (k < n && strcmp(sheet[k], b->rows.row[i].sheet) != 0)
            k++;
        if (k < n || n == SHEETS)
            continue;
        sheet[n++] = b->rows.row[i].sheet;
        choose(&s, b, sheet[k]);
        if (s.n > 0)
            print_set(b, sheet[k], &s, true);
    }
    choose(&s, b, NULL);
    if (s.n > 0)
        print_set(b, "all", &s, false);
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

/* --- memory ------------------------------------------------------------------------------------
 */

struct tally {
    int rows, right, missed, alarms; /* missed: we say that it fits, it did not */
    int low;                         /* missed under three quarters of the device */
    double least_oom, most_fit;
};

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

static void print_tally(const char *name, const struct tally *t)
{
    printf("| %s | %d | %.1f | %d | %d | %d | %.3f | %.3f |\n", name, t->rows,
           100.0 * t->right / t->rows, t->missed, t->alarms, t->low, t->least_oom, t->most_fit);
}

void bench_print_memory(const struct bench *b, const char *title)
{
    struct tally all = {.least_oom = HUGE_VAL};
    printf("| %s | rows | right, %% | false fits | false out of memory | out of memory though "
           "under 75 %% | least full that ran out | fullest that fitted |\n"
           "|---|---|---|---|---|---|---|---|\n",
           title);
    for (int i = 0; i < b->rows.n; i++) {
        struct tally t = {.least_oom = HUGE_VAL};
        bool first = true;
        for (int k = 0; k < i; k++)
            first = first && strcmp(b->rows.row[k].sheet, b->rows.row[i].sheet) != 0;
        for (int k = i; first && k < b->rows.n; k++) {
            if (strcmp(b->rows.row[k].sheet, b->rows.row[i].sheet) == 0)
                count(&t, b, k);
        }
        if (t.rows > 0)
            print_tally(b->rows.row[i].sheet, &t);
        count(&all, b, i);
    }
    print_tally("all", &all);
    printf("\n");
}
