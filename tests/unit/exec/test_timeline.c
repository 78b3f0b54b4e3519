/*
 * test_timeline.c - a step of which it is kept when its operations ran: each of them once, none
 * beside another on one stream, and the same losses; all ranks' steps in one trace.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/exec/exec_inner.h"
#include "lib/machine/named.h"
#include "lib/train/measured.h"
#include "tests/lib/fake_device.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/layouts.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, ARMED = 3, MOST_RANKS = 16 };

/* What a rank has found; the ranks are threads. */
struct found {
    struct sn_timeline *timeline;
    struct sn_exec_time before[SN_NKINDS];
    char fault[200]; /* "": none */
    long operations, transfers, waits;
};

struct seen {
    struct found rank[MOST_RANKS];
    bool on_devices;
    bool draws;
    char *text; /* of rank 0's trace */
};

__attribute__((format(printf, 2, 3))) static void fault(struct found *f, const char *fmt, ...)
{
    __builtin_va_list ap;
    if (f->fault[0])
        return;
    __builtin_va_start(ap, fmt);
    (void)vsnprintf(f->fault, sizeof(f->fault), fmt, ap);
    __builtin_va_end(ap);
}

/* --- every operation once --------------------------------------------------------------------- */

static bool is_here(const struct sn_job *j, const struct sn_op *op)
{
    for (int q = 0; q < SN_NGROUPS; q++)
        if (op->only >> q & 1u && j->group_index[q] != 0)
            return false;
    return true;
}

static void check_once(struct found *f, const struct sn_job *j, const struct sn_timeline *t)
{
    const struct sn_program *p = &j->train;
    size_t all = (size_t)p->n_sched * (size_t)p->n_ops;
    unsigned char *ran = calloc(all, 1);
    for (int64_t i = t->n_sched; i < t->n; i++) {
        const struct sn_timed *e = &t->event[i];
        if (e->round == 0)
            ran[(size_t)e->sched * (size_t)p->n_ops + (size_t)e->op]++;
        else if (!p->ops[e->op].extra)
            fault(f, "%s has another round", p->ops[e->op].label);
        f->transfers += e->axis != SN_TIMED_COMPUTING;
        f->waits += p->ops[e->op].kind == SN_OP_WAIT;
    }
    for (int s = 0; s < p->n_sched; s++) {
        const struct sn_segment *c = &p->segments[p->sched[s].segment];
        struct sn_at at = {.micro = p->sched[s].micro, .micros = p->micros};
        for (int i = 0; i < p->n_ops; i++) {
            const struct sn_op *op = &p->ops[i];
            int times = ran[(size_t)s * (size_t)p->n_ops + (size_t)i];
            bool due = i >= c->first && i < c->first + c->n && sn_exec_due(op, &at) &&
                       is_here(j, op) && (!op->extra || times);
            f->operations += due;
            if (times != (due ? 1 : 0))
                fault(f, "'%s %s' of micro-batch %d is there %d times", sn_op_name(op->kind),
                      op->label, at.micro, times);
        }
    }
    free(ran);
}

/* --- times ------------------------------------------------------------------------------------ */

/* Streams: computing; and on the processor collectives, which one thread carries out in turn. */
static void check_order(struct found *f, const struct sn_job *j, const struct sn_timeline *t,
                        bool on_devices)
{
    double computed = 0, moved = 0;
    for (int64_t i = t->n_sched; i < t->n; i++) {
        const struct sn_timed *e = &t->event[i];
        const struct sn_op *op = &j->train.ops[e->op];
        const struct sn_timed *segment = &t->event[e->sched];
        bool computes = e->axis == SN_TIMED_COMPUTING;
        bool in_turn = op->kind < SN_OP_SEND || (op->kind > SN_OP_SHIFT && op->kind < SN_OP_WAIT);
        if (!(e->at.begin >= t->begin - t->unsure) || !(e->at.end >= e->at.begin) ||
            !(e->at.end <= t->end + t->unsure))
            fault(f, "'%s %s': from %.9f to %.9f of %.9f", sn_op_name(op->kind), op->label,
                  e->at.begin - t->begin, e->at.end - t->begin, t->end - t->begin);
        if (computes && e->at.begin < computed)
            fault(f, "'%s %s' begins before what is before it has ended", sn_op_name(op->kind),
                  op->label);
        if (!computes && in_turn && !on_devices && e->at.begin < moved)
            fault(f, "'%s %s' is beside another", sn_op_name(op->kind), op->label);
        if (computes && (e->at.begin < segment->at.begin || e->at.end > segment->at.end))
            fault(f, "'%s %s' is not within its segment", sn_op_name(op->kind), op->label);
        if (computes)
            computed = e->at.end;
        else if (in_turn && e->at.end > moved)
            moved = e->at.end;
    }
}

/* What event i, a WAIT, waits for: the last of those that were posted in its slot. */
static const struct sn_timed *posted(const struct sn_program *p, const struct sn_timeline *t,
                                     int64_t i)
{
    const struct sn_op *wait = &p->ops[t->event[i].op];
    int slot = p->sched[t->event[i].sched].slot;
    while (i-- > t->n_sched) {
        const struct sn_timed *e = &t->event[i];
        if (p->ops[e->op].id == wait->waits_for &&
            (!wait->per_slot || p->sched[e->sched].slot == slot))
            return e;
    }
    return NULL;
}

/* A transfer takes time, and is over when the wait for it is. */
static void check_transfers(struct found *f, const struct sn_job *j, const struct sn_timeline *t)
{
    const struct sn_program *p = &j->train;
    for (int64_t i = t->n_sched; i < t->n; i++) {
        const struct sn_timed *e = &t->event[i], *moved;
        const struct sn_op *op = &p->ops[e->op];
        if (op->kind != SN_OP_WAIT || j->group_size[op->group] == 1)
            continue;
        if (!(moved = posted(p, t, i))) /* the first of all waits for a send of before */
            continue;
        if (moved->axis == SN_TIMED_COMPUTING)
            fault(f, "'%s' is waited for, and nothing moves", op->label);
        else if (!(moved->at.end > moved->at.begin) || moved->at.end > e->at.end + 2 * t->unsure)
            fault(f, "'%s' moves from %.9f to %.9f, and its wait ends at %.9f", op->label,
                  moved->at.begin, moved->at.end, e->at.end);
    }
}

/* What --profile would add up. */
static void check_sums(struct found *f, const struct sn_job *j, const struct sn_timeline *t,
                       const struct sn_exec_time *now)
{
    double sum[SN_NKINDS] = {0};
    for (int64_t i = t->n_sched; i < t->n; i++)
        sum[j->train.ops[t->event[i].op].kind] += t->event[i].at.end - t->event[i].at.begin;
    for (int k = 0; k < SN_NKERNELS; k++) {
        double want = now[k].seconds - f->before[k].seconds;
        if (fabs(sum[k] - want) > 1e-9)
            fault(f, "%s takes %.9f s and its operations %.9f s", sn_op_name(k), want, sum[k]);
    }
}

/* --- a trace ---------------------------------------------------------------------------------- */

static void draw(struct seen *s, struct sn_exec *x, const struct sn_job *j)
{
    struct sn_err err = {0};
    struct sn_stages stages = {0};
    struct sn_machine machine = {0};
    struct sn_software software = {0};
    struct sn_pricer pricer;
    struct found *f = &s->rank[j->rank];
    struct sn_measured_env env = {&stages, &pricer, 100};
    size_t bytes = 0;
    FILE *file = NULL;
    if (j->rank == 0) {
        struct sn_job_env compile = {
            .config = j->config, .model = j->model, .ops = j->ops, .threads = 1};
        if (sn_stages_create_text(&stages, &compile, &err) != SN_OK ||
            sn_machine_preset(&machine, "laptop-cpu", NULL, &err) != SN_OK ||
            sn_software_of(&software, j->config, NULL, &err) != SN_OK)
            fault(f, "%s", err.text);
        sn_pricer_init(&pricer, &machine, &software, j);
        file = open_memstream(&s->text, &bytes);
    }
    if (sn_measured_write(file, file ? &env : NULL, f->timeline, x->comm, &err) != SN_OK)
        fault(f, "%s", err.text);
    if (!file)
        return;
    (void)fclose(file);
    sn_stages_fini(&stages);
    sn_machine_fini(&machine);
}

struct slice {
    long thread;
    double begin, end;
};

static double number(const char **at, const char *key)
{
    *at = strstr(*at, key);
    if (!*at)
        return NAN;
    *at += strlen(key);
    return strtod(*at, NULL);
}

static int later(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

/* Slices of a thread that overlap, none of which lies in the other, in whole picoseconds. */
static long crossings(struct slice *s, long n)
{
    long crossed = 0;
    double open[8] = {0};
    qsort(s, (size_t)n, sizeof(*s), later);
    for (long i = 0, depth = 0; i < n; i++) {
        if (i == 0 || s[i].thread != s[i - 1].thread)
            depth = 0;
        while (depth > 0 && open[depth - 1] <= s[i].begin + 1e-7)
            depth--;
        crossed += depth > 0 && s[i].end > open[depth - 1] + 1e-7;
        if (depth < 8)
            open[depth++] = s[i].end;
    }
    return crossed;
}

static void check_trace(const char *name, const struct seen *s, int ranks, long operations)
{
    struct slice *slice = calloc((size_t)operations * 2 + 1000, sizeof(*slice));
    long n = 0, named = 0, priced = 0;
    for (const char *p = s->text; (p = strstr(p, "{\"ph\":\"X\"")); n++) {
        double pid = number(&p, "\"pid\":"), tid = number(&p, "\"tid\":");
        double ts = number(&p, "\"ts\":"), dur = number(&p, "\"dur\":");
        slice[n] = (struct slice){(long)(pid * 1000 + tid), ts, ts + dur};
    }
    for (const char *p = s->text; (p = strstr(p, "\"measured: rank ")); p++)
        named++;
    for (const char *p = s->text; (p = strstr(p, "\"planned_us\":")); p++)
        priced++;
    tap_ok(n > operations && named == ranks, "%s: a process for each of %ld ranks, %ld slices",
           name, named, n);
    tap_ok(priced > operations / 2, "%s: %ld of them know what was planned", name, priced);
    tap_ok(crossings(slice, n) == 0, "%s: no two of a thread cross", name);
    free(slice);
}

/* --- runs ------------------------------------------------------------------------------------- */

static void see(void *seen, struct sn_exec *x, const struct sn_job *j, int step)
{
    struct seen *s = seen;
    struct found *f = &s->rank[j->rank];
    struct sn_err err = {0};
    if (step == ARMED - 1) {
        memcpy(f->before, sn_exec_times(x), sizeof(f->before));
        if (sn_timeline_create(&f->timeline, x, &err) != SN_OK)
            fault(f, "%s", err.text);
        sn_exec_set_timeline(x, f->timeline);
    } else if (step == ARMED) {
        sn_exec_set_timeline(x, NULL);
        check_once(f, j, f->timeline);
        check_order(f, j, f->timeline, s->on_devices);
        check_transfers(f, j, f->timeline);
        if (!s->on_devices)
            check_sums(f, j, f->timeline, sn_exec_times(x));
        if (f->timeline->lost)
            fault(f, "%lld operations found no room", (long long)f->timeline->lost);
        if (s->draws)
            draw(s, x, j);
    }
}

static bool same_bits(const struct layout_run *a, const struct layout_run *b)
{
    size_t bytes = (size_t)a->steps * sizeof(a->loss[0]);
    return memcmp(a->loss, b->loss, bytes) == 0 && memcmp(a->norm, b->norm, bytes) == 0 &&
           a->val_loss == b->val_loss;
}

static void check(const char *name, const struct sn_config *c, const char *where)
{
    static struct seen s;
    bool on_devices = where != NULL;
    int ranks = layout_ranks(c);
    long operations = 0, transfers = 0, waits = 0;
    const char *why = "";
    char what[160];
    struct layout_run plain = {.steps = STEPS, .on_devices = on_devices};
    struct layout_run timed = plain;
    s = (struct seen){.on_devices = on_devices, .draws = true};
    timed.see = see;
    timed.seen = &s;
    if (on_devices) {
        fake_device_habits()->has_no_channels = strcmp(where, "host") == 0;
        fake_device_habits()->seed++;
    }
    (void)snprintf(what, sizeof(what), "%s%s%s", name, on_devices ? " on devices, through " : "",
                   on_devices ? where : "");
    layout_train(&plain, c);
    layout_train(&timed, c);
    for (int i = 0; i < ranks; i++) {
        why = why[0] ? why : s.rank[i].fault;
        operations += s.rank[i].operations;
        transfers += s.rank[i].transfers;
        waits += s.rank[i].waits;
    }
    tap_ok(!timed.fault[0] && !why[0] && operations > 0,
           "%s: %ld operations, each once and in order %s%s", what, operations, why, timed.fault);
    tap_ok((transfers > 0) == (ranks > 1) && (ranks == 1 || waits > 0),
           "%s: %ld of them between ranks", what, transfers);
    tap_ok(same_bits(&plain, &timed), "%s: the losses have the same bits", what);
    tap_ok(!on_devices || timed.in_graphs > 0, "%s: the other steps are in graphs", what);
    check_trace(what, &s, ranks, operations);
    for (int i = 0; i < ranks; i++)
        sn_timeline_destroy(s.rank[i].timeline);
    free(s.text);
}

static bool is_wanted(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* Clocks that differ by hours, barriers that take their time in either direction. */
static void clocks_are_aligned(void)
{
    int right = 0, n = 200;
    double worst = 0;
    for (int k = 0; k < n; k++) {
        struct sn_clock_notes zero, other;
        struct sn_clock_offset o;
        double offset = (sn_rng_uniform(1, (uint64_t)k) - .5) * 1e5, now = 1000;
        for (int i = 0; i < SN_CLOCK_ROUNDS; i++) {
            double wait[4];
            for (int w = 0; w < 4; w++)
                wait[w] = 1e-4 * sn_rng_uniform(2, (uint64_t)(64 * k + 4 * i + w));
            zero.came[i] = now + wait[0];
            other.came[i] = now + wait[1] + offset;
            now += fmax(wait[0], wait[1]);
            zero.left[i] = now + wait[2];
            other.left[i] = now + wait[3] + offset;
            now += 1e-4;
        }
        sn_clock_offset_find(&o, &zero, &other);
        right += fabs(o.seconds - offset) <= o.unsure + 1e-9;
        worst = fmax(worst, o.unsure);
    }
    tap_ok(right == n && worst < 1e-4, "the offset is within its bounds %d times of %d", right, n);
}

int main(void)
{
    static const char *const here[] = {"tp2-sp-neox", "pp4-zb-gpt2", "pp2-v2", "z3-dp2",
                                       "full",        "ep2",         NULL};
    static const char *const devices[] = {"pp2-v2", "z3-dp2", "tp2", NULL};
    struct layouts_line line;
    struct sn_err err = {0};
    struct sn_config one = layout_config(SN_LLAMA);
    FILE *f = fopen("tests/equiv/layouts", "r");
    int more = -1;
    clocks_are_aligned();
    check("one rank", &one, NULL);
    check("one rank", &one, "channels");
    while (f && (more = layouts_next(f, &line, &err)) > 0) {
        if (is_wanted(line.name, here))
            check(line.name, &line.config, NULL);
        if (is_wanted(line.name, devices)) {
            check(line.name, &line.config, "channels");
            check(line.name, &line.config, "host");
        }
    }
    tap_ok(more == 0, "the table can be read %s", err.text);
    if (f)
        (void)fclose(f);
    return tap_done();
}
