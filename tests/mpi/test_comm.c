/*
 * test_comm.c - the MPI communicator, on any number of ranks up to 16.
 *
 * Rank 0 prints the points; another rank speaks only where it disagrees, and then exits with 1.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include "lib/layout/collective.h"
#include "tests/lib/comm_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <time.h>

enum { GUARD = 64, GUARD_BYTE = 0x5a, RANKS_MAX = 16 };

static void point(const struct sn_comm *c, bool good, const char *what)
{
    if (c->rank == 0) {
        tap_ok(good, "%s", what);
    } else if (!good) {
        printf("not ok - %s (rank %d)\n", what, c->rank);
        tap_failed++;
    }
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Memory whose surroundings are looked at when it is given back. */
static char *guarded(int64_t bytes)
{
    char *p = sn_alloc((size_t)bytes + 2 * (size_t)GUARD);
    memset(p, GUARD_BYTE, (size_t)bytes + 2 * (size_t)GUARD);
    return p + GUARD;
}

static bool give_back(char *p, int64_t bytes)
{
    bool good = true;
    for (int i = 0; i < GUARD; i++)
        good = good && p[-1 - i] == GUARD_BYTE && p[bytes + i] == GUARD_BYTE;
    sn_free(p - GUARD);
    return good;
}

static double get(const void *buf, enum sn_dtype dtype, int64_t i)
{
    return dtype == SN_F32 ? (double)((const float *)buf)[i] : ((const double *)buf)[i];
}

static void set(void *buf, enum sn_dtype dtype, int64_t i, double x)
{
    if (dtype == SN_F32)
        ((float *)buf)[i] = (float)x;
    else
        ((double *)buf)[i] = x;
}

/* Multiples of 1/8 so small that their sums are exact in any order. */
static double easy(int rank, int64_t i)
{
    return (double)((i * 7 + rank * 13) % 101 - 50) / 8;
}

/* Of very unlike size, so that another order gives another sum. */
static double hard(int rank, int64_t i)
{
    uint64_t key = sn_rng_key(20240607, "hard"), at = (uint64_t)rank << 40 | (uint64_t)i;
    uint64_t bits = sn_rng_bits(key, at);
    double scale = (double)(1 << bits % 30);
    return ((double)(bits >> 40) / (double)(1 << 24) - 0.5) * scale;
}

static double serial_sum(double (*value)(int, int64_t), int size, enum sn_dtype dtype, int64_t i)
{
    if (dtype == SN_F64) {
        double sum = value(0, i);
        for (int r = 1; r < size; r++)
            sum += value(r, i);
        return sum;
    }
    float sum = (float)value(0, i);
    for (int r = 1; r < size; r++)
        sum += (float)value(r, i);
    return (double)sum;
}

/* One all-reduce of n values; true when every bit, every neighbour and the traffic are right. */
static bool reduces(struct sn_comm *c, double (*value)(int, int64_t), int64_t n,
                    enum sn_dtype dtype)
{
    struct sn_err err;
    int64_t bytes = n * (int64_t)sn_dtype_size(dtype), room = sn_collective_staging(c->size);
    char *buf = guarded(bytes), *staging = guarded(room);
    for (int64_t i = 0; i < n; i++)
        set(buf, dtype, i, value(c->rank, i));
    (void)take_sent(c);
    sn_request t = post_sum(c, buf, n, dtype, staging);
    bool good = c->ops->wait(c, t, &err) == SN_OK;
    good = good && take_sent(c) == sn_collective_bytes(SN_ALL_REDUCE, n, dtype, c->size, c->rank);
    for (int64_t i = 0; i < n && good; i++)
        good = get(buf, dtype, i) == serial_sum(value, c->size, dtype, i);
    good = give_back(buf, bytes) && good;
    return give_back(staging, room) && good;
}

static void every_rank_knows_its_place(struct sn_comm *c)
{
    point(c, c->size == sn_comm_launched_ranks() && c->rank >= 0 && c->rank < c->size,
          "the group has the ranks that the launcher started");
    point(c, c->node_size == c->size && c->node_rank == c->rank, "on one host all are neighbours");
}

static void groups_are_made(struct sn_comm *c)
{
    struct sn_err err;
    struct sn_grid wrong = test_grid(1, 1, c->size + 1, 1), all = test_grid(1, 1, c->size, 1);
    point(c, c->ops->set_grid(c, &wrong, &err) == SN_EINPUT && err.agreed,
          "a grid of another size is refused by all");
    point(c, c->ops->set_grid(c, &all, &err) == SN_OK, "the grid's groups are made");
}

static void sums_and_traffic_are_exact(struct sn_comm *c)
{
    static const int64_t lengths[] = {0,
                                      1,
                                      2,
                                      15,
                                      16,
                                      17,
                                      63,
                                      64,
                                      65,
                                      127,
                                      128,
                                      129,
                                      1000,
                                      4096,
                                      5003,
                                      1 << 18,
                                      (1 << 18) + 1,
                                      (1 << 20) + 3};
    for (int d = 0; d < 2; d++) {
        bool good = true;
        for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]) && good; k++)
            good = reduces(c, easy, lengths[k], d ? SN_F64 : SN_F32);
        point(
            c, good,
            d ? "fp64: sums are exact and the bytes sent are the formula's, for 0..1048579 elements"
              : "fp32: sums are exact and the bytes sent are the formula's, for 0..1048579 "
                "elements");
    }
}

static void sums_are_taken_in_rank_order(struct sn_comm *c)
{
    bool good = true;
    for (int repeat = 0; repeat < 2; repeat++)
        good = good && reduces(c, hard, 50, SN_F32) && reduces(c, hard, 5003, SN_F64) &&
               reduces(c, hard, 300001, SN_F32);
    point(c, good, "sums of unlike numbers equal the serial sum in rank order, bit for bit, twice");
}

static void many_operations_run_in_order(struct sn_comm *c)
{
    enum { N = 300, LENGTH = 700 }; /* more than the ring holds */
    struct sn_err err;
    float *buf = sn_alloc_n(N * LENGTH, sizeof(*buf));
    void *staging = sn_alloc((size_t)sn_collective_staging(c->size));
    double total[N];
    sn_request t = 0;
    bool good = true;
    for (int64_t i = 0; i < N * LENGTH; i++)
        buf[i] = (float)easy(c->rank, i);
    (void)take_sent(c);
    int64_t planned = 0;
    for (int64_t k = 0; k < N; k++) { /* buckets of 1, 8, ... elements, and a scalar now and then */
        int64_t n = 1 + k * 7 % LENGTH;
        t = post_sum(c, buf + k * LENGTH, n, SN_F32, staging);
        planned += sn_collective_bytes(SN_ALL_REDUCE, n, SN_F32, c->size, c->rank);
        total[k] = (double)k;
        if (k % 10 == 0) {
            t = post_sum(c, &total[k], 1, SN_F64, staging);
            planned += sn_collective_bytes(SN_ALL_REDUCE, 1, SN_F64, c->size, c->rank);
        }
    }
    good = c->ops->wait(c, t, &err) == SN_OK; /* the last posted operation is the 291st bucket's */
    good = good && c->ops->barrier(c, &err) == SN_OK && take_sent(c) == planned;
    for (int64_t k = 0; k < N && good; k++) {
        int64_t n = 1 + k * 7 % LENGTH;
        for (int64_t i = 0; i < LENGTH && good; i++) {
            int64_t at = k * LENGTH + i;
            double want = i < n ? serial_sum(easy, c->size, SN_F32, at) : easy(c->rank, at);
            good = (double)buf[at] == want;
        }
        good = good && total[k] == (double)(k % 10 == 0 ? k * c->size : k);
    }
    point(c, good, "330 operations in flight, more than the ring holds, share one staging");
    sn_free(staging);
    sn_free(buf);
}

static void success_is_agreed_in_silence(struct sn_comm *c)
{
    struct sn_err err = {.status = SN_OK, .text = "untouched"};
    point(c,
          c->ops->agree(c, SN_OK, &err) == SN_OK && strcmp(err.text, "untouched") == 0 &&
              c->ops->agree(c, SN_OK, NULL) == SN_OK,
          "when all is well, agreement says nothing");
}

/* Ranks from `first` on fail, `worst` worse than the others; all must hear `worst`. */
static bool hears(struct sn_comm *c, int first, int worst)
{
    struct sn_err err;
    enum sn_status mine = c->rank < first ? SN_OK : c->rank == worst ? SN_EFAIL : SN_EIO;
    char want[32], sentence[32];
    (void)snprintf(sentence, sizeof(sentence), "disk %d: is full", c->rank);
    if (mine != SN_OK)
        (void)sn_fail(&err, mine, "%s", sentence);
    enum sn_status st = c->ops->agree(c, mine, &err);
    if (c->size == 1)
        return st == mine && strcmp(err.text, sentence) == 0;
    (void)snprintf(want, sizeof(want), "rank %d (", worst);
    (void)snprintf(sentence, sizeof(sentence), "): disk %d: is full", worst);
    return st == SN_EFAIL && err.status == SN_EFAIL && strncmp(err.text, want, strlen(want)) == 0 &&
           strstr(err.text, sentence);
}

/* Whoever passes it on, to others who agree on it too. */
static bool is_said_once(struct sn_comm *c)
{
    struct sn_err err = {.status = SN_OK};
    char first[sizeof(err.text)];
    enum sn_status st = c->rank == c->size - 1 ? sn_fail(&err, SN_EIO, "disk: is full") : SN_OK;
    st = c->ops->agree(c, st, &err);
    (void)snprintf(first, sizeof(first), "%s", err.text);
    return c->ops->agree(c, st, &err) == SN_EIO && strcmp(err.text, first) == 0;
}

static void the_worst_failure_is_heard_by_all(struct sn_comm *c)
{
    point(c, is_said_once(c), "a failure that is agreed on twice names its rank once");
    point(c, hears(c, c->size - 1, c->size - 1), "a failure of one rank is heard by all");
    point(c, hears(c, 0, c->size - 1), "the worst status wins over lower ranks");
    struct sn_err err = {.text = "same"};
    enum sn_status mine = c->rank == 0 && c->size > 1 ? SN_OK : SN_EINPUT;
    enum sn_status st = c->ops->agree(c, mine, &err);
    point(c, st == SN_EINPUT && (c->size == 1 || strncmp(err.text, "rank 1 (", 8) == 0),
          "among equals the lowest rank speaks");
    point(c, c->ops->agree(c, mine, NULL) == SN_EINPUT, "an agreement without words is possible");
}

static void a_broadcast_reaches_everybody(struct sn_comm *c)
{
    static const int64_t lengths[] = {1, 1000, 3 << 20};
    struct sn_err err;
    bool good = true;
    for (int root = 0; root<c->size; root += c->size> 2 ? c->size - 2 : 1)
        for (int k = 0; k < 3; k++) {
            char *buf = guarded(lengths[k]);
            memset(buf, c->rank == root ? root + k : 77, (size_t)lengths[k]);
            good = c->ops->broadcast(c, buf, lengths[k], root, &err) == SN_OK && good;
            for (int64_t i = 0; i < lengths[k] && good; i++)
                good = buf[i] == root + k;
            good = give_back(buf, lengths[k]) && good;
        }
    point(c, good,
          "a broadcast of 1 byte to 3 MiB reaches everybody from the first and another root");
}

static void nobody_passes_a_barrier_early(struct sn_comm *c)
{
    struct sn_err err;
    struct timespec nap = {.tv_nsec = 50000000};
    bool good = c->ops->barrier(c, &err) == SN_OK;
    if (c->rank == c->size - 1)
        (void)nanosleep(&nap, NULL);
    double arrived = now();
    good = c->ops->barrier(c, &err) == SN_OK && good;
    double left = now();
    good = c->ops->broadcast(c, &arrived, sizeof(arrived), c->size - 1, &err) == SN_OK && good;
    point(c, good && left >= arrived, "nobody passes a barrier before the last rank arrives");
}

static void a_step_allocates_nothing(struct sn_comm *c)
{
    enum { N = 3000 };
    struct sn_err err;
    float *buf = sn_alloc_n(N, sizeof(*buf));
    void *staging = sn_alloc((size_t)sn_collective_staging(c->size));
    uint64_t before = sn_mem_count();
    bool good = true;
    for (int i = 0; i < 5; i++) {
        (void)post_sum(c, buf, 10, SN_F32, staging);
        sn_request t = post_sum(c, buf + 10, N - 10, SN_F32, staging);
        good = good && c->ops->wait(c, t, &err) == SN_OK && c->ops->agree(c, SN_OK, &err) == SN_OK;
    }
    point(c, good && sn_mem_count() == before, "operations allocate nothing");
    sn_free(staging);
    sn_free(buf);
}

int main(void)
{
    struct sn_comm *c;
    struct sn_err err;
    if (sn_comm_create_mpi(&c, &err) != SN_OK) {
        printf("not ok - create: %s\n", err.text);
        return 1;
    }
    if (c->size > RANKS_MAX)
        sn_comm_abort_mpi(2);
    every_rank_knows_its_place(c);
    groups_are_made(c);
    sums_and_traffic_are_exact(c);
    sums_are_taken_in_rank_order(c);
    many_operations_run_in_order(c);
    success_is_agreed_in_silence(c);
    the_worst_failure_is_heard_by_all(c);
    a_broadcast_reaches_everybody(c);
    nobody_passes_a_barrier_early(c);
    a_step_allocates_nothing(c);
    bool is_first = c->rank == 0;
    c->ops->destroy(c);
    return is_first ? tap_done() : tap_failed > 0;
}
