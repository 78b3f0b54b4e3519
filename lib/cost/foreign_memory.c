/*
 * foreign_memory.c - another trainer's memory (foreign_memory.h).
 */
#include "lib/cost/foreign_memory.h"

/* --- states ----------------------------------------------------------------------------------- */

/* Parameters whose weights, gradients or optimizer states, all or a slice of them, are on this
 * rank. */
static double elements(const struct sn_job *j, enum sn_hold held)
{
    double n = 0;
    for (int b = 0; b < j->n_buckets; b++)
        n += (double)j->buckets[b].n /
             (held == SN_HOLD_SLICE ? (double)j->group_size[SN_GROUP_REPLICA] : 1);
    return n;
}

/* --- activations ------------------------------------------------------------------------------ */

/* Layers of a virtual stage, blocks of model.mtp too; is the head among its operations? */
static int layers_of(const struct sn_job *j, int vstage, bool *has_head)
{
    const struct sn_program *p = &j->train;
    int layers = 0, last = -1;
    for (int c = 0; c < p->n_segments; c++) {
        const struct sn_segment *segment = &p->segments[c];
        if (segment->kind != SN_SEGMENT_FORWARD || segment->scope.virtual_stage != vstage)
            continue;
        for (int i = segment->first; i < segment->first + segment->n; i++) {
            int layer = p->ops[i].layer; /* the head counts as the one behind the last */
            if (layer > last && layer != j->config->model.layers) {
                layers++;
                last = layer;
            }
            *has_head = *has_head || p->ops[i].kind == SN_OP_CROSS_ENTROPY;
        }
    }
    return layers;
}

static double activations(const struct sn_job *j, const struct sn_software *s)
{
    const struct sn_model_config *m = &j->config->model;
    const struct sn_layout_config *l = &j->config->layout;
    bool keeps_scores = s->attention == SN_ATTENTION_FUSED || s->attention == SN_ATTENTION_TORCH;
    double tensor = l->tensor, rows = (double)j->rows, wide = rows * m->hidden;
    double replicas = l->sequence_parallel ? tensor : 1;
    double norms = s->kept_replicated + (s->fused_norm ? 0 : s->kept_unfused);
    double scores = keeps_scores ? s->kept_scores * rows * m->seq * m->heads : 0;
    double layer = wide * norms / replicas + (wide * s->kept_sharded + scores) / tensor;
    double kept = 0;
    bool has_head = false, again = l->recompute == SN_RECOMPUTE_FULL;
    for (int v = 0; v < j->train.vstages; v++) {
        double copies = (double)layers_of(j, v, &has_head) * j->train.slots[v];
        kept += copies * (again ? (double)sn_dtype_size(j->dtype) * wide / replicas : layer);
    }
    double logits = s->logits_bytes + (tensor > 1 ? s->logits_gathered_bytes : 0);
    return kept + (again ? s->recompute_live * layer : 0) +
           (has_head ? logits * rows * m->vocab * (1 + m->mtp) : 0);
}

void sn_foreign_memory(struct sn_memory_plan *m, const struct sn_job *j,
                       const struct sn_software *s)
{
    if (s->param_bytes > 0)
        m->params = (int64_t)(s->param_bytes * elements(j, j->held->weights));
    if (s->grad_bytes > 0)
        m->grads = (int64_t)(s->grad_bytes * elements(j, j->held->gradients));
    if (s->optimizer_bytes > 0)
        m->optimizer = (int64_t)(s->optimizer_bytes * elements(j, j->held->optimizer));
    if (s->kept_replicated > 0 || s->kept_sharded > 0) {
        m->activations = (int64_t)activations(j, s);
        m->workspace = m->comm = 0;
    }
    m->workspace += (int64_t)s->fixed_bytes;
    sn_memory_add_up(m);
}
