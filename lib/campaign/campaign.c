#include "lib/campaign/campaign.h"

#include "lib/base/duration.h"
#include "lib/config/batch.h"
#include "lib/machine/named.h"

#include <math.h>

enum sn_status sn_campaign_steps(int64_t *steps, const struct sn_config *c, double tokens,
                                 struct sn_err *err)
{
    const int64_t most = INT64_C(1000000000000);
    int64_t low = 1, high = most; /* train.steps' bounds */
    if (!((double)sn_samples_before(&c->train, most + 1) * c->model.seq >= tokens))
        return sn_fail(err, SN_EINPUT,
                       "--tokens: %g tokens take more than %lld steps of train.global_batch (%d "
                       "sequences); want fewer",
                       tokens, (long long)most, c->train.global_batch);
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if ((double)sn_samples_before(&c->train, mid + 1) * c->model.seq >= tokens)
            high = mid;
        else
            low = mid + 1;
    }
    *steps = low;
    return SN_OK;
}

/* Seconds of all steps. */
static enum sn_status work_of(double *out, struct sn_stages *s, const struct sn_pricer *p,
                              const struct sn_plan *last, struct sn_err *err)
{
    const struct sn_train_config *t = &s->job[0]->config->train;
    int sizes = sn_batch_sizes(t);
    double sum = 0;
    for (int k = 0; k < sizes; k++) {
        int64_t first, end;
        struct sn_plan plan = *last;
        (void)sn_batch_size(t, k, &first, &end);
        end = end < t->steps ? end : t->steps;
        if (end < first)
            continue;
        if (k + 1 < sizes)
            SN_TRY(sn_plan_of_batch(&plan, s, p, k, err));
        sum += (double)(end - first + 1) * plan.step_time;
    }
    *out = sum;
    return SN_OK;
}

static enum sn_status play(struct sn_campaign *out, struct sn_stages *s, const struct sn_machine *m,
                           const struct sn_software *software, struct sn_err *err)
{
    struct sn_pricer pricer;
    sn_pricer_init(&pricer, m, software, s->job[0]);
    SN_TRY(sn_plan_make(&out->plan, s, &pricer, err));
    sn_goodput_find(&out->goodput, s, m, out->plan.step_time);
    return work_of(&out->terms.work, s, &pricer, &out->plan, err);
}

static enum sn_status compile(struct sn_campaign *out, const struct sn_config *c,
                              const struct sn_machine *m, const struct sn_software *software,
                              const struct sn_campaign_want *want, struct sn_err *err)
{
    struct sn_model *model = NULL;
    struct sn_stages stages = {0};
    SN_TRY(sn_model_create(&model, &c->model, &c->train, err));
    struct sn_job_env env = {
        .config = c, .model = model, .ops = want->ops, .threads = want->threads};
    enum sn_status st = sn_stages_create(&stages, &env, err);
    if (st == SN_OK)
        st = play(out, &stages, m, software, err);
    out->parameters = sn_model_param_count(model);
    sn_stages_fini(&stages);
    sn_model_destroy(model);
    return st;
}

/* How the run goes: of its jobs, its saves and its slow nodes. */
static void set_terms(struct sn_campaign *out, const struct sn_config *c,
                      const struct sn_campaign_want *want)
{
    struct sn_terms *t = &out->terms;
    const struct sn_failures *f = &out->goodput.failures;
    double save = f->pause + f->write;
    int64_t limit = 0;
    out->interval = c->checkpoint.every > 0 ? c->checkpoint.every : out->goodput.steps;
    t->failures = *f;
    t->interval = fmin((double)out->interval * out->plan.step_time, t->work);
    t->in_place = c->slurm.spares > 0;
    t->queue = want->queue;
    t->slow = want->slow;
    t->slow.every /= out->nodes;
    if (sn_duration_parse(c->slurm.time, &limit)) {
        double l = (double)limit;
        double before = c->slurm.signal_before ? c->slurm.signal_before
                                               : want->notice(out->plan.step_time, save, l);
        out->job = l;
        t->limit = l - fmax(0, before - save);
    }
}

static void add_up(struct sn_campaign *out, const struct sn_config *c, const struct sn_machine *m)
{
    double hours = out->held.seconds / 3600, held = out->nodes + out->spares;
    out->steps = c->train.steps;
    out->tokens = (double)sn_samples_before(&c->train, out->steps + 1) * c->model.seq;
    out->days = (out->held.seconds + out->held.jobs * out->terms.queue) / 86400;
    out->node_hours = hours * held;
    out->device_hours = out->node_hours * m->devices;
    out->device_joules = out->device_hours * 3600 * m->device.watts;
    out->node_joules = out->node_hours * 3600 * m->node_watts;
    out->dollars =
        m->price_node > 0 ? out->node_hours * m->price_node : out->device_hours * m->price_device;
    out->saves = out->terms.work / out->terms.interval + out->held.jobs;
    out->keep = c->checkpoint.keep;
    out->limit = sn_memory_limit(m, c);
}

enum sn_status sn_campaign_find(struct sn_campaign *out, const struct sn_config *c,
                                const struct sn_machine *m, const struct sn_software *s,
                                const struct sn_campaign_want *want, struct sn_err *err)
{
    *out = (struct sn_campaign){.spares = c->slurm.spares};
    SN_TRY(compile(out, c, m, s, want, err));
    out->nodes = (out->plan.ranks + m->devices - 1) / m->devices;
    set_terms(out, c, want);
    if (sn_held_find(&out->held, &out->terms, err) != SN_OK)
        return sn_err_prefix(err, "%s", c->path);
    add_up(out, c, m);
    return want->trials ? sn_drawn_play(&out->drawn, &out->terms, want->seed, want->trials, err)
                        : SN_OK;
}
