#include "tests/lib/replay_test.h"

#include "lib/base/rng.h"
#include "lib/program/opinfo.h"
#include "tests/lib/layout_test.h"

#include <stdlib.h>

enum { OPS_ASKED = 400 };

static const struct sn_buffer *buffer_of(const struct sn_program *p, const struct sn_view *v)
{
    return v->buf >= 0 ? &p->bufs[v->buf] : NULL;
}

static bool may_stand_for(const struct sn_program *p, const struct sn_view *v,
                          const struct sn_view *other)
{
    const struct sn_buffer *a = buffer_of(p, v), *b = buffer_of(p, other);
    return a && b && (v->buf != other->buf || v->offset != other->offset) && a->dtype == b->dtype &&
           a->dtype != SN_I32 && v->rows == other->rows && v->cols == other->cols &&
           v->ld == other->ld && b->vstage == a->vstage && other->index == SN_AT_FIXED;
}

/* Some operation that computes takes a wrong operand from now on. */
static void plant(struct replay_test *s, struct sn_program *p)
{
    s->op = -1;
    for (int ask = 0; ask < OPS_ASKED && s->op < 0; ask++) {
        uint64_t r = sn_rng_bits(s->draw, (uint64_t)ask);
        struct sn_op *op = &p->ops[r % (uint64_t)p->n_ops];
        const struct sn_op *other = &p->ops[(r >> 32) % (uint64_t)p->n_ops];
        if (op->kind >= SN_NKERNELS || op->kind == SN_OP_ENCODE || op->kind == SN_OP_DECODE)
            continue;
        for (int i = 0; i < SN_MAX_IN && s->op < 0; i++)
            for (int k = 0; k < SN_MAX_IN && s->op < 0; k++)
                if (may_stand_for(p, &op->in[i], &other->in[k])) {
                    op->in[i] = other->in[k];
                    s->op = (int)(op - p->ops);
                }
    }
}

static void see(void *arg, struct sn_exec *x, const struct sn_job *j, int step)
{
    struct replay_test *s = arg;
    struct sn_err err = {0};
    int r = j->rank;
    if (step == 0) {
        if (sn_recording_create(&s->of[r], j, &err) != SN_OK ||
            sn_results_create(&s->results[r], x, sn_recording_take, s->of[r], &err) != SN_OK)
            abort();
        sn_recording_begin(s->of[r], x, j, 2);
        sn_exec_set_results(x, s->results[r]);
        if (s->fault_rank == r) /* the job is this rank's own; no pass looks at it any more */
            plant(s, (struct sn_program *)&j->train);
        return;
    }
    sn_exec_set_results(x, NULL);
    if (s->output && sn_recording_save(s->of[r], s->output, 1, &err) != SN_OK)
        abort();
    if (s->was)
        sn_replay_compare(&s->found[r], j, s->was->of[r], s->of[r]);
    sn_results_destroy(s->results[r]);
}

void replay_test_forget(struct replay_test *s)
{
    for (int r = 0; r < REPLAY_RANKS; r++)
        sn_recording_destroy(s->of[r]);
}

bool replay_test_train(struct replay_test *s, const struct sn_config *c)
{
    struct layout_run run = {.steps = 2, .see = see, .seen = s};
    layout_train(&run, c);
    return !run.fault[0];
}
