/*
 * place_check.c - do the reports of all processes make one job? And the tree that they make.
 */
#include "slurm/topology/place.h"

#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers and nodes ----------------------------------------------------------------------- */

static enum sn_status check_numbers(const struct sn_places *p, struct sn_err *err)
{
    for (int i = 0; i < p->n; i++) {
        const struct sn_place *x = &p->v[i];
        if (x->process != i)
            return sn_fail(err, SN_EINPUT,
                           "map: the process that MPI numbers %d (%s) is process %d of the "
                           "launcher; start with this MPI's mpirun, or with an srun --mpi= that it "
                           "knows: pmix, pmi2 or cray_shasta",
                           i, x->host, x->process);
        if (x->launched && x->launched != p->n)
            return sn_fail(err, SN_EINPUT,
                           "map: %d processes take part, but process %d (%s) says that %d were "
                           "launched (SLURM_NTASKS); the environment is mixed from two steps",
                           p->n, i, x->host, x->launched);
    }
    return SN_OK;
}

struct by_name {
    const char *name;
    int process;
};

static int compare(const void *a, const void *b)
{
    const struct by_name *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : (x->process > y->process) - (x->process < y->process);
}

/* Domain numbers by name, in the order of first appearance; returns how many. `sorted` is room. */
static int number_names(int *domain, struct by_name *sorted, int n)
{
    int domains = 0;
    qsort(sorted, (size_t)n, sizeof(*sorted), compare);
    for (int i = 0; i < n; i++) { /* for now: the first process of the name */
        bool same = i > 0 && strcmp(sorted[i].name, sorted[i - 1].name) == 0;
        domain[sorted[i].process] = same ? domain[sorted[i - 1].process] : sorted[i].process;
    }
    for (int i = 0; i < n; i++) /* that comes before all others of its name */
        domain[i] = domain[i] == i ? domains++ : domain[domain[i]];
    return domains;
}

/* Node numbers of the launcher, where it gave them, must say the same as the names of hosts. */
static enum sn_status check_hosts(const struct sn_places *p, const int *node, int *first,
                                  struct sn_err *err)
{
    for (int i = 0; i < p->nodes; i++)
        first[i] = -1;
    for (int i = 0; i < p->n; i++) {
        const struct sn_place *x = &p->v[i], *y;
        if (first[node[i]] < 0)
            first[node[i]] = i;
        y = &p->v[first[node[i]]];
        if (x->node != y->node)
            return sn_fail(err, SN_EINPUT,
                           "map: processes %d and %d both say host %s, but nodes %d and %d; two "
                           "nodes have one name",
                           first[node[i]], i, x->host, y->node, x->node);
        if (strcmp(x->path, y->path) != 0)
            return sn_fail(err, SN_EINPUT,
                           "map: processes %d and %d on %s say switches '%s' and '%s'",
                           first[node[i]], i, x->host, y->path, x->path);
    }
    return SN_OK;
}

/* The other way round: one number, two hosts. `owner` has room for n. */
static enum sn_status check_nodes(const struct sn_places *p, int *owner, struct sn_err *err)
{
    for (int i = 0; i < p->n; i++)
        owner[i] = -1;
    for (int i = 0; i < p->n; i++) {
        int node = p->v[i].node;
        if (node < 0)
            continue;
        if (node >= p->n)
            return sn_fail(err, SN_EINPUT, "map: process %d (%s) says node %d of a job of %d", i,
                           p->v[i].host, node, p->n);
        if (owner[node] >= 0 && strcmp(p->v[owner[node]].host, p->v[i].host) != 0)
            return sn_fail(err, SN_EINPUT,
                           "map: node %d is %s for process %d and %s for process %d", node,
                           p->v[owner[node]].host, owner[node], p->v[i].host, i);
        owner[node] = i;
    }
    return SN_OK;
}

/* As many on each node; local numbers 0 .. per_node - 1 once each. `count` has room for n. */
static enum sn_status check_counts(struct sn_places *p, const int *node, int *count,
                                   struct sn_err *err)
{
    for (int i = 0; i < p->nodes; i++)
        count[i] = 0;
    for (int i = 0; i < p->n; i++) {
        if (p->v[i].local < 0)
            p->v[i].local = count[node[i]];
        count[node[i]]++;
    }
    p->per_node = count[node[0]];
    for (int i = 0; i < p->n; i++) {
        const struct sn_place *x = &p->v[i];
        if (count[node[i]] != p->per_node)
            return sn_fail(err, SN_EINPUT,
                           "map: %d processes on %s, but %d on %s; want the same number on every "
                           "node (srun --ntasks-per-node)",
                           count[node[i]], x->host, p->per_node, p->v[0].host);
    }
    for (int i = 0; i < p->n; i++) {
        const struct sn_place *x = &p->v[i];
        if (x->shares && x->shares != p->per_node)
            return sn_fail(err, SN_EINPUT,
                           "map: %d processes say host %s, but MPI sees only %d of them share "
                           "memory; nodes have one name, or containers part them",
                           p->per_node, x->host, x->shares);
        if (x->local >= p->per_node)
            return sn_fail(err, SN_EINPUT,
                           "map: process %d says it is number %d on %s, which has %d", i, x->local,
                           x->host, p->per_node);
    }
    return SN_OK;
}

/* `at`: by node and local number, -1 where nobody is. */
static enum sn_status seat_all(const struct sn_places *p, const int *node, int *at,
                               struct sn_err *err)
{
    for (int i = 0; i < p->n; i++)
        at[i] = -1;
    for (int i = 0; i < p->n; i++) {
        int *seat = &at[node[i] * p->per_node + p->v[i].local];
        if (*seat >= 0)
            return sn_fail(err, SN_EINPUT, "map: processes %d and %d are both number %d on %s",
                           *seat, i, p->v[i].local, p->v[i].host);
        *seat = i;
    }
    return SN_OK;
}

/* ---- GPUs and processors --------------------------------------------------------------------- */

static bool same_gpu(const struct sn_local_gpu *a, const struct sn_local_gpu *b)
{
    return strcmp(a->id, b->id) == 0;
}

/* Has another process of the node taken it? */
static int holder(const struct sn_places *p, const int *seat, const struct sn_local_gpu *g,
                  int self)
{
    for (int i = 0; i < p->per_node; i++) {
        int q = seat[i];
        if (q != self && p->gpu[q] >= 0 && same_gpu(&p->v[q].here.gpu[p->gpu[q]], g))
            return q;
    }
    return -1;
}

/* Who sees one GPU alone takes it; two that see the same one are a mistake. */
static enum sn_status take_only(struct sn_places *p, const int *seat, struct sn_err *err)
{
    for (int i = 0; i < p->per_node; i++) {
        int q = seat[i];
        const struct sn_local *here = &p->v[q].here;
        if (here->n_gpus != 1)
            continue;
        int other = here->gpu[0].is_certain ? holder(p, seat, &here->gpu[0], q) : -1;
        if (other >= 0)
            return sn_fail(err, SN_EINPUT,
                           "map: processes %d and %d on %s both see GPU %s alone; start as many as "
                           "there are GPUs, with --gpus-per-node and --gpu-bind=none",
                           other, q, p->v[q].host, here->gpu[0].id);
        p->gpu[q] = 0;
    }
    return SN_OK;
}

/* Of several: a free one near its processors, else the one in its place of the list, else any. */
static void take_near(struct sn_places *p, const int *seat, bool near)
{
    for (int i = 0; i < p->per_node; i++) {
        int q = seat[i];
        const struct sn_local *here = &p->v[q].here;
        for (int k = 0; k < here->n_gpus && p->gpu[q] < 0; k++) {
            int g = (i + k) % here->n_gpus;
            bool is_near = here->gpu[g].numa >= 0 && here->gpu[g].numa == here->numa;
            if ((is_near || !near) && holder(p, seat, &here->gpu[g], q) < 0)
                p->gpu[q] = g;
        }
    }
}

static enum sn_status take_gpus(struct sn_places *p, const int *at, struct sn_err *err)
{
    for (int i = 0; i < p->n; i++)
        p->gpu[i] = -1;
    for (int node = 0; node < p->nodes; node++) {
        const int *seat = at + (size_t)node * (size_t)p->per_node;
        SN_TRY(take_only(p, seat, err));
        take_near(p, seat, true);
        take_near(p, seat, false);
    }
    return SN_OK;
}

/* The first of its kind, and how many there are: a line for 16,384 processes, not as many. */
struct oddity {
    int first, n;
};

static void note(struct oddity *o, int process)
{
    o->first = o->n++ ? o->first : process;
}

static void others(struct sn_str *warnings, const struct oddity *o)
{
    if (o->n > 1)
        sn_str_add(warnings, " (and %d more)", o->n - 1);
    sn_str_add(warnings, "\n");
}

static void look_for_oddities(const struct sn_places *p, int threads, struct sn_str *warnings)
{
    struct oddity few = {0}, unbound = {0}, far = {0};
    for (int i = 0; i < p->n; i++) {
        const struct sn_place *x = &p->v[i];
        const struct sn_local_gpu *g = sn_places_gpu(p, i);
        if (x->asked_cpus > 0 && x->here.n_cpus > 0 && x->here.n_cpus < x->asked_cpus)
            note(&unbound, i);
        else if (threads > 0 && x->here.n_cpus > 0 && x->here.n_cpus < threads)
            note(&few, i);
        if (g && g->near_cpus == 0)
            note(&far, i);
    }
    if (unbound.n) {
        const struct sn_place *x = &p->v[unbound.first];
        sn_str_add(warnings,
                   "map: process %d on %s may use processors %s, %d of the %d asked for; pass -c "
                   "to srun, which 22.05 to 23.02 do not take from the job",
                   unbound.first, x->host, x->here.cpus, x->here.n_cpus, x->asked_cpus);
        others(warnings, &unbound);
    }
    if (few.n) {
        const struct sn_place *x = &p->v[few.first];
        sn_str_add(warnings,
                   "map: process %d on %s may use processors %s, fewer than run.threads: %d",
                   few.first, x->host, x->here.cpus, threads);
        others(warnings, &few);
    }
    if (far.n) {
        const struct sn_place *x = &p->v[far.first];
        sn_str_add(warnings,
                   "map: process %d on %s may use processors %s, of which none is near its GPU %s; "
                   "the mask of the launcher stays",
                   far.first, x->host, x->here.cpus, sn_places_gpu(p, far.first)->id);
        others(warnings, &far);
    }
}

/* ---- the tree -------------------------------------------------------------------------------- */

static int depth(const char *path)
{
    int n = *path != '\0';
    for (const char *c = path; *c; c++)
        n += *c == '.';
    return n;
}

/* The first `fields` of a path, all of it if it has fewer; "-" for an unknown one. */
static void first_fields(char out[SN_TOPOLOGY_PATH], const char *path, int fields)
{
    size_t len = 0;
    for (int i = 0; i < fields && path[len]; i++) {
        len += path[len] == '.';
        len += strcspn(path + len, ".");
    }
    (void)snprintf(out, SN_TOPOLOGY_PATH, "%.*s", len ? (int)len : 1, len ? path : "-");
}

struct planting {
    struct sn_places *p;
    struct by_name *sorted;
    char (*prefix)[SN_TOPOLOGY_PATH];
};

/* One more level, unless all processes are in one domain of it, or it is full. */
static bool add_level(struct planting *x, int fields)
{
    struct sn_tree *t = &x->p->tree;
    if (t->levels == SN_TREE_LEVELS)
        return false;
    int *domain = x->p->domains + (size_t)t->levels * (size_t)x->p->n;
    for (int i = 0; i < x->p->n; i++) {
        if (fields >= 0)
            first_fields(x->prefix[i], x->p->v[i].path, fields);
        x->sorted[i] = (struct by_name){fields < 0 ? x->p->v[i].host : x->prefix[i], i};
    }
    int n = number_names(domain, x->sorted, x->p->n);
    if (n == 1)
        return false;
    t->domain[t->levels] = domain;
    t->domains[t->levels++] = n;
    return true;
}

/* What a level is called: processes of one node meet in it, of one leaf switch there, others at
 * further switches, the last of which is the spine. */
static void name_levels(struct sn_tree *t, bool has_switches)
{
    static const char *const between[] = {"switch 2", "switch 3", "switch 4",
                                          "switch 5", "switch 6", "switch 7"};
    t->name[0] = "node";
    for (int i = 1; i <= t->levels; i++)
        t->name[i] = !has_switches    ? "network"
                     : i == 1         ? "leaf"
                     : i == t->levels ? "spine"
                                      : between[i - 2];
}

static void plant(struct planting *x)
{
    struct sn_places *p = x->p;
    int deepest = 0;
    p->tree = (struct sn_tree){.n = p->n};
    for (int i = 0; i < p->n; i++)
        deepest = depth(p->v[i].path) > deepest ? depth(p->v[i].path) : deepest;
    bool more = add_level(x, -1);
    for (int fields = deepest; fields > 0 && more; fields--)
        more = add_level(x, fields);
    name_levels(&p->tree, deepest > 0);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum sn_status check(struct sn_places *p, struct planting *x, int *room, struct sn_err *err)
{
    int *node = p->domains, *at = room;
    for (int i = 0; i < p->n; i++)
        x->sorted[i] = (struct by_name){p->v[i].host, i};
    p->nodes = number_names(node, x->sorted, p->n);
    SN_TRY(check_numbers(p, err));
    SN_TRY(check_hosts(p, node, room, err));
    SN_TRY(check_nodes(p, room, err));
    SN_TRY(check_counts(p, node, room, err));
    SN_TRY(seat_all(p, node, at, err));
    SN_TRY(take_gpus(p, at, err));
    for (int i = 0; i < p->n; i++)
        if (p->v[i].node < 0)
            p->v[i].node = node[i];
    plant(x);
    return SN_OK;
}

enum sn_status sn_places_check(struct sn_places *p, int threads, struct sn_str *warnings,
                               struct sn_err *err)
{
    size_t n = (size_t)p->n;
    struct planting x = {.p = p,
                         .sorted = sn_alloc_n(n, sizeof(*x.sorted)),
                         .prefix = sn_alloc_n(n, sizeof(*x.prefix))};
    int *room = sn_alloc_n(n, sizeof(*room));
    p->gpu = sn_alloc_n(n, sizeof(*p->gpu));
    p->domains = sn_alloc_n(SN_TREE_LEVELS * n, sizeof(*p->domains));
    enum sn_status st =
        x.sorted && x.prefix && room && p->gpu && p->domains
            ? check(p, &x, room, err)
            : sn_fail(err, SN_ENOMEM, "map: no memory for the places of %d processes", p->n);
    if (st == SN_OK)
        look_for_oddities(p, threads, warnings);
    sn_free(room);
    sn_free(x.prefix);
    sn_free(x.sorted);
    return st;
}
