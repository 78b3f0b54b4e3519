#include "tests/lib/accounting.h"

#include "lib/sim/stages.h"
#include "tests/lib/layout_test.h"

#include <stdio.h>
#include <string.h>

enum { SHALLOW = 2, DEEP = 4, LAYER = 1, STEPS = 1 };

struct sn_config account_config(int tensor, int expert, bool sequence_parallel)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.model.family = SN_MIXTRAL;
    c.model.experts = (struct sn_experts_config){.count = 4, .top_k = 2, .every = 1};
    c.train.global_batch = 2 * expert;
    c.layout.data = c.layout.expert = expert;
    c.layout.tensor = tensor;
    c.layout.sequence_parallel = sequence_parallel;
    c.layout.expert_buffer = 2;
    return c;
}

/* --- the formulas ----------------------------------------------------------------------------- */

/* Ranks with slices of an expert, where tensor ranks route tokens of their own; else 0. */
static int64_t slices_of(const struct sn_layout_config *l)
{
    bool fewer = l->expert_tensor > 0 && l->expert_tensor < l->tensor;
    return fewer ? l->expert_tensor : l->expert_tokens == SN_TOKENS_SPLIT ? l->tensor : 0;
}

/* What one layer's text holds. Computing all again takes what leads to an input that a gradient
 * reads: the way to the experts, the all-gathers, the sum of attention's output, not the layer's.
 */
static struct account_ops ops_of(const struct sn_config *c)
{
    const struct sn_layout_config *l = &c->layout;
    int again = l->recompute == SN_RECOMPUTE_FULL && !l->comm_aware_recompute;
    bool shares = l->drop_duplicates;
    struct account_ops o = {.exchanges = 4 + again};
    o.gathered = shares ? 2 + again : 0;
    o.scattered = shares ? 2 : 0;
    o.all_reduces = l->sequence_parallel ? 0 : 4 + again;
    o.all_gathers = l->sequence_parallel ? 4 + 2 * again : 0;
    o.reduce_scatters = l->sequence_parallel ? 4 + again : 0;
    if (slices_of(l) > 0) { /* attention's alone */
        o.all_gathers = 2 + again;
        o.reduce_scatters = 2 + again;
    }
    return o;
}

static int64_t padded(int64_t n)
{
    return (n + 31) / 32 * 32;
}

static struct account_bytes formula(const struct sn_config *c)
{
    const struct sn_layout_config *l = &c->layout;
    const struct sn_model_config *m = &c->model;
    struct account_ops o = ops_of(c);
    int64_t t = l->tensor, p = l->expert, replicas = l->data, width = (int64_t)sizeof(float);
    int64_t micros = c->train.global_batch / l->data / l->micro_batch;
    int64_t tokens = (int64_t)l->micro_batch * m->seq, row = m->hidden * width;
    int64_t rows = replicas * tokens * m->experts.top_k, copies = l->drop_duplicates ? 1 : t;
    int again = o.exchanges - 4;
    struct account_bytes b = {0, 0};
    int64_t slices = slices_of(l); /* each row to so many of the members */
    int64_t members = slices > 0 ? p * slices : p, sent = rows * (slices > 0 ? slices : copies);
    b.expert = micros * o.exchanges * sent * (members - 1) / members * row;
    /* everybody's bounds */
    b.expert += micros * (1 + again) * replicas * t * (members - 1) * (m->experts.count + 1) *
                (int64_t)sizeof(int32_t);
    b.tensor = micros * replicas * (t - 1) * tokens * row *
               (2 * o.all_reduces + o.all_gathers + o.reduce_scatters);
    b.tensor += micros * (o.gathered + o.scattered) * (t - 1) * rows * row;
    /* once a step the router's gradient, and those of two norms where they saw slices; in buckets a
     * parameter is padded to 32 values */
    int64_t router = padded(m->experts.count * m->hidden), norm = padded(m->hidden);
    int64_t summed = router + (l->sequence_parallel ? 2 * norm : 0);
    b.tensor += replicas * 2 * (t - 1) * summed * width;
    return b;
}

/* --- the plan, and the text ------------------------------------------------------------------- */

static void count_ops(struct account_ops *o, const struct sn_program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        if (op->extra || op->layer != LAYER)
            continue;
        o->exchanges += op->kind == SN_OP_EXCHANGE;
        o->gathered += op->kind == SN_OP_GATHER_ROWS && !op->attr.inverse;
        o->scattered += op->kind == SN_OP_GATHER_ROWS && op->attr.inverse;
        if (op->group != SN_GROUP_TENSOR)
            continue;
        o->all_reduces += op->kind == SN_OP_ALL_REDUCE;
        o->all_gathers += op->kind == SN_OP_ALL_GATHER;
        o->reduce_scatters += op->kind == SN_OP_REDUCE_SCATTER;
    }
}

static bool compile(struct account *out, const struct sn_config *c, struct account_bytes *planned)
{
    struct sn_err err = {0};
    struct sn_model *model = NULL;
    struct sn_stages stages = {0};
    struct sn_job_env env = {.config = c, .ops = sn_ops_cpu(), .threads = 1};
    enum sn_status st = sn_model_create(&model, &c->model, &c->train, &err);
    env.model = model;
    if (st == SN_OK)
        st = sn_stages_create(&stages, &env, &err);
    if (st == SN_OK) {
        int64_t bytes[SN_NAXES];
        sn_job_traffic_of_stage(stages.job[0], bytes);
        *planned = (struct account_bytes){bytes[SN_AXIS_EXPERT], bytes[SN_AXIS_TENSOR]};
        if (c->model.layers == DEEP)
            count_ops(&out->ops, &stages.job[0]->train);
    }
    sn_stages_fini(&stages);
    sn_model_destroy(model);
    if (st != SN_OK)
        (void)snprintf(out->fault, sizeof(out->fault), "%.250s", err.text);
    return st == SN_OK;
}

/* --- a run ------------------------------------------------------------------------------------ */

/* Balanced, as the plan has it: ranks communicate for real and compute nothing. */
static bool run(struct account *out, const struct sn_config *c, struct account_bytes *counted)
{
    static const char text[] = "flops: 1.0e15\nmemory_bandwidth: 1.0e15\noverhead: 0.0\n";
    struct sn_machine machine;
    struct sn_err err = {0};
    struct layout_run r = {.steps = STEPS, .pace = &machine};
    if (sn_machine_parse(&machine, text, strlen(text), "fast", &err) != SN_OK) {
        (void)snprintf(out->fault, sizeof(out->fault), "%.250s", err.text);
        return false;
    }
    layout_train(&r, c);
    *counted = (struct account_bytes){r.sent[SN_AXIS_EXPERT], r.sent[SN_AXIS_TENSOR]};
    (void)snprintf(out->fault, sizeof(out->fault), "%.200s", r.fault);
    return !r.fault[0];
}

static struct account_bytes per_layer(struct account_bytes deep, struct account_bytes shallow)
{
    return (struct account_bytes){(deep.expert - shallow.expert) / (DEEP - SHALLOW),
                                  (deep.tensor - shallow.tensor) / (DEEP - SHALLOW)};
}

void account_layer(struct account *out, const struct sn_config *c)
{
    struct sn_config deep = *c, shallow = *c;
    struct account_bytes planned[2], counted[2];
    deep.model.layers = DEEP;
    shallow.model.layers = SHALLOW;
    *out = (struct account){.formula = formula(c), .want_ops = ops_of(c)};
    if (!compile(out, &shallow, &planned[0]) || !compile(out, &deep, &planned[1]) ||
        !run(out, &shallow, &counted[0]) || !run(out, &deep, &counted[1]))
        return;
    out->planned = per_layer(planned[1], planned[0]);
    out->counted = per_layer(counted[1], counted[0]);
}

/* --- the update ------------------------------------------------------------------------------- */

static int64_t live_at(const struct sn_program *p, int first, int op)
{
    int64_t live = 0;
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) {
        const struct sn_buffer *x = &p->bufs[b];
        live += x->first >= first && x->first <= op && x->last >= op ? x->bytes : 0;
    }
    return live;
}

static int64_t most_live(const struct sn_program *p)
{
    const struct sn_segment *update = &p->segments[p->n_segments - 1];
    int64_t most = 0;
    for (int i = update->first; i < update->first + update->n; i++) {
        int64_t live = live_at(p, update->first, i);
        most = live > most ? live : most;
    }
    return most;
}

int64_t account_update(const struct sn_config *c, int64_t *slice, struct sn_memory_plan *plan,
                       struct sn_err *err)
{
    struct sn_model *model = NULL;
    struct sn_job *job = NULL;
    struct sn_job_env env = {.config = c, .ops = sn_ops_cpu(), .threads = 1};
    int64_t most = -1;
    *slice = 0;
    enum sn_status st = sn_model_create(&model, &c->model, &c->train, err);
    env.model = model;
    if (st == SN_OK)
        st = sn_job_create(&job, &env, err);
    if (st == SN_OK) {
        most = most_live(&job->train);
        for (int b = 0; b < job->n_buckets; b++)
            if (job->buckets[b].grad_type != SN_F32 && job->buckets[b].slice > *slice)
                *slice = job->buckets[b].slice;
        sn_job_memory(job, plan);
    }
    sn_job_destroy(job);
    sn_model_destroy(model);
    return most;
}
