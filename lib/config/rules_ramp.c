/* rules_ramp.c - when the batches of train.ramp end, and what they go with. */
#include "lib/config/batch.h"
#include "lib/config/settings.h"

static enum sn_status lists_fit(const struct sn_ramp_config *r, int global_batch,
                                const struct sn_settings *s, struct sn_err *err)
{
    bool by_tokens = r->until_tokens.n > 0;
    const char *until = by_tokens ? "train.ramp.until_tokens" : "train.ramp.until";
    int ends = by_tokens ? r->until_tokens.n : r->n_until;
    if (r->n_batches > SN_RAMP_MAX)
        return sn_settings_fail(s, "train.ramp.batches", err, "%d sizes; want at most %d",
                                r->n_batches, SN_RAMP_MAX);
    if (by_tokens && r->n_until > 0)
        return sn_settings_fail(s, until, err,
                                "stands beside train.ramp.until; leave one of the two out");
    if (ends != r->n_batches)
        return sn_settings_fail(s, ends ? until : "train.ramp", err,
                                "%d ends of %d batches; want one for each in train.ramp.until or "
                                "train.ramp.until_tokens",
                                ends, r->n_batches);
    for (int k = 0; k < r->n_batches; k++) {
        int next = k + 1 < r->n_batches ? r->batches[k + 1] : global_batch;
        if (r->batches[k] >= next)
            return sn_settings_fail(s, "train.ramp.batches", err,
                                    "%d comes before %d; want sizes that grow, up to less than "
                                    "train.global_batch",
                                    r->batches[k], next);
    }
    return SN_OK;
}

/* The step that reaches so many tokens, where steps from `first` on take `batch` sequences and
 * those before took `samples`. */
static int64_t reaches(double tokens, int seq, int64_t first, int64_t samples, int batch)
{
    int64_t need = ((int64_t)tokens + seq - 1) / seq - samples; /* whole: tokens < 2^53 */
    return first - 1 + (need + batch - 1) / batch;
}

enum sn_status sn_ramp_derive(struct sn_config *c, const struct sn_settings *s, struct sn_err *err)
{
    struct sn_ramp_config *r = &c->train.ramp;
    if (r->n_batches == 0 && (r->n_until > 0 || r->until_tokens.n > 0))
        return sn_settings_fail(s, "train.ramp", err,
                                "has no effect without train.ramp.batches; name them, or leave it "
                                "out");
    SN_TRY(lists_fit(r, c->train.global_batch, s, err));
    int64_t samples = 0, before = 0;
    for (int k = 0; k < r->n_batches; k++) {
        r->ends[k] = r->n_until > 0 ? r->until[k]
                                    : reaches(r->until_tokens.v[k], c->model.seq, before + 1,
                                              samples, r->batches[k]);
        if (r->ends[k] <= before)
            return sn_settings_fail(s, r->n_until > 0 ? "train.ramp.until" : "train.ramp.until_tokens",
                                    err,
                                    "the batches of %d sequences have no step; want ends that grow",
                                    r->batches[k]);
        samples += (r->ends[k] - before) * r->batches[k];
        before = r->ends[k];
    }
    return SN_OK;
}
