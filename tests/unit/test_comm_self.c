/*
 * test_comm_self.c - what communicators can be tested for without MPI.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/run/comm.h"
#include "lib/layout/collective.h"
#include "lib/run/comm_queue.h"
#include "lib/run/comm_sum.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

static void a_group_of_one_does_nothing(void)
{
    struct sn_comm *c = NULL;
    struct sn_err err = {.text = "untouched"};
    float x[3] = {1, 2, 3};
    tap_ok(sn_comm_create_self(&c, &err) == SN_OK && c->size == 1 && c->rank == 0 &&
               c->node_size == 1 && c->node_rank == 0,
           "a group of one is rank 0 of 1");
    sn_ticket t = c->ops->post_all_reduce(c, x, 3, SN_F32, NULL);
    tap_ok(t == 0 && c->ops->wait(c, t, &err) == SN_OK && x[0] == 1 && x[2] == 3,
           "its sum is what it has");
    tap_ok(c->ops->barrier(c, &err) == SN_OK && c->ops->broadcast(c, x, 12, 0, &err) == SN_OK &&
               c->ops->take_sent_bytes(c) == 0,
           "it sends nothing");
    tap_ok(c->ops->agree(c, SN_OK, &err) == SN_OK && c->ops->agree(c, SN_EIO, &err) == SN_EIO &&
               strcmp(err.text, "untouched") == 0,
           "it agrees with itself and keeps its sentence");
    void (*destroy)(struct sn_comm *) = c->ops->destroy;
    destroy(c);
    destroy(NULL);
}

static void no_memory_is_said(void)
{
    struct sn_comm *c = NULL;
    struct sn_err err;
    sn_mem_fail_at(1);
    tap_ok(sn_comm_create_self(&c, &err) == SN_ENOMEM && !c &&
               strncmp(err.text, "comm: no memory for ", 20) == 0,
           "a failed allocation is one sentence");
    sn_mem_fail_at(0);
}

static const char *const launcher[] = {"OMPI_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE", "PMI_SIZE",
                                       "SLURM_STEP_NUM_TASKS"};

static void launched_ranks_come_from_the_environment(void)
{
    for (int i = 0; i < 4; i++)
        unsetenv(launcher[i]);
    setenv("SLURM_NTASKS", "8", 1);
    tap_ok(sn_comm_launched_ranks() == 1, "a batch script is one rank, whatever the job's tasks");
    bool good = true;
    for (int i = 3; i >= 0; i--) { /* later rows of the table give way to earlier ones */
        char text[4] = {(char)('2' + i), '\0'};
        setenv(launcher[i], text, 1);
        good = good && sn_comm_launched_ranks() == 2 + i;
    }
    tap_ok(good, "mpirun, jsrun, PMI and srun tell their number of ranks, in this order");
    for (int i = 0; i < 4; i++)
        setenv(launcher[i], i % 2 ? "-4" : "many", 1);
    tap_ok(sn_comm_launched_ranks() == 1, "what is no positive number is passed over");
}

static void slices_cover_a_chunk_once(void)
{
    static const int64_t lengths[] = {0, 1, 15, 16, 17, 127, 4096, 262144, 131071};
    bool good = true;
    for (int size = 1; size <= 64; size++)
        for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
            int64_t at = 0;
            for (int j = 0; j < size; j++) {
                struct sn_collective_slice s = sn_collective_slice(lengths[k], size, j);
                good = good && (s.start == at || s.count == 0) && s.count >= 0;
                good = good && s.count * 4 <= sn_collective_slice_bytes(size);
                at += s.count;
            }
            good = good && at == lengths[k];
        }
    tap_ok(good, "slices of 1..64 ranks cover a chunk once and in order");
}

static void all_ranks_together_send_twice_all_but_one_share(void)
{
    bool good = true;
    for (int size = 2; size <= 64; size++) {
        int64_t n = 1000003, total = 0, most = 0, first;
        for (int rank = 0; rank < size; rank++) {
            int64_t bytes = sn_collective_all_reduce_bytes(n, SN_F32, size, rank);
            total += bytes;
            most = bytes > most ? bytes : most;
        }
        first = sn_collective_all_reduce_bytes(n, SN_F32, size, 0);
        good = good && total == 2 * (size - 1) * n * 4 && most == first;
    }
    tap_ok(good, "over all ranks an all-reduce sends 2 (P-1) S; rank 0 sends most");
    tap_ok(sn_collective_all_reduce_bytes(128, SN_F32, 7, 6) == 6 * 512 &&
               sn_collective_all_reduce_bytes(64, SN_F64, 7, 0) == 6 * 512 &&
               sn_collective_all_reduce_bytes(0, SN_F32, 7, 0) == 0 &&
               sn_collective_all_reduce_bytes(1 << 20, SN_F64, 1, 0) == 0,
           "up to 512 bytes everything goes to everybody; one rank sends nothing");
    /* 129 floats over 4 ranks: slices of 48, 48, 33, 0 */
    tap_ok(sn_collective_all_reduce_bytes(129, SN_F32, 4, 2) == (129 - 33 + 3 * 33) * 4 &&
               sn_collective_all_reduce_bytes(129, SN_F32, 4, 3) == 129 * 4,
           "a short or empty last slice is counted as it is");
}

static void staging_does_not_grow_with_the_buffer(void)
{
    bool good = sn_collective_staging(1) == 0;
    for (int size = 2; size <= 64; size++)
        good = good && sn_collective_staging(size) <= 2 * (1 << 20) + 2 * 64 * 128 &&
               sn_collective_staging(size) >= (size - 1) * (int64_t)SN_COLLECTIVE_SMALL;
    tap_ok(good, "staging is at most 2 MiB and a little for 2..64 ranks");
}

static void sums_are_taken_in_rank_order(void)
{
    enum { N = 37, P = 5 };
    bool good = true;
    float part[P][N];
    for (int p = 0; p < P; p++)
        for (int i = 0; i < N; i++)
            part[p][i] = (float)((sn_rng_uniform(7, (uint64_t)(p * N + i)) - 0.5) *
                                 (double)(1 << (p * 7 + i) % 24));
    for (int rank = 0; rank < P; rank++) {
        float own[N], others[P - 1][N];
        memcpy(own, part[rank], sizeof(own));
        for (int p = 0, k = 0; p < P; p++)
            if (p != rank)
                memcpy(others[k++], part[p], sizeof(own));
        struct sn_comm_parts parts = {(char *)own, (char *)others, sizeof(own), rank, P};
        sn_comm_sum(&parts, N, SN_F32);
        for (int i = 0; i < N; i++) {
            float want = part[0][i];
            for (int p = 1; p < P; p++)
                want += part[p][i];
            good = good && memcmp(&want, &own[i], sizeof(want)) == 0;
        }
    }
    tap_ok(good, "each rank's sum equals the serial sum in rank order, bit for bit");
}

/* Each operation says at which place it was carried out. */
static void *carry_out(void *arg)
{
    struct sn_comm_queue *q = arg;
    struct sn_comm_op op;
    int64_t place = 0;
    do {
        op = sn_comm_queue_next(q);
        *(int64_t *)op.buf = place++;
        sn_comm_queue_done(q);
    } while (op.kind != SN_COMM_STOP);
    return NULL;
}

static void operations_keep_their_order_through_a_full_ring(void)
{
    enum { N = 5 * SN_COMM_RING };
    struct sn_comm_queue *q = sn_alloc(sizeof(*q));
    int64_t *place = sn_alloc_n(N, sizeof(*place));
    bool good = true;
    tap_ok(sn_comm_queue_start(q, carry_out, q) == 0, "a queue has its thread");
    for (int64_t i = 0; i < N; i++) {
        struct sn_comm_op op = {.kind = i < N - 1 ? SN_COMM_BARRIER : SN_COMM_STOP};
        op.buf = &place[i];
        uint64_t t = sn_comm_queue_post(q, &op);
        good = good && t == (uint64_t)i + 1;
        if (i % 97 == 0) {
            sn_comm_queue_wait(q, t);
            good = good && place[i] == i;
        }
    }
    sn_comm_queue_fini(q);
    for (int64_t i = 0; i < N; i++)
        good = good && place[i] == i;
    tap_ok(good, "operations keep the order of posting through a full ring");
    sn_free(place);
    sn_free(q);
}

int main(void)
{
    a_group_of_one_does_nothing();
    no_memory_is_said();
    launched_ranks_come_from_the_environment();
    slices_cover_a_chunk_once();
    all_ranks_together_send_twice_all_but_one_share();
    staging_does_not_grow_with_the_buffer();
    sums_are_taken_in_rank_order();
    operations_keep_their_order_through_a_full_ring();
    return tap_done();
}
