/*
 * place.c - live ranges, sharing of memory, offsets.
 *
 * 1. A buffer lives from the first to the last operation that touches it; where those are part of a
 *    run that may be repeated, through the whole run.
 * 2. One touched by both the forward and the backward segment is kept per slot (SN_CLASS_SLOT); one
 *    that backward makes for delayed weight gradients per backward that waits for its own
 *    (SN_CLASS_LATE).
 * 3. Where an operation allows it, its output takes the place of an input that dies there.
 * 4. Slot buffers all live across the boundary of forward and backward, so they are laid end to
 *    end. Temporaries are packed: largest first, each at the lowest offset that is free during its
 *    whole life; where forward and backward segments take turns those of one side beside those of
 *    the other.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"

static void touch(struct sn_program *p, int buf, int op)
{
    if (buf < 0)
        return;
    struct sn_buffer *b = &p->bufs[buf];
    b->first = b->first < 0 ? op : b->first;
    b->last = op;
}

static void live_ranges(struct sn_program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        for (int k = 0; k < SN_MAX_IN; k++)
            touch(p, p->ops[i].in[k].buf, i);
        for (int k = 0; k < SN_MAX_OUT; k++)
            touch(p, p->ops[i].out[k].buf, i);
    }
}

/* What a run of operations that may be repeated takes from outside lives until its end, and what it
 * gives from its begin: the next round must find the one, and not what the last left of the other.
 */
static void stretch(struct sn_program *p, int buf, int begin, int end)
{
    if (buf < 0)
        return;
    struct sn_buffer *b = &p->bufs[buf];
    bool from_outside = b->first < begin;
    bool to_outside = b->last > end;
    if (from_outside && b->last < end)
        b->last = end;
    if (to_outside && b->first > begin)
        b->first = begin;
}

static void repeated_ranges(struct sn_program *p)
{
    for (int begin = 0, end; begin < p->n_ops; begin = end + 1) {
        for (end = begin; end + 1 < p->n_ops && p->ops[end + 1].extra == p->ops[begin].extra; end++)
            continue;
        for (int i = begin; i <= end && p->ops[begin].extra; i++) {
            for (int k = 0; k < SN_MAX_IN; k++)
                stretch(p, p->ops[i].in[k].buf, begin, end);
            for (int k = 0; k < SN_MAX_OUT; k++)
                stretch(p, p->ops[i].out[k].buf, begin, end);
        }
    }
}

static int segment_of(const struct sn_program *p, int op)
{
    int c = 0;
    while (c + 1 < p->n_segments && op >= p->segments[c + 1].first)
        c++;
    return c;
}

/* Made in a backward segment for the weight gradients that were cut from it. */
static bool is_late(const struct sn_program *p, const struct sn_buffer *x)
{
    return !x->kept && p->segments[segment_of(p, x->first)].kind == SN_SEGMENT_INPUT_GRAD &&
           p->segments[segment_of(p, x->last)].kind == SN_SEGMENT_WEIGHT_GRAD;
}

static void keep_across_segments(struct sn_program *p)
{
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) {
        struct sn_buffer *x = &p->bufs[b];
        if (x->kept || (x->first >= 0 && segment_of(p, x->first) != segment_of(p, x->last)))
            x->cls = is_late(p, x) ? SN_CLASS_LATE : SN_CLASS_SLOT;
    }
}

/* May the buffer of output o of operation i live where input k lives? */
static bool can_take(const struct sn_program *p, int i, int o, int k)
{
    const struct sn_op *op = &p->ops[i];
    struct sn_view in = op->in[k], out = op->out[o];
    if (in.buf < p->n_state_bufs || out.buf < p->n_state_bufs || !sn_view_is_all(p, &in) ||
        !sn_view_is_all(p, &out))
        return false;
    const struct sn_buffer *a = &p->bufs[p->bufs[in.buf].place], *b = &p->bufs[out.buf];
    if (a->last != i || b->first != i || b->place != out.buf || a->bytes != b->bytes ||
        a->dtype != b->dtype)
        return false;
    for (int other = 0; other < SN_MAX_IN; other++) /* no second reader of the same memory */
        if (other != k && op->in[other].buf >= 0 &&
            p->bufs[op->in[other].buf].place == p->bufs[in.buf].place)
            return false;
    for (int other = 0; other < SN_MAX_OUT; other++) /* nor a second writer */
        if (other != o && op->out[other].buf >= 0 &&
            p->bufs[op->out[other].buf].place == p->bufs[in.buf].place)
            return false;
    return true;
}

/* Put the buffer of output o where that of input k is. */
static void share(struct sn_program *p, const struct sn_op *op, int o, int k)
{
    struct sn_buffer *b = &p->bufs[op->out[o].buf];
    struct sn_buffer *root = &p->bufs[p->bufs[op->in[k].buf].place];
    b->place = root->place;
    root->last = b->last > root->last ? b->last : root->last;
    if (b->cls < root->cls) /* SLOT, LATE, TEMP: the longer life decides */
        root->cls = b->cls;
    b->cls = root->cls;
}

/* The input whose place output o takes, -1 for none. One of the same class comes first: a
 * temporary in whose place something kept is written would be kept too. */
static int input_to_take(const struct sn_program *p, int i, int o)
{
    const struct sn_op *op = &p->ops[i];
    int found = -1;
    for (int choice = 1; choice >= 0; choice--) {
        int k = sn_op_row(op->kind)->out[o].takes[choice] - 1;
        if (k < 0 || op->out[o].buf < 0 || op->in[k].buf < 0 || !can_take(p, i, o, k))
            continue;
        const struct sn_buffer *root = &p->bufs[p->bufs[op->in[k].buf].place];
        bool alike = root->cls == p->bufs[op->out[o].buf].cls;
        if (found < 0 || alike)
            found = k;
    }
    return found;
}

static void share_places(struct sn_program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        if (op->kind == SN_OP_ALIAS) { /* the same thing: whoever still reads it */
            share(p, op, 0, 0);
            continue;
        }
        for (int o = SN_MAX_OUT - 1; o >= 0; o--) { /* the sum of a norm before its result */
            int k = input_to_take(p, i, o);
            if (k >= 0)
                share(p, op, o, k);
        }
    }
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) /* members of a shared place agree */
        p->bufs[b].cls = p->bufs[p->bufs[b].place].cls;
}

/* Those of forward segments, or of all others; of one side where the two take turns. */
static bool is_of(const struct sn_program *p, const struct sn_buffer *x, bool forward)
{
    return !p->takes_turns ||
           forward == (p->segments[segment_of(p, x->first)].kind == SN_SEGMENT_FORWARD);
}

/* Temporaries of one side, behind those that are placed. */
static bool place_side(struct sn_program *p, bool forward, struct sn_pack_item *items,
                       int64_t *delta)
{
    int64_t before = p->temp_bytes, bound = p->temp_lower_bound;
    int n = 0;
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) {
        const struct sn_buffer *x = &p->bufs[b];
        if (x->cls == SN_CLASS_TEMP && x->place == b && x->first >= 0 && is_of(p, x, forward))
            items[n++] = (struct sn_pack_item){x->bytes, 0, x->first, x->last, b};
    }
    p->temp_lower_bound = sn_pack_bound(items, n, p->n_ops, delta);
    if (!sn_pack(p, items, n))
        return false;
    for (int i = 0; i < n; i++)
        p->bufs[items[i].buf].offset += before;
    p->temp_bytes += before;
    p->temp_lower_bound += bound;
    return true;
}

static enum sn_status place_temporaries(struct sn_program *p, struct sn_err *err)
{
    struct sn_pack_item *items = sn_alloc_n((size_t)p->n_bufs, sizeof(*items));
    int64_t *delta = sn_alloc_n((size_t)p->n_ops + 2, sizeof(*delta));
    bool good = items && delta && (!p->takes_turns || place_side(p, true, items, delta)) &&
                place_side(p, false, items, delta);
    sn_free(items);
    sn_free(delta);
    return good ? SN_OK
                : sn_fail(err, SN_ENOMEM, "compile: no memory to place %d buffers", p->n_bufs);
}

static void place_slots(struct sn_program *p)
{
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) {
        struct sn_buffer *x = &p->bufs[b];
        int64_t *bytes = x->cls == SN_CLASS_SLOT   ? &p->slot_bytes[x->vstage]
                         : x->cls == SN_CLASS_LATE ? &p->late_bytes[x->vstage]
                                                   : NULL;
        if (bytes && x->place == b) {
            x->offset = *bytes;
            *bytes += x->bytes;
        }
    }
    for (int v = 0; v < p->vstages; v++) {
        p->slot_base[v] = p->slots_bytes;
        p->slots_bytes += p->slots[v] * p->slot_bytes[v];
        p->late_base[v] = p->slots_bytes;
        p->slots_bytes += p->lates[v] * p->late_bytes[v];
    }
}

static void place_workspace(struct sn_job *j, struct sn_program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        if (p->ops[i].kind >= SN_NKERNELS)
            continue;
        struct sn_args a;
        sn_op_shapes(p, &p->ops[i], &a);
        int64_t need = (int64_t)j->ops->scratch((enum sn_op_kind)p->ops[i].kind, &a, j->threads);
        need = (need + 63) / 64 * 64;
        p->workspace_bytes = need > p->workspace_bytes ? need : p->workspace_bytes;
    }
}

enum sn_status sn_pass_place(struct sn_job *j, struct sn_program *p, struct sn_err *err)
{
    live_ranges(p);
    repeated_ranges(p);
    keep_across_segments(p);
    share_places(p);
    place_slots(p);
    if (!j->text_only)
        SN_TRY(place_temporaries(p, err));
    for (int b = p->n_state_bufs; b < p->n_bufs; b++)
        p->bufs[b].offset = p->bufs[p->bufs[b].place].offset;
    place_workspace(j, p);
    return SN_OK;
}

struct sn_address sn_buffer_address(const struct sn_program *p, int buf, int slot, int late)
{
    const struct sn_buffer *b = &p->bufs[buf];
    struct sn_address at = {sn_class_row(b->cls)->arena, b->offset};
    if (b->cls == SN_CLASS_SLOT)
        at.offset += p->slot_base[b->vstage] + slot * p->slot_bytes[b->vstage];
    else if (b->cls == SN_CLASS_LATE)
        at.offset += p->late_base[b->vstage] + late * p->late_bytes[b->vstage];
    else if (b->cls == SN_CLASS_TEMP)
        at.offset += p->slots_bytes;
    return at;
}
