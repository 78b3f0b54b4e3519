#include "tests/lib/layout_test.h"

#include "kernels/position.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/config/batch.h"
#include "lib/exec/accelerator.h"
#include "lib/exec/exec.h"
#include "lib/sim/plan.h"
#include "lib/state/replica_check.h"
#include "lib/state/weights.h"
#include "lib/train/imbalance.h"
#include "lib/train/lr.h"
#include "tests/lib/fake_device.h"
#include "tests/lib/thread_comm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sn_config layout_config(enum sn_family family)
{
    struct sn_config c = {0};
    c.run.seed = 11;
    c.model = (struct sn_model_config){
        .family = family,
        .activation = sn_family_traits(family)->activation,
        .layers = 4,
        .hidden = 48,
        .heads = 12,
        .kv_heads = 12,
        .ffn = 80,
        .vocab = 61,
        .seq = 48,
        .rope_theta = 10000,
        .rotary_pct = family == SN_GPT_NEOX ? 0.5 : sn_family_traits(family)->rotary_pct,
        .parallel_residual = family == SN_GPT_NEOX,
        .tied_embeddings = family == SN_GPT2,
        .norm_eps = 1e-5,
        .init_std = 0.05,
        .share_layers = 1};
    c.train.precision = SN_F32;
    c.train.mtp_loss = 0.1;
    c.train.global_batch = 12;
    c.train.steps = 20;
    c.train.optimizer = (struct sn_optimizer_config){
        .lr = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1.0};
    c.train.schedule = (struct sn_lr_config){.kind = SN_LR_CONSTANT};
    c.layout = (struct sn_layout_config){.data = 1,
                                         .tensor = 1,
                                         .tensor_x = 1,
                                         .tensor_pieces = 1,
                                         .pipeline = 1,
                                         .expert = 1,
                                         .context = 1,
                                         .virtual_stages = 1,
                                         .schedule = SN_1F1B,
                                         .micro_batch = 1,
                                         .bucket = 20 << 10};
    return c;
}

int layout_ranks(const struct sn_config *c)
{
    return sn_config_ranks(c);
}

struct shared {
    struct layout_run *out;
    const struct sn_config *config;
    struct thread_world *world;
};

/* One rank. */
struct place {
    const struct sn_config *config;
    struct sn_ops ops;
    struct sn_model *model;
    struct sn_job *job;
    struct sn_accelerator accelerator;
    struct sn_exec *exec;
    struct sn_state state;
    int32_t *ids, *targets, *starts, *further;
};

static bool failed(struct shared *s, const struct sn_err *err)
{
    (void)snprintf(s->out->fault, sizeof(s->out->fault), "%s", err->text);
    return false;
}

static void level_routers(const struct sn_state *s)
{
    for (int i = 0; i < s->n_tensors; i++)
        for (int64_t r = 0; strstr(s->tensors[i].name, "router") && r < s->tensors[i].n_rows; r++)
            memset(s->tensors[i].p + r * s->tensors[i].ld, 0,
                   (size_t)s->tensors[i].n_cols * sizeof(float));
}

static struct sn_accelerator *open_device(struct shared *s, struct place *p, int rank)
{
    struct sn_accelerator *a = &p->accelerator;
    if (!s->out->on_devices)
        return NULL;
    a->ops = fake_device_ops(sn_ops_cpu());
    a->device = sn_alloc(a->ops->size);
    a->is_shared = a->ops->transfer == NULL;
    if (!a->device || a->ops->open(a->device, rank, &(struct sn_device_options){0}) != 0)
        abort();
    return a;
}

static void had_time(void *out)
{
    ((struct layout_run *)out)->idle++;
}

static bool always(const struct sn_args *a)
{
    return a->attr.gemm.epilogue != SN_EPILOGUE_NONE;
}

static struct sn_ops table_of(const struct layout_run *run)
{
    struct sn_ops ops = *sn_ops_cpu();
    ops.fuses = run->fuses ? always : NULL;
    return ops;
}

static long fused_in(const struct sn_program *p)
{
    long n = 0;
    for (int i = 0; i < p->n_ops; i++)
        n += p->ops[i].kind == SN_OP_GEMM && p->ops[i].attr.gemm.epilogue != SN_EPILOGUE_NONE;
    return n;
}

static bool begin(struct shared *s, struct place *p, int rank)
{
    struct sn_err err = {0};
    struct sn_comm *comm = thread_world_comm(s->world, rank);
    struct sn_job_env env = {.config = s->config, .ops = &p->ops, .threads = 1, .rank = rank};
    p->ops = table_of(s->out);
    p->config = s->config;
    if (sn_model_create(&p->model, &s->config->model, &s->config->train, &err) != SN_OK)
        return failed(s, &err);
    env.model = p->model;
    if (sn_job_create(&p->job, &env, &err) != SN_OK ||
        comm->ops->set_grid(comm, &p->job->grid, &err) != SN_OK ||
        sn_exec_create_on(&p->exec, p->job, comm, open_device(s, p, rank), &err) != SN_OK ||
        sn_state_create(&p->state, p->exec, p->job, &err) != SN_OK ||
        sn_weights_init(&p->state, p->job, &err) != SN_OK)
        return failed(s, &err);
    if (sn_exec_connect(p->exec, &err) != SN_OK)
        return failed(s, &err);
    if (rank == 0) {
        sn_exec_set_idle(p->exec, had_time, s->out);
        s->out->fused = fused_in(&p->job->train);
    }
    if (s->out->pace)
        sn_exec_set_pace(p->exec, s->out->pace);
    if (s->out->level_routers)
        level_routers(&p->state);
    if (sn_weights_publish(p->exec, p->job, comm, &err) != SN_OK ||
        sn_exec_push(p->exec, &err) != SN_OK)
        return failed(s, &err);
    p->ids = sn_exec_address(p->exec, &p->job->train, p->job->ids);
    p->targets = sn_exec_address(p->exec, &p->job->train, p->job->targets);
    p->starts =
        p->job->starts < 0 ? NULL : sn_exec_address(p->exec, &p->job->train, p->job->starts);
    p->further =
        p->job->further < 0 ? NULL : sn_exec_address(p->exec, &p->job->train, p->job->further);
    struct sn_scalars *x = sn_exec_scalars(p->exec);
    x->seed = s->config->run.seed;
    x->loss_scale = s->config->train.precision == SN_F16 ? 1024.0f : 1.0f;
    x->clip = (float)s->config->train.optimizer.clip;
    x->tokens_in_step = (double)s->config->train.global_batch * s->config->model.seq;
    return true;
}

static void end(struct place *p)
{
    sn_state_fini(&p->state);
    sn_exec_destroy(p->exec);
    sn_accelerator_close(&p->accelerator);
    sn_job_destroy(p->job);
    sn_model_destroy(p->model);
}

/* Token `at` of sample `sample`: a walk that a model can learn something of. */
static int32_t token(const struct sn_config *c, int64_t sample, int64_t at)
{
    uint64_t noise = sn_rng_bits(5, (uint64_t)(sample * (c->model.seq + 1) + at)) % 7;
    return (int32_t)((uint64_t)(sample * 3 + at * 5) + noise) % c->model.vocab;
}

/* Does a document begin there? Eight tokens are one, or so. */
static bool begins(const struct sn_config *c, int64_t sample, int64_t at)
{
    return c->data.documents == SN_DOCUMENTS_APART &&
           sn_rng_bits(6, (uint64_t)(sample * (c->model.seq + 1) + at)) % 8 == 0;
}

/* Is the token to be predicted? More of them in some samples than in others. */
static bool does_count(const struct sn_config *c, int64_t sample, int64_t at)
{
    uint64_t noise = sn_rng_bits(7, (uint64_t)(sample * (c->model.seq + 1) + at)) % 8;
    return !begins(c, sample, at) &&
           (c->data.loss == SN_LOSS_ALL || noise < (uint64_t)(1 + sample % 3 * 3));
}

/* What a step, or an evaluation, of these samples divides by. */
static double count_targets(const struct sn_config *c, int64_t first_sample)
{
    int64_t n = 0;
    for (int b = 0; b < c->train.global_batch; b++)
        for (int64_t at = 1; at <= c->model.seq; at++)
            n += does_count(c, first_sample + b, at);
    return (double)n;
}

/* Of the document, or its piece, that begins there: the first token that is to be predicted. */
static int64_t prefix_end(const struct sn_config *c, int64_t sample, int64_t start, int length)
{
    int64_t at = start + 1;
    while (at < c->model.seq && at % length && !begins(c, sample, at) && !does_count(c, sample, at))
        at++;
    return at;
}

static void fill_starts(const struct place *p, int64_t first_sample, int micro, int length)
{
    const struct sn_config *c = p->config;
    int64_t seq = c->model.seq, samples = c->layout.micro_batch, start = 0, end = 0;
    int columns = sn_starts_columns(c);
    for (int64_t i = 0; i < samples * seq && p->starts; i++) {
        int32_t *row = p->starts + (micro * samples * seq + i) * columns;
        int64_t sample = first_sample + i / seq, at = i % seq;
        if (at % length == 0 || begins(c, sample, at)) {
            start = at;
            end = prefix_end(c, sample, at, length);
        }
        row[0] = (int32_t)start;
        if (columns > 1)
            row[1] = (int32_t)(at < end ? end - 1 : at);
    }
}

/* What blocks of model.mtp read for the token `at` of a sample, in pieces of `length`: row `row` of a micro-batch of T. */
static void fill_further(const struct place *p, int64_t sample, int64_t at, int micro, int64_t row, int length)
{
    const struct sn_config *c = p->config;
    int64_t rows = p->job->rows;
    int depths = c->model.mtp;
    int32_t *to = p->further + ((int64_t)micro * 2 * depths * rows + row);
    for (int k = 1; k <= depths; k++) {
        int64_t id = at + k < c->model.seq ? at + k : c->model.seq;
        bool counts = at + k < (at / length + 1) * length && does_count(c, sample, at + k + 1);
        for (int i = 1; i <= k; i++)
            counts = counts && !begins(c, sample, at + i);
        to[(k - 1) * rows] = token(c, sample, id);
        to[(depths + k - 1) * rows] = counts ? token(c, sample, at + k + 1) : SN_NO_TARGET;
    }
}

/* In pieces of `length` tokens. */
static void fill(const struct place *p, int64_t first_sample, int micro, int length)
{
    const struct sn_config *c = p->config;
    struct sn_attr a = {.position.seq = c->model.seq,
                        .position.context = c->layout.context,
                        .position.context_rank = p->job->group_index[SN_GROUP_CONTEXT],
                        .position.zigzag = c->layout.context_kind == SN_CONTEXT_RING};
    int64_t rows = sn_rows_per_sample(&a.position);
    for (int b = 0; b < c->layout.micro_batch; b++)
        for (int64_t i = 0; i < rows; i++) {
            int64_t row = (micro * c->layout.micro_batch + b) * rows + i;
            int64_t at = sn_position(&a.position, a.position.context_rank, i);
            p->ids[row] = token(c, first_sample + b, at);
            p->targets[row] = does_count(c, first_sample + b, at + 1)
                                  ? token(c, first_sample + b, at + 1)
                                  : SN_NO_TARGET;
            if (p->further)
                fill_further(p, first_sample + b, at, micro, b * rows + i, length);
        }
    fill_starts(p, first_sample, micro, length);
}

/* Of rank 0, which has the counts of all. */
static void note_load(struct shared *s, struct place *p, int step)
{
    const struct sn_model_config *m = &s->config->model;
    int layers = sn_expert_layers(m);
    const double *got = layers ? sn_exec_load(p->exec) : NULL;
    bool dense = m->experts.router == SN_ROUTER_DENSE; /* probabilities are summed, not choices */
    double tokens = (double)sn_batch_of(&s->config->train, step + 1) * m->seq;
    double choices = s->out->pace ? 0 : tokens * (dense ? 1 : m->experts.top_k);
    for (int i = 0; i < layers; i++) {
        double all = 0;
        for (int e = 0; e < m->experts.count; e++)
            all += got[i * m->experts.count + e];
        if (fabs(all - choices) > (dense ? 1e-6 * tokens : 0))
            s->out->expert_load_is_whole = false;
    }
    struct sn_imbalance l = sn_imbalance_of(got, layers, m->experts.count);
    s->out->max_vio[step] = l.mean + 100 * l.worst;
}

static bool one_step(struct shared *s, struct place *p, struct sn_comm *comm, int step)
{
    int64_t first[64], sent[SN_NAXES] = {0}, planned[SN_NAXES];
    struct sn_err err = {0};
    const struct sn_config *c = p->config;
    struct sn_scalars *x = sn_exec_scalars(p->exec);
    sn_job_set_batch(p->job, sn_batch_number(&c->train, step + 1));
    x->tokens_in_step = (double)sn_batch_of(&c->train, step + 1) * c->model.seq;
    for (int m = 0; m < p->job->train.micros; m++) {
        first[m] =
            sn_samples_before(&c->train, step + 1) +
            (m * c->layout.data + p->job->group_index[SN_GROUP_DATA]) * c->layout.micro_batch;
        fill(p, first[m], m, sn_length_of(c, step + 1));
    }
    x->targets_in_step = count_targets(c, (int64_t)step * c->train.global_batch);
    x->step = step + 1;
    x->lr = (float)c->train.optimizer.lr;
    x->loss_sum = x->beside_sum = x->sq_norm = 0;
    x->nonfinite = 0;
    if (sn_exec_run(p->exec, &p->job->train, first, &err) != SN_OK)
        return failed(s, &err);
    sn_exec_take_sent(p->exec, sent);
    sn_job_traffic(p->job, planned);
    struct sn_routed routed = sn_exec_take_routed(p->exec);
    planned[SN_AXIS_EXPERT] += routed.exchanged;
    planned[SN_AXIS_TENSOR] += routed.gathered;
    (void)__atomic_fetch_add(&s->out->routed, routed.exchanged, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&s->out->gathered, routed.gathered, __ATOMIC_RELAXED);
    for (int a = 0; a < SN_NAXES; a++)
        (void)__atomic_fetch_add(&s->out->sent[a], sent[a], __ATOMIC_RELAXED);
    if (memcmp(sent, planned, sizeof(sent)) != 0)
        s->out->traffic_is_planned = false;
    if (s->out->see)
        s->out->see(s->out->seen, p->exec, p->job, step);
    if (comm->rank == 0) {
        s->out->loss[step] = (x->loss_sum + x->beside_sum) / x->targets_in_step;
        s->out->norm[step] = x->grad_norm;
        note_load(s, p, step);
    }
    return true;
}

/* Of masters and moments, as this process has them. */
static uint64_t state_hash(const struct place *p)
{
    uint64_t h = 0;
    for (int b = 0; b < p->job->train.n_state_bufs; b++)
        if (p->job->train.bufs[b].cls == SN_CLASS_OPTIM)
            h = h * 31 + sn_hash64(sn_exec_address(p->exec, &p->job->train, b),
                                   (size_t)p->job->train.bufs[b].bytes);
    return h;
}

/* A copy of the state that is begun before a step, and made beside it, is that of before. */
static bool step_beside_a_copy(struct shared *s, struct place *p, struct sn_comm *comm, int step)
{
    struct sn_err err = {0};
    uint64_t before;
    if (!s->out->on_devices)
        return one_step(s, p, comm, step);
    if (sn_exec_pull(p->exec, &err) != SN_OK)
        return failed(s, &err);
    before = state_hash(p);
    if (sn_exec_pull_begin(p->exec, &err) != SN_OK)
        return failed(s, &err);
    if (!one_step(s, p, comm, step))
        return false;
    if (sn_exec_pull_wait(p->exec, &err) != SN_OK)
        return failed(s, &err);
    if (state_hash(p) != before)
        s->out->copies_are_whole = false;
    return true;
}

static bool evaluate(struct shared *s, struct place *p)
{
    const struct sn_program *e = &p->job->evaluate;
    int64_t first = p->job->group_index[SN_GROUP_DATA] * p->config->layout.micro_batch;
    int group = p->config->layout.data * p->config->layout.micro_batch;
    struct sn_err err = {0};
    struct sn_scalars *x = sn_exec_scalars(p->exec);
    x->loss_sum = 0;
    x->targets_in_step = count_targets(p->config, 1000000);
    for (; first < p->config->train.global_batch; first += group) {
        fill(p, 1000000 + first, 0, p->config->model.seq);
        if (sn_exec_run(p->exec, e, &first, &err) != SN_OK)
            return failed(s, &err);
    }
    if (sn_exec_segment(p->exec, e, e->n_segments - 1, (struct sn_at){.micros = 1}, &err) != SN_OK)
        return failed(s, &err);
    if (p->job->rank == 0)
        s->out->val_loss = x->loss_sum / x->targets_in_step;
    return true;
}

/* Where the rows of this rank's exchanges went. */
static void sort_rows(struct shared *s, int rank)
{
    int node = s->out->node_ranks;
    for (int to = 0; node && to < layout_ranks(s->config); to++) {
        bool inside = rank / node == to / node;
        int64_t messages, bytes = thread_world_rows(s->world, rank, to, &messages);
        (void)__atomic_fetch_add(inside ? &s->out->inside : &s->out->outside, bytes,
                                 __ATOMIC_RELAXED);
        (void)__atomic_fetch_add(&s->out->messages, inside ? 0 : messages, __ATOMIC_RELAXED);
    }
}

static void body(void *arg, int rank)
{
    struct shared *s = arg;
    struct place p = {0};
    bool good = begin(s, &p, rank);
    struct sn_comm *comm = thread_world_comm(s->world, rank);
    if (rank == 0 && p.accelerator.device)
        s->out->pins_before = fake_device_counts(p.accelerator.device).pins;
    for (int step = 0; good && step < s->out->steps; step++)
        good = step_beside_a_copy(s, &p, comm, step);
    sort_rows(s, rank);
    if (good)
        (void)evaluate(s, &p);
    struct sn_err err = {0};
    if (good && (sn_exec_pull(p.exec, &err) != SN_OK ||
                 sn_replica_check_check(p.exec, p.job, comm, &err) != SN_OK))
        (void)failed(s, &err);
    if (rank == 0 && p.accelerator.device) {
        struct fake_device_counts n = fake_device_counts(p.accelerator.device);
        s->out->in_graphs = n.in_graphs;
        s->out->kept_kernels = n.kept_kernels;
        s->out->kept_marks = n.kept_marks;
        s->out->pins = n.pins;
        s->out->splits = n.splits;
    }
    end(&p);
}

/* No layout is run that is not proven to end. */
static bool proven(struct layout_run *out, const struct sn_config *c)
{
    struct sn_err err = {0};
    struct sn_model *model = NULL;
    struct sn_stages stages = {0};
    struct sn_plan plan = {0};
    struct sn_proof proof = {0};
    struct sn_ops ops = table_of(out);
    struct sn_job_env env = {.config = c, .ops = &ops, .threads = 1};
    enum sn_status st = sn_model_create(&model, &c->model, &c->train, &err);
    env.model = model;
    if (st == SN_OK)
        st = sn_stages_create(&stages, &env, &err);
    if (st == SN_OK)
        st = sn_plan_make(&plan, &stages, NULL, &err);
    if (st == SN_OK)
        st = sn_stages_prove_all(&proof, &stages, &err);
    sn_stages_fini(&stages);
    sn_model_destroy(model);
    (void)snprintf(out->fault, sizeof(out->fault), "%s",
                   st != SN_OK   ? err.text
                   : proof.holds ? ""
                                 : proof.fault.text);
    return st == SN_OK && proof.holds;
}

void layout_train(struct layout_run *out, const struct sn_config *c)
{
    out->traffic_is_planned = out->expert_load_is_whole = false;
    if (!proven(out, c))
        return;
    struct shared s = {out, c, thread_world_create(layout_ranks(c))};
    out->traffic_is_planned = out->copies_are_whole = out->expert_load_is_whole = true;
    thread_world_run(s.world, body, &s);
    thread_world_destroy(s.world);
}

double layout_difference(const struct layout_run *a, const struct layout_run *b)
{
    double worst = fabs(a->val_loss - b->val_loss) / fabs(b->val_loss);
    for (int i = 0; i < a->steps; i++) {
        worst = fmax(worst, fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]));
        worst = fmax(worst, fabs(a->norm[i] - b->norm[i]) / fabs(b->norm[i]));
    }
    return isfinite(worst) ? worst : INFINITY;
}
