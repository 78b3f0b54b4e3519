/*
 * test_comm_groups.c - every collective in every group of grids over 2, 3, 4, 6 or 8 ranks, by
 * messages and through the window of the host.
 *
 * Rank 0 prints the points; another rank speaks only where it disagrees, and then exits with 1.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/comm/comm_engine.h"
#include "tests/lib/comm_test.h"
#include "tests/lib/tap.h"

enum { LARGE = (1 << 20) + 3, RANKS_MAX = 8, GUARD = 64, GUARD_BYTE = 0x5a, PERIOD = 17 };

static const char *const transport[] = {"messages", "windows"};

struct setting {
    struct sn_comm *comm;
    struct sn_grid grid;
    char *in, *out, *first, *staging;
};

/* One collective that is tried. */
struct trial {
    enum sn_collective kind;
    enum sn_group group;
    enum sn_dtype dtype;
    int64_t n;
    bool add, in_place;
    uint64_t seed; /* 0: small whole numbers, whose sums are exact in any order and type */
};

static void point(const struct sn_comm *c, bool good, const char *what)
{
    if (c->rank == 0) {
        tap_ok(good, "%s", what);
    } else if (!good) {
        printf("not ok - %s (rank %d)\n", what, c->rank);
        tap_failed++;
    }
}

static uint16_t f16_of_small(int v)
{
    uint16_t sign = v < 0 ? 0x8000 : 0, bits = 0;
    unsigned m = (unsigned)(v < 0 ? -v : v);
    if (m) {
        int e = 31 - __builtin_clz(m);
        bits = (uint16_t)((e + 15) << 10 | ((m << (10 - e)) & 0x3ff));
    }
    return sign | bits;
}

/* Whole numbers up to 256 are exact in every type. */
static void put(char *to, enum sn_dtype dtype, int64_t i, int v)
{
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    switch (dtype) {
    case SN_F32:
        ((float *)(void *)to)[i] = f;
        break;
    case SN_F64:
        ((double *)(void *)to)[i] = v;
        break;
    case SN_BF16:
        ((uint16_t *)(void *)to)[i] = (uint16_t)(u >> 16);
        break;
    default:
        ((uint16_t *)(void *)to)[i] = f16_of_small(v);
    }
}

static int small(int rank, int64_t i)
{
    return (int)((i * 7 + rank * 13) % PERIOD) - 8;
}

/* Numbers of unlike size, none of them infinite in any type. */
static void put_random(char *to, enum sn_dtype dtype, int64_t i, uint64_t bits)
{
    float f = ((float)(bits >> 40) / (float)(1 << 24) - 0.5f) * (float)(1 << bits % 12);
    uint32_t u;
    memcpy(&u, &f, 4);
    if (dtype == SN_F32)
        ((float *)(void *)to)[i] = f;
    else if (dtype == SN_F64)
        ((double *)(void *)to)[i] = (double)f * (1 + (double)(bits & 0xff) * 1e-9);
    else if (dtype == SN_BF16)
        ((uint16_t *)(void *)to)[i] = (uint16_t)(u >> 16);
    else /* exponents 5 .. 20 of 31 */
        ((uint16_t *)(void *)to)[i] = (uint16_t)((bits & 0x83ff) | (5 + (bits >> 20) % 16) << 10);
}

static int64_t in_length(const struct setting *s, const struct trial *t)
{
    int size = sn_group_size(&s->grid, s->comm->rank, t->group);
    return t->kind == SN_REDUCE_SCATTER || t->kind == SN_ALL_TO_ALL ? size * t->n : t->n;
}

static int64_t out_length(const struct setting *s, const struct trial *t)
{
    int size = sn_group_size(&s->grid, s->comm->rank, t->group);
    return t->kind == SN_ALL_GATHER || t->kind == SN_ALL_TO_ALL ? size * t->n : t->n;
}

static void fill(const struct setting *s, const struct trial *t)
{
    int rank = s->comm->rank;
    char *in = t->in_place ? s->out : s->in;
    int64_t width = (int64_t)sn_dtype_size(t->dtype), out = out_length(s, t);
    if (t->add)
        for (int64_t i = 0; i < out; i++)
            put(s->out, t->dtype, i, 3);
    for (int64_t i = 0; i < in_length(s, t); i++)
        if (t->seed)
            put_random(in, t->dtype, i, sn_rng_bits(t->seed, (uint64_t)rank << 40 | (uint64_t)i));
        else if (i < PERIOD)
            put(in, t->dtype, i, small(rank, i));
        else
            memcpy(in + i * width, in + (i - PERIOD) * width, (size_t)width);
    memset(s->out + out * width, GUARD_BYTE, GUARD);
}

/* What element i of member m's block of out must be; of reductions, which have one block, of
 * out. */
static int want(const struct setting *s, const struct trial *t, int m, int64_t i)
{
    int rank = s->comm->rank, sum = t->add ? 3 : 0;
    int size = sn_group_size(&s->grid, rank, t->group);
    int64_t own = sn_group_index(&s->grid, rank, t->group) * t->n;
    if (t->kind == SN_ALL_GATHER)
        return small(sn_group_member(&s->grid, rank, t->group, m), i);
    if (t->kind == SN_ALL_TO_ALL)
        return small(sn_group_member(&s->grid, rank, t->group, m), own + i);
    for (int k = 0; k < size; k++)
        sum += small(sn_group_member(&s->grid, rank, t->group, k),
                     t->kind == SN_REDUCE_SCATTER ? own + i : i);
    return sum;
}

/* One block of out. What must be there repeats with small()'s period. */
static bool block_is_exact(const struct setting *s, const struct trial *t, int m)
{
    _Alignas(double) char table[PERIOD][sizeof(double)];
    size_t width = sn_dtype_size(t->dtype);
    const char *p = s->out + (size_t)(m * t->n) * width;
    for (int i = 0; i < PERIOD; i++)
        put(table[i], t->dtype, 0, want(s, t, m, i));
    for (int64_t i = 0, k = 0; i < t->n; i++, k = k + 1 < PERIOD ? k + 1 : 0)
        if (memcmp(table[k], p + (size_t)i * width, width) != 0)
            return false;
    return true;
}

static bool is_untouched(const char *guard)
{
    for (int i = 0; i < GUARD; i++)
        if (guard[i] != GUARD_BYTE)
            return false;
    return true;
}

/* Run it; true when it succeeds, stays within its memory and sends what the formula says. */
static bool runs(const struct setting *s, const struct trial *t)
{
    struct sn_comm *c = s->comm;
    struct sn_err err;
    int64_t sent[SN_NAXES] = {0};
    struct sn_transfer x = {.kind = t->kind,
                            .group = t->group,
                            .dtype = t->dtype,
                            .n = t->n,
                            .in = t->in_place ? NULL : s->in,
                            .out = s->out,
                            .add = t->add,
                            .staging = s->staging,
                            .label = "trial"};
    fill(s, t);
    if (c->ops->wait(c, c->ops->post(c, &x), &err) != SN_OK) {
        printf("# %s\n", err.text);
        return false;
    }
    c->ops->take_sent_bytes(c, sent);
    sent[sn_group_axis(t->group)] -=
        sn_collective_bytes(t->kind, t->n, t->dtype, sn_group_size(&s->grid, c->rank, t->group),
                            sn_group_index(&s->grid, c->rank, t->group));
    for (int a = 0; a < SN_NAXES; a++)
        if (sent[a] != 0)
            return false;
    return is_untouched(s->out + out_length(s, t) * (int64_t)sn_dtype_size(t->dtype));
}

static bool is_exact(const struct setting *s, const struct trial *t)
{
    bool good = runs(s, t);
    for (int m = 0; m * t->n < out_length(s, t) && good; m++)
        good = block_is_exact(s, t, m);
    if (!good)
        printf("# rank %d: %s %s %s n %lld add %d in place %d\n", s->comm->rank,
               sn_group_name(t->group), sn_collective_name(t->kind), sn_dtype_name(t->dtype),
               (long long)t->n, t->add, t->in_place);
    return good;
}

/* A group with the members of another one needs no trial of its own, on large buffers. */
static bool is_alias(const struct setting *s, enum sn_group q)
{
    int rank = s->comm->rank, size = sn_group_size(&s->grid, rank, q);
    for (int p = 0; p < (int)q; p++) {
        bool same = sn_group_size(&s->grid, 0, (enum sn_group)p) == sn_group_size(&s->grid, 0, q) &&
                    sn_group_size(&s->grid, rank, (enum sn_group)p) == size;
        for (int i = 0; i < size && same; i++)
            same = sn_group_member(&s->grid, rank, (enum sn_group)p, i) ==
                   sn_group_member(&s->grid, rank, q, i);
        if (same)
            return true;
    }
    return false;
}

static bool group_is_exact(const struct setting *s, enum sn_group q)
{
    static const int64_t length[] = {0, 1, 7, 513, LARGE};
    static const enum sn_dtype dtype[] = {SN_F32, SN_F64, SN_BF16, SN_F16};
    bool good = true;
    for (int i = 0; i < 4 * 4 * 5; i++) {
        struct trial t = {
            .kind = (enum sn_collective)(i % 4), .group = q, .dtype = dtype[i / 4 % 4]};
        t.n = length[i / 16];
        if (t.n == LARGE) /* of bytes, and not for all */
            t.n = t.n / (int64_t)sn_dtype_size(t.dtype) + 3;
        if (i / 16 == 4 && (is_alias(s, q) || t.dtype != SN_F32))
            continue;
        good = is_exact(s, &t) && good;
        t.in_place = t.kind == SN_ALL_REDUCE;
        t.add = t.kind == SN_REDUCE_SCATTER && t.dtype == SN_F32;
        if (t.in_place || t.add)
            good = is_exact(s, &t) && good;
    }
    return good;
}

static void collectives_are_exact(const struct setting *s, const char *grid)
{
    for (int windows = 0; windows < 2; windows++) {
        bool good = true;
        char what[200];
        sn_engine_use_shm(s->comm, windows);
        for (int q = 0; q < SN_NGROUPS; q++)
            good = group_is_exact(s, (enum sn_group)q) && good;
        (void)snprintf(what, sizeof(what),
                       "%s, %s: all kinds, types and lengths are exact in all groups; bytes too",
                       grid, transport[windows]);
        point(s->comm, good, what);
    }
}

static void transports_and_repeats_agree(const struct setting *s, const char *grid)
{
    static const enum sn_dtype dtype[] = {SN_F32, SN_F64, SN_BF16, SN_F16};
    bool good = true;
    char what[200];
    for (int i = 0; i < 4 * 4 * SN_NGROUPS; i++) {
        struct trial t = {.kind = (enum sn_collective)(i % 4), .group = (enum sn_group)(i / 16)};
        t.dtype = dtype[i / 4 % 4];
        t.n = i % 3 ? 5003 : 40; /* below and above what is sent at once */
        t.seed = sn_rng_key(20240607, "groups");
        size_t bytes = (size_t)out_length(s, &t) * sn_dtype_size(t.dtype);
        sn_engine_use_shm(s->comm, true);
        good = runs(s, &t) && good;
        memcpy(s->first, s->out, bytes);
        sn_engine_use_shm(s->comm, false);
        good = runs(s, &t) && memcmp(s->first, s->out, bytes) == 0 && good;
        sn_engine_use_shm(s->comm, true);
        good = runs(s, &t) && memcmp(s->first, s->out, bytes) == 0 && good;
    }
    (void)snprintf(what, sizeof(what), "%s: random numbers give the same bits on both, and again",
                   grid);
    point(s->comm, good, what);
}

/* fp32, in the order of members and not of ranks that arrive. */
static void sums_are_taken_in_member_order(const struct setting *s, const char *grid)
{
    struct trial t = {.kind = SN_ALL_REDUCE, .dtype = SN_F32, .n = 777};
    bool good = true;
    char what[200];
    t.seed = sn_rng_key(20240607, "order");
    for (int q = 0; q < SN_NGROUPS; q++) {
        t.group = (enum sn_group)q;
        good = runs(s, &t) && good;
        for (int64_t i = 0; i < t.n && good; i++) {
            float sum = 0, part;
            for (int m = 0; m < sn_group_size(&s->grid, s->comm->rank, t.group); m++) {
                int rank = sn_group_member(&s->grid, s->comm->rank, t.group, m);
                put_random((char *)&part, SN_F32, 0,
                           sn_rng_bits(t.seed, (uint64_t)rank << 40 | (uint64_t)i));
                sum = m ? sum + part : part;
            }
            good = memcmp(&sum, s->out + 4 * i, 4) == 0;
        }
    }
    (void)snprintf(what, sizeof(what), "%s: sums are taken in the order of members", grid);
    point(s->comm, good, what);
}

/* Groups share the window's slots: nobody's data is overwritten while a slow member still reads. */
static void groups_take_turns(const struct setting *s, const char *grid)
{
    enum { ROUNDS = 40, N = 3000 };
    struct sn_comm *c = s->comm;
    struct sn_err err;
    bool good = true;
    char what[200];
    float *x = (float *)(void *)s->out;
    for (int k = 0; k < ROUNDS; k++) {
        for (int q = 0; q < SN_NGROUPS; q++) {
            for (int i = 0; i < N; i++)
                x[q * N + i] = (float)(small(c->rank, i + k) + q);
            struct sn_transfer t = {.kind = SN_ALL_REDUCE, .group = (enum sn_group)q, .n = N};
            t.out = x + q * N;
            t.staging = test_staging(c, s->staging, t.group);
            (void)c->ops->post(c, &t);
        }
        good = c->ops->drain(c, &err) == SN_OK && good;
        for (int q = 0; q < SN_NGROUPS; q++)
            for (int i = 0; i < N && good; i++) {
                int sum = 0, size = sn_group_size(&s->grid, c->rank, (enum sn_group)q);
                for (int m = 0; m < size; m++)
                    sum +=
                        small(sn_group_member(&s->grid, c->rank, (enum sn_group)q, m), i + k) + q;
                good = x[q * N + i] == (float)sum;
            }
    }
    (void)c->ops->barrier(c, &err);
    (void)take_sent(c);
    (void)snprintf(what, sizeof(what), "%s: all groups in turn, posted together, 40 times", grid);
    point(c, good, what);
}

static void try_grid(struct setting *s, const char *name, struct sn_grid grid)
{
    struct sn_err err;
    s->grid = grid;
    point(s->comm, s->comm->ops->set_grid(s->comm, &grid, &err) == SN_OK, name);
    collectives_are_exact(s, name);
    transports_and_repeats_agree(s, name);
    sums_are_taken_in_member_order(s, name);
    groups_take_turns(s, name);
}

static void try_grids(struct setting *s)
{
    struct sn_grid g;
    switch (s->comm->size) {
    case 2:
        try_grid(s, "tensor 2", test_grid(2, 1, 1, 1));
        try_grid(s, "pipeline 2", test_grid(1, 1, 1, 2));
        break;
    case 3:
        try_grid(s, "context 3", test_grid(1, 3, 1, 1));
        break;
    case 4:
        try_grid(s, "tensor 2 x data 2", test_grid(2, 1, 2, 1));
        g = test_grid(4, 1, 1, 1);
        g.kv_copies = 2;
        try_grid(s, "tensor 4 with 2 kv copies", g);
        break;
    case 6:
        try_grid(s, "tensor 3 x pipeline 2", test_grid(3, 1, 1, 2));
        try_grid(s, "tensor 2 x pipeline 3", test_grid(2, 1, 1, 3));
        break;
    case 8:
        try_grid(s, "tensor 2 x context 2 x data 2", test_grid(2, 2, 2, 1));
        break;
    default:
        point(s->comm, false, "a grid for this number of ranks");
    }
}

int main(void)
{
    struct setting s = {0};
    struct sn_err err;
    size_t most = (size_t)RANKS_MAX * (LARGE + 64);
    if (sn_comm_create_mpi(&s.comm, &err) != SN_OK) {
        printf("not ok - create: %s\n", err.text);
        return 1;
    }
    s.in = sn_alloc(most);
    s.out = sn_alloc(most);
    s.first = sn_alloc(most);
    s.staging = sn_alloc(SN_NAXES * (size_t)sn_collective_staging(s.comm->size));
    try_grids(&s);
    bool is_first = s.comm->rank == 0;
    sn_free(s.staging);
    sn_free(s.first);
    sn_free(s.out);
    sn_free(s.in);
    s.comm->ops->destroy(s.comm);
    return is_first ? tap_done() : tap_failed > 0;
}
