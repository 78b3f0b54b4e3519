/*
 * build.h - how lowerings and passes write program text. Internal to lib/program.
 *
 * Builders do not report failure one by one: an allocation that fails sets program.failed, further
 * calls do nothing harmful, and the compiler asks once at the end.
 */
#ifndef SN_BUILD_H
#define SN_BUILD_H

#include "lib/layout/cut.h"
#include "lib/program/opinfo.h"
#include "lib/program/program.h"

/* --- text (build.c) -------------------------------------------------------------------------- */

/* A new buffer; returns its index (0 when the program has failed). */
int sn_buffer_add(struct sn_program *p, enum sn_class cls, enum sn_dtype dtype, int64_t rows,
                  int64_t cols, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* A new temporary in the shape, type and gradient need of another. */
int sn_buffer_like(struct sn_program *p, int buf, const char *prefix);
/* An operation of the given kind with every operand absent and no label. */
struct sn_op sn_op_blank(int kind);
/* A new operation of the given kind with every operand absent. The pointer is valid until the next
 * call. Never NULL (a spare one is returned when the program has failed). */
struct sn_op *sn_op_add(struct sn_program *p, int kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Append a copy of `want`, with an id of its own; returns the id. */
int sn_op_append(struct sn_program *p, const struct sn_op *want);
/* The same with the id that it has. */
void sn_op_put(struct sn_program *p, const struct sn_op *op);
/* The operation with this id; valid until the next one is added. */
const struct sn_op *sn_op_find(const struct sn_program *p, int id);
/* Open a segment at the current end; it runs to the next one's begin. */
void sn_segment_begin(struct sn_program *p, enum sn_segment_kind kind);
void sn_segments_close(struct sn_program *p); /* after the last operation */
/* Takes out the operations that `gone` marks, by operation: the others close up, segments and ids
 * follow. What was taken out is not found by its id any more. */
void sn_ops_drop(struct sn_program *p, const bool *gone);
/* The segment of this kind and scope; -1 for none. */
int sn_segment_find(const struct sn_program *p, enum sn_segment_kind kind, struct sn_scope scope);
/* An entry of the schedule in the segments' runs. */
void sn_runs_count(struct sn_program *p, const struct sn_sched *s);
void sn_sched_add(struct sn_program *p, int segment, int micro, int slot);
/* A piece of a segment. */
struct sn_piece {
    int segment, first, n; /* operations */
};
void sn_sched_add_piece(struct sn_program *p, const struct sn_piece *x, int micro, int slot);

extern const struct sn_view sn_no_view;
struct sn_view sn_view_all(const struct sn_program *p, int buf);
/* Is it all of its buffer, at a fixed place? false for no buffer. */
bool sn_view_is_all(const struct sn_program *p, const struct sn_view *v);
struct sn_view sn_view_rows(const struct sn_program *p, int buf, int64_t row, int64_t rows);
struct sn_view sn_view_cols(const struct sn_program *p, int buf, int64_t col, int64_t cols);
/* A buffer as one row of all its elements. */
struct sn_view sn_view_flat(const struct sn_program *p, int buf);

/* --- communication (build.c) ------------------------------------------------------------------ */

/* An operation of communication with nothing in it but kind, group and label. */
struct sn_op sn_comm_op(int kind, enum sn_group group, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Wait for a posted operation. Its operands live until here. */
void sn_wait_add(struct sn_program *p, int id);
/* Post and wait. */
void sn_comm_run(struct sn_program *p, const struct sn_op *op);
/* Post a step of the context ring: buffer `from` to the next rank, `to` from the previous one. */
int sn_shift_post(struct sn_program *p, int from, int to, const char *label);

/* --- the text under construction, beside the program itself ----------------------------------- */

struct sn_value_place {
    int buf; /* -1: not computed here (yet) */
    struct sn_placement have;
    int used; /* the same as ranks use it, each in its own way, once somebody has asked; -1 */
    struct sn_placement used_as;
};

/* What a router has decided, for the experts that follow: buffers. */
struct sn_routes {
    int w, place, bounds;
    int all; /* bounds of all members of the expert group; -1: the experts are all here */
};

/* Backward of a layer whose tokens are exchanged in chunks: what is posted and still to be waited
 * for, and weight gradients that are due when the next message has been posted. */
enum { SN_UNDER_WAY_MOST = 4 * SN_CHUNKS_MOST };
struct sn_under_way {
    int of[SN_UNDER_WAY_MOST], id[SN_UNDER_WAY_MOST], n; /* forward operation, its gradient's */
    int again[SN_CHUNKS_MOST], again_id[SN_CHUNKS_MOST], n_again; /* buffers that are filled once
                            more, and by which operation */
    struct sn_op due[2];                                          /* products of the forward pass */
    int n_due;
    bool rounds; /* further rounds are to follow */
    int blocks;  /* gradients that have come back from slices of experts, to be summed, plus one */
};

enum { SN_GATHER_TO_COME = -2 }; /* in a later segment than the text has yet */

enum { SN_MAX_POSTED = 2 }; /* gradient reductions of temporaries in flight */

/* A bucket whose gradients travel as factors, while they do (lower_powersgd.c). */
struct sn_factored {
    bool is_open;
    int bucket;
    int left;   /* buffer of the left factors */
    int posted; /* the all-reduce to wait for next */
};

struct sn_emit {
    struct sn_job *job;
    struct sn_program *p;
    bool train;    /* gradients are wanted */
    bool generate; /* the head gives the logits of one row */
    bool row;      /* and that row is all there is: generate_row */
    struct sn_value_place *value;
    int input, output;     /* values that cross the current stage module's boundaries; -1 */
    struct sn_view *gview; /* buffer -> its gradient so far (buf -1: none); sized by cap_bufs */
    int *origin;           /* buffer -> what it was computed again for (itself) */
    int *again;            /* buffer -> its recomputed copy in this unit; -1 */
    int cap_bufs;
    int *copied, n_copied;    /* buffers that have such a copy now */
    bool *grad_written;       /* shard -> its gradient was written in this micro-batch */
    int *uses_left;           /* shard -> gradient contributions still to come */
    int *bucket_left;         /* bucket -> shards that are not finished */
    int *bucket_weight;       /* bucket -> buffer of the whole weights now; -1: not gathered */
    int *bucket_gather;       /* bucket -> id of the gather to wait for; -1: none, or SN_GATHER_TO_COME
                                 of what is cached */
    int *bucket_grad;         /* bucket -> where gradients are summed now; -1 */
    bool defers;              /* some bucket's gather is deferred */
    int unit;                 /* the layer whose operations are being emitted */
    int unit_begin, unit_end; /* forward operations of the unit whose backward is emitted */
    int posted[SN_MAX_POSTED], posted_bucket[SN_MAX_POSTED], n_posted;
    struct sn_factored factored[2]; /* whose left factors are under way; whose right ones are */
    struct sn_routes routes;
    int late_shards[2], n_late_shards; /* of experts: further rounds still add to their gradients */
    struct sn_under_way under_way;     /* of experts' tokens in chunks */
};

/* The unit of a node: its layer, -1 before the first block, `layers` after the last: blocks of model.mtp are
 * of the head's unit. */
int sn_unit_of(const struct sn_job *j, const struct sn_node *n);
/* An operation's `layer`, of a node; and of what unit such an operation is. */
int sn_op_layer(const struct sn_job *j, const struct sn_node *n);
int sn_unit_of_op(const struct sn_job *j, int layer);
/* How many shards a parameter (-1: none) has here; they begin at first_shard[param]. */
int sn_param_shards(const struct sn_job *j, int param);
/* Is the node in this rank's part of p->scope? Blocks of model.mtp are of training alone. */
bool sn_node_is_here(const struct sn_emit *e, int node);

/* Views of a shard's weights: as a matrix, or as one row. */
struct sn_view sn_weight(const struct sn_emit *e, int shard);
struct sn_view sn_weight_flat(const struct sn_emit *e, int shard);
/* The same to be read by the operation that is added next: of codes they are decoded in front of it.
 * And what another one, of the forward pass, read as `v`, as it is now. */
struct sn_view sn_weight_read(struct sn_emit *e, int shard);
struct sn_view sn_weight_again(struct sn_emit *e, struct sn_view v);
/* The shard that a view of weights shows; -1. */
int sn_shard_of(const struct sn_emit *e, struct sn_view v);
bool sn_shard_trains(const struct sn_emit *e, int shard);
/* Zeros between and behind the shards of a bucket, in a buffer of all its elements. */
void sn_pads_zero(const struct sn_job *j, struct sn_program *p, int bucket, int buf,
                  enum sn_when when);
/* Before a gradient operation of the shard is added: there is somewhere to add to. */
void sn_shard_ready(struct sn_emit *e, int shard);
/* Make `op` add to the gradient of a shard through out[out]: the first contribution of a
 * micro-batch initialises (on the first micro-batch only, where gradients are kept over
 * micro-batches). */
void sn_into_shard(struct sn_emit *e, struct sn_op *op, int out, int shard, bool flat);
/* One use of the shard has given all of its contributions; the reduction of a bucket that is
 * complete is posted. May move operations: pointers to them end here. */
void sn_shard_used(struct sn_emit *e, int shard);

struct sn_view sn_grad_get(const struct sn_emit *e, int buf);
void sn_grad_set(struct sn_emit *e, int buf, struct sn_view g);
/* The gradient of a view: the same window of its buffer's gradient (buf -1: none). */
struct sn_view sn_grad_of(const struct sn_emit *e, struct sn_view v);
/* The window of v in the gradient of v's buffer, which is made when there is none. */
struct sn_view sn_grad_slice(struct sn_emit *e, struct sn_view v);
/* Remember a buffer's origin: gradients of both are one. */
void sn_origin_set(struct sn_emit *e, int buf, int origin);
bool sn_emit_room(struct sn_emit *e, int buf); /* make the maps long enough; false without memory */

/* --- one file each ---------------------------------------------------------------------------- */

enum sn_status sn_shards_create(struct sn_job *j, struct sn_err *err);  /* shards.c */
enum sn_status sn_modules_create(struct sn_job *j, struct sn_err *err); /* pipeline.c */
void sn_state_buffers(struct sn_job *j, struct sn_program *p);          /* state.c */
void sn_lower_vstage(struct sn_emit *e);                                /* lower.c */
void sn_lower_attention(struct sn_emit *e, const struct sn_node *n);    /* lower_attention.c */
void sn_lower_join(struct sn_emit *e, const struct sn_node *n);
void sn_lower_head(struct sn_emit *e, const struct sn_node *n);         /* lower_head.c */
void sn_lower_router(struct sn_emit *e, const struct sn_node *n);       /* lower_experts.c */
void sn_lower_experts(struct sn_emit *e, const struct sn_node *n);
void sn_lower_dense(struct sn_emit *e, const struct sn_node *n);   /* lower_dense.c */
void sn_emit_backward(struct sn_emit *e, int first_op, int n_ops); /* grad.c */
/* Gradient rules, as rows name them (opinfo.h). */
void sn_grad_norm(struct sn_emit *e, const struct sn_op *f);
void sn_grad_gemm(struct sn_emit *e, const struct sn_op *f);
void sn_grad_pointwise(struct sn_emit *e, const struct sn_op *f); /* y = f(x), by row.dx */
void sn_grad_gate(struct sn_emit *e, const struct sn_op *f);
void sn_grad_dropout(struct sn_emit *e, const struct sn_op *f);
void sn_grad_prompt(struct sn_emit *e, const struct sn_op *f);
void sn_grad_add(struct sn_emit *e, const struct sn_op *f);
void sn_grad_embed(struct sn_emit *e, const struct sn_op *f);
void sn_grad_copy(struct sn_emit *e, const struct sn_op *f);
void sn_grad_swap(struct sn_emit *e, const struct sn_op *f);
void sn_grad_attention(struct sn_emit *e, const struct sn_op *f); /* grad_attention.c */
void sn_grad_join(struct sn_emit *e, const struct sn_op *f);
void sn_grad_route(struct sn_emit *e, const struct sn_op *f);     /* grad_experts.c */
void sn_grad_dispatch(struct sn_emit *e, const struct sn_op *f);
void sn_grad_combine(struct sn_emit *e, const struct sn_op *f);
void sn_grad_expert_gemm(struct sn_emit *e, const struct sn_op *f);
void sn_grad_exchange(struct sn_emit *e, const struct sn_op *f);
void sn_grad_gather_rows(struct sn_emit *e, const struct sn_op *f);
void sn_grad_wait(struct sn_emit *e, const struct sn_op *f);
void sn_grad_move(struct sn_emit *e, const struct sn_op *f);
/* recompute.c: let f read, where it must, what is computed again here. */
void sn_recompute(struct sn_emit *e, struct sn_op *f);
/* The buffer that holds now what `buf` held in the forward pass. */
int sn_recomputed(struct sn_emit *e, int buf);
/* Post the exchange that will fill its copy, where it is one and is done again. */
void sn_recompute_ahead(struct sn_emit *e, int buf);
enum sn_status sn_cache_assign(struct sn_job *j, struct sn_err *err); /* zero.c */
void sn_deferred_assign(struct sn_job *j);
/* While a stage waits for another's first micro-batch it gathers all that is deferred. */
void sn_zero_before_input(struct sn_emit *e);
void sn_zero_enter(struct sn_emit *e, int unit, bool backward);
void sn_zero_leave_segment(struct sn_emit *e);
void sn_bucket_reduce(struct sn_emit *e, int bucket);
/* What this rank keeps of a divided array: the whole buffer, or its slice of it. */
struct sn_view sn_bucket_own(const struct sn_program *p, const struct sn_bucket *b, int buf);
/* lower_powersgd.c: reduce a bucket of which some gradients travel as factors; false: none does. */
bool sn_low_rank_reduce(struct sn_emit *e, int bucket);
void sn_low_rank_end(struct sn_emit *e); /* all that is under way */
/* Rows of all left and right factors of a bucket; false: it has none. */
bool sn_low_rank_sizes(const struct sn_job *j, int bucket, int64_t rows[2]);
void sn_emit_segments(struct sn_emit *e); /* pipeline.c */
enum sn_status sn_emit_schedule(struct sn_job *j, struct sn_program *p, struct sn_err *err);
void sn_emit_update(struct sn_job *j, struct sn_program *p); /* update.c */
bool sn_weights_delayed(const struct sn_job *j); /* split.c: is the backward cut in two? */
void sn_pass_split(struct sn_program *p);
void sn_pass_fuse(const struct sn_job *j, struct sn_program *p);    /* fuse.c */
void sn_pass_compress(struct sn_job *j, struct sn_program *p);      /* compress.c */
void sn_pass_compress_rows(struct sn_job *j, struct sn_program *p); /* compress_rows.c */
void sn_pass_fuse_norms(struct sn_program *p);                      /* fuse_norm.c */
/* In how many pieces rows go through collectives of tensor ranks; 1: whole. */
int sn_tensor_pieces(const struct sn_job *j);
void sn_pass_pieces(const struct sn_job *j, struct sn_program *p); /* pieces.c */
void sn_pass_order(const struct sn_job *j, struct sn_program *p);  /* order.c */
/* Is the order of operations weighed at all: wanted, and by a machine's rates? */
bool sn_order_is_weighed(const struct sn_job *j);
/* Do forward and backward segments take turns? */
bool sn_takes_turns(const struct sn_job *j);
/* Seconds of a kernel (of anything else 0), and of what is posted, where they run;
 * 0: transfers between stages, whose time the other end decides. (order_find.c) */
double sn_order_kernel(const struct sn_job *j, const struct sn_program *p, const struct sn_op *op);
double sn_order_message(const struct sn_job *j, const struct sn_program *p, const struct sn_op *op);

/* Two segments that take turns (turns.c): pieces of both, in the order in which they run. */
struct sn_turns {
    struct sn_piece *piece;
    int n, cap;
};
/* A forward and a backward of other micro-batches; where the order is not weighed two pieces, each
 * all of its segment. false: no memory. Caller frees out->piece with sn_free. */
bool sn_turns_find(struct sn_turns *out, const struct sn_job *j, const struct sn_program *p,
                   const int segment[2]);
enum sn_status sn_pass_place(struct sn_job *j, struct sn_program *p,
                             struct sn_err *err); /* place.c */

struct sn_pack_item {
    int64_t bytes, offset;
    int first, last, buf;
};
/* Largest sum of bytes alive at one of n_ops operations; `delta` is room for n_ops + 2 numbers. */
int64_t sn_pack_bound(const struct sn_pack_item *items, int n, int n_ops, int64_t *delta);
/* Give every item an offset so that those alive together do not overlap (pack.c). Sets temp_bytes
 * and the offsets of the items' buffers; false: no memory. */
bool sn_pack(struct sn_program *p, struct sn_pack_item *items, int n);

/* --- values and where they are (redistribute.c) ----------------------------------------------- */

/* The cut at a point, or of what stands between blocks. */
struct sn_cut sn_cut_of(const struct sn_job *j, const char *point);
/* How what stands between blocks is placed. */
struct sn_placement sn_region(const struct sn_job *j);
/* Do several ranks each have some of the features (columns) of what lies so? */
bool sn_features_are_cut(const struct sn_job *j, struct sn_placement p);
/* What each of them gives of its own, [T x K] f32: gathered, slice by slice, [P T x K]. `part` itself
 * where one has them all. */
struct sn_view sn_parts_of_all(struct sn_emit *e, int part, struct sn_placement p,
                               const char *label);
/* Of the rows of a micro-batch, those that a rank has of a tensor placed so, and the first. */
int64_t sn_rows_here(const struct sn_job *j, struct sn_placement p);
int64_t sn_first_row(const struct sn_job *j, struct sn_placement p);
/* Bit g: all members of group g, of the mesh, have the same rows of it. */
/* The first column that this rank has of `cols`. */
int64_t sn_first_col(const struct sn_job *j, struct sn_placement p, int64_t cols);
unsigned sn_same_rows(const struct sn_job *j, struct sn_placement p);
/* An input that is added to what is a sum over ranks: there on one of them. */
void sn_add_once(const struct sn_emit *e, struct sn_op *op, int input, struct sn_placement give);
/* A new result buffer of node n, of `cols` columns here, placed as given. */
int sn_result(struct sn_emit *e, const struct sn_node *n, int64_t cols, struct sn_placement give);
/* Value `value`, placed as wanted. */
struct sn_view sn_take(struct sn_emit *e, int value, struct sn_placement want);

/* Does every token visit all experts in this program? (lower_dense.c) */
bool sn_experts_dense(const struct sn_emit *e);
/* Do rows travel to experts of other ranks, as many as are routed there? */
bool sn_experts_travel(const struct sn_emit *e);
/* Rows of buffer x, by expert, through the experts here. */
int sn_feed_forward(struct sn_emit *e, const struct sn_node *n, int x, int bounds);
/* How a layer with experts takes tokens, and gives them. */
struct sn_placement sn_experts_taken(const struct sn_job *j);
struct sn_placement sn_experts_given(const struct sn_job *j);
/* Experts of layer points that this rank holds (lower_experts.c). */
int sn_experts_here(const struct sn_emit *e);
/* The choices of all ranks that share sequences with this one: `choice` itself, or a new buffer. */
int sn_choices_gather(struct sn_emit *e, int choice, const char *label);

/* --- rows to the experts' ranks, and back (lower_exchange.c) ---------------------------------- */

/* Attributes of the exchange of a chunk. */
struct sn_attr sn_exchange_attr(const struct sn_emit *e, int chunk);
/* Rows that arrive at a rank in its chunk, on average. */
int64_t sn_exchange_mean(const struct sn_attr *a);
/* The sum of what came back from all slices of experts, in a new buffer or in `into`; the blocks
 * themselves where there is one slice. */
int sn_slices_sum(struct sn_emit *e, int blocks, int into, const struct sn_attr *a,
                  const char *label);
/* Everybody's bounds, from which all members know who sends how many rows to whom. */
int sn_bounds_gather(struct sn_emit *e, int bounds, const char *label);
/* Where the rows that arrive lie in the window of a round: a new buffer. */
int sn_arrivals_add(struct sn_emit *e, int all, const struct sn_attr *exchange, const char *label);

struct sn_hop_of {
    struct sn_attr attr; /* of the exchange */
    int all;             /* buffer of everybody's bounds */
    const char *label;
};
/* One hop of a share, over EXPERT, EXPERT_NODE or EXPERT_RAIL; the shares of a window from the
 * tensor ranks, or the sum of their windows, of which each has its share. Not in the text yet. */
struct sn_op sn_hop_op(struct sn_emit *e, enum sn_group group, struct sn_view from,
                       struct sn_view to, const struct sn_hop_of *h);
struct sn_op sn_gather_rows_op(struct sn_emit *e, struct sn_view from, struct sn_view to,
                               const struct sn_hop_of *h);

enum { SN_LEGS_MOST = 3 };
struct sn_legs {
    struct sn_op op[SN_LEGS_MOST];
    int n;
};
/* All of them from rows to the window, or back; each needs the one before it complete. Where tensor
 * ranks share windows, only these rows of `to` are written on the way back. */
void sn_exchange_legs(struct sn_emit *e, struct sn_legs *out, struct sn_view from,
                      struct sn_view to, const struct sn_hop_of *h);
/* Post and wait, one after another. */
void sn_legs_run(struct sn_emit *e, const struct sn_legs *legs);
/* Where tensor ranks share windows: rows that come back to other ranks are 0 here. */
void sn_back_begin(struct sn_emit *e, struct sn_view back, const struct sn_attr *attr,
                   const char *label);

/* Attention heads of this rank. */
struct sn_heads {
    int query, kv;
    int first; /* query head */
};
struct sn_heads sn_heads_here(const struct sn_job *j);
/* Attributes of an operation on this rank: where its rows, words and heads lie. */
struct sn_attr sn_localised(const struct sn_emit *e, const struct sn_node *n);
/* Rows of what there is for each token, the ids or the targets, from row `row` of a micro-batch
 * on. */
struct sn_view sn_token_rows(const struct sn_emit *e, int buf, int64_t row, int64_t rows);
/* The same of ids (or targets) for a node: of its depth. */
struct sn_view sn_ids_of(const struct sn_emit *e, const struct sn_node *n);
struct sn_view sn_targets_of(const struct sn_emit *e, const struct sn_node *n, int64_t row,
                             int64_t rows);
/* For each token of a micro-batch's samples, which are whole on every context rank, the first key that
 * its query sees; absent where documents of a sample see each other, and in what generates. */
struct sn_view sn_starts(const struct sn_emit *e);

/* --- exact.c ----------------------------------------------------------------------------------- */

/* Of a product with a weight that is cut so, k deep and n wide here: what its sum, and that of its input's
 * gradient, are of. */
struct sn_exact_attr sn_exact_product(const struct sn_job *j, const struct sn_cut *cut, int64_t k,
                                      int64_t n);
/* In which type a value is given: where it is a part of a sum, fp64. */
enum sn_dtype sn_exact_type(const struct sn_job *j, struct sn_placement give);
/* A buffer for the gradient of `buf`: likewise. */
int sn_exact_gradient(struct sn_emit *e, int buf);
/* `buf`, or if it is a sum in fp64 a copy as values are stored. */
int sn_exact_rounded(struct sn_emit *e, int buf);

#endif
