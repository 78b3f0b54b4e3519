/*
 * grad_experts.c - backward of routing: the rows of experts go back the way they came.
 *
 *   combine      y[t] = sum_j w[t,j] x[place]     dx = dispatch(dy, w),  dw[t,j] = dy[t] . x[place]
 *   dispatch     y[place] = x[t]                  dx[t] = sum_j dy[place]: combine without weights
 *   expert_gemm  as GEMM, segment by segment
 *   exchange     the other way
 *   route        softmax of the chosen logits, and the losses; of a sparsemixer the rows' gradients
 *                are weighed by p, and dw is that of p (kernels/mixer.h)
 *
 * Of rows beyond the experts' window nothing is kept but what came back of them. In a further round
 * they are sent again, computed again as far as gradients read it, and followed by their gradients:
 * three exchanges instead of two, and no memory that a window does not have.
 */
#include "lib/layout/exchange.h"
#include "lib/program/build.h"

static bool wants(const struct sn_emit *e, struct sn_view v)
{
    return v.buf >= 0 && e->p->bufs[v.buf].needs_grad;
}

/* What the gradients of rows are weighed by, where the rows were weighed by w:
 * a sparsemixer's p. */
static struct sn_view backward_weights(struct sn_emit *e, struct sn_view w)
{
    int origin = w.buf < 0 ? -1 : e->origin[w.buf];
    for (int i = e->unit_begin; i < e->unit_end && !e->p->failed; i++) {
        struct sn_op f = e->p->ops[i];
        if (f.kind != SN_OP_ROUTE || f.out[SN_ROUTE_W].buf != origin || !f.attr.experts.sparsemixer)
            continue;
        w = f.out[SN_ROUTE_P];
        w.buf = sn_recomputed(e, w.buf);
    }
    return w;
}

void sn_grad_combine(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_program *p = e->p;
    struct sn_view dy = sn_grad_get(e, f->out[SN_COMBINE_Y].buf);
    if (wants(e, f->in[SN_COMBINE_W])) {
        int dw = sn_buffer_like(p, f->in[SN_COMBINE_W].buf, "d");
        struct sn_op *op = sn_op_add(p, SN_OP_COMBINE_DW, "%.60s.dw", f->label);
        op->in[SN_COMBINE_DW_DY] = dy;
        op->in[SN_COMBINE_DW_X] = f->in[SN_COMBINE_X];
        op->in[SN_COMBINE_DW_PLACE] = f->in[SN_COMBINE_PLACE];
        op->out[SN_COMBINE_DW_DW] = sn_view_all(p, dw);
        sn_grad_set(e, f->in[SN_COMBINE_W].buf, sn_view_all(p, dw));
    }
    if (!wants(e, f->in[SN_COMBINE_X]))
        return;
    int dx = sn_buffer_like(p, f->in[SN_COMBINE_X].buf, "d");
    struct sn_view w = backward_weights(e, f->in[SN_COMBINE_W]);
    struct sn_op *op = sn_op_add(p, SN_OP_DISPATCH, "%.60s.dx", f->label);
    op->in[SN_DISPATCH_X] = dy;
    op->in[SN_DISPATCH_PLACE] = f->in[SN_COMBINE_PLACE];
    op->in[SN_DISPATCH_W] = w;
    op->out[SN_DISPATCH_Y] = sn_view_all(p, dx);
    sn_grad_set(e, f->in[SN_COMBINE_X].buf, sn_view_all(p, dx));
}

void sn_grad_dispatch(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_program *p = e->p;
    if (!wants(e, f->in[SN_DISPATCH_X]))
        return;
    struct sn_view dy = sn_grad_get(e, f->out[SN_DISPATCH_Y].buf);
    int dx = sn_buffer_like(p, f->in[SN_DISPATCH_X].buf, "d");
    struct sn_op *op = sn_op_add(p, SN_OP_COMBINE, "%.60s.dx", f->label);
    op->in[SN_COMBINE_X] = dy;
    op->in[SN_COMBINE_PLACE] = f->in[SN_DISPATCH_PLACE];
    op->in[SN_COMBINE_ADDEND] = sn_grad_get(e, f->in[SN_DISPATCH_X].buf);
    op->out[SN_COMBINE_Y] = sn_view_all(p, dx);
    sn_grad_set(e, f->in[SN_DISPATCH_X].buf, sn_view_all(p, dx));
}

static void input_gradient(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_program *p = e->p;
    if (!wants(e, f->in[SN_EXPERT_GEMM_A]))
        return;
    int dx = sn_buffer_like(p, f->in[SN_EXPERT_GEMM_A].buf, "d");
    struct sn_op *op = sn_op_add(p, SN_OP_EXPERT_GEMM, "%.58s.dx", f->label);
    op->in[SN_EXPERT_GEMM_A] = sn_grad_get(e, f->out[SN_EXPERT_GEMM_C].buf);
    op->in[SN_EXPERT_GEMM_B] = f->in[SN_EXPERT_GEMM_B];
    op->in[SN_EXPERT_GEMM_BOUNDS] = f->in[SN_EXPERT_GEMM_BOUNDS];
    op->out[SN_EXPERT_GEMM_C] = sn_view_all(p, dx);
    op->attr.experts.count = f->attr.experts.count;
    op->attr.experts.rows = f->attr.experts.rows;
    sn_grad_set(e, f->in[SN_EXPERT_GEMM_A].buf, sn_view_all(p, dx));
}

static void weight_gradient(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_program *p = e->p;
    struct sn_view dy = sn_grad_get(e, f->out[SN_EXPERT_GEMM_C].buf);
    int w = sn_shard_of(e, f->in[SN_EXPERT_GEMM_B]);
    if (!sn_shard_trains(e, w))
        return;
    sn_shard_ready(e, w);
    struct sn_op *op = sn_op_add(p, SN_OP_EXPERT_GEMM, "%.58s.dw", f->label);
    op->in[SN_EXPERT_GEMM_A] = dy;
    op->in[SN_EXPERT_GEMM_B] = f->in[SN_EXPERT_GEMM_A];
    op->in[SN_EXPERT_GEMM_BOUNDS] = f->in[SN_EXPERT_GEMM_BOUNDS];
    op->attr.gemm.trans_a = true;
    op->attr.experts.count = f->attr.experts.count;
    op->attr.experts.rows = f->attr.experts.rows;
    sn_into_shard(e, op, 0, w, false);
}

/* --- further rounds --------------------------------------------------------------------------- */

/* What the layer's first round is made of. */
struct layer {
    struct sn_op dispatch, out, gate_up, down, back; /* operations of the forward pass */
};

static struct layer layer_of(const struct sn_emit *e)
{
    struct layer l = {.gate_up.kind = -1, .out.id = -1};
    for (int i = e->unit_begin; i < e->unit_end && !e->p->failed; i++) {
        const struct sn_op *op = &e->p->ops[i];
        if (op->extra)
            continue;
        if (op->kind == SN_OP_DISPATCH)
            l.dispatch = *op;
        else if (op->kind == SN_OP_EXCHANGE && (op->attr.inverse || l.out.id < 0))
            *(op->attr.inverse ? &l.back : &l.out) = *op; /* of two hops the first, the last */
        else if (op->kind == SN_OP_EXPERT_GEMM)
            *(l.gate_up.kind < 0 ? &l.gate_up : &l.down) = *op;
    }
    return l;
}

static bool is_first_product(const struct sn_emit *e, const struct sn_op *f)
{
    struct layer l = layer_of(e);
    return l.gate_up.out[SN_EXPERT_GEMM_C].buf == f->out[SN_EXPERT_GEMM_C].buf;
}

/* Where gradients of rows come back to: one block for each slice of experts. */
static struct sn_view back_to(struct sn_emit *e, struct sn_view rows, const struct sn_attr *a)
{
    struct sn_program *p = e->p;
    if (a->experts.slices <= 1 || p->failed)
        return sn_grad_slice(e, rows);
    if (e->under_way.blocks == 0)
        e->under_way.blocks =
            1 + sn_buffer_add(p, SN_CLASS_TEMP, e->job->dtype, a->experts.rows * a->experts.slices,
                              rows.cols, "d.%.90s", p->bufs[rows.buf].name);
    return sn_view_all(p, e->under_way.blocks - 1);
}

/* All have come back. */
static void sum_blocks(struct sn_emit *e, const struct sn_op *out)
{
    int blocks = e->under_way.blocks - 1;
    e->under_way.blocks = 0;
    if (blocks >= 0)
        (void)sn_slices_sum(e, blocks, sn_grad_slice(e, out->in[SN_MOVE_FROM]).buf, &out->attr,
                            out->label);
}

/* Buffers of a round in the shape of those of the first, and the operations that fill them. */
struct round {
    struct sn_emit *e;
    struct layer l;
    struct sn_attr attr; /* of the exchange */
    int64_t mean;        /* rows of it */
    int bounds, x, h, act;
};

static int like(const struct round *r, int buf)
{
    return sn_buffer_like(r->e->p, buf, "more");
}

static void multiply(const struct round *r, int from, int shard, int to, bool forward)
{
    struct sn_op *op = sn_op_add(r->e->p, SN_OP_EXPERT_GEMM, "%.50s.more", r->l.gate_up.label);
    op->in[SN_EXPERT_GEMM_A] = sn_view_all(r->e->p, from);
    op->in[SN_EXPERT_GEMM_B] = sn_weight(r->e, shard);
    op->in[SN_EXPERT_GEMM_BOUNDS] = sn_view_all(r->e->p, r->bounds);
    op->out[SN_EXPERT_GEMM_C] = sn_view_all(r->e->p, to);
    op->attr.gemm.trans_b = forward;
    op->attr.experts.count = r->attr.experts.count;
    op->attr.experts.rows = r->mean;
}

static void add_gradient(const struct round *r, int dy, int x, int shard)
{
    if (!sn_shard_trains(r->e, shard))
        return;
    struct sn_op *op = sn_op_add(r->e->p, SN_OP_EXPERT_GEMM, "%.50s.more", r->l.gate_up.label);
    op->in[SN_EXPERT_GEMM_A] = sn_view_all(r->e->p, dy);
    op->in[SN_EXPERT_GEMM_B] = sn_view_all(r->e->p, x);
    op->in[SN_EXPERT_GEMM_BOUNDS] = sn_view_all(r->e->p, r->bounds);
    op->attr.gemm.trans_a = true;
    op->attr.experts.count = r->attr.experts.count;
    op->attr.experts.rows = r->mean;
    sn_into_shard(r->e, op, 0, shard, false);
    op->is_weight_grad = false; /* it is part of the round */
}

static void activate(const struct round *r, int dy, int to)
{
    struct sn_op *op = sn_op_add(r->e->p, dy < 0 ? SN_OP_SWIGLU : SN_OP_SWIGLU_DX, "%.50s.more",
                                 r->l.gate_up.label);
    op->in[dy < 0 ? SN_SWIGLU_X : SN_SWIGLU_DX_X] = sn_view_all(r->e->p, r->h);
    op->in[dy < 0 ? SN_SWIGLU_BOUNDS : SN_SWIGLU_DX_BOUNDS] = sn_view_all(r->e->p, r->bounds);
    if (dy >= 0)
        op->in[SN_SWIGLU_DX_DY] = sn_view_all(r->e->p, dy);
    op->out[dy < 0 ? SN_SWIGLU_Y : SN_SWIGLU_DX_DX] = sn_view_all(r->e->p, to);
}

static void exchange(const struct round *r, struct sn_view from, struct sn_view to)
{
    struct sn_hop_of h = {r->attr, r->l.out.in[SN_MOVE_BOUNDS].buf, r->l.out.label};
    struct sn_legs legs;
    sn_exchange_legs(r->e, &legs, from, to, &h);
    sn_legs_run(r->e, &legs);
}

/* The rows of a round, and what their gradients read. `x` and `place` are those of dispatch now. */
static void again(struct round *r, struct sn_view x, struct sn_view place)
{
    struct sn_program *p = r->e->p;
    int sent = like(r, r->l.dispatch.out[SN_DISPATCH_Y].buf);
    struct sn_op *op = sn_op_add(p, SN_OP_DISPATCH, "%.50s.more", r->l.dispatch.label);
    op->in[SN_DISPATCH_X] = x;
    op->in[SN_DISPATCH_PLACE] = place;
    op->out[SN_DISPATCH_Y] = sn_view_all(p, sent);
    r->x = like(r, r->l.gate_up.in[SN_EXPERT_GEMM_A].buf);
    r->h = like(r, r->l.gate_up.out[SN_EXPERT_GEMM_C].buf);
    r->act = like(r, r->l.down.in[SN_EXPERT_GEMM_A].buf);
    exchange(r, sn_view_all(p, sent), sn_view_all(p, r->x));
    multiply(r, r->x, sn_shard_of(r->e, r->l.gate_up.in[SN_EXPERT_GEMM_B]), r->h, true);
    activate(r, -1, r->act);
}

static void gradients(struct round *r)
{
    struct sn_program *p = r->e->p;
    int first = sn_shard_of(r->e, r->l.gate_up.in[SN_EXPERT_GEMM_B]),
        second = sn_shard_of(r->e, r->l.down.in[SN_EXPERT_GEMM_B]);
    int dys = like(r, r->l.down.out[SN_EXPERT_GEMM_C].buf), dact = like(r, r->act),
        dh = like(r, r->h);
    exchange(r, sn_grad_get(r->e, r->l.back.out[SN_MOVE_TO].buf), sn_view_all(p, dys));
    add_gradient(r, dys, r->act, second);
    multiply(r, dys, second, dact, false);
    activate(r, dact, dh);
    add_gradient(r, dh, r->x, first);
    if (!wants(r->e, r->l.out.in[SN_MOVE_FROM]))
        return;
    int dx = like(r, r->x);
    multiply(r, dh, first, dx, false);
    r->attr.inverse = true;
    exchange(r, sn_view_all(p, dx), back_to(r->e, r->l.out.in[SN_MOVE_FROM], &r->attr));
}

static void further_rounds(struct sn_emit *e)
{
    struct round r = {.e = e, .l = layer_of(e)};
    struct sn_view x = r.l.dispatch.in[SN_DISPATCH_X], place = r.l.dispatch.in[SN_DISPATCH_PLACE];
    int chunks = r.l.out.attr.experts.chunks;
    x.buf = sn_recomputed(e, x.buf);
    place.buf = sn_recomputed(e, place.buf);
    if (wants(e, r.l.out.in[SN_MOVE_FROM]) && chunks == 1)
        sn_back_begin(e, sn_grad_slice(e, r.l.out.in[SN_MOVE_FROM]), &r.l.out.attr, r.l.out.label);
    e->p->extra = true;
    for (int c = 0; c < chunks; c++) {
        r.attr = sn_exchange_attr(e, c);
        r.mean = sn_exchange_mean(&r.attr);
        r.bounds = sn_arrivals_add(e, r.l.out.in[SN_MOVE_BOUNDS].buf, &r.attr, r.l.out.label);
        again(&r, x, place);
        gradients(&r);
    }
    e->p->extra = false;
    for (int i = 0; i < e->n_late_shards; i++)
        sn_shard_used(e, e->late_shards[i]);
    e->n_late_shards = 0;
}

/* Further rounds add to the gradient before delayed weight gradients do: it begins with zeros. */
static void begin_with_zeros(struct sn_emit *e, const struct sn_op *f, int w)
{
    if (!sn_weights_delayed(e->job) || !sn_shard_trains(e, w) || e->grad_written[w])
        return;
    struct sn_view whole = sn_weight(e, w);
    whole.buf = e->bucket_grad[e->job->shards[w].bucket];
    struct sn_op *op = sn_op_add(e->p, SN_OP_ZERO, "%.50s.begin", f->label);
    op->out[SN_ZERO_X] = whole;
    op->when = SN_FIRST;
    e->grad_written[w] = true;
}

static bool in_chunks(const struct sn_emit *e)
{
    return sn_experts_travel(e) && e->job->config->layout.expert_chunks > 1;
}

static void add_late_shard(struct sn_emit *e, int w)
{
    bool known = !sn_shard_trains(e, w);
    for (int i = 0; i < e->n_late_shards; i++)
        known |= e->late_shards[i] == w;
    if (!known)
        e->late_shards[e->n_late_shards++] = w;
}

/* Where the experts are shared out, their gradients are complete when further rounds are. */
void sn_grad_expert_gemm(struct sn_emit *e, const struct sn_op *f)
{
    int w = sn_shard_of(e, f->in[SN_EXPERT_GEMM_B]);
    if (sn_experts_travel(e))
        begin_with_zeros(e, f, w);
    input_gradient(e, f);
    if (in_chunks(e)) {
        e->under_way.due[e->under_way.n_due++] = *f;
        e->under_way.rounds |= is_first_product(e, f);
        return;
    }
    weight_gradient(e, f);
    if (!sn_experts_travel(e)) {
        if (sn_shard_trains(e, w))
            sn_shard_used(e, w);
        return;
    }
    add_late_shard(e, w);
    if (is_first_product(e, f))
        further_rounds(e);
}

/* --- experts of other ranks ------------------------------------------------------------------- */

/* The same the other way. A window that all ranks read has a gradient that is a sum over them, and
 * the other way round. */
static struct sn_op mirrored(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_hop_of h = {.attr = f->attr, .all = f->in[SN_MOVE_BOUNDS].buf, .label = f->label};
    struct sn_view dy = sn_grad_get(e, f->out[SN_MOVE_TO].buf);
    h.attr.inverse = !h.attr.inverse;
    struct sn_view dx = h.attr.inverse ? back_to(e, f->in[SN_MOVE_FROM], &f->attr)
                                       : sn_grad_slice(e, f->in[SN_MOVE_FROM]);
    return f->kind == SN_OP_EXCHANGE ? sn_hop_op(e, f->group, dy, dx, &h)
                                     : sn_gather_rows_op(e, dy, dx, &h);
}

static bool is_first_exchange(const struct sn_emit *e, const struct sn_op *f)
{
    return f->kind == SN_OP_EXCHANGE && layer_of(e).out.id == f->id;
}

/* Wait for what was posted where the forward pass waited. */
static void complete(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_under_way *u = &e->under_way;
    for (int i = 0; i < u->n; i++)
        if (u->of[i] == f->id) {
            sn_wait_add(e->p, u->id[i]);
            u->n--;
            u->of[i] = u->of[u->n];
            u->id[i] = u->id[u->n];
        }
    if (is_first_exchange(e, f) && u->rounds) {
        u->rounds = false;
        further_rounds(e);
    }
    if (is_first_exchange(e, f))
        sum_blocks(e, f);
}

void sn_grad_exchange(struct sn_emit *e, const struct sn_op *f)
{
    if (f->attr.experts.chunks > 1) {
        complete(e, f);
    } else if (wants(e, f->in[SN_MOVE_FROM])) {
        struct sn_op op = mirrored(e, f);
        sn_comm_run(e->p, &op);
        sum_blocks(e, f);
    }
}

void sn_grad_gather_rows(struct sn_emit *e, const struct sn_op *f)
{
    sn_grad_exchange(e, f);
}

/* --- in chunks -----------------------------------------------------------------------------------
 *
 * The forward text in reverse, with posts where it waits and waits where it posts: so one chunk's
 * messages go while another is computed, as they do there. Products of weights come behind the post
 * that needs none of them. Rows that are exchanged once more (recompute: full) go with the gradient
 * that meets them.
 */

static void weights_that_are_due(struct sn_emit *e)
{
    for (int i = 0; i < e->under_way.n_due; i++) {
        weight_gradient(e, &e->under_way.due[i]);
        add_late_shard(e, sn_shard_of(e, e->under_way.due[i].in[SN_EXPERT_GEMM_B]));
    }
    e->under_way.n_due = 0;
}

/* The rows of a chunk that left first. */
static int first_exchange(const struct sn_emit *e, int chunk)
{
    for (int i = e->unit_begin; i < e->unit_end; i++) {
        const struct sn_op *op = &e->p->ops[i];
        if (op->kind == SN_OP_EXCHANGE && !op->extra && op->attr.experts.chunk == chunk &&
            !op->attr.inverse)
            return op->out[SN_MOVE_TO].buf;
    }
    return -1;
}

static void post_gradient(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_under_way *u = &e->under_way;
    bool leaves = f->kind == SN_OP_EXCHANGE && !f->attr.inverse;
    bool shares = leaves && f->attr.blocks_b > 1 && sn_grad_get(e, f->in[SN_MOVE_FROM].buf).buf < 0;
    if (shares && f->in[SN_MOVE_FROM].buf == layer_of(e).out.in[SN_MOVE_FROM].buf)
        sn_back_begin(e, sn_grad_slice(e, f->in[SN_MOVE_FROM]), &f->attr, f->label);
    struct sn_op op = mirrored(e, f);
    u->of[u->n] = f->id;
    u->id[u->n++] = sn_op_append(e->p, &op);
}

void sn_grad_wait(struct sn_emit *e, const struct sn_op *wait)
{
    if (e->p->failed)
        return;
    struct sn_op f = *sn_op_find(e->p, wait->waits_for); /* a copy: operations are added */
    if (!sn_op_row(f.kind)->counts_rows || f.attr.experts.chunks <= 1)
        return;
    bool posts = sn_grad_get(e, f.out[SN_MOVE_TO].buf).buf >= 0 && wants(e, f.in[SN_MOVE_FROM]);
    if (posts)
        post_gradient(e, &f);
    if (posts && f.attr.inverse && f.kind == SN_OP_EXCHANGE)
        sn_recompute_ahead(e, first_exchange(e, f.attr.experts.chunk));
    weights_that_are_due(e);
    if (!posts && is_first_exchange(e, &f))
        complete(e, &f);
}

/* The counts that the losses saw: those of all ranks, where they were summed. */
static struct sn_view counts_of(const struct sn_emit *e, const struct sn_op *f)
{
    struct sn_view counts = f->out[f->attr.experts.by_sequence ? SN_ROUTE_SEQUENCES : SN_ROUTE_COUNTS];
    for (int i = e->unit_begin; i < e->unit_end;
         i++) /* one after the other, where two groups are */
        if (e->p->ops[i].kind == SN_OP_ALL_REDUCE &&
            e->p->ops[i].in[SN_MOVE_FROM].buf == counts.buf)
            counts = e->p->ops[i].out[SN_MOVE_TO];
    return counts;
}

void sn_grad_route(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_program *p = e->p;
    if (!wants(e, f->in[SN_ROUTE_LOGITS]))
        return;
    struct sn_buffer logits = p->bufs[f->in[SN_ROUTE_LOGITS].buf];
    int dx = sn_buffer_add(p, SN_CLASS_TEMP, e->job->dtype, logits.rows, logits.cols, "d.%.90s",
                           logits.name);
    struct sn_op *op = sn_op_add(p, SN_OP_ROUTE_DX, "%.60s", f->label);
    op->in[SN_ROUTE_DX_DW] = sn_grad_get(e, f->out[SN_ROUTE_W].buf);
    op->in[SN_ROUTE_DX_LOGITS] = f->in[SN_ROUTE_LOGITS];
    op->in[SN_ROUTE_DX_CHOICE] = f->out[SN_ROUTE_CHOICE];
    if (f->attr.experts.aux_loss > 0 || f->attr.experts.z_loss > 0)
        op->in[SN_ROUTE_DX_COUNTS] = counts_of(e, f);
    struct sn_placement dx_at = sn_placement_of_gradient(sn_experts_taken(e->job));
    sn_add_once(e, op, SN_ROUTE_DX_COUNTS, dx_at); /* the losses */
    op->out[SN_ROUTE_DX_DLOGITS] = sn_view_all(p, dx);
    op->attr = f->attr;
    sn_grad_set(e, f->in[SN_ROUTE_LOGITS].buf, sn_view_all(p, dx));
}
