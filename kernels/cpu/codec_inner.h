/*
 * codec_inner.h - shared by the files of the codecs (kernels/codec.h) in this folder.
 */
#ifndef SN_CODEC_INNER_H
#define SN_CODEC_INNER_H

#include "kernels/codec.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vmath.h"

/* What every encoder and decoder of a whole array looks like. */
typedef enum sn_codec_fault sn_encoder(const struct sn_codec *c, const struct sn_values *x,
                                       const struct sn_codec_draw *draw, struct sn_stream *to,
                                       int threads);
typedef enum sn_codec_fault sn_decoder(const struct sn_codec *c, const struct sn_stream *from,
                                       const struct sn_values *y, enum sn_acc acc, int threads);

sn_encoder SN_K(sn_blocks_encode), SN_K(sn_zfp_encode), SN_K(sn_mpc_encode);
sn_decoder SN_K(sn_blocks_decode), SN_K(sn_zfp_decode), SN_K(sn_mpc_decode);

/* codec_feedback.c: see encode_fed and keep. */
enum sn_codec_fault SN_K(sn_feedback_encode)(const struct sn_codec *c, const struct sn_values *x,
                                             const float *e, const struct sn_codec_draw *draw,
                                             struct sn_stream *to, int threads);
enum sn_codec_fault SN_K(sn_feedback_keep)(const struct sn_codec *c, const struct sn_values *x,
                                           float *e, const struct sn_stream *from, int threads);
extern const struct sn_codecs SN_K(sn_codecs);

/* codec_int.c: one block of m <= 128 values of int8, int4 or nf4; x has zeros behind them up to 128,
 * y has room for 128. `b`: the number of the block in its message. */
void SN_K(sn_int_put)(const struct sn_codec *c, const struct sn_codec_draw *draw, int64_t b,
                      const float *x, int m, unsigned char *to);
enum sn_codec_fault SN_K(sn_int_get)(const struct sn_codec *c, const unsigned char *from, int m,
                                     float *y);

/* A scale that is no number: its block holds something that is not finite. */
static const uint32_t SN_NO_SCALE = 0x7fc00000u;

/* Magnitudes as integers have the order of the floats, with infinity and then NaN above all. */
static inline int32_t sn_magnitude(float x)
{
    return (int32_t)(sn_float_bits(x) & 0x7fffffffu);
}

static inline int32_t sn_largest(const float x[SN_CODEC_BLOCK])
{
    int32_t most = 0;
#pragma omp simd reduction(max : most)
    for (int i = 0; i < SN_CODEC_BLOCK; i++) {
        int32_t m = sn_magnitude(x[i]);
        most = m > most ? m : most;
    }
    return most;
}

static inline void *sn_value_at(const struct sn_values *v, int64_t i)
{
    return (char *)v->p + (size_t)i * sn_dtype_size(v->dtype);
}

/* Values i .. i + n - 1 as fp32, where they lie or in `buf`. */
static inline const float *sn_values_get(const struct sn_values *x, int64_t i, int64_t n,
                                         float *buf)
{
    if (x->dtype == SN_F32)
        return sn_value_at(x, i);
    sn_row_load(buf, sn_value_at(x, i), x->dtype, n);
    return buf;
}

/* The same to write to: nothing else may be done with it than sn_values_put(). */
static inline float *sn_values_room(const struct sn_values *y, enum sn_acc acc, int64_t i,
                                    float *buf)
{
    return y->dtype == SN_F32 && acc == SN_WRITE ? sn_value_at(y, i) : buf;
}

static inline void sn_values_put(const struct sn_values *y, enum sn_acc acc, int64_t i, int64_t n,
                                 const float *from)
{
    float *to = sn_value_at(y, i);
    if (acc == SN_ADD) {
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            to[k] += from[k];
    } else if (from != to) {
        sn_row_store(to, y->dtype, from, n);
    }
}

#endif
