/*
 * fuzz_codec.c - any values through any codec come back within what kernels/codec.h promises; any
 * bytes as a stream are refused or decoded, and nothing outside them is read.
 *
 * Input: a codec, how (storage type; a stream or values), how many (2 bytes), then bytes: values,
 * or the stream.
 */
#include "kernels/codec.h"
#include "kernels/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern const struct sn_codecs sn_codecs_generic;

static const char *const names[] = {"bf16",
                                    "fp8",
                                    "int8",
                                    "int4",
                                    "nf4",
                                    "int8-hadamard",
                                    "int4-hadamard",
                                    "int8-stochastic",
                                    "int4-hadamard-stochastic",
                                    "zfp-3",
                                    "zfp-8",
                                    "zfp-13",
                                    "zfp-32",
                                    "mpc",
                                    "mpc-3",
                                    "fp8-e5m2"};

static void require(bool good)
{
    if (!good)
        abort();
}

static float value(const struct sn_values *v, int64_t i)
{
    const uint16_t *half = v->p;
    return v->dtype == SN_F32    ? ((const float *)v->p)[i]
           : v->dtype == SN_BF16 ? sn_bf16_to_f32(half[i])
                                 : sn_f16_to_f32(half[i]);
}

/* The largest magnitude of the block of i, NaN when one is not finite. */
static float largest(const struct sn_values *v, int64_t i, int64_t block)
{
    float most = 0.0f;
    for (int64_t k = i / block * block; k < i / block * block + block && k < v->n; k++)
        most = isfinite(value(v, k)) && !isnan(most) ? fmaxf(most, fabsf(value(v, k))) : NAN;
    return most;
}

/* x came back as y. */
static void judge(const struct sn_codec *c, const struct sn_values *x, const struct sn_values *y)
{
    int64_t block = c->kind == SN_CODEC_ZFP ? 4 : SN_CODEC_BLOCK;
    float most = 0.0f;
    for (int64_t i = 0; i < x->n; i++) {
        float in = value(x, i), out = value(y, i);
        most = i % block == 0 ? largest(x, i, block) : most;
        double off = fabs((double)out - (double)in), size = (double)most;
        if (c->kind == SN_CODEC_BF16) {
            require(isnan(in) ? isnan(out)
                              : fabsf(in) >= 0x1.fep127f ||
                                    off <= fmax(0x1p-8 * fabs((double)in), 0x1p-134));
            continue;
        }
        require(isnan(most) == isnan(out) ||
                ((c->hadamard || c->kind == SN_CODEC_ZFP) && most >= 0x1p125f));
        if (isnan(most))
            continue;
        if (c->kind == SN_CODEC_FP8)
            require(off <= fmax(0x1p-4 * size, 0x1p-110));
        else if (c->kind == SN_CODEC_FP8_E5M2)
            require(off <= fmax(0x1p-3 * fabs((double)in), 0x1p-31 * size) || off <= 0x1p-117);
        else if (c->kind == SN_CODEC_ZFP)
            require(most >= 0x1p125f || off <= fmax(4 * size, 0x1p-98));
        else if (!c->hadamard)
            require(off <= fmax(size / (c->kind == SN_CODEC_INT8 ? 127 : 7) * 1.0001,
                                size < 0x1p-100 ? size : 0));
        else /* 32 roundings of at most a step; a step is at most the largest over the largest code
              */
            require(most >= 0x1p125f ||
                    off <=
                        fmax(32 * size / (c->kind == SN_CODEC_INT8 ? 127 : 7) * 1.0001, 0x1p-93));
    }
}

/* With feedback nothing that is not finite stays in e. */
static void feed(const struct sn_codec *c, const struct sn_values *x)
{
    const struct sn_codec_draw draw = {1, 2, 0};
    struct sn_stream s = {malloc((size_t)sn_codec_bytes(c, SN_F32, x->n) + 1), 0};
    float *e = calloc((size_t)x->n + 1, sizeof(float));
    require(s.p && e);
    for (int i = 0; i < 2; i++) {
        require(sn_codecs_generic.encode_fed(c, x, e, &draw, &s, 1) == SN_CODEC_FINE);
        require(sn_codecs_generic.keep(c, x, e, &s, 1) == SN_CODEC_FINE);
    }
    for (int64_t i = 0; i < x->n; i++)
        require(isfinite(e[i]));
    free(s.p);
    free(e);
}

static void round_trip(const struct sn_codec *c, const struct sn_values *x)
{
    int64_t room = sn_codec_bytes(c, x->dtype, x->n);
    size_t bytes = (size_t)x->n * sn_dtype_size(x->dtype);
    const struct sn_codec_draw draw = {1, 2, 0};
    struct sn_stream s = {malloc((size_t)room + 1), 0};
    struct sn_values y = {malloc((size_t)x->n * 4 + 1), SN_F32, x->n};
    require(s.p && y.p);
    require(sn_codecs_generic.encode(c, x, &draw, &s, 1) == SN_CODEC_FINE);
    require(sn_codec_is_fixed(c) ? s.bytes == room : s.bytes <= room);
    if (c->kind == SN_CODEC_MPC) {
        y.dtype = x->dtype;
        require(sn_codecs_generic.decode(c, &s, &y, SN_WRITE, 1) == SN_CODEC_FINE);
        require(memcmp(x->p, y.p, bytes) == 0);
    } else {
        require(sn_codecs_generic.decode(c, &s, &y, SN_WRITE, 1) == SN_CODEC_FINE);
        judge(c, x, &y);
    }
    free(s.p);
    free(y.p);
}

static void any_stream(const struct sn_codec *c, struct sn_stream *s, enum sn_dtype t, int64_t n)
{
    struct sn_values y = {calloc((size_t)n + 1, 4), t, n};
    require(y.p);
    for (int acc = 0; acc < (t == SN_F32 ? 2 : 1); acc++) {
        enum sn_codec_fault f = sn_codecs_generic.decode(c, s, &y, (enum sn_acc)acc, 1);
        require(f >= SN_CODEC_FINE && f < SN_NFAULTS && sn_codec_explain(f)[0]);
        if (f == SN_CODEC_FINE && sn_codec_is_fixed(c))
            require(s->bytes == sn_codec_bytes(c, t, n));
    }
    free(y.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sn_codec c;
    if (size < 4)
        return 0;
    require(sn_codec_parse(&c, names[data[0] % (sizeof(names) / sizeof(names[0]))]));
    enum sn_dtype t = (enum sn_dtype)(data[1] % 3);
    int64_t n = (data[2] | data[3] << 8) % 2053, left = (int64_t)size - 4;
    if (sn_codec_missing(&c))
        return 0;
    if (data[1] & 0x80) { /* a copy of exactly its bytes, where malloc puts it: on words */
        struct sn_stream s = {malloc((size_t)left + !left), left};
        require(s.p);
        memcpy(s.p, data + 4, (size_t)left);
        any_stream(&c, &s, t, n);
        free(s.p);
        return 0;
    }
    int64_t wide = (int64_t)sn_dtype_size(t);
    struct sn_values x = {calloc((size_t)n + 1, 4), t, n};
    require(x.p);
    for (int64_t i = 0; i < n * wide && left > 0; i++)
        ((uint8_t *)x.p)[i] = data[4 + i % left];
    round_trip(&c, &x);
    feed(&c, &x);
    free(x.p);
    return 0;
}
