#include "bin/submit_check.h"

#include "lib/base/duration.h"
#include "lib/config/batch.h"

#include <math.h>

static enum sn_status look_at_inputs(struct sn_submit_findings *f, int64_t *resumes,
                                     const struct sn_config *c, struct sn_err *err)
{
    struct sn_inputs in;
    struct sn_err why;
    *resumes = 0;
    if (c->data.train.n == 0)
        sn_str_add(&f->bad,
                   "%s: data.train: missing; want the prefix of token files that sennit-data build "
                   "has made\n",
                   c->path);
    enum sn_status st = sn_inputs_look(&in, c, &why);
    if (st == SN_ENOMEM)
        return sn_fail(err, st, "%s", why.text);
    if (st != SN_OK) {
        sn_str_add(&f->bad, "%s\n", why.text);
        return SN_OK;
    }
    *resumes = in.start.step > 0 ? in.start.step : 0;
    sn_inputs_text(&f->good, &in, c);
    sn_inputs_warn(sn_inputs_absent(&in) ? &f->bad : &f->doubtful, &in, c);
    return SN_OK;
}

static void look_at_memory(struct sn_submit_findings *f, const struct sn_submit_plan *p,
                           const struct sn_config *c)
{
    char need[16], have[16];
    if (!p->machine[0]) {
        sn_str_add(&f->doubtful,
                   "%s: nobody looked whether the run fits, and how long it takes: %s\n", c->path,
                   p->why);
        return;
    }
    (void)sn_str_bytes(need, p->memory);
    (void)sn_str_bytes(have, p->limit);
    if (p->memory <= p->limit)
        sn_str_add(&f->good, "memory: a rank needs %s of %s (%s)\n", need, have, p->machine);
    else
        sn_str_add(&f->bad,
                   "%s: the layout does not fit: a rank needs %s of %s (%s); sennit-plan names "
                   "layouts that do\n",
                   c->path, need, have, p->machine);
}

/* Training, saves and restarts; a job ends as long before its limit as it is told. */
static void look_at_time(struct sn_submit_findings *f, const struct sn_batch *b,
                         const struct sn_submit_plan *p, int64_t done)
{
    const struct sn_config *c = b->config;
    char total[SN_DURATION_SIZE], limit[SN_DURATION_SIZE];
    int64_t left = c->train.steps - done, usable = c->slurm.seconds - b->signal_before;
    int size = p->times.is_measured && done > 0 ? sn_batch_of(&c->train, done) : c->train.global_batch;
    double alike = (double)(sn_samples_before(&c->train, c->train.steps + 1) -
                            sn_samples_before(&c->train, done + 1)) /
                   size; /* steps as long as the typical one */
    double seconds = alike * p->times.typical / (p->useful > 0 ? p->useful : 1);
    if (p->times.typical <= 0 || left <= 0 || !(seconds < 1e9))
        return;
    sn_str_add(&f->good, "time: %lld steps of %.4g s (%s) take about %s", (long long)left,
               p->times.typical, p->times.is_measured ? "as this run measured" : "planned",
               sn_duration_format(total, (int64_t)ceil(seconds)));
    int jobs = usable > 0 ? (int)fmin(ceil(seconds / (double)usable), 1e6) : 0;
    if (c->slurm.seconds)
        sn_str_add(&f->good, ", %d job%s of %s\n", jobs, jobs == 1 ? "" : "s",
                   sn_duration_format(limit, c->slurm.seconds));
    else
        sn_str_add(&f->good, "; slurm.time sets no limit\n");
    if (jobs > c->slurm.chain && !b->requeue)
        sn_str_add(&f->doubtful,
                   "%s: the run takes about %d jobs, and %s puts none back into the queue; want "
                   "--chain %d\n",
                   c->path, jobs, b->site->name, jobs < 1000 ? jobs : 1000);
}

static void describe_site(struct sn_submit_findings *f, const struct sn_batch *b)
{
    const struct sn_slurm_config *l = &b->config->slurm;
    int nodes = b->nodes + l->spares;
    sn_str_add(&f->good, "site: the profile of %s takes %d node%s", b->site->name, nodes,
               nodes == 1 ? "" : "s");
    if (b->partition_name[0])
        sn_str_add(&f->good, ", partition %s", b->partition_name);
    if (b->qos_name[0])
        sn_str_add(&f->good, ", qos %s", b->qos_name);
    if (l->account[0])
        sn_str_add(&f->good, ", account %s", l->account);
    if (l->time[0])
        sn_str_add(&f->good, ", %s", l->time);
    sn_str_add(&f->good, "\n");
}

enum sn_status sn_submit_look(struct sn_submit_findings *out, const struct sn_batch *b,
                              const struct sn_submit_plan *p, struct sn_err *err)
{
    int64_t done;
    SN_TRY(look_at_inputs(out, &done, b->config, err));
    look_at_memory(out, p, b->config);
    look_at_time(out, b, p, done);
    describe_site(out, b);
    if (out->good.failed || out->doubtful.failed || out->bad.failed)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to look at the job", b->config->path);
    return SN_OK;
}

void sn_submit_findings_fini(struct sn_submit_findings *f)
{
    sn_str_fini(&f->good);
    sn_str_fini(&f->doubtful);
    sn_str_fini(&f->bad);
}
