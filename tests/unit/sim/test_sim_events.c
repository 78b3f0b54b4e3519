/*
 * test_sim_events.c - what a simulation tells beside its sums: events, memory over time, and what
 * went wrong.
 */
#include "lib/base/mem.h"
#include "tests/lib/sim_test.h"

/* --- events and memory ------------------------------------------------------------------------ */

static struct sn_config busy_config(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.layout.data = 2;
    c.layout.tensor = 2;
    c.layout.pipeline = 2;
    c.layout.virtual_stages = 2;
    c.layout.schedule = SN_INTERLEAVED;
    c.layout.sequence_parallel = true;
    c.layout.zero = 1;
    return c;
}

static void events_tell_what_was_added_up(void)
{
    struct sn_config c = busy_config();
    struct sn_machine m = random_machine(5);
    struct subject s;
    if (subject_init(&s, &c, &m)) {
        struct sn_sim plain = play(&s, false), sim = play(&s, true);
        tap_ok(plain.step == sim.step && plain.n_events == 0 && sim.n_events > 0,
               "recording changes nothing");
        double exposed[2][SN_NAXES] = {{0}}, idle[2] = {0}, before[2] = {0};
        int64_t sent = 0, traffic[SN_NAXES] = {0};
        int segments = 0;
        bool in_order = true, apart = true;
        for (int64_t i = 0; i < sim.n_events; i++) {
            const struct sn_event *e = &sim.event[i];
            in_order = in_order && e->end >= e->begin && e->end <= sim.step &&
                       (i == 0 || e->begin >= e[-1].begin);
            if (e->kind == SN_EVENT_WAIT)
                exposed[e->stage][e->axis] += e->end - e->begin;
            else if (e->kind == SN_EVENT_TRANSFER)
                sent += e->stage == 0 ? e->bytes : 0;
            else if (e->kind == SN_EVENT_IDLE)
                idle[e->stage] += e->end - e->begin;
            else {
                apart = apart && e->begin >= before[e->stage];
                before[e->stage] = e->end;
                segments++;
            }
        }
        bool same = true, stands = true;
        for (int i = 0; i < 2; i++) /* its last segment ends before the step does */
            stands = stands &&
                     fabs(idle[i] + sim.step - before[i] - sim.stage[i].idle) < 1e-9 * sim.step;
        for (int a = 0; a < SN_NAXES; a++)
            for (int i = 0; i < 2; i++)
                same = same && fabs(exposed[i][a] - sim.stage[i].exposed[a]) < 1e-9 * sim.step;
        sn_job_traffic(s.stages.job[0], traffic);
        for (int a = 0; a < SN_NAXES; a++)
            sent -= traffic[a];
        tap_ok(in_order, "events are in order and inside the step");
        tap_ok(apart && segments == 2 * (2 * 2 * 6 + 1),
               "a stage runs one segment at a time, each once: %d", segments);
        tap_ok(same, "the waits of each axis sum to its exposed time");
        tap_ok(stands, "and those for other stages to its idle time");
        tap_ok(sent == 0, "the transfers of a rank sum to its traffic (off by %lld)",
               (long long)sent);
        sn_sim_fini(&plain);
        sn_sim_fini(&sim);
    }
    subject_fini(&s);
}

static void memory_never_exceeds_the_plan(void)
{
    static const struct setting settings[] = {{SN_1F1B, 4, 1, 8},
                                              {SN_GPIPE, 3, 1, 5},
                                              {SN_INTERLEAVED, 2, 2, 4},
                                              {SN_ZERO_BUBBLE, 4, 1, 6}};
    struct sn_machine m = random_machine(9);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        struct sn_config c = config_of(settings[i]);
        struct subject s;
        if (subject_init(&s, &c, &m)) {
            struct sn_sim sim = play(&s, true);
            for (int k = 0; k < s.stages.n; k++) {
                struct sn_memory_point *p = NULL;
                struct sn_memory_plan plan;
                struct sn_err err = {0};
                int n = 0;
                sn_job_memory(s.stages.job[k], &plan);
                int64_t limit = plan.total - plan.library, most = 0;
                bool good = sn_sim_memory(&p, &n, &sim, s.stages.job[k], &err) == SN_OK;
                for (int x = 0; x < n; x++) {
                    most = p[x].bytes > most ? p[x].bytes : most;
                    good = good && (x == 0 || p[x].time > p[x - 1].time);
                }
                const struct sn_program *t = &s.stages.job[k]->train;
                bool train_is_largest = s.stages.job[k]->arena_bytes[SN_ARENA_SCRATCH] ==
                                        t->slots_bytes + t->temp_bytes + t->workspace_bytes;
                bool all_full = settings[i].kind != SN_INTERLEAVED;
                tap_ok(good && most <= limit && (most == limit || !train_is_largest || !all_full) &&
                           p[n - 1].bytes == limit - s.stages.job[k]->arena_bytes[SN_ARENA_SCRATCH],
                       "schedule %d, stage %d: %d points, at most %lld of %lld bytes, at the end "
                       "the state alone",
                       (int)settings[i].kind, k, n, (long long)most, (long long)limit);
                sn_free(p);
            }
            sn_sim_fini(&sim);
        }
        subject_fini(&s);
    }
}

static void failed_allocations_are_explained(void)
{
    struct sn_config c = busy_config();
    struct sn_machine m = random_machine(7);
    struct subject s;
    bool good = true;
    int n = 0;
    if (subject_init(&s, &c, &m)) {
        for (enum sn_status st = SN_ENOMEM; st != SN_OK && good;) {
            struct sn_sim sim = {0};
            struct sn_err err = {0};
            sn_mem_fail_at((uint64_t)++n);
            st = sn_sim_run(&sim, &s.stages, &s.pricer, true, &err);
            sn_mem_fail_at(0);
            good = st == SN_OK || (st == SN_ENOMEM && strstr(err.text, "no memory") && !sim.stage);
            sn_sim_fini(&sim);
        }
    }
    tap_ok(good && n > 10, "each of %d allocations may fail", n - 1);
    subject_fini(&s);
}

/* A receive that nobody sends: the verifier's sentence is seen, which names both ranks. */
static void a_standstill_is_a_sentence(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    struct sn_machine m = random_machine(7);
    struct sn_err err = {0};
    struct sn_sim sim = {0};
    struct subject s;
    c.layout.pipeline = 2;
    if (subject_init(&s, &c, &m)) {
        struct sn_program *p = &s.stages.job[0]->train;
        for (int i = 0; i < p->n_ops; i++)
            if (p->ops[i].kind == SN_OP_SEND)
                p->ops[i].kind = SN_OP_ALIAS;
        enum sn_status st = sn_sim_run(&sim, &s.stages, &s.pricer, false, &err);
        tap_ok(st == SN_EFAIL && strstr(err.text, "rank 1 (data 0") &&
                   strstr(err.text, "from rank 0 (data 0") &&
                   strstr(err.text, "which posts its send 0 times"),
               "%s", err.text);
    }
    subject_fini(&s);
}

int main(void)
{
    events_tell_what_was_added_up();
    memory_never_exceeds_the_plan();
    failed_allocations_are_explained();
    a_standstill_is_a_sentence();
    return tap_done();
}
