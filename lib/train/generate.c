/*
 * generate.c - sampling text with the compiled generate program.
 *
 * The window of the last S tokens runs through the forward segment; the head segment gives the
 * logits of its last row. Every token costs a whole window (8 layers of 256, S 512: 0.44 s of a
 * processor): right for a look at what was learnt, not for serving.
 *
 * What a cache of keys and values would take: buffers of class STATE in the generate program, [S, G d] twice a
 * layer; a second generate program whose micro-batch is one row, of which attention reads the cache
 * (an operation beside ATTENTION with the row's position as a run-time scalar, as `row` is now), and
 * rope at that position; its rules in lib/verify and lib/meaning; the planner's bytes of both. A
 * window that slides begins anew, since positions are absolute.
 */
#include "lib/train/trainer_state.h"

#include "lib/base/mem.h"
#include "lib/base/rng.h"

#include <math.h>

/* The largest bound so that the tokens with logits above it, which are those above `floor`, weigh
 * `goal` together: by halving a range of values, without a sort. Without weights each has 1. */
static float bound_of(const float *x, const double *weight, int n, float floor, double goal)
{
    float low = INFINITY, high = -INFINITY;
    for (int i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    low = nextafterf(low, -INFINITY); /* all are above it */
    low = floor > low ? floor : low;
    for (int round = 0; round < 64; round++) {
        float middle = low + 0.5f * (high - low);
        double above = 0;
        if (!(middle > low && middle < high))
            break;
        for (int i = 0; i < n; i++)
            above += x[i] > middle ? (weight ? weight[i] : 1) : 0;
        if (above >= goal)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int best_of(const float *logits, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static double weight_above(const float *logits, const double *weight, int n, float bound)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += logits[i] > bound ? weight[i] : 0;
    return sum;
}

/* Temperature, then the most likely top_k, then of these the fewest that have top_p of their
 * weight. `weight` is room for n. */
static int32_t pick(const struct sn_model_config *m, const float *logits, double *weight,
                    const struct sn_generate_options *o, double u)
{
    int n = m->vocab;
    int best = best_of(logits, n);
    float bound = -INFINITY;
    if (o->temperature <= 0)
        return best;
    for (int i = 0; i < n; i++)
        weight[i] =
            exp((sn_model_logit(m, logits[i]) - sn_model_logit(m, logits[best])) / o->temperature);
    if (o->top_k > 0 && o->top_k < n)
        bound = bound_of(logits, NULL, n, bound, o->top_k);
    if (o->top_p < 1)
        bound =
            bound_of(logits, weight, n, bound, o->top_p * weight_above(logits, weight, n, bound));
    double left = u * weight_above(logits, weight, n, bound);
    for (int i = 0; i < n; i++) {
        if (!(logits[i] > bound))
            continue;
        left -= weight[i];
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

static enum sn_status continue_text(struct sn_trainer *t, const struct sn_generate_options *o,
                                    int32_t *tokens, double *weight, struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    int64_t seq = c->model.seq;
    for (int i = 0; i < o->n_prompt; i++)
        tokens[i] = o->prompt[i];
    int32_t *window = sn_exec_address(t->exec, &t->job->train, t->job->ids);
    const void *logits = NULL;
    uint64_t key = sn_rng_key(o->seed, "generate");
    int64_t total = (int64_t)o->n_prompt + o->tokens;
    for (int64_t n = o->n_prompt; n < total; n++) {
        struct sn_at at = {.micros = 1, .row = fill_window(window, seq, tokens, n)};
        SN_TRY(sn_exec_segment(t->exec, &t->job->generate, 0, at, err));
        SN_TRY(sn_exec_segment(t->exec, &t->job->generate, 1, at, err));
        SN_TRY(sn_exec_fetch(t->exec, &t->job->generate, t->job->logits, &logits, err));
        tokens[n] = pick(&c->model, logits, weight, o, sn_rng_uniform(key, (uint64_t)n));
        if (tokens[n] == o->stop)
            break;
        o->emit(o->self, tokens[n]);
    }
    return SN_OK;
}

enum sn_status sn_trainer_generate_open(struct sn_trainer *t, struct sn_tokenizer_id *tokenizer,
                                        struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    t->state.config_hash = 0; /* of course it was saved under other settings */
    t->state.tokenizer = *tokenizer;
    SN_TRY(sn_trainer_restore(t, false, SN_OK, err));
    SN_TRY(sn_trainer_publish(t, err));
    if (t->state.scalars.step == 0 && !c->train.init_from[0])
        return sn_fail(err, SN_EINPUT, "%s: there is no checkpoint to generate from; train first",
                       c->path);
    if (t->env.comm->rank == 0)
        *tokenizer = t->state.tokenizer;
    return SN_OK;
}

enum sn_status sn_trainer_generate(struct sn_trainer *t, const struct sn_generate_options *o,
                                   struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    SN_TRY(check_prompt(t, o, err));
    int64_t total = (int64_t)o->n_prompt + o->tokens;
    int32_t *tokens = sn_alloc_n((size_t)total, sizeof(*tokens));
    double *weight = sn_alloc_n((size_t)c->model.vocab, sizeof(*weight));
    enum sn_status st =
        tokens && weight
            ? SN_OK
            : sn_fail(err, SN_ENOMEM, "generate: no memory for %lld tokens", (long long)total);
    if (st == SN_OK)
        st = continue_text(t, o, tokens, weight, err);
    sn_free(tokens);
    sn_free(weight);
    return st;
}
