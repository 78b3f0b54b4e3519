/*
 * codec_ops.c - ENCODE and DECODE: whole operands as streams, and back, by the codecs of
 * kernels/codec.h.
 *
 * A stream that can be cut passes through tiles in fp32 where something has to be added to its
 * values; where nothing has, codecs read and write the operands themselves. Streams follow one
 * another; threads share each, or, where streams are short, streams.
 */
#include "kernels/cpu/codec_inner.h"
#include "kernels/cpu/cpu.h"

enum { TILE = 65536 /* values */, SHORT = 16384 };
_Static_assert(TILE % SN_CODEC_BLOCK == 0 && TILE % SN_CODEC_ZFP_GRANULE == 0, "whole granules");

/* One operation, and one of its streams. */
struct coded {
    const struct sn_args *a;
    const struct sn_codec *codec;
    enum sn_dtype type;    /* of the values encoded */
    int64_t n, share;      /* values: all, of a stream */
    bool tells;            /* streams follow their length */
    int64_t stream, block; /* bytes of a stream's place, and where its bytes begin in it */
    float *tile;           /* two of them, or a share */
    struct sn_codec_draw draw;
    int threads;
};

struct part {
    int64_t first, n; /* values */
    char *at;         /* of the stream's place */
    int64_t number;
};

static struct coded coded_of(const struct sn_args *a, const struct sn_mat *values, int threads)
{
    const struct sn_scalars *s = a->scalars;
    struct coded c = {
        .a = a,
        .codec = &a->attr.stream
                      .codec[a->attr.stream.levels > 1 ? s->codec_level[a->attr.stream.coded] : 0],
        .type = a->attr.stream.type,
        .n = values->rows * values->cols - a->attr.stream.missing,
        .share = a->attr.stream.share,
        .tile = a->scratch,
        .threads = threads};
    c.tells = a->attr.stream.marked || !sn_codec_is_fixed(c.codec);
    c.stream = c.tells ? sn_coded_row_bytes(c.codec, c.type, c.share)
                       : sn_coded_bytes(c.codec, c.type, c.share);
    c.block = c.tells ? (int64_t)sizeof(int64_t) : 0;
    return c;
}

static struct part part_of(const struct coded *c, char *streams, int64_t i)
{
    int64_t k = c->a->attr.blocks_b, all = c->a->attr.blocks_a;
    int64_t number = k > 1 ? i % k * (all / k) + i / k : i;
    struct part p = {.first = number * c->share, .at = streams + i * c->stream, .number = i};
    p.n = c->n - p.first < c->share ? c->n - p.first : c->share;
    p.n = p.n < 0 ? 0 : p.n;
    return p;
}

static struct sn_values values_at(const struct sn_mat *m, int64_t first, int64_t n)
{
    return (struct sn_values){(char *)m->p + first * (int64_t)sn_dtype_size(m->dtype), m->dtype, n};
}

/* Values at .. at + n - 1 of a part, as bytes of its stream: whole granules begin at `at`. */
static struct sn_stream cut(const struct coded *c, const struct part *p, int64_t at, int64_t n)
{
    int64_t skip = sn_codec_is_fixed(c->codec) ? sn_codec_bytes(c->codec, c->type, at) : 0;
    return (struct sn_stream){p->at + c->block + skip, sn_codec_bytes(c->codec, c->type, n)};
}

static int64_t tile_of(const struct coded *c, const struct part *p, int64_t at)
{
    int64_t most = sn_codec_is_fixed(c->codec) ? TILE : p->n;
    return p->n - at < most ? p->n - at : most;
}

/* --- encode ----------------------------------------------------------------------------------- */

static void subtract(const struct coded *c, int64_t first, int64_t n)
{
    struct sn_values x = values_at(&c->a->in[SN_ENCODE_X], first, n),
                     y = values_at(&c->a->in[SN_ENCODE_MINUS], first, n);
    int64_t blocks = (n + SN_CODEC_BLOCK - 1) / SN_CODEC_BLOCK;
#pragma omp parallel for num_threads(sn_team(c->threads, n)) schedule(static)
    for (int64_t b = 0; b < blocks; b++) {
        float xs[SN_CODEC_BLOCK], ys[SN_CODEC_BLOCK];
        int64_t at = b * SN_CODEC_BLOCK;
        int m = (int)(n - at < SN_CODEC_BLOCK ? n - at : SN_CODEC_BLOCK);
        const float *xp = sn_values_get(&x, at, m, xs), *yp = sn_values_get(&y, at, m, ys);
        for (int i = 0; i < m; i++)
            c->tile[at + i] = xp[i] - yp[i];
    }
}

/* What the encoder saw, back from the stream: sums of squares over a tile, in one order. The
 * feedback is already what is lost; else what comes back is compared. */
static enum sn_codec_fault sample(const struct coded *c, const struct part *p, int64_t at,
                                  const struct sn_values *x, const float *lost)
{
    float *back = c->tile + TILE;
    double sum[2] = {0, 0}, *to = c->a->scalars->codec_error[c->a->attr.stream.coded];
    struct sn_stream s = cut(c, p, at, x->n);
    enum sn_codec_fault f = SN_K(sn_codecs).decode(
        c->codec, &s, &(struct sn_values){back, SN_F32, x->n}, SN_WRITE, c->threads);
    for (int64_t i = 0; i < x->n && f == SN_CODEC_FINE; i += SN_CODEC_BLOCK) {
        float buf[SN_CODEC_BLOCK];
        int m = (int)(x->n - i < SN_CODEC_BLOCK ? x->n - i : SN_CODEC_BLOCK);
        const float *from = sn_values_get(x, i, m, buf);
        for (int k = 0; k < m; k++) {
            double away = lost ? lost[i + k] : (double)from[k] - back[i + k];
            double whole = lost ? away + back[i + k] : from[k];
            sum[0] += away * away;
            sum[1] += whole * whole;
        }
    }
    to[0] += sum[0];
    to[1] += sum[1];
    return f;
}

static enum sn_codec_fault encode_tile(const struct coded *c, const struct part *p, int64_t at,
                                       int64_t n)
{
    bool differs = c->a->in[SN_ENCODE_MINUS].p != NULL;
    bool fixed = sn_codec_is_fixed(c->codec);
    float *e =
        c->a->out[SN_ENCODE_LOST].p ? (float *)c->a->out[SN_ENCODE_LOST].p + p->first + at : NULL;
    struct sn_values x = values_at(&c->a->in[SN_ENCODE_X], p->first + at, n);
    struct sn_stream to = cut(c, p, at, n);
    struct sn_codec_draw draw = c->draw;
    draw.message += (uint64_t)p->number;
    draw.first = at;
    if (differs) {
        subtract(c, p->first + at, n);
        x = (struct sn_values){c->tile, SN_F32, n};
    }
    enum sn_codec_fault f = e ? SN_K(sn_codecs).encode_fed(c->codec, &x, e, &draw, &to, c->threads)
                              : SN_K(sn_codecs).encode(c->codec, &x, &draw, &to, c->threads);
    if (f == SN_CODEC_FINE && e)
        f = SN_K(sn_codecs).keep(c->codec, &x, e, &to, c->threads);
    if (c->tells)
        *(int64_t *)(void *)p->at = at > 0 ? *(int64_t *)(void *)p->at + to.bytes : to.bytes;
    if (f == SN_CODEC_FINE && fixed && c->a->scalars->codec_sample)
        f = sample(c, p, at, &x, e);
    return f;
}

static enum sn_codec_fault encode_part(const struct coded *c, const struct part *p)
{
    enum sn_codec_fault f = SN_CODEC_FINE;
    bool whole = !c->a->in[SN_ENCODE_MINUS].p && !c->a->scalars->codec_sample;
    if (c->tells)
        *(int64_t *)(void *)p->at = 0;
    for (int64_t at = 0, n; at < p->n && f == SN_CODEC_FINE; at += n) {
        n = whole ? p->n : tile_of(c, p, at);
        f = encode_tile(c, p, at, n);
    }
    if (sn_codec_is_fixed(c->codec)) {
        int64_t used = sn_codec_bytes(c->codec, c->type, p->n);
        memset(p->at + c->block + used, 0, (size_t)(c->stream - c->block - used));
    }
    return f;
}

/* --- decode ----------------------------------------------------------------------------------- */

/* The stream of a part whose length says itself. */
static enum sn_codec_fault whole_stream(const struct coded *c, const struct part *p,
                                        struct sn_stream *out)
{
    int64_t length = p->n == 0 ? 0 : *(const int64_t *)(const void *)p->at;
    *out = (struct sn_stream){p->at + c->block, length};
    return length < 0 || length > c->stream - c->block ? SN_CODEC_BAD_LENGTH : SN_CODEC_FINE;
}

static enum sn_codec_fault decode_cut(const struct coded *c, const struct part *p, int64_t at,
                                      const struct sn_values *y, enum sn_acc acc)
{
    struct sn_stream s = cut(c, p, at, y->n);
    enum sn_codec_fault f = sn_codec_is_fixed(c->codec) ? SN_CODEC_FINE : whole_stream(c, p, &s);
    return f == SN_CODEC_FINE ? SN_K(sn_codecs).decode(c->codec, &s, y, acc, c->threads) : f;
}

/* The tile, plus w, into y. */
static void finish_tile(const struct coded *c, int64_t first, int64_t n)
{
    const struct sn_mat *w = &c->a->in[SN_DECODE_ADDEND];
    struct sn_values y = values_at(&c->a->out[SN_DECODE_Y], first, n);
    int64_t blocks = (n + SN_CODEC_BLOCK - 1) / SN_CODEC_BLOCK;
#pragma omp parallel for num_threads(sn_team(c->threads, n)) schedule(static)
    for (int64_t b = 0; b < blocks; b++) {
        float buf[SN_CODEC_BLOCK];
        int64_t at = b * SN_CODEC_BLOCK;
        int m = (int)(n - at < SN_CODEC_BLOCK ? n - at : SN_CODEC_BLOCK);
        if (w->p) {
            struct sn_values from = values_at(w, first, n);
            const float *add = sn_values_get(&from, at, m, buf);
            for (int i = 0; i < m; i++)
                c->tile[at + i] += add[i];
        }
        sn_values_put(&y, c->a->acc[SN_DECODE_Y], at, m, c->tile + at);
    }
}

/* Streams of the same values: first, first + step, .. below `end`. */
struct same {
    int64_t first, step, end;
};

static enum sn_codec_fault decode_sum(const struct coded *c, char *streams, const struct same *of)
{
    struct part p = part_of(c, streams, of->first);
    bool one = of->first + of->step >= of->end,
         sets = c->a->acc[SN_DECODE_Y] == SN_WRITE; /* else y + (a + b), not y + a + b */
    bool direct =
        !c->a->in[SN_DECODE_ADDEND].p && (one || (sets && c->a->out[SN_DECODE_Y].dtype == SN_F32));
    enum sn_codec_fault f = SN_CODEC_FINE;
    if (c->a->attr.inverse) {
        p.first = of->first * c->share;
        p.n = c->n - p.first < c->share ? c->n - p.first : c->share;
    }
    for (int64_t at = 0, n; at < p.n && f == SN_CODEC_FINE; at += n) {
        n = direct && one ? p.n : tile_of(c, &p, at);
        struct sn_values y = direct ? values_at(&c->a->out[SN_DECODE_Y], p.first + at, n)
                                    : (struct sn_values){c->tile, SN_F32, n};
        for (int64_t i = of->first; i < of->end && f == SN_CODEC_FINE; i += of->step) {
            struct part q = p;
            q.at = streams + i * c->stream;
            enum sn_acc acc = i > of->first ? SN_ADD : direct ? c->a->acc[SN_DECODE_Y] : SN_WRITE;
            f = decode_cut(c, &q, at, &y, acc);
        }
        if (!direct && f == SN_CODEC_FINE)
            finish_tile(c, p.first + at, n);
    }
    return f;
}

/* --- the operations --------------------------------------------------------------------------- */

static bool is_absent(const struct coded *c, int64_t i)
{
    const char *streams = c->a->in[SN_DECODE_STREAMS].p;
    return *(const int64_t *)(const void *)(streams + i * c->stream) == 0;
}

static enum sn_codec_fault one_stream(const struct coded *c, bool encodes, int64_t i)
{
    if (!encodes && c->a->attr.stream.marked && is_absent(c, i))
        return SN_CODEC_FINE;
    if (!encodes)
        return decode_sum(c, c->a->in[SN_DECODE_STREAMS].p, &(struct same){i, 1, i + 1});
    struct part p = part_of(c, c->a->out[SN_ENCODE_STREAMS].p, i);
    return encode_part(c, &p);
}

/* Nothing that streams share: no tile, no sums of squares. */
static bool may_share_out(const struct coded *c, bool encodes)
{
    const struct sn_mat *beside = &c->a->in[encodes ? SN_ENCODE_MINUS : SN_DECODE_ADDEND];
    return c->share <= SHORT && !beside->p && !(encodes && c->a->scalars->codec_sample);
}

static enum sn_codec_fault all_streams(struct coded *c, bool encodes, int64_t streams)
{
    int fault = SN_CODEC_FINE;
    bool shared = may_share_out(c, encodes);
    int team = shared ? sn_team(c->threads, c->n) : 1;
    if (shared)
        c->threads = 1;
#pragma omp parallel for num_threads(team) schedule(static) reduction(max : fault)
    for (int64_t i = 0; i < streams; i++) {
        int f = (int)one_stream(c, encodes, i);
        fault = f > fault ? f : fault;
    }
    return (enum sn_codec_fault)fault;
}

SN_KERNEL(sn_encode)
{
    struct coded c = coded_of(a, &a->in[SN_ENCODE_X], threads);
    const struct sn_scalars *s = a->scalars;
    c.draw.key = sn_codec_key(s->seed, s->step);
    c.draw.message = sn_codec_message(a->attr.random.site, a->attr.stream.member, s->first_sample);
    return (int)all_streams(&c, true, a->attr.blocks_a);
}

static enum sn_codec_fault all_sums(const struct coded *c, int64_t streams)
{
    int64_t shares = c->a->attr.blocks_b > 1 ? c->a->attr.blocks_b : 1;
    enum sn_codec_fault f = SN_CODEC_FINE;
    for (int64_t k = 0; k < shares && f == SN_CODEC_FINE; k++)
        f = decode_sum(c, c->a->in[SN_DECODE_STREAMS].p, &(struct same){k, shares, streams});
    return f;
}

SN_KERNEL(sn_decode)
{
    struct coded c = coded_of(a, &a->out[SN_DECODE_Y], threads);
    int64_t streams = a->attr.blocks_a;
    if (a->in[SN_DECODE_BOUNDS].p) {
        int32_t end =
            ((const int32_t *)a->in[SN_DECODE_BOUNDS].p)[a->in[SN_DECODE_BOUNDS].cols - 1];
        streams = end < streams ? end : streams;
    }
    return (int)(a->attr.inverse ? all_sums(&c, streams) : all_streams(&c, false, streams));
}

size_t SN_K(sn_coded_scratch)(const struct sn_args *a)
{
    int64_t values = 2 * TILE;
    for (int i = 0; i < a->attr.stream.levels; i++)
        if (!sn_codec_is_fixed(&a->attr.stream.codec[i]) && a->attr.stream.share > values)
            values = a->attr.stream.share;
    return (size_t)values * sizeof(float);
}
