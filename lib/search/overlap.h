/*
 * overlap.h - what layout.overlap: auto weighs operations by, from the machine's prices.
 */
#ifndef SN_OVERLAP_H
#define SN_OVERLAP_H

#include "lib/base/err.h"
#include "lib/config/config.h"
#include "lib/machine/machine.h"
#include "lib/machine/software.h"

/* For a resolved layout; zero where nothing asks for it. */
enum sn_status sn_overlap_rates_of(struct sn_overlap_rates *out, const struct sn_config *c,
                                   const struct sn_machine *m, const struct sn_software *s,
                                   struct sn_err *err);
/* Into c->overlap_rates, by the machine that the run file names; zero where it names none. */
enum sn_status sn_overlap_resolve(struct sn_config *c, struct sn_err *err);

#endif
