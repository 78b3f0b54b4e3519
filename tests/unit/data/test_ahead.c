/*
 * test_ahead.c - batches that are read ahead are those that are read in time, and so are failures.
 */
#include "lib/data/ahead.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEQ = 8, BATCH = 4, MICROS = 2, STEPS = 6, VOCAB = 100, TOKENS = BATCH * SEQ };
enum { BAD_STEP = 4 }; /* a token of its last sample is no word */

struct batch {
    int32_t ids[TOKENS], targets[TOKENS], starts[TOKENS];
    int64_t first[MICROS];
    struct sn_sample_count count;
};

struct world {
    struct sn_config config;
    struct sn_corpus corpus;
    struct sn_blend blend;
    struct batch now; /* where the loader writes */
    struct sn_loader loader;
    struct sn_ahead ahead;
};

static void begin(struct world *w, bool is_bad)
{
    struct sn_err err = {0};
    struct sn_data_writer *f = NULL;
    int32_t token[STEPS * BATCH * SEQ + 1];
    for (int i = 0; i < STEPS * BATCH * SEQ + 1; i++)
        token[i] = (i * 7 + i / SEQ) % VOCAB;
    if (is_bad)
        token[BAD_STEP * BATCH * SEQ - 3] = VOCAB + 5;
    *w = (struct world){0};
    w->config.model.seq = SEQ;
    w->config.model.vocab = VOCAB;
    w->config.train.global_batch = BATCH;
    w->config.train.steps = STEPS;
    sn_sets_take(&w->config.data.train, "ahead");
    w->config.data.order = SN_ORDER_SEQUENTIAL;
    w->config.data.documents = SN_DOCUMENTS_APART;
    w->config.layout.micro_batch = BATCH / MICROS;
    if (sn_data_writer_create(&f, "ahead", 8, &err) != SN_OK ||
        sn_data_writer_add(f, token, 37, &err) != SN_OK ||
        sn_data_writer_add(f, token + 37, STEPS * BATCH * SEQ + 1 - 37, &err) != SN_OK ||
        sn_data_writer_finish(f, &err) != SN_OK ||
        sn_corpus_open_train(&w->corpus, &w->config, false, NULL, &err) != SN_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    sn_data_writer_destroy(f);
    int64_t samples = sn_data_samples(w->corpus.set[0], SEQ);
    if (sn_blend_of_run(&w->blend, &w->config, &samples, &err) != SN_OK)
        abort();
    w->loader = (struct sn_loader){.config = &w->config,
                                   .corpus = &w->corpus,
                                   .blend = &w->blend,
                                   .ranks = 1,
                                   .sequences = w->config.layout.micro_batch,
                                   .place = {.seq = SEQ},
                                   .ids = w->now.ids,
                                   .targets = w->now.targets,
                                   .starts = w->now.starts};
    if (sn_ahead_init(&w->ahead, &w->loader, TOKENS, MICROS, &err) != SN_OK)
        abort();
}

static void end(struct world *w)
{
    sn_ahead_fini(&w->ahead);
    sn_corpus_close(&w->corpus);
}

/* As the trainer does; time: is there some while the step is made? */
static enum sn_status take(struct world *w, int64_t step, bool time, struct batch *seen,
                           struct sn_err *err)
{
    memset(&w->now, 0xff, sizeof(w->now));
    SN_TRY(sn_ahead_take(&w->ahead, &w->loader, step, MICROS, w->now.first, &w->now.count, err));
    *seen = w->now;
    w->ahead.wanted = step < STEPS ? step + 1 : 0;
    if (time)
        sn_ahead_read(&w->ahead);
    return SN_OK;
}

static void batches_are_those_that_are_read_in_time(void)
{
    struct world w;
    struct sn_err err = {0};
    int same = 0, ahead = 0, kept = 0;
    begin(&w, false);
    for (int64_t step = 1; step <= STEPS; step++) {
        struct batch seen, want;
        ahead += w.ahead.step == step;
        enum sn_status st = take(&w, step, step != 3, &seen, &err);
        kept += memcmp(&w.now, &seen, sizeof(seen)) == 0; /* a device may still read it */
        enum sn_status direct =
            sn_loader_step(&w.loader, step, MICROS, w.now.first, &w.now.count, &err);
        want = w.now;
        same += st == SN_OK && direct == SN_OK && memcmp(&seen, &want, sizeof(want)) == 0;
    }
    tap_ok(same == STEPS, "%d of %d batches are those of their steps", same, STEPS);
    tap_ok(ahead == STEPS - 2, "%d were read ahead: not the first, nor one without time", ahead);
    tap_ok(kept == STEPS, "reading ahead leaves the batch of the step alone");
    tap_ok(w.ahead.step == 0, "nothing is read behind the last step");
    struct batch seen;
    tap_ok(take(&w, 2, true, &seen, &err) == SN_OK && take(&w, 5, false, &seen, &err) == SN_OK &&
               seen.first[0] == 4 * BATCH,
           "another step than the one that was read ahead is read when it comes");
    end(&w);
}

static void a_failure_is_that_of_its_step(void)
{
    char text[2][sizeof(((struct sn_err *)0)->text)] = {"", ""};
    int64_t failed[2] = {0, 0};
    for (int time = 0; time < 2; time++) {
        struct world w;
        struct batch seen;
        begin(&w, true);
        for (int64_t step = 1; step <= STEPS && !failed[time]; step++) {
            struct sn_err err = {0};
            if (take(&w, step, time, &seen, &err) == SN_EINPUT)
                failed[time] = step;
            memcpy(text[time], err.text, sizeof(err.text));
        }
        end(&w);
    }
    tap_ok(failed[0] == BAD_STEP && failed[1] == BAD_STEP,
           "a batch that cannot be read fails its step, %d (%lld, read ahead %lld)", (int)BAD_STEP,
           (long long)failed[0], (long long)failed[1]);
    tap_ok(text[0][0] && strcmp(text[0], text[1]) == 0, "in the same words: %s", text[1]);
}

int main(void)
{
    char folder[] = "/tmp/sennit-ahead-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return 1;
    batches_are_those_that_are_read_in_time();
    a_failure_is_that_of_its_step();
    (void)unlink("ahead.bin"), (void)unlink("ahead.idx"), (void)rmdir(folder);
    return tap_done();
}
