/*
 * pieces.c - asynchronous tensor parallelism: rows go through the collectives of tensor ranks in
 * pieces, so that one piece is on its way while the next is multiplied (layout.tensor_pieces).
 *
 *   C = A B; y = ALL_REDUCE C; z = f(y); D = z E      becomes, for two pieces of the rows,
 *
 *   C1 = A1 B, post 1, C2 = A2 B, post 2, wait 1, z1 = f(y1), D1 = z1 E, wait 2, z2 = f(y2), ..
 *
 * as GSPMD's collective matmul does (Wang et al., "Overlap communication with dependent computation
 * via decomposition", ASPLOS 2023), and Domino (Wang et al., arXiv 2409.15241) with the rows of a
 * batch. A row of such an operation depends on the same row of its operands alone (SN_ROLE_ROWS):
 * a product's on no other row, and so have all those between two collectives but attention's.
 *
 * What is taken in pieces:
 * - collectives that move activations of tensor ranks, and their waits;
 * - back from each to the product that gives what it sends;
 * - forth from each, through what takes rows as they come, to the products that it leads to.
 * An operation that needs all rows (attention, a gradient of weights, a head's block) waits for all
 * pieces. With sequence parallelism what a norm's gradient sums over rows becomes an operation of its
 * own. Here the pieces of an operation stand behind one another; which comes when is for order.c
 * to say.
 *
 * Sums over ranks and products have the terms and the order that they have in one piece: the same
 * bits. With sequence parallelism rows between blocks are dealt out anew: of each piece a rank has
 * its share, so that a piece that is gathered is rows of the micro-batch that follow one another. A
 * rank's rows are then P runs of them, of T / (P tensor) rows, T / P apart; that is said by where a
 * piece begins (struct sn_position_attr, row0). Sums over rows (norms' weights) then have their
 * terms on other ranks. With tensor_x, whose gathers are of features, too, only sums are taken in
 * pieces.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"

#include <string.h>

struct pieces {
    const struct sn_job *job;
    struct sn_program *p;
    int n;           /* pieces */
    bool deals;      /* with sequence parallelism */
    bool *is_cut;    /* by operation */
    bool *is_marked; /* by buffer */
    int *first_id;   /* by id of what is posted in one piece: that of its first; -1 */
};

int sn_tensor_pieces(const struct sn_job *j)
{
    const struct sn_layout_config *l = &j->config->layout;
    bool cuts = l->tensor_pieces > 1 && sn_mesh_ranks(&j->mesh) > 1 && sn_order_is_weighed(j);
    return cuts ? l->tensor_pieces : 1;
}

/* --- which operations ------------------------------------------------------------------------- */

/* All rows of its buffer, if not all columns? */
static bool has_all_rows(const struct pieces *x, const struct sn_view *v)
{
    const struct sn_buffer *b = &x->p->bufs[v->buf];
    return v->index == SN_AT_FIXED && v->buf >= x->p->n_state_bufs && b->bucket < 0 &&
           v->rows == b->rows && v->ld == b->cols && v->offset < v->ld && v->rows % x->n == 0;
}

/* May the inputs that are there be taken in pieces? What is not taken row by row is a weight. */
static bool inputs_go(const struct pieces *x, const struct sn_op *op)
{
    const struct sn_op_row *row = sn_op_row(op->kind);
    for (int k = 0; k < SN_MAX_IN; k++) {
        const struct sn_view *v = &op->in[k];
        bool by_rows = sn_operand_is(&row->in[k], SN_ROLE_ROWS);
        if (v->buf >= 0 && (by_rows ? !has_all_rows(x, v) : x->p->bufs[v->buf].bucket < 0))
            return false;
    }
    return true;
}

/* Of a norm's input gradient that sums its weights' over rows, too: the kind that does this alone;
 * -1. */
static int kind_of_sums(const struct sn_op *op)
{
    bool sums = op->out[SN_NORM_DX_DW].buf >= 0 || op->out[SN_NORM_DX_DB].buf >= 0;
    if (sn_op_row(op->kind)->cost != SN_COST_NORM || !sums)
        return -1;
    for (int k = 0; k < SN_NKERNELS; k++)
        if (sn_op_row(k)->dw > 0 && sn_op_row(k)->dx == op->kind)
            return sn_op_row(k)->dw;
    return -1;
}

/* And the outputs? A sum over rows is none; a norm's is made apart where a rank has a share of the
 * rows, so that reading them once more costs little. */
static bool outputs_go(const struct pieces *x, const struct sn_op *op)
{
    const struct sn_op_row *row = sn_op_row(op->kind);
    bool sums_apart = x->deals && kind_of_sums(op) >= 0;
    for (int o = 0; o < SN_MAX_OUT; o++) {
        bool by_rows = sn_operand_is(&row->out[o], SN_ROLE_ROWS);
        if (op->out[o].buf >= 0 && (by_rows ? !has_all_rows(x, &op->out[o]) : !sums_apart))
            return false;
    }
    return true;
}

static bool may_be_cut(const struct pieces *x, const struct sn_op *op)
{
    const struct sn_op_row *row = sn_op_row(op->kind);
    return sn_operand_is(&row->out[0], SN_ROLE_ROWS) && !row->moves && !op->extra &&
           !op->is_weight_grad && !op->attr.gemm.trans_a && op->attr.gemm.fp8 == SN_FP8_NONE &&
           inputs_go(x, op) && outputs_go(x, op);
}

/* A collective of activations of tensor ranks. */
static bool is_seed(const struct pieces *x, const struct sn_op *op)
{
    const struct sn_op_row *row = sn_op_row(op->kind);
    bool sums = op->kind == SN_OP_ALL_REDUCE;
    return row->moves && sn_operand_is(&row->out[0], SN_ROLE_ROWS) && !op->is_coded &&
           op->codable == 1 + SN_CODED_TENSOR && sn_op_meets_others(x->job, op) &&
           (sums || x->deals) && has_all_rows(x, &op->in[SN_MOVE_FROM]) &&
           has_all_rows(x, &op->out[SN_MOVE_TO]);
}

static void mark(struct pieces *x, const struct sn_operand_info *row, const struct sn_view *v,
                 int n)
{
    for (int k = 0; k < n; k++)
        if (v[k].buf >= 0 && sn_operand_is(&row[k], SN_ROLE_ROWS))
            x->is_marked[v[k].buf] = true;
}

static bool is_marked(const struct pieces *x, const struct sn_operand_info *row,
                      const struct sn_view *v, int n)
{
    for (int k = 0; k < n; k++)
        if (v[k].buf >= 0 && sn_operand_is(&row[k], SN_ROLE_ROWS) && x->is_marked[v[k].buf])
            return true;
    return false;
}

static void forget_marks(struct pieces *x)
{
    for (int b = 0; b < x->p->n_bufs; b++)
        x->is_marked[b] = false;
}

/* Back from what is sent: marked are buffers that are to be given in pieces. */
static void find_givers(struct pieces *x, int first, int end)
{
    forget_marks(x);
    for (int i = end - 1; i >= first; i--) {
        const struct sn_op *op = &x->p->ops[i];
        const struct sn_op_row *row = sn_op_row(op->kind);
        if (x->is_cut[i])
            mark(x, row->in, op->in, SN_MAX_IN);
        if (x->is_cut[i] || !is_marked(x, row->out, op->out, SN_MAX_OUT) || !may_be_cut(x, op))
            continue;
        x->is_cut[i] = true;
        if (row->cost != SN_COST_PRODUCT)
            mark(x, row->in, op->in, SN_MAX_IN);
    }
}

/* Forth from what arrives: marked are buffers that are there in pieces. */
static void find_takers(struct pieces *x, int first, int end)
{
    forget_marks(x);
    for (int i = first; i < end; i++) {
        const struct sn_op *op = &x->p->ops[i];
        const struct sn_op_row *row = sn_op_row(op->kind);
        if (!x->is_cut[i] && is_marked(x, row->in, op->in, SN_MAX_IN) && may_be_cut(x, op))
            x->is_cut[i] = true;
        if (x->is_cut[i])
            mark(x, row->out, op->out, SN_MAX_OUT);
    }
}

/* Those that lead to no product and to no collective are left as they are. Marked are buffers that
 * are wanted in pieces. */
static void leave_ends(struct pieces *x, int first, int end)
{
    forget_marks(x);
    for (int i = end - 1; i >= first; i--) {
        const struct sn_op *op = &x->p->ops[i];
        const struct sn_op_row *row = sn_op_row(op->kind);
        bool is_dealt = x->deals && op->kind == SN_OP_DROPOUT;
        x->is_cut[i] = x->is_cut[i] &&
                       (row->cost == SN_COST_PRODUCT || row->moves || is_dealt ||
                        is_marked(x, row->out, op->out, SN_MAX_OUT));
        if (x->is_cut[i])
            mark(x, row->in, op->in, SN_MAX_IN);
    }
}

static void find_cut(struct pieces *x, const struct sn_segment *s)
{
    int end = s->first + s->n;
    for (int i = s->first; i < end; i++) {
        const struct sn_op *op = &x->p->ops[i];
        bool is_dealt = x->deals && op->kind == SN_OP_DROPOUT;
        x->is_cut[i] = is_seed(x, op) || (is_dealt && may_be_cut(x, op));
    }
    find_givers(x, s->first, end);
    find_takers(x, s->first, end);
    leave_ends(x, s->first, end);
}

/* --- the text --------------------------------------------------------------------------------- */

/* Piece k of n of a view's rows. */
static void slice(struct sn_view *v, int k, int n)
{
    if (v->buf < 0)
        return;
    v->rows /= n;
    v->offset += k * v->rows * v->ld;
}

/* Where the rows of piece k begin among those of the micro-batch; the operation has `rows` rows. */
static int64_t row_of_piece(const struct pieces *x, const struct sn_op *op, int64_t rows, int k)
{
    int64_t row0 = op->attr.position.row0, piece = rows / x->n;
    if (!x->deals || rows == x->job->rows)
        return row0 + k * piece;
    return k * (x->job->rows / x->n) + row0 / rows * piece;
}

static struct sn_op piece_of(const struct pieces *x, const struct sn_op *op, int k)
{
    const struct sn_op_row *row = sn_op_row(op->kind);
    struct sn_op piece = *op;
    for (int i = 0; i < SN_MAX_IN; i++)
        if (op->kind == SN_OP_WAIT || sn_operand_is(&row->in[i], SN_ROLE_ROWS))
            slice(&piece.in[i], k, x->n);
    for (int o = 0; o < SN_MAX_OUT; o++)
        if (sn_operand_is(&row->out[o], SN_ROLE_ROWS))
            slice(&piece.out[o], k, x->n);
    if (op->attr.position.seq > 0)
        piece.attr.position.row0 = row_of_piece(x, op, op->out[0].rows, k);
    if (op->kind == SN_OP_WAIT)
        piece.waits_for = x->first_id[op->waits_for] + k;
    return piece;
}

/* What a norm's input gradient sums over all rows. */
static struct sn_op sums_of(const struct sn_op *op)
{
    struct sn_op sums = sn_op_blank(kind_of_sums(op));
    memcpy(sums.label, op->label, sizeof(sums.label));
    sums.in[SN_NORM_DW_DY] = op->in[SN_NORM_DX_DY];
    sums.in[SN_NORM_DW_X] = op->in[SN_NORM_DX_X];
    sums.in[SN_NORM_DW_STATS] = op->in[SN_NORM_DX_STATS];
    for (int k = 0; k < 2; k++) {
        sums.out[SN_NORM_DW_DW + k] = op->out[SN_NORM_DX_DW + k];
        sums.acc[SN_NORM_DW_DW + k] = op->acc[SN_NORM_DX_DW + k];
    }
    sums.attr = op->attr;
    sums.when = op->when;
    sums.only = op->only;
    return sums;
}

static void write_op(struct pieces *x, const struct sn_op *op, bool is_cut)
{
    struct sn_program *p = x->p;
    struct sn_op whole = *op;
    bool has_sums = is_cut && kind_of_sums(op) >= 0;
    p->layer = op->layer;
    p->extra = op->extra;
    if (!is_cut)
        sn_op_put(p, op);
    if (has_sums)
        whole.out[SN_NORM_DX_DW] = whole.out[SN_NORM_DX_DB] = sn_no_view;
    for (int k = 0; k < x->n && is_cut; k++) {
        struct sn_op piece = piece_of(x, &whole, k);
        int id = sn_op_append(p, &piece);
        if (k == 0)
            x->first_id[op->id] = id;
    }
    if (has_sums) {
        struct sn_op sums = sums_of(op);
        (void)sn_op_append(p, &sums);
    }
}

/* The text once more. */
static void write_text(struct pieces *x, const struct sn_op *ops)
{
    struct sn_program *p = x->p;
    int layer = p->layer;
    bool extra = p->extra;
    p->n_ops = 0;
    for (int s = 0; s < p->n_segments; s++) {
        struct sn_segment *seg = &p->segments[s];
        int first = p->n_ops;
        for (int i = seg->first; i < seg->first + seg->n && !p->failed; i++)
            write_op(x, &ops[i],
                     ops[i].kind == SN_OP_WAIT ? x->first_id[ops[i].waits_for] >= 0
                                               : x->is_cut[i]);
        seg->first = first;
        seg->n = p->n_ops - first;
    }
    p->layer = layer;
    p->extra = extra;
}

void sn_pass_pieces(const struct sn_job *j, struct sn_program *p)
{
    const struct sn_layout_config *l = &j->config->layout;
    struct pieces x = {.job = j, .p = p, .n = sn_tensor_pieces(j)};
    x.deals = l->sequence_parallel && l->tensor > 1 && l->tensor_x == 1;
    if (p->failed || x.n == 1)
        return;
    size_t ops = (size_t)p->n_ops + 1, ids = (size_t)p->next_id + 1;
    struct sn_op *text = sn_alloc_n(ops, sizeof(*text));
    x.is_cut = sn_alloc_n(ops, sizeof(*x.is_cut));
    x.is_marked = sn_alloc_n((size_t)p->n_bufs + 1, sizeof(*x.is_marked));
    x.first_id = sn_alloc_n(ids, sizeof(*x.first_id));
    p->failed = !text || !x.is_cut || !x.is_marked || !x.first_id;
    if (!p->failed) {
        for (size_t i = 0; i < ids; i++)
            x.first_id[i] = -1;
        for (int s = 0; s < p->n_segments; s++)
            find_cut(&x, &p->segments[s]);
        for (int i = 0; i < p->n_ops; i++)
            text[i] = p->ops[i];
        write_text(&x, text);
    }
    sn_free(text);
    sn_free(x.is_cut);
    sn_free(x.is_marked);
    sn_free(x.first_id);
}
