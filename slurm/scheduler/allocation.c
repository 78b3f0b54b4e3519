#include "slurm/scheduler/allocation.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const struct sn_environment *e;
    struct sn_allocation a;
    struct sn_err *err;
};

const char *sn_scheduler_name(enum sn_scheduler s)
{
    static const char *const name[] = {"none", "slurm", "lsf"};
    return name[s];
}

/* ---- single values --------------------------------------------------------------------------- */

/* The first of some names that is set; *name says which. */
static const char *first_of(const struct reader *r, const char *const *names, const char **name)
{
    for (; *names; names++) {
        const char *value = sn_environment_get(r->e, *names);
        if (value) {
            *name = *names;
            return value;
        }
    }
    return NULL;
}

/* A number of 0 .. most; *out stays when no name is set. */
static enum sn_status number(const struct reader *r, const char *const *names, int64_t most,
                             int64_t *out)
{
    const char *name, *value = first_of(r, names, &name);
    char *end;
    if (!value)
        return SN_OK;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    if (errno || end == value || *end || n < 0 || n > most)
        return sn_fail(r->err, SN_EINPUT, "%s: got '%.60s'; want a number in 0..%lld", name, value,
                       (long long)most);
    *out = n;
    return SN_OK;
}

static enum sn_status small_number(const struct reader *r, const char *const *names, int *out)
{
    int64_t n = *out;
    enum sn_status st = number(r, names, 1 << 24, &n);
    *out = (int)n;
    return st;
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static enum sn_status text(const struct reader *r, const char *const *names, char *out, size_t room)
{
    const char *name, *value = first_of(r, names, &name);
    if (!value)
        return SN_OK;
    if (strlen(value) >= room)
        return sn_fail(r->err, SN_EINPUT, "%s: '%.40s...' is longer than %zu characters", name,
                       value, room - 1);
    (void)snprintf(out, room, "%s", value);
    return SN_OK;
}

/* A list of counts for the hosts; a list of another length is refused. */
static enum sn_status counts(struct reader *r, const char *const *names, int **out)
{
    const char *name, *value = first_of(r, names, &name);
    int n;
    if (!value)
        return SN_OK;
    SN_TRY(sn_counts_parse(out, &n, value, name, r->err));
    if (n == r->a.host.n)
        return SN_OK;
    sn_free(*out);
    *out = NULL;
    return sn_fail(r->err, SN_EINPUT,
                   "%s: '%.60s' is for %d nodes, but the node list has %d; the environment is "
                   "mixed from two jobs",
                   name, value, n, r->a.host.n);
}

/* ---- slurm ----------------------------------------------------------------------------------- */

static enum sn_status slurm_hosts(struct reader *r)
{
    struct sn_allocation *a = &r->a;
    const char *const *lists =
        a->in_step ? NAMES("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
                   : NAMES("SLURM_JOB_NODELIST", "SLURM_NODELIST");
    const char *name, *list = first_of(r, lists, &name);
    int nodes = 0;
    if (!list)
        return sn_fail(r->err, SN_EINPUT,
                       "SLURM_JOB_NODELIST: not set, though SLURM_JOB_ID is; want the environment "
                       "of a whole job");
    SN_TRY(sn_hostlist_parse(&a->host, list, name, r->err));
    SN_TRY(small_number(r,
                        a->in_step ? NAMES("SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES")
                                   : NAMES("SLURM_JOB_NUM_NODES", "SLURM_NNODES"),
                        &nodes));
    if (nodes && nodes != a->host.n)
        return sn_fail(r->err, SN_EINPUT, "%s: '%.60s' has %d hosts, but the job has %d nodes",
                       name, list, a->host.n, nodes);
    return SN_OK;
}

static enum sn_status slurm_tasks(struct reader *r)
{
    struct sn_allocation *a = &r->a;
    SN_TRY(counts(r,
                  a->in_step ? NAMES("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
                             : NAMES("SLURM_TASKS_PER_NODE"),
                  &a->tasks));
    if (!a->in_step)
        SN_TRY(counts(r, NAMES("SLURM_JOB_CPUS_PER_NODE"), &a->cpus));
    SN_TRY(small_number(r,
                        a->in_step ? NAMES("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
                                   : NAMES("SLURM_NTASKS", "SLURM_NPROCS"),
                        &a->ntasks));
    SN_TRY(small_number(r, NAMES("SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK"), &a->cpus_per_task));
    return small_number(r, NAMES("SLURM_GPUS_ON_NODE"), &a->gpus_per_node);
}

static enum sn_status slurm_self(struct reader *r)
{
    struct sn_allocation *a = &r->a;
    if (!a->in_step)
        return SN_OK;
    SN_TRY(small_number(r, NAMES("SLURM_PROCID"), &a->self.rank));
    SN_TRY(small_number(r, NAMES("SLURM_NODEID"), &a->self.node));
    SN_TRY(small_number(r, NAMES("SLURM_LOCALID"), &a->self.local));
    if (a->self.node >= a->host.n || (a->ntasks && a->self.rank >= a->ntasks))
        return sn_fail(r->err, SN_EINPUT,
                       "SLURM_PROCID: task %d on node %d is not of a step of %d tasks on %d nodes; "
                       "the environment is mixed from two jobs",
                       a->self.rank, a->self.node, a->ntasks, a->host.n);
    return SN_OK;
}

static enum sn_status read_slurm(struct reader *r)
{
    struct sn_allocation *a = &r->a;
    a->scheduler = SN_SCHED_SLURM;
    a->in_step = sn_environment_get(r->e, "SLURM_PROCID") != NULL &&
                 sn_environment_get(r->e, "SLURM_STEP_NODELIST") != NULL;
    SN_TRY(text(r, NAMES("SLURM_JOB_ID", "SLURM_JOBID"), a->job, sizeof(a->job)));
    SN_TRY(text(r, NAMES("SLURM_CLUSTER_NAME"), a->cluster, sizeof(a->cluster)));
    SN_TRY(text(r, NAMES("SLURM_JOB_PARTITION"), a->partition, sizeof(a->partition)));
    SN_TRY(text(r, NAMES("SLURM_JOB_ACCOUNT"), a->account, sizeof(a->account)));
    SN_TRY(text(r, NAMES("SLURM_JOB_QOS"), a->qos, sizeof(a->qos)));
    SN_TRY(text(r, NAMES("SLURM_TOPOLOGY_ADDR"), a->topology, sizeof(a->topology)));
    SN_TRY(text(r, NAMES("SLURM_TOPOLOGY_ADDR_PATTERN"), a->topology_pattern,
                sizeof(a->topology_pattern)));
    SN_TRY(number(r, NAMES("SLURM_RESTART_COUNT"), INT32_MAX, &a->restarts));
    SN_TRY(number(r, NAMES("SLURM_JOB_END_TIME"), INT64_MAX, &a->end_time));
    SN_TRY(slurm_hosts(r));
    SN_TRY(slurm_tasks(r));
    return slurm_self(r);
}

/* ---- LSF with jsrun -------------------------------------------------------------------------- */

/* "batch1 1 h1 40 h2 40": hosts and slots; the first one only launches. */
static enum sn_status lsf_hosts(struct reader *r)
{
    struct sn_allocation *a = &r->a;
    struct sn_hostlist word = {0};
    const char *list = sn_environment_get(r->e, "LSB_MCPU_HOSTS");
    struct sn_str hosts = {0}, slots = {0};
    if (!list)
        return sn_fail(r->err, SN_EINPUT,
                       "LSB_MCPU_HOSTS: not set, though LSB_JOBID is; want the "
                       "environment of a whole job");
    enum sn_status st = sn_hostlist_parse(&word, list, "LSB_MCPU_HOSTS", r->err);
    if (st == SN_OK && (word.n < 4 || word.n % 2))
        st = sn_fail(r->err, SN_EINPUT,
                     "LSB_MCPU_HOSTS: '%.60s' is no launch host followed by hosts, each with its "
                     "slots",
                     list);
    for (int i = 2; st == SN_OK && i < word.n; i += 2) {
        sn_str_add(&hosts, "%s%s", i > 2 ? "," : "", sn_hostlist_name(&word, i));
        sn_str_add(&slots, "%s%s", i > 2 ? "," : "", sn_hostlist_name(&word, i + 1));
    }
    if (st == SN_OK && (hosts.failed || slots.failed))
        st = sn_fail(r->err, SN_ENOMEM, "LSB_MCPU_HOSTS: no memory for %d hosts", word.n / 2);
    int n;
    if (st == SN_OK)
        st = sn_hostlist_parse(&a->host, hosts.p, "LSB_MCPU_HOSTS", r->err);
    if (st == SN_OK)
        st = sn_counts_parse(&a->cpus, &n, slots.p, "LSB_MCPU_HOSTS", r->err);
    sn_hostlist_fini(&word);
    sn_str_fini(&hosts);
    sn_str_fini(&slots);
    return st;
}

static enum sn_status read_lsf(struct reader *r)
{
    struct sn_allocation *a = &r->a;
    a->scheduler = SN_SCHED_LSF;
    SN_TRY(text(r, NAMES("LSB_JOBID"), a->job, sizeof(a->job)));
    SN_TRY(text(r, NAMES("LSB_QUEUE"), a->partition, sizeof(a->partition)));
    SN_TRY(text(r, NAMES("LSB_PROJECT_NAME"), a->account, sizeof(a->account)));
    SN_TRY(lsf_hosts(r));
    SN_TRY(small_number(r, NAMES("JSM_NAMESPACE_SIZE", "OMPI_COMM_WORLD_SIZE"), &a->ntasks));
    SN_TRY(small_number(r, NAMES("JSM_NAMESPACE_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"),
                        &a->self.rank));
    a->in_step = a->self.rank >= 0;
    return small_number(r, NAMES("JSM_NAMESPACE_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
                        &a->self.local);
}

/* ---- all of it ------------------------------------------------------------------------------- */

enum sn_status sn_allocation_read(struct sn_allocation *out, const struct sn_environment *e,
                                  struct sn_err *err)
{
    struct reader r = {.e = e, .err = err, .a.self = {-1, -1, -1}};
    enum sn_status st = SN_OK;
    if (sn_environment_get(e, "SLURM_JOB_ID") || sn_environment_get(e, "SLURM_JOBID"))
        st = read_slurm(&r);
    else if (sn_environment_get(e, "LSB_JOBID"))
        st = read_lsf(&r);
    if (st == SN_OK)
        *out = r.a;
    else
        sn_allocation_fini(&r.a);
    return st;
}

void sn_allocation_fini(struct sn_allocation *a)
{
    sn_hostlist_fini(&a->host);
    sn_free(a->tasks);
    sn_free(a->cpus);
    *a = (struct sn_allocation){0};
}
