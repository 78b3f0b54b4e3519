/* test_ramp.c - which samples the steps of a ramp take. */
#include "lib/config/batch.h"
#include "tests/lib/tap.h"

static void a_ramp_cuts_the_same_order(void)
{
    struct sn_train_config t = {.steps = 20, .global_batch = 12};
    t.ramp.n_batches = 2;
    t.ramp.batches[0] = 2;
    t.ramp.batches[1] = 6;
    t.ramp.ends[0] = 3;
    t.ramp.ends[1] = 8;
    int64_t number = 0;
    bool follow = true;
    for (int64_t step = 1; step <= 20; step++) {
        int want = step <= 3 ? 2 : step <= 8 ? 6 : 12;
        follow = follow && sn_samples_before(&t, step) == number && sn_batch_of(&t, step) == want;
        number += want;
    }
    tap_ok(follow, "each step begins behind the samples of those before it");
    int64_t first, last;
    tap_ok(sn_batch_sizes(&t) == 3 && sn_batch_size(&t, 1, &first, &last) == 6 && first == 4 &&
               last == 8 && sn_batch_size(&t, 2, &first, &last) == 12 && first == 9 && last == 20,
           "the sizes and their steps");
    tap_ok(sn_batch_divisor(&t) == 2 && sn_batch_misfit(&t, 4) == 2 && sn_batch_misfit(&t, 2) == 0,
           "what a layout must divide");
    t.steps = 5;
    tap_ok(sn_batch_size(&t, 1, &first, &last) == 6 && last == 5 &&
               sn_batch_size(&t, 2, &first, &last) == 12 && first > last,
           "a run that ends in the ramp");
}

int main(void)
{
    a_ramp_cuts_the_same_order();
    return tap_done();
}
