#include "bin/plan_json.h"

#include "lib/config/batch.h"
#include "lib/config/keys.h"
#include "lib/layout/axes.h"

#include <inttypes.h>

/* Experts that are cut over fewer ranks than all else. */
static void json_experts(struct sn_str *out, const struct sn_layout_config *l)
{
    bool fewer = l->expert_tensor > 0 && l->expert_tensor < l->tensor;
    bool is_split = fewer || l->expert_tokens == SN_TOKENS_SPLIT;
    if (fewer)
        sn_str_add(out, "\"expert_tensor\": %d, ", l->expert_tensor);
    if (l->expert > 1 || (fewer && l->expert_tensor > 1))
        sn_str_add(out, "\"expert_node\": %d, \"expert_chunks\": %d, ",
                   l->expert > 1 && l->expert_node > 1 ? l->expert_node : 1,
                   l->expert_chunks > 1 ? l->expert_chunks : 1);
    if ((l->expert > 1 || (fewer && l->expert_tensor > 1)) && l->expert_buffer != 2)
        sn_str_add(out, "\"expert_buffer\": %.9g, ", l->expert_buffer);
    if (l->expert > 1 && l->tensor > 1)
        sn_str_add(out, "\"expert_tokens\": \"%s\", ", is_split ? "split" : "gathered");
    if (l->expert > 1 && l->tensor > 1 && !is_split)
        sn_str_add(out, "\"drop_duplicates\": %s, ",
                   l->drop_duplicates == SN_DUPLICATES_DROPPED ? "true" : "false");
}

/* Codecs of each kind of message; nothing where none has one. */
static void json_compress(struct sn_str *out, const struct sn_layout_config *l)
{
    const struct sn_compress_config *z = &l->compress;
    bool any = false;
    for (int k = 0; k < SN_NCODED; k++)
        any = any || z->coding[k].on;
    if (!any)
        return;
    sn_str_add(out, "\"compress\": {");
    for (int k = 0; k < SN_NCODED; k++) {
        char text[SN_NAME_MAX];
        sn_coding_format(&z->coding[k], text);
        sn_str_add(out, "\"%s\": \"%s\", ", sn_coded_name((enum sn_coded)k), text);
    }
    if (z->node > 0)
        sn_str_add(out, "\"node\": %d, ", z->node);
    sn_str_add(out, "\"feedback\": %s, \"guard\": %.9g}, ",
               z->coding[SN_CODED_DATA].feedback ? "true" : "false", z->guard);
}

/* What codecs take, and what the same layout would be without. */
static void json_codecs(struct sn_str *out, const struct sn_plan *p)
{
    if (p->plain_time <= 0)
        return;
    sn_str_add(out,
               "\"codec_s\": %.9g, \"uncompressed\": {\"step_time_s\": %.9g, \"gain\": %.9g, "
               "\"traffic_bytes\": {",
               p->codecs, p->plain_time, p->step_time > 0 ? p->plain_time / p->step_time - 1 : 0);
    for (int a = 0; a < SN_NAXES; a++)
        sn_str_add(out, "%s\"%s\": %lld", a ? ", " : "", sn_axis_name((enum sn_axis)a),
                   (long long)p->plain_traffic[a]);
    sn_str_add(out, "}, \"loss_rise\": ");
    if (p->rise < 0)
        sn_str_add(out, "null}, ");
    else
        sn_str_add(out, "%.9g}, ", p->rise);
}

/* Ranks along each axis, in the order of the run file's keys. */
static void json_axes(struct sn_str *out, const struct sn_layout_config *l)
{
    int size[SN_NAXES] = {[SN_AXIS_EXPERT] = l->expert};
    const char *key;
    enum sn_axis a;
    sn_axes_sizes(size, l);
    for (int i = 0; i < sn_n_keys; i++)
        if (sn_key_in(&sn_keys[i], "layout", &key) && sn_axis_find(&a, key))
            sn_str_add(out, "\"%s\": %d, ", key, size[a]);
}

static void json_layout(struct sn_str *out, const struct sn_layout_config *l)
{
    static const char *const recompute[] = {"none", "selective", "full"};
    sn_str_add(out, "\"layout\": {");
    json_axes(out, l);
    sn_str_add(out,
               "\"micro_batch\": %d, \"virtual_stages\": %d, \"sequence_parallel\": %s, "
               "\"schedule\": \"%s\", \"recompute\": \"%s\", \"zero\": %d, "
               "\"context_kind\": \"%s\", \"bucket\": %lld, ",
               l->micro_batch, l->virtual_stages, l->sequence_parallel ? "true" : "false",
               sn_schedule_names[l->schedule], recompute[l->recompute], l->zero,
               l->context_kind == SN_CONTEXT_RING ? "ring" : "all-to-all", (long long)l->bucket);
    if (l->zero_node > 0)
        sn_str_add(out, "\"zero_node\": %d, ", l->zero_node);
    if (l->zero_cache > 0)
        sn_str_add(out, "\"zero_cache\": %d, ", l->zero_cache);
    if (l->optimizer_tile > 0)
        sn_str_add(out, "\"optimizer_tile\": %lld, ", (long long)l->optimizer_tile);
    if (l->comm_aware_recompute)
        sn_str_add(out, "\"comm_aware_recompute\": true, ");
    if (l->overlap == SN_OVERLAP_AUTO)
        sn_str_add(out, "\"overlap\": \"auto\", ");
    if (l->tensor_pieces > 1)
        sn_str_add(out, "\"tensor_pieces\": %d, ", l->tensor_pieces);
    json_experts(out, l);
    json_compress(out, l);
    sn_str_add(out, "\"split\": %s", l->n_split ? "[" : "\"auto\"");
    for (int i = 0; i < l->n_split; i++)
        sn_str_add(out, "%s%d", i ? ", " : "", l->split[i]);
    sn_str_add(out, "%s, \"axis_order\": [", l->n_split ? "]" : "");
    for (int i = 0; i < l->n_axis_order; i++)
        sn_str_add(out, "%s\"%s\"", i ? ", " : "", sn_axis_name(sn_axes_ordered(l->axis_order[i])));
    sn_str_add(out, "]}, ");
}

static void json_memory(struct sn_str *out, const char *key, const struct sn_memory_plan *m)
{
    sn_str_add(out, "\"%s\": {", key);
    for (int u = 0; u < SN_NMEMORY_USES; u++)
        sn_str_add(out, "\"%s\": %lld, ", sn_memory_use_row((enum sn_memory_use)u)->name,
                   (long long)m->of[u]);
    sn_str_add(out, "\"total\": %lld}, ", (long long)m->total);
}

static void json_axes_traffic(struct sn_str *out, const struct sn_plan *p)
{
    sn_str_add(out, "\"traffic_bytes\": {");
    for (int a = 0; a < SN_NAXES; a++)
        sn_str_add(out, "%s\"%s\": %lld", a ? ", " : "", sn_axis_name((enum sn_axis)a),
                   (long long)p->traffic[a]);
    sn_str_add(out, "}");
}

/* Steps with smaller batches than the plan's. */
static void json_ramp(struct sn_str *out, const struct sn_plan_row *r)
{
    if (!r->ramp)
        return;
    sn_str_add(out, "\"ramp\": [");
    for (int k = 0; k < sn_batch_sizes(&r->job->config->train) - 1; k++) {
        int64_t first, last;
        int size = sn_batch_size(&r->job->config->train, k, &first, &last);
        const struct sn_plan *p = &r->ramp[k];
        sn_str_add(out,
                   "%s{\"batch\": %d, \"first_step\": %lld, \"last_step\": %lld, "
                   "\"micro_batches\": %d, \"step_time_s\": %.9g, \"tokens_per_s\": %.9g, ",
                   k ? ", " : "", size, (long long)first, (long long)last, p->micros, p->step_time,
                   p->tokens_per_s);
        json_axes_traffic(out, p);
        sn_str_add(out, "}");
    }
    sn_str_add(out, "], ");
}

/* What train.sparse leaves. */
static void json_sparse(struct sn_str *out, const struct sn_job *j)
{
    struct sn_sparsity x = {0};
    if (j)
        sn_model_sparsity(&x, j->model, j->config);
    if (x.matrices > 0)
        sn_str_add(out,
                   "\"sparse\": {\"matrices\": %d, \"values\": %lld, \"kept\": %lld, "
                   "\"flops_fraction\": %.9g}, ",
                   x.matrices, (long long)x.values, (long long)x.kept, x.flops);
}

/* What attention sees in the first steps, and the FLOPs of all of them. */
static void json_curriculum(struct sn_str *out, const struct sn_job *j)
{
    int n = j ? sn_lengths(j->config) : 1;
    if (n == 1)
        return;
    sn_str_add(out, "\"curriculum\": [");
    for (int k = 0; k < n; k++) {
        int64_t first, last;
        int length = sn_length(j->config, k, &first, &last);
        sn_str_add(out,
                   "%s{\"length\": %d, \"first_step\": %lld, \"last_step\": %lld, "
                   "\"flops_per_token\": %.9g}",
                   k ? ", " : "", length, (long long)first, (long long)last,
                   sn_model_flops_of_length(j->model, j->config, length));
    }
    sn_str_add(out, "], ");
}

static void json_traffic(struct sn_str *out, const struct sn_plan *p, const struct sn_machine *m)
{
    json_axes_traffic(out, p);
    sn_str_add(out, ", \"traffic_by_level\": {");
    for (int l = 0; l < m->n_levels; l++) {
        sn_str_add(out, "%s", l ? ", " : "");
        sn_str_add_json(out, m->level[l].name);
        sn_str_add(out, ": %lld", (long long)p->level_traffic[l]);
    }
    sn_str_add(out, "}, ");
}

static void json_time(struct sn_str *out, const struct sn_sim_stage *t, double again)
{
    sn_str_add(out, "\"exposed_comm_s\": {");
    for (int a = 0; a < SN_NAXES; a++)
        sn_str_add(out, "%s\"%s\": %.9g", a ? ", " : "", sn_axis_name((enum sn_axis)a),
                   t->exposed[a]);
    sn_str_add(out,
               "}, \"compute_s\": %.9g, \"recompute_s\": %.9g, \"update_s\": %.9g, "
               "\"idle_s\": %.9g",
               t->busy - t->update, again, t->update, t->idle);
}

static void json_stages(struct sn_str *out, const struct sn_plan_row *r)
{
    if (r->n_stages == 0)
        return;
    sn_str_add(out, "\"stages\": [");
    for (int i = 0; i < r->n_stages; i++) {
        const struct sn_plan_stage *s = &r->stage[i];
        sn_str_add(out, i ? ", {" : "{");
        json_memory(out, "bytes", &s->memory);
        json_time(out, &s->time, s->again);
        sn_str_add(out, "}");
    }
    sn_str_add(out, "], ");
}

/* Kinds of messages. */
static void json_approximate(struct sn_str *out, unsigned coded)
{
    const char *comma = "";
    sn_str_add(out, ", \"approximate\": [");
    for (int c = 0; c < SN_NCODED; c++) {
        if (!(coded >> c & 1u))
            continue;
        sn_str_add(out, "%s\"%s\"", comma, sn_coded_name((enum sn_coded)c));
        comma = ", ";
    }
    sn_str_add(out, "]");
}

static void json_verdict(struct sn_str *out, const struct sn_plan *p)
{
    const struct sn_meaning_proof *m = &p->meaning;
    bool means = m->gap || m->holds;
    if (m->holds)
        sn_str_add(out, ", \"certificate\": \"%016" PRIx64 "\"", m->certificate);
    if (m->holds)
        json_approximate(out, m->approximate);
    sn_str_add(out, ", \"meaning\": %s", m->gap ? "null" : m->holds ? "true" : "false");
    sn_str_add(out, ", \"verified\": %s, \"fault\": ", p->proof.holds && means ? "true" : "false");
    if (p->proof.holds && means)
        sn_str_add(out, "null");
    else
        sn_str_add_json(out, p->proof.holds ? m->fault.text : p->proof.fault.text);
}

static void json_mfu(struct sn_str *out, const struct sn_plan_row *r)
{
    const char *note = sn_software_mfu_note(r->software, r->machine);
    sn_str_add(out, "\"mfu\": %.6g, \"mfu_uncausal\": %.6g, \"mfu_note\": ", r->plan->mfu,
               r->plan->mfu_uncausal);
    if (note)
        sn_str_add_json(out, note);
    else
        sn_str_add(out, "null");
    sn_str_add(out, ", ");
}

/* Where a trainer's steps were measured: what nine in ten of them would say of this one. */
static void json_accuracy(struct sn_str *out, const struct sn_plan_row *r)
{
    const struct sn_software *s = r->software;
    char why[192];
    if (s->low == 0)
        return;
    sn_str_add(out, "\"step_time_low_s\": %.9g, \"step_time_high_s\": %.9g, \"extrapolated\": ",
               s->low * r->plan->step_time, s->high * r->plan->step_time);
    if (sn_software_extrapolates(why, sizeof(why), s, r->plan->ranks, r->model->hidden,
                                 r->model->seq))
        sn_str_add_json(out, why);
    else
        sn_str_add(out, "null");
    sn_str_add(out, ", ");
}

void sn_plan_json(struct sn_str *out, const struct sn_plan_row *r)
{
    const struct sn_plan *p = r->plan;
    sn_str_add(out, "{");
    json_stages(out, r); /* first, so that of a key the last is the plan's */
    json_layout(out, r->layout);
    sn_str_add(out, "\"parameters\": %lld, \"step_time_s\": %.9g, ", (long long)r->parameters,
               p->step_time);
    json_accuracy(out, r);
    json_mfu(out, r);
    sn_str_add(out, "\"tokens_per_s\": %.9g, \"fits\": %s, ", p->tokens_per_s,
               p->memory.total <= r->limit ? "true" : "false");
    json_memory(out, "memory_bytes", &p->memory);
    sn_str_add(out, "\"memory_limit_bytes\": %lld, \"bubble_fraction\": %.6f, ",
               (long long)r->limit, p->bubble);
    json_traffic(out, p, r->machine);
    json_ramp(out, r);
    json_curriculum(out, r->job);
    json_sparse(out, r->job);
    if (p->snapshot_traffic)
        sn_str_add(out, "\"snapshot_bytes\": %lld, ", (long long)p->snapshot_traffic);
    json_time(out, &p->stage, p->again);
    sn_str_add(out, ", ");
    json_codecs(out, p);
    sn_str_add(out, "\"machine\": ");
    sn_str_add_json(out, r->machine->name);
    sn_str_add(out, ", \"software\": ");
    sn_str_add_json(out, r->software->name);
    sn_str_add(out, ", \"goodput\": ");
    sn_goodput_json(out, r->goodput);
    if (r->why) {
        sn_str_add(out, ", \"why\": ");
        sn_str_add_json(out, r->why);
    }
    if (p->proof.is_asked)
        json_verdict(out, p);
    sn_str_add(out, "}");
}

void sn_plan_campaign_json(struct sn_str *out, const struct sn_model_config *model,
                           const struct sn_layout_config *layout, const struct sn_campaign *k,
                           const struct sn_machine *m, const struct sn_software *s)
{
    sn_str_add(out, "\"campaign\": ");
    sn_campaign_json(out, k);
    sn_str_add(out, ", \"plan\": ");
    sn_plan_json(out, &(struct sn_plan_row){.plan = &k->plan,
                                            .layout = layout,
                                            .model = model,
                                            .machine = m,
                                            .software = s,
                                            .parameters = k->parameters,
                                            .limit = k->limit,
                                            .goodput = &k->goodput});
    sn_str_add(out, "}");
}

void sn_plan_point_json(struct sn_str *out, const struct sn_model_config *model,
                        const struct sn_point *p, const struct sn_machine *m,
                        const struct sn_software *s)
{
    sn_str_add(out, "{\"machine\": ");
    sn_str_add_json(out, p->machine);
    sn_str_add(out, ", \"ranks\": %d, ", p->ranks);
    if (p->found) {
        sn_str_add(out, "\"patience_h\": %.9g, \"why\": null, ", p->patience);
        sn_plan_campaign_json(out, model, &p->layout, &p->campaign, m, s);
        return;
    }
    sn_str_add(out, "\"patience_h\": null, \"why\": ");
    sn_str_add_json(out, p->why);
    sn_str_add(out, ", \"campaign\": null, \"plan\": null}");
}
