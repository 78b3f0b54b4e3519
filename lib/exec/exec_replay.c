/*
 * exec_replay.c - micro-batches that differ in nothing but their tokens, on a rank alone: a graph
 * of one, launched for each of them.
 *
 * The first micro-batch is apart (it writes where others add), and so is the last where operations
 * wait for it. Of the others the second is kept, with its tokens where the program has them. For
 * the ones after it their tokens are copied there before the launch: the stream keeps the order,
 * and the whole batch comes anew with the next step.
 */
#include "lib/exec/exec_device.h"

/* Does micro-batch m what micro-batch 1 does? `each` entries of the schedule belong to one. */
static bool is_like(const struct sn_program *p, int each, int m)
{
    if ((m + 1) * each > p->n_sched)
        return false;
    for (int i = 0; i < each; i++) {
        const struct sn_sched *a = &p->sched[each + i], *b = &p->sched[m * each + i];
        if (b->micro != m || a->micro != 1 || a->segment != b->segment || a->slot != b->slot ||
            a->late != b->late || a->first != b->first || a->n != b->n)
            return false;
        for (int k = a->first; k < a->first + a->n; k++) {
            const struct sn_op *op = &p->ops[k];
            if (op->extra || (op->when == SN_LAST && m == p->micros - 1))
                return false;
        }
    }
    return true;
}

/* What comes behind them must not look at their tokens. */
static bool is_over(const struct sn_program *p, int each, int until)
{
    for (int i = each * until; i < p->n_sched; i++)
        if (p->sched[i].micro < until && p->segments[p->sched[i].segment].kind != SN_SEGMENT_UPDATE)
            return false;
    return true;
}

void sn_replay_find(struct sn_exec *x, const struct sn_program *p)
{
    struct sn_exec_device *v = x->device;
    int each = 0, until = 2;
    v->replay = (struct sn_replay){0};
    while (each < p->n_sched && p->sched[each].micro == 0)
        each++;
    bool may = p == &x->job->train && x->job->group_size[SN_GROUP_WORLD] == 1 && p->micros > 2;
    while (may && until < p->micros && is_like(p, each, until))
        until++;
    if (until > 2 && is_over(p, each, until))
        v->replay = (struct sn_replay){.each = each, .until = until};
}

/* So many numbers of micro-batch m to where micro-batch 1 has its own. */
static enum sn_status move_tokens(struct sn_exec *x, int buf, int64_t n, int m, struct sn_err *err)
{
    int64_t bytes = n * (int64_t)sizeof(int32_t);
    char *at = sn_exec_there(x, sn_buffer_address(&x->job->train, buf, 0, 0));
    return sn_device_copy(x, at + bytes, at + m * bytes, bytes, SN_ON_DEVICE, err);
}

enum sn_status sn_replay_micro(struct sn_exec *x, int entry, int micro, int *done,
                               struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_replay *r = &v->replay;
    *done = 0;
    if (entry != micro * r->each)
        return SN_OK;
    if (micro <= 2) {
        SN_TRY(sn_device_cut(x, err));
        v->unmarked = 0;
    }
    v->micro = micro;
    SN_TRY(sn_device_first_sample(x, micro, err));
    if (micro == 1 || v->mode == SN_MODE_EAGER)
        return SN_OK;
    const struct sn_job *job = x->job;
    SN_TRY(move_tokens(x, job->ids, job->rows, micro, err));
    SN_TRY(move_tokens(x, job->targets, job->rows, micro, err));
    if (job->further >= 0)
        SN_TRY(move_tokens(x, job->further, sn_job_further(job) * job->rows, micro, err));
    if (job->sets >= 0)
        SN_TRY(move_tokens(x, job->sets, job->rows, micro, err));
    if (job->starts >= 0)
        SN_TRY(move_tokens(x, job->starts, sn_job_starts(job) * job->train.bufs[job->starts].cols,
                           micro, err));
    if (job->features >= 0)
        SN_TRY(move_tokens(x, job->features,
                          sn_job_feature_rows(job) * job->train.bufs[job->features].cols, micro, err));
    *done = r->each;
    return sn_device_launch(x, v->cut - 1, err);
}
