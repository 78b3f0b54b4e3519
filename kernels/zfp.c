/*
 * zfp.c - the only file that knows libzfp. See zfp.h.
 *
 * Lindstrom, "Fixed-rate compressed floating-point arrays" (2014); the library's own documentation,
 * algorithm.rst. In fixed-rate mode every block takes the same number of bits, so blocks are coded
 * one by one, and what the library would do wrong never reaches it.
 */
#include "kernels/zfp.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <zfp.h>

enum { SIDE = 4, WORD = 64, EXPONENT = 8 /* bits */ };

/* The library scales a block by 2^(30 - e), e the exponent of its largest value: an infinity from
 * 2^128 on. */
static const float SMALLEST = 0x1p-98f;

const char *sn_zfp_missing(void)
{
    return NULL;
}

bool sn_zfp_init(struct sn_zfp *z, void *words, int64_t bytes, int rate)
{
    *z = (struct sn_zfp){.words = words, .end = bytes * 8, .rate = rate};
    zfp_stream *library = zfp_stream_open(NULL);
    bitstream *bits = library ? stream_open(words, (size_t)bytes) : NULL;
    if (!bits) {
        if (library)
            zfp_stream_close(library);
        return false;
    }
    zfp_stream_set_bit_stream(library, bits);
    (void)zfp_stream_set_rate(library, rate, zfp_type_float, 1, zfp_false);
    zfp_stream_rewind(library);
    z->library = library;
    return true;
}

void sn_zfp_fini(struct sn_zfp *z)
{
    zfp_stream *library = z->library;
    if (!library)
        return;
    stream_close(zfp_stream_bit_stream(library));
    zfp_stream_close(library);
    z->library = NULL;
}

static void put_block(zfp_stream *library, const float x[SIDE], int rate)
{
    bitstream *bits = zfp_stream_bit_stream(library);
    float sum = 0.0f, most = 0.0f, zeros[SIDE] = {0};
    for (int i = 0; i < SIDE; i++) {
        sum += x[i] * 0.0f; /* NaN as soon as one is not finite */
        most = fmaxf(most, fabsf(x[i]));
    }
    if (isnan(sum)) {
        (void)stream_write_bit(bits, 0);
        for (int left = SIDE * rate - 1; left > 0; left -= WORD)
            (void)stream_write_bits(bits, UINT64_MAX, (size_t)(left < WORD ? left : WORD));
        return;
    }
    (void)zfp_encode_block_float_1(library, most < SMALLEST ? zeros : x);
}

/* The library fills a block that is not full this way (its pad_block()). */
static void fill(float block[SIDE], int n)
{
    if (n < 2)
        block[1] = block[0];
    if (n < 3)
        block[2] = block[1];
    if (n < 4)
        block[3] = block[0];
}

void sn_zfp_put(struct sn_zfp *z, const float *x, int n)
{
    float last[SIDE];
    int i = 0;
    for (; i + SIDE <= n; i += SIDE)
        put_block(z->library, x + i, z->rate);
    if (i == n)
        return;
    memcpy(last, x + i, (size_t)(n - i) * sizeof(float));
    fill(last, n - i);
    put_block(z->library, last, z->rate);
}

void sn_zfp_end(struct sn_zfp *z)
{
    bitstream *bits = zfp_stream_bit_stream(z->library);
    (void)stream_flush(bits);
    size_t done = stream_size(bits); /* in words of the library's own, which may have 8 bits */
    memset((char *)z->words + done, 0, (size_t)z->end / 8 - done);
}

/* Up to 64 bits of the stream from bit `at` on. */
static uint64_t peek(const struct sn_zfp *z, int64_t at, int n)
{
    int shift = (int)(at % WORD);
    uint64_t low = z->words[at / WORD] >> shift;
    if (shift + n > WORD)
        low |= z->words[at / WORD + 1] << (WORD - shift);
    return n < WORD ? low & ((UINT64_C(1) << n) - 1) : low;
}

/* A block whose first bit is 0: all zero, or not finite, or none. */
static bool get_flat(const struct sn_zfp *z, float y[SIDE])
{
    bool zeros = true, ones = true;
    int left = SIDE * z->rate - 1;
    for (int64_t at = z->at + 1; left > 0; at += WORD, left -= WORD) {
        int n = left < WORD ? left : WORD;
        uint64_t bits = peek(z, at, n);
        zeros = zeros && bits == 0;
        ones = ones && bits == UINT64_MAX >> (WORD - n);
    }
    for (int i = 0; i < SIDE; i++)
        y[i] = zeros ? 0.0f : NAN;
    return zeros || ones;
}

static bool get_block(struct sn_zfp *z, float y[SIDE])
{
    bool good = z->at + SIDE * z->rate <= z->end, flat = good && !peek(z, z->at, 1);
    if (flat) {
        good = get_flat(z, y);
        stream_skip(zfp_stream_bit_stream(z->library), (size_t)(SIDE * z->rate));
    } else if (good) {
        good = peek(z, z->at + 1, EXPONENT) != 0;
        (void)zfp_decode_block_float_1(z->library, y);
    }
    z->at += SIDE * z->rate;
    return good;
}

bool sn_zfp_get(struct sn_zfp *z, float *y, int n)
{
    float last[SIDE];
    bool good = true;
    int i = 0;
    for (; good && i + SIDE <= n; i += SIDE)
        good = get_block(z, y + i);
    if (!good || i == n)
        return good;
    good = get_block(z, last);
    memcpy(y + i, last, (size_t)(n - i) * sizeof(float));
    return good;
}

/* --- the library's own calls ------------------------------------------------------------------ */

static int64_t whole(void *words, int64_t bytes, float *x, int64_t n, int rate, bool packs)
{
    struct sn_zfp z;
    size_t done = 0;
    zfp_field *field = zfp_field_1d(x, zfp_type_float, (size_t)n);
    if (field && sn_zfp_init(&z, words, bytes, rate)) {
        done = packs ? zfp_compress(z.library, field) : zfp_decompress(z.library, field);
        sn_zfp_fini(&z);
    }
    zfp_field_free(field);
    return (int64_t)done;
}

int64_t sn_zfp_compress(void *words, int64_t bytes, const float *x, int64_t n, int rate)
{
    return whole(words, bytes, (float *)(uintptr_t)x, n, rate, true);
}

int64_t sn_zfp_decompress(const void *words, int64_t bytes, float *y, int64_t n, int rate)
{
    return whole((void *)(uintptr_t)words, bytes, y, n, rate, false);
}
