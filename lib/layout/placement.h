/*
 * edge.h - in which form a tensor lies over the ranks of an axis, and what takes it to another.
 *
 * A lowering says in which form an operation needs its input and in which form its output comes;
 * the move between the two follows, forward and backward, from one table. Collectives of the model
 * have no other source.
 */
#ifndef SN_EDGE_H
#define SN_EDGE_H

enum sn_form {
    SN_SAME,    /* all ranks hold it and use it alike;          its gradient is SAME */
    SN_SHARED,  /* all ranks hold it, each uses it its own way; its gradient is PARTIAL */
    SN_SPLIT,   /* each rank holds one slice;                   its gradient is SPLIT */
    SN_PARTIAL, /* the value is the sum over ranks;             its gradient is SHARED */
    SN_NFORMS
};

enum sn_dim { SN_ROWS, SN_COLS }; /* what SPLIT cuts: tokens or features */

enum sn_move {
    SN_KEEP,
    SN_SLICE,
    SN_MOVE_ALL_GATHER,
    SN_MOVE_ALL_REDUCE,
    SN_MOVE_REDUCE_SCATTER,
    SN_MOVE_ALL_TO_ALL,
    SN_NEVER /* no such edge makes sense: a mistake in a lowering */
};

struct sn_layout_form {
    enum sn_form form;
    enum sn_dim dim; /* of SPLIT; SN_ROWS otherwise */
};

/* What turns `have` into `want`. SPLIT along one dimension into SPLIT along the other is an
 * all-to-all. */
enum sn_move sn_edge_forward(struct sn_layout_form have, struct sn_layout_form want);
/* What turns the gradient of `want` into the gradient of `have`: the same table, walked the other
 * way in the forms of gradients. */
enum sn_move sn_edge_backward(struct sn_layout_form have, struct sn_layout_form want);

#endif
