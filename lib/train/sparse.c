/*
 * sparse.c - are the weights that a run begins with as sparse as train.sparse says? What is planned
 * and counted (lib/model/sparse.c) relies on it, and a run on dense weights would drop nothing.
 */
#include "lib/train/trainer_state.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/state/state.h"

#include <string.h>

/* Of the whole groups of four that a row of the box has; those that a box cuts are not looked at. */
static bool is_two_of_four(const struct sn_state_tensor *b, const float *row)
{
    int64_t skip = (4 - b->col % 4) % 4;
    for (int64_t at = skip; at + 4 <= b->n_cols; at += 4) {
        int n = 0;
        for (int k = 0; k < 4; k++)
            n += row[at + k] != 0;
        if (n > 2)
            return false;
    }
    return true;
}

/* Values of a box that are not 0, added to *n. */
static enum sn_status count(int64_t *n, const struct sn_state_tensor *b, bool is_2_4,
                            struct sn_err *err)
{
    float *row = sn_alloc_n((size_t)b->n_cols, sizeof(*row));
    enum sn_status st = row ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory for a row", b->name);
    for (int64_t r = 0; r < b->n_rows && st == SN_OK; r++) {
        sn_state_get(b, r, 0, b->n_cols, row);
        for (int64_t c = 0; c < b->n_cols; c++)
            *n += row[c] != 0;
        if (is_2_4 && !is_two_of_four(b, row))
            st = sn_fail(err, SN_EINPUT,
                         "train.sparse.kind: %s, row %lld, has more than two values of four that "
                         "are not 0; sennit-convert --sparse 2:4 makes such weights",
                         b->name, (long long)(b->row + r));
    }
    sn_free(row);
    return st;
}

static enum sn_status count_here(int64_t *n, const struct sn_trainer *t, struct sn_err *err)
{
    bool is_2_4 = t->env.config->train.sparse.kind == SN_SPARSE_2_4;
    for (int i = 0; i < t->state.n_tensors; i++) {
        const struct sn_state_tensor *b = &t->state.tensors[i];
        if (b->owned && strcmp(b->group, "model") == 0 && t->model->params[b->param].keep > 0 &&
            b->n_cols > 0)
            SN_TRY(count(n, b, is_2_4, err));
    }
    return SN_OK;
}

/* Moments of a weight that is 0 would move it. One that training has brought to 0 by chance may have some, and
 * goes on by them; where many have, the weights have become sparse without their moments. */
static enum sn_status check_moments(const struct sn_trainer *t, struct sn_err *err)
{
    const struct sn_job *j = t->job;
    int moments = sn_optimizer_row(t->env.config->train.optimizer.kind)->n_moments;
    int64_t zeros = 0, moved = 0;
    for (int i = 0; i < j->n_buckets; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        int64_t at = j->train.bufs[b->master].cols > b->slice ? sn_bucket_slice_at(j, b) : 0;
        const float *w = sn_exec_address(t->exec, &j->train, b->master);
        for (int k = 0; k < moments && b->is_sparse; k++) {
            const float *m = sn_exec_address(t->exec, &j->train, b->moment[k]);
            for (int64_t v = 0; v < b->slice; v++) {
                zeros += w[at + v] == 0;
                moved += w[at + v] == 0 && m[v] != 0;
            }
        }
    }
    if (moved <= zeros / 1000)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "train.sparse: the optimizer's state would move weights that are 0; "
                   "sennit-convert --sparse drops both, and train.init_from takes weights alone");
}

static enum sn_status judge(const struct sn_trainer *t, int64_t found, struct sn_err *err)
{
    struct sn_sparsity x;
    sn_model_sparsity(&x, t->model, t->env.config);
    if (found > x.kept)
        return sn_fail(err, SN_EINPUT,
                       "train.sparse.density: %lld of %lld values of the targets are not 0, and "
                       "%g allows %lld; sennit-convert --sparse makes such weights",
                       (long long)found, (long long)x.values, t->env.config->train.sparse.density,
                       (long long)x.kept);
    sn_log(
        SN_LOG_INFO,
        "sparse: %.2f %% of %lld values of %d matrices are not 0 and are trained; %.1f %% of the "
        "model's FLOPs have no such 0 as a factor",
        100 * (double)found / (double)x.values, (long long)x.values, x.matrices, 100 * x.flops);
    return SN_OK;
}

enum sn_status sn_trainer_check_sparse(struct sn_trainer *t, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    int64_t here = 0, found = 0;
    if (t->env.config->train.sparse.n_targets == 0)
        return SN_OK;
    int64_t *all = c->rank == 0 ? sn_alloc_n((size_t)c->size, sizeof(*all)) : NULL;
    enum sn_status st = count_here(&here, t, err);
    if (st == SN_OK)
        st = check_moments(t, err);
    if (st == SN_OK && c->rank == 0 && !all)
        st = sn_fail(err, SN_ENOMEM, "train.sparse: no memory for %d counts", c->size);
    st = c->ops->agree(c, st, err);
    if (st == SN_OK)
        st = c->ops->gather(c, &here, (int64_t)sizeof(here), all, 0, err);
    for (int r = 0; r < c->size && st == SN_OK && c->rank == 0; r++)
        found += all[r];
    if (st == SN_OK && c->rank == 0)
        st = judge(t, found, err);
    sn_free(all);
    return c->ops->agree(c, st, err);
}
