/*
 * snapshot_load.c - any boxes from the snapshot shards of any layout.
 *
 * The holder of each snapshot shard tells all ranks which boxes are in it. Each rank notes what its
 * own boxes have in common with them, and asks the holders for that, in as many rounds as there are
 * ranks: in round k rank r answers rank r + k and is answered by rank r - k, in messages of bounded
 * size. What it holds itself it copies, in round 0.
 */
#include "lib/snapshot/snapshot_inner.h"

#include "lib/base/mem.h"

#include <string.h>

enum {
    ASK_FLOATS = 1 << 18,            /* floats that are asked for at once, */
    MESSAGE_FLOATS = 8 * ASK_FLOATS, /* and that travel in one message */
    ASK_WORDS = 5
};

/* What is asked of a holder: rows of one of its images. */
struct ask {
    int64_t number; /* as in struct sn_snapshot_shard_record */
    int64_t at, rows, cols, ld;
};
_Static_assert(sizeof(struct ask) == ASK_WORDS * sizeof(double), "travels as words");

struct want {
    struct ask ask;
    int holder;
    int box; /* of this rank, and where in it */
    int64_t row, col;
};

struct loading {
    struct sn_snapshot *s;
    struct sn_state *state;
    struct sn_snapshot_shard_box *table; /* of one snapshot shard */
    int *first, *next;                   /* boxes of this rank by tensor; -1 ends */
    int64_t *missing;                    /* elements, by box */
    struct want *want;
    int64_t n_want;
    int room;
    bool failed;
    /* by rank */
    int64_t *begins;          /* of its wants, and the end */
    int64_t *asks, *is_asked; /* how many of it, and by it */
    struct ask *mine, *others;
    float *out, *in; /* a message each */
};

/* --- what this rank wants --------------------------------------------------------------------- */

static void add_ask(struct loading *l, const struct want *w)
{
    if (sn_grow((void **)&l->want, (int)l->n_want, &l->room, sizeof(*l->want)))
        l->want[l->n_want++] = *w;
    else
        l->failed = true;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* In asks that a message has room for. */
static void add_want(struct loading *l, const struct want *w)
{
    const struct ask *a = &w->ask;
    int64_t cols = least(a->cols, ASK_FLOATS), rows = ASK_FLOATS / cols;
    for (int64_t r = 0; r < a->rows; r += rows)
        for (int64_t c = 0; c < a->cols; c += cols) {
            struct want some = *w;
            some.ask.rows = least(rows, a->rows - r);
            some.ask.cols = least(cols, a->cols - c);
            some.ask.at = a->at + r * a->ld + c;
            some.row = w->row + r;
            some.col = w->col + c;
            add_ask(l, &some);
        }
}

static int64_t highest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Is what a snapshot shard calls this part of what box i holds? */
static bool belongs(const struct loading *l, int i, int64_t kind)
{
    int64_t own = sn_snapshot_shard_kind(l->s->tensor[i]);
    if (own < SN_SNAPSHOT_SHARD_FEEDBACK || kind < SN_SNAPSHOT_SHARD_FEEDBACK)
        return own == kind;
    return (kind - own) % l->state->tensors[i].folds == 0;
}

/* What box i of this rank has in common with a box of a snapshot shard. */
static void intersect_box(struct loading *l, int i, const struct sn_snapshot_shard_box *b,
                          const struct sn_snapshot_shard_record *x)
{
    const struct sn_state_tensor *t = &l->state->tensors[i];
    int64_t row = highest(t->row, b->row), col = highest(t->col, b->col);
    int64_t rows = least(t->row + t->n_rows, b->row + b->n_rows) - row;
    int64_t cols = least(t->col + t->n_cols, b->col + b->n_cols) - col;
    if (rows <= 0 || cols <= 0 || !belongs(l, i, sn_snapshot_shard_kind(b->tensor)))
        return;
    l->missing[i] -= t->folds > 0 ? 0 : rows * cols;
    add_want(l, &(struct want){.ask = {.number = x->number,
                                       .at = b->at + (row - b->row) * b->n_cols + col - b->col,
                                       .rows = rows,
                                       .cols = cols,
                                       .ld = b->n_cols},
                               .holder = x->holder,
                               .box = i,
                               .row = row - t->row,
                               .col = col - t->col});
}

static void intersect_shard(struct loading *l, const struct sn_snapshot_shard_record *x)
{
    for (int64_t i = 0; i < x->n_boxes; i++) {
        const struct sn_snapshot_shard_box *b = &l->table[i];
        int64_t weight = sn_snapshot_shard_weight(b->tensor);
        if (weight >= l->state->n_all)
            continue; /* nobody has it */
        for (int k = l->first[weight]; k >= 0; k = l->next[k])
            intersect_box(l, k, b, x);
    }
}

static enum sn_status intersect_all(struct loading *l, struct sn_err *err)
{
    struct sn_snapshot *s = l->s;
    struct sn_comm *c = s->env.comm;
    for (int r = 0; r < s->choice.world; r++) {
        const struct sn_snapshot_shard_record *x = &s->record[s->choice.of[r]];
        int64_t bytes = x->n_boxes * (int64_t)sizeof(*l->table);
        if (x->holder == c->rank)
            memcpy(l->table, sn_snapshot_shard_boxes(s->held[x->number].file.p), (size_t)bytes);
        SN_TRY(c->ops->broadcast(c, l->table, bytes, x->holder, err));
        intersect_shard(l, x);
    }
    enum sn_status st =
        l->failed ? sn_fail(err, SN_ENOMEM, "snapshots: no memory to list what is wanted") : SN_OK;
    return sn_snapshot_agree(s, st, err);
}

/* Boxes of this rank by tensor, and that they lack everything; feedback is zero without any. */
static void list_boxes(struct loading *l)
{
    const struct sn_state *t = l->state;
    for (int i = 0; i < t->n_all; i++)
        l->first[i] = -1;
    for (int i = 0; i < t->n_tensors; i++) {
        int64_t weight = sn_snapshot_shard_weight(l->s->tensor[i]);
        l->missing[i] = t->tensors[i].folds > 0 ? 0 : t->tensors[i].n_rows * t->tensors[i].n_cols;
        l->next[i] = l->first[weight];
        l->first[weight] = i;
    }
}

/* The snapshot shards may be of a run without replicas. */
static bool may_lack(const struct loading *l, int i)
{
    const struct sn_state_tensor *t = &l->state->tensors[i];
    bool is_replica = sn_snapshot_shard_kind(l->s->tensor[i]) == SN_SNAPSHOT_SHARD_REPLICA;
    return is_replica && l->missing[i] == t->n_rows * t->n_cols;
}

static bool is_complete(const struct loading *l)
{
    for (int i = 0; i < l->state->n_tensors; i++)
        if (l->missing[i] != 0 && !may_lack(l, i))
            return false;
    return true;
}

/* --- who asks whom ---------------------------------------------------------------------------- */

/* Sort by holder, in place of the list so far; how many of each. */
static enum sn_status sort_wants(struct loading *l, struct sn_err *err)
{
    int size = l->s->env.comm->size;
    struct want *sorted = sn_alloc_n((size_t)l->n_want + 1, sizeof(*sorted));
    l->mine = sn_alloc_n((size_t)l->n_want + 1, sizeof(*l->mine));
    if (!sorted || !l->mine) {
        sn_free(sorted);
        return sn_fail(err, SN_ENOMEM, "snapshots: no memory to list what is wanted");
    }
    for (int64_t i = 0; i < l->n_want; i++)
        l->asks[l->want[i].holder]++;
    for (int r = 0; r < size; r++)
        l->begins[r + 1] = l->begins[r] + l->asks[r];
    for (int64_t i = 0; i < l->n_want; i++)
        sorted[l->begins[l->want[i].holder]++] = l->want[i];
    for (int r = size; r > 0; r--)
        l->begins[r] = l->begins[r - 1];
    l->begins[0] = 0;
    sn_free(l->want);
    l->want = sorted;
    for (int64_t i = 0; i < l->n_want; i++)
        l->mine[i] = sorted[i].ask;
    return SN_OK;
}

static enum sn_status exchange_counts(struct loading *l, struct sn_err *err)
{
    struct sn_comm *c = l->s->env.comm;
    struct sn_transfer t = {.kind = SN_ALL_TO_ALL,
                            .group = SN_GROUP_WORLD,
                            .dtype = SN_F64, /* 8-byte words */
                            .n = 1,
                            .in = l->asks,
                            .out = l->is_asked,
                            .staging = l->s->env.staging,
                            .label = "snapshots"};
    SN_TRY(c->ops->wait(c, c->ops->post(c, &t), err));
    int64_t most = 0;
    for (int r = 0; r < c->size; r++)
        most = r != c->rank ? highest(most, l->is_asked[r]) : most;
    l->others = sn_alloc_n((size_t)most + 1, sizeof(*l->others));
    l->out = sn_alloc_n(MESSAGE_FLOATS, sizeof(float));
    l->in = sn_alloc_n(MESSAGE_FLOATS, sizeof(float));
    enum sn_status st = l->others && l->out && l->in
                            ? SN_OK
                            : sn_fail(err, SN_ENOMEM, "snapshots: no memory to read them");
    return sn_snapshot_agree(l->s, st, err);
}

/* --- one round -------------------------------------------------------------------------------- */

static const float *values_of(const struct sn_snapshot *s, const struct ask *a)
{
    const struct sn_held *h = &s->held[a->number];
    return sn_snapshot_shard_values(h->file.p, &h->head) + a->at;
}

static void copy_rows(float *to, int64_t to_ld, const float *from, const struct ask *a,
                      int64_t from_ld)
{
    for (int64_t r = 0; r < a->rows; r++)
        memcpy(to + r * to_ld, from + r * from_ld, (size_t)a->cols * sizeof(float));
}

/* How many of n asks go into one message, and their floats. */
static int64_t message_of(const struct ask *a, int64_t n, int64_t *floats)
{
    int64_t k = 0;
    for (*floats = 0; k < n && *floats + a[k].rows * a[k].cols <= MESSAGE_FLOATS; k++)
        *floats += a[k].rows * a[k].cols;
    return k;
}

static enum sn_status wait_both(struct loading *l, sn_request a, sn_request b, struct sn_err *err)
{
    struct sn_comm *c = l->s->env.comm;
    if (a)
        SN_TRY(c->ops->wait(c, a, err));
    return b ? c->ops->wait(c, b, err) : SN_OK;
}

static void pack(struct loading *l, const struct ask *a, int64_t n)
{
    float *to = l->out;
    for (int64_t i = 0; i < n; i++) {
        copy_rows(to, a[i].cols, values_of(l->s, &a[i]), &a[i], a[i].ld);
        to += a[i].rows * a[i].cols;
    }
}

static void take(const struct loading *l, const struct want *w, const float *from, int64_t ld)
{
    for (int64_t r = 0; r < w->ask.rows; r++)
        sn_state_put(&l->state->tensors[w->box], w->row + r, w->col, w->ask.cols, from + r * ld);
}

static void unpack(struct loading *l, const struct want *w, int64_t n)
{
    const float *from = l->in;
    for (int64_t i = 0; i < n; i++) {
        take(l, &w[i], from, w[i].ask.cols);
        from += w[i].ask.rows * w[i].ask.cols;
    }
}

/* Answer `to`, be answered by `from`, a message of each at a time. */
static enum sn_status answer(struct loading *l, int to, int from, struct sn_err *err)
{
    int64_t left_out = l->is_asked[to], left_in = l->asks[from];
    const struct ask *out = l->others, *in = l->mine + l->begins[from];
    const struct want *want = l->want + l->begins[from];
    while (left_out || left_in) {
        int64_t floats_out, floats_in;
        int64_t n_out = message_of(out, left_out, &floats_out);
        int64_t n_in = message_of(in, left_in, &floats_in);
        sn_request a =
            sn_snapshot_post(l->s, SN_RECV, from, l->in, floats_in * (int64_t)sizeof(float));
        pack(l, out, n_out);
        sn_request b =
            sn_snapshot_post(l->s, SN_SEND, to, l->out, floats_out * (int64_t)sizeof(float));
        SN_TRY(wait_both(l, a, b, err));
        unpack(l, want, n_in);
        out += n_out;
        left_out -= n_out;
        in += n_in;
        want += n_in;
        left_in -= n_in;
    }
    return SN_OK;
}

static enum sn_status one_round(struct loading *l, int k, struct sn_err *err)
{
    int rank = l->s->env.comm->rank, size = l->s->env.comm->size;
    int to = (rank + k) % size, from = (rank - k + size) % size;
    int64_t each = (int64_t)sizeof(struct ask);
    sn_request a = sn_snapshot_post(l->s, SN_RECV, to, l->others, l->is_asked[to] * each);
    sn_request b =
        sn_snapshot_post(l->s, SN_SEND, from, l->mine + l->begins[from], l->asks[from] * each);
    SN_TRY(wait_both(l, a, b, err));
    return answer(l, to, from, err);
}

static enum sn_status fetch(struct loading *l, struct sn_err *err)
{
    int rank = l->s->env.comm->rank, size = l->s->env.comm->size;
    enum sn_status st = sn_snapshot_agree(l->s, sort_wants(l, err), err);
    if (st == SN_OK)
        st = exchange_counts(l, err);
    for (int64_t i = l->begins[rank]; st == SN_OK && i < l->begins[rank + 1]; i++)
        take(l, &l->want[i], values_of(l->s, &l->mine[i]), l->mine[i].ld);
    for (int k = 1; st == SN_OK && k < size; k++)
        st = one_round(l, k, err);
    return st;
}

/* Replicas that no snapshot shard has are the masters, rounded: the same boxes of their weights. */
static void fill_replicas(const struct loading *l)
{
    for (int i = 0; i < l->state->n_tensors; i++) {
        const struct sn_state_tensor *t = &l->state->tensors[i];
        int64_t weight = sn_snapshot_shard_weight(l->s->tensor[i]);
        for (int k = may_lack(l, i) ? l->first[weight] : -1; k >= 0; k = l->next[k]) {
            const struct sn_state_tensor *m = &l->state->tensors[k];
            bool same = sn_snapshot_shard_kind(l->s->tensor[k]) == SN_SNAPSHOT_SHARD_PLAIN &&
                        m->row == t->row && m->col == t->col;
            for (int64_t r = 0; same && r < t->n_rows; r++)
                sn_state_put(t, r, 0, t->n_cols, m->p + r * m->ld);
        }
    }
}

/* --- all of it -------------------------------------------------------------------------------- */

static enum sn_status prepare(struct loading *l, struct sn_err *err)
{
    const struct sn_snapshot *s = l->s;
    size_t size = (size_t)s->env.comm->size;
    int64_t most = 0;
    for (int r = 0; r < s->choice.world; r++)
        most = highest(most, s->record[s->choice.of[r]].n_boxes);
    l->table = sn_alloc_n((size_t)most + 1, sizeof(*l->table));
    l->first = sn_alloc_n((size_t)l->state->n_all + 1, sizeof(*l->first));
    l->next = sn_alloc_n((size_t)l->state->n_tensors + 1, sizeof(*l->next));
    l->missing = sn_alloc_n((size_t)l->state->n_tensors + 1, sizeof(*l->missing));
    l->begins = sn_alloc_n(size + 1, sizeof(*l->begins));
    l->asks = sn_alloc_n(size, sizeof(*l->asks));
    l->is_asked = sn_alloc_n(size, sizeof(*l->is_asked));
    if (!l->table || !l->first || !l->next || !l->missing || !l->begins || !l->asks || !l->is_asked)
        return sn_fail(err, SN_ENOMEM, "snapshots: no memory to list %lld boxes", (long long)most);
    list_boxes(l);
    return SN_OK;
}

static void fini(struct loading *l)
{
    void *all[] = {l->table, l->first, l->next,   l->missing, l->want, l->begins,
                   l->asks,  l->mine,  l->others, l->out,     l->in,   l->is_asked};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        sn_free(all[i]);
}

/* The scalars, from whoever holds the snapshot shard of rank 0. */
static enum sn_status load_scalars(struct sn_snapshot *s, struct sn_state_scalars *out,
                                   struct sn_err *err)
{
    struct sn_comm *c = s->env.comm;
    const struct sn_snapshot_shard_record *x = &s->record[s->choice.of[0]];
    struct sn_state_scalars scalars = {0};
    if (x->holder == c->rank)
        scalars = s->held[x->number].head.scalars;
    SN_TRY(c->ops->broadcast(c, &scalars, (int64_t)sizeof(scalars), x->holder, err));
    *out = scalars;
    return SN_OK;
}

/* Is it the same answer on all ranks? One that lacks something decides for all. */
static enum sn_status agree_on(struct sn_snapshot *s, bool *all, struct sn_err *err)
{
    int size = s->env.comm->size;
    int64_t mine = *all, *of = sn_alloc_n((size_t)size, sizeof(*of));
    enum sn_status st = of ? SN_OK : sn_fail(err, SN_ENOMEM, "snapshots: no memory");
    st = sn_snapshot_agree(s, st, err);
    if (st == SN_OK)
        st = sn_snapshot_gather(s, &mine, of, 1, err);
    for (int r = 0; st == SN_OK && r < size; r++)
        *all = *all && of[r];
    sn_free(of);
    return st;
}

enum sn_status sn_snapshot_load(struct sn_snapshot *s, struct sn_state *state, bool *loaded,
                                struct sn_err *err)
{
    struct loading l = {.s = s, .state = state};
    int64_t dropped[SN_NAXES] = {0}; /* no step's traffic */
    enum sn_status st = sn_snapshot_agree(s, prepare(&l, err), err);
    if (st == SN_OK)
        st = intersect_all(&l, err);
    *loaded = st == SN_OK && is_complete(&l);
    if (st == SN_OK)
        st = agree_on(s, loaded, err);
    if (st == SN_OK && *loaded) {
        sn_state_clear_feedback(state);
        st = fetch(&l, err);
    }
    if (st == SN_OK && *loaded)
        fill_replicas(&l);
    if (st == SN_OK && *loaded)
        st = load_scalars(s, &state->scalars, err);
    s->env.comm->ops->take_sent_bytes(s->env.comm, dropped);
    fini(&l);
    return st;
}
