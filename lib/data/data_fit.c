#include "lib/data/data_fit.h"

#include "lib/base/mem.h"
#include "lib/data/data_format.h"
#include "lib/data/data_tokenizer.h"
#include "lib/data/mask.h"

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
static enum sn_status too_few(const struct sn_set_fit *f, const char *key, const char *hint,
                              const struct sn_config *c, struct sn_err *err)
{
    return sn_fail(err, SN_EINPUT,
                   "%s: %s: %s%s%shas %lld token%s, fewer than one sequence wants (model.seq + 1 = "
                   "%d); %s, or a shorter model.seq",
                   c->path, key, *f->name ? "set '" : "", f->name, *f->name ? "' " : "",
                   (long long)f->tokens, f->tokens == 1 ? "" : "s", c->model.seq + 1, hint);
}

static enum sn_status check_train(const struct sn_data_fit *f, const struct sn_config *c,
                                  struct sn_err *err)
{
    for (int i = 0; i < f->n_train; i++)
        if (f->train[i].is_here && f->train[i].samples == 0)
            return too_few(&f->train[i], "data.train", "use more text", c, err);
    return SN_OK;
}

static enum sn_status check_valid(const struct sn_data_fit *f, const struct sn_config *c,
                                  struct sn_err *err)
{
    char hint[64] = "use more text";
    for (int i = 0; i < f->n_valid; i++) {
        bool is_pair = f->n_valid == 1 && f->n_train == 1 && f->has_train; /* cut from one text */
        if (!f->valid[i].is_here || f->valid[i].samples > 0)
            continue;
        double share =
            share_for((int64_t)c->model.seq + 1, f->valid[i].tokens + f->train[0].tokens);
        if (is_pair && share > 0)
            (void)snprintf(hint, sizeof(hint), "build both anew with --valid %g", share);
        return too_few(&f->valid[i], "data.valid", hint, c, err);
    }
    return SN_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static bool exists(const char *prefix, const char *suffix, bool *known)
{
    char *path = sn_data_file_path(prefix, suffix);
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

static void take(struct sn_set_fit *f, const struct sn_data *d, const struct sn_config *c)
{
    struct sn_data_info info;
    sn_data_info(d, &info);
    f->is_here = true;
    f->tokens = info.tokens;
    f->samples = sn_data_samples(d, c->model.seq);
    f->has_idle_mask = c->data.loss == SN_LOSS_ALL && sn_data_mask_exists(f->path);
}

static enum sn_status find(struct sn_set_fit *f, const struct sn_config *c, struct sn_err *err)
{
    struct sn_data *d = NULL;
    if (is_absent(f->path))
        return SN_OK;
    SN_TRY(sn_data_open(&d, f->path, err));
    take(f, d, c);
    enum sn_status st = sn_corpus_open_mask(d, f->path, c, NULL, err);
    if (st == SN_OK)
        st = sn_corpus_open_prompt(d, c, true, NULL, err);
    if (st == SN_OK && f->samples > 0)
        st = sn_data_scan(d, c->model.vocab, SN_DATA_SCAN_BYTES, err);
    sn_data_close(d);
    return st;
}

/* The sets that the run file names. */
static void name_sets(struct sn_data_fit *f, const struct sn_config *c)
{
    *f = (struct sn_data_fit){.n_train = c->data.train.n};
    f->n_valid = c->train.eval_every > 0 ? sn_valid_sets(&c->data) : 0; /* else never read */
    for (int i = 0; i < f->n_train; i++)
        f->train[i] = (struct sn_set_fit){.name = sn_set_name(&c->data.train, i),
                                          .path = sn_set_path(&c->data.train, i)};
    for (int i = 0; i < f->n_valid; i++) {
        struct sn_valid_set v = sn_valid_set(&c->data, i);
        f->valid[i] = (struct sn_set_fit){.name = v.name, .path = v.path};
    }
}

/* What is known of the sets is known: does it do? */
static enum sn_status judge(struct sn_data_fit *f, const struct sn_config *c, struct sn_err *err)
{
    int64_t samples[SN_SETS_MAX];
    f->has_train = f->n_train > 0;
    f->has_valid = f->n_valid > 0;
    for (int i = 0; i < f->n_train; i++) {
        f->has_train = f->has_train && f->train[i].is_here;
        samples[i] = f->train[i].samples;
    }
    for (int i = 0; i < f->n_valid; i++)
        f->has_valid = f->has_valid && f->valid[i].is_here;
    SN_TRY(check_train(f, c, err));
    if (f->has_train)
        SN_TRY(sn_blend_of_run(&f->blend, c, samples, err));
    return check_valid(f, c, err);
}

int sn_data_fit_absent(const struct sn_data_fit *f)
{
    int n = 0;
    for (int i = 0; i < f->n_train; i++)
        n += !f->train[i].is_here;
    for (int i = 0; i < f->n_valid; i++)
        n += !f->valid[i].is_here;
    return n;
}

enum sn_status sn_data_fit_find(struct sn_data_fit *out, const struct sn_config *c,
                                struct sn_err *err)
{
    struct sn_data_fit f;
    name_sets(&f, c);
    SN_TRY(sn_data_tokenizer_of_run(&f.tokenizer, c, err));
    for (int i = 0; i < f.n_train; i++)
        SN_TRY(find(&f.train[i], c, err));
    for (int i = 0; i < f.n_valid; i++)
        SN_TRY(find(&f.valid[i], c, err));
    SN_TRY(judge(&f, c, err));
    *out = f;
    return SN_OK;
}

enum sn_status sn_data_fit_of(struct sn_data_fit *out, const struct sn_config *c,
                              const struct sn_corpus *train, const struct sn_corpus *valid,
                              struct sn_err *err)
{
    name_sets(out, c);
    out->n_valid = valid->n;
    for (int i = 0; i < train->n; i++)
        take(&out->train[i], train->set[i], c);
    for (int i = 0; i < valid->n; i++)
        take(&out->valid[i], valid->set[i], c);
    return judge(out, c, err);
}

/* --- words ------------------------------------------------------------------------------------ */

static void warn_absent(struct sn_str *out, const struct sn_config *c, const char *key,
                        const struct sn_set_fit *f)
{
    int n = (int)sn_data_prefix_length(f->path);
    if (!f->is_here)
        sn_str_add(out,
                   "%s: data.%s: neither %.*s.idx nor %.*s.bin is on this host, so the data was "
                   "not looked at\n",
                   c->path, key, n, f->path, n, f->path);
}

static void warn_mask(struct sn_str *out, const struct sn_config *c, const char *key,
                      const struct sn_set_fit *f)
{
    if (f->has_idle_mask)
        sn_str_add(out,
                   "%s: data.%s: %.*s.mask is not used, all tokens count; data.loss: mask counts "
                   "those that it says\n",
                   c->path, key, (int)sn_data_prefix_length(f->path), f->path);
}

/* The most samples that a phase takes of a set in a batch. */
static int64_t most_of_batch(const struct sn_blend *b, int set, const struct sn_config *c)
{
    int64_t most = 0;
    for (int i = 0; i < b->n_phases; i++) {
        int64_t first = b->phase[i].first,
                n = sn_blend_given(b, set, first + c->train.global_batch) -
                    sn_blend_given(b, set, first);
        most = n > most ? n : most;
    }
    return most;
}

static void warn_small(struct sn_str *out, const struct sn_data_fit *f, int set,
                       const struct sn_config *c)
{
    const struct sn_set_fit *s = &f->train[set];
    int64_t most = most_of_batch(&f->blend, set, c);
    const char *plural = s->samples == 1 ? "" : "s";
    if (s->samples >= most)
        return;
    if (!c->data.train.is_list)
        sn_str_add(out,
                   "%s: data.train: %s has %lld sequence%s, fewer than train.global_batch (%d): "
                   "every step sees some of them more than once\n",
                   c->path, s->path, (long long)s->samples, plural, c->train.global_batch);
    else
        sn_str_add(out,
                   "%s: data.train: set '%s' has %lld sequence%s, fewer than its share of a batch "
                   "(%lld): such steps see some of them more than once\n",
                   c->path, s->name, (long long)s->samples, plural, (long long)most);
}

void sn_data_fit_warn(struct sn_str *out, const struct sn_data_fit *f, const struct sn_config *c)
{
    const struct sn_data_phases *p = &c->data.phases;
    for (int i = 0; i < f->n_train; i++)
        warn_absent(out, c, "train", &f->train[i]);
    for (int i = 0; i < f->n_valid; i++)
        warn_absent(out, c, "valid", &f->valid[i]);
    for (int i = 0; i < f->n_train; i++)
        warn_mask(out, c, "train", &f->train[i]);
    for (int i = 0; i < f->n_valid; i++)
        warn_mask(out, c, "valid", &f->valid[i]);
    for (int i = 0; i < f->n_train && f->has_train; i++)
        warn_small(out, f, i, c);
    for (int i = 0; i < p->n; i++)
        if (p->from_step[i] > c->train.steps)
            sn_str_add(
                out,
                "%s: data.phases: the phase from step %lld on is behind the last step (%lld)\n",
                c->path, (long long)p->from_step[i], (long long)c->train.steps);
    for (int i = 0; i < f->n_valid; i++) {
        const struct sn_set_fit *v = &f->valid[i];
        if (v->is_here && sn_data_eval_sequences(c, v->samples) < c->train.eval_sequences)
            sn_str_add(out,
                       "%s: train.eval_sequences: %s has %lld sequence%s, not %d: each evaluation "
                       "takes all of them\n",
                       c->path, v->path, (long long)v->samples, v->samples == 1 ? "" : "s",
                       c->train.eval_sequences);
    }
}
