/*
 * hops.h - whether tokens go to their experts' ranks in one hop or in two, by price.
 *
 * In one, each of the P ranks of an expert group sends to every other. In two
 * (lib/layout/exchange.h) the L of them on a node exchange first, and then each with those of its
 * place on the N = P / L nodes. Of e elements that a rank sends in all:
 *
 *   one hop    all-to-all over P, blocks of e / P
 *   two hops   all-to-all over L, blocks of e / L, of N messages each, and over N, blocks of e / N
 *
 * Bytes between nodes are the same, (N - 1) / N of e; inside they are (L - 1) / L of e instead of
 * (L - 1) / P; messages between nodes N - 1 instead of P - L. All layers with experts have the same
 * e and the same groups, and so one answer.
 */
#ifndef SN_HOPS_H
#define SN_HOPS_H

#include "lib/cost/price.h"

struct sn_hops {
    int node;        /* ranks of a group on a node, where it pays; 1: one hop */
    int even;        /* how many there are on every node; 0: not as many, or no use */
    double one, two; /* seconds of an exchange; two: 0 where there are none */
    char why[160];   /* where a group lies: a sentence */
};

/* For a resolved layout, whose grid is `g`; layout.expert_node stands where it is named. */
void sn_hops_choose(struct sn_hops *out, const struct sn_config *c, const struct sn_grid *g,
                    const struct sn_machine *m, const struct sn_software *s);
/* Put the answer into c->layout.expert_node where that says auto; without a named machine there is
 * one node. */
enum sn_status sn_hops_resolve(struct sn_config *c, struct sn_err *err);
/* Ranks of an expert group on each node of the machine, where every group has as many on every one
 * of several nodes; else 0. why, of `room` bytes, may be NULL. */
int sn_hops_even(const struct sn_machine *m, const struct sn_grid *g, char *why, size_t room);
/* Seconds of an exchange of e elements; g->expert_node says how. */
double sn_hops_price(struct sn_pricer *p, const struct sn_grid *g, int64_t e, enum sn_dtype dtype);

#endif
