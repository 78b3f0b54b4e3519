/*
 * Every codec on every kind of values: sizes as the formula says, errors within what
 * kernels/codec.h promises, the same bytes from every instruction set and number of threads, sums,
 * what is not finite, and streams that are cut, too long or random.
 */
#include "kernels/fp8.h"
#include "tests/lib/codec_test.h"

static const char *const codecs[] = {"bf16",
                                     "fp8",
                                     "fp8-e5m2",
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
                                     "mpc-7"};
enum { N_CODECS = sizeof(codecs) / sizeof(codecs[0]) };

static const int64_t sizes[] = {0,  1,  2,   3,   4,   5,   31,   33,  63,
                                64, 65, 127, 128, 129, 161, 1000, 5003};
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* --- names and sizes -------------------------------------------------------------------------- */

static void names_come_back(void)
{
    bool good = true;
    for (int i = 0; i < N_CODECS; i++) {
        char name[SN_CODEC_NAME];
        struct sn_codec c = ct_codec(codecs[i]);
        sn_codec_format(&c, name);
        good = good && strcmp(name, codecs[i]) == 0;
    }
    tap_ok(good, "every name is formatted as it is parsed");
    static const char *const bad[] = {"",
                                      "int",
                                      "int8-",
                                      "int8-fast",
                                      "bf16-hadamard",
                                      "zfp",
                                      "zfp-",
                                      "zfp-2",
                                      "zfp-33",
                                      "zfp-08",
                                      "zfp-8x",
                                      "mpc-0",
                                      "mpc-33",
                                      "mpc-",
                                      "int4-stochastic-hadamard",
                                      "fp8x",
                                      "zfp-256",
                                      "none",
                                      "BF16",
                                      "mpc-1000000000000",
                                      "fp8-",
                                      "fp8-e5m",
                                      "fp8-e5m2-",
                                      "fp8-e5m2-hadamard",
                                      "fp8-e4m3",
                                      "nf4-stochastic"};
    struct sn_codec c = {.kind = SN_CODEC_FP8};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        good = good && !sn_codec_parse(&c, bad[i]);
    tap_ok(good && c.kind == SN_CODEC_FP8, "other names are refused, and nothing is written");
    for (int f = 0; f < SN_NFAULTS; f++)
        good = good && sn_codec_explain((enum sn_codec_fault)f);
    tap_ok(good, "every fault has its words");
}

static int64_t bytes(const char *name, int64_t n)
{
    struct sn_codec c = ct_codec(name);
    return sn_codec_bytes(&c, SN_F32, n);
}

static void sizes_are_the_formula_s(void)
{
    tap_ok(bytes("bf16", 5) == 10 && bytes("fp8", 128) == 132 && bytes("fp8", 129) == 137 &&
               bytes("fp8-e5m2", 129) == 137,
           "bf16 has 16 bits a value, fp8 8.25 in whole blocks");
    tap_ok(bytes("int8", 1280) == 1320 && bytes("int8", 3) == 7 && bytes("int4", 1280) == 680 &&
               bytes("int4", 3) == 6 && bytes("int4", 131) == 74 && bytes("nf4", 131) == 74,
           "int8 has 8.25, int4 and nf4 4.25; the last block is as long as what is left");
    tap_ok(bytes("int8-hadamard", 129) == 132 + 36 && bytes("int4-hadamard", 161) == 68 + 36,
           "with a transform the last block has whole 32");
    tap_ok(bytes("zfp-8", 64) == 64 && bytes("zfp-8", 1) == 8 && bytes("zfp-3", 64) == 24 &&
               bytes("zfp-13", 70) == 13 * 8 + 16,
           "zfp has its rate, in blocks of 4 and words of 64 bits");
    tap_ok(bytes("mpc", 10) == 56, "mpc has at most the values and its header");
    bool empty = true, cuts = true;
    for (int i = 0; i < N_CODECS; i++) {
        struct sn_codec c = ct_codec(codecs[i]);
        int64_t g = sn_codec_granule(&c), whole = sn_codec_bytes(&c, SN_BF16, g);
        empty = empty && sn_codec_bytes(&c, SN_F32, 0) == (sn_codec_is_fixed(&c) ? 0 : 16);
        for (int64_t n = 0; n < 300 && sn_codec_is_fixed(&c); n++)
            cuts = cuts && sn_codec_bytes(&c, SN_F32, 3 * g + n) ==
                               3 * whole + sn_codec_bytes(&c, SN_F32, n);
    }
    tap_ok(empty && cuts, "nothing takes nothing, and streams of fixed rate can be cut at blocks");
}

/* --- errors ----------------------------------------------------------------------------------- */

static double block_most(const struct sn_values *x, int64_t first, int64_t n)
{
    double most = 0.0;
    for (int64_t i = first; i < first + n && i < x->n; i++)
        most = fmax(most, fabs((double)ct_get(x, i)));
    return most;
}

/* The largest of H x / 32 in the block, by the definition of H: entry (r, c) is -1 to the number of
 * bits that r and c have in common. */
static double turned_most(const struct sn_values *x, int64_t first)
{
    double most = 0.0;
    for (int64_t g = first; g < first + SN_CODEC_BLOCK && g < x->n; g += 32)
        for (int r = 0; r < 32; r++) {
            double sum = 0.0;
            for (int c = 0; c < 32 && g + c < x->n; c++)
                sum += (double)ct_get(x, g + c) * (__builtin_popcount(r & c) % 2 ? -1 : 1) / 32;
            most = fmax(most, fabs(sum));
        }
    return most;
}

/* What the values of one block may be off by. 2^-14: that products and sums of fp32 round. */
static double allowed_in(const struct sn_codec *c, const struct sn_values *x, int64_t first)
{
    double top = c->kind == SN_CODEC_INT8 ? 127 : 7, most = block_most(x, first, SN_CODEC_BLOCK);
    float as_float = (float)most;
    uint32_t u;
    memcpy(&u, &as_float, 4);
    if (c->kind == SN_CODEC_FP8)
        return ldexp(1, -10 - sn_fp8_exponent(u, SN_E4M3));
    if (c->kind == SN_CODEC_FP8_E5M2)
        return ldexp(1, -17 - sn_fp8_exponent(u, SN_E5M2));
    if (c->kind == SN_CODEC_NF4) /* half of the widest gap, from -1 to the next */
        return most < 0x1p-100 ? most : most * 0.15191 * (1 + 0x1p-14);
    if (c->kind != SN_CODEC_INT8 && c->kind != SN_CODEC_INT4)
        return 0.0;
    double half_steps = c->stochastic ? 2.0 : 1.0;
    if (!c->hadamard)
        return most < 0x1p-100 ? most : most / top * half_steps / 2 * (1 + 0x1p-14);
    double step = fmax(turned_most(x, first) / top, 0x1p-100);
    return 16 * half_steps * step * (1 + 0x1p-14) + 0x1p-18 * most;
}

/* And by itself. */
static double allowed_of(const struct sn_codec *c, const struct sn_values *x, int64_t i)
{
    double size = fabs((double)ct_get(x, i));
    switch (c->kind) {
    case SN_CODEC_BF16:
        return fmax(0x1p-8 * size, 0x1p-134);
    case SN_CODEC_FP8:
        return 0x1p-4 * size;
    case SN_CODEC_FP8_E5M2:
        return 0x1p-3 * size;
    case SN_CODEC_ZFP: /* tests/unit/codecs/test_codec_zfp.c knows better */
        return fmax(4.0 * block_most(x, i / 4 * 4, 4), 0x1p-98);
    default:
        return 0.0;
    }
}

/* Blocks that may come back infinite: see the header. */
static bool may_overflow(const struct sn_codec *c, double most)
{
    return c->kind == SN_CODEC_BF16 ? most >= 0x1.fep127
                                    : (c->hadamard || c->kind == SN_CODEC_ZFP) && most >= 0x1p125;
}

static bool is_within(const struct sn_codec *c, const struct sn_values *x,
                      const struct sn_values *y)
{
    double in_block = 0.0;
    bool skips = false;
    for (int64_t i = 0; i < x->n; i++) {
        if (i % SN_CODEC_BLOCK == 0) {
            in_block = allowed_in(c, x, i);
            skips = may_overflow(c, block_most(x, i, SN_CODEC_BLOCK));
        }
        double off = fabs((double)ct_get(y, i) - (double)ct_get(x, i));
        double most = fmax(in_block, allowed_of(c, x, i));
        if (off <= most || skips)
            continue;
        printf("# value %ld of %ld: %.9g came back as %.9g, off by %.3g of %.3g\n", (long)i,
               (long)x->n, (double)ct_get(x, i), (double)ct_get(y, i), off, most);
        return false;
    }
    return true;
}

static void errors_are_within_the_promise(const char *name)
{
    struct sn_codec c = ct_codec(name);
    bool good = true;
    for (int k = 0; k < CT_NKINDS; k++)
        for (int t = 0; t <= SN_F16; t++)
            for (int s = 0; s < N_SIZES && good; s++) {
                struct sn_values x = ct_values((enum ct_kind)k, (enum sn_dtype)t, sizes[s], 11);
                struct sn_stream to = ct_encode(&c, &x);
                struct sn_values y = ct_decode(&c, &to, SN_F32, x.n);
                bool sized = sn_codec_is_fixed(&c) ? to.bytes == sn_codec_bytes(&c, x.dtype, x.n)
                                                   : to.bytes <= sn_codec_bytes(&c, x.dtype, x.n);
                good = sized && y.n == x.n && is_within(&c, &x, &y);
                if (!good)
                    printf("# %s, %s, %ld values: %ld bytes\n", ct_kind_name((enum ct_kind)k),
                           sn_dtype_name((enum sn_dtype)t), (long)x.n, (long)to.bytes);
                ct_free(x.p), ct_free(to.p), ct_free(y.p);
            }
    tap_ok(good, "%s: errors of every kind of values are within the promise, sizes the formula's",
           name);
}

/* --- every way gives the same ----------------------------------------------------------------- */

/* 20,000 values, so that several threads have some; from each type to each type. */
static void every_way_is_the_same(const char *name)
{
    enum { N = 20005 };
    struct sn_codec c = ct_codec(name);
    const struct sn_codecs *table[3];
    int tables = ct_tables(table);
    bool same = true, summed = true, stored = true;
    struct sn_values base = ct_values(CT_NORMAL, SN_F32, N, 6);
    for (int t = 0; t <= SN_F16; t++) {
        struct sn_values x = ct_values(CT_HEAVY, (enum sn_dtype)t, N, 5);
        struct sn_stream want = ct_encode(&c, &x);
        struct sn_values whole = ct_decode(&c, &want, SN_F32, N);
        for (int i = 0; i < tables * 4; i++) {
            const struct sn_codecs *of = table[i / 4];
            struct sn_stream got = {ct_alloc((size_t)sn_codec_bytes(&c, x.dtype, N)), 0};
            same = of->encode(&c, &x, &ct_draw, &got, i % 4 + 1) == SN_CODEC_FINE && same;
            same = same && got.bytes == want.bytes &&
                   memcmp(got.p, want.p, (size_t)want.bytes) == 0 &&
                   ct_whole(got.p, sn_codec_bytes(&c, x.dtype, N));
            struct sn_values sum = ct_room(SN_F32, N);
            memcpy(sum.p, base.p, N * sizeof(float));
            summed = of->decode(&c, &want, &sum, SN_ADD, i % 4 + 1) == SN_CODEC_FINE && summed;
            for (int64_t k = 0; k < N; k++)
                summed = summed && ct_get(&sum, k) == ct_value(CT_NORMAL, 6, k) + ct_get(&whole, k);
            struct sn_values y = ct_room((enum sn_dtype)((t + i) % 3), N);
            stored = of->decode(&c, &want, &y, SN_WRITE, i % 4 + 1) == SN_CODEC_FINE && stored;
            stored = stored && ct_whole(y.p, N * (int64_t)sn_dtype_size(y.dtype));
            for (int64_t k = 0; k < N; k++) {
                uint32_t cell;
                struct sn_values one = {&cell, y.dtype, 1};
                ct_set(&one, 0, ct_get(&whole, k));
                stored = stored && ct_get(&one, 0) == ct_get(&y, k);
            }
            ct_free(got.p), ct_free(sum.p), ct_free(y.p);
        }
        ct_free(x.p), ct_free(want.p), ct_free(whole.p);
    }
    ct_free(base.p);
    tap_ok(same, "%s: %d instruction sets with 1 to 4 threads write the same bytes", name, tables);
    tap_ok(summed && stored, "%s: they add to fp32 and store in each type what one decodes", name);
}

/* --- what is not finite ----------------------------------------------------------------------- */

static bool bits_equal(float a, float b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

/* One value of 300 is not finite: what shares its scale is NaN, the rest as if it were 0. */
static void not_finite_shows(const char *name)
{
    enum { N = 300 };
    static const int64_t at[] = {0, 5, 127, 128, 250, 256, 299};
    static const float what[] = {INFINITY, -INFINITY, NAN};
    struct sn_codec c = ct_codec(name);
    int64_t shared = c.kind == SN_CODEC_ZFP ? 4 : sn_codec_granule(&c);
    bool good = true;
    for (int i = 0; i < 7 * 3 * 3; i++) {
        struct sn_values x = ct_values(CT_NORMAL, (enum sn_dtype)(i / 21), N, 3);
        int64_t first = at[i % 7] / shared * shared;
        for (int64_t k = first; k < first + shared && k < N && shared > 1; k++)
            ct_set(&x, k, 0.0f);
        ct_set(&x, at[i % 7], 0.0f);
        struct sn_stream clean = ct_encode(&c, &x);
        struct sn_values want = ct_decode(&c, &clean, SN_F32, N);
        ct_set(&x, at[i % 7], what[i / 7 % 3]);
        struct sn_stream s = ct_encode(&c, &x);
        struct sn_values y = ct_decode(&c, &s, SN_F32, N);
        for (int64_t k = 0; k < N && good; k++) {
            bool hit = k >= first && k < first + shared;
            float got = ct_get(&y, k), own = ct_get(&x, k);
            if (hit)
                good = shared > 1 ? isnan(got) : isnan(own) ? isnan(got) : got == own;
            else
                good = bits_equal(got, ct_get(&want, k));
        }
        ct_free(x.p), ct_free(clean.p), ct_free(want.p), ct_free(s.p), ct_free(y.p);
    }
    tap_ok(good, "%s: what is not finite shows in its block, and nowhere else", name);
}

/* --- streams that are wrong ------------------------------------------------------------------- */

static enum sn_codec_fault decode_of(const struct sn_codec *c, const struct sn_stream *s, int64_t n)
{
    struct sn_values y = ct_room(SN_F32, n);
    enum sn_codec_fault f = sn_codecs_cpu()->decode(c, s, &y, SN_WRITE, 1);
    if (!ct_whole(y.p, n * 4))
        abort();
    ct_free(y.p);
    return f;
}

static void wrong_lengths_are_refused(const char *name)
{
    struct sn_codec c = ct_codec(name);
    struct sn_values x = ct_values(CT_SMOOTH, SN_F32, 1000, 1);
    struct sn_stream s = ct_encode(&c, &x);
    bool good = decode_of(&c, &s, 1000) == SN_CODEC_FINE;
    for (int64_t less = 1; less < s.bytes; less += 37) {
        struct sn_stream cut = {s.p, s.bytes - less}, more = {s.p, s.bytes + less};
        good = good && decode_of(&c, &cut, 1000) == SN_CODEC_BAD_LENGTH &&
               decode_of(&c, &more, 1000) == SN_CODEC_BAD_LENGTH;
    }
    struct sn_stream none = {s.p, 0};
    good = good && decode_of(&c, &none, 1000) == SN_CODEC_BAD_LENGTH &&
           decode_of(&c, &s, 1200) != SN_CODEC_FINE && decode_of(&c, &s, 0) != SN_CODEC_FINE;
    tap_ok(good, "%s: a stream of another length is refused", name);
    int faults = 0;
    unsigned char head[16];
    memcpy(head, s.p, sizeof(head));
    for (int round = 0; round < 200; round++) { /* memory around is guarded; SAN=1 sees reads too */
        for (int64_t i = 0; i < s.bytes; i++)
            ((unsigned char *)s.p)[i] =
                (unsigned char)sn_rng_bits(8, (uint64_t)(round * 65536 + i));
        if (round % 2)
            memcpy(s.p, head, sizeof(head));
        faults += decode_of(&c, &s, 1000) != SN_CODEC_FINE;
    }
    bool tells = c.kind != SN_CODEC_BF16;
    tap_ok(tells ? faults > 100 : faults == 0,
           "%s: of 200 random streams %d are refused, all survived", name, faults);
    ct_free(x.p), ct_free(s.p);
}

static void wrong_types_are_refused(void)
{
    struct sn_codec c = ct_codec("int8"), mpc = ct_codec("mpc");
    struct sn_values x = ct_values(CT_NORMAL, SN_BF16, 8, 1);
    struct sn_stream s = ct_encode(&c, &x), odd = {(char *)s.p + 4, 12};
    struct sn_values ints = {x.p, SN_I32, 4};
    tap_ok(sn_codecs_cpu()->decode(&c, &s, &x, SN_ADD, 1) == SN_CODEC_BAD_TYPE &&
               sn_codecs_cpu()->encode(&c, &ints, NULL, &s, 1) == SN_CODEC_BAD_TYPE,
           "sums are fp32, and values floats");
    tap_ok(sn_codecs_cpu()->decode(&mpc, &odd, &x, SN_WRITE, 1) == SN_CODEC_BAD_PLACE,
           "streams of words lie on words");
    ct_free(x.p), ct_free(s.p);
}

int main(void)
{
    names_come_back();
    sizes_are_the_formula_s();
    wrong_types_are_refused();
    for (int i = 0; i < N_CODECS; i++) {
        struct sn_codec c = ct_codec(codecs[i]);
        const char *missing = sn_codec_missing(&c);
        if (missing) {
            tap_skip(codecs[i], missing);
            continue;
        }
        errors_are_within_the_promise(codecs[i]);
        every_way_is_the_same(codecs[i]);
        not_finite_shows(codecs[i]);
        wrong_lengths_are_refused(codecs[i]);
    }
    return tap_done();
}
