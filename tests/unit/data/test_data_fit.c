/*
 * test_data_fit.c - what is said of token files before a run begins.
 */
#include "lib/data/data_fit.h"
#include "lib/data/data_format.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <unistd.h>

static void write_tokens(const char *prefix, int n, int vocab)
{
    struct sn_data_writer *w = NULL;
    struct sn_err err = {0};
    int32_t tokens[4096];
    for (int i = 0; i < n; i++)
        tokens[i] = i % vocab;
    enum sn_status st = sn_data_writer_create(&w, prefix, SN_TOK_U16, &err);
    if (st == SN_OK)
        st = sn_data_writer_add(w, tokens, n, &err);
    if (st == SN_OK)
        st = sn_data_writer_finish(w, &err);
    sn_data_writer_destroy(w);
    if (st != SN_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
}

static struct sn_config config(void)
{
    struct sn_config c = {
        .model = {.vocab = 100, .seq = 64},
        .train = {.steps = 1, .global_batch = 4, .eval_every = 10, .eval_sequences = 8}};
    sn_sets_take(&c.data.train, "train");
    sn_sets_take(&c.data.valid, "valid");
    (void)snprintf(c.path, sizeof(c.path), "run.yaml");
    return c;
}

static void said(const struct sn_config *c, const char *want_error, const char *want_words,
                 const char *what)
{
    struct sn_data_fit f = {0};
    struct sn_err err = {0};
    struct sn_str words = {0};
    if (sn_data_fit_find(&f, c, &err) == SN_OK)
        sn_data_fit_warn(&words, &f, c);
    tap_text(err.text, want_error, what);
    tap_text(words.p ? words.p : "", want_words, "and this is said");
    sn_str_fini(&words);
}

static void enough_is_silence(void)
{
    struct sn_config c = config();
    struct sn_data_fit f = {0};
    write_tokens("train", 1000, 100);
    write_tokens("valid", 600, 100);
    said(&c, "", "", "enough of everything");
    (void)sn_data_fit_find(&f, &c, NULL);
    tap_ok(f.has_train && f.train[0].samples == 15 && f.valid[0].samples == 9 &&
               sn_data_eval_sequences(&c, f.valid[0].samples) == 8,
           "samples are counted");
}

static void few_validation_sequences_are_all_taken(void)
{
    struct sn_config c = config();
    write_tokens("valid", 200, 100);
    said(&c, "",
         "run.yaml: train.eval_sequences: valid has 3 sequences, not 8: each evaluation takes all "
         "of them\n",
         "3 sequences for 8");
    c.train.eval_every = 0;
    said(&c, "", "", "who never evaluates hears nothing of it");
}

static void none_is_an_error_that_says_what_would_work(void)
{
    struct sn_config c = config();
    write_tokens("valid", 64, 100);
    said(&c,
         "run.yaml: data.valid: has 64 tokens, fewer than one sequence wants (model.seq + 1 = 65); "
         "build both anew with --valid 0.1, or a shorter model.seq",
         "", "64 tokens of 1064 are no sequence of 65");
    write_tokens("train", 80, 100);
    said(&c,
         "run.yaml: data.valid: has 64 tokens, fewer than one sequence wants (model.seq + 1 = 65); "
         "use more text, or a shorter model.seq",
         "", "of 144 no usual share is one either");
    write_tokens("train", 1, 100);
    said(&c,
         "run.yaml: data.train: has 1 token, fewer than one sequence wants (model.seq + 1 = 65); "
         "use more text, or a shorter model.seq",
         "", "nor can one train on it");
}

static void a_small_text_is_said_to_repeat(void)
{
    struct sn_config c = config();
    write_tokens("train", 130, 100);
    write_tokens("valid", 600, 100);
    said(&c, "",
         "run.yaml: data.train: train has 2 sequences, fewer than train.global_batch (4): every "
         "step sees some of them more than once\n",
         "2 sequences for batches of 4");
}

static void another_tokenizer_is_found(void)
{
    struct sn_config c = config();
    write_tokens("train", 1000, 101);
    said(&c,
         "train.bin: byte 200: token 100 is 100, outside the vocabulary 0 .. 99; raise model.vocab "
         "or build the data with this model's tokenizer",
         "", "a token that the model does not know");
}

static void what_is_elsewhere_is_said(void)
{
    struct sn_config c = config();
    write_tokens("train", 1000, 100);
    sn_sets_take(&c.data.valid, "gone.bin");
    said(&c, "",
         "run.yaml: data.valid: neither gone.idx nor gone.bin is on this host, so the data was not "
         "looked at\n",
         "no file");
    (void)fclose(fopen("gone.bin", "w"));
    said(&c,
         "gone.idx: there is no such file; 'sennit-data build -o PREFIX' writes PREFIX.bin and "
         "PREFIX.idx",
         "", "half a pair is an error");
    sn_sets_take(&c.data.train, "");
    sn_sets_take(&c.data.valid, "");
    said(&c, "", "", "a plan needs no data");
}

int main(void)
{
    char folder[] = "/tmp/sennit-fit-XXXXXX";
    static const char *const left[] = {"train.bin", "train.idx", "valid.bin", "valid.idx",
                                       "gone.bin"};
    if (!mkdtemp(folder) || chdir(folder) != 0) {
        printf("Bail out! no folder for the test\n");
        return 1;
    }
    enough_is_silence();
    few_validation_sequences_are_all_taken();
    none_is_an_error_that_says_what_would_work();
    a_small_text_is_said_to_repeat();
    another_tokenizer_is_found();
    what_is_elsewhere_is_said();
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
        (void)remove(left[i]);
    if (chdir("/") != 0 || rmdir(folder) != 0)
        printf("# %s stays behind\n", folder);
    return tap_done();
}
