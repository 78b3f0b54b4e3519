/*
 * rules_codec.c - streams of codecs: what they hold is taken for exact, so that what is proven is
 * which values go where, and which are summed; what codecs lose is a matter of accuracy.
 *
 * A buffer of streams has, whatever its own size, as many elements a stream as it encodes values
 * (attr.stream.share). Error feedback holds nothing: it is what was lost.
 */
#include "lib/meaning/inner.h"

#include "lib/base/mem.h"

bool sn_streams_init(struct sn_rank *r)
{
    const struct sn_program *p = r->program;
    r->share_of = sn_alloc_n((size_t)p->n_bufs + 1, sizeof(*r->share_of));
    for (int i = 0; i < p->n_bufs && r->share_of; i++) {
        int bucket = p->bufs[i].bucket;
        const struct sn_bucket *b = bucket < 0 ? NULL : &r->job->buckets[bucket];
        if (b && b->is_coded && p->bufs[i].dtype == SN_U8)
            r->share_of[i] = i == b->weight ? sn_bucket_elements(r->job, b, i) : b->n;
    }
    for (int i = 0; i < p->n_ops && r->share_of; i++) {
        const struct sn_op *op = &p->ops[i];
        int of[] = {op->is_coded ? op->in[SN_MOVE_FROM].buf : -1,
                    op->is_coded ? op->out[SN_MOVE_TO].buf : -1,
                    op->kind == SN_OP_ENCODE ? op->out[SN_ENCODE_STREAMS].buf : -1,
                    op->kind == SN_OP_DECODE ? op->in[SN_DECODE_STREAMS].buf : -1};
        for (int k = 0; k < 4; k++)
            if (of[k] >= 0)
                r->share_of[of[k]] = op->attr.stream.share;
    }
    return r->share_of != NULL;
}

struct sn_area sn_streams_area(const struct sn_rank *r, const struct sn_view *v)
{
    int64_t room = r->program->bufs[v->buf].cols, share = r->share_of[v->buf];
    int64_t n = v->rows * v->cols / room * share;
    return (struct sn_area){v->offset / room * share, 1, n, n};
}

/* Which share of the values stream i holds. */
static int64_t share_number(const struct sn_op *op, int64_t i)
{
    int64_t k = op->attr.blocks_b;
    return k > 1 ? i % k * (op->attr.blocks_a / k) + i / k : i;
}

static void push_zeros(struct sn_slabs *out, int64_t at, int64_t n)
{
    struct sn_slab t = {
        .at = at, .rows = 1, .cols = n, .ld = n, .space = {SN_SPACE_ANY, SN_SPACE_ANY}};
    if (n > 0)
        sn_slabs_push(out, &t);
}

static int64_t elements_of(const struct sn_visit *s, const struct sn_view *v)
{
    struct sn_area a = sn_view_area(s, v);
    return a.rows * a.cols;
}

/* Values x, or x - y, side by side. */
static enum sn_status read_values(const struct sn_visit *s, struct sn_slabs *x)
{
    struct sn_slabs y = {0};
    SN_TRY(sn_read(s, SN_ENCODE_X, x));
    if (!sn_has_in(s, SN_ENCODE_MINUS))
        return SN_OK;
    enum sn_status st = sn_read(s, SN_ENCODE_MINUS, &y);
    for (int i = 0; i < y.n && st == SN_OK; i++) {
        y.t[i].value = sn_field_sub(0, y.t[i].value);
        st = sn_collect(s, x, &y.t[i]);
    }
    sn_slabs_fini(&y);
    return st;
}

enum sn_status sn_rule_encode(const struct sn_visit *s)
{
    const struct sn_op *op = s->op;
    int64_t share = op->attr.stream.share;
    int64_t n = elements_of(s, &op->in[SN_ENCODE_X]) - op->attr.stream.missing;
    struct sn_slabs x = {0}, streams = {0}, lost = {0};
    enum sn_status st = read_values(s, &x);
    for (int64_t i = 0; i < op->attr.blocks_a && st == SN_OK; i++) {
        int64_t from = share_number(op, i) * share, has = n - from;
        has = has < 0 ? 0 : has > share ? share : has;
        if (has > 0)
            sn_move_part(&x, from, has, i * share, &streams);
        push_zeros(&streams, i * share + has, share - has);
    }
    if (st == SN_OK)
        st = sn_write(s, SN_ENCODE_STREAMS, &streams);
    if (st == SN_OK && sn_has_out(s, SN_ENCODE_LOST)) {
        push_zeros(&lost, 0, elements_of(s, &op->out[SN_ENCODE_LOST]));
        st = sn_write_view(s, &op->out[SN_ENCODE_LOST], SN_ACC_WRITE, &lost);
    }
    sn_slabs_fini(&x);
    sn_slabs_fini(&streams);
    sn_slabs_fini(&lost);
    return st;
}

/* Stream i of those in `streams` belongs at `to`, where `most` elements are wanted. */
static enum sn_status take_stream(const struct sn_visit *s, const struct sn_slabs *streams,
                                  int64_t i, int64_t to, int64_t most, struct sn_slabs *y)
{
    struct sn_slabs part = {0};
    int64_t share = s->op->attr.stream.share, n = most < share ? most : share;
    enum sn_status st = SN_OK;
    if (n > 0)
        sn_move_part(streams, i * share, n, to, &part);
    for (int k = 0; k < part.n && st == SN_OK; k++)
        st = sn_collect(s, y, &part.t[k]);
    sn_slabs_fini(&part);
    return st;
}

enum sn_status sn_rule_decode(const struct sn_visit *s)
{
    const struct sn_op *op = s->op;
    int64_t share = op->attr.stream.share, each = op->attr.blocks_b > 1 ? op->attr.blocks_b : 1;
    int64_t all = elements_of(s, &op->out[SN_DECODE_Y]), n = all - op->attr.stream.missing;
    struct sn_slabs streams = {0}, y = {0}, w = {0};
    enum sn_status st = sn_read(s, SN_DECODE_STREAMS, &streams);
    for (int64_t i = 0; i < op->attr.blocks_a && st == SN_OK; i++) {
        int64_t to = (op->attr.inverse ? i % each : share_number(op, i)) * share;
        st = take_stream(s, &streams, i, to, n - to, &y);
    }
    push_zeros(&y, n, all - n);
    if (st == SN_OK && sn_has_in(s, SN_DECODE_ADDEND))
        st = sn_read(s, SN_DECODE_ADDEND, &w);
    for (int i = 0; i < w.n && st == SN_OK; i++)
        st = sn_collect(s, &y, &w.t[i]);
    if (st == SN_OK)
        st = sn_write(s, SN_DECODE_Y, &y);
    sn_slabs_fini(&streams);
    sn_slabs_fini(&y);
    sn_slabs_fini(&w);
    return st;
}
