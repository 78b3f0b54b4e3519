/*
 * estimate_coded.c - what codecs make of communication whose size depends on the replicas, or whose
 * stages a shape does not have: buckets of gradients and weights, transfers of a pipeline.
 *
 * Legs, streams and sizes are those of lib/program/compress.c; their kernels are priced as
 * operations.
 */
#include "kernels/codec.h"
#include "lib/search/estimate_cache.h"

#include <string.h>

enum { VALUES, STREAMS, FLOATS, BUFS };

/* Streams of `share` values each, of a type; `n` values in all on the side of the values. */
struct coding {
    struct sn_estimator *e;
    const struct sn_coding *z;
    enum sn_dtype type;
    int64_t share, n;
    int streams;
};

static struct sn_view view(int buf, int64_t n)
{
    return (struct sn_view){.buf = buf, .rows = 1, .cols = n, .ld = n};
}

static struct sn_op op_of(const struct coding *c, int kind)
{
    struct sn_op op;
    memset(&op, 0, sizeof(op));
    op.kind = kind;
    for (int i = 0; i < SN_MAX_IN; i++)
        op.in[i].buf = -1;
    for (int o = 0; o < SN_MAX_OUT; o++)
        op.out[o].buf = -1;
    op.attr.stream.codec[0] = c->z->codec;
    op.attr.stream.levels = 1;
    op.attr.blocks_a = c->streams;
    op.attr.stream.share = c->share;
    op.attr.stream.type = c->type;
    return op;
}

static double seconds(const struct coding *c, const struct sn_op *op)
{
    struct sn_buffer bufs[BUFS];
    memset(bufs, 0, sizeof(bufs));
    bufs[VALUES].dtype = c->type != SN_F32 ? c->type : c->e->config.train.precision;
    bufs[STREAMS].dtype = SN_U8;
    bufs[FLOATS].dtype = SN_F32;
    struct sn_program text;
    memset(&text, 0, sizeof(text));
    text.bufs = bufs;
    text.n_bufs = BUFS;
    return sn_price_op(&c->e->pricer, &text, op);
}

static int buf_of(enum sn_dtype t)
{
    return t == SN_F32 ? FLOATS : VALUES;
}

static double encode(const struct coding *c, bool differs, bool fed)
{
    struct sn_op op = op_of(c, SN_OP_ENCODE);
    op.in[SN_ENCODE_X] = view(buf_of(c->type), c->n);
    op.in[SN_ENCODE_MINUS] = differs ? view(VALUES, c->n) : op.in[SN_ENCODE_MINUS];
    op.out[SN_ENCODE_STREAMS] =
        view(STREAMS, c->streams * sn_coded_bytes(&c->z->codec, c->type, c->share));
    op.out[SN_ENCODE_LOST] = fed ? view(FLOATS, c->n) : op.out[SN_ENCODE_LOST];
    return seconds(c, &op);
}

static double decode(const struct coding *c, enum sn_dtype to, bool sums, bool adds)
{
    struct sn_op op = op_of(c, SN_OP_DECODE);
    op.in[SN_DECODE_STREAMS] =
        view(STREAMS, c->streams * sn_coded_bytes(&c->z->codec, c->type, c->share));
    op.out[SN_DECODE_Y] = view(buf_of(to), sums ? c->share : c->n);
    op.in[SN_DECODE_ADDEND] = adds ? op.out[SN_DECODE_Y] : op.in[SN_DECODE_ADDEND];
    op.attr.inverse = sums;
    return seconds(c, &op);
}

static double exchange(const struct coding *c, const struct sn_net *net, enum sn_collective kind,
                       enum sn_group q)
{
    int64_t bytes = sn_coded_likely(&c->z->codec, c->type, c->share);
    double ahead = sn_codec_is_fixed(&c->z->codec)
                       ? 0
                       : sn_net_price(c->e, net, kind, SN_PRICE_LENGTH, SN_U8, q);
    return ahead + sn_net_price(c->e, net, kind, bytes, SN_U8, q);
}

void sn_coded_reduce(struct sn_coded_reduction *out, struct sn_estimator *e,
                     const struct sn_net *net, const struct sn_bucket *b)
{
    const struct sn_coding *z = &e->config.layout.compress.coding[SN_CODED_DATA];
    enum sn_group q = b->replicas;
    int members = net->members[q];
    bool all = b->slice == b->n;
    *out = (struct sn_coded_reduction){0};
    if (z->rank > 0)
        return; /* factors: shapes decide, which nobody has here; a bound, and compiled layouts say
                 */
    int64_t each = (b->n + members - 1) / members, block = SN_CODEC_BLOCK;
    struct coding c = {.e = e, .z = z, .type = b->grad_type, .n = b->n, .streams = members};
    c.share = all ? (each + block - 1) / block * block : b->slice;
    *out = (struct sn_coded_reduction){.encode = encode(&c, false, z->feedback),
                                       .exchange = exchange(&c, net, SN_ALL_TO_ALL, q),
                                       .between = decode(&c, c.type, true, false)};
    if (!all)
        return;
    out->decode = decode(&c, c.type, false, false);
    c.streams = 1;
    c.n = c.share;
    out->between += encode(&c, false, false);
    out->gather = exchange(&c, net, SN_ALL_GATHER, q);
}

void sn_coded_gather(struct sn_coded_reduction *out, struct sn_estimator *e,
                     const struct sn_net *net, const struct sn_bucket *b, bool updated)
{
    const struct sn_coding *z = &e->config.layout.compress.coding[SN_CODED_ZERO];
    enum sn_dtype own = e->config.train.precision;
    bool masters = updated && sn_coding_loses(z), differs = masters && z->diff;
    struct coding c = {.e = e, .z = z, .type = masters ? SN_F32 : own, .streams = 1};
    c.share = c.n = b->slice;
    *out = (struct sn_coded_reduction){.encode = encode(&c, differs, false),
                                       .gather = exchange(&c, net, SN_ALL_GATHER, b->replicas)};
    c.streams = net->members[b->replicas];
    c.n = b->n;
    out->decode = decode(&c, own, false, differs);
}

void sn_coded_transfer(struct sn_coded_reduction *out, struct sn_estimator *e,
                       const struct sn_net *net, int64_t n)
{
    struct coding c = {.e = e,
                       .z = &e->config.layout.compress.coding[SN_CODED_PIPELINE],
                       .type = e->config.train.precision,
                       .share = n,
                       .n = n,
                       .streams = 1};
    *out = (struct sn_coded_reduction){.encode = encode(&c, false, false),
                                       .exchange = exchange(&c, net, SN_SEND, SN_GROUP_PIPELINE),
                                       .decode = decode(&c, c.type, false, false)};
}

void sn_coded_speed(double *encoding, double *decoding, struct sn_estimator *e,
                    const struct sn_coding *z, enum sn_dtype t, int64_t n)
{
    struct coding c = {.e = e, .z = z, .type = t, .share = n, .n = n, .streams = 1};
    *encoding = encode(&c, z->diff, z->feedback);
    *decoding = decode(&c, t, false, z->diff);
}
