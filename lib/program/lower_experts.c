/*
 * lower_experts.c - a router, and the experts that its tokens visit.
 *
 *   logits = x W^T                    gemm, fp32
 *   w, choice = the k largest         route; a sparsemixer's are drawn (kernels/mixer.h)
 *   rows by expert                    place
 *   x to those rows                   dispatch
 *   gate and up, SwiGLU, down         expert_gemm, swiglu, expert_gemm
 *   y = sum of w times its rows       combine
 *
 * Over the tensor axis the experts are cut as a feed-forward part is: x comes SHARED, each rank
 * routes all tokens alike, and y is PARTIAL. So are the gradients of w and with it those of the
 * router, which are summed like norms' under sequence parallelism (parts.c); what the losses add to
 * them enters on the first rank alone.
 *
 * Where a group of replicas shares the experts out (layout.expert), rows go to the experts' ranks
 * and come back between dispatch and combine (exchange; Singh et al., "DeepSpeed-TED", arXiv
 * 2303.06318, 3). A rank takes `expert_buffer` times the mean at once; what exceeds that comes in
 * further rounds, of which nothing is kept (grad_experts.c computes them again).
 *
 * Where the layout says so (expert_node), a row goes to its expert in two hops, by way of a transit
 * on the sender's node: fewer and longer messages between nodes (lib/layout/exchange.h).
 *
 * Tensor ranks have the same tokens, so each row would travel once for each of them. With
 * drop_duplicates each exchanges an equal share of a window's rows: the shares are gathered before
 * the experts, and what comes from them, a sum over tensor ranks, is reduced and scattered before
 * it goes back (the same paper, 5.1, with reduce-scatter in place of all-reduce and drop). A row
 * comes back to one rank, elsewhere it is 0: so y is PARTIAL, as without.
 *
 * With layout.expert_tensor 1 the experts are whole, and tensor ranks have tokens of their own,
 * slices of sequences: they count as replicas do, x and y are SPLIT, and nothing goes over the
 * tensor axis (parallel folding: Liu et al., "MoE Parallel Folding", arXiv 2504.14960).
 *
 * The load-balancing loss counts the tokens of a micro-batch over all replicas (docs/EXPERTS.md).
 */
#include "lib/layout/exchange.h"
#include "lib/program/build.h"

static const struct sn_layout_form shared = {SN_SHARED, SN_ROWS}, partial = {SN_PARTIAL, SN_ROWS};

static bool is_folded(const struct sn_emit *e)
{
    return e->job->grid.fold > 1;
}

/* The forms of x and y. */
static struct sn_layout_form taken(const struct sn_emit *e)
{
    return is_folded(e) ? sn_region(e->job) : shared;
}

static struct sn_layout_form given(const struct sn_emit *e)
{
    return is_folded(e) ? sn_region(e->job) : partial;
}

/* Tokens that this rank routes. */
static int64_t tokens(const struct sn_emit *e)
{
    return e->job->rows / (is_folded(e) ? e->job->group_size[SN_GROUP_TENSOR] : 1);
}

static int temp(struct sn_emit *e, enum sn_dtype dtype, int64_t rows, int64_t cols,
                const char *point, const char *what)
{
    return sn_buffer_add(e->p, SN_CLASS_TEMP, dtype, rows, cols, "%.80s.%s", point, what);
}

static bool needs(const struct sn_emit *e, int buf)
{
    return !e->p->failed && e->p->bufs[buf].needs_grad;
}

static void set_needs(struct sn_emit *e, int buf, bool yes)
{
    if (!e->p->failed)
        e->p->bufs[buf].needs_grad = yes;
}

/* --- the router ----------------------------------------------------------------------------------
 */

/* Counts of one rank, summed over a group. */
static int count_over(struct sn_emit *e, const struct sn_node *n, int counts, enum sn_group group)
{
    if (e->job->group_size[group] == 1)
        return counts;
    int all = temp(e, SN_F32, 1, n->attr.experts, n->point, "counts.all");
    struct sn_op op = sn_comm_op(SN_OP_ALL_REDUCE, group, "%.50s.counts", n->point);
    op.in[0] = sn_view_all(e->p, counts);
    op.out[0] = sn_view_all(e->p, all);
    sn_comm_run(e->p, &op);
    return all;
}

/* How often each expert is chosen by the tokens of all replicas; `counts` are those of this one. */
static int count_all(struct sn_emit *e, const struct sn_node *n, int counts)
{
    if (n->attr.aux_loss <= 0)
        return counts;
    if (is_folded(e))
        counts = count_over(e, n, counts, SN_GROUP_TENSOR);
    return count_over(e, n, counts, SN_GROUP_REPLICA);
}

static void add_losses(struct sn_emit *e, const struct sn_node *n, int logits, int counts)
{
    if (!e->train || (n->attr.aux_loss <= 0 && n->attr.z_loss <= 0))
        return;
    int all = count_all(e, n, counts);
    struct sn_op *op = sn_op_add(e->p, SN_OP_ROUTE_LOSS, "%s", n->point);
    op->in[0] = sn_view_all(e->p, logits);
    op->in[1] = sn_view_all(e->p, all);
    op->only = is_folded(e) ? 0 : 1u << SN_GROUP_TENSOR; /* the others have the same */
}

/* What each expert got in this step so far; the update moves the bias by it. Not repeated by
 * recomputation: it leads to no gradient. */
static void add_counts(struct sn_emit *e, const struct sn_node *n, int counts)
{
    int part = n->param[1] < 0 ? -1 : e->job->first_part[n->param[1]];
    int grad = part < 0 || !e->train ? -1 : e->job->buckets[e->job->parts[part].bucket].grad;
    if (grad < 0)
        return;
    struct sn_op *op = sn_op_add(e->p, SN_OP_COPY, "%.50s.count", n->point);
    op->in[0] = sn_view_all(e->p, counts);
    op->out[0] = sn_weight_flat(e, part);
    op->out[0].buf = grad;
    op->acc[0] = e->grad_written[part] ? SN_ACC_ADD : SN_ACC_FIRST_WRITES;
    e->grad_written[part] = true; /* layers that share a router share its bias */
}

/* The same for the report of the step, of each layer apart. */
static void add_load(struct sn_emit *e, const struct sn_node *n, int counts)
{
    if (!e->train)
        return;
    struct sn_op *op = sn_op_add(e->p, SN_OP_COPY, "%.50s.load", n->point);
    op->in[0] = sn_view_all(e->p, counts);
    op->out[0] =
        sn_view_rows(e->p, e->job->load, n->layer / e->job->config->model.experts.every, 1);
    op->acc[0] = SN_ACC_FIRST_WRITES;
}

static int place(struct sn_emit *e, const struct sn_node *n, int choice)
{
    struct sn_program *p = e->p;
    int all = n->attr.capacity > 0 ? sn_choices_gather(e, choice, n->point) : choice;
    struct sn_routes *r = &e->routes;
    r->place = temp(e, SN_I32, tokens(e), e->job->config->model.experts.top_k, n->point, "place");
    r->bounds = temp(e, SN_I32, 1, n->attr.experts + 1, n->point, "bounds");
    struct sn_op *op = sn_op_add(p, SN_OP_PLACE, "%s", n->point);
    struct sn_attr at = sn_localised(e, n);
    op->in[0] = sn_view_all(p, choice);
    op->in[1] = all == choice ? sn_no_view : sn_view_all(p, all);
    op->out[0] = sn_view_all(p, r->place);
    op->out[1] = sn_view_all(p, r->bounds);
    op->attr.experts = n->attr.experts;
    op->attr.capacity = n->attr.capacity;
    op->attr.seq = n->attr.seq;
    op->attr.context = at.context;
    op->attr.context_rank = at.context_rank;
    op->attr.zigzag = at.zigzag;
    op->attr.row0 = is_folded(e) ? tokens(e) * e->job->group_index[SN_GROUP_TENSOR] : 0;
    return r->place;
}

/* Attributes of what draws numbers for tokens: those of the token, whichever ranks route it. */
static struct sn_attr of_tokens(const struct sn_emit *e, const struct sn_node *n)
{
    struct sn_attr a = sn_localised(e, n);
    a.row0 = is_folded(e) ? tokens(e) * e->job->group_index[SN_GROUP_TENSOR] : 0;
    return a;
}

/* Noise on what the router sees, in training alone; the experts see x. */
static struct sn_view jittered(struct sn_emit *e, const struct sn_node *n, struct sn_view x)
{
    if (!e->train || n->attr.jitter <= 0 || e->p->failed)
        return x;
    int y = temp(e, e->p->bufs[x.buf].dtype, x.rows, x.cols, n->point, "jitter");
    set_needs(e, y, needs(e, x.buf));
    struct sn_op *op = sn_op_add(e->p, SN_OP_JITTER, "%s", n->point);
    op->in[0] = x;
    op->out[0] = sn_view_all(e->p, y);
    op->attr = of_tokens(e, n);
    return op->out[0];
}

/* Which experts a token visits, from its logits. What w adds to the gradient of is w; of a
 * sparsemixer it is p, which the gradient of the sum reads (grad_experts.c). */
static int route(struct sn_emit *e, const struct sn_node *n, int logits)
{
    int64_t rows = tokens(e), k = e->job->config->model.experts.top_k;
    int w = temp(e, SN_F32, rows, k, n->point, "w");
    int choice = temp(e, SN_I32, rows, k, n->point, "choice");
    int counts = temp(e, SN_F32, 1, n->attr.experts, n->point, "counts");
    int p = n->attr.sparsemixer && e->train ? temp(e, SN_F32, rows, k, n->point, "p") : -1;
    set_needs(e, w, needs(e, logits));
    struct sn_op *op = sn_op_add(e->p, SN_OP_ROUTE, "%s", n->point);
    op->in[0] = sn_view_all(e->p, logits);
    op->in[1] = n->param[1] < 0 ? sn_no_view : sn_weight_flat(e, e->job->first_part[n->param[1]]);
    op->out[0] = sn_view_all(e->p, w);
    op->out[1] = sn_view_all(e->p, choice);
    op->out[2] = sn_view_all(e->p, counts);
    op->out[3] = p < 0 ? sn_no_view : sn_view_all(e->p, p);
    op->attr = of_tokens(e, n);
    op->attr.draws = e->train;
    add_losses(e, n, logits, counts);
    add_counts(e, n, counts);
    add_load(e, n, counts);
    e->routes.w = w;
    return choice;
}

void sn_lower_router(struct sn_emit *e, const struct sn_node *n)
{
    struct sn_program *p = e->p;
    int part = e->job->first_part[n->param[0]];
    struct sn_view x = jittered(e, n, sn_take(e, n->in[0], taken(e)));
    bool trains = needs(e, x.buf) || sn_part_trains(e, part);
    int logits = temp(e, SN_F32, tokens(e), n->attr.experts, n->point, "logits");
    struct sn_op *op = sn_op_add(p, SN_OP_GEMM, "%s", n->point);
    op->in[0] = x;
    op->in[1] = sn_weight(e, part);
    op->out[0] = sn_view_all(p, logits);
    op->attr.trans_b = true;
    set_needs(e, logits, trains);
    (void)place(e, n, route(e, n, logits));
    e->value[n->out] = (struct sn_value_place){e->routes.w, taken(e), e->routes.w};
}

/* --- the experts ---------------------------------------------------------------------------------
 */

int64_t sn_expert_rows(const struct sn_config *c)
{
    const struct sn_model_config *m = &c->model;
    const struct sn_layout_config *l = &c->layout;
    int64_t rows = (int64_t)l->micro_batch * m->seq / l->context;
    int64_t all = rows / sn_config_fold(c) * m->experts.top_k;
    int64_t room = sn_expert_capacity(m) * m->experts.count * l->micro_batch;
    return room > 0 && room < all ? room : all;
}

static int64_t expert_rows(const struct sn_emit *e)
{
    return sn_expert_rows(e->job->config);
}

int sn_experts_here(const struct sn_emit *e)
{
    return e->job->config->model.experts.count / e->job->group_size[SN_GROUP_EXPERT];
}

/* Rows of a layer's tokens that are at the experts: a buffer of them, and their bounds. */
struct rows {
    int x, bounds;
};

/* A product with a stack of experts' matrices, in segments. */
static int product(struct sn_emit *e, const struct sn_node *n, struct rows in, int k,
                   const char *what)
{
    struct sn_program *p = e->p;
    int part = e->job->first_part[n->param[k]], x = in.x;
    int64_t cols = e->job->parts[part].rows / sn_experts_here(e);
    int64_t rows = p->failed ? 0 : p->bufs[x].rows;
    int y = temp(e, e->job->dtype, rows, cols, n->point, what);
    set_needs(e, y, needs(e, x) || sn_part_trains(e, part));
    struct sn_op *op = sn_op_add(p, SN_OP_EXPERT_GEMM, "%.50s.%s", n->point, what);
    op->in[0] = sn_view_all(p, x);
    op->in[1] = sn_weight(e, part);
    op->in[2] = sn_view_all(p, in.bounds);
    op->out[0] = sn_view_all(p, y);
    op->attr.trans_b = true;
    op->attr.experts = sn_experts_here(e);
    op->attr.rows = e->job->group_size[SN_GROUP_EXPERT] > 1 ? expert_rows(e) : 0;
    return y;
}

static int swiglu(struct sn_emit *e, const struct sn_node *n, struct rows in)
{
    int x = in.x;
    if (e->p->failed)
        return 0;
    int y = temp(e, e->job->dtype, e->p->bufs[x].rows, e->p->bufs[x].cols / 2, n->point, "act");
    set_needs(e, y, needs(e, x));
    struct sn_op *op = sn_op_add(e->p, SN_OP_SWIGLU, "%.50s.act", n->point);
    op->in[0] = sn_view_all(e->p, x);
    op->in[1] = sn_view_all(e->p, in.bounds);
    op->out[0] = sn_view_all(e->p, y);
    return y;
}

static int feed_forward(struct sn_emit *e, const struct sn_node *n, struct rows in)
{
    struct rows h = {product(e, n, in, 0, "gate_up"), in.bounds};
    h.x = swiglu(e, n, h);
    return product(e, n, h, 1, "down");
}

/* --- experts of other ranks ----------------------------------------------------------------------
 */

static void gather(struct sn_emit *e, const struct sn_node *n, enum sn_group group, int from,
                   int to)
{
    struct sn_op op = sn_comm_op(SN_OP_ALL_GATHER, group, "%.50s.bounds", n->point);
    op.in[0] = sn_view_all(e->p, from);
    op.out[0] = sn_view_all(e->p, to);
    sn_comm_run(e->p, &op);
}

/* Everybody's bounds: all members know who sends how many rows to whom. In two hops those of a node
 * and then of all nodes, which is the order of members. */
static int gather_bounds(struct sn_emit *e, const struct sn_node *n)
{
    const int *members = e->job->group_size;
    int64_t cols = n->attr.experts + 1;
    int all = temp(e, SN_I32, members[SN_GROUP_EXPERT], cols, n->point, "bounds.all");
    if (e->job->grid.expert_node == 0) {
        gather(e, n, SN_GROUP_EXPERT, e->routes.bounds, all);
        return all;
    }
    int node = temp(e, SN_I32, members[SN_GROUP_EXPERT_NODE], cols, n->point, "bounds.node");
    gather(e, n, SN_GROUP_EXPERT_NODE, e->routes.bounds, node);
    gather(e, n, SN_GROUP_EXPERT_RAIL, node, all);
    return all;
}

/* Tensor ranks that share a window; 1: each has all of it. */
static int64_t shares(const struct sn_emit *e)
{
    return e->job->config->layout.drop_duplicates && !is_folded(e)
               ? e->job->group_size[SN_GROUP_TENSOR]
               : 1;
}

static struct sn_attr exchange_attr(const struct sn_emit *e)
{
    int64_t rows = expert_rows(e), members = e->job->group_size[SN_GROUP_EXPERT];
    double factor = e->job->config->layout.expert_buffer;
    int64_t most = rows * members, room = (int64_t)(factor * (double)rows);
    return (struct sn_attr){.experts = sn_experts_here(e),
                            .rows = rows,
                            .capacity = room < 1      ? 1
                                        : room < most ? room
                                                      : most,
                            .blocks_a = members,
                            .blocks_b = shares(e),
                            .member = e->job->group_index[SN_GROUP_EXPERT]};
}

int sn_arrivals_add(struct sn_emit *e, int all, const struct sn_attr *exchange, const char *label)
{
    int64_t segments = exchange->blocks_a * exchange->experts;
    int bounds = temp(e, SN_I32, 1, segments + 1, label, "arrivals");
    struct sn_op *op = sn_op_add(e->p, SN_OP_ARRIVE, "%.50s", label);
    op->in[0] = sn_view_all(e->p, all);
    op->out[0] = sn_view_all(e->p, bounds);
    op->attr = *exchange;
    return bounds;
}

static void move_rows(struct sn_emit *e, struct sn_op *op, struct sn_view from, struct sn_view to,
                      int all)
{
    op->in[0] = from;
    op->in[1] = sn_view_all(e->p, all);
    op->out[0] = to;
    sn_comm_run(e->p, op);
}

void sn_hop_add(struct sn_emit *e, enum sn_group group, struct sn_view from, struct sn_view to,
                const struct sn_hop_of *h)
{
    struct sn_op op =
        sn_comm_op(SN_OP_EXCHANGE, group, "%.50s.%s", h->label, h->attr.inverse ? "back" : "out");
    op.attr = h->attr;
    op.attr.blocks_a = e->job->group_size[group];
    move_rows(e, &op, from, to, h->all);
}

/* Rows of others that are on their way from node to node. */
static int transit(struct sn_emit *e, struct sn_view like, const struct sn_hop_of *h)
{
    struct sn_exchange x = {.rows = h->attr.rows,
                            .capacity = h->attr.capacity,
                            .members = e->job->group_size[SN_GROUP_EXPERT],
                            .shares = (int)h->attr.blocks_b,
                            .node = e->job->grid.expert_node};
    int buf = temp(e, e->job->dtype, sn_exchange_transit_most(&x), like.cols, h->label, "transit");
    set_needs(e, buf, needs(e, like.buf));
    return buf;
}

/* Inside the node and then along the rail, or the other way round. */
static void exchange_share(struct sn_emit *e, struct sn_view from, struct sn_view to,
                           const struct sn_hop_of *h)
{
    bool back = h->attr.inverse;
    if (e->job->grid.expert_node == 0) {
        sn_hop_add(e, SN_GROUP_EXPERT, from, to, h);
        return;
    }
    struct sn_view between = sn_view_all(e->p, transit(e, from, h));
    sn_hop_add(e, back ? SN_GROUP_EXPERT_RAIL : SN_GROUP_EXPERT_NODE, from, between, h);
    sn_hop_add(e, back ? SN_GROUP_EXPERT_NODE : SN_GROUP_EXPERT_RAIL, between, to, h);
}

void sn_gather_rows_add(struct sn_emit *e, struct sn_view from, struct sn_view to, int all,
                        const struct sn_attr *attr, const char *label)
{
    struct sn_op op = sn_comm_op(SN_OP_GATHER_ROWS, SN_GROUP_TENSOR, "%.50s.%s", label,
                                 attr->inverse ? "sum" : "shares");
    op.attr = *attr;
    move_rows(e, &op, from, to, all);
}

void sn_back_begin(struct sn_emit *e, struct sn_view back, const struct sn_attr *attr,
                   const char *label)
{
    if (attr->blocks_b > 1)
        sn_op_add(e->p, SN_OP_ZERO, "%.50s.back", label)->out[0] = back;
}

void sn_exchange_add(struct sn_emit *e, struct sn_view from, struct sn_view to, int all,
                     const struct sn_attr *attr, const char *label)
{
    struct sn_hop_of h = {.attr = *attr, .all = all, .label = label};
    if (attr->blocks_b <= 1) {
        exchange_share(e, from, to, &h);
        return;
    }
    int64_t rows = (attr->capacity + attr->blocks_b - 1) / attr->blocks_b;
    int share = temp(e, e->job->dtype, rows, from.cols, label, "share");
    set_needs(e, share, needs(e, from.buf));
    struct sn_view all_of_it = sn_view_all(e->p, share);
    if (attr->inverse) {
        sn_gather_rows_add(e, from, all_of_it, all, attr, label);
        exchange_share(e, all_of_it, to, &h);
    } else {
        exchange_share(e, from, all_of_it, &h);
        sn_gather_rows_add(e, all_of_it, to, all, attr, label);
    }
}

/* One window of rows, to the experts and back. */
static void one_round(struct sn_emit *e, const struct sn_node *n, int sent, int back)
{
    struct sn_attr a = exchange_attr(e);
    int64_t cols = e->p->failed ? 0 : e->p->bufs[sent].cols;
    struct rows in = {temp(e, e->job->dtype, a.capacity, cols, n->point, "window"), 0};
    in.bounds = sn_arrivals_add(e, e->routes.all, &a, n->point);
    set_needs(e, in.x, needs(e, sent));
    sn_exchange_add(e, sn_view_all(e->p, sent), sn_view_all(e->p, in.x), e->routes.all, &a,
                    n->point);
    int ys = feed_forward(e, n, in);
    set_needs(e, back, needs(e, ys));
    a.inverse = true;
    sn_exchange_add(e, sn_view_all(e->p, ys), sn_view_all(e->p, back), e->routes.all, &a, n->point);
}

static int elsewhere(struct sn_emit *e, const struct sn_node *n, int sent)
{
    int64_t rows = expert_rows(e), cols = e->p->failed ? 0 : e->p->bufs[sent].cols;
    e->routes.all = gather_bounds(e, n);
    int back = temp(e, e->job->dtype, rows, cols, n->point, "back");
    struct sn_attr a = exchange_attr(e);
    sn_back_begin(e, sn_view_all(e->p, back), &a, n->point);
    one_round(e, n, sent, back);
    e->p->extra = true;
    one_round(e, n, sent, back);
    e->p->extra = false;
    return back;
}

void sn_lower_experts(struct sn_emit *e, const struct sn_node *n)
{
    struct sn_program *p = e->p;
    struct sn_view x = sn_take(e, n->in[0], taken(e));
    int xs = temp(e, e->job->dtype, expert_rows(e), x.cols, n->point, "x");
    set_needs(e, xs, needs(e, x.buf));
    struct sn_op *op = sn_op_add(p, SN_OP_DISPATCH, "%s", n->point);
    op->in[0] = x;
    op->in[1] = sn_view_all(p, e->routes.place);
    op->out[0] = sn_view_all(p, xs);
    bool here = e->job->group_size[SN_GROUP_EXPERT] == 1;
    int ys = here ? feed_forward(e, n, (struct rows){xs, e->routes.bounds}) : elsewhere(e, n, xs);
    int y = sn_result(e, n, x.cols, given(e));
    op = sn_op_add(p, SN_OP_COMBINE, "%s", n->point);
    op->in[0] = sn_view_all(p, ys);
    op->in[1] = sn_view_all(p, e->routes.place);
    op->in[2] = sn_view_all(p, e->routes.w);
    op->out[0] = sn_view_all(p, y);
}
