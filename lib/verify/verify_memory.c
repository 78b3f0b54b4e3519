/*
 * verify_memory.c - memory that posted operations still use.
 *
 * Between the post and the wait of an operation nothing else may write what it reads or writes, and
 * nothing may read what it writes. Addresses are those of the executor; a ZeRO slice counts as all
 * slices, so that one check holds for every rank of the text.
 */
#include "lib/verify/verify_trace.h"

#include "lib/base/mem.h"

/* One arena behind the other. */
static int64_t base(const struct sn_memory_at *at, int buf)
{
    struct sn_address x = sn_buffer_address(at->of->program, buf, at->slot, at->late);
    for (int a = 0; a < (int)x.arena; a++)
        x.offset += at->of->job->arena_bytes[a];
    return x.offset;
}

/* `flat`: a transfer, which moves rows x cols elements without gaps whatever ld says. */
static struct sn_byte_span span_of(const struct sn_memory_at *at, const struct sn_view *v,
                                   bool flat)
{
    if (v->buf < 0 || v->rows == 0 || v->cols == 0)
        return (struct sn_byte_span){0};
    int64_t width = (int64_t)sn_dtype_size(at->of->program->bufs[v->buf].dtype);
    int64_t first = v->offset + (v->index == SN_AT_MICRO ? at->micro * v->stride : 0);
    struct sn_byte_span s = {base(at, v->buf) + first * width, v->cols * width, v->ld * width,
                             v->rows};
    if (flat || v->ld == v->cols || v->rows == 1)
        s = (struct sn_byte_span){s.at, v->rows * v->cols * width, 0, 1};
    if (v->index == SN_AT_SLICE) {
        const struct sn_job *j = at->of->job;
        int bucket = at->of->program->bufs[v->buf].bucket;
        int64_t members = j->group_size[j->buckets[bucket].sliced_over];
        int64_t length = (s.rows - 1) * s.stride + s.width;
        s = (struct sn_byte_span){s.at, (members - 1) * v->stride * width + length, 0, 1};
    }
    return s;
}

/* Does some row of `a` meet `b`, which is one piece? */
static bool overlap(const struct sn_byte_span *a, const struct sn_byte_span *b)
{
    int64_t begin = b->at, end = b->at + b->width;
    if (a->rows == 0 || b->rows == 0 || a->at >= end)
        return false;
    if (a->rows == 1 || a->at + a->width > begin)
        return a->at + a->width > begin;
    int64_t row = (begin - a->at - a->width) / a->stride + 1; /* the first that ends behind begin */
    return row < a->rows && a->at + row * a->stride < end;
}

static enum sn_status clash(const struct sn_memory_at *at, const int op[2], const char *does,
                            const char *still, struct sn_err *err)
{
    const struct sn_program *p = at->of->program;
    const struct sn_op *now = &p->ops[op[0]], *before = &p->ops[op[1]];
    int buf = before->in[SN_MOVE_FROM].buf >= 0 && still[0] == 'r' ? before->in[SN_MOVE_FROM].buf
                                                                   : before->out[SN_MOVE_TO].buf;
    return sn_fail(err, SN_EFAIL,
                   "%s: %s: %s '%s' (operation %d, micro-batch %d) %s memory of '%s' that %s '%s' "
                   "(operation %d) still %s; wait for it first",
                   p->name, sn_rank_text(at->of->grid, at->of->rank).s, sn_op_name(now->kind),
                   now->label, op[0], at->micro, does, p->bufs[buf].name, sn_op_name(before->kind),
                   before->label, op[1], still);
}

/* --- what is under way ------------------------------------------------------------------------ */

bool sn_flights_init(struct sn_flights *f, const struct sn_program *p)
{
    *f = (struct sn_flights){.n_lists = p->n_state_bufs + 1, .free = -1};
    f->first = sn_alloc_n((size_t)f->n_lists, sizeof(*f->first));
    for (int i = 0; f->first && i < f->n_lists; i++)
        f->first[i] = -1;
    return f->first != NULL;
}

void sn_flights_fini(struct sn_flights *f)
{
    sn_free(f->uses);
    sn_free(f->first);
    sn_free(f->of_post);
}

/* State buffers have memory of their own (compile.c), which check_inside keeps to; the scratch
 * arena's share it. */
static int list_of(const struct sn_flights *f, int buf)
{
    return buf < f->n_lists - 1 ? buf : f->n_lists - 1;
}

/* The newest of those that may meet a view; -1. */
static int newest(const struct sn_flights *f, const struct sn_view *v)
{
    return v->buf < 0 ? -1 : f->first[list_of(f, v->buf)];
}

static bool room_for_posts(struct sn_flights *f, int post)
{
    while (f->n_posts <= post) {
        if (!sn_grow((void **)&f->of_post, f->n_posts, &f->cap_posts, sizeof(*f->of_post)))
            return false;
        f->of_post[f->n_posts++] = -1;
    }
    return true;
}

static bool add_use(struct sn_flights *f, const struct sn_buffer_use *want, int buf)
{
    int i = f->free;
    if (i >= 0)
        f->free = f->uses[i].next;
    else if (sn_grow((void **)&f->uses, f->n_uses, &f->cap_uses, sizeof(*f->uses)))
        i = f->n_uses++;
    else
        return false;
    struct sn_buffer_use *u = &f->uses[i];
    *u = *want;
    u->list = list_of(f, buf);
    u->next = f->first[u->list];
    u->before = -1;
    u->other = f->of_post[want->post];
    if (u->next >= 0)
        f->uses[u->next].before = i;
    f->first[u->list] = f->of_post[want->post] = i;
    return true;
}

static void end_use(struct sn_flights *f, int i)
{
    struct sn_buffer_use *u = &f->uses[i];
    if (u->next >= 0)
        f->uses[u->next].before = u->before;
    if (u->before >= 0)
        f->uses[u->before].next = u->next;
    else
        f->first[u->list] = u->next;
    u->next = f->free;
    f->free = i;
}

bool sn_flights_begin(struct sn_flights *f, const struct sn_memory_at *at, int op, int post)
{
    const struct sn_op *o = &at->of->program->ops[op];
    const struct sn_view *to = &o->out[SN_MOVE_TO], *from = &o->in[SN_MOVE_FROM];
    struct sn_buffer_use x = {
        .op = op, .post = post, .writes = true, .span = span_of(at, to, true)};
    if (!room_for_posts(f, post) || (to->buf >= 0 && !add_use(f, &x, to->buf)))
        return false;
    if (sn_op_row(o->kind)->takes_input || from->buf < 0) /* taken over at the post (exec.c) */
        return true;
    x.writes = false;
    x.span = span_of(at, from, true);
    return add_use(f, &x, from->buf);
}

void sn_flights_end(struct sn_flights *f, int post)
{
    if (post >= f->n_posts)
        return;
    for (int i = f->of_post[post]; i >= 0; i = f->uses[i].other)
        end_use(f, i);
    f->of_post[post] = -1;
}

void sn_flights_end_all(struct sn_flights *f)
{
    for (int post = 0; post < f->n_posts; post++)
        sn_flights_end(f, post);
}

/* --- who meets it ----------------------------------------------------------------------------- */

static enum sn_status check_inside(const struct sn_memory_at *at, int op, const struct sn_view *v,
                                   struct sn_err *err)
{
    const struct sn_program *p = at->of->program;
    const struct sn_op *o = &p->ops[op];
    struct sn_byte_span s = span_of(at, v, sn_op_is_posted(o));
    if (s.rows == 0)
        return SN_OK;
    int64_t begin = base(at, v->buf), end = begin + p->bufs[v->buf].bytes;
    if (s.at >= begin && s.at + (s.rows - 1) * s.stride + s.width <= end)
        return SN_OK;
    return sn_fail(err, SN_EFAIL,
                   "%s: %s: %s '%s' (operation %d, micro-batch %d) names memory outside '%s'",
                   p->name, sn_rank_text(at->of->grid, at->of->rank).s, sn_op_name(o->kind),
                   o->label, op, at->micro, p->bufs[v->buf].name);
}

static enum sn_status check_read(const struct sn_flights *f, const struct sn_memory_at *at, int op,
                                 const struct sn_view *v, struct sn_err *err)
{
    struct sn_byte_span s = span_of(at, v, sn_op_is_posted(&at->of->program->ops[op]));
    for (int i = newest(f, v); i >= 0; i = f->uses[i].next)
        if (f->uses[i].writes && overlap(&s, &f->uses[i].span))
            return clash(at, (const int[]){op, f->uses[i].op}, "reads", "writes", err);
    return SN_OK;
}

/* Two chunks of one exchange that come back to one buffer: no row is of both. */
static bool other_rows(const struct sn_op *a, const struct sn_op *b)
{
    return a->kind == SN_OP_EXCHANGE && b->kind == SN_OP_EXCHANGE && a->group == b->group &&
           a->attr.inverse && b->attr.inverse && a->attr.experts.chunks > 1 &&
           a->attr.experts.chunks == b->attr.experts.chunks &&
           a->attr.experts.chunk != b->attr.experts.chunk &&
           a->out[SN_MOVE_TO].buf == b->out[SN_MOVE_TO].buf &&
           a->in[SN_MOVE_BOUNDS].buf == b->in[SN_MOVE_BOUNDS].buf && !a->extra && !b->extra;
}

static enum sn_status check_written(const struct sn_flights *f, const struct sn_memory_at *at,
                                    int op, const struct sn_view *v, struct sn_err *err)
{
    const struct sn_op *ops = at->of->program->ops;
    struct sn_byte_span s = span_of(at, v, sn_op_is_posted(&ops[op]));
    for (int i = newest(f, v); i >= 0; i = f->uses[i].next) {
        const struct sn_buffer_use *u = &f->uses[i];
        if (overlap(&s, &u->span) && !(u->writes && other_rows(&ops[op], &ops[u->op])))
            return clash(at, (const int[]){op, u->op}, "writes", u->writes ? "writes" : "reads",
                         err);
    }
    return SN_OK;
}

enum sn_status sn_flights_check(const struct sn_flights *f, const struct sn_memory_at *at, int op,
                                struct sn_err *err)
{
    const struct sn_op *o = &at->of->program->ops[op];
    bool uses =
        o->kind < SN_NKERNELS || sn_op_is_posted(o); /* waits and the like name, but do not use */
    for (int i = 0; uses && i < SN_MAX_IN; i++) {
        SN_TRY(check_inside(at, op, &o->in[i], err));
        SN_TRY(check_read(f, at, op, &o->in[i], err));
    }
    for (int i = 0; uses && i < SN_MAX_OUT; i++) {
        SN_TRY(check_inside(at, op, &o->out[i], err));
        SN_TRY(check_written(f, at, op, &o->out[i], err));
    }
    return SN_OK;
}
