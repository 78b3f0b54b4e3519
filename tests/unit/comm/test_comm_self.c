/*
 * test_comm_self.c - what communicators can be tested for without MPI.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include "lib/comm/comm_queue.h"
#include "lib/comm/comm_sum.h"
#include "lib/comm/flight_recorder.h"
#include "lib/layout/collective.h"
#include "tests/lib/comm_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <unistd.h>

static void a_group_of_one_does_nothing(void)
{
    struct sn_comm *c = NULL;
    struct sn_err err = {.text = "untouched"};
    float x[3] = {1, 2, 3};
    tap_ok(sn_comm_create_self(&c, &err) == SN_OK && c->size == 1 && c->rank == 0 &&
               c->node_size == 1 && c->node_rank == 0,
           "a group of one is rank 0 of 1");
    sn_request t = post_sum(c, x, 3, SN_F32, NULL);
    tap_ok(t == 0 && c->ops->wait(c, t, &err) == SN_OK && x[0] == 1 && x[2] == 3,
           "its sum is what it has");
    tap_ok(c->ops->barrier(c, &err) == SN_OK && c->ops->broadcast(c, x, 12, 0, &err) == SN_OK &&
               take_sent(c) == 0,
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
            int64_t bytes = sn_collective_bytes(SN_ALL_REDUCE, n, SN_F32, size, rank);
            total += bytes;
            most = bytes > most ? bytes : most;
        }
        first = sn_collective_bytes(SN_ALL_REDUCE, n, SN_F32, size, 0);
        good = good && total == 2 * (size - 1) * n * 4 && most == first;
    }
    tap_ok(good, "over all ranks an all-reduce sends 2 (P-1) S; rank 0 sends most");
    tap_ok(sn_collective_bytes(SN_ALL_REDUCE, 128, SN_F32, 7, 6) == 6 * 512 &&
               sn_collective_bytes(SN_ALL_REDUCE, 64, SN_F64, 7, 0) == 6 * 512 &&
               sn_collective_bytes(SN_ALL_REDUCE, 0, SN_F32, 7, 0) == 0 &&
               sn_collective_bytes(SN_ALL_REDUCE, 1 << 20, SN_F64, 1, 0) == 0,
           "up to 512 bytes everything goes to everybody; one rank sends nothing");
    /* 129 floats over 4 ranks: slices of 48, 48, 33, 0 */
    tap_ok(sn_collective_bytes(SN_ALL_REDUCE, 129, SN_F32, 4, 2) == (129 - 33 + 3 * 33) * 4 &&
               sn_collective_bytes(SN_ALL_REDUCE, 129, SN_F32, 4, 3) == 129 * 4,
           "a short or empty last slice is counted as it is");
}

static void staging_does_not_grow_with_the_buffer(void)
{
    bool good = sn_collective_staging(1) == 0;
    for (int size = 2; size <= 64; size++)
        good = good && sn_collective_staging(size) <= 2 * (1 << 20) + 2 * 64 * 128 &&
               sn_collective_staging(size) >= (size - 1) * (int64_t)SN_COLLECTIVE_SMALL;
    tap_ok(good, "staging is at most 2 MiB and a little for 2..64 ranks");
    tap_ok(sn_collective_shm_bytes(0) == 0 &&
               sn_collective_shm_bytes(1) < (2 << 20) + 8192 &&
               sn_collective_shm_bytes(3) - sn_collective_shm_bytes(1) == 2 * (2 << 20),
           "a rank's part of the window is 2 MiB and a little, however many ranks there are");
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
        struct sn_comm_parts parts = {.own = (char *)own,
                                      .others = (char *)others,
                                      .stride = sizeof(own),
                                      .rank = rank,
                                      .size = P,
                                      .out = (char *)own};
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

/* Each operation says at which place it was carried out; every third one is finished only when the
 * next two are. */
#define LONG_NS INT64_C(3600000000000) /* an hour: as good as for ever */

static void *carry_out(void *arg)
{
    struct sn_comm_queue *q = arg;
    int64_t place = 0;
    int late = -1, since = 0;
    for (bool more = true; more;) {
        int slot = sn_comm_queue_take(q);
        if (slot < 0) {
            if (late >= 0) { /* the producer may wait for it */
                sn_comm_queue_done(q, late);
                late = -1;
            }
            sn_comm_queue_idle(q, LONG_NS);
            continue;
        }
        *(int64_t *)q->slot[slot].op.buf = place;
        more = q->slot[slot].op.kind != SN_COMM_STOP;
        if (place++ % 3 == 0 && late < 0 && more) {
            late = slot;
            since = 0;
            continue;
        }
        sn_comm_queue_done(q, slot);
        if (late >= 0 && (++since == 2 || !more)) {
            sn_comm_queue_done(q, late);
            late = -1;
        }
    }
    return NULL;
}

static void operations_keep_their_order_through_a_full_ring(void)
{
    enum { N = 5 * SN_COMM_QUEUE_DEPTH };
    struct sn_comm_queue *q = sn_alloc(sizeof(*q));
    int64_t *place = sn_alloc_n(N, sizeof(*place));
    sn_request *request = sn_alloc_n(N, sizeof(*request));
    bool good = true, drained;
    tap_ok(sn_comm_queue_start(q, carry_out, q) == 0, "a queue has its thread");
    for (int64_t i = 0; i < N; i++) {
        struct sn_comm_op op = {.kind = i < N - 1 ? SN_COMM_BARRIER : SN_COMM_STOP};
        place[i] = -1;
        op.buf = &place[i];
        request[i] = sn_comm_queue_post(q, &op);
        good = good && request[i] != 0 && request[i] != SN_COMM_ANY;
        if (i % 97 == 0) {
            sn_comm_queue_wait(q, request[i]);
            good = good && place[i] == i;
        }
    }
    sn_comm_queue_drain(q);
    drained = atomic_load(&q->completed.value) == N;
    for (int64_t i = 0; i < N; i++)
        sn_comm_queue_wait(q, request[i]); /* of slots used again since */
    sn_comm_queue_fini(q);
    for (int64_t i = 0; i < N; i++)
        good = good && place[i] == i;
    tap_ok(good, "operations keep the order of posting through a full ring, however they end");
    tap_ok(drained, "after a drain all are done");
    sn_free(request);
    sn_free(place);
    sn_free(q);
}

/* Sits on its first operation until the test lets go; the second one is the last. */
static void *get_stuck(void *arg)
{
    struct sn_comm_queue *q = arg;
    sn_comm_queue_idle(q, LONG_NS);
    int slot = sn_comm_queue_take(q);
    _Atomic int *way = q->slot[slot].op.buf;
    while (*way == 1) { /* alive, though slow */
        sn_comm_queue_heartbeat(q);
        (void)usleep(50000);
    }
    while (*way == 2)
        (void)usleep(1000);
    sn_comm_queue_done(q, slot);
    sn_comm_queue_idle(q, LONG_NS);
    sn_comm_queue_done(q, sn_comm_queue_take(q));
    return NULL;
}

static void *let_it_go(void *way)
{
    (void)usleep(2500000);
    *(_Atomic int *)way = 0;
    return NULL;
}

static void a_consumer_that_is_stuck_is_noticed(void)
{
    for (int kind = 1; kind <= 2; kind++) {
        struct sn_comm_queue *q = sn_alloc(sizeof(*q));
        _Atomic int way = kind;
        pthread_t helper;
        (void)sn_comm_queue_start(q, get_stuck, q);
        sn_request t = sn_comm_queue_post(
            q, &(struct sn_comm_op){.kind = SN_COMM_BARRIER, .buf = (void *)&way});
        q->limit_s = 1;
        bool good = true;
        if (kind == 1) /* let go after more than the limit */
            good = pthread_create(&helper, NULL, let_it_go, (void *)&way) == 0;
        good = sn_comm_queue_wait(q, t) == (kind == 1) && good;
        if (kind == 1)
            (void)pthread_join(helper, NULL);
        else
            good = !sn_comm_queue_drain(q) && good;
        way = 0;
        good = sn_comm_queue_wait(q, t) && good;
        tap_ok(good, kind == 1 ? "a consumer that is slow is waited for"
                               : "one that gives no sign of life for a second is not");
        (void)sn_comm_queue_post(q, &(struct sn_comm_op){.kind = SN_COMM_STOP});
        sn_comm_queue_fini(q);
        sn_free(q);
    }
}

static void groups_of_one_copy(void)
{
    struct sn_comm *c = NULL;
    struct sn_err err;
    float in[3] = {1, 2, 3}, out[3] = {10, 20, 30};
    (void)sn_comm_create_self(&c, &err);
    struct sn_transfer t = {.kind = SN_REDUCE_SCATTER, .n = 3, .in = in, .out = out, .add = true};
    tap_ok(c->ops->post(c, &t) == 0 && out[0] == 11 && out[2] == 33,
           "alone, a sum of one part is added");
    t.add = false;
    t.kind = SN_ALL_TO_ALL;
    tap_ok(c->ops->post(c, &t) == 0 && out[0] == 1 && out[2] == 3, "and everything else copied");
    sn_comm_set_watch(c, NULL, 3);
    tap_ok(c->ops->drain(c, &err) == SN_OK, "there is nothing to watch");
    c->ops->destroy(c);
}

static void groups_of_one_copy_what_a_block_holds(void)
{
    enum { N = 64, LAST = N - SN_COLLECTIVE_LENGTH };
    static const int64_t lengths[] = {0, 1, 7, 8, 9, 48, LAST - 1, LAST};
    struct sn_comm *c = NULL;
    struct sn_err err, again = {.text = ""};
    bool good = true;
    (void)sn_comm_create_self(&c, &err);
    struct sn_transfer t = {.kind = SN_ALL_GATHER, .dtype = SN_U8, .n = N, .sized = true};
    t.label = "bucket0";
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        unsigned char in[N], out[N];
        int64_t want = 8 + (lengths[i] + 7) / 8 * 8;
        memset(in, 1, N);
        memset(out, 2, N);
        memset(in, 0, 8);
        in[0] = (unsigned char)lengths[i];
        t.in = in;
        t.out = out;
        good = good && c->ops->post(c, &t) == 0 && sn_transfer_travels(&t, in) == want &&
               sn_collective_sized(lengths[i]) == want && memcmp(out, in, (size_t)want) == 0;
        for (int64_t k = want; k < N; k++)
            good = good && out[k] == 2;
    }
    tap_ok(good && c->ops->drain(c, &err) == SN_OK,
           "alone, of a sized block its length and so many bytes are copied, rounded up to 8");
    for (int byte = 0; byte < 8; byte += 7) { /* one too long; negative */
        unsigned char in[N] = {0}, out[N] = {0};
        in[byte] = byte ? 0x80 : LAST + 1;
        in[8] = 77;
        t.in = in;
        t.out = out;
        good = good && c->ops->post(c, &t) == 0 && out[8] == 0 &&
               sn_transfer_travels(&t, in) == -1 && c->ops->wait(c, 0, &err) == SN_EFAIL;
    }
    tap_ok(good && c->ops->drain(c, &again) == SN_EFAIL && strcmp(err.text, again.text) == 0 &&
               strstr(err.text, "self: all_gather 'bucket0': the block's length is none that fits "
                                "into its 64 bytes; "),
           "a length that no block has is one sentence, for good, and nothing is copied");
    c->ops->destroy(c);
}

/* ---- the record of a rank ------------------------------------------------------------------- */

static void a_record_tells_what_came_last(void)
{
    char folder[] = "/tmp/sennit-ring-XXXXXX", path[128];
    struct sn_flight_recorder *r = NULL;
    struct sn_flight_view v;
    struct sn_err err;
    tap_ok(mkdtemp(folder) && sn_flight_open(&r, folder, 7, &err) == SN_OK,
           "a flight recorder is opened");
    uint64_t last = 0;
    for (int i = 1; i <= 200; i++) {
        struct sn_flight_event e = {.number = (uint64_t)i, .group = SN_GROUP_TENSOR, .peer = -1};
        (void)snprintf(e.kind, sizeof(e.kind), "all_reduce");
        (void)snprintf(e.label, sizeof(e.label), "l%d.attn.o", i);
        if (i == 200) { /* numbers of sends are their own */
            e.peer = 3;
            e.number = 5000;
        }
        last = sn_flight_post(r, &e);
        sn_flight_mark(r, last - (i > 1), i % 2 ? SN_FLIGHT_DONE : SN_FLIGHT_BEGUN);
    }
    sn_flight_mark(r, last - SN_FLIGHT_EVENTS, SN_FLIGHT_DONE); /* its place is taken */
    bool good = sn_flight_read(&v, sn_flight_folder(r), 7, &err) == SN_OK;
    tap_ok(good && v.rank == 7 && v.is_here && v.is_alive && v.pid == (int)getpid() &&
               v.posted[SN_GROUP_TENSOR] == 199 && v.posted[SN_GROUP_DATA] == 0,
           "it tells the process and how far each group has come");
    good = v.n == SN_FLIGHT_EVENTS;
    for (int i = 0; i < v.n; i++)
        good = good && v.event[i].id == (uint64_t)(200 - SN_FLIGHT_EVENTS + 1 + i);
    tap_ok(good && strcmp(v.event[62].label, "l199.attn.o") == 0 &&
               v.event[62].state == SN_FLIGHT_BEGUN && v.event[63].state == SN_FLIGHT_POSTED &&
               v.event[63].peer == 3 && v.event[61].state == SN_FLIGHT_DONE,
           "it tells the last 64 in order, each with its state");
    (void)snprintf(path, sizeof(path), "%s/ranks", folder);
    tap_ok(sn_flight_read(&v, path, 8, &err) == SN_EIO && strstr(err.text, "no record of rank 8"),
           "a rank without a record is said");
    sn_flight_close(r);
    tap_ok(sn_flight_read(&v, path, 7, &err) == SN_OK && v.n == SN_FLIGHT_EVENTS,
           "the record outlives its rank");
    tap_ok(sn_flight_open(&r, folder, 7, &err) == SN_OK &&
               sn_flight_read(&v, path, 7, &err) == SN_OK && v.n == 0,
           "another run begins anew");
    sn_flight_close(r);
    (void)snprintf(path, sizeof(path), "%s/ranks/rank-00007.ring", folder);
    tap_ok(unlink(path) == 0, "the file is where people look for it");
    tap_ok(sn_flight_open(&r, path, 7, &err) == SN_EIO && strstr(err.text, "No such file"),
           "a folder that cannot be made is said");
    (void)snprintf(path, sizeof(path), "%s/ranks", folder);
    (void)rmdir(path);
    (void)rmdir(folder);
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
    a_consumer_that_is_stuck_is_noticed();
    groups_of_one_copy();
    groups_of_one_copy_what_a_block_holds();
    a_record_tells_what_came_last();
    return tap_done();
}
