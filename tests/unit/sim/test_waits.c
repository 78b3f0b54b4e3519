/*
 * test_waits.c - what is hidden behind what (lib/sim/waits.h), and the bound beside it.
 */
#include "lib/sim/waits.h"

#include "lib/program/opinfo.h"
#include "tests/lib/layouts.h"
#include "tests/lib/sim_test.h"

static struct sn_config of(int data, int tensor, int pipeline, int zero)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.layout.data = data;
    c.layout.tensor = tensor;
    c.layout.pipeline = pipeline;
    c.layout.sequence_parallel = true;
    c.layout.zero = zero;
    return c;
}

struct count {
    int played, differ, beyond, missed, bounded;
};

/* Sums are those of the simulation, and nothing is hidden for longer than it takes. */
static void try(struct count *n, const struct sn_config *config, const struct sn_machine *m)
{
    struct sn_config c = *config;
    struct subject s;
    struct sn_err err = {0};
    if (subject_init(&s, &c, m)) {
        struct sn_sim sim = play(&s, false);
        for (int stage = 0; stage < s.stages.n; stage++) {
            struct sn_waits w = {0};
            if (sn_waits_find(&w, &s.stages, &s.pricer, stage, &err) != SN_OK) {
                n->missed++;
                continue;
            }
            double all = 0, carried = 0;
            n->played++;
            for (int k = 0; k < SN_NCARRIED; k++) {
                const struct sn_waits_sum *x = &w.of_what[k];
                carried += x->exposed;
                n->differ += x->alone > x->message * (1 + 1e-9) || x->least > x->alone * (1 + 1e-9);
            }
            n->differ += fabs(w.step - sim.step) > 1e-9 * sim.step;
            for (int a = 0; a < SN_NAXES; a++) {
                all += w.exposed[a];
                n->differ += fabs(w.exposed[a] - sim.stage[stage].exposed[a]) > 1e-9 * sim.step;
            }
            n->differ += fabs(all - carried) > 1e-9 * sim.step;
            const struct sn_program *p = &s.stages.job[stage]->train;
            for (int i = 0; i < p->n_ops; i++) {
                const struct sn_sim_wait *x = &w.of[i];
                bool told = sn_op_is_transfer(&p->ops[i]) || (x->most > 0) == (x->hidden > 0);
                n->differ += !told || x->hidden > x->message * (1 + 1e-9);
                n->differ += x->most > 0 && p->ops[x->behind].kind >= SN_NKERNELS;
            }
            n->beyond += w.least > (all + sim.stage[stage].idle) * (1 + 1e-9) + 1e-12;
            n->bounded += w.least > 0.5 * all && all > 0;
            sn_waits_fini(&w);
        }
        sn_sim_fini(&sim);
    }
    subject_fini(&s);
}

static void waits_add_up_and_are_bounded(void)
{
    static const int layouts[][4] = {{2, 1, 1, 0}, {2, 1, 1, 3}, {1, 2, 1, 0},
                                     {2, 2, 1, 1}, {2, 2, 2, 0}, {1, 2, 2, 0}};
    struct count n = {0};
    for (int seed = 1; seed <= 8; seed++) {
        struct sn_machine m = random_machine((uint64_t)seed);
        for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
            const int *l = layouts[i];
            struct sn_config c = of(l[0], l[1], l[2], l[3]);
            try(&n, &c, &m);
            c.layout.sequence_parallel = seed % 2;
            c.layout.recompute = SN_RECOMPUTE_FULL; /* posts in front of what stages wait for */
            layouts_overlap(&c);
            try(&n, &c, &m);
        }
    }
    tap_ok(n.played >= 120 && n.missed == 0, "%d stages are looked into", n.played);
    tap_ok(n.differ == 0, "waits sum to what the simulation says (%d do not)", n.differ);
    tap_ok(n.beyond == 0, "none stands for less than the bound (%d do)", n.beyond);
    tap_ok(n.bounded >= 5, "of %d it is more than half of what is exposed", n.bounded);
}

int main(void)
{
    waits_add_up_and_are_bounded();
    return tap_done();
}
