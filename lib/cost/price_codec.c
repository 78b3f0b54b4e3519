/*
 * price_codec.c - seconds of ENCODE and DECODE, where the machine says how fast their codec is.
 *
 * The formulas stand in codecs.h. The first codec of the operation is priced: others take its place
 * in a run alone (layout.compress.guard).
 */
#include "lib/cost/price.h"

static double bytes_of(const struct sn_program *prog, const struct sn_view *v)
{
    if (v->buf < 0)
        return 0;
    return (double)(v->rows * v->cols) * (double)sn_dtype_size(prog->bufs[v->buf].dtype);
}

/* Seconds of operands beside values and streams. */
static double beside(const struct sn_machine_device *d, double bytes)
{
    double fraction = d->moved[SN_MOVED_ELEMENTWISE];
    return bytes / (d->bandwidth * (fraction > 0 ? fraction : 1));
}

static double encoding(const struct sn_machine_device *d, const struct sn_codec_rate *rate,
                       const struct sn_program *prog, const struct sn_op *op)
{
    double values = bytes_of(prog, &op->in[SN_ENCODE_X]),
           seconds = beside(d, bytes_of(prog, &op->in[SN_ENCODE_MINUS]));
    if (op->out[SN_ENCODE_LOST].buf < 0)
        return seconds + values / rate->encode;
    if (rate->feedback > 0)
        return seconds + values / rate->feedback;
    return seconds + values / rate->encode + values / rate->decode +
           beside(d, 2 * bytes_of(prog, &op->out[SN_ENCODE_LOST]));
}

/* A sum decodes every stream; of blocks_b shares each has as many. */
static double decoding(const struct sn_machine_device *d, const struct sn_codec_rate *rate,
                       const struct sn_program *prog, const struct sn_op *op)
{
    double shares = op->attr.blocks_b > 1 ? (double)op->attr.blocks_b : 1;
    double streams = op->attr.inverse ? (double)op->attr.blocks_a / shares : 1;
    return streams * bytes_of(prog, &op->out[SN_DECODE_Y]) / rate->decode +
           beside(d, bytes_of(prog, &op->in[SN_DECODE_ADDEND]));
}

bool sn_price_coded(double *seconds, const struct sn_pricer *p, const struct sn_program *prog,
                    const struct sn_op *op)
{
    const struct sn_machine_device *d = &p->machine->device;
    bool encodes = op->kind == SN_OP_ENCODE;
    struct sn_codec_rate rate;
    if (!encodes && op->kind != SN_OP_DECODE)
        return false;
    const struct sn_view *values = encodes ? &op->in[SN_ENCODE_X] : &op->out[SN_DECODE_Y];
    if (!sn_codec_rates_find(&rate, &d->codecs, &op->attr.stream.codec[0],
                             prog->bufs[values->buf].dtype))
        return false;
    *seconds =
        p->software->overhead * d->overhead + (encodes ? encoding : decoding)(d, &rate, prog, op);
    return true;
}
