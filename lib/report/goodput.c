#include "lib/report/goodput.h"

#include "lib/program/boxes.h"

#include <math.h>

double sn_young_interval(const struct sn_failures *f)
{
    return sqrt(2 * f->pause * f->mtbf);
}

double sn_daly_interval(const struct sn_failures *f)
{
    double half = f->pause / (2 * f->mtbf);
    if (half >= 1)
        return f->mtbf;
    return sn_young_interval(f) * (1 + sqrt(half) / 3 + half / 9) - f->pause;
}

double sn_goodput_fraction(const struct sn_failures *f, double work)
{
    double m = f->mtbf;
    return work / m * exp(-(f->restart + f->write) / m) / expm1((work + f->pause) / m);
}

/* A checkpoint is written by all nodes at once, and by each no faster than it can; a node may have
 * ranks of the stage that holds most. Reading it takes as long. */
static double write_seconds(struct sn_goodput *out, const struct sn_machine *m, int64_t of_node)
{
    out->storage_assumed = m->storage_write <= 0 && m->storage_node <= 0;
    double node = out->storage_assumed ? SN_STORAGE_NODE : m->storage_node;
    double shared = m->storage_write > 0 ? (double)out->bytes / m->storage_write : 0;
    return fmax(shared, node > 0 ? (double)of_node / node : 0);
}

/* Ranks of a replica that hold other values of it. */
static int parts_of(const struct sn_job *j, const struct sn_bucket *b)
{
    int n = 1;
    for (int a = 0; a < j->mesh.n_axes; a++)
        n *= b->copies >> j->mesh.axis[a].group & 1u ? 1 : j->mesh.axis[a].size;
    return b->copies >> SN_GROUP_KV & 1u ? n / j->group_size[SN_GROUP_KV] : n;
}

/* What all ranks of a stage write: each value once, padding included. */
static int64_t stage_bytes(const struct sn_job *j)
{
    int64_t bytes = 0;
    for (int i = 0; i < j->n_buckets; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        if (b->copies >> SN_GROUP_TIED & 1u && j->group_index[SN_GROUP_TIED] != 0)
            continue;
        int parts = parts_of(j, b), holders = 0;
        (void)sn_feedback_holder(j, b, &holders);
        for (int k = 0; k < SN_NSTATE_KINDS; k++)
            if (sn_state_buffer(j, b, (enum sn_state_kind)k) >= 0)
                bytes +=
                    b->n * parts * (k == SN_STATE_FEEDBACK ? holders : 1) * (int64_t)sizeof(float);
    }
    return bytes;
}

static void failures_of(struct sn_goodput *out, const struct sn_stages *s,
                        const struct sn_machine *m)
{
    const struct sn_config *c = s->job[0]->config;
    int ranks = sn_config_ranks(c), on_node = m->devices < ranks ? m->devices : ranks;
    int64_t most = 0;
    for (int i = 0; i < s->n; i++) {
        int64_t of_rank = sn_job_snapshot_bytes(s->job[i]);
        out->bytes += stage_bytes(s->job[i]);
        most = of_rank > most ? of_rank : most;
    }
    double write = write_seconds(out, m, most * on_node);
    /* a host's own memory is read and written */
    double copy = (double)most / (m->storage_host > 0 ? m->storage_host : m->device.bandwidth / 2);
    bool async = c->checkpoint.async;
    out->mtbf_assumed = m->mtbf_hours <= 0;
    double node_hours = out->mtbf_assumed ? SN_MTBF_DEVICE_HOURS / m->devices : m->mtbf_hours;
    int nodes = (ranks + m->devices - 1) / m->devices;
    out->failures = (struct sn_failures){.mtbf = node_hours * 3600 / nodes,
                                         .pause = async ? copy : copy + write,
                                         .write = async ? write : 0,
                                         .restart = SN_RESTART_SECONDS + write};
}

/* The best whole number of steps: one of the two beside Daly's interval, but writes that go on
 * beside the work must not meet. */
static int64_t steps_of(const struct sn_failures *f, double step)
{
    int64_t below = (int64_t)fmax(1, floor(sn_daly_interval(f) / step));
    int64_t least = (int64_t)ceil(f->write / step);
    bool up = sn_goodput_fraction(f, (double)(below + 1) * step) >
              sn_goodput_fraction(f, (double)below * step);
    return below + up > least ? below + up : least;
}

void sn_goodput_find(struct sn_goodput *out, const struct sn_stages *s, const struct sn_machine *m,
                     double step)
{
    int every = s->job[0]->config->checkpoint.every;
    *out = (struct sn_goodput){0};
    failures_of(out, s, m);
    out->steps = steps_of(&out->failures, step);
    out->interval = (double)out->steps * step;
    out->fraction = sn_goodput_fraction(&out->failures, out->interval);
    out->as_it_was = every > 0 ? sn_goodput_fraction(&out->failures, every * step) : 0;
}
