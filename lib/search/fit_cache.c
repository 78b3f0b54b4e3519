#include "lib/search/fit_cache.h"

#include "lib/machine/named.h"
#include "lib/search/planned.h"
#include "lib/sim/plan.h"

#include <math.h>

enum { GUESSES = 4 }; /* by the line; then halves */

/* The most that fit, the least that do not, and by how many bytes those are over; what one more takes, by the
 * last two that were tried. */
struct tried {
    int low, high, n;
    int64_t low_over, high_over;
    double each;
    bool trusts; /* the line where it says that one more does not fit */
};

static bool is_found(const struct tried *t)
{
    bool ends = t->low > 0 && t->each > 0 && (double)t->low_over + t->each > t->each / 4;
    return (t->trusts && ends) || t->high - t->low <= 1;
}

/* Strictly between. */
static int next_of(const struct tried *t)
{
    int next = (t->low + t->high) / 2;
    if (t->n <= GUESSES && t->each > 0 && t->high_over == 0) /* all fit so far */
        next = t->low + (int)fmin(t->high, (double)-t->low_over / t->each);
    else if (t->n <= GUESSES && t->each > 0)
        next = t->high - (int)fmin(t->high, ceil((double)t->high_over / t->each));
    else if (t->n == 1)
        next = t->high - 1;
    return next <= t->low ? t->low + 1 : next >= t->high ? t->high - 1 : next;
}

enum sn_status sn_cache_most(int *n, const struct sn_cache_guess *g, sn_cache_over *over, void *arg,
                             struct sn_err *err)
{
    struct tried t = {.high = g->most + 1, .each = g->each, .trusts = g->each > 0};
    int64_t bytes = 0, before;
    int first = g->first < 1 ? 1 : g->first > g->most ? g->most : g->first;
    for (int next = first, last = 0; !is_found(&t); next = next_of(&t)) {
        before = bytes;
        SN_TRY(over(arg, next, &bytes, err));
        t.each = t.n++ > 0 ? (double)(bytes - before) / (next - last) : t.each;
        last = next;
        if (bytes <= 0) {
            t.low = next;
            t.low_over = bytes;
        } else {
            t.high = next;
            t.high_over = bytes;
        }
    }
    *n = t.low;
    return SN_OK;
}

struct layout {
    struct sn_config *config;
    struct sn_job_env env;
    const struct sn_machine *machine;
    const struct sn_software *software;
};

static enum sn_status layout_over(void *arg, int n, int64_t *over, struct sn_err *err)
{
    struct layout *l = arg;
    struct sn_stages stages;
    struct sn_pricer p;
    struct sn_memory_plan memory;
    l->config->layout.zero_cache = n;
    SN_TRY(sn_stages_create(&stages, &l->env, err));
    sn_pricer_init(&p, l->machine, l->software, stages.job[0]);
    sn_plan_memory(&memory, &stages, &p);
    sn_stages_fini(&stages);
    *over = memory.total - sn_memory_limit(l->machine, l->config);
    return SN_OK;
}

static enum sn_status find(int *n, struct sn_config *c, const struct sn_machine *m,
                           struct sn_err *err)
{
    struct sn_software software;
    struct sn_accelerator plugin;
    struct sn_model *model = NULL;
    struct layout l = {.config = c, .machine = m, .software = &software};
    int most = c->model.layers + 2;
    SN_TRY(sn_software_of(&software, c, NULL, err));
    SN_TRY(sn_model_create(&model, &c->model, &c->train, err));
    l.env = (struct sn_job_env){.config = c,
                                .model = model,
                                .ops = sn_planned_ops(&plugin, c),
                                .threads = c->run.threads > 0 ? c->run.threads : 1};
    enum sn_status st =
        sn_cache_most(n, &(struct sn_cache_guess){most, most, 0}, layout_over, &l, err);
    sn_accelerator_close(&plugin);
    sn_model_destroy(model);
    return st;
}

enum sn_status sn_cache_resolve(struct sn_config *c, struct sn_err *err)
{
    struct sn_machine m = {0};
    int n = 0;
    if (c->layout.zero_cache != SN_CACHE_AUTO)
        return SN_OK;
    if (sn_weights_are_slices(sn_config_holding(c)) && sn_names_machine(c)) {
        SN_TRY(sn_machine_of(&m, c, NULL, err)); /* its own sentence names the file */
        enum sn_status st = find(&n, c, &m, err);
        sn_machine_fini(&m);
        if (st != SN_OK)
            return sn_err_prefix(err, "layout.zero_cache: auto");
    }
    c->layout.zero_cache = n;
    return SN_OK;
}
