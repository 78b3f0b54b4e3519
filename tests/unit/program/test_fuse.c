/*
 * test_fuse.c - products that take in the operation beside them: which ones of a text do, what that
 * leaves of losses, norms and memory: all of it, bit for bit.
 *
 * usage: test_fuse              the lines of tests/equiv/layouts that are named below, 3 steps
 *        test_fuse ALL | NAME   every line, or those whose name holds NAME
 */
#include "lib/verify/verify.h"
#include "tests/lib/job_test.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/layouts.h"
#include "tests/lib/tap.h"

#include <string.h>

/* Operations of a text by what they do. */
struct found {
    int act, act_dx, colsum; /* that stand alone */
    int with_act, keeping,
        slopes; /* products with an activation, that give x too; with its slope */
    int sums;   /* with sums of columns */
};

static struct found look(const struct sn_program *p)
{
    struct found n = {0};
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        enum sn_epilogue e = op->kind == SN_OP_GEMM ? op->attr.gemm.epilogue : SN_EPILOGUE_NONE;
        n.act += op->kind == SN_OP_ACT;
        n.act_dx += op->kind == SN_OP_ACT_DX;
        n.colsum += op->kind == SN_OP_COLSUM;
        n.with_act += e == SN_EPILOGUE_ACT;
        n.keeping += e == SN_EPILOGUE_ACT && op->out[1].buf >= 0;
        n.slopes += e == SN_EPILOGUE_ACT_DX;
        n.sums += e == SN_EPILOGUE_COLSUM;
    }
    return n;
}

static bool always(const struct sn_args *a)
{
    return a->attr.gemm.epilogue != SN_EPILOGUE_NONE;
}

/* All but activations, as a backend whose library has no such product says. */
static bool sums_alone(const struct sn_args *a)
{
    return a->attr.gemm.epilogue == SN_EPILOGUE_COLSUM;
}

struct compiled {
    struct sn_config config;
    struct sn_ops ops;
    struct sn_model *model;
    struct sn_job *job;
};

static bool compile(struct compiled *x, const struct sn_config *c,
                    bool (*fuses)(const struct sn_args *a))
{
    struct sn_err err = {0};
    *x = (struct compiled){.config = *c, .ops = *sn_ops_cpu()};
    x->ops.fuses = fuses;
    struct sn_job_env env = {.config = &x->config, .ops = &x->ops, .threads = 1};
    bool good = sn_model_create(&x->model, &x->config.model, &x->config.train, &err) == SN_OK;
    env.model = x->model;
    good = good && sn_job_create(&x->job, &env, &err) == SN_OK;
    if (!good)
        printf("# %s\n", err.text);
    return good;
}

static void release(struct compiled *x)
{
    sn_job_destroy(x->job);
    sn_model_destroy(x->model);
}

static bool equal(const struct found *a, const struct found *b, const char *of)
{
    bool same = memcmp(a, b, sizeof(*a)) == 0;
    if (!same)
        printf(
            "# %s: act %d, act_dx %d, colsum %d; with act %d, of them with x %d, with act_dx %d, "
            "with colsum %d\n",
            of, a->act, a->act_dx, a->colsum, a->with_act, a->keeping, a->slopes, a->sums);
    return same;
}

/* GPT-2 of three layers with four biases each. */
static void texts_hold(enum sn_recompute mode, bool is_delayed,
                       bool (*fuses)(const struct sn_args *a), struct found train,
                       struct found evaluate, const char *what)
{
    struct compiled x;
    struct sn_config c = job_small();
    c.layout.recompute = mode;
    c.layout.split_backward = is_delayed;
    bool good = compile(&x, &c, fuses);
    struct found t = {0}, e = {0};
    if (good) {
        t = look(&x.job->train);
        e = look(&x.job->evaluate);
    }
    good = good && equal(&t, &train, "training") && equal(&e, &evaluate, "evaluation");
    tap_ok(good, "%s", what);
    release(&x);
}

static void what_belongs_together_is_one(void)
{
    texts_hold(SN_RECOMPUTE_NONE, false, NULL, (struct found){.act = 3, .act_dx = 3, .colsum = 12},
               (struct found){.act = 3}, "a backend that fuses nothing: all stand alone");
    texts_hold(SN_RECOMPUTE_NONE, false, always,
               (struct found){.with_act = 3, .keeping = 3, .slopes = 3, .sums = 12},
               (struct found){.with_act = 3},
               "all are one with a product, and x is kept for the slope alone");
    texts_hold(SN_RECOMPUTE_NONE, false, sums_alone,
               (struct found){.act = 3, .act_dx = 3, .sums = 12}, (struct found){.act = 3},
               "the backend is asked for each kind");
    texts_hold(SN_RECOMPUTE_SELECTIVE, false, always,
               (struct found){.act = 3, .with_act = 3, .keeping = 3, .slopes = 3, .sums = 12},
               (struct found){.with_act = 3},
               "an activation that is computed again is so alone, from the x that was kept");
    texts_hold(SN_RECOMPUTE_FULL, false, always,
               (struct found){.with_act = 6, .keeping = 3, .slopes = 3, .sums = 12},
               (struct found){.with_act = 3},
               "a whole block again: x is kept of the second time alone");
    texts_hold(SN_RECOMPUTE_NONE, true, always,
               (struct found){.act_dx = 3, .with_act = 3, .keeping = 3, .sums = 12},
               (struct found){.with_act = 3},
               "where weight gradients are delayed the slope has the place of x, and stays alone");
}

static int64_t scratch(const struct sn_program *p)
{
    return p->slots_bytes + p->temp_bytes;
}

/* Neither for what is kept nor for what comes and goes. */
static void needs_no_more(const char *name, const struct sn_config *c)
{
    struct compiled apart, one;
    bool good = compile(&apart, c, NULL);
    good = compile(&one, c, always) && good;
    int64_t before = good ? scratch(&apart.job->train) : 0;
    int64_t now = good ? scratch(&one.job->train) : 0;
    tap_ok(good && now <= before && one.job->train.slots_bytes <= apart.job->train.slots_bytes &&
               scratch(&one.job->evaluate) <= scratch(&apart.job->evaluate),
           "%s: %lld bytes of activations, apart %lld", name, (long long)now, (long long)before);
    release(&apart);
    release(&one);
}

static void memory_does_not_grow(void)
{
    static const char *const names[] = {"none",          "selective",          "full",
                                        "none, delayed", "selective, delayed", "full, delayed"};
    static const enum sn_recompute modes[] = {SN_RECOMPUTE_NONE, SN_RECOMPUTE_SELECTIVE,
                                              SN_RECOMPUTE_FULL};
    for (int i = 0; i < 6; i++) {
        struct sn_config c = job_small();
        c.layout.recompute = modes[i % 3];
        c.layout.split_backward = i >= 3;
        needs_no_more(names[i], &c);
    }
}

/* --- training --------------------------------------------------------------------------------- */

static const char *const named[] = {"tp3-gpt2",    "tp3-sp-gpt2",    "tp2-sp-neox",
                                    "cp3-gpt2",    "pp4-zb-gpt2",    "pp2-v2-gpt2",
                                    "z2-dp3-gpt2", "selective-gpt2", "z3-dp3-gpt2-tiny"};

static bool is_wanted(const char *name, const char *only)
{
    bool is_named = false;
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
        is_named = is_named || strcmp(name, named[i]) == 0;
    return !only ? is_named : strcmp(only, "ALL") == 0 || strstr(name, only);
}

static void losses_are_equal(const char *name, const struct sn_config *c)
{
    static struct layout_run apart, one;
    apart = (struct layout_run){.steps = 3};
    one = (struct layout_run){.steps = 3, .fuses = true};
    layout_train(&apart, c);
    layout_train(&one, c);
    size_t bytes = (size_t)apart.steps * sizeof(apart.loss[0]);
    bool has_biases = c->model.family == SN_GPT2 || c->model.family == SN_GPT_NEOX;
    tap_ok(!apart.fault[0] && !one.fault[0] && (one.fused > 0 || !has_biases) && apart.fused == 0 &&
               memcmp(apart.loss, one.loss, bytes) == 0 &&
               memcmp(apart.norm, one.norm, bytes) == 0 && apart.val_loss == one.val_loss &&
               one.traffic_is_planned,
           "%s: %ld products have epilogues; losses and norms have the bits of before%s%s", name,
           one.fused, apart.fault, one.fault);
}

static void layouts_train_alike(const char *only)
{
    FILE *f = fopen("tests/equiv/layouts", "r");
    struct layouts_line l;
    struct sn_err err = {0};
    int rc = -1;
    while (f && (rc = layouts_next(f, &l, &err)) == 1)
        if (is_wanted(l.name, only)) {
            losses_are_equal(l.name, &l.config);
            needs_no_more(l.name, &l.config);
        }
    tap_ok(rc == 0, "the table of layouts ends %s", err.text);
    if (f)
        (void)fclose(f);
}

static void other_ways_train_alike(void)
{
    static const struct {
        const char *name;
        enum sn_dtype precision;
        enum sn_recompute recompute;
        double dropout;
    } ways[] = {{"bf16", SN_BF16, SN_RECOMPUTE_NONE, 0},
                {"fp16, recomputed", SN_F16, SN_RECOMPUTE_FULL, 0},
                {"bf16, dropout", SN_BF16, SN_RECOMPUTE_SELECTIVE, 0.1}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct sn_config c = layout_config(SN_GPT2);
        c.train.precision = ways[i].precision;
        c.layout.recompute = ways[i].recompute;
        c.model.dropout = ways[i].dropout;
        losses_are_equal(ways[i].name, &c);
    }
}

int main(int argc, char **argv)
{
    what_belongs_together_is_one();
    memory_does_not_grow();
    other_ways_train_alike();
    layouts_train_alike(argc > 1 ? argv[1] : NULL);
    return tap_done();
}
