/*
 * test_documents.c - documents that share a sample, apart, are the same documents one by one, and so are
 * those with prompts that are seen in both directions, and pieces that a curriculum cuts it into; and targets that a mask leaves
 * out count nothing, however they lie in micro-batches.
 *
 * One by one: a sample of one document, with other tokens behind it that a mask keeps from counting.
 * What is behind a document changes nothing of it, so that nothing there knows of documents.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/data/data_format.h"
#include "lib/data/loader.h"
#include "lib/exec/exec.h"
#include "lib/state/weights.h"
#include "tests/lib/job_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <unistd.h>

enum { FURTHER = 2 /* tokens, at most */, SEQ = 20, VOCAB = 61, DOCUMENTS = 4, TARGETS = 6 + 0 + 4 + 7 };
/* With the last token of a sample, which is a target alone. */
static const int lengths[DOCUMENTS] = {7, 1, 5, 8};

/* Their first tokens that are not to be predicted: data.prefix. */
enum { ANSWERS = 4 + 0 + 3 + 2 };
static const int prompts[DOCUMENTS] = {3, 1, 2, 6};

static void expect(enum sn_status st, const struct sn_err *err)
{
    if (st != SN_OK) {
        printf("Bail out! %s\n", err->text);
        exit(1);
    }
}

static int32_t token(int document, int k)
{
    return (int32_t)(sn_rng_bits((uint64_t)document, (uint64_t)k) % VOCAB);
}

/* One sample of all, and a file of a sample each, whose mask counts what a document has behind its
 * first token. */
static void write_files(void)
{
    struct sn_err err = {0};
    struct sn_data_writer *packed = NULL, *single = NULL;
    expect(sn_data_writer_create(&packed, "packed", SN_TOK_U8, &err), &err);
    expect(sn_data_writer_create(&single, "single", SN_TOK_U8, &err), &err);
    expect(sn_data_writer_add_mask(single, "single", &err), &err);
    for (int i = 0; i < DOCUMENTS; i++) {
        int32_t tokens[SEQ];
        uint8_t counts[SEQ] = {0};
        for (int k = 0; k < SEQ; k++) {
            tokens[k] = token(i, k);
            counts[k] = k > 0 && k < lengths[i];
        }
        expect(sn_data_writer_add(packed, tokens, lengths[i], &err), &err);
        expect(sn_data_writer_append_masked(single, tokens, counts, SEQ, &err), &err);
    }
    int32_t last = 3;
    expect(sn_data_writer_append_masked(single, &last, (uint8_t[]){0}, 1, &err), &err);
    expect(sn_data_writer_finish(packed, &err), &err);
    expect(sn_data_writer_finish(single, &err), &err);
    sn_data_writer_destroy(packed);
    sn_data_writer_destroy(single);
}

static void add_document(struct sn_data_writer *w, const int32_t *tokens, const uint8_t *counts,
                         int64_t n)
{
    struct sn_err err = {0};
    expect(sn_data_writer_append_masked(w, tokens, counts, n, &err), &err);
    expect(sn_data_writer_end(w, &err), &err);
}

/* The same with prompts: `answers` of a sample each, `dialogue` with all in one; and `long` with prompts of 25
 * of 30 tokens and 4 of 11. */
static void write_prompts(void)
{
    struct sn_err err = {0};
    static const char *const names[] = {"answers", "dialogue", "long"};
    struct sn_data_writer *w[3] = {NULL};
    for (int i = 0; i < 3; i++) {
        expect(sn_data_writer_create(&w[i], names[i], SN_TOK_U8, &err), &err);
        expect(sn_data_writer_add_mask(w[i], names[i], &err), &err);
    }
    int32_t tokens[30], last = 3;
    uint8_t counts[30];
    for (int i = 0; i < DOCUMENTS; i++) {
        for (int k = 0; k < SEQ; k++) {
            tokens[k] = token(i, k);
            counts[k] = k >= prompts[i] && k < lengths[i];
        }
        add_document(w[0], tokens, counts, SEQ);
        add_document(w[1], tokens, counts, lengths[i]);
    }
    add_document(w[0], &last, (uint8_t[]){0}, 1);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 30; k++) {
            tokens[k] = token(i, k);
            counts[k] = k >= (i ? 4 : 25);
        }
        add_document(w[2], tokens, counts, i ? 11 : 30);
    }
    for (int i = 0; i < 3; i++) {
        expect(sn_data_writer_finish(w[i], &err), &err);
        sn_data_writer_destroy(w[i]);
    }
}

/* --- one step --------------------------------------------------------------------------------- */

struct run {
    struct sn_config config;
    struct sn_model *model;
    struct sn_job *job;
    struct sn_comm *comm;
    struct sn_exec *exec;
    struct sn_sample_count count;
};

static struct sn_config config(enum sn_family family, int window, int further)
{
    struct sn_config c = {0};
    c.run.seed = 11;
    c.train.mtp_loss = 0.3;
    c.model = (struct sn_model_config){.family = family,
                                       .activation = sn_family_traits(family)->activation,
                                       .layers = 2,
                                       .hidden = 48,
                                       .heads = 4,
                                       .kv_heads = 4,
                                       .ffn = 80,
                                       .vocab = VOCAB,
                                       .seq = SEQ,
                                       .rope_theta = 10000,
                                       .rotary_pct = family == SN_LLAMA ? 1 : 0.5,
                                       .parallel_residual = family == SN_GPT_NEOX,
                                       .sliding_window = window,
                                       .norm_eps = 1e-5,
                                       .init_std = 0.05,
                                       .mtp = further,
                                       .share_layers = 1};
    c.train.precision = SN_F32;
    c.train.steps = 1;
    c.data.order = SN_ORDER_SEQUENTIAL;
    c.layout = (struct sn_layout_config){.data = 1,
                                         .tensor = 1,
                                         .tensor_x = 1,
                                         .pipeline = 1,
                                         .expert = 1,
                                         .context = 1,
                                         .micro_batch = 1,
                                         .bucket = 1 << 20};
    return c;
}

static void load(struct run *r)
{
    struct sn_err err = {0};
    struct sn_corpus corpus;
    struct sn_blend blend;
    int64_t first[DOCUMENTS];
    int32_t whole[(2 + 2 * FURTHER) * SEQ];
    const struct sn_program *p = &r->job->train;
    expect(sn_corpus_open_train(&corpus, &r->config, true, NULL, &err), &err);
    int64_t samples = sn_data_samples(corpus.set[0], r->config.model.seq);
    expect(sn_blend_of_run(&blend, &r->config, &samples, &err), &err);
    struct sn_loader l = {.config = &r->config,
                          .corpus = &corpus,
                          .blend = &blend,
                          .ranks = 1,
                          .sequences = r->config.layout.micro_batch,
                          .place = {.seq = r->config.model.seq},
                          .whole = whole,
                          .ids = sn_exec_address(r->exec, p, r->job->ids),
                          .targets = sn_exec_address(r->exec, p, r->job->targets)};
    if (r->job->further >= 0)
        l.further = sn_exec_address(r->exec, p, r->job->further);
    if (r->job->starts >= 0)
        l.starts = sn_exec_address(r->exec, p, r->job->starts);
    expect(sn_loader_step(&l, 1, p->micros, first, &r->count, &err), &err);
    sn_corpus_close(&corpus);
}

static void step(struct run *r, const char *prefix, struct sn_config c)
{
    struct sn_err err = {0};
    int64_t first[DOCUMENTS] = {0, 1, 2, 3};
    *r = (struct run){.config = c};
    sn_sets_take(&r->config.data.train, prefix);
    expect(sn_model_create(&r->model, &r->config.model, &r->config.train, &err), &err);
    expect(job_create(&r->job, &r->config, r->model, 2, &err), &err);
    expect(sn_comm_create_self(&r->comm, &err), &err);
    expect(sn_exec_create(&r->exec, r->job, r->comm, &err), &err);
    expect(job_weights(r->exec, r->job, r->comm, &err), &err);
    load(r);
    struct sn_scalars *s = sn_exec_scalars(r->exec);
    s->seed = 11;
    s->step = 1;
    s->loss_scale = 1;
    s->tokens_in_step = (double)c.train.global_batch * c.model.seq;
    s->targets_in_step = (double)r->count.targets;
    expect(sn_exec_run(r->exec, &r->job->train, first, &err), &err);
}

static void release(struct run *r)
{
    sn_exec_destroy(r->exec);
    r->comm->ops->destroy(r->comm);
    sn_job_destroy(r->job);
    sn_model_destroy(r->model);
}

static double loss(const struct run *r)
{
    const struct sn_scalars *s = sn_exec_scalars(r->exec);
    return s->loss_sum / s->targets_in_step;
}

/* Of tokens further on; without them 1. */
static double loss_further(const struct run *r)
{
    const struct sn_scalars *s = sn_exec_scalars(r->exec);
    return r->config.model.mtp ? s->beside_sum / s->targets_in_step : 1;
}

/* Largest difference of any gradient, relative to the parameter's largest element. */
static double worst(struct run *a, struct run *b)
{
    double w = 0;
    for (int i = 0; i < a->model->n_params; i++) {
        const float *x = job_grad(a->exec, a->job, i), *y = job_grad(b->exec, b->job, i);
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

/* --- what has to hold ------------------------------------------------------------------------- */

/* Rounding: rotary positions of a document that begins later are other angles, whose differences are
 * the same. */
static void packed_documents_are_those_documents(enum sn_family family, int window,
                                                 int further, const char *name)
{
    struct sn_config c = config(family, window, further);
    struct run packed, single, together;
    c.train.global_batch = DOCUMENTS;
    c.data.loss = SN_LOSS_MASK;
    step(&single, "single", c);
    c.train.global_batch = 1;
    c.data.loss = SN_LOSS_ALL;
    step(&together, "packed", c);
    c.data.documents = SN_DOCUMENTS_APART;
    step(&packed, "packed", c);
    tap_ok(packed.count.targets == TARGETS && single.count.targets == TARGETS,
           "%s: %d tokens are to be predicted, packed or not", name, TARGETS);
    double off = fabs(loss(&packed) / loss(&single) - 1);
    tap_ok(off <= 1e-6, "%s: a packed sample has the loss of its documents (off by %.1e)", name,
           off);
    off = fabs(loss_further(&packed) / loss_further(&single) - 1);
    tap_ok(off <= 1e-6 && (further == 0 || loss_further(&packed) > 1),
           "%s: and of tokens further on (off by %.1e)", name, off);
    off = worst(&single, &packed);
    tap_ok(off <= 1e-6, "%s: and every gradient (off by %.1e)", name, off);
    off = worst(&single, &together);
    tap_ok(off > 1e-2, "%s: which documents that see each other do not (off by %.1e)", name, off);
    release(&packed);
    release(&single);
    release(&together);
}

static void packed_prompts_are_those_prompts(enum sn_family family, int window, const char *name)
{
    struct sn_config c = config(family, window, 0);
    struct run packed, single, causal;
    c.data.loss = SN_LOSS_MASK;
    c.data.documents = SN_DOCUMENTS_APART;
    c.train.global_batch = 1;
    step(&causal, "dialogue", c);
    c.data.prefix = SN_PREFIX_PROMPT;
    step(&packed, "dialogue", c);
    c.train.global_batch = DOCUMENTS;
    step(&single, "answers", c);
    tap_ok(packed.count.targets == ANSWERS && single.count.targets == ANSWERS,
           "%s: %d tokens of answers are to be predicted, packed or not", name, ANSWERS);
    double off = fabs(loss(&packed) / loss(&single) - 1);
    tap_ok(off <= 1e-6, "%s: packed prompts have the loss of single ones (off by %.1e)", name, off);
    off = worst(&single, &packed);
    tap_ok(off <= 1e-6, "%s: and every gradient (off by %.1e)", name, off);
    off = worst(&causal, &packed);
    tap_ok(off > 1e-2, "%s: which causal prompts do not have (off by %.1e)", name, off);
    release(&packed);
    release(&single);
    release(&causal);
}

static void prompts_are_cut_where_samples_are(void)
{
    struct sn_err err = {0};
    struct sn_config c = config(SN_LLAMA, 0, 0);
    struct sn_corpus corpus;
    struct sn_sample_count sum = {0};
    int32_t seen[3][SEQ][2];
    bool good = true;
    c.data.documents = SN_DOCUMENTS_APART;
    c.data.loss = SN_LOSS_MASK;
    c.data.prefix = SN_PREFIX_PROMPT;
    sn_sets_take(&c.data.train, "long");
    expect(sn_corpus_open_train(&corpus, &c, true, NULL, &err), &err);
    for (int i = 0; i < 2; i++)
        sn_sample_starts(&c, corpus.set[0], i, SEQ, seen[i][0]);
    sn_sample_starts(&c, corpus.set[0], 0, 8, seen[2][0]);
    for (int k = 0; k < SEQ; k++) {
        good = good && seen[0][k][0] == 0 && seen[0][k][1] == SEQ - 1;
        good = good && seen[1][k][0] == (k < 10 ? 0 : 10);
        good = good && seen[1][k][1] == (k < 5 ? 4 : k >= 10 && k < 14 ? 13 : k);
        good = good && seen[2][k][0] == k / 8 * 8 && seen[2][k][1] == (k < 16 ? k / 8 * 8 + 7 : 19);
    }
    tap_ok(good, "a prompt is cut by samples and pieces, and goes on behind them");
    sn_sample_count(&c, corpus.set[0], 1, SEQ, &sum);
    tap_close(sum.keys, (10 * 10 + 5 * 5 + 10 * 10 + 4 * 4) / 2.0, 1e-12, 1,
              "keys that are seen in both directions are counted");
    sn_corpus_close(&corpus);
}

static void micro_batches_with_other_counts_add_up(void)
{
    struct sn_config c = config(SN_LLAMA, 0, 0);
    struct run one, four;
    c.train.global_batch = DOCUMENTS;
    c.data.loss = SN_LOSS_MASK;
    step(&four, "single", c);
    c.layout.micro_batch = DOCUMENTS;
    step(&one, "single", c);
    double off = worst(&one, &four);
    tap_ok(
        off <= 1e-6,
        "micro-batches with 6, 0, 4 and 7 targets have the gradient of one with all (off by %.1e)",
        off);
    off = fabs(loss(&four) / loss(&one) - 1);
    tap_ok(off <= 1e-6, "and its loss (off by %.1e)", off);
    release(&one);
    release(&four);
}

static void keys_are_counted_by_document(void)
{
    struct sn_config c = config(SN_LLAMA, 3, 0);
    struct run r;
    double keys = 0, window_keys = 0;
    c.train.global_batch = 1;
    c.data.documents = SN_DOCUMENTS_APART;
    step(&r, "packed", c);
    for (int i = 0; i < DOCUMENTS; i++) {
        int n = lengths[i] - (i == DOCUMENTS - 1); /* the last token is a target alone */
        keys += n * n / 2.0;
        window_keys += n > 3 ? n * 3 - 4.5 : n * n / 2.0;
    }
    tap_close(r.count.keys, keys, 1e-12, 1, "keys that queries see are those of their documents");
    tap_close(r.count.window_keys, window_keys, 1e-12, 1, "and in windows those of both");
    release(&r);
}

/* A sample of SEQ tokens in pieces of 5 is four samples of a model with sequences of 5; and of 8, two and a
 * shorter one, whose keys are counted. */
static void pieces_are_samples_of_a_shorter_model(enum sn_family family, int window,
                                                  int further, const char *name)
{
    struct sn_config c = config(family, window, further);
    struct run cut, whole, samples;
    c.train.global_batch = 1;
    step(&whole, "packed", c);
    c.data.curriculum.n_lengths = c.data.curriculum.n_until = 1;
    c.data.curriculum.lengths[0] = 5;
    c.data.curriculum.until[0] = 1;
    step(&cut, "packed", c);
    c.data.curriculum.n_lengths = c.data.curriculum.n_until = 0;
    c.model.seq = 5;
    c.train.global_batch = SEQ / 5;
    step(&samples, "packed", c);
    tap_ok(cut.count.targets == SEQ && samples.count.targets == SEQ &&
               cut.count.keys == samples.count.keys &&
               cut.count.window_keys == samples.count.window_keys,
           "%s: pieces have the targets and keys of shorter samples", name);
    double off = fabs(loss(&cut) / loss(&samples) - 1);
    tap_ok(off <= 1e-6, "%s: and their loss (off by %.1e)", name, off);
    off = fabs(loss_further(&cut) / loss_further(&samples) - 1);
    tap_ok(off <= 1e-6, "%s: and of tokens further on (off by %.1e)", name, off);
    off = worst(&samples, &cut);
    tap_ok(off <= 1e-6, "%s: and every gradient (off by %.1e)", name, off);
    off = worst(&whole, &cut);
    tap_ok(off > 1e-2, "%s: which whole samples do not have (off by %.1e)", name, off);
    release(&cut);
    release(&whole);
    release(&samples);
}

/* The shorter last piece too; by what is known of all samples, and by the walk over one. */
static void keys_are_counted_by_piece(void)
{
    struct sn_config c = config(SN_LLAMA, 3, 0);
    struct sn_sample_count all = sn_plain_count(&c, 8, 1), sum = {0};
    sn_sample_count(&c, NULL, 0, 8, &sum);
    double keys = 2 * 8 * 8 / 2.0 + 4 * 4 / 2.0, window_keys = 2 * (8 * 3 - 4.5) + 4 * 3 - 4.5;
    tap_close(all.keys, keys, 1e-12, 1, "keys that queries see are those of their pieces");
    tap_close(all.window_keys, window_keys, 1e-12, 1, "and in windows those of both");
    tap_ok(fabs(sum.keys - keys) < 1e-12 && fabs(sum.window_keys - window_keys) < 1e-12 &&
               sum.targets == SEQ && all.targets == SEQ,
           "and so by the walk over a sample");
}

int main(void)
{
    char folder[] = "/tmp/test_documents.XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) {
        printf("Bail out! no folder\n");
        return 1;
    }
    write_files();
    write_prompts();
    packed_documents_are_those_documents(SN_LLAMA, 0, 0, "llama");
    packed_documents_are_those_documents(SN_LLAMA, 3, 0, "llama with windows");
    packed_documents_are_those_documents(SN_LLAMA, 0, 2, "llama that predicts three tokens");
    packed_documents_are_those_documents(SN_GPT_NEOX, 0, 0, "gpt-neox");
    packed_prompts_are_those_prompts(SN_LLAMA, 0, "llama, prompts");
    packed_prompts_are_those_prompts(SN_LLAMA, 3, "llama with windows, prompts");
    prompts_are_cut_where_samples_are();
    micro_batches_with_other_counts_add_up();
    pieces_are_samples_of_a_shorter_model(SN_LLAMA, 0, 1, "pieces, rotary positions");
    pieces_are_samples_of_a_shorter_model(SN_GPT_NEOX, 3, 0, "pieces, in a window");
    keys_are_counted_by_piece();
    keys_are_counted_by_document();
    static const char *const files[] = {
        "packed.bin",    "packed.idx",  "single.bin",   "single.idx",   "single.mask",
        "answers.bin",   "answers.idx", "answers.mask", "dialogue.bin", "dialogue.idx",
        "dialogue.mask", "long.bin",    "long.idx",     "long.mask"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        (void)unlink(files[i]);
    (void)rmdir(folder);
    return tap_done();
}
