/*
 * codecs.c - rates of codecs: found, read and written.
 */
#include "lib/machine/codecs.h"

#include "kernels/codec.h"
#include "lib/base/mem.h"
#include "lib/machine/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- found ------------------------------------------------------------------------------------ */

bool sn_codec_same(const struct sn_codec *a, const struct sn_codec *b)
{
    return a->kind == b->kind && a->rate == b->rate && a->dim == b->dim &&
           a->hadamard == b->hadamard && a->stochastic == b->stochastic;
}

enum sn_status sn_codec_rates_add(struct sn_codec_rates *r, const struct sn_codec_rate *x,
                                  struct sn_err *err)
{
    for (int i = 0; i < r->n; i++)
        if (sn_codec_same(&r->of[i].codec, &x->codec) && r->of[i].dtype == x->dtype) {
            r->of[i] = *x;
            return SN_OK;
        }
    if (!sn_grow((void **)&r->of, r->n, &r->room, sizeof(*r->of)))
        return sn_fail(err, SN_ENOMEM, "device.codecs: no memory for %d codecs", r->n + 1);
    r->of[r->n++] = *x;
    return SN_OK;
}

/* How far a row is from what is asked for: bits of zfp first, then the type; -1: another codec.
 * How far back mpc looks changes nothing. */
static int distance(const struct sn_codec_rate *x, const struct sn_codec *c, enum sn_dtype t)
{
    struct sn_codec known = x->codec, wanted = *c;
    int bits = abs(known.rate - wanted.rate);
    known.rate = wanted.rate = 0;
    known.dim = wanted.dim = 0;
    return sn_codec_same(&known, &wanted)
               ? 4 * bits + 2 * (x->dtype != t && (x->dtype == SN_F32 || t == SN_F32)) +
                     (x->dtype != t)
               : -1;
}

bool sn_codec_rates_find(struct sn_codec_rate *out, const struct sn_codec_rates *r,
                         const struct sn_codec *c, enum sn_dtype t)
{
    const struct sn_codec_rate *nearest = NULL;
    int least = 0;
    for (int i = 0; i < r->n; i++) {
        int far = distance(&r->of[i], c, t);
        if (far >= 0 && (!nearest || far < least)) {
            nearest = &r->of[i];
            least = far;
        }
    }
    if (!nearest)
        return false;
    double scale = (double)sn_dtype_size(t) / (double)sn_dtype_size(nearest->dtype);
    *out = (struct sn_codec_rate){*c, t, nearest->encode * scale, nearest->decode * scale,
                                  nearest->feedback * scale};
    return true;
}

/* --- a machine file --------------------------------------------------------------------------- */

static const char *const types[] = {"fp32", "bf16", "fp16", NULL};

struct line {
    char codec[SN_CODEC_NAME];
    struct sn_codec_rate rate;
};

#define WIDTH .min = 1e5L, .max = 1e16L, .unit = "B/s"
#define ROW(key, kind, member, what)                                                               \
    .name = "device.codecs." key, .type = SN_KEY_##kind, .offset = offsetof(struct line, member),  \
    .sentence = (what)

/* clang-format off */
static const struct sn_key rows[] = {
    {ROW("codec", TEXT, codec, "Its name (docs/COMPRESSION.md), such as int8-hadamard or zfp-8."), .max = SN_CODEC_NAME},
    {ROW("type", ENUM, rate.dtype, "Type of the values."), .names = types},
    {ROW("encode", FLOAT, rate.encode, "What it encodes of values."), WIDTH},
    {ROW("decode", FLOAT, rate.decode, "What it decodes, to values of that type."), WIDTH},
    {ROW("feedback", FLOAT, rate.feedback, "What it encodes with error feedback (layout.compress.feedback); 0: not known, as one encoding and one decoding."), .min = 0, .max = 1e16L, .unit = "B/s", .value = "0"},
};
/* clang-format on */

static const struct sn_fields fields = {.what = "a machine file",
                                        .prefix = "device.codecs",
                                        .row = rows,
                                        .n = (int)(sizeof(rows) / sizeof(rows[0]))};

enum sn_status sn_codec_rates_read(struct sn_codec_rates *r, const struct sn_yaml_node *list,
                                   struct sn_err *err)
{
    if (!list || sn_yaml_is_null(list))
        return SN_OK;
    if (list->kind != SN_YAML_LIST)
        return sn_yaml_fail(list, err, "device.codecs: want a list of codecs and their rates");
    for (const struct sn_yaml_node *i = list->first; i; i = i->next) {
        struct line x;
        memset(&x, 0, sizeof(x));
        SN_TRY(sn_fields_read(&fields, i, &x, err));
        if (!sn_codec_parse(&x.rate.codec, x.codec))
            return sn_yaml_fail(sn_yaml_find(i, "codec"), err,
                                "device.codecs.codec: '%s' is no codec; want %s", x.codec,
                                sn_codec_names());
        SN_TRY(sn_codec_rates_add(r, &x.rate, err));
    }
    return SN_OK;
}

void sn_codec_rates_format(struct sn_str *out, const struct sn_codec_rates *r)
{
    for (int i = 0; i < r->n; i++) {
        const struct sn_codec_rate *x = &r->of[i];
        char name[SN_CODEC_NAME], encode[SN_VALUE_SIZE], decode[SN_VALUE_SIZE];
        sn_codec_format(&x->codec, name);
        sn_str_add(out, "%s    - {codec: %s, type: %s, encode: %s, decode: %s",
                   i ? "" : "  codecs:\n", name, types[x->dtype],
                   sn_key_format(&rows[2], &x->encode, encode),
                   sn_key_format(&rows[3], &x->decode, decode));
        if (x->feedback > 0)
            sn_str_add(out, ", feedback: %s", sn_key_format(&rows[4], &x->feedback, encode));
        sn_str_add(out, "}\n");
    }
}

void sn_codec_rates_help(struct sn_str *out)
{
    sn_fields_help(out, &fields);
}

void sn_codec_rates_fini(struct sn_codec_rates *r)
{
    sn_free(r->of);
    *r = (struct sn_codec_rates){0};
}
