/*
 * bench_codec.c - what ENCODE and DECODE take on a device: bytes of values a second, beside those
 * of a copy there in the same run, after each stream and what comes back were compared with the
 * processor's, byte for byte. Lines of a table for a report.
 *
 *   build/tests/gpu/bench_codec [VALUES]
 *
 * The plugin is that of the build (SN_PLUGIN names another).
 * The values of 64 million normals do not fit into a cache. A rate is that of the fastest of five
 * rounds of ten, by the device's clock. A copy reads and writes as many bytes as there are; int8
 * writes a quarter of what it reads, so a ratio above 1 is no mistake. "sums": streams of 8 shares
 * that become one.
 */
#include "kernels/codec.h"
#include "lib/base/rng.h"
#include "lib/exec/accelerator.h"
#include "tests/bench/bench.h"

#include <stdio.h>

enum { ROUNDS = 5, REPEATS = 10, SHARES = 8, CLOCKS = 2, STREAM = 0, PERIOD = 65521 };

static const char *const names[] = {"bf16",
                                    "fp8",
                                    "fp8-e5m2",
                                    "int8",
                                    "int8-stochastic",
                                    "int8-hadamard",
                                    "int4",
                                    "nf4",
                                    "int4-stochastic",
                                    "int4-hadamard",
                                    "int4-hadamard-stochastic",
                                    "zfp-8",
                                    "zfp-16",
                                    "mpc"};

/* The same operands on both sides. */
struct side {
    void *x, *s, *y, *scalars, *scratch;
};

struct bench {
    struct sn_accelerator a;
    int64_t n, room; /* values, bytes for streams */
    size_t scratch;
    enum sn_dtype type;
    struct sn_codec codec;
    struct side here, there;
};

enum what { COPY, ENCODE, DECODE, SUMS };

static void must(struct bench *b, int rc, const char *what)
{
    if (rc == 0)
        return;
    printf("%s: %s\n", what, b->a.ops->explain(b->a.device));
    exit(1);
}

static void wait(struct bench *b)
{
    int rc;
    while ((rc = b->a.ops->query(b->a.device, STREAM)) == 1)
        ;
    must(b, rc, "the device");
}

static void move(struct bench *b, void *to, const void *from, int64_t bytes, enum sn_device_way way)
{
    must(b, b->a.ops->copy(b->a.device, STREAM, to, from, (size_t)bytes, way), "a copy");
    if (way != SN_ON_DEVICE)
        wait(b);
}

static int64_t bytes_of(const struct bench *b, int64_t n)
{
    return n * (int64_t)sn_dtype_size(b->type);
}

static int64_t share_of(const struct bench *b, enum what what)
{
    return what == SUMS ? b->n / SHARES : b->n;
}

/* --- operations ------------------------------------------------------------------------------- */

static struct sn_args args_of(const struct bench *b, const struct side *s, enum sn_op_kind kind,
                              enum what what)
{
    int64_t share = share_of(b, what), streams = what == SUMS ? SHARES : 1;
    int64_t place = sn_coded_bytes(&b->codec, b->type, share);
    struct sn_mat stream = {s->s, SN_U8, streams, place, place};
    int64_t all = kind == SN_OP_DECODE ? share : share * streams;
    struct sn_mat values = {kind == SN_OP_DECODE ? s->y : s->x, b->type, 1, all, all};
    struct sn_args a = {.scalars = s->scalars, .scratch = s->scratch};
    a.attr = (struct sn_attr){.blocks_a = streams,
                              .stream.share = share,
                              .stream.levels = 1,
                              .stream.type = b->type,
                              .inverse = what == SUMS};
    a.attr.stream.codec[0] = b->codec;
    a.in[0] = kind == SN_OP_DECODE ? stream : values;
    a.out[0] = kind == SN_OP_DECODE ? values : stream;
    return a;
}

static void run(struct bench *b, enum sn_op_kind kind, enum what what)
{
    struct sn_args a = args_of(b, &b->there, kind, what);
    must(b, b->a.ops->run(b->a.device, STREAM, kind, &a), "an operation");
}

static void run_here(struct bench *b, enum sn_op_kind kind, enum what what)
{
    struct sn_args a = args_of(b, &b->here, kind, what);
    if (sn_ops_cpu()->run[kind](&a, 2) != 0)
        exit(1);
}

static void once(struct bench *b, enum what what)
{
    if (what == COPY)
        move(b, b->there.y, b->there.x, bytes_of(b, b->n), SN_ON_DEVICE);
    else
        run(b, what == ENCODE ? SN_OP_ENCODE : SN_OP_DECODE, what);
}

/* Bytes of values a second. */
static double rate(struct bench *b, enum what what)
{
    double least = 1e30;
    once(b, what);
    for (int round = 0; round < ROUNDS; round++) {
        double seconds;
        must(b, b->a.ops->stamp(b->a.device, STREAM, 0), "a clock");
        for (int i = 0; i < REPEATS; i++)
            once(b, what);
        must(b, b->a.ops->stamp(b->a.device, STREAM, 1), "a clock");
        wait(b);
        must(b, b->a.ops->between(b->a.device, 0, 1, &seconds), "clocks");
        least = seconds < least ? seconds : least;
    }
    return (double)bytes_of(b, b->n) * REPEATS / least;
}

/* --- are they right? -------------------------------------------------------------------------- */

static bool is_same(struct bench *b, const void *here, const void *there, int64_t bytes)
{
    void *back = bench_room((size_t)bytes);
    move(b, back, there, bytes, SN_TO_HOST);
    bool same = memcmp(here, back, (size_t)bytes) == 0;
    free(back);
    return same;
}

/* Each stream's bytes that count. */
static bool streams_are_right(struct bench *b, enum what what)
{
    int64_t place = sn_coded_bytes(&b->codec, b->type, share_of(b, what)), length;
    bool good = true;
    for (int64_t i = 0; i < (what == SUMS ? SHARES : 1); i++) {
        const char *here = (const char *)b->here.s + i * place;
        const char *there = (const char *)b->there.s + i * place;
        memcpy(&length, here, sizeof(length));
        length = sn_codec_is_fixed(&b->codec) ? place : (int64_t)sizeof(length) + length;
        good = good && is_same(b, here, there, length);
    }
    return good;
}

static bool is_right(struct bench *b, enum what what)
{
    run_here(b, SN_OP_ENCODE, what);
    run(b, SN_OP_ENCODE, what);
    if (!streams_are_right(b, what))
        return false;
    run_here(b, SN_OP_DECODE, what);
    run(b, SN_OP_DECODE, what);
    return is_same(b, b->here.y, b->there.y, bytes_of(b, share_of(b, what)));
}

/* --- the table -------------------------------------------------------------------------------- */

static void fill(struct bench *b)
{
    static float z[PERIOD];
    struct sn_mat from = {z, SN_F32, 1, PERIOD, PERIOD};
    sn_rng_normal(1, 0, PERIOD, 1.0f, z);
    for (int64_t at = 0; at < b->n; at += PERIOD) {
        struct sn_mat to = {(char *)b->here.x + bytes_of(b, at), b->type, 1, 0, 0};
        to.cols = to.ld = from.cols = from.ld = b->n - at < PERIOD ? b->n - at : PERIOD;
        struct sn_args a = {.in = {from}, .out = {to}};
        if (sn_ops_cpu()->run[SN_OP_COPY](&a, 1) != 0)
            exit(1);
    }
    move(b, b->there.x, b->here.x, bytes_of(b, b->n), SN_TO_DEVICE);
}

static bool row(struct bench *b, const char *name, double copy)
{
    if (!sn_codec_parse(&b->codec, name))
        return false;
    if (sn_codec_missing(&b->codec)) {
        printf("| %s | %s | skipped: the processor has none to compare with |\n", name,
               sn_dtype_name(b->type));
        return true;
    }
    bool good = is_right(b, SUMS);
    double sums = good ? rate(b, SUMS) : 0;
    good = good && is_right(b, ENCODE);
    if (!good) {
        printf("| %s | %s | WRONG: not what the processor makes of it |\n", name,
               sn_dtype_name(b->type));
        return false;
    }
    double put = rate(b, ENCODE), get = rate(b, DECODE);
    printf("| %s | %s | %.1f | %.2f | %.1f | %.2f | %.1f |\n", name, sn_dtype_name(b->type),
           put / 1e9, put / copy, get / 1e9, get / copy, sums / 1e9);
    (void)fflush(stdout);
    return true;
}

/* Memory for the largest of what is measured, on both sides. */
static void make_room(struct bench *b)
{
    enum { MOST = 16 + 8 + 8 /* bytes of a stream beside its values */ };
    b->room = b->n * 4 + SHARES * MOST;
    b->codec = (struct sn_codec){.kind = SN_CODEC_MPC, .dim = 1};
    b->type = SN_F32;
    struct sn_args a = args_of(b, &b->here, SN_OP_ENCODE, SUMS);
    b->scratch = sn_ops_cpu()->scratch(SN_OP_ENCODE, &a, 2);
    size_t other = b->a.ops->ops->scratch(SN_OP_ENCODE, &a, 1);
    b->scratch = other > b->scratch ? other : b->scratch;
    a = args_of(b, &b->here, SN_OP_ENCODE, ENCODE);
    other = sn_ops_cpu()->scratch(SN_OP_ENCODE, &a, 2);
    b->scratch = other > b->scratch ? other : b->scratch;
    struct {
        void **here, **there;
        size_t bytes;
    } all[] = {{&b->here.x, &b->there.x, (size_t)b->n * 4},
               {&b->here.s, &b->there.s, (size_t)b->room},
               {&b->here.y, &b->there.y, (size_t)b->n * 4},
               {&b->here.scalars, &b->there.scalars, sizeof(struct sn_scalars)},
               {&b->here.scratch, &b->there.scratch, b->scratch}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        *all[i].here = bench_room(all[i].bytes);
        must(b, b->a.ops->alloc(b->a.device, all[i].bytes, all[i].there), "memory");
    }
    struct sn_scalars *s = b->here.scalars;
    s->seed = 5;
    s->step = 1;
    move(b, b->there.scalars, s, (int64_t)sizeof(*s), SN_TO_DEVICE);
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct sn_err err = {0};
    struct sn_device_info info;
    struct sn_device_options how = {0};
    char why[300] = "";
    bool good = true;
    bench_plugin();
    b.n = argc > 1 ? strtoll(argv[1], NULL, 10) / SHARES * SHARES : INT64_C(1) << 26;
    if (b.n <= 0 || sn_accelerator_load(&b.a, &err) != SN_OK ||
        b.a.ops->count(why, sizeof(why)) < 1) {
        printf("bench_codec: SKIP: %s%s\n", err.text, why);
        return 0;
    }
    b.a.device = bench_room(b.a.ops->size);
    must(&b, b.a.ops->open(b.a.device, 0, &how), "opening the device");
    must(&b, b.a.ops->make_clocks(b.a.device, CLOCKS), "clocks");
    b.a.ops->describe(b.a.device, &info);
    make_room(&b);
    printf("%s, %lld values\n\n", info.name, (long long)b.n);
    printf("| codec | of | encode GB/s | of a copy | decode GB/s | of a copy | sums of %d |\n",
           SHARES);
    printf("|---|---|---|---|---|---|---|\n");
    for (enum sn_dtype t = SN_F32; t <= SN_BF16; t++) {
        b.type = t;
        fill(&b);
        double copy = rate(&b, COPY);
        printf("| a copy | %s | %.1f | | | | |\n", sn_dtype_name(t), copy / 1e9);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            good = row(&b, names[i], copy) && good;
    }
    b.a.ops->close(b.a.device);
    return good ? 0 : 1;
}
