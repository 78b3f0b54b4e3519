/*
 * sparse.c - matrices whose zeros stay zeros (train.sparse): static masks, as in Srinivasan et al.,
 * "Training Large Language Models Efficiently with Sparsity and Dataflow" (arXiv 2304.05511), and
 * Thangarasa et al., "SPDF" (arXiv 2303.10464).
 *
 * The weights are the mask: what is 0 gets no gradient (the operation PRUNE) and so stays 0. So
 * checkpoints, converters and other layouts have nothing to carry beside them.
 *
 * Random weights are dropped by lot, as those two do: of each BLOCK neighbours of a row as many stay
 * as the density says, rounded up, or two of each four (2:4). A row is what one output reads.
 */
#include "lib/model/build.h"

#include "lib/base/rng.h"
#include "lib/base/select.h"
#include "lib/base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 128 };

static bool is_target(const struct sn_sparse_config *c, const char *tensor)
{
    for (int i = 0; i < c->n_targets; i++)
        if (sn_str_glob(c->targets[i], tensor))
            return true;
    return false;
}

void sn_sparse_mark(struct sn_param *p, const struct sn_sparse_config *c)
{
    bool is_matrix = p->cols > 1 && p->n_tensors > 0;
    if (!is_matrix || !is_target(c, p->tensor[0].name))
        return;
    bool two = c->kind == SN_SPARSE_2_4;
    p->of = two ? 4 : BLOCK;
    p->keep = two ? 2 : (int)ceil(c->density * BLOCK);
}

/* --- how many there are ----------------------------------------------------------------------- */

/* Of m neighbours, which the last ones of a row may be fewer. */
static int64_t kept_of(const struct sn_param *p, int64_t m)
{
    return (p->keep * m + p->of - 1) / p->of;
}

int64_t sn_sparse_kept(const struct sn_param *p)
{
    return p->rows * (p->cols / p->of * p->keep + kept_of(p, p->cols % p->of));
}

double sn_sparse_share(const struct sn_model *m, const struct sn_node *n)
{
    double all = 0, kept = 0;
    for (int k = 0; k < 2; k++) {
        if (n->param[k] < 0)
            continue;
        const struct sn_param *p = &m->params[n->param[k]];
        if (p->cols == 1) /* a bias */
            continue;
        all += (double)p->rows * (double)p->cols;
        kept += p->keep > 0 ? (double)sn_sparse_kept(p) : (double)p->rows * (double)p->cols;
    }
    return all > 0 ? kept / all : 1;
}

/* --- by lot ----------------------------------------------------------------------------------- */

/* Of m <= BLOCK neighbours the ones with the largest lots stay; of equal ones the first. */
static void drop(float *x, int m, int64_t keep, uint64_t key, uint64_t first)
{
    uint64_t lot[BLOCK], moved[BLOCK];
    for (int i = 0; i < m; i++)
        lot[i] = (sn_rng_bits(key, first + (uint64_t)i) & ~(uint64_t)(BLOCK - 1)) |
                 (uint64_t)(BLOCK - 1 - i); /* so that no two are equal */
    memcpy(moved, lot, (size_t)m * sizeof(*lot));
    uint64_t least = sn_select_largest(moved, m, keep);
    for (int i = 0; i < m; i++)
        if (lot[i] < least)
            x[i] = 0;
}

void sn_sparse_begin(const struct sn_param *p, const struct sn_tensor *tensor, uint64_t seed,
                     int64_t row, int64_t rows, float *out)
{
    char name[sizeof(tensor->name) + 8];
    (void)snprintf(name, sizeof(name), "%s.sparse", tensor->name);
    uint64_t key = sn_rng_key(seed, name);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t at = 0; at < p->cols; at += p->of) {
            int64_t m = p->cols - at < p->of ? p->cols - at : p->of;
            uint64_t first = (uint64_t)((row - tensor->row + r) * p->cols + at);
            drop(out + r * p->cols + at, (int)m, kept_of(p, m), key, first);
        }
}

/* --- patterns --------------------------------------------------------------------------------- */

static bool is_multiplied(const struct sn_model *m, int param)
{
    for (int i = 0; i < m->n_nodes; i++) {
        const struct sn_node *n = &m->nodes[i];
        if ((n->kind == SN_NODE_LINEAR && n->param[0] == param) ||
            (n->kind == SN_NODE_EXPERTS && (n->param[0] == param || n->param[1] == param)))
            return true;
    }
    return false;
}

static enum sn_status check_param(const struct sn_model *m, int param,
                                  const struct sn_sparse_config *c, struct sn_err *err)
{
    const struct sn_param *p = &m->params[param];
    int named = 0;
    for (int k = 0; k < p->n_tensors; k++)
        named += is_target(c, p->tensor[k].name);
    if (p->cols == 1 ||
        named == 0) /* of vectors, which patterns match on the way, nothing is said */
        return SN_OK;
    if (!is_multiplied(m, param))
        return sn_fail(err, SN_EINPUT,
                       "train.sparse.targets: has %s; want matrices of attention, feed-forward "
                       "parts and experts, such as *.ffn.*.weight",
                       p->tensor[0].name);
    if (named < p->n_tensors)
        return sn_fail(err, SN_EINPUT,
                       "train.sparse.targets: has a part of %s; want all of its %d tensors or none",
                       p->name, p->n_tensors);
    return SN_OK;
}

enum sn_status sn_sparse_check(const struct sn_model *m, const struct sn_sparse_config *c,
                               struct sn_err *err)
{
    for (int i = 0; i < c->n_targets; i++) {
        bool used = false;
        for (int p = 0; p < m->n_params && !used; p++)
            for (int k = 0; k < m->params[p].n_tensors && !used; k++)
                used = m->params[p].cols > 1 &&
                       sn_str_glob(c->targets[i], m->params[p].tensor[k].name);
        if (!used)
            return sn_fail(err, SN_EINPUT,
                           "train.sparse.targets: '%s' matches no matrix of this model; names look "
                           "like 'layers.0.attn.q.weight'",
                           c->targets[i]);
    }
    for (int p = 0; p < m->n_params && c->n_targets > 0; p++)
        SN_TRY(check_param(m, p, c, err));
    return SN_OK;
}
