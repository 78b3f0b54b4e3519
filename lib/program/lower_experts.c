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
 * Tensor ranks cut the experts as a feed-forward part: x comes whole (REPLICATE_PARTIAL_GRAD), each
 * rank routes all tokens alike, and y is PARTIAL. So are the gradients of w and with it those of
 * the router, which are summed like norms' under sequence parallelism (shards.c); what the losses
 * add to them enters on the first rank alone.
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
 * Tensor ranks may route tokens of their own, slices of sequences: then x and y are SHARD, nothing
 * goes over the tensor axis, and an expert is cut over u of them (layout.expert_tensor; parallel
 * folding: Liu et al., "MoE Parallel Folding", arXiv 2504.14960). Blocks of u tensor ranks count as
 * replicas do. A row goes to the u ranks that have slices of its expert, in one exchange over the
 * slices of all experts, and what comes back is summed where it began; with u = 1 experts are
 * whole. With u = T and expert_tokens: split it is S1 of Pan et al., "Parm", arXiv 2407.00599.
 *
 * Where all experts compute all tokens (router: dense, in training) is lower_dense.c.
 *
 * The load-balancing loss counts the tokens of a micro-batch over all replicas, or those of each sequence
 * over the ranks that have some of it (docs/EXPERTS.md).
 */
#include "lib/layout/exchange.h"
#include "lib/program/build.h"

bool sn_experts_travel(const struct sn_emit *e)
{
    return e->job->group_size[SN_GROUP_EXPERT] > 1 && !sn_experts_dense(e);
}

/* Of x and y: where experts are folded, a tensor rank routes the tokens that it has. */
struct sn_placement sn_experts_taken(const struct sn_job *j)
{
    return j->grid.fold > 1 ? sn_region(j) : sn_cut_of(j, "ffn.experts").want;
}

struct sn_placement sn_experts_given(const struct sn_job *j)
{
    return j->grid.fold > 1 ? sn_region(j) : sn_cut_of(j, "ffn.experts").give;
}

/* Tokens that this rank routes. */
static int64_t tokens(const struct sn_emit *e)
{
    return sn_rows_here(e->job, sn_experts_taken(e->job));
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

/* --- the router ------------------------------------------------------------------------------- */

/* Counts of one rank, summed over a group. */
static int count_over(struct sn_emit *e, const struct sn_node *n, int counts, enum sn_group group)
{
    if (e->job->group_size[group] == 1)
        return counts;
    int64_t rows = e->p->failed ? 0 : e->p->bufs[counts].rows;
    int all = temp(e, SN_F32, rows, n->attr.experts.count, n->point, "counts.all");
    struct sn_op op = sn_comm_op(SN_OP_ALL_REDUCE, group, "%.50s.counts", n->point);
    op.in[SN_MOVE_FROM] = sn_view_all(e->p, counts);
    op.out[SN_MOVE_TO] = sn_view_all(e->p, all);
    sn_comm_run(e->p, &op);
    return all;
}

/* How often each expert is chosen by the tokens that are balanced together; `counts` are those of this rank. */
static int count_all(struct sn_emit *e, const struct sn_node *n, int counts)
{
    if (n->attr.experts.aux_loss <= 0)
        return counts;
    struct sn_placement taken = sn_experts_taken(e->job);
    for (int a = 0; a < e->job->mesh.n_axes; a++)
        if (sn_placement_cuts(taken, a, SN_ROWS))
            counts = count_over(e, n, counts, e->job->mesh.axis[a].group);
    return count_over(e, n, counts, n->attr.experts.by_sequence ? SN_GROUP_CONTEXT : SN_GROUP_REPLICA);
}

/* Attributes that say which tokens are here: those of the token, whichever ranks route it. */
static struct sn_attr of_tokens(const struct sn_emit *e, const struct sn_node *n)
{
    struct sn_attr a = sn_localised(e, n);
    a.position.row0 = sn_first_row(e->job, sn_experts_taken(e->job));
    return a;
}

static void add_losses(struct sn_emit *e, const struct sn_node *n, int logits, int counts)
{
    if (!e->train || (n->attr.experts.aux_loss <= 0 && n->attr.experts.z_loss <= 0))
        return;
    int all = count_all(e, n, counts);
    struct sn_op *op = sn_op_add(e->p, SN_OP_ROUTE_LOSS, "%s", n->point);
    op->in[SN_ROUTE_LOSS_LOGITS] = sn_view_all(e->p, logits);
    op->in[SN_ROUTE_LOSS_COUNTS] = sn_view_all(e->p, all);
    op->attr.experts.dense = n->attr.experts.dense;
    op->attr.experts.sigmoid = n->attr.experts.sigmoid;
    op->attr.experts.by_sequence = n->attr.experts.by_sequence;
    op->attr.position = of_tokens(e, n).position;
    op->only = sn_placement_groups(&e->job->mesh, sn_experts_taken(e->job),
                                   SN_REPLICATE_PARTIAL_GRAD); /* the others have the same */
}

/* What each expert got in this step so far; the update moves the bias by it. Not repeated by
 * recomputation: it leads to no gradient. */
static void add_counts(struct sn_emit *e, const struct sn_node *n, int counts)
{
    int shard = n->param[1] < 0 ? -1 : e->job->first_shard[n->param[1]];
    int grad = shard < 0 || !e->train ? -1 : e->job->buckets[e->job->shards[shard].bucket].grad;
    if (grad < 0)
        return;
    struct sn_op *op = sn_op_add(e->p, SN_OP_COPY, "%.50s.count", n->point);
    op->in[SN_COPY_X] = sn_view_all(e->p, counts);
    op->out[SN_COPY_Y] = sn_weight_flat(e, shard);
    op->out[SN_COPY_Y].buf = grad;
    op->acc[SN_COPY_Y] = e->grad_written[shard] ? SN_ACC_ADD : SN_ACC_FIRST_WRITES;
    e->grad_written[shard] = true; /* layers that share a router share its bias */
}

/* The same for the report of the step, of each layer apart. */
static void add_load(struct sn_emit *e, const struct sn_node *n, int counts)
{
    if (!e->train)
        return;
    struct sn_op *op = sn_op_add(e->p, SN_OP_COPY, "%.50s.load", n->point);
    op->in[SN_COPY_X] = sn_view_all(e->p, counts);
    op->out[SN_COPY_Y] =
        sn_view_rows(e->p, e->job->expert_load, sn_expert_layers_before(&e->job->config->model, n->layer), 1);
    op->acc[SN_COPY_Y] = SN_ACC_FIRST_WRITES;
}

/* Rows of each sample that an expert takes; 0: all. Where text is generated all: what a row gives is of the
 * rows before it alone, and the same however many follow. */
static int64_t capacity_of(const struct sn_emit *e, const struct sn_node *n)
{
    return e->generate ? 0 : n->attr.experts.capacity;
}

static void place(struct sn_emit *e, const struct sn_node *n, int choice)
{
    struct sn_program *p = e->p;
    int all = capacity_of(e, n) > 0 ? sn_choices_gather(e, choice, n->point) : choice;
    struct sn_routes *r = &e->routes;
    r->place = temp(e, SN_I32, tokens(e), e->job->config->model.experts.top_k, n->point, "place");
    r->bounds = temp(e, SN_I32, 1, n->attr.experts.count + 1, n->point, "bounds");
    struct sn_op *op = sn_op_add(p, SN_OP_MOE_PERMUTE, "%s", n->point);
    struct sn_attr at = of_tokens(e, n);
    op->in[SN_MOE_PERMUTE_CHOICE] = sn_view_all(p, choice);
    op->in[SN_MOE_PERMUTE_ALL] = all == choice ? sn_no_view : sn_view_all(p, all);
    op->out[SN_MOE_PERMUTE_PLACE] = sn_view_all(p, r->place);
    op->out[SN_MOE_PERMUTE_BOUNDS] = sn_view_all(p, r->bounds);
    op->attr.experts.count = n->attr.experts.count;
    op->attr.experts.capacity = capacity_of(e, n);
    op->attr.position.seq = n->attr.position.seq;
    op->attr.position.context = at.position.context;
    op->attr.position.context_rank = at.position.context_rank;
    op->attr.position.zigzag = at.position.zigzag;
    op->attr.position.row0 = at.position.row0;
    op->at_row = e->row;
}

/* Noise on what the router sees, in training alone; the experts see x. */
static struct sn_view jittered(struct sn_emit *e, const struct sn_node *n, struct sn_view x)
{
    if (!e->train || n->attr.random.jitter <= 0 || e->p->failed)
        return x;
    int y = temp(e, e->p->bufs[x.buf].dtype, x.rows, x.cols, n->point, "jitter");
    set_needs(e, y, needs(e, x.buf));
    struct sn_op *op = sn_op_add(e->p, SN_OP_JITTER, "%s", n->point);
    op->in[SN_NOISE_X] = x;
    op->out[SN_NOISE_Y] = sn_view_all(e->p, y);
    op->attr = of_tokens(e, n);
    return op->out[SN_NOISE_Y];
}

/* Which experts a token visits, from its logits. What w adds to the gradient of is w; of a
 * sparsemixer it is p, which the gradient of the sum reads (grad_experts.c). */
static int route(struct sn_emit *e, const struct sn_node *n, int logits)
{
    bool dense = sn_experts_dense(e);
    int64_t rows = tokens(e),
            k = dense ? n->attr.experts.count : e->job->config->model.experts.top_k;
    int w = temp(e, SN_F32, rows, k, n->point, "w");
    int choice = dense ? -1 : temp(e, SN_I32, rows, k, n->point, "choice");
    int counts = temp(e, SN_F32, 1, n->attr.experts.count, n->point, "counts");
    int p = n->attr.experts.sparsemixer && e->train ? temp(e, SN_F32, rows, k, n->point, "p") : -1;
    bool each = n->attr.experts.by_sequence && e->train;
    int64_t samples = e->job->config->layout.micro_batch;
    int sums = each ? temp(e, SN_F32, samples, n->attr.experts.count, n->point, "sequences") : -1;
    int own = each && n->param[1] >= 0 ? temp(e, SN_I32, rows, k, n->point, "own") : -1;
    set_needs(e, w, needs(e, logits));
    struct sn_op *op = sn_op_add(e->p, SN_OP_ROUTE, "%s", n->point);
    op->in[SN_ROUTE_LOGITS] = sn_view_all(e->p, logits);
    op->in[SN_ROUTE_BIAS] =
        n->param[1] < 0 ? sn_no_view : sn_weight_flat(e, e->job->first_shard[n->param[1]]);
    op->out[SN_ROUTE_W] = sn_view_all(e->p, w);
    op->out[SN_ROUTE_CHOICE] = choice < 0 ? sn_no_view : sn_view_all(e->p, choice);
    op->out[SN_ROUTE_COUNTS] = sn_view_all(e->p, counts);
    op->out[SN_ROUTE_P] = p < 0 ? sn_no_view : sn_view_all(e->p, p);
    op->out[SN_ROUTE_SEQUENCES] = sums < 0 ? sn_no_view : sn_view_all(e->p, sums);
    op->out[SN_ROUTE_OWN] = own < 0 ? sn_no_view : sn_view_all(e->p, own);
    op->attr = of_tokens(e, n);
    op->at_row = e->row;
    op->attr.draws = e->train;
    op->attr.experts.dense = dense;
    add_losses(e, n, logits, sums < 0 ? counts : sums);
    add_counts(e, n, counts);
    add_load(e, n, counts);
    e->routes.w = w;
    return choice;
}

void sn_lower_router(struct sn_emit *e, const struct sn_node *n)
{
    struct sn_program *p = e->p;
    int shard = e->job->first_shard[n->param[0]];
    struct sn_view x = jittered(e, n, sn_take(e, n->in[0], sn_experts_taken(e->job)));
    bool trains = needs(e, x.buf) || sn_shard_trains(e, shard);
    int logits = temp(e, SN_F32, tokens(e), n->attr.experts.count, n->point, "logits");
    struct sn_op *op = sn_op_add(p, SN_OP_GEMM, "%s", n->point);
    op->in[SN_GEMM_A] = x;
    op->in[SN_GEMM_B] = sn_weight(e, shard);
    op->out[SN_GEMM_C] = sn_view_all(p, logits);
    op->attr.gemm.trans_b = true;
    set_needs(e, logits, trains);
    int choice = route(e, n, logits);
    if (choice >= 0)
        place(e, n, choice);
    e->value[n->out] =
        (struct sn_value_place){.buf = e->routes.w,
                                .have = sn_placement_on(&e->job->mesh, sn_experts_taken(e->job)),
                                .used = -1};
}

/* --- the experts ------------------------------------------------------------------------------ */

int64_t sn_expert_rows(const struct sn_config *c)
{
    const struct sn_model_config *m = &c->model;
    const struct sn_layout_config *l = &c->layout;
    int64_t all = sn_config_tokens(c) / sn_config_fold(c) * m->experts.top_k;
    int64_t room = sn_expert_capacity(m) * m->experts.count * l->micro_batch;
    return room > 0 && room < all ? room : all;
}

static int64_t expert_rows(const struct sn_emit *e)
{
    const struct sn_config *c = e->job->config;
    return e->generate ? e->job->rows * c->model.experts.top_k : sn_expert_rows(c);
}

int sn_experts_here(const struct sn_emit *e)
{
    int members = e->job->group_size[SN_GROUP_EXPERT] / sn_config_slices(e->job->config);
    return e->job->config->model.experts.count / members;
}

/* Rows of a layer's tokens that are at the experts: a buffer of them, and their bounds; how many
 * there are on average, where the buffer has room for more. */
struct rows {
    int x, bounds;
    int64_t mean;
};

/* A product with a stack of experts' matrices, in segments. */
static int product(struct sn_emit *e, const struct sn_node *n, struct rows in, int k,
                   const char *what)
{
    struct sn_program *p = e->p;
    int shard = e->job->first_shard[n->param[k]], x = in.x;
    int64_t cols = e->job->shards[shard].rows / sn_experts_here(e);
    int64_t rows = p->failed ? 0 : p->bufs[x].rows;
    int y = temp(e, e->job->dtype, rows, cols, n->point, what);
    set_needs(e, y, needs(e, x) || sn_shard_trains(e, shard));
    struct sn_op *op = sn_op_add(p, SN_OP_EXPERT_GEMM, "%.50s.%s", n->point, what);
    op->in[SN_EXPERT_GEMM_A] = sn_view_all(p, x);
    op->in[SN_EXPERT_GEMM_B] = sn_weight(e, shard);
    op->in[SN_EXPERT_GEMM_BOUNDS] = sn_view_all(p, in.bounds);
    op->out[SN_EXPERT_GEMM_C] = sn_view_all(p, y);
    op->attr.gemm.trans_b = true;
    op->attr.experts.count = sn_experts_here(e);
    op->attr.experts.rows = in.mean;
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
    op->in[SN_SWIGLU_X] = sn_view_all(e->p, x);
    op->in[SN_SWIGLU_BOUNDS] = sn_view_all(e->p, in.bounds);
    op->out[SN_SWIGLU_Y] = sn_view_all(e->p, y);
    return y;
}

static int feed_forward(struct sn_emit *e, const struct sn_node *n, struct rows in)
{
    struct rows h = {product(e, n, in, 0, "gate_up"), in.bounds, in.mean};
    h.x = swiglu(e, n, h);
    return product(e, n, h, 1, "down");
}

int sn_feed_forward(struct sn_emit *e, const struct sn_node *n, int x, int bounds)
{
    return feed_forward(e, n, (struct rows){x, bounds, 0});
}

/* --- experts of other ranks ------------------------------------------------------------------- */

static int chunks_of(const struct sn_emit *e)
{
    return e->job->config->layout.expert_chunks > 1 ? e->job->config->layout.expert_chunks : 1;
}

/* One chunk of a window of rows, to the experts and back. */
struct way {
    struct sn_attr attr; /* of the exchange */
    struct rows in;
    struct sn_legs out, back;
    int posted; /* id of the operation that is under way; -1 */
};

static void begin_way(struct sn_emit *e, const struct sn_node *n, struct way *w, int sent, int c)
{
    struct sn_attr a = sn_exchange_attr(e, c);
    int64_t cols = e->p->failed ? 0 : e->p->bufs[sent].cols;
    *w = (struct way){.attr = a, .posted = -1};
    w->in.x = temp(e, e->job->dtype, a.experts.capacity, cols, n->point, "window");
    w->in.bounds = sn_arrivals_add(e, e->routes.all, &a, n->point);
    w->in.mean = sn_exchange_mean(&a);
    set_needs(e, w->in.x, needs(e, sent));
    struct sn_hop_of h = {a, e->routes.all, n->point};
    sn_exchange_legs(e, &w->out, sn_view_all(e->p, sent), sn_view_all(e->p, w->in.x), &h);
}

static void compute(struct sn_emit *e, const struct sn_node *n, struct way *w, int back)
{
    int ys = feed_forward(e, n, w->in);
    struct sn_hop_of h = {w->attr, e->routes.all, n->point};
    if (needs(e, ys))
        set_needs(e, back, true);
    h.attr.inverse = true;
    sn_exchange_legs(e, &w->back, sn_view_all(e->p, ys), sn_view_all(e->p, back), &h);
}

static void one_way(struct sn_emit *e, const struct sn_node *n, int sent, int back, int c)
{
    struct way w;
    begin_way(e, n, &w, sent, c);
    sn_legs_run(e, &w.out);
    compute(e, n, &w, back);
    sn_legs_run(e, &w.back);
}

/* Step s of a chunk: a leg of its way out, computing, a leg of its way back, or the last wait. */
static void step(struct sn_emit *e, const struct sn_node *n, struct way *w, int back, int s)
{
    int legs = w->out.n;
    if (w->posted >= 0)
        sn_wait_add(e->p, w->posted);
    w->posted = -1;
    if (s == legs)
        compute(e, n, w, back);
    else if (s <= 2 * legs)
        w->posted = sn_op_append(e->p, s < legs ? &w->out.op[s] : &w->back.op[s - legs - 1]);
}

/* Chunks follow one another by a step: in each turn all that are under way take their next one, and
 * the one that computes does so last, while the others' messages go. Backward is the same text in
 * reverse: waits become posts. */
static void in_turns(struct sn_emit *e, const struct sn_node *n, int sent, int back)
{
    struct way way[SN_CHUNKS_MOST];
    int chunks = chunks_of(e);
    for (int c = 0; c < chunks; c++)
        begin_way(e, n, &way[c], sent, c);
    int legs = way[0].out.n, steps = 2 * legs + 2;
    for (int turn = 0; turn < chunks + steps - 1; turn++) {
        for (int s = 0; s < steps; s++)
            if (s != legs && turn >= s && turn - s < chunks)
                step(e, n, &way[turn - s], back, s);
        if (turn >= legs && turn - legs < chunks)
            step(e, n, &way[turn - legs], back, legs);
    }
}

static int elsewhere(struct sn_emit *e, const struct sn_node *n, int sent)
{
    int64_t rows = expert_rows(e), cols = e->p->failed ? 0 : e->p->bufs[sent].cols;
    e->routes.all = sn_bounds_gather(e, e->routes.bounds, n->point);
    struct sn_attr a = sn_exchange_attr(e, 0);
    int back = temp(e, e->job->dtype, rows * a.experts.slices, cols, n->point, "back");
    sn_back_begin(e, sn_view_all(e->p, back), &a, n->point);
    if (chunks_of(e) > 1)
        in_turns(e, n, sent, back);
    else
        one_way(e, n, sent, back, 0);
    e->p->extra = true;
    for (int c = 0; c < chunks_of(e); c++)
        one_way(e, n, sent, back, c);
    e->p->extra = false;
    return sn_slices_sum(e, back, -1, &a, n->point);
}

void sn_lower_experts(struct sn_emit *e, const struct sn_node *n)
{
    struct sn_program *p = e->p;
    if (sn_experts_dense(e)) {
        sn_lower_dense(e, n);
        return;
    }
    struct sn_view x = sn_take(e, n->in[0], sn_experts_taken(e->job));
    int xs = temp(e, e->job->dtype, expert_rows(e), x.cols, n->point, "x");
    set_needs(e, xs, needs(e, x.buf));
    struct sn_op *op = sn_op_add(p, SN_OP_DISPATCH, "%s", n->point);
    op->in[SN_DISPATCH_X] = x;
    op->in[SN_DISPATCH_PLACE] = sn_view_all(p, e->routes.place);
    op->out[SN_DISPATCH_Y] = sn_view_all(p, xs);
    int ys =
        sn_experts_travel(e) ? elsewhere(e, n, xs) : sn_feed_forward(e, n, xs, e->routes.bounds);
    int y = sn_result(e, n, x.cols, sn_experts_given(e->job));
    op = sn_op_add(p, SN_OP_COMBINE, "%s", n->point);
    op->in[SN_COMBINE_X] = sn_view_all(p, ys);
    op->in[SN_COMBINE_PLACE] = sn_view_all(p, e->routes.place);
    op->in[SN_COMBINE_W] = sn_view_all(p, e->routes.w);
    op->out[SN_COMBINE_Y] = sn_view_all(p, y);
}
