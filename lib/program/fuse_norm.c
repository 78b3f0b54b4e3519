/*
 * fuse_norm.c - a sum that a norm reads next is the norm's own.
 *
 *   s = ADD(x, g); y = NORM(s)   becomes   y, s = NORM(x; g)      (kernels/ops.h: the same bits)
 *
 * The sum is written as before, for who else reads it (the next sum, the norm's gradient), but it
 * is not read again to be normalised: of 5 passes over memory (two read and one written, one read
 * and one written) 4 are left, one launch of two.
 *
 * Sums and norms of all texts qualify, those that recomputation repeats, too: x' = x + f(x) of a
 * layer is read by the norm of its second half, the next layer's first or the head's. Not where a
 * product takes the sum (adds_in_products), which saves two passes, nor where a pipeline's boundary
 * stands between, nor a gradient's sum: no norm reads one (the addend of a norm's dx is a rule of
 * grad.c). Of L layers in K stage modules of a pipeline, sums that become a norm's:
 *
 *                                 the processor; sums over tensor      adds_in_products, tensor 1,
 *                                 ranks or dropout before them         no dropout
 *   gpt2, llama                   2 L - (K - 1)                        0: products have all 2 L
 *   gpt-neox, parallel residual   L - (K - 1) of 2 L: attention and    L - (K - 1): products have
 *                                 feed-forward are summed first        the others
 *   mixtral                       2 L - (K - 1)                        L - (K - 1): behind experts
 *
 * Each is T x D elements less through memory, T / tensor rows of them with sequence parallelism:
 * with 16,384 rows of 4,096 columns in bf16 128 MiB. tests/unit/program/test_fuse_norm.c counts
 * them.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"

static bool is_sum(const struct sn_program *p, const struct sn_op *op)
{
    return op->kind == SN_OP_ADD && op->when == SN_EVERY && op->acc[SN_ADD_Y] == SN_ACC_WRITE &&
           sn_view_is_all(p, &op->in[SN_ADD_A]) && sn_view_is_all(p, &op->in[SN_ADD_B]) &&
           sn_view_is_all(p, &op->out[SN_ADD_Y]) && op->out[SN_ADD_Y].buf >= p->n_state_bufs;
}

/* Is `op` a norm of the sum, and of nothing else yet? */
static bool takes(const struct sn_program *p, const struct sn_op *op, const struct sn_op *sum)
{
    return sn_op_row(op->kind)->adds_residual && op->in[SN_NORM_X].buf == sum->out[SN_ADD_Y].buf &&
           sn_view_is_all(p, &op->in[SN_NORM_X]) && op->in[SN_NORM_ADDEND].buf < 0 &&
           op->in[SN_NORM_PARTS].buf < 0 && op->when == sum->when && op->extra == sum->extra &&
           op->only == sum->only && op->is_weight_grad == sum->is_weight_grad;
}

/* May `op` stand between them? Weights that come or go, as a rule. Anything that computes would
 * find more memory taken: x and g, not their sum. */
static bool may_be_between(const struct sn_op *op, const struct sn_op *sum)
{
    if (op->kind < SN_NKERNELS && op->kind != SN_OP_ZERO)
        return false;
    for (int i = 0; i < SN_MAX_IN; i++)
        if (op->in[i].buf == sum->out[SN_ADD_Y].buf)
            return false;
    for (int o = 0; o < SN_MAX_OUT; o++)
        if (op->out[o].buf >= 0 &&
            (op->out[o].buf == sum->out[SN_ADD_Y].buf || op->out[o].buf == sum->in[SN_ADD_A].buf ||
             op->out[o].buf == sum->in[SN_ADD_B].buf))
            return false;
    return true;
}

/* The norm before operation `end` that takes the sum i; -1. */
static int norm_of(const struct sn_program *p, int i, int end)
{
    const struct sn_op *sum = &p->ops[i];
    if (!is_sum(p, sum))
        return -1;
    for (int k = i + 1; k < end; k++) {
        if (takes(p, &p->ops[k], sum))
            return k;
        if (!may_be_between(&p->ops[k], sum))
            return -1;
    }
    return -1;
}

void sn_pass_fuse_norms(struct sn_program *p)
{
    bool *gone = p->failed ? NULL : sn_alloc_n((size_t)p->n_ops + 1, sizeof(bool));
    p->failed = gone == NULL;
    for (int c = 0; c < p->n_segments && gone; c++) {
        int end = p->segments[c].first + p->segments[c].n;
        for (int i = p->segments[c].first; i < end; i++) {
            int norm = norm_of(p, i, end);
            if (norm < 0)
                continue;
            p->ops[norm].in[SN_NORM_X] = p->ops[i].in[SN_ADD_A];
            p->ops[norm].in[SN_NORM_ADDEND] = p->ops[i].in[SN_ADD_B];
            p->ops[norm].out[SN_NORM_SUM] = p->ops[i].out[SN_ADD_Y];
            gone[i] = true;
        }
    }
    if (gone)
        sn_ops_drop(p, gone);
    sn_free(gone);
}
