#include "lib/mapping/flow.h"

#include "lib/base/mem.h"

#include <string.h>

static enum sn_status no_memory(struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "flow: no memory for the bytes of a step");
}

/* What an operation of a stage sends. */
struct message {
    const struct sn_op *op;
    struct sn_communication what;
    int64_t runs;
    int stage;
};

static struct sn_flow_term *find_term(struct sn_flow *f, enum sn_group group, int stage, int size)
{
    for (int i = 0; i < f->n_terms; i++)
        if (f->term[i].group == group && f->term[i].stage == stage)
            return &f->term[i];
    if (!sn_grow((void **)&f->term, f->n_terms, &f->room_terms, sizeof(*f->term)))
        return NULL;
    int64_t *both = sn_alloc_n(2 * (size_t)size, sizeof(*both));
    if (!both)
        return NULL;
    f->term[f->n_terms] = (struct sn_flow_term){
        .group = group, .stage = stage, .size = size, .give = both, .take = both + size};
    return &f->term[f->n_terms++];
}

/* Elements that member i owns of an all-reduce. */
static int64_t owned(int64_t n, int64_t chunk, int size, int i)
{
    return n / chunk * sn_collective_slice(chunk, size, i).count +
           sn_collective_slice(n % chunk, size, i).count;
}

static enum sn_status add_exchange(struct sn_flow *f, const struct message *m, int size,
                                   struct sn_err *err)
{
    bool world = m->op->group == SN_GROUP_WORLD;
    struct sn_flow_term *t = find_term(f, m->op->group, world ? -1 : m->stage, size);
    int64_t width = (int64_t)sn_dtype_size(m->what.dtype);
    if (!t)
        return no_memory(err);
    if (m->what.kind != SN_ALL_REDUCE || m->what.n * width <= SN_COLLECTIVE_SMALL) {
        t->all += m->runs * m->what.n * width;
        return SN_OK;
    }
    int64_t chunk = sn_collective_chunk_bytes(size) / width;
    for (int i = 0; i < size; i++) {
        int64_t bytes = m->runs * owned(m->what.n, chunk, size, i) * width;
        t->give[i] += bytes; /* its sums, to everybody */
        t->take[i] += bytes; /* everybody's part of them */
        t->sum += 2 * bytes;
    }
    return SN_OK;
}

static enum sn_status add_send(struct sn_flow *f, const struct message *m, int to, int64_t bytes,
                               struct sn_err *err)
{
    for (int i = 0; i < f->n_sends; i++) {
        struct sn_flow_send *s = &f->send[i];
        if (s->group == m->op->group && s->stage == m->stage && s->to == to) {
            s->bytes += m->runs * bytes;
            return SN_OK;
        }
    }
    if (!sn_grow((void **)&f->send, f->n_sends, &f->room_sends, sizeof(*f->send)))
        return no_memory(err);
    f->send[f->n_sends++] = (struct sn_flow_send){
        .group = m->op->group, .stage = m->stage, .to = to, .bytes = m->runs * bytes};
    return SN_OK;
}

static enum sn_status add_message(struct sn_flow *f, const struct sn_job *j,
                                  const struct message *m, struct sn_err *err)
{
    int size = j->group_size[m->op->group], index = j->group_index[m->op->group];
    if (size == 1 || m->what.n == 0 || m->what.kind == SN_RECV ||
        (m->op->group == SN_GROUP_WORLD && m->stage > 0))
        return SN_OK;
    if (m->what.kind == SN_SEND) {
        int64_t bytes = m->what.n * (int64_t)sn_dtype_size(m->what.dtype);
        return add_send(f, m, m->op->kind == SN_OP_SHIFT ? -1 : m->op->peer, bytes, err);
    }
    if (m->op->group == SN_GROUP_TIED) /* two members, in two stages: a transfer to the other */
        return add_send(f, m, 1 - index,
                        sn_collective_bytes(m->what.kind, m->what.n, m->what.dtype, size, index),
                        err);
    return add_exchange(f, m, size, err);
}

static enum sn_status add_stage(struct sn_flow *f, const struct sn_job *j, struct sn_err *err)
{
    const struct sn_program *p = &j->train;
    for (int c = 0; c < p->n_segments; c++)
        for (int i = p->segments[c].first; i < p->segments[c].first + p->segments[c].n; i++) {
            const struct sn_op *op = &p->ops[i];
            struct message m = {
                .op = op, .runs = sn_program_runs(p, c, op->when), .stage = j->stage};
            if (op->extra || !sn_op_communication(&m.what, p, op))
                continue;
            SN_TRY(add_message(f, j, &m, err));
        }
    return SN_OK;
}

enum sn_status sn_flow_create(struct sn_flow *out, const struct sn_stages *s, struct sn_err *err)
{
    struct sn_flow f = {.grid = s->job[0]->grid};
    enum sn_status st = SN_OK;
    for (int i = 0; i < s->n && st == SN_OK; i++)
        st = add_stage(&f, s->job[i], err);
    if (st == SN_OK)
        *out = f;
    else
        sn_flow_fini(&f);
    return st;
}

void sn_flow_fini(struct sn_flow *f)
{
    for (int i = 0; i < f->n_terms; i++)
        sn_free(f->term[i].give);
    sn_free(f->term);
    sn_free(f->send);
    *f = (struct sn_flow){.n_terms = 0};
}

static bool sends(const struct sn_flow *f, int stage, int rank)
{
    return stage < 0 || sn_grid_coord(&f->grid, rank, SN_AXIS_PIPELINE) == stage;
}

int64_t sn_flow_pair(const struct sn_flow *f, int from, int to)
{
    const struct sn_grid *g = &f->grid;
    int64_t bytes = 0;
    if (from == to)
        return 0;
    for (int i = 0; i < f->n_terms; i++) {
        const struct sn_flow_term *t = &f->term[i];
        int other = sends(f, t->stage, from) && sends(f, t->stage, to)
                        ? sn_group_index(g, to, t->group)
                        : -1;
        if (other >= 0 && sn_group_member(g, from, t->group, other) == to)
            bytes += t->all + t->give[sn_group_index(g, from, t->group)] + t->take[other];
    }
    for (int i = 0; i < f->n_sends; i++) {
        const struct sn_flow_send *s = &f->send[i];
        int size = sn_group_size(g, from, s->group), index = sn_group_index(g, from, s->group);
        int member = s->to >= 0 ? s->to : (index + 1) % size;
        if (sends(f, s->stage, from) && member != index &&
            sn_group_member(g, from, s->group, member) == to)
            bytes += s->bytes;
    }
    return bytes;
}

/* Members of a group in each part, and what they give and take. */
struct parts {
    const int *part_of;
    int n, touched; /* parts with members */
    int *of;        /* [touched]: which */
    int64_t *members, *give, *take;
};

static void count_members(struct parts *p, const struct sn_flow *f, const struct sn_flow_term *t,
                          int rank)
{
    for (int i = 0; i < t->size; i++) {
        int part = p->part_of[sn_group_member(&f->grid, rank, t->group, i)];
        if (p->members[part]++ == 0)
            p->of[p->touched++] = part;
        p->give[part] += t->give[i];
        p->take[part] += t->take[i];
    }
}

/* What a group exchanges: everybody with everybody but himself. */
static void add_group(int64_t *bytes, struct parts *p, const struct sn_flow *f,
                      const struct sn_flow_term *t, int rank)
{
    count_members(p, f, t, rank);
    for (int i = 0; i < p->touched; i++) {
        int a = p->of[i];
        for (int k = 0; k < p->touched; k++) {
            int b = p->of[k];
            bytes[a * p->n + b] += p->members[a] * p->members[b] * t->all +
                                   p->give[a] * p->members[b] + p->members[a] * p->take[b];
        }
        bytes[a * p->n + a] -= p->members[a] * t->all + p->give[a] + p->take[a];
    }
    while (p->touched > 0) {
        int a = p->of[--p->touched];
        p->members[a] = p->give[a] = p->take[a] = 0;
    }
}

static void add_transfers(int64_t *bytes, const struct parts *p, const struct sn_flow *f,
                          const struct sn_flow_send *s)
{
    int ranks = sn_grid_ranks(&f->grid);
    for (int r = 0; r < ranks; r++) {
        int size = sn_group_size(&f->grid, r, s->group), index;
        if (!sends(f, s->stage, r))
            continue;
        index = sn_group_index(&f->grid, r, s->group);
        int member = s->to >= 0 ? s->to : (index + 1) % size;
        if (member == index)
            continue;
        int other = sn_group_member(&f->grid, r, s->group, member);
        bytes[p->part_of[r] * p->n + p->part_of[other]] += s->bytes;
    }
}

enum sn_status sn_flow_parts(int64_t *bytes, const struct sn_flow *f, const int *part_of, int n,
                             struct sn_err *err)
{
    int ranks = sn_grid_ranks(&f->grid);
    int64_t *sums = sn_alloc_n(3 * (size_t)n, sizeof(*sums));
    int *of = sn_alloc_n((size_t)n, sizeof(*of));
    struct parts p = {part_of, n, 0, of, sums, sums + n, sums + 2 * n};
    if (!sums || !of) {
        sn_free(sums);
        sn_free(of);
        return no_memory(err);
    }
    memset(bytes, 0, (size_t)n * (size_t)n * sizeof(*bytes));
    for (int i = 0; i < f->n_terms; i++)
        for (int r = 0; r < ranks; r++)
            if (sends(f, f->term[i].stage, r) && sn_group_index(&f->grid, r, f->term[i].group) == 0)
                add_group(bytes, &p, f, &f->term[i], r);
    for (int i = 0; i < f->n_sends; i++)
        add_transfers(bytes, &p, f, &f->send[i]);
    sn_free(sums);
    sn_free(of);
    return SN_OK;
}
