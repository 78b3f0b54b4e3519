/*
 * verify_memory.c - memory that posted operations still use.
 *
 * Between the post and the wait of an operation nothing else may write what it reads or writes, and
 * nothing may read what it writes. Addresses are those of the executor; a ZeRO slice counts as all
 * slices, so that one check holds for every rank of the text.
 */
#include "lib/program/verify_trace.h"

#include "lib/base/mem.h"

static int64_t base(const struct sn_memory_at *at, int buf)
{
    const struct sn_program *p = at->of->program;
    if (buf < p->n_state_bufs)
        return p->bufs[buf].offset;
    return at->of->job->state_bytes + sn_scratch_offset(p, buf, at->slot, at->late);
}

/* `flat`: a transfer, which moves rows x cols elements without gaps whatever ld says. */
static struct sn_span span_of(const struct sn_memory_at *at, const struct sn_view *v, bool flat)
{
    if (v->buf < 0 || v->rows == 0 || v->cols == 0)
        return (struct sn_span){0};
    int64_t width = (int64_t)sn_dtype_size(at->of->program->bufs[v->buf].dtype);
    int64_t first = v->offset + (v->index == SN_AT_MICRO ? at->micro * v->stride : 0);
    struct sn_span s = {base(at, v->buf) + first * width, v->cols * width, v->ld * width, v->rows};
    if (flat || v->ld == v->cols || v->rows == 1)
        s = (struct sn_span){s.at, v->rows * v->cols * width, 0, 1};
    if (v->index == SN_AT_REPLICA) {
        const struct sn_job *j = at->of->job;
        int bucket = at->of->program->bufs[v->buf].bucket;
        int64_t members = j->group_size[j->buckets[bucket].replicas];
        int64_t length = (s.rows - 1) * s.stride + s.width;
        s = (struct sn_span){s.at, (members - 1) * v->stride * width + length, 0, 1};
    }
    return s;
}

/* Does some row of `a` meet `b`, which is one piece? */
static bool meet(const struct sn_span *a, const struct sn_span *b)
{
    int64_t begin = b->at, end = b->at + b->width;
    if (a->rows == 0 || b->rows == 0 || a->at >= end)
        return false;
    if (a->rows == 1 || a->at + a->width > begin)
        return a->at + a->width > begin;
    int64_t row = (begin - a->at - a->width) / a->stride + 1; /* the first that ends behind begin */
    return row < a->rows && a->at + row * a->stride < end;
}

static bool moves(int kind)
{
    return kind >= SN_OP_ALL_REDUCE && kind <= SN_OP_EXCHANGE;
}

static enum sn_status clash(const struct sn_memory_at *at, const int op[2], const char *does,
                            const char *still, struct sn_err *err)
{
    const struct sn_program *p = at->of->program;
    const struct sn_op *now = &p->ops[op[0]], *before = &p->ops[op[1]];
    int buf = before->in[0].buf >= 0 && still[0] == 'r' ? before->in[0].buf : before->out[0].buf;
    return sn_fail(err, SN_EFAIL,
                   "%s: %s: %s '%s' (operation %d, micro-batch %d) %s memory of '%s' that %s '%s' "
                   "(operation %d) still %s; wait for it first",
                   p->name, sn_rank_text(at->of->grid, at->of->rank).s, sn_op_name(now->kind),
                   now->label, op[0], at->micro, does, p->bufs[buf].name, sn_op_name(before->kind),
                   before->label, op[1], still);
}

static enum sn_status check_read(const struct sn_flights *f, const struct sn_memory_at *at, int op,
                                 const struct sn_span *s, struct sn_err *err)
{
    for (int i = 0; i < f->n; i++)
        if (meet(s, &f->items[i].written))
            return clash(at, (const int[]){op, f->items[i].op}, "reads", "writes", err);
    return SN_OK;
}

/* Two chunks of one exchange that come back to one buffer: no row is of both. */
static bool other_rows(const struct sn_op *a, const struct sn_op *b)
{
    return a->kind == SN_OP_EXCHANGE && b->kind == SN_OP_EXCHANGE && a->group == b->group &&
           a->attr.inverse && b->attr.inverse && a->attr.chunks > 1 &&
           a->attr.chunks == b->attr.chunks && a->attr.chunk != b->attr.chunk &&
           a->out[0].buf == b->out[0].buf && a->in[1].buf == b->in[1].buf && !a->extra && !b->extra;
}

static enum sn_status check_written(const struct sn_flights *f, const struct sn_memory_at *at,
                                    int op, const struct sn_span *s, struct sn_err *err)
{
    for (int i = 0; i < f->n; i++) {
        if (meet(s, &f->items[i].read))
            return clash(at, (const int[]){op, f->items[i].op}, "writes", "reads", err);
        if (meet(s, &f->items[i].written) &&
            !other_rows(&at->of->program->ops[op], &at->of->program->ops[f->items[i].op]))
            return clash(at, (const int[]){op, f->items[i].op}, "writes", "writes", err);
    }
    return SN_OK;
}

enum sn_status sn_flights_check(const struct sn_flights *f, const struct sn_memory_at *at, int op,
                                struct sn_err *err)
{
    const struct sn_op *o = &at->of->program->ops[op];
    bool uses =
        o->kind < SN_NKERNELS || moves(o->kind); /* waits and the like name, but do not use */
    for (int i = 0; uses && f->n > 0 && i < SN_MAX_IN; i++) {
        struct sn_span s = span_of(at, &o->in[i], moves(o->kind));
        SN_TRY(check_read(f, at, op, &s, err));
    }
    for (int i = 0; uses && f->n > 0 && i < SN_MAX_OUT; i++) {
        struct sn_span s = span_of(at, &o->out[i], moves(o->kind));
        SN_TRY(check_written(f, at, op, &s, err));
    }
    return SN_OK;
}

bool sn_flights_begin(struct sn_flights *f, const struct sn_memory_at *at, int op, int post)
{
    if (!sn_grow((void **)&f->items, f->n, &f->cap, sizeof(*f->items)))
        return false;
    const struct sn_op *o = &at->of->program->ops[op];
    struct sn_flight x = {.op = op, .post = post, .written = span_of(at, &o->out[0], true)};
    if (o->kind != SN_OP_ALL_REDUCE) /* its input is taken over at the post (exec.c) */
        x.read = span_of(at, &o->in[0], true);
    f->items[f->n++] = x;
    return true;
}

void sn_flights_end(struct sn_flights *f, int post)
{
    for (int i = 0; i < f->n; i++)
        if (f->items[i].post == post) {
            f->items[i] = f->items[--f->n];
            return;
        }
}
