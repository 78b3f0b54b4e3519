/*
 * exchange.h - which rows of tokens go to the ranks that hold their experts, and come back.
 *
 * Members of a group share the experts out, as many to each, in order. Each member's rows are
 * sorted by expert, and so by owner. What arrives at an owner is a list: member 0's rows, by
 * expert, then member 1's ... Of this list a window of `capacity` rows is there at once: window r
 * in round r. All members know how many rows everybody has for every expert, and so the number of
 * rounds. Arithmetic only.
 *
 * Ranks that hold the same tokens (of a tensor group) may share a window: of its rows each takes an
 * equal share, the first the first ones, exchanges those alone and has the others' from them. A
 * share lies at the begin of a buffer of its own.
 *
 * A layer's rows may go in chunks, one after another: of the n rows that a member has for another
 * chunk c of C has n c / C .. n (c + 1) / C - 1, so that every message is divided alike, whatever
 * the routing. Each chunk is an exchange of its own, with lists and windows of its own.
 *
 * In two hops (HetuMoE, arXiv 2203.14685; MoESys, arXiv 2205.10034; DeepSpeed-MoE): of nodes that
 * hold `node` neighbours of the group each, member m is place m % node of node m / node. First rows
 * go inside the node to the member whose place their owner has, into its transit, which has them by
 * owner's node and then by sender; then along the rail of those members, one message to each node.
 * Windows get the same rows at the same places as in one hop. Way back: the same, mirrored.
 */
#ifndef SN_EXCHANGE_H
#define SN_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

enum sn_hop {
    SN_HOP_ALL,  /* from rows to windows, among all members */
    SN_HOP_NODE, /* from rows to transits, among the members of a node */
    SN_HOP_RAIL  /* from transits to windows, among those with the same place on each node */
};

struct sn_exchange {
    /* Of each member, where the rows of each of E = members / slices x experts experts begin, and
     * the end: members x (E + 1) numbers. NULL: all have `rows` rows, dealt evenly to all. */
    const int32_t *bounds;
    int64_t rows;
    int members, index; /* of the group; the own number in it */
    int experts;        /* of each member */
    int64_t capacity;   /* rows of a window */
    int round;          /* from 0 */
    bool back;          /* out of the window, to where the rows came from */
    int shares, share;  /* ranks that share a window, this one's number; 0 and 1: none */
    /* Each expert is cut into so many, on members one after the other (0 and 1: it is not); member
     * m has experts of m / slices. A row goes to all slices of its expert, and as many rows come
     * back: of slice s to the row s x `rows` further on. */
    int slices;
    int chunk, chunks; /* chunks 0 and 1: all rows at once */
    enum sn_hop hop;
    int node; /* members on a node, of NODE and RAIL */
};

struct sn_exchange_rows {
    int64_t at, n;
};

/* Of n rows those before chunk c of C. */
static inline int64_t sn_exchange_cut(int64_t n, int64_t c, int64_t chunks)
{
    return n * c / (chunks > 1 ? chunks : 1);
}
/* Rows that a chunk may have where all have so many, of `members` parts that are cut each. */
int64_t sn_exchange_chunk_most(int64_t rows, int members, int chunks);
/* Rounds until every list of every chunk has passed; at least 1, the same on all members. No chunk
 * takes more than all rows at once, when its windows are sn_exchange_chunk_most of theirs. */
int sn_exchange_rounds(const struct sn_exchange *x);
/* In this round: the own rows that are in the window (the share of it) of member m, */
struct sn_exchange_rows sn_exchange_own(const struct sn_exchange *x, int m);
/* and the rows of the own window (share) that are member m's. */
struct sn_exchange_rows sn_exchange_window(const struct sn_exchange *x, int m);
/* Members of this hop, and the own number among them. */
int sn_exchange_size(const struct sn_exchange *x);
int sn_exchange_place(const struct sn_exchange *x);
/* Rows that this member sends to others in this round, and in which direction. */
int64_t sn_exchange_sent(const struct sn_exchange *x);

/* What goes to one member of the hop, or what comes from it, in the direction of x->back: runs of
 * rows, in the same order at both ends, some of them empty. One, but between neighbours of a node
 * one for each node. */
struct sn_exchange_walk {
    int member;   /* of the hop */
    bool arrives; /* what comes from it; else what goes to it */
    int run;      /* the next one, and where it lies in a transit; 0 to begin with */
    int64_t at;
};
/* False when there are no more. */
bool sn_exchange_next(const struct sn_exchange *x, struct sn_exchange_walk *w,
                      struct sn_exchange_rows *out);
/* The same of a hop whose runs are one, or HOP_ALL. */
struct sn_exchange_rows sn_exchange_to(const struct sn_exchange *x, int m);
struct sn_exchange_rows sn_exchange_from(const struct sn_exchange *x, int m);
/* Rows that a transit may have to hold: what arrives on all nodes' windows,
 * or all rows of a node. */
int64_t sn_exchange_transit_most(const struct sn_exchange *x);
/* Rows in the own transit, in this round. */
int64_t sn_exchange_transit(const struct sn_exchange *x);
/* Which rows of the own window are share s. */
struct sn_exchange_rows sn_exchange_share(const struct sn_exchange *x, int s);
/* Rows that this rank sends to those it shares the window with: its share to all of them, or, back,
 * what it has of theirs. */
int64_t sn_exchange_sent_within(const struct sn_exchange *x);

#endif
