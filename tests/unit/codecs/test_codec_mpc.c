/*
 * mpc: every bit comes back; smooth values become fewer bytes and noise costs the header alone; a
 * stream by hand; streams that were changed.
 */
#include "tests/lib/codec_test.h"

static bool comes_back(const struct sn_codec *c, const struct sn_values *x, int64_t *bytes)
{
    struct sn_stream s = ct_encode(c, x);
    struct sn_values y = ct_decode(c, &s, x->dtype, x->n);
    bool good = y.n == x->n && memcmp(x->p, y.p, (size_t)x->n * sn_dtype_size(x->dtype)) == 0;
    *bytes = s.bytes;
    ct_free(s.p), ct_free(y.p);
    return good;
}

/* Integers below 2^bits as the bits of values: every kind of NaN, infinity and denormal is among
 * them when bits is the whole width. */
static struct sn_values any_bits(enum sn_dtype t, int64_t n, int bits)
{
    struct sn_values v = ct_room(t, n);
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = sn_rng_bits(12, (uint64_t)i) & ((UINT64_C(1) << bits) - 1);
        if (t == SN_F32)
            ((uint32_t *)v.p)[i] = (uint32_t)r;
        else
            ((uint16_t *)v.p)[i] = (uint16_t)r;
    }
    return v;
}

static void every_bit_comes_back(void)
{
    static const int64_t sizes[] = {0,    1,    2,    31,   32,   33,   64,   65,
                                    1000, 1023, 1024, 1025, 2047, 2048, 2049, 9001};
    for (int t = 0; t <= SN_F16; t++) {
        bool good = true, bounded = true;
        int64_t bytes;
        for (int dim = 1; dim <= 32; dim += dim < 4 ? 1 : 7)
            for (int i = 0; i < 16; i++)
                for (int bits = 1; bits <= (t == SN_F32 ? 32 : 16); bits += 5) {
                    struct sn_codec c = {.kind = SN_CODEC_MPC, .dim = dim};
                    struct sn_values x = any_bits((enum sn_dtype)t, sizes[i], bits);
                    good = good && comes_back(&c, &x, &bytes);
                    bounded = bounded && bytes <= sn_codec_bytes(&c, x.dtype, x.n);
                    ct_free(x.p);
                }
        tap_ok(good && bounded,
               "%s: integers of all widths come back, in no more than their bytes and 16",
               sn_dtype_name((enum sn_dtype)t));
    }
}

/* Bytes over those of the values. */
static double ratio(const char *name, enum ct_kind kind, enum sn_dtype t)
{
    enum { N = 1 << 16 };
    struct sn_codec c = ct_codec(name);
    struct sn_values x = ct_values(kind, t, N, 1);
    int64_t bytes;
    double r = comes_back(&c, &x, &bytes) ? (double)bytes / (double)(N * sn_dtype_size(t)) : 99.0;
    ct_free(x.p);
    return r;
}

static void what_is_smooth_shrinks(void)
{
    double smooth = ratio("mpc", CT_SMOOTH, SN_F32), half = ratio("mpc", CT_SMOOTH, SN_BF16);
    double normal = ratio("mpc", CT_NORMAL, SN_F32), sparse = ratio("mpc", CT_SPARSE, SN_F32);
    tap_ok(smooth < 0.9 && half < 0.7, "a sine takes %.2f of its bytes in fp32, %.2f in bf16",
           smooth, half);
    tap_ok(sparse < 0.6 && normal > 0.85 && normal < 0.95,
           "mostly zeros take %.2f, normals %.2f: their exponents are alike", sparse, normal);
    struct sn_codec one = ct_codec("mpc"), two = ct_codec("mpc-2");
    struct sn_values noise = any_bits(SN_F32, 5000, 32);
    int64_t bytes = 0;
    tap_ok(comes_back(&one, &noise, &bytes) && bytes == 16 + 4 * 5000,
           "noise goes as it is, behind the header");
    ct_free(noise.p);
    /* two series that take turns: what lies two places before is near */
    enum { N = 1 << 14 };
    struct sn_values x = ct_room(SN_F32, N);
    for (int64_t i = 0; i < N; i++)
        ct_set(&x, i, i % 2 ? sinf(0.001f * (float)i) : 1000.0f + cosf(0.001f * (float)i));
    int64_t with_one = 0, with_two = 0;
    bool good = comes_back(&one, &x, &with_one) && comes_back(&two, &x, &with_two);
    tap_ok(good && with_two < with_one, "pairs: %ld bytes with mpc-2, %ld with mpc, %d as they are",
           (long)with_two, (long)with_one, 4 * N);
    ct_free(x.p);
}

/* Three values 5, 6, 8 as integers: differences 5, 1, 2, whose bits 0 and 2, 0, 1 turn into words
 * 29 to 31; each minus the one before. */
static void a_stream_by_hand(void)
{
    uint32_t values[40] = {5, 6, 8};
    for (int i = 3; i < 40; i++)
        values[i] = 8;
    struct sn_codec c = ct_codec("mpc");
    struct sn_values x = {values, SN_F32, 40};
    struct sn_stream s = ct_encode(&c, &x);
    /* header, maps of two groups, words: the second group holds zeros */
    uint32_t p29 = 1u << 31, p30 = 1u << 29, p31 = 1u << 31 | 1u << 30;
    uint32_t want[] = {0xe0000000u, 0, p29, p30 - p29, p31 - p30};
    bool good = s.bytes == 16 + (int64_t)sizeof(want) &&
                memcmp(s.p, "MPC1\1\0\1\0\50\0\0\0\0\0\0\0", 16) == 0;
    tap_ok(good && memcmp((char *)s.p + 16, want, sizeof(want)) == 0, "a stream written by hand");
    ct_free(s.p);
}

static enum sn_codec_fault after(const struct sn_codec *c, struct sn_stream s, int64_t at,
                                 unsigned char byte)
{
    unsigned char *p = (unsigned char *)s.p + at, old = *p;
    struct sn_values y = ct_room(SN_F32, 4096);
    *p = byte;
    enum sn_codec_fault f = sn_codecs_cpu()->decode(c, &s, &y, SN_WRITE, 1);
    *p = old;
    ct_free(y.p);
    return f;
}

static void changed_streams_are_refused(void)
{
    struct sn_codec c = ct_codec("mpc");
    struct sn_values x = ct_values(CT_SMOOTH, SN_F32, 4096, 1);
    struct sn_stream s = ct_encode(&c, &x);
    const unsigned char *p = s.p;
    tap_ok(p[4] == 1 && after(&c, s, 0, 'M') == SN_CODEC_FINE, "it is coded, and whole");
    tap_ok(
        after(&c, s, 0, 'm') == SN_CODEC_BAD_HEADER && after(&c, s, 4, 2) == SN_CODEC_BAD_HEADER &&
            after(&c, s, 5, 3) == SN_CODEC_BAD_HEADER &&
            after(&c, s, 6, 2) == SN_CODEC_BAD_HEADER &&
            after(&c, s, 8, 1) == SN_CODEC_BAD_HEADER && after(&c, s, 15, 1) == SN_CODEC_BAD_HEADER,
        "another header is refused");
    tap_ok(after(&c, s, 4, 0) == SN_CODEC_BAD_LENGTH &&
               after(&c, s, 16, p[16] ^ 1) == SN_CODEC_BAD_LENGTH &&
               after(&c, s, 16 + 4 * 128 - 1, p[16 + 4 * 128 - 1] ^ 0x80) == SN_CODEC_BAD_LENGTH,
           "maps that count other words are refused");
    unsigned char *word = (unsigned char *)s.p + 16 + 4 * 128;
    memset(word, 0, 4);
    tap_ok(after(&c, s, 0, 'M') == SN_CODEC_BAD_CODE,
           "a word that would not have been kept is refused");
    ct_free(x.p), ct_free(s.p);
}

int main(void)
{
    every_bit_comes_back();
    what_is_smooth_shrinks();
    a_stream_by_hand();
    changed_streams_are_refused();
    return tap_done();
}
