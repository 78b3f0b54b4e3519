/*
 * generate.c - sampling text with the compiled generate programs.
 *
 * The window, S tokens of the text, runs through `generate`, which gives the logits of its last row and
 * leaves the keys and values of all its rows in `past`. From then on a token is one row of the window:
 * `generate_row` adds its keys and values to them and attends to those before it. Without `past` each
 * token is a whole window.
 *
 * A window that is full moves on by a quarter of S, so that the next one has at least three quarters of it
 * behind it, and is computed anew: positions count from its begin. It lies where it does by the number of
 * tokens alone, the same with `past` and without.
 */
#include "lib/train/trainer_state.h"

#include "lib/base/log.h"
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

/* The window on a text: tokens first .. first + S - 1 of it, of which the first `rows` are computed and their
 * keys and values kept. */
struct window {
    int32_t *ids; /* S */
    int64_t seq, first, rows;
};

/* Where the window of a text of n tokens begins. */
static int64_t window_begin(int64_t seq, int64_t n)
{
    int64_t step = seq >= 4 ? seq / 4 : 1;
    return n > seq ? (n - seq + step - 1) / step * step : 0;
}

/* Put the window of n tokens into w; returns the row of the newest. */
static int64_t fill_window(struct window *w, const int32_t *tokens, int64_t n)
{
    int64_t first = window_begin(w->seq, n);
    for (int64_t i = 0; i < w->seq; i++)
        w->ids[i] = first + i < n ? tokens[first + i] : 0;
    w->rows = first == w->first ? w->rows : 0;
    w->first = first;
    return n - first - 1;
}

/* The logits behind n tokens. */
static enum sn_status next_logits(struct sn_trainer *t, struct window *w, const int32_t *tokens,
                                  int64_t n, const void **out, struct sn_err *err)
{
    const struct sn_job *j = t->job;
    struct sn_at at = {.micros = 1, .row = fill_window(w, tokens, n)};
    bool one = j->keeps_past && w->rows > 0 && at.row == w->rows;
    const struct sn_program *p = one ? &j->generate_row : &j->generate;
    for (int s = 0; s < 2; s++) /* forward, head */
        SN_TRY(sn_exec_segment(t->exec, p, s, at, err));
    w->rows = at.row + 1;
    return sn_exec_fetch(t->exec, p, p->logits, out, err);
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
    struct window w = {.ids = sn_exec_address(t->exec, &t->job->train, t->job->ids), .seq = seq};
    const void *logits = NULL;
    uint64_t key = sn_rng_key(o->seed, "generate");
    int64_t total = (int64_t)o->n_prompt + o->tokens;
    for (int64_t n = o->n_prompt; n < total; n++) {
        SN_TRY(next_logits(t, &w, tokens, n, &logits, err));
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

static void say_how(const struct sn_job *j)
{
    char size[16];
    if (j->keeps_past)
        sn_log(SN_LOG_INFO, "generate: keys and values of %d tokens are kept (%s)",
               j->config->model.seq, sn_str_bytes(size, j->class_bytes[SN_CLASS_PAST]));
    else
        sn_log(SN_LOG_INFO, "generate: each token computes its whole window (--no-cache)");
}

enum sn_status sn_trainer_generate(struct sn_trainer *t, const struct sn_generate_options *o,
                                   struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    SN_TRY(check_prompt(t, o, err));
    say_how(t->job);
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
