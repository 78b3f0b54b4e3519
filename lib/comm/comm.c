/*
 * comm.c - what communicators share: the launcher's environment, and the group of one.
 * Knows no MPI.
 */
#include "lib/comm/comm.h"

#include "lib/base/mem.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first of four variables that holds a number of at least `least`; -1 if none does. */
static int from_environment(const char *const name[4], long least)
{
    for (size_t i = 0; i < 4; i++) {
        const char *text = getenv(name[i]);
        char *end;
        long n = text ? strtol(text, &end, 10) : -1;
        if (text && n >= least && n <= INT32_MAX && end != text && *end == '\0')
            return (int)n;
    }
    return -1;
}

int sn_comm_launched_ranks(void)
{
    /* Of the step, not of the job: SLURM_NTASKS is also set in a batch script, which is one
     * process. mpirun comes first because it may itself run under Slurm. */
    static const char *const name[] = {"OMPI_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE", "PMI_SIZE",
                                       "SLURM_STEP_NUM_TASKS"};
    int n = from_environment(name, 1);
    return n > 0 ? n : 1;
}

int sn_comm_launched_rank(void)
{
    static const char *const name[] = {"OMPI_COMM_WORLD_RANK", "JSM_NAMESPACE_RANK", "PMI_RANK",
                                       "SLURM_PROCID"};
    int n = sn_comm_launched_ranks() > 1 ? from_environment(name, 0) : 0;
    return n > 0 ? n : 0;
}

enum sn_status sn_comm_handshake(struct sn_comm *c, struct sn_err *err)
{
    char here = 1, *all = NULL;
    if (c->rank == 0 && !(all = sn_alloc((size_t)c->size)))
        return sn_fail(err, SN_ENOMEM, "comm: no memory for %d ranks", c->size);
    enum sn_status st = c->ops->gather(c, &here, 1, all, 0, err);
    if (st == SN_OK)
        st = c->ops->broadcast(c, &here, 1, 0, err);
    sn_free(all);
    return st;
}

static enum sn_status self_set_grid(struct sn_comm *c, const struct sn_grid *g, struct sn_err *err)
{
    (void)c;
    if (sn_grid_ranks(g) != 1)
        return sn_fail(err, SN_EINPUT, "comm: the layout has %d ranks, but this process is alone",
                       sn_grid_ranks(g));
    return SN_OK;
}

int64_t sn_transfer_travels(const struct sn_transfer *t, const void *block)
{
    uint64_t length;
    if (!t->sized)
        return t->n * (int64_t)sn_dtype_size(t->dtype);
    assert(t->dtype == SN_U8 && !t->exchange && t->n >= SN_COLLECTIVE_LENGTH && t->n % 8 == 0);
    memcpy(&length, block, sizeof(length));
    length = le64toh(length);
    if (length > (uint64_t)(t->n - SN_COLLECTIVE_LENGTH))
        return -1;
    return sn_collective_sized((int64_t)length);
}

bool sn_comm_copy_alone(const struct sn_transfer *t)
{
    assert(t->kind != SN_SEND && t->kind != SN_RECV);
    int64_t bytes = t->in || t->sized ? sn_transfer_travels(t, t->in ? t->in : t->out) : 0;
    if (bytes < 0)
        return false;
    if (!t->in || t->in == t->out)
        return true;
    if (t->add && t->kind == SN_REDUCE_SCATTER)
        for (int64_t i = 0; i < t->n; i++)
            ((float *)t->out)[i] += ((const float *)t->in)[i];
    else
        memcpy(t->out, t->in, (size_t)bytes);
    return true;
}

struct self {
    struct sn_comm base;
    struct sn_err error; /* its status is not SN_OK: the first failure */
};

static sn_request self_post(struct sn_comm *c, const struct sn_transfer *t)
{
    struct sn_err *error = &((struct self *)(void *)c)->error;
    if (t->n > 0 && !sn_comm_copy_alone(t) && error->status == SN_OK) /* all groups have 1 member */
        (void)sn_fail(error, SN_EFAIL,
                      "self: %s '%s': the block's length is none that fits into its %lld bytes; it "
                      "was overwritten, or nothing was encoded there",
                      sn_collective_name(t->kind), t->label ? t->label : "", (long long)t->n);
    return 0;
}

static enum sn_status self_wait(struct sn_comm *c, sn_request t, struct sn_err *err)
{
    const struct sn_err *error = &((struct self *)(void *)c)->error;
    (void)t;
    if (error->status != SN_OK && err)
        *err = *error;
    return error->status;
}

static enum sn_status self_barrier(struct sn_comm *c, struct sn_err *err)
{
    (void)c, (void)err;
    return SN_OK;
}

static enum sn_status self_broadcast(struct sn_comm *c, void *buf, int64_t bytes, int root,
                                     struct sn_err *err)
{
    (void)c, (void)buf, (void)bytes, (void)root, (void)err;
    return SN_OK;
}

static enum sn_status self_gather(struct sn_comm *c, const void *mine, int64_t bytes, void *all,
                                  int root, struct sn_err *err)
{
    (void)c, (void)root, (void)err;
    memcpy(all, mine, (size_t)bytes);
    return SN_OK;
}

static enum sn_status self_renumber(struct sn_comm *c, const int *process_of, struct sn_err *err)
{
    (void)c, (void)err;
    assert(process_of[0] == 0);
    return SN_OK;
}

static enum sn_status self_agree(struct sn_comm *c, enum sn_status mine, struct sn_err *err)
{
    (void)c, (void)err;
    return mine;
}

static int self_poll(struct sn_comm *c, int mine, const char *label, struct sn_err *err)
{
    (void)c, (void)label, (void)err;
    return mine == SN_POLL_STUCK ? SN_ELOST : mine;
}

static enum sn_status self_drain(struct sn_comm *c, struct sn_err *err)
{
    return self_wait(c, 0, err);
}

static void self_take_sent_bytes(struct sn_comm *c, int64_t bytes[SN_NAXES])
{
    (void)c, (void)bytes;
}

static void self_set_watch(struct sn_comm *c, struct sn_flight_recorder *recorder, int timeout_s)
{
    (void)c, (void)recorder, (void)timeout_s;
}

static void self_destroy(struct sn_comm *c)
{
    sn_free(c);
}

enum sn_status sn_comm_create_self(struct sn_comm **out, struct sn_err *err)
{
    static const struct sn_comm_ops ops = {
        .name = "self",
        .set_grid = self_set_grid,
        .post = self_post,
        .wait = self_wait,
        .drain = self_drain,
        .barrier = self_barrier,
        .broadcast = self_broadcast,
        .gather = self_gather,
        .renumber = self_renumber,
        .agree = self_agree,
        .poll = self_poll,
        .take_sent_bytes = self_take_sent_bytes,
        .set_watch = self_set_watch,
        .destroy = self_destroy,
    };
    struct self *c = sn_alloc(sizeof(*c));
    if (!c)
        return sn_fail(err, SN_ENOMEM, "comm: no memory for %zu bytes", sizeof(*c));
    c->base = (struct sn_comm){.ops = &ops, .size = 1, .node_size = 1, .nonce = (uint64_t)getpid()};
    *out = &c->base;
    return SN_OK;
}
