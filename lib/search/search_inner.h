/*
 * search_inner.h - what the files of the search share.
 */
#ifndef SN_SEARCH_INNER_H
#define SN_SEARCH_INNER_H

#include "lib/search/estimate.h"
#include "lib/search/search.h"
#include "lib/search/search_heap.h"
#include "lib/search/variants.h"

/* What is known of a grid. */
struct family {
    const struct sn_variant *like; /* one that has it */
    struct sn_found best;          /* plan.step_time 0: nothing compiled fits yet */
    int64_t members;               /* that may fit */
};

/* Layouts one after another in the list that differ in recomputation and ZeRO alone. */
struct group {
    int64_t first, n;
    double bound;          /* of them all */
    bool is_floor;         /* it is SN_ESTIMATE_FLOOR's */
    bool is_open, is_over; /* each of them is bounded; what all of them keep is over the limit */
};

/* How many units keep their gathered weights in a layout without its order of axes, within a limit. */
struct room {
    struct sn_layout_config layout;
    int64_t limit;
    int fit;
};
enum { SN_SEARCH_ROOMS = 16 };

struct search {
    const struct sn_search_want *w;
    struct sn_search *out;
    struct sn_config *config; /* with the layout at hand */
    struct sn_model *model;
    struct sn_estimator *estimator;
    struct sn_variants all;
    struct sn_heap heap;
    struct sn_heap bounded; /* all layouts that were in it, for a front */
    struct group *group;
    int groups, cap_groups;
    int64_t limit;          /* that counts now, w->limit at first */
    struct family *family;
    int families, cap_families;
    struct room room[SN_SEARCH_ROOMS]; /* of what was compiled last */
    int rooms;
    const struct family *ranked; /* the grid of the layout that is compiled to be ranked; else NULL */
    double unknown; /* bytes of the last one that were not estimated */
    int top;    /* grids whose best are wanted */
    bool hides; /* what is compiled from now on has its operations in order (layout.overlap) */
    int n_near;
    struct sn_branch near[3]; /* bound: bytes */
};

static inline bool search_is_better(const struct family *f, const struct sn_plan *p)
{
    return f->best.plan.step_time == 0 || p->step_time < f->best.plan.step_time;
}
void search_layout_of(struct sn_layout_config *l, const struct search *s,
                      const struct sn_branch *n);
/* Bytes of a rank that are not estimated. */
int64_t search_library_of(const struct search *s);
/* Of variant i, within the limit that counts: seconds and bytes, at least. */
enum sn_status search_bound(struct sn_branch *out, struct search *s, int64_t i, struct sn_err *err);
/* Groups that nobody has opened go into the heap. */
enum sn_status search_push_groups(struct search *s, struct sn_err *err);
/* What those need that are over the limit. */
enum sn_status search_bound_over(struct search *s, struct sn_err *err);
/* Rates of the layout at hand, for the order of its operations. */
enum sn_status search_weigh(struct search *s, struct sn_err *err);
enum sn_status search_compile_as(struct search *s, struct sn_found *f, struct sn_err *err);
/* Keeping gathered weights of as many units as fit, where that is open. */
enum sn_status search_compile_cached(struct search *s, struct sn_found *f, struct sn_err *err);
/* And in as many hops as the price says. */
enum sn_status search_compile(struct search *s, struct sn_found *f, struct sn_err *err);
/* Take up what is in the heap until the best of `top` grids are proven. */
enum sn_status search_take_all(struct search *s, struct sn_err *err);
/* What comes of it. */
enum sn_status search_finish(struct search *s, struct sn_err *err);

#endif
