/*
 * lower_dense.c - every expert computes every token: how DS-MoE trains (Pan et al., "Dense
 * Training, Sparse Inference", arXiv 2404.05567, 3), so that all experts and the router's whole
 * softmax p get a gradient.
 *
 *   y = sum_e p_e down_e(silu(gate_e x) * up_e x)        over all experts
 *
 *   tokens of all members         all_gather of x and of p, where P ranks share the experts out
 *   rows by expert                place, dispatch: each token once for every expert here
 *   gate and up, SwiGLU, down     expert_gemm, swiglu, expert_gemm
 *   sum over the experts here     combine, times p
 *   sum over the others           reduce_scatter: a rank gets its own tokens
 *
 * Where tensor ranks have tokens of their own, P counts the ranks that hold slices of experts, too:
 * the sums over slices are parts of the same reduce_scatter.
 *
 * Every token is needed where there are experts, and there is one sum of it for each of the P
 * ranks: so with n tokens of D values a rank sends (P - 1) n D forward for x and as many for y, and
 * the same backward, beside (P - 1) n E numbers of p each way. Rows to each expert, as where tokens
 * choose, would be E / P times as many; the experts' weights, as ZeRO-3 sends them, pay only where
 * n is more than 3 E F / (2 P).
 *
 * Over the axes of the mesh experts are cut as ever (lower_experts.c).
 */
#include "lib/program/build.h"

bool sn_experts_dense(const struct sn_emit *e)
{
    return e->train && e->job->config->model.experts.router == SN_ROUTER_DENSE;
}

static int temp(struct sn_emit *e, const struct sn_node *n, struct sn_buffer shape,
                const char *what)
{
    int buf = sn_buffer_add(e->p, SN_CLASS_TEMP, shape.dtype, shape.rows, shape.cols, "%.80s.%s",
                            n->point, what);
    if (!e->p->failed)
        e->p->bufs[buf].needs_grad = shape.needs_grad;
    return buf;
}

static bool needs(const struct sn_emit *e, int buf)
{
    return !e->p->failed && e->p->bufs[buf].needs_grad;
}

/* Of all members of the expert group, one after the other. */
static struct sn_view gathered(struct sn_emit *e, const struct sn_node *n, struct sn_view x,
                               const char *what)
{
    int members = e->job->group_size[SN_GROUP_EXPERT];
    if (members == 1 || e->p->failed)
        return x;
    struct sn_buffer all = {.dtype = e->p->bufs[x.buf].dtype,
                            .rows = x.rows * members,
                            .cols = x.cols,
                            .needs_grad = needs(e, x.buf)};
    int to = temp(e, n, all, what);
    struct sn_op op = sn_comm_op(SN_OP_ALL_GATHER, SN_GROUP_EXPERT, "%.50s.%s", n->point, what);
    op.grad_move = SN_MOVE_REDUCE_SCATTER;
    op.in[SN_MOVE_FROM] = x;
    op.out[SN_MOVE_TO] = sn_view_all(e->p, to);
    sn_comm_run(e->p, &op);
    return op.out[SN_MOVE_TO];
}

/* The sum over members, of which each has its own tokens. */
static void scattered(struct sn_emit *e, const struct sn_node *n, struct sn_view sum,
                      struct sn_view own)
{
    struct sn_op op = sn_comm_op(SN_OP_REDUCE_SCATTER, SN_GROUP_EXPERT, "%.50s.sum", n->point);
    op.grad_move = SN_MOVE_ALL_GATHER;
    op.in[SN_MOVE_FROM] = sum;
    op.out[SN_MOVE_TO] = own;
    sn_comm_run(e->p, &op);
}

/* A row for each token and expert here: where they lie. */
static void place(struct sn_emit *e, const struct sn_node *n, int64_t rows)
{
    struct sn_buffer places = {.dtype = SN_I32, .rows = rows, .cols = n->attr.experts.count};
    struct sn_buffer bounds = {.dtype = SN_I32, .rows = 1, .cols = sn_experts_here(e) + 1};
    e->routes.place = temp(e, n, places, "place");
    e->routes.bounds = temp(e, n, bounds, "bounds");
    struct sn_op *op = sn_op_add(e->p, SN_OP_MOE_PERMUTE, "%s", n->point);
    op->out[SN_MOE_PERMUTE_PLACE] = sn_view_all(e->p, e->routes.place);
    op->out[SN_MOE_PERMUTE_BOUNDS] = sn_view_all(e->p, e->routes.bounds);
    op->attr.experts.dense = true;
    op->attr.experts.count = sn_experts_here(e);
    op->attr.experts.member =
        e->job->group_index[SN_GROUP_EXPERT] / sn_config_slices(e->job->config);
}

static int dispatched(struct sn_emit *e, const struct sn_node *n, struct sn_view x)
{
    struct sn_buffer rows = {.dtype = e->job->dtype,
                             .rows = x.rows * sn_experts_here(e),
                             .cols = x.cols,
                             .needs_grad = needs(e, x.buf)};
    int xs = temp(e, n, rows, "x");
    struct sn_op *op = sn_op_add(e->p, SN_OP_DISPATCH, "%s", n->point);
    op->in[SN_DISPATCH_X] = x;
    op->in[SN_DISPATCH_PLACE] = sn_view_all(e->p, e->routes.place);
    op->out[SN_DISPATCH_Y] = sn_view_all(e->p, xs);
    return xs;
}

void sn_lower_dense(struct sn_emit *e, const struct sn_node *n)
{
    struct sn_program *p = e->p;
    struct sn_view x = gathered(e, n, sn_take(e, n->in[0], sn_experts_taken(e->job)), "tokens");
    struct sn_view w = gathered(e, n, sn_view_all(p, e->routes.w), "weights");
    place(e, n, x.rows);
    int ys = sn_feed_forward(e, n, dispatched(e, n, x), e->routes.bounds);
    struct sn_view y = sn_view_all(p, sn_result(e, n, x.cols, sn_experts_given(e->job))), sum = y;
    if (x.rows != y.rows) {
        struct sn_buffer all = {
            .dtype = e->job->dtype, .rows = x.rows, .cols = x.cols, .needs_grad = needs(e, y.buf)};
        sum = sn_view_all(p, temp(e, n, all, "all"));
    }
    struct sn_op *op = sn_op_add(p, SN_OP_COMBINE, "%s", n->point);
    op->in[SN_COMBINE_X] = sn_view_all(p, ys);
    op->in[SN_COMBINE_PLACE] = sn_view_all(p, e->routes.place);
    op->in[SN_COMBINE_W] = w;
    op->out[SN_COMBINE_Y] = sum;
    if (sum.buf != y.buf)
        scattered(e, n, sum, y);
}
