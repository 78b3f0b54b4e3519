/*
 * inner.h - what plays the programs of all ranks, and the rule of each kind of operation. Internal
 * to lib/meaning.
 */
#ifndef SN_MEANING_INNER_H
#define SN_MEANING_INNER_H

#include "lib/meaning/field.h"
#include "lib/meaning/meaning.h"
#include "lib/meaning/slabs.h"
#include "kernels/position.h"
#include "lib/program/opinfo.h"

/* Sums that a rank adds up over a step, in the scalars block. */
enum {
    SN_TOLD_LOSS,
    SN_TOLD_BALANCE,
    SN_TOLD_Z,
    SN_TOLD_SQ_NORM,
    SN_TOLD_LOAD,
    SN_TOLD_SETS,
    SN_TOLD_BESIDE,
    SN_NTOLD
};
enum { SN_STARTS_NUMBER = 103, SN_FEATURES_NUMBER = 120 }; /* of what stands for a batch's starts, and its features */

/* What is sent and has not been taken by all. */
struct sn_sent {
    struct sn_slabs slabs;   /* where they lie in the operand, as if it had no gaps */
    uint64_t told[SN_NTOLD]; /* of an AGREE */
    int left;                /* ranks that have still to take it */
};

/* Collectives of a rank in one group, or what goes from it to another. */
struct sn_queue {
    enum sn_group group;
    int to, tag; /* collectives: to is -1 */
    struct sn_sent *sent;
    int n, cap;
};

/* What a rank receives from another. */
struct sn_inbox {
    enum sn_group group;
    int from, tag;
    int n; /* receives posted */
};

/* What a rank has posted and not waited for. */
struct sn_pending {
    bool is_there;
    int seq; /* in its queue, or in that of who sends to it */
    int micro, slot, late;
};

/* Rows of tokens on their way to experts. Which token goes where is known when it runs; here each goes
 * to every expert, with a value that says how much of it does. So a buffer of such rows has, whatever
 * its own size, a row for each expert and token: of one unit, experts x tokens of them. What a
 * rank has of all its experts, from all members of their group, are as many units as experts have
 * slices. */
struct sn_routing {
    int64_t tokens; /* that a rank routes */
    int experts, here, slices, members;
    bool rounds; /* some operations are of further rounds: those have half of the tokens */
    int *units;  /* by buffer; 0: it holds no such rows */
};

struct sn_rank {
    const struct sn_job *job;
    const struct sn_program *program;
    int rank;
    struct sn_slabs *held; /* of copy c of buffer b: held[first_held[b] + c] */
    int *first_held;
    uint64_t told[SN_NTOLD]; /* of this rank; after an AGREE of all */
    uint64_t scale;          /* what CLIP_SCALE made of them */
    int entry, at;           /* where it is in the schedule, and in the entry */
    int slots;
    int *op_of_id;              /* -1: none */
    struct sn_pending *pending; /* by id and slot */
    struct sn_queue *queues;
    int n_queues, cap_queues;
    struct sn_inbox *inboxes;
    int n_inboxes, cap_inboxes;
    struct sn_routing routing;
    int64_t *share_of; /* by buffer: values of each of its streams; 0: it holds none */
    bool agrees;       /* it has told the others, and waits for what they say */
};

struct sn_meaning {
    const struct sn_model *model;
    const struct sn_config *config;
    struct sn_rank *rank;
    int ranks;
    struct sn_spaces spaces;
    int *first_space;  /* of a parameter: two for each of its tensors, rows and columns */
    bool is_reference; /* one rank, whose micro-batch stands for the step's tokens */
    bool binds;        /* spaces that meet are the same from now on */
    int64_t tokens;    /* of a step; of a reference all that it has */
    uint64_t *found[SN_MEANINGS]; /* by logical tensor: what the reference holds in the end */
    uint64_t told[SN_NTOLD];
    sn_meaning_look *look; /* NULL: nobody does */
    void *look_arg;
    int world;
    struct sn_err *err;
};

/* One operation, run now. */
struct sn_visit {
    struct sn_meaning *m;
    struct sn_rank *r;
    const struct sn_op *op;
    int number; /* in the text */
    int micro, slot, late;
};

/* --- faults ----------------------------------------------------------------------------------- */

/* "train: rank 3 (...): gemm 'l0.ffn.down' (operation 33, micro-batch 2): ..." SN_EFAIL. */
enum sn_status sn_visit_fault(const struct sn_visit *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
enum sn_status sn_visit_no_memory(const struct sn_visit *s);
/* "tokens 128 to 255", "columns 0 to 63 of 'layers.0.attn.q.weight'". */
struct sn_place_text {
    char s[160];
};
struct sn_place_text sn_place_text(const struct sn_meaning *m, const struct sn_slab *t, int dim);

/* A gradient of a parameter, before the update: that of one rank is noted, others are compared with
 * it. t: of the parameter. */
enum sn_status sn_check_gradient(const struct sn_visit *s, const struct sn_slab *t, uint64_t value);

/* --- values ----------------------------------------------------------------------------------- */

/* What stands for a point of a space: sums over an interval are a difference of two of them, so that
 * those over neighbouring intervals add up to that over both, and to no other. */
uint64_t sn_point(const struct sn_meaning *m, int space, int64_t at);
uint64_t sn_interval(const struct sn_meaning *m, int space, int64_t from, int64_t n);
/* Of a slab's rows or columns. */
uint64_t sn_extent(const struct sn_meaning *m, const struct sn_slab *t, int dim);
/* A function of values that has no properties but that it is one; of zeros alone it is 0. */
uint64_t sn_function(uint64_t name, const uint64_t *values, int n);
/* A name from an operation's kind and a number of its own. */
uint64_t sn_name(int kind, uint64_t what);
/* Attributes that belong to what is computed. */
uint64_t sn_name_float(uint64_t name, float x);
/* Are these spaces one? While names are bound they are from now on. */
bool sn_same_space(struct sn_meaning *m, int a, int b);

/* --- operands --------------------------------------------------------------------------------- */

struct sn_slabs *sn_held(const struct sn_visit *s, int buf);
/* Where a view lies in its buffer now; rows 0: it is absent on this rank. */
struct sn_area sn_view_area(const struct sn_visit *s, const struct sn_view *v);
bool sn_has_in(const struct sn_visit *s, int in);
bool sn_has_out(const struct sn_visit *s, int out);
/* What an operand holds: slabs whose `at` counts the operand's elements, row after row without
 * gaps. SN_EFAIL where nothing has been written. Caller finishes *out. */
enum sn_status sn_read_view(const struct sn_visit *s, const struct sn_view *v,
                            struct sn_slabs *out);
/* The same of what has been written: *n elements. */
enum sn_status sn_read_written(const struct sn_visit *s, const struct sn_view *v,
                               struct sn_slabs *out, int64_t *n);
enum sn_status sn_read(const struct sn_visit *s, int in, struct sn_slabs *out);
/* Write or add, as acc[] says. Slabs count elements as sn_read()'s do. */
enum sn_status sn_write(const struct sn_visit *s, int out, const struct sn_slabs *slabs);
enum sn_status sn_write_view(const struct sn_visit *s, const struct sn_view *v,
                             enum sn_acc_rule acc, const struct sn_slabs *slabs);
/* Add t to a result that is being made. */
enum sn_status sn_collect(const struct sn_visit *s, struct sn_slabs *result,
                          const struct sn_slab *t);
/* Where a slab begins in an operand of so many columns. */
struct sn_corner {
    int64_t row, col;
};
static inline struct sn_corner sn_corner(const struct sn_slab *t, int64_t cols)
{
    return (struct sn_corner){t->at / cols, t->at % cols};
}
/* The slabs as rectangles of an operand of so many columns. SN_EFAIL if some are not. */
enum sn_status sn_are_rectangles(const struct sn_visit *s, const struct sn_slabs *slabs,
                                 int64_t cols);

/* Rows of an operand (rules_attention.c). */
struct sn_row_run {
    int64_t row, n;       /* rows of the operand */
    int64_t sample, from; /* of the first one: its sample, and its position there */
};
/* An operand, as rectangles. Caller finishes m->slabs. */
struct sn_matrix {
    struct sn_slabs slabs;
    int64_t cols;
};
enum sn_status sn_matrix_load(const struct sn_visit *s, int in, struct sn_matrix *m);
/* What lies in a run's rows and n columns from `col` on: one slab, or it is a fault. */
enum sn_status sn_matrix_look(const struct sn_visit *s, const struct sn_matrix *m,
                              const struct sn_row_run *r, int64_t col, int64_t n, struct sn_slab *out);
/* A result at some rows and columns of an operand of `cols` columns. */
struct sn_slab sn_result_at(const struct sn_slab *like, const struct sn_row_run *r, int64_t col, int64_t n,
                            int64_t cols);

/* Parts of operands of one shape that lie in the same place. */
enum { SN_ZIP_MOST = 8 };
struct sn_zip {
    struct sn_slab *t; /* where they lie, and the coordinates of the first operand */
    uint64_t (*value)[SN_ZIP_MOST];
    int n, cap, cap_values;
    int operands;
    bool failed;
};
void sn_zip_fini(struct sn_zip *z);
/* The first operand. */
void sn_zip_begin(struct sn_zip *z, const struct sn_slabs *slabs);
/* One more, whose coordinates have to be the first one's in the dimensions of `dims` (bits). */
enum sn_status sn_zip_with(const struct sn_visit *s, struct sn_zip *z, const struct sn_slabs *slabs,
                           unsigned dims);
enum { SN_DIM_ROWS = 1, SN_DIM_COLS = 2, SN_DIM_BOTH = 3 };

/* The first sample of a micro-batch on its rank, among those of the step. */
int64_t sn_first_sample(const struct sn_visit *s);
/* Rows of a slab have the positions that the operation's attributes say. `rank`: of the context
 * rank whose they are. */
enum sn_status sn_check_positions(const struct sn_visit *s, const struct sn_slabs *slabs,
                                  int64_t cols, int rank);
/* The coordinates of a weight, or of its gradient, by where it lies in its bucket; and of what is
 * padding, with value 0. `value`: by tensor, or NULL: 1 everywhere. */
enum sn_status sn_weight_slabs(const struct sn_meaning *m, const struct sn_job *job, int bucket,
                               const uint64_t *value, struct sn_slabs *out);
/* What of a bucket's state a rank holds between steps, in elements of the bucket: all, or its slice. Other slices of
 * whole weights whose gather is deferred count for nothing. */
struct sn_area sn_state_area(const struct sn_rank *r, const struct sn_bucket *b, int buf);

/* --- rules ------------------------------------------------------------------------------------ */

typedef enum sn_status sn_rule(const struct sn_visit *s);
/* NULL: the kind belongs to messages (moves.c). */
sn_rule *sn_rule_of(int kind);
sn_rule sn_rule_gemm, sn_rule_colsum, sn_rule_embed, sn_rule_embed_grad, sn_rule_pos_grad;
sn_rule sn_rule_head_norm, sn_rule_head_norm_dx, sn_rule_head_norm_dw;
sn_rule sn_rule_norm, sn_rule_norm_dx, sn_rule_norm_dw, sn_rule_norm_part, sn_rule_norm_dx_part;
sn_rule sn_rule_attention, sn_rule_attention_dx, sn_rule_attention_rows, sn_rule_rope, sn_rule_mla_join,
    sn_rule_mla_join_dx;
sn_rule sn_rule_prompt, sn_rule_prompt_dx, sn_rule_prompt_dw;
sn_rule sn_rule_cross_entropy, sn_rule_ce_part;
sn_rule sn_rule_zero, sn_rule_copy, sn_rule_add, sn_rule_scale, sn_rule_gate, sn_rule_gate_dx, sn_rule_act, sn_rule_act_dx,
    sn_rule_swiglu, sn_rule_swiglu_dx, sn_rule_noise, sn_rule_transpose;
sn_rule sn_rule_sq_norm, sn_rule_clip_scale, sn_rule_update, sn_rule_average, sn_rule_prune;
/* Columns' sums of `slabs`, an operand of so many columns. */
enum sn_status sn_column_sums(const struct sn_visit *s, const struct sn_slabs *slabs, int64_t cols,
                              struct sn_slabs *out);
/* A gradient of a table in its bucket: its slabs with value 1, padding with 0, by place in the view. */
enum sn_status sn_gradient_table(const struct sn_visit *s, const struct sn_view *v,
                                 struct sn_slabs *out);
/* z's values under a function of this name, into `out`. */
void sn_map(const struct sn_zip *z, uint64_t name, struct sn_slabs *out);

/* rules_experts.c, routing.c */
sn_rule sn_rule_route, sn_rule_route_dx, sn_rule_route_loss, sn_rule_moe_permute,
    sn_rule_recv_offsets, sn_rule_dispatch, sn_rule_combine, sn_rule_combine_dw,
    sn_rule_expert_gemm, sn_rule_router_bias;
bool sn_routing_init(struct sn_routing *r, const struct sn_job *j, const struct sn_program *p);
/* Where a view of routed rows lies, counted as struct sn_routing says. */
struct sn_area sn_routed_area(const struct sn_rank *r, const struct sn_view *v);
/* What says where the rows of a window lie: those of a chunk and of the first round, or of further
 * ones, by what says it of the rows that were sent. */
uint64_t sn_route_of_window(const struct sn_visit *s, uint64_t sent);
/* Are an operation's rows those of a window, before it and after it? */
bool sn_takes_window(const struct sn_op *op);
bool sn_gives_window(const struct sn_op *op);
/* An operand that says where rows go says it of these; of a message that takes a window's rows, of
 * those that were sent. Tokens of another micro-batch are others. */
enum sn_status sn_check_route(const struct sn_visit *s, int in, const struct sn_slabs *rows);
/* Rows that go from one member of an expert group to another: of a sender's tokens to the experts
 * of an owner. */
struct sn_passage {
    int from, to;          /* members */
    int64_t source, there; /* the first of their rows, of here x tokens */
};
/* The passages of an EXCHANGE, one after another, from {0}; i: begins with 0. */
bool sn_passage_next(const struct sn_visit *s, int *i, struct sn_passage *out);
/* Of each expert's tokens, those of the chunk and the round, and of the share of a window that a rank
 * exchanges. */
struct sn_token_span {
    int64_t first, n;
};
struct sn_token_span sn_tokens_of(const struct sn_visit *s, bool share);

/* rules_codec.c */
sn_rule sn_rule_encode, sn_rule_decode;
bool sn_streams_init(struct sn_rank *r);
/* Where a view of streams lies, counted in values. */
struct sn_area sn_streams_area(const struct sn_rank *r, const struct sn_view *v);

/* --- messages --------------------------------------------------------------------------------- */

/* Elements from .. from + n - 1 of what was sent, which come to lie at `to`. */
void sn_move_part(const struct sn_slabs *sent, int64_t from, int64_t n, int64_t to,
                  struct sn_slabs *out);
enum sn_status sn_post(const struct sn_visit *s);
/* Not there yet: *blocked. */
void sn_queues_fini(struct sn_rank *r);
enum sn_status sn_wait(const struct sn_visit *s, bool *blocked);
enum sn_status sn_agree(const struct sn_visit *s, bool *blocked);

/* --- meaning.c -------------------------------------------------------------------------------- */

/* What is due of a step, and which spaces are one: by the reference, which plays it. */
enum sn_status sn_meaning_begin(struct sn_meaning *m, const struct sn_meaning_world *w,
                                struct sn_err *err);
void sn_meaning_end(struct sn_meaning *m);
/* Does a buffer hold all of this, in its place? */
bool sn_holds(const struct sn_meaning *m, const struct sn_slabs *held, const struct sn_slab *want);

/* --- ranks ------------------------------------------------------------------------------------ */

enum sn_status sn_rank_init(struct sn_meaning *m, struct sn_rank *r, const struct sn_job *job,
                            const struct sn_program *p);
void sn_rank_fini(struct sn_rank *r);
/* The state before a step. */
enum sn_status sn_rank_begin(struct sn_meaning *m, struct sn_rank *r);
enum sn_status sn_play(struct sn_meaning *m);

/* --- follow.c --------------------------------------------------------------------------------- */

/* The operation has ended: tell what it gave; nothing where nobody looks. */
enum sn_status sn_tell_results(const struct sn_visit *s);

#endif
