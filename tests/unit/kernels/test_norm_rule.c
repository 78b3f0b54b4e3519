/*
 * test_norm_rule.c - the gradients of a norm in a compiled program: one operation, or two where
 * those of weights are delayed.
 */
#include "tests/lib/job_test.h"
#include "tests/lib/tap.h"

/* Operations of this kind that write output `o`. */
static int writers(const struct sn_job *j, int kind, int o)
{
    int n = 0;
    for (int i = 0; i < j->train.n_ops; i++)
        n += j->train.ops[i].kind == kind && j->train.ops[i].out[o].buf >= 0;
    return n;
}

static int weight_gradients(const struct sn_job *j, int kind)
{
    int n = 0;
    for (int i = 0; i < j->train.n_ops; i++)
        n += j->train.ops[i].kind == kind && j->train.ops[i].is_weight_grad;
    return n;
}

static void of_each_norm(bool split)
{
    struct sn_config c = job_small();
    struct sn_model *model = NULL;
    struct sn_job *j = NULL;
    struct sn_err err = {0};
    c.layout.split_backward = split;
    bool good = sn_model_create(&model, &c.model, &c.train, &err) == SN_OK &&
                job_create(&j, &c, model, 0, &err) == SN_OK;
    tap_ok(good, "a gpt2 of 3 layers, backward %s %s", split ? "in two" : "in one", err.text);
    if (good) {
        int dw = split ? 0 : 7; /* two of each layer, the last one */
        tap_ok(writers(j, SN_OP_LAYERNORM_DX, 0) == 7 &&
                   weight_gradients(j, SN_OP_LAYERNORM_DX) == 0,
               "7 norms have input gradients, which are not delayed");
        tap_ok(writers(j, SN_OP_LAYERNORM_DX, 1) == dw && writers(j, SN_OP_LAYERNORM_DX, 2) == dw,
               "%d of these operations give the gradients of weights, too", dw);
        tap_ok(weight_gradients(j, SN_OP_LAYERNORM_DW) == 7 - dw, "%d have one for that", 7 - dw);
    }
    sn_job_destroy(j);
    sn_model_destroy(model);
}

int main(void)
{
    of_each_norm(false);
    of_each_norm(true);
    return tap_done();
}
