#include "lib/replay/compare.h"

#include "lib/program/opinfo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double sn_replay_rounding(enum sn_dtype precision)
{
    return precision == SN_F32 ? 3e-3 : precision == SN_F16 ? 2e-2 : 2e-1;
}

static bool is_one_place(const struct sn_recorded *a, const struct sn_recorded *b)
{
    return a->entry == b->entry && a->op == b->op && a->part == b->part && a->round == b->round &&
           a->out == b->out;
}

static enum sn_parting parting_of(const struct sn_job *j, const struct sn_recorded *r)
{
    if (r->entry == SN_BEGIN)
        return SN_PARTS_BEFORE;
    const struct sn_op *op = &j->train.ops[r->op];
    bool comes = sn_op_meets_others(j, op) || op->kind == SN_OP_AGREE;
    if (op->kind == SN_OP_DECODE) /* frozen weights are here */
        comes = j->train.bufs[op->in[SN_DECODE_STREAMS].buf].bucket < 0;
    return comes ? SN_PARTS_RECEIVING : SN_PARTS_COMPUTING;
}

static bool is_known(const struct sn_job *j, const struct sn_recorded *r)
{
    return r->entry == SN_BEGIN ? r->op >= 0 && r->op < j->train.n_state_bufs
                                : r->op >= 0 && r->op < j->train.n_ops;
}

void sn_replay_name(struct sn_str *out, const struct sn_job *j, const struct sn_recorded *r)
{
    const struct sn_program *p = &j->train;
    if (r->entry == SN_BEGIN) {
        sn_str_add(out, "'%s'", p->bufs[r->op].name);
        return;
    }
    const struct sn_op *op = &p->ops[r->op];
    sn_str_add(out, "%s '%s' (operation %d, micro-batch %d)", sn_op_name(op->kind), op->label,
               r->op, r->micro);
    if (r->out == SN_RESULT_OF_SCALARS) {
        sn_str_add(out, ": the step's sums");
        return;
    }
    const struct sn_view *v = &op->out[r->out];
    sn_str_add(out, ": '%s', %lld x %lld", p->bufs[v->buf].name, (long long)v->rows,
               (long long)v->cols);
}

static void part(struct sn_replay_finding *f, const struct sn_job *j, const struct sn_recorded *was,
                 enum sn_parting parting)
{
    struct sn_str what = {0};
    f->parting = (int32_t)parting;
    sn_replay_name(&what, j, was);
    (void)snprintf(f->what, sizeof(f->what), "%s", what.failed ? "(no memory for it)" : what.p);
    sn_str_fini(&what);
}

void sn_replay_part(struct sn_replay_finding *f, const struct sn_job *j,
                    const struct sn_recorded *r)
{
    part(f, j, r, parting_of(j, r));
}

void sn_replay_compare(struct sn_replay_finding *f, const struct sn_job *j,
                       const struct sn_recording *was, const struct sn_recording *is)
{
    *f = (struct sn_replay_finding){.is_exact = strcmp(was->head.kernels, is->head.kernels) == 0};
    int64_t n = was->head.n < is->head.n ? was->head.n : is->head.n;
    double most = sn_replay_rounding(j->config->train.precision);
    for (int64_t i = 0; i < n; i++) {
        const struct sn_recorded *a = &was->t[i], *b = &is->t[i];
        if (!is_known(j, a) || !is_known(j, b) || !is_one_place(a, b)) {
            f->results++;
            part(f, j, b, SN_PARTS_ROUTING);
            return;
        }
        double off = sn_fingerprint_off(&a->print, &b->print);
        f->results++;
        if (a->print.hash == b->print.hash) {
            f->same++;
        } else if (f->is_exact || off > most) {
            f->off = off;
            sn_replay_part(f, j, b);
            return;
        } else {
            f->near++;
            f->nearest = fmax(f->nearest, off);
        }
    }
    if (was->head.n != is->head.n && n > 0)
        part(f, j, &is->t[n - 1], SN_PARTS_ROUTING);
}

/* --- together --------------------------------------------------------------------------------- */

/* Where a cause is surer, what is less so follows from it. */
static enum sn_parting parting_beside(const struct sn_replay_finding *f, int ranks, int i)
{
    for (int r = 0; r < ranks; r++)
        if (f[i].parting == SN_PARTS_COMPUTING && f[r].parting == SN_PARTS_COMPUTING &&
            f[r].doubt < f[i].doubt)
            return SN_PARTS_RECEIVING;
    return (enum sn_parting)f[i].parting;
}

static int count(const struct sn_replay_finding *f, int ranks, enum sn_parting p)
{
    int n = 0;
    for (int i = 0; i < ranks; i++)
        n += parting_beside(f, ranks, i) == p;
    return n;
}

static void say_same(struct sn_str *out, const struct sn_replay_finding *f, int ranks)
{
    int64_t results = 0, near = 0, apart = 0;
    double nearest = 0;
    int asked = 0; /* ranks that were compared */
    for (int i = 0; i < ranks; i++) {
        asked += f[i].results > 0;
        results += f[i].results;
        near += f[i].near;
        apart += f[i].apart;
        nearest = fmax(nearest, f[i].nearest);
    }
    sn_str_add(out, "%lld results of %d rank%s are those that were recorded", (long long)results,
               asked, asked > 1 ? "s" : "");
    if (near == results)
        sn_str_add(out, " but for rounding (%.1e at most)", nearest);
    else if (near > 0)
        sn_str_add(out, ", %lld of them but for rounding (%.1e at most)", (long long)near, nearest);
    else
        sn_str_add(out, ", to the last bit");
    if (apart > 0)
        sn_str_add(out, "; %lld more are of their layout alone", (long long)apart);
    sn_str_add(out, "\n");
}

enum { SAID_MOST = 8 };

static void say(struct sn_str *out, const struct sn_replay_finding *f, int ranks,
                enum sn_parting parting)
{
    static const char *const verb[] = {[SN_PARTS_BEFORE] = "begins the step with another",
                                       [SN_PARTS_COMPUTING] =
                                           "computes something else from the same operands:",
                                       [SN_PARTS_RECEIVING] = "has something else in",
                                       [SN_PARTS_ROUTING] = "sends other rows to experts, from"};
    int said = 0, all = count(f, ranks, parting);
    for (int i = 0; i < ranks && said < SAID_MOST; i++) {
        if (parting_beside(f, ranks, i) != parting)
            continue;
        sn_str_add(out, "rank %d %s %s", i, verb[parting], f[i].what);
        if (f[i].off > 0)
            sn_str_add(out, ", off by %.1e of its size", f[i].off);
        sn_str_add(out, " (after %lld results that are the recorded ones)\n",
                   (long long)f[i].results - 1);
        said++;
    }
    if (all > said)
        sn_str_add(out, "and so do %d more ranks\n", all - said);
}

bool sn_replay_judge(struct sn_str *out, const struct sn_replay_finding *f, int ranks)
{
    int before = count(f, ranks, SN_PARTS_BEFORE);
    int computing = count(f, ranks, SN_PARTS_COMPUTING) + count(f, ranks, SN_PARTS_ROUTING);
    int receiving = count(f, ranks, SN_PARTS_RECEIVING);
    if (before + computing + receiving == 0) {
        say_same(out, f, ranks);
        return false;
    }
    say(out, f, ranks, SN_PARTS_BEFORE);
    if (before > 0)
        sn_str_add(out, "the cause lies before this step: replay an earlier one\n");
    say(out, f, ranks, SN_PARTS_COMPUTING);
    say(out, f, ranks, SN_PARTS_ROUTING);
    if (before + computing == 0 && f[0].is_other_layout) {
        say(out, f, ranks, SN_PARTS_RECEIVING);
        sn_str_add(out, "which of these is the cause, or what they were sent, this layout cannot "
                        "tell: replay in the run's own\n");
    } else if (before + computing == 0) {
        say(out, f, ranks, SN_PARTS_RECEIVING);
        sn_str_add(out, "what every rank computed until then is as recorded: it was altered in the "
                        "memory of a rank before it was sent, or on its way\n");
    } else if (receiving > 0) {
        sn_str_add(out, "%d more rank%s only by what %s from then on\n", receiving,
                   receiving > 1 ? "s differ" : " differs", receiving > 1 ? "they get" : "it gets");
    }
    return true;
}
