#include "lib/search/tokens.h"

#include "lib/base/mem.h"
#include "lib/cost/hops.h"
#include "lib/machine/named.h"
#include "lib/model/model.h"
#include "lib/search/chunks.h"
#include "lib/sim/plan.h"

struct way {
    enum sn_expert_tokens tokens;
    enum sn_duplicates duplicates;
};

static const struct way ways[] = {{SN_TOKENS_GATHERED, SN_DUPLICATES_SENT},
                                  {SN_TOKENS_GATHERED, SN_DUPLICATES_DROPPED},
                                  {SN_TOKENS_SPLIT, SN_DUPLICATES_SENT}};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

bool sn_tokens_are_open(const struct sn_config *c)
{
    const struct sn_layout_config *l = &c->layout;
    bool says_auto = l->expert_tokens == SN_TOKENS_AUTO || l->drop_duplicates == SN_DUPLICATES_AUTO;
    return says_auto && l->expert > 1 && l->tensor > 1 && sn_config_fold(c) == 1 &&
           sn_names_machine(c);
}

/* Put a way where keys say auto; false where they name another. */
static bool take(struct sn_layout_config *l, const struct way *w)
{
    if (l->expert_tokens == SN_TOKENS_AUTO)
        l->expert_tokens = w->tokens;
    if (l->drop_duplicates == SN_DUPLICATES_AUTO)
        l->drop_duplicates = w->duplicates;
    bool same = l->drop_duplicates == w->duplicates || w->tokens == SN_TOKENS_SPLIT;
    return l->expert_tokens == w->tokens && same;
}

/* Seconds of a layer's step; 0: the rules refuse it. Its hops are settled in *c. */
static enum sn_status price(double *out, struct sn_config *c, const struct sn_machine *m,
                            const struct sn_software *s, struct sn_err *err)
{
    struct sn_chunks x;
    struct sn_grid g;
    struct sn_err why;
    *out = 0;
    SN_TRY(sn_hops_resolve(c, err));
    if (sn_config_check_layout(c, sn_config_ranks(c), &why) != SN_OK)
        return SN_OK;
    SN_TRY(sn_job_grid(&g, c, err));
    SN_TRY(sn_chunks_choose(&x, c, &g, m, s, err));
    *out = x.seconds[x.n];
    return SN_OK;
}

/* Bytes of the rank that needs most, with the kernels of the processor. */
static enum sn_status memory(int64_t *out, const struct sn_config *c, const struct sn_machine *m,
                             const struct sn_software *s, struct sn_err *err)
{
    struct sn_stages stages = {0};
    struct sn_pricer p;
    struct sn_memory_plan found;
    struct sn_model *model = NULL;
    struct sn_job_env env = {
        .config = c, .ops = sn_ops_cpu(), .threads = c->run.threads > 0 ? c->run.threads : 1};
    SN_TRY(sn_model_create(&model, &c->model, &c->train, err));
    env.model = model;
    enum sn_status st = sn_stages_create(&stages, &env, err);
    if (st == SN_OK) {
        sn_pricer_init(&p, m, s, stages.job[0]);
        sn_plan_memory(&found, &stages, &p);
        *out = found.total;
    }
    sn_stages_fini(&stages);
    sn_model_destroy(model);
    return st;
}

struct candidate {
    struct sn_layout_config layout;
    double seconds; /* 0: none */
};

/* Does the shorter way lose what plain sending has: that it fits? */
static enum sn_status compare_memory(bool *fits, struct sn_config *c, const struct candidate *plain,
                                     const struct candidate *best, const struct sn_machine *m,
                                     const struct sn_software *s, struct sn_err *err)
{
    int64_t limit = sn_memory_limit(m, c), before = 0, after = 0;
    c->layout = best->layout;
    SN_TRY(memory(&after, c, m, s, err));
    *fits = limit <= 0 || after <= limit;
    if (*fits)
        return SN_OK;
    c->layout = plain->layout;
    SN_TRY(memory(&before, c, m, s, err));
    *fits = after <= before;
    return SN_OK;
}

/* The shortest way, and plain sending, which is the first that is valid. */
static enum sn_status find_best(struct candidate *plain, struct candidate *best,
                                struct sn_config *way, const struct sn_machine *m,
                                const struct sn_software *s, struct sn_err *err)
{
    const struct sn_layout_config open = way->layout;
    for (int i = 0; i < WAYS; i++) {
        struct candidate x;
        way->layout = open;
        if (!take(&way->layout, &ways[i]))
            continue;
        SN_TRY(price(&x.seconds, way, m, s, err));
        x.layout = way->layout;
        if (x.seconds > 0 && (best->seconds == 0 || x.seconds < best->seconds))
            *best = x;
        if (plain->seconds == 0)
            *plain = x;
    }
    return SN_OK;
}

enum sn_status sn_tokens_choose(struct sn_config *c, const struct sn_machine *m,
                                const struct sn_software *s, struct sn_err *err)
{
    struct sn_config *way = sn_alloc(sizeof(*way)); /* large for a stack */
    struct candidate plain = {.seconds = 0}, best = plain;
    bool fits = true;
    if (!way)
        return sn_fail(err, SN_ENOMEM, "layout.expert_tokens: no memory to price it");
    *way = *c;
    enum sn_status st = find_best(&plain, &best, way, m, s, err);
    if (st == SN_OK && best.seconds > 0 && best.seconds < plain.seconds)
        st = compare_memory(&fits, way, &plain, &best, m, s, err);
    sn_free(way);
    if (st != SN_OK)
        return st;
    if (best.seconds > 0)
        c->layout = fits ? best.layout : plain.layout;
    sn_config_settle_tokens(&c->layout);
    return SN_OK;
}
