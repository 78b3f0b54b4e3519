/*
 * codec.c - the table of codecs of one instruction set, and the codecs that work on blocks of 128
 * values: bf16, fp8 of both formats, int8, int4, nf4 (codec_int.c). kernels/codec.h is the
 * contract.
 *
 * Blocks are dealt to threads in equal shares. A block passes through fp32 in the first-level
 * cache, or is read and written where it lies when it is fp32 already. The Makefile forbids that
 * products and sums are fused in these files, so that all instruction sets write the same bytes.
 */
#include "kernels/cpu/codec_inner.h"
#include "kernels/fp8.h"

enum { BLOCK = SN_CODEC_BLOCK };

/* --- bf16 ------------------------------------------------------------------------------------- */

static enum sn_codec_fault get_bf16(const unsigned char *from, int m, float *y)
{
    sn_row_load(y, from, SN_BF16, m);
    return SN_CODEC_FINE;
}

/* --- fp8: a scale that is a power of two, and codes of e4m3 or e5m2 ---------------------------- */

/* A format: its largest value is 1.75 2^top, and from code `none` on an encoder writes none. */
struct fp8 {
    enum sn_fp8_format format;
    int top;
    int none; /* infinity, NaN */
};

static const struct fp8 E4M3 = {SN_E4M3, 8, 0x7f}, E5M2 = {SN_E5M2, 15, 0x7c};

static inline __attribute__((always_inline)) void put_fp8(const struct fp8 t, const float *x, int m,
                                                          unsigned char *to)
{
    int32_t most = sn_largest(x);
    int e = sn_fp8_exponent((uint32_t)most, t.format);
    uint32_t scale = most < 0x7f800000 ? sn_float_bits(sn_power_of_two(-e)) : SN_NO_SCALE;
    float up = sn_power_of_two(e);
    uint8_t code[BLOCK];
#pragma omp simd
    for (int i = 0; i < BLOCK; i++)
        code[i] = sn_f32_to_fp8(x[i] * up, t.format);
    for (int i = 0; i < BLOCK && e == t.top - 128; i++) /* 2^top 2^-e would be infinite */
        code[i] = (uint8_t)(code[i] - ((code[i] & 0x7f) == 0x78));
    memcpy(to, &scale, 4);
    if (scale == SN_NO_SCALE)
        memset(to + 4, 0, (size_t)m);
    else
        memcpy(to + 4, code, (size_t)m);
}

static inline __attribute__((always_inline)) enum sn_codec_fault
get_fp8(const struct fp8 t, const unsigned char *from, int m, float *y)
{
    uint32_t bits;
    int bad = 0;
    memcpy(&bits, from, 4);
    /* 2^-100 to 2^(128 - top) */
    if (bits != SN_NO_SCALE &&
        (bits & 0x807fffffu || bits < 27u << 23 || bits > (255u - (uint32_t)t.top) << 23))
        return SN_CODEC_BAD_SCALE;
    float scale = sn_bits_float(bits);
#pragma omp simd reduction(| : bad)
    for (int i = 0; i < m; i++) {
        uint8_t code = from[4 + i];
        bad |= (code & 0x7f) >= t.none;
        y[i] = sn_fp8_to_f32(code, t.format) * scale;
    }
    return bad ? SN_CODEC_BAD_CODE : SN_CODEC_FINE;
}

/* --- any of them, block by block -------------------------------------------------------------- */

static void put_block(const struct sn_codec *c, const struct sn_codec_draw *draw,
                      const struct sn_values *x, int64_t b, unsigned char *to)
{
    float buf[BLOCK];
    int64_t first = b * BLOCK;
    int m = (int)(x->n - first < BLOCK ? x->n - first : BLOCK);
    const float *from = sn_values_get(x, first, m, buf);
    if (c->kind == SN_CODEC_BF16) {
        sn_row_store(to, SN_BF16, from, m);
        return;
    }
    if (m < BLOCK) {
        memmove(buf, from, (size_t)m * sizeof(float));
        memset(buf + m, 0, (size_t)(BLOCK - m) * sizeof(float));
        from = buf;
    }
    if (c->kind == SN_CODEC_FP8)
        put_fp8(E4M3, from, m, to);
    else if (c->kind == SN_CODEC_FP8_E5M2)
        put_fp8(E5M2, from, m, to);
    else
        SN_K(sn_int_put)(c, draw, draw ? draw->first / BLOCK + b : b, from, m, to);
}

static enum sn_codec_fault get_block(const struct sn_codec *c, const unsigned char *from,
                                     const struct sn_values *y, int64_t b, enum sn_acc acc)
{
    float buf[BLOCK];
    int64_t first = b * BLOCK;
    int m = (int)(y->n - first < BLOCK ? y->n - first : BLOCK);
    float *to = m < BLOCK ? buf : sn_values_room(y, acc, first, buf);
    enum sn_codec_fault f = c->kind == SN_CODEC_BF16       ? get_bf16(from, m, to)
                            : c->kind == SN_CODEC_FP8      ? get_fp8(E4M3, from, m, to)
                            : c->kind == SN_CODEC_FP8_E5M2 ? get_fp8(E5M2, from, m, to)
                                                           : SN_K(sn_int_get)(c, from, m, to);
    if (f == SN_CODEC_FINE)
        sn_values_put(y, acc, first, m, to);
    return f;
}

enum sn_codec_fault SN_K(sn_blocks_encode)(const struct sn_codec *c, const struct sn_values *x,
                                           const struct sn_codec_draw *draw, struct sn_stream *to,
                                           int threads)
{
    int64_t blocks = (x->n + BLOCK - 1) / BLOCK, stride = sn_codec_bytes(c, x->dtype, BLOCK);
#pragma omp parallel num_threads(sn_team(threads, x->n))
    {
        int64_t b, end;
        sn_share(blocks, 1, omp_get_thread_num(), omp_get_num_threads(), &b, &end);
        for (; b < end; b++)
            put_block(c, draw, x, b, (unsigned char *)to->p + b * stride);
    }
    return SN_CODEC_FINE;
}

enum sn_codec_fault SN_K(sn_blocks_decode)(const struct sn_codec *c, const struct sn_stream *from,
                                           const struct sn_values *y, enum sn_acc acc, int threads)
{
    int64_t blocks = (y->n + BLOCK - 1) / BLOCK, stride = sn_codec_bytes(c, y->dtype, BLOCK);
    int fault = SN_CODEC_FINE;
#pragma omp parallel num_threads(sn_team(threads, y->n)) reduction(max : fault)
    {
        enum sn_codec_fault f = SN_CODEC_FINE;
        int64_t b, end;
        sn_share(blocks, 1, omp_get_thread_num(), omp_get_num_threads(), &b, &end);
        for (; b < end && f == SN_CODEC_FINE; b++)
            f = get_block(c, (const unsigned char *)from->p + b * stride, y, b, acc);
        fault = (int)f;
    }
    return (enum sn_codec_fault)fault;
}

/* --- the table -------------------------------------------------------------------------------- */

static bool is_float(enum sn_dtype t)
{
    return t == SN_F32 || t == SN_BF16 || t == SN_F16;
}

/* What codes and what decodes 64-bit words wants them where the processor does. */
static enum sn_codec_fault check(const struct sn_codec *c, const struct sn_values *v,
                                 const void *stream, enum sn_acc acc)
{
    bool in_words = c->kind == SN_CODEC_ZFP || c->kind == SN_CODEC_MPC;
    if (!is_float(v->dtype) || (acc == SN_ADD && v->dtype != SN_F32))
        return SN_CODEC_BAD_TYPE;
    if (sn_codec_missing(c))
        return SN_CODEC_MISSING;
    return in_words && (uintptr_t)stream % 8 ? SN_CODEC_BAD_PLACE : SN_CODEC_FINE;
}

/* Every kind has blocks of 128 values but these. */
static sn_encoder *encoder_of(const struct sn_codec *c)
{
    return c->kind == SN_CODEC_ZFP   ? SN_K(sn_zfp_encode)
           : c->kind == SN_CODEC_MPC ? SN_K(sn_mpc_encode)
                                     : SN_K(sn_blocks_encode);
}

static sn_decoder *decoder_of(const struct sn_codec *c)
{
    return c->kind == SN_CODEC_ZFP   ? SN_K(sn_zfp_decode)
           : c->kind == SN_CODEC_MPC ? SN_K(sn_mpc_decode)
                                     : SN_K(sn_blocks_decode);
}

static enum sn_codec_fault encode(const struct sn_codec *c, const struct sn_values *x,
                                  const struct sn_codec_draw *draw, struct sn_stream *to,
                                  int threads)
{
    enum sn_codec_fault f = check(c, x, to->p, SN_WRITE);
    if (f != SN_CODEC_FINE)
        return f;
    to->bytes = sn_codec_bytes(c, x->dtype, x->n);
    return encoder_of(c)(c, x, draw, to, threads);
}

static enum sn_codec_fault decode(const struct sn_codec *c, const struct sn_stream *from,
                                  const struct sn_values *y, enum sn_acc acc, int threads)
{
    enum sn_codec_fault f = check(c, y, from->p, acc);
    if (f == SN_CODEC_FINE && sn_codec_is_fixed(c) &&
        from->bytes != sn_codec_bytes(c, y->dtype, y->n))
        f = SN_CODEC_BAD_LENGTH;
    return f == SN_CODEC_FINE ? decoder_of(c)(c, from, y, acc, threads) : f;
}

static enum sn_codec_fault encode_fed(const struct sn_codec *c, const struct sn_values *x,
                                      const float *e, const struct sn_codec_draw *draw,
                                      struct sn_stream *to, int threads)
{
    enum sn_codec_fault f = check(c, x, to->p, SN_WRITE);
    return f == SN_CODEC_FINE ? SN_K(sn_feedback_encode)(c, x, e, draw, to, threads) : f;
}

static enum sn_codec_fault keep(const struct sn_codec *c, const struct sn_values *x, float *e,
                                const struct sn_stream *from, int threads)
{
    enum sn_codec_fault f = check(c, x, from->p, SN_WRITE);
    return f == SN_CODEC_FINE ? SN_K(sn_feedback_keep)(c, x, e, from, threads) : f;
}

#define SN_STR2(x) #x
#define SN_STR(x)  SN_STR2(x)

const struct sn_codecs SN_K(sn_codecs) = {
    .name = "cpu/" SN_STR(SN_ISA),
    .encode = encode,
    .decode = decode,
    .encode_fed = encode_fed,
    .keep = keep,
};
