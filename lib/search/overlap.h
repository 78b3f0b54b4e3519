/*
 * overlap.h - what layout.overlap: auto weighs operations by, from the machine's prices.
 */
#ifndef SN_OVERLAP_H
#define SN_OVERLAP_H

#include "lib/base/err.h"
#include "lib/config/config.h"

/* Fill c->overlap_rates for a resolved layout where a machine is named; zero where none is, or
 * nothing asks for it. */
enum sn_status sn_overlap_resolve(struct sn_config *c, struct sn_err *err);

#endif
