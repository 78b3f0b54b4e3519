#include "slurm/scheduler/submit.h"

#include "slurm/scheduler/command.h"

#include <stdio.h>
#include <string.h>

enum { SECONDS = 120, ARGS = 8, AFTER = SN_SUBMIT_JOB + 16 };

static const char *program_of(enum sn_scheduler s)
{
    return s == SN_SCHED_LSF ? "bsub" : "sbatch";
}

/* All that it said on stderr: a site's filter explains in several lines. */
static enum sn_status refused(const struct sn_command *c, const struct sn_command_result *r,
                              struct sn_err *err)
{
    char why[SN_COMMAND_WHY];
    if (r->end == SN_COMMAND_ABSENT)
        return sn_fail(err, SN_EFAIL,
                       "%s; submit from a login node, or see the script with --print",
                       sn_command_why(why, c, r));
    if (r->end != SN_COMMAND_EXITED || !r->err.len)
        return sn_fail(err, SN_EFAIL, "the job was not taken: %s", sn_command_why(why, c, r));
    size_t n = r->err.len;
    while (n && r->err.p[n - 1] == '\n')
        n--;
    return sn_fail(err, SN_EFAIL, "the job was not taken: %.*s", (int)(n < 600 ? n : 600),
                   r->err.p);
}

static enum sn_status call(struct sn_command_result *r, const struct sn_submission *s,
                           const char *const *argv, struct sn_err *err)
{
    const struct sn_command c = {.argv = argv,
                                 .environment = s->with->variable,
                                 .input = s->scheduler == SN_SCHED_LSF ? s->script : NULL,
                                 .seconds = SECONDS};
    SN_TRY(sn_command_run(r, &c, err));
    return sn_command_succeeded(r) ? SN_OK : refused(&c, r, err);
}

enum sn_status sn_submit_test(struct sn_str *words, const struct sn_submission *s,
                              struct sn_err *err)
{
    const char *const argv[] = {"sbatch", "--test-only", s->script, NULL};
    struct sn_command_result r = {0};
    if (s->scheduler == SN_SCHED_LSF)
        return SN_OK;
    enum sn_status st = call(&r, s, argv, err);
    size_t n = r.err.len;
    while (n && r.err.p[n - 1] == '\n')
        n--;
    if (st == SN_OK && n)
        sn_str_add(words, "%.*s", (int)n, r.err.p);
    sn_command_fini(&r);
    return st;
}

bool sn_submit_parse(char job[SN_SUBMIT_JOB], enum sn_scheduler scheduler, const char *text)
{
    static const char before[] = "Job <";
    const char *at = scheduler == SN_SCHED_LSF ? strstr(text, before) : text;
    if (!at)
        return false;
    at += scheduler == SN_SCHED_LSF ? strlen(before) : 0;
    size_t n = strspn(at, "0123456789");
    if (!n || n >= SN_SUBMIT_JOB || !strchr(scheduler == SN_SCHED_LSF ? ">" : ";\n", at[n]))
        return false;
    (void)snprintf(job, SN_SUBMIT_JOB, "%.*s", (int)n, at);
    return true;
}

enum sn_status sn_submit(char job[SN_SUBMIT_JOB], const struct sn_submission *s, struct sn_err *err)
{
    const char *argv[ARGS] = {program_of(s->scheduler), NULL};
    char after[AFTER];
    struct sn_command_result r = {0};
    if (s->scheduler != SN_SCHED_LSF) {
        argv[1] = "--parsable";
        argv[2] = s->script;
    } else if (s->after) {
        (void)snprintf(after, sizeof(after), "ended(%s)", s->after);
        argv[1] = "-w";
        argv[2] = after;
    }
    enum sn_status st = call(&r, s, argv, err);
    if (st == SN_OK && !sn_submit_parse(job, s->scheduler, r.out.p ? r.out.p : ""))
        st = sn_fail(err, SN_EFAIL, "%s: said nothing with a job's number: '%.80s'; see squeue",
                     argv[0], r.out.p ? r.out.p : "");
    sn_command_fini(&r);
    return st;
}
