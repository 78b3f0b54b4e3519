/*
 * test_addend.c - residuals in a compiled program: sums of their own, or addends of products where
 * the backend says so.
 */
#include "tests/lib/job_test.h"
#include "tests/lib/tap.h"

static struct sn_config small(int tensor, double dropout)
{
    struct sn_config c = job_small();
    c.model.dropout = dropout;
    c.layout.tensor = tensor;
    return c;
}

/* Forward sums, those that a norm takes among them, and products with bias and addend, which
 * forward ones alone have. */
static void count(const struct sn_program *p, int *sums, int *addends)
{
    *sums = *addends = 0;
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        *sums += op->kind == SN_OP_ADD || (op->kind == SN_OP_LAYERNORM && op->in[3].buf >= 0);
        *addends += op->kind == SN_OP_GEMM && op->in[2].buf >= 0 && op->in[3].buf >= 0;
    }
}

static void has(struct sn_config c, bool adds, int train, int evaluate, const char *what)
{
    struct sn_ops ops = *sn_ops_cpu();
    struct sn_job_env env = {.config = &c, .ops = &ops, .threads = 1};
    struct sn_model *model = NULL;
    struct sn_job *j = NULL;
    struct sn_err err = {0};
    int sums[2] = {0}, addends[2] = {0};
    ops.adds_in_products = adds;
    bool good = sn_model_create(&model, &c.model, &c.train, &err) == SN_OK;
    env.model = model;
    good = good && sn_job_create(&j, &env, &err) == SN_OK;
    if (good) {
        count(&j->train, &sums[0], &addends[0]);
        count(&j->evaluate, &sums[1], &addends[1]);
    }
    /* Two residuals for each of 3 layers; of a backward none is a sum. */
    tap_ok(good && addends[0] == train && addends[1] == evaluate && sums[0] == 6 - train &&
               sums[1] == 6 - evaluate,
           "%s: %d and %d of 6 residuals are addends %s", what, addends[0], addends[1], err.text);
    sn_job_destroy(j);
    sn_model_destroy(model);
}

int main(void)
{
    has(small(1, 0), false, 0, 0, "the processor");
    has(small(1, 0), true, 6, 6, "a backend that adds in products");
    has(small(2, 0), true, 0, 0, "a sum over ranks in between");
    has(small(1, 0.1), true, 0, 6, "dropout in between, when it trains");
    return tap_done();
}
