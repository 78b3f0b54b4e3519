/*
 * ENCODE and DECODE as lib/program/compress_legs.c puts them together for sums on two levels, all
 * ranks in one process: the bits of the reference (tests/lib/two_shot.h), where lengths are whole
 * shares and where they are not; shares and slices are in the order of members.
 */
#include "kernels/ops.h"
#include "tests/lib/codec_test.h"
#include "tests/lib/two_shot.h"

enum { MOST = 12, N = 6000 };

struct world {
    struct sn_codec inside, between;
    int nodes, local;
    int64_t n, share; /* values of each rank, of a slice */
    struct sn_values x[MOST];
    char *sent[MOST], *came[MOST], *passed[MOST]; /* streams of a rank */
    float *node[MOST], *own[MOST], *all[MOST];    /* sums: of its node, its slice, all slices */
    float *scratch;
    bool failed;
};

static struct sn_scalars scalars;

static int64_t at_most(int64_t n, int64_t most)
{
    return n < 0 ? 0 : n < most ? n : most;
}

/* Values of slice r, and those of slices l, local + l, .. */
static int64_t slice_of(const struct world *w, int r)
{
    return at_most(w->n - r * w->share, w->share);
}

static int64_t slices_of(const struct world *w, int l)
{
    int64_t n = 0;
    for (int k = 0; k < w->nodes; k++)
        n += slice_of(w, k * w->local + l);
    return n;
}

/* What goes through a codec: n values in streams of a share, in blocks of `each`. */
struct job {
    const struct sn_codec *codec;
    int streams, each;
    int64_t n;
    bool sums;
};

static struct sn_args args_of(struct world *w, const struct job *j)
{
    struct sn_args a = {.scalars = &scalars, .scratch = w->scratch};
    a.attr.stream.codec[0] = *j->codec;
    a.attr.stream.levels = 1;
    a.attr.stream.type = SN_F32;
    a.attr.stream.share = w->share;
    a.attr.blocks_a = j->streams;
    a.attr.blocks_b = j->each;
    a.attr.inverse = j->sums;
    return a;
}

static struct sn_mat row(void *p, enum sn_dtype t, int64_t n)
{
    return (struct sn_mat){p, t, 1, n, n};
}

static int64_t room_of(const struct world *w, const struct job *j)
{
    return sn_coded_bytes(j->codec, SN_F32, w->share);
}

static void encode(struct world *w, const struct job *j, void *from, char *to)
{
    struct sn_args a = args_of(w, j);
    a.in[0] = row(from, SN_F32, j->n);
    a.out[0] = row(to, SN_U8, j->streams * room_of(w, j));
    w->failed = w->failed || sn_ops_cpu()->run[SN_OP_ENCODE](&a, 1) != 0;
}

static void decode(struct world *w, const struct job *j, char *from, float *to)
{
    struct sn_args a = args_of(w, j);
    a.in[0] = row(from, SN_U8, j->streams * room_of(w, j));
    a.out[0] = row(to, SN_F32, j->n);
    w->failed = w->failed || sn_ops_cpu()->run[SN_OP_DECODE](&a, 1) != 0;
}

/* Between members first, first + apart, ..: block m of each to member m. */
static void all_to_all(struct world *w, int first, int apart, int members, int64_t block)
{
    for (int to = 0; to < members; to++)
        for (int from = 0; from < members; from++)
            memcpy(w->came[first + to * apart] + from * block,
                   w->sent[first + from * apart] + to * block, (size_t)block);
}

static void all_gather(char *const *in, char *const *out, const int member[3], int64_t block)
{
    int first = member[0], apart = member[1], members = member[2];
    for (int to = 0; to < members; to++)
        for (int from = 0; from < members; from++)
            memcpy(out[first + to * apart] + from * block, in[first + from * apart], (size_t)block);
}

static void reduce_scatter(struct world *w)
{
    int nodes = w->nodes, local = w->local, ranks = nodes * local;
    for (int r = 0; r < ranks; r++)
        encode(w, &(struct job){&w->inside, ranks, nodes, w->n, false}, w->x[r].p, w->sent[r]);
    int64_t room = sn_coded_bytes(&w->inside, SN_F32, w->share);
    for (int k = 0; k < nodes; k++)
        all_to_all(w, k * local, 1, local, nodes * room);
    for (int r = 0; r < ranks; r++) {
        int64_t n = slices_of(w, r % local);
        decode(w, &(struct job){&w->inside, ranks, nodes, n, true}, w->came[r], w->node[r]);
        encode(w, &(struct job){&w->between, nodes, 1, n, false}, w->node[r], w->sent[r]);
    }
    room = sn_coded_bytes(&w->between, SN_F32, w->share);
    for (int l = 0; l < local; l++)
        all_to_all(w, l, local, nodes, room);
    for (int r = 0; r < ranks; r++)
        decode(w, &(struct job){&w->between, nodes, 1, slice_of(w, r), true}, w->came[r],
               w->own[r]);
}

static void gather(struct world *w)
{
    int nodes = w->nodes, local = w->local, ranks = nodes * local;
    int64_t room = sn_coded_bytes(&w->between, SN_F32, w->share);
    for (int r = 0; r < ranks; r++)
        encode(w, &(struct job){&w->between, 1, 1, slice_of(w, r), false}, w->own[r], w->sent[r]);
    for (int l = 0; l < local; l++)
        all_gather(w->sent, w->passed, (const int[3]){l, local, nodes}, room);
    for (int k = 0; k < nodes; k++)
        all_gather(w->passed, w->came, (const int[3]){k * local, 1, local}, nodes * room);
    for (int r = 0; r < ranks; r++)
        decode(w, &(struct job){&w->between, ranks, nodes, w->n, false}, w->came[r], w->all[r]);
}

static void make(struct world *w, const char *inside, const char *between, const int sizes[2],
                 int64_t n)
{
    int ranks = sizes[0] * sizes[1];
    *w = (struct world){.inside = ct_codec(inside),
                        .between = ct_codec(between),
                        .nodes = sizes[0],
                        .local = sizes[1],
                        .n = n};
    w->share = ((n + ranks - 1) / ranks + 127) / 128 * 128;
    size_t values = (size_t)(w->share * ranks), bytes = values * 5 + 4096;
    for (int r = 0; r < ranks; r++) {
        w->x[r] = ct_values(CT_NORMAL, SN_F32, n, 300 + (uint64_t)r);
        w->sent[r] = ct_alloc(bytes);
        w->came[r] = ct_alloc(bytes);
        w->passed[r] = ct_alloc(bytes);
        w->node[r] = ct_alloc(values * sizeof(float));
        w->own[r] = ct_alloc(values * sizeof(float));
        w->all[r] = ct_alloc(values * sizeof(float));
    }
    struct sn_args a = args_of(w, &(struct job){&w->inside, ranks, 1, n, false});
    w->scratch = ct_alloc(sn_ops_cpu()->scratch(SN_OP_ENCODE, &a, 1));
}

static void drop(struct world *w)
{
    for (int r = 0; r < w->nodes * w->local; r++) {
        ct_free(w->x[r].p), ct_free(w->sent[r]), ct_free(w->came[r]), ct_free(w->passed[r]);
        ct_free(w->node[r]), ct_free(w->own[r]), ct_free(w->all[r]);
    }
    ct_free(w->scratch);
}

/* Codecs whose blocks divide shares know nothing of who sums which. */
static bool is_the_reference(struct world *w)
{
    struct sn_two_level t = {w->inside, w->between, w->n, w->nodes, w->local};
    float *sums = ct_alloc(N * sizeof(float)), *partial = ct_alloc(MOST * N * sizeof(float));
    void *room = ct_alloc((size_t)sn_two_level_room(&t));
    bool good = sn_two_level_all_reduce(&t, sn_codecs_cpu(), w->x, NULL, sums, partial, room) ==
                SN_CODEC_FINE;
    reduce_scatter(w);
    gather(w);
    for (int r = 0; r < w->nodes * w->local; r++)
        good = good && memcmp(w->all[r], sums, (size_t)w->n * sizeof(float)) == 0;
    ct_free(sums), ct_free(partial), ct_free(room);
    return good && !w->failed;
}

static void sums_are_the_reference(void)
{
    static const char *const pairs[][2] = {
        {"int8", "int4-hadamard"}, {"bf16", "int8"}, {"fp8", "fp8"},
        {"fp8-e5m2", "fp8-e5m2"},  {"mpc", "mpc"},   {"int8-hadamard", "mpc"}};
    static const int sizes[][2] = {{2, 2}, {3, 2}, {2, 4}, {3, 4}, {4, 3}};
    static const int64_t lengths[] = {N, 1536, 1000, 129, 1};
    for (int p = 0; p < 6; p++) {
        bool good = true;
        for (int s = 0; s < 5; s++)
            for (int i = 0; i < 5; i++) {
                struct world w;
                make(&w, pairs[p][0], pairs[p][1], sizes[s], lengths[i]);
                good = good && is_the_reference(&w);
                drop(&w);
            }
        tap_ok(good, "%s inside, %s between: every rank has the bits of the reference", pairs[p][0],
               pairs[p][1]);
    }
}

/* What slice r is, the values say: value i of rank q is i, and more of rank 0 alone. */
static void slices_are_those_of_members(void)
{
    struct world w;
    bool good = true;
    make(&w, "mpc", "mpc", (const int[2]){3, 2}, 1536);
    for (int r = 0; r < 6; r++)
        for (int i = 0; i < 1536; i++)
            ct_set(&w.x[r], i, (float)(i + (r == 0 ? 4096 : 0)));
    reduce_scatter(&w);
    for (int r = 0; r < 6; r++)
        for (int i = 0; i < 256; i++)
            good = good && w.own[r][i] == (float)(6 * (r * 256 + i) + 4096);
    tap_ok(good && !w.failed, "rank r of all has the sum of slice r");
    drop(&w);
}

int main(void)
{
    sums_are_the_reference();
    slices_are_those_of_members();
    return tap_done();
}
