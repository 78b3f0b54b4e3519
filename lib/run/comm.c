/*
 * comm.c - what communicators share: the launcher's environment, and the group of one.
 * Knows no MPI.
 */
#include "lib/run/comm.h"

#include "lib/base/mem.h"

#include <stdlib.h>

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

static sn_ticket self_post_all_reduce(struct sn_comm *c, void *buf, int64_t n, enum sn_dtype dtype,
                                      void *staging)
{
    (void)c, (void)buf, (void)n, (void)dtype, (void)staging;
    return 0;
}

static enum sn_status self_wait(struct sn_comm *c, sn_ticket t, struct sn_err *err)
{
    (void)c, (void)t, (void)err;
    return SN_OK;
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

static enum sn_status self_agree(struct sn_comm *c, enum sn_status mine, struct sn_err *err)
{
    (void)c, (void)err;
    return mine;
}

static int64_t self_take_sent_bytes(struct sn_comm *c)
{
    (void)c;
    return 0;
}

static void self_destroy(struct sn_comm *c)
{
    sn_free(c);
}

enum sn_status sn_comm_create_self(struct sn_comm **out, struct sn_err *err)
{
    static const struct sn_comm_ops ops = {
        .name = "self",
        .post_all_reduce = self_post_all_reduce,
        .wait = self_wait,
        .barrier = self_barrier,
        .broadcast = self_broadcast,
        .agree = self_agree,
        .take_sent_bytes = self_take_sent_bytes,
        .destroy = self_destroy,
    };
    struct sn_comm *c = sn_alloc(sizeof(*c));
    if (!c)
        return sn_fail(err, SN_ENOMEM, "comm: no memory for %zu bytes", sizeof(*c));
    *c = (struct sn_comm){.ops = &ops, .size = 1, .node_size = 1};
    *out = c;
    return SN_OK;
}
