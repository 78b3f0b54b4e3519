#include "tests/lib/thread_comm.h"

#include "lib/base/clock.h"
#include "tests/lib/thread_comm_inner.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TICKETS = 1024 };

/* A message on its way; a list, oldest first. */
struct mail {
    struct mail *next;
    int from, to, group, tag;
    long number; /* of those from there to there in the group with the tag */
    size_t bytes;
    char data[];
};

/* What a rank sends to, or receives from, another. */
struct line {
    int peer, group, tag;
    long n;
};
enum { LINES = 512 };

struct rank {
    struct sn_comm base;
    struct line out[LINES], in[LINES];
    int n_out, n_in;
    long recv_number[TICKETS]; /* by request */
    struct thread_world *world;
    int number;
    struct sn_transfer recv[TICKETS]; /* posted receives, by request */
    bool pending[TICKETS];
    sn_request last;
    pthread_cond_t posted; /* mail for this rank */
    int64_t sent[SN_NAXES];
    int64_t *rows_to, *messages_to; /* bytes and messages of exchanges, by rank */
};

struct thread_world {
    int ranks;
    struct rank *rank;
    struct sn_grid grid;
    bool has_grid;
    pthread_mutex_t lock; /* of mail and grid */
    struct mail *mail;
    struct meeting *meeting; /* by group and first member's rank */
    struct meeting all;      /* of all ranks, without a grid */
    void (*body)(void *, int);
    void *arg;
};

/* --- collectives ------------------------------------------------------------------------------ */

/* Wait for all members; m->of is theirs until one leaves. Returns what leave() wants. Who waits for
 * what has a condition of its own: of ranks that are many more than cores none is woken in vain. */
static unsigned long arrive(struct meeting *m, int size, int me, const void *mine)
{
    (void)pthread_mutex_lock(&m->lock);
    while (m->left > 0) /* the one before is still being left */
        (void)pthread_cond_wait(&m->empty, &m->lock);
    m->of[me] = mine;
    unsigned long round = m->round;
    if (++m->arrived == size) {
        m->round++;
        m->left = size;
        m->arrived = 0;
        (void)pthread_cond_broadcast(&m->whole);
    }
    while (m->round == round)
        (void)pthread_cond_wait(&m->whole, &m->lock);
    (void)pthread_mutex_unlock(&m->lock);
    return round;
}

/* Nobody writes to what was brought before all have read. */
static void leave(struct meeting *m, unsigned long round)
{
    (void)pthread_mutex_lock(&m->lock);
    if (--m->left == 0)
        (void)pthread_cond_broadcast(&m->empty);
    while (m->left > 0 && m->round == round + 1)
        (void)pthread_cond_wait(&m->empty, &m->lock);
    (void)pthread_mutex_unlock(&m->lock);
}

static void are_alike(const struct rank *r, const struct sn_transfer *t, const struct meeting *m,
                      int size)
{
    for (int i = 0; i < size; i++)
        if (thread_brought(m, i)->kind != t->kind || thread_brought(m, i)->n != t->n ||
            thread_brought(m, i)->dtype != t->dtype) {
            (void)fprintf(stderr, "rank %d: %s '%s' of %lld meets %s '%s' of %lld\n", r->number,
                          sn_collective_name(t->kind), t->label, (long long)t->n,
                          sn_collective_name(thread_brought(m, i)->kind),
                          thread_brought(m, i)->label, (long long)thread_brought(m, i)->n);
            abort();
        }
}

/* The last to come makes what each gets, so that nobody has to wait for others to have read: a
 * member's result is taken before that member, and so the last one, comes again. */
static void meet(struct rank *r, const struct sn_transfer *t)
{
    struct thread_world *w = r->world;
    int size = sn_group_size(&w->grid, r->number, t->group);
    int me = sn_group_index(&w->grid, r->number, t->group);
    int first = sn_group_member(&w->grid, r->number, t->group, 0);
    struct meeting *m = &w->meeting[(int)t->group * w->ranks + first];
    (void)pthread_mutex_lock(&m->lock);
    m->of[me] = t;
    unsigned long round = m->round;
    if (++m->arrived == size) {
        are_alike(r, t, m, size);
        for (int i = 0; i < size; i++)
            m->result[i] = thread_result(m, size, i, &m->n[i]);
        m->arrived = 0;
        m->round++;
        (void)pthread_cond_broadcast(&m->whole);
    }
    while (m->round == round)
        (void)pthread_cond_wait(&m->whole, &m->lock);
    void *out = m->result[me];
    int64_t n = m->n[me];
    (void)pthread_mutex_unlock(&m->lock);
    memcpy(t->out, out, (size_t)n * sn_dtype_size(t->dtype));
    free(out);
}

/* --- mail ------------------------------------------------------------------------------------- */

/* The number of the next message; the caller has the lock. */
static long next_number(struct line *lines, int *n, const struct sn_transfer *t)
{
    int i = 0;
    while (i < *n && (lines[i].peer != t->peer || lines[i].group != (int)t->group ||
                      lines[i].tag != t->tag))
        i++;
    if (i == *n) {
        assert(*n < LINES);
        lines[(*n)++] = (struct line){t->peer, (int)t->group, t->tag, 0};
    }
    return lines[i].n++;
}

static void mail_send(struct rank *r, const struct sn_transfer *t)
{
    struct thread_world *w = r->world;
    size_t bytes = (size_t)t->n * sn_dtype_size(t->dtype);
    struct mail *x = thread_need(malloc(sizeof(*x) + bytes));
    *x = (struct mail){
        NULL,          r->number, sn_group_member(&w->grid, r->number, t->group, t->peer),
        (int)t->group, t->tag,    0, bytes};
    memcpy(x->data, t->in, bytes);
    (void)pthread_mutex_lock(&w->lock);
    x->number = next_number(r->out, &r->n_out, t);
    struct mail **end = &w->mail;
    while (*end)
        end = &(*end)->next;
    *end = x;
    (void)pthread_cond_broadcast(&w->rank[x->to].posted);
    (void)pthread_mutex_unlock(&w->lock);
}

static void mail_receive(struct rank *r, const struct sn_transfer *t, long number)
{
    struct thread_world *w = r->world;
    int from = sn_group_member(&w->grid, r->number, t->group, t->peer);
    (void)pthread_mutex_lock(&w->lock);
    struct mail **at = &w->mail;
    for (;;) {
        for (at = &w->mail; *at; at = &(*at)->next)
            if ((*at)->from == from && (*at)->to == r->number && (*at)->tag == t->tag &&
                (*at)->group == (int)t->group && (*at)->number == number)
                break;
        if (*at)
            break;
        (void)pthread_cond_wait(&r->posted, &w->lock);
    }
    struct mail *x = *at;
    *at = x->next;
    (void)pthread_mutex_unlock(&w->lock);
    assert(x->bytes == (size_t)t->n * sn_dtype_size(t->dtype));
    memcpy(t->out, x->data, x->bytes);
    free(x);
}

/* --- the interface ---------------------------------------------------------------------------- */

static enum sn_status set_grid(struct sn_comm *c, const struct sn_grid *g, struct sn_err *err)
{
    struct thread_world *w = ((struct rank *)c)->world;
    (void)err;
    (void)pthread_mutex_lock(&w->lock);
    w->grid = *g;
    w->has_grid = true;
    (void)pthread_mutex_unlock(&w->lock);
    return SN_OK;
}

/* Rows of tokens, by who gets them. */
static void count_rows(struct rank *r, const struct sn_transfer *t)
{
    struct thread_world *w = r->world;
    int64_t row = t->n * (int64_t)sn_dtype_size(t->dtype);
    struct sn_exchange_rows piece;
    for (int m = 0; m < sn_exchange_size(t->exchange); m++) {
        int to = sn_group_member(&w->grid, r->number, t->group, m);
        for (struct sn_exchange_walk k = {.member = m}; sn_exchange_next(t->exchange, &k, &piece);)
            if (to != r->number && piece.n > 0) {
                r->rows_to[to] += piece.n * row;
                r->messages_to[to]++;
            }
    }
}

/* A receive is carried out when it is waited for, everything else when it is posted. */
static void note(const struct sn_transfer *t, bool is_end)
{
    if (t->times)
        *(is_end ? &t->times->end : &t->times->begin) = sn_clock();
}

static sn_request post(struct sn_comm *c, const struct sn_transfer *t)
{
    struct rank *r = (struct rank *)c;
    assert(r->world->has_grid);
    int size = sn_group_size(&r->world->grid, r->number, t->group);
    int me = sn_group_index(&r->world->grid, r->number, t->group);
    int64_t row = t->n * (int64_t)sn_dtype_size(t->dtype);
    r->sent[sn_group_axis(t->group)] +=
        !t->exchange               ? sn_collective_bytes(t->kind, t->n, t->dtype, size, me)
        : t->kind == SN_ALL_TO_ALL ? sn_exchange_sent(t->exchange) * row
                                   : sn_exchange_sent_within(t->exchange) * row;
    if (t->exchange && t->kind == SN_ALL_TO_ALL)
        count_rows(r, t);
    note(t, false);
    if (t->kind == SN_SEND) {
        mail_send(r, t);
        note(t, true);
        return 0;
    }
    if (t->kind != SN_RECV) {
        meet(r, t);
        note(t, true);
        return 0;
    }
    sn_request request = ++r->last;
    assert(!r->pending[request % TICKETS]);
    r->recv[request % TICKETS] = *t;
    (void)pthread_mutex_lock(&r->world->lock);
    r->recv_number[request % TICKETS] = next_number(r->in, &r->n_in, t);
    (void)pthread_mutex_unlock(&r->world->lock);
    r->pending[request % TICKETS] = true;
    return request;
}

static enum sn_status wait(struct sn_comm *c, sn_request t, struct sn_err *err)
{
    struct rank *r = (struct rank *)c;
    (void)err;
    if (t && r->pending[t % TICKETS]) {
        mail_receive(r, &r->recv[t % TICKETS], r->recv_number[t % TICKETS]);
        note(&r->recv[t % TICKETS], true);
        r->pending[t % TICKETS] = false;
    }
    return SN_OK;
}

static enum sn_status drain(struct sn_comm *c, struct sn_err *err)
{
    struct rank *r = (struct rank *)c;
    for (sn_request t = r->last >= TICKETS ? r->last - TICKETS + 1 : 1; t <= r->last; t++)
        (void)wait(c, t, err);
    return SN_OK;
}

static enum sn_status barrier(struct sn_comm *c, struct sn_err *err)
{
    struct thread_world *w = ((struct rank *)c)->world;
    (void)err;
    leave(&w->all, arrive(&w->all, w->ranks, c->rank, NULL));
    return SN_OK;
}

static enum sn_status broadcast(struct sn_comm *c, void *buf, int64_t bytes, int root,
                                struct sn_err *err)
{
    struct thread_world *w = ((struct rank *)c)->world;
    (void)err;
    unsigned long round = arrive(&w->all, w->ranks, c->rank, buf);
    if (c->rank != root && bytes > 0)
        memcpy(buf, w->all.of[root], (size_t)bytes);
    leave(&w->all, round);
    return SN_OK;
}

static enum sn_status gather(struct sn_comm *c, const void *mine, int64_t bytes, void *all,
                             int root, struct sn_err *err)
{
    struct thread_world *w = ((struct rank *)c)->world;
    (void)err;
    unsigned long round = arrive(&w->all, w->ranks, c->rank, mine);
    for (int i = 0; c->rank == root && i < w->ranks; i++)
        memcpy((char *)all + i * bytes, w->all.of[i], (size_t)bytes);
    leave(&w->all, round);
    return SN_OK;
}

/* What a rank says in a poll, or as its status. */
struct word {
    int said;
    struct sn_err err;
};

static int poll(struct sn_comm *c, int mine, const char *label, struct sn_err *err)
{
    struct thread_world *w = ((struct rank *)c)->world;
    struct word own = {mine, *err}, worst = {.said = SN_OK};
    int from = 0;
    (void)label;
    unsigned long round = arrive(&w->all, w->ranks, c->rank, &own);
    for (int i = 0; i < w->ranks; i++) {
        const struct word *e = w->all.of[i];
        if (e->said > worst.said)
            worst = *e, from = i;
    }
    leave(&w->all, round);
    if (worst.said == SN_OK || worst.said == SN_POLL_WORKS)
        return worst.said;
    *err = worst.err;
    err->status = worst.said == SN_POLL_STUCK ? SN_ELOST : (enum sn_status)worst.said;
    if (!worst.err.agreed) /* else it has its rank already */
        (void)sn_err_prefix(err, "rank %d (thread)", from);
    err->agreed = 1;
    return (int)err->status;
}

static enum sn_status agree(struct sn_comm *c, enum sn_status mine, struct sn_err *err)
{
    return (enum sn_status)poll(c, (int)mine, NULL, err);
}

/* Threads are not watched. */
static void set_watch(struct sn_comm *c, struct sn_flight_recorder *recorder, int timeout_s)
{
    (void)c, (void)recorder, (void)timeout_s;
}

static void take_sent_bytes(struct sn_comm *c, int64_t bytes[SN_NAXES])
{
    struct rank *r = (struct rank *)c;
    for (int a = 0; a < SN_NAXES; a++) {
        bytes[a] += r->sent[a];
        r->sent[a] = 0;
    }
}

static void meeting_init(struct meeting *m, int ranks)
{
    m->of = thread_need(calloc((size_t)ranks, sizeof(*m->of)));
    m->result = thread_need(calloc((size_t)ranks, sizeof(*m->result)));
    m->n = thread_need(calloc((size_t)ranks, sizeof(*m->n)));
    (void)pthread_mutex_init(&m->lock, NULL);
    (void)pthread_cond_init(&m->whole, NULL);
    (void)pthread_cond_init(&m->empty, NULL);
}

static void meeting_fini(struct meeting *m)
{
    free(m->of);
    free(m->result);
    free(m->n);
}

struct thread_world *thread_world_create(int ranks)
{
    static const struct sn_comm_ops ops = {.name = "threads",
                                           .set_grid = set_grid,
                                           .post = post,
                                           .wait = wait,
                                           .drain = drain,
                                           .barrier = barrier,
                                           .broadcast = broadcast,
                                           .gather = gather,
                                           .agree = agree,
                                           .poll = poll,
                                           .take_sent_bytes = take_sent_bytes,
                                           .set_watch = set_watch};
    static _Atomic uint64_t worlds;
    uint64_t nonce = ((uint64_t)getpid() << 32) + ++worlds;
    struct thread_world *w = thread_need(calloc(1, sizeof(*w)));
    w->ranks = ranks;
    w->rank = thread_need(calloc((size_t)ranks, sizeof(*w->rank)));
    w->meeting = thread_need(calloc((size_t)ranks * SN_NGROUPS, sizeof(*w->meeting)));
    (void)pthread_mutex_init(&w->lock, NULL);
    meeting_init(&w->all, ranks);
    for (int i = 0; i < ranks * SN_NGROUPS; i++)
        meeting_init(&w->meeting[i], ranks);
    for (int i = 0; i < ranks; i++) {
        w->rank[i].base = (struct sn_comm){.ops = &ops,
                                           .rank = i,
                                           .size = ranks,
                                           .node_rank = i,
                                           .node_size = ranks,
                                           .nonce = nonce};
        w->rank[i].world = w;
        w->rank[i].number = i;
        (void)pthread_cond_init(&w->rank[i].posted, NULL);
        w->rank[i].rows_to = thread_need(calloc(2 * (size_t)ranks, sizeof(int64_t)));
        w->rank[i].messages_to = w->rank[i].rows_to + ranks;
    }
    return w;
}

void thread_world_destroy(struct thread_world *w)
{
    for (int i = 0; i < w->ranks * SN_NGROUPS; i++)
        meeting_fini(&w->meeting[i]);
    for (int i = 0; i < w->ranks; i++)
        free(w->rank[i].rows_to);
    meeting_fini(&w->all);
    free(w->meeting);
    free(w->rank);
    free(w);
}

struct sn_comm *thread_world_comm(struct thread_world *w, int rank)
{
    return &w->rank[rank].base;
}

int64_t thread_world_rows(const struct thread_world *w, int from, int to, int64_t *messages)
{
    *messages = w->rank[from].messages_to[to];
    return w->rank[from].rows_to[to];
}

struct start {
    struct thread_world *world;
    int rank;
};

static void *run(void *arg)
{
    const struct start *s = arg;
    s->world->body(s->world->arg, s->rank);
    return NULL;
}

void thread_world_run(struct thread_world *w, void (*body)(void *arg, int rank), void *arg)
{
    pthread_t *thread = thread_need(calloc((size_t)w->ranks, sizeof(*thread)));
    struct start *start = thread_need(calloc((size_t)w->ranks, sizeof(*start)));
    w->body = body;
    w->arg = arg;
    for (int i = 0; i < w->ranks; i++) {
        start[i] = (struct start){w, i};
        if (pthread_create(&thread[i], NULL, run, &start[i]) != 0)
            abort();
    }
    for (int i = 0; i < w->ranks; i++)
        (void)pthread_join(thread[i], NULL);
    free(start);
    free(thread);
}
