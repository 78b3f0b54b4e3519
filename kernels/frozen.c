#include "kernels/frozen.h"

#include "kernels/codec.h"
#include "kernels/half.h"
#include "kernels/nf4.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { BLOCK = SN_CODEC_BLOCK };

bool sn_frozen_takes(const struct sn_codec *c)
{
    bool has_codes = c->kind >= SN_CODEC_INT8 && c->kind <= SN_CODEC_NF4;
    return has_codes && !c->hadamard && !c->stochastic;
}

static float top_of(const struct sn_codec *c)
{
    return c->kind == SN_CODEC_INT8 ? 127.0f : c->kind == SN_CODEC_INT4 ? 7.0f : 1.0f;
}

static unsigned char *block_at(const struct sn_codec *c, const void *stream, int64_t at)
{
    return (unsigned char *)(uintptr_t)stream + sn_codec_bytes(c, SN_F32, at / BLOCK * BLOCK);
}

/* NaN for a block that is not finite, 0 for one that streams take for zeros. */
static float scale_of(const float x[BLOCK], float top)
{
    float most = 0;
    for (int i = 0; i < BLOCK; i++) {
        if (!isfinite(x[i]))
            return NAN;
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    if (most < 0x1p-100f)
        return 0;
    uint16_t half = sn_f32_to_bf16(most / top);
    return sn_bf16_to_f32((uint16_t)(half - !isfinite(sn_bf16_to_f32(half) * top)));
}

static int code_of(const struct sn_codec *c, float x, float scale)
{
    float top = top_of(c), q = rintf(x / scale);
    if (c->kind == SN_CODEC_NF4)
        return sn_nf4_code(x / scale);
    return (int)(q > top ? top : q < -top ? -top : q);
}

static void put_block(const struct sn_codec *c, unsigned char *to, const float x[BLOCK])
{
    unsigned char code[BLOCK];
    float scale = scale_of(x, top_of(c));
    uint32_t bits = 0x7fc00000u; /* of a scale that is no number */
    if (!isnan(scale))
        memcpy(&bits, &scale, sizeof(bits));
    memset(code, c->kind == SN_CODEC_NF4 ? SN_NF4_ZERO : 0, sizeof(code));
    for (int i = 0; i < BLOCK && scale > 0; i++)
        code[i] = (unsigned char)code_of(c, x[i], scale);
    memcpy(to, &bits, sizeof(bits));
    to += sizeof(bits);
    if (c->kind == SN_CODEC_INT8) {
        memcpy(to, code, BLOCK);
        return;
    }
    for (int i = 0; i < BLOCK / 2; i++)
        to[i] = (unsigned char)((code[i] & 15) | code[i + BLOCK / 2] << 4);
}

void sn_frozen_put(const struct sn_codec *c, void *stream, int64_t at, int64_t n, const float *x)
{
    assert(at % BLOCK == 0 && n % BLOCK == 0 && sn_frozen_takes(c));
    for (int64_t i = 0; i < n; i += BLOCK)
        put_block(c, block_at(c, stream, at + i), x + i);
}

/* What it is times the scale. */
static float code_at(const struct sn_codec *c, const unsigned char *codes, int i)
{
    if (c->kind == SN_CODEC_INT8)
        return (float)(int8_t)codes[i];
    int half = i < BLOCK / 2 ? codes[i] & 15 : codes[i - BLOCK / 2] >> 4;
    return c->kind == SN_CODEC_NF4 ? sn_nf4_level(half) : (float)((half ^ 8) - 8);
}

void sn_frozen_get(const struct sn_codec *c, const void *stream, int64_t at, int64_t n, float *x)
{
    for (int64_t i = 0; i < n;) {
        const unsigned char *from = block_at(c, stream, at + i);
        int first = (int)((at + i) % BLOCK);
        int end = n - i < BLOCK - first ? first + (int)(n - i) : BLOCK;
        float scale;
        memcpy(&scale, from, sizeof(scale));
        for (int k = first; k < end; k++)
            x[i++] = code_at(c, from + sizeof(scale), k) * scale;
    }
}
