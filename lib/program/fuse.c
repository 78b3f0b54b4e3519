/*
 * fuse.c - a product and the operation beside it made one (the epilogues of GEMM in kernels/ops.h),
 * where the backend says that this saves a pass over memory.
 *
 * The text is whole when this pass reads it: collectives, recomputation, ZeRO and what is delayed
 * stand in it. Which operations belong together is read off their operands, so nothing has to be
 * known of layouts: an activation of a sum over ranks reads what the collective gives, not the
 * product; one that is computed again reads what was kept, in another segment than the product.
 *
 *   ACT      x = A B + bias, y = ACT x           y = ACT (A B + bias), and x where others read it
 *   ACT_DX   d = A B, dx = ACT_DX(d, x)          d has no other reader
 *   COLSUM   dw = dy^T x, db = COLSUM dy         the same dy
 *
 * The second operation moves up to the product. A value is written once, so nobody meets what it
 * writes too early but in the gradients of buckets, to which several operations write.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"

#include <string.h>

struct fuse {
    struct sn_program *p;
    const struct sn_job *job;
    int *readers, *writers; /* by buffer: operations that name it */
    int *written;           /* by buffer: the last operation that writes it */
    bool *gone;             /* by operation: it has become part of a product */
};

static bool is_same(const struct sn_view *a, const struct sn_view *b)
{
    return a->buf == b->buf && a->offset == b->offset && a->rows == b->rows && a->cols == b->cols &&
           a->ld == b->ld && a->index == b->index && a->stride == b->stride;
}

static bool is_slot(const struct sn_program *p, const struct sn_view *v)
{
    return v->buf >= p->n_state_bufs && sn_view_is_all(p, v);
}

static void count(struct fuse *f)
{
    for (int i = 0; i < f->p->n_ops; i++) {
        const struct sn_op *op = &f->p->ops[i];
        for (int k = 0; k < SN_MAX_IN; k++)
            if (op->in[k].buf >= 0)
                f->readers[op->in[k].buf]++;
        for (int o = 0; o < SN_MAX_OUT; o++)
            if (op->out[o].buf >= 0) {
                f->writers[op->out[o].buf]++;
                f->written[op->out[o].buf] = i;
            }
    }
}

/* Do both run at the same times? */
static bool together(const struct sn_op *a, const struct sn_op *b)
{
    return a->when == b->when && a->only == b->only && !a->extra && !b->extra &&
           a->is_weight_grad == b->is_weight_grad;
}

/* The next operation of this kind before `end` that reads all of `v` first; -1. */
static int reader_of(const struct fuse *f, int i, int end, int kind, const struct sn_view *v)
{
    for (i++; i < end; i++)
        if (f->p->ops[i].kind == kind && !f->gone[i] && is_same(&f->p->ops[i].in[0], v))
            return i;
    return -1;
}

/* Does the backend gain by it? Then it is done. */
static void become(struct fuse *f, int i, int j, const struct sn_op *both)
{
    struct sn_args a;
    sn_op_shapes(f->p, both, &a);
    if (!f->job->ops->fuses(&a))
        return;
    f->p->ops[i] = *both;
    f->gone[j] = true;
}

/* A product that gives all of a value, and nothing but the product and a bias that
 * every rank adds. */
static bool gives_value(const struct fuse *f, const struct sn_op *op)
{
    return is_slot(f->p, &op->out[SN_GEMM_C]) && f->writers[op->out[SN_GEMM_C].buf] == 1 &&
           op->acc[SN_GEMM_C] == SN_ACC_WRITE && op->in[SN_GEMM_ADDEND].buf < 0 &&
           op->in_first == 0;
}

static bool makes_value(const struct fuse *f, const struct sn_op *op)
{
    return is_slot(f->p, &op->out[0]) && f->writers[op->out[0].buf] == 1;
}

static void with_activation(struct fuse *f, int i, int end)
{
    struct sn_op both = f->p->ops[i];
    int j = gives_value(f, &both) ? reader_of(f, i, end, SN_OP_ACT, &both.out[SN_GEMM_C]) : -1;
    const struct sn_op *act = j < 0 ? NULL : &f->p->ops[j];
    if (!act || !together(&both, act) || !makes_value(f, act))
        return;
    both.attr.gemm.epilogue = SN_EPILOGUE_ACT;
    both.attr.act = act->attr.act;
    both.out[SN_GEMM_BESIDE] =
        f->readers[both.out[SN_GEMM_C].buf] > 1 ? both.out[SN_GEMM_C] : sn_no_view;
    both.out[SN_GEMM_C] = act->out[SN_ACT_Y];
    become(f, i, j, &both);
}

/* Not where weight gradients are delayed: dx lives until then, in the place of x, which a product
 * cannot take (kernels/ops.h). In one they would keep another matrix for each layer. */
static void with_slope(struct fuse *f, int i, int end)
{
    struct sn_op both = f->p->ops[i];
    bool is_read_once = !sn_weights_delayed(f->job) && gives_value(f, &both) &&
                        f->readers[both.out[SN_GEMM_C].buf] == 1;
    int j = is_read_once && both.in[SN_GEMM_BIAS].buf < 0
                ? reader_of(f, i, end, SN_OP_ACT_DX, &both.out[SN_GEMM_C])
                : -1;
    const struct sn_op *dx = j < 0 ? NULL : &f->p->ops[j];
    if (!dx || !together(&both, dx) || !makes_value(f, dx) ||
        !is_slot(f->p, &dx->in[SN_ACT_DX_X]) ||
        f->written[dx->in[SN_ACT_DX_X].buf] >= i) /* x must be there when the product runs */
        return;
    both.attr.gemm.epilogue = SN_EPILOGUE_ACT_DX;
    both.attr.act = dx->attr.act;
    both.in[SN_GEMM_SLOPE_OF] = dx->in[SN_ACT_DX_X];
    both.out[SN_GEMM_C] = dx->out[SN_ACT_DX_DX];
    become(f, i, j, &both);
}

/* May two operands share an element? Rows with gaps count as one piece. */
static bool overlap(const struct sn_view *a, const struct sn_view *b)
{
    int64_t end_a = a->offset + (a->rows - 1) * a->ld + a->cols;
    int64_t end_b = b->offset + (b->rows - 1) * b->ld + b->cols;
    return a->buf == b->buf && a->offset < end_b && b->offset < end_a;
}

/* Does an operation from i to before j read or write what `v` shows? */
static bool is_touched(const struct sn_program *p, int i, int j, const struct sn_view *v)
{
    for (; i < j; i++) {
        for (int k = 0; k < SN_MAX_IN; k++)
            if (overlap(&p->ops[i].in[k], v))
                return true;
        for (int o = 0; o < SN_MAX_OUT; o++)
            if (overlap(&p->ops[i].out[o], v))
                return true;
    }
    return false;
}

static void with_sums(struct fuse *f, int i, int end)
{
    struct sn_op both = f->p->ops[i];
    bool is_gradient = both.attr.gemm.trans_a && both.is_weight_grad &&
                       both.in[SN_GEMM_BIAS].buf < 0 && both.in[SN_GEMM_ADDEND].buf < 0;
    int j = is_gradient ? reader_of(f, i, end, SN_OP_COLSUM, &both.in[SN_GEMM_A]) : -1;
    const struct sn_op *sums = j < 0 ? NULL : &f->p->ops[j];
    if (!sums || !together(&both, sums) || is_touched(f->p, i, j, &sums->out[SN_COLSUM_DB]))
        return;
    both.attr.gemm.epilogue = SN_EPILOGUE_COLSUM;
    both.out[SN_GEMM_BESIDE] = sums->out[SN_COLSUM_DB];
    both.acc[SN_GEMM_BESIDE] = sums->acc[SN_COLSUM_DB];
    become(f, i, j, &both);
}

static void fuse_all(struct fuse *f)
{
    count(f);
    for (int c = 0; c < f->p->n_segments; c++) {
        int end = f->p->segments[c].first + f->p->segments[c].n;
        for (int i = f->p->segments[c].first; i < end; i++) {
            const struct sn_op *op = &f->p->ops[i];
            void (*const ways[])(struct fuse *, int, int) = {with_activation, with_slope,
                                                             with_sums};
            for (int w = 0; w < 3; w++)
                if (op->kind == SN_OP_GEMM && op->attr.gemm.epilogue == SN_EPILOGUE_NONE)
                    ways[w](f, i, end);
        }
    }
    sn_ops_drop(f->p, f->gone);
}

void sn_pass_fuse(const struct sn_job *j, struct sn_program *p)
{
    size_t bufs = (size_t)p->n_bufs + 1;
    struct fuse f = {.p = p, .job = j};
    if (p->failed || !j->ops->fuses)
        return;
    f.readers = sn_alloc_n(bufs, sizeof(int));
    f.writers = sn_alloc_n(bufs, sizeof(int));
    f.written = sn_alloc_n(bufs, sizeof(int));
    f.gone = sn_alloc_n((size_t)p->n_ops + 1, sizeof(bool));
    if (f.readers && f.writers && f.written && f.gone)
        fuse_all(&f);
    else
        p->failed = true;
    sn_free(f.readers);
    sn_free(f.writers);
    sn_free(f.written);
    sn_free(f.gone);
}
