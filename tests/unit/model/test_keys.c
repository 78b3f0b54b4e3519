/*
 * test_keys.c - keys that a plan expects a token to see are those that masks show, counted one by one.
 */
#include "kernels/mask.h"
#include "lib/cost/price.h"
#include "lib/data/data_format.h"
#include "lib/data/loader.h"
#include "tests/lib/search_test.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

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
                double got = sn_model_expected_keys(&c, 256, windows[w]);
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
    tap_ok(sn_model_expected_keys(&c, c.model.seq, 0) == sn_mask_keys(200, 0) &&
               sn_model_expected_keys(&c, c.model.seq, 30) == sn_mask_keys(200, 30),
           "whole causal samples where nothing is said");
    c.data.prefix_length = 50;
    tap_ok(fabs(sn_model_expected_keys(&c, c.model.seq, 0) - (200.0 * 200 + 50.0 * 50) / 2 / 200) <
               1e-9,
           "with a prompt of 50 of 200 tokens (S^2 + P^2) / 2 pairs");
    c.data.prefix_length = 200;
    tap_ok(sn_model_expected_keys(&c, c.model.seq, 0) == 200,
           "all of it prompt: every token sees all");
    c.data.prefix_length = 50;
    tap_ok(fabs(sn_model_expected_keys(&c, 80, 0) -
                (2 * 80.0 * 80 + 40.0 * 40 + 50.0 * 50) / 2 / 200) < 1e-9,
           "pieces leave a prompt that is shorter whole");
    tap_ok(fabs(sn_model_expected_keys(&c, 30, 0) -
                (6 * 30.0 * 30 + 20.0 * 20 + 30.0 * 30 + 20.0 * 20) / 2 / 200) < 1e-9,
           "and cut a longer one");
    c.train.prompt.soft = 60;
    tap_ok(sn_model_expected_prompt(&c) == 50,
           "what train.prompt fills is no prompt that is seen so");
    c.data.prefix = SN_PREFIX_PROMPT;
    c.data.prefix_length = 0;
    tap_ok(sn_model_expected_prompt(&c) == 60 && fabs(sn_model_expected_keys(&c, 200, 0) -
                                                      (200.0 * 200 + 60.0 * 60) / 2 / 200) < 1e-9,
           "but with data.prefix: prompt at least that is");
    c.data.prefix_length = 70;
    tap_ok(sn_model_expected_prompt(&c) == 70, "and prompts may be longer");
}

static void documents_follow_from_keys(void)
{
    static const int lengths[] = {1, 30, 100, 255, 256, 257, 800, 100000};
    int wrong = 0;
    for (int l = 0; l < 8; l++)
        for (int part = 0; part <= 4; part++) {
            struct sn_config c = layout_config(SN_LLAMA);
            c.model.seq = 256;
            c.data.document_length = lengths[l];
            double keys = sn_model_expected_keys(&c, 256, 0);
            c.data.prefix_length = lengths[l] * part / 4;
            double more = sn_model_expected_keys(&c, 256, 0) - keys;
            int64_t length, prompt;
            sn_model_documents_of(256, keys, more, &length, &prompt);
            wrong += length != lengths[l] || prompt != c.data.prefix_length;
            if (length != lengths[l] || prompt != c.data.prefix_length)
                printf("# %lld and %lld, want %d and %d\n", (long long)length, (long long)prompt,
                       lengths[l], c.data.prefix_length);
        }
    tap_ok(wrong == 0, "%d of 40 lengths of documents and prompts do not follow from keys", wrong);
    int64_t length, prompt;
    sn_model_documents_of(200, 100, 50.0 * 50 / 2 / 200, &length, &prompt);
    tap_ok(length == 0 && prompt == 50, "samples that are documents: 0");
    sn_model_documents_of(200, 100, 100, &length, &prompt);
    tap_ok(length == 0 && prompt == 200, "and all of them prompts");
}

/* Seconds of the first attention of a job beyond its overhead; *key: what machines measure of it. */
static double attention(const struct sn_config *c, const struct sn_machine *m,
                        struct sn_measured *key)
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
            if (j->train.ops[i].kind == SN_OP_ATTENTION) {
                seconds = sn_price_op(&p, &j->train, &j->train.ops[i]) - m->device.overhead;
                sn_price_key(&j->train, &j->train.ops[i], key);
            }
    }
    sn_job_destroy(j);
    sn_model_destroy(model);
    return seconds;
}

/* A machine that has measured the attention of `whole` seconds; and another one, of twice the rows. c has prompts of
 * half a sample. */
static void measured_attention_costs_what_is_seen(const struct sn_config *c, struct sn_machine *m,
                                                  struct sn_measured known, double whole)
{
    struct sn_machine measured = *m;
    struct sn_config causal = *c;
    struct sn_measured key;
    causal.data.prefix_length = 0;
    known.seconds = 3 * whole + m->device.overhead;
    measured.device.measured = &known;
    measured.device.n_measured = 1;
    double equal = attention(&causal, &measured, &key), prompts = attention(c, &measured, &key);
    tap_ok(fabs(equal / whole - 3) < 1e-9 && fabs(prompts / equal - 1.25) < 1e-9,
           "measured attention of causal samples: a quarter more with prompts");
    known.m *= 2;
    double near = attention(&causal, &measured, &key);
    prompts = attention(c, &measured, &key);
    tap_ok(fabs(near / whole - 1) > 0.1 && fabs(prompts / near - 1.25) < 1e-9,
           "and where a near shape was measured");
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
    struct sn_measured key, known;
    double whole = attention(&c, &m, &key);
    c.data.prefix_length = 512;
    double prompts = attention(&c, &m, &known);
    measured_attention_costs_what_is_seen(&c, &m, key, whole);
    c.data.prefix_length = 0;
    c.data.document_length = 256;
    double apart = attention(&c, &m, &known);
    double share = sn_model_expected_keys(&c, 1024, 0) / sn_mask_keys(1024, 0);
    tap_ok(whole > 0 && fabs(prompts / whole - 1.25) < 1e-9,
           "a prompt of half a sample: a quarter more");
    tap_ok(fabs(apart / whole - share) < 1e-9 && share < 0.25, "documents of a quarter: %.3f",
           share);
    sn_machine_fini(&m);
}

static void expect(enum sn_status st, const struct sn_err *err)
{
    if (st != SN_OK) {
        printf("Bail out! %s\n", err->text);
        exit(1);
    }
}

enum { EQUAL = 37, EQUAL_PROMPT = 13, EQUAL_SEQ = 64, EQUAL_DOCUMENTS = EQUAL_SEQ + 1 };

static void write_equal(void)
{
    struct sn_err err = {0};
    struct sn_data_writer *w = NULL;
    expect(sn_data_writer_create(&w, "equal", SN_TOK_U8, &err), &err);
    expect(sn_data_writer_add_mask(w, "equal", &err), &err);
    for (int i = 0; i < EQUAL_DOCUMENTS; i++) {
        int32_t tokens[EQUAL];
        uint8_t counts[EQUAL];
        for (int k = 0; k < EQUAL; k++) {
            tokens[k] = (i + k) % 7;
            counts[k] = k >= EQUAL_PROMPT;
        }
        expect(sn_data_writer_append_masked(w, tokens, counts, EQUAL, &err), &err);
        expect(sn_data_writer_end(w, &err), &err);
    }
    expect(sn_data_writer_finish(w, &err), &err);
    sn_data_writer_destroy(w);
}

/* Of as many samples as a document has tokens, which begin at every place in one, a plan expects the FLOPs that
 * their log counts. */
static void plans_expect_what_is_counted(void)
{
    static const int windows[] = {0, 9}, pieces[] = {EQUAL_SEQ, 24};
    struct sn_err err = {0};
    struct sn_config c = layout_config(SN_LLAMA);
    struct sn_corpus corpus;
    struct sn_model *m = NULL;
    write_equal();
    c.model.seq = EQUAL_SEQ;
    c.data.documents = SN_DOCUMENTS_APART;
    c.data.loss = SN_LOSS_MASK;
    c.data.prefix = SN_PREFIX_PROMPT;
    c.data.document_length = EQUAL;
    c.data.prefix_length = EQUAL_PROMPT;
    sn_sets_take(&c.data.train, "equal");
    expect(sn_corpus_open_train(&corpus, &c, true, NULL, &err), &err);
    for (int k = 0; k < 4; k++) {
        int length = pieces[k / 2], window = windows[k % 2];
        struct sn_sample_count sum = {0};
        c.model.sliding_window = window;
        expect(sn_model_create(&m, &c.model, &c.train, &err), &err);
        for (int i = 0; i < EQUAL; i++)
            sn_sample_count(&c, corpus.set[0], i, length, &sum);
        double n = EQUAL * EQUAL_SEQ, keys = sum.keys / n, seen = sum.window_keys / n;
        double off = fabs(sn_model_expected_keys(&c, length, window) / seen - 1);
        double flops = sn_model_flops_of_keys(m, &c.model, keys, seen);
        double off_flops = fabs(sn_model_flops_of_length(m, &c, length) / flops - 1);
        tap_ok(off < 0.001 && off_flops < 1e-4,
               "pieces of %d, window %d: expected keys are off by %.1e, FLOPs by %.1e", length,
               window, off, off_flops);
        sn_model_destroy(m);
    }
    sn_corpus_close(&corpus);
    static const char *const files[] = {"equal.bin", "equal.idx", "equal.mask"};
    for (int i = 0; i < 3; i++)
        (void)unlink(files[i]);
}

int main(void)
{
    char folder[] = "/tmp/test_keys.XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) {
        printf("Bail out! no folder\n");
        return 1;
    }
    plans_expect_what_is_counted();
    (void)rmdir(folder);
    attention_costs_what_is_seen();
    expected_keys_are_those_of_masks();
    a_sample_may_be_a_document();
    documents_follow_from_keys();
    return tap_done();
}
