/*
 * verify_written.c - operations have the operands of their kind, and what a run reads has been
 * written.
 *
 * The schedule of one text is walked once more. A buffer of the scratch arena that an operation
 * reads must have been written, where it is read at least in part, by an operation before it: a
 * temporary in the same run of its segment, what is kept in the same slot for the same micro-batch.
 * Operations of further rounds may not run, so that others cannot live on what they write. The
 * state is there before the first step, but for caches: what they hold is of the step, and of all its
 * micro-batches.
 */
#include "lib/verify/verify_trace.h"

#include "lib/base/mem.h"

struct walk {
    const struct sn_trace_of *of;
    int slots;
    int *first, *writer; /* of buffer b: writer[first[b]] .. writer[first[b + 1] - 1], operations */
    int *run;            /* by segment: the schedule's entry with which its last run began */
    int *entry;          /* by operation: of the run that it was in last, that entry plus one */
    int *micro;          /* by operation and slot: the micro-batch, plus one */
};

static int buffer_of(const struct sn_op *op, int out)
{
    return sn_op_row(op->kind)->synchronises ? -1 : op->out[out].buf;
}

/* Writers of each buffer, in the order of the text. */
static void list_writers(struct walk *w)
{
    const struct sn_program *p = w->of->program;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < p->n_ops; i++)
            for (int o = 0; o < SN_MAX_OUT; o++) {
                int b = buffer_of(&p->ops[i], o);
                if (b >= 0 && pass == 0)
                    w->first[b + 1]++;
                else if (b >= 0)
                    w->writer[w->first[b]++] = i;
            }
        for (int b = 0; pass == 0 && b < p->n_bufs; b++)
            w->first[b + 1] += w->first[b];
    }
    for (int b = p->n_bufs; b > 0; b--) /* the second pass has moved them on by one */
        w->first[b] = w->first[b - 1];
    w->first[0] = 0;
}

static bool overlap(const struct sn_view *a, const struct sn_view *b)
{
    if (a->index != SN_AT_FIXED || b->index != SN_AT_FIXED)
        return true; /* known when it runs */
    int64_t end_a = a->offset + (a->rows - 1) * a->ld + a->cols;
    int64_t end_b = b->offset + (b->rows - 1) * b->ld + b->cols;
    if (a->offset >= end_b || b->offset >= end_a)
        return false;
    if (a->ld != b->ld || a->rows == 1 || b->rows == 1)
        return true;
    int64_t left_a = a->offset % a->ld, left_b = b->offset % b->ld; /* columns */
    return left_a < left_b + b->cols && left_b < left_a + a->cols;
}

/* Did this operation write (part of) the view that is read now? */
static bool wrote(const struct walk *w, const struct sn_memory_at *at, int entry, int writer,
                  const struct sn_view *v)
{
    const struct sn_program *p = w->of->program;
    const struct sn_op *op = &p->ops[writer];
    enum sn_class cls = p->bufs[v->buf].cls;
    bool here = false;
    for (int o = 0; o < SN_MAX_OUT; o++)
        here |= op->out[o].buf == v->buf && overlap(&op->out[o], v);
    if (cls == SN_CLASS_CACHE)
        return here && w->entry[writer] > 0;
    return here &&
           (cls == SN_CLASS_TEMP
                ? w->entry[writer] == entry + 1
                : w->micro[(size_t)writer * (size_t)w->slots + (size_t)at->slot] == at->micro + 1);
}

static enum sn_status check_view(const struct walk *w, const struct sn_memory_at *at, int entry,
                                 int i, const struct sn_view *v, struct sn_err *err)
{
    const struct sn_program *p = w->of->program;
    const struct sn_op *op = &p->ops[i];
    bool is_begun_with = v->buf < p->n_state_bufs && p->bufs[v->buf].cls != SN_CLASS_CACHE;
    if (is_begun_with || v->rows == 0 || v->cols == 0)
        return SN_OK;
    for (int k = w->first[v->buf]; k < w->first[v->buf + 1]; k++)
        if ((op->extra || !p->ops[w->writer[k]].extra) && wrote(w, at, entry, w->writer[k], v))
            return SN_OK;
    return sn_fail(err, SN_EFAIL,
                   "%s: %s: %s '%s' (operation %d, micro-batch %d) reads '%s', which nothing has "
                   "written before it",
                   p->name, sn_rank_text(w->of->grid, w->of->rank).s, sn_op_name(op->kind),
                   op->label, i, at->micro, p->bufs[v->buf].name);
}

static enum sn_status run_op(struct walk *w, const struct sn_memory_at *at, int entry, int i,
                             struct sn_err *err)
{
    const struct sn_program *p = w->of->program;
    const struct sn_op *op = &p->ops[i];
    bool due = op->when == SN_EVERY || at->micro == (op->when == SN_FIRST ? 0 : p->micros - 1);
    if (!due || sn_op_row(op->kind)->synchronises)
        return SN_OK;
    for (int k = 0; k < SN_MAX_IN; k++)
        if (op->in[k].buf >= 0)
            SN_TRY(check_view(w, at, entry, i, &op->in[k], err));
    for (int k = 0; k < SN_MAX_OUT; k++)
        if (op->out[k].buf >= 0 && op->acc[k] == SN_ACC_ADD)
            SN_TRY(check_view(w, at, entry, i, &op->out[k], err));
    w->entry[i] = entry + 1;
    w->micro[(size_t)i * (size_t)w->slots + (size_t)at->slot] = at->micro + 1;
    return SN_OK;
}

/* --- operands --------------------------------------------------------------------------------- */

/* What an operand of the text does that its row (opinfo.h) does not say; NULL: nothing. */
static const char *fault_of(const struct sn_operand_info *row, const struct sn_view *v,
                            enum sn_acc_rule acc)
{
    if (v->buf >= 0 && !row->name)
        return "has an operand that its kind does not have";
    if (v->buf < 0 && row->name && !sn_operand_is(row, SN_ROLE_OPTIONAL))
        return "lacks operand";
    if (v->buf >= 0 && acc != SN_ACC_WRITE && !sn_operand_is(row, SN_ROLE_ADDED))
        return "adds to what is only written,";
    return NULL;
}

static enum sn_status check_operands(const struct sn_trace_of *of, int i, struct sn_err *err)
{
    const struct sn_op *op = &of->program->ops[i];
    const struct sn_op_row *row = sn_op_row(op->kind);
    const struct sn_operand_info *x = NULL;
    const char *fault = NULL;
    for (int k = 0; k < SN_MAX_IN && !fault; k++) {
        x = &row->in[k];
        fault = fault_of(x, &op->in[k], SN_ACC_WRITE);
    }
    for (int o = 0; o < SN_MAX_OUT && !fault; o++) {
        x = &row->out[o];
        fault = fault_of(x, &op->out[o], op->acc[o]);
    }
    return fault ? sn_fail(err, SN_EFAIL, "%s: %s: %s '%s' (operation %d) %s '%s'",
                           of->program->name, sn_rank_text(of->grid, of->rank).s,
                           sn_op_name(op->kind), op->label, i, fault, x->name ? x->name : "?")
                 : SN_OK;
}

/* --- all of it -------------------------------------------------------------------------------- */

static enum sn_status walk(struct walk *w, struct sn_err *err)
{
    const struct sn_program *p = w->of->program;
    for (int e = 0; e < p->n_sched; e++) {
        const struct sn_sched *s = &p->sched[e];
        struct sn_memory_at at = {w->of, s->micro, s->slot, s->late};
        if (s->first == p->segments[s->segment].first)
            w->run[s->segment] = e;
        for (int i = s->first; i < s->first + s->n; i++)
            SN_TRY(run_op(w, &at, w->run[s->segment], i, err));
    }
    return SN_OK;
}

enum sn_status sn_written_check(const struct sn_trace_of *of, struct sn_err *err)
{
    const struct sn_program *p = of->program;
    struct walk w = {.of = of, .slots = 1};
    size_t ops = (size_t)p->n_ops;
    for (int v = 0; v < p->vstages; v++)
        w.slots = p->slots[v] > w.slots ? p->slots[v] : w.slots;
    w.first = sn_alloc_n((size_t)p->n_bufs + 2, sizeof(int));
    w.writer = sn_alloc_n(ops * SN_MAX_OUT + 1, sizeof(int));
    w.run = sn_alloc_n((size_t)p->n_segments + 1, sizeof(int));
    w.entry = sn_alloc_n(ops + 1, sizeof(int));
    w.micro = sn_alloc_n(ops * (size_t)w.slots + 1, sizeof(int));
    enum sn_status st = SN_OK;
    if (!w.first || !w.writer || !w.run || !w.entry || !w.micro)
        st = sn_fail(err, SN_ENOMEM, "verify: no memory for what a program has written");
    if (st == SN_OK) {
        list_writers(&w);
        st = walk(&w, err);
        for (int i = 0; i < p->n_ops && st == SN_OK; i++)
            st = check_operands(of, i, err);
    }
    sn_free(w.first);
    sn_free(w.writer);
    sn_free(w.run);
    sn_free(w.entry);
    sn_free(w.micro);
    return st;
}
