#include "slurm/site/launch.h"

#include "lib/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------------------- */

static bool make_room(struct sn_argv *a)
{
    return sn_grow((void **)&a->word, a->n + 1, &a->room, sizeof(*a->word)); /* and its NULL */
}

void sn_argv_add(struct sn_argv *a, const char *fmt, ...)
{
    va_list ap;
    if (a->failed)
        return;
    va_start(ap, fmt);
    int len = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *word = make_room(a) ? sn_alloc((size_t)len + 1) : NULL;
    if (!word) {
        a->failed = true;
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(word, (size_t)len + 1, fmt, ap);
    va_end(ap);
    a->word[a->n++] = word;
    a->word[a->n] = NULL;
}

void sn_argv_fini(struct sn_argv *a)
{
    for (int i = 0; i < a->n; i++)
        sn_free(a->word[i]);
    sn_free(a->word);
    *a = (struct sn_argv){0};
}

static bool is_plain(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=./:,+@%";
    return *word && strspn(word, plain) == strlen(word);
}

void sn_argv_format(struct sn_str *out, const struct sn_argv *a)
{
    for (int i = 0; i < a->n; i++) {
        sn_str_add(out, i ? " " : "");
        if (is_plain(a->word[i])) {
            sn_str_add(out, "%s", a->word[i]);
            continue;
        }
        sn_str_add(out, "'");
        for (const char *c = a->word[i]; *c; c++)
            if (*c == '\'')
                sn_str_add(out, "'\\''");
            else
                sn_str_add(out, "%c", *c);
        sn_str_add(out, "'");
    }
}

/* ---- the command line ------------------------------------------------------------------------ */

static bool is_even(const struct sn_launch *l)
{
    return l->nodes * l->ranks_per_node == l->ranks;
}

static void add_srun(struct sn_argv *a, const struct sn_launch *l)
{
    sn_argv_add(a, "--kill-on-bad-exit=1");
    sn_argv_add(a, "--wait=60");
    sn_argv_add(a, "--unbuffered");
    sn_argv_add(a, "--export=ALL");
    sn_argv_add(a, "--mpi=%s", l->mpi ? l->mpi : "pmix");
    sn_argv_add(a, "--nodes=%d", l->nodes);
    sn_argv_add(a, "--ntasks=%d", l->ranks);
    if (is_even(l))
        sn_argv_add(a, "--ntasks-per-node=%d", l->ranks_per_node);
    if (l->cpus_per_rank)
        sn_argv_add(a, "--cpus-per-task=%d", l->cpus_per_rank);
    sn_argv_add(a, "--cpu-bind=%s", l->cpus_per_rank ? "cores" : "none");
    if (l->gpus_per_node)
        sn_argv_add(a, l->slurm_version >= 2405 ? "--tres-bind=gres/gpu:none" : "--gpu-bind=none");
    if (l->may_lose_nodes)
        sn_argv_add(a, "--no-kill");
    if (l->beside_others) {
        sn_argv_add(a, "--overlap");
        sn_argv_add(a, "--mem=0");
    }
    if (l->node_list)
        sn_argv_add(a, "--nodelist=%s", l->node_list);
}

/* One resource set a rank. How they are bound and spread is for the site's profile to say. */
static void add_jsrun(struct sn_argv *a, const struct sn_launch *l)
{
    sn_argv_add(a, "--nrs=%d", l->ranks);
    sn_argv_add(a, "--rs_per_host=%d", l->ranks_per_node);
    sn_argv_add(a, "--tasks_per_rs=1");
    if (l->cpus_per_rank)
        sn_argv_add(a, "--cpu_per_rs=%d", l->cpus_per_rank);
    if (l->gpus_per_node)
        sn_argv_add(a, "--gpu_per_rs=1");
    sn_argv_add(a, "--exit_on_error=1");
}

/* A short line whose own rules bind: -N nodes, -T tasks on each. */
static void add_lrun(struct sn_argv *a, const struct sn_launch *l)
{
    sn_argv_add(a, "-N%d", l->nodes);
    sn_argv_add(a, "-T%d", l->ranks_per_node);
}

/* What knows the allocation by itself. */
static void add_count(struct sn_argv *a, const struct sn_launch *l)
{
    sn_argv_add(a, "-n");
    sn_argv_add(a, "%d", l->ranks);
}

/* Open MPI: on a node that may hold more ranks than cores it would put them all. */
static void add_mpirun(struct sn_argv *a, const struct sn_launch *l)
{
    add_count(a, l);
    if (l->nodes > 1 && is_even(l)) {
        sn_argv_add(a, "--map-by");
        sn_argv_add(a, "ppr:%d:node:oversubscribe", l->ranks_per_node);
    }
}

/* It binds nothing and counts no cores unless told to. */
static void add_hydra(struct sn_argv *a, const struct sn_launch *l)
{
    add_count(a, l);
    if (l->nodes > 1 && is_even(l)) {
        sn_argv_add(a, "-ppn");
        sn_argv_add(a, "%d", l->ranks_per_node);
    }
}

/* What starts ranks, and how it is told. */
struct dialect {
    void (*add)(struct sn_argv *a, const struct sn_launch *l);
    const char *hosts; /* the option for chosen nodes, one by one; NULL: `add` does it */
    bool counts_hosts; /* each with its number of ranks: n1:4,n3:4 */
    const char *const *environment; /* set where it is not; NULL: nothing */
    bool sees_srun;                 /* srun's own variables are no options of it */
};

/* mpirun and its like know no compressed lists of nodes. */
static enum sn_status add_hosts(struct sn_argv *a, const struct dialect *d,
                                const struct sn_launch *l, struct sn_err *err)
{
    struct sn_hostlist h = {0};
    struct sn_str list = {0};
    if (!l->node_list || !d->hosts)
        return SN_OK;
    SN_TRY(sn_hostlist_parse(&h, l->node_list, "nodes", err));
    for (int i = 0; i < h.n; i++) {
        sn_str_add(&list, "%s%s", i ? "," : "", sn_hostlist_name(&h, i));
        if (d->counts_hosts)
            sn_str_add(&list, ":%d", l->ranks_per_node);
    }
    sn_argv_add(a, "%s", d->hosts);
    sn_argv_add(a, "%s", list.p ? list.p : "");
    a->failed = a->failed || list.failed;
    sn_hostlist_fini(&h);
    sn_str_fini(&list);
    return SN_OK;
}

/* For Open MPI 4 and 5. Ranks of one host share its cores without being tied to them. */
static const char *const for_mpirun[] = {"OMPI_MCA_rmaps_base_oversubscribe=1",
                                         "OMPI_MCA_hwloc_base_binding_policy=none",
                                         "OMPI_MCA_mpi_yield_when_idle=1",
                                         "OMPI_ALLOW_RUN_AS_ROOT=1",
                                         "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                         "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
                                         "PRTE_MCA_hwloc_default_binding_policy=none",
                                         "PRTE_ALLOW_RUN_AS_ROOT=1",
                                         "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                         NULL};

/* Slurm 22.05's tree of PMIx lets somebody out of a fence too early now and then: a rank that has
 * left MPI_Init writes to one that is still in it, which dies (exit 139). Its flight recorder does not. */
static const char *const for_srun[] = {"SLURM_PMIX_FENCE=ring", NULL};

static const struct dialect *dialect_of(enum sn_launcher l)
{
    static const struct dialect dialects[SN_LAUNCHERS] = {
        [SN_LAUNCH_SRUN] = {.add = add_srun, .environment = for_srun},
        [SN_LAUNCH_MPIRUN] = {.add = add_mpirun,
                              .hosts = "--host",
                              .counts_hosts = true,
                              .environment = for_mpirun,
                              .sees_srun = true},
        [SN_LAUNCH_HYDRA] = {.add = add_hydra, .hosts = "-hosts", .sees_srun = true},
        [SN_LAUNCH_JSRUN] = {.add = add_jsrun},
        [SN_LAUNCH_LRUN] = {.add = add_lrun},
        [SN_LAUNCH_IBRUN] = {.add = add_count},
        [SN_LAUNCH_BEDE_MPIRUN] = {.add = add_count}};
    return &dialects[l];
}

static enum sn_status add_launcher(struct sn_argv *a, const struct sn_launch *l, struct sn_err *err)
{
    const struct dialect *d = dialect_of(l->launcher);
    sn_argv_add(a, "%s", l->program ? l->program : sn_launcher_name(l->launcher));
    d->add(a, l);
    SN_TRY(add_hosts(a, d, l, err));
    for (int i = 0; l->options && l->options[i]; i++)
        sn_argv_add(a, "%s", l->options[i]);
    return SN_OK;
}

enum sn_status sn_launch_format(struct sn_argv *out, const struct sn_launch *l, struct sn_err *err)
{
    struct sn_argv a = {0};
    enum sn_status st = add_launcher(&a, l, err);
    if (st != SN_OK) {
        sn_argv_fini(&a);
        return st;
    }
    sn_argv_add(&a, "%s", l->trainer);
    sn_argv_add(&a, "%s", l->run_file);
    if (l->preflight) {
        sn_argv_add(&a, "--preflight");
    } else {
        sn_argv_add(&a, "--attempt");
        sn_argv_add(&a, "%d", l->attempt);
        if (l->supervisor && l->supervisor[0]) {
            sn_argv_add(&a, "--supervisor");
            sn_argv_add(&a, "%s", l->supervisor);
        }
    }
    if (l->fresh)
        sn_argv_add(&a, "--fresh");
    if (l->trial)
        sn_argv_add(&a, "--trial");
    if (l->stop_after) {
        sn_argv_add(&a, "--stop-after");
        sn_argv_add(&a, "%lld", (long long)l->stop_after);
    }
    if (a.failed) {
        sn_argv_fini(&a);
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its command line",
                       sn_launcher_name(l->launcher));
    }
    *out = a;
    return SN_OK;
}

/* ---- the environment ------------------------------------------------------------------------- */

/* Beginnings of names. What a surrounding step or mpirun left: a new one has ends of its own. */
static const char *const of_a_step[] = {"PMI_",
                                        "PMI2_",
                                        "PMIX_",
                                        "OMPI_COMM_WORLD_",
                                        "OMPI_UNIVERSE_SIZE=",
                                        "OMPI_APP_CTX_",
                                        "OMPI_FILE_LOCATION=",
                                        "OMPI_FIRST_RANKS=",
                                        "OMPI_ARGV=",
                                        "OMPI_COMMAND=",
                                        "OMPI_NUM_APP_CTX=",
                                        "OMPI_MCA_ess",
                                        "OMPI_MCA_orte_ess_",
                                        "OMPI_MCA_orte_hnp_uri=",
                                        "OMPI_MCA_orte_local_daemon_uri=",
                                        "OMPI_MCA_orte_jobid=",
                                        "OMPI_MCA_pmix=",
                                        "PRTE_LAUNCHED=",
                                        "JSM_NAMESPACE_",
                                        "MPI_LOCALNRANKS=",
                                        "MPI_LOCALRANKID=",
                                        "HYDI_CONTROL_FD=",
                                        NULL};
/* Defaults of srun's options, from sbatch, from a surrounding srun or from a person's habits. */
static const char *const of_srun[] = {"SBATCH_",
                                      "SRUN_",
                                      "SLURM_CPU_BIND",
                                      "SLURM_MEM_BIND",
                                      "SLURM_GPU_BIND",
                                      "SLURM_TRES_",
                                      "SLURM_NTASKS",
                                      "SLURM_NPROCS=",
                                      "SLURM_CPUS_PER_TASK=",
                                      "SLURM_DISTRIBUTION=",
                                      "SLURM_DIST_",
                                      "SLURM_HINT=",
                                      "SLURM_THREADS_PER_CORE=",
                                      "SLURM_EXCLUSIVE=",
                                      "SLURM_OVERLAP=",
                                      "SLURM_EXPORT_ENV=",
                                      "SLURM_KILL_BAD_EXIT=",
                                      "SLURM_WAIT=",
                                      "SLURM_MPI_TYPE=",
                                      "SLURM_STEP_",
                                      "SLURM_STEPID=",
                                      "SLURM_PROCID=",
                                      "SLURM_LOCALID=",
                                      "SLURM_NODEID=",
                                      "SLURM_GTIDS=",
                                      "SLURM_TASK_PID=",
                                      "SLURM_LAUNCH_NODE_IPADDR=",
                                      "SLURM_SRUN_COMM_",
                                      "SLURM_UMASK=",
                                      "SLURM_PRIO_PROCESS=",
                                      NULL};

static bool begins_with_one_of(const char *text, const char *const *list)
{
    for (; *list; list++)
        if (strncmp(text, *list, strlen(*list)) == 0)
            return true;
    return false;
}

bool sn_launch_drops(const char *v, enum sn_launcher l)
{
    if (strncmp(v, "PMIX_MCA_", 9) == 0)
        return false; /* a person's cure for a site's PMIx */
    if (begins_with_one_of(v, of_a_step))
        return true;
    return !dialect_of(l)->sees_srun && begins_with_one_of(v, of_srun);
}

static bool is_set(const struct sn_environment *e, const char *setting)
{
    size_t len = (size_t)(strchr(setting, '=') - setting) + 1;
    for (int i = 0; i < e->n; i++)
        if (strncmp(e->line[i], setting, len) == 0)
            return true;
    return false;
}

/* Open MPI 4 does not even start on its own host where it finds no agent for others, as in a
 * container without ssh; told that there is none, it does. */
static void add_agent(struct sn_argv *a, const struct sn_environment *from, enum sn_launcher l)
{
    static const char no_agent[] = "OMPI_MCA_plm_rsh_agent=";
    if (l == SN_LAUNCH_MPIRUN && !is_set(from, no_agent) &&
        !sn_environment_has_program(from, "ssh") && !sn_environment_has_program(from, "rsh"))
        sn_argv_add(a, "%s", no_agent);
}

enum sn_status sn_launch_environment(struct sn_argv *out, const struct sn_environment *from,
                                     enum sn_launcher l, struct sn_err *err)
{
    struct sn_argv a = {0};
    for (int i = 0; i < from->n; i++)
        if (!sn_launch_drops(from->line[i], l))
            sn_argv_add(&a, "%s", from->line[i]);
    const char *const *more = dialect_of(l)->environment;
    for (int i = 0; more && more[i]; i++)
        if (!is_set(from, more[i]))
            sn_argv_add(&a, "%s", more[i]);
    add_agent(&a, from, l);
    if (a.failed) {
        sn_argv_fini(&a);
        return sn_fail(err, SN_ENOMEM, "environment: no memory for %d variables", from->n);
    }
    *out = a;
    return SN_OK;
}

static bool is_secret(const char *setting)
{
    static const char *const word[] = {"TOKEN",      "SECRET",  "PASSW",      "JWT",
                                       "CREDENTIAL", "API_KEY", "ACCESS_KEY", NULL};
    size_t len = strcspn(setting, "=");
    for (int i = 0; word[i]; i++)
        for (size_t at = 0; at + strlen(word[i]) <= len; at++)
            if (strncasecmp(setting + at, word[i], strlen(word[i])) == 0)
                return true;
    return false;
}

void sn_launch_record(struct sn_str *out, const struct sn_argv *environment)
{
    for (int i = 0; i < environment->n; i++) {
        const char *v = environment->word[i];
        if (is_secret(v))
            sn_str_add(out, "%.*s=(not recorded)\n", (int)strcspn(v, "="), v);
        else
            sn_str_add(out, "%s\n", v);
    }
}
