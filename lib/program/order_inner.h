/*
 * order_inner.h - a segment whose operations are put in order: what the files order*.c share.
 *
 *   order.c       which operations come before which; the order written into the text
 *   order_find.c  rates, the clock, memory, and the search for an order
 */
#ifndef SN_ORDER_INNER_H
#define SN_ORDER_INNER_H

#include "lib/program/build.h"
#include "lib/program/lanes.h"

/* Which micro-batch the clock plays: the mean of all, or one of a kind. What runs in the first or the last
 * one alone seems short in the mean, and stands there. */
enum sn_order_scene {
    SN_ORDER_MEAN,
    SN_ORDER_FIRST,
    SN_ORDER_LAST,
    SN_ORDER_BETWEEN,
    SN_ORDER_SCENES
};

struct sn_order_node {
    int first, n;   /* operations, in the order of the text: one, or a run of further rounds */
    enum sn_when when;
    double kernel, whole;    /* seconds of computing and of its message, where it runs; */
    double seconds, message; /* and in this scene: of computing, and of what it posts when its stream is
                                free and nobody else uses its links */
    struct sn_link_use use; /* of those */
    int stream;     /* of that; COMPUTE: it posts nothing that meets other ranks */
    int posted;     /* of a WAIT: the node that it waits for; -1: elsewhere, or none */
    bool is_wait;
    bool gathers_weights;
    int needs;    /* nodes that have to come before it */
    int n_before; /* of those, that have not yet */
    int edges;    /* the first of those to nodes that come after it; -1 */
    int touches, n_touches; /* local buffers in `touched` */
    double tail;  /* seconds of the longest way from its begin to the segment's end */
    double rank;  /* by which it is chosen: its tail, or not far from it */
    double done;  /* when what it posted is, if nothing else is posted */
    bool is_placed;
};

struct sn_order_edge {
    int to, next;
    bool lengthens; /* the way to the end: not where two sums only share a gradient's buffer */
};

/* A part of a buffer in this segment; buffers that are aliases of each other are one. */
struct sn_order_part {
    int writer;  /* node that wrote it last; -1 */
    int readers; /* edges to nodes that have read it since; -1 */
};
struct sn_order_use { /* of a buffer */
    int64_t bytes;
    int left;         /* operands of nodes that have not been placed */
    bool is_live, is_local; /* local: a temporary that no other segment touches */
};

struct sn_order_clock {
    double now;
    int64_t live, peak; /* bytes of temporaries */
    int reach;          /* the node behind the last of the text that is placed and posts nothing */
};

struct sn_order_rule {
    double patience; /* seconds that are waited for, over those of what would be computed instead */
    bool posts_late; /* what posts does not come first */
    bool fills;      /* a wait is filled by what fits it, else by what has the longest way */
    enum sn_order_scene scene;
    bool in_time;    /* weights are gathered no earlier than in the text: links are for others till then */
};

struct sn_ordering {
    const struct sn_job *job;
    struct sn_program *p;
    const struct sn_segment *segment;
    struct sn_order_node *node;
    struct sn_order_edge *edge;
    struct sn_order_use *use; /* by buffer */
    struct sn_order_part *part; /* of a buffer `parts`, of as many elements each */
    int parts;                  /* layout.tensor_pieces */
    int *touched, n_touched;  /* local buffers, node after node, each as often as operands show it */
    int *alias;               /* by buffer: the one that stands for it */
    int *home;                /* by buffer: the segment that touches it; -1 none, -2 several */
    int *ready, n_ready;      /* nodes that may come next, in the order of the text */
    int *found;               /* nodes, as this try has them */
    int *best;                /* and as the best has */
    struct sn_order_rule rule;
    int n, n_edges, cap_edges;
    bool has_scenes; /* micro-batches differ */
    int64_t limit; /* bytes of temporaries */
    struct sn_order_clock clock;
    struct sn_lanes links, ahead; /* what is under way now, and how that will go on */
    bool failed;
};

/* Of a message (sn_order_message), what it takes of the links that it crosses. */
struct sn_link_use sn_order_use(const struct sn_job *j, const struct sn_program *p,
                                const struct sn_op *op);
/* As the text has them: plays it, and lets other orders take SLACK more than it does. Seconds. */
double sn_order_play_text(struct sn_ordering *o);
/* Set what nodes take in this scene. */
void sn_order_set_scene(struct sn_ordering *o, enum sn_order_scene scene);
/* The best order that is found, in o->best. Seconds. */
double sn_order_find(struct sn_ordering *o);

#endif
