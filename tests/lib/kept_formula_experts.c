/*
 * kept_formula_experts.c - what layers with experts keep (kept_formula.h has the table).
 */
#include "lib/layout/cut.h"
#include "lib/layout/exchange.h"
#include "tests/lib/kept_formula_inner.h"

#include <math.h>

/* A tensor of 4-byte numbers. */
static void routing(const struct letters *l, struct tensor x)
{
    x.fp32 = true;
    kept_add(l, x);
}

/* Where all experts compute all tokens: of those of all members, for the experts here. */
static void dense_router(const struct letters *l)
{
    const struct sn_experts_config *x = &l->config->model.experts;
    struct tensor r = {.copies = l->m, .rows = l->U, .cols = l->E, .dropped = UNLESS_FULL};
    r.name = "logits";
    routing(l, r);
    r.name = "w";
    r.rows = l->M * l->U;
    r.sent = l->M > 1;
    routing(l, r);
    r.name = "place";
    r.sent = false;
    routing(l, r);
    r.name = "bounds";
    r.rows = 1;
    r.cols = l->E / l->P + 1;
    r.delayed = true;
    routing(l, r);
    r.name = "counts";
    r.copies = x->aux_loss > 0 || x->z_loss > 0 ? l->m : 0;
    r.cols = l->E;
    r.dropped = ANYWAY;
    routing(l, r);
    kept_add(
        l, (struct tensor){.name = "expert.tokens",
                           .copies = l->M > 1 && (l->selective || (l->full && l->aware)) ? l->m : 0,
                           .rows = l->M * l->U,
                           .cols = l->D});
}

static void router(const struct letters *l)
{
    const struct sn_experts_config *x = &l->config->model.experts;
    struct tensor r = {.copies = l->m, .rows = l->U, .cols = l->E, .dropped = UNLESS_FULL};
    r.name = "logits";
    routing(l, r);
    r.name = "w, choice";
    r.copies = 2 * l->m;
    r.cols = l->k;
    routing(l, r);
    r.name = "place";
    r.copies = l->m;
    routing(l, r);
    bool cut = x->capacity_factor > 0 && l->c * l->fold > 1;
    if (cut && l->full && l->aware) { /* else made for `place` alone */
        struct tensor all = r;
        all.name = "choice.all";
        all.rows = l->T * l->c;
        all.sent = true;
        routing(l, all);
    }
    r.name = l->M > 1 ? "arrivals" : "bounds";
    r.copies = l->m * l->C;
    r.rows = 1;
    r.cols = l->M * (l->E / l->P) + 1;
    r.delayed = true;
    routing(l, r);
    r.name = "counts";
    r.copies = x->aux_loss > 0 || x->z_loss > 0 ? l->m : 0;
    r.cols = l->E;
    r.dropped = ANYWAY;
    routing(l, r);
    r.name = "bounds.all";
    r.copies = l->M > 1 ? l->m : 0;
    r.rows = l->M;
    r.cols = l->E + 1;
    routing(l, r);
}

static void matrices(const struct letters *l)
{
    bool travel = l->M > 1 && !l->dense;
    struct tensor x = {.name = "expert.x",
                       .copies = l->m * l->C,
                       .rows = l->W,
                       .cols = l->D,
                       .dropped = travel ? UNLESS_FULL : UNLESS_ANY,
                       .delayed = true,
                       .sent = travel};
    kept_add(l, x);
    x.sent = false;
    int64_t f = sn_slice_of(l->config->model.ffn, l->u, 0).padded;
    x.name = "expert.up";
    x.cols = 2 * f;
    x.dropped = UNLESS_FULL;
    kept_add(l, x);
    x.name = "expert.act";
    x.cols = f;
    x.dropped = UNLESS_ANY;
    kept_add(l, x);
    int64_t inner = sn_slice_of((int64_t)l->shared * l->config->model.ffn, l->t, 0).padded;
    x = (struct tensor){.name = "shared.up",
                        .copies = l->shared > 0 ? l->m : 0,
                        .rows = l->T,
                        .cols = 2 * inner,
                        .dropped = UNLESS_FULL,
                        .delayed = true};
    kept_add(l, x);
    x.name = "shared.act";
    x.cols = inner;
    x.dropped = UNLESS_ANY;
    kept_add(l, x);
    kept_add(l, (struct tensor){.name = "expert.y",
                                .copies = l->m,
                                .rows = l->R,
                                .cols = l->D,
                                .dropped = travel ? ANYWAY : UNLESS_FULL});
}

void kept_experts(const struct letters *l)
{
    (l->dense ? dense_router : router)(l);
    matrices(l);
}

void letters_of_experts(struct letters *l)
{
    const struct sn_experts_config *x = &l->config->model.experts;
    const struct sn_layout_config *y = &l->config->layout;
    l->E = x->count;
    l->shared = x->shared;
    l->dense = x->router == SN_ROUTER_DENSE;
    l->k = l->dense ? x->count : x->top_k;
    l->P = y->expert;
    l->M = sn_config_expert_members(l->config);
    l->fold = sn_config_fold(l->config);
    l->u = l->fold > 1 ? sn_config_slices(l->config) : l->t;
    l->U = l->T / l->fold;
    l->R = l->U * l->k * (l->dense ? l->M / l->P : 1);
    if (x->capacity_factor > 0) {
        double each = ceil(x->capacity_factor * l->config->model.seq * x->top_k / x->count);
        int64_t room = (int64_t)y->micro_batch * l->E * (int64_t)each;
        l->R = room < l->R ? room : l->R;
    }
    l->W = l->R;
    l->C = 1;
    if (l->M > 1 && !l->dense) {
        int64_t rows = l->R * (l->M / l->P), most = l->M * l->R;
        int64_t room = (int64_t)(y->expert_buffer * (double)rows);
        room = room < 1 ? 1 : room < most ? room : most;
        l->C = y->expert_chunks > 1 ? y->expert_chunks : 1;
        l->W = sn_exchange_chunk_most(room, (int)l->M, l->C);
    }
}
