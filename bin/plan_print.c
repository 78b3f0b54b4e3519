#include "bin/plan_print.h"

#include "lib/plan/activations.h"
#include "lib/run/metrics.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Bytes that one rank may have, if all of them run on this host. */
static int64_t limit_of(const struct sn_plan *p)
{
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / p->ranks;
}

/* Print and free `text`; `what` is the option that asked for it. */
static enum sn_status print(struct sn_str *text, const char *what, struct sn_err *err)
{
    bool failed = text->failed;
    if (!failed)
        (void)fputs(text->p, stdout);
    sn_str_fini(text);
    return failed ? sn_fail(err, SN_ENOMEM, "%s: no memory for the text", what) : SN_OK;
}

/* --- JSON --------------------------------------------------------------------------------------
 */

static void json_layout(struct sn_str *out, const struct sn_layout_config *l)
{
    static const char *const schedule[] = {"gpipe", "1f1b", "interleaved", "zero-bubble"};
    static const char *const recompute[] = {"none", "selective", "full"};
    static const char *const axis[] = {"tensor", "context", "expert", "data", "pipeline"};
    sn_str_add(out,
               "{\"layout\": {\"data\": %d, \"tensor\": %d, \"pipeline\": %d, \"expert\": %d, "
               "\"context\": %d, \"micro_batch\": %d, \"virtual_stages\": %d, "
               "\"sequence_parallel\": %s, \"schedule\": \"%s\", \"recompute\": \"%s\", \"zero\": "
               "%d, \"context_kind\": \"%s\", \"bucket\": %lld, ",
               l->data, l->tensor, l->pipeline, l->expert, l->context, l->micro_batch,
               l->virtual_stages, l->sequence_parallel ? "true" : "false", schedule[l->schedule],
               recompute[l->recompute], l->zero,
               l->context_kind == SN_CONTEXT_RING ? "ring" : "all-to-all", (long long)l->bucket);
    sn_str_add(out, "\"split\": %s", l->n_split ? "[" : "\"auto\"");
    for (int i = 0; i < l->n_split; i++)
        sn_str_add(out, "%s%d", i ? ", " : "", l->split[i]);
    sn_str_add(out, "%s, \"axis_order\": [", l->n_split ? "]" : "");
    for (int i = 0; i < l->n_axis_order; i++)
        sn_str_add(out, "%s\"%s\"", i ? ", " : "", axis[l->axis_order[i]]);
    sn_str_add(out, "]}, ");
}

static enum sn_status json_plan(const struct sn_plan *p, const struct sn_stages *s,
                                struct sn_err *err)
{
    struct sn_str head = {0}, tail = {0};
    json_layout(&head, &s->job[0]->config->layout);
    sn_str_add(
        &head,
        "\"parameters\": %lld, \"step_time_s\": null, \"mfu\": null, \"tokens_per_s\": null, "
        "\"fits\": %s, ",
        (long long)sn_model_param_count(s->job[0]->model),
        p->memory.total <= limit_of(p) ? "true" : "false");
    sn_str_add(&tail, ", \"traffic_by_level\": null, \"exposed_comm_s\": null");
    if (p->verify) {
        sn_str_add(&tail, ", \"verified\": %s, \"fault\": ", p->verified ? "true" : "false");
        if (p->verified)
            sn_str_add(&tail, "null");
        else
            sn_str_add_json(&tail, p->fault.text);
    }
    sn_str_add(&tail, "}\n");
    if (tail.failed) {
        sn_str_fini(&head);
        return print(&tail, "--json", err);
    }
    SN_TRY(print(&head, "--json", err));
    sn_metrics_json_memory(stdout, &p->memory);
    (void)printf(", \"memory_limit_bytes\": %lld, \"bubble_fraction\": %.6f, ",
                 (long long)limit_of(p), p->bubble);
    sn_metrics_json_traffic(stdout, p->traffic);
    return print(&tail, "--json", err);
}

/* --- text --------------------------------------------------------------------------------------
 */

static void row(const char *name, int64_t bytes)
{
    char size[16];
    (void)printf("  %-12s %16lld  %s\n", name, (long long)bytes, sn_str_bytes(size, bytes));
}

static void text_memory(const struct sn_memory_plan *m)
{
    (void)printf("memory of the worst rank, bytes\n");
    row("params", m->params);
    row("grads", m->grads);
    row("optimizer", m->optimizer);
    row("activations", m->activations);
    row("workspace", m->workspace);
    row("comm", m->comm);
    if (m->snapshot)
        row("snapshot", m->snapshot);
    row("library", m->library);
    row("total", m->total);
}

static void text_verdict(const struct sn_plan *p)
{
    if (!p->verified)
        (void)printf("refuted: %s\n", p->fault.text);
    else
        (void)printf("verified: no rank waits for ever, no memory is used while it is sent or "
                     "received (%d rank%s)\n",
                     p->played, p->played == 1 ? "" : "s");
    if (p->played != p->ranks)
        (void)printf("  %d ranks stand for %d: a program does not depend on the places on the "
                     "axes that were shrunk\n",
                     p->played, p->ranks);
}

static void text_plan(const struct sn_plan *p, const struct sn_stages *s)
{
    const struct sn_config *c = s->job[0]->config;
    (void)printf("%s: %s, %lld parameters, %s\n", c->run.name, sn_family_name(c->model.family),
                 (long long)sn_model_param_count(s->job[0]->model),
                 sn_dtype_name(c->train.precision));
    (void)printf("layout: data %d x tensor %d x context %d x pipeline %d, micro_batch %d, %d "
                 "micro-batches a step\n",
                 c->layout.data, c->layout.tensor, c->layout.context, c->layout.pipeline,
                 c->layout.micro_batch, p->micros);
    text_memory(&p->memory);
    (void)printf("traffic of one step over all ranks, bytes\n");
    for (int a = 0; a < SN_NAXES; a++)
        if (p->traffic[a])
            row(sn_axis_name((enum sn_axis)a), p->traffic[a]);
    if (p->ranks == 1)
        (void)printf("  none: one rank\n");
    if (s->n > 1)
        (void)printf("bubble: stages wait for %.1f %% of the step's computing time\n",
                     100 * p->bubble);
    char total[16], limit[16];
    (void)printf("%s: a rank needs %s of %s (this host's memory over %d ranks)\n",
                 p->memory.total <= limit_of(p) ? "fits" : "does not fit",
                 sn_str_bytes(total, p->memory.total), sn_str_bytes(limit, limit_of(p)), p->ranks);
    if (p->verify)
        text_verdict(p);
}

enum sn_status sn_plan_print(const struct sn_plan *p, const struct sn_stages *s, bool json,
                             struct sn_err *err)
{
    if (json)
        return json_plan(p, s, err);
    text_plan(p, s);
    return SN_OK;
}

enum sn_status sn_plan_print_activations(const struct sn_stages *s, bool json, struct sn_err *err)
{
    struct sn_str text = {0};
    sn_str_add(&text, "%s", json ? "{\"activations\": [" : "");
    for (int i = 0; i < s->n; i++) {
        sn_str_add(&text, "%s", i == 0 ? "" : json ? ", " : "\n");
        if (json)
            sn_activations_json(&text, s->job[i]);
        else
            sn_activations_text(&text, s->job[i]);
    }
    sn_str_add(&text, "%s", json ? "]}\n" : "");
    return print(&text, "--activations", err);
}

enum sn_status sn_plan_print_program(const struct sn_job *j, const char *name, struct sn_err *err)
{
    const struct sn_program *set[] = {&j->train, &j->evaluate, &j->generate}, *p = NULL;
    for (int i = 0; i < 3; i++)
        if (strcmp(set[i]->name, name) == 0 && set[i]->n_ops > 0)
            p = set[i];
    if (!p)
        return sn_fail(err, SN_EINPUT,
                       "--program: '%s' is none; want train, evaluate or, for a job of one rank, "
                       "generate",
                       name);
    struct sn_str text = {0};
    sn_program_print(&text, j, p);
    return print(&text, "--explain", err);
}
