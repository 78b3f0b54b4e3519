/* A checkpoint that holds weights and no optimizer's state: good to begin with, not to resume. */
#include "tests/lib/checkpoint_test.h"

int main(void)
{
    enum { WEIGHTS = 3 }; /* of the N tensors of the test's state, the first */
    struct bench b;
    sn_log_set_level(SN_LOG_ERROR);
    setup(&b, 0);
    b.state.n_tensors = b.state.n_all = WEIGHTS;
    set_state(&b.state, 5);
    tap_ok(save_as_is(&b) == SN_OK && newest(&b) == 5, "weights alone are a checkpoint");
    b.state.n_tensors = b.state.n_all = N;
    tap_ok(b.saver.load(b.saver.self, 5, &b.state, &b.err) == SN_EINPUT, "no run resumes from it");
    char want[512], step[160];
    (void)snprintf(step, sizeof(step), "%s/step-00000005", b.dir);
    (void)snprintf(want, sizeof(want),
                   "%s: holds weights alone, and no run goes on without the optimizer's state; use "
                   "another checkpoint.dir, and train.init_from: %s to begin with these weights",
                   step, step);
    tap_text(b.err.text, want, "and the way to use it is named");
    b.state.n_all = b.state.n_tensors = WEIGHTS;
    tap_ok(b.saver.load(b.saver.self, 5, &b.state, &b.err) == SN_OK,
           "a run that trains nothing takes it");
    b.state.n_tensors = N;
    teardown(&b);
    return tap_done();
}
