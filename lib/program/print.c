/*
 * print.c - the program as text, for sennit-plan --explain.
 */
#include "lib/program/opinfo.h"

#include "kernels/codec.h"

#include <stdio.h>
#include <string.h>

/* What is printed. */
struct text {
    const struct sn_job *job;
    const struct sn_program *p;
};

/* The parameter that a view of a bucket's array shows; NULL: more or less than one. */
static const char *param_of(const struct text *x, const struct sn_view *v)
{
    int bucket = x->p->bufs[v->buf].bucket;
    int i = bucket < 0 ? -1 : sn_bucket_shard_at(x->job, bucket, v->offset);
    const struct sn_shard *q = i < 0 ? NULL : &x->job->shards[i];
    bool all = q && q->rows * q->cols == v->rows * v->cols;
    return all ? x->job->model->params[q->param].name : NULL;
}

static void print_view(struct sn_str *out, const struct text *x, const struct sn_view *v)
{
    const struct sn_buffer *b = &x->p->bufs[v->buf];
    const char *param = param_of(x, v);
    bool all = param || (v->offset == 0 && v->rows * v->cols == b->rows * b->cols);
    if (param)
        sn_str_add(out, "%s%s", strncmp(b->name, "grad", 4) ? "" : "grad.", param);
    else
        sn_str_add(out, "%s", b->name);
    if (v->index == SN_AT_MICRO)
        sn_str_add(out, "[m]");
    else if (v->index == SN_AT_SLICE)
        sn_str_add(out, "[slice]");
    else if (v->index == SN_AT_ROW)
        sn_str_add(out, "[row]");
    else if (b->cls == SN_CLASS_LATE)
        sn_str_add(out, "[late]");
    else if (b->cls == SN_CLASS_SLOT)
        sn_str_add(out, "[s]");
    if (all || v->index != SN_AT_FIXED || b->cls == SN_CLASS_GRAD)
        return;
    int64_t row = v->offset / b->cols, col = v->offset % b->cols;
    if (v->rows != b->rows)
        sn_str_add(out, "(rows %lld..%lld)", (long long)row, (long long)(row + v->rows - 1));
    if (v->cols != b->cols)
        sn_str_add(out, "(cols %lld..%lld)", (long long)col, (long long)(col + v->cols - 1));
}

static const char *acc_name(enum sn_acc_rule r)
{
    return r == SN_ACC_ADD ? "+=" : r == SN_ACC_FIRST_WRITES ? "=,+=" : "->";
}

static void print_op(struct sn_str *out, const struct text *x, int i)
{
    const struct sn_program *p = x->p;
    static const char *const when[] = {"", "  first micro-batch", "  last micro-batch"};
    const struct sn_op *op = &p->ops[i];
    static const char *const epilogue[] = {"gemm", "gemm+act", "gemm+act_dx", "gemm+colsum"};
    bool is_gemm = op->kind == SN_OP_GEMM;
    sn_str_add(out, "%5d  %-14s ", i,
               is_gemm ? epilogue[op->attr.gemm.epilogue] : sn_op_name(op->kind));
    const char *comma = "";
    for (int k = 0; k < SN_MAX_IN; k++) {
        if (op->in[k].buf < 0)
            continue;
        sn_str_add(out, "%s", comma);
        print_view(out, x, &op->in[k]);
        comma = ", ";
    }
    for (int k = 0; k < SN_MAX_OUT; k++) {
        if (op->out[k].buf < 0)
            continue;
        sn_str_add(out, " %s ", acc_name(op->acc[k]));
        print_view(out, x, &op->out[k]);
        const struct sn_buffer *b = &p->bufs[op->out[k].buf];
        if (b->place != op->out[k].buf && b->first == i)
            sn_str_add(out, " (in place of %s)", p->bufs[b->place].name);
    }
    if (sn_op_communicates(op))
        sn_str_add(out, "  group=%s", sn_group_name(op->group));
    enum sn_collective kind;
    int64_t n;
    if (sn_op_collective(op, &kind, &n)) {
        char size[16];
        int buf = kind == SN_RECV ? op->out[SN_MOVE_TO].buf : op->in[SN_MOVE_FROM].buf;
        int64_t width = (int64_t)sn_dtype_size(p->bufs[buf].dtype);
        sn_str_add(out, "  %s", sn_str_bytes(size, n * width));
    }
    if (sn_op_is_posted(op))
        sn_str_add(out, "  id=%d", op->id);
    if (sn_op_is_transfer(op))
        sn_str_add(out, "  peer=%d tag=%d", op->peer, op->tag);
    if (op->kind == SN_OP_WAIT)
        sn_str_add(out, "  for id=%d (%s)", op->waits_for, op->label);
    if (sn_op_row(op->kind)->codes) {
        char name[SN_CODEC_NAME];
        sn_codec_format(&op->attr.stream.codec[0], name);
        sn_str_add(out, "  %s x %lld", name, (long long)op->attr.blocks_a);
    }
    if (op->at_row)
        sn_str_add(out, "  at [row]");
    double flops = sn_op_flops(op);
    if (flops > 0)
        sn_str_add(out, "  %.4g MFLOP", flops * 1e-6);
    sn_str_add(out, "%s\n", when[op->when]);
}

/* Those of the program, and of what lives as long as the job what is kept of rows before. */
static void print_buffers(struct sn_str *out, const struct sn_program *p, enum sn_arena arena)
{
    bool is_first = true;
    for (int b = 0; b < p->n_bufs; b++) {
        const struct sn_buffer *x = &p->bufs[b];
        const struct sn_class_row *row = sn_class_row(x->cls);
        bool is_told = b >= p->n_state_bufs || x->cls == SN_CLASS_PAST;
        if (x->first < 0 || row->arena != arena || !is_told)
            continue;
        if (is_first)
            sn_str_add(out, "\nbuffers of the %s arena (class, offset, bytes, live from..to)\n",
                       sn_arena_name(arena));
        is_first = false;
        sn_str_add(out, "  %-32s %-4s %12lld %12lld  %d..%d", x->name, row->name,
                   (long long)x->offset, (long long)x->bytes, x->first, x->last);
        if (b >= p->n_state_bufs && x->place != b)
            sn_str_add(out, "  shares %s", p->bufs[x->place].name);
        sn_str_add(out, "\n");
    }
}

/* The first pair of segments that take turns, piece by piece as they run. */
static void print_turns(struct sn_str *out, const struct sn_program *p)
{
    enum { LINE = 6 };
    int i = 0, n = 0, ended = 0;
    while (i < p->n_sched && p->sched[i].n == p->segments[p->sched[i].segment].n)
        i++;
    for (; i < p->n_sched && ended < 2; i++) {
        const struct sn_sched *e = &p->sched[i];
        const struct sn_segment *s = &p->segments[e->segment];
        if (n == 0)
            sn_str_add(out, "\nsegments in turn, the first of them:");
        sn_str_add(out, "%s%s %d..%d", n++ % LINE ? ", " : "\n  ",
                   s->kind == SN_SEGMENT_FORWARD ? "forward" : "backward", e->first,
                   e->first + e->n - 1);
        ended += e->first + e->n == s->first + s->n;
    }
    sn_str_add(out, n ? "\n" : "");
}

void sn_program_print(struct sn_str *out, const struct sn_job *j, const struct sn_program *p)
{
    const struct text t = {j, p};
    static const char *const kind[] = {"receive",         "receive gradient", "forward", "backward",
                                       "input gradients", "weight gradients", "update",  "head"};
    sn_str_add(out, "program %s: %d operations, %d micro-batches, in flight:", p->name, p->n_ops,
               p->micros);
    for (int v = 0; v < p->vstages; v++)
        sn_str_add(out, " %d", p->slots[v]);
    for (int v = 0; v < p->vstages && p->lates[0]; v++)
        sn_str_add(out, ", with delayed weight gradients: %d", p->lates[v]);
    sn_str_add(out, "\n");
    for (int c = 0; c < p->n_segments; c++) {
        const struct sn_segment *x = &p->segments[c];
        sn_str_add(out, "\nsegment %d, virtual stage %d, %s\n", c, x->scope.virtual_stage,
                   kind[x->kind]);
        for (int i = x->first; i < x->first + x->n; i++)
            print_op(out, &t, i);
    }
    print_turns(out, p);
    for (int a = 0; a < SN_NARENAS; a++)
        print_buffers(out, p, (enum sn_arena)a);
}
