/*
 * test_codec_ops.c - the operations ENCODE and DECODE of every instruction set, against the codecs
 * that they are made of (test_codec.c has those).
 */
#include "tests/lib/codec_test.h"
#include "tests/lib/kernel_test.h"

#include <math.h>
#include <string.h>

enum { N = 3000, ROOM = 1 << 17 };

/* One operation with its operands; streams and values lie in memory of their own. */
struct bench {
    const struct sn_ops *ops;
    struct sn_scalars scalars;
    struct sn_args a;
    float x[N], w[N], e[N], y[N];
    _Alignas(64) char streams[ROOM];
    void *scratch;
};

static void fill(float *to, uint64_t key)
{
    for (int64_t i = 0; i < N; i++)
        to[i] = ct_value(CT_NORMAL, key, i);
}

static struct bench *bench(const struct sn_ops *ops, const char *codec)
{
    struct bench *b = calloc(1, sizeof(*b));
    if (!b)
        abort();
    b->ops = ops;
    b->scalars = (struct sn_scalars){.seed = 7, .step = 3, .first_sample = 12};
    b->a.scalars = &b->scalars;
    b->a.attr.stream.codec[0] = ct_codec(codec);
    b->a.attr.stream.codec[1] = ct_codec("bf16");
    b->a.attr.stream.levels = 1;
    b->a.attr.stream.coded = SN_CODED_DATA;
    b->a.attr.stream.type = SN_F32;
    fill(b->x, 1);
    fill(b->w, 2);
    return b;
}

static struct sn_mat row(float *p, int64_t n)
{
    return (struct sn_mat){p, SN_F32, 1, n, n};
}

static int go(struct bench *b, enum sn_op_kind kind, int threads)
{
    free(b->scratch);
    b->scratch = aligned_alloc(64, (b->ops->scratch(kind, &b->a, threads) + 127) / 64 * 64);
    b->a.scratch = b->scratch;
    return b->ops->run[kind](&b->a, threads);
}

static void done(struct bench *b)
{
    free(b->scratch);
    free(b);
}

static void shape(struct bench *b, int streams, int swapped, int64_t share)
{
    struct sn_attr *t = &b->a.attr;
    int64_t bytes = t->stream.marked
                        ? sn_coded_row_bytes(&t->stream.codec[0], SN_F32, share)
                        : sn_coded_room(t->stream.codec, t->stream.levels, SN_F32, share);
    t->blocks_a = streams;
    t->blocks_b = swapped;
    t->stream.share = share;
    b->a.in[0] = row(b->x, N);
    b->a.out[0] = (struct sn_mat){b->streams, SN_U8, streams, bytes, bytes};
}

/* From the streams to y. */
static int back(struct bench *b, int64_t n, int threads)
{
    struct sn_mat s = b->a.out[0];
    memset(b->a.in, 0, sizeof(b->a.in));
    memset(b->a.out, 0, sizeof(b->a.out));
    b->a.in[0] = s;
    b->a.out[0] = row(b->y, n);
    return go(b, SN_OP_DECODE, threads);
}

/* What the codec itself makes of n values. */
static void alone(const struct sn_codec *c, const float *x, int64_t n, uint64_t message, float *y)
{
    static _Alignas(64) char stream[ROOM];
    struct sn_codec_draw draw = {sn_codec_key(7, 3), message, 0};
    struct sn_stream s = {stream, ROOM};
    (void)sn_codecs_cpu()->encode(c, &(struct sn_values){(void *)(uintptr_t)x, SN_F32, n}, &draw,
                                  &s, 1);
    (void)sn_codecs_cpu()->decode(c, &s, &(struct sn_values){y, SN_F32, n}, SN_WRITE, 1);
}

/* Share after share, of which the last is short and one is not there at all; dealt in turn, too. */
static void test_shares(const struct sn_ops *ops, const char *codec, int threads)
{
    float want[N];
    struct bench *b = bench(ops, codec);
    for (int swapped = 1; swapped <= 2; swapped++) {
        int64_t share = 1152; /* two whole ones, 696 values, none */
        shape(b, 4, swapped, share);
        b->a.attr.random.site = 5;
        b->a.attr.stream.member = 1;
        bool ran = go(b, SN_OP_ENCODE, threads) == 0;
        for (int i = 0; i < 4; i++) {
            int number = swapped == 2 ? i % 2 * 2 + i / 2 : i;
            int64_t first = number * share, n = N - first < share ? N - first : share;
            if (n > 0)
                alone(&b->a.attr.stream.codec[0], b->x + first, n,
                      sn_codec_message(5, 1, 12) + (uint64_t)i, want + first);
        }
        ran = ran && back(b, N, threads) == 0;
        tap_ok(ran && memcmp(b->y, want, sizeof(want)) == 0,
               "%s: four shares of %s, %d at a time, with %d threads", ops->name, codec, swapped,
               threads);
    }
    done(b);
}

/* Three ranks' streams of 1,000 values. */
static void test_sums(const struct sn_ops *ops, const char *codec)
{
    float want[1000] = {0}, one[1000];
    struct bench *b = bench(ops, codec);
    shape(b, 3, 1, 1000);
    bool ran = go(b, SN_OP_ENCODE, 2) == 0;
    for (int i = 0; i < 3; i++) {
        alone(&b->a.attr.stream.codec[0], b->x + (ptrdiff_t)i * 1000, 1000,
              sn_codec_message(0, 0, 12) + (uint64_t)i, one);
        for (int k = 0; k < 1000; k++)
            want[k] = i == 0 ? one[k] : want[k] + one[k];
    }
    b->a.attr.inverse = true;
    ran = ran && back(b, 1000, 2) == 0;
    tap_ok(ran && memcmp(b->y, want, sizeof(want)) == 0, "%s: the sum of three streams of %s",
           ops->name, codec);
    for (int k = 0; k < 1000; k++) {
        b->y[k] = b->w[k];
        want[k] += b->w[k];
    }
    b->a.acc[0] = SN_ADD;
    b->a.out[0] = row(b->y, 1000);
    ran = go(b, SN_OP_DECODE, 2) == 0;
    tap_ok(ran && memcmp(b->y, want, sizeof(want)) == 0, "%s: added to what is there", ops->name);
    done(b);
}

static void test_difference(const struct sn_ops *ops)
{
    float d[N], want[N];
    struct bench *b = bench(ops, "int8");
    shape(b, 1, 1, N);
    b->a.in[1] = row(b->w, N);
    for (int i = 0; i < N; i++)
        d[i] = b->x[i] - b->w[i];
    alone(&b->a.attr.stream.codec[0], d, N, 0, want);
    for (int i = 0; i < N; i++)
        want[i] += b->w[i];
    bool ran = go(b, SN_OP_ENCODE, 2) == 0;
    struct sn_mat s = b->a.out[0];
    memset(b->a.in, 0, sizeof(b->a.in));
    memset(b->a.out, 0, sizeof(b->a.out));
    b->a.in[0] = s;
    b->a.in[1] = b->a.out[0] = row(b->w, N); /* in place */
    ran = ran && go(b, SN_OP_DECODE, 2) == 0;
    tap_ok(ran && memcmp(b->w, want, sizeof(want)) == 0, "%s: a difference, added in place",
           ops->name);
    done(b);
}

static void test_feedback(const struct sn_ops *ops)
{
    double worst = 0, lost = 0, whole = 0;
    struct bench *b = bench(ops, "int4");
    float before[N], sent[N];
    shape(b, 2, 1, 1536);
    fill(b->e, 3);
    memcpy(before, b->e, sizeof(before));
    b->a.out[1] = row(b->e, N);
    b->scalars.codec_sample = 1;
    bool ran = go(b, SN_OP_ENCODE, 2) == 0;
    double error[2] = {b->scalars.codec_error[SN_CODED_DATA][0],
                       b->scalars.codec_error[SN_CODED_DATA][1]};
    ran = ran && back(b, N, 2) == 0;
    memcpy(sent, b->y, sizeof(sent));
    for (int i = 0; i < N; i++) {
        double away = fabs((double)b->x[i] + before[i] - sent[i] - b->e[i]);
        double value = (double)(b->x[i] + before[i]);
        worst = away > worst ? away : worst;
        lost += (value - sent[i]) * (value - sent[i]);
        whole += value * value;
    }
    tap_ok(ran && worst < 1e-6, "%s: what is lost is kept (off by %.2g)", ops->name, worst);
    tap_ok(fabs(error[0] / lost - 1) < 1e-5 && fabs(error[1] / whole - 1) < 1e-5,
           "%s: and measured: %.4g of %.4g", ops->name, error[0], error[1]);
    done(b);
}

static void test_levels(const struct sn_ops *ops)
{
    float want[N];
    struct bench *b = bench(ops, "int4");
    b->a.attr.stream.levels = 2;
    b->scalars.codec_level[SN_CODED_DATA] = 1;
    shape(b, 3, 1, 1024);
    alone(&b->a.attr.stream.codec[1], b->x, N, 0, want);
    bool ran = go(b, SN_OP_ENCODE, 2) == 0 && back(b, N, 2) == 0;
    tap_ok(ran && memcmp(b->y, want, sizeof(want)) == 0, "%s: the milder codec of two", ops->name);
    done(b);
}

/* The last 500 values do not exist: they are neither read nor written. */
static void test_missing(const struct sn_ops *ops)
{
    struct bench *b = bench(ops, "int8");
    b->a.attr.stream.missing = 500;
    shape(b, 1, 1, N);
    b->x[N - 1] = b->x[N - 500] = NAN;
    b->y[N - 500] = 17;
    bool ran = go(b, SN_OP_ENCODE, 2) == 0 && back(b, N, 2) == 0, finite = true;
    for (int i = 0; i < N - 500; i++)
        finite = finite && fabsf(b->y[i] - b->x[i]) < 0.05f;
    tap_ok(ran && finite && b->y[N - 500] == 17, "%s: values that are not there", ops->name);
    done(b);
}

static void test_marked(const struct sn_ops *ops)
{
    struct bench *b = bench(ops, "int8");
    b->a.attr.stream.marked = true;
    shape(b, 30, 1, 100);
    bool ran = go(b, SN_OP_ENCODE, 2) == 0, good = true;
    int64_t bytes = b->a.out[0].cols;
    memset(b->streams + 7 * bytes, 0, (size_t)bytes);
    for (int i = 0; i < N; i++)
        b->y[i] = 17;
    ran = ran && back(b, N, 2) == 0;
    for (int i = 0; i < N; i++)
        good = good && (i / 100 == 7 ? b->y[i] == 17 : fabsf(b->y[i] - b->x[i]) < 0.05f);
    tap_ok(ran && good, "%s: a row that has not come is left alone", ops->name);
    done(b);
}

static void test_faults(const struct sn_ops *ops)
{
    struct bench *b = bench(ops, "mpc");
    shape(b, 2, 1, 1500);
    bool ran = go(b, SN_OP_ENCODE, 1) == 0;
    int64_t length = 1 << 20;
    memcpy(b->streams, &length, sizeof(length));
    int fault = back(b, N, 1);
    tap_ok(ran && fault == SN_CODEC_BAD_LENGTH, "%s: a length beyond the place is refused: %s",
           ops->name, sn_codec_explain((enum sn_codec_fault)fault));
    done(b);
    b = bench(ops, "int8");
    shape(b, 1, 1, N);
    ran = go(b, SN_OP_ENCODE, 1) == 0;
    memset(b->streams + 132, 0xff, 4);
    fault = back(b, N, 1);
    tap_ok(ran && fault == SN_CODEC_BAD_SCALE, "%s: so is a scale that nobody writes", ops->name);
    done(b);
}

int main(void)
{
    static const char *const codecs[] = {
        "bf16", "fp8",  "fp8-e5m2", "int8", "int4", "nf4", "int4-hadamard-stochastic",
        "mpc",  "zfp-8"};
    const struct sn_ops *table[KT_TABLES];
    int n = kt_tables(table);
    for (int t = 0; t < n; t++) {
        for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
            struct sn_codec c = ct_codec(codecs[i]);
            if (sn_codec_missing(&c)) {
                tap_skip(codecs[i], sn_codec_missing(&c));
                continue;
            }
            test_shares(table[t], codecs[i], 1);
            test_shares(table[t], codecs[i], 3);
            test_sums(table[t], codecs[i]);
        }
        test_difference(table[t]);
        test_feedback(table[t]);
        test_levels(table[t]);
        test_missing(table[t]);
        test_marked(table[t]);
        test_faults(table[t]);
    }
    return tap_done();
}
