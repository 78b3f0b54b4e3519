/*
 * score.c - how likely given continuations are, with the compiled evaluate program.
 *
 * Requests share samples as documents that do not see each other do (lib/data/score.h); sample r of a batch
 * goes to the rank that row r of an evaluation would go to, so that all ranks of a layout share the work.
 * The head leaves each row's loss and how many of its words are likelier; a rank adds up those of its
 * rows, and rank 0 the ranks' sums. Learned positions tell where in a sample a request is: there each has one to
 * itself, and so it has with train.prompt, which fills the first positions of a sample.
 */
#include "lib/train/trainer_state.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/data/score.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of a request: what all ranks' rows give, added up. */
struct part {
    double loss, ahead;
};

struct scoring {
    struct sn_trainer *t;
    struct sn_loader loader;
    struct sn_score_set set; /* requests are there on rank 0 alone */
    int n_requests;
    struct sn_score_rows rows;
    struct part *part; /* by request */
    int32_t *owner;    /* [samples here, S]: the request of each target; -1: nobody's */
    float *features;   /* [samples of all ranks in a run of the program]; NULL: none are read */
    bool counts;       /* this rank's losses: no other has the same */
};

/* --- the requests, on all ranks ---------------------------------------------------------------- */

static enum sn_status share(struct scoring *s, struct sn_err *err)
{
    struct sn_comm *c = s->t->env.comm;
    struct sn_score_set *set = &s->set;
    int64_t seq = s->loader.place.seq;
    int64_t n[3] = {(int64_t)set->tokens.len, set->n_pieces, set->n_requests};
    SN_TRY(c->ops->broadcast(c, n, (int64_t)sizeof(n), 0, err));
    enum sn_status st = SN_OK;
    s->n_requests = (int)n[2];
    s->part = sn_alloc_n((size_t)n[2], sizeof(*s->part));
    s->owner = sn_alloc_n((size_t)(s->loader.sequences * seq), sizeof(*s->owner));
    if (c->rank != 0)
        set->piece = sn_alloc_n((size_t)n[1], sizeof(*set->piece));
    int64_t numbers = sn_loader_features(&s->loader), ranks = s->loader.ranks;
    if (numbers > 0)
        s->features =
            sn_alloc_n((size_t)(ranks * s->loader.sequences * numbers), sizeof(*s->features));
    if (!s->part || !s->owner || !set->piece || (numbers > 0 && !s->features) ||
        (c->rank != 0 && !sn_ids_room(&set->tokens, (size_t)n[0])))
        st = sn_fail(err, SN_ENOMEM, "--score: no memory for the requests");
    SN_TRY(c->ops->agree(c, st, err));
    SN_TRY(c->ops->broadcast(c, set->tokens.p, n[0] * (int64_t)sizeof(int32_t), 0, err));
    SN_TRY(c->ops->broadcast(c, set->piece, n[1] * (int64_t)sizeof(*set->piece), 0, err));
    set->tokens.len = (size_t)n[0];
    set->n_pieces = (int)n[1];
    const struct sn_config *config = s->loader.config;
    bool alone = config->model.rotary_pct <= 0 || sn_prompt_positions(&config->train.prompt) > 0;
    return c->ops->agree(c, sn_score_pack(&s->rows, set, seq, alone, err), err);
}

/* --- one run of the program -------------------------------------------------------------------- */

/* What a row of the batch sees, as sn_sample_starts() has it. */
static void put_seen(const struct sn_loader *l, int64_t row, int64_t first, int64_t last)
{
    int columns = sn_starts_columns(l->config);
    l->starts[row * columns] = (int32_t)first;
    if (columns > 1)
        l->starts[row * columns + 1] = (int32_t)last;
}

/* Sample `row` of all (none: only fills the batch) as the i-th here. A piece begins in the last place that
 * train.prompt fills. */
static void fill(struct scoring *s, int i, int64_t row)
{
    const struct sn_loader *l = &s->loader;
    int64_t seq = l->place.seq, at = 0, numbers = sn_loader_features(l);
    int places = sn_prompt_positions(&l->config->train.prompt), lead = places > 0 ? places - 1 : 0;
    int32_t *ids = l->whole, *targets = l->whole + seq;
    int32_t *owner = s->owner + i * seq;
    int k = row < s->rows.n ? s->rows.first[row] : 0;
    int end = row < s->rows.n ? s->rows.first[row + 1] : 0;
    for (; k < end; k++) {
        const struct sn_score_piece *p = &s->set.piece[s->rows.order[k]];
        const int32_t *tokens = s->set.tokens.p + p->at;
        int64_t begin = at, last = begin + lead + p->prompt - 1; /* of its prompt */
        for (int64_t j = -lead; j + 1 < p->n; j++, at++) {
            bool asked = j + 1 >= p->first;
            ids[at] = j < 0 ? 0 : tokens[j];
            targets[at] = asked ? tokens[j + 1] : SN_NO_TARGET;
            owner[at] = asked ? p->request : -1;
            put_seen(l, i * seq + at, begin, at < last ? last : at);
        }
    }
    for (; at < seq; at++) {
        ids[at] = 0;
        targets[at] = owner[at] = -1;
        put_seen(l, i * seq + at, at, at);
    }
    if (s->features)
        memcpy(l->features + i * numbers,
               s->features + ((int64_t)l->rank * l->sequences + i) * numbers,
               (size_t)numbers * sizeof(float));
    sn_loader_spread(l, i);
}

/* Of samples first .. first + n - 1 of all, from rank 0; of those that are none, of any others. */
static enum sn_status share_features(struct scoring *s, const struct sn_score_options *o,
                                     int64_t first, int64_t n, struct sn_err *err)
{
    struct sn_comm *c = s->t->env.comm;
    int64_t numbers = sn_loader_features(&s->loader);
    enum sn_status st = SN_OK;
    for (int64_t i = 0; i < n && first + i < s->rows.n && c->rank == 0 && st == SN_OK; i++) {
        const struct sn_score_piece *p = &s->set.piece[s->rows.order[s->rows.first[first + i]]];
        st = o->features(o->self, p->request, s->features + i * numbers, err);
    }
    SN_TRY(c->ops->agree(c, st, err));
    return c->ops->broadcast(c, s->features, n * numbers * (int64_t)sizeof(float), 0, err);
}

static enum sn_status add_rows(struct scoring *s, struct sn_err *err)
{
    const struct sn_loader *l = &s->loader;
    const struct sn_job *j = s->t->job;
    const void *found = NULL;
    int64_t rows = sn_rows_per_sample(&l->place);
    if (j->row_scores < 0)
        return SN_OK;
    SN_TRY(sn_exec_fetch(s->t->exec, &j->evaluate, j->row_scores, &found, err));
    const float *of_row = found;
    for (int64_t r = 0; r < rows * l->sequences; r++, of_row += 2) {
        int64_t at = sn_position(&l->place, l->place.context_rank, r % rows);
        int32_t request = s->owner[r / rows * l->place.seq + at];
        if (request < 0)
            continue;
        s->part[request].loss += s->counts ? (double)of_row[0] : 0;
        s->part[request].ahead += (double)of_row[1];
    }
    return SN_OK;
}

static enum sn_status run(struct scoring *s, const struct sn_score_options *o, struct sn_err *err)
{
    const struct sn_loader *l = &s->loader;
    struct sn_trainer *t = s->t;
    int64_t first_sample = 0,
            group = (int64_t)l->ranks * l->sequences; /* nothing in it is random */
    sn_exec_scalars(t->exec)->targets_in_step = 1;
    for (int64_t first = 0; first < s->rows.n; first += group) {
        if (s->features)
            SN_TRY(share_features(s, o, first, group, err));
        for (int i = 0; i < l->sequences; i++)
            fill(s, i, first + (int64_t)l->rank * l->sequences + i);
        SN_TRY(sn_exec_run(t->exec, &t->job->evaluate, &first_sample, err));
        SN_TRY(add_rows(s, err));
    }
    return SN_OK;
}

/* --- the answers ------------------------------------------------------------------------------ */

/* On rank 0, in the order of ranks; a few requests at a time. */
static enum sn_status add_up(struct scoring *s, struct sn_err *err)
{
    enum { AT_ONCE = 1024 };
    struct sn_comm *c = s->t->env.comm;
    size_t all = c->rank == 0 ? (size_t)c->size * AT_ONCE : 1;
    struct part *of = sn_alloc_n(all, sizeof(*of));
    enum sn_status st = of ? SN_OK : sn_fail(err, SN_ENOMEM, "--score: no memory for the answers");
    st = c->ops->agree(c, st, err);
    for (int at = 0; at < s->n_requests && st == SN_OK; at += AT_ONCE) {
        int n = s->n_requests - at < AT_ONCE ? s->n_requests - at : AT_ONCE;
        st = c->ops->gather(c, s->part + at, n * (int64_t)sizeof(*of), of, 0, err);
        for (int i = 0; i < n && st == SN_OK && c->rank == 0; i++) {
            s->part[at + i] = of[i];
            for (int r = 1; r < c->size; r++) {
                s->part[at + i].loss += of[r * n + i].loss;
                s->part[at + i].ahead += of[r * n + i].ahead;
            }
        }
    }
    sn_free(of);
    return st;
}

static enum sn_status give(const struct scoring *s, const struct sn_score_options *o,
                           struct sn_err *err)
{
    struct sn_score *scores = sn_alloc_n((size_t)s->n_requests, sizeof(*scores));
    if (!scores)
        return sn_fail(err, SN_ENOMEM, "--score: no memory for the answers");
    for (int i = 0; i < s->n_requests; i++)
        scores[i] = (struct sn_score){-s->part[i].loss, s->part[i].ahead == 0};
    enum sn_status st = o->give(o->self, &s->set, scores, err);
    sn_free(scores);
    return st;
}

static enum sn_status score(struct scoring *s, const struct sn_score_options *o, struct sn_err *err)
{
    struct sn_trainer *t = s->t;
    struct sn_comm *c = t->env.comm;
    sn_solo_begin(t->solo, "score: requests", false);
    SN_TRY(sn_solo_end(t->solo, c->rank == 0 ? o->read(o->self, &s->set, err) : SN_OK, err));
    SN_TRY(share(s, err));
    double begun = sn_clock();
    SN_TRY(run(s, o, err));
    SN_TRY(add_up(s, err));
    if (c->rank != 0)
        return SN_OK;
    sn_log(SN_LOG_INFO, "scored %d requests of %zu tokens in %" PRId64 " samples in %.2f s",
           s->n_requests, s->set.tokens.len, (int64_t)s->rows.n, sn_clock() - begun);
    return give(s, o, err);
}

enum sn_status sn_trainer_score(struct sn_trainer *t, const struct sn_score_options *o,
                                struct sn_err *err)
{
    struct scoring s = {.t = t, .loader = sn_trainer_loader(t, &t->valid_data), .counts = true};
    for (int g = 0; g < SN_NGROUPS; g++)
        if (t->job->same_loss >> g & 1u && t->job->group_index[g] > 0)
            s.counts = false;
    enum sn_status st = score(&s, o, err);
    sn_score_rows_fini(&s.rows);
    sn_score_set_fini(&s.set);
    sn_free(s.part);
    sn_free(s.owner);
    sn_free(s.features);
    return st;
}
