#include "lib/data/corpus.h"

#include "lib/base/rng.h"
#include "lib/config/batch.h"
#include "lib/data/data_fit.h"
#include "lib/data/data_format.h"
#include "lib/data/features.h"
#include "lib/data/mask.h"

#include <math.h>
#include <stdio.h>

/* --- files -------------------------------------------------------------------------------------- */

enum sn_status sn_corpus_open_mask(struct sn_data *d, const char *path, const struct sn_config *c,
                                   struct sn_open_files *files, struct sn_err *err)
{
    if (c->data.loss == SN_LOSS_ALL)
        return SN_OK;
    SN_TRY(sn_data_open_mask(d, files, err));
    if (sn_data_mask_counted(sn_data_mask(d)) > 0)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: data.loss: by the mask of %s no token counts; write another, or "
                   "set data.loss: all",
                   c->path, path);
}

/* An entry for each document that begins before the end of the last sample. */
static enum sn_status entries_are_there(const struct sn_data *d, int64_t samples,
                                        struct sn_err *err)
{
    struct sn_data_info info;
    const struct sn_features *f = sn_data_features(d);
    int64_t entries = sn_features_entries(f);
    sn_data_info(d, &info);
    if (entries >= samples && entries <= info.documents)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: features of %lld documents, but its token file has %lld, %lld of them "
                   "samples; want an entry for each document",
                   sn_features_path(f), (long long)entries, (long long)info.documents,
                   (long long)samples);
}

/* Those of a sample that begin later would see no prompt. */
static enum sn_status documents_are_samples(const struct sn_data *d, int64_t seq, int64_t samples,
                                            struct sn_err *err)
{
    struct sn_data_info info;
    sn_data_info(d, &info);
    for (int64_t i = 0; i <= samples; i++) {
        int64_t token = i <= info.documents ? sn_data_document_token(d, i) : info.tokens;
        if (token != i * seq)
            return sn_fail(
                err, SN_EINPUT,
                "%s: document %lld begins at token %lld; with train.prompt each document "
                "is a sample of model.seq: %lld tokens, and a token or another document "
                "follows the last",
                sn_data_path(d), (long long)i, (long long)token, (long long)seq);
    }
    return SN_OK;
}

enum sn_status sn_corpus_open_prompt(struct sn_data *d, const struct sn_config *c, bool checks,
                                     struct sn_open_files *files, struct sn_err *err)
{
    const struct sn_prompt_config *p = &c->train.prompt;
    struct sn_features_shape want = {sn_prompt_entry(p), p->size};
    int64_t samples = sn_data_samples(d, c->model.seq);
    if (sn_prompt_positions(p) == 0)
        return SN_OK;
    if (p->rows > 0)
        SN_TRY(sn_data_open_features(d, want, files, err));
    if (p->rows > 0 && checks)
        SN_TRY(entries_are_there(d, samples, err));
    return checks ? documents_are_samples(d, c->model.seq, samples, err) : SN_OK;
}

static enum sn_status open_set(struct sn_corpus *out, const char *path, const struct sn_config *c,
                               bool checks, struct sn_open_files *files, struct sn_err *err)
{
    struct sn_data **d = &out->set[out->n];
    SN_TRY(sn_data_open_shared(d, path, checks, files, err));
    out->n++;
    SN_TRY(sn_corpus_open_mask(*d, path, c, files, err));
    SN_TRY(sn_corpus_open_prompt(*d, c, checks, files, err));
    return checks ? sn_data_scan(*d, c->model.vocab, SN_DATA_SCAN_BYTES, err) : SN_OK;
}

enum sn_status sn_corpus_open_train(struct sn_corpus *out, const struct sn_config *c, bool checks,
                                    struct sn_open_files *files, struct sn_err *err)
{
    *out = (struct sn_corpus){0};
    for (int i = 0; i < c->data.train.n; i++)
        SN_TRY(open_set(out, sn_set_path(&c->data.train, i), c, checks, files, err));
    return SN_OK;
}

enum sn_status sn_corpus_open_valid(struct sn_corpus *out, const struct sn_config *c, bool checks,
                                    struct sn_open_files *files, struct sn_err *err)
{
    *out = (struct sn_corpus){0};
    for (int i = 0; i < sn_valid_sets(&c->data); i++)
        SN_TRY(open_set(out, sn_valid_set(&c->data, i).path, c, checks, files, err));
    return SN_OK;
}

void sn_corpus_close(struct sn_corpus *c)
{
    for (int i = 0; i < c->n; i++)
        sn_data_close(c->set[i]);
    *c = (struct sn_corpus){0};
}

/* --- order -------------------------------------------------------------------------------------- */

static enum sn_status add_phase(struct sn_blend *b, const struct sn_config *c, int phase,
                                struct sn_err *err)
{
    double weight[SN_SETS_MAX];
    uint64_t share[SN_SETS_MAX];
    bool is_said = sn_phase_weights(&c->data, phase, weight);
    for (int i = 0; i < b->n && !is_said; i++)
        weight[i] = (double)b->samples[i];
    if (!sn_blend_shares(share, weight, b->n))
        return sn_fail(err, SN_EINPUT,
                       "%s: data.%s: a set's weight is less than one in %lld of all; want a larger "
                       "one, or leave the set out",
                       c->path, phase < 0 ? "train" : "phases", 1LL << 32);
    int64_t first = phase < 0 ? 0 : sn_samples_before(&c->train, c->data.phases.from_step[phase]);
    sn_blend_add_phase(b, first, share);
    return SN_OK;
}

/* The step that takes sample `number`. */
static int64_t step_of(const struct sn_train_config *t, int64_t number)
{
    int64_t low = 1, high = t->steps;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sn_samples_before(t, middle + 1) > number)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Is there enough of a set for all steps? */
static enum sn_status check_epochs(const struct sn_blend *b, const struct sn_config *c, int set,
                                   struct sn_err *err)
{
    char hint[64] = "";
    const struct sn_data_sets *s = &c->data.train;
    int64_t end = sn_samples_before(&c->train, c->train.steps + 1);
    double most = floor(s->set[set].epochs * (double)b->samples[set]);
    int64_t limit = most < 0x1p62 ? (int64_t)most : INT64_MAX;
    int64_t at = s->set[set].epochs > 0 ? sn_blend_exceeds(b, set, limit, end) : -1;
    if (at < 0)
        return SN_OK;
    int64_t step = step_of(&c->train, at - 1), given = sn_blend_given(b, set, end);
    if (step > 1)
        (void)snprintf(hint, sizeof(hint), ", train.steps: %lld", (long long)step - 1);
    return sn_fail(err, SN_EINPUT,
                   "%s: data.train: set '%s' has %lld sequences in %g epochs; they are used up in "
                   "step %lld of %lld, and all steps take %lld; want epochs: %g%s, or a smaller "
                   "weight",
                   c->path, sn_set_name(s, set), (long long)limit, s->set[set].epochs,
                   (long long)step, (long long)c->train.steps, (long long)given,
                   ceil(100 * (double)given / (double)b->samples[set]) / 100, hint);
}

enum sn_status sn_blend_of_run(struct sn_blend *out, const struct sn_config *c,
                               const int64_t samples[], struct sn_err *err)
{
    const struct sn_data_phases *p = &c->data.phases;
    *out = (struct sn_blend){.n = c->data.train.n};
    for (int i = 0; i < out->n; i++)
        out->samples[i] = samples[i];
    for (int phase = p->n > 0 && p->from_step[0] == 1 ? 0 : -1; phase < p->n; phase++)
        SN_TRY(add_phase(out, c, phase, err));
    for (int i = 0; i < out->n; i++)
        SN_TRY(check_epochs(out, c, i, err));
    return SN_OK;
}

uint64_t sn_blend_past(const struct sn_blend *b, const struct sn_data_sets *sets, int64_t number)
{
    uint64_t past = 0;
    if (sn_blend_given(b, 0, number) == number)
        return 0;
    for (int i = 0; i < b->n; i++) {
        int64_t given = sn_blend_given(b, i, number);
        if (given > 0)
            past = sn_rng_mix(sn_rng_mix(sn_rng_key(past, sn_set_name(sets, i)), (uint64_t)given),
                              (uint64_t)b->samples[i]);
    }
    return past;
}

/* A blend whose counts were others would repeat samples, and leave some out. */
enum sn_status sn_blend_goes_on(const struct sn_blend *b, const struct sn_config *c, int64_t step,
                                uint64_t past, struct sn_err *err)
{
    if (sn_blend_past(b, &c->data.train, sn_samples_before(&c->train, step + 1)) == past)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: up to step %lld the run has read other sets, or other shares of them, than "
                   "data.train, data.phases and train.global_batch say now; want them as they were "
                   "and what is new in data.phases from step %lld on, or a run that begins anew",
                   c->path, (long long)step, (long long)step + 1);
}
