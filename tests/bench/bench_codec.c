/*
 * bench_codec.c - what codecs take: bytes of values a second, beside those of a plain copy of the
 * same values in the same run, and zfp beside the library's own call; after each stream was checked
 * to be that of the generic instruction set, and what comes back to be within 4 times the error
 * that docs/COMPRESSION.md states.
 *
 *   build/tests/bench/bench_codec [THREADS [VALUES]]
 *
 * Values are normals, as gradients are; `mpc` also has a sine. Rates are those of the fastest
 * repeat in a tenth of a second. The copy is one thread's, so with THREADS 1 a ratio of 1 is the
 * speed of a copy.
 */
#include "kernels/codec.h"
#include "kernels/half.h"
#include "kernels/zfp.h"
#include "lib/base/clock.h"
#include "lib/base/rng.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

static const double SECONDS = 0.1;
enum { REPEATS_MIN = 3 };

extern const struct sn_codecs sn_codecs_generic;

struct bench {
    int threads;
    int64_t n;
    double copy; /* bytes a second */
    struct sn_values x, y;
    struct sn_stream stream, other;
};

/* Relative errors of normals; of what loses nothing 0. */
static const struct {
    const char *name;
    double error;
    bool smooth;
} rows[] = {{"bf16", 1.7e-3, false},
            {"fp8", 2.6e-2, false},
            {"fp8-e5m2", 5.3e-2, false},
            {"int8", 6.5e-3, false},
            {"int8-stochastic", 9.1e-3, false},
            {"int8-hadamard", 6.5e-3, false},
            {"int4", 0.117, false},
            {"nf4", 0.11, false},
            {"int4-stochastic", 0.17, false},
            {"int4-hadamard", 0.117, false},
            {"int4-hadamard-stochastic", 0.17, false},
            {"zfp-8", 5.5e-2, false},
            {"zfp-16", 2.1e-4, false},
            {"mpc", 0.0, false},
            {"mpc", 0.0, true}};

enum way { COPY, ENCODE, DECODE, ADD, LIBRARY_ENCODE, LIBRARY_DECODE };

static bool once(struct bench *b, const struct sn_codec *c, enum way way)
{
    static const struct sn_codec_draw draw = {1, 2, 0};
    const struct sn_codecs *of = sn_codecs_cpu();
    int64_t room = c ? sn_codec_bytes(c, SN_F32, b->n) : 0;
    switch (way) {
    case COPY:
        memcpy(b->y.p, b->x.p, (size_t)b->n * sn_dtype_size(b->x.dtype));
        return true;
    case ENCODE:
        return of->encode(c, &b->x, &draw, &b->stream, b->threads) == SN_CODEC_FINE;
    case DECODE:
        return of->decode(c, &b->stream, &b->y, SN_WRITE, b->threads) == SN_CODEC_FINE;
    case ADD:
        return of->decode(c, &b->stream, &b->y, SN_ADD, b->threads) == SN_CODEC_FINE;
    case LIBRARY_ENCODE:
        return sn_zfp_compress(b->other.p, room, b->x.p, b->n, c->rate) > 0;
    default:
        return sn_zfp_decompress(b->other.p, room, b->y.p, b->n, c->rate) > 0;
    }
}

/* Bytes of values a second; 0 when it failed. */
static double rate(struct bench *b, const struct sn_codec *c, enum way way)
{
    double least = 1e9, began = sn_clock();
    for (int i = 0; i < REPEATS_MIN || sn_clock() - began < SECONDS; i++) {
        double start = sn_clock();
        if (!once(b, c, way))
            return 0.0;
        least = fmin(least, sn_clock() - start);
    }
    return (double)b->n * (double)sn_dtype_size(b->x.dtype) / least;
}

static float value(const struct sn_values *v, int64_t i)
{
    return v->dtype == SN_F32 ? ((const float *)v->p)[i]
                              : sn_bf16_to_f32(((const uint16_t *)v->p)[i]);
}

static void fill(struct bench *b, enum sn_dtype t, bool smooth)
{
    enum { PERIOD = 65521 };
    static float z[PERIOD];
    sn_rng_normal(1, 0, PERIOD, 1.0f, z);
    b->x.dtype = b->y.dtype = t;
    for (int64_t i = 0; i < b->n; i++) {
        float v = smooth ? sinf(0.013f * (float)(i % 100000)) : z[i % PERIOD];
        if (t == SN_F32)
            ((float *)b->x.p)[i] = v;
        else
            ((uint16_t *)b->x.p)[i] = sn_f32_to_bf16(v);
    }
}

static double error_of(const struct bench *b)
{
    double off = 0.0, size = 0.0;
    for (int64_t i = 0; i < b->n; i++) {
        double x = (double)value(&b->x, i), d = (double)value(&b->y, i) - x;
        off += d * d;
        size += x * x;
    }
    return sqrt(off / size);
}

static bool is_right(struct bench *b, const struct sn_codec *c, double most, double *error)
{
    static const struct sn_codec_draw draw = {1, 2, 0};
    bool good = sn_codecs_generic.encode(c, &b->x, &draw, &b->other, 1) == SN_CODEC_FINE;
    good = once(b, c, ENCODE) && good && b->other.bytes == b->stream.bytes &&
           memcmp(b->other.p, b->stream.p, (size_t)b->stream.bytes) == 0;
    good = once(b, c, DECODE) && good;
    double rounding = b->y.dtype == SN_BF16 && most > 0.0 ? 2e-3 : 0.0;
    *error = error_of(b);
    return good && *error <= 1.1 * most + rounding;
}

static bool measure(struct bench *b, int row)
{
    struct sn_codec c;
    const char *name = rows[row].name;
    if (!sn_codec_parse(&c, name))
        return false;
    if (sn_codec_missing(&c)) {
        printf("%-25s skipped: %s\n", name, sn_codec_missing(&c));
        return true;
    }
    double error;
    if (!is_right(b, &c, rows[row].error, &error)) {
        printf("%-25s WRONG: not the generic set's stream, or too far off\n", name);
        return false;
    }
    bool is_float = b->x.dtype == SN_F32;
    double bits = 8.0 * (double)b->stream.bytes / (double)b->n;
    double put = rate(b, &c, ENCODE), get = rate(b, &c, DECODE), add = 0.0;
    struct sn_values half = b->y;
    b->y.dtype = SN_F32;
    add = rate(b, &c, ADD);
    b->y = half;
    printf("%-25s %-5s %6.2f bits, error %7.1e  encode %6.2f GB/s %5.2f of a copy  decode %6.2f "
           "GB/s %5.2f  "
           "add %6.2f GB/s %5.2f%s\n",
           name, is_float ? "fp32" : "bf16", bits, error, put * 1e-9, put / b->copy, get * 1e-9,
           get / b->copy, add * 1e-9, add / b->copy, rows[row].smooth ? "  (a sine)" : "");
    if (c.kind == SN_CODEC_ZFP && is_float) {
        double theirs = rate(b, &c, LIBRARY_ENCODE), back = rate(b, &c, LIBRARY_DECODE);
        printf("%-25s        libzfp alone: encode %6.2f GB/s, ours %4.2f of it; decode %6.2f "
               "GB/s, ours %4.2f\n",
               "", theirs * 1e-9, put / theirs, back * 1e-9, get / back);
    }
    return put > 0.0 && get > 0.0 && add > 0.0;
}

int main(int argc, char **argv)
{
    bench_head();
    struct bench b = {.threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1,
                      .n = argc > 2 ? strtol(argv[2], NULL, 10) : 1 << 24};
    if (b.threads < 1 || b.n < 1000) {
        (void)fprintf(stderr, "usage: bench_codec [THREADS [VALUES]]; at least 1000 values\n");
        return 2;
    }
    size_t bytes = (size_t)b.n * sizeof(float);
    b.x = (struct sn_values){bench_room(bytes), SN_F32, b.n};
    b.y = (struct sn_values){bench_room(bytes), SN_F32, b.n};
    b.stream.p = bench_room(bytes + bytes / 8 + 1024);
    b.other.p = bench_room(bytes + bytes / 8 + 1024);
    bool good = true;
    for (int t = 0; t < 2; t++) {
        fill(&b, t ? SN_BF16 : SN_F32, false);
        b.copy = rate(&b, NULL, COPY);
        printf("%s, %d threads, %ld values of %s; a copy of them %.2f GB/s\n",
               sn_codecs_cpu()->name, b.threads, (long)b.n, t ? "bf16" : "fp32", b.copy * 1e-9);
        for (int i = 0; i < (int)(sizeof(rows) / sizeof(rows[0])); i++) {
            fill(&b, t ? SN_BF16 : SN_F32, rows[i].smooth);
            good = measure(&b, i) && good;
        }
    }
    return good ? 0 : 1;
}
