/*
 * fit_cache.h - how many units of a stage may keep their gathered weights: layout.zero_cache: auto.
 *
 * Each unit that keeps its weights saves messages and costs memory alone (lib/layout/zero_cache.h), so
 * as many as fit are taken. (Of the first micro-batch, whose gathers then stand closer together, others'
 * messages may wait longer: at most 0.3 % of a step in tests/unit/search/test_search.c.) Memory rises with their number, mostly by as
 * much for each, but for temporaries, whose packing may give a little back; so the number is looked for
 * where a line through what was compiled meets the limit.
 */
#ifndef SN_FIT_CACHE_H
#define SN_FIT_CACHE_H

#include "lib/config/config.h"

/* By how many bytes a layout with n > 0 of them is over the limit; it fits with 0 or less. */
typedef enum sn_status sn_cache_over(void *arg, int n, int64_t *over, struct sn_err *err);

/* 0..most of them; the nearer `first`, which is tried first, is to the answer the fewer are tried. `each`:
 * bytes that one more takes, about: then it is enough that one more would be over by a quarter of that, as
 * a line says. 0: not known, one more was tried. */
struct sn_cache_guess {
    int most, first;
    double each;
};
/* The most that fit; 0 of them are not asked for. */
enum sn_status sn_cache_most(int *n, const struct sn_cache_guess *g, sn_cache_over *over, void *arg,
                             struct sn_err *err);

/* Put the answer into c->layout.zero_cache of a resolved layout where it says auto: as many as the
 * named machine's memory leaves room for, which every rank finds alike; without one none. */
enum sn_status sn_cache_resolve(struct sn_config *c, struct sn_err *err);

#endif
