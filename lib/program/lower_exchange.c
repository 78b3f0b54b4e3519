/*
 * lower_exchange.c - rows of tokens on their way to the ranks of their experts, as text.
 *
 * A way is one to three operations, its legs: one exchange, or two hops; where tensor ranks share
 * a window, what they share out is gathered behind them, or summed before them on the way back
 * (lower_experts.c says where each comes from).
 */
#include "lib/layout/exchange.h"
#include "lib/program/build.h"

static int temp(struct sn_emit *e, enum sn_dtype dtype, int64_t rows, int64_t cols,
                const char *point, const char *what)
{
    return sn_buffer_add(e->p, SN_CLASS_TEMP, dtype, rows, cols, "%.80s.%s", point, what);
}

/* A buffer of rows that have gradients where those of `like` do. */
static int rows_like(struct sn_emit *e, int64_t rows, struct sn_view like, const char *point,
                     const char *what)
{
    int buf = temp(e, e->job->dtype, rows, like.cols, point, what);
    if (!e->p->failed)
        e->p->bufs[buf].needs_grad = e->p->bufs[like.buf].needs_grad;
    return buf;
}

static void gather(struct sn_emit *e, enum sn_group group, int from, int to, const char *label)
{
    struct sn_op op = sn_comm_op(SN_OP_ALL_GATHER, group, "%.50s.bounds", label);
    op.in[SN_MOVE_FROM] = sn_view_all(e->p, from);
    op.out[SN_MOVE_TO] = sn_view_all(e->p, to);
    sn_comm_run(e->p, &op);
}

/* In two hops those of a node and then of all nodes, which is the order of members. */
int sn_bounds_gather(struct sn_emit *e, int bounds, const char *label)
{
    const int *members = e->job->group_size;
    int64_t cols = e->job->config->model.experts.count + 1;
    int all = temp(e, SN_I32, members[SN_GROUP_EXPERT], cols, label, "bounds.all");
    if (e->job->grid.expert_node == 0) {
        gather(e, SN_GROUP_EXPERT, bounds, all, label);
        return all;
    }
    int node = temp(e, SN_I32, members[SN_GROUP_EXPERT_NODE], cols, label, "bounds.node");
    gather(e, SN_GROUP_EXPERT_NODE, bounds, node, label);
    gather(e, SN_GROUP_EXPERT_RAIL, node, all, label);
    return all;
}

/* Tensor ranks that share a window; 1: each has all of it. */
static int64_t shares(const struct sn_emit *e)
{
    return e->job->config->layout.drop_duplicates == SN_DUPLICATES_DROPPED && e->job->grid.fold <= 1
               ? e->job->group_size[SN_GROUP_TENSOR]
               : 1;
}

struct sn_attr sn_exchange_attr(const struct sn_emit *e, int chunk)
{
    int64_t rows = sn_expert_rows(e->job->config);
    int members = e->job->group_size[SN_GROUP_EXPERT];
    int chunks =
        e->job->config->layout.expert_chunks > 1 ? e->job->config->layout.expert_chunks : 1;
    double factor = e->job->config->layout.expert_buffer;
    int slices = sn_config_slices(e->job->config);
    int64_t most = rows * members, room = (int64_t)(factor * (double)(rows * slices));
    room = room < 1 ? 1 : room < most ? room : most;
    return (struct sn_attr){.experts.count = sn_experts_here(e),
                            .experts.rows = rows,
                            .experts.capacity = sn_exchange_chunk_most(room, members, chunks),
                            .blocks_a = members,
                            .blocks_b = shares(e),
                            .experts.member = e->job->group_index[SN_GROUP_EXPERT] / slices,
                            .experts.slices = slices,
                            .experts.chunk = chunk,
                            .experts.chunks = chunks};
}

int64_t sn_exchange_mean(const struct sn_attr *a)
{
    int64_t rows = a->experts.rows * a->experts.slices;
    return sn_exchange_cut(rows, a->experts.chunk + 1, a->experts.chunks) -
           sn_exchange_cut(rows, a->experts.chunk, a->experts.chunks);
}

int sn_slices_sum(struct sn_emit *e, int blocks, int into, const struct sn_attr *a,
                  const char *label)
{
    struct sn_program *p = e->p;
    if (a->experts.slices <= 1 || p->failed)
        return blocks;
    bool needs = p->bufs[blocks].needs_grad;
    struct sn_view sum = sn_view_rows(p, blocks, 0, a->experts.rows);
    for (int s = 1; s < a->experts.slices; s++) {
        bool last = s == a->experts.slices - 1;
        int to = last && into >= 0
                     ? into
                     : temp(e, e->job->dtype, a->experts.rows, sum.cols, label, "slices");
        struct sn_op *op = sn_op_add(p, SN_OP_ADD, "%.50s.slices", label);
        op->in[SN_ADD_A] = sum;
        op->in[SN_ADD_B] = sn_view_rows(p, blocks, s * a->experts.rows, a->experts.rows);
        op->out[SN_ADD_Y] = sum = sn_view_all(p, to);
        op->attr.inverse = true; /* recompute.c keeps what came back, summed */
    }
    if (p->failed)
        return blocks;
    p->bufs[blocks].needs_grad = false; /* its gradient is the sum's, of every slice */
    p->bufs[sum.buf].needs_grad = needs;
    sn_origin_set(e, blocks, sum.buf);
    return sum.buf;
}

int sn_arrivals_add(struct sn_emit *e, int all, const struct sn_attr *exchange, const char *label)
{
    int64_t segments = exchange->blocks_a * exchange->experts.count;
    int bounds = temp(e, SN_I32, 1, segments + 1, label, "arrivals");
    struct sn_op *op = sn_op_add(e->p, SN_OP_RECV_OFFSETS, "%.50s", label);
    op->in[SN_RECV_OFFSETS_BOUNDS] = sn_view_all(e->p, all);
    op->out[SN_RECV_OFFSETS_ARRIVALS] = sn_view_all(e->p, bounds);
    op->attr = *exchange;
    return bounds;
}

static void between(struct sn_emit *e, struct sn_op *op, struct sn_view from, struct sn_view to,
                    int all)
{
    op->in[SN_MOVE_FROM] = from;
    op->in[SN_MOVE_BOUNDS] = sn_view_all(e->p, all);
    op->out[SN_MOVE_TO] = to;
}

struct sn_op sn_hop_op(struct sn_emit *e, enum sn_group group, struct sn_view from,
                       struct sn_view to, const struct sn_hop_of *h)
{
    struct sn_op op =
        sn_comm_op(SN_OP_EXCHANGE, group, "%.50s.%s", h->label, h->attr.inverse ? "back" : "out");
    op.attr = h->attr;
    op.attr.blocks_a = e->job->group_size[group];
    between(e, &op, from, to, h->all);
    return op;
}

struct sn_op sn_gather_rows_op(struct sn_emit *e, struct sn_view from, struct sn_view to,
                               const struct sn_hop_of *h)
{
    struct sn_op op = sn_comm_op(SN_OP_GATHER_ROWS, SN_GROUP_TENSOR, "%.50s.%s", h->label,
                                 h->attr.inverse ? "sum" : "shares");
    op.attr = h->attr;
    between(e, &op, from, to, h->all);
    return op;
}

void sn_back_begin(struct sn_emit *e, struct sn_view back, const struct sn_attr *attr,
                   const char *label)
{
    if (attr->blocks_b > 1)
        sn_op_add(e->p, SN_OP_ZERO, "%.50s.back", label)->out[SN_ZERO_X] = back;
}

/* Rows of others that are on their way from node to node. */
static int transit(struct sn_emit *e, struct sn_view like, const struct sn_hop_of *h)
{
    struct sn_exchange x = {.rows = h->attr.experts.rows,
                            .capacity = h->attr.experts.capacity,
                            .members = e->job->group_size[SN_GROUP_EXPERT],
                            .shares = (int)h->attr.blocks_b,
                            .chunks = h->attr.experts.chunks,
                            .node = e->job->grid.expert_node};
    return rows_like(e, sn_exchange_transit_most(&x), like, h->label, "transit");
}

/* Inside the node and then along the rail, or the other way round. */
static void add_hops(struct sn_emit *e, struct sn_legs *out, struct sn_view from, struct sn_view to,
                     const struct sn_hop_of *h)
{
    bool back = h->attr.inverse;
    if (e->job->grid.expert_node == 0) {
        out->op[out->n++] = sn_hop_op(e, SN_GROUP_EXPERT, from, to, h);
        return;
    }
    struct sn_view on_the_way = sn_view_all(e->p, transit(e, from, h));
    enum sn_group first = back ? SN_GROUP_EXPERT_RAIL : SN_GROUP_EXPERT_NODE;
    enum sn_group second = back ? SN_GROUP_EXPERT_NODE : SN_GROUP_EXPERT_RAIL;
    out->op[out->n++] = sn_hop_op(e, first, from, on_the_way, h);
    out->op[out->n++] = sn_hop_op(e, second, on_the_way, to, h);
}

void sn_exchange_legs(struct sn_emit *e, struct sn_legs *out, struct sn_view from,
                      struct sn_view to, const struct sn_hop_of *h)
{
    const struct sn_attr *a = &h->attr;
    out->n = 0;
    if (a->blocks_b <= 1) {
        add_hops(e, out, from, to, h);
        return;
    }
    int64_t rows = (a->experts.capacity + a->blocks_b - 1) / a->blocks_b;
    struct sn_view share = sn_view_all(e->p, rows_like(e, rows, from, h->label, "share"));
    if (a->inverse) {
        out->op[out->n++] = sn_gather_rows_op(e, from, share, h);
        add_hops(e, out, share, to, h);
    } else {
        add_hops(e, out, from, share, h);
        out->op[out->n++] = sn_gather_rows_op(e, share, to, h);
    }
}

void sn_legs_run(struct sn_emit *e, const struct sn_legs *legs)
{
    for (int i = 0; i < legs->n; i++)
        sn_comm_run(e->p, &legs->op[i]);
}

/* --- choices ------------------------------------------------------------------------------------
 *
 * With a capacity, who finds room with an expert depends on the whole sequence (docs/EXPERTS.md).
 * Where it is cut, over tensor ranks (experts folded) or context ranks, every rank gathers all
 * choices, k numbers a token, and counts as one that has the sequence does: so no layout changes
 * who passes by.
 */

static int choices_over(struct sn_emit *e, int choice, enum sn_group group, const char *label)
{
    int ranks = e->job->group_size[group];
    if (ranks == 1 || e->p->failed)
        return choice;
    int64_t rows = ranks * e->p->bufs[choice].rows, cols = e->p->bufs[choice].cols;
    int all = sn_buffer_add(e->p, SN_CLASS_TEMP, SN_I32, rows, cols, "%.80s.choice.all", label);
    struct sn_op op = sn_comm_op(SN_OP_ALL_GATHER, group, "%.50s.choices", label);
    op.in[SN_MOVE_FROM] = sn_view_all(e->p, choice);
    op.out[SN_MOVE_TO] = sn_view_all(e->p, all);
    sn_comm_run(e->p, &op);
    return all;
}

int sn_choices_gather(struct sn_emit *e, int choice, const char *label)
{
    struct sn_placement taken = sn_experts_taken(e->job);
    for (int a = e->job->mesh.n_axes - 1; a >= 0; a--)
        if (sn_placement_cuts(taken, a, SN_ROWS)) /* slices of a context rank's rows, in order */
            choice = choices_over(e, choice, e->job->mesh.axis[a].group, label);
    return choices_over(e, choice, SN_GROUP_CONTEXT, label);
}
