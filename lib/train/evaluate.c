/*
 * evaluate.c - validation loss with the compiled evaluate program.
 *
 * The sequences 0 .. n - 1 of each validation set, cut over ranks and micro-batches; n is
 * train.eval_sequences, or all of a set that has fewer. Where n is no multiple of data x
 * micro_batch the last micro-batches are filled up with rows that have no targets: the loss is the
 * mean over what counts in the n sequences, whatever the layout. No such row changes another one: experts have
 * their capacity for each sequence apart.
 */
#include "lib/train/trainer_state.h"

/* Tokens of a set that an evaluation predicts. */
static int64_t targets_of(const struct sn_trainer *t, int set)
{
    int64_t n = sn_data_eval_sequences(t->env.config, t->fit.valid[set].samples);
    return sn_loader_count(&t->valid, set, n).targets;
}

enum sn_status sn_trainer_check_evaluation(const struct sn_trainer *t, struct sn_err *err)
{
    for (int i = 0; i < t->valid_data.n; i++)
        if (targets_of(t, i) == 0)
            return sn_fail(err, SN_EINPUT,
                           "%s: data.valid: %s has nothing to predict in the %d sequences of an "
                           "evaluation; want more train.eval_sequences, or other data",
                           t->env.config->path, t->fit.valid[i].path,
                           t->env.config->train.eval_sequences);
    return SN_OK;
}

static enum sn_status evaluate(struct sn_trainer *t, int set, struct sn_eval_set *out,
                               struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    const struct sn_program *p = &t->job->evaluate;
    struct sn_scalars *s = sn_exec_scalars(t->exec);
    int group = t->valid.ranks * t->valid.sequences;
    int64_t sequences = sn_data_eval_sequences(c, t->fit.valid[set].samples);
    int64_t first_sample = 0; /* nothing in it is random */
    s->loss_sum = 0;
    s->tokens_in_step = (double)sequences * c->model.seq;
    s->targets_in_step = (double)targets_of(t, set);
    for (int64_t first = 0; first < sequences; first += group) {
        int64_t mine = first + (int64_t)t->valid.rank * t->valid.sequences;
        SN_TRY(sn_loader_range(&t->valid, set, mine, sequences, err));
        SN_TRY(sn_exec_run(t->exec, p, &first_sample, err));
    }
    SN_TRY(sn_exec_segment(t->exec, p, p->n_segments - 1, (struct sn_at){.micros = 1}, err));
    *out = (struct sn_eval_set){
        .name = t->fit.valid[set].name, .loss_sum = s->loss_sum, .tokens = s->targets_in_step};
    return SN_OK;
}

enum sn_status sn_trainer_evaluate(struct sn_trainer *t, struct sn_eval_report *out,
                                   struct sn_err *err)
{
    out->n = t->valid_data.n;
    for (int i = 0; i < out->n; i++)
        SN_TRY(evaluate(t, i, &out->set[i], err));
    int64_t dropped[SN_NAXES] = {0}; /* not the training step's */
    sn_exec_take_sent(t->exec, dropped);
    (void)sn_exec_take_routed(t->exec);
    return SN_OK;
}
