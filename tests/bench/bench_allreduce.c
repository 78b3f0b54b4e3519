/*
 * bench_allreduce.c - collectives over the ranks that mpirun started, by messages and through the
 * window of the host: time and bus bandwidth (NCCL's convention: 2 (P-1)/P S/t of an all-reduce,
 * (P-1)/P S/t of the others) by size, and what of an all-reduce hides behind computing.
 *
 *   tests/mpi/run -n 4 build/tests/bench/bench_allreduce [MAX_MIB]
 *
 * Times are of the slowest rank, median of the repeats; sums are checked.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/comm/comm_engine.h"
#include "lib/layout/collective.h"
#include "tests/bench/bench.h"
#include "tests/lib/comm_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPEATS_MAX = 101 };

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof(*x), bench_by_value);
    return x[n / 2];
}

static void must(enum sn_status st, const struct sn_err *err)
{
    if (st == SN_OK)
        return;
    (void)fprintf(stderr, "bench_allreduce: %s\n", err->text);
    sn_comm_abort_mpi(1);
}

/* Work of about `seconds` that shares nothing with the communication but the cores. */
static double compute(int64_t rounds)
{
    double x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int64_t i = 0; i < rounds; i++)
        for (int k = 0; k < 8; k++)
            x[k] = x[k] * 0.999999 + 1e-6;
    return x[0] + x[7];
}

struct bench {
    struct sn_comm *comm;
    float *buf, *out;
    void *staging;
    volatile double sink;
};

/* One all-reduce of n floats while computing `rounds`; seconds from a common start. */
static double once(struct bench *b, int64_t n, int64_t rounds)
{
    struct sn_err err;
    must(b->comm->ops->barrier(b->comm, &err), &err);
    double t = sn_clock();
    sn_request request = 0;
    if (n)
        request = post_sum(b->comm, b->buf, n, SN_F32, b->staging);
    if (rounds)
        b->sink = compute(rounds);
    must(b->comm->ops->wait(b->comm, request, &err), &err);
    return sn_clock() - t;
}

/* Largest over ranks: rank r fills slot r, the others add 0. */
static double slowest(struct bench *b, double mine)
{
    double all[64] = {0};
    struct sn_err err;
    int size = b->comm->size;
    all[b->comm->rank] = mine;
    must(b->comm->ops->wait(b->comm, post_sum(b->comm, all, size, SN_F64, b->staging), &err), &err);
    for (int i = 0; i < size; i++)
        mine = all[i] > mine ? all[i] : mine;
    return mine;
}

static double measure(struct bench *b, int64_t n, int64_t rounds, int repeats)
{
    double t[REPEATS_MAX];
    (void)once(b, n, rounds);
    for (int i = 0; i < repeats; i++)
        t[i] = once(b, n, rounds);
    return slowest(b, median(t, repeats));
}

/* As once, of any kind and transport, with `bytes` of result or of input, whichever is larger. */
static double collective(struct bench *b, enum sn_collective kind, int64_t bytes)
{
    struct sn_err err;
    int64_t n = bytes / 4 / (kind == SN_ALL_REDUCE ? 1 : b->comm->size);
    struct sn_transfer t = {.kind = kind,
                            .group = SN_GROUP_WORLD,
                            .n = n,
                            .in = b->buf,
                            .out = b->out,
                            .staging = b->staging,
                            .label = "bench"};
    must(b->comm->ops->barrier(b->comm, &err), &err);
    double began = sn_clock();
    must(b->comm->ops->wait(b->comm, b->comm->ops->post(b->comm, &t), &err), &err);
    return sn_clock() - began;
}

static double median_of(struct bench *b, enum sn_collective kind, int64_t bytes)
{
    double t[REPEATS_MAX];
    int repeats = bytes > (8 << 20) ? 5 : bytes > (1 << 20) ? 11 : 51;
    (void)collective(b, kind, bytes);
    for (int i = 0; i < repeats; i++)
        t[i] = collective(b, kind, bytes);
    return slowest(b, median(t, repeats));
}

/* Each kind by messages and through the window. */
static void sweep(struct bench *b, int64_t max)
{
    int size = b->comm->size;
    if (b->comm->rank == 0)
        printf("# %d ranks, fp32, bytes of the longer side; bus bandwidth of the faster one\n"
               "%-15s %10s %12s %10s %8s\n",
               size, "kind", "bytes", "messages_us", "window_us", "GB/s");
    for (int kind = SN_ALL_REDUCE; kind <= SN_ALL_TO_ALL; kind++)
        for (int64_t bytes = 256; bytes <= max; bytes *= 8) {
            double t[2];
            for (int window = 0; window < 2; window++) {
                sn_engine_use_shm(b->comm, window);
                t[window] = median_of(b, (enum sn_collective)kind, bytes);
            }
            double best = t[0] < t[1] ? t[0] : t[1];
            if (b->comm->rank == 0)
                printf("%-15s %10lld %12.1f %10.1f %8.2f\n",
                       sn_collective_name((enum sn_collective)kind), (long long)bytes, t[0] * 1e6,
                       t[1] * 1e6,
                       (kind == SN_ALL_REDUCE ? 2.0 : 1.0) * (size - 1) / size * (double)bytes /
                           best * 1e-9);
        }
}

static void overlap(struct bench *b, int64_t bytes)
{
    memset(b->buf, 0, (size_t)bytes);
    double comm = measure(b, bytes / 4, 0, 9);
    double t = measure(b, 0, 1000000, 5);
    int64_t rounds = (int64_t)(1e6 * comm / t) + 1; /* as long as the communication */
    double work = measure(b, 0, rounds, 9), both = measure(b, bytes / 4, rounds, 9);
    if (b->comm->rank == 0)
        printf("# overlap at %lld MiB: all-reduce %.2f ms, compute %.2f ms, both %.2f ms; hidden "
               "%.0f %% of the shorter\n",
               (long long)bytes >> 20, comm * 1e3, work * 1e3, both * 1e3,
               100 * (comm + work - both) / (comm < work ? comm : work));
}

static int sums_are_right(struct bench *b, int64_t n)
{
    struct sn_err err;
    for (int64_t i = 0; i < n; i++)
        b->buf[i] = (float)(i % 1000 + b->comm->rank);
    must(b->comm->ops->wait(b->comm, post_sum(b->comm, b->buf, n, SN_F32, b->staging), &err), &err);
    int size = b->comm->size;
    for (int64_t i = 0; i < n; i++)
        if (b->buf[i] != (float)(size * (i % 1000) + size * (size - 1) / 2))
            return 0;
    return 1;
}

/* `make bench` starts one process: become two benchmarks under mpirun. */
static int start_under_mpirun(char *self)
{
    static const char script[] = "tests/mpi/run -n 2 \"$0\" && tests/mpi/run -n 4 \"$0\"";
    (void)execl("/bin/sh", "sh", "-c", script, self, (char *)NULL);
    perror("bench_allreduce: /bin/sh");
    return 1;
}

int main(int argc, char **argv)
{
    bench_check();
    if (sn_comm_launched_ranks() == 1)
        return start_under_mpirun(argv[0]);
    int64_t max = (argc > 1 ? atoll(argv[1]) : 64) << 20;
    struct sn_err err;
    struct bench b = {0};
    must(sn_comm_create_mpi(&b.comm, &err), &err);
    if (b.comm->rank == 0)
        bench_head();
    struct sn_grid g = test_grid(1, 1, b.comm->size, 1);
    must(b.comm->ops->set_grid(b.comm, &g, &err), &err);
    if (b.comm->size > 64 || max < (4 << 20))
        must(sn_fail(&err, SN_EINPUT, "want up to 64 ranks and at least 4 MiB"), &err);
    b.buf = sn_arena_map((size_t)max);
    b.out = sn_arena_map((size_t)max);
    b.staging = sn_arena_map((size_t)sn_collective_staging(b.comm->size));
    if (!b.buf || !b.out || !b.staging)
        must(sn_fail(&err, SN_ENOMEM, "no memory"), &err);
    if (!sums_are_right(&b, max / 4))
        must(sn_fail(&err, SN_EFAIL, "wrong sums"), &err);
    sweep(&b, max);
    overlap(&b, max < (16 << 20) ? max : 16 << 20);
    sn_arena_unmap(b.out, (size_t)max);
    sn_arena_unmap(b.buf, (size_t)max);
    sn_arena_unmap(b.staging, (size_t)sn_collective_staging(b.comm->size));
    b.comm->ops->destroy(b.comm);
    return 0;
}
