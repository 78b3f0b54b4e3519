/*
 * losses.h - what OUTPUT/metrics.jsonl says that the steps of a run gave.
 */
#ifndef SN_REPLAY_LOSSES_H
#define SN_REPLAY_LOSSES_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct sn_step_loss {
    double loss, grad_norm; /* as they were written, with 9 digits; NaN: no number */
    bool is_there;
};

/* Of steps first .. last, into out[0 ..]. SN_EINPUT: the file cannot be read. */
enum sn_status sn_replay_losses(struct sn_step_loss *out, const char *output, int64_t first,
                                int64_t last, struct sn_err *err);
/* Would x be written as this? */
bool sn_replay_is_written(double x, double written);

#endif
