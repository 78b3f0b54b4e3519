/*
 * report_step.c - what the report of a step says of targets, routers, the machine's peak; and what sets of
 * data have given. And whether what a step has sent is what was planned.
 */
#include "lib/base/log.h"
#include "lib/exec/accelerator.h"
#include "lib/exec/peak.h"
#include "lib/config/batch.h"
#include "lib/train/trainer_state.h"

/* A batch with nothing to predict has loss 0 and no gradient; the divisor is any number. */
void sn_trainer_set_targets(struct sn_trainer *t, int64_t step, int64_t targets)
{
    sn_exec_scalars(t->exec)->targets_in_step = targets > 0 ? (double)targets : 1;
    if (targets == 0 && !t->said_no_targets && t->env.comm->rank == 0)
        sn_log(
            SN_LOG_WARN,
            "step %lld: the batch has nothing to predict: its loss is 0, and it has no gradient; "
            "of further such steps nothing is said",
            (long long)step);
    t->said_no_targets = t->said_no_targets || targets == 0;
}

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

/* The mean loss of what the step's samples of each set have to predict. */
void sn_trainer_report_set_losses(struct sn_trainer *t, const struct sn_sample_count *count,
                                  struct sn_step_report *r)
{
    const struct sn_data_config *d = &t->env.config->data;
    const double *sums = sn_set_losses(sn_exec_scalars(t->exec));
    for (int i = 0; i < sn_told_sets(d) && !t->env.pace; i++)
        if (count->of_set[i] > 0)
            r->set_loss[r->n_set_losses++] =
                (struct sn_set_loss){sn_set_name(&d->train, i), sums[i] / (double)count->of_set[i]};
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

enum sn_status sn_trainer_report_sets(struct sn_trainer *t, struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    const struct sn_blend *b = &t->fit.blend;
    struct sn_set_report r[SN_SETS_MAX];
    int64_t step = t->state.scalars.step, end = sn_samples_before(&c->train, step + 1);
    if (!t->metrics || !c->data.train.is_list || step == 0)
        return SN_OK;
    for (int i = 0; i < b->n; i++) {
        int64_t given = sn_blend_given(b, i, end);
        r[i] = (struct sn_set_report){.name = sn_set_name(&c->data.train, i),
                                      .sequences = given,
                                      .tokens = given * c->model.seq,
                                      .share = (double)given / (double)end,
                                      .epochs = (double)given / (double)b->samples[i]};
    }
    return sn_metrics_sets(t->metrics, step, r, b->n, err);
}

enum sn_status sn_trainer_check_traffic(struct sn_trainer *t, int64_t step, struct sn_err *err)
{
    int64_t sent[SN_NAXES] = {0};
    sn_exec_take_sent(t->exec, sent);
    struct sn_routed routed = sn_exec_take_routed(t->exec);
    sent[SN_AXIS_EXPERT] -= routed.exchanged;
    sent[SN_AXIS_TENSOR] -= routed.gathered;
    sent[SN_AXIS_WORLD] -= sn_trainer_snapshot_sent(t); /* exactly what is planned for it */
    sent[SN_AXIS_WORLD] -= sn_trainer_watch_sent(t);    /* the same */
    int64_t off_plan[SN_NAXES] = {0};
    sn_exec_take_off_plan(t->exec, off_plan);
    for (int a = 0; a < SN_NAXES; a++)
        if (sent[a] - off_plan[a] != t->sent_by_rank[a])
            return sn_fail(err, SN_EFAIL,
                           "step %lld: rank %d sent %lld bytes on the %s axis where the plan says "
                           "%lld; this is a defect of sennit, please report it with the run file",
                           (long long)step, t->env.comm->rank, (long long)(sent[a] - off_plan[a]),
                           sn_axis_name((enum sn_axis)a), (long long)t->sent_by_rank[a]);
    return SN_OK;
}
