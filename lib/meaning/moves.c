/*
 * moves.c - what ranks send each other: posted with what the operand holds then, and taken at the
 * WAIT.
 */
#include "lib/meaning/inner.h"

#include "lib/base/mem.h"

#include <string.h>

/* --- queues ----------------------------------------------------------------------------------- */

void sn_queues_fini(struct sn_rank *r)
{
    for (int q = 0; q < r->n_queues; q++) {
        for (int i = 0; i < r->queues[q].n; i++)
            sn_slabs_fini(&r->queues[q].sent[i].slabs);
        sn_free(r->queues[q].sent);
    }
    sn_free(r->queues);
    sn_free(r->inboxes);
}

/* NULL: no memory, or, without `make`, none such. */
static struct sn_queue *queue_of(struct sn_rank *r, enum sn_group group, int to, int tag, bool make)
{
    for (int i = 0; i < r->n_queues; i++)
        if (r->queues[i].group == group && r->queues[i].to == to && r->queues[i].tag == tag)
            return &r->queues[i];
    if (!make || !sn_grow((void **)&r->queues, r->n_queues, &r->cap_queues, sizeof(*r->queues)))
        return NULL;
    r->queues[r->n_queues] = (struct sn_queue){.group = group, .to = to, .tag = tag};
    return &r->queues[r->n_queues++];
}

static struct sn_sent *send_new(struct sn_queue *q, int left)
{
    if (!q || !sn_grow((void **)&q->sent, q->n, &q->cap, sizeof(*q->sent)))
        return NULL;
    q->sent[q->n] = (struct sn_sent){.left = left};
    return &q->sent[q->n++];
}

static int member(const struct sn_visit *s, enum sn_group g, int i)
{
    return sn_group_member(&s->r->job->grid, s->r->rank, g, i);
}

/* What a rank has sent as its number `seq`; NULL: nothing yet. */
static struct sn_sent *sent_by(const struct sn_visit *s, int rank, int to, int tag, int seq)
{
    struct sn_queue *q = queue_of(&s->m->rank[rank], s->op->group, to, tag, false);
    return q && seq < q->n ? &q->sent[seq] : NULL;
}

static void took(struct sn_sent *x)
{
    if (--x->left == 0)
        sn_slabs_fini(&x->slabs);
}

/* --- posts ------------------------------------------------------------------------------------ */

static struct sn_pending *pending_of(const struct sn_visit *s, int id, bool per_slot)
{
    return &s->r->pending[(size_t)id * (size_t)s->r->slots + (size_t)(per_slot ? s->slot : 0)];
}

static int receive_new(const struct sn_visit *s, int from)
{
    struct sn_rank *r = s->r;
    for (int i = 0; i < r->n_inboxes; i++)
        if (r->inboxes[i].group == s->op->group && r->inboxes[i].from == from &&
            r->inboxes[i].tag == s->op->tag)
            return r->inboxes[i].n++;
    if (!sn_grow((void **)&r->inboxes, r->n_inboxes, &r->cap_inboxes, sizeof(*r->inboxes)))
        return -1;
    r->inboxes[r->n_inboxes++] = (struct sn_inbox){s->op->group, from, s->op->tag, 1};
    return 0;
}

static enum sn_status post_send(const struct sn_visit *s, int to, int tag, int left, int *seq)
{
    struct sn_queue *q = queue_of(s->r, s->op->group, to, tag, true);
    struct sn_sent *x = send_new(q, left);
    if (!x)
        return sn_visit_no_memory(s);
    *seq = q->n - 1;
    int64_t n; /* of rows only some go: whether they are there is seen when they are taken */
    if (sn_op_row(s->op->kind)->counts_rows) {
        SN_TRY(sn_read_written(s, &s->op->in[SN_MOVE_FROM], &x->slabs, &n));
        return sn_check_route(s, SN_MOVE_BOUNDS, &x->slabs);
    }
    return sn_read(s, SN_MOVE_FROM, &x->slabs);
}

/* A group of one: the operand itself. */
static enum sn_status copy(const struct sn_visit *s)
{
    struct sn_slabs x = {0};
    enum sn_status st = sn_read(s, SN_MOVE_FROM, &x);
    if (st == SN_OK)
        st = sn_write(s, SN_MOVE_TO, &x);
    sn_slabs_fini(&x);
    return st;
}

enum sn_status sn_post(const struct sn_visit *s)
{
    const struct sn_op *op = s->op;
    int size = s->r->job->group_size[op->group], seq = 0;
    if (!sn_op_meets_others(s->r->job, op))
        return copy(s);
    if (op->kind == SN_OP_RECV)
        seq = receive_new(s, member(s, op->group, op->peer));
    else if (op->kind == SN_OP_SEND)
        SN_TRY(post_send(s, member(s, op->group, op->peer), op->tag, 1, &seq));
    else
        SN_TRY(post_send(s, -1, 0, op->kind == SN_OP_SHIFT ? 1 : size, &seq));
    if (seq < 0)
        return sn_visit_no_memory(s);
    *pending_of(s, op->id, op->per_slot) =
        (struct sn_pending){true, seq, s->micro, s->slot, s->late};
    return SN_OK;
}

/* --- results ---------------------------------------------------------------------------------- */

static int64_t elements(const struct sn_slabs *t)
{
    int64_t n = 0;
    for (int i = 0; i < t->n; i++)
        n += t->t[i].rows * t->t[i].cols;
    return n;
}

void sn_move_part(const struct sn_slabs *sent, int64_t from, int64_t n, int64_t to,
                  struct sn_slabs *out)
{
    struct sn_area a = {from, 1, n, n};
    int before = out->n;
    for (int i = 0; i < sent->n; i++)
        (void)sn_slab_cut(out, &sent->t[i], &a);
    for (int i = before; i < out->n; i++)
        out->t[i].at += to - from;
}

/* The sum of what all members have at from .. from + n - 1. */
static enum sn_status sum_members(const struct sn_visit *s, struct sn_sent *const *sent, int size,
                                  int64_t from, int64_t n, struct sn_slabs *out)
{
    struct sn_slabs part = {0};
    enum sn_status st = SN_OK;
    for (int i = 0; i < size && st == SN_OK; i++) {
        part.n = 0;
        sn_move_part(&sent[i]->slabs, from, n, 0, &part);
        for (int k = 0; k < part.n && st == SN_OK; k++)
            st = sn_collect(s, out, &part.t[k]);
        if (st == SN_OK && elements(&part) != elements(out))
            st = sn_visit_fault(s, "sums %lld elements of member %d and %lld of those before it",
                                (long long)elements(&part), i, (long long)elements(out));
    }
    sn_slabs_fini(&part);
    return st;
}

static enum sn_status result(const struct sn_visit *s, struct sn_sent *const *sent, int size,
                             struct sn_slabs *out)
{
    const struct sn_op *op = s->op;
    int index = s->r->job->group_index[op->group];
    struct sn_area a = sn_view_area(s, &op->in[SN_MOVE_FROM]);
    int64_t n = a.rows * a.cols;
    if (op->kind == SN_OP_ALL_REDUCE)
        return sum_members(s, sent, size, 0, n, out);
    if (op->kind == SN_OP_REDUCE_SCATTER)
        return sum_members(s, sent, size, index * (n / size), n / size, out);
    for (int i = 0; i < size; i++)
        if (op->kind == SN_OP_ALL_GATHER)
            sn_move_part(&sent[i]->slabs, 0, n, i * n, out);
        else
            sn_move_part(&sent[i]->slabs, index * (n / size), n / size, i * (n / size), out);
    return out->failed ? sn_visit_no_memory(s) : SN_OK;
}

/* --- rows of experts' tokens ------------------------------------------------------------------ */

static enum sn_status not_written(const struct sn_visit *s, int64_t is, int64_t due)
{
    return sn_visit_fault(s, "sends rows of which %lld of %lld elements have been written",
                          (long long)is, (long long)due);
}

/* Of the rows that begin at source, those of some tokens of each expert, which come to lie at
 * `there`. */
static enum sn_status move_rows(const struct sn_visit *s, const struct sn_slabs *sent,
                                const struct sn_passage *p, struct sn_slabs *out)
{
    const struct sn_routing *r = &s->r->routing;
    struct sn_token_span t = sn_tokens_of(s, true);
    int64_t cols = s->op->in[SN_MOVE_FROM].cols, before = elements(out);
    for (int e = 0; e < r->here; e++)
        sn_move_part(sent, ((p->source + e) * r->tokens + t.first) * cols, t.n * cols,
                     ((p->there + e) * r->tokens + t.first) * cols, out);
    int64_t due = r->here * t.n * cols, is = elements(out) - before;
    return is == due ? SN_OK : not_written(s, is, due);
}

/* What says where rows lie now: as they were sent, or in a window. Theirs has been checked. */
static enum sn_status route_after(const struct sn_visit *s, uint64_t *route)
{
    struct sn_slabs note = {0};
    enum sn_status st = sn_read(s, SN_MOVE_BOUNDS, &note);
    *route = st == SN_OK && note.n > 0 ? note.t[0].value : 0;
    if (sn_gives_window(s->op))
        *route = sn_route_of_window(s, *route);
    sn_slabs_fini(&note);
    return st;
}

/* A result that other rows of its view stay beside. */
static enum sn_status write_beside(const struct sn_visit *s, const struct sn_slabs *slabs)
{
    struct sn_area a = sn_view_area(s, &s->op->out[SN_MOVE_TO]);
    struct sn_slabs *held = sn_held(s, s->op->out[SN_MOVE_TO].buf);
    uint64_t route;
    SN_TRY(route_after(s, &route));
    for (int i = 0; i < slabs->n; i++) {
        struct sn_slab t = slabs->t[i];
        t.at += a.at;
        t.route = t.space[SN_SLAB_ROWS] == SN_SPACE_ANY ? 0 : route;
        sn_slabs_put(held, &s->m->spaces, &t);
    }
    return slabs->failed || held->failed ? sn_visit_no_memory(s) : SN_OK;
}

static int number_in_experts(const struct sn_visit *s, int rank)
{
    return sn_group_index(&s->r->job->grid, rank, SN_GROUP_EXPERT);
}

/* sent: by member of the operation's group. */
static enum sn_status exchange(const struct sn_visit *s, struct sn_sent *const *sent)
{
    struct sn_slabs out = {0};
    struct sn_passage p;
    int mine = number_in_experts(s, s->r->rank);
    enum sn_status st = SN_OK;
    for (int i = 0; st == SN_OK && sn_passage_next(s, &i, &p);)
        for (int k = 0; p.to == mine && k < s->r->job->group_size[s->op->group]; k++)
            if (number_in_experts(s, member(s, s->op->group, k)) == p.from && st == SN_OK)
                st = move_rows(s, &sent[k]->slabs, &p, &out);
    if (st == SN_OK)
        st = write_beside(s, &out);
    sn_slabs_fini(&out);
    return st;
}

/* The shares of a window, of all members; or, back, the own share of what they sum up to. */
static enum sn_status gather_rows(const struct sn_visit *s, struct sn_sent *const *sent)
{
    const struct sn_routing *r = &s->r->routing;
    struct sn_slabs part = {0}, out = {0};
    enum sn_status st = SN_OK;
    int64_t rows = (int64_t)r->members * r->here, cols = s->op->in[SN_MOVE_FROM].cols;
    struct sn_token_span t = sn_tokens_of(s, s->op->attr.inverse);
    for (int i = 0; i < s->r->job->group_size[s->op->group]; i++) {
        part.n = 0;
        for (int64_t e = 0; e < rows; e++)
            sn_move_part(&sent[i]->slabs, (e * r->tokens + t.first) * cols, t.n * cols,
                         (e * r->tokens + t.first) * cols, &part);
        for (int k = 0; k < part.n && st == SN_OK; k++)
            st = sn_collect(s, &out, &part.t[k]);
        int64_t is = elements(s->op->attr.inverse ? &part : &out);
        bool last = s->op->attr.inverse || i == s->r->job->group_size[s->op->group] - 1;
        if (st == SN_OK && last && is != rows * t.n * cols)
            st = not_written(s, is, rows * t.n * cols);
    }
    if (st == SN_OK)
        st = write_beside(s, &out);
    sn_slabs_fini(&part);
    sn_slabs_fini(&out);
    return st;
}

/* s is as of the post. */
static enum sn_status take_collective(const struct sn_visit *s, int seq, bool *blocked)
{
    int size = s->r->job->group_size[s->op->group];
    struct sn_sent **sent = sn_alloc_n((size_t)size, sizeof(struct sn_sent *));
    struct sn_slabs out = {0};
    enum sn_status st = sent ? SN_OK : sn_visit_no_memory(s);
    for (int i = 0; i < size && st == SN_OK; i++) {
        sent[i] = sent_by(s, member(s, s->op->group, i), -1, 0, seq);
        *blocked = *blocked || !sent[i];
    }
    if (st == SN_OK && !*blocked) {
        if (s->op->kind == SN_OP_EXCHANGE)
            st = exchange(s, sent);
        else if (s->op->kind == SN_OP_GATHER_ROWS)
            st = gather_rows(s, sent);
        else
            st = result(s, sent, size, &out);
        if (st == SN_OK && !sn_op_row(s->op->kind)->counts_rows)
            st = sn_write(s, SN_MOVE_TO, &out);
        for (int i = 0; i < size; i++)
            took(sent[i]);
    }
    sn_slabs_fini(&out);
    sn_free(sent);
    return st;
}

static enum sn_status take(const struct sn_visit *s, int seq, bool *blocked)
{
    const struct sn_op *op = s->op;
    int size = s->r->job->group_size[op->group], index = s->r->job->group_index[op->group];
    if (op->kind == SN_OP_SEND)
        return SN_OK;
    struct sn_sent *x;
    if (op->kind == SN_OP_RECV)
        x = sent_by(s, member(s, op->group, op->peer), s->r->rank, op->tag, seq);
    else if (op->kind == SN_OP_SHIFT)
        x = sent_by(s, member(s, op->group, (index + size - 1) % size), -1, 0, seq);
    else
        return take_collective(s, seq, blocked);
    *blocked = !x;
    if (!x)
        return SN_OK;
    SN_TRY(sn_write(s, SN_MOVE_TO, &x->slabs));
    took(x);
    return SN_OK;
}

enum sn_status sn_wait(const struct sn_visit *s, bool *blocked)
{
    int id = s->op->waits_for;
    *blocked = false;
    if (id < 0 || id >= s->r->program->next_id || s->r->op_of_id[id] < 0)
        return SN_OK;
    struct sn_visit posted = *s;
    posted.number = s->r->op_of_id[id];
    posted.op = &s->r->program->ops[posted.number];
    struct sn_pending *p = pending_of(s, id, posted.op->per_slot);
    if (!p->is_there)
        return SN_OK;
    posted.micro = p->micro;
    posted.slot = p->slot;
    posted.late = p->late;
    SN_TRY(take(&posted, p->seq, blocked));
    p->is_there = *blocked;
    return SN_OK;
}

/* --- the end of a step ------------------------------------------------------------------------ */

/* What experts got, of each layer apart, where this rank routes tokens of its own. */
static uint64_t load_of(const struct sn_visit *s)
{
    const struct sn_job *j = s->r->job;
    uint64_t sum = 0;
    if (j->expert_load < 0 || !sn_job_is_first(j, j->same_routes))
        return 0;
    const struct sn_slabs *load = sn_held(s, j->expert_load);
    for (int i = 0; i < load->n; i++) {
        const struct sn_slab *t = &load->t[i];
        uint64_t layer = sn_field_of(sn_name(SN_OP_AGREE, (uint64_t)t->at));
        sum = sn_field_add(
            sum, sn_field_mul(sn_field_mul(t->value, layer), sn_extent(s->m, t, SN_SLAB_COLS)));
    }
    return sum;
}

enum sn_status sn_agree(const struct sn_visit *s, bool *blocked)
{
    struct sn_rank *r = s->r;
    if (!r->agrees) {
        struct sn_sent *x = send_new(queue_of(r, SN_GROUP_WORLD, -1, -1, true), s->m->ranks);
        if (!x)
            return sn_visit_no_memory(s);
        memcpy(x->told, r->told, sizeof(x->told));
        if (!sn_job_is_first(r->job, r->job->same_loss))
            x->told[SN_TOLD_LOSS] = x->told[SN_TOLD_SETS] = x->told[SN_TOLD_BESIDE] = 0;
        x->told[SN_TOLD_LOAD] = load_of(s);
        r->agrees = true;
    }
    uint64_t sum[SN_NTOLD] = {0};
    *blocked = false;
    for (int i = 0; i < s->m->ranks && !*blocked; i++) {
        const struct sn_queue *q = queue_of(&s->m->rank[i], SN_GROUP_WORLD, -1, -1, false);
        *blocked = !q;
        for (int k = 0; k < SN_NTOLD && q; k++)
            sum[k] = sn_field_add(sum[k], q->sent[q->n - 1].told[k]);
    }
    if (*blocked)
        return SN_OK;
    memcpy(r->told, sum, sizeof(sum));
    r->agrees = false;
    return SN_OK;
}
