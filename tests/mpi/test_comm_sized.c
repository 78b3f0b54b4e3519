/*
 * test_comm_sized.c - blocks of which only what is used travels: random lengths, none and all of
 * the room, bodies of several messages, many transfers under way at once, by messages and through
 * memory; and what is said of a length that no block can have.
 *
 * Under mpirun rank 0 prints the points; another rank speaks only where it disagrees, and then
 * exits with 1. Started by itself it starts mpirun once for each place of a wrong length.
 */
#include "lib/base/mem.h"
#include "lib/comm/comm_engine.h"
#include "tests/lib/comm_test.h"
#include "tests/lib/dice.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GUARD_BYTE = 0x5a, UNDERSTOOD = 5, RANKS = 3 };

static void point(const struct sn_comm *c, bool good, const char *what)
{
    if (c->rank == 0) {
        tap_ok(good, "%s", what);
    } else if (!good) {
        printf("not ok - %s (rank %d)\n", what, c->rank);
        tap_failed++;
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The block that `from` has for `to` in one transfer: every rank can say what it is. */
struct block {
    int64_t key; /* of the transfer */
    int from, to;
    int64_t n; /* its room */
};

/* Nothing, little, all of the room and about it, anything. */
static int64_t length_of(struct block b)
{
    struct dice d = {sn_rng_key((uint64_t)b.key, "sized"), (uint64_t)(b.from * 64 + b.to) << 8};
    int64_t most = b.n - SN_COLLECTIVE_LENGTH, some[] = {0, 1, 7, 8, 9, most - 8, most - 1, most};
    int64_t pick = roll(&d, 16), length = pick < 8 ? some[pick] : roll(&d, most + 1);
    return length < 0 ? 0 : length > most ? most : length;
}

static unsigned char byte_of(struct block b, int64_t i)
{
    return (unsigned char)((i * 7 + (i >> 8) * 13 + b.from * 31 + b.to * 101 + b.key * 17) % 251);
}

/* Up to a multiple of 256 each is the one before and 7 more. */
static void write_bytes(unsigned char *p, struct block b, int64_t i, int64_t end)
{
    for (unsigned v = byte_of(b, i); i < end; i++) {
        p[i] = (unsigned char)v;
        v = i % 256 == 255 ? byte_of(b, i + 1) : v + 7 < 251 ? v + 7 : v + 7 - 251;
    }
}

static void write_length(unsigned char *p, uint64_t length)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(length >> 8 * i);
}

/* `rest` lies behind what counts of it. */
static void fill(unsigned char *p, struct block b, int rest)
{
    int64_t end = sn_collective_sized(length_of(b));
    memset(p + end, rest, (size_t)(b.n - end));
    write_length(p, (uint64_t)length_of(b));
    write_bytes(p, b, SN_COLLECTIVE_LENGTH, end);
}

/* It has arrived where there was GUARD_BYTE, and nothing behind it has. */
static bool holds(const unsigned char *p, struct block b)
{
    unsigned char *want = sn_alloc((size_t)b.n);
    fill(want, b, GUARD_BYTE);
    bool good = memcmp(p, want, (size_t)b.n) == 0;
    sn_free(want);
    return good;
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* One under way. */
struct moved {
    struct sn_transfer t;
    unsigned char *in, *out;
    int64_t key;
    int size, index;
};

static struct block block_of(const struct moved *m, int from, int to)
{
    bool gathers = m->t.kind == SN_ALL_GATHER;
    return (struct block){m->key, from, gathers ? 0 : to, m->t.n};
}

/* All-gathers of even keys are in place. */
static struct moved prepare(struct sn_comm *c, enum sn_collective kind, enum sn_group group,
                            int64_t n, int64_t key)
{
    struct sn_engine *e = (struct sn_engine *)(void *)c;
    struct moved m = {.key = key, .size = e->group[group].size, .index = e->group[group].index};
    size_t all = (size_t)(n * m.size);
    m.t = (struct sn_transfer){
        .kind = kind, .group = group, .dtype = SN_U8, .n = n, .sized = true, .label = "streams"};
    m.in = sn_alloc(all);
    m.out = sn_alloc(all);
    memset(m.out, GUARD_BYTE, all);
    for (int j = 0; j < m.size; j++)
        fill(m.in + j * n, block_of(&m, m.index, j), GUARD_BYTE + 1);
    m.t.in = m.in;
    m.t.out = m.out;
    if (kind == SN_ALL_GATHER && key % 2 == 0) {
        unsigned char *own = m.out + m.index * n;
        memcpy(own, m.in, (size_t)sn_transfer_travels(&m.t, m.in));
        m.t.in = own;
    }
    return m;
}

static int64_t formula(const struct moved *m)
{
    int64_t sum = 0;
    for (int j = 0; j < m->size; j++)
        if (j != m->index)
            sum += sn_collective_sized(length_of(block_of(m, m->index, j)));
    return sum;
}

static bool finish(struct moved *m)
{
    bool good = true;
    for (int j = 0; j < m->size; j++)
        good = holds(m->out + j * m->t.n, block_of(m, j, m->index)) && good;
    sn_free(m->in);
    sn_free(m->out);
    return good;
}

static bool moves(struct sn_comm *c, enum sn_collective kind, int64_t n, int64_t key)
{
    struct sn_err err = {0};
    struct moved m = prepare(c, kind, SN_GROUP_WORLD, n, key);
    uint64_t before = sn_mem_count();
    bool good = c->ops->wait(c, c->ops->post(c, &m.t), &err) == SN_OK;
    int64_t sent = take_sent(c), want = formula(&m);
    bool fresh = sn_mem_count() == before;
    bool arrived = finish(&m);
    if (!good || !fresh || sent != want || !arrived)
        printf("# rank %d, %s, room %lld, key %lld: sent %lld bytes, the formula %lld%s%s %s\n",
               c->rank, sn_collective_name(kind), (long long)n, (long long)key, (long long)sent,
               (long long)want, arrived ? "" : ", wrong bytes", fresh ? "" : ", allocates",
               err.text);
    return good && fresh && sent == want && arrived;
}

static void blocks_arrive(struct sn_comm *c, enum sn_collective kind, bool windows)
{
    static const struct {
        int64_t n;
        int times;
    } of[] = {{8, 2}, {16, 6}, {4096, 24}, {100000, 16}, {(1 << 20) + 8, 8}, {3500000, 6}};
    char what[120];
    bool good = true;
    int64_t key = kind * 1000;
    sn_engine_use_shm(c, windows);
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
        for (int k = 0; k < of[i].times; k++)
            good = moves(c, kind, of[i].n, key++) && good;
    sn_engine_use_shm(c, true);
    (void)snprintf(what, sizeof(what), "%s of blocks of their own lengths, %s",
                   sn_collective_name(kind), windows ? "through memory" : "by messages");
    point(c, good, what);
}

/* Sized and plain ones of two kinds of group, without waiting. */
static void many_are_under_way(struct sn_comm *c, bool windows)
{
    enum { N = 24 };
    static const enum sn_group group[] = {SN_GROUP_WORLD, SN_GROUP_TENSOR, SN_GROUP_DATA};
    struct moved m[N];
    float sums[N] = {0};
    struct sn_err err = {0};
    void *staging = sn_alloc((size_t)sn_collective_staging(c->size));
    bool good = true;
    int64_t want = 0;
    sn_engine_use_shm(c, windows);
    (void)take_sent(c);
    for (int i = 0; i < N; i++) {
        m[i] = prepare(c, i % 2 ? SN_ALL_GATHER : SN_ALL_TO_ALL, group[i % 3],
                       i % 5 ? 1000 : 1200000, 5000 + i);
        want += formula(&m[i]) + sn_collective_bytes(SN_ALL_REDUCE, 1, SN_F32, c->size, c->rank);
    }
    for (int i = 0; i < N; i++) {
        sums[i] = (float)(i + c->rank);
        (void)c->ops->post(c, &m[i].t);
        (void)post_sum(c, &sums[i], 1, SN_F32, staging);
    }
    good = c->ops->drain(c, &err) == SN_OK && take_sent(c) == want && good;
    for (int i = 0; i < N; i++)
        good =
            finish(&m[i]) && sums[i] == (float)(c->size * i + c->size * (c->size - 1) / 2) && good;
    sn_engine_use_shm(c, true);
    sn_free(staging);
    point(c, good,
          windows ? "many at once, in several groups, between sums, through memory"
                  : "many at once, in several groups, between sums, by messages");
}

/* ---- sends and receives ---------------------------------------------------------------------- */

enum { EACH = 30 };

/* Of the i-th message on a tag: every fourth is a plain one. */
static int64_t room_of(int i)
{
    return i % 7 == 3 ? 2500000 : i % 3 ? 4096 : 64;
}

static sn_request post_one(struct sn_comm *c, enum sn_collective kind, int peer, int i, int tag,
                           unsigned char *p)
{
    struct sn_transfer t = {.kind = kind,
                            .group = SN_GROUP_WORLD,
                            .dtype = SN_U8,
                            .n = room_of(i),
                            .in = kind == SN_SEND ? p : NULL,
                            .out = kind == SN_SEND ? NULL : p,
                            .peer = peer,
                            .tag = tag,
                            .sized = i % 4 != 2,
                            .label = "stream"};
    return c->ops->post(c, &t);
}

/* Plain ones are as long as their room. */
static void fill_message(unsigned char *p, struct block b, int i, int rest)
{
    if (i % 4 == 2)
        write_bytes(p, b, 0, b.n);
    else
        fill(p, b, rest);
}

static bool is_message(const unsigned char *p, struct block b, int i)
{
    unsigned char *want = sn_alloc((size_t)b.n);
    fill_message(want, b, i, GUARD_BYTE);
    bool good = memcmp(p, want, (size_t)b.n) == 0;
    sn_free(want);
    return good;
}

/* Round a ring, two tags in turn, all posted before any is waited for: receives first on odd
 * rounds, sends first on even ones. */
static bool streams_go_round(struct sn_comm *c, int round)
{
    int right = (c->rank + 1) % c->size, left = (c->rank + c->size - 1) % c->size;
    unsigned char *out[EACH], *in[EACH];
    struct sn_err err = {0};
    int64_t want = 0;
    bool good = true;
    for (int i = 0; i < EACH; i++) {
        struct block b = {9000 + round * 100 + i, c->rank, right, room_of(i)};
        out[i] = sn_alloc((size_t)b.n);
        in[i] = sn_alloc((size_t)b.n);
        memset(in[i], GUARD_BYTE, (size_t)b.n);
        fill_message(out[i], b, i, GUARD_BYTE + 1);
        want += i % 4 == 2 ? b.n : sn_collective_sized(length_of(b));
    }
    (void)take_sent(c);
    uint64_t before = sn_mem_count();
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < EACH; i++)
            if (half == round % 2)
                (void)post_one(c, SN_SEND, right, i, i % 2, out[i]);
            else
                (void)post_one(c, SN_RECV, left, i, i % 2, in[i]);
    good = c->ops->drain(c, &err) == SN_OK && sn_mem_count() == before;
    good = take_sent(c) == want && good;
    for (int i = 0; i < EACH; i++) {
        struct block b = {9000 + round * 100 + i, left, c->rank, room_of(i)};
        if (!is_message(in[i], b, i)) {
            printf("# rank %d: message %d of round %d is wrong\n", c->rank, i, round);
            good = false;
        }
        sn_free(out[i]);
        sn_free(in[i]);
    }
    return good;
}

static void streams_keep_their_order(struct sn_comm *c)
{
    bool good = true;
    for (int round = 0; round < 6; round++)
        good = streams_go_round(c, round) && good;
    point(c, good, "sized messages of one pair and tag match in order, with plain ones between");
}

/* The body of a block waits for its receive, which holds up no collective. */
static void a_late_receive_holds_nothing_up(struct sn_comm *c)
{
    struct block b = {77, 0, 1, 3000000};
    struct sn_err err = {0};
    float x = 1;
    unsigned char *p = sn_alloc((size_t)b.n);
    void *staging = sn_alloc((size_t)sn_collective_staging(c->size));
    struct sn_transfer t = {.dtype = SN_U8, .n = b.n, .tag = 3, .sized = true, .in = p, .out = p};
    bool good = true;
    t.group = SN_GROUP_WORLD;
    t.kind = c->rank == 0 ? SN_SEND : SN_RECV;
    t.peer = c->rank == 0;
    sn_request sent = 0;
    if (c->rank == 0) {
        fill(p, b, GUARD_BYTE + 1);
        sent = c->ops->post(c, &t);
    }
    good = c->ops->wait(c, post_sum(c, &x, 1, SN_F32, staging), &err) == SN_OK;
    if (c->rank == 1) {
        memset(p, GUARD_BYTE, (size_t)b.n);
        good = c->ops->wait(c, c->ops->post(c, &t), &err) == SN_OK && holds(p, b) && good;
    }
    good = c->ops->wait(c, sent, &err) == SN_OK && x == (float)c->size && good;
    point(c, good, "a sized send waits for its receive beside collectives");
    sn_free(p);
    sn_free(staging);
}

/* ---- a wrong length -------------------------------------------------------------------------- */

enum { ROOM = 4096, ALL = 7 };

static const struct wrong {
    const char *way;
    uint64_t length; /* of rank 1's block for rank 0 */
    unsigned told;   /* ranks that get to know */
    const char *what;
} wrong[] = {
    {"gather-windows", ROOM - 7, ALL, "one byte too many, gathered through memory"},
    {"gather-messages", ROOM - 7, ALL, "and by messages"},
    {"exchange-windows", (uint64_t)1 << 63, ALL, "a negative length, to all from all, memory"},
    {"exchange-messages", ~(uint64_t)0, 3, "and by messages"},
    {"own-windows", ROOM, ALL, "the length of a block that stays where it is, memory"},
    {"own-messages", ROOM, 2, "and by messages"},
    {"send", (uint64_t)1 << 40, 3, "the length of a block that is sent"},
    {"alone", ROOM, 2, "a length in a group of one"},
    {"unlike", 8, ALL, "sized blocks of one rank, plain ones of the others"},
};

static bool begins(const char *way, const char *with)
{
    return strncmp(way, with, strlen(with)) == 0;
}

static sn_request post_wrong(struct sn_comm *c, const struct wrong *w, unsigned char *in,
                             unsigned char *out)
{
    bool gathers = begins(w->way, "gather") || begins(w->way, "unlike");
    struct sn_transfer t = {.kind = gathers ? SN_ALL_GATHER : SN_ALL_TO_ALL,
                            .group = begins(w->way, "alone") ? SN_GROUP_PIPELINE : SN_GROUP_WORLD,
                            .dtype = SN_U8,
                            .n = ROOM,
                            .in = in,
                            .out = out,
                            .sized = c->rank == 1 || !begins(w->way, "unlike"),
                            .label = "stream"};
    if (begins(w->way, "send")) {
        t.kind = c->rank == 1 ? SN_SEND : SN_RECV;
        t.peer = c->rank == 1 ? 0 : 1;
    }
    memset(out, GUARD_BYTE, (size_t)ROOM * RANKS);
    if (c->rank == 1)
        write_length(in + (begins(w->way, "own") ? ROOM : 0), w->length);
    sn_engine_use_shm(c, !strstr(w->way, "messages"));
    return t.kind == SN_RECV && c->rank == 2 ? 0 : c->ops->post(c, &t);
}

/* The sentence is right, and no byte was written behind a length. */
static bool is_told(const struct wrong *w, const struct sn_err *err, const unsigned char *out)
{
    bool unlike = begins(w->way, "unlike");
    bool good = strstr(err->text, unlike ? "up to 4096 elements of uint8"
                                         : "the length of a block of rank 1 is none that fits into "
                                           "its 4096 bytes; ") != NULL;
    for (int i = 0; i < ROOM * RANKS && !unlike; i++)
        good = good && (i % ROOM < SN_COLLECTIVE_LENGTH || out[i] == GUARD_BYTE);
    return good;
}

/* Rank 1 ends the job when all who have to know have left a file. */
static void leave_together(const struct wrong *w, const char *folder)
{
    char path[256];
    for (int r = 0; r < RANKS; r++)
        for (int k = 0; k < 200 && w->told >> r & 1; k++) {
            (void)snprintf(path, sizeof(path), "%s/%d", folder, r);
            if (access(path, F_OK) == 0)
                break;
            if (k == 199) {
                printf("rank %d was told nothing\n", r);
                (void)fflush(stdout);
                sn_comm_abort_mpi(1);
            }
            (void)usleep(50000);
        }
    (void)usleep(300000); /* and who has not to know may say so */
    sn_comm_abort_mpi(UNDERSTOOD);
}

static int be_a_rank(const struct wrong *w, const char *folder)
{
    struct sn_comm *c;
    struct sn_err err = {0}, again = {0};
    char path[256];
    unsigned char *in = sn_alloc(ROOM * RANKS), *out = sn_alloc(ROOM * RANKS);
    if (sn_comm_create_mpi(&c, &err) != SN_OK)
        return 1;
    struct sn_grid g = test_grid(1, 1, c->size, 1);
    if (c->ops->set_grid(c, &g, &err) != SN_OK)
        return 1;
    enum sn_status st = c->ops->wait(c, post_wrong(c, w, in, out), &err);
    bool knows = st == SN_EFAIL && is_told(w, &err, out) &&
                 c->ops->agree(c, SN_OK, &again) == SN_EFAIL && strcmp(err.text, again.text) == 0;
    if (knows != (w->told >> c->rank & 1) || (st == SN_OK) == knows) {
        printf("rank %d: status %d: %s\n", c->rank, (int)st, err.text);
        (void)fflush(stdout);
        sn_comm_abort_mpi(1);
    }
    (void)snprintf(path, sizeof(path), "%s/%d", folder, c->rank);
    FILE *f = fopen(path, "w");
    if (f)
        (void)fclose(f);
    if (c->rank == 1)
        leave_together(w, folder);
    (void)sleep(20);
    return 1;
}

static void is_said(const char *self, const struct wrong *w)
{
    char folder[] = "/tmp/sennit-sized-XXXXXX", command[1024], out[4096];
    if (!mkdtemp(folder)) {
        tap_ok(false, "a folder for the ranks' files");
        return;
    }
    (void)snprintf(command, sizeof(command), "timeout -k 2 30 mpirun -n %d '%s' %d %s 2>&1", RANKS,
                   self, (int)(w - wrong), folder);
    FILE *f = popen(command, "r");
    size_t n = f ? fread(out, 1, sizeof(out) - 1, f) : 0;
    out[n] = '\0';
    int rc = f ? pclose(f) : -1;
    rc = WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
    if (!tap_ok(rc == UNDERSTOOD, "%s", w->what))
        printf("# exit %d\n# %s\n", rc, out);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    if (system(command) != 0)
        printf("# %s stays behind\n", folder);
}

static int run_all(void)
{
    struct sn_comm *c;
    struct sn_err err;
    if (sn_comm_create_mpi(&c, &err) != SN_OK) {
        printf("not ok - create: %s\n", err.text);
        return 1;
    }
    struct sn_grid g = c->size % 2 ? test_grid(c->size, 1, 1, 1) : test_grid(2, 1, c->size / 2, 1);
    point(c, c->ops->set_grid(c, &g, &err) == SN_OK, "groups are made");
    for (int windows = 0; windows < 2; windows++) {
        blocks_arrive(c, SN_ALL_GATHER, windows);
        blocks_arrive(c, SN_ALL_TO_ALL, windows);
        many_are_under_way(c, windows);
    }
    streams_keep_their_order(c);
    a_late_receive_holds_nothing_up(c);
    bool is_first = c->rank == 0;
    c->ops->destroy(c);
    return is_first ? tap_done() : tap_failed > 0;
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return be_a_rank(&wrong[atoi(argv[1])], argv[2]);
    if (sn_comm_launched_ranks() > 1)
        return run_all();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        is_said(argv[0], &wrong[i]);
    return tap_done();
}
