#include "slurm/site/batch.h"

#include "lib/base/duration.h"
#include "lib/base/str.h"
#include "slurm/scheduler/options.h"

#include <stdio.h>
#include <string.h>

/* Of GPUs that are there: with fewer ranks than GPUs a rank has its own GPU's part of the
 * processors, with more of them they share what there is. */
static int cpus_of_rank(const struct sn_config *c, const struct sn_site *s, int gpus_per_node,
                        int ranks_per_node)
{
    int gpus = gpus_per_node > 0 ? gpus_per_node : 1;
    int each = s->submit.cpus_per_gpu;
    if (c->slurm.cpus_per_rank)
        return c->slurm.cpus_per_rank;
    if (each && ranks_per_node > gpus)
        each = each * gpus / ranks_per_node;
    return each > 0 ? each : c->run.threads;
}

/* A ledger may be anybody's file: what is no name of a host is none. */
static bool is_host(const char *name)
{
    size_t n = strlen(name);
    return n && n < SN_NAME_MAX && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == n;
}

static bool is_excluded(const struct sn_slurm_config *l, const char *host)
{
    for (int i = 0; i < l->n_exclude; i++)
        if (strcmp(l->exclude[i], host) == 0)
            return true;
    return false;
}

void sn_batch_avoid(struct sn_config *c, const struct sn_site *s, const struct sn_ledger *l,
                    struct sn_str *words)
{
    struct sn_slurm_config *to = &c->slurm;
    bool can = s->scheduler == SN_SCHED_SLURM && !sn_site_forbids(s, "--exclude");
    for (int i = 0; i < l->n; i++) {
        const struct sn_ledger_entry *e = &l->entry[i];
        if ((e->grade != SN_NODE_BAD && e->grade != SN_NODE_DOUBTFUL) || !is_host(e->host) ||
            is_excluded(to, e->host))
            continue;
        bool added = can && to->n_exclude < SN_FREEZE_MAX;
        if (added)
            (void)snprintf(to->exclude[to->n_exclude++], SN_NAME_MAX, "%s", e->host);
        sn_str_add(words, "%s %s: %s\n", e->host,
                   added ? "is avoided"
                   : can ? "cannot be avoided, there are too many such nodes"
                         : "cannot be avoided, the site takes no --exclude",
                   e->why);
    }
}

/* --- kinds of nodes --------------------------------------------------------------------------- */

/* What a driver reports is a little less than what is sold. */
static bool is_memory_of(int64_t planned, int64_t sold)
{
    return planned <= sold && (double)planned >= 0.9 * (double)sold;
}

/* As far as both are known. */
static bool describes(const struct sn_batch_machine *m, const struct sn_site_kind *k)
{
    if (k->machine[0] && strcmp(m->name, k->machine) == 0)
        return true;
    if (!k->gpus)
        return true;
    return m->devices == k->gpus && (!k->gpu_memory || is_memory_of(m->memory, k->gpu_memory));
}

static const struct sn_site_kind *kind_of(const struct sn_config *c, const struct sn_site *s,
                                          const struct sn_batch_machine *m)
{
    const struct sn_slurm_config *l = &c->slurm;
    for (int i = 1; i < s->n_kinds; i++) {
        const struct sn_site_kind *k = &s->kind[i];
        if ((l->partition[0] && strcmp(l->partition, k->partition) == 0) ||
            (l->constraint[0] && strcmp(l->constraint, k->constraint) == 0))
            return k;
    }
    bool open = m && !l->partition[0] && !l->constraint[0] && !describes(m, &s->kind[0]);
    for (int i = 1; open && i < s->n_kinds; i++)
        if (s->kind[i].gpus && s->kind[i].gpu_memory && describes(m, &s->kind[i]))
            return &s->kind[i];
    return &s->kind[0];
}

enum sn_status sn_batch_ranks_per_node(int *out, const struct sn_config *c, const struct sn_site *s,
                                       const struct sn_batch_machine *machine, struct sn_err *err)
{
    int said = c->slurm.ranks_per_node, gpus = kind_of(c, s, machine)->gpus;
    *out = said ? said : machine ? machine->devices : gpus;
    if (*out)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: slurm.ranks_per_node: neither the run file's machine nor the site %s "
                   "says how many devices a node has; want a number of ranks",
                   c->path, s->name);
}

static const char *or_profile(const char *said, const struct sn_site_queue *q)
{
    return said[0] ? said : q ? q->name : "";
}

void sn_batch_init(struct sn_batch *out, const struct sn_config *c, const struct sn_site *s,
                   const struct sn_batch_machine *machine, int ranks_per_node)
{
    const struct sn_slurm_config *l = &c->slurm;
    const struct sn_site_kind *kind = kind_of(c, s, machine);
    int ranks = sn_config_ranks(c), gpus = kind->gpus;
    int each = ranks < ranks_per_node ? ranks : ranks_per_node;
    *out = (struct sn_batch){.config = c,
                             .site = s,
                             .kind = kind,
                             .ranks = ranks,
                             .nodes = (ranks + each - 1) / each,
                             .ranks_per_node = each,
                             .cpus_per_rank = cpus_of_rank(c, s, gpus, each),
                             .gpus_per_node = each < gpus ? each : gpus,
                             .requeue = s->submit.requeue};
    if (machine)
        out->machine = *machine;
    out->partition = sn_site_partition(s, l->partition[0]      ? l->partition
                                          : kind->partition[0] ? kind->partition
                                                               : NULL);
    out->qos = sn_site_qos(s, l->qos[0] ? l->qos : NULL);
    /* A qos that belongs to a partition brings it; a partition's own qos comes with it. */
    if (!l->partition[0] && out->qos && out->qos->partition[0] && l->qos[0])
        out->partition = sn_site_partition(s, out->qos->partition);
    if (!l->qos[0] && out->partition && out->partition->qos[0])
        out->qos = sn_site_qos(s, out->partition->qos);
    out->partition_name = or_profile(l->partition, out->partition);
    out->qos_name = or_profile(l->qos, out->qos);
    out->constraint = l->constraint[0]      ? l->constraint
                      : kind->constraint[0] ? kind->constraint
                                            : s->submit.constraint;
}

/* --- what a site refuses ---------------------------------------------------------------------- */

typedef enum sn_status batch_rule(const struct sn_batch *b, struct sn_err *err);

static enum sn_status account_is_right(const struct sn_batch *b, struct sn_err *err)
{
    const struct sn_site *s = b->site;
    const char *account = b->config->slurm.account, *suffix = s->submit.account_suffix;
    size_t n = strlen(account), end = strlen(suffix);
    if (s->submit.account == SN_SITE_REQUIRED && !n)
        return sn_site_fail(s, sn_site_line(s, "submit.account"), err,
                            "%s wants an account that pays; want slurm.account%s%s in %s", s->name,
                            end ? " that ends with " : "", suffix, b->config->path);
    if (s->submit.account == SN_SITE_FORBIDDEN && n)
        return sn_site_fail(s, sn_site_line(s, "submit.account"), err,
                            "%s takes no account, but %s says '%s'; leave slurm.account out",
                            s->name, b->config->path, account);
    if (n && end && (n <= end || strcmp(account + n - end, suffix) != 0))
        return sn_site_fail(s, sn_site_line(s, "submit.account_suffix"), err,
                            "slurm.account: accounts that may use these nodes of %s end with "
                            "'%s'; want %s%s instead of %s",
                            s->name, suffix, account, suffix, account);
    return SN_OK;
}

/* Options that the run file's keys would give. */
static enum sn_status options_are_allowed(const struct sn_batch *b, struct sn_err *err)
{
    const struct sn_slurm_config *l = &b->config->slurm;
    const struct sn_site *s = b->site;
    const struct {
        bool is_said;
        const char *option, *key;
    } row[] = {{l->n_exclude > 0, "--exclude", "slurm.exclude"},
               {l->reservation[0] != 0, "--reservation", "slurm.reservation"},
               {l->constraint[0] != 0, "--constraint", "slurm.constraint"},
               {l->qos[0] != 0, "--qos", "slurm.qos"},
               {l->spares > 0, "--no-kill", "slurm.spares"},
               {l->chain > 1, "--dependency", "slurm.chain"}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        if (row[i].is_said && sn_site_forbids(s, row[i].option))
            return sn_site_fail(s, sn_site_line(s, "submit.forbidden"), err,
                                "%s refuses jobs with %s; leave %s out of %s", s->name,
                                row[i].option, row[i].key, b->config->path);
    return SN_OK;
}

static enum sn_status extras_are_allowed(const struct sn_batch *b, struct sn_err *err)
{
    const struct sn_slurm_config *l = &b->config->slurm;
    const struct sn_site *s = b->site;
    for (int i = 0; i < l->n_extra; i++) {
        const char *owner = sn_option_owner(l->extra[i]);
        if (s->scheduler != SN_SCHED_LSF && owner)
            return sn_fail(err, SN_EINPUT,
                           "%s: slurm.extra: '%s' is what %s says; leave it out of the list",
                           b->config->path, l->extra[i], owner);
        if (sn_site_forbids(s, l->extra[i]))
            return sn_site_fail(s, sn_site_line(s, "submit.forbidden"), err,
                                "%s refuses jobs with '%s'; leave it out of slurm.extra in %s",
                                s->name, l->extra[i], b->config->path);
    }
    return SN_OK;
}

static enum sn_status queue_takes(const struct sn_batch *b, const struct sn_site_queue *q,
                                  const char *kind, struct sn_err *err)
{
    const struct sn_site *s = b->site;
    int nodes = b->nodes + b->config->slurm.spares;
    char time[SN_DURATION_SIZE];
    if (!q)
        return SN_OK;
    if (q->max_nodes && nodes > q->max_nodes)
        return sn_site_fail(s, q->line, err,
                            "%s %s of %s gives a job %d nodes at most, but this one wants %d; want "
                            "fewer, or another %s",
                            kind, q->name, s->name, q->max_nodes, nodes, kind);
    if (nodes < q->min_nodes)
        return sn_site_fail(s, q->line, err,
                            "%s %s of %s is for jobs of %d nodes and more, but this one wants %d; "
                            "want more, or another %s",
                            kind, q->name, s->name, q->min_nodes, nodes, kind);
    if (q->max_seconds && b->config->slurm.seconds > q->max_seconds)
        return sn_site_fail(s, q->line, err,
                            "%s %s of %s gives a job %s at most, but slurm.time is %s; want less, "
                            "and slurm.chain for a longer run",
                            kind, q->name, s->name, sn_duration_format(time, q->max_seconds),
                            b->config->slurm.time);
    if (q->partition[0] && strcmp(q->partition, b->partition_name) != 0)
        return sn_site_fail(s, q->line, err,
                            "%s %s of %s goes with partition %s, but the job is for '%s'; want "
                            "slurm.partition: %s",
                            kind, q->name, s->name, q->partition, b->partition_name, q->partition);
    if (q->qos[0] && strcmp(q->qos, b->qos_name) != 0)
        return sn_site_fail(s, q->line, err,
                            "%s %s of %s goes with qos %s, but the job is for '%s'; want "
                            "slurm.qos: %s",
                            kind, q->name, s->name, q->qos, b->qos_name, q->qos);
    return SN_OK;
}

static enum sn_status queues_take(const struct sn_batch *b, struct sn_err *err)
{
    SN_TRY(queue_takes(b, b->partition, b->site->scheduler == SN_SCHED_LSF ? "queue" : "partition",
                       err));
    return queue_takes(b, b->qos, "qos", err);
}

/* "machine.preset: perlmutter-40 or perlmutter-80": what describes the site's nodes. */
static void name_machines(const struct sn_site *s, char *buf, size_t size)
{
    size_t n = 0;
    for (int i = 0; i < s->n_kinds && n < size; i++)
        if (s->kind[i].machine[0])
            n += (size_t)snprintf(buf + n, size - n, "%s%s",
                                  n ? " or " : "machine.preset: ", s->kind[i].machine);
    if (!n)
        (void)snprintf(buf, size, "a machine file of such nodes, as sennit-plan calibrate writes");
}

/* Planned is what the job will run on. Ranks on processors do not care. */
static enum sn_status machine_is_the_sites(const struct sn_batch *b, struct sn_err *err)
{
    const struct sn_batch_machine *m = &b->machine;
    const struct sn_site_kind *k = b->kind;
    char have[16], plans[16], memory[24] = "", want[256];
    if (!m->name || b->config->run.backend == SN_BACKEND_CPU || describes(m, k))
        return SN_OK;
    if (k->gpu_memory)
        (void)snprintf(memory, sizeof(memory), " of %s", sn_str_bytes(have, k->gpu_memory));
    name_machines(b->site, want, sizeof(want));
    return sn_site_fail(b->site, k->line, err,
                        "a node of %s has %d GPU%s%s, but %s plans for %s, whose nodes have %d "
                        "device%s of %s; want %s",
                        b->site->name, k->gpus, k->gpus == 1 ? "" : "s", memory, b->config->path,
                        m->name, m->devices, m->devices == 1 ? "" : "s",
                        sn_str_bytes(plans, m->memory), want);
}

static enum sn_status kind_has_nodes(const struct sn_batch *b, struct sn_err *err)
{
    int nodes = b->nodes + b->config->slurm.spares;
    if (!b->kind->max_nodes || nodes <= b->kind->max_nodes)
        return SN_OK;
    return sn_site_fail(b->site, b->kind->line, err,
                        "%s has %d such nodes (%s), but the job wants %d; want fewer, or another "
                        "machine",
                        b->site->name, b->kind->max_nodes, b->constraint, nodes);
}

/* Fewer processors than a submit filter lets a GPU go with. */
static enum sn_status filter_takes(const struct sn_batch *b, struct sn_err *err)
{
    const struct sn_site *s = b->site;
    int least = s->submit.cpus_per_gpu_least * b->gpus_per_node;
    if (!least || b->cpus_per_rank * b->ranks_per_node >= least)
        return SN_OK;
    return sn_site_fail(s, sn_site_line(s, "submit.cpus_per_gpu_least"), err,
                        "%s rejects jobs with fewer than %d processors for a GPU, but %d ranks of "
                        "%d have %d for %d; want slurm.cpus_per_rank: %d",
                        s->name, s->submit.cpus_per_gpu_least, b->ranks_per_node, b->cpus_per_rank,
                        b->cpus_per_rank * b->ranks_per_node, b->gpus_per_node,
                        (least + b->ranks_per_node - 1) / b->ranks_per_node);
}

static enum sn_status node_has_room(const struct sn_batch *b, struct sn_err *err)
{
    const struct sn_site *s = b->site;
    int cores = b->kind->cores ? b->kind->cores : s->node.cores;
    int have = cores * (s->scheduler == SN_SCHED_LSF ? 1 : s->node.threads);
    if (have && (int64_t)b->cpus_per_rank * b->ranks_per_node > have)
        return sn_site_fail(s, sn_site_line(s, "node"), err,
                            "a node of %s has %d processors, but %d ranks of %d want %lld; want "
                            "slurm.cpus_per_rank: %d, or fewer ranks",
                            s->name, have, b->ranks_per_node, b->cpus_per_rank,
                            (long long)b->cpus_per_rank * b->ranks_per_node,
                            have / b->ranks_per_node > 0 ? have / b->ranks_per_node : 1);
    if (s->submit.gpus == SN_GPUS_PER_TASK && b->ranks_per_node > b->kind->gpus)
        return sn_site_fail(s, sn_site_line(s, "submit.gpus"), err,
                            "%s gives each rank a GPU, of which a node has %d, but "
                            "slurm.ranks_per_node is %d; want at most %d",
                            s->name, b->kind->gpus, b->ranks_per_node, b->kind->gpus);
    return SN_OK;
}

static enum sn_status scheduler_can(const struct sn_batch *b, struct sn_err *err)
{
    const struct sn_slurm_config *l = &b->config->slurm;
    if (b->site->scheduler == SN_SCHED_NONE)
        return sn_site_fail(b->site, sn_site_line(b->site, "scheduler"), err,
                            "%s has no scheduler to submit to; run sennit-run exec there",
                            b->site->name);
    if (b->site->scheduler != SN_SCHED_LSF)
        return SN_OK;
    if (l->spares)
        return sn_fail(err, SN_EINPUT,
                       "%s: slurm.spares: %s runs LSF, which ends a job whose node fails; leave it "
                       "out",
                       b->config->path, b->site->name);
    if (l->n_exclude || l->reservation[0] || l->constraint[0] || l->qos[0])
        return sn_fail(err, SN_EINPUT,
                       "%s: slurm.%s: has no meaning for LSF, which %s runs; say it with "
                       "slurm.extra as bsub takes it",
                       b->config->path,
                       l->n_exclude        ? "exclude"
                       : l->reservation[0] ? "reservation"
                       : l->constraint[0]  ? "constraint"
                                           : "qos",
                       b->site->name);
    return SN_OK;
}

enum sn_status sn_batch_check(const struct sn_batch *b, struct sn_err *err)
{
    static batch_rule *const rules[] = {
        scheduler_can,      account_is_right,     options_are_allowed,
        extras_are_allowed, machine_is_the_sites, kind_has_nodes,
        queues_take,        node_has_room,        filter_takes};
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        SN_TRY(rules[i](b, err));
    return SN_OK;
}
