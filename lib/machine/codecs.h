/*
 * codecs.h - how fast a device encodes and decodes, as a machine file keeps it, and what ENCODE and
 * DECODE (kernels/ops.h) cost by it.
 *
 *   device:
 *     codecs:
 *       - {codec: int8-hadamard, type: fp32, encode: 4.7e9, decode: 7.6e9, feedback: 2.9e9}
 *
 * Rates are bytes of values a second, not of streams, of values of that type. Of n values of s
 * bytes each:
 *
 *   ENCODE   overhead + n s / encode; with error feedback n s / feedback, or, where that is not
 *            known, n s / encode + n s / decode and what reading and writing the feedback takes
 *   DECODE   overhead + n s / decode, n over all streams: a sum of P streams decodes P
 *
 * and for an operand beside the values (a difference, an addend) its bytes over the bandwidth of
 * what moves memory. Another type of the same codec is as fast in values; of zfp the nearest rate
 * in bits stands for all. What no row tells moves memory: the values, the streams as they are
 * likely to be (sn_coded_likely) and the operands beside (cost.h).
 */
#ifndef SN_CODECS_H
#define SN_CODECS_H

#include "kernels/codec_kind.h"
#include "kernels/tensor.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

struct sn_yaml_node;

struct sn_codec_rate {
    struct sn_codec codec;
    enum sn_dtype dtype;             /* fp32, bf16 or fp16 */
    double encode, decode, feedback; /* bytes of values a second; feedback: of ENCODE with it, 0:
                                        not known */
};

struct sn_codec_rates {
    struct sn_codec_rate *of;
    int n, room;
};

bool sn_codec_same(const struct sn_codec *a, const struct sn_codec *b);
/* Add a row, or put it in the place of one of the same codec and type. SN_ENOMEM. */
enum sn_status sn_codec_rates_add(struct sn_codec_rates *r, const struct sn_codec_rate *x,
                                  struct sn_err *err);
/* The row that tells most of a codec on values of a type, in bytes of that type a second; false:
 * none does. */
bool sn_codec_rates_find(struct sn_codec_rate *out, const struct sn_codec_rates *r,
                         const struct sn_codec *c, enum sn_dtype t);
/* The list in a machine file; NULL: there is none. */
enum sn_status sn_codec_rates_read(struct sn_codec_rates *r, const struct sn_yaml_node *list,
                                   struct sn_err *err);
void sn_codec_rates_format(struct sn_str *out, const struct sn_codec_rates *r);
/* A table of the keys of a row in Markdown. */
void sn_codec_rates_help(struct sn_str *out);
void sn_codec_rates_fini(struct sn_codec_rates *r); /* a zeroed one is allowed */

#endif
