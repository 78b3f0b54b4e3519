#include "slurm/run/forecast.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/cost/price.h"
#include "lib/exec/threads.h"
#include "lib/machine/named.h"
#include "lib/report/goodput.h"
#include "lib/search/planned.h"
#include "lib/sim/plan.h"

#include <stdio.h>
#include <string.h>

static enum sn_status play(struct sn_submit_plan *out, const struct sn_stages *s,
                           const struct sn_machine *m, struct sn_err *err)
{
    struct sn_software software;
    struct sn_pricer pricer;
    struct sn_plan p;
    struct sn_goodput g;
    sn_software_default(&software); /* what submits is sennit, whatever a plan compares with */
    sn_pricer_init(&pricer, m, &software, s->job[0]);
    SN_TRY(sn_plan_make(&p, s, &pricer, err));
    sn_goodput_find(&g, s, m, p.step_time);
    out->memory = p.memory.total;
    out->limit = sn_memory_limit(m, s->job[0]->config);
    out->useful = g.as_it_was > 0 ? g.as_it_was : g.fraction;
    if (out->times.is_measured)
        return SN_OK;
    out->times.step = out->times.typical = p.step_time;
    out->times.save = g.failures.pause + g.failures.write;
    out->times.is_assumed = g.storage_assumed;
    return SN_OK;
}

static enum sn_status plan(struct sn_submit_plan *out, const struct sn_config *c,
                           const struct sn_machine *m, struct sn_err *err)
{
    struct sn_model *model = NULL;
    struct sn_stages stages = {0};
    struct sn_accelerator plugin;
    SN_TRY(sn_model_create(&model, &c->model, &c->train, err));
    struct sn_job_env env = {.config = c,
                             .model = model,
                             .ops = sn_planned_ops(&plugin, c),
                             .threads = sn_threads(c, sn_config_ranks(c))};
    enum sn_status st = sn_stages_create(&stages, &env, err);
    if (st == SN_OK)
        st = play(out, &stages, m, err);
    sn_stages_fini(&stages);
    sn_accelerator_close(&plugin);
    sn_model_destroy(model);
    (void)snprintf(out->machine, sizeof(out->machine), "%s", m->name);
    return st;
}

/* The machine that the run file names, or else the site's, if it has the run's precision. */
static enum sn_status find_machine(struct sn_machine *m, struct sn_submit_plan *out,
                                   const struct sn_config *c, const struct sn_site *s,
                                   struct sn_err *err)
{
    struct sn_err why = {.text = "neither the run file nor the site names a machine; want "
                                 "machine.preset or machine.file"};
    if (sn_names_machine(c))
        return sn_machine_of(m, c, NULL, err);
    if (s->machine[0] && sn_machine_preset(m, s->machine, NULL, &why) == SN_OK &&
        sn_machine_check_precision(m, c->train.precision, &why) == SN_OK)
        return SN_OK;
    (void)snprintf(out->why, sizeof(out->why), "%.255s", why.text);
    sn_machine_fini(m);
    return SN_OK;
}

enum sn_status sn_submit_plan(struct sn_submit_plan *out, const struct sn_config *c,
                              const struct sn_site *s, const char *output, struct sn_err *err)
{
    struct sn_machine m = {0};
    *out = (struct sn_submit_plan){.useful = 1};
    (void)sn_save_time_read(&out->times, output); /* a run that measured nothing is planned */
    SN_TRY(find_machine(&m, out, c, s, err));
    if (!out->why[0]) {
        enum sn_status st = plan(out, c, &m, err);
        sn_machine_fini(&m);
        SN_TRY(st);
    }
    out->times.every = (double)c->checkpoint.every * out->times.step;
    return SN_OK;
}
