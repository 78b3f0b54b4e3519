/*
 * test_mup.c - train.mup: what it makes of a model, and the coordinate check of Yang et al. (arXiv
 * 2203.03466, appendix D.1): logits after a few steps are as large in a wide model as in a narrow
 * one, and without it they grow.
 */
#include "lib/exec/exec.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <string.h>

enum { BASE = 24, STEPS = 4 };

/* hidden: BASE x `times`. */
static struct sn_config config(int times, bool mup)
{
    struct sn_config c = {0};
    struct sn_err err = {0};
    char text[1024];
    int d = BASE * times;
    (void)snprintf(text, sizeof(text),
                   "model: {family: llama, layers: 2, hidden: %d, heads: %d, ffn: %d, vocab: 61, seq: "
                   "48, init_std: 0.1}\n"
                   "train: {steps: %d, global_batch: 4, optimizer: {lr: 2.0e-2}, schedule: {kind: "
                   "constant}%s}\n"
                   "layout: {data: 1, micro_batch: 4}\n",
                   d, d / 8, 2 * d, STEPS, mup ? ", mup: {base_width: 24}" : "");
    tap_ok(sn_config_parse(&c, text, strlen(text), "mup", NULL, &err) == SN_OK, "hidden %d%s %s", d,
           mup ? " with mup" : "", err.text);
    return c;
}

/* Mean size of the logits of the last row, after the last step. */
static void see(void *seen, struct sn_exec *x, const struct sn_job *j, int step)
{
    struct sn_err err = {0};
    const void *logits = NULL;
    double sum = 0;
    if (step != STEPS - 1)
        return;
    struct sn_at at = {.micros = 1, .row = 47};
    if (sn_exec_segment(x, &j->generate, 0, at, &err) != SN_OK ||
        sn_exec_segment(x, &j->generate, 1, at, &err) != SN_OK ||
        sn_exec_fetch(x, &j->generate, j->generate.logits, &logits, &err) != SN_OK)
        return;
    for (int i = 0; i < 61; i++)
        sum += fabs((double)((const float *)logits)[i]);
    *(double *)seen = sum / 61;
}

static double size_of_logits(int times, bool mup)
{
    struct sn_config c = config(times, mup);
    double size = 0;
    struct layout_run r = {.steps = STEPS, .see = see, .seen = &size};
    layout_train(&r, &c);
    tap_ok(!r.fault[0] && size > 0, "trains %s", r.fault);
    return size;
}

static void logits_are_as_large_at_any_width(void)
{
    double narrow = size_of_logits(1, true), wide = size_of_logits(8, true);
    double plain[] = {size_of_logits(1, false), size_of_logits(8, false)};
    tap_ok(wide / narrow > 0.33 && wide / narrow < 1.5,
           "with mup logits of 8 times the width are %.2f times as large", wide / narrow);
    tap_ok(plain[1] / plain[0] > 2, "without %.2f times", plain[1] / plain[0]);
    tap_ok(plain[0] == narrow, "at the base width nothing changes");
}

static void matrices_of_layers_learn_slower(void)
{
    struct sn_config c = config(4, true), plain = config(4, false);
    struct sn_model *m[2] = {NULL, NULL};
    struct sn_err err = {0};
    tap_ok(sn_model_create(&m[0], &c.model, &c.train, &err) == SN_OK &&
               sn_model_create(&m[1], &plain.model, &plain.train, &err) == SN_OK,
           "models %s", err.text);
    int hidden = 0, others = 0;
    for (int i = 0; m[0] && m[1] && i < m[0]->n_params; i++) {
        const struct sn_param *p = &m[0]->params[i], *q = &m[1]->params[i];
        bool slower = p->rate == 0.25f && fabs((double)(p->std / q->std) - 0.5) < 1e-6;
        hidden += slower && strncmp(p->name, "layers.", 7) == 0 && p->cols > 1;
        others += !slower && p->rate == 0 && p->std == q->std;
    }
    tap_ok(hidden == 8 && others == 7, "4 matrices of each layer do, and no others: %d, %d", hidden,
           others);
    tap_ok(c.model.logits_divisor == 4 && c.model.attention_scale == 0, "logits, scores");
    sn_model_destroy(m[0]);
    sn_model_destroy(m[1]);
}

int main(void)
{
    matrices_of_layers_learn_slower();
    logits_are_as_large_at_any_width();
    return tap_done();
}
