/*
 * generate.c - sampling text with the compiled generate programs.
 *
 * The window, S tokens of the text, runs through `generate`, which gives the logits of its last row and
 * leaves the keys and values of all its rows in `past`. From then on a token is one row of the window:
 * `generate_row` adds its keys and values to them and attends to those before it. Without `past` each
 * token is a whole window.
 *
 * What train.prompt fills are the first rows of every window, in front of the tokens that it lies on.
 *
 * With data.prefix the prompt is seen in both directions, as far as the window has it: its keys are those of
 * `generate`, and what follows is causal, so a row is what it is without.
 *
 * A window that is full moves on by a quarter of S, so that the next one has at least three quarters of it
 * behind it, and is computed anew: positions count from its begin. It lies where it does by the number of
 * tokens alone, the same with `past` and without.
 *
 * Of several ranks those with words of the head hand their logits to rank 0, which picks a token and tells the
 * others.
 */
#include "lib/train/trainer_state.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"

#include <math.h>
#include <string.h>

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

/* The window on a text: `places` that train.prompt fills, then tokens of it from `first` on, S rows in all, of which
 * the first `rows` are computed and their keys and values kept. */
struct window {
    int32_t *ids;    /* S */
    int32_t *starts; /* S x 2: what each row sees (kernels/mask.h); NULL: there are no prefixes */
    int64_t seq, places, prompt, first, rows;
};

/* Where a window of `seq` tokens of a text of n begins. */
static int64_t window_begin(int64_t seq, int64_t n)
{
    int64_t step = seq >= 4 ? seq / 4 : 1;
    return n > seq ? (n - seq + step - 1) / step * step : 0;
}

/* Put the window of n tokens into w; returns the row of the newest. */
static int64_t fill_window(struct window *w, const int32_t *tokens, int64_t n)
{
    int64_t first = window_begin(w->seq - w->places, n);
    int64_t left = w->prompt > first ? w->prompt - first : 0; /* of the prompt's tokens */
    for (int64_t i = 0; i < w->seq; i++) {
        int64_t at = first + i - w->places, last = w->places + left - 1;
        w->ids[i] = i >= w->places && at < n ? tokens[at] : 0;
        if (w->starts) {
            w->starts[2 * i] = 0;
            w->starts[2 * i + 1] = (int32_t)(i < last ? last : i);
        }
    }
    w->rows = first == w->first ? w->rows : 0;
    w->first = first;
    return w->places + n - first - 1;
}

/* --- words of all ranks ----------------------------------------------------------------------- */

/* Words first .. first + n - 1 of the head are a rank's; n is 0 where it has none. */
struct words {
    int64_t first, n;
};

struct head {
    struct words here;
    int64_t most;        /* of a rank */
    struct words *words; /* of all ranks, on rank 0 */
    float *parts;        /* [ranks, most], on rank 0; elsewhere [most] */
    float *logits;       /* of all words, on rank 0 */
};

static struct words words_here(const struct sn_job *j)
{
    const struct sn_model *m = j->model;
    for (int i = 0; i < m->n_nodes; i++) {
        int shard =
            m->nodes[i].kind == SN_NODE_HEAD_LOSS && j->module_of_node[i] % j->stages == j->stage
                ? j->first_shard[m->nodes[i].param[0]]
                : -1;
        if (shard >= 0)
            return (struct words){j->shards[shard].tensor[0].from, j->shards[shard].tensor[0].n};
    }
    return (struct words){0, 0};
}

static void head_fini(struct head *h)
{
    sn_free(h->words);
    sn_free(h->parts);
    sn_free(h->logits);
}

static enum sn_status head_init(struct head *h, struct sn_trainer *t, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    bool is_first = c->rank == 0;
    *h = (struct head){.here = words_here(t->job)};
    h->words = is_first ? sn_alloc_n((size_t)c->size, sizeof(*h->words)) : NULL;
    h->logits = is_first ? sn_alloc_n((size_t)t->env.config->model.vocab, sizeof(float)) : NULL;
    bool good = !is_first || (h->words && h->logits);
    SN_TRY(c->ops->agree(
        c, good ? SN_OK : sn_fail(err, SN_ENOMEM, "generate: no memory for logits"), err));
    SN_TRY(c->ops->gather(c, &h->here, (int64_t)sizeof(h->here), h->words, 0, err));
    for (int r = 0; r < c->size && is_first; r++)
        h->most = h->words[r].n > h->most ? h->words[r].n : h->most;
    SN_TRY(c->ops->broadcast(c, &h->most, (int64_t)sizeof(h->most), 0, err));
    h->parts = sn_alloc_n((size_t)(is_first ? c->size * h->most : h->most), sizeof(float));
    return c->ops->agree(
        c, h->parts ? SN_OK : sn_fail(err, SN_ENOMEM, "generate: no memory for logits"), err);
}

/* The logits of all words, on rank 0, of what ranks have computed of them. */
static enum sn_status collect(struct head *h, struct sn_trainer *t, const float *here,
                              struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    float *mine =
        c->rank == 0 ? h->logits : h->parts; /* room that is written below, or is not read */
    if (h->here.n > 0)
        memcpy(mine, here, (size_t)h->here.n * sizeof(float));
    SN_TRY(c->ops->gather(c, mine, h->most * (int64_t)sizeof(float), c->rank == 0 ? h->parts : NULL,
                          0, err));
    for (int r = 0; r < c->size && c->rank == 0; r++)
        memcpy(h->logits + h->words[r].first, h->parts + r * h->most,
               (size_t)h->words[r].n * sizeof(float));
    return SN_OK;
}

/* --- token after token ------------------------------------------------------------------------ */

/* The logits behind n tokens, on rank 0. */
static enum sn_status next_logits(struct sn_trainer *t, struct head *h, struct window *w,
                                  const int32_t *tokens, int64_t n, const float **out,
                                  struct sn_err *err)
{
    const struct sn_job *j = t->job;
    struct sn_at at = {.micros = 1, .row = fill_window(w, tokens, n)};
    bool one = j->keeps_past && w->rows > 0 && at.row == w->rows;
    const struct sn_program *p = one ? &j->generate_row : &j->generate;
    const void *here = NULL;
    SN_TRY(sn_exec_segments(t->exec, p, at, err)); /* from another stage, forward, head */
    w->rows = at.row + 1;
    if (h->here.n > 0)
        SN_TRY(sn_exec_fetch(t->exec, p, p->logits, &here, err));
    if (t->env.comm->size > 1)
        SN_TRY(collect(h, t, here, err));
    *out = t->env.comm->size > 1 ? h->logits : here;
    return SN_OK;
}

enum sn_status sn_trainer_check_prompt(const struct sn_trainer *t,
                                       const struct sn_generate_options *o, struct sn_err *err)
{
    int vocab = t->env.config->model.vocab;
    for (int i = 0; i < o->n_prompt; i++)
        if (o->prompt[i] < 0 || o->prompt[i] >= vocab)
            return sn_fail(err, SN_EINPUT,
                           "%s: token %d of the prompt is %d; this model knows 0..%d", o->option,
                           i + 1, o->prompt[i], vocab - 1);
    return o->n_prompt > 0 || sn_prompt_positions(&t->env.config->train.prompt) > 0
               ? SN_OK
               : sn_fail(err, SN_EINPUT, "%s: the prompt is empty; give it at least one token",
                         o->option);
}

int64_t sn_trainer_left_out(const struct sn_trainer *t, int64_t n)
{
    const struct sn_config *c = t->env.config;
    return window_begin(c->model.seq - sn_prompt_positions(&c->train.prompt), n);
}

/* What rank 0 was asked for, on all ranks. */
struct text {
    int32_t *tokens;
    int64_t prompt, total;
};

static enum sn_status continue_text(struct sn_trainer *t, const struct sn_generate_options *o,
                                    struct head *h, const struct text *x, double *weight,
                                    struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    struct sn_comm *comm = t->env.comm;
    struct window w = {.ids = sn_exec_address(t->exec, &t->job->train, t->job->ids),
                       .seq = c->model.seq,
                       .places = sn_prompt_positions(&c->train.prompt),
                       .prompt = x->prompt};
    if (c->data.prefix != SN_PREFIX_NONE)
        w.starts = sn_exec_address(t->exec, &t->job->train, t->job->starts);
    const float *logits = NULL;
    uint64_t key = sn_rng_key(o->seed, "generate");
    for (int64_t n = x->prompt; n < x->total; n++) {
        int32_t next[2] = {0, false}; /* the token; does the text end with it? */
        SN_TRY(next_logits(t, h, &w, x->tokens, n, &logits, err));
        if (comm->rank == 0) {
            next[0] = pick(&c->model, logits, weight, o, sn_rng_uniform(key, (uint64_t)n));
            next[1] = next[0] == o->stop || !o->emit(o->self, next[0]);
        }
        SN_TRY(comm->ops->broadcast(comm, next, (int64_t)sizeof(next), 0, err));
        x->tokens[n] = next[0];
        if (next[1])
            break;
    }
    return SN_OK;
}

/* With the first text. */
static void say_how(struct sn_trainer *t)
{
    char size[16];
    const struct sn_job *j = t->job;
    if (t->said_how || t->env.comm->rank != 0)
        return;
    t->said_how = true;
    if (j->keeps_past)
        sn_log(SN_LOG_INFO, "generate: keys and values of %d tokens are kept (%s)",
               j->config->model.seq, sn_str_bytes(size, j->class_bytes[SN_CLASS_PAST]));
    else
        sn_log(SN_LOG_INFO, "generate: each token computes its whole window (--no-cache)");
}

enum sn_status sn_trainer_generate_open(struct sn_trainer *t, struct sn_tokenizer_id *tokenizer,
                                        struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    bool has_prompt = sn_prompt_positions(&c->train.prompt) > 0; /* which init_from has none of */
    t->state.config_hash = 0; /* of course it was saved under other settings */
    t->state.tokenizer = *tokenizer;
    SN_TRY(sn_trainer_restore(t, false, SN_OK, err));
    enum sn_status st = sn_trainer_publish(t, err);
    if (st == SN_OK && t->state.scalars.step == 0 && (!c->train.init_from[0] || has_prompt))
        st = sn_fail(err, SN_EINPUT, "%s: there is no checkpoint to generate from; train first",
                     c->path);
    SN_TRY(t->env.comm->ops->agree(t->env.comm, st, err));
    if (t->env.comm->rank == 0)
        *tokenizer = t->state.tokenizer;
    return SN_OK;
}

enum sn_status sn_trainer_alone(struct sn_trainer *t, const char *what,
                                enum sn_status (*work)(void *self, struct sn_err *err), void *self,
                                struct sn_err *err)
{
    sn_solo_begin(t->solo, what, false);
    return sn_solo_end(t->solo, t->env.comm->rank == 0 ? work(self, err) : SN_OK, err);
}

/* Those of rank 0, on all ranks. */
static enum sn_status share_features(struct sn_trainer *t, const float *features,
                                     struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    struct sn_loader l = sn_trainer_loader(t, &t->valid_data);
    int64_t bytes = sn_loader_features(&l) * (int64_t)sizeof(*features);
    if (!l.features)
        return SN_OK;
    if (c->rank == 0)
        memcpy(l.features, features, (size_t)bytes);
    return c->ops->broadcast(c, l.features, bytes, 0, err);
}

/* The prompt of rank 0, and room for what follows it, on all ranks. */
static enum sn_status share_text(struct text *x, struct sn_trainer *t,
                                 const struct sn_generate_options *o, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    if (c->rank == 0)
        *x = (struct text){.prompt = o->n_prompt, .total = (int64_t)o->n_prompt + o->tokens};
    SN_TRY(c->ops->broadcast(c, x, (int64_t)sizeof(*x), 0, err));
    x->tokens = sn_alloc_n((size_t)x->total, sizeof(*x->tokens));
    enum sn_status st = x->tokens ? SN_OK
                                  : sn_fail(err, SN_ENOMEM, "generate: no memory for %lld tokens",
                                            (long long)x->total);
    SN_TRY(c->ops->agree(c, st, err));
    for (int64_t i = 0; i < x->prompt && c->rank == 0; i++)
        x->tokens[i] = o->prompt[i];
    return c->ops->broadcast(c, x->tokens, x->prompt * (int64_t)sizeof(*x->tokens), 0, err);
}

enum sn_status sn_trainer_generate(struct sn_trainer *t, const struct sn_generate_options *o,
                                   struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    struct sn_comm *comm = t->env.comm;
    struct head h = {0};
    struct text x = {.tokens = NULL};
    double *weight = NULL;
    enum sn_status st = comm->rank == 0 ? sn_trainer_check_prompt(t, o, err) : SN_OK;
    if (st == SN_OK && comm->rank == 0 &&
        !(weight = sn_alloc_n((size_t)c->model.vocab, sizeof(*weight))))
        st = sn_fail(err, SN_ENOMEM, "generate: no memory for %d words", c->model.vocab);
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        say_how(t);
    if (st == SN_OK)
        st = share_text(&x, t, o, err);
    if (st == SN_OK)
        st = share_features(t, o->features, err);
    if (st == SN_OK)
        st = head_init(&h, t, err);
    if (st == SN_OK)
        st = continue_text(t, o, &h, &x, weight, err);
    head_fini(&h);
    sn_free(x.tokens);
    sn_free(weight);
    return st;
}
