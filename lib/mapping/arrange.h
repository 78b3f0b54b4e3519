/*
 * arrange.h - which process computes which rank, so that little crosses slow links.
 *
 * The processes of a job lie in a tree: in nodes, nodes under leaf switches, those under further
 * ones. A byte between two ranks crosses the border of every domain that holds only one of them.
 * Slurm's order is the identity: rank r is process r. Another one is taken where
 *
 *   sum over borders of weight x bytes that cross it,   weight 1 at nodes, 4 at leaves, 16 ...
 *
 * is smaller, and no more bytes cross the outermost border. A strict order of levels would be no
 * good: it would pull a tensor group of a node apart to spare the spine one small message.
 *
 * How: the grid is cut into boxes of as many ranks as a domain holds, from the outermost level to
 * the node (all ways of dividing the axes, the best few go on); then nodes and ranks change places
 * while that helps, within a fixed number of looks. No clock and no chance is in it: the same input
 * gives the same arrangement everywhere. 16,384 ranks take some 0.3 s (tests/unit/mapping/test_arrange.c
 * compares small cases with all permutations).
 */
#ifndef SN_ARRANGE_H
#define SN_ARRANGE_H

#include "lib/mapping/flow.h"

enum { SN_TREE_LEVELS = 8, SN_ARRANGE_STEEP = 4 };

/* Where processes are. Level 0: nodes; each further level joins domains of the one before. Levels
 * of one domain are left out: they have no border. */
struct sn_tree {
    int n;                                /* processes */
    int levels;                           /* borders */
    const int *domain[SN_TREE_LEVELS];    /* by process: 0 .. domains - 1, by first appearance */
    int domains[SN_TREE_LEVELS];          /* how many */
    const char *name[SN_TREE_LEVELS + 1]; /* of level i: where two processes meet that are in
                                             different domains of i - 1: "node", "leaf", "spine" */
};

struct sn_arrangement {
    int levels;                           /* of bytes: one more than borders */
    int64_t in_order[SN_TREE_LEVELS + 1]; /* bytes of a step that meet at each level, rank r being
                                             process r, */
    int64_t arranged[SN_TREE_LEVELS + 1]; /* and as arranged */
    int is_identity;
};

/* process_of[rank]; `wanted` false: count alone, process_of is the identity. */
enum sn_status sn_arrange(int *process_of, struct sn_arrangement *out, const struct sn_flow *f,
                          const struct sn_tree *t, int wanted, struct sn_err *err);

/* Bytes by level of any assignment. */
enum sn_status sn_arrange_count(int64_t bytes[SN_TREE_LEVELS + 1], const struct sn_flow *f,
                                const struct sn_tree *t, const int *process_of, struct sn_err *err);

/* The weighted sum. */
double sn_arrange_cost(const int64_t *bytes, int levels);

#endif
