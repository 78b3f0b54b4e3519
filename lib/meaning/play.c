/*
 * play.c - a step of all ranks, each as far as it can go; first that of the one rank that says what
 * is due.
 */
#include "lib/meaning/inner.h"

#include "lib/base/mem.h"

#include <string.h>

#define UPDATES(KIND, name) [SN_OP_##KIND] = sn_rule_update,
static sn_rule *const rules[SN_NKINDS] = {
    [SN_OP_AVERAGE] = sn_rule_average,
    [SN_OP_PRUNE] = sn_rule_prune,
    SN_UPDATE_KINDS(UPDATES) /* of optimizers */
        [SN_OP_ZERO] = sn_rule_zero,
    [SN_OP_COPY] = sn_rule_copy,
    [SN_OP_ALIAS] = sn_rule_copy,
    [SN_OP_EMBED] = sn_rule_embed,
    [SN_OP_EMBED_GRAD] = sn_rule_embed_grad,
    [SN_OP_POS_GRAD] = sn_rule_pos_grad,
    [SN_OP_LAYERNORM] = sn_rule_norm,
    [SN_OP_LAYERNORM_DX] = sn_rule_norm_dx,
    [SN_OP_LAYERNORM_DW] = sn_rule_norm_dw,
    [SN_OP_RMSNORM] = sn_rule_norm,
    [SN_OP_RMSNORM_DX] = sn_rule_norm_dx,
    [SN_OP_RMSNORM_DW] = sn_rule_norm_dw,
    [SN_OP_NORM_PART] = sn_rule_norm_part,
    [SN_OP_NORM_DX_PART] = sn_rule_norm_dx_part,
    [SN_OP_HEAD_NORM] = sn_rule_head_norm,
    [SN_OP_HEAD_NORM_DX] = sn_rule_head_norm_dx,
    [SN_OP_HEAD_NORM_DW] = sn_rule_head_norm_dw,
    [SN_OP_GEMM] = sn_rule_gemm,
    [SN_OP_COLSUM] = sn_rule_colsum,
    [SN_OP_ROPE] = sn_rule_rope,
    [SN_OP_MLA_JOIN] = sn_rule_mla_join,
    [SN_OP_MLA_JOIN_DX] = sn_rule_mla_join_dx,
    [SN_OP_ATTENTION] = sn_rule_attention,
    [SN_OP_ATTENTION_DX] = sn_rule_attention_dx,
    [SN_OP_ATTENTION_ROWS] = sn_rule_attention_rows,
    [SN_OP_ACT] = sn_rule_act,
    [SN_OP_ACT_DX] = sn_rule_act_dx,
    [SN_OP_SWIGLU] = sn_rule_swiglu,
    [SN_OP_SWIGLU_DX] = sn_rule_swiglu_dx,
    [SN_OP_ADD] = sn_rule_add,
    [SN_OP_SCALE] = sn_rule_scale,
    [SN_OP_GATE] = sn_rule_gate,
    [SN_OP_GATE_DX] = sn_rule_gate_dx,
    [SN_OP_DROPOUT] = sn_rule_noise,
    [SN_OP_JITTER] = sn_rule_noise,
    [SN_OP_PROMPT] = sn_rule_prompt,
    [SN_OP_PROMPT_DX] = sn_rule_prompt_dx,
    [SN_OP_PROMPT_DW] = sn_rule_prompt_dw,
    [SN_OP_CROSS_ENTROPY] = sn_rule_cross_entropy,
    [SN_OP_CE_PART] = sn_rule_ce_part,
    [SN_OP_TRANSPOSE] = sn_rule_transpose,
    [SN_OP_ROUTE] = sn_rule_route,
    [SN_OP_ROUTE_DX] = sn_rule_route_dx,
    [SN_OP_ROUTE_LOSS] = sn_rule_route_loss,
    [SN_OP_MOE_PERMUTE] = sn_rule_moe_permute,
    [SN_OP_RECV_OFFSETS] = sn_rule_recv_offsets,
    [SN_OP_DISPATCH] = sn_rule_dispatch,
    [SN_OP_COMBINE] = sn_rule_combine,
    [SN_OP_COMBINE_DW] = sn_rule_combine_dw,
    [SN_OP_EXPERT_GEMM] = sn_rule_expert_gemm,
    [SN_OP_ROUTER_BIAS] = sn_rule_router_bias,
    [SN_OP_SQ_NORM] = sn_rule_sq_norm,
    [SN_OP_CLIP_SCALE] = sn_rule_clip_scale,
    [SN_OP_ENCODE] = sn_rule_encode,
    [SN_OP_DECODE] = sn_rule_decode,
};
#undef UPDATES

sn_rule *sn_rule_of(int kind)
{
    return rules[kind];
}

/* --- one rank --------------------------------------------------------------------------------- */

static bool is_due(const struct sn_visit *s)
{
    const struct sn_op *op = s->op;
    int last = s->r->program->micros - 1;
    bool due = op->when == SN_EVERY || s->micro == (op->when == SN_FIRST ? 0 : last);
    return due && sn_job_is_first(s->r->job, op->only);
}

static enum sn_status run(const struct sn_visit *s, bool *blocked)
{
    *blocked = false;
    if (!is_due(s))
        return SN_OK;
    if (sn_rule_of(s->op->kind))
        return sn_rule_of(s->op->kind)(s);
    if (s->op->kind == SN_OP_WAIT)
        return sn_wait(s, blocked);
    if (s->op->kind == SN_OP_AGREE)
        return sn_agree(s, blocked);
    if (sn_op_is_posted(s->op))
        return sn_post(s);
    return sn_visit_fault(s, "has no rule; its meaning is not known");
}

/* Temporaries die with the run of their segment, which may be in pieces. */
static void forget_temporaries(struct sn_rank *r, const struct sn_sched *e)
{
    const struct sn_program *p = r->program;
    int begin = p->segments[e->segment].first, end = begin + p->segments[e->segment].n;
    if (e->first + e->n < end)
        return;
    for (int b = p->n_state_bufs; b < p->n_bufs; b++)
        if (p->bufs[b].cls == SN_CLASS_TEMP && p->bufs[b].first >= begin && p->bufs[b].first < end)
            r->held[r->first_held[b]].n = 0;
}

/* As far as it can go. */
static enum sn_status go_on(struct sn_meaning *m, struct sn_rank *r, bool *moved)
{
    const struct sn_program *p = r->program;
    for (; r->entry < p->n_sched; r->entry++, r->at = 0) {
        const struct sn_sched *e = &p->sched[r->entry];
        for (; r->at < e->n; r->at++) {
            int i = e->first + r->at;
            struct sn_visit s = {m, r, &p->ops[i], i, e->micro, e->slot, e->late};
            bool blocked;
            SN_TRY(run(&s, &blocked));
            if (blocked)
                return SN_OK;
            if (is_due(&s))
                SN_TRY(sn_tell_results(&s));
            *moved = true;
        }
        forget_temporaries(r, e);
    }
    return SN_OK;
}

/* It waits for what no rank sends. */
static enum sn_status stands(const struct sn_meaning *m, const struct sn_rank *r)
{
    const struct sn_sched *e = &r->program->sched[r->entry];
    int number = e->first + r->at;
    struct sn_visit s = {.m = (struct sn_meaning *)m,
                         .r = (struct sn_rank *)r,
                         .op = &r->program->ops[number],
                         .number = number,
                         .micro = e->micro};
    return sn_visit_fault(&s, "waits for ever");
}

enum sn_status sn_play(struct sn_meaning *m)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < m->ranks; i++)
            SN_TRY(go_on(m, &m->rank[i], &moved));
    }
    for (int i = 0; i < m->ranks; i++)
        if (m->rank[i].entry < m->rank[i].program->n_sched)
            return stands(m, &m->rank[i]);
    return SN_OK;
}

/* --- what ranks hold -------------------------------------------------------------------------- */

static int copies(const struct sn_program *p, const struct sn_buffer *b)
{
    if (b->cls == SN_CLASS_SLOT)
        return p->slots[b->vstage];
    return b->cls == SN_CLASS_LATE && p->lates[b->vstage] > 0 ? p->lates[b->vstage] : 1;
}

enum sn_status sn_rank_init(struct sn_meaning *m, struct sn_rank *r, const struct sn_job *job,
                            const struct sn_program *p)
{
    *r = (struct sn_rank){.job = job, .program = p, .rank = job->rank, .slots = 1};
    for (int v = 0; v < p->vstages; v++)
        r->slots = p->slots[v] > r->slots ? p->slots[v] : r->slots;
    r->first_held = sn_alloc_n((size_t)p->n_bufs + 1, sizeof(int));
    r->op_of_id = sn_alloc_n((size_t)p->next_id + 1, sizeof(int));
    r->pending = sn_alloc_n(((size_t)p->next_id + 1) * (size_t)r->slots, sizeof(*r->pending));
    bool good = sn_routing_init(&r->routing, job, p) && sn_streams_init(r);
    if (!r->first_held || !r->op_of_id || !r->pending || !good)
        return sn_fail(m->err, SN_ENOMEM, "meaning: no memory for rank %d", job->rank);
    for (int b = 0; b < p->n_bufs; b++)
        r->first_held[b + 1] = r->first_held[b] + copies(p, &p->bufs[b]);
    r->held = sn_alloc_n((size_t)r->first_held[p->n_bufs] + 1, sizeof(*r->held));
    for (int i = 0; i <= p->next_id; i++)
        r->op_of_id[i] = -1;
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].id >= 0 && p->ops[i].id < p->next_id)
            r->op_of_id[p->ops[i].id] = i;
    return r->held ? SN_OK
                   : sn_fail(m->err, SN_ENOMEM, "meaning: no memory for rank %d", job->rank);
}

void sn_rank_fini(struct sn_rank *r)
{
    for (int i = 0; r->held && i < r->first_held[r->program->n_bufs]; i++)
        sn_slabs_fini(&r->held[i]);
    sn_free(r->held);
    sn_free(r->first_held);
    sn_free(r->op_of_id);
    sn_free(r->pending);
    sn_free(r->routing.units);
    sn_free(r->share_of);
    sn_queues_fini(r);
}

/* Zeros between the shards of what is held. */
static void fill_gaps(const struct sn_meaning *m, struct sn_slabs *held, int64_t n)
{
    struct sn_slabs gaps = {0};
    struct sn_slab zeros = {.rows = 1, .cols = n, .ld = n, .space = {SN_SPACE_ANY, SN_SPACE_ANY}};
    sn_slabs_push(&gaps, &zeros);
    for (int i = 0; i < held->n; i++) {
        struct sn_area a = sn_slab_area(&held->t[i]);
        sn_slabs_clear(&gaps, &a);
    }
    for (int i = 0; i < gaps.n; i++)
        sn_slabs_put(held, &m->spaces, &gaps.t[i]);
    held->failed |= gaps.failed;
    sn_slabs_fini(&gaps);
}

struct sn_area sn_state_area(const struct sn_rank *r, const struct sn_bucket *b, int buf)
{
    int64_t n = sn_bucket_elements(r->job, b, buf);
    bool is_slice = n < b->n || (buf == b->weight && b->deferred);
    int64_t own = is_slice ? b->slice : n;
    return (struct sn_area){is_slice ? sn_bucket_slice_at(r->job, b) : 0, 1, own, own};
}

static enum sn_status put_state(struct sn_meaning *m, struct sn_rank *r, int bucket, int buf,
                                const uint64_t *value)
{
    const struct sn_bucket *b = &r->job->buckets[bucket];
    struct sn_slabs all = {0}, mine = {0};
    int64_t n = sn_bucket_elements(r->job, b, buf);
    struct sn_area a = sn_state_area(r, b, buf);
    enum sn_status st = sn_weight_slabs(m, r->job, bucket, value, &all);
    for (int i = 0; i < all.n && st == SN_OK; i++)
        (void)sn_slab_cut(&mine, &all.t[i], &a);
    struct sn_slabs *held = &r->held[r->first_held[buf]];
    for (int i = 0; i < mine.n && st == SN_OK; i++) {
        mine.t[i].at -= n < b->n ? a.at : 0;
        sn_slabs_put(held, &m->spaces, &mine.t[i]);
    }
    if (st == SN_OK)
        fill_gaps(m, held, n);
    if (st == SN_OK && (mine.failed || held->failed))
        st = sn_fail(m->err, SN_ENOMEM, "meaning: no memory for the state of rank %d", r->rank);
    sn_slabs_fini(&all);
    sn_slabs_fini(&mine);
    return st;
}

/* Gradients are zero between shards, and have not been written elsewhere. */
static enum sn_status put_gradient(struct sn_meaning *m, struct sn_rank *r, int bucket)
{
    const struct sn_bucket *b = &r->job->buckets[bucket];
    SN_TRY(put_state(m, r, bucket, b->grad, NULL));
    struct sn_slabs *held = &r->held[r->first_held[b->grad]];
    for (int i = held->n - 1; i >= 0; i--)
        if (held->t[i].space[0] != SN_SPACE_ANY)
            held->t[i] = held->t[--held->n];
    return SN_OK;
}

/* Token ids, targets, or starts, which every context rank has of whole samples, of all micro-batches
 * (lib/data/loader.h says who has which). kinds: of numbers, one after another in each micro-batch, each with a
 * name of its own. */
static enum sn_status put_batch(struct sn_meaning *m, struct sn_rank *r, int buf, int kinds,
                                int name)
{
    const struct sn_config *c = m->is_reference ? r->job->config : m->config;
    const struct sn_layout_config *l = &c->layout;
    struct sn_position_attr a = {.seq = c->model.seq,
                                 .context = buf == r->job->starts ? 1 : l->context,
                                 .context_rank = r->job->group_index[SN_GROUP_CONTEXT],
                                 .zigzag = l->context > 1 && l->context_kind == SN_CONTEXT_RING};
    int64_t per_sample = sn_rows_per_sample(&a), at = 0, cols = r->program->bufs[buf].cols;
    struct sn_slabs *held = &r->held[r->first_held[buf]];
    for (int block = 0; block < r->program->micros * kinds; block++)
        for (int i = 0; i < l->micro_batch; i++)
            for (int64_t row = 0, n; row < per_sample; row += n, at += n) {
                int64_t from = sn_position(&a, a.context_rank, row), micro = block / kinds;
                int64_t sample = (micro * l->data + r->job->group_index[SN_GROUP_DATA]) *
                                     l->micro_batch +
                                 i;
                for (n = 1;
                     row + n < per_sample && sn_position(&a, a.context_rank, row + n) == from + n;)
                    n++;
                struct sn_slab t = {.at = at * cols,
                                    .rows = n,
                                    .cols = cols,
                                    .ld = cols,
                                    .value = sn_field_of((uint64_t)(name + block % kinds)),
                                    .space = {SN_SPACE_TOKENS, SN_SPACE_FIXED},
                                    .first = {sample * a.seq + from, 0}};
                sn_slabs_put(held, &m->spaces, &t);
            }
    return held->failed ? sn_fail(m->err, SN_ENOMEM, "meaning: no memory for a batch") : SN_OK;
}

/* Rows of features, sample after sample, whole on every rank; a sample's by its first token. */
static enum sn_status put_features(struct sn_meaning *m, struct sn_rank *r)
{
    const struct sn_config *c = m->is_reference ? r->job->config : m->config;
    int buf = r->job->features, samples = c->layout.micro_batch;
    int64_t cols = c->train.prompt.size, rows = sn_prompt_entry(&c->train.prompt);
    struct sn_slabs *held = &r->held[r->first_held[buf]];
    for (int64_t i = 0; i < (int64_t)r->program->micros * samples; i++) {
        int64_t sample = (i / samples * c->layout.data + r->job->group_index[SN_GROUP_DATA]) * samples +
                         i % samples;
        struct sn_slab t = {.at = i * rows * cols,
                            .rows = rows,
                            .cols = cols,
                            .ld = cols,
                            .value = sn_field_of(SN_FEATURES_NUMBER),
                            .space = {SN_SPACE_TOKENS, SN_SPACE_FIXED},
                            .first = {sample * c->model.seq, 0}};
        sn_slabs_put(held, &m->spaces, &t);
    }
    return held->failed ? sn_fail(m->err, SN_ENOMEM, "meaning: no memory for features") : SN_OK;
}

/* Values of the state before the step: by kind and tensor. */
static void first_values(const struct sn_meaning *m, int what, uint64_t *out)
{
    for (int i = SN_NSPACES; i < m->spaces.n; i++)
        out[i - SN_NSPACES] = sn_field_of(sn_field_mix((uint64_t)what + 17, (uint64_t)i));
}

enum sn_status sn_rank_begin(struct sn_meaning *m, struct sn_rank *r)
{
    const struct sn_job *j = r->job;
    uint64_t *value = sn_alloc_n((size_t)m->spaces.n + 1, sizeof(*value));
    enum sn_status st =
        value ? SN_OK
              : sn_fail(m->err, SN_ENOMEM, "meaning: no memory for what stands for weights");
    for (int i = 0; i < j->n_buckets && st == SN_OK; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        first_values(m, SN_MEANING_WEIGHT, value);
        st = put_state(m, r, i, b->weight, value);
        if (st == SN_OK && b->master != b->weight)
            st = put_state(m, r, i, b->master, value);
        if (st == SN_OK && b->grad >= 0)
            st = put_gradient(m, r, i);
        for (int k = 0; k < SN_MAX_KEPT && st == SN_OK; k++) {
            first_values(m, SN_MEANING_MOMENT + k, value);
            if (b->moment[k] >= 0)
                st = put_state(m, r, i, b->moment[k], value);
        }
    }
    sn_free(value);
    if (st == SN_OK)
        st = put_batch(m, r, j->ids, 1, 101);
    if (st == SN_OK)
        st = put_batch(m, r, j->targets, 1, 102);
    if (st == SN_OK && j->sets >= 0)
        st = put_batch(m, r, j->sets, 1, 104);
    if (st == SN_OK && j->features >= 0)
        st = put_features(m, r);
    if (st == SN_OK && j->further >= 0)
        st = put_batch(m, r, j->further, sn_job_further(j), 105);
    return st == SN_OK && j->starts >= 0 ? put_batch(m, r, j->starts, 1, SN_STARTS_NUMBER) : st;
}
