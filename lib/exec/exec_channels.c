/*
 * exec_channels.c - communication between devices: a channel for each group that the programs use,
 * and one for each ordered pair of pipeline neighbours.
 *
 * A group whose members are some of those of another one on its axis gets a part of that one's
 * channel (device.h, split): they share memory and connections, and lose nothing by going one after
 * another, because an axis has one stream. Groups of other axes and pairs share nothing: their
 * transfers have to run beside each other, and a receive that is posted early would hold up all
 * others for as long as its sender needs.
 *
 * A transfer runs on the stream of its axis, beside the operations between its post and its WAIT.
 * Channels know no tags: what a pair sends must be received in the same order, which is compared
 * before step 1. A pair has channels and streams of its own, one each way, so that a transfer whose
 * peer is late holds up no other.
 */
#include "lib/exec/exec_device.h"

#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>

_Static_assert((int)SN_DEVICE_ALL_REDUCE == (int)SN_ALL_REDUCE &&
                   (int)SN_DEVICE_ALL_TO_ALL == (int)SN_ALL_TO_ALL &&
                   (int)SN_DEVICE_RECV == (int)SN_RECV,
               "kernels/device.h and lib/layout/collective.h count alike");

/* Of a stage, in the ring of stages; with two of them both neighbours are one. */
enum pair { TO_NEXT, FROM_PREVIOUS, TO_PREVIOUS, FROM_NEXT, N_PAIRS };
enum { PAIR_CHANNEL = SN_NGROUPS };

static int neighbour(const struct sn_job *j, int step)
{
    int n = j->group_size[SN_GROUP_PIPELINE];
    return (j->group_index[SN_GROUP_PIPELINE] + step + n) % n;
}

static enum pair pair_of(const struct sn_job *j, const struct sn_op *op)
{
    bool is_send = op->kind == SN_OP_SEND;
    if (op->peer == neighbour(j, 1) && is_send)
        return TO_NEXT;
    if (op->peer == neighbour(j, -1))
        return is_send ? TO_PREVIOUS : FROM_PREVIOUS;
    return FROM_NEXT;
}

/* --- before step 1 ---------------------------------------------------------------------------- */

static unsigned groups_of(const struct sn_job *j, const struct sn_program *p)
{
    unsigned groups = 0;
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        if (sn_op_meets_others(j, op) && !sn_op_is_transfer(op))
            groups |= 1u << op->group;
    }
    return groups;
}

/* Everybody of a group gets what each member says, through the processes. */
static enum sn_status gather(struct sn_exec *x, enum sn_group q, const void *mine, size_t bytes,
                             void *all, struct sn_err *err)
{
    int64_t dropped[SN_NAXES] = {0}; /* not a step's traffic */
    const struct sn_comm_ops *comm = x->comm->ops;
    struct sn_transfer t = {.kind = SN_ALL_GATHER,
                            .group = q,
                            .dtype = SN_F64, /* 8-byte words */
                            .n = (int64_t)(bytes / sizeof(double)),
                            .in = mine,
                            .out = all,
                            .staging = sn_exec_address(x, &x->job->train, x->job->staging),
                            .label = "channels"};
    SN_TRY(comm->wait(x->comm, comm->post(x->comm, &t), err));
    comm->take_sent_bytes(x->comm, dropped);
    return SN_OK;
}

/* A channel that does not come about: with whom; the process ends where it hangs. */
static enum sn_status not_joined(struct sn_exec *x, int rc, const char *with, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    (void)sn_fail(err, rc == SN_DEVICE_HANGS ? SN_ELOST : SN_EFAIL, "channel of %s: %s: %s", with,
                  v->ops->maker, v->ops->explain(v->d));
    return rc == SN_DEVICE_HANGS ? sn_accelerator_hangs(v->accelerator, err) : err->status;
}

/* "tensor, ranks 0 2 4": the first few. */
static void name_group(char *text, size_t room, const struct sn_job *j, enum sn_group q)
{
    enum { FEW = 16 };
    int n = j->group_size[q];
    size_t at = (size_t)snprintf(text, room, "%s, ranks", sn_group_name(q));
    for (int i = 0; i < n && i < FEW && at < room; i++)
        at +=
            (size_t)snprintf(text + at, room - at, " %d", sn_group_member(&j->grid, j->rank, q, i));
    if (n > FEW && at < room)
        (void)snprintf(text + at, room - at, " and %d more", n - FEW);
}

/* Are the members of group q, of whichever member of this rank's group r, members of that group r?
 * And have all of these the same text, so that they call for the same channels? */
static bool holds(const struct sn_job *j, enum sn_group r, enum sn_group q)
{
    const struct sn_grid *g = &j->grid;
    int first = sn_group_member(g, j->rank, r, 0);
    for (int m = 0; m < j->group_size[r]; m++) {
        int rank = sn_group_member(g, j->rank, r, m);
        if (sn_grid_coord(g, rank, SN_AXIS_PIPELINE) != sn_grid_coord(g, first, SN_AXIS_PIPELINE))
            return false;
        for (int i = 0; i < sn_group_size(g, rank, q); i++)
            if (sn_group_member(g, sn_group_member(g, rank, q, i), r, 0) != first)
                return false;
    }
    return true;
}

/* The group before q, of those that have channels, of whose channel that of q may be a part; -1. As
 * it is the first one it is no part itself. */
static int whole_of(const struct sn_job *j, unsigned groups, enum sn_group q)
{
    for (int r = 0; r < (int)q; r++)
        if ((groups >> r & 1u) && sn_group_axis((enum sn_group)r) == sn_group_axis(q) &&
            holds(j, (enum sn_group)r, q))
            return r;
    return -1;
}

static enum sn_status join_group(struct sn_exec *x, unsigned groups, enum sn_group q, char *ids,
                                 struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_job *j = x->job;
    char mine[SN_DEVICE_ID] = {0}, with[256];
    int whole = whole_of(j, groups, q), rc;
    if (whole >= 0 && v->ops->split) {
        rc = v->ops->split(v->d, (int)q, whole, sn_group_member(&j->grid, j->rank, q, 0),
                           j->group_size[q], j->group_index[q]);
    } else {
        if (whole >= 0 && j->rank == 0)
            sn_log(SN_LOG_WARN,
                   "%s: its library splits no channels: that of %s shares nothing with that of %s",
                   v->ops->maker, sn_group_name(q), sn_group_name((enum sn_group)whole));
        if (j->group_index[q] == 0 && v->ops->channel_id(v->d, mine) != 0)
            return sn_device_fail(x, NULL, err);
        SN_TRY(gather(x, q, mine, sizeof(mine), ids, err));
        rc = v->ops->join(v->d, (int)q, ids, j->group_size[q], j->group_index[q]);
    }
    if (rc == 0)
        return SN_OK;
    name_group(with, sizeof(with), x->job, q);
    return not_joined(x, rc, with, err);
}

/* The ordered pair `from` -> `to`, of which the sender is member 0. */
static enum sn_status join_pair(struct sn_exec *x, int from, int to, const char *id,
                                struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_job *j = x->job;
    int mine = j->group_index[SN_GROUP_PIPELINE];
    enum pair k = from == mine ? (to == neighbour(j, 1) ? TO_NEXT : TO_PREVIOUS)
                               : (from == neighbour(j, -1) ? FROM_PREVIOUS : FROM_NEXT);
    if (from != mine && to != mine)
        return SN_OK;
    int rc = v->ops->join(v->d, PAIR_CHANNEL + (int)k, id, 2, from == mine ? 0 : 1);
    char with[64];
    if (rc == 0)
        return SN_OK;
    (void)snprintf(with, sizeof(with), "pipeline, from rank %d to rank %d",
                   sn_group_member(&j->grid, j->rank, SN_GROUP_PIPELINE, from),
                   sn_group_member(&j->grid, j->rank, SN_GROUP_PIPELINE, to));
    return not_joined(x, rc, with, err);
}

/* All ranks go through the pairs in the same order, so that nobody waits in a circle. */
static enum sn_status join_pairs(struct sn_exec *x, char *ids, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    int n = x->job->group_size[SN_GROUP_PIPELINE];
    char mine[2 * SN_DEVICE_ID] = {0};
    /* Two ranks are neighbours on one side only; an id that nobody joins would leak. */
    for (int k = 0; k < (n > 2 ? 2 : 1); k++)
        if (v->ops->channel_id(v->d, mine + (size_t)k * SN_DEVICE_ID) != 0)
            return sn_device_fail(x, NULL, err);
    SN_TRY(gather(x, SN_GROUP_PIPELINE, mine, sizeof(mine), ids, err));
    for (int s = 0; s < n; s++) {
        const char *id = ids + s * (int)sizeof(mine);
        SN_TRY(join_pair(x, s, (s + 1) % n, id, err));
        if (n > 2)
            SN_TRY(join_pair(x, s, (s - 1 + n) % n, id + SN_DEVICE_ID, err));
    }
    return SN_OK;
}

/* What goes through each pair, in order, as a hash. */
static void hash_pairs(const struct sn_exec *x, const struct sn_program *p, uint64_t hash[N_PAIRS])
{
    for (int i = 0; i < p->n_sched; i++) {
        const struct sn_sched *c = &p->sched[i];
        struct sn_at at = {.micro = c->micro, .micros = p->micros};
        for (int k = c->first; k < c->first + c->n; k++) {
            const struct sn_op *op = &p->ops[k];
            if (!sn_op_is_transfer(op) || !sn_exec_due(op, &at))
                continue;
            enum pair q = pair_of(x->job, op);
            int64_t word[3] = {(int64_t)hash[q], op->tag, at.micro};
            hash[q] = sn_hash64(word, sizeof(word));
        }
    }
}

static enum sn_status compare_pairs(struct sn_exec *x, char *all, struct sn_err *err)
{
    const struct sn_job *j = x->job;
    uint64_t mine[N_PAIRS] = {0}, next[N_PAIRS], previous[N_PAIRS];
    hash_pairs(x, &j->train, mine);
    hash_pairs(x, &j->evaluate, mine);
    SN_TRY(gather(x, SN_GROUP_PIPELINE, mine, sizeof(mine), all, err));
    memcpy(next, all + (size_t)neighbour(j, 1) * sizeof(mine), sizeof(mine));
    memcpy(previous, all + (size_t)neighbour(j, -1) * sizeof(mine), sizeof(mine));
    if (previous[TO_NEXT] == mine[FROM_PREVIOUS] && next[FROM_PREVIOUS] == mine[TO_NEXT] &&
        (j->stages == 2 ||
         (next[TO_PREVIOUS] == mine[FROM_NEXT] && previous[FROM_NEXT] == mine[TO_PREVIOUS])))
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "layout.schedule: stage %d receives in another order than its neighbours send, "
                   "which channels between devices cannot do; use another schedule or fewer "
                   "virtual stages",
                   j->stage);
}

enum sn_status sn_channels_join(struct sn_exec *x, struct sn_err *err)
{
    const struct sn_job *j = x->job;
    if (x->device->accelerator->is_shared)
        return SN_OK;
    unsigned groups = groups_of(j, &j->train) | groups_of(j, &j->evaluate);
    char *ids = sn_alloc_n((size_t)j->group_size[SN_GROUP_WORLD], 2 * SN_DEVICE_ID);
    enum sn_status st = ids ? SN_OK : sn_fail(err, SN_ENOMEM, "channels: no memory");
    for (int q = 0; st == SN_OK && q < SN_NGROUPS; q++)
        if (groups >> q & 1u)
            st = join_group(x, groups, (enum sn_group)q, ids, err);
    if (st == SN_OK && j->stages > 1)
        st = compare_pairs(x, ids, err);
    if (st == SN_OK && j->stages > 1)
        st = join_pairs(x, ids, err);
    sn_free(ids);
    return st;
}

/* --- in a step -------------------------------------------------------------------------------- */

static void count(struct sn_exec *x, const struct sn_op *op, const struct sn_transfer *t)
{
    const struct sn_job *j = x->job;
    enum sn_collective kind = op->kind == SN_OP_SHIFT ? SN_SEND : t->kind;
    int64_t *sent = &x->device->sent[sn_group_axis(op->group)];
    if (op->kind == SN_OP_EXCHANGE)
        *sent += sn_exchange_sent(t->exchange) * t->n * (int64_t)sn_dtype_size(t->dtype);
    else
        *sent += sn_collective_bytes(kind, t->n, t->dtype, j->group_size[op->group],
                                     j->group_index[op->group]);
}

/* Run `run` of what one member gets from, or gives to, this one. */
static struct sn_device_rows run_of(const struct sn_exchange *x, int m, bool arrives, int run)
{
    struct sn_exchange_walk w = {.member = m, .arrives = arrives};
    struct sn_exchange_rows r = {0, 0};
    for (int i = 0; i <= run; i++)
        if (!sn_exchange_next(x, &w, &r))
            return (struct sn_device_rows){0, 0};
    return (struct sn_device_rows){r.at, r.n};
}

/* Rows of each member, in the caller's room for twice as many. */
static void list_rows(const struct sn_exec *x, const struct sn_op *op, const struct sn_transfer *t,
                      int run)
{
    int n = x->job->group_size[op->group];
    struct sn_device_rows *to = x->device->rows, *from = to + n;
    memset(to, 0, 2 * (size_t)n * sizeof(*to));
    for (int m = 0; t->exchange && m < n; m++) {
        to[m] = run_of(t->exchange, m, false, run);
        from[m] = run_of(t->exchange, m, true, run);
    }
    if (t->exchange)
        return;
    to[sn_exec_next(x, op)].n = 1;
    from[sn_exec_previous(x, op)].n = 1;
}

/* Each pair of members one run of rows at a time. */
static int transfer_rows(struct sn_exec *x, const struct sn_op *op, const struct sn_transfer *t,
                         struct sn_device_transfer *d, int stream)
{
    struct sn_exec_device *v = x->device;
    int runs = t->exchange && t->exchange->hop == SN_HOP_NODE
                   ? t->exchange->members / t->exchange->node
                   : 1;
    d->kind = SN_DEVICE_ROWS;
    d->to = v->rows;
    d->from = v->rows + x->job->group_size[op->group];
    for (int i = 0; i < runs; i++) {
        list_rows(x, op, t, i);
        int rc = v->ops->transfer(v->d, stream, (int)op->group, d);
        if (rc)
            return rc;
    }
    return 0;
}

/* Begin on its stream, after all operations before it. */
static enum sn_status enqueue(struct sn_exec *x, const struct sn_op *op,
                              const struct sn_transfer *t, int place, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    bool is_pair = sn_op_is_transfer(op), is_list = t->exchange || op->kind == SN_OP_SHIFT;
    enum pair k = is_pair ? pair_of(x->job, op) : TO_NEXT;
    int channel = is_pair ? PAIR_CHANNEL + (int)k : (int)op->group;
    int stream = is_pair ? SN_STREAM_PAIR + (int)k : SN_STREAM_AXIS + (int)sn_group_queue(op->group);
    struct sn_device_transfer d = {.kind = (enum sn_device_collective)t->kind,
                                   .dtype = t->dtype,
                                   .n = t->n,
                                   .in = t->in,
                                   .out = t->out,
                                   .add = t->add};
    d.peer = op->kind == SN_OP_SEND ? 1 : 0;
    v->uses[stream] = true;
    sn_stamps_move(x, op);
    if (v->ops->record(v->d, SN_STREAM_COMPUTE, SN_STREAM_COMPUTE) != 0 ||
        v->ops->await(v->d, stream, SN_STREAM_COMPUTE) != 0)
        return sn_device_fail(x, op, err);
    SN_TRY(sn_stamps_put(x, stream, false, err));
    int rc =
        is_list ? transfer_rows(x, op, t, &d, stream) : v->ops->transfer(v->d, stream, channel, &d);
    if (rc == SN_DEVICE_HANGS)
        return not_joined(x, rc, op->label, err);
    if (rc != 0)
        return sn_device_fail(x, op, err);
    SN_TRY(sn_stamps_put(x, stream, true, err));
    if (v->ops->record(v->d, stream, SN_EVENT_DONE + place) != 0)
        return sn_device_fail(x, op, err);
    return SN_OK;
}

/* How many rows go is known when it runs: outside graphs, always. */
static enum sn_status post_rows(struct sn_exec *x, const struct sn_program *p,
                                const struct sn_op *op, const struct sn_at *at,
                                struct sn_transfer *t, struct sn_err *err)
{
    int place = sn_exec_request_place(x, op, op->id, at->slot);
    SN_TRY(sn_device_cut(x, err));
    SN_TRY(sn_device_bounds(x, p, op, at, &x->requests[place].exchange, err));
    sn_exec_take_rows(x, op, t, &x->requests[place]);
    count(x, op, t);
    x->device->request[place].cut = SN_EAGER;
    return enqueue(x, op, t, place, err);
}

enum sn_status sn_channel_post(struct sn_exec *x, const struct sn_program *p,
                               const struct sn_op *op, const struct sn_at *at, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    struct sn_transfer t = sn_exec_transfer(x, p, op, at);
    int place = sn_exec_request_place(x, op, op->id, at->slot);
    bool eager = v->eager[sn_device_axis(op->group)], skips = false;
    if (op->kind == SN_OP_EXCHANGE)
        return post_rows(x, p, op, at, &t, err);
    /* Lengths would have to come to the host and back, in the midst of a graph. */
    if (t.sized)
        return sn_fail(err, SN_EINPUT,
                       "%s: channels between devices send blocks of a fixed length only; want a "
                       "codec of fixed rate here, or run.backend: cpu",
                       op->label);
    count(x, op, &t);
    v->request[place].cut = eager ? SN_EAGER : v->cut;
    SN_TRY(eager ? sn_device_cut(x, err) : sn_device_skips(x, &skips, err));
    if (skips)
        return SN_OK;
    if (sn_op_row(op->kind)->takes_input) { /* it may be gone before the wait */
        if (t.in != t.out && v->ops->copy(v->d, SN_STREAM_COMPUTE, t.out, t.in,
                                          (size_t)t.n * sn_dtype_size(t.dtype), SN_ON_DEVICE) != 0)
            return sn_device_fail(x, op, err);
        t.in = t.out;
    }
    return enqueue(x, op, &t, place, err);
}

/* Of a graph before the last cut: COMPUTE has waited for it there. */
enum sn_status sn_channel_wait(struct sn_exec *x, const struct sn_op *op, const struct sn_at *at,
                               struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    int place = sn_exec_request_place(x, op, op->waits_for, at->slot);
    bool eager = v->request[place].cut == SN_EAGER, skips = false;
    if (!eager && v->request[place].cut != v->cut)
        return SN_OK;
    SN_TRY(eager ? sn_device_cut(x, err) : sn_device_skips(x, &skips, err));
    if (skips || v->ops->await(v->d, SN_STREAM_COMPUTE, SN_EVENT_DONE + place) == 0)
        return SN_OK;
    return sn_device_fail(x, op, err);
}

void sn_channels_take_sent(struct sn_exec *x, int64_t bytes[SN_NAXES])
{
    for (int a = 0; a < SN_NAXES; a++) {
        bytes[a] += x->device->sent[a];
        x->device->sent[a] = 0;
    }
}
