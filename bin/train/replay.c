#include "bin/train/replay.h"

#include "lib/rundir/record.h"
#include "lib/search/resolve.h"

#include <stdio.h>

static void print(void *self, const char *lines)
{
    (void)self;
    (void)fputs(lines, stdout);
    (void)fflush(stdout);
}

/* With what the run trained. */
static enum sn_status load_recorded(struct sn_config *out, const struct sn_config *c,
                                    const struct sn_train_replay *what, struct sn_err *err)
{
    char path[SN_PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/" SN_RECORD_RUN_FILE, c->run.output);
    SN_TRY(sn_config_load(out, path, NULL, err));
    SN_TRY(sn_resolve_layout(out, sn_config_ranks(out), err));
    int ranks = sn_config_ranks(out);
    return what->rank < ranks ? SN_OK
                              : sn_fail(err, SN_EINPUT, "--rank: %lld; the run had ranks 0 to %d",
                                        what->rank, ranks - 1);
}

enum sn_status sn_train_replay(struct sn_trainer *t, const struct sn_config *c,
                               struct sn_comm *comm, const struct sn_train_replay *what,
                               int *exit_code, struct sn_err *err)
{
    struct sn_config recorded;
    bool differs = false;
    SN_TRY(comm->ops->agree(comm, load_recorded(&recorded, c, what, err), err));
    const struct sn_replay_options o = {
        .step = what->step, .rank = (int)what->rank, .recorded = &recorded, .say = print};
    enum sn_status st = sn_trainer_replay(t, &o, &differs, err);
    *exit_code = st == SN_OK && differs ? SN_EXIT_FAILED : 0;
    return st;
}
