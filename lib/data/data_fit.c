#include "lib/data/data_fit.h"

#include "lib/base/mem.h"
#include "lib/data/data_format.h"
#include "lib/data/data_tokenizer.h"

#include <stdio.h>
#include <unistd.h>

int64_t sn_data_eval_sequences(const struct sn_config *c, int64_t samples)
{
    return samples < c->train.eval_sequences ? samples : c->train.eval_sequences;
}

/* The smallest usual share of both files' tokens that holds a sequence, also where
 * `sennit-data build` cuts between documents and gives up to a tenth less; 0: none does. */
static double share_for(int64_t want, int64_t tokens)
{
    static const double usual[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.3};
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if (0.9 * usual[i] * (double)tokens >= (double)want)
            return usual[i];
    return 0;
}

/* `hint`: where more tokens come from. */
static enum sn_status too_few(const struct sn_data *d, const char *key, const char *hint,
                              const struct sn_config *c, struct sn_err *err)
{
    struct sn_data_info info;
    sn_data_info(d, &info);
    return sn_fail(err, SN_EINPUT,
                   "%s: %s: has %lld token%s, fewer than one sequence wants (model.seq + 1 = %d); "
                   "%s, or a shorter model.seq",
                   c->path, key, (long long)info.tokens, info.tokens == 1 ? "" : "s",
                   c->model.seq + 1, hint);
}

enum sn_status sn_data_fit_train(const struct sn_data *d, const struct sn_config *c,
                                 struct sn_err *err)
{
    if (sn_data_samples(d, c->model.seq) > 0)
        return SN_OK;
    return too_few(d, "data.train", "use more text", c, err);
}

enum sn_status sn_data_fit_valid(const struct sn_data *d, const struct sn_data *train,
                                 const struct sn_config *c, struct sn_err *err)
{
    struct sn_data_info info, rest = {0};
    char hint[64] = "use more text";
    if (sn_data_samples(d, c->model.seq) > 0)
        return SN_OK;
    sn_data_info(d, &info);
    if (train)
        sn_data_info(train, &rest);
    double share = share_for((int64_t)c->model.seq + 1, info.tokens + rest.tokens);
    if (train && share > 0)
        (void)snprintf(hint, sizeof(hint), "build both anew with --valid %g", share);
    return too_few(d, "data.valid", hint, c, err);
}

/* --- files ------------------------------------------------------------------------------------ */

static bool exists(const char *prefix, const char *suffix, bool *known)
{
    char *path = sn_format("%.*s.%s", (int)sn_data_prefix_length(prefix), prefix, suffix);
    bool there = path && access(path, F_OK) == 0;
    *known = *known && path;
    sn_free(path);
    return there;
}

/* Neither of its files; one alone is an error to open. */
static bool is_absent(const char *prefix)
{
    bool known = true, idx = exists(prefix, "idx", &known), bin = exists(prefix, "bin", &known);
    return known && !idx && !bin;
}

static enum sn_status find_train(struct sn_data_fit *out, struct sn_data **d,
                                 const struct sn_config *c, struct sn_err *err)
{
    struct sn_data_info info;
    if (!c->data.train[0])
        return SN_OK;
    out->train_is_absent = is_absent(c->data.train);
    if (out->train_is_absent)
        return SN_OK;
    SN_TRY(sn_data_open(d, c->data.train, err));
    sn_data_info(*d, &info);
    out->has_train = true;
    out->train_tokens = info.tokens;
    out->train_samples = sn_data_samples(*d, c->model.seq);
    SN_TRY(sn_data_fit_train(*d, c, err));
    return sn_data_scan(*d, c->model.vocab, SN_DATA_SCAN_BYTES, err);
}

static enum sn_status find_valid(struct sn_data_fit *out, struct sn_data **d,
                                 const struct sn_data *train, const struct sn_config *c,
                                 struct sn_err *err)
{
    struct sn_data_info info;
    if (!c->data.valid[0] || c->train.eval_every == 0)
        return SN_OK; /* never read */
    out->valid_is_absent = is_absent(c->data.valid);
    if (out->valid_is_absent)
        return SN_OK;
    SN_TRY(sn_data_open(d, c->data.valid, err));
    sn_data_info(*d, &info);
    out->has_valid = true;
    out->valid_tokens = info.tokens;
    out->valid_samples = sn_data_samples(*d, c->model.seq);
    out->eval_sequences = sn_data_eval_sequences(c, out->valid_samples);
    SN_TRY(sn_data_fit_valid(*d, train, c, err));
    return sn_data_scan(*d, c->model.vocab, SN_DATA_SCAN_BYTES, err);
}

enum sn_status sn_data_fit_find(struct sn_data_fit *out, const struct sn_config *c,
                                struct sn_err *err)
{
    struct sn_data *train = NULL, *valid = NULL;
    struct sn_data_fit found = {0};
    struct sn_data_tokenizer tokenizer;
    SN_TRY(sn_data_tokenizer_of_run(&tokenizer, c, err));
    enum sn_status st = find_train(&found, &train, c, err);
    if (st == SN_OK)
        st = find_valid(&found, &valid, train, c, err);
    sn_data_close(train);
    sn_data_close(valid);
    if (st == SN_OK)
        *out = found;
    return st;
}

/* --- words ------------------------------------------------------------------------------------ */

static void warn_absent(struct sn_str *out, const struct sn_config *c, const char *key,
                        const char *prefix)
{
    int n = (int)sn_data_prefix_length(prefix);
    sn_str_add(out,
               "%s: data.%s: neither %.*s.idx nor %.*s.bin is on this host, so the data was not "
               "looked at\n",
               c->path, key, n, prefix, n, prefix);
}

void sn_data_fit_warn(struct sn_str *out, const struct sn_data_fit *f, const struct sn_config *c)
{
    if (f->train_is_absent)
        warn_absent(out, c, "train", c->data.train);
    if (f->valid_is_absent)
        warn_absent(out, c, "valid", c->data.valid);
    if (f->has_train && f->train_samples < c->train.global_batch)
        sn_str_add(out,
                   "%s: data.train: %s has %lld sequence%s, fewer than train.global_batch (%d): "
                   "every step sees some of them more than once\n",
                   c->path, c->data.train, (long long)f->train_samples,
                   f->train_samples == 1 ? "" : "s", c->train.global_batch);
    if (f->has_valid && f->eval_sequences < c->train.eval_sequences)
        sn_str_add(out,
                   "%s: train.eval_sequences: %s has %lld sequence%s, not %d: each evaluation "
                   "takes all of them\n",
                   c->path, c->data.valid, (long long)f->valid_samples,
                   f->valid_samples == 1 ? "" : "s", c->train.eval_sequences);
}
