/*
 * search_heap.h - layouts by their bounds, least first. Internal to the search.
 */
#ifndef SN_SEARCH_HEAP_H
#define SN_SEARCH_HEAP_H

#include "lib/base/err.h"
#include "lib/config/config.h"

#include <stdbool.h>
#include <stdint.h>

/* What taking a node up does: bounds a group whose floor is known, bounds each layout of the group, plays the orders of
 * one, compiles it. */
enum { SN_BRANCH_FLOOR, SN_BRANCH_GROUP, SN_BRANCH_ORDERS, SN_BRANCH_EXACT };

struct sn_branch {
    double bound;
    int64_t variant;
    int level, order;
    int64_t memory; /* of a rank, at least, the library included; where it is bounded */
};

struct sn_heap {
    struct sn_branch *node;
    int64_t n;
    int cap;
};

enum sn_status sn_heap_push(struct sn_heap *h, const struct sn_branch *n, struct sn_err *err);
bool sn_heap_pop(struct sn_branch *out, struct sn_heap *h); /* false: empty */
void sn_heap_fini(struct sn_heap *h);

/* No layout is valid: the first rule that fails for the run file's own layout, or for every number
 * of copies; with the numbers of ranks next to `ranks` that work. Always SN_EINPUT. */
enum sn_status sn_search_refuse(const struct sn_config *c, int ranks, struct sn_err *err);

#endif
