/*
 * test_keys.c - keys that a plan expects a token to see are those that masks show, counted one by one.
 */
#include "kernels/mask.h"
#include "lib/cost/price.h"
#include "tests/lib/search_test.h"
#include "tests/lib/tap.h"

#include <math.h>

/* Keys on one side of a query: its own counted half, whole where a window ends there, as sn_mask_keys does. */
static double side(int64_t far, int window)
{
    return (double)far + (far == window - 1 ? 1 : 0.5);
}

/* The mean over all places in a document at which a sample may begin: of each query the keys from the first to the last
 * that kernels/mask.h says. */
static double counted(int seq, int length, int prefix, int window)
{
    static int32_t starts[2 * 512];
    double sum = 0;
    for (int phase = 0; phase < length; phase++) {
        for (int p = 0; p < seq; p++) {
            int begin = p - (p + phase) % length, end = begin + prefix - 1;
            starts[2 * p] = begin > 0 ? begin : 0;
            starts[2 * p + 1] = end < seq ? end : seq - 1;
        }
        struct sn_mask m = {.seq = seq, .window = window, .starts = starts, .columns = 2};
        for (int p = 0; p < seq; p++) {
            sum += side(p - sn_mask_first(&m, 0, p), window);
            if ((p + phase) % length < prefix)
                sum += side(sn_mask_last(&m, 0, p) - p, window);
        }
    }
    return sum / seq / length;
}

static void expected_keys_are_those_of_masks(void)
{
    static const int lengths[] = {32, 100, 256, 500, 1000}, windows[] = {0, 24, 80, 300};
    int wrong = 0, n = 0;
    for (int l = 0; l < 5; l++)
        for (int w = 0; w < 4; w++)
            for (int part = 0; part <= 4; part++, n++) {
                struct sn_config c = layout_config(SN_LLAMA);
                c.model.seq = 256;
                c.data.document_length = lengths[l];
                c.data.prefix_length = lengths[l] * part / 4;
                double got = sn_model_expected_keys(&c, windows[w]);
                double want = counted(256, lengths[l], c.data.prefix_length, windows[w]);
                bool good = fabs(got - want) <= 0.01 * want;
                wrong += !good;
                if (!good)
                    printf("# length %d window %d prefix %d: %.4f, want %.4f\n", lengths[l],
                           windows[w], c.data.prefix_length, got, want);
            }
    tap_ok(wrong == 0, "%d of %d kinds of documents and prompts differ by more than 1 %%", wrong,
           n);
}

/* A sample of one document that begins with it: no phase but the first. */
static void a_sample_may_be_a_document(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.model.seq = 200;
    tap_ok(sn_model_expected_keys(&c, 0) == sn_mask_keys(200, 0) &&
               sn_model_expected_keys(&c, 30) == sn_mask_keys(200, 30),
           "whole causal samples where nothing is said");
    c.data.prefix_length = 50;
    tap_ok(fabs(sn_model_expected_keys(&c, 0) - (200.0 * 200 + 50.0 * 50) / 2 / 200) < 1e-9,
           "with a prompt of 50 of 200 tokens (S^2 + P^2) / 2 pairs");
    c.data.prefix_length = 200;
    tap_ok(sn_model_expected_keys(&c, 0) == 200, "all of it prompt: every token sees all");
}

/* Seconds of the first attention of a job beyond its overhead. */
static double attention(const struct sn_config *c, const struct sn_machine *m)
{
    struct sn_software s;
    struct sn_pricer p;
    struct sn_model *model = NULL;
    struct sn_job *j = NULL;
    struct sn_err err = {0};
    double seconds = -1;
    struct sn_job_env env = {.config = c, .ops = sn_ops_cpu(), .threads = 1};
    sn_software_default(&s);
    bool good = sn_model_create(&model, &c->model, &c->train, &err) == SN_OK;
    env.model = model;
    if (good && sn_job_create_text(&j, &env, &err) == SN_OK) {
        sn_pricer_init(&p, m, &s, j);
        for (int i = 0; i < j->train.n_ops && seconds < 0; i++)
            if (j->train.ops[i].kind == SN_OP_ATTENTION)
                seconds = sn_price_op(&p, &j->train, &j->train.ops[i]) - m->device.overhead;
    }
    sn_job_destroy(j);
    sn_model_destroy(model);
    return seconds;
}

static void attention_costs_what_is_seen(void)
{
    struct sn_machine m = {0};
    struct sn_err err;
    struct sn_config c = small_run();
    c.model.seq = 1024;
    c.data.documents = SN_DOCUMENTS_APART;
    c.data.loss = SN_LOSS_MASK;
    c.data.prefix = SN_PREFIX_PROMPT;
    if (sn_machine_parse(&m, machine_text, strlen(machine_text), "m.yaml", &err) != SN_OK) {
        tap_ok(false, "%s", err.text);
        return;
    }
    double whole = attention(&c, &m);
    c.data.prefix_length = 512;
    double prompts = attention(&c, &m);
    c.data.prefix_length = 0;
    c.data.document_length = 256;
    double apart = attention(&c, &m), share = sn_model_expected_keys(&c, 0) / sn_mask_keys(1024, 0);
    tap_ok(whole > 0 && fabs(prompts / whole - 1.25) < 1e-9,
           "a prompt of half a sample: a quarter more");
    tap_ok(fabs(apart / whole - share) < 1e-9 && share < 0.25, "documents of a quarter: %.3f",
           share);
    sn_machine_fini(&m);
}

int main(void)
{
    attention_costs_what_is_seen();
    expected_keys_are_those_of_masks();
    a_sample_may_be_a_document();
    return tap_done();
}
