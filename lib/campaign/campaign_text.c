/*
 * campaign_text.c - a campaign in words, and in JSON.
 */
#include "lib/base/duration.h"
#include "lib/campaign/campaign.h"
#include "lib/report/picture.h"

#include <stdio.h>

const char *sn_campaign_number(char buf[24], double n)
{
    if (n >= 1e9)
        (void)snprintf(buf, 24, "%.3g", n);
    else if (n >= 1e6)
        (void)snprintf(buf, 24, "%.3g M", n / 1e6);
    else if (n >= 1e4)
        (void)snprintf(buf, 24, "%.3g k", n / 1e3);
    else
        (void)snprintf(buf, 24, n >= 1000 ? "%.0f" : "%.3g", n);
    return buf;
}

void sn_campaign_head_text(struct sn_str *out, const struct sn_config *c,
                           const struct sn_campaign *k, const struct sn_machine *m,
                           const struct sn_software *s)
{
    char axes[SN_AXES_SIZE] = {0}, need[16], have[16];
    const char *note = sn_software_mfu_note(s, m);
    sn_str_add(out, "%s: %s, %lld parameters, %s\nlayout: %s, micro_batch %d\n", c->run.name,
               sn_family_name(c->model.family), (long long)k->parameters,
               sn_dtype_name(c->train.precision), sn_config_axes(axes, &c->layout),
               c->layout.micro_batch);
    sn_str_add(out, "machine: %s, %d ranks; trainer: %s\nstep: %.4g s, MFU %.1f %%%s%s\n", m->name,
               k->plan.ranks, s->name, k->plan.step_time, 100 * k->plan.mfu, note ? "; " : "",
               note ? note : "");
    if (k->limit && k->plan.memory.total > k->limit)
        sn_str_add(out, "does not fit: a rank needs %s of %s\n",
                   sn_str_bytes(need, k->plan.memory.total), sn_str_bytes(have, k->limit));
}

static void text_jobs(struct sn_str *out, const struct sn_campaign *c)
{
    char n[24], limit[SN_DURATION_SIZE];
    sn_str_add(out, "  jobs          %10s  ", sn_campaign_number(n, c->held.jobs));
    if (c->job > 0)
        sn_str_add(out, "of %s (slurm.time)", sn_duration_format(limit, (int64_t)c->job));
    else
        sn_str_add(out, "without a limit of time");
    sn_str_add(out, ", %.3g h in a queue each%s\n", c->terms.queue / 3600,
               c->terms.in_place ? "" : "; each failure ends one, for there are no spare nodes");
}

static void text_energy(struct sn_str *out, const struct sn_campaign *c, const struct sn_machine *m)
{
    if (c->device_joules > 0)
        sn_str_add(out, "  energy        %10.4g  MWh of devices (%g W each, at most)",
                   c->device_joules / 3.6e9, m->device.watts);
    if (c->device_joules > 0 && c->node_joules > 0)
        sn_str_add(out, ", %.4g MWh of the rest of their nodes (%g W each)", c->node_joules / 3.6e9,
                   m->node_watts);
    if (c->device_joules > 0)
        sn_str_add(out, "\n");
    if (c->dollars > 0)
        sn_str_add(out, "  money         %10.4g  $, %g a %s\n", c->dollars,
                   m->price_node > 0 ? m->price_node : m->price_device,
                   m->price_node > 0 ? "node-hour" : "device-hour");
}

static void text_drawn(struct sn_str *out, const struct sn_drawn *d)
{
    if (d->trials)
        sn_str_add(out,
                   "drawn at random, %d times: %.4g days (+- %.2g), nine in ten %.4g to %.4g; "
                   "%.4g failures, %.4g jobs\n",
                   d->trials, d->days.mean, d->days.error, d->days.low, d->days.high, d->failures,
                   d->jobs);
}

void sn_campaign_text(struct sn_str *out, const struct sn_campaign *c, const struct sn_machine *m)
{
    char a[24], size[16], kept[16], best[48] = "";
    const struct sn_held_time *h = &c->held;
    double queue = h->jobs * c->terms.queue / 86400, held = h->seconds / 86400;
    if (c->interval != c->goodput.steps)
        (void)snprintf(best, sizeof(best), " (the best are %lld)", (long long)c->goodput.steps);
    sn_str_add(out, "campaign: %lld step%s, %s tokens, %.3g a parameter, on %d node%s",
               (long long)c->steps, c->steps == 1 ? "" : "s", sn_campaign_number(a, c->tokens),
               c->tokens / (double)c->parameters, c->nodes, c->nodes == 1 ? "" : "s");
    if (c->spares)
        sn_str_add(out, " and %d spare", c->spares);
    sn_str_add(out,
               "\n  days          %10.4g  %.4g of training (%.1f %% of the time that nodes are "
               "held), %.4g of saves, failures and starts, %.4g in queues\n",
               c->days, c->terms.work / 86400, 100 * h->fraction, held - c->terms.work / 86400,
               queue);
    text_jobs(out, c);
    sn_str_add(out, "  failures      %10s  one every %s%s\n", sn_campaign_number(a, h->failures),
               sn_picture_hours((char[24]){0}, c->terms.failures.mtbf),
               c->goodput.mtbf_assumed ? " (assumed)" : "");
    if (c->terms.slow.every > 0)
        sn_str_add(out, "  slow nodes    %10s  steps go at %.1f %% of their pace\n",
                   sn_campaign_number(a, h->seconds / c->terms.slow.every),
                   100 * sn_slow_pace(&c->terms.slow));
    sn_str_add(out, "  node-hours    %10s\n", sn_campaign_number(a, c->node_hours));
    sn_str_add(out, "  device-hours  %10s\n", sn_campaign_number(a, c->device_hours));
    text_energy(out, c, m);
    sn_str_add(out,
               "  checkpoints   %10s  of %s, every %lld steps%s; %lld stay, %s; %.4g TB are "
               "written%s\n",
               sn_campaign_number(a, c->saves), sn_str_bytes(size, c->goodput.bytes),
               (long long)c->interval, best, (long long)c->keep,
               sn_str_bytes(kept, c->goodput.bytes * c->keep),
               c->saves * (double)c->goodput.bytes / 1e12,
               c->goodput.storage_assumed ? " (storage's speed assumed)" : "");
    text_drawn(out, &c->drawn);
}

static void json_known(struct sn_str *out, const char *key, double value)
{
    if (value > 0)
        sn_str_add(out, "\"%s\": %.9g, ", key, value);
    else
        sn_str_add(out, "\"%s\": null, ", key);
}

static void json_drawn(struct sn_str *out, const struct sn_drawn *d)
{
    if (d->trials)
        sn_str_add(out,
                   "{\"trials\": %d, \"days\": %.9g, \"days_error\": %.9g, \"days_low\": %.9g, "
                   "\"days_high\": %.9g, \"held_s\": %.9g, \"failures\": %.9g, \"jobs\": %.9g}",
                   d->trials, d->days.mean, d->days.error, d->days.low, d->days.high, d->held.mean,
                   d->failures, d->jobs);
    else
        sn_str_add(out, "null");
}

void sn_campaign_json(struct sn_str *out, const struct sn_campaign *c)
{
    sn_str_add(out,
               "{\"steps\": %lld, \"tokens\": %.15g, \"tokens_per_parameter\": %.9g, "
               "\"nodes\": %d, \"spares\": %d, \"days\": %.9g, \"training_s\": %.9g, "
               "\"held_s\": %.9g, \"queue_s\": %.9g, \"goodput\": %.9g, \"jobs\": %.9g, ",
               (long long)c->steps, c->tokens, c->tokens / (double)c->parameters, c->nodes,
               c->spares, c->days, c->terms.work, c->held.seconds, c->held.jobs * c->terms.queue,
               c->held.fraction, c->held.jobs);
    json_known(out, "job_s", c->job);
    sn_str_add(out,
               "\"failures\": %.9g, \"mtbf_s\": %.9g, \"slow_pace\": %.9g, \"node_hours\": %.9g, "
               "\"device_hours\": %.9g, ",
               c->held.failures, c->terms.failures.mtbf, sn_slow_pace(&c->terms.slow),
               c->node_hours, c->device_hours);
    json_known(out, "device_kwh", c->device_joules / 3.6e6);
    json_known(out, "node_kwh", c->node_joules / 3.6e6);
    json_known(out, "dollars", c->dollars);
    sn_str_add(out,
               "\"checkpoint_bytes\": %lld, \"checkpoint_steps\": %lld, \"checkpoints\": %.9g, "
               "\"kept_bytes\": %lld, \"written_bytes\": %.9g, \"mtbf_assumed\": %s, "
               "\"storage_assumed\": %s, \"drawn\": ",
               (long long)c->goodput.bytes, (long long)c->interval, c->saves,
               (long long)(c->goodput.bytes * c->keep), c->saves * (double)c->goodput.bytes,
               c->goodput.mtbf_assumed ? "true" : "false",
               c->goodput.storage_assumed ? "true" : "false");
    json_drawn(out, &c->drawn);
    sn_str_add(out, "}");
}
