/*
 * fit_cache.h - how many units of a stage may keep their gathered weights: layout.zero_cache: auto.
 *
 * Each unit that keeps its weights saves messages and costs memory alone (lib/layout/zero_cache.h), so
 * as many as fit are taken. (Of the first micro-batch, whose gathers then stand closer together, others'
 * messages may wait longer: at most 0.3 % of a step in tests/unit/search/test_search.c.) Memory rises with their number, but for temporaries, whose packing
 * may give a little back; so the number is found by halving, and what it needs is compiled.
 */
#ifndef SN_FIT_CACHE_H
#define SN_FIT_CACHE_H

#include "lib/config/config.h"

/* Does a layout with n > 0 of them fit? */
typedef enum sn_status sn_cache_fits(void *arg, int n, bool *good, struct sn_err *err);

/* The most of 0..most that fit: `most` is tried first, then halves; 0 is not asked for. */
enum sn_status sn_cache_most(int *n, int most, sn_cache_fits *fits, void *arg, struct sn_err *err);

/* Put the answer into c->layout.zero_cache of a resolved layout where it says auto: as many as the
 * named machine's memory leaves room for, which every rank finds alike; without one none. */
enum sn_status sn_cache_resolve(struct sn_config *c, struct sn_err *err);

#endif
