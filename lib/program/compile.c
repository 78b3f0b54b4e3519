/*
 * compile.c - from (model, layout, machine) to the set of programs of one rank.
 */
#include "lib/program/build.h"

#include "kernels/round.h"
#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/layout/axes.h"
#include "lib/program/boxes.h"

#include <string.h>

enum { PAGE = 4096 };

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

/* Equal blocks of rows, as few as the backend's bound allows; up to twice as many where a multiple
 * would make the last one shorter, and so many are equal. */
static int64_t head_block(const struct sn_head_rows *h, int64_t rows, int64_t row_bytes)
{
    int64_t most = h->bytes / row_bytes / h->multiple * h->multiple;
    most = most < h->least ? h->least : most;
    int64_t fewest = (rows + most - 1) / most;
    for (int64_t n = fewest; h->multiple > 1 && n <= 2 * fewest; n++)
        if (rows % (n * h->multiple) == 0)
            return rows / n;
    int64_t block = sn_round_up((rows + fewest - 1) / fewest, h->multiple);
    return block < rows ? block : rows;
}

static enum sn_status emit_init(struct sn_emit *e, struct sn_job *j, struct sn_program *p,
                                struct sn_err *err)
{
    size_t shards = (size_t)j->n_shards + 1, buckets = (size_t)j->n_buckets + 1;
    *e = (struct sn_emit){.job = j, .p = p};
    e->value = sn_alloc_n((size_t)j->model->n_values, sizeof(*e->value));
    e->grad_written = sn_alloc_n(shards, sizeof(bool));
    e->uses_left = sn_alloc_n(shards, sizeof(int));
    e->bucket_left = sn_alloc_n(buckets, sizeof(int));
    e->bucket_weight = sn_alloc_n(buckets, sizeof(int));
    e->bucket_gather = sn_alloc_n(buckets, sizeof(int));
    e->bucket_grad = sn_alloc_n(buckets, sizeof(int));
    if (!e->value || !e->grad_written || !e->uses_left || !e->bucket_left || !e->bucket_weight ||
        !e->bucket_gather || !e->bucket_grad)
        return sn_fail(err, SN_ENOMEM, "compile: no memory for the %s program", p->name);
    for (int i = 0; i < j->model->n_values; i++)
        e->value[i] = (struct sn_value_place){.buf = -1, .used = -1};
    return SN_OK;
}

/* Where weights and gradients stand when a text begins. */
static void emit_begin(struct sn_emit *e)
{
    const struct sn_job *j = e->job;
    for (int b = 0; b < j->n_buckets; b++) {
        const struct sn_bucket *x = &j->buckets[b];
        e->defers |= x->deferred;
        e->bucket_gather[b] = x->cached || x->deferred ? SN_GATHER_TO_COME : -1;
        e->bucket_weight[b] = x->cached                         ? x->cache
                              : sn_weights_are_slices(&x->held) ? -1
                                                                : x->weight;
        e->bucket_grad[b] = sn_gradients_are_temporary(&x->held) ? -1 : x->grad;
    }
    e->value[j->model->nodes[0].in[0]].buf = j->ids;
}

static void emit_fini(struct sn_emit *e)
{
    sn_free(e->value);
    sn_free(e->grad_written);
    sn_free(e->uses_left);
    sn_free(e->bucket_left);
    sn_free(e->bucket_weight);
    sn_free(e->bucket_gather);
    sn_free(e->bucket_grad);
    sn_free(e->gview);
    sn_free(e->origin);
    sn_free(e->again);
    sn_free(e->copied);
}

/* Whose kernels compute attention, in every program. */
static void set_library(const struct sn_job *j, struct sn_program *p)
{
    for (int i = 0; i < p->n_ops; i++)
        if (sn_op_row(p->ops[i].kind)->cost == SN_COST_ATTENTION)
            p->ops[i].attr.attention.library = j->config->run.attention;
}

void sn_job_set_batch(struct sn_job *j, int k)
{
    struct sn_program *p = &j->train;
    if (!p->orders)
        return;
    p->micros = p->orders[k].micros;
    p->sched = p->orders[k].sched;
    p->n_sched = p->cap_sched = p->orders[k].n_sched;
    for (int c = 0; c < p->n_segments; c++)
        memset(p->segments[c].runs, 0, sizeof(p->segments[c].runs));
    for (int i = 0; i < p->n_sched; i++)
        sn_runs_count(p, &p->sched[i]);
}

/* One text, and for each size of batch its order; the largest has slots and copies for all. */
static enum sn_status emit_orders(struct sn_job *j, struct sn_program *p, struct sn_err *err)
{
    const struct sn_config *c = j->config;
    int n = sn_batch_sizes(&c->train), per_micro = c->layout.data * c->layout.micro_batch;
    if (n == 1)
        return sn_emit_schedule(j, p, err);
    p->orders = sn_alloc_n((size_t)n, sizeof(*p->orders));
    if (!p->orders)
        return sn_fail(err, SN_ENOMEM, "compile: no memory for %d sizes of batches", n);
    p->n_orders = n;
    for (int k = n - 1; k >= 0 && !p->failed; k--) {
        int64_t first, last;
        p->sched = NULL;
        p->n_sched = p->cap_sched = 0;
        p->micros = sn_batch_size(&c->train, k, &first, &last) / per_micro;
        enum sn_status st = sn_emit_schedule(j, p, err);
        p->orders[k] = (struct sn_batch_order){p->micros, p->sched, p->n_sched};
        SN_TRY(st);
    }
    sn_job_set_batch(j, n - 1);
    return SN_OK;
}

static enum sn_status finish(struct sn_job *j, struct sn_program *p, struct sn_err *err)
{
    sn_segments_close(p);
    sn_pass_fuse(j, p);
    sn_pass_fuse_norms(p);
    if (p == &j->train) {
        sn_pass_pieces(j, p);
        sn_pass_order(j, p);
    }
    SN_TRY(p == &j->train ? emit_orders(j, p, err) : sn_emit_schedule(j, p, err));
    if (p->failed)
        return sn_fail(err, SN_ENOMEM, "compile: no memory for the %s program", p->name);
    set_library(j, p);
    return sn_pass_place(j, p, err);
}

/* Offsets of the state buffers: in each arena class after class, pages apart. */
static void place_state(struct sn_job *j, struct sn_program *p)
{
    for (int c = 0; c < SN_NSTATE_CLASSES; c++) {
        int64_t *at = &j->arena_bytes[sn_class_row((enum sn_class)c)->arena], bytes = 0;
        j->class_offset[c] = *at;
        for (int b = 0; b < p->n_state_bufs; b++) {
            if ((int)p->bufs[b].cls != c)
                continue;
            p->bufs[b].offset = *at + bytes;
            bytes += p->bufs[b].bytes;
        }
        j->class_bytes[c] = bytes;
        *at += (bytes + PAGE - 1) / PAGE * PAGE;
    }
}

/* Where the run need not be deterministic, a device may sum these as it likes. */
static void set_order(const struct sn_job *j, struct sn_program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        struct sn_op *op = &p->ops[i];
        const struct sn_op_row *row = sn_op_row(op->kind);
        for (int o = 0; o < SN_MAX_OUT; o++)
            if (op->out[o].buf >= 0 && sn_operand_is(&row->out[o], SN_ROLE_ANY_ORDER))
                op->attr.any_order = !j->config->run.deterministic;
    }
}

static enum sn_status compile_train(struct sn_job *j, struct sn_err *err)
{
    struct sn_program *p = &j->train;
    struct sn_emit e;
    enum sn_status st = emit_init(&e, j, p, err);
    if (st == SN_OK) {
        e.train = true;
        sn_state_buffers(j, p);
        emit_begin(&e);
        sn_emit_segments(&e);
        sn_emit_update(j, p);
        set_order(j, p);
        sn_segments_close(p);
        sn_pass_compress(j, p);
        sn_pass_compress_rows(j, p);
        st = finish(j, p, err);
    }
    emit_fini(&e);
    if (st == SN_OK)
        place_state(j, p);
    return st;
}

/* The programs without gradients share the state buffers of the train program. */
static enum sn_status compile_forward(struct sn_job *j, struct sn_program *p, struct sn_err *err)
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
        e.row = p == &j->generate_row;
        e.generate = e.row || p == &j->generate;
        emit_begin(&e);
        sn_emit_segments(&e);
        if (!e.generate) {
            sn_segment_begin(p, SN_SEGMENT_UPDATE); /* run once after the last micro-batch */
            struct sn_op *op = sn_op_add(p, SN_OP_AGREE, "evaluation_end");
            op->group = SN_GROUP_WORLD;
            op->attr.experts.count = j->config->model.experts.count;
        }
        st = finish(j, p, err);
    }
    emit_fini(&e);
    return st;
}

static int64_t scratch_of(const struct sn_program *p)
{
    return p->slots_bytes + p->temp_bytes + p->workspace_bytes;
}

static enum sn_status compile_set(struct sn_job *j, struct sn_err *err)
{
    SN_TRY(compile_train(j, err));
    if (j->text_only)
        return SN_OK;
    SN_TRY(compile_forward(j, &j->evaluate, err));
    if (sn_grid_ranks(&j->grid) == 1 || j->generates) {
        /* Generation runs one sample, or a row of it; T is the only size in which the programs differ. */
        int64_t rows = j->rows;
        j->rows = j->config->model.seq;
        enum sn_status st = compile_forward(j, &j->generate, err);
        j->rows = 1;
        if (st == SN_OK && j->keeps_past)
            st = compile_forward(j, &j->generate_row, err);
        j->rows = rows;
        SN_TRY(st);
    }
    const struct sn_programs set = sn_job_programs(j);
    int64_t *most = &j->arena_bytes[SN_ARENA_SCRATCH];
    for (int i = 0; i < SN_NPROGRAMS; i++)
        *most = scratch_of(set.of[i]) > *most ? scratch_of(set.of[i]) : *most;
    return SN_OK;
}

/* The state buffers alone. */
static enum sn_status list_state(struct sn_job *j, struct sn_err *err)
{
    sn_state_buffers(j, &j->train);
    if (j->train.failed)
        return sn_fail(err, SN_ENOMEM, "compile: no memory for the state's buffers");
    place_state(j, &j->train);
    return SN_OK;
}

static void name_program(const struct sn_job *j, struct sn_program *p, const char *name, int micros)
{
    (void)strncpy(p->name, name, sizeof(p->name) - 1);
    p->micros = micros;
    p->vstages = j->modules / j->stages;
    for (int v = 0; v < p->vstages; v++)
        p->slots[v] = 1;
}

bool sn_experts_outside_data(const struct sn_layout_config *l)
{
    int expert = -1, data = -1;
    for (int i = 0; i < l->n_axis_order; i++) {
        expert = l->axis_order[i] == SN_ORDER_EXPERT ? i : expert;
        data = l->axis_order[i] == SN_ORDER_DATA_AXIS ? i : data;
    }
    return expert > data;
}

enum sn_status sn_job_grid(struct sn_grid *out, const struct sn_config *c, struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int size[SN_NGRID_AXES];
    enum sn_axis order[SN_NGRID_AXES];
    sn_axes_sizes(size, l);
    sn_axes_order(order, l);
    SN_TRY(sn_grid_init(out, sn_config_ranks(c), size, order, err));
    out->kv_copies = sn_kv_copies(&c->model, l->tensor);
    out->experts = sn_config_expert_members(c);
    out->expert_node = l->expert > 1 && l->expert_node > 1 ? l->expert_node : 0;
    int divides = sn_config_zero_node(c), node = divides ? divides : sn_config_replica_node(c);
    out->replica_node = node > 1 && node < l->data * l->context ? node : 0;
    out->fold = sn_config_fold(c);
    out->experts_apart = sn_experts_outside_data(l);
    return SN_OK;
}

/* The grid, and this rank's place in it. */
static enum sn_status place_rank(struct sn_job *j, int rank, struct sn_err *err)
{
    const struct sn_layout_config *l = &j->config->layout;
    SN_TRY(sn_job_grid(&j->grid, j->config, err));
    j->mesh = sn_mesh_of_grid(&j->grid);
    j->rank = rank;
    for (int q = 0; q < SN_NGROUPS; q++) {
        j->group_size[q] = sn_group_size(&j->grid, rank, (enum sn_group)q);
        j->group_index[q] = sn_group_index(&j->grid, rank, (enum sn_group)q);
    }
    j->stage = j->group_index[SN_GROUP_PIPELINE];
    j->stages = j->group_size[SN_GROUP_PIPELINE];
    j->modules = j->stages * (l->virtual_stages > 1 ? l->virtual_stages : 1);
    if (j->modules / j->stages > SN_MAX_VSTAGES)
        return sn_fail(err, SN_EINPUT, "layout.virtual_stages: %d; want at most %d",
                       l->virtual_stages, (int)SN_MAX_VSTAGES);
    return SN_OK;
}

/* What this rank holds: its place in the grid, its shards and buckets. */
static enum sn_status create_shards(struct sn_job *j, const struct sn_job_env *env,
                                    struct sn_err *err)
{
    const struct sn_config *c = env->config;
    const struct sn_layout_config *l = &c->layout;
    j->config = c;
    j->model = env->model;
    j->ops = env->ops;
    j->threads = env->threads;
    j->dtype = c->train.precision;
    j->scores = env->scores;
    j->keeps_past = env->keeps_past;
    j->generates = env->generates;
    j->row_scores = -1;
    SN_TRY(place_rank(j, env->rank, err));
    j->held = sn_config_holding(c);
    j->rows = sn_config_tokens(c);
    struct sn_cut head = sn_cut_of(j, "head");
    j->same_loss = sn_same_rows(j, head.want);
    j->same_routes = sn_same_rows(j, sn_experts_taken(j));
    struct sn_mesh_place at = sn_mesh_place(&j->mesh, j->rank);
    int64_t words = sn_cut_slice(head.weight, SN_CUT_ROWS, &at, c->model.vocab).padded;
    if (j->ops) /* shards and their places are the same on all backends */
        j->head_block =
            head_block(&j->ops->head, j->rows, words * (int64_t)sn_dtype_size(j->dtype));
    if (sn_config_exact(c)) /* whole terms of its weights' gradient */
        j->head_block = sn_round_up(j->head_block, sn_config_token_block(c));
    j->shm_bytes = sn_collective_shm_bytes(sn_grid_queues(&j->grid, SN_NAXES));
    name_program(j, &j->train, "train", c->train.global_batch / (l->data * l->micro_batch));
    name_program(j, &j->evaluate, "evaluate", 1);
    name_program(j, &j->generate, "generate", 1);
    name_program(j, &j->generate_row, "generate_row", 1);
    SN_TRY(sn_modules_create(j, err));
    return sn_shards_create(j, err);
}

enum extent { SHARDS, TEXT, ALL };

static enum sn_status create(struct sn_job **out, const struct sn_job_env *env, enum extent extent,
                             struct sn_err *err)
{
    struct sn_job *j = sn_alloc(sizeof(*j));
    if (!j)
        return sn_fail(err, SN_ENOMEM, "compile: no memory for the job");
    j->text_only = extent == TEXT;
    enum sn_status st = create_shards(j, env, err);
    if (st == SN_OK)
        st = extent == SHARDS ? list_state(j, err) : compile_set(j, err);
    if (st == SN_OK && extent != SHARDS && env->config->checkpoint.snapshot_every)
        st = sn_job_snapshot_shard_most(&j->snapshot_shard_bytes, env, err);
    if (st != SN_OK) {
        sn_job_destroy(j);
        return st;
    }
    *out = j;
    return SN_OK;
}

enum sn_status sn_job_create(struct sn_job **out, const struct sn_job_env *env, struct sn_err *err)
{
    return create(out, env, ALL, err);
}

enum sn_status sn_job_create_text(struct sn_job **out, const struct sn_job_env *env,
                                  struct sn_err *err)
{
    return create(out, env, TEXT, err);
}

enum sn_status sn_job_create_shards(struct sn_job **out, const struct sn_job_env *env,
                                    struct sn_err *err)
{
    return create(out, env, SHARDS, err);
}

static void program_fini(struct sn_program *p)
{
    sn_free(p->bufs);
    sn_free(p->ops);
    sn_free(p->op_of_id);
    sn_free(p->segments);
    for (int k = 0; k < p->n_orders; k++)
        sn_free(p->orders[k].sched);
    if (!p->orders)
        sn_free(p->sched);
    sn_free(p->orders);
}

void sn_job_destroy(struct sn_job *j)
{
    if (!j)
        return;
    program_fini(&j->train);
    program_fini(&j->evaluate);
    program_fini(&j->generate);
    program_fini(&j->generate_row);
    sn_free(j->module_of_node);
    sn_free(j->module_of_value);
    sn_free(j->first_node);
    sn_free(j->first_shard);
    sn_free(j->shard_of_bucket);
    sn_free(j->shards);
    sn_free(j->shard_tensors);
    sn_free(j->buckets);
    sn_free(j);
}
