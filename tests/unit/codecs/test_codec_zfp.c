/*
 * zfp: the bytes of the library's own call on the whole array, read by it; what it cannot hold; the
 * errors that were measured with it.
 */
#include "kernels/zfp.h"
#include "tests/lib/codec_test.h"

static struct sn_codec zfp(int rate)
{
    return (struct sn_codec){.kind = SN_CODEC_ZFP, .rate = rate};
}

static void streams_are_the_library_s(void)
{
    static const enum ct_kind kinds[] = {CT_NORMAL, CT_HEAVY, CT_SMOOTH, CT_HUGE, CT_SPARSE};
    bool same = true, read = true, reads = true;
    for (int rate = SN_CODEC_ZFP_LEAST; rate <= SN_CODEC_ZFP_MOST; rate++)
        for (int64_t n = 1; n < 1500; n += n < 70 ? 1 : 397) {
            struct sn_codec c = zfp(rate);
            struct sn_values x = ct_values(kinds[(rate + n) % 5], SN_F32, n, (uint64_t)(rate + n));
            struct sn_stream s = ct_encode(&c, &x);
            struct sn_values y = ct_decode(&c, &s, SN_F32, n);
            unsigned char *want = ct_alloc((size_t)s.bytes);
            float *back = ct_alloc((size_t)n * 4);
            memset(want, 0, (size_t)s.bytes);
            int64_t bytes = sn_zfp_compress(want, s.bytes, x.p, n, rate);
            int64_t bits = (n + 3) / 4 * 4 * rate;
            same = same && bytes >= (bits + 7) / 8 && bytes <= s.bytes &&
                   memcmp(want, s.p, (size_t)s.bytes) == 0;
            reads = reads && sn_zfp_decompress(s.p, s.bytes, back, n, rate) > 0;
            read = read && memcmp(back, y.p, (size_t)n * 4) == 0;
            ct_free(x.p), ct_free(s.p), ct_free(y.p), ct_free(want), ct_free(back);
        }
    tap_ok(same,
           "at rates 3 to 32, for 1 to 1500 values: the library's bytes, up to a whole word zeros");
    tap_ok(read && reads, "the library reads from them what we do");
}

/* At every rate 4 of 5003 values are not finite: the rest of the stream is the library's. */
static void what_is_not_finite_has_a_mark(void)
{
    enum { N = 203, AT = 77 };
    bool good = true;
    for (int rate = SN_CODEC_ZFP_LEAST; rate <= SN_CODEC_ZFP_MOST; rate++) {
        struct sn_codec c = zfp(rate);
        struct sn_values x = ct_values(CT_NORMAL, SN_F32, N, 5);
        for (int i = AT / 4 * 4; i < AT / 4 * 4 + 4; i++)
            ct_set(&x, i, 0.0f);
        struct sn_stream zeros = ct_encode(&c, &x);
        ct_set(&x, AT, -INFINITY);
        ct_set(&x, N - 1, NAN);
        struct sn_stream s = ct_encode(&c, &x);
        struct sn_values y = ct_decode(&c, &s, SN_F32, N);
        int64_t changed = 0, last = 0;
        for (int64_t i = 0; i < s.bytes * 8; i++) {
            bool bit = ((unsigned char *)s.p)[i / 8] >> i % 8 & 1;
            bool was = ((unsigned char *)zeros.p)[i / 8] >> i % 8 & 1;
            if (i / (4 * rate) == AT / 4)
                changed += bit != was;
            else if (i / (4 * rate) != (N - 1) / 4)
                good = good && bit == was;
            else
                last += bit;
        }
        good = good && changed == 4 * rate - 1 && last == 4 * rate - 1;
        for (int i = 0; i < N; i++)
            good = good && (i / 4 == AT / 4 || i / 4 == (N - 1) / 4) == (bool)isnan(ct_get(&y, i));
        ct_free(x.p), ct_free(zeros.p), ct_free(s.p), ct_free(y.p);
    }
    tap_ok(good, "at every rate: a first bit of 0 and then ones, in the library's stream");
}

static void small_blocks_are_zeros(void)
{
    struct sn_codec c = zfp(16);
    float values[8] = {0x1.8p-99f, -0x1p-99f, 0x1p-149f, 0, 0x1.8p-98f, -0x1p-98f, 0, 0x1p-99f};
    struct sn_values x = {values, SN_F32, 8};
    struct sn_stream s = ct_encode(&c, &x);
    struct sn_values y = ct_decode(&c, &s, SN_F32, 8);
    bool good = true;
    for (int i = 0; i < 8; i++)
        good =
            good && (i < 4 ? ct_get(&y, i) == 0.0f : fabsf(ct_get(&y, i) - values[i]) < 0x1p-107f);
    tap_ok(good, "a block below 2^-98 is zeros, the next is not");
    ct_free(s.p), ct_free(y.p);
}

static void errors_are_the_known_ones(void)
{
    static const struct {
        int rate;
        enum ct_kind kind;
        double want;
    } known[] = {{8, CT_NORMAL, 5.451e-2}, {4, CT_NORMAL, 9.676e-1}, {16, CT_NORMAL, 2.113e-4},
                 {8, CT_HEAVY, 5.606e-2},  {16, CT_HEAVY, 2.186e-4}, {24, CT_NORMAL, 8.225e-7}};
    for (int i = 0; i < 6; i++) {
        struct sn_codec c = zfp(known[i].rate);
        struct sn_values x = ct_values(known[i].kind, SN_F32, 1 << 17, 77);
        struct sn_stream s = ct_encode(&c, &x);
        struct sn_values y = ct_decode(&c, &s, SN_F32, x.n);
        double off = ct_relative(&x, &y), tol = known[i].kind == CT_HEAVY ? 0.1 : 0.03;
        tap_ok(fabs(off / known[i].want - 1) < tol, "zfp-%d of %s values: off by %.3e, known %.3e",
               known[i].rate, ct_kind_name(known[i].kind), off, known[i].want);
        ct_free(x.p), ct_free(s.p), ct_free(y.p);
    }
}

/* Two halves in the place of one float: the exponent of one decides over both. */
static void halves_are_not_taken_for_floats(void)
{
    struct sn_codec c = zfp(16);
    struct sn_values x = ct_values(CT_NORMAL, SN_F16, 4096, 2);
    struct sn_stream s = ct_encode(&c, &x);
    struct sn_values y = ct_decode(&c, &s, SN_F32, x.n);
    double off = ct_relative(&x, &y);
    tap_ok(off < 5e-4, "fp16 values are widened first: off by %.1e", off);
    ct_free(x.p), ct_free(s.p), ct_free(y.p);
}

static void impossible_blocks_are_refused(void)
{
    struct sn_codec c = zfp(8);
    float y[4];
    struct sn_values to = {y, SN_F32, 4};
    uint64_t word = 2; /* all zero, it says, and then is not */
    struct sn_stream s = {&word, 8};
    bool good = sn_codecs_cpu()->decode(&c, &s, &to, SN_WRITE, 1) == SN_CODEC_BAD_CODE;
    word = 0xfffff801u; /* exponent 0, which zeros have */
    good = good && sn_codecs_cpu()->decode(&c, &s, &to, SN_WRITE, 1) == SN_CODEC_BAD_CODE;
    word = 0;
    good = good && sn_codecs_cpu()->decode(&c, &s, &to, SN_WRITE, 1) == SN_CODEC_FINE;
    tap_ok(good && y[0] == 0.0f && y[3] == 0.0f, "blocks that no encoder writes are refused");
}

/* A build without the library. */
static void its_absence_is_a_sentence(void)
{
    struct sn_codec c = zfp(8);
    float values[4] = {1, 2, 3, 4};
    uint64_t word;
    struct sn_values x = {values, SN_F32, 4};
    struct sn_stream s = {&word, 8};
    tap_ok(strstr(sn_codec_missing(&c), "libzfp-dev") != NULL, "what is missing is named: %s",
           sn_codec_missing(&c));
    tap_ok(sn_codecs_cpu()->encode(&c, &x, NULL, &s, 1) == SN_CODEC_MISSING &&
               sn_codecs_cpu()->decode(&c, &s, &x, SN_WRITE, 1) == SN_CODEC_MISSING,
           "and nothing is coded");
    tap_skip("streams are the library's", sn_codec_missing(&c));
}

int main(void)
{
    if (sn_zfp_missing()) {
        its_absence_is_a_sentence();
        return tap_done();
    }
    streams_are_the_library_s();
    what_is_not_finite_has_a_mark();
    small_blocks_are_zeros();
    errors_are_the_known_ones();
    halves_are_not_taken_for_floats();
    impossible_blocks_are_refused();
    return tap_done();
}
