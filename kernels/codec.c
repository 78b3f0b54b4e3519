/*
 * codec.c - codecs by name, and how many bytes their streams have.
 */
#include "kernels/codec.h"

#include "kernels/dropout.h"
#include "kernels/zfp.h"

#include <stdio.h>
#include <string.h>

static const char *const names[SN_NCODECS] = {"bf16", "fp8", "fp8-e5m2", "int8",
                                              "int4", "nf4", "zfp",      "mpc"};

static bool is_integer(const struct sn_codec *c)
{
    return c->kind == SN_CODEC_INT8 || c->kind == SN_CODEC_INT4;
}

/* A number of one or two digits without a leading zero up to the end; 0: it is none. */
static int number(const char *text)
{
    int value = 0;
    if (*text == '0' || strlen(text) > 2)
        return 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return 0;
        value = value * 10 + *text - '0';
    }
    return value;
}

static bool parse_words(struct sn_codec *c, const char *text)
{
    if (strcmp(text, "-hadamard") == 0 || strcmp(text, "-hadamard-stochastic") == 0)
        c->hadamard = true;
    c->stochastic = strcmp(text, "-stochastic") == 0 || strcmp(text, "-hadamard-stochastic") == 0;
    return *text == '\0' || c->hadamard || c->stochastic;
}

/* The kind with the longest name that the text begins with; SN_NCODECS: there is none. */
static enum sn_codec_kind kind_named(const char *text)
{
    enum sn_codec_kind best = SN_NCODECS;
    size_t longest = 0;
    for (enum sn_codec_kind k = SN_CODEC_BF16; k < SN_NCODECS; k++) {
        size_t length = strlen(names[k]);
        if (length > longest && strncmp(text, names[k], length) == 0) {
            best = k;
            longest = length;
        }
    }
    return best;
}

bool sn_codec_parse(struct sn_codec *out, const char *text)
{
    struct sn_codec c = {.kind = kind_named(text)};
    if (c.kind == SN_NCODECS)
        return false;
    text += strlen(names[c.kind]);
    bool good = *text == '\0';
    if (is_integer(&c))
        good = parse_words(&c, text);
    if (c.kind == SN_CODEC_ZFP) {
        c.rate = *text == '-' ? number(text + 1) : 0;
        good = c.rate >= SN_CODEC_ZFP_LEAST && c.rate <= SN_CODEC_ZFP_MOST;
    }
    if (c.kind == SN_CODEC_MPC) {
        c.dim = *text == '-' ? number(text + 1) : good;
        good = c.dim >= 1 && c.dim <= SN_CODEC_MPC_MOST;
    }
    if (good)
        *out = c;
    return good;
}

void sn_codec_format(const struct sn_codec *c, char name[SN_CODEC_NAME])
{
    char setting[8] = "";
    if (c->kind == SN_CODEC_ZFP || (c->kind == SN_CODEC_MPC && c->dim > 1))
        (void)snprintf(setting, sizeof(setting), "-%d", c->kind == SN_CODEC_ZFP ? c->rate : c->dim);
    (void)snprintf(name, SN_CODEC_NAME, "%s%s%s%s", names[c->kind], setting,
                   c->hadamard ? "-hadamard" : "", c->stochastic ? "-stochastic" : "");
}

const char *sn_codec_names(void)
{
    return "bf16, fp8, fp8-e5m2, nf4, int8 and int4 (each also with -hadamard, -stochastic or "
           "-hadamard-stochastic), zfp-3 to zfp-32, mpc, mpc-2 to mpc-32";
}

const struct sn_codec *sn_codec_all(int *n)
{
    static const struct sn_codec all[] = {
        {.kind = SN_CODEC_BF16},
        {.kind = SN_CODEC_FP8},
        {.kind = SN_CODEC_FP8_E5M2},
        {.kind = SN_CODEC_INT8},
        {.kind = SN_CODEC_INT8, .stochastic = true},
        {.kind = SN_CODEC_INT8, .hadamard = true},
        {.kind = SN_CODEC_INT8, .hadamard = true, .stochastic = true},
        {.kind = SN_CODEC_INT4},
        {.kind = SN_CODEC_INT4, .stochastic = true},
        {.kind = SN_CODEC_INT4, .hadamard = true},
        {.kind = SN_CODEC_INT4, .hadamard = true, .stochastic = true},
        {.kind = SN_CODEC_NF4},
        {.kind = SN_CODEC_ZFP, .rate = 8},
        {.kind = SN_CODEC_ZFP, .rate = 16},
        {.kind = SN_CODEC_MPC, .dim = 1},
    };
    *n = (int)(sizeof(all) / sizeof(all[0]));
    return all;
}

const char *sn_codec_missing(const struct sn_codec *c)
{
    return c->kind == SN_CODEC_ZFP ? sn_zfp_missing() : NULL;
}

const char *sn_codec_explain(enum sn_codec_fault f)
{
    static const char *const text[SN_NFAULTS] = {
        [SN_CODEC_FINE] = "nothing is wrong with it",
        [SN_CODEC_BAD_LENGTH] = "the stream has another length than its values have",
        [SN_CODEC_BAD_SCALE] = "a block's scale is none that an encoder writes",
        [SN_CODEC_BAD_CODE] = "a code is none that an encoder writes",
        [SN_CODEC_BAD_HEADER] = "the stream does not begin as one of this codec, storage type and "
                                "number of values",
        [SN_CODEC_BAD_TYPE] = "values are fp32, bf16 or fp16, and sums fp32",
        [SN_CODEC_BAD_PLACE] = "the stream does not lie on a multiple of 8 bytes",
        [SN_CODEC_MISSING] = "this build has no libzfp; install libzfp-dev and make again",
        [SN_CODEC_NO_MEMORY] = "libzfp got no memory",
    };
    return text[f];
}

uint64_t sn_codec_key(uint64_t seed, int64_t step)
{
    return sn_noise_key(seed, step, 0x636f6463u); /* "codc" */
}

bool sn_codec_is_fixed(const struct sn_codec *c)
{
    return c->kind != SN_CODEC_MPC;
}

int64_t sn_codec_granule(const struct sn_codec *c)
{
    switch (c->kind) {
    case SN_CODEC_BF16:
    case SN_CODEC_MPC:
        return 1;
    case SN_CODEC_ZFP:
        return SN_CODEC_ZFP_GRANULE;
    default:
        return SN_CODEC_BLOCK;
    }
}

static int64_t rounded_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* A scale and the codes of m values. */
static int64_t block_bytes(const struct sn_codec *c, int64_t m)
{
    if (m == 0)
        return 0;
    m = c->hadamard ? rounded_up(m, SN_CODEC_ROTATED) : m;
    bool halves = c->kind == SN_CODEC_INT4 || c->kind == SN_CODEC_NF4;
    return (int64_t)sizeof(float) + (halves ? (m + 1) / 2 : m);
}

int64_t sn_codec_bytes(const struct sn_codec *c, enum sn_dtype t, int64_t n)
{
    switch (c->kind) {
    case SN_CODEC_BF16:
        return 2 * n;
    case SN_CODEC_ZFP:
        return rounded_up(rounded_up(n, 4) * c->rate, 64) / 8;
    case SN_CODEC_MPC:
        return SN_CODEC_MPC_HEADER + n * (int64_t)sn_dtype_size(t);
    default:
        return n / SN_CODEC_BLOCK * block_bytes(c, SN_CODEC_BLOCK) +
               block_bytes(c, n % SN_CODEC_BLOCK);
    }
}

int64_t sn_coded_bytes(const struct sn_codec *c, enum sn_dtype t, int64_t n)
{
    int64_t length = sn_codec_is_fixed(c) ? 0 : (int64_t)sizeof(int64_t);
    return rounded_up(length + sn_codec_bytes(c, t, n), 8);
}

int64_t sn_coded_row_bytes(const struct sn_codec *c, enum sn_dtype t, int64_t n)
{
    return (int64_t)sizeof(int64_t) + rounded_up(sn_codec_bytes(c, t, n), 8);
}

int64_t sn_coded_room(const struct sn_codec *c, int levels, enum sn_dtype t, int64_t n)
{
    int64_t most = 0;
    for (int i = 0; i < levels; i++) {
        int64_t bytes = sn_coded_bytes(&c[i], t, n);
        most = bytes > most ? bytes : most;
    }
    return most;
}

int64_t sn_coded_likely(const struct sn_codec *c, enum sn_dtype t, int64_t n)
{
    int64_t bits = t == SN_F32 ? 29 * 100 : 1248; /* hundredths of a bit a value */
    if (sn_codec_is_fixed(c))
        return sn_coded_bytes(c, t, n);
    return rounded_up((int64_t)sizeof(int64_t) + SN_CODEC_MPC_HEADER + n * bits / 800, 8);
}

/* int4 and nf4 to int8 to bf16; zfp with twice the bits up to 16, which loses less than bf16. */
bool sn_codec_milder(struct sn_codec *out, const struct sn_codec *c)
{
    *out = *c;
    switch (c->kind) {
    case SN_CODEC_INT4:
    case SN_CODEC_NF4:
        out->kind = SN_CODEC_INT8;
        return true;
    case SN_CODEC_INT8:
    case SN_CODEC_FP8:
    case SN_CODEC_FP8_E5M2:
        *out = (struct sn_codec){.kind = SN_CODEC_BF16};
        return true;
    case SN_CODEC_ZFP:
        out->rate = c->rate < 8 ? 2 * c->rate : 16;
        return c->rate < 16;
    default:
        return false;
    }
}
