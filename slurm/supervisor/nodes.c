#include "slurm/supervisor/nodes.h"

#include "lib/base/mem.h"

static enum sn_ledger_grade grade_of(const struct sn_hostlist *host, int i,
                                     const enum sn_node_health *health,
                                     const struct sn_ledger *ledger)
{
    const struct sn_ledger_entry *e = sn_ledger_find(ledger, sn_hostlist_name(host, i));
    /* One that died: the scheduler has given it to this job since. */
    enum sn_ledger_grade known = e && e->grade != SN_NODE_DIED ? e->grade : SN_NODE_GOOD;
    enum sn_node_health now = health ? health[i] : SN_HEALTH_GOOD;
    if (now >= SN_HEALTH_SILENT)
        return SN_NODE_BAD;
    return now == SN_HEALTH_LEAVING && known < SN_NODE_DOUBTFUL ? SN_NODE_DOUBTFUL : known;
}

enum sn_status sn_nodes_choose(struct sn_nodes *out, const struct sn_hostlist *host,
                               const enum sn_node_health *health, const struct sn_ledger *ledger,
                               int wanted, struct sn_err *err)
{
    struct sn_nodes n = {.use = sn_alloc_n((size_t)host->n + 1, sizeof(int)),
                         .spare = sn_alloc_n((size_t)host->n + 1, sizeof(int))};
    int good = 0;
    if (!n.use || !n.spare) {
        sn_nodes_fini(&n);
        return sn_fail(err, SN_ENOMEM, "nodes: no memory for %d of them", host->n);
    }
    for (int i = 0; i < host->n; i++)
        good += grade_of(host, i, health, ledger) == SN_NODE_GOOD;
    int doubtful = wanted > good ? wanted - good : 0; /* so many are needed */
    for (int i = 0; i < host->n; i++) {
        enum sn_ledger_grade grade = grade_of(host, i, health, ledger);
        bool usable = grade == SN_NODE_GOOD || (grade == SN_NODE_DOUBTFUL && doubtful-- > 0);
        if (usable && n.n_use < wanted)
            n.use[n.n_use++] = i;
        else if (grade != SN_NODE_BAD)
            n.spare[n.n_spare++] = i;
    }
    *out = n;
    return SN_OK;
}

void sn_nodes_fini(struct sn_nodes *n)
{
    sn_free(n->use);
    sn_free(n->spare);
    *n = (struct sn_nodes){0};
}

enum sn_status sn_nodes_names(struct sn_argv *out, const struct sn_hostlist *host, const int *index,
                              int n, struct sn_err *err)
{
    struct sn_argv a = {0};
    for (int i = 0; i < n; i++)
        sn_argv_add(&a, "%s", sn_hostlist_name(host, index[i]));
    if (a.failed) {
        sn_argv_fini(&a);
        return sn_fail(err, SN_ENOMEM, "nodes: no memory for %d names", n);
    }
    *out = a;
    return SN_OK;
}

enum sn_status sn_nodes_list(struct sn_str *out, const struct sn_argv *names, struct sn_err *err)
{
    struct sn_str plain = {0};
    struct sn_hostlist list = {0};
    for (int i = 0; i < names->n; i++)
        sn_str_add(&plain, "%s%s", i ? "," : "", names->word[i]);
    enum sn_status st = plain.failed
                            ? sn_fail(err, SN_ENOMEM, "nodes: no memory for their list")
                            : sn_hostlist_parse(&list, plain.p ? plain.p : "", "nodes", err);
    *out = (struct sn_str){0};
    if (st == SN_OK)
        sn_hostlist_format(out, &list);
    if (st == SN_OK && out->failed)
        st = sn_fail(err, SN_ENOMEM, "nodes: no memory for their list");
    sn_hostlist_fini(&list);
    sn_str_fini(&plain);
    return st;
}
