/*
 * chunks.h - in how many chunks tokens go to their experts' ranks and come back, by price.
 *
 * In C chunks the messages of one go while the experts compute another (lib/program/
 * lower_experts.c; MoNTA, arXiv 2411.00662, does so with the gather over tensor ranks). Of an
 * exchange that takes x seconds each way and products of c seconds, a layer's forward part takes
 *
 *   all at once   2 x + c
 *   in chunks     2 x / C + max(2 x, c + ...)    where products or messages are the longer part
 *
 * but a chunk's products are shorter ones and each of its messages is another one, so that more
 * chunks cost latency and the efficiency of products. How it comes out depends on all of a layer's
 * text (recomputation, shares, hops), so that text is compiled for each C, of a model of one layer
 * of each kind on one stage, and its step is played with a clock (sim.h). All layers with experts
 * are alike and have one answer.
 */
#ifndef SN_CHUNKS_H
#define SN_CHUNKS_H

#include "lib/cost/price.h"

struct sn_chunks {
    int n;                              /* the cheapest; 1: all at once */
    double seconds[SN_CHUNKS_MOST + 1]; /* of such a step with so many; 0: not tried */
};

/* For a resolved layout, whose hops are settled and whose grid is `g`: the number that it names, or
 * the best of 1, 2, 4 and 8. */
enum sn_status sn_chunks_choose(struct sn_chunks *out, const struct sn_config *c,
                                const struct sn_grid *g, const struct sn_machine *m,
                                const struct sn_software *s, struct sn_err *err);
/* Put the answers into c->layout.expert_tokens and .drop_duplicates (tokens.h), .expert_node
 * (hops.h) and .expert_chunks where they say auto; without a named machine tokens are gathered, and
 * go all at once in one hop. */
enum sn_status sn_chunks_resolve(struct sn_config *c, struct sn_err *err);

#endif
