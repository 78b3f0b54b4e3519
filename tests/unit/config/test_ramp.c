/* test_ramp.c - which samples the steps of a ramp take, and into which pieces a curriculum cuts them. */
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

static void a_curriculum_has_a_length_for_each_step(void)
{
    static struct sn_config c = {.model.seq = 16, .train.steps = 20};
    c.data.curriculum.n_lengths = c.data.curriculum.n_until = 2;
    c.data.curriculum.lengths[0] = 5;
    c.data.curriculum.lengths[1] = 8;
    c.data.curriculum.until[0] = 3;
    c.data.curriculum.until[1] = 30;
    int64_t first, last;
    tap_ok(sn_length_of(&c, 1) == 5 && sn_length_of(&c, 3) == 5 && sn_length_of(&c, 4) == 8 &&
               sn_length_of(&c, 30) == 8 && sn_length_of(&c, 31) == 16,
           "each step has the length of its stage");
    tap_ok(sn_lengths(&c) == 3 && sn_length(&c, 1, &first, &last) == 8 && first == 4 &&
               last == 20 && sn_length(&c, 2, &first, &last) == 16 && first > last,
           "the lengths and their steps, of a run that ends before the last");
}

int main(void)
{
    a_ramp_cuts_the_same_order();
    a_curriculum_has_a_length_for_each_step();
    return tap_done();
}
