#include "slurm/run/supervisor.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/search/planned.h"
#include "lib/search/resolve.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A shell that salloc started in a step is no task of this job: its own node list would be one
 * node. */
static enum sn_status read_environment(struct sn_supervisor *x, struct sn_err *err)
{
    int n = 0;
    SN_TRY(sn_environment_own(&x->own, err));
    for (int i = 0; i < x->own.n; i++)
        if (strncmp(x->own.line[i], "SLURM_PROCID=", 13) != 0)
            x->own.line[n++] = x->own.line[i];
    x->own.n = n;
    return sn_allocation_read(&x->allocation, &x->own, err);
}

/* Unless it is named, the trainer lies beside this program. */
static enum sn_status find_trainer(struct sn_supervisor *x, struct sn_err *err)
{
    char self[SN_PATH_MAX];
    if (x->line.trainer) {
        (void)snprintf(x->shape.trainer, sizeof(x->shape.trainer), "%s", x->line.trainer);
        return SN_OK;
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;
    if (!slash)
        return sn_fail(err, SN_EFAIL,
                       "/proc/self/exe: cannot be read; it tells where "
                       "sennit-train lies");
    *slash = '\0';
    if ((size_t)snprintf(x->shape.trainer, sizeof(x->shape.trainer), "%s/sennit-train", self) >=
            sizeof(x->shape.trainer) ||
        access(x->shape.trainer, X_OK) != 0)
        return sn_fail(err, SN_EINPUT,
                       "%s/sennit-train: there is no such program; it belongs "
                       "beside sennit-run",
                       self);
    return SN_OK;
}

static enum sn_status choose_launcher(struct sn_supervisor *x, struct sn_err *err)
{
    enum sn_launcher *l = &x->shape.launcher;
    SN_TRY(sn_site_of(&x->site, x->config, x->line.site, NULL, err));
    *l = x->allocation.scheduler == SN_SCHED_NONE ? SN_LAUNCH_MPIRUN : x->site.launch.with;
    if (x->line.launcher)
        SN_TRY(sn_launcher_parse(l, x->line.launcher, err));
    x->shape.is_sites = *l == x->site.launch.with;
    x->shape.program = sn_launcher_name(*l);
    SN_TRY(sn_launcher_look_up(&x->own, x->shape.program, err));
    if (*l == SN_LAUNCH_MPIRUN) /* whose it is, it says itself */
        *l = x->platform->launcher->mpirun(x->platform->self);
    return SN_OK;
}

/* A number that the environment holds; 0 if it does not. */
static int number_of(const struct sn_supervisor *x, const char *name)
{
    const char *text = sn_environment_get(&x->own, name);
    long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n <= INT_MAX ? (int)n : 0;
}

/* Nodes of the allocation that are to train. */
static int nodes_to_train(const struct sn_supervisor *x)
{
    const struct sn_slurm_config *s = &x->config->slurm;
    int n = x->allocation.host.n, spares = s->spares < n ? s->spares : n - 1;
    return s->nodes && s->nodes < n ? s->nodes : n - spares;
}

static int ranks_per_node(const struct sn_supervisor *x, int ranks)
{
    const struct sn_allocation *a = &x->allocation;
    int asked = number_of(x, "SLURM_NTASKS_PER_NODE");
    if (x->config->slurm.ranks_per_node)
        return x->config->slurm.ranks_per_node;
    if (a->host.n == 0)
        return ranks ? ranks : 1;
    if (asked)
        return asked;
    if (a->gpus_per_node || x->site.node.gpus)
        return a->gpus_per_node ? a->gpus_per_node : x->site.node.gpus;
    if (ranks) /* spread evenly */
        return (ranks + nodes_to_train(x) - 1) / nodes_to_train(x);
    return a->ntasks ? (a->ntasks + a->host.n - 1) / a->host.n : 1;
}

static enum sn_status count_ranks(struct sn_supervisor *x, struct sn_err *err)
{
    struct sn_config *c = x->config;
    struct sn_supervisor_shape *s = &x->shape;
    const struct sn_allocation *a = &x->allocation;
    bool fixed = !c->layout_auto && c->layout.data;
    int ranks = x->line.ranks ? (int)x->line.ranks : fixed ? sn_config_ranks(c) : 0;
    s->ranks_per_node = ranks_per_node(x, ranks);
    if (!ranks && a->host.n)
        ranks = nodes_to_train(x) * s->ranks_per_node;
    if (!ranks && c->layout_auto)
        return sn_fail(err, SN_EINPUT,
                       "%s: layout: auto wants a number of ranks outside of a job; use --ranks",
                       c->path);
    if (!ranks) /* one copy of the model */
        ranks = sn_config_copy_ranks(&c->layout);
    if (a->host.n == 0)
        s->ranks_per_node = ranks;
    s->ranks = ranks;
    s->nodes = (ranks + s->ranks_per_node - 1) / s->ranks_per_node;
    s->cpus_per_rank = c->slurm.cpus_per_rank ? c->slurm.cpus_per_rank : a->cpus_per_task;
    if (!s->cpus_per_rank && a->cpus)
        s->cpus_per_rank = a->cpus[0] / s->ranks_per_node;
    if (x->line.only_counts)
        return SN_OK;
    SN_TRY(sn_resolve_auto(c, ranks, sn_site_machine(&x->site, c), err));
    return sn_resolve_layout(c, ranks, err);
}

static bool is_asked(void *self)
{
    struct sn_supervisor *x = self;
    return sn_platform_wait(x->platform, 1) != 0;
}

static enum sn_status lock_rundir(struct sn_supervisor *x, struct sn_err *err)
{
    struct sn_runlock_want w = {.output = x->rundir.output,
                                .job = x->allocation.job,
                                .restart = x->allocation.restarts,
                                .is_asked = is_asked,
                                .self = x};
    return sn_runlock_take(&x->lock, &w, err);
}

static enum sn_status open_rundir(struct sn_supervisor *x, struct sn_err *err)
{
    const struct sn_config *c = x->config;
    SN_TRY(sn_rundir_open(&x->rundir, c, err));
    SN_TRY(lock_rundir(x, err));
    sn_journal_init(&x->journal, x->rundir.output, &x->allocation, x->platform);
    if (c->slurm.ledger[0])
        (void)snprintf(x->shape.ledger, sizeof(x->shape.ledger), "%s", c->slurm.ledger);
    else
        (void)snprintf(x->shape.ledger, sizeof(x->shape.ledger), "%s/nodes.jsonl",
                       x->rundir.output);
    return sn_ledger_load(&x->ledger, x->shape.ledger, sn_supervisor_date(x), err);
}

/* Whatever Slurm does not tell stays unknown: there may be no scontrol here. */
static void ask_scheduler(struct sn_supervisor *x)
{
    struct sn_supervisor_shape *s = &x->shape;
    const struct sn_allocation *a = &x->allocation;
    struct sn_job_facts job;
    x->deadline.end = a->end_time; /* as it was when the job began */
    sn_preemption_init(&s->preempt);
    if (a->scheduler != SN_SCHED_SLURM)
        return;
    x->platform->scheduler->job(x->platform->self, &job, a->job, false);
    (void)sn_deadline_take(&x->deadline, job.end_time, sn_supervisor_now(x), sn_supervisor_date(x));
    s->may_requeue = job.may_requeue;
    if (a->gpus_per_node) /* a flag of theirs has two names */
        s->slurm_version = x->platform->scheduler->version(x->platform->self);
}

static void note_end(const struct sn_supervisor *x)
{
    struct sn_str line;
    struct sn_err err;
    int64_t left = x->deadline.end - sn_supervisor_date(x);
    sn_journal_line(&x->journal, &line, "deadline");
    sn_jsonl_int(&line, "deadline", x->deadline.end);
    if (sn_journal_write(&x->journal, &line, &err) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
    sn_log(SN_LOG_INFO, "the job's time ends in %lld s now", (long long)(left > 0 ? left : 0));
}

void sn_supervisor_ask_job(struct sn_supervisor *x, bool now)
{
    struct sn_job_facts job;
    if (x->allocation.scheduler != SN_SCHED_SLURM ||
        (!now && sn_supervisor_now(x) < x->deadline.next))
        return;
    x->platform->scheduler->job(x->platform->self, &job, x->allocation.job, !now);
    x->fate = sn_fate_of(&job, x->allocation.restarts, &x->shape.preempt);
    bool is_its_time =
        !job.is_known || x->fate == SN_FATE_RUNS || strcmp(job.state, "RUNNING") == 0;
    if (sn_deadline_take(&x->deadline, is_its_time ? job.end_time : 0, sn_supervisor_now(x),
                         sn_supervisor_date(x)))
        note_end(x);
}

void sn_supervisor_meanwhile(void *self, int64_t *deadline)
{
    struct sn_supervisor *x = self;
    sn_runlock_heartbeat(&x->lock);
    sn_supervisor_ask_job(x, false);
    *deadline = x->deadline.end;
}

static enum sn_status write_begin(struct sn_supervisor *x, struct sn_err *err)
{
    struct sn_argv names = {0};
    struct sn_str line;
    char host[64] = "";
    (void)gethostname(host, sizeof(host) - 1);
    for (int i = 0; i < x->allocation.host.n; i++)
        sn_argv_add(&names, "%s", sn_hostlist_name(&x->allocation.host, i));
    sn_journal_line(&x->journal, &line, "begin");
    sn_jsonl_text(&line, "run_file", x->config->path);
    sn_jsonl_text(&line, "scheduler", sn_scheduler_name(x->allocation.scheduler));
    sn_jsonl_text(&line, "host", host);
    sn_jsonl_texts(&line, "nodes", (const char *const *)names.word, names.n);
    sn_jsonl_int(&line, "pid", getpid());
    sn_jsonl_int(&line, "deadline", x->deadline.end);
    sn_jsonl_text(&line, "version", x->line.version);
    sn_argv_fini(&names);
    return sn_journal_write(&x->journal, &line, err);
}

enum sn_status sn_supervisor_read(struct sn_supervisor *x, const struct sn_supervisor_line *line,
                                  const struct sn_platform *platform, struct sn_err *err)
{
    *x = (struct sn_supervisor){
        .platform = platform, .line = *line, .lock.fd = -1, .free_at_end = -1};
    x->config = sn_alloc(sizeof(*x->config)); /* large for a stack */
    x->current = sn_alloc(sizeof(*x->current));
    if (!x->config || !x->current)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for it", line->run_file);
    SN_TRY(sn_planned_check_isa(err));
    SN_TRY(sn_config_load(x->config, line->run_file, NULL, err));
    SN_TRY(read_environment(x, err));
    SN_TRY(find_trainer(x, err));
    SN_TRY(choose_launcher(x, err));
    x->shape.is_searched = x->config->layout_auto;
    return count_ranks(x, err);
}

enum sn_status sn_supervisor_open(struct sn_supervisor *x, const struct sn_supervisor_line *line,
                                  const struct sn_platform *platform, struct sn_err *err)
{
    SN_TRY(sn_supervisor_read(x, line, platform, err));
    SN_TRY(sn_launch_environment(&x->environment, &x->own, x->shape.launcher, err));
    SN_TRY(sn_supervisor_nodes_init(&x->nodes, x->allocation.host.n, err));
    SN_TRY(open_rundir(x, err));
    ask_scheduler(x);
    return write_begin(x, err);
}

void sn_supervisor_close(struct sn_supervisor *x)
{
    sn_runlock_release(&x->lock);
    sn_free(x->config);
    sn_free(x->current);
    sn_supervisor_nodes_fini(&x->nodes);
    sn_environment_fini(&x->own);
    sn_argv_fini(&x->environment);
    sn_allocation_fini(&x->allocation);
    sn_site_fini(&x->site);
    sn_ledger_fini(&x->ledger);
}
