/*
 * test_exec.c - the executor: gradients do not depend on how the program is cut.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/exec/exec.h"
#include "lib/state/weights.h"
#include "lib/train/lr.h"
#include "tests/lib/job_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

static struct sn_config config(enum sn_family family)
{
    struct sn_config c = {0};
    c.run.seed = 11;
    c.model = (struct sn_model_config){.family = family,
                                       .activation = sn_family_traits(family)->activation,
                                       .layers = 2,
                                       .hidden = 48,
                                       .heads = 4,
                                       .kv_heads = 4,
                                       .ffn = 80,
                                       .vocab = 61,
                                       .seq = 20,
                                       .rope_theta = 10000,
                                       .rotary_pct = family == SN_LLAMA ? 1 : 0.5,
                                       .parallel_residual = family == SN_GPT_NEOX,
                                       .tied_embeddings = family == SN_GPT2,
                                       .norm_eps = 1e-5,
                                       .init_std = 0.05,
                                       .share_layers = 1,
                                       .dropout = 0.1};
    c.train.precision = SN_F32;
    c.train.global_batch = 8;
    c.layout = (struct sn_layout_config){.data = 1,
                                         .tensor = 1,
                                         .tensor_x = 1,
                                         .pipeline = 1,
                                         .expert = 1,
                                         .context = 1,
                                         .micro_batch = 2,
                                         .bucket = 1 << 20};
    return c;
}

struct run {
    struct sn_config config;
    struct sn_model *model;
    struct sn_job *job;
    struct sn_comm *comm;
    struct sn_exec *exec;
};

/* All that comes before a step on fixed tokens; returns false with a line of diagnosis. */
static bool prepare_text(struct run *r, struct sn_config c, void (*edit)(struct sn_program *p))
{
    struct sn_err err = {0};
    *r = (struct run){.config = c};
    if (sn_model_create(&r->model, &r->config.model, &r->config.train, &err) != SN_OK ||
        job_create(&r->job, &r->config, r->model, 2, &err) != SN_OK ||
        sn_comm_create_self(&r->comm, &err) != SN_OK) {
        printf("# %s\n", err.text);
        return false;
    }
    if (edit)
        edit(&r->job->train);
    if (sn_exec_create(&r->exec, r->job, r->comm, &err) != SN_OK ||
        job_weights(r->exec, r->job, r->comm, &err) != SN_OK) {
        printf("# %s\n", err.text);
        return false;
    }
    int32_t *ids = sn_exec_address(r->exec, &r->job->train, r->job->ids);
    int32_t *targets = sn_exec_address(r->exec, &r->job->train, r->job->targets);
    for (int64_t i = 0; i < r->job->rows * r->job->train.micros; i++) {
        ids[i] = (int32_t)(sn_rng_bits(3, (uint64_t)i) % 61);
        targets[i] = (int32_t)(sn_rng_bits(4, (uint64_t)i) % 61);
    }
    struct sn_scalars *s = sn_exec_scalars(r->exec);
    s->seed = 11;
    s->step = 1;
    s->loss_scale = 1;
    s->tokens_in_step = s->targets_in_step = 8 * 20;
    return true;
}

static bool prepare(struct run *r, struct sn_config c)
{
    return prepare_text(r, c, NULL);
}

static bool run(struct run *r, const struct sn_program *p)
{
    struct sn_err err = {0};
    int64_t first[64];
    for (int m = 0; m < p->micros; m++)
        first[m] = m * r->config.layout.micro_batch;
    return sn_exec_run(r->exec, p, first, &err) == SN_OK;
}

static bool step(struct run *r, struct sn_config c)
{
    return prepare(r, c) && run(r, &r->job->train);
}

static void release(struct run *r)
{
    sn_exec_destroy(r->exec);
    if (r->comm)
        r->comm->ops->destroy(r->comm);
    sn_job_destroy(r->job);
    sn_model_destroy(r->model);
}

static const float *grad(struct run *r, int param)
{
    return job_grad(r->exec, r->job, param);
}

/* Largest difference of any gradient, relative to the parameter's largest element. */
static double worst(struct run *a, struct run *b)
{
    double w = 0;
    for (int i = 0; i < a->model->n_params; i++) {
        const float *x = grad(a, i), *y = grad(b, i);
        int64_t n = a->model->params[i].rows * a->model->params[i].cols;
        double most = 1e-6, off = 0;
        for (int64_t k = 0; k < n; k++) {
            most = fmax(most, fabs((double)x[k]));
            off = fmax(off, fabs((double)x[k] - (double)y[k]));
        }
        w = fmax(w, off / most);
    }
    return w;
}

static void splitting_backward_changes_no_bit(void)
{
    static const char *const name[] = {"gpt2", "gpt-neox", "llama"};
    for (int f = 0; f < 3; f++) {
        struct sn_config c = config((enum sn_family)f);
        struct run whole, split;
        bool good = step(&whole, c);
        c.layout.split_backward = true;
        good = step(&split, c) && good;
        if (tap_ok(good, "%s: both programs run", name[f])) {
            tap_ok(split.job->train.n_segments == 4 && whole.job->train.n_segments == 3,
                   "%s: input and weight gradients are segments of their own", name[f]);
            tap_ok(split.job->train.slots_bytes > whole.job->train.slots_bytes,
                   "%s: what weight gradients need is kept longer", name[f]);
            tap_ok(worst(&whole, &split) == 0, "%s: the gradients are the same bits", name[f]);
        }
        release(&whole);
        release(&split);
    }
}

static void micro_batches_add_up(void)
{
    struct sn_config c = config(SN_LLAMA);
    struct run four, one;
    bool good = step(&four, c);
    c.layout.micro_batch = 8;
    good = step(&one, c) && good;
    if (tap_ok(good, "4 micro-batches of 2 and 1 of 8 run")) {
        double off = worst(&four, &one);
        tap_ok(off < 2e-6, "their gradients agree, dropout included (%.1e)", off);
        double a = sn_exec_scalars(four.exec)->loss_sum, b = sn_exec_scalars(one.exec)->loss_sum;
        tap_close(a, b, 1e-6, 1, "and their losses");
    }
    release(&four);
    release(&one);
}

/* What a snapshot is of, and how often the fence has found it unchanged. */
struct watch {
    struct run *run;
    char *weights, *optim; /* copies */
    int passed, unchanged;
};

static bool is_class(const struct watch *w, enum sn_class c, const char *copy)
{
    const struct sn_job *j = w->run->job;
    const char *state = sn_exec_address(w->run->exec, &j->train, 0);
    state += j->class_offset[c] - j->train.bufs[0].offset;
    return memcmp(copy, state, (size_t)j->class_bytes[c]) == 0;
}

static char *copy_of(const struct run *r, enum sn_class c)
{
    const struct sn_job *j = r->job;
    const char *state = sn_exec_address(r->exec, &j->train, 0);
    char *copy = sn_alloc((size_t)j->class_bytes[c]);
    state += j->class_offset[c] - j->train.bufs[0].offset;
    memcpy(copy, state, (size_t)j->class_bytes[c]);
    return copy;
}

static void note(void *arg)
{
    struct watch *w = arg;
    w->passed++;
    w->unchanged +=
        is_class(w, SN_CLASS_PARAM, w->weights) && is_class(w, SN_CLASS_OPTIM, w->optim);
}

/* As in a text whose updates come before the ranks agree. */
static void agree_last(struct sn_program *p)
{
    struct sn_op agreement;
    int i = 0;
    while (p->ops[i].kind != SN_OP_AGREE)
        i++;
    agreement = p->ops[i];
    for (; i < p->n_ops - 1; i++) {
        p->ops[i] = p->ops[i + 1];
        p->op_of_id[p->ops[i].id] = i;
    }
    p->ops[i] = agreement;
    p->op_of_id[agreement.id] = i;
}

static void the_fence_stands_before_the_update(enum sn_dtype precision,
                                               void (*edit)(struct sn_program *p), const char *text)
{
    char name[64];
    struct sn_config c = config(SN_LLAMA);
    struct run r;
    (void)snprintf(name, sizeof(name), "%s, %s", sn_dtype_name(precision), text);
    c.train.precision = precision;
    if (tap_ok(prepare_text(&r, c, edit), "%s: a job is made", name)) {
        struct watch w = {.run = &r,
                          .weights = copy_of(&r, SN_CLASS_PARAM),
                          .optim = copy_of(&r, SN_CLASS_OPTIM)};
        sn_exec_scalars(r.exec)->lr = 1e-2f;
        sn_exec_set_fence(r.exec, note, &w);
        bool good = run(&r, &r.job->train);
        tap_ok(good && w.passed == 1, "%s: the fence is passed once in a step of %d micro-batches",
               name, r.job->train.micros);
        tap_ok(w.unchanged == 1, "%s: weights, masters and moments are as they were before", name);
        tap_ok(!is_class(&w, SN_CLASS_PARAM, w.weights) && !is_class(&w, SN_CLASS_OPTIM, w.optim),
               "%s: and are changed after it", name);
        tap_ok(run(&r, &r.job->evaluate) && w.passed == 1, "%s: an evaluation passes none", name);
        sn_exec_set_fence(r.exec, NULL, NULL);
        tap_ok(run(&r, &r.job->train) && w.passed == 1, "%s: nor does a step without", name);
        sn_free(w.weights);
        sn_free(w.optim);
    }
    release(&r);
}

static void the_learning_rate_follows_its_schedule(void)
{
    struct sn_train_config t = {
        .steps = 110, .optimizer = {.lr = 1e-3}, .schedule = {SN_LR_COSINE, 10, 1e-4}};
    tap_close(sn_lr_at(&t, 1), 1e-4, 1e-12, 0, "warm-up begins at lr / warmup");
    tap_close(sn_lr_at(&t, 10), 1e-3, 1e-12, 0, "and ends at lr");
    tap_close(sn_lr_at(&t, 60), 5.5e-4, 1e-12, 0, "cosine: half-way is the middle");
    tap_close(sn_lr_at(&t, 110), 1e-4, 1e-12, 0, "cosine ends at min_lr");
    t.schedule.kind = SN_LR_LINEAR;
    tap_close(sn_lr_at(&t, 35), 7.75e-4, 1e-12, 0, "linear: a quarter of the way down");
    t.schedule.kind = SN_LR_CONSTANT;
    tap_close(sn_lr_at(&t, 110), 1e-3, 1e-12, 0, "constant stays");
    t.schedule.kind = SN_LR_RSQRT;
    tap_close(sn_lr_at(&t, 40), 5e-4, 1e-12, 0, "rsqrt: a half at four times the warm-up");
    double before = sn_lr_at(&t, 90);
    t.steps = 220;
    tap_ok(sn_lr_at(&t, 90) == before && before > 3.3e-4, "whatever the number of steps");
    t.schedule.min_lr = 5e-4;
    tap_close(sn_lr_at(&t, 90), 5e-4, 1e-12, 0, "and not below min_lr");
    t.schedule.warmup = 0;
    tap_close(sn_lr_at(&t, 1), 1e-3, 1e-12, 0, "no warm-up");
}

/* Of a decay of `decay` steps to 1e-4 before the last of 110, at the k-th of them. */
static double decayed(enum sn_lr_kind kind, int decay, int k)
{
    const struct sn_train_config t = {
        .steps = 110, .optimizer = {.lr = 1e-3}, .schedule = {kind, 10, 1e-4, decay}};
    return sn_lr_at(&t, 110 - decay + k);
}

static void the_learning_rate_is_stable_before_it_decays(void)
{
    tap_ok(decayed(SN_LR_WSD, 40, -59) == 1e-3 && decayed(SN_LR_WSD, 40, 0) == 1e-3,
           "wsd: lr from the warm-up to the decay");
    tap_close(decayed(SN_LR_WSD, 40, 10), 7.75e-4, 1e-12, 0, "linear: a quarter of the way down");
    tap_close(decayed(SN_LR_WSD, 40, 40), 1e-4, 1e-12, 0, "ends at min_lr");
    tap_close(decayed(SN_LR_WSD, 40, 41), 1e-4, 1e-12, 0, "and stays");
    tap_close(decayed(SN_LR_WSD_SQRT, 40, 10), 5.5e-4, 1e-12, 0,
              "wsd-sqrt: a half of it in a quarter of the steps");
    tap_ok(decayed(SN_LR_WSD_SQRT, 40, 0) == 1e-3, "from lr");
    tap_close(decayed(SN_LR_WSD_SQRT, 40, 40), 1e-4, 1e-12, 0, "to min_lr");
    tap_close(decayed(SN_LR_WSD_COSINE, 40, 10), 1e-4 + 4.5e-4 * (1 + sqrt(0.5)), 1e-12, 0,
              "wsd-cosine: an eighth of a turn in a quarter of the steps");
    tap_close(decayed(SN_LR_WSD_COSINE, 40, 40), 1e-4, 1e-12, 0, "to min_lr, too");
    tap_close(decayed(SN_LR_WSD, 100, 1), 9.91e-4, 1e-12, 0, "right behind the warm-up");
}

int main(void)
{
    splitting_backward_changes_no_bit();
    micro_batches_add_up();
    the_fence_stands_before_the_update(SN_F32, NULL, "agreed before");
    the_fence_stands_before_the_update(SN_BF16, NULL, "agreed before");
    the_fence_stands_before_the_update(SN_BF16, agree_last, "agreed behind");
    the_learning_rate_follows_its_schedule();
    the_learning_rate_is_stable_before_it_decays();
    return tap_done();
}
