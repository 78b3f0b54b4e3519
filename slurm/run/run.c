/*
 * run.c - the run, attempt after attempt, until it is done or somebody else goes on.
 */
#include "slurm/run/supervisor.h"

/* Attempts until there is something else to do. */
static enum sn_status go_on(struct sn_supervisor *x, struct sn_decision *d, struct sn_err *err)
{
    unsigned asked;
    SN_TRY(sn_supervisor_preflight(x, &asked, err));
    if (asked) /* nothing has begun; who asked will see to it that it begins later */
        return sn_supervisor_leave_early(d, x, asked, err);
    do {
        struct sn_supervisor_attempt s;
        if ((asked = sn_supervisor_rest(x)))
            return sn_supervisor_leave_early(d, x, asked, err);
        enum sn_status st = sn_supervisor_attempt(&s, x, err);
        if (st == SN_OK)
            st = sn_supervisor_judge(d, x, &s, err);
        sn_supervisor_attempt_fini(&s);
        SN_TRY(st);
    } while (d->action == SN_DO_RETRY || d->action == SN_DO_SHRINK);
    return SN_OK;
}

enum sn_status sn_supervisor_run(struct sn_supervisor *x, int *exit_code, struct sn_err *err)
{
    struct sn_decision d;
    SN_TRY(go_on(x, &d, err));
    *exit_code = sn_supervisor_leave(x, &d);
    return SN_OK;
}
