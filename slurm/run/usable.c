/*
 * usable.c - which nodes of the job can be used now.
 *
 * Three tell: the controller, which notices a dead node after SlurmdTimeout (300 s by default); the
 * launcher, in whose words a node failed; and the node itself, whose slurmd takes a connection or
 * does not. What the launcher or silence said counts until the node answers, or for TOLD seconds,
 * when the controller must know better.
 */
#include "slurm/run/supervisor.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "slurm/scheduler/reach.h"

#include <string.h>

enum {
    TOLD = 600,    /* seconds: twice SlurmdTimeout's default */
    PATIENCE = 20, /* seconds that the controller may take between attempts, */
    SHORT = 2,     /* and while an attempt is watched */
    KNOCK = 3,     /* seconds that a node may take to answer */
    STRIKES = 3,   /* times in a row that a silent node does not answer: it is dead */
    LOOK_EVERY = 5 /* seconds, while nothing moves */
};

enum sn_status sn_supervisor_nodes_init(struct sn_supervisor_nodes *out, int n, struct sn_err *err)
{
    size_t room = (size_t)n + 1;
    *out = (struct sn_supervisor_nodes){.health = sn_alloc_n(room, sizeof(*out->health)),
                                        .until = sn_alloc_n(room, sizeof(*out->until)),
                                        .strikes = sn_alloc_n(room, sizeof(*out->strikes))};
    if (!out->health || !out->until || !out->strikes)
        return sn_fail(err, SN_ENOMEM, "nodes: no memory for %d of them", n);
    return SN_OK;
}

void sn_supervisor_nodes_fini(struct sn_supervisor_nodes *n)
{
    sn_free(n->health);
    sn_free(n->until);
    sn_free(n->strikes);
    *n = (struct sn_supervisor_nodes){0};
}

static void remember(struct sn_supervisor *x)
{
    double now = sn_supervisor_now(x);
    for (int i = 0; i < x->allocation.host.n; i++)
        if (now < x->nodes.until[i])
            x->nodes.health[i] = SN_HEALTH_DEAD;
}

void sn_supervisor_node_died(struct sn_supervisor *x, const char *name)
{
    for (int i = 0; i < x->allocation.host.n; i++)
        if (sn_host_is(sn_hostlist_name(&x->allocation.host, i), name))
            x->nodes.until[i] = sn_supervisor_now(x) + TOLD;
    remember(x);
}

/* Which nodes do not answer: the flags of `which` that stay. Where most of them do not, it is this
 * host that cannot reach them, and nothing is known. False: nothing is known. */
static bool knock(const struct sn_supervisor *x, const char *nodes_text, bool *which)
{
    const struct sn_hostlist *host = &x->allocation.host;
    struct sn_reach *all = sn_alloc_n((size_t)host->n + 1, sizeof(*all)), *some = NULL;
    struct sn_str config = {0};
    int n = 0, silent = 0, at = 0;
    bool known = all && x->platform->scheduler->config(x->platform->self, &config) &&
                 sn_reach_parse(all, host, nodes_text, config.p);
    sn_str_fini(&config);
    if (known)
        some = sn_alloc_n((size_t)host->n + 1, sizeof(*some));
    for (int i = 0; some && i < host->n; i++)
        if (which[i])
            some[n++] = all[i];
    if (some)
        x->platform->scheduler->reach(x->platform->self, some, n, KNOCK);
    for (int i = 0; some && i < host->n; i++)
        if (which[i]) {
            which[i] = !some[at++].answers;
            silent += which[i];
        }
    known = some && silent * 2 <= host->n;
    sn_free(some);
    sn_free(all);
    return known;
}

/* Ask the controller; *text is what it said of the nodes. */
static bool ask(struct sn_supervisor *x, double seconds, struct sn_str *text)
{
    return x->allocation.scheduler == SN_SCHED_SLURM && x->allocation.host.n > 0 &&
           x->platform->scheduler->nodes(x->platform->self, x->nodes.health, &x->allocation.host,
                                         x->allocation.job, seconds, text);
}

/* Who did not answer is dead until it does. */
static void take_answers(struct sn_supervisor *x, const bool *asked, const bool *silent)
{
    for (int i = 0; i < x->allocation.host.n; i++) {
        enum sn_node_health *h = &x->nodes.health[i];
        if (asked[i] && silent[i])
            x->nodes.until[i] = sn_supervisor_now(x) + TOLD;
        else if (asked[i])
            x->nodes.until[i] = 0;
        if (asked[i] && !silent[i] && *h == SN_HEALTH_SILENT)
            *h = SN_HEALTH_GOOD; /* the controller has not heard of it, we have */
    }
}

/* Not those of which the controller is sure. */
static bool is_to_be_asked(const struct sn_supervisor *x, int i, bool all)
{
    bool is_doubted =
        sn_supervisor_now(x) < x->nodes.until[i] || x->nodes.health[i] == SN_HEALTH_SILENT;
    return x->nodes.health[i] != SN_HEALTH_DEAD && (all || is_doubted);
}

void sn_supervisor_look_at_nodes(struct sn_supervisor *x, bool all)
{
    int n = x->allocation.host.n, some = 0;
    struct sn_str text = {0};
    bool *asked = sn_alloc_n((size_t)n + 1, sizeof(*asked));
    bool *silent = sn_alloc_n((size_t)n + 1, sizeof(*silent));
    bool told = asked && silent && ask(x, PATIENCE, &text);
    for (int i = 0; told && i < n; i++)
        some += silent[i] = asked[i] = is_to_be_asked(x, i, all);
    if (some && knock(x, text.p, silent))
        take_answers(x, asked, silent);
    remember(x);
    sn_free(asked);
    sn_free(silent);
    sn_str_fini(&text);
}

bool sn_supervisor_is_lost(const struct sn_supervisor *x, const char *name)
{
    for (int i = 0; i < x->allocation.host.n; i++)
        if (strcmp(sn_hostlist_name(&x->allocation.host, i), name) == 0)
            return x->nodes.health[i] >= SN_HEALTH_SILENT;
    return false;
}

const char *sn_supervisor_lost_node(const struct sn_supervisor *x, const struct sn_argv *names)
{
    for (int i = 0; i < names->n; i++)
        if (sn_supervisor_is_lost(x, names->word[i]))
            return names->word[i];
    return NULL;
}

/* Nodes of the attempt whose ranks' records stand still, and that do not answer either. */
static void strike(struct sn_supervisor *x, const char *text, const struct sn_vigil *vigil)
{
    const struct sn_hostlist *host = &x->allocation.host;
    bool *which = sn_alloc_n((size_t)host->n + 1, sizeof(*which));
    int n = 0;
    for (int i = 0; which && i < host->n; i++)
        n += which[i] = vigil && sn_vigil_host_is_silent(vigil, sn_hostlist_name(host, i),
                                                         STRIKES * LOOK_EVERY);
    bool known = n > 0 && knock(x, text, which);
    for (int i = 0; which && i < host->n; i++) {
        x->nodes.strikes[i] = known && which[i] ? x->nodes.strikes[i] + 1 : 0;
        if (x->nodes.strikes[i] >= STRIKES)
            sn_supervisor_node_died(x, sn_hostlist_name(host, i));
    }
    sn_free(which);
}

bool sn_supervisor_has_lost_node(void *self, const struct sn_vigil *vigil)
{
    struct sn_supervisor *x = self;
    struct sn_str text = {0};
    const char *lost = NULL;
    if (!x->step || x->step->names.n == 0 || sn_supervisor_now(x) < x->nodes.next_look)
        return false;
    if (ask(x, SHORT, &text))
        strike(x, text.p, vigil);
    remember(x);
    for (int i = 0; !lost && i < x->allocation.host.n; i++) {
        const char *name = sn_hostlist_name(&x->allocation.host, i);
        for (int j = 0; !lost && j < x->step->names.n; j++)
            if (x->nodes.health[i] == SN_HEALTH_DEAD && strcmp(name, x->step->names.word[j]) == 0)
                lost = name;
    }
    if (lost)
        sn_log(SN_LOG_WARN, "nothing moves, and %s is dead: attempt %d ends", lost,
               x->step->number);
    sn_str_fini(&text);
    x->nodes.next_look = sn_supervisor_now(x) + LOOK_EVERY;
    return lost != NULL;
}
