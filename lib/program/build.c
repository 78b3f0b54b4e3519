/*
 * build.c - growing arrays of buffers, operations, segments and schedule entries; views; posting and
 * waiting, as text.
 *
 * The wait names the posted operation's operands, so that they live until it. The one exception is
 * the input of an all-reduce: it is taken over at the post (place.c lets the output have its
 * memory).
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct sn_view sn_no_view = {.buf = -1};

#define GROW(p, items, n, cap)                                                                     \
    ((p)->failed = (p)->failed || !sn_grow((void **)&(items), (n), &(cap), sizeof(*(items))))

/* What vsnprintf() writes. Of names, made of %s and %.60s mostly, thousands are written for a text. */
static void write_name(char *out, size_t size, const char *fmt, va_list ap)
{
    char *to = out, *end = out + size - 1;
    const char *f = fmt;
    va_list from;
    va_copy(from, ap);
    for (; *f; f++) {
        size_t most = size;
        if (*f != '%') {
            if (to < end)
                *to++ = *f;
            continue;
        }
        if (*++f == '.')
            for (most = 0, f++; *f >= '0' && *f <= '9'; f++)
                most = 10 * most + (size_t)(*f - '0');
        if (*f != 's')
            break;
        for (const char *s = va_arg(from, const char *); most > 0 && *s && to < end; most--)
            *to++ = *s++;
    }
    va_end(from);
    *to = '\0';
    if (*f)
        (void)vsnprintf(out, size, fmt, ap);
}

int sn_buffer_add(struct sn_program *p, enum sn_class cls, enum sn_dtype dtype, int64_t rows,
                  int64_t cols, const char *fmt, ...)
{
    struct sn_buffer b = {.cls = cls, .dtype = dtype, .rows = rows, .cols = cols, .bucket = -1};
    b.vstage = p->scope.virtual_stage;
    va_list ap; /* first of all: an argument may lie in the array that grows below */
    va_start(ap, fmt);
    write_name(b.name, sizeof(b.name), fmt, ap);
    va_end(ap);
    b.bytes = (rows * cols * (int64_t)sn_dtype_size(dtype) + 63) / 64 * 64;
    b.first = b.last = -1;
    b.place = p->n_bufs;
    GROW(p, p->bufs, p->n_bufs, p->cap_bufs);
    if (p->failed)
        return 0;
    p->bufs[p->n_bufs] = b;
    return p->n_bufs++;
}

int sn_buffer_like(struct sn_program *p, int buf, const char *prefix)
{
    if (p->failed)
        return 0;
    struct sn_buffer b = p->bufs[buf]; /* a copy: the array may grow */
    int like =
        sn_buffer_add(p, SN_CLASS_TEMP, b.dtype, b.rows, b.cols, "%s.%.100s", prefix, b.name);
    if (!p->failed)
        p->bufs[like].needs_grad = b.needs_grad;
    if (!p->failed)
        p->bufs[like].partial_grad = b.partial_grad;
    return like;
}

static void set_blank(struct sn_op *op, int kind)
{
    *op = (struct sn_op){.kind = kind, .waits_for = -1};
    for (int i = 0; i < SN_MAX_IN; i++)
        op->in[i] = sn_no_view;
    for (int i = 0; i < SN_MAX_OUT; i++)
        op->out[i] = sn_no_view;
}

struct sn_op sn_op_blank(int kind)
{
    struct sn_op op;
    set_blank(&op, kind);
    return op;
}

/* Remember where the operation that is added next will be. */
static void note_place(struct sn_program *p, int id)
{
    while (!p->failed && id >= p->cap_ids)
        GROW(p, p->op_of_id, p->cap_ids, p->cap_ids);
    if (!p->failed)
        p->op_of_id[id] = p->n_ops;
}

/* Room for one more, whose id is p->next_id. */
static struct sn_op *op_room(struct sn_program *p)
{
    GROW(p, p->ops, p->n_ops, p->cap_ops);
    note_place(p, p->next_id);
    return p->failed ? &p->spare : &p->ops[p->n_ops++];
}

static struct sn_op *number_op(struct sn_program *p, struct sn_op *op)
{
    op->id = p->next_id++;
    op->layer = p->layer;
    op->extra = p->extra;
    return op;
}

struct sn_op *sn_op_add(struct sn_program *p, int kind, const char *fmt, ...)
{
    char label[sizeof(p->spare.label)] = "";
    va_list ap; /* first of all: an argument may lie in the array that grows below */
    va_start(ap, fmt);
    write_name(label, sizeof(label), fmt, ap);
    va_end(ap);
    struct sn_op *op = op_room(p);
    set_blank(op, kind);
    memcpy(op->label, label, sizeof(label));
    return number_op(p, op);
}

int sn_op_append(struct sn_program *p, const struct sn_op *want)
{
    struct sn_op copy = *want; /* it may lie in the array that grows */
    struct sn_op *op = op_room(p);
    *op = copy;
    return number_op(p, op)->id;
}

void sn_op_put(struct sn_program *p, const struct sn_op *op)
{
    int next = p->next_id, id = op->id;
    (void)sn_op_append(p, op);
    p->next_id = next;
    if (p->failed)
        return;
    p->ops[p->n_ops - 1].id = id;
    p->op_of_id[id] = p->n_ops - 1;
}

void sn_ops_drop(struct sn_program *p, const bool *gone)
{
    int to = 0;
    if (p->failed)
        return;
    for (int c = 0; c < p->n_segments; c++) {
        struct sn_segment *x = &p->segments[c];
        int first = to;
        for (int i = x->first; i < x->first + x->n; i++) {
            if (gone[i])
                continue;
            p->ops[to] = p->ops[i];
            p->op_of_id[p->ops[to].id] = to;
            to++;
        }
        x->first = first;
        x->n = to - first;
    }
    p->n_ops = to;
}

const struct sn_op *sn_op_find(const struct sn_program *p, int id)
{
    assert(p->failed || p->ops[p->op_of_id[id]].id == id);
    return p->failed ? &p->spare : &p->ops[p->op_of_id[id]];
}

static void segment_end(struct sn_program *p)
{
    if (p->n_segments) {
        struct sn_segment *c = &p->segments[p->n_segments - 1];
        c->n = p->n_ops - c->first;
    }
}

void sn_segment_begin(struct sn_program *p, enum sn_segment_kind kind)
{
    segment_end(p);
    GROW(p, p->segments, p->n_segments, p->cap_segments);
    if (!p->failed)
        p->segments[p->n_segments++] =
            (struct sn_segment){.kind = kind, .scope = p->scope, .first = p->n_ops};
}

void sn_segments_close(struct sn_program *p)
{
    segment_end(p);
}

int sn_segment_find(const struct sn_program *p, enum sn_segment_kind kind, struct sn_scope scope)
{
    for (int c = 0; c < p->n_segments; c++)
        if (p->segments[c].kind == kind && sn_scope_equal(p->segments[c].scope, scope))
            return c;
    return -1;
}

void sn_runs_count(struct sn_program *p, const struct sn_sched *s)
{
    struct sn_segment *c = &p->segments[s->segment];
    if (s->first > c->first)
        return; /* the run has been counted */
    c->runs[SN_EVERY]++;
    c->runs[SN_FIRST] += s->micro == 0;
    c->runs[SN_LAST] += s->micro == p->micros - 1;
}

void sn_sched_add_piece(struct sn_program *p, const struct sn_piece *x, int micro, int slot)
{
    GROW(p, p->sched, p->n_sched, p->cap_sched);
    if (p->failed)
        return;
    p->sched[p->n_sched] = (struct sn_sched){
        .segment = x->segment, .micro = micro, .first = x->first, .n = x->n, .slot = slot};
    sn_runs_count(p, &p->sched[p->n_sched++]);
}

void sn_sched_add(struct sn_program *p, int segment, int micro, int slot)
{
    if (p->failed)
        return;
    const struct sn_segment *c = &p->segments[segment];
    sn_sched_add_piece(p, &(struct sn_piece){segment, c->first, c->n}, micro, slot);
}

struct sn_view sn_view_all(const struct sn_program *p, int buf)
{
    if (p->failed)
        return sn_no_view;
    const struct sn_buffer *b = &p->bufs[buf];
    return (struct sn_view){.buf = buf, .rows = b->rows, .cols = b->cols, .ld = b->cols};
}

bool sn_view_is_all(const struct sn_program *p, const struct sn_view *v)
{
    const struct sn_buffer *b = v->buf < 0 ? NULL : &p->bufs[v->buf];
    return b && v->index == SN_AT_FIXED && v->offset == 0 && v->rows == b->rows &&
           v->cols == b->cols && v->ld == b->cols;
}

struct sn_view sn_view_rows(const struct sn_program *p, int buf, int64_t row, int64_t rows)
{
    struct sn_view v = sn_view_all(p, buf);
    v.offset = row * v.ld;
    v.rows = rows;
    return v;
}

struct sn_view sn_view_cols(const struct sn_program *p, int buf, int64_t col, int64_t cols)
{
    struct sn_view v = sn_view_all(p, buf);
    v.offset = col;
    v.cols = cols;
    return v;
}

struct sn_view sn_view_flat(const struct sn_program *p, int buf)
{
    struct sn_view v = sn_view_all(p, buf);
    v.cols = v.ld = v.rows * v.cols;
    v.rows = 1;
    return v;
}

/* --- posting and waiting ---------------------------------------------------------------------- */

struct sn_op sn_comm_op(int kind, enum sn_group group, const char *fmt, ...)
{
    struct sn_op op = sn_op_blank(kind);
    op.group = group;
    va_list ap;
    va_start(ap, fmt);
    write_name(op.label, sizeof(op.label), fmt, ap);
    va_end(ap);
    return op;
}

void sn_wait_add(struct sn_program *p, int id)
{
    if (p->failed)
        return;
    struct sn_op *op = sn_op_add(p, SN_OP_WAIT, "%s", sn_op_find(p, id)->label);
    const struct sn_op *posted = sn_op_find(p, id);
    op->in[SN_WAIT_NAMES] = posted->out[SN_MOVE_TO];
    op->in[SN_WAIT_NAMES_TOO] =
        sn_op_row(posted->kind)->takes_input ? sn_no_view : posted->in[SN_MOVE_FROM];
    op->when = posted->when;
    op->group = posted->group;
    op->waits_for = id;
    op->per_slot = posted->per_slot;
    op->is_weight_grad = posted->is_weight_grad;
    op->is_input_grad = posted->is_input_grad;
}

void sn_comm_run(struct sn_program *p, const struct sn_op *op)
{
    sn_wait_add(p, sn_op_append(p, op));
}

int sn_shift_post(struct sn_program *p, int from, int to, const char *label)
{
    struct sn_op op = sn_comm_op(SN_OP_SHIFT, SN_GROUP_CONTEXT, "%.50s.ring", label);
    op.in[SN_MOVE_FROM] = sn_view_flat(p, from);
    op.out[SN_MOVE_TO] = sn_view_flat(p, to);
    return sn_op_append(p, &op);
}
