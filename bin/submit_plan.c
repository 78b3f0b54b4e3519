#include "bin/submit_plan.h"

#include "bin/common.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/plan/goodput.h"
#include "lib/plan/named.h"
#include "lib/plan/plan.h"
#include "lib/plan/price.h"

#include <stdio.h>
#include <string.h>

static enum sn_status play(struct sn_save_time *out, const struct sn_stages *s,
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
    out->step = p.step_time;
    out->save = g.failures.pause + g.failures.write;
    out->is_assumed = g.storage_assumed;
    return SN_OK;
}

static enum sn_status plan(struct sn_save_time *out, const struct sn_config *c,
                           const struct sn_machine *m, struct sn_err *err)
{
    struct sn_model *model = NULL;
    struct sn_stages stages = {0};
    SN_TRY(sn_model_create(&model, &c->model, &c->train, err));
    struct sn_job_env env = {.config = c,
                             .model = model,
                             .ops = sn_ops_cpu(),
                             .threads = sn_threads(c, sn_config_ranks(c))};
    enum sn_status st = sn_stages_create(&stages, &env, err);
    if (st == SN_OK)
        st = play(out, &stages, m, err);
    sn_stages_fini(&stages);
    sn_model_destroy(model);
    return st;
}

enum sn_status sn_submit_plan(struct sn_save_time *out, const struct sn_config *c,
                              const struct sn_site *s, const char *output, struct sn_err *err)
{
    struct sn_machine m = {0};
    struct sn_err unused;
    *out = (struct sn_save_time){0};
    if (!sn_save_time_read(out, output)) {
        if (sn_names_machine(c))
            SN_TRY(sn_machine_of(&m, c, NULL, err));
        else if (!s->machine[0] || sn_machine_preset(&m, s->machine, NULL, &unused) != SN_OK ||
                 sn_machine_check_precision(&m, c->train.precision, &unused) != SN_OK) {
            sn_machine_fini(&m);
            return SN_OK;
        }
        enum sn_status st = plan(out, c, &m, err);
        sn_machine_fini(&m);
        SN_TRY(st);
    }
    out->every = (double)c->checkpoint.every * out->step;
    return SN_OK;
}
