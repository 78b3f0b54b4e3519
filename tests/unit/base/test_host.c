/*
 * test_host.c - a host that issues operations ahead of the device, where it can.
 */
#include "tests/lib/sim_test.h"

static double step_of(struct subject *s, double host)
{
    s->software.host = host;
    struct sn_sim sim = play(s, false);
    double step = sim.step;
    sn_sim_fini(&sim);
    return step;
}

int main(void)
{
    struct sn_config c = layout_config(SN_LLAMA); /* 12 micro-batches */
    struct sn_machine m = exact_machine();        /* each kernel 2^-20 s */
    struct subject s;
    if (subject_init(&s, &c, &m)) {
        double free = step_of(&s, 0);
        tap_ok(step_of(&s, 0x1p-21) == free + 24 * 0x1p-21,
               "a fast host is late for the first kernel of each chunk alone");
        tap_ok(step_of(&s, 0x1p-19) == 2 * free + 24 * 0x1p-20,
               "a host half as fast as the device decides, but for the last kernel of each chunk");
    }
    subject_fini(&s);
    return tap_done();
}
