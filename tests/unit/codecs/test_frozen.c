/*
 * test_frozen.c - frozen weights as codes (kernels/frozen.h) against plain code that follows its words,
 * against DECODE's codecs, and against themselves: what comes from codes gives the same codes.
 */
#include "kernels/frozen.h"
#include "kernels/half.h"
#include "kernels/nf4.h"
#include "tests/lib/codec_test.h"

enum { ROWS = 40, COLS = 384, N = ROWS * COLS };

static const char *const names[] = {"int8", "int4", "nf4"};
static const float tops[] = {127, 7, 1};
enum { NAMES = 3 };

/* Rows of very different magnitudes, and some that are hard: zeros, next to nothing, huge. */
static void fill(float *x)
{
    struct sn_values v = ct_values(CT_HEAVY, SN_F32, N, 7);
    for (int64_t i = 0; i < N; i++)
        x[i] = ct_get(&v, i) * ldexpf(1, (int)(i / COLS) - 20);
    ct_free(v.p);
    memset(x, 0, 128 * sizeof(*x));
    for (int i = 128; i < 256; i++)
        x[i] *= 0x1p-110f;
    for (int i = 256; i < 384; i++)
        x[i] = (i % 3 ? 1.0f : -1.0f) * FLT_MAX;
}

/* A value of a block, as frozen.h has it. */
static float plain(const float *block, int i, float top)
{
    float most = 0;
    for (int k = 0; k < 128; k++)
        most = fmaxf(most, fabsf(block[k]));
    if (most < 0x1p-100f)
        return 0;
    float scale = sn_bf16_to_f32(sn_f32_to_bf16(most / top));
    if (!isfinite(scale * top))
        scale = sn_bf16_to_f32((uint16_t)(sn_f32_to_bf16(most / top) - 1));
    if (top == 1) /* whose codes are tests/unit/codecs/test_codec_int.c's */
        return sn_nf4_level(sn_nf4_code(block[i] / scale)) * scale;
    return fmaxf(-top, fminf(top, rintf(block[i] / scale))) * scale;
}

static void values_are_the_plain_code_s(void)
{
    static float x[N], y[N], z[N];
    fill(x);
    for (int k = 0; k < NAMES; k++) {
        struct sn_codec c = ct_codec(names[k]);
        struct sn_stream s = {calloc(1, (size_t)sn_codec_bytes(&c, SN_F32, N)),
                              sn_codec_bytes(&c, SN_F32, N)};
        bool plain_ones = true, any = true;
        sn_frozen_put(&c, s.p, 0, N, x);
        sn_frozen_get(&c, s.p, 0, N, y);
        for (int i = 0; i < N; i++)
            plain_ones = plain_ones && y[i] == plain(x + i / 128 * 128, i % 128, tops[k]);
        tap_ok(plain_ones, "%s: values are those of the words", names[k]);
        enum sn_codec_fault f =
            sn_codecs_cpu()->decode(&c, &s, &(struct sn_values){z, SN_F32, N}, SN_WRITE, 2);
        tap_ok(f == SN_CODEC_FINE && memcmp(y, z, sizeof(y)) == 0, "%s: DECODE gives the same",
               names[k]);
        for (int i = 0; i + 77 < N; i += 1001) {
            sn_frozen_get(&c, s.p, i, 77, z);
            any = any && memcmp(z, y + i, 77 * sizeof(*z)) == 0;
        }
        tap_ok(any, "%s: any part of them, too", names[k]);
        free(s.p);
    }
}

static void what_comes_from_codes_gives_them_again(void)
{
    static float x[N], y[N];
    fill(x);
    for (int k = 0; k < NAMES; k++) {
        struct sn_codec c = ct_codec(names[k]);
        size_t bytes = (size_t)sn_codec_bytes(&c, SN_F32, N);
        unsigned char *once = calloc(1, bytes), *again = calloc(1, bytes);
        sn_frozen_put(&c, once, 0, N, x);
        sn_frozen_get(&c, once, 0, N, y);
        for (int64_t at = 0; at < N; at += 3 * 128) /* as a load puts rows */
            sn_frozen_put(&c, again, at, 3 * 128, y + at);
        tap_ok(memcmp(once, again, bytes) == 0, "%s: the same codes", names[k]);
        free(once), free(again);
    }
}

static void what_is_not_finite_shows(void)
{
    float x[256] = {0}, y[256];
    x[3] = INFINITY;
    x[200] = 5;
    for (int k = 0; k < NAMES; k++) {
        struct sn_codec c = ct_codec(names[k]);
        unsigned char s[512];
        bool nan = true, apart = true;
        sn_frozen_put(&c, s, 0, 256, x);
        sn_frozen_get(&c, s, 0, 256, y);
        for (int i = 0; i < 128; i++) {
            nan = nan && isnan(y[i]);
            apart = apart && isfinite(y[128 + i]);
        }
        tap_ok(nan && apart && fabsf(y[200] - 5) < 0.02f, "%s: its block is NaN, others are not",
               names[k]);
    }
}

static void codecs_that_neighbours_or_lots_decide_are_not_for_weights(void)
{
    static const char *const no[] = {"bf16", "int4-hadamard", "int8-stochastic", "mpc"};
    for (int k = 0; k < 4; k++) {
        struct sn_codec c = ct_codec(no[k]);
        tap_ok(!sn_frozen_takes(&c), "%s", no[k]);
    }
}

int main(void)
{
    values_are_the_plain_code_s();
    what_comes_from_codes_gives_them_again();
    what_is_not_finite_shows();
    codecs_that_neighbours_or_lots_decide_are_not_for_weights();
    return tap_done();
}
