/*
 * preflight_judge.c - which ranks fail a preflight, and why; nothing is measured here.
 */
#include "lib/base/mem.h"
#include "lib/probe/preflight.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sn_preflight_partner(int units, int unit, int round)
{
    bool odd = units % 2 == 1;
    if (units < 2 || round < 0 || round > (odd ? 2 : 1) || (units == 2 && round > 0))
        return -1;
    if (round == 2) /* of an odd ring the last pair */
        return unit == 0 ? units - 1 : unit == units - 1 ? 0 : -1;
    int other = unit % 2 == round ? unit + 1 : unit - 1;
    if (odd)
        return other >= 0 && other < units ? other : -1;
    return (other + units) % units;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int by_host(const void *a, const void *b)
{
    const struct sn_preflight_rank *x = *(struct sn_preflight_rank *const *)a;
    const struct sn_preflight_rank *y = *(struct sn_preflight_rank *const *)b;
    int order = strcmp(x->host, y->host);
    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

enum sn_status sn_preflight_number(struct sn_preflight *p, struct sn_err *err)
{
    struct sn_preflight_rank **sorted = sn_alloc_n((size_t)p->n, sizeof(void *));
    if (!sorted)
        return sn_fail(err, SN_ENOMEM, "preflight: no memory for %d ranks", p->n);
    for (int i = 0; i < p->n; i++)
        sorted[i] = &p->rank[i];
    qsort(sorted, (size_t)p->n, sizeof(void *), by_host);
    for (int i = 0, first = 0; i < p->n; i++) { /* node: for now the index of its first rank */
        if (i > 0 && strcmp(sorted[i]->host, sorted[i - 1]->host) != 0)
            first = i;
        sorted[i]->local = i - first;
        sorted[i]->node = sorted[first] - p->rank;
    }
    for (int i = 0, next = 0; i < p->n; i++) /* first ranks come before the others of their node */
        p->rank[i].node = p->rank[i].local == 0 ? next++ : p->rank[p->rank[i].node].node;
    sn_free(sorted);
    return SN_OK;
}

/* ---- rates ----------------------------------------------------------------------------------- */

static double gemm_of(const struct sn_preflight_rank *r)
{
    return r->gemm;
}

static double memory_of(const struct sn_preflight_rank *r)
{
    return r->memory;
}

/* The best partner: a good node is not blamed for a bad one. */
static double link_of(const struct sn_preflight_rank *r)
{
    double best = 0;
    for (int k = 0; k < SN_PREFLIGHT_ROUNDS; k++)
        best = r->link[k] > best ? r->link[k] : best;
    return best;
}

/* A NIC that fails slows all ranks of its node, and those tell it more surely than one alone, which
 * may have had no processor for a while; of one rank only much less is a sign. */
#define LEAST_OF_RANK_LINK 0.35

struct rate {
    enum sn_preflight_kind kind;
    const char *what, *unit;
    double (*of)(const struct sn_preflight_rank *r);
    double scale, least; /* part of the median */
};
static const struct rate products = {SN_FLIGHT_PRODUCT, "multiplies", "GFLOP/s",
                                     gemm_of,           1e-9,         SN_PREFLIGHT_LEAST};
static const struct rate copies = {SN_FLIGHT_MEMORY,  "copies memory", "GB/s", memory_of, 1e-9,
                                   SN_PREFLIGHT_LEAST};
static const struct rate messages = {SN_FLIGHT_MESSAGE, "exchanges messages", "GB/s", link_of, 1e-9,
                                     LEAST_OF_RANK_LINK};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of those that are there (> 0), sorted in place; 0: none is. */
static double median(double *v, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (v[i] > 0)
            v[kept++] = v[i];
    if (kept > 1)
        qsort(v, (size_t)kept, sizeof(*v), ascending);
    return kept ? (v[(kept - 1) / 2] + v[kept / 2]) / 2 : 0;
}

__attribute__((format(printf, 2, 3))) static void fail(struct sn_preflight_rank *r, const char *fmt,
                                                       ...)
{
    va_list ap;
    if (!r->pass)
        return; /* the first reason stays */
    r->pass = false;
    va_start(ap, fmt);
    (void)vsnprintf(r->why, sizeof(r->why), fmt, ap);
    va_end(ap);
}

/* Had others its processors, so that it was not the node that was measured? */
static bool is_disturbed(const struct sn_preflight *p, const struct sn_preflight_rank *r,
                         enum sn_preflight_kind k)
{
    if (r->waited[k] > SN_PREFLIGHT_DISTURBED)
        return true;
    for (int i = 0; i < SN_PREFLIGHT_ROUNDS && k == SN_FLIGHT_MESSAGE; i++) {
        int64_t peer = r->partner[i];
        if (peer >= 0 && peer < p->n && p->rank[peer].waited[k] > SN_PREFLIGHT_DISTURBED)
            return true;
    }
    return false;
}

/* Is a rate too small a part of the median? What is hopeless no disturbance explains. */
static bool is_slow(const struct sn_preflight *p, const struct sn_preflight_rank *r,
                    enum sn_preflight_kind k, double part, double least)
{
    if (!(part > 0 && part < least))
        return false;
    return part < SN_PREFLIGHT_HOPELESS || !is_disturbed(p, r, k);
}

static void judge_rate(struct sn_preflight *p, const struct rate *k, double *room)
{
    for (int i = 0; i < p->n; i++)
        room[i] = k->of(&p->rank[i]);
    double middle = median(room, p->n);
    for (int i = 0; i < p->n; i++) {
        double v = k->of(&p->rank[i]);
        if (!is_slow(p, &p->rank[i], k->kind, middle > 0 ? v / middle : 0, k->least))
            continue;
        p->slow |= 1 << k->kind;
        fail(&p->rank[i], "%s at %.3g %s, %.0f %% of the median of all ranks", k->what,
             v * k->scale, k->unit, 100 * v / middle);
    }
}

/* Who alone has to share its processors has company that does not belong there: a process that an
 * earlier job left. Where many do, the job is meant to be so. */
static void judge_company(struct sn_preflight *p, int nodes, double *room)
{
    static const double much = 0.4, little = 0.02;
    for (int i = 0; i < p->n; i++)
        room[i] = p->rank[i].waited[SN_FLIGHT_PRODUCT];
    double middle = median(room, p->n); /* of those that waited at all */
    int waited = 0;
    for (int i = 0; i < p->n; i++)
        waited += p->rank[i].waited[SN_FLIGHT_PRODUCT] > little;
    if (nodes < 3 || (2 * waited >= p->n && middle > little))
        return;
    for (int i = 0; i < p->n; i++) {
        double v = p->rank[i].waited[SN_FLIGHT_PRODUCT];
        if (v <= much)
            continue;
        p->slow |= 1 << SN_FLIGHT_PRODUCT;
        fail(&p->rank[i],
             "waited %.0f %% of the time for its processors: something else runs there", 100 * v);
    }
}

/* The best rank of each node speaks for its node. `best` and `room` are for n numbers. */
static void judge_nodes(struct sn_preflight *p, int nodes, double *best, double *room)
{
    if (nodes < 2)
        return; /* there is no network between ranks of one node */
    for (int i = 0; i < nodes; i++)
        best[i] = 0;
    for (int i = 0; i < p->n; i++) {
        int64_t node = p->rank[i].node;
        best[node] = best[node] > link_of(&p->rank[i]) ? best[node] : link_of(&p->rank[i]);
    }
    memcpy(room, best, (size_t)nodes * sizeof(*room));
    double middle = median(room, nodes);
    for (int i = 0; i < p->n; i++) {
        double v = best[p->rank[i].node];
        if (!is_slow(p, &p->rank[i], SN_FLIGHT_MESSAGE, middle > 0 ? v / middle : 0,
                     SN_PREFLIGHT_LEAST))
            continue;
        p->slow |= 1 << SN_FLIGHT_MESSAGE;
        fail(&p->rank[i], "its node exchanges messages at %.3g GB/s, %.0f %% of the median",
             v * 1e-9, 100 * v / middle);
    }
    judge_rate(p, &messages, room);
}

/* ---- wrong data ------------------------------------------------------------------------------ */

/* How many exchanges of a rank went wrong, on either side of them. */
static int wrong_exchanges(const struct sn_preflight *p, const struct sn_preflight_rank *r)
{
    int n = 0;
    for (int k = 0; k < SN_PREFLIGHT_ROUNDS; k++) {
        int64_t peer = r->partner[k];
        if (peer >= 0 && peer < p->n)
            n += ((r->wrong_rounds | p->rank[peer].wrong_rounds) >> k & 1) != 0;
    }
    return n;
}

/* An altered message is the fault of either side: of the one with more of them, or of both. */
static void judge_messages(struct sn_preflight *p)
{
    for (int i = 0; i < p->n; i++) {
        struct sn_preflight_rank *r = &p->rank[i];
        int mine = wrong_exchanges(p, r);
        for (int k = 0; k < SN_PREFLIGHT_ROUNDS && mine > 0; k++) {
            int64_t peer = r->partner[k];
            if (peer < 0 || peer >= p->n)
                continue;
            bool wrong = ((r->wrong_rounds | p->rank[peer].wrong_rounds) >> k & 1) != 0;
            if (wrong && mine >= wrong_exchanges(p, &p->rank[peer]))
                fail(r, "messages between it and rank %d (%s) were altered", (int)peer,
                     p->rank[peer].host);
        }
    }
}

/* Does storage fail on every node that tried it? Then it is no node's fault. */
static int error_of_all(const struct sn_preflight *p)
{
    int error = 0;
    for (int i = 0; i < p->n; i++) {
        const struct sn_preflight_rank *r = &p->rank[i];
        if (r->wrong & SN_FAILED_STORAGE)
            error = (int)r->error;
        else if (r->storage_write > 0)
            return 0;
    }
    return error;
}

static void judge_data(struct sn_preflight *p)
{
    for (int i = 0; i < p->n; i++) {
        struct sn_preflight_rank *r = &p->rank[i];
        if (r->lost)
            fail(r, "it did not answer within %d s", SN_PREFLIGHT_PATIENCE);
        if (r->wrong & SN_WRONG_PRODUCT)
            fail(r, "a product of matrices was wrong");
        if (r->wrong & SN_WRONG_MEMORY)
            fail(r, "memory did not keep what was written");
        if (r->wrong & SN_WRONG_STORAGE)
            fail(r, "a file in checkpoint.dir was read back otherwise than it was written");
        if ((r->wrong & SN_FAILED_STORAGE) && !p->storage_error)
            fail(r, "checkpoint.dir: %s", strerror((int)r->error));
    }
}

static bool all_pass(const struct sn_preflight *p)
{
    for (int i = 0; i < p->n; i++)
        if (!p->rank[i].pass)
            return false;
    return true;
}

enum sn_status sn_preflight_judge(struct sn_preflight *p, struct sn_err *err)
{
    double *room = sn_alloc_n(2 * (size_t)p->n, sizeof(*room));
    if (!room)
        return sn_fail(err, SN_ENOMEM, "preflight: no memory for %d ranks", p->n);
    int nodes = 0;
    for (int i = 0; i < p->n; i++) {
        p->rank[i].pass = true;
        p->rank[i].why[0] = '\0';
        nodes += p->rank[i].local == 0;
    }
    p->storage_error = error_of_all(p);
    judge_data(p);
    judge_messages(p);
    bool good_data = all_pass(p);
    p->slow = 0;
    judge_rate(p, &products, room);
    judge_rate(p, &copies, room);
    judge_company(p, nodes, room);
    judge_nodes(p, nodes, room, room + p->n);
    sn_free(room);
    p->pass = all_pass(p);
    p->slow = good_data ? p->slow : 0; /* measuring again would not help */
    return SN_OK;
}
