/*
 * grad_attention.c - backward of attention, on one rank or round the context ring.
 *
 * Ring: keys and values go round once more. With them, one step behind, go the sums of their
 * gradients, which each rank adds to and which are at home after as many steps as there are ranks.
 * Sums are fp32.
 */
#include "lib/program/build.h"

static struct sn_op *core_dx(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_op *op = sn_op_add(e->p, SN_OP_ATTENTION_DX, "%.60s", f->label);
    for (int i = 0; i < 3; i++)
        op->in[i] = f->in[i];
    op->in[SN_ATTENTION_DX_O] = f->out[SN_ATTENTION_O];
    op->in[SN_ATTENTION_DX_DO] = sn_grad_get(e, f->out[SN_ATTENTION_O].buf);
    op->in[SN_ATTENTION_DX_LSE] = f->out[SN_ATTENTION_LSE];
    op->in[SN_ATTENTION_DX_STARTS] = f->in[SN_ATTENTION_STARTS];
    op->attr = f->attr;
    return op;
}

static void whole(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_view d[3];
    for (int i = 0; i < 3; i++) /* q, k, v are columns of one buffer, or buffers */
        d[i] = sn_grad_slice(e, f->in[i]);
    struct sn_op *op = core_dx(e, f);
    for (int i = 0; i < 3; i++)
        op->out[i] = d[i];
}

/* --- ring ------------------------------------------------------------------------------------- */

struct ring {
    struct sn_emit *e;
    const struct sn_op *f; /* the step with the rank's own keys */
    int o;                 /* the output, in the type of storage */
    struct sn_view dq;     /* fp32 */
    int64_t k_cols, v_cols;
    int kv, dkv; /* buffers of this step */
};

static int travelling(const struct ring *r, enum sn_dtype dtype, const char *what, int step)
{
    return sn_buffer_add(r->e->p, SN_CLASS_TEMP, dtype, r->f->in[SN_ATTENTION_K].rows,
                         r->k_cols + r->v_cols, "d.%.60s.%s%d", r->f->label, what, step);
}

static void copy(struct sn_emit *e, struct sn_view from, struct sn_view to, const char *label)
{
    struct sn_op *op = sn_op_add(e->p, SN_OP_COPY, "%.50s", label);
    op->in[SN_COPY_X] = from;
    op->out[SN_COPY_Y] = to;
}

static void one_step(struct ring *r, int step)
{
    const struct sn_program *p = r->e->p;
    int ranks = r->f->attr.position.context;
    struct sn_op *op = core_dx(r->e, r->f);
    op->in[SN_ATTENTION_DX_O] = sn_view_all(p, r->o);
    op->in[SN_ATTENTION_DX_K] = sn_view_cols(p, r->kv, 0, r->k_cols);
    op->in[SN_ATTENTION_DX_V] = sn_view_cols(p, r->kv, r->k_cols, r->v_cols);
    op->out[SN_ATTENTION_DX_DQ] = r->dq;
    op->out[SN_ATTENTION_DX_DK] = sn_view_cols(p, r->dkv, 0, r->k_cols);
    op->out[SN_ATTENTION_DX_DV] = sn_view_cols(p, r->dkv, r->k_cols, r->v_cols);
    for (int o = 0; o < 3; o++)
        op->acc[o] = step ? SN_ACC_ADD : SN_ACC_WRITE;
    op->attr.position.key_rank = (r->f->attr.position.context_rank - step + ranks) % ranks;
}

static void around(struct ring *r)
{
    struct sn_program *p = r->e->p;
    int ranks = r->f->attr.position.context;
    for (int step = 0; step < ranks; step++) {
        int keys = -1, next = r->kv;
        if (step + 1 < ranks) {
            next = travelling(r, r->e->job->dtype, "kv", step + 1);
            keys = sn_shift_post(p, r->kv, next, r->f->label);
        }
        one_step(r, step);
        int sums = travelling(r, SN_F32, "dkv", step + 1);
        int id = sn_shift_post(p, r->dkv, sums, r->f->label);
        if (keys >= 0)
            sn_wait_add(p, keys);
        sn_wait_add(p, id);
        r->kv = next;
        r->dkv = sums;
    }
}

/* The output that is kept anyway: in half types the sum's cast. */
static int stored_output(const struct sn_emit *e, const struct sn_op *f)
{
    for (int i = e->unit_begin; i < e->unit_end && e->job->dtype != SN_F32; i++) {
        const struct sn_op *op = &e->p->ops[i];
        if (op->kind == SN_OP_COPY && op->in[SN_COPY_X].buf == f->out[SN_ATTENTION_O].buf)
            return op->out[SN_COPY_Y].buf;
    }
    return f->out[SN_ATTENTION_O].buf;
}

static void ring(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_view q = sn_grad_slice(e, f->in[SN_ATTENTION_Q]), kv = f->in[SN_ATTENTION_K];
    struct ring r = {.e = e,
                     .f = f,
                     .k_cols = kv.cols,
                     .v_cols = f->in[SN_ATTENTION_V].cols,
                     .dq = q};
    r.o = sn_recomputed(e, stored_output(e, f));
    kv.cols += r.v_cols; /* v lies beside k */
    struct sn_view dkv = sn_grad_slice(e, kv);
    r.kv = travelling(&r, e->job->dtype, "kv", 0);
    r.dkv = travelling(&r, SN_F32, "dkv", 0);
    copy(e, kv, sn_view_all(e->p, r.kv), f->label);
    if (e->job->dtype != SN_F32)
        r.dq = sn_view_all(e->p, sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, q.rows, q.cols,
                                               "d.%.60s.q", f->label));
    around(&r);
    if (e->job->dtype != SN_F32)
        copy(e, r.dq, q, f->label);
    copy(e, sn_view_all(e->p, r.dkv), dkv, f->label);
}

void sn_grad_attention(struct sn_emit *e, const struct sn_op *f)
{
    if (f->in[SN_ATTENTION_Q].buf < 0 || e->p->failed ||
        !e->p->bufs[f->in[SN_ATTENTION_Q].buf].needs_grad)
        return;
    if (f->attr.position.context <= 1)
        whole(e, f);
    else if (f->attr.position.key_rank ==
             f->attr.position.context_rank) /* the other steps belong to this one */
        ring(e, f);
}

/* All three are read by it alone. */
void sn_grad_join(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_view d[3];
    for (int i = 0; i < 3; i++)
        d[i] = sn_grad_slice(e, f->in[i]);
    struct sn_op *op = sn_op_add(e->p, SN_OP_MLA_JOIN_DX, "%.60s", f->label);
    op->in[SN_MLA_JOIN_DX_DY] = sn_grad_get(e, f->out[SN_MLA_JOIN_Y].buf);
    for (int i = 0; i < 3; i++)
        op->out[i] = d[i];
    op->attr = f->attr;
}
