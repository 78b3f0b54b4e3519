/*
 * links.c - what the links between ranks can do, as the `links` of a machine file.
 *
 *   LAUNCH 2H build/tests/bench/pace/links HOSTS [message]   two ranks on each of HOSTS hosts
 *
 * Measured through lib/comm/comm as the trainer uses it, naps of its thread included: ranks 0 and 1
 * (on one host), and ranks 0 and 2 (on two), exchange messages in both directions at once, some in
 * a row, as training does: what a link lets pass for free after a pause is no rate. Bandwidth is
 * the slope between a middle and a large message; crowd is what is left of it when all ranks send
 * to the other hosts, as they do in training: with one rank of each host alone more messages meet
 * at a receiver (0.79 instead of 0.92 of the rate, at 400 Mbit/s). What a message costs its sender, where it is
 * asked for, is the slope between short all-to-alls of all ranks and
 * of one rank of each host, which are twice and once as many messages between hosts; on a host that
 * between one and several at once. Times are
 * lower quartiles. Rank 0 prints YAML with the raw times as comments.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "tests/lib/comm_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 31, FEW = 9, TOGETHER = 4, BURST = 8, SIZES = 6 };
static const int64_t sizes[SIZES] = {64, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20};
enum { SHORT = 0, MIDDLE = 3, LARGE = SIZES - 1 };

struct bench {
    struct sn_comm *comm;
    char *out, *in, *staging;
};

static void must(enum sn_status st, const struct sn_err *err)
{
    if (st == SN_OK)
        return;
    (void)fprintf(stderr, "links: %s\n", err->text);
    sn_comm_abort_mpi(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What else runs on the machine only adds. */
static double quartile(double *x, int n)
{
    qsort(x, (size_t)n, sizeof(*x), by_value);
    return x[n / 4];
}

static void barrier(struct bench *b)
{
    struct sn_err err;
    must(b->comm->ops->barrier(b->comm, &err), &err);
}

/* One message to `peer` and one from it. */
static void exchange(struct bench *b, int peer, int64_t bytes)
{
    struct sn_err err;
    struct sn_transfer t = {.kind = SN_RECV,
                            .group = SN_GROUP_WORLD,
                            .dtype = SN_F32,
                            .n = bytes / 4,
                            .out = b->in,
                            .peer = peer,
                            .label = "links"};
    sn_request in = b->comm->ops->post(b->comm, &t);
    t.kind = SN_SEND;
    t.in = b->out;
    sn_request out = b->comm->ops->post(b->comm, &t);
    must(b->comm->ops->wait(b->comm, in, &err), &err);
    must(b->comm->ops->wait(b->comm, out, &err), &err);
}

/* An all-reduce of the ranks of each host. */
static void reduce(struct bench *b, int64_t bytes)
{
    struct sn_err err;
    struct sn_transfer t = {.kind = SN_ALL_REDUCE,
                            .group = SN_GROUP_TENSOR,
                            .dtype = SN_F32,
                            .n = bytes / 4,
                            .out = b->in,
                            .staging = b->staging,
                            .label = "links"};
    must(b->comm->ops->wait(b->comm, b->comm->ops->post(b->comm, &t), &err), &err);
}

/* The first ranks of all hosts gather `bytes` of each, and at the same time the second ones. */
static void gather(struct bench *b, int64_t bytes)
{
    struct sn_err err;
    struct sn_transfer t = {.kind = SN_ALL_GATHER,
                            .group = SN_GROUP_DATA,
                            .dtype = SN_F32,
                            .n = bytes / 4,
                            .in = b->out,
                            .out = b->in,
                            .staging = b->staging,
                            .label = "links"};
    must(b->comm->ops->wait(b->comm, b->comm->ops->post(b->comm, &t), &err), &err);
}

/* A short all-to-all: of all ranks, or, at the same time, of the first and of the second of each
 * host. */
static double all_to_all(struct bench *b, enum sn_group q)
{
    struct sn_err err;
    double t[REPEATS] = {0};
    struct sn_transfer x = {.kind = SN_ALL_TO_ALL,
                            .group = q,
                            .dtype = SN_F32,
                            .n = sizes[SHORT] / 4,
                            .in = b->out,
                            .out = b->in,
                            .staging = b->staging,
                            .label = "links"};
    for (int i = -2; i < REPEATS; i++) {
        barrier(b);
        double began = sn_clock();
        for (int k = 0; k < TOGETHER; k++)
            must(b->comm->ops->wait(b->comm, b->comm->ops->post(b->comm, &x), &err), &err);
        if (i >= 0)
            t[i] = (sn_clock() - began) / TOGETHER;
    }
    return quartile(t, REPEATS);
}

/* `n` short messages at once to the other rank of the host and as many from it, on all hosts. */
static double burst(struct bench *b, int n)
{
    struct sn_err err;
    double t[REPEATS] = {0};
    sn_request request[2 * BURST];
    struct sn_transfer x = {.group = SN_GROUP_TENSOR,
                            .dtype = SN_F32,
                            .n = sizes[SHORT] / 4,
                            .in = b->out,
                            .out = b->in,
                            .peer = 1 - b->comm->rank % 2,
                            .label = "links"};
    for (int i = -2; i < REPEATS; i++) {
        barrier(b);
        double began = sn_clock();
        for (int k = 0; k < 2 * n; k++) {
            x.kind = k < n ? SN_RECV : SN_SEND;
            request[k] = b->comm->ops->post(b->comm, &x);
        }
        for (int k = 0; k < 2 * n; k++)
            must(b->comm->ops->wait(b->comm, request[k], &err), &err);
        if (i >= 0)
            t[i] = sn_clock() - began;
    }
    return quartile(t, REPEATS);
}

/* Part in what goes on between rank 0 and `peer`, if any. */
static void once(struct bench *b, int peer, int64_t bytes)
{
    int rank = b->comm->rank;
    if (peer < 0)
        gather(b, bytes);
    else if (peer == 0 && rank < 2)
        reduce(b, bytes);
    else if (peer > 0 && (rank == 0 || rank == peer))
        exchange(b, peer - rank, bytes);
}

/* Between rank 0 and `peer`; 0: all-reduces of rank 0's host, -1: all-gathers
 * between all hosts. Only rank 0 learns the times. */
static void measure(struct bench *b, int peer, double seconds[SIZES])
{
    for (int s = 0; s < SIZES; s++) {
        double t[REPEATS] = {0};
        int repeats = sizes[s] < 256 << 10 ? REPEATS : FEW;
        for (int i = -2; i < repeats; i++) {
            double began;
            barrier(b);
            began = sn_clock();
            for (int k = 0; k < TOGETHER; k++)
                once(b, peer, sizes[s]);
            if (i >= 0)
                t[i] = (sn_clock() - began) / TOGETHER;
        }
        seconds[s] = quartile(t, repeats);
    }
}

static double rate(const double seconds[SIZES])
{
    return (double)(sizes[LARGE] - sizes[MIDDLE]) / (seconds[LARGE] - seconds[MIDDLE]);
}

/* What a message takes beyond its bytes: of a short one, or of a middle one where that is more
 * (the handshake before a message that is not sent at once). */
static double latency(const double seconds[SIZES])
{
    return fmax(seconds[SHORT], seconds[MIDDLE] - (double)sizes[MIDDLE] / rate(seconds));
}

/* What is left of the rate of a pair when all ranks send to the other hosts: of bytes that a host
 * receives for its two. */
static double crowd(int hosts, const double seconds[SIZES], double pair)
{
    double vstage = 0;
    for (int s = MIDDLE; s < LARGE; s++)
        vstage += (double)(2 * (hosts - 1) * sizes[s]) / seconds[s] / pair / (LARGE - MIDDLE);
    return fmin(vstage, 1);
}

static void print_level(const char *name, int ranks, const double seconds[SIZES])
{
    printf("  - {name: %s, ranks: %d, latency: %.2e, device: %.4e", name, ranks, latency(seconds),
           rate(seconds));
}

static void print_times(const char *what, const double seconds[SIZES])
{
    printf("#   %s:", what);
    for (int s = 0; s < SIZES; s++)
        printf(" %lld B %.0f us%s", (long long)sizes[s], seconds[s] * 1e6,
               s + 1 < SIZES ? "," : "\n");
}

int main(int argc, char **argv)
{
    struct sn_err err;
    struct bench b = {0};
    double host[SIZES], inside[SIZES], between[SIZES], gathered[SIZES];
    int hosts = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    bool wants_message = argc == 3 && strcmp(argv[2], "message") == 0;
    must(sn_comm_create_mpi(&b.comm, &err), &err);
    if (hosts < 2 || b.comm->size != 2 * hosts)
        must(sn_fail(&err, SN_EINPUT,
                     "usage: links HOSTS [message], with two ranks on each of at least 2"),
             &err);
    if (b.comm->node_size != 2)
        must(
            sn_fail(&err, SN_EFAIL, "%d ranks share this host's memory; want 2", b.comm->node_size),
            &err);
    struct sn_grid g = test_grid(2, 1, hosts, 1);
    must(b.comm->ops->set_grid(b.comm, &g, &err), &err);
    size_t result = (size_t)(hosts * sizes[LARGE]), send = (size_t)sizes[LARGE];
    size_t all = result + send + (size_t)sn_collective_staging(2 * hosts);
    b.in = sn_arena_map(all);
    if (!b.in)
        must(sn_fail(&err, SN_ENOMEM, "no memory"), &err);
    b.out = b.in + result;
    b.staging = b.out + send;
    measure(&b, 0, host);
    measure(&b, 1, inside);
    measure(&b, 2, between);
    measure(&b, -1, gathered);
    double all_ranks = wants_message ? all_to_all(&b, SN_GROUP_WORLD) : 0;
    double one_each = wants_message ? all_to_all(&b, SN_GROUP_DATA) : 0;
    double many = wants_message ? burst(&b, BURST) : 0, single = wants_message ? burst(&b, 1) : 0;
    if (b.comm->rank == 0) {
        printf("# measured by tests/bench/pace/links:\n");
        print_times("all-reduce on a host", host);
        print_times("exchange on a host", inside);
        print_times("exchange between hosts", between);
        print_times("all-gather of all hosts, bytes of each", gathered);
        if (wants_message)
            printf("#   short: %d messages on a host %.0f us, one %.0f us; all-to-all of all ranks "
                   "%.0f us, of one of each host %.0f us\n",
                   (int)BURST, many * 1e6, single * 1e6, all_ranks * 1e6, one_each * 1e6);
        printf("links:\n");
        print_level("host", 2, inside);
        if (wants_message)
            printf(", message: %.2e", fmax(0, (many - single) / (BURST - 1)));
        printf("}\n");
        print_level("leaf", 0, between);
        printf(", domain: %.4e", rate(between)); /* a host's ranks share its link */
        if (wants_message)
            printf(", message: %.2e", fmax(0, (all_ranks - one_each) / (hosts - 1)));
        printf(", crowd: %.3f}\n", crowd(hosts, gathered, rate(between)));
    }
    sn_arena_unmap(b.in, all);
    b.comm->ops->destroy(b.comm);
    return 0;
}
