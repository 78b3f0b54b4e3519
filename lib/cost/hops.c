#include "lib/cost/hops.h"

#include "lib/machine/named.h"

#include <stdarg.h>
#include <stdio.h>

static int answer_with(int answer, char *why, size_t room, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int answer_with(int answer, char *why, size_t room, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (why)
        (void)vsnprintf(why, room, fmt, ap);
    va_end(ap);
    return answer;
}

/* Members of a group are `apart` ranks from each other, and a group begins at a multiple of
 * members x apart, but for what is less than `apart`. */
int sn_hops_even(const struct sn_machine *m, const struct sn_grid *g, char *why, size_t room)
{
    int members = sn_group_size(g, 0, SN_GROUP_EXPERT), on_node = m->devices;
    if (members == 1)
        return answer_with(0, why, room, "no experts are shared out");
    int apart = sn_group_member(g, 0, SN_GROUP_EXPERT, 1);
    int64_t block = (int64_t)members * apart;
    if (on_node < 1 || m->n_levels < 2 || (block <= on_node && on_node % block == 0))
        return answer_with(0, why, room, "the ranks that share experts out are on one node");
    if (apart % on_node == 0)
        return answer_with(0, why, room,
                           "each rank that shares experts out is on a node of its own");
    if (on_node % apart == 0 && block % on_node == 0)
        return answer_with(on_node / apart, why, room, "%d on each of %d nodes", on_node / apart,
                           (int)(block / on_node));
    return answer_with(0, why, room,
                       "%d ranks that share experts out, %d apart, lie unevenly on nodes of %d",
                       members, apart, on_node);
}

double sn_hops_price(struct sn_pricer *p, const struct sn_grid *g, int64_t e, enum sn_dtype dtype)
{
    static const enum sn_group one[] = {SN_GROUP_EXPERT};
    static const enum sn_group two[] = {SN_GROUP_EXPERT_NODE, SN_GROUP_EXPERT_RAIL};
    const enum sn_group *q = g->expert_node ? two : one;
    int n = g->expert_node ? 2 : 1;
    double seconds = 0;
    for (int i = 0; i < n; i++)
        sn_span_of(&p->span[q[i]], p->machine, g, q[i]);
    for (int i = 0; i < n; i++)
        seconds += sn_price_collective(p, SN_ALL_TO_ALL, e / p->span[q[i]].members, dtype, q[i]);
    return seconds;
}

static void compare(struct sn_hops *h, struct sn_pricer *p, const struct sn_config *c,
                    const struct sn_grid *g)
{
    const struct sn_layout_config *l = &c->layout;
    int64_t shares =
        l->drop_duplicates == SN_DUPLICATES_DROPPED && sn_config_fold(c) == 1 ? l->tensor : 1;
    int64_t e = sn_expert_rows(c) * c->model.hidden * sn_config_slices(c) / shares;
    struct sn_grid hops = *g;
    hops.expert_node = 0;
    h->one = sn_hops_price(p, &hops, e, c->train.precision);
    hops.expert_node = l->expert > 1 && l->expert_node > 1 ? l->expert_node : h->even;
    if (hops.expert_node > 0)
        h->two = sn_hops_price(p, &hops, e, c->train.precision);
}

void sn_hops_choose(struct sn_hops *out, const struct sn_config *c, const struct sn_grid *g,
                    const struct sn_machine *m, const struct sn_software *s)
{
    struct sn_pricer p = {.machine = m, .software = s, .precision = c->train.precision, .grid = *g};
    struct sn_hops h = {.node = 1};
    h.even = sn_hops_even(m, g, h.why, sizeof(h.why));
    if (sn_config_slices(c) > 1) {
        h.even = 0;
        (void)snprintf(h.why, sizeof(h.why), "rows go to all slices of experts at once");
    }
    if (c->model.experts.router == SN_ROUTER_DENSE)
        h.even = answer_with(0, h.why, sizeof(h.why),
                             "all experts compute all tokens, which are gathered");
    if (c->layout.compress.coding[SN_CODED_EXPERT].on)
        h.even =
            answer_with(0, h.why, sizeof(h.why), "rows are compressed, and would be at each hop");
    if (sn_config_expert_members(c) > 1)
        compare(&h, &p, c, g);
    if (c->layout.expert <= 1)
        h.node = 1; /* slices of one part of the experts: nothing to hop between */
    else if (c->layout.expert_node > 0)
        h.node = c->layout.expert_node;
    else if (h.even > 0 && h.two < h.one)
        h.node = h.even;
    *out = h;
}

enum sn_status sn_hops_resolve(struct sn_config *c, struct sn_err *err)
{
    struct sn_machine m = {0};
    struct sn_software s;
    struct sn_grid g;
    struct sn_hops h = {.node = 1};
    if (c->layout.expert <= 1 || c->layout.expert_node > 0)
        return SN_OK;
    if (sn_names_machine(c)) {
        SN_TRY(sn_machine_of(&m, c, NULL, err)); /* its own sentence names the file */
        enum sn_status st = sn_software_of(&s, c, NULL, err);
        if (st == SN_OK)
            st = sn_job_grid(&g, c, err);
        if (st == SN_OK)
            sn_hops_choose(&h, c, &g, &m, &s);
        sn_machine_fini(&m);
        if (st != SN_OK)
            return sn_err_prefix(err, "layout.expert_node: auto");
    }
    c->layout.expert_node = h.node;
    return SN_OK;
}
