/*
 * test_sim.c - simulated steps: against timelines worked out by hand, against lib/layout/idle where
 * communication is free, and against every operation played one by one (tests/lib/sim_reference).
 */
#include "lib/sim/sim.h"

#include "lib/base/mem.h"
#include "lib/layout/idle.h"
#include "tests/lib/bubble.h"
#include "tests/lib/layouts.h"
#include "tests/lib/sim_reference.h"
#include "tests/lib/sim_test.h"

static bool near(double got, double want)
{
    return fabs(got - want) <= 1e-9 * fmax(fabs(want), 1e-9);
}

/* Seconds of the kernels of a segment on a micro-batch that is neither first nor last. */
static double kernels(const struct subject *s, int stage, enum sn_segment_kind kind)
{
    const struct sn_program *p = &s->stages.job[stage]->train;
    double seconds = 0;
    for (int c = 0; c < p->n_segments; c++)
        for (int i = p->segments[c].first; i < p->segments[c].first + p->segments[c].n; i++)
            if (p->segments[c].kind == kind && p->ops[i].when == SN_EVERY)
                seconds += sn_price_op(&s->pricer, p, &p->ops[i]);
    return seconds;
}

/* Kernels of the first or last micro-batch alone cost nothing: segments of a kind are then
 * equal. */
static void level(struct subject *s)
{
    for (int i = 0; i < s->stages.n; i++) {
        struct sn_program *p = &s->stages.job[i]->train;
        for (int k = 0; k < p->n_ops; k++)
            if (p->ops[k].kind < SN_NKERNELS && p->ops[k].when != SN_EVERY)
                p->ops[k].kind = SN_OP_ALIAS;
    }
}

/* --- by hand ---------------------------------------------------------------------------------- */

static void one_stage_is_the_sum_of_its_kernels(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    struct sn_machine m = exact_machine();
    struct subject s;
    if (subject_init(&s, &c, &m)) {
        level(&s);
        struct sn_sim sim = play(&s, false);
        double update = kernels(&s, 0, SN_SEGMENT_UPDATE);
        double want =
            12 * (kernels(&s, 0, SN_SEGMENT_FORWARD) + kernels(&s, 0, SN_SEGMENT_BACKWARD));
        tap_ok(sim.step == want + update && sim.stage[0].busy == sim.step && sim.bubble == 0 &&
                   sim.stage[0].update == update,
               "one rank: %g s of kernels, of which the update %g", sim.step, update);
        sn_sim_fini(&sim);
    }
    subject_fini(&s);
}

/* F0 x F1 B1 x B0, then the world agrees, then both update: transfers take half a second. */
static void a_pipeline_of_two_takes_turns(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    struct sn_machine m = exact_machine();
    struct subject s;
    m.level[0].latency = 0.5;
    c.layout.pipeline = 2;
    c.train.global_batch = 1;
    if (subject_init(&s, &c, &m)) {
        level(&s);
        struct sn_sim sim = play(&s, false);
        double x = sn_price_collective(&s.pricer, SN_SEND, 48 * 48, SN_F32, SN_GROUP_PIPELINE);
        double all =
            sn_price_collective(&s.pricer, SN_ALL_REDUCE, SN_NAGREE_DENSE, SN_F64, SN_GROUP_WORLD);
        double work[2], update[2], longest;
        for (int i = 0; i < 2; i++) {
            work[i] = kernels(&s, i, SN_SEGMENT_FORWARD) + kernels(&s, i, SN_SEGMENT_BACKWARD);
            update[i] = kernels(&s, i, SN_SEGMENT_UPDATE);
        }
        double norms = update[0], decide = 0; /* before the agreement, and after */
        const struct sn_program *p = &s.stages.job[0]->train;
        for (int i = p->n_ops - 1; p->ops[i].kind != SN_OP_AGREE; i--)
            decide += p->ops[i].kind < SN_NKERNELS ? 0x1p-20 : 0;
        norms -= decide;
        longest = fmax(decide, update[1] - norms);
        double want = work[0] + work[1] + 2 * x + norms + all + longest;
        tap_ok(near(sim.step, want) && x >= 0.5 && all >= 0.5,
               "two stages, one micro-batch: %.7f s, by hand %.7f", sim.step, want);
        tap_ok(near(sim.stage[0].exposed[SN_AXIS_PIPELINE], x) &&
                   near(sim.stage[1].exposed[SN_AXIS_PIPELINE], x),
               "each waits for one transfer of %g s", x);
        tap_ok(near(sim.stage[0].idle, work[1] + x + longest - decide),
               "the first idles while the second works and its input is under way: %g s",
               sim.stage[0].idle);
        sn_sim_fini(&sim);
    }
    subject_fini(&s);
}

struct reductions {
    double total, last, first_at, backward; /* seconds; first_at: from backward's begin */
    int n;
};

static struct reductions reductions_of(const struct subject *s)
{
    const struct sn_program *p = &s->stages.job[0]->train;
    struct reductions r = {0};
    for (int c = 0; c < p->n_segments; c++)
        for (int i = p->segments[c].first; i < p->segments[c].first + p->segments[c].n; i++) {
            if (p->segments[c].kind != SN_SEGMENT_BACKWARD)
                continue;
            r.backward += sn_price_op(&s->pricer, p, &p->ops[i]);
            if (p->ops[i].group != SN_GROUP_REPLICA || p->ops[i].kind != SN_OP_ALL_REDUCE)
                continue;
            r.last = sn_price_comm(&s->pricer, p, &p->ops[i]);
            r.first_at = r.n++ ? r.first_at : r.backward;
            r.total += r.last;
        }
    return r;
}

static void reductions_hide_behind_backward(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    struct sn_machine m = exact_machine();
    struct subject s;
    c.layout.data = 2;
    c.train.global_batch = 4;
    m.level[0].latency = 0x1p-24; /* shorter than a kernel */
    if (subject_init(&s, &c, &m)) {
        level(&s);
        struct reductions r = reductions_of(&s);
        struct sn_sim sim = play(&s, false);
        double agree = sim.stage[0].exposed[SN_AXIS_WORLD];
        tap_ok(r.n > 3 && near(sim.stage[0].exposed[SN_AXIS_DATA], r.last),
               "%d short reductions: only the last one shows (%g of %g s)", r.n,
               sim.stage[0].exposed[SN_AXIS_DATA], r.total);
        tap_ok(agree > 0 && near(sim.step, sim.stage[0].busy + r.last + agree),
               "and the step is what is computed, that and the agreement");
        sn_sim_fini(&sim);
        s.machine.level[0].latency = 1;
        sn_pricer_init(&s.pricer, &s.machine, &s.software, s.stages.job[0]);
        r = reductions_of(&s);
        sim = play(&s, false);
        double hidden = r.total - sim.stage[0].exposed[SN_AXIS_DATA];
        tap_ok(near(hidden, r.backward - r.first_at),
               "long ones hide for as long as backward lasts from the first: %g s", hidden);
        sn_sim_fini(&sim);
        s.software.data_overlaps = false;
        sim = play(&s, false);
        tap_ok(near(sim.stage[0].exposed[SN_AXIS_DATA], r.total),
               "a trainer that reduces after backward waits for all of it");
        sn_sim_fini(&sim);
        s.software.hidden[SN_AXIS_DATA] = 0.75;
        sim = play(&s, false);
        tap_ok(near(sim.stage[0].exposed[SN_AXIS_DATA], r.total / 4),
               "one that hides three quarters waits for the fourth");
        sn_sim_fini(&sim);
    }
    subject_fini(&s);
}

/* A transfer of 1 s leaves half of the processor: so is half of it made up for. */
static void a_communication_thread_takes_its_share(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    struct sn_machine m = exact_machine();
    struct subject s;
    c.layout.data = 2;
    c.train.global_batch = 2;
    m.level[0].latency = 1;
    if (subject_init(&s, &c, &m)) {
        level(&s);
        struct sn_sim free_of_it = play(&s, false);
        struct reductions r = reductions_of(&s);
        s.machine.level[0].processor = 0.5;
        struct sn_sim shared = play(&s, false);
        double slower = shared.stage[0].busy - free_of_it.stage[0].busy;
        tap_ok(near(slower, r.backward - r.first_at) && near(shared.step, free_of_it.step),
               "what runs beside reductions takes twice as long (%g s more), within their time",
               slower);
        sn_sim_fini(&free_of_it);
        sn_sim_fini(&shared);
    }
    subject_fini(&s);
}

/* --- against idle.h --------------------------------------------------------------------------- */

static int64_t ticks(const struct subject *s, int module, enum sn_segment_kind kind)
{
    const struct sn_program *p = &s->stages.job[module % s->stages.n]->train;
    int64_t n = 0;
    for (int c = 0; c < p->n_segments; c++)
        for (int i = p->segments[c].first; i < p->segments[c].first + p->segments[c].n; i++)
            n += p->segments[c].kind == kind &&
                 p->segments[c].scope.virtual_stage == module / s->stages.n &&
                 p->ops[i].kind < SN_NKERNELS;
    return n;
}

static int64_t idle_makespan(const struct subject *s)
{
    struct sn_task_cost cost[64];
    struct sn_pipeline pipe = job_pipeline(s->stages.job[0]);
    struct sn_pipeline_time time = {0};
    struct sn_err err = {0};
    for (int k = 0; k < pipe.stages * pipe.virtual_stages; k++)
        cost[k] = (struct sn_task_cost){.forward = ticks(s, k, SN_SEGMENT_FORWARD),
                                        .backward = ticks(s, k, SN_SEGMENT_BACKWARD) +
                                                    ticks(s, k, SN_SEGMENT_INPUT_GRAD),
                                        .weight = ticks(s, k, SN_SEGMENT_WEIGHT_GRAD)};
    if (sn_pipeline_simulate(&pipe, &(struct sn_pipeline_cost){.modules = cost}, &time, &err) !=
        SN_OK)
        tap_ok(false, "idle: %s", err.text);
    int64_t makespan = time.makespan;
    sn_pipeline_time_fini(&time);
    return makespan;
}

static void free_transfers_give_the_makespan_of_the_schedule(void)
{
    static const struct setting settings[] = {
        {SN_GPIPE, 2, 1, 5},       {SN_GPIPE, 5, 1, 3},       {SN_1F1B, 2, 1, 1},
        {SN_1F1B, 4, 1, 3},        {SN_1F1B, 4, 1, 16},       {SN_1F1B, 7, 1, 12},
        {SN_INTERLEAVED, 2, 3, 4}, {SN_INTERLEAVED, 4, 2, 8}, {SN_INTERLEAVED, 3, 4, 9},
        {SN_ZERO_BUBBLE, 2, 1, 2}, {SN_ZERO_BUBBLE, 4, 1, 9}, {SN_ZERO_BUBBLE, 6, 1, 4}};
    struct sn_machine m = exact_machine();
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        struct setting t = settings[i];
        struct sn_config c = config_of(t);
        struct subject s;
        if (subject_init(&s, &c, &m)) {
            level(&s);
            struct sn_sim sim = play(&s, true);
            double end = 0;
            for (int64_t e = 0; e < sim.n_events; e++)
                if (sim.event[e].kind < SN_EVENT_UPDATE)
                    end = fmax(end, sim.event[e].end);
            int64_t want = idle_makespan(&s);
            tap_ok(end == (double)want * 0x1p-20 && sim.step > end,
                   "schedule %d, %d stages x %d, %d micro-batches: the last gradient at %.0f ticks "
                   "of %lld",
                   (int)t.kind, t.stages, t.vstages, t.micros, end * 0x1p20, (long long)want);
            sn_sim_fini(&sim);
        }
        subject_fini(&s);
    }
}

/* --- against every operation ------------------------------------------------------------------ */

static bool same_stage(const struct sn_sim_stage *a, const struct sn_sim_stage *b, double step)
{
    double off = fmax(fabs(a->busy - b->busy), fabs(a->idle - b->idle));
    off = fmax(off, fabs(a->update - b->update));
    for (int x = 0; x < SN_NAXES; x++)
        off = fmax(off, fabs(a->exposed[x] - b->exposed[x]));
    return off <= 1e-9 * step;
}

static bool equals_reference(const struct subject *s, struct sim_reference *r, struct sn_sim *sim)
{
    *sim = play(s, false);
    sim_reference_run(r, &s->stages, &s->pricer);
    bool good = fabs(sim->step - r->step) <= 1e-9 * r->step;
    for (int i = 0; i < s->stages.n && sim->stage; i++) {
        double sum = sim->stage[i].busy + sim->stage[i].idle;
        for (int a = 0; a < SN_NAXES; a++)
            sum += sim->stage[i].exposed[a];
        good = good && same_stage(&sim->stage[i], &r->stage[i], r->step) &&
               fabs(sum - sim->step) <= 1e-9 * sim->step;
    }
    return good;
}

static void layout_equals_reference(const char *name, const struct sn_config *c, uint64_t seed)
{
    struct sn_machine m = exact_machine();
    struct subject s;
    if (subject_init(&s, c, &m))
        for (uint64_t k = 0; k < 4; k++) {
            struct sn_sim sim;
            struct sim_reference r;
            s.machine = random_machine(sn_rng_mix(seed, k));
            s.machine.level[0].processor = k == 1 ? 0.4 : 0;
            s.software.data_overlaps = k != 2;
            s.software.hidden[SN_AXIS_TENSOR] = k == 3 ? 0.3 : 0;
            s.software.hidden[SN_AXIS_PIPELINE] = k == 3 ? 0.6 : 0;
            sn_pricer_init(&s.pricer, &s.machine, &s.software, s.stages.job[0]);
            bool good = equals_reference(&s, &r, &sim);
            tap_ok(good, "%s, machine %d of seed %llu: %.9g s, every operation: %.9g s", name,
                   (int)k, (unsigned long long)seed, sim.step, r.step);
            sn_sim_fini(&sim);
        }
    subject_fini(&s);
}

static void every_layout_equals_its_operations_one_by_one(void)
{
    FILE *f = fopen("tests/equiv/layouts", "r");
    struct layouts_line *l = sn_alloc(sizeof(*l));
    struct sn_err err = {0};
    int more = -1;
    for (uint64_t n = 1; f && l && (more = layouts_next(f, l, &err)) == 1; n++)
        layout_equals_reference(l->name, &l->config, n);
    tap_ok(more == 0, "the whole table%s", err.text);
    if (f)
        (void)fclose(f);
    sn_free(l);
}

int main(void)
{
    one_stage_is_the_sum_of_its_kernels();
    a_pipeline_of_two_takes_turns();
    reductions_hide_behind_backward();
    a_communication_thread_takes_its_share();
    free_transfers_give_the_makespan_of_the_schedule();
    every_layout_equals_its_operations_one_by_one();
    return tap_done();
}
