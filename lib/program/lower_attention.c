/*
 * lower_attention.c - attention, on whole sequences or over context ranks.
 *
 * One rank: one operation. Where text is generated its keys and values are kept in `past`, and of a single
 * row an operation of its own reads them there.
 *
 * Ring (Liu et al., "Ring Attention", arXiv 2310.01889; zig-zag order after Zhu's ring flash
 * attention): each rank keeps its queries; keys and values go round. Step j uses those of rank
 * c - j while the next ones are on their way; results merge exactly by log-sum-exp. The sum of
 * outputs is kept in fp32.
 *
 * All-to-all (Jacobs et al., "DeepSpeed-Ulysses", arXiv 2309.14509): rows are exchanged for heads,
 * each rank computes some heads on whole sequences, and heads are exchanged for rows again.
 */
#include "lib/program/build.h"

struct attention {
    struct sn_emit *e;
    const struct sn_node *n;
    struct sn_attr attr;    /* of this rank */
    struct sn_view q, k, v; /* columns of one buffer */
    int y;
};

/* --- one rank --------------------------------------------------------------------------------- */

static struct sn_op *core(const struct attention *a, struct sn_view o, int lse)
{
    struct sn_op *op = sn_op_add(a->e->p, SN_OP_ATTENTION, "%s", a->n->point);
    op->in[SN_ATTENTION_Q] = a->q;
    op->in[SN_ATTENTION_K] = a->k;
    op->in[SN_ATTENTION_V] = a->v;
    op->in[SN_ATTENTION_STARTS] = sn_starts(a->e);
    op->out[SN_ATTENTION_O] = o;
    op->out[SN_ATTENTION_LSE] = sn_view_all(a->e->p, lse);
    op->attr = a->attr;
    if (!a->e->train)
        op->attr.random.drop = 0;
    return op;
}

/* Rows of what is kept of this attention: of the row asked for, or all. */
static struct sn_view past(const struct attention *a, int64_t rows)
{
    const struct sn_job *j = a->e->job;
    const struct sn_model *m = j->model;
    int buf = j->past;
    for (int i = 0; &m->nodes[i] != a->n; i++)
        buf +=
            m->nodes[i].kind == SN_NODE_ATTENTION && j->module_of_node[i] % j->stages == j->stage;
    struct sn_view v = sn_view_rows(a->e->p, buf, 0, rows);
    v.index = rows == 1 ? SN_AT_ROW : SN_AT_FIXED;
    return v;
}

static void keep(const struct attention *a)
{
    struct sn_op *op = sn_op_add(a->e->p, SN_OP_COPY, "%s.past", a->n->point);
    op->in[SN_COPY_X] = a->k;
    op->in[SN_COPY_X].cols = a->k.cols + a->v.cols;
    op->out[SN_COPY_Y] = past(a, a->k.rows);
}

static void one_row(const struct attention *a)
{
    struct sn_view all = past(a, a->attr.position.seq);
    keep(a);
    struct sn_op *op = sn_op_add(a->e->p, SN_OP_ATTENTION_ROWS, "%s", a->n->point);
    op->in[SN_ATTENTION_ROWS_Q] = a->q;
    op->in[SN_ATTENTION_ROWS_K] = sn_view_cols(a->e->p, all.buf, 0, a->k.cols);
    op->in[SN_ATTENTION_ROWS_V] = sn_view_cols(a->e->p, all.buf, a->k.cols, a->v.cols);
    op->out[SN_ATTENTION_ROWS_O] = sn_view_all(a->e->p, a->y);
    op->attr = a->attr;
    op->attr.random.drop = 0;
    op->at_row = true;
}

static int lse_buffer(const struct attention *a, int64_t rows)
{
    return sn_buffer_add(a->e->p, SN_CLASS_TEMP, SN_F32, rows, a->attr.attention.heads, "%s.lse",
                         a->n->point);
}

/* --- ring ------------------------------------------------------------------------------------- */

/* k | v side by side, without gaps: what travels. */
static int pack_kv(const struct attention *a, struct sn_view kv)
{
    int b = sn_buffer_add(a->e->p, SN_CLASS_TEMP, a->e->job->dtype, kv.rows, kv.cols, "%s.kv0",
                          a->n->point);
    struct sn_op *op = sn_op_add(a->e->p, SN_OP_COPY, "%s.kv0", a->n->point);
    op->in[SN_COPY_X] = kv;
    op->out[SN_COPY_Y] = sn_view_all(a->e->p, b);
    return b;
}

static void ring(struct attention *a)
{
    struct sn_program *p = a->e->p;
    int ranks = a->attr.position.context, mine = a->attr.position.context_rank;
    int64_t k_cols = a->k.cols, v_cols = a->v.cols;
    struct sn_view both = a->k;
    both.cols = k_cols + v_cols;
    int kv = pack_kv(a, both), lse = lse_buffer(a, a->q.rows), sum = a->y;
    if (a->e->job->dtype != SN_F32)
        sum = sn_buffer_add(p, SN_CLASS_TEMP, SN_F32, a->q.rows, p->bufs[a->y].cols, "%s.sum",
                            a->n->point);
    if (p->failed)
        return;
    p->bufs[sum].needs_grad = p->bufs[a->y].needs_grad;
    for (int step = 0; step < ranks; step++) {
        int id = -1, next = kv;
        if (step + 1 < ranks) {
            next = sn_buffer_add(p, SN_CLASS_TEMP, a->e->job->dtype, both.rows, both.cols,
                                 "%s.kv%d", a->n->point, step + 1);
            id = sn_shift_post(p, kv, next, a->n->point);
        }
        if (step > 0) {
            a->k = sn_view_cols(p, kv, 0, k_cols);
            a->v = sn_view_cols(p, kv, k_cols, v_cols);
        }
        a->attr.position.key_rank = (mine - step + ranks) % ranks;
        struct sn_op *op = core(a, sn_view_all(p, sum), lse);
        op->acc[SN_ATTENTION_O] = op->acc[SN_ATTENTION_LSE] = step ? SN_ACC_ADD : SN_ACC_WRITE;
        if (id >= 0)
            sn_wait_add(p, id);
        kv = next;
    }
    if (sum != a->y) {
        struct sn_op *op = sn_op_add(p, SN_OP_COPY, "%s.cast", a->n->point);
        op->in[SN_COPY_X] = sn_view_all(p, sum);
        op->out[SN_COPY_Y] = sn_view_all(p, a->y);
    }
}

/* --- all-to-all ------------------------------------------------------------------------------- */

/* x[a x b blocks] -> y[b x a blocks] in a new buffer of `rows` x `cols`, or into `to`. */
static struct sn_view swap(const struct attention *a, struct sn_view x, struct sn_view to,
                           int64_t blocks_a, int64_t blocks_b)
{
    struct sn_op *op = sn_op_add(a->e->p, SN_OP_TRANSPOSE, "%s.swap", a->n->point);
    op->in[SN_TRANSPOSE_X] = x;
    op->out[SN_TRANSPOSE_Y] = to;
    op->attr.blocks_a = blocks_a;
    op->attr.blocks_b = blocks_b;
    return to;
}

static struct sn_view fresh(const struct attention *a, int64_t rows, int64_t cols, const char *what)
{
    struct sn_program *p = a->e->p;
    int b =
        sn_buffer_add(p, SN_CLASS_TEMP, a->e->job->dtype, rows, cols, "%s.%s", a->n->point, what);
    if (!p->failed)
        p->bufs[b].needs_grad = p->bufs[a->y].needs_grad;
    return sn_view_all(p, b);
}

static const struct sn_axis_placement by_rows = {SN_SHARD, SN_ROWS}, by_heads = {SN_SHARD, SN_COLS};

static struct sn_view exchange(const struct attention *a, struct sn_view x, const char *what)
{
    struct sn_view y = fresh(a, x.rows, x.cols, what);
    struct sn_op op = sn_comm_op(SN_OP_ALL_TO_ALL, SN_GROUP_CONTEXT, "%.50s.%s", a->n->point, what);
    op.in[SN_MOVE_FROM] = x;
    op.out[SN_MOVE_TO] = y;
    op.attr.blocks_a = a->e->job->group_size[SN_GROUP_CONTEXT];
    op.grad_move = sn_axis_move(by_rows, by_heads).backward; /* and the other way: the same */
    sn_comm_run(a->e->p, &op);
    return y;
}

/* [b S/C rows, all of these heads] -> [b S rows, 1/C of them] */
static struct sn_view rows_to_heads(const struct attention *a, struct sn_view x, const char *what)
{
    int64_t ranks = a->e->job->group_size[SN_GROUP_CONTEXT], cols = x.cols / ranks;
    int64_t samples = a->e->job->config->layout.micro_batch;
    struct sn_view y = swap(a, x, fresh(a, x.rows * ranks, cols, what), x.rows, ranks);
    y = exchange(a, y, what);
    return samples == 1 ? y : swap(a, y, fresh(a, y.rows, cols, what), ranks, samples);
}

static void heads_to_rows(const struct attention *a, struct sn_view x)
{
    int64_t ranks = a->e->job->group_size[SN_GROUP_CONTEXT];
    int64_t samples = a->e->job->config->layout.micro_batch;
    if (samples > 1)
        x = swap(a, x, fresh(a, x.rows, x.cols, "o"), samples, ranks);
    x = exchange(a, x, "o");
    (void)swap(a, x, sn_view_all(a->e->p, a->y), ranks, x.rows / ranks);
}

static void all_to_all(struct attention *a)
{
    int ranks = a->attr.position.context;
    a->q = rows_to_heads(a, a->q, "q");
    a->k = rows_to_heads(a, a->k, "k");
    a->v = rows_to_heads(a, a->v, "v");
    a->attr.attention.heads /= ranks;
    a->attr.attention.kv_heads /= ranks;
    a->attr.attention.head0 += a->attr.position.context_rank * a->attr.attention.heads;
    a->attr.position.context = a->attr.position.context_rank = a->attr.position.key_rank = 0;
    int64_t cols = a->attr.attention.heads * sn_v_dim(&a->attr.attention);
    struct sn_view o = fresh(a, a->q.rows, cols, "whole");
    (void)core(a, o, lse_buffer(a, a->q.rows));
    heads_to_rows(a, o);
}

void sn_lower_attention(struct sn_emit *e, const struct sn_node *n)
{
    const struct sn_job *j = e->job;
    struct sn_cut cut = sn_cut_of(j, n->point);
    struct sn_heads heads = sn_heads_here(j);
    struct attention a = {.e = e, .n = n, .attr = sn_localised(e, n)};
    a.attr.attention.heads = heads.query;
    a.attr.attention.kv_heads = heads.kv;
    a.attr.attention.head0 = heads.first;
    int64_t q = (int64_t)a.attr.attention.heads * a.attr.attention.head_dim;
    int64_t k = (int64_t)a.attr.attention.kv_heads * a.attr.attention.head_dim;
    int64_t v = a.attr.attention.kv_heads * sn_v_dim(&a.attr.attention);
    int qkv = sn_take(e, n->in[0], cut.want).buf;
    a.q = sn_view_cols(e->p, qkv, 0, q);
    a.k = sn_view_cols(e->p, qkv, q, k);
    a.v = sn_view_cols(e->p, qkv, q + k, v);
    a.y = sn_result(e, n, a.attr.attention.heads * sn_v_dim(&a.attr.attention), cut.give);
    if (e->p->failed)
        return;
    if (e->generate && !e->row && j->keeps_past)
        keep(&a);
    if (e->row)
        one_row(&a);
    else if (a.attr.position.context == 1)
        (void)core(&a, sn_view_all(e->p, a.y), lse_buffer(&a, a.q.rows));
    else if (j->config->layout.context_kind == SN_CONTEXT_RING)
        ring(&a);
    else
        all_to_all(&a);
}

/* What all heads' keys share is taken as the products beside it take their inputs: whole, by each rank
 * for heads of its own. */
void sn_lower_join(struct sn_emit *e, const struct sn_node *n)
{
    struct sn_cut cut = sn_cut_of(e->job, n->point);
    struct sn_view q = sn_take(e, n->in[0], cut.want), kv = sn_take(e, n->in[1], cut.want);
    struct sn_view r = sn_take(e, n->in[2], sn_cut_of(e->job, "attn.kv_b").want);
    struct sn_heads heads = sn_heads_here(e->job);
    struct sn_attr attr = n->attr;
    attr.attention.heads = attr.attention.kv_heads = heads.query;
    int y = sn_result(e, n, 2 * q.cols + heads.query * sn_v_dim(&attr.attention), cut.give);
    struct sn_op *op = sn_op_add(e->p, SN_OP_MLA_JOIN, "%s", n->point);
    op->in[SN_MLA_JOIN_Q] = q;
    op->in[SN_MLA_JOIN_KV] = kv;
    op->in[SN_MLA_JOIN_R] = r;
    op->out[SN_MLA_JOIN_Y] = sn_view_all(e->p, y);
    op->attr = attr;
}
