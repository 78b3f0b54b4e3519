/*
 * codec_test.h - what the tests of codecs (kernels/codec.h) share: values of many kinds, streams
 * with guards around them, and the same answer wanted of every instruction set and number of
 * threads.
 */
#ifndef CODEC_TEST_H
#define CODEC_TEST_H

#include "kernels/codec.h"
#include "kernels/half.h"
#include "lib/base/rng.h"
#include "tests/lib/tap.h"

#include <float.h>
#include <stdlib.h>

enum { CT_GUARD = 64 };

extern const struct sn_codecs sn_codecs_generic;
extern const struct sn_codecs sn_codecs_avx2 __attribute__((weak));
extern const struct sn_codecs sn_codecs_avx512 __attribute__((weak));

/* The tables that this processor can run; returns how many. */
__attribute__((unused)) static int ct_tables(const struct sn_codecs *table[3])
{
    int n = 0;
    const struct sn_codecs *best = sn_codecs_cpu();
    table[n++] = &sn_codecs_generic;
    if (&sn_codecs_avx2 && best != &sn_codecs_generic)
        table[n++] = &sn_codecs_avx2;
    if (&sn_codecs_avx512 && best == &sn_codecs_avx512)
        table[n++] = &sn_codecs_avx512;
    return n;
}

__attribute__((unused)) static struct sn_codec ct_codec(const char *name)
{
    struct sn_codec c;
    if (!sn_codec_parse(&c, name)) {
        printf("# no codec '%s'\n", name);
        abort();
    }
    return c;
}

/* --- values ----------------------------------------------------------------------------------- */

enum ct_kind { CT_NORMAL, CT_HEAVY, CT_SMOOTH, CT_SPREAD, CT_TINY, CT_HUGE, CT_SPARSE, CT_NKINDS };

__attribute__((unused)) static const char *ct_kind_name(enum ct_kind k)
{
    static const char *const name[CT_NKINDS] = {
        "normal", "heavy tails", "smooth", "all exponents", "denormal", "huge", "mostly zero"};
    return name[k];
}

static float ct_normal(uint64_t key, int64_t i)
{
    float z;
    sn_rng_normal(key, (uint64_t)i, 1, 1.0f, &z);
    return z;
}

/* Student's t of 3 degrees of freedom: a normal over the root of a mean of 3 squares. */
static float ct_student(uint64_t key, int64_t i)
{
    float a = ct_normal(key + 1, i), b = ct_normal(key + 2, i), c = ct_normal(key + 3, i);
    return ct_normal(key, i) / sqrtf((a * a + b * b + c * c) / 3.0f);
}

__attribute__((unused)) static float ct_value(enum ct_kind kind, uint64_t key, int64_t i)
{
    float z = ct_normal(key, i), u = (float)sn_rng_uniform(key + 9, (uint64_t)i);
    switch (kind) {
    case CT_NORMAL:
        return z;
    case CT_HEAVY:
        return ct_student(key, i);
    case CT_SMOOTH:
        return sinf(0.013f * (float)i);
    case CT_SPREAD: /* magnitudes from 2^-120 to 2^120 */
        return ldexpf(z, (int)(240.0f * u) - 120);
    case CT_TINY:
        return z * 0x1p-130f;
    case CT_HUGE:
        return fmaxf(-FLT_MAX, fminf(FLT_MAX, ldexpf(z, 127)));
    default:
        return u < 0.95f ? 0.0f : z;
    }
}

__attribute__((unused)) static float ct_get(const struct sn_values *v, int64_t i)
{
    const uint16_t *half = v->p;
    return v->dtype == SN_F32    ? ((const float *)v->p)[i]
           : v->dtype == SN_BF16 ? sn_bf16_to_f32(half[i])
                                 : sn_f16_to_f32(half[i]);
}

__attribute__((unused)) static void ct_set(const struct sn_values *v, int64_t i, float x)
{
    uint16_t *half = v->p;
    if (v->dtype == SN_F32)
        ((float *)v->p)[i] = x;
    else
        half[i] = v->dtype == SN_BF16 ? sn_f32_to_bf16(x) : sn_f32_to_f16(x);
}

static void *ct_alloc(size_t bytes)
{
    unsigned char *p = aligned_alloc(64, (bytes + 2 * CT_GUARD + 63) / 64 * 64);
    if (!p)
        abort();
    memset(p, 0xa5, bytes + 2 * CT_GUARD);
    return p + CT_GUARD;
}

__attribute__((unused)) static void ct_free(void *p)
{
    if (p)
        free((unsigned char *)p - CT_GUARD);
}

/* Is nothing written around these bytes? */
__attribute__((unused)) static bool ct_whole(const void *p, int64_t bytes)
{
    const unsigned char *at = p;
    bool good = true;
    for (int i = 0; i < CT_GUARD; i++)
        good = good && at[-1 - i] == 0xa5 && at[bytes + i] == 0xa5;
    return good;
}

__attribute__((unused)) static struct sn_values ct_room(enum sn_dtype t, int64_t n)
{
    return (struct sn_values){ct_alloc((size_t)n * sn_dtype_size(t)), t, n};
}

/* What is finite in fp32 is kept finite in the storage type. */
__attribute__((unused)) static struct sn_values ct_values(enum ct_kind kind, enum sn_dtype t,
                                                          int64_t n, uint64_t key)
{
    struct sn_values v = ct_room(t, n);
    for (int64_t i = 0; i < n; i++) {
        float x = ct_value(kind, key, i), most = t == SN_F16 ? 65504.0f : 0x1.fep127f;
        ct_set(&v, i, t == SN_F32 ? x : fmaxf(-most, fminf(most, x)));
    }
    return v;
}

/* --- streams ---------------------------------------------------------------------------------- */

static const struct sn_codec_draw ct_draw = {0x5e417, 7, 0};

/* The stream of x, by one thread of the plainest table; the caller frees .p with ct_free(). */
__attribute__((unused)) static struct sn_stream ct_encode(const struct sn_codec *c,
                                                          const struct sn_values *x)
{
    int64_t room = sn_codec_bytes(c, x->dtype, x->n);
    struct sn_stream s = {ct_alloc((size_t)room), 0};
    enum sn_codec_fault f = sn_codecs_generic.encode(c, x, &ct_draw, &s, 1);
    if (f != SN_CODEC_FINE || !ct_whole(s.p, room)) {
        printf("# encode: %s%s\n", sn_codec_explain(f),
               ct_whole(s.p, room) ? "" : "; wrote outside");
        s.bytes = -1;
    }
    return s;
}

__attribute__((unused)) static struct sn_values
ct_decode(const struct sn_codec *c, const struct sn_stream *s, enum sn_dtype t, int64_t n)
{
    struct sn_values y = ct_room(t, n);
    enum sn_codec_fault f = sn_codecs_generic.decode(c, s, &y, SN_WRITE, 1);
    if (f != SN_CODEC_FINE || !ct_whole(y.p, n * (int64_t)sn_dtype_size(t))) {
        printf("# decode: %s\n", sn_codec_explain(f));
        y.n = -1;
    }
    return y;
}

/* |y - x| over |x|, both as vectors. */
__attribute__((unused)) static double ct_relative(const struct sn_values *x,
                                                  const struct sn_values *y)
{
    double off = 0.0, size = 0.0;
    for (int64_t i = 0; i < x->n; i++) {
        double a = (double)ct_get(x, i), d = (double)ct_get(y, i) - a;
        off += d * d;
        size += a * a;
    }
    return sqrt(off / size);
}

#endif
