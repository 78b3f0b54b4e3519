/*
 * arrange_inner.h - between the files of arrange.h:
 *
 *   arrange.c       groups and transfers as lists; what an assignment costs
 *   arrange_box.c   the grid cut into boxes of as many ranks as a domain holds
 *   arrange_swap.c  nodes and ranks change places
 */
#ifndef SN_ARRANGE_INNER_H
#define SN_ARRANGE_INNER_H

#include "lib/mapping/arrange.h"

/* Ranks that exchange: member[first .. first + n - 1]. */
struct sn_arrange_group {
    const struct sn_flow_term *term;
    int first, n;
};

struct sn_arrange_edge {
    int from, to;
    int64_t bytes;
};

/* What the search moves about on; groups of all ranks are left out: they cost the same anywhere. */
struct sn_arrange_ground {
    const struct sn_flow *flow;
    const struct sn_tree *tree;
    int ranks;
    struct sn_arrange_group *group;
    struct sn_arrange_edge *edge;
    int *member;
    int n_groups, n_edges, n_members;
    /* room for counting: by domain */
    struct sn_arrange_sum {
        int64_t members, bytes;
    } * sum;
    int *touched;
    int64_t looks; /* members and edges looked at so far */
};

/* What border k costs for each byte. */
static inline double sn_arrange_weight(int k)
{
    double w = 1;
    while (k-- > 0)
        w *= SN_ARRANGE_STEEP;
    return w;
}

/* Bytes of one group, or of one edge, that cross each border, added to crossing[]; their weighted
 * sum. */
double sn_arrange_group_cost(struct sn_arrange_ground *g, int group, const int *process_of,
                             int64_t crossing[SN_TREE_LEVELS]);
double sn_arrange_edge_cost(struct sn_arrange_ground *g, int edge, const int *process_of,
                            int64_t crossing[SN_TREE_LEVELS]);
/* All of them. */
double sn_arrange_ground_cost(struct sn_arrange_ground *g, const int *process_of);

/* The best assignment by boxes. `room` is [ranks]. */
void sn_arrange_by_boxes(struct sn_arrange_ground *g, int *process_of, int *room);

/* Improve an assignment of this cost; returns the new one. */
enum sn_status sn_arrange_swap(struct sn_arrange_ground *g, int *process_of, double *cost,
                               struct sn_err *err);

#endif
