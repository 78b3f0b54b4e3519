/*
 * report_step.c - what the report of a step says of routers, and of the machine's peak.
 */
#include "lib/exec/accelerator.h"
#include "lib/exec/peak.h"
#include "lib/train/trainer_state.h"

/* What the routers' losses were, per layer, and how evenly experts were chosen. */
void sn_trainer_report_routers(struct sn_trainer *t, struct sn_step_report *r)
{
    const struct sn_model_config *m = &t->env.config->model;
    const struct sn_scalars *s = sn_exec_scalars(t->exec);
    int layers = sn_expert_layers(m);
    if (layers == 0)
        return;
    r->has_routed = t->job->group_size[SN_GROUP_EXPERT] > 1; /* also where nothing is computed */
    r->routed = (int64_t)s->agree[SN_AGREE_ROUTED];
    r->gathered = (int64_t)s->agree[SN_AGREE_GATHERED];
    if (t->env.pace)
        return;
    double n = layers * s->tokens_in_step;
    r->has_aux_loss = m->experts.aux_loss > 0;
    r->has_z_loss = m->experts.z_loss > 0;
    r->aux_loss = s->balance_sum / n;
    r->z_loss = s->z_sum / n;
    r->has_imbalance = true;
    r->imbalance = sn_imbalance_of(sn_exec_load(t->exec), layers, m->experts.count);
}

/* Rank 0 tells, of its host under load. A processor is measured after the first step, which need
 * not wait for it. */
enum sn_status sn_trainer_find_peak(struct sn_trainer *t, struct sn_err *err)
{
    enum sn_dtype type = t->env.config->train.precision;
    if (t->peak > 0)
        return SN_OK;
    if (t->env.pace)
        t->peak = t->env.pace->device.gemm[type].peak;
    else if (t->env.accelerator)
        t->peak = t->env.accelerator->info.peak[type];
    else if (t->env.comm->node_first == 0)
        SN_TRY(sn_peak_measure(&t->peak, t->env.ops, t->job->dtype, t->env.threads, err));
    t->peak *= t->env.comm->size;
    return SN_OK;
}
