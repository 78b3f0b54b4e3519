/*
 * compress.c - layout.compress: communication whose values travel as streams of a codec.
 *
 * The pass goes over a finished text, before places are given. An operation that may be coded
 * (sn_op.codable) and whose kind of message has a coding becomes one to four legs
 * (compress_legs.c), each of which every other part of the compiler knows: ENCODE, a communication
 * of bytes, its WAIT, DECODE.
 *
 *   send, recv       ENCODE, SEND                     RECV, WAIT, DECODE
 *   all-gather       ENCODE of the own block, ALL_GATHER, WAIT, DECODE of all blocks, the own too
 *   reduce-scatter   ENCODE of a stream for each member, ALL_TO_ALL, WAIT, DECODE that sums
 *   all-reduce       the reduce-scatter into a temporary in fp32, then its all-gather
 *
 * So a value is encoded twice at most, on two levels three times, however many ranks there are:
 * sums are never encoded hop by hop, which adds an error of each (docs/COMPRESSION.md). The second
 * half of a leg stands where the WAIT stood. Reductions of gradients, for which the update waits,
 * end in their own segment instead, SN_MAX_POSTED later ones behind them, so that streams are
 * temporaries.
 *
 * Weights that replicas gather with a codec that loses something come from the masters; with -diff
 * the streams are of masters minus what the replicas compute with, and all of them add what comes
 * back, so that no error stays (Jia et al., "SDP4Bit", arXiv 2410.15526, 3.1). The gradients'
 * first ENCODE has the error feedback: what later ones lose of sums is not fed back.
 *
 * What is evaluated or generated is not compressed.
 */
#include "lib/program/compress.h"

#include "lib/program/build.h"

#include "kernels/codec.h"
#include "lib/base/mem.h"

#include <string.h>

enum { SITE_STAGE = 16 };

struct pass {
    struct sn_job *j;
    struct sn_program *p;
    struct sn_op *old;
    int n_old;
    int *move_of; /* id -> number in `move`; -1 */
    struct sn_coded_move *move;
    int n_moves, cap_moves;
    int under_way[2 * SN_MAX_POSTED + 1], n_under_way; /* reductions for which the update waits */
    uint32_t site;
};

static const struct sn_coding *coding_of(const struct pass *x, const struct sn_op *op)
{
    const struct sn_coding *z = x->j->config->layout.compress.coding;
    bool may = sn_op_row(op->kind)->may_be_coded;
    int from = op->in[SN_MOVE_FROM].buf;
    bool is_code = from >= 0 && x->p->bufs[from].dtype == SN_U8; /* of frozen weights */
    if (!op->codable || !may || is_code || x->j->group_size[op->group] == 1)
        return NULL;
    z += op->codable - 1;
    return z->on && z->rank == 0 ? z : NULL; /* factors are text of their own */
}

/* --- what becomes of an operation ------------------------------------------------------------- */

static int stream_buffer(struct pass *x, const struct sn_coded_move *m, const struct sn_leg *l,
                         int n, const char *what)
{
    struct sn_codec codec[SN_CODEC_LEVELS];
    int levels = sn_leg_codecs(x->j, m, l, codec);
    int64_t room = sn_coded_room(codec, levels, l->type, l->share);
    return n ? sn_buffer_add(x->p, SN_CLASS_TEMP, SN_U8, n, room, "%s.%.90s", what, m->op.label)
             : -1;
}

static void plan(struct pass *x, const struct sn_op *op)
{
    if (!sn_grow((void **)&x->move, x->n_moves, &x->cap_moves, sizeof(*x->move))) {
        x->p->failed = true;
        return;
    }
    struct sn_coded_move *m = &x->move[x->n_moves];
    *m = (struct sn_coded_move){.op = *op};
    sn_legs_of(x->j, x->p, m);
    for (int i = 0; i < m->n_legs; i++) {
        struct sn_leg *l = &m->leg[i];
        l->leaves = l->hands_on ? m->leg[i - 1].comes : stream_buffer(x, m, l, l->send, "streams");
        l->comes = stream_buffer(x, m, l, l->get, "arrived");
        l->id = i == 0 ? op->id : x->p->next_id++;
    }
    if (op->kind == SN_OP_SEND && !x->p->failed) { /* the stream is kept until it is sent */
        x->p->bufs[m->leg[0].leaves].kept = true;
        x->p->bufs[op->in[SN_MOVE_FROM].buf].kept = false;
    }
    x->move_of[op->id] = x->n_moves++;
}

/* --- the new text ----------------------------------------------------------------------------- */

/* What an operation of a leg has of the one that it stands for. */
static struct sn_op part_of(struct pass *x, const struct sn_coded_move *m, const struct sn_leg *l,
                            int kind)
{
    struct sn_op op = sn_op_blank(kind);
    struct sn_attr *a = &op.attr;
    const struct sn_op *was = &m->op;
    memcpy(op.label, was->label, sizeof(op.label));
    op.when = was->when;
    op.group = l->group;
    op.peer = was->peer;
    op.tag = was->tag;
    op.per_slot = was->per_slot;
    op.is_weight_grad = was->is_weight_grad;
    op.is_input_grad = was->is_input_grad;
    op.codable = was->codable;
    a->stream.coded = (enum sn_coded)(was->codable - 1);
    a->stream.levels = sn_leg_codecs(x->j, m, l, a->stream.codec);
    a->stream.type = l->type;
    a->stream.share = l->share;
    return op;
}

/* Layers and segments are those of the text that is replaced. */
static void put_new(struct pass *x, const struct sn_coded_move *m, struct sn_op *op)
{
    op->id = op->kind < SN_NKERNELS || op->kind == SN_OP_WAIT ? x->p->next_id++ : op->id;
    x->p->layer = m->op.layer;
    sn_op_put(x->p, op);
}

static bool mixes(const struct sn_codec *c)
{
    return c->hadamard || c->kind == SN_CODEC_ZFP;
}

/* Codecs that mix neighbours bring something back where a bucket has no values. It would go into
 * the next message, and no checkpoint has it: a resumed run would have other bits. A buffer that
 * has a slice of its bucket alone (gradients under ZeRO 2 and 3) keeps it, and so does a cache, which
 * is gathered anew. */
static void clear_pads(struct pass *x, const struct sn_coded_move *m, const struct sn_view *v)
{
    int bucket = v->buf < 0 ? -1 : x->p->bufs[v->buf].bucket;
    const struct sn_coding *z = &x->j->config->layout.compress.coding[m->op.codable - 1];
    if (bucket >= 0 && (mixes(&z->codec) || mixes(&z->between)) && v->buf < x->p->n_state_bufs &&
        x->p->bufs[v->buf].cls != SN_CLASS_CACHE &&
        x->p->bufs[v->buf].cols == x->j->buckets[bucket].n)
        sn_pads_zero(x->j, x->p, bucket, v->buf, m->op.when);
}

static void encode(struct pass *x, const struct sn_coded_move *m, const struct sn_leg *l)
{
    struct sn_op op = part_of(x, m, l, SN_OP_ENCODE);
    op.in[SN_ENCODE_X] = l->from;
    op.in[SN_ENCODE_MINUS] = l->minus;
    op.out[SN_ENCODE_STREAMS] = sn_view_all(x->p, l->leaves);
    op.out[SN_ENCODE_LOST] = l->fed;
    op.attr.blocks_a = l->send;
    op.attr.blocks_b = l->send_each;
    op.attr.random.site = (uint32_t)x->j->stage << SITE_STAGE | x->site++;
    op.attr.stream.member = x->j->group_index[m->op.group];
    op.attr.stream.missing = l->encode_missing;
    put_new(x, m, &op);
    clear_pads(x, m, &l->fed);
}

static struct sn_op communication(struct pass *x, const struct sn_coded_move *m,
                                  const struct sn_leg *l)
{
    struct sn_op op = part_of(x, m, l, l->kind);
    op.in[SN_MOVE_FROM] = l->leaves < 0 ? sn_no_view : sn_view_flat(x->p, l->leaves);
    op.out[SN_MOVE_TO] = l->comes < 0 ? sn_no_view : sn_view_flat(x->p, l->comes);
    op.attr.blocks_a = l->kind == SN_OP_ALL_TO_ALL ? l->send / l->send_each : l->send;
    op.is_coded = true;
    op.id = l->id;
    return op;
}

static void post(struct pass *x, const struct sn_coded_move *m)
{
    const struct sn_leg *l = &m->leg[m->now];
    if (l->send && !l->hands_on)
        encode(x, m, l);
    struct sn_op op = communication(x, m, l);
    put_new(x, m, &op);
}

static void put_wait(struct pass *x, const struct sn_coded_move *m, const struct sn_leg *l)
{
    struct sn_op of = communication(x, m, l), op = part_of(x, m, l, SN_OP_WAIT);
    op.in[SN_WAIT_NAMES] = of.out[SN_MOVE_TO].buf >= 0 ? of.out[SN_MOVE_TO] : of.in[SN_MOVE_FROM];
    op.in[SN_WAIT_NAMES_TOO] = of.out[SN_MOVE_TO].buf >= 0 ? of.in[SN_MOVE_FROM] : sn_no_view;
    op.waits_for = l->id;
    put_new(x, m, &op);
}

static void decode(struct pass *x, const struct sn_coded_move *m, const struct sn_leg *l)
{
    struct sn_op op = part_of(x, m, l, SN_OP_DECODE);
    op.in[SN_DECODE_STREAMS] = sn_view_all(x->p, l->comes);
    op.in[SN_DECODE_ADDEND] = l->plus;
    op.out[SN_DECODE_Y] = l->to;
    if (m->now + 1 == m->n_legs)
        op.acc[SN_DECODE_Y] = m->op.acc[SN_MOVE_TO];
    op.attr.blocks_a = l->get;
    op.attr.blocks_b = l->get_each;
    op.attr.inverse = l->sums;
    op.attr.stream.missing = l->decode_missing;
    put_new(x, m, &op);
    clear_pads(x, m, &l->to);
}

/* The leg on its way is over; false: so is the move. */
static bool advance(struct pass *x, struct sn_coded_move *m)
{
    put_wait(x, m, &m->leg[m->now]);
    if (m->leg[m->now].to.buf >= 0)
        decode(x, m, &m->leg[m->now]);
    if (++m->now == m->n_legs)
        return false;
    post(x, m);
    return true;
}

/* --- reductions of gradients that end in their segment ---------------------------------------- */

static bool ends_early(const struct pass *x, const struct sn_op *op)
{
    return op->codable == 1 + SN_CODED_DATA && op->is_weight_grad &&
           !sn_gradients_are_temporary(x->j->held);
}

/* The oldest moves on; a second leg is under way as the newest. */
static void advance_oldest(struct pass *x)
{
    int oldest = x->under_way[0];
    x->n_under_way--;
    for (int i = 0; i < x->n_under_way; i++)
        x->under_way[i] = x->under_way[i + 1];
    if (advance(x, &x->move[oldest]))
        x->under_way[x->n_under_way++] = oldest;
}

static void rewrite(struct pass *x, const struct sn_op *op)
{
    int number = op->kind == SN_OP_WAIT ? x->move_of[op->waits_for] : x->move_of[op->id];
    if (number < 0) {
        sn_op_put(x->p, op);
        return;
    }
    struct sn_coded_move *m = &x->move[number];
    if (op->kind != SN_OP_WAIT) {
        while (ends_early(x, op) && x->n_under_way >= SN_MAX_POSTED)
            advance_oldest(x);
        post(x, m);
        if (ends_early(x, op))
            x->under_way[x->n_under_way++] = number;
    } else if (m->op.kind == SN_OP_SEND) {
        put_wait(x, m, &m->leg[0]);
    } else if (!ends_early(x, &m->op)) {
        while (advance(x, m))
            continue;
        m->now = 0;
    }
}

static void rewrite_all(struct pass *x)
{
    struct sn_program *p = x->p;
    struct sn_scope scope = p->scope;
    int layer = p->layer;
    for (int c = 0; c < p->n_segments && !p->failed; c++) {
        struct sn_segment *segment = &p->segments[c];
        int first = segment->first,
            end = c + 1 < p->n_segments ? p->segments[c + 1].first : x->n_old;
        segment->first = p->n_ops;
        for (int i = first; i < end && !p->failed; i++) {
            p->layer = x->old[i].layer;
            p->extra = x->old[i].extra;
            rewrite(x, &x->old[i]);
        }
        while (x->n_under_way > 0)
            advance_oldest(x);
        segment->n = p->n_ops - segment->first;
    }
    p->scope = scope;
    p->layer = layer;
    p->extra = false;
}

/* Buffers belong to the virtual stage whose segment posts. */
static void plan_all(struct pass *x)
{
    struct sn_program *p = x->p;
    struct sn_scope scope = p->scope;
    for (int c = 0; c < p->n_segments; c++) {
        int end = c + 1 < p->n_segments ? p->segments[c + 1].first : p->n_ops;
        p->scope = p->segments[c].scope;
        for (int i = p->segments[c].first; i < end && !p->failed; i++)
            if (coding_of(x, &p->ops[i]))
                plan(x, &p->ops[i]);
    }
    p->scope = scope;
}

void sn_pass_compress(struct sn_job *j, struct sn_program *p)
{
    struct pass x = {.j = j, .p = p, .n_old = p->n_ops};
    int ids = p->next_id;
    if (!sn_config_compresses(j->config) || p->failed)
        return;
    x.move_of = sn_alloc_n((size_t)ids + 1, sizeof(*x.move_of));
    for (int i = 0; x.move_of && i <= ids; i++)
        x.move_of[i] = -1;
    p->failed = p->failed || !x.move_of;
    if (!p->failed)
        plan_all(&x);
    if (x.n_moves > 0 && !p->failed) {
        x.old = p->ops;
        p->ops = NULL;
        p->n_ops = p->cap_ops = 0;
        rewrite_all(&x);
        sn_free(x.old);
    }
    sn_free(x.move);
    sn_free(x.move_of);
}
