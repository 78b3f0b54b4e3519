#include "lib/campaign/campaign.h"

#include "lib/base/duration.h"
#include "lib/config/batch.h"
#include "lib/machine/named.h"

#include <math.h>

static const int64_t MOST_STEPS = INT64_C(1000000000000); /* train.steps' bound */

enum sn_status sn_campaign_steps(int64_t *steps, const struct sn_config *c, double tokens,
                                 struct sn_err *err)
{
    const int64_t most = MOST_STEPS;
    int64_t low = 1, high = most;
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

static enum sn_status step_times(struct sn_campaign *out, struct sn_stages *s,
                                 const struct sn_pricer *p, struct sn_err *err)
{
    int last = sn_batch_sizes(&s->job[0]->config->train) - 1;
    for (int k = 0; k < last; k++) {
        struct sn_plan plan;
        SN_TRY(sn_plan_of_batch(&plan, s, p, k, err));
        out->step[k] = plan.step_time;
    }
    out->step[last] = out->plan.step_time;
    return SN_OK;
}

/* Seconds of so many steps. */
static double work_of(const struct sn_campaign *k, const struct sn_train_config *t, int64_t steps)
{
    int sizes = sn_batch_sizes(t);
    double sum = 0;
    for (int i = 0; i < sizes; i++) {
        int64_t first, end;
        (void)sn_batch_size(t, i, &first, &end);
        end = i + 1 == sizes || end > steps ? steps : end;
        sum += end < first ? 0 : (double)(end - first + 1) * k->step[i];
    }
    return sum;
}

static enum sn_status play(struct sn_campaign *out, struct sn_stages *s, const struct sn_machine *m,
                           const struct sn_software *software, struct sn_err *err)
{
    struct sn_pricer pricer;
    sn_pricer_init(&pricer, m, software, s->job[0]);
    SN_TRY(sn_plan_make(&out->plan, s, &pricer, err));
    sn_goodput_find(&out->goodput, s, m, out->plan.step_time);
    return step_times(out, s, &pricer, err);
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

static enum sn_status hold(struct sn_campaign *k, const struct sn_config *c, int64_t steps,
                           struct sn_err *err)
{
    struct sn_terms *t = &k->terms;
    k->steps = steps;
    t->work = work_of(k, &c->train, steps);
    t->interval = fmin((double)k->interval * k->plan.step_time, t->work);
    if (sn_held_find(&k->held, t, err) != SN_OK)
        return sn_err_prefix(err, "%s", c->path);
    return SN_OK;
}

enum sn_status sn_campaign_set_steps(struct sn_campaign *k, const struct sn_config *c,
                                     const struct sn_machine *m, int64_t steps, struct sn_err *err)
{
    SN_TRY(hold(k, c, steps, err));
    add_up(k, c, m);
    k->drawn = (struct sn_drawn){.trials = 0};
    return SN_OK;
}

enum sn_status sn_campaign_within(struct sn_campaign *k, const struct sn_config *c,
                                  const struct sn_machine *m, double node_hours, struct sn_err *err)
{
    double seconds = node_hours * 3600 / (k->nodes + k->spares);
    int64_t low = 0, high = MOST_STEPS;
    while (low < high) {
        int64_t mid = high - (high - low) / 2;
        SN_TRY(hold(k, c, mid, err));
        if (k->held.seconds <= seconds)
            low = mid;
        else
            high = mid - 1;
    }
    if (low == 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: %g node-hours are %.3g hours of %d nodes, in which no step is done and "
                       "saved; want more, or fewer ranks",
                       c->path, node_hours, seconds / 3600, k->nodes + k->spares);
    return sn_campaign_set_steps(k, c, m, low, err);
}

enum sn_status sn_campaign_find(struct sn_campaign *out, const struct sn_config *c,
                                const struct sn_machine *m, const struct sn_software *s,
                                const struct sn_campaign_want *want, struct sn_err *err)
{
    *out = (struct sn_campaign){.spares = c->slurm.spares};
    SN_TRY(compile(out, c, m, s, want, err));
    out->nodes = (out->plan.ranks + m->devices - 1) / m->devices;
    set_terms(out, c, want);
    SN_TRY(sn_campaign_set_steps(out, c, m, c->train.steps, err));
    return want->trials ? sn_drawn_play(&out->drawn, &out->terms, want->seed, want->trials, err)
                        : SN_OK;
}
