/*
 * lanes.h - what ranks send each other, lane by lane: those of a lane one after another, lanes side by
 * side, over links that they share.
 *
 * A lane is the queue of an axis (sn_group_queue), or the rings. What is under way keeps links of a
 * level busy for a share u of its time, with w messages at once (sn_price_uses). Where lanes together ask
 * for more than a link has, its messages have equal parts of it, and none more than it asks for (max-min
 * fairness: Bertsekas and Gallager, Data Networks, 6.5.2; TCP's connections and InfiniBand's queue pairs
 * are served in turns):
 *
 *   part of one = min(u, w x f), with f such that the parts of all that are under way sum to 1
 *   seconds of one = those alone x max over its levels of u / part
 *
 * So no link carries more than it can, a short message beside an all-gather that has many under way has
 * little of the link, and what asks for little goes on as if alone. Time only goes forward: posts come in
 * the order of their times. Knows no program and no machine.
 */
#ifndef SN_LANES_H
#define SN_LANES_H

#include <stdbool.h>
#include <stdint.h>

enum { SN_LINK_LEVELS = 5, SN_LINK_LANES = 8, SN_LINK_RINGS = SN_LINK_LANES - 1 };

struct sn_link_use {
    float of[SN_LINK_LEVELS]; /* shares of links of each level, 0 .. 1 */
    float messages;           /* of a sender under way at once; 0: none, all of `of` are 0 */
};

/* What is posted. */
struct sn_link_post {
    int64_t id;     /* the caller's */
    double seconds; /* alone */
    struct sn_link_use use;
};

struct sn_lane_post {
    struct sn_link_post what;
    int next;                      /* of its lane, or of the free ones; -1 */
    double begin;                  /* when it came to its turn */
    double since, left, slow, end; /* since then so slow, with so many seconds left alone */
};

/* Something has ended. */
typedef void sn_lanes_ended(void *arg, int64_t id, double begin, double end);

/* Zeroed memory with `ended` and `arg` is a set of empty lanes at time 0. */
struct sn_lanes {
    sn_lanes_ended *ended;
    void *arg;
    double at; /* until then all is played */
    struct sn_lane_post *post;
    int n, cap, free; /* places taken; of those the first free one + 1, or 0 */
    int first[SN_LINK_LANES], last[SN_LINK_LANES]; /* + 1; 0: the lane is empty */
    double ended_at[SN_LINK_LANES];                /* when the last of a lane has */
    int busy;                                      /* lanes that are not empty */
};

void sn_lanes_fini(struct sn_lanes *l);
/* Empty, at time 0, with the memory that they have. */
void sn_lanes_clear(struct sn_lanes *l);
/* Post at time `now`, or when all is played that has been played. False: no memory. */
bool sn_lanes_post(struct sn_lanes *l, int lane, double now, const struct sn_link_post *p);
/* Play until time t, or until nothing is under way. */
void sn_lanes_until(struct sn_lanes *l, double t);
/* Play until something ends; false: nothing is under way. */
bool sn_lanes_next(struct sn_lanes *l);
/* *to, which is empty, becomes what `from` is, all of it `later` seconds later. False: no memory. */
bool sn_lanes_copy(struct sn_lanes *to, const struct sn_lanes *from, double later);
static inline bool sn_lanes_has(const struct sn_lanes *l, int lane)
{
    return l->first[lane] != 0;
}

#endif
