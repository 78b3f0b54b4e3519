/*
 * waits.c - the bound and the text of waits.h.
 *
 * The bound takes orders that no order of the text may beat: operations are tied by what they read
 * of what others have written in the same micro-batch, and by nothing else; other micro-batches,
 * stages and memory are always ready. Let r be the longest path of kernels and messages to an
 * operation, and q that from its end to the end of the step. Computing takes one operation at a
 * time, so that for any set of kernels the step takes at least
 *
 *     min r + sum of their seconds + min q                              (Carlier 1982, EJOR 11)
 *
 * Taken are all sets of kernels with r >= a given one, all with q >= a given one, for each queue
 * that of all its messages, and for the links of each level the time that all messages keep them
 * busy, apart for what is before and what is behind the agreement of all
 * ranks, which sums up all micro-batches and which the update needs. What that is more than the
 * stage computes is exposed.
 */
#include "lib/sim/waits.h"

#include "lib/base/mem.h"
#include "lib/program/opinfo.h"
#include "lib/sim/sim_stage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct paths {
    const struct sn_program *p;
    const struct sn_job *job;
    double *seconds; /* by operation: of a run */
    struct sn_link_use *use;
    double *head, *tail;
    double *runs; /* in a step */
    double *at;   /* by buffer: when it is ready, or what is left once it is */
    int from, to; /* operations that are looked at */
};

static bool takes_time(const struct paths *x, int i)
{
    const struct sn_op *op = &x->p->ops[i];
    return op->kind < SN_NKERNELS || sn_op_is_posted(op) || op->kind == SN_OP_ALIAS;
}

static void find_heads(struct paths *x)
{
    for (int b = 0; b < x->p->n_bufs; b++)
        x->at[b] = 0;
    for (int i = x->from; i < x->to; i++) {
        const struct sn_op *op = &x->p->ops[i];
        if (!takes_time(x, i))
            continue;
        double begin = 0;
        for (int k = 0; k < SN_MAX_IN; k++)
            if (op->in[k].buf >= 0)
                begin = fmax(begin, x->at[op->in[k].buf]);
        x->head[i] = begin;
        for (int k = 0; k < SN_MAX_OUT; k++)
            if (op->out[k].buf >= 0)
                x->at[op->out[k].buf] = fmax(x->at[op->out[k].buf], begin + x->seconds[i]);
    }
}

static void find_tails(struct paths *x)
{
    for (int b = 0; b < x->p->n_bufs; b++)
        x->at[b] = 0;
    for (int i = x->to - 1; i >= x->from; i--) {
        const struct sn_op *op = &x->p->ops[i];
        if (!takes_time(x, i))
            continue;
        double left = 0;
        for (int k = 0; k < SN_MAX_OUT; k++)
            if (op->out[k].buf >= 0)
                left = fmax(left, x->at[op->out[k].buf]);
        x->tail[i] = left;
        for (int k = 0; k < SN_MAX_IN; k++)
            if (op->in[k].buf >= 0)
                x->at[op->in[k].buf] = fmax(x->at[op->in[k].buf], left + x->seconds[i]);
    }
}

struct item {
    double from, seconds; /* its r or its q; of all its runs */
};

static int latest_first(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return x->from > y->from ? -1 : x->from < y->from;
}

/* Over all sets of kernels with at least that much before them, or behind them. */
static double most_of(const struct paths *x, const double *from, struct item *item)
{
    int n = 0;
    double most = 0, sum = 0;
    for (int i = x->from; i < x->to; i++)
        if (x->p->ops[i].kind < SN_NKERNELS && x->runs[i] > 0)
            item[n++] = (struct item){from[i], x->runs[i] * x->seconds[i]};
    qsort(item, (size_t)n, sizeof(*item), latest_first);
    for (int i = 0; i < n; i++) {
        sum += item[i].seconds;
        most = fmax(most, sum + item[i].from);
    }
    return most;
}

/* Share of its seconds in which a message is in lane k (0 or 1), or, behind the lanes, keeps links of a
 * level busy. */
static double part_of(const struct paths *x, int i, int k)
{
    const struct sn_op *op = &x->p->ops[i];
    return k < SN_LINK_LANES ? sn_sim_lane(op) == k : (double)x->use[i].of[k - SN_LINK_LANES];
}

/* All messages of a lane, and what those of all lanes ask of the links of a level. */
static double most_of_links(const struct paths *x)
{
    double most = 0;
    for (int k = 0; k < SN_LINK_LANES + SN_LINK_LEVELS; k++) {
        double sum = 0, head = INFINITY, tail = INFINITY;
        for (int i = x->from; i < x->to; i++) {
            const struct sn_op *op = &x->p->ops[i];
            if (!sn_op_is_posted(op) || sn_op_is_transfer(op) || x->runs[i] == 0 ||
                part_of(x, i, k) <= 0)
                continue;
            sum += x->runs[i] * x->seconds[i] * part_of(x, i, k);
            head = fmin(head, x->head[i]);
            tail = fmin(tail, x->tail[i]);
        }
        most = fmax(most, sum > 0 ? sum + head + tail : 0);
    }
    return most;
}

static double seconds_of(const struct paths *x, const struct sn_pricer *p, int i)
{
    const struct sn_op *op = &x->p->ops[i];
    bool alone = sn_op_is_posted(op) && !sn_op_meets_others(x->job, op);
    return op->extra || alone || sn_op_is_transfer(op) || op->kind == SN_OP_WAIT ||
                   op->kind == SN_OP_ALIAS
               ? 0
               : sn_price_shown(p, x->p, op);
}

static bool is_here(const struct sn_job *j, const struct sn_op *op)
{
    for (int q = 0; q < SN_NGROUPS; q++)
        if (op->only >> q & 1u && j->group_index[q] != 0)
            return false;
    return true;
}

/* Kernels, and messages that carry `what`; SN_NCARRIED: all. */
static void fill(struct paths *x, const struct sn_pricer *p, enum sn_carried what)
{
    for (int c = 0; c < x->p->n_segments; c++)
        for (int i = x->p->segments[c].first; i < x->p->segments[c].first + x->p->segments[c].n;
             i++) {
            const struct sn_op *op = &x->p->ops[i];
            bool counts = !sn_op_communicates(op) || what == SN_NCARRIED || sn_op_carries(op) == what;
            x->seconds[i] = counts && is_here(x->job, op) ? seconds_of(x, p, i) : 0;
            x->runs[i] = sn_program_runs(x->p, c, op->when);
            sn_price_uses(&x->use[i], p, x->p, op);
        }
}

static double computing(const struct paths *x)
{
    double sum = 0;
    for (int i = x->from; i < x->to; i++)
        sum += x->p->ops[i].kind < SN_NKERNELS ? x->runs[i] * x->seconds[i] : 0;
    return sum;
}

/* Of operations from .. to - 1. */
static double exposed(struct paths *x, int from, int to, struct item *item)
{
    x->from = from;
    x->to = to;
    find_heads(x);
    find_tails(x);
    double most = fmax(most_of(x, x->tail, item), most_of(x, x->head, item));
    return fmax(0, fmax(most, most_of_links(x)) - computing(x));
}

static int agreement(const struct sn_program *p)
{
    int i = 0;
    while (i < p->n_ops && p->ops[i].kind != SN_OP_AGREE)
        i++;
    return i;
}

/* Before the agreement of all ranks, that, and behind it. */
static double least(struct paths *x, struct item *item)
{
    int agrees = agreement(x->p);
    double seconds = exposed(x, 0, agrees, item);
    if (agrees < x->p->n_ops)
        seconds += x->seconds[agrees] + exposed(x, agrees + 1, x->p->n_ops, item);
    return seconds;
}

/* Of messages that carry `what` alone: how long they take, and the bound of the stage without the others. */
static void find_least_of(struct sn_waits *w, struct paths *x, const struct sn_pricer *p,
                          enum sn_carried what, struct item *item)
{
    struct sn_waits_sum *s = &w->of_what[what];
    fill(x, p, what);
    for (int i = 0; i < x->p->n_ops; i++)
        s->alone += sn_op_is_posted(&x->p->ops[i]) ? x->runs[i] * x->seconds[i] : 0;
    s->least = s->alone > 0 ? least(x, item) : 0;
}

static enum sn_status find_least(struct sn_waits *w, const struct sn_pricer *p, struct sn_err *err)
{
    const struct sn_program *prog = &w->job->train;
    size_t ops = (size_t)prog->n_ops + 1;
    struct paths x = {.p = prog, .job = w->job};
    double *all = sn_alloc_n(4 * ops + (size_t)prog->n_bufs + 1, sizeof(*all));
    struct item *item = sn_alloc_n(ops, sizeof(*item));
    x.use = sn_alloc_n(ops, sizeof(*x.use));
    bool good = all && item && x.use;
    if (good) {
        x.seconds = all;
        x.head = all + ops;
        x.tail = all + 2 * ops;
        x.runs = all + 3 * ops;
        x.at = all + 4 * ops;
        for (int what = 0; what < SN_NCARRIED; what++)
            find_least_of(w, &x, p, (enum sn_carried)what, item);
        fill(&x, p, SN_NCARRIED);
        w->least = least(&x, item);
    }
    sn_free(all);
    sn_free(x.use);
    sn_free(item);
    return good ? SN_OK
                : sn_fail(err, SN_ENOMEM, "waits: no memory for %d operations", prog->n_ops);
}

enum sn_status sn_waits_find(struct sn_waits *out, const struct sn_stages *s,
                             const struct sn_pricer *p, int stage, struct sn_err *err)
{
    struct sn_waits w = {.job = s->job[stage]};
    struct sn_sim sim = {0};
    const struct sn_program *prog = &w.job->train;
    w.of = sn_alloc_n((size_t)prog->n_ops + 1, sizeof(*w.of));
    enum sn_status st =
        w.of ? sn_sim_waits(&sim, s, p, &(struct sn_sim_waits){stage, w.of}, err)
             : sn_fail(err, SN_ENOMEM, "waits: no memory for %d operations", prog->n_ops);
    if (st == SN_OK) {
        w.step = sim.step;
        w.stage = sim.stage[stage];
        for (int i = 0; i < prog->n_ops; i++) {
            enum sn_axis a = sn_group_axis(prog->ops[i].group);
            w.message[a] += w.of[i].message;
            w.hidden[a] += w.of[i].hidden;
            w.exposed[a] += w.of[i].exposed;
            struct sn_waits_sum *sum = &w.of_what[sn_op_carries(&prog->ops[i])];
            sum->message += w.of[i].message;
            sum->hidden += w.of[i].hidden;
            sum->exposed += w.of[i].exposed;
        }
        st = find_least(&w, p, err);
    }
    sn_sim_fini(&sim);
    if (st == SN_OK)
        *out = w;
    else
        sn_waits_fini(&w);
    return st;
}

void sn_waits_fini(struct sn_waits *w)
{
    sn_free(w->of);
    *w = (struct sn_waits){0};
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_wait(struct sn_str *out, const struct sn_waits *w, int at, int post)
{
    const struct sn_program *p = &w->job->train;
    const struct sn_sim_wait *x = &w->of[post];
    sn_str_add(out, "  %5d  %-32s %-8s %10.3f %10.3f %10.3f", at, p->ops[post].label,
               sn_axis_name(sn_group_axis(p->ops[post].group)), x->message * 1e3, x->hidden * 1e3,
               x->exposed * 1e3);
    if (x->most > 0)
        sn_str_add(out, "  %s %s (%d)", sn_op_name(p->ops[x->behind].kind), p->ops[x->behind].label,
                   x->behind);
    sn_str_add(out, "\n");
}

static void print_sum(struct sn_str *out, const char *name, const double ms[3], double step)
{
    sn_str_add(out, "  %-47s %10.3f %10.3f %10.3f  %.1f %% of the step\n", name, ms[0] * 1e3,
               ms[1] * 1e3, ms[2] * 1e3, step > 0 ? 100 * ms[2] / step : 0);
}

/* What of all messages that carry the same, each alone, could be hidden: all but their own bound. */
static void print_what(struct sn_str *out, const struct sn_waits *w)
{
    for (int c = 0; c < SN_NCARRIED; c++) {
        const struct sn_waits_sum *s = &w->of_what[c];
        const double ms[] = {s->message, s->hidden, s->exposed};
        char name[64];
        (void)snprintf(name, sizeof(name), "%s; at most %.3f of %.3f hidden",
                       sn_carried_name((enum sn_carried)c), (s->alone - s->least) * 1e3,
                       s->alone * 1e3);
        if (s->message > 0 || s->exposed > 0)
            print_sum(out, name, ms, w->step);
    }
}

void sn_waits_text(struct sn_str *out, const struct sn_waits *w)
{
    const struct sn_program *p = &w->job->train;
    sn_str_add(out,
               "\nwaits of a step of stage %d, in milliseconds: of the message, of it while the "
               "stage computes, for which it stands; what is computed longest meanwhile\n",
               w->job->stage);
    for (int i = 0; i < p->n_ops; i++) {
        int post = p->ops[i].kind == SN_OP_WAIT ? p->op_of_id[p->ops[i].waits_for] : i;
        bool waits = p->ops[i].kind == SN_OP_WAIT || p->ops[i].kind == SN_OP_AGREE;
        if (waits && (w->of[post].message > 0 || w->of[post].exposed > 0))
            print_wait(out, w, i, post);
    }
    double all[3] = {0, 0, 0};
    for (int a = 0; a < SN_NAXES; a++) {
        const double ms[] = {w->message[a], w->hidden[a], w->exposed[a]};
        for (int k = 0; k < 3; k++)
            all[k] += ms[k];
        if (ms[0] > 0 || ms[2] > 0)
            print_sum(out, sn_axis_name((enum sn_axis)a), ms, w->step);
    }
    print_sum(out, "all", all, w->step);
    print_what(out, w);
    sn_str_add(out, "  %-69s %10.3f  %.1f %% of the step\n",
               w->job->stages > 1 ? "no order of these stands for less, or idles for the rest"
                                  : "no order of these stands for less",
               w->least * 1e3, w->step > 0 ? 100 * w->least / w->step : 0);
}
