/*
 * comm_mpi.c - MPI_COMM_WORLD as a communicator: the one file that includes mpi.h.
 *
 * One communication thread per rank makes every MPI call, MPI_Init_thread and MPI_Finalize
 * included, so MPI_THREAD_FUNNELED is enough; Open MPI 4.1 does not progress by itself, and this
 * thread is what progresses while the compute thread computes. Operations run one after another in
 * the order of posting.
 *
 * The all-reduce is a direct exchange: of each chunk, every rank sends slice j to rank j
 * (reduce-scatter), rank j sums it in rank order and sends the result to everybody (all-gather).
 * So sums do not depend on arrival, on chunks or on the host order. Chunk c + 1 is on its way while
 * chunk c is summed. Cost of a chunk: 4 (P - 1) messages a rank, fine up to some 64 ranks; beyond,
 * a ring or a tree over nodes sends fewer (due when CPU runs go there).
 */
#include "lib/run/comm.h"

#include "lib/base/mem.h"
#include "lib/layout/collective.h"
#include "lib/run/comm_queue.h"
#include "lib/run/comm_sum.h"

#include <assert.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    HOT_POLLS = 50, /* before the first nap; each gives the core to whoever else wants it */
    NAP_NS = 20000,
    BROADCAST_MAX = 1 << 30 /* bytes of one MPI_Ibcast, whose count is an int */
};

/* Transfers that are waited for together; the arrays belong to the communicator. */
struct transfers {
    MPI_Request *request;
    MPI_Status *status;
    int n;
};

struct mpi_comm {
    struct sn_comm base;
    struct sn_comm_queue queue;
    struct transfers scatter[SN_COLLECTIVE_SLOTS], gather[SN_COLLECTIVE_SLOTS];
    MPI_Request *requests; /* the memory behind those four */
    MPI_Status *statuses;  /* shared by them */
    int rc;                /* first failure of the operation in progress */
    bool is_up;            /* MPI is initialised and every peer is believed to be in order */
    _Atomic int64_t sent;
    atomic_bool failed; /* `error` is written, once and for all */
    struct sn_err error;
};

/* An all-reduce in progress. */
struct reduction {
    char *buf, *staging;
    int64_t n, chunk; /* elements */
    int64_t width;    /* bytes of an element */
    enum sn_dtype dtype;
};

/* ---- one transfer, and waiting ------------------------------------------------------------- */

/* The first failure is the communicator's last word: what peers have received is unknown. */
static void fail(struct mpi_comm *m, const char *what)
{
    char why[MPI_MAX_ERROR_STRING] = "";
    int length;
    (void)MPI_Error_string(m->rc, why, &length); /* without it the sentence is shorter */
    (void)sn_fail(&m->error, SN_EFAIL, "mpi: %s failed: %s", what, why);
    m->is_up = false;
    atomic_store(&m->failed, true);
}

/* Until all are complete. Never blocks inside MPI, which would poll for good: polls without sleep
 * only while the compute thread has nothing to do but wait, and then not for long. A nap costs some
 * 60 us of latency; polling costs those who compute, and the peers (16 MiB over 4 ranks on 2 cores:
 * 21 ms so, 45 ms without naps). */
static void complete(struct mpi_comm *m, struct transfers *t)
{
    int is_done = 0;
    for (int polls = 0; !m->rc && !is_done; polls++) {
        if (polls >= HOT_POLLS || (polls > 0 && !sn_comm_queue_is_awaited(&m->queue)))
            (void)nanosleep(&(struct timespec){0, NAP_NS}, NULL); /* cut short: polls sooner */
        m->rc = MPI_Testall(t->n, t->request, &is_done, t->status);
    }
    for (int i = 0; m->rc == MPI_ERR_IN_STATUS && i < t->n; i++)
        if (t->status[i].MPI_ERROR != MPI_SUCCESS && t->status[i].MPI_ERROR != MPI_ERR_PENDING)
            m->rc = t->status[i].MPI_ERROR;
    t->n = 0;
}

/* As complete, of the one request that a non-blocking collective has just begun. */
static void complete_one(struct mpi_comm *m, MPI_Request *request)
{
    MPI_Status status;
    complete(m, &(struct transfers){request, &status, 1});
}

static void send(struct mpi_comm *m, struct transfers *t, const void *p, int64_t bytes, int peer)
{
    if (m->rc || bytes == 0)
        return;
    assert(bytes <= INT32_MAX);
    m->rc = MPI_Isend(p, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &t->request[t->n]);
    if (m->rc)
        return;
    t->n++;
    atomic_fetch_add(&m->sent, bytes);
}

static void receive(struct mpi_comm *m, struct transfers *t, void *p, int64_t bytes, int peer)
{
    if (m->rc || bytes == 0)
        return;
    assert(bytes <= INT32_MAX);
    m->rc = MPI_Irecv(p, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &t->request[t->n]);
    t->n += m->rc == MPI_SUCCESS;
}

/* ---- the all-reduce ------------------------------------------------------------------------ */

static int64_t chunk_count(const struct reduction *r, int64_t c)
{
    int64_t left = r->n - c * r->chunk;
    return left < r->chunk ? left : r->chunk;
}

/* Where the parts of chunk c arrive. */
static char *slot(const struct mpi_comm *m, const struct reduction *r, int64_t c)
{
    return r->staging +
           c % SN_COLLECTIVE_SLOTS * (m->base.size - 1) * sn_collective_slice_bytes(m->base.size);
}

/* Parts of chunk c, to the owners of their slices. */
static void begin_scatter(struct mpi_comm *m, const struct reduction *r, int64_t c)
{
    int size = m->base.size, rank = m->base.rank;
    struct transfers *t = &m->scatter[c % SN_COLLECTIVE_SLOTS];
    int64_t count = chunk_count(r, c), stride = sn_collective_slice_bytes(size);
    char *staging = slot(m, r, c);
    int64_t own = sn_collective_slice(count, size, rank).count;
    for (int d = 1; d < size; d++) {
        int peer = (rank - d + size) % size;
        receive(m, t, staging + (peer < rank ? peer : peer - 1) * stride, own * r->width, peer);
    }
    for (int d = 1; d < size; d++) {
        int peer = (rank + d) % size;
        struct sn_collective_slice s = sn_collective_slice(count, size, peer);
        send(m, t, r->buf + (c * r->chunk + s.start) * r->width, s.count * r->width, peer);
    }
}

/* The summed slices of chunk c, to everybody. */
static void begin_gather(struct mpi_comm *m, const struct reduction *r, int64_t c)
{
    int size = m->base.size, rank = m->base.rank;
    struct transfers *t = &m->gather[c % SN_COLLECTIVE_SLOTS];
    int64_t count = chunk_count(r, c);
    char *buf = r->buf + c * r->chunk * r->width;
    for (int d = 1; d < size; d++) {
        int peer = (rank - d + size) % size;
        struct sn_collective_slice s = sn_collective_slice(count, size, peer);
        receive(m, t, buf + s.start * r->width, s.count * r->width, peer);
    }
    struct sn_collective_slice own = sn_collective_slice(count, size, rank);
    for (int d = 1; d < size; d++)
        send(m, t, buf + own.start * r->width, own.count * r->width, (rank + d) % size);
}

static void sum_chunk(struct mpi_comm *m, const struct reduction *r, int64_t c)
{
    int size = m->base.size, rank = m->base.rank;
    struct sn_collective_slice s = sn_collective_slice(chunk_count(r, c), size, rank);
    char *own = r->buf + (c * r->chunk + s.start) * r->width;
    struct sn_comm_parts parts = {own, slot(m, r, c), sn_collective_slice_bytes(size), rank, size};
    sn_comm_sum(&parts, s.count, r->dtype);
}

static void all_reduce_chunks(struct mpi_comm *m, const struct reduction *r)
{
    int64_t chunks = (r->n + r->chunk - 1) / r->chunk;
    begin_scatter(m, r, 0);
    for (int64_t c = 0; c < chunks && !m->rc; c++) {
        if (c + 1 < chunks)
            begin_scatter(m, r, c + 1);
        complete(m, &m->scatter[c % SN_COLLECTIVE_SLOTS]);
        if (!m->rc)
            sum_chunk(m, r, c);
        complete(m, &m->gather[c % SN_COLLECTIVE_SLOTS]); /* of chunk c - 2 */
        begin_gather(m, r, c);
    }
    for (int i = 0; i < SN_COLLECTIVE_SLOTS; i++)
        complete(m, &m->gather[i]);
}

/* Everything to everybody: one latency instead of two. */
static void all_reduce_small(struct mpi_comm *m, const struct reduction *r)
{
    int size = m->base.size, rank = m->base.rank;
    int64_t bytes = r->n * r->width;
    struct transfers *t = &m->scatter[0];
    for (int d = 1; d < size; d++) {
        int peer = (rank - d + size) % size;
        char *part = r->staging + (peer < rank ? peer : peer - 1) * (int64_t)SN_COLLECTIVE_SMALL;
        receive(m, t, part, bytes, peer);
    }
    for (int d = 1; d < size; d++)
        send(m, t, r->buf, bytes, (rank + d) % size);
    complete(m, t);
    struct sn_comm_parts parts = {r->buf, r->staging, SN_COLLECTIVE_SMALL, rank, size};
    if (!m->rc)
        sn_comm_sum(&parts, r->n, r->dtype);
}

static void all_reduce(struct mpi_comm *m, const struct sn_comm_op *op)
{
    int64_t width = (int64_t)sn_dtype_size(op->dtype);
    int64_t chunk = sn_collective_chunk_bytes(m->base.size) / width;
    struct reduction r = {op->buf, op->staging, op->n, chunk, width, op->dtype};
    if (op->n * width <= SN_COLLECTIVE_SMALL)
        all_reduce_small(m, &r);
    else
        all_reduce_chunks(m, &r);
}

/* ---- start-up, shut-down and agreement ----------------------------------------------------- */

static void barrier(struct mpi_comm *m)
{
    MPI_Request request;
    m->rc = MPI_Ibarrier(MPI_COMM_WORLD, &request);
    complete_one(m, &request);
}

static void broadcast(struct mpi_comm *m, char *buf, int64_t bytes, int root)
{
    while (bytes > 0 && !m->rc) {
        int64_t part = bytes < BROADCAST_MAX ? bytes : BROADCAST_MAX;
        MPI_Request request;
        m->rc = MPI_Ibcast(buf, (int)part, MPI_BYTE, root, MPI_COMM_WORLD, &request);
        complete_one(m, &request);
        buf += part;
        bytes -= part;
    }
}

/* `mine` becomes the verdict of the lowest rank that has the worst status. */
static void agree(struct mpi_comm *m, struct sn_err *mine)
{
    struct {
        int status, rank; /* MPI_2INT */
    } local = {(int)mine->status, m->base.rank}, worst = {0, 0};
    MPI_Request request;
    m->rc = MPI_Iallreduce(&local, &worst, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD, &request);
    complete_one(m, &request);
    if (m->rc || worst.status == SN_OK || m->base.size == 1)
        return;
    if (worst.rank == m->base.rank) {
        char host[64] = "unknown host";
        (void)gethostname(host, sizeof(host) - 1); /* a name cut short still helps */
        (void)sn_err_prefix(mine, "rank %d (%s)", m->base.rank, host);
    }
    mine->status = (enum sn_status)worst.status;
    broadcast(m, mine->text, sizeof(mine->text), worst.rank);
}

static void find_place(struct mpi_comm *m)
{
    struct sn_comm *c = &m->base;
    MPI_Comm node;
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* no failure is defined */
    if ((m->rc = MPI_Comm_rank(MPI_COMM_WORLD, &c->rank)) ||
        (m->rc = MPI_Comm_size(MPI_COMM_WORLD, &c->size)) ||
        (m->rc =
             MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node)))
        return;
    if ((m->rc = MPI_Comm_rank(node, &c->node_rank)) ||
        (m->rc = MPI_Comm_size(node, &c->node_size)))
        return;
    m->rc = MPI_Comm_free(&node);
}

static enum sn_status allocate(struct mpi_comm *m, struct sn_err *err)
{
    int launched = sn_comm_launched_ranks();
    if (launched != m->base.size && launched > 1)
        return sn_fail(err, SN_EINPUT,
                       "mpi: the launcher started %d ranks but MPI sees %d; start with this MPI's "
                       "mpirun, or with srun --mpi=pmix",
                       launched, m->base.size);
    size_t each = 2 * (size_t)(m->base.size - 1);
    m->requests = sn_alloc_n(2 * SN_COLLECTIVE_SLOTS * each, sizeof(*m->requests));
    m->statuses = sn_alloc_n(each, sizeof(*m->statuses));
    if (!m->requests || !m->statuses)
        return sn_fail(err, SN_ENOMEM, "mpi: no memory for the requests of %d ranks", m->base.size);
    for (size_t i = 0; i < SN_COLLECTIVE_SLOTS; i++) {
        m->scatter[i] = (struct transfers){m->requests + i * each, m->statuses, 0};
        m->gather[i] =
            (struct transfers){m->requests + (SN_COLLECTIVE_SLOTS + i) * each, m->statuses, 0};
    }
    return SN_OK;
}

static void start(struct mpi_comm *m)
{
    int provided; /* even MPI_THREAD_SINGLE would do: no other thread calls MPI */
    /* A failure in here ends the process with MPI's own words: no error handler can be set yet. */
    m->rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (m->rc)
        return;
    m->is_up = true;
    find_place(m);
    if (m->rc)
        return;
    struct sn_err verdict = {.status = SN_OK};
    verdict.status = allocate(m, &verdict);
    agree(m, &verdict);
    if (!m->rc && verdict.status != SN_OK) {
        m->error = verdict;
        atomic_store(&m->failed, true);
    }
}

/* ---- the communication thread -------------------------------------------------------------- */

static void run(struct mpi_comm *m, const struct sn_comm_op *op)
{
    static const char *const name[] = {"start", "all-reduce", "barrier", "broadcast", "agreement"};
    m->rc = MPI_SUCCESS;
    switch (op->kind) {
    case SN_COMM_START:
        start(m);
        break;
    case SN_COMM_ALL_REDUCE:
        all_reduce(m, op);
        break;
    case SN_COMM_BARRIER:
        barrier(m);
        break;
    case SN_COMM_BROADCAST:
        broadcast(m, op->buf, op->n, op->root);
        break;
    case SN_COMM_AGREE:
        agree(m, op->buf);
        break;
    case SN_COMM_STOP:
        break;
    }
    if (m->rc)
        fail(m, name[op->kind]);
}

static void *communicate(void *arg)
{
    struct mpi_comm *m = arg;
    (void)prctl(PR_SET_TIMERSLACK, 1000UL); /* ns; otherwise each nap is 50 us longer */
    struct sn_comm_op op;
    do {
        op = sn_comm_queue_next(&m->queue);
        if (!atomic_load(&m->failed))
            run(m, &op);
        if (op.kind == SN_COMM_STOP && m->is_up)
            (void)MPI_Finalize(); /* all work is done: nobody could use a failure */
        sn_comm_queue_done(&m->queue);
    } while (op.kind != SN_COMM_STOP);
    return NULL;
}

/* ---- the thread that posts ----------------------------------------------------------------- */

static enum sn_status mpi_wait(struct sn_comm *c, sn_ticket t, struct sn_err *err)
{
    struct mpi_comm *m = (struct mpi_comm *)c;
    sn_comm_queue_wait(&m->queue, t);
    if (!atomic_load(&m->failed))
        return SN_OK;
    if (err)
        *err = m->error;
    return m->error.status;
}

static enum sn_status post_and_wait(struct sn_comm *c, const struct sn_comm_op *op,
                                    struct sn_err *err)
{
    return mpi_wait(c, sn_comm_queue_post(&((struct mpi_comm *)c)->queue, op), err);
}

static sn_ticket mpi_post_all_reduce(struct sn_comm *c, void *buf, int64_t n, enum sn_dtype dtype,
                                     void *staging)
{
    assert(dtype == SN_F32 || dtype == SN_F64);
    if (c->size == 1 || n == 0)
        return 0;
    struct sn_comm_op op = {
        .kind = SN_COMM_ALL_REDUCE, .dtype = dtype, .n = n, .buf = buf, .staging = staging};
    return sn_comm_queue_post(&((struct mpi_comm *)c)->queue, &op);
}

static enum sn_status mpi_barrier(struct sn_comm *c, struct sn_err *err)
{
    return post_and_wait(c, &(struct sn_comm_op){.kind = SN_COMM_BARRIER}, err);
}

static enum sn_status mpi_broadcast(struct sn_comm *c, void *buf, int64_t bytes, int root,
                                    struct sn_err *err)
{
    struct sn_comm_op op = {.kind = SN_COMM_BROADCAST, .root = root, .n = bytes, .buf = buf};
    return post_and_wait(c, &op, err);
}

static enum sn_status mpi_agree(struct sn_comm *c, enum sn_status mine, struct sn_err *err)
{
    struct sn_err verdict = {.status = mine}, broken;
    if (mine != SN_OK)
        (void)sn_fail(&verdict, mine, "%s", err ? err->text : "no reason given");
    struct sn_comm_op op = {.kind = SN_COMM_AGREE, .buf = &verdict};
    bool told = post_and_wait(c, &op, &broken) == SN_OK;
    if (!told && mine == SN_OK) /* nobody can be told: say the first cause */
        verdict = broken;
    verdict.agreed = told;
    if (verdict.status != SN_OK && err)
        *err = verdict;
    return verdict.status;
}

static int64_t mpi_take_sent_bytes(struct sn_comm *c)
{
    return atomic_exchange(&((struct mpi_comm *)c)->sent, 0);
}

static void mpi_destroy(struct sn_comm *c)
{
    struct mpi_comm *m = (struct mpi_comm *)c;
    if (!m)
        return;
    (void)sn_comm_queue_post(&m->queue, &(struct sn_comm_op){.kind = SN_COMM_STOP});
    sn_comm_queue_fini(&m->queue);
    sn_free(m->statuses);
    sn_free(m->requests);
    sn_free(m);
}

/* More ranks than cores: a waiting rank must give its core away (measured: a barrier of 8 ranks on
 * 2 cores 13 us instead of 25 ms), and single copy through the kernel (CMA) is 2 times slower than
 * two copies on virtual machines. MPI_Init reads these; what the user or site has set stands. */
static void set_defaults(void)
{
    (void)setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0); /* no memory: slower, not wrong */
    (void)setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
}

enum sn_status sn_comm_create_mpi(struct sn_comm **out, struct sn_err *err)
{
    static const struct sn_comm_ops ops = {
        .name = "mpi",
        .post_all_reduce = mpi_post_all_reduce,
        .wait = mpi_wait,
        .barrier = mpi_barrier,
        .broadcast = mpi_broadcast,
        .agree = mpi_agree,
        .take_sent_bytes = mpi_take_sent_bytes,
        .destroy = mpi_destroy,
    };
    struct mpi_comm *m = sn_alloc(sizeof(*m));
    if (!m)
        return sn_fail(err, SN_ENOMEM, "mpi: no memory for %zu bytes", sizeof(*m));
    m->base.ops = &ops;
    set_defaults();
    int rc = sn_comm_queue_start(&m->queue, communicate, m);
    if (rc) {
        sn_free(m);
        return sn_fail(err, SN_ENOMEM, "mpi: no communication thread: %s", strerror(rc));
    }
    enum sn_status st = post_and_wait(&m->base, &(struct sn_comm_op){.kind = SN_COMM_START}, err);
    if (st != SN_OK) {
        mpi_destroy(&m->base);
        return st;
    }
    *out = &m->base;
    return SN_OK;
}

void sn_comm_abort_mpi(int exit_code)
{
    int is_up = 0, is_over = 0;
    if (MPI_Initialized(&is_up) == MPI_SUCCESS && is_up && MPI_Finalized(&is_over) == MPI_SUCCESS &&
        !is_over)
        (void)MPI_Abort(MPI_COMM_WORLD, exit_code);
    _Exit(exit_code);
}
