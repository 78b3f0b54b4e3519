/*
 * routing.c - which buffers hold rows of experts' tokens, and which of those rows go to whom.
 */
#include "lib/meaning/inner.h"

#include "lib/base/mem.h"

/* Units of what an operation writes, where it writes such rows; 0: it does not. */
static int units_of(const struct sn_routing *r, const struct sn_program *p, const struct sn_op *op)
{
    int buf = op->out[0].buf;
    const struct sn_view *in = op->in;
    switch (op->kind) {
    case SN_OP_DISPATCH:
        return 1;
    case SN_OP_GATHER_ROWS:
        return r->slices;
    case SN_OP_EXCHANGE:
        return !op->attr.inverse || p->bufs[buf].rows > op->attr.experts.rows ? r->slices : 1;
    case SN_OP_EXPERT_GEMM:
        return op->attr.gemm.trans_a ? 0 : r->units[in[SN_EXPERT_GEMM_A].buf];
    case SN_OP_SWIGLU:
        return r->units[in[SN_SWIGLU_X].buf];
    case SN_OP_SWIGLU_DX:
        return r->units[in[SN_SWIGLU_DX_DY].buf];
    case SN_OP_ADD:
        return r->units[in[SN_ADD_A].buf] > 0;
    case SN_OP_ALIAS:
    case SN_OP_COPY:
        return r->units[in[SN_COPY_X].buf];
    default:
        return 0;
    }
}

bool sn_routing_init(struct sn_routing *r, const struct sn_job *j, const struct sn_program *p)
{
    const struct sn_config *c = j->config;
    *r = (struct sn_routing){0};
    if (c->model.experts.count == 0)
        return true;
    r->tokens = sn_config_tokens(c) / sn_config_fold(c);
    r->experts = c->model.experts.count;
    r->slices = sn_config_slices(c);
    r->members = j->group_size[SN_GROUP_EXPERT];
    r->here = r->experts / (r->members / r->slices);
    r->units = sn_alloc_n((size_t)p->n_bufs + 1, sizeof(int));
    for (int i = 0; i < p->n_ops; i++)
        r->rounds = r->rounds || p->ops[i].extra;
    for (int pass = 0; pass < 2 && r->units; pass++)
        for (int i = 0; i < p->n_ops; i++) {
            const struct sn_op *op = &p->ops[i];
            int units = op->out[0].buf < 0 ? 0 : units_of(r, p, op);
            if (units > 0)
                r->units[op->out[0].buf] = units;
        }
    return r->units != NULL;
}

/* All units of a buffer, or that of which the view's rows are. */
struct sn_area sn_routed_area(const struct sn_rank *r, const struct sn_view *v)
{
    const struct sn_routing *q = &r->routing;
    int64_t unit = q->experts * q->tokens, row = v->offset / v->ld, n = q->units[v->buf];
    if (v->rows < r->program->bufs[v->buf].rows && n > 1) {
        row = row / v->rows * unit + row % v->rows; /* a view that begins inside a unit stays so */
        n = 1;
    }
    return (struct sn_area){row * v->ld + v->offset % v->ld, n * unit, v->cols, v->ld};
}

static int64_t micro_of(const struct sn_visit *s, const struct sn_slab *t)
{
    const struct sn_layout_config *l = &s->r->job->config->layout;
    return t->first[SN_SLAB_ROWS] / ((int64_t)l->data * l->micro_batch * s->m->config->model.seq);
}

uint64_t sn_route_of_window(const struct sn_visit *s, uint64_t sent)
{
    uint64_t window = 2 * (uint64_t)s->op->attr.experts.chunk + s->op->extra;
    return sn_function(sn_name(SN_OP_RECV_OFFSETS, window), &sent, 1);
}

/* Of two hops the one along the rail is at the window. */
static bool is_at_window(const struct sn_op *op)
{
    return op->kind == SN_OP_EXCHANGE && op->group != SN_GROUP_EXPERT_NODE;
}

bool sn_takes_window(const struct sn_op *op)
{
    return op->kind == SN_OP_GATHER_ROWS || (is_at_window(op) && op->attr.inverse);
}

bool sn_gives_window(const struct sn_op *op)
{
    return op->kind == SN_OP_GATHER_ROWS || (is_at_window(op) && !op->attr.inverse);
}

enum sn_status sn_check_route(const struct sn_visit *s, int in, const struct sn_slabs *rows)
{
    struct sn_slabs note = {0};
    enum sn_status st = sn_read(s, in, &note);
    for (int i = 0; i < note.n && st == SN_OK; i++)
        for (int k = 0; k < rows->n && st == SN_OK; k++) {
            const struct sn_slab *t = &rows->t[k];
            if (t->value == 0 || t->space[SN_SLAB_ROWS] == SN_SPACE_ANY)
                continue;
            uint64_t said = note.t[i].value;
            if (t->route != (sn_takes_window(s->op) ? sn_route_of_window(s, said) : said))
                st = sn_visit_fault(s, "takes rows that '%s' says nothing of",
                                    s->r->program->bufs[s->op->in[in].buf].name);
            else if (micro_of(s, t) != micro_of(s, &note.t[i]))
                st = sn_visit_fault(s, "takes rows of another micro-batch than '%s' is of",
                                    s->r->program->bufs[s->op->in[in].buf].name);
        }
    sn_slabs_fini(&note);
    return st;
}

struct sn_token_span sn_tokens_of(const struct sn_visit *s, bool share)
{
    const struct sn_attr *a = &s->op->attr;
    int64_t n = s->r->routing.tokens, chunks = a->experts.chunks > 1 ? a->experts.chunks : 1;
    int64_t first = n * a->experts.chunk / chunks, end = n * (a->experts.chunk + 1) / chunks;
    int64_t half = first + (end - first) / 2;
    if (s->r->routing.rounds && s->op->extra)
        first = half;
    else if (s->r->routing.rounds)
        end = half;
    int64_t shares = a->blocks_b > 1 ? a->blocks_b : 1;
    if (share && shares > 1) {
        int64_t index = s->r->job->group_index[SN_GROUP_TENSOR], m = end - first;
        end = first + m * (index + 1) / shares;
        first += m * index / shares;
    }
    return (struct sn_token_span){first, end - first};
}

bool sn_passage_next(const struct sn_visit *s, int *i, struct sn_passage *out)
{
    const struct sn_routing *r = &s->r->routing;
    int node = s->r->job->grid.expert_node, members = r->members;
    if (*i >= members * members)
        return false;
    int sender = *i / members, owner = *i % members;
    *i += 1;
    int64_t here = r->here, all = r->experts;
    struct sn_passage p = {.from = sender, .to = owner};
    bool back = s->op->attr.inverse;
    bool blocks = back && r->units[s->op->out[SN_MOVE_TO].buf] > 1; /* of slices, apart */
    p.source = owner / r->slices * here + (blocks ? owner % r->slices * all : 0);
    p.there = sender * here;
    if (s->op->group == SN_GROUP_EXPERT_NODE) { /* to the neighbour whose place the owner has */
        p.to = sender / node * node + owner % node;
        p.there = (owner / node * node + sender % node) * here;
    } else if (s->op->group == SN_GROUP_EXPERT_RAIL) {
        p.from = sender / node * node + owner % node;
        p.source = (owner / node * node + sender % node) * here;
    }
    *out = !back ? p : (struct sn_passage){p.to, p.from, p.there, p.source};
    return true;
}
