/*
 * Error feedback (encode_fed and keep of kernels/codec.h): what was lost comes with the next
 * message, for every codec; against plain code; what is not finite leaves it alone.
 */
#include "tests/lib/codec_test.h"

static const char *const codecs[] = {
    "bf16", "fp8", "fp8-e5m2", "int8", "int4", "int4-hadamard-stochastic", "zfp-8"};
enum { N_CODECS = sizeof(codecs) / sizeof(codecs[0]) };

struct fed {
    struct sn_codec c;
    struct sn_values x, back;
    float *e;
    struct sn_stream s;
};

static struct fed begin(const char *name, enum sn_dtype t, int64_t n)
{
    struct fed f = {.c = ct_codec(name), .x = ct_room(t, n), .back = ct_room(SN_F32, n)};
    f.e = ct_alloc((size_t)n * sizeof(float));
    memset(f.e, 0, (size_t)n * sizeof(float));
    f.s.p = ct_alloc((size_t)sn_codec_bytes(&f.c, SN_F32, n));
    return f;
}

static void end(struct fed *f)
{
    ct_free(f->x.p), ct_free(f->back.p), ct_free(f->e), ct_free(f->s.p);
}

/* One message: encoded, decoded by somebody, kept. */
static bool message(struct fed *f, const struct sn_codecs *of, int threads, uint64_t number)
{
    struct sn_codec_draw draw = {3, number, 0};
    return of->encode_fed(&f->c, &f->x, f->e, &draw, &f->s, threads) == SN_CODEC_FINE &&
           of->decode(&f->c, &f->s, &f->back, SN_WRITE, threads) == SN_CODEC_FINE &&
           of->keep(&f->c, &f->x, f->e, &f->s, threads) == SN_CODEC_FINE;
}

/* Of T messages the sum of what arrived is that of what was sent but for the last error: 1 / T. */
static void sums_lose_nothing(const char *name)
{
    enum { N = 5001, T = 50 };
    struct fed f = begin(name, SN_F32, N);
    static double sent[N], arrived[N];
    memset(sent, 0, sizeof(sent));
    memset(arrived, 0, sizeof(arrived));
    bool good = true;
    for (int t = 0; t < T; t++) {
        for (int64_t i = 0; i < N; i++)
            ct_set(&f.x, i, ct_value(CT_HEAVY, 4, i) + 0.1f * ct_value(CT_NORMAL, (uint64_t)t, i));
        good = message(&f, sn_codecs_cpu(), 1, (uint64_t)t) && good;
        for (int64_t i = 0; i < N; i++) {
            sent[i] += (double)ct_get(&f.x, i);
            arrived[i] += (double)ct_get(&f.back, i);
        }
    }
    double off = 0.0, left = 0.0, size = 0.0;
    for (int64_t i = 0; i < N; i++) {
        off = fmax(off, fabs(sent[i] - arrived[i] - (double)f.e[i]));
        left += (double)f.e[i] * (double)f.e[i];
        size += sent[i] * sent[i];
    }
    tap_ok(good && off < 2e-4,
           "%s: of 50 messages nothing is lost but the last error (%.1e), %.1e of the sum", name,
           off, sqrt(left / size));
    end(&f);
}

static void it_is_the_plain_code_s(const char *name)
{
    enum { N = 20011 };
    const struct sn_codecs *table[3];
    int tables = ct_tables(table);
    bool good = true;
    for (int k = 0; k < tables * 4 * 3; k++) {
        struct fed f = begin(name, (enum sn_dtype)(k % 3), N);
        struct sn_values sum = ct_room(SN_F32, N);
        for (int64_t i = 0; i < N; i++) {
            ct_set(&f.x, i, (float)(i % 313) * 0.37f - 50.0f);
            f.e[i] = (float)(i % 101) * 0.011f - 0.5f;
            ct_set(&sum, i, ct_get(&f.x, i) + f.e[i]);
        }
        struct sn_codec_draw draw = {3, 8, 0};
        struct sn_stream want = {ct_alloc((size_t)sn_codec_bytes(&f.c, SN_F32, N)), 0};
        good = sn_codecs_generic.encode(&f.c, &sum, &draw, &want, 1) == SN_CODEC_FINE && good;
        good = message(&f, table[k / 12], k / 3 % 4 + 1, 8) && good;
        good = good && f.s.bytes == want.bytes && memcmp(f.s.p, want.p, (size_t)want.bytes) == 0;
        for (int64_t i = 0; i < N; i++)
            good = good && f.e[i] == ct_get(&sum, i) - ct_get(&f.back, i);
        good = good && ct_whole(f.e, N * 4) && ct_whole(f.s.p, want.bytes);
        ct_free(sum.p), ct_free(want.p);
        end(&f);
    }
    tap_ok(good,
           "%s: the stream of x + e, and e after it, of every instruction set with 1 to 4 threads",
           name);
}

/* A gradient of 0.01 beside one of 1 in a block: int4 of it is 0 each time,
 * and with feedback not. */
static void small_values_get_through(void)
{
    enum { N = 128, T = 400 };
    struct fed f = begin("int4", SN_F32, N);
    double arrived = 0.0, without = 0.0;
    for (int64_t i = 0; i < N; i++)
        ct_set(&f.x, i, i ? 0.01f : 1.0f);
    bool good = true;
    for (int t = 0; t < T; t++) {
        good = message(&f, sn_codecs_cpu(), 1, 0) && good;
        arrived += (double)ct_get(&f.back, 5);
        struct sn_stream s = ct_encode(&f.c, &f.x);
        struct sn_values y = ct_decode(&f.c, &s, SN_F32, N);
        without += (double)ct_get(&y, 5);
        ct_free(s.p), ct_free(y.p);
    }
    tap_ok(good && without == 0.0 && fabs(arrived / (T * 0.01) - 1) < 0.05,
           "int4 of 0.01 beside 1: %.2f of 4 arrives with feedback, %.2f without", arrived,
           without);
    end(&f);
}

/* An overflow must not stay in e for ever; elsewhere e goes on. */
static void what_is_not_finite_is_not_kept(void)
{
    enum { N = 4000, AT = 2050 };
    struct fed f = begin("int8", SN_F32, N);
    for (int64_t i = 0; i < N; i++) {
        ct_set(&f.x, i, ct_value(CT_NORMAL, 1, i));
        f.e[i] = 0.25f;
    }
    ct_set(&f.x, AT, NAN);
    bool good = message(&f, sn_codecs_cpu(), 1, 0);
    for (int64_t i = 0; i < N; i++) {
        bool hit = i / 128 == AT / 128;
        good = good && (bool)isnan(ct_get(&f.back, i)) == hit &&
               (hit ? f.e[i] == 0.25f : f.e[i] != 0.25f);
    }
    tap_ok(good, "a block that is not finite leaves e as it was");
    end(&f);
}

/* A step that is skipped does not call keep: the next message is as if it had not been. */
static void nothing_happens_before_keep(void)
{
    enum { N = 300 };
    struct fed f = begin("int8", SN_BF16, N);
    for (int64_t i = 0; i < N; i++)
        ct_set(&f.x, i, ct_value(CT_NORMAL, 1, i));
    bool good = message(&f, sn_codecs_cpu(), 1, 0);
    float before[N];
    memcpy(before, f.e, sizeof(before));
    good = good && sn_codecs_cpu()->encode_fed(&f.c, &f.x, f.e, NULL, &f.s, 1) == SN_CODEC_FINE;
    tap_ok(good && memcmp(before, f.e, sizeof(before)) == 0, "encoding leaves e alone");
    struct sn_stream cut = {f.s.p, f.s.bytes - 1};
    tap_ok(sn_codecs_cpu()->keep(&f.c, &f.x, f.e, &cut, 1) == SN_CODEC_BAD_LENGTH &&
               memcmp(before, f.e, sizeof(before)) == 0,
           "a stream of another length is refused");
    end(&f);
    f = begin("mpc", SN_BF16, N);
    for (int64_t i = 0; i < N; i++)
        ct_set(&f.x, i, ct_value(CT_NORMAL, 1, i));
    good = message(&f, sn_codecs_cpu(), 1, 0);
    for (int64_t i = 0; i < N; i++)
        good = good && f.e[i] == 0.0f && ct_get(&f.back, i) == ct_get(&f.x, i);
    tap_ok(good, "mpc loses nothing and has no e");
    end(&f);
    f = begin("int4", SN_F32, 0);
    tap_ok(message(&f, sn_codecs_cpu(), 2, 0), "and nothing is a message too");
    end(&f);
}

int main(void)
{
    for (int i = 0; i < N_CODECS; i++) {
        struct sn_codec c = ct_codec(codecs[i]);
        if (sn_codec_missing(&c)) {
            tap_skip(codecs[i], sn_codec_missing(&c));
            continue;
        }
        sums_lose_nothing(codecs[i]);
        it_is_the_plain_code_s(codecs[i]);
    }
    small_values_get_through();
    what_is_not_finite_is_not_kept();
    nothing_happens_before_keep();
    return tap_done();
}
