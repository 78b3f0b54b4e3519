/*
 * int8, int4, nf4, fp8 and bf16 against plain code that follows kernels/codec.h word for word; how
 * stochastic rounding and the Hadamard transform behave; the measured errors of facts known from
 * outside.
 */
#include "kernels/fp8.h"
#include "kernels/philox.h"
#include "tests/lib/codec_test.h"

/* --- the format, by the book ------------------------------------------------------------------ */

static float drawn(const struct sn_codec_draw *d, int64_t i)
{
    uint64_t counter = 16 * (uint64_t)(i / 128) + (uint64_t)(i % 16);
    int64_t p = i % 128 / 16;
    uint32_t word = sn_philox(d->key, d->message, counter).v[p / 2];
    return ((float)(p % 2 ? word >> 16 : word & 0xffff) + 0.5f) / 65536.0f;
}

/* The nearest of the paper's 16 levels. */
static int nearest_level(float v)
{
    static const float level[] = {-1.0f,        -0.69619280f, -0.52507305f, -0.39491749f,
                                  -0.28444138f, -0.18477343f, -0.09105004f, 0.0f,
                                  0.07958030f,  0.16093020f,  0.24611230f,  0.33791524f,
                                  0.44070983f,  0.56261700f,  0.72295684f,  1.0f};
    int best = 0;
    for (int k = 1; k < 16; k++)
        if (fabsf(v - level[k]) < fabsf(v - level[best]))
            best = k;
    return best;
}

/* The stream of int8, int4 or nf4 without a transform; returns its bytes. */
static int64_t plain_int(const struct sn_codec *c, const struct sn_values *x, unsigned char *to)
{
    unsigned char *began = to;
    bool nf4 = c->kind == SN_CODEC_NF4;
    float top = c->kind == SN_CODEC_INT8 ? 127.0f : nf4 ? 1.0f : 7.0f;
    for (int64_t first = 0; first < x->n; first += 128) {
        int m = (int)(x->n - first < 128 ? x->n - first : 128), q[129] = {0};
        float most = 0.0f;
        for (int i = 0; i < 129 && nf4; i++)
            q[i] = 7;
        for (int i = 0; i < m; i++)
            most = fmaxf(most, fabsf(ct_get(x, first + i)));
        float scale = most / top, inverse = 1.0f / scale;
        for (int i = 0; i < m && most > 0.0f; i++) {
            float v = fmaxf(-top, fminf(top, ct_get(x, first + i) * inverse));
            q[i] = nf4 ? nearest_level(v)
                       : (int)(c->stochastic ? floorf(v + drawn(&ct_draw, first + i)) : rintf(v));
        }
        memcpy(to, &scale, 4);
        to += 4;
        if (c->kind == SN_CODEC_INT8)
            for (int i = 0; i < m; i++)
                *to++ = (unsigned char)q[i];
        else
            for (int i = 0, half = (m + 1) / 2; i < half; i++)
                *to++ = (unsigned char)((q[i] & 15) | (q[i + half] & 15) << 4);
    }
    return to - began;
}

static void streams_are_the_plain_code_s(void)
{
    static const char *const names[] = {"int8", "int4", "int8-stochastic", "int4-stochastic",
                                        "nf4"};
    for (int k = 0; k < 5; k++) {
        struct sn_codec c = ct_codec(names[k]);
        bool good = true;
        for (int64_t n = 1; n < 700 && good; n += n < 140 ? 1 : 61)
            for (int t = 0; t <= SN_F16; t++) {
                struct sn_values x = ct_values(CT_HEAVY, (enum sn_dtype)t, n, (uint64_t)n);
                struct sn_stream s = ct_encode(&c, &x);
                unsigned char want[4096];
                good = good && plain_int(&c, &x, want) == s.bytes &&
                       memcmp(want, s.p, (size_t)s.bytes) == 0;
                ct_free(x.p), ct_free(s.p);
            }
        tap_ok(good, "%s: the bytes of plain code, for 1 to 700 values of each type", names[k]);
    }
}

static void fp8_is_the_plain_code_s(const char *name, enum sn_fp8_format t)
{
    enum { N = 333 };
    struct sn_codec c = ct_codec(name);
    struct sn_values x = ct_values(CT_HEAVY, SN_F32, N, 4);
    struct sn_stream a = ct_encode(&c, &x);
    bool good = true;
    for (int64_t first = 0; first < N; first += 128) {
        uint32_t most = 0, u;
        float scale;
        for (int64_t i = first; i < first + 128 && i < N; i++) {
            float size = fabsf(ct_get(&x, i));
            memcpy(&u, &size, 4);
            most = u > most ? u : most;
        }
        int e = sn_fp8_exponent(most, t);
        const unsigned char *at = (unsigned char *)a.p + first / 128 * 132;
        memcpy(&scale, at, 4);
        good = good && scale == ldexpf(1, -e);
        for (int64_t i = first; i < first + 128 && i < N; i++)
            good = good && at[4 + i - first] == sn_f32_to_fp8(ldexpf(ct_get(&x, i), e), t);
    }
    tap_ok(good, "%s: a power of two and the codes of kernels/fp8.h", name);
    ct_free(x.p), ct_free(a.p);
}

static void bf16_is_the_plain_code_s(void)
{
    struct sn_codec bf16 = ct_codec("bf16");
    struct sn_values x = ct_values(CT_HEAVY, SN_F32, 333, 4);
    struct sn_stream s = ct_encode(&bf16, &x);
    bool good = true;
    for (int64_t i = 0; i < x.n; i++)
        good = good && ((uint16_t *)s.p)[i] == sn_f32_to_bf16(ct_get(&x, i));
    tap_ok(good, "bf16: the values rounded to even");
    ct_free(x.p), ct_free(s.p);
}

/* Every code with scale 1: e5m2 is the upper half of fp16. */
static void codes_of_e5m2_are_halves_of_fp16(void)
{
    struct sn_codec c = ct_codec("fp8-e5m2");
    int same = 0, refused = 0;
    for (unsigned code = 0; code < 256; code++) {
        unsigned char bytes[5] = {0, 0, 0x80, 0x3f, (unsigned char)code};
        struct sn_stream s = {bytes, 5};
        float y = -1.0f, want = sn_f16_to_f32((uint16_t)(code << 8));
        struct sn_values to = {&y, SN_F32, 1};
        enum sn_codec_fault f = sn_codecs_cpu()->decode(&c, &s, &to, SN_WRITE, 1);
        same += f == SN_CODEC_FINE && isfinite(want) && memcmp(&y, &want, 4) == 0;
        refused += f == SN_CODEC_BAD_CODE && !isfinite(want);
    }
    tap_ok(same == 248 && refused == 8,
           "fp8-e5m2: %d codes are values of fp16 cut short, its %d of infinity and NaN refused",
           same, refused);
}

/* The largest values of fp32 would round to a power of two beyond it; 2^-31 of the largest is kept
 * by e5m2, where e4m3 has zero. */
static void the_ends_of_the_range_are_kept(const char *name, enum sn_fp8_format t)
{
    struct sn_codec c = ct_codec(name);
    float x[3] = {0x1.fffffep127f, -0x1.fffffep127f, 0x1p97f}, y[3] = {0};
    uint32_t scale;
    struct sn_values from = {x, SN_F32, 3};
    struct sn_stream s = ct_encode(&c, &from);
    struct sn_values to = {y, SN_F32, 3};
    bool good = sn_codecs_cpu()->decode(&c, &s, &to, SN_WRITE, 1) == SN_CODEC_FINE;
    float most = t == SN_E4M3 ? 0x1.ep127f : 0x1.cp127f;
    tap_ok(good && y[0] == most && y[1] == -most && y[2] == (t == SN_E4M3 ? 0.0f : 0x1p97f),
           "%s: the largest comes back finite, 2^-31 of it %s", name,
           t == SN_E4M3 ? "as zero" : "as it is");
    memcpy(&scale, s.p, 4);
    good = scale == (t == SN_E4M3 ? 247u : 240u) << 23;
    scale += 1u << 23;
    memcpy(s.p, &scale, 4);
    tap_ok(good && sn_codecs_cpu()->decode(&c, &s, &to, SN_WRITE, 1) == SN_CODEC_BAD_SCALE,
           "%s: twice the largest scale is refused", name);
    ct_free(s.p);
}

/* What was decoded is encoded to the same codes: nothing drifts when it is sent on. */
static void decoded_values_are_kept(void)
{
    static const char *const names[] = {"bf16", "fp8", "fp8-e5m2", "int8", "int4", "nf4"};
    for (int k = 0; k < 6; k++) {
        struct sn_codec c = ct_codec(names[k]);
        struct sn_values x = ct_values(CT_HEAVY, SN_F32, 12800, 8);
        struct sn_stream once = ct_encode(&c, &x);
        struct sn_values y = ct_decode(&c, &once, SN_F32, x.n);
        struct sn_stream twice = ct_encode(&c, &y);
        struct sn_values z = ct_decode(&c, &twice, SN_F32, x.n);
        double moved = ct_relative(&y, &z);
        tap_ok(moved < 1e-7, "%s: a second time changes nothing (%.1e)", names[k], moved);
        ct_free(x.p), ct_free(once.p), ct_free(y.p), ct_free(twice.p), ct_free(z.p);
    }
}

/* --- stochastic rounding ---------------------------------------------------------------------- */

/*
 * D draws of the same values: each is within one step, and the mean off by no more than 5 of its
 * standard deviations: a step times sqrt(f (1 - f) / D), f the part of a step that is rounded away,
 * and 2^-17 of a step for u's 16 bits.
 */
static void the_mean_of_draws_is_the_value(const char *name)
{
    enum { N = 256, D = 4096 };
    struct sn_codec c = ct_codec(name);
    struct sn_values x = ct_values(CT_NORMAL, SN_F32, N, 21), y = ct_room(SN_F32, N);
    struct sn_stream s = {ct_alloc((size_t)sn_codec_bytes(&c, SN_F32, N)), 0};
    double sum[N] = {0}, step[N], worst = 0.0, top = c.kind == SN_CODEC_INT8 ? 127 : 7;
    bool good = true;
    for (int d = 0; d < D; d++) {
        struct sn_codec_draw draw = {sn_codec_key(1234, 9), (uint64_t)d, 0};
        good = sn_codecs_cpu()->encode(&c, &x, &draw, &s, 1) == SN_CODEC_FINE && good;
        good = sn_codecs_cpu()->decode(&c, &s, &y, SN_WRITE, 1) == SN_CODEC_FINE && good;
        for (int i = 0; i < N; i++)
            sum[i] += (double)ct_get(&y, i);
    }
    for (int i = 0; i < N; i++) {
        double most = 0.0;
        for (int k = i / 128 * 128; k < i / 128 * 128 + 128; k++)
            most = fmax(most, fabs((double)ct_get(&x, k)));
        step[i] = most / top;
        double v = (double)ct_get(&x, i) / step[i], f = v - floor(v);
        double deviation = step[i] * (sqrt(f * (1 - f) / D) + 0x1p-16);
        if (c.hadamard) /* 32 roundings, each of a variance of a quarter of a squared step at most
                         */
            deviation = step[i] * sqrt(32.0 / 4 / D);
        worst = fmax(worst, fabs(sum[i] / D - (double)ct_get(&x, i)) / deviation);
    }
    tap_ok(good && worst < 5.0 && worst > 0.2,
           "%s: the mean of %d draws is off by at most %.1f of its deviations", name, D, worst);
    ct_free(x.p), ct_free(y.p), ct_free(s.p);
}

static void draws_belong_to_the_message(void)
{
    enum { N = 1024, CUT = 384 };
    struct sn_codec c = ct_codec("int4-stochastic");
    struct sn_values x = ct_values(CT_NORMAL, SN_F32, N, 2);
    struct sn_stream whole = ct_encode(&c, &x);
    unsigned char part[1024];
    struct sn_stream to = {part, 0};
    struct sn_values rest = {(float *)x.p + CUT, SN_F32, N - CUT};
    struct sn_codec_draw draw = ct_draw;
    draw.first = CUT;
    bool good = sn_codecs_cpu()->encode(&c, &rest, &draw, &to, 1) == SN_CODEC_FINE;
    int64_t before = sn_codec_bytes(&c, SN_F32, CUT);
    tap_ok(good && memcmp(part, (char *)whole.p + before, (size_t)to.bytes) == 0,
           "a part of a message draws as it does in the whole");
    int same = 0;
    for (int other = 0; other < 2; other++) {
        draw = ct_draw;
        draw.message += other == 0;
        draw.key = other == 1 ? sn_codec_key(1, 2) : draw.key;
        good = sn_codecs_cpu()->encode(&c, &x, &draw, &to, 1) == SN_CODEC_FINE && good;
        same += memcmp(part, whole.p, (size_t)to.bytes) == 0;
    }
    tap_ok(good && same == 0 && sn_codec_key(1, 2) != sn_codec_key(1, 3) &&
               sn_codec_key(1, 2) != sn_codec_key(2, 2),
           "another message, step or seed draws otherwise");
    ct_free(x.p), ct_free(whole.p);
}

/* --- the transform ---------------------------------------------------------------------------- */

/* 127 and its like in H x / 32 need no rounding: what is sent comes back whole. */
static void the_transform_is_undone(void)
{
    struct sn_codec c = ct_codec("int8-hadamard");
    float want[256];
    for (int i = 0; i < 256; i++) {
        want[i] = 0.0f;
        for (int k = 0; k < 32; k++) { /* H of whole numbers, with 127 among them */
            int q = k == 0 ? 127 : (int)(sn_rng_bits(3, (uint64_t)(i / 32 * 32 + k)) % 255) - 127;
            want[i] += (float)q * (__builtin_popcount((unsigned)(k & i % 32)) % 2 ? -1.0f : 1.0f);
        }
    }
    struct sn_values x = {want, SN_F32, 256};
    struct sn_stream s = ct_encode(&c, &x);
    struct sn_values y = ct_decode(&c, &s, SN_F32, 256);
    bool good = true;
    for (int i = 0; i < 256; i++)
        good = good && ct_get(&y, i) == want[i];
    tap_ok(good, "values that are H of whole numbers come back exactly");
    ct_free(s.p), ct_free(y.p);
}

/* One value of 32 is 1000 times the others. */
static void the_transform_helps_outliers(void)
{
    struct sn_codec plain = ct_codec("int4"), turned = ct_codec("int4-hadamard");
    struct sn_values x = ct_values(CT_NORMAL, SN_F32, 12800, 31);
    for (int64_t i = 0; i < x.n; i += 128)
        ct_set(&x, i + i / 128 % 128, 40.0f);
    struct sn_stream a = ct_encode(&plain, &x), b = ct_encode(&turned, &x);
    struct sn_values u = ct_decode(&plain, &a, SN_F32, x.n),
                     v = ct_decode(&turned, &b, SN_F32, x.n);
    double off = ct_relative(&x, &u), less = ct_relative(&x, &v);
    tap_ok(less < 0.7 * off, "int4 with one value in 128 of 40: off by %.3f, turned %.3f", off,
           less);
    ct_free(x.p), ct_free(a.p), ct_free(b.p), ct_free(u.p), ct_free(v.p);
}

/* --- figures known from outside --------------------------------------------------------------- */

/* Relative errors of vectors of 2^18 values, as measured with other code for
 * docs/COMPRESSION.md. */
static void errors_are_the_known_ones(void)
{
    static const struct {
        const char *name;
        enum ct_kind kind;
        double want;
    } known[] = {{"int8", CT_NORMAL, 6.470e-3}, {"int4", CT_NORMAL, 1.173e-1},
                 {"bf16", CT_NORMAL, 1.659e-3}, {"int8", CT_HEAVY, 1.397e-2},
                 {"int4", CT_HEAVY, 2.259e-1},  {"bf16", CT_HEAVY, 1.669e-3},
                 {"fp8", CT_NORMAL, 2.653e-2},  {"fp8-e5m2", CT_NORMAL, 5.283e-2}};
    for (int i = 0; i < 8; i++) {
        struct sn_codec c = ct_codec(known[i].name);
        struct sn_values x = ct_values(known[i].kind, SN_F32, 1 << 18, 77);
        struct sn_stream s = ct_encode(&c, &x);
        struct sn_values y = ct_decode(&c, &s, SN_F32, x.n);
        double off = ct_relative(&x, &y), tol = known[i].kind == CT_HEAVY ? 0.1 : 0.01;
        tap_ok(fabs(off / known[i].want - 1) < tol, "%s of %s values: off by %.3e, known %.3e",
               known[i].name, ct_kind_name(known[i].kind), off, known[i].want);
        ct_free(x.p), ct_free(s.p), ct_free(y.p);
    }
}

static void wrong_scales_and_codes_are_refused(void)
{
    struct sn_codec int8 = ct_codec("int8"), int4 = ct_codec("int4"), fp8 = ct_codec("fp8");
    struct sn_codec e5m2 = ct_codec("fp8-e5m2");
    const struct sn_codecs *of = sn_codecs_cpu();
    float y[4];
    struct sn_values to = {y, SN_F32, 3};
    unsigned char bytes[7] = {0, 0, 0x80, 0x3f, 1, 0x80, 1};
    struct sn_stream s = {bytes, 7}, s4 = {bytes, 6};
    tap_ok(of->decode(&int8, &s, &to, SN_WRITE, 1) == SN_CODEC_BAD_CODE &&
               of->decode(&int4, &s4, &to, SN_WRITE, 1) == SN_CODEC_BAD_CODE,
           "-128 of int8 and -8 of int4 are refused");
    bytes[5] = 0x7f;
    tap_ok(of->decode(&int8, &s, &to, SN_WRITE, 1) == SN_CODEC_FINE && y[1] == 127.0f &&
               of->decode(&fp8, &s, &to, SN_WRITE, 1) == SN_CODEC_BAD_CODE,
           "127 is a code, and NaN of e4m3 none");
    static const uint32_t wrong[] = {0xbf800000u, 0x80000000u, 0x7f800000u, 0x7f800001u,
                                     0xffc00000u, 0x7f7fffffu, 0x7e800000u};
    bool good = true;
    bytes[5] = 2;
    for (int i = 0; i < 7; i++) {
        memcpy(bytes, &wrong[i], 4);
        good = good && of->decode(&int8, &s, &to, SN_WRITE, 1) == SN_CODEC_BAD_SCALE &&
               of->decode(&fp8, &s, &to, SN_WRITE, 1) == SN_CODEC_BAD_SCALE &&
               of->decode(&e5m2, &s, &to, SN_WRITE, 1) == SN_CODEC_BAD_SCALE;
    }
    tap_ok(good, "scales below 0, infinite, too large and of other NaNs are refused");
}

int main(void)
{
    streams_are_the_plain_code_s();
    fp8_is_the_plain_code_s("fp8", SN_E4M3);
    fp8_is_the_plain_code_s("fp8-e5m2", SN_E5M2);
    bf16_is_the_plain_code_s();
    codes_of_e5m2_are_halves_of_fp16();
    the_ends_of_the_range_are_kept("fp8", SN_E4M3);
    the_ends_of_the_range_are_kept("fp8-e5m2", SN_E5M2);
    decoded_values_are_kept();
    the_mean_of_draws_is_the_value("int8-stochastic");
    the_mean_of_draws_is_the_value("int4-stochastic");
    the_mean_of_draws_is_the_value("int4-hadamard-stochastic");
    draws_belong_to_the_message();
    the_transform_is_undone();
    the_transform_helps_outliers();
    errors_are_the_known_ones();
    wrong_scales_and_codes_are_refused();
    return tap_done();
}
