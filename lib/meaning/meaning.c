/*
 * meaning.c - the step of one rank, that of all, and whether they end with the same weights.
 */
#include "lib/meaning/inner.h"

#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/layout/axes.h"

#include <stdio.h>
#include <string.h>

/* --- the run of one rank ---------------------------------------------------------------------- */

void sn_meaning_reference(struct sn_config *out, const struct sn_config *c)
{
    *out = *c;
    struct sn_layout_config *l = &out->layout;
    sn_batch_set(&out->train, 1);
    sn_axes_set_one(l);
    l->expert = l->expert_tensor = 1;
    l->micro_batch = l->virtual_stages = l->expert_node = l->expert_chunks = 1;
    l->sequence_parallel = l->split_backward = l->comm_aware_recompute = false;
    l->expert_tokens = SN_TOKENS_GATHERED;
    l->drop_duplicates = SN_DUPLICATES_SENT;
    l->schedule = SN_SCHEDULE_DEFAULT;
    l->recompute = SN_RECOMPUTE_NONE;
    l->overlap = SN_OVERLAP_NONE;
    l->zero = 0;
    l->optimizer_tile = 0;
    l->n_split = 0;
    sn_compress_nothing(l);
    out->checkpoint.snapshot_every = 0;
    out->overlap_rates = (struct sn_overlap_rates){0};
}

const char *sn_meaning_gap(const struct sn_config *c)
{
    if (c->model.layers > SN_MEANING_LAYERS)
        return "its work grows with the square of the layers, of which it takes 128 at most";
    if (c->model.experts.count > 0 && c->model.experts.router == SN_ROUTER_DENSE)
        return "it has no rules for routers that are dense";
    const struct sn_coding *z = c->layout.compress.coding;
    if (z[SN_CODED_EXPERT].on)
        return "it has no rules for streams of tokens on their way to experts";
    if (z[SN_CODED_DATA].on && z[SN_CODED_DATA].rank > 0)
        return "the factors of powersgd are no gradients";
    return NULL;
}

const char *sn_meaning_gap_of(const struct sn_program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        bool known = sn_rule_of(op->kind) || op->kind == SN_OP_WAIT || op->kind == SN_OP_AGREE ||
                     sn_op_is_posted(op);
        if (!known)
            return "some of their operations have no rule yet";
    }
    return NULL;
}

unsigned sn_meaning_approximate(const struct sn_program *p)
{
    unsigned bits = 0;
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == SN_OP_ENCODE && p->ops[i].attr.stream.codec[0].kind != SN_CODEC_MPC)
            bits |= 1u << p->ops[i].attr.stream.coded;
    return bits;
}

/* --- spaces ----------------------------------------------------------------------------------- */

static enum sn_status init(struct sn_meaning *m, const struct sn_meaning_world *w)
{
    const struct sn_model *model = w->reference->model;
    int n = SN_NSPACES;
    m->model = model;
    m->first_space = sn_alloc_n((size_t)model->n_params + 1, sizeof(int));
    for (int i = 0; i < model->n_params && m->first_space; i++) {
        m->first_space[i] = n;
        n += 2 * model->params[i].n_tensors;
    }
    m->spaces.n = n;
    m->spaces.parent = sn_alloc_n((size_t)n, sizeof(int));
    bool good = m->first_space && m->spaces.parent;
    for (int k = 0; k < SN_MEANINGS; k++) {
        m->found[k] = sn_alloc_n((size_t)n, sizeof(uint64_t));
        good = good && m->found[k];
    }
    for (int i = 0; i < n && good; i++)
        m->spaces.parent[i] = i;
    return good ? SN_OK : sn_fail(m->err, SN_ENOMEM, "meaning: no memory for a model's tensors");
}

void sn_meaning_end(struct sn_meaning *m)
{
    sn_free(m->first_space);
    sn_free(m->spaces.parent);
    for (int k = 0; k < SN_MEANINGS; k++)
        sn_free(m->found[k]);
}

/* --- what ranks hold afterwards --------------------------------------------------------------- */

typedef enum sn_status on_state(struct sn_meaning *m, struct sn_rank *r, int bucket, int buf,
                                int what);

/* The arrays of buckets that a step changes. */
static enum sn_status for_state(struct sn_meaning *m, struct sn_rank *r, on_state *then)
{
    const struct sn_job *j = r->job;
    for (int i = 0; i < j->n_buckets; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        SN_TRY(then(m, r, i, b->weight, SN_MEANING_WEIGHT));
        if (b->master != b->weight)
            SN_TRY(then(m, r, i, b->master, SN_MEANING_WEIGHT));
        for (int k = 0; k < SN_MAX_KEPT; k++)
            if (b->moment[k] >= 0)
                SN_TRY(then(m, r, i, b->moment[k], SN_MEANING_MOMENT + k));
    }
    return SN_OK;
}

static int tensor_of(const struct sn_slab *t)
{
    return (t->space[0] == SN_SPACE_ONE ? t->space[1] : t->space[0]) - SN_NSPACES;
}

static enum sn_status note(struct sn_meaning *m, struct sn_rank *r, int bucket, int buf, int what)
{
    (void)bucket;
    const struct sn_slabs *held = &r->held[r->first_held[buf]];
    for (int i = 0; i < held->n; i++)
        if (tensor_of(&held->t[i]) >= 0)
            m->found[what][tensor_of(&held->t[i])] = held->t[i].value;
    return SN_OK;
}

static const char *tensor_name(const struct sn_meaning *m, int number)
{
    int p = 0;
    while (p + 1 < m->model->n_params && m->first_space[p + 1] <= number + SN_NSPACES)
        p++;
    return m->model->params[p].tensor[(number + SN_NSPACES - m->first_space[p]) / 2].name;
}

/* Then nothing is left when it is taken away. */
bool sn_holds(const struct sn_meaning *m, const struct sn_slabs *held, const struct sn_slab *want)
{
    struct sn_area a = sn_slab_area(want);
    struct sn_slabs left = {0}, cut = {0};
    struct sn_slab less = *want, there;
    int64_t n = 0;
    for (int i = 0; i < held->n; i++)
        sn_slabs_push(&left, &held->t[i]);
    less.value = sn_field_sub(0, want->value);
    bool same = sn_slabs_add(&left, &m->spaces, &less, false, &there) == SN_SUM_GOOD;
    for (int i = 0; i < left.n && same; i++)
        n += sn_slab_cut(&cut, &left.t[i], &a);
    for (int i = 0; i < cut.n; i++)
        same = same && cut.t[i].value == 0;
    same = same && !left.failed && !cut.failed;
    sn_slabs_fini(&left);
    sn_slabs_fini(&cut);
    return same && n == want->rows * want->cols;
}

static enum sn_status compare(struct sn_meaning *m, struct sn_rank *r, int bucket, int buf,
                              int what)
{
    const struct sn_bucket *b = &r->job->buckets[bucket];
    const char *of = what == SN_MEANING_WEIGHT ? "weights" : "optimizer state";
    struct sn_slabs all = {0}, mine = {0};
    int64_t n = sn_bucket_elements(r->job, b, buf);
    struct sn_area a = sn_state_area(r, b, buf);
    enum sn_status st = sn_weight_slabs(m, r->job, bucket, m->found[what], &all);
    for (int i = 0; i < all.n; i++)
        (void)sn_slab_cut(&mine, &all.t[i], &a);
    for (int i = 0; i < mine.n && st == SN_OK; i++) {
        mine.t[i].at -= n < b->n ? a.at : 0;
        if (!sn_holds(m, &r->held[r->first_held[buf]], &mine.t[i]))
            st = sn_fail(m->err, SN_EFAIL,
                         "%s: rank %d ends the step with other %s of '%s' (in '%s') than one rank",
                         r->program->name, r->rank, of, tensor_name(m, tensor_of(&mine.t[i])),
                         r->program->bufs[buf].name);
    }
    sn_slabs_fini(&all);
    sn_slabs_fini(&mine);
    return st;
}

/* --- gradients -------------------------------------------------------------------------------- */

/* Are the tokens of one micro-batch of one replica what is too much, or missing? `unit`: the value
 * of a sum over an interval of length 1. */
static bool explain_tokens(const struct sn_meaning *m, uint64_t less, uint64_t unit,
                           struct sn_place_text *why)
{
    const struct sn_layout_config *l = &m->config->layout;
    int64_t tokens = (int64_t)l->micro_batch * m->config->model.seq;
    for (int64_t at = 0; at < m->tokens; at += tokens) {
        uint64_t part = sn_field_mul(unit, sn_interval(m, SN_SPACE_TOKENS, at, tokens));
        bool missing = less == part, twice = sn_field_add(less, part) == 0;
        if (!missing && !twice)
            continue;
        (void)snprintf(why->s, sizeof(why->s), "micro-batch %lld of data rank %lld is %s",
                       (long long)(at / tokens / l->data), (long long)(at / tokens % l->data),
                       missing ? "missing" : "there twice");
        return true;
    }
    return false;
}

static struct sn_place_text gradient_fault(const struct sn_meaning *m, uint64_t is, uint64_t due)
{
    struct sn_place_text why = {"it is of something else, or not over all tokens and replicas"};
    if (is == 0)
        return (struct sn_place_text){"it is zero"};
    uint64_t all = sn_interval(m, SN_SPACE_TOKENS, 0, m->tokens);
    uint64_t unit = sn_field_mul(due, sn_field_inverse(all));
    if (explain_tokens(m, sn_field_sub(due, is), unit, &why))
        return why;
    for (uint64_t k = 2; k <= 64; k++) {
        if (is == sn_field_mul(due, k))
            (void)snprintf(why.s, sizeof(why.s), "it is %d times as large", (int)k);
        else if (due == sn_field_mul(is, k))
            (void)snprintf(why.s, sizeof(why.s), "it is a %d-th of it", (int)k);
    }
    return why;
}

enum sn_status sn_check_gradient(const struct sn_visit *s, const struct sn_slab *t, uint64_t value)
{
    struct sn_meaning *m = s->m;
    int tensor = tensor_of(t);
    if (tensor < 0 || t->value == 0)
        return SN_OK;
    if (m->is_reference) {
        m->found[SN_MEANING_GRADIENT][tensor] = value;
        return SN_OK;
    }
    uint64_t due = m->found[SN_MEANING_GRADIENT][tensor];
    if (value == due)
        return SN_OK;
    return sn_visit_fault(s, "takes a gradient of '%s' that is not that of one rank: %s",
                          tensor_name(m, tensor), gradient_fault(m, value, due).s);
}

/* --- all -------------------------------------------------------------------------------------- */

static void ranks_fini(struct sn_meaning *m)
{
    for (int i = 0; i < m->ranks; i++)
        if (m->rank[i].program)
            sn_rank_fini(&m->rank[i]);
    sn_free(m->rank);
    m->rank = NULL;
}

/* The loss, what routers lose, the gradients' norm, what experts got. */
static enum sn_status compare_told(const struct sn_meaning *m)
{
    static const char *const of[SN_NTOLD] = {"the loss is", "routers' losses are",
                                             "routers' losses are", "the gradients' norm is",
                                             "the experts' load is", "losses of sets are",
                                             "the loss of tokens further on is"};
    for (int k = 0; k < SN_NTOLD; k++)
        if (m->rank[0].told[k] != m->told[k])
            return sn_fail(m->err, SN_EFAIL, "%s: %s not over everything once",
                           m->rank[0].program->name, of[k]);
    return SN_OK;
}

/* The ranks play a step; then each of them is looked at. */
static enum sn_status play(struct sn_meaning *m, const struct sn_job *const *jobs, int n,
                           const struct sn_program *const *override, on_state *then)
{
    m->rank = sn_alloc_n((size_t)n, sizeof(*m->rank));
    m->ranks = n;
    enum sn_status st =
        m->rank ? SN_OK : sn_fail(m->err, SN_ENOMEM, "meaning: no memory for ranks");
    for (int i = 0; i < n && st == SN_OK; i++) {
        st = sn_rank_init(m, &m->rank[i], jobs[i], override ? override[i] : &jobs[i]->train);
        if (st == SN_OK)
            st = sn_rank_begin(m, &m->rank[i]);
    }
    if (st == SN_OK)
        st = sn_play(m);
    for (int i = 0; i < n && st == SN_OK; i++)
        st = for_state(m, &m->rank[i], then);
    if (st == SN_OK && m->is_reference)
        memcpy(m->told, m->rank[0].told, sizeof(m->told));
    if (st == SN_OK)
        st = compare_told(m);
    ranks_fini(m);
    return st;
}

enum sn_status sn_meaning_begin(struct sn_meaning *m, const struct sn_meaning_world *w,
                                struct sn_err *err)
{
    *m = (struct sn_meaning){.err = err, .config = w->jobs[0]->config};
    const struct sn_layout_config *l = &m->config->layout;
    m->tokens = (int64_t)w->jobs[0]->train.micros * l->data * l->micro_batch * m->config->model.seq;
    enum sn_status st = init(m, w);
    m->is_reference = true;
    for (int turn = 0; turn < 2 && st == SN_OK; turn++) { /* first to know which spaces are one */
        m->binds = turn == 0;
        st = play(m, &w->reference, 1, NULL, note);
    }
    m->is_reference = m->binds = false;
    return st;
}

enum sn_status sn_meaning_check(const struct sn_meaning_world *w,
                                const struct sn_program *const *override, struct sn_err *err)
{
    struct sn_meaning m;
    enum sn_status st = sn_meaning_begin(&m, w, err);
    if (st == SN_OK)
        st = play(&m, w->jobs, w->ranks, override, compare);
    sn_meaning_end(&m);
    return st;
}

enum sn_status sn_meaning_follow(const struct sn_meaning_world *worlds, int n,
                                 sn_meaning_look *look, void *arg, struct sn_err *err)
{
    struct sn_meaning m;
    enum sn_status st = sn_meaning_begin(&m, &worlds[0], err);
    m.look = look;
    m.look_arg = arg;
    for (m.world = 0; m.world < n && st == SN_OK; m.world++) {
        m.config = worlds[m.world].jobs[0]->config;
        st = play(&m, worlds[m.world].jobs, worlds[m.world].ranks, NULL, compare);
    }
    sn_meaning_end(&m);
    return st;
}
