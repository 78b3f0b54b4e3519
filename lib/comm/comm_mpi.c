/*
 * comm_mpi.c - MPI as a port: the one file that includes mpi.h.
 *
 * One communication thread per rank makes every MPI call, MPI_Init_thread and MPI_Finalize
 * included, so MPI_THREAD_FUNNELED is enough; Open MPI 4.1 does not progress by itself, and that
 * thread is what progresses while the compute thread computes.
 */
#include "lib/base/mem.h"
#include "lib/comm/comm_engine.h"

#include <assert.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Requests that are waited for together. */
struct batch {
    MPI_Request *request;
    int *from; /* whose message each is; -1: it is sent from here */
    int n, room, done;
};

struct mpi_port {
    struct sn_port base;
    struct batch batch[SN_PORT_BATCHES];
    MPI_Request world;     /* the memory of batch SN_PORT_WORLD, */
    MPI_Request *requests; /* and of all the others */
    int *froms;
    MPI_Status *statuses; /* as many as the longest batch needs, */
    int *indices;         /* the same */
    int rc;               /* the first failure */
};

struct mpi_comm {
    struct sn_engine engine;
    struct mpi_port port;
};

static struct mpi_port *mpi(struct sn_port *p)
{
    return (struct mpi_port *)(void *)p;
}

/* True if this call or an earlier one has failed. */
static bool failed(struct mpi_port *m, int rc)
{
    if (rc != MPI_SUCCESS && !m->base.failed) {
        m->rc = rc;
        m->base.failed = true;
    }
    return m->base.failed;
}

/* ---- messages -------------------------------------------------------------------------------- */

static int process(const struct sn_port *p, int rank)
{
    return p->process_of ? p->process_of[rank] : rank;
}

/* A channel is a range of tags: a communicator for each group would take every rank through dozens
 * of messages before the first step. */
static int tag_of(const struct sn_message *x)
{
    return (x->channel + 1) * SN_PORT_TAGS + x->tag;
}

static void mpi_send(struct sn_port *p, const struct sn_message *x)
{
    struct mpi_port *m = mpi(p);
    struct batch *b = &m->batch[x->batch];
    if (p->failed || x->bytes == 0)
        return;
    assert(b->n < b->room && x->bytes <= INT_MAX);
    if (!failed(m, MPI_Isend(x->data, (int)x->bytes, MPI_BYTE, process(p, x->peer), tag_of(x),
                             MPI_COMM_WORLD, &b->request[b->n])))
        b->from[b->n++] = -1;
}

static void mpi_receive(struct sn_port *p, const struct sn_message *x)
{
    struct mpi_port *m = mpi(p);
    struct batch *b = &m->batch[x->batch];
    if (p->failed || x->bytes == 0)
        return;
    assert(b->n < b->room && x->bytes <= INT_MAX);
    if (!failed(m, MPI_Irecv(x->data, (int)x->bytes, MPI_BYTE, process(p, x->peer), tag_of(x),
                             MPI_COMM_WORLD, &b->request[b->n])))
        b->from[b->n++] = x->peer;
}

/* Those that have completed since the last look; false: none. One that is alone is whose came last,
 * if no other comes after it. */
static bool take_some(struct mpi_port *m, struct batch *b)
{
    bool is_world = b == &m->batch[SN_PORT_WORLD]; /* which is there before all other memory */
    MPI_Status one, *status = is_world ? &one : m->statuses;
    int first, *index = is_world ? &first : m->indices;
    int n = 0, rc = MPI_Testsome(b->n, b->request, &n, index, status);
    for (int i = 0; rc == MPI_ERR_IN_STATUS && i < n; i++)
        if (status[i].MPI_ERROR != MPI_SUCCESS && status[i].MPI_ERROR != MPI_ERR_PENDING)
            rc = status[i].MPI_ERROR;
    if (failed(m, rc) || n == 0)
        return false;
    b->done = n == MPI_UNDEFINED ? b->n : b->done + n;
    m->base.last = n == 1 && !is_world ? b->from[index[0]] : -1;
    return true;
}

static bool mpi_test(struct sn_port *p, int batch)
{
    struct mpi_port *m = mpi(p);
    struct batch *b = &m->batch[batch];
    p->last = -1;
    if (p->failed || b->n == 0)
        return true;
    while (b->done < b->n && take_some(m, b)) /* those behind them may be there, too */
        continue;
    if (b->done < b->n)
        return p->failed;
    b->n = b->done = 0;
    return true;
}

static bool mpi_is_open(struct sn_port *p, int batch, int i)
{
    const struct batch *b = &mpi(p)->batch[batch];
    int is_done = 1;
    return i < b->n &&
           MPI_Request_get_status(b->request[i], &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           !is_done;
}

/* ---- collectives of all ranks ---------------------------------------------------------------- */

static void mpi_barrier(struct sn_port *p)
{
    struct mpi_port *m = mpi(p);
    if (!p->failed && !failed(m, MPI_Ibarrier(MPI_COMM_WORLD, &m->world)))
        m->batch[SN_PORT_WORLD].n = 1;
}

static void mpi_broadcast(struct sn_port *p, void *buf, int64_t bytes, int root)
{
    struct mpi_port *m = mpi(p);
    assert(bytes <= INT_MAX);
    if (!p->failed && !failed(m, MPI_Ibcast(buf, (int)bytes, MPI_BYTE, process(p, root),
                                            MPI_COMM_WORLD, &m->world)))
        m->batch[SN_PORT_WORLD].n = 1;
}

static void mpi_gather(struct sn_port *p, const void *mine, int64_t bytes, void *all)
{
    struct mpi_port *m = mpi(p);
    int n = (int)bytes;
    assert(bytes <= INT_MAX);
    if (!p->failed &&
        !failed(m, MPI_Igather(mine, n, MPI_BYTE, all, n, MPI_BYTE, 0, MPI_COMM_WORLD, &m->world)))
        m->batch[SN_PORT_WORLD].n = 1;
}

static void mpi_worst(struct sn_port *p, const int mine[2], int worst[2])
{
    struct mpi_port *m = mpi(p); /* pairs of MPI_2INT: value and index */
    if (!p->failed &&
        !failed(m, MPI_Iallreduce(mine, worst, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD, &m->world)))
        m->batch[SN_PORT_WORLD].n = 1;
}

/* ---- begin and end --------------------------------------------------------------------------- */

static void mpi_explain(struct sn_port *p, char *text, size_t room)
{
    char why[MPI_MAX_ERROR_STRING] = "";
    int length;
    (void)MPI_Error_string(mpi(p)->rc, why, &length); /* without it the sentence is shorter */
    (void)snprintf(text, room, "%s", why);
}

/* All work is done: nobody could use a failure. */
static void mpi_finish(struct sn_port *p)
{
    (void)p;
    (void)MPI_Finalize();
}

static enum sn_status allocate(struct mpi_port *m, struct sn_err *err)
{
    size_t each = 2 * (size_t)(m->base.size - 1), longest = each;
    if (longest < SN_PORT_P2P_PIECES)
        longest = SN_PORT_P2P_PIECES;
    size_t all = SN_PORT_WORLD * each + (size_t)SN_COMM_QUEUE_DEPTH * SN_PORT_P2P_PIECES;
    m->requests = sn_alloc_n(all, sizeof(*m->requests));
    m->froms = sn_alloc_n(all, sizeof(*m->froms));
    m->statuses = sn_alloc_n(longest, sizeof(*m->statuses));
    m->indices = sn_alloc_n(longest, sizeof(*m->indices));
    if (!m->requests || !m->froms || !m->statuses || !m->indices)
        return sn_fail(err, SN_ENOMEM, "mpi: no memory for the requests of %d ranks", m->base.size);
    MPI_Request *at = m->requests;
    int *from = m->froms;
    for (int i = 0; i < SN_PORT_BATCHES; i++) {
        if (i == SN_PORT_WORLD)
            continue;
        m->batch[i].request = at;
        m->batch[i].from = from;
        m->batch[i].room = i < SN_PORT_WORLD ? (int)each : SN_PORT_P2P_PIECES;
        at += m->batch[i].room;
        from += m->batch[i].room;
    }
    return SN_OK;
}

/* On the communication thread. A failure of MPI_Init ends the process with MPI's own words: no
 * error handler can be set yet. */
static enum sn_status start(struct sn_engine *e, struct sn_err *err)
{
    static const struct sn_port_ops ops = {
        .send = mpi_send,
        .receive = mpi_receive,
        .test = mpi_test,
        .is_open = mpi_is_open,
        .barrier = mpi_barrier,
        .broadcast = mpi_broadcast,
        .gather = mpi_gather,
        .worst = mpi_worst,
        .explain = mpi_explain,
        .finish = mpi_finish,
    };
    struct mpi_port *m = &((struct mpi_comm *)(void *)e)->port;
    int provided; /* even MPI_THREAD_SINGLE would do: no other thread calls MPI */
    int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (rc != MPI_SUCCESS)
        return sn_fail(err, SN_EFAIL, "mpi: MPI_Init_thread failed with code %d", rc);
    m->base.ops = &ops;
    m->batch[SN_PORT_WORLD] = (struct batch){.request = &m->world, .room = 1};
    e->port = &m->base;
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* no failure is defined */
    if (failed(m, MPI_Comm_rank(MPI_COMM_WORLD, &m->base.process)) ||
        failed(m, MPI_Comm_size(MPI_COMM_WORLD, &m->base.size)))
        return SN_OK; /* the engine sees it */
    int launched = sn_comm_launched_ranks();
    if (launched != m->base.size && launched > 1)
        return sn_fail(err, SN_EINPUT,
                       "mpi: the launcher started %d ranks but MPI sees %d; start with this MPI's "
                       "mpirun, or with an srun --mpi= that it knows: pmix, pmi2 or cray_shasta",
                       launched, m->base.size);
    int *largest, is_set; /* MPI promises one channel's worth; all libraries give more */
    if (MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&largest, &is_set) != MPI_SUCCESS ||
        !is_set || *largest / SN_PORT_TAGS <= SN_PORT_CHANNELS)
        return sn_fail(err, SN_EFAIL,
                       "mpi: this library's tags end at %d; want one that has %d, such as Open MPI "
                       "or MPICH",
                       is_set ? *largest : 0, (SN_PORT_CHANNELS + 1) * SN_PORT_TAGS);
    return allocate(m, err);
}

static void free_all(struct mpi_comm *m)
{
    sn_free(m->port.indices);
    sn_free(m->port.statuses);
    sn_free(m->port.froms);
    sn_free(m->port.requests);
    sn_free(m);
}

static void mpi_destroy(struct sn_comm *c)
{
    struct mpi_comm *m = (struct mpi_comm *)(void *)c;
    if (!m)
        return;
    sn_engine_stop(&m->engine);
    free_all(m);
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
    struct mpi_comm *m = sn_alloc(sizeof(*m));
    if (!m)
        return sn_fail(err, SN_ENOMEM, "mpi: no memory for %zu bytes", sizeof(*m));
    set_defaults();
    enum sn_status st = sn_engine_start(&m->engine, "mpi", start, err);
    if (st != SN_OK) {
        free_all(m);
        return st;
    }
    m->engine.ops.destroy = mpi_destroy;
    *out = &m->engine.base;
    return SN_OK;
}

/* MPICH's launcher drops what it has not read yet of a rank that aborts: one sentence in ten of
 * those written right before (measured, 4.0.2). */
void sn_comm_abort_mpi(int exit_code)
{
    static const struct timespec to_be_read = {.tv_nsec = 100000000};
    int is_up = 0, is_over = 0;
    if (MPI_Initialized(&is_up) == MPI_SUCCESS && is_up && MPI_Finalized(&is_over) == MPI_SUCCESS &&
        !is_over) {
        (void)nanosleep(&to_be_read, NULL);
        (void)MPI_Abort(MPI_COMM_WORLD, exit_code);
    }
    _Exit(exit_code);
}
