/*
 * plan_pictures.h - sennit-plan --svg, --trace and --timeline: the step played once more, recorded.
 */
#ifndef SN_BIN_PLAN_PICTURES_H
#define SN_BIN_PLAN_PICTURES_H

#include "lib/cost/price.h"
#include "lib/sim/plan.h"

struct sn_pictures {
    const char *svg, *trace; /* files; NULL: not asked for */
    bool timeline;           /* on stdout, as wide as the terminal, else 100 columns */
};

/* `limit`: bytes that a rank may have. Does nothing where nothing is asked for. SN_EIO: "--svg
 * FILE: why it cannot be written". */
enum sn_status sn_plan_pictures(const struct sn_pictures *want, const struct sn_plan *plan,
                                const struct sn_stages *s, const struct sn_pricer *p, int64_t limit,
                                struct sn_err *err);

#endif
