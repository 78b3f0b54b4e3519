#include "lib/search/fit_cache.h"

#include "lib/machine/named.h"
#include "lib/search/planned.h"
#include "lib/sim/plan.h"

enum sn_status sn_cache_most(int *n, int most, sn_cache_fits *fits, void *arg, struct sn_err *err)
{
    int low = 0, high = most, next = most;
    while (low < high) {
        bool good = false;
        SN_TRY(fits(arg, next, &good, err));
        low = good ? next : low;
        high = good ? high : next - 1;
        next = (low + high + 1) / 2;
    }
    *n = low;
    return SN_OK;
}

struct layout {
    struct sn_config *config;
    struct sn_job_env env;
    const struct sn_machine *machine;
    const struct sn_software *software;
};

static enum sn_status layout_fits(void *arg, int n, bool *good, struct sn_err *err)
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
    *good = memory.total <= sn_memory_limit(l->machine, l->config);
    return SN_OK;
}

static enum sn_status find(int *n, struct sn_config *c, const struct sn_machine *m,
                           struct sn_err *err)
{
    struct sn_software software;
    struct sn_accelerator plugin;
    struct sn_model *model = NULL;
    struct layout l = {.config = c, .machine = m, .software = &software};
    SN_TRY(sn_software_of(&software, c, NULL, err));
    SN_TRY(sn_model_create(&model, &c->model, &c->train, err));
    l.env = (struct sn_job_env){.config = c,
                                .model = model,
                                .ops = sn_planned_ops(&plugin, c),
                                .threads = c->run.threads > 0 ? c->run.threads : 1};
    enum sn_status st = sn_cache_most(n, c->model.layers + 2, layout_fits, &l, err);
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
        enum sn_status st = sn_machine_of(&m, c, NULL, err);
        if (st == SN_OK)
            st = find(&n, c, &m, err);
        sn_machine_fini(&m);
        if (st != SN_OK)
            return sn_err_prefix(err, "layout.zero_cache: auto");
    }
    c->layout.zero_cache = n;
    return SN_OK;
}
