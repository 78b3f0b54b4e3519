/*
 * fit_links.h - latency and rate of a level of links from collectives that were measured on it.
 */
#ifndef SN_FIT_LINKS_H
#define SN_FIT_LINKS_H

#include "lib/machine/machine.h"

/* Set latency, device and half_bytes so that the formula (price.h) comes nearest to what is in
 * `measured`, in the logarithm. */
void sn_fit_level(struct sn_level *level);

#endif
