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
 */
#ifndef SN_EXCHANGE_H
#define SN_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

struct sn_exchange {
    /* Of each member, where the rows of each expert begin, and the end: members x (members x
     * experts
     * + 1) numbers. NULL: all members have `rows` rows, dealt evenly to all experts. */
    const int32_t *bounds;
    int64_t rows;
    int members, index; /* of the group; the own number in it */
    int experts;        /* of each member */
    int64_t capacity;   /* rows of a window */
    int round;          /* from 0 */
    bool back;          /* out of the window, to where the rows came from */
    int shares, share;  /* ranks that share a window, this one's number; 0 and 1: none */
};

struct sn_exchange_rows {
    int64_t at, n;
};

/* Rounds until every list has passed; at least 1, the same on all members. */
int sn_exchange_rounds(const struct sn_exchange *x);
/* In this round: the own rows that are in the window (the share of it) of member m, */
struct sn_exchange_rows sn_exchange_own(const struct sn_exchange *x, int m);
/* and the rows of the own window (share) that are member m's. */
struct sn_exchange_rows sn_exchange_window(const struct sn_exchange *x, int m);
/* Rows that this member sends to others in this round, and in which direction. */
int64_t sn_exchange_sent(const struct sn_exchange *x);
/* What goes to member m, and what comes from it, in the direction of x->back. */
struct sn_exchange_rows sn_exchange_to(const struct sn_exchange *x, int m);
struct sn_exchange_rows sn_exchange_from(const struct sn_exchange *x, int m);
/* Which rows of the own window are share s. */
struct sn_exchange_rows sn_exchange_share(const struct sn_exchange *x, int s);
/* Rows that this rank sends to those it shares the window with: its share to all of them, or, back,
 * what it has of theirs. */
int64_t sn_exchange_sent_within(const struct sn_exchange *x);

#endif
