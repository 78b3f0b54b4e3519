/*
 * compress_rows.c - layout.compress.expert: tokens on their way to experts and back, as streams.
 *
 * Which rows travel is known when they do, so each row is a stream of its own, behind its length:
 *
 *   ENCODE of all rows, ZERO of where rows arrive, EXCHANGE of rows of bytes, WAIT, DECODE
 *
 * A length of 0 says that nothing came, and DECODE leaves the row alone: exchanges in chunks and
 * further rounds fill the same rows one after another, each by streams of its own. Chunks of one
 * exchange leave from one ENCODE.
 */
#include "lib/program/build.h"

#include "kernels/codec.h"
#include "lib/base/mem.h"

#include <string.h>

/* An exchange that is coded: which, and the rows that come. */
struct coded_rows {
    int id, arrived;
    struct sn_op op; /* as it was */
};

struct pass {
    struct sn_job *j;
    struct sn_program *p;
    struct coded_rows *rows;
    int n_rows, cap_rows;
    int *row_of, n_ids;     /* by id of an operation: number in `rows` + 1; 0: none */
    struct sn_view encoded; /* what the streams `leaving` are of, while it stays as it is */
    int leaving;
    uint32_t site;
};

enum { SITE_ROWS = 1 << 15, SITE_STAGE = 16 }; /* apart from those of compress.c */

static struct sn_op coding_op(const struct pass *x, const struct sn_op *was, int kind,
                              const struct sn_view *values)
{
    struct sn_op op = sn_op_blank(kind);
    struct sn_attr *a = &op.attr;
    memcpy(op.label, was->label, sizeof(op.label));
    op.when = was->when;
    a->stream.coded = SN_CODED_EXPERT;
    a->stream.levels = 1;
    a->stream.codec[0] = x->j->config->layout.compress.coding[SN_CODED_EXPERT].codec;
    a->stream.type = x->p->bufs[values->buf].dtype;
    a->stream.share = values->cols;
    a->blocks_a = values->rows;
    a->stream.marked = true;
    op.id = x->p->next_id++;
    return op;
}

static int row_buffer(const struct pass *x, const struct sn_op *was, const struct sn_view *values,
                      const char *what)
{
    const struct sn_codec *c = &x->j->config->layout.compress.coding[SN_CODED_EXPERT].codec;
    int64_t bytes = sn_coded_row_bytes(c, x->p->bufs[values->buf].dtype, values->cols);
    return sn_buffer_add(x->p, SN_CLASS_TEMP, SN_U8, values->rows, bytes, "%s.%.90s", what,
                         was->label);
}

static bool same(const struct sn_view *a, const struct sn_view *b)
{
    return a->buf == b->buf && a->offset == b->offset && a->rows == b->rows && a->cols == b->cols;
}

static void encode(struct pass *x, const struct sn_op *was)
{
    if (x->leaving >= 0 && same(&x->encoded, &was->in[SN_MOVE_FROM]))
        return;
    struct sn_op op = coding_op(x, was, SN_OP_ENCODE, &was->in[SN_MOVE_FROM]);
    x->leaving = row_buffer(x, was, &was->in[SN_MOVE_FROM], "streams");
    x->encoded = was->in[SN_MOVE_FROM];
    op.in[SN_ENCODE_X] = was->in[SN_MOVE_FROM];
    op.out[SN_ENCODE_STREAMS] = sn_view_all(x->p, x->leaving);
    op.attr.random.site = (uint32_t)x->j->stage << SITE_STAGE | SITE_ROWS | x->site++;
    op.attr.stream.member = x->j->group_index[was->group];
    sn_op_put(x->p, &op);
}

static void exchange(struct pass *x, const struct sn_op *was)
{
    int arrived = row_buffer(x, was, &was->out[SN_MOVE_TO], "arrived");
    struct sn_op zero = sn_op_blank(SN_OP_ZERO), op = *was;
    memcpy(zero.label, was->label, sizeof(zero.label));
    zero.when = was->when;
    zero.out[SN_ZERO_X] = op.out[SN_MOVE_TO] = sn_view_all(x->p, arrived);
    zero.id = x->p->next_id++;
    encode(x, was);
    sn_op_put(x->p, &zero);
    op.in[SN_MOVE_FROM] = sn_view_all(x->p, x->leaving);
    sn_op_put(x->p, &op);
    if (!sn_grow((void **)&x->rows, x->n_rows, &x->cap_rows, sizeof(*x->rows))) {
        x->p->failed = true;
        return;
    }
    x->rows[x->n_rows++] = (struct coded_rows){was->id, arrived, *was};
    x->row_of[was->id] = x->n_rows;
}

static void wait(struct pass *x, const struct sn_op *was, const struct coded_rows *r)
{
    struct sn_op op = *was, decode = coding_op(x, &r->op, SN_OP_DECODE, &r->op.out[SN_MOVE_TO]);
    const struct sn_op *posted = sn_op_find(x->p, r->id);
    op.in[SN_WAIT_NAMES] = posted->out[SN_MOVE_TO];
    op.in[SN_WAIT_NAMES_TOO] = posted->in[SN_MOVE_FROM];
    sn_op_put(x->p, &op);
    decode.in[SN_DECODE_STREAMS] = sn_view_all(x->p, r->arrived);
    decode.out[SN_DECODE_Y] = r->op.out[SN_MOVE_TO];
    sn_op_put(x->p, &decode);
}

static const struct coded_rows *awaited(const struct pass *x, const struct sn_op *op)
{
    bool is_old = op->kind == SN_OP_WAIT && op->waits_for >= 0 && op->waits_for < x->n_ids;
    int row = is_old ? x->row_of[op->waits_for] : 0;
    return row > 0 ? &x->rows[row - 1] : NULL;
}

static void rewrite(struct pass *x, const struct sn_op *op)
{
    const struct coded_rows *r = awaited(x, op);
    if (op->kind == SN_OP_EXCHANGE && x->j->group_size[op->group] > 1) {
        exchange(x, op);
    } else if (r) {
        wait(x, op, r);
    } else {
        sn_op_put(x->p, op);
    }
    for (int o = 0; o < SN_MAX_OUT; o++) /* what was encoded is something else now */
        if (op->kind != SN_OP_WAIT && op->out[o].buf >= 0 && op->out[o].buf == x->encoded.buf)
            x->leaving = -1;
}

void sn_pass_compress_rows(struct sn_job *j, struct sn_program *p)
{
    struct pass x = {.j = j, .p = p, .leaving = -1, .encoded = sn_no_view};
    struct sn_op *old = p->ops;
    struct sn_scope scope = p->scope;
    int n = p->n_ops, layer = p->layer;
    if (!j->config->layout.compress.coding[SN_CODED_EXPERT].on ||
        j->group_size[SN_GROUP_EXPERT] <= 1 || p->failed)
        return;
    x.n_ids = p->next_id;
    x.row_of = sn_alloc_n((size_t)x.n_ids + 1, sizeof(*x.row_of));
    if (!x.row_of) {
        p->failed = true;
        return;
    }
    p->ops = NULL;
    p->n_ops = p->cap_ops = 0;
    for (int c = 0; c < p->n_segments && !p->failed; c++) {
        int first = p->segments[c].first,
            end = c + 1 < p->n_segments ? p->segments[c + 1].first : n;
        p->scope = p->segments[c].scope;
        p->segments[c].first = p->n_ops;
        x.leaving = -1;
        for (int i = first; i < end && !p->failed; i++) {
            if (i > first && old[i].extra != old[i - 1].extra)
                x.leaving = -1;
            p->layer = old[i].layer;
            p->extra = old[i].extra;
            rewrite(&x, &old[i]);
        }
        p->segments[c].n = p->n_ops - p->segments[c].first;
    }
    p->scope = scope;
    p->layer = layer;
    p->extra = false;
    sn_free(old);
    sn_free(x.rows);
    sn_free(x.row_of);
}
