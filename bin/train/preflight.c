#include "bin/train/preflight.h"

#include "lib/base/directory.h"
#include "lib/base/exit_code.h"
#include "lib/base/log.h"
#include "lib/exec/threads.h"
#include "lib/probe/preflight.h"

#include <stdio.h>
#include <unistd.h>

static enum sn_status print(const struct sn_preflight *p, struct sn_err *err)
{
    struct sn_str text = {0};
    sn_preflight_text(&text, p);
    enum sn_status st = SN_OK;
    if (text.failed)
        st = sn_fail(err, SN_ENOMEM, "preflight: no memory for the table");
    else if (fputs(text.p, stdout) < 0 || fflush(stdout) != 0)
        st = sn_fail(err, SN_EIO, "stdout: cannot be written");
    sn_str_fini(&text);
    return st;
}

/* Whom the others wait for, in a sentence and in the file; the communicator is of no use any more.
 * A file that cannot be written does not make it another end: the supervisor goes by the exit code.
 */
static enum sn_status accuse(struct sn_preflight *p, const struct sn_config *c,
                             struct sn_flight_recorder *recorder, const struct sn_comm *comm,
                             struct sn_err *err)
{
    SN_TRY(sn_preflight_lost(p, recorder, comm->size, err));
    if (sn_preflight_save(p, c->run.output, comm->rank, err) != SN_OK)
        sn_log(SN_LOG_ERROR, "rank %d: %s", comm->rank, err->text);
    for (int i = 0; i < p->n; i++)
        if (p->rank[i].lost)
            return sn_fail(err, SN_ELOST, "preflight: rank %d on %s does not answer", i,
                           p->rank[i].host);
    return sn_fail(err, SN_ELOST,
                   "preflight: all ranks live, but messages between them do not arrive");
}

static enum sn_status fly(struct sn_preflight *p, const struct sn_config *c,
                          const struct sn_preflight_env *env, struct sn_flight_recorder *recorder,
                          struct sn_err *err)
{
    struct sn_err other;
    enum sn_status st = sn_preflight_run(p, env, err);
    if (st == SN_ELOST && recorder)
        return accuse(p, c, recorder, env->comm, err);
    if (env->comm->rank != 0 || (st != SN_OK && !p->storage_error))
        return st;
    struct sn_err *why = st == SN_OK ? err : &other; /* the first failure is the one to report */
    enum sn_status said = print(p, why);
    if (said == SN_OK)
        said = sn_preflight_save(p, c->run.output, env->comm->rank, why);
    return st == SN_OK ? said : st;
}

static enum sn_status make_places(const struct sn_config *c, char *checkpoints, size_t room,
                                  struct sn_err *err)
{
    bool own = c->checkpoint.dir[0] == '/';
    (void)snprintf(checkpoints, room, "%s%s%s", own ? "" : c->run.output, own ? "" : "/",
                   c->checkpoint.dir);
    SN_TRY(sn_directory_make(c->run.output, "run.output", err));
    return sn_directory_make(checkpoints, "checkpoint.dir", err);
}

/* What an earlier one found must not be taken for this one's findings if this one is killed. */
static void forget_last(const struct sn_config *c)
{
    char path[SN_PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/preflight.json", c->run.output);
    (void)unlink(path); /* most often there is none */
}

enum sn_status sn_train_preflight(const struct sn_config *c, struct sn_comm *comm, int *exit_code,
                                  struct sn_err *err)
{
    char checkpoints[2 * SN_PATH_MAX + 2];
    struct sn_flight_recorder *recorder = NULL;
    struct sn_preflight p = {0};
    struct sn_accelerator a = {0};
    sn_comm_set_watch(comm, NULL, SN_PREFLIGHT_PATIENCE); /* making folders may hang */
    enum sn_status st = make_places(c, checkpoints, sizeof(checkpoints), err);
    if (st == SN_OK && comm->size > 1)
        st = sn_flight_open(&recorder, c->run.output, comm->rank, err);
    if (st == SN_OK && comm->rank == 0)
        forget_last(c);
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = sn_accelerator_open(&a, c, false, comm, err);
    if (st == SN_OK) {
        struct sn_preflight_env env = {.comm = comm,
                                       .ops = sn_ops_cpu(),
                                       .accelerator = &a,
                                       .threads = sn_threads(c, comm->node_size),
                                       .checkpoints = checkpoints};
        sn_comm_set_watch(comm, recorder, SN_PREFLIGHT_PATIENCE);
        st = fly(&p, c, &env, recorder, err);
    }
    if (st != SN_ELOST) { /* then it may not end in order */
        enum sn_status agreed = comm->ops->agree(comm, st, err);
        st = agreed;
    }
    *exit_code = p.pass ? SN_EXIT_DONE : SN_EXIT_LOST;
    sn_preflight_fini(&p);
    sn_comm_set_watch(comm, NULL, 0);
    sn_flight_close(recorder);
    sn_accelerator_close(&a);
    return st;
}
