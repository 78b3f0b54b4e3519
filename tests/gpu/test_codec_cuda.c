/*
 * ENCODE and DECODE of the CUDA kernels beside the processor's: the same bytes of every codec, of
 * odd sizes, several streams, differences, feedback, sums; values that are not finite; and streams
 * that are cut, changed or random, which are to be refused where the processor refuses them.
 *
 * usage: test_codec_cuda [DIVISOR]     sizes of buckets divided by it, for the emulation
 *
 * NaNs are compared as NaNs: which one a sum gives is the machine's.
 */
#include "tests/gpu/other_table.h"
#include "tests/lib/codec_test.h"
#include "tests/lib/kernel_test.h"

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
                                     "zfp-16",
                                     "zfp-31",
                                     "zfp-32",
                                     "mpc",
                                     "mpc-7",
                                     "mpc-32"};
enum { N_CODECS = sizeof(codecs) / sizeof(codecs[0]) };

static const enum sn_dtype types[] = {SN_F32, SN_BF16, SN_F16};

/* What is encoded, and how. */
struct setup {
    struct sn_codec codec;
    enum sn_dtype type;
    int64_t n, streams, share, k, missing;
    enum ct_kind kind;
    bool differs, feeds, samples, wild, marked;
};

static enum sn_dtype coded_type(const struct setup *s)
{
    return s->differs ? SN_F32 : s->type;
}

static int64_t place(const struct setup *s)
{
    return s->marked ? sn_coded_row_bytes(&s->codec, coded_type(s), s->share)
                     : sn_coded_bytes(&s->codec, coded_type(s), s->share);
}

/* --- operands --------------------------------------------------------------------------------- */

static void put_values(const struct sn_mat *m, const struct setup *s, uint64_t key)
{
    for (int64_t i = 0; i < m->cols; i++) {
        float x = ct_value(s->kind, key, i), most = m->dtype == SN_F16 ? 65504.0f : 0x1.fep127f;
        if (m->dtype != SN_F32)
            x = fmaxf(-most, fminf(most, x));
        if (s->wild && i % 97 == 13)
            x = i % 2 ? NAN : -NAN;
        if (s->wild && i % 411 == 7)
            x = i % 2 ? INFINITY : -INFINITY;
        kt_set(m, 0, i, (double)x);
        if (s->wild && m->dtype == SN_F32 && i % 97 == 14) /* a NaN with bits of its own */
            ((uint32_t *)m->p)[i] = 0xff80beefu;
    }
}

static struct kt_shape line(enum sn_dtype t, int64_t n)
{
    return (struct kt_shape){t, 1, n, 0};
}

/* The attributes that both operations have. The codec is the last of three: which one is meant the
 * scalars say. */
static void describe(struct kt *k, const struct setup *s)
{
    static const char *const others[] = {"int8", "zfp-9"};
    k->a.attr = (struct sn_attr){.blocks_a = s->streams,
                                 .blocks_b = s->k,
                                 .stream.share = s->share,
                                 .stream.missing = s->missing,
                                 .stream.marked = s->marked,
                                 .random.site = 11,
                                 .stream.member = 3,
                                 .stream.levels = 3,
                                 .stream.coded = SN_CODED_ZERO,
                                 .stream.type = coded_type(s)};
    for (int i = 0; i < 3; i++)
        k->a.attr.stream.codec[i] = i < 2 ? ct_codec(others[i]) : s->codec;
    k->scalars = (struct sn_scalars){.seed = 5, .step = 3, .first_sample = 17, .ok = 1};
    k->scalars.codec_level[SN_CODED_ZERO] = 2;
    k->scalars.codec_sample = s->samples;
    k->scalars.codec_error[SN_CODED_ZERO][0] = k->scalars.codec_error[SN_CODED_ZERO][1] = 0.25;
}

static void encode_operands(struct kt *k, const struct setup *s)
{
    describe(k, s);
    put_values(kt_new(k, 0, line(s->type, s->n)), s, 1);
    if (s->differs)
        put_values(kt_new(k, 1, line(s->type, s->n)),
                   &(struct setup){.kind = s->kind, .type = s->type}, 2);
    kt_new(k, SN_MAX_IN, (struct kt_shape){SN_U8, s->streams, place(s), 0});
    if (!s->feeds)
        return;
    struct sn_mat *e = kt_new(k, SN_MAX_IN + 1, line(SN_F32, s->n));
    for (int64_t i = 0; i < s->n; i++)
        kt_set(e, 0, i, 0.01 * (double)ct_normal(7, i));
}

/* --- both tables ------------------------------------------------------------------------------ */

/* Runs the processor's; what it leaves is in first_run, its scalars in *want. */
static bool run_cpu(struct kt *k, enum sn_op_kind kind, struct sn_scalars *want, int *fault)
{
    struct sn_scalars before = k->scalars;
    const struct sn_ops *cpu = sn_ops_cpu();
    void *room = kt_alloc(cpu->scratch(kind, &k->a, 2) + KT_GUARD);
    for (int s = 0; s < KT_SLOTS; s++)
        if (k->image[s])
            memcpy(k->saved[s], k->image[s], k->bytes[s]);
    k->a.scratch = room;
    k->a.scalars = &k->scalars;
    *fault = cpu->run[kind](&k->a, 2);
    free(room);
    for (int s = 0; s < KT_SLOTS; s++)
        if (k->image[s]) {
            memcpy(k->first_run[s], k->image[s], k->bytes[s]);
            memcpy(k->image[s], k->saved[s], k->bytes[s]);
        }
    *want = k->scalars;
    k->scalars = before;
    return *fault == 0;
}

static bool same_value(const struct sn_mat *m, const void *other, int64_t i)
{
    uint32_t bits[2] = {0, 0};
    size_t size = sn_dtype_size(m->dtype);
    double v = kt_get(m, 0, i);
    struct sn_mat b = *m;
    b.p = (void *)(uintptr_t)other;
    memcpy(&bits[0], (const char *)m->p + (size_t)i * size, size);
    memcpy(&bits[1], (const char *)other + (size_t)i * size, size);
    return bits[0] == bits[1] || (v != v && kt_get(&b, 0, i) != kt_get(&b, 0, i));
}

static bool same_values(const struct kt *k, int slot)
{
    const struct sn_mat *m = slot < SN_MAX_IN ? &k->a.in[slot] : &k->a.out[slot - SN_MAX_IN];
    for (int64_t i = 0; m->p && i < m->rows * m->cols; i++)
        if (!same_value(m, k->first_run[slot] + KT_GUARD, i)) {
            printf("# value %ld is %.9g\n", (long)i, kt_get(m, 0, i));
            return false;
        }
    return true;
}

static bool same_stream(const struct setup *s, const unsigned char *a, const unsigned char *b)
{
    int64_t bytes = place(s), length;
    memcpy(&length, b, sizeof(length));
    if (!sn_codec_is_fixed(&s->codec))
        bytes = (int64_t)sizeof(length) + length;
    struct sn_mat halves = {(void *)(uintptr_t)a, SN_BF16, 1, bytes / 2, bytes / 2};
    if (s->codec.kind != SN_CODEC_BF16)
        return memcmp(a, b, (size_t)bytes) == 0;
    for (int64_t i = 0; i < bytes / 2; i++)
        if (!same_value(&halves, b, i))
            return false;
    return true;
}

static bool about(double a, double b)
{
    return (a != a && b != b) || a == b || fabs(a - b) <= 1e-9 * fabs(b);
}

/* --- encode ----------------------------------------------------------------------------------- */

static bool encodes_alike(const struct setup *s)
{
    struct kt k = {.magnitude = 1.0};
    struct sn_scalars want;
    int fault;
    encode_operands(&k, s);
    bool good = run_cpu(&k, SN_OP_ENCODE, &want, &fault);
    good = kt_run(&k, &kt_other_table, SN_OP_ENCODE, 1) && good;
    for (int64_t i = 0; good && i < s->streams; i++) {
        int64_t at = KT_GUARD + i * place(s);
        good = same_stream(s, k.image[SN_MAX_IN] + at, k.first_run[SN_MAX_IN] + at);
        if (!good)
            printf("# stream %ld differs\n", (long)i);
    }
    good = good && same_values(&k, SN_MAX_IN + 1) && kt_untouched(&k);
    for (int i = 0; i < 2; i++)
        good = good &&
               about(k.scalars.codec_error[SN_CODED_ZERO][i], want.codec_error[SN_CODED_ZERO][i]);
    good = good && k.scalars.codec_fault == 0;
    if (!good)
        printf("# %ld values of %s in %ld streams of %ld, K %ld, %s%s%s%s: sums %.17g %.17g, want "
               "%.17g %.17g\n",
               (long)s->n, sn_dtype_name(s->type), (long)s->streams, (long)s->share, (long)s->k,
               ct_kind_name(s->kind), s->differs ? ", differences" : "",
               s->feeds ? ", feedback" : "", s->wild ? ", not finite" : "",
               k.scalars.codec_error[SN_CODED_ZERO][0], k.scalars.codec_error[SN_CODED_ZERO][1],
               want.codec_error[SN_CODED_ZERO][0], want.codec_error[SN_CODED_ZERO][1]);
    kt_free(&k);
    return good;
}

static const struct {
    int64_t n, streams, share, k;
} cuts[] = {{1, 1, 1, 0},       {5, 2, 3, 1},     {260, 4, 128, 0},   {1000, 6, 167, 2},
            {1000, 6, 167, 3},  {331, 1, 331, 0}, {4099, 2, 2050, 1}, {0, 2, 0, 0},
            {5003, 3, 1668, 3}, {64, 2, 64, 0}};
enum { N_CUTS = sizeof(cuts) / sizeof(cuts[0]) };

static struct setup setup_of(const char *codec, int cut)
{
    return (struct setup){.codec = ct_codec(codec),
                          .n = cuts[cut].n,
                          .streams = cuts[cut].streams,
                          .share = cuts[cut].share,
                          .k = cuts[cut].k};
}

static void streams_are_the_processor_s(const char *codec)
{
    bool good = true;
    for (int cut = 0; cut < N_CUTS; cut++)
        for (int t = 0; t < 3; t++)
            for (int how = 0; how < 4; how++) {
                struct setup s = setup_of(codec, cut);
                s.type = types[t];
                s.kind = (enum ct_kind)((cut + t + how) % CT_NKINDS);
                s.differs = how & 1;
                s.feeds = how & 2;
                s.samples = (cut + how) % 3 == 0;
                s.wild = (cut + t) % 2;
                s.marked = (cut + t + how) % 3 == 1 && s.share > 0;
                s.missing = cut % 4 == 3 ? (s.n + 3) / 4 : 0;
                good = encodes_alike(&s) && good;
            }
    tap_ok(good, "%s: streams, feedback and sums are the processor's", codec);
}

static void all_kinds_of_values(const char *codec)
{
    bool good = true;
    for (enum ct_kind kind = 0; kind < CT_NKINDS; kind++)
        for (int t = 0; t < 3; t++) {
            struct setup s = setup_of(codec, 5);
            s.type = types[t];
            s.kind = kind;
            s.samples = true;
            good = encodes_alike(&s) && good;
        }
    tap_ok(good, "%s: streams of every kind of values", codec);
}

/* --- decode ----------------------------------------------------------------------------------- */

struct way {
    enum sn_dtype type;
    bool adds, has_w, takes_w, sums, bounded;
};

/* The operands of a DECODE of the processor's streams. */
static void decode_operands(struct kt *k, const struct setup *s, const struct way *w)
{
    struct kt from = {.magnitude = 1.0};
    struct sn_scalars after;
    int fault;
    struct setup all = *s;
    all.feeds = all.samples = false;
    encode_operands(&from, &all);
    if (!run_cpu(&from, SN_OP_ENCODE, &after, &fault))
        abort();
    describe(k, s);
    k->a.attr.inverse = w->sums;
    k->a.attr.stream.missing = w->sums ? 0 : s->missing;
    k->scalars.codec_sample = 0;
    int64_t n = w->sums ? s->share * (s->k > 1 ? s->k : 1) : s->n;
    struct sn_mat *in = kt_new(k, 0, (struct kt_shape){SN_U8, s->streams, place(s), 0});
    memcpy(in->p, from.first_run[SN_MAX_IN] + KT_GUARD, (size_t)(s->streams * place(s)));
    kt_free(&from);
    for (int64_t i = 1; s->marked && !w->sums && i < s->streams; i += 2) /* is not there */
        memset((char *)in->p + i * place(s), 0, sizeof(int64_t));
    struct setup plain = {.kind = CT_NORMAL};
    if (w->has_w || w->takes_w)
        put_values(kt_new(k, 1, line(w->type, n)), &plain, 5);
    if (w->bounded) {
        kt_new(k, 2, line(SN_I32, 2));
        kt_set(&k->a.in[2], 0, 0, 0);
        kt_set(&k->a.in[2], 0, 1, (double)(s->streams / 2 + 1));
    }
    if (w->takes_w)
        kt_take(k, 0, 1);
    else
        put_values(kt_new(k, SN_MAX_IN, line(w->type, n)), &plain, 6);
    k->a.acc[0] = w->adds ? SN_ADD : SN_WRITE;
}

static bool decodes_alike(const struct setup *s, const struct way *w)
{
    struct kt k = {.magnitude = 1.0};
    struct sn_scalars want;
    int fault;
    decode_operands(&k, s, w);
    bool good = run_cpu(&k, SN_OP_DECODE, &want, &fault);
    good = kt_run(&k, &kt_other_table, SN_OP_DECODE, 1) && good;
    good = good && same_values(&k, w->takes_w ? 1 : SN_MAX_IN) && kt_untouched(&k);
    good = good && k.scalars.codec_fault == 0;
    if (!good)
        printf("# %ld values of %s in %ld streams of %ld to %s%s%s%s%s%s%s, fault %d\n", (long)s->n,
               sn_dtype_name(s->type), (long)s->streams, (long)s->share, sn_dtype_name(w->type),
               w->adds ? ", added" : "", w->has_w ? ", plus w" : "", w->takes_w ? ", on w" : "",
               w->sums ? ", sums" : "", w->bounded ? ", bounds" : "", s->wild ? ", not finite" : "",
               (int)k.scalars.codec_fault);
    kt_free(&k);
    return good;
}

static void what_comes_back_is_the_processor_s(const char *codec)
{
    static const struct way ways[] = {
        {SN_F32, false, false, false, false, false}, {SN_BF16, false, false, false, false, false},
        {SN_F16, false, false, false, false, false}, {SN_F32, true, false, false, false, false},
        {SN_F32, false, true, false, false, false},  {SN_BF16, false, false, true, false, false},
        {SN_F32, true, true, false, false, false},   {SN_F32, false, false, false, true, false},
        {SN_F32, true, false, false, true, false},   {SN_BF16, false, false, false, true, false},
        {SN_F16, false, true, false, true, false},   {SN_F32, true, true, false, true, false},
        {SN_F32, false, false, false, false, true},  {SN_BF16, false, false, true, false, true},
        {SN_F32, false, false, false, true, true}};
    bool good = true;
    for (int cut = 0; cut < N_CUTS; cut++)
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
            struct setup s = setup_of(codec, cut);
            if (ways[i].sums && s.n != s.streams * s.share)
                s.n = s.streams * s.share; /* streams of sums are as long as each other */
            s.type = types[(i + (size_t)cut) % 3];
            s.differs = i % 5 == 4;
            s.wild = (i + (size_t)cut) % 4 == 1;
            s.kind = CT_HEAVY;
            s.marked = (i + (size_t)cut) % 3 == 2 && s.share > 0;
            s.missing = !ways[i].sums && cut % 4 == 1 ? (s.n + 3) / 4 : 0;
            good = decodes_alike(&s, &ways[i]) && good;
        }
    tap_ok(good, "%s: values, sums and what they are added to are the processor's", codec);
}

/* More tiles than a grid has warps, unless divided. */
static void a_bucket_is_the_processor_s(const char *codec, int64_t divided)
{
    enum { BUCKET = (1 << 22) + 77 };
    struct setup s = {
        .codec = ct_codec(codec), .n = BUCKET / divided, .streams = 5, .type = SN_BF16};
    struct way sums = {SN_F32, true, false, false, true, false}, back = {.type = SN_BF16};
    s.share = (s.n + 4) / 5;
    s.feeds = s.samples = true;
    bool good = encodes_alike(&s);
    s.feeds = s.samples = false;
    good = decodes_alike(&s, &back) && good;
    s.n = 5 * s.share;
    good = decodes_alike(&s, &sums) && good;
    tap_ok(good, "%s: %ld values, and sums of 5 shares, are the processor's", codec, (long)s.n);
}

/* --- refusals --------------------------------------------------------------------------------- */

/* Changes a few bytes, or many; lengths and headers most of all. */
static void spoil(struct kt *k, const struct setup *s, uint64_t key)
{
    unsigned char *at = k->a.in[0].p;
    int64_t bytes = s->streams * place(s);
    int changes = key % 3 == 0 ? 1 : key % 3 == 1 ? 5 : (int)bytes;
    for (int i = 0; i < changes && bytes; i++) {
        double where = sn_rng_uniform(key, (uint64_t)i * 3),
               what = sn_rng_uniform(key, (uint64_t)i * 3 + 1);
        int64_t span = sn_rng_uniform(key, (uint64_t)i * 3 + 2) < 0.4 && bytes > 40 ? 40 : bytes;
        at[(int64_t)(where * (double)span)] = (unsigned char)(what * 256);
    }
}

/* What the processor refuses is refused; what both take is the same. mpc's storage type must be the
 * operation's, which the processor's decoder lets the stream say. */
static bool refuses_alike(const struct setup *s, const struct way *w, uint64_t key, int *refused)
{
    struct kt k = {.magnitude = 1.0};
    struct sn_scalars want;
    int fault;
    decode_operands(&k, s, w);
    spoil(&k, s, key);
    (void)run_cpu(&k, SN_OP_DECODE, &want, &fault);
    bool good = kt_run(&k, &kt_other_table, SN_OP_DECODE, 1);
    int mine = k.scalars.codec_fault;
    *refused += fault != 0;
    good = good && kt_untouched(&k);
    if (s->codec.kind == SN_CODEC_MPC)
        good = good && (fault == 0 || mine != 0);
    else
        good = good && (fault == 0) == (mine == 0);
    if (good && mine == 0)
        good = same_values(&k, SN_MAX_IN);
    if (!good)
        printf("# key %lu: fault %d, the processor's is %d\n", (unsigned long)key, mine, fault);
    kt_free(&k);
    return good;
}

static void bad_streams_are_refused(const char *codec)
{
    bool good = true;
    int refused = 0;
    for (uint64_t key = 0; key < 60; key++) {
        struct setup s = setup_of(codec, key % 2 ? 3 : 6);
        struct way w = {SN_F32, key % 4 == 1, false, false, key % 5 == 2, false};
        s.n = s.streams * s.share;
        s.type = types[key % 3];
        s.marked = key % 7 == 3;
        good = refuses_alike(&s, &w, key, &refused) && good;
    }
    bool any = strcmp(codec, "bf16") == 0 || refused > 0;
    tap_ok(good && any, "%s: spoilt streams are refused as the processor does, %d of 60", codec,
           refused);
}

int main(int argc, char **argv)
{
    int64_t divisor = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    a_bucket_is_the_processor_s("int8", 1);
    for (int i = 0; i < N_CODECS; i++) {
        if (strncmp(codecs[i], "zfp", 3) == 0 &&
            sn_codec_missing(&(struct sn_codec){.kind = SN_CODEC_ZFP})) {
            tap_ok(true, "%s # SKIP the processor has no libzfp to compare with", codecs[i]);
            continue;
        }
        streams_are_the_processor_s(codecs[i]);
        all_kinds_of_values(codecs[i]);
        what_comes_back_is_the_processor_s(codecs[i]);
        bad_streams_are_refused(codecs[i]);
        a_bucket_is_the_processor_s(codecs[i], divisor);
    }
    return tap_done();
}
