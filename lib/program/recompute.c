/*
 * recompute.c - forward operations once more, just before the gradient that reads their result.
 *
 *   full       of a block only what enters it is kept (Chen et al., arXiv 1604.06174)
 *   selective  what is cheap for its size is computed again: results of norms (with the all-gather
 *              that sequence parallelism adds) and of activations (after Korthikanti et al., arXiv
 *              2205.05198, 5, whose attention scores our attention never keeps in the first place)
 *
 * Recomputation follows demand: an operand that a gradient rule reads is computed again if its
 * producer, in the same block, may be, and so for the producer's own inputs. What no rule reads is
 * not computed. Collectives run again where they lie on the way; comm_aware_recompute keeps their
 * results instead, and computes again what lies between them (Singh et al., "DeepSpeed-TED", arXiv
 * 2303.06318, 5.2).
 *
 * Noise on a router's input is drawn once more for the weights' gradient, whatever the mode, and
 * beside it where that is delayed: nothing of it is kept.
 */
#include "lib/program/build.h"

struct again {
    struct sn_emit *e;
    int first, end; /* operations of the block */
    bool ahead;     /* post, and do not wait */
};

static bool may_repeat(const struct again *a, const struct sn_op *op)
{
    enum sn_recompute mode = a->e->job->config->layout.recompute;
    enum sn_may_repeat repeat = sn_op_row(op->kind)->repeat;
    if (op->layer < 0 || op->layer == a->e->job->config->model.layers || op->extra)
        return false;
    if (repeat == SN_REPEAT_NEVER || (repeat == SN_REPEAT_OUT && op->attr.inverse))
        return false;
    if (a->e->job->config->layout.comm_aware_recompute && sn_op_communicates(op))
        return false;
    if (mode == SN_RECOMPUTE_FULL)
        return true;
    if (op->group == SN_GROUP_EXPERT && op->kind == SN_OP_ALL_GATHER)
        return false; /* of tokens, where all experts compute all: no larger than what it leads to
                       */
    return mode == SN_RECOMPUTE_SELECTIVE && repeat == SN_REPEAT_CHEAP;
}

static bool writes(const struct sn_op *op, int buf)
{
    for (int o = 0; o < SN_MAX_OUT; o++)
        if (op->out[o].buf == buf)
            return true;
    return false;
}

static int repeat_buffer(struct again *a, int buf);

/* Outputs of an operation that stands for the original one. */
static void fresh_outputs(struct again *a, struct sn_op *op)
{
    struct sn_emit *e = a->e;
    for (int o = 0; o < SN_MAX_OUT; o++) {
        int buf = op->out[o].buf;
        if (buf < 0 || !sn_emit_room(e, buf))
            continue;
        if (e->again[buf] < 0) {
            int copy = sn_buffer_like(e->p, buf, "r");
            sn_origin_set(e, copy, buf);
            if (sn_emit_room(e, copy)) {
                e->again[buf] = copy;
                e->copied[e->n_copied++] = buf;
            }
        }
        op->out[o].buf = e->again[buf];
    }
}

static void repeat_op(struct again *a, int i)
{
    struct sn_emit *e = a->e;
    bool ahead = a->ahead;
    a->ahead = false; /* what it needs is needed now */
    struct sn_op op = e->p->ops[i];
    op.is_again = true;
    for (int k = 0; k < SN_MAX_IN; k++)
        if (op.in[k].buf >= 0 && e->p->bufs[op.in[k].buf].bucket < 0)
            op.in[k].buf = repeat_buffer(a, op.in[k].buf);
    for (int k = 0; k < SN_MAX_IN; k++)
        op.in[k] = sn_weight_again(e, op.in[k]);
    fresh_outputs(a, &op);
    int id = sn_op_append(e->p, &op);
    enum sn_collective kind;
    int64_t n;
    if (ahead) {
        e->under_way.again[e->under_way.n_again] = op.out[SN_MOVE_TO].buf;
        e->under_way.again_id[e->under_way.n_again++] = id;
    } else if (sn_op_collective(&op, &kind, &n))
        sn_wait_add(e->p, id);
}

/* What was posted ahead has to be there now. */
static int there(struct sn_emit *e, int buf)
{
    struct sn_under_way *u = &e->under_way;
    for (int i = 0; i < u->n_again; i++)
        if (u->again[i] == buf) {
            sn_wait_add(e->p, u->again_id[i]);
            u->n_again--;
            u->again[i] = u->again[u->n_again];
            u->again_id[i] = u->again_id[u->n_again];
        }
    return buf;
}

/* The buffer that holds the same values now: itself if it is kept. */
static int repeat_buffer(struct again *a, int buf)
{
    struct sn_emit *e = a->e;
    if (buf < e->p->n_state_bufs || !sn_emit_room(e, buf))
        return buf;
    if (e->again[buf] >= 0)
        return there(e, e->again[buf]);
    int writers = 0;
    for (int i = a->first; i < a->end; i++) {
        if (!writes(&e->p->ops[i], buf))
            continue;
        if (!may_repeat(a, &e->p->ops[i]))
            return buf;
        writers++;
    }
    for (int i = a->first; writers > 0 && i < a->end && !e->p->failed; i++)
        if (writes(&e->p->ops[i], buf))
            repeat_op(a, i);
    return e->again[buf] >= 0 ? e->again[buf] : buf;
}

/* Does the gradient rule of this very operation read input k? */
static bool reads_input(const struct sn_emit *e, const struct sn_op *f, int k)
{
    const struct sn_operand_info *x = &sn_op_row(f->kind)->in[k];
    if (!sn_operand_is(x, SN_ROLE_GRADIENT))
        return false;
    return !sn_operand_is(x, SN_ROLE_OF_WEIGHTS) ||
           sn_shard_trains(e, sn_shard_of(e, f->in[SN_GEMM_B]));
}

int sn_recomputed(struct sn_emit *e, int buf)
{
    struct again a = {.e = e, .first = e->unit_begin, .end = e->unit_end};
    bool none = e->job->config->layout.recompute == SN_RECOMPUTE_NONE;
    return none || buf < 0 || e->p->bufs[buf].bucket >= 0 ? buf : repeat_buffer(&a, buf);
}

void sn_recompute_ahead(struct sn_emit *e, int buf)
{
    struct again a = {.e = e, .first = e->unit_begin, .end = e->unit_end, .ahead = true};
    bool full = e->job->config->layout.recompute == SN_RECOMPUTE_FULL;
    if (full && buf >= 0 && sn_emit_room(e, buf) && e->again[buf] < 0)
        (void)repeat_buffer(&a, buf);
}

/* The operation that puts noise on a buffer; -1: none does. */
static int noise_of(const struct sn_emit *e, int buf)
{
    int i = e->unit_begin;
    while (i < e->unit_end && !(e->p->ops[i].kind == SN_OP_JITTER && writes(&e->p->ops[i], buf)))
        i++;
    return buf >= 0 && i < e->unit_end ? i : -1;
}

static int drawn_again(struct sn_emit *e, int noise)
{
    struct sn_op op = e->p->ops[noise];
    int buf = op.out[SN_NOISE_Y].buf;
    op.in[SN_NOISE_X].buf = sn_recomputed(e, op.in[SN_NOISE_X].buf);
    op.out[SN_NOISE_Y].buf = sn_buffer_like(e->p, buf, "w");
    sn_origin_set(e, op.out[SN_NOISE_Y].buf, buf);
    op.is_weight_grad = true;
    (void)sn_op_append(e->p, &op);
    return op.out[SN_NOISE_Y].buf;
}

/* The outputs that attention's rule reads round the ring are looked for by the rule. */
static bool reads_output(const struct sn_op *f, int o)
{
    bool ring = f->kind == SN_OP_ATTENTION && f->attr.position.context > 1;
    return sn_operand_is(&sn_op_row(f->kind)->out[o], SN_ROLE_GRADIENT) && !(ring && o == 0);
}

void sn_recompute(struct sn_emit *e, struct sn_op *f)
{
    for (int k = 0; k < SN_MAX_IN; k++)
        if (reads_input(e, f, k)) {
            int noise = f->kind == SN_OP_GEMM && k == 0 ? noise_of(e, f->in[SN_GEMM_A].buf) : -1;
            f->in[k].buf = noise < 0 ? sn_recomputed(e, f->in[k].buf) : drawn_again(e, noise);
        }
    for (int o = 0; o < SN_MAX_OUT; o++)
        if (reads_output(f, o))
            f->out[o].buf = sn_recomputed(e, f->out[o].buf);
}
