/*
 * rules_compress.c - layout.compress: what each kind of message is coded with, and what does not go
 * together.
 *
 * A coding is a codec's name (kernels/codec.h), for `zero` also with -diff behind it, for `data`
 * also powersgd-R (lib/program/lower_powersgd.c), or none. The schemes are those of Zhou et al.,
 * "Accelerating large language model training with hybrid GPU-based compression" (arXiv
 * 2409.02423), and one of our own after ZeRO++ (arXiv 2306.10209) and SDP4Bit (arXiv 2410.15526).
 */
#include "lib/config/settings.h"

#include "kernels/codec.h"

#include <stdio.h>
#include <string.h>

static const char *const coded_names[SN_NCODED] = {"data", "zero", "tensor", "pipeline", "expert"};
static const char diff_word[] = "-diff", low_rank_word[] = "powersgd-";

const char *sn_coded_name(enum sn_coded c)
{
    return coded_names[c];
}

static const char *by_scheme(enum sn_scheme scheme, enum sn_coded c)
{
    static const char *const gradients[] = {"none", "zfp-8", "zfp-8", "zfp-8", "int8", "none"};
    static const char *const rest[] = {"none", "zfp-8", "mpc", "zfp-16", "int8", "none"};
    if (scheme == SN_SCHEME_BLOCKWISE && c == SN_CODED_ZERO)
        return "int4-diff";
    if (scheme == SN_SCHEME_MZHYBRID && c == SN_CODED_EXPERT)
        return "none"; /* rows of tokens have one length */
    return (c == SN_CODED_DATA ? gradients : rest)[scheme];
}

void sn_coding_format(const struct sn_coding *c, char text[SN_NAME_MAX])
{
    char name[SN_CODEC_NAME] = "none", between[SN_CODEC_NAME] = "";
    if (c->on && c->rank > 0)
        (void)snprintf(name, sizeof(name), "%s%d", low_rank_word, (int)c->rank);
    else if (c->on)
        sn_codec_format(&c->codec, name);
    if (c->two)
        sn_codec_format(&c->between, between);
    (void)snprintf(text, SN_NAME_MAX, "%s%s%s%s", name, c->two ? "/" : "", between,
                   c->on && c->diff ? diff_word : "");
}

bool sn_config_compresses(const struct sn_config *c)
{
    for (int i = 0; i < SN_NCODED; i++)
        if (c->layout.compress.coding[i].on)
            return true;
    return false;
}

void sn_compress_nothing(struct sn_layout_config *l)
{
    memset(&l->compress, 0, sizeof(l->compress));
}

/* powersgd-R; rank stays 0 where it is none of those that there are. */
static bool parse_low_rank(struct sn_coding *out, const char *text)
{
    size_t n = sizeof(low_rank_word) - 1;
    int rank = 0;
    if (strncmp(text, low_rank_word, n) != 0)
        return false;
    for (text += n; *text >= '0' && *text <= '9' && rank <= SN_LOW_RANK_MOST; text++)
        rank = 10 * rank + *text - '0';
    out->rank = *text || rank > SN_LOW_RANK_MOST ? 0 : rank;
    return true;
}

static bool parse(struct sn_coding *out, const char *text, enum sn_coded of)
{
    char name[SN_NAME_MAX];
    bool may_differ = of == SN_CODED_ZERO;
    memset(out, 0, sizeof(*out)); /* padding too */
    out->on = strcmp(text, "none") != 0;
    if (of == SN_CODED_DATA && parse_low_rank(out, text))
        return out->rank > 0;
    (void)snprintf(name, sizeof(name), "%s", text);
    size_t n = strlen(name), tail = sizeof(diff_word) - 1;
    if (may_differ && n > tail && strcmp(name + n - tail, diff_word) == 0) {
        out->diff = true;
        name[n - tail] = '\0';
    }
    return !out->on || sn_codec_parse(&out->codec, name);
}

static enum sn_status one_coding(struct sn_config *c, const struct sn_settings *s, enum sn_coded i,
                                 struct sn_err *err)
{
    struct sn_compress_config *z = &c->layout.compress;
    char key[64];
    (void)snprintf(key, sizeof(key), "layout.compress.%s", coded_names[i]);
    const char *at = z->name[i][0] ? key : "layout.compress.scheme";
    const char *text = z->name[i][0] ? z->name[i] : by_scheme(z->scheme, i);
    const char *more = i == SN_CODED_ZERO   ? ", each also with -diff"
                       : i == SN_CODED_DATA ? ", powersgd-R with R of 1 to 64"
                                            : "";
    char first[SN_NAME_MAX], second[SN_NAME_MAX];
    bool two = sn_coding_split(text, first, second);
    if (two && i != SN_CODED_DATA && i != SN_CODED_ZERO)
        return sn_settings_fail(s, key, err,
                                "'%s': two codecs, inside nodes and between them, are for data and "
                                "zero; want one",
                                text);
    bool good = parse(&z->coding[i], first, i);
    z->coding[i].between = z->coding[i].codec;
    z->coding[i].two = two;
    if (!good || (two && (!z->coding[i].on || z->coding[i].rank > 0 ||
                          !sn_codec_parse(&z->coding[i].between, second))))
        return sn_settings_fail(s, key, err, "'%s' is no codec; want none, %s%s", text,
                                sn_codec_names(), more);
    if (z->coding[i].on && !z->coding[i].rank && sn_codec_missing(&z->coding[i].codec))
        return sn_settings_fail(s, at, err, "'%s': %s", text,
                                sn_codec_missing(&z->coding[i].codec));
    if (two && sn_codec_missing(&z->coding[i].between))
        return sn_settings_fail(s, at, err, "'%s': %s", text,
                                sn_codec_missing(&z->coding[i].between));
    return SN_OK;
}

enum sn_status sn_compress_derive(struct sn_config *c, const struct sn_settings *s,
                                  struct sn_err *err)
{
    struct sn_compress_config *z = &c->layout.compress;
    for (int i = 0; i < SN_NCODED; i++)
        SN_TRY(one_coding(c, s, (enum sn_coded)i, err));
    struct sn_coding *data = &z->coding[SN_CODED_DATA];
    bool loses = data->on && data->codec.kind != SN_CODEC_MPC; /* in the first encoding */
    data->feedback = data->rank > 0 || (loses && z->feedback);
    if (z->guard > 0 && z->sample == 0)
        z->sample = 10;
    return SN_OK;
}

/* --- rules ------------------------------------------------------------------------------------ */

enum sn_status sn_rule_feedback(const struct sn_config *c, const struct sn_settings *s,
                                struct sn_err *err)
{
    const struct sn_compress_config *z = &c->layout.compress;
    bool open = z->scheme == SN_SCHEME_AUTO && !z->name[SN_CODED_DATA][0]; /* chosen later */
    if (z->budget > 0 && z->scheme != SN_SCHEME_AUTO)
        return sn_settings_fail(s, "layout.compress.budget", err,
                                "codecs are named, so that nothing is chosen; use scheme: auto, or "
                                "leave the budget out");
    if (z->feedback && !z->coding[SN_CODED_DATA].feedback && !open)
        return sn_settings_fail(
            s, "layout.compress.feedback", err,
            "true, but layout.compress.data is %s, which loses nothing%s; use a "
            "lossy codec, such as int4, or false",
            z->coding[SN_CODED_DATA].on ? "mpc" : "none",
            z->coding[SN_CODED_DATA].two ? " inside a node" : "");
    const struct sn_coding *data = &z->coding[SN_CODED_DATA];
    if (!data->feedback || data->rank > 0 || c->train.precision != SN_F16)
        return SN_OK;
    return sn_settings_fail(s, "layout.compress.feedback", err,
                            "what is lost of one step's gradients has that step's loss scale, and "
                            "train.precision is fp16; use bf16 or fp32, or a codec without "
                            "feedback");
}

enum sn_status sn_rule_difference(const struct sn_config *c, const struct sn_settings *s,
                                  struct sn_err *err)
{
    const struct sn_coding *z = &c->layout.compress.coding[SN_CODED_ZERO];
    bool named = c->layout.compress.name[SN_CODED_ZERO][0];
    const char *key = named ? "layout.compress.zero" : "layout.compress.scheme";
    if (z->diff && (z->codec.kind == SN_CODEC_MPC || z->between.kind == SN_CODEC_MPC))
        return sn_settings_fail(s, key, err,
                                "a lossless codec gains nothing by differences; use mpc, or a "
                                "lossy one with -diff");
    if (!z->diff || !sn_weights_are_slices(sn_zero_holding(c->layout.zero)))
        return SN_OK;
    return sn_settings_fail(s, key, err,
                            "-diff needs weights that stay with every rank, and layout.zero is 3; "
                            "use stage 1 or 2, or a codec without -diff");
}

enum sn_status sn_rule_rows(const struct sn_config *c, const struct sn_settings *s,
                            struct sn_err *err)
{
    const struct sn_coding *z = &c->layout.compress.coding[SN_CODED_EXPERT];
    const struct sn_layout_config *l = &c->layout;
    const char *key =
        l->compress.name[SN_CODED_EXPERT][0] ? "layout.compress.expert" : "layout.compress.scheme";
    if (!z->on || sn_config_expert_members(c) <= 1)
        return SN_OK;
    if (z->codec.kind == SN_CODEC_MPC)
        return sn_settings_fail(s, key, err,
                                "rows of tokens travel in places of one length, in which mpc gains "
                                "nothing; use a codec of fixed rate, such as int8, or none");
    if (l->drop_duplicates == SN_DUPLICATES_DROPPED)
        return sn_settings_fail(s, "layout.drop_duplicates", err,
                                "true, but rows that tensor ranks share are not compressed yet; "
                                "use false, or layout.compress.expert: none");
    if (l->expert_node > 1)
        return sn_settings_fail(s, "layout.expert_node", err,
                                "%d, but rows would be coded again at each hop; use 1, or "
                                "layout.compress.expert: none",
                                l->expert_node);
    if (c->model.experts.router == SN_ROUTER_DENSE)
        return sn_settings_fail(s, key, err,
                                "with model.experts.router dense all tokens are gathered, which is "
                                "not compressed; use none");
    return SN_OK;
}

/* Refused by name is what the factors cannot do, whether or not there are replicas to sum over. */
enum sn_status sn_rule_low_rank(const struct sn_config *c, const struct sn_settings *s,
                                struct sn_err *err)
{
    static const char key[] = "layout.compress.data";
    if (c->layout.compress.coding[SN_CODED_DATA].rank == 0)
        return SN_OK;
    if (c->train.precision == SN_F16)
        return sn_settings_fail(
            s, key, err,
            "powersgd adds what is lost of one step's gradients to the next's, "
            "whose loss scale is another, and train.precision is fp16; use bf16 "
            "or fp32, or a codec such as int8");
    if (c->train.grad_dtype != SN_F32)
        return sn_settings_fail(
            s, key, err,
            "powersgd multiplies gradients in fp32, and train.grad_dtype is %s; "
            "use fp32, or a codec such as int8",
            sn_dtype_name(c->train.grad_dtype));
    if (!sn_gradients_are_temporary(sn_zero_holding(c->layout.zero)))
        return SN_OK;
    return sn_settings_fail(
        s, key, err,
        "powersgd needs the gradients of a whole step in one place, and "
        "layout.zero %d scatters those of each micro-batch; use zero 0 or 1, or "
        "a codec such as int4-hadamard",
        c->layout.zero);
}
