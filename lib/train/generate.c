/*
 * generate.c - sampling text with the compiled generate program.
 *
 * The window of the last S tokens runs through the forward segment; the head segment gives the
 * logits of its last row. Every token costs a whole window: right for a look at what was learnt,
 * not for serving.
 */
#include "lib/train/trainer_state.h"

#include "lib/base/mem.h"
#include "lib/base/rng.h"

#include <math.h>

/* The k-th largest of n logits, by counting over a shrinking value range: no sort, no memory. */
static float kth_largest(const float *x, int n, int k)
{
    float low = INFINITY, high = -INFINITY;
    for (int i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    for (int round = 0; round < 64 && low < high; round++) {
        float middle = low + 0.5f * (high - low);
        int above = 0;
        for (int i = 0; i < n; i++)
            above += x[i] > middle;
        if (above >= k)
            low = middle;
        else
            high = middle;
        if (middle == low && middle == high)
            break;
    }
    return low;
}

static int32_t pick(const float *logits, int n, double temperature, int top_k, double u)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    if (temperature <= 0)
        return best;
    float least = top_k > 0 && top_k < n ? kth_largest(logits, n, top_k) : -INFINITY;
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (logits[i] > least || i == best)
            sum += exp((double)(logits[i] - logits[best]) / temperature);
    double left = u * sum;
    for (int i = 0; i < n; i++) {
        if (!(logits[i] > least || i == best))
            continue;
        left -= exp((double)(logits[i] - logits[best]) / temperature);
        if (left < 0)
            return i;
    }
    return best;
}

/* Put the last S tokens of prompt + made into the window; returns the row of the newest. */
static int64_t fill_window(int32_t *window, int64_t seq, const int32_t *tokens, int64_t n)
{
    int64_t first = n > seq ? n - seq : 0;
    for (int64_t i = 0; i < seq; i++)
        window[i] = first + i < n ? tokens[first + i] : 0;
    return n - first - 1;
}

static enum sn_status check_prompt(const struct sn_trainer *t, const struct sn_generate_options *o,
                                   struct sn_err *err)
{
    int vocab = t->env.config->model.vocab;
    for (int i = 0; i < o->n_prompt; i++)
        if (o->prompt[i] < 0 || o->prompt[i] >= vocab)
            return sn_fail(err, SN_EINPUT,
                           "--generate: token %d of the prompt is %d; this model knows 0..%d",
                           i + 1, o->prompt[i], vocab - 1);
    return o->n_prompt > 0 ? SN_OK
                           : sn_fail(err, SN_EINPUT,
                                     "--generate: the prompt is empty; give it at least one token");
}

enum sn_status sn_trainer_generate(struct sn_trainer *t, const struct sn_generate_options *o,
                                   struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    int64_t seq = c->model.seq;
    SN_TRY(check_prompt(t, o, err));
    t->state.config_hash = 0; /* of course it was saved under other settings */
    SN_TRY(sn_trainer_restore(t, false, SN_OK, err));
    SN_TRY(sn_trainer_publish(t, err));
    if (t->state.scalars.step == 0 && !c->train.init_from[0])
        return sn_fail(err, SN_EINPUT, "%s: there is no checkpoint to generate from; train first",
                       c->path);
    int64_t total = (int64_t)o->n_prompt + o->tokens;
    int32_t *tokens = sn_alloc_n((size_t)total, sizeof(*tokens));
    if (!tokens)
        return sn_fail(err, SN_ENOMEM, "generate: no memory for %lld tokens", (long long)total);
    for (int i = 0; i < o->n_prompt; i++)
        tokens[i] = o->prompt[i];
    int32_t *window = sn_exec_address(t->exec, &t->job->train, t->job->ids);
    const void *logits = NULL;
    uint64_t key = sn_rng_key(o->seed, "generate");
    enum sn_status st = SN_OK;
    for (int64_t n = o->n_prompt; n < total && st == SN_OK; n++) {
        struct sn_at at = {.micros = 1, .row = fill_window(window, seq, tokens, n)};
        st = sn_exec_segment(t->exec, &t->job->generate, 0, at, err);
        if (st == SN_OK)
            st = sn_exec_segment(t->exec, &t->job->generate, 1, at, err);
        if (st == SN_OK)
            st = sn_exec_fetch(t->exec, &t->job->generate, t->job->logits, &logits, err);
        if (st != SN_OK)
            break;
        tokens[n] = pick(logits, c->model.vocab, o->temperature, o->top_k,
                         sn_rng_uniform(key, (uint64_t)n));
        o->emit(o->self, tokens[n]);
    }
    sn_free(tokens);
    return st;
}
