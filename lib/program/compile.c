/*
 * compile.c - from (model, layout, machine) to the set of programs of one rank.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"

#include <string.h>

/* Logits of a block of rows take at most this; the head's GEMMs stay efficient from 64 rows on. */
enum { HEAD_BYTES = 64 << 20, HEAD_MIN_ROWS = 64, PAGE = 4096 };

void sn_op_shapes(const struct sn_program *p, const struct sn_op *op, struct sn_args *a)
{
    *a = (struct sn_args){.attr = op->attr};
    for (int i = 0; i < SN_MAX_IN; i++)
        if (op->in[i].buf >= 0)
            a->in[i] = (struct sn_mat){NULL, p->bufs[op->in[i].buf].dtype, op->in[i].rows,
                                       op->in[i].cols, op->in[i].ld};
    for (int i = 0; i < SN_MAX_OUT; i++)
        if (op->out[i].buf >= 0)
            a->out[i] = (struct sn_mat){NULL, p->bufs[op->out[i].buf].dtype, op->out[i].rows,
                                        op->out[i].cols, op->out[i].ld};
}

/* Equal blocks of rows, as few as the bound allows. */
static int64_t head_block(int64_t rows, int64_t vocab, enum sn_dtype dtype)
{
    int64_t most = HEAD_BYTES / (vocab * (int64_t)sn_dtype_size(dtype));
    most = most < HEAD_MIN_ROWS ? HEAD_MIN_ROWS : most;
    int64_t blocks = (rows + most - 1) / most;
    return (rows + blocks - 1) / blocks;
}

static enum sn_status emit_init(struct sn_emit *e, struct sn_job *j, struct sn_program *p,
                                struct sn_err *err)
{
    *e = (struct sn_emit){.job = j, .p = p};
    e->value_buf = sn_alloc_n((size_t)j->model->n_values, sizeof(int));
    e->grad_written = sn_alloc_n((size_t)j->model->n_params, sizeof(bool));
    if (!e->value_buf || !e->grad_written)
        return sn_fail(err, SN_ENOMEM, "compile: no memory for the %s program", p->name);
    return SN_OK;
}

static void emit_fini(struct sn_emit *e)
{
    sn_free(e->value_buf);
    sn_free(e->grad_written);
    sn_free(e->gview);
}

static enum sn_status finish(struct sn_job *j, struct sn_program *p, struct sn_err *err)
{
    sn_chunks_close(p);
    if (p->failed)
        return sn_fail(err, SN_ENOMEM, "compile: no memory for the %s program", p->name);
    return sn_pass_place(j, p, err);
}

/* Offsets of the state buffers: class after class, pages apart. Gradients are placed already. */
static void place_state(struct sn_job *j, struct sn_program *p)
{
    int64_t at = 0;
    for (int c = 0; c < SN_NSTATE_CLASSES; c++) {
        j->class_offset[c] = at;
        int64_t bytes = c == SN_CLASS_GRAD ? j->class_bytes[c] : 0;
        for (int b = 0; b < p->n_state_bufs; b++) {
            struct sn_buffer *x = &p->bufs[b];
            if ((int)x->cls != c)
                continue;
            if (c == SN_CLASS_GRAD) {
                x->offset += at;
            } else {
                x->offset = at + bytes;
                bytes += x->bytes;
            }
        }
        j->class_bytes[c] = bytes;
        at += (bytes + PAGE - 1) / PAGE * PAGE;
    }
    j->state_bytes = at;
}

static enum sn_status compile_train(struct sn_job *j, struct sn_err *err)
{
    struct sn_program *p = &j->train;
    struct sn_emit e;
    enum sn_status st = emit_init(&e, j, p, err);
    if (st == SN_OK) {
        e.train = true;
        sn_state_buffers(j, p);
        sn_chunk_begin(p, SN_CHUNK_FORWARD);
        sn_lower_forward(&e);
        int forward = p->n_ops;
        sn_chunk_begin(p, SN_CHUNK_BACKWARD);
        sn_emit_backward(&e, 0, forward);
        if (!p->failed && j->config->layout.split_backward)
            sn_pass_split(p);
        if (!p->failed) { /* what follows reads the text that should be there */
            sn_pass_buckets(j, p);
            sn_emit_update(j, p);
        }
        for (int m = 0; m < p->micros; m++) /* one micro-batch after the other: one slot */
            for (int c = 0; c < p->n_chunks - 1; c++)
                sn_sched_add(p, c, m, 0);
        sn_sched_add(p, p->n_chunks - 1, p->micros - 1, 0);
        st = finish(j, p, err);
    }
    emit_fini(&e);
    if (st == SN_OK)
        place_state(j, p);
    return st;
}

/* The programs without gradients share the state buffers of the train program. */
static enum sn_status compile_forward(struct sn_job *j, struct sn_program *p, bool generate,
                                      struct sn_err *err)
{
    const struct sn_program *train = &j->train;
    p->bufs = sn_alloc_n((size_t)train->n_state_bufs, sizeof(*p->bufs));
    if (!p->bufs)
        return sn_fail(err, SN_ENOMEM, "compile: no memory for the %s program", p->name);
    memcpy(p->bufs, train->bufs, (size_t)train->n_state_bufs * sizeof(*p->bufs));
    p->n_bufs = p->cap_bufs = p->n_state_bufs = train->n_state_bufs;
    for (int b = 0; b < p->n_bufs; b++)
        p->bufs[b].first = p->bufs[b].last = -1;
    struct sn_emit e;
    enum sn_status st = emit_init(&e, j, p, err);
    if (st == SN_OK) {
        e.generate = generate;
        sn_chunk_begin(p, SN_CHUNK_FORWARD);
        sn_lower_forward(&e);
        sn_sched_add(p, 0, 0, 0);
        if (generate) {
            sn_sched_add(p, 1, 0, 0);
        } else {
            sn_chunk_begin(p, SN_CHUNK_UPDATE); /* run once after the last micro-batch */
            struct sn_op *op = sn_op_add(p, SN_OP_AGREE, "evaluation_end");
            op->axis = SN_AXIS_WORLD;
        }
        st = finish(j, p, err);
    }
    emit_fini(&e);
    return st;
}

static enum sn_status compile_set(struct sn_job *j, struct sn_err *err)
{
    SN_TRY(compile_train(j, err));
    SN_TRY(compile_forward(j, &j->evaluate, false, err));
    /* Generation runs one sample; T is the only size in which the programs differ. */
    int64_t rows = j->rows;
    j->rows = j->config->model.seq;
    enum sn_status st = compile_forward(j, &j->generate, true, err);
    j->rows = rows;
    SN_TRY(st);
    const struct sn_program *set[] = {&j->train, &j->evaluate, &j->generate};
    for (int i = 0; i < 3; i++) {
        int64_t bytes =
            set[i]->slot_bytes * set[i]->slots + set[i]->temp_bytes + set[i]->workspace_bytes;
        j->scratch_bytes = bytes > j->scratch_bytes ? bytes : j->scratch_bytes;
    }
    return SN_OK;
}

static void name_program(struct sn_program *p, const char *name, int micros)
{
    (void)strncpy(p->name, name, sizeof(p->name) - 1);
    p->micros = micros;
    p->slots = 1;
}

static enum sn_status grid_of(struct sn_job *j, const struct sn_layout_config *l,
                              struct sn_err *err)
{
    static const enum sn_axis order[] = {SN_AXIS_TENSOR, SN_AXIS_CONTEXT, SN_AXIS_DATA,
                                         SN_AXIS_PIPELINE};
    const int size[] = {[SN_AXIS_TENSOR] = l->tensor,
                        [SN_AXIS_CONTEXT] = l->context,
                        [SN_AXIS_DATA] = l->data,
                        [SN_AXIS_PIPELINE] = l->pipeline};
    return sn_grid_init(&j->grid, l->data * l->tensor * l->context * l->pipeline, size, order, err);
}

enum sn_status sn_job_create(struct sn_job **out, const struct sn_config *config,
                             const struct sn_model *model, const struct sn_ops *ops, int threads,
                             struct sn_err *err)
{
    const struct sn_layout_config *l = &config->layout;
    struct sn_job *j = sn_alloc(sizeof(*j));
    if (!j)
        return sn_fail(err, SN_ENOMEM, "compile: no memory for the job");
    j->config = config;
    j->model = model;
    j->ops = ops;
    j->threads = threads;
    j->ranks = l->data;
    j->dtype = config->train.precision;
    j->rows = (int64_t)l->micro_batch * config->model.seq;
    j->head_block = head_block(j->rows, config->model.vocab, j->dtype);
    int micros = config->train.global_batch / (l->data * l->micro_batch);
    name_program(&j->train, "train", micros);
    name_program(&j->evaluate, "evaluate", 1);
    name_program(&j->generate, "generate", 1);
    j->params = sn_alloc_n((size_t)model->n_params, sizeof(*j->params));
    enum sn_status st =
        j->params ? grid_of(j, l, err) : sn_fail(err, SN_ENOMEM, "compile: no memory for the job");
    if (st == SN_OK)
        st = compile_set(j, err);
    if (st != SN_OK) {
        sn_job_destroy(j);
        return st;
    }
    *out = j;
    return SN_OK;
}

static void program_fini(struct sn_program *p)
{
    sn_free(p->bufs);
    sn_free(p->ops);
    sn_free(p->chunks);
    sn_free(p->sched);
}

void sn_job_destroy(struct sn_job *j)
{
    if (!j)
        return;
    program_fini(&j->train);
    program_fini(&j->evaluate);
    program_fini(&j->generate);
    sn_free(j->params);
    sn_free(j);
}
