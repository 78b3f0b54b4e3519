/*
 * test_corpus.c - the batches of a blend of files: the same over any number of ranks, the order of one set
 * as it always was, and sentences for sets that do not do.
 */
#include "lib/data/data_fit.h"
#include "lib/data/loader.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <unistd.h>

enum { SEQ = 4, BATCH = 16, SETS = 3, VOCAB = 4000 };
static const int samples[SETS] = {211, 97, 35};

/* Token k of set s is 1000 s + k, so that a row tells where it is from. */
static void write_sets(void)
{
    for (int s = 0; s < SETS; s++) {
        char name[8];
        int32_t token[1000];
        struct sn_err err = {0};
        struct sn_data_writer *w = NULL;
        (void)snprintf(name, sizeof(name), "s%d", s);
        for (int k = 0; k < 1000; k++)
            token[k] = 1000 * s + k;
        if (sn_data_writer_create(&w, name, 8, &err) != SN_OK ||
            sn_data_writer_add(w, token, samples[s] * SEQ + 1, &err) != SN_OK ||
            sn_data_writer_finish(w, &err) != SN_OK)
            abort();
        sn_data_writer_destroy(w);
    }
}

static struct sn_config config_of(const char *data)
{
    char text[1024];
    struct sn_config c;
    struct sn_err err = {0};
    (void)snprintf(text, sizeof(text),
                   "model: {family: llama, layers: 1, hidden: 8, heads: 2, ffn: 8, vocab: 4000, "
                   "seq: 4}\ntrain: {steps: 10, global_batch: 16}\nrun: {seed: 5}\ndata: {%s}\n",
                   data);
    if (sn_config_parse(&c, text, strlen(text), "run.yaml", NULL, &err) != SN_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return c;
}

struct world {
    struct sn_config config;
    struct sn_corpus corpus, none;
    struct sn_data_fit fit;
};

static void begin(struct world *w, const char *data)
{
    struct sn_err err = {0};
    *w = (struct world){.config = config_of(data)};
    if (sn_corpus_open_train(&w->corpus, &w->config, false, NULL, &err) != SN_OK ||
        sn_data_fit_of(&w->fit, &w->config, &w->corpus, &w->none, &err) != SN_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
}

/* The first tokens of a step's rows, in the order of the batch, each read by the rank that has it. */
static void rows_of(int32_t first[BATCH], const struct world *w, int64_t step, int ranks,
                    int sequences)
{
    int micros = BATCH / ranks / sequences;
    for (int rank = 0; rank < ranks; rank++) {
        int32_t ids[BATCH * SEQ], targets[BATCH * SEQ];
        int64_t number[BATCH];
        struct sn_sample_count count;
        struct sn_err err = {0};
        struct sn_loader l = {.config = &w->config,
                              .corpus = &w->corpus,
                              .blend = &w->fit.blend,
                              .rank = rank,
                              .ranks = ranks,
                              .sequences = sequences,
                              .place = {.seq = SEQ},
                              .ids = ids,
                              .targets = targets};
        if (sn_loader_step(&l, step, micros, number, &count, &err) != SN_OK)
            abort();
        for (int m = 0; m < micros; m++)
            for (int i = 0; i < sequences; i++)
                first[sn_loader_first(&l, m) + i] = ids[(m * sequences + i) * SEQ];
    }
}

static const char blend[] =
    "train: [{path: s0, weight: 0.61}, {path: s1, weight: 0.27}, {path: s2}], "
    "phases: [{from_step: 6, weights: {s0: 1, s2: 0.3}}]";

static void ranks_share_one_order(void)
{
    struct world w;
    int same = 0, of_last = 0;
    begin(&w, blend);
    for (int64_t step = 1; step <= 10; step++) {
        int32_t one[BATCH], all[BATCH], some[BATCH];
        rows_of(one, &w, step, 1, 1);
        rows_of(all, &w, step, 16, 1);
        rows_of(some, &w, step, 4, 2);
        same += memcmp(one, all, sizeof(one)) == 0 && memcmp(one, some, sizeof(one)) == 0;
        for (int i = 0; i < BATCH; i++)
            of_last += step < 6 && one[i] >= 2000;
    }
    tap_ok(same == 10, "%d of 10 steps have the same rows on 1, 4 and 16 ranks", same);
    tap_ok(of_last == 0, "before its phase a set gives nothing");
    sn_corpus_close(&w.corpus);
}

/* In an epoch of its own a set shows each sample once. */
static void each_sample_is_seen_once(void)
{
    struct world w;
    int seen[SETS][211] = {{0}};
    bool once = true;
    begin(&w, blend);
    for (int64_t step = 1; step <= 10; step++) {
        int32_t first[BATCH];
        rows_of(first, &w, step, 1, 1);
        for (int i = 0; i < BATCH; i++)
            once = once && ++seen[first[i] / 1000][first[i] % 1000 / SEQ] == 1;
    }
    tap_ok(once, "no sample comes twice in the first epoch");
    int64_t given = 0;
    for (int s = 0; s < SETS; s++)
        for (int i = 0; i < samples[s]; i++)
            given += seen[s][i];
    tap_ok(given == 160, "and all of them are some set's");
    sn_corpus_close(&w.corpus);
}

static void one_set_is_read_as_ever(void)
{
    struct world plain, listed;
    int same = 0;
    begin(&plain, "train: s0");
    begin(&listed, "train: [{path: s0, weight: 3, name: other}]");
    for (int64_t step = 1; step <= 20; step++) {
        int32_t a[BATCH], b[BATCH];
        rows_of(a, &plain, step, 2, 1);
        rows_of(b, &listed, step, 2, 1);
        bool is_it = memcmp(a, b, sizeof(a)) == 0;
        for (int i = 0; i < BATCH; i++)
            is_it = is_it &&
                    a[i] == SEQ * (int32_t)sn_data_sample_of(SN_ORDER_SHUFFLED, 5, 0, samples[0],
                                                             (step - 1) * BATCH + i);
        same += is_it;
    }
    tap_ok(same == 20, "a list of one set is read as the set itself: %d of 20 steps", same);
    sn_corpus_close(&plain.corpus);
    sn_corpus_close(&listed.corpus);
}

static void the_past_is_known_again(void)
{
    struct world a, b, c;
    begin(&a, blend);
    begin(&b, "train: [{path: s0, weight: 0.61}, {path: s1, weight: 0.27}, {path: s2}], "
              "phases: [{from_step: 6, weights: {s2: 1}}]");
    begin(&c, "train: [{path: s0, weight: 0.62}, {path: s1, weight: 0.27}, {path: s2}], "
              "phases: [{from_step: 6, weights: {s0: 1, s2: 0.3}}]");
    const struct sn_data_sets *sets = &a.config.data.train;
    uint64_t past = sn_blend_past(&a.fit.blend, sets, 80);
    tap_ok(past != 0 && past == sn_blend_past(&b.fit.blend, sets, 80),
           "another phase to come leaves the past as it was");
    tap_ok(sn_blend_past(&a.fit.blend, sets, 160) != sn_blend_past(&b.fit.blend, sets, 160),
           "and is another past in the end");
    tap_ok(past != sn_blend_past(&c.fit.blend, sets, 80), "other weights are another past");
    sn_corpus_close(&a.corpus);
    sn_corpus_close(&b.corpus);
    begin(&b, "train: s0");
    tap_ok(sn_blend_past(&b.fit.blend, &b.config.data.train, 160) == 0, "of one set it is none");
    sn_corpus_close(&b.corpus);
    begin(&b, "train: [{path: s0}, {path: s1}], phases: [{from_step: 1, weights: {s0: 1}}, "
              "{from_step: 6, weights: {s0: 1, s1: 1}}]");
    tap_ok(sn_blend_past(&b.fit.blend, &b.config.data.train, 80) == 0,
           "nor before another set begins");
    sn_corpus_close(&b.corpus);
    sn_corpus_close(&c.corpus);
}

static void sizes_are_weights(void)
{
    struct world w;
    begin(&w, "train: [{path: s0}, {path: s1}, {path: s2}]");
    bool good = true;
    for (int s = 0; s < SETS; s++)
        good = good && llabs(sn_blend_given(&w.fit.blend, s, 343000) - 1000LL * samples[s]) <= 8;
    tap_ok(good, "without weights all sets are read equally often");
    sn_corpus_close(&w.corpus);
}

static void said(const char *data, const char *want, const char *want_words, const char *what)
{
    struct sn_config c = config_of(data);
    struct sn_data_fit f = {0};
    struct sn_err err = {0};
    struct sn_str words = {0};
    if (sn_data_fit_find(&f, &c, &err) == SN_OK)
        sn_data_fit_warn(&words, &f, &c);
    tap_text(err.text, want, what);
    tap_text(words.p ? words.p : "", want_words, "and this is said");
    sn_str_fini(&words);
}

static void what_does_not_do_is_refused(void)
{
    said(
        "train: [{path: s0, weight: 3}, {path: s2, weight: 1, epochs: 0.5}]",
        "run.yaml: data.train: set 's2' has 17 sequences in 0.5 epochs; they are used up in step 5 "
        "of 10, and all steps take 40; want epochs: 1.15, train.steps: 4, or a smaller weight",
        "", "a set that is used up");
    said("train: [{path: s0, weight: 3}, {path: s2, weight: 1, epochs: 1.15}]", "", "",
         "what works is what was said");
    said(
        "train: [{path: s0, weight: 1}, {path: s1, weight: 1.0e-9}, {path: s2, weight: 1.0e+3}]",
        "run.yaml: data.train: a set's weight is less than one in 4294967296 of all; want a larger "
        "one, or leave the set out",
        "", "a weight that is none");
    said("train: [{path: s0}, {path: gone/s9}], phases: [{from_step: 11, weights: {s0: 1}}]", "",
         "run.yaml: data.train: neither gone/s9.idx nor gone/s9.bin is on this host, so the data "
         "was "
         "not looked at\nrun.yaml: data.phases: the phase from step 11 on is behind the last step "
         "(10)\n",
         "a set that is elsewhere, and a phase that never begins");
    struct sn_err err = {0};
    struct sn_data_writer *w = NULL;
    if (sn_data_writer_create(&w, "few", 8, &err) != SN_OK ||
        sn_data_writer_add(w, (int32_t[]){1, 2, 3, 4}, 4, &err) != SN_OK ||
        sn_data_writer_finish(w, &err) != SN_OK)
        abort();
    sn_data_writer_destroy(w);
    said("train: [{path: s0}, {path: few}]",
         "run.yaml: data.train: set 'few' has 4 tokens, fewer than one sequence wants (model.seq + "
         "1 "
         "= 5); use more text, or a shorter model.seq",
         "", "a set without a sequence");
}

int main(void)
{
    char folder[] = "/tmp/sennit-corpus-XXXXXX";
    static const char *const left[] = {"s0.bin", "s0.idx", "s1.bin",  "s1.idx",
                                       "s2.bin", "s2.idx", "few.bin", "few.idx"};
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return 1;
    write_sets();
    ranks_share_one_order();
    each_sample_is_seen_once();
    one_set_is_read_as_ever();
    the_past_is_known_again();
    sizes_are_weights();
    what_does_not_do_is_refused();
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
        (void)unlink(left[i]);
    (void)rmdir(folder);
    return tap_done();
}
