#include "bin/plan_print.h"

#include "bin/plan_json.h"

#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/cost/hops.h"
#include "lib/machine/named.h"
#include "lib/report/activations.h"
#include "lib/search/chunks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Print and free `text`; `what` is the option that asked for it. */
static enum sn_status print(struct sn_str *text, const char *what, struct sn_err *err)
{
    bool failed = text->failed;
    if (!failed)
        (void)fputs(text->p, stdout);
    sn_str_fini(text);
    return failed ? sn_fail(err, SN_ENOMEM, "%s: no memory for the text", what) : SN_OK;
}

/* --- text ------------------------------------------------------------------------------------- */

static void row(const char *name, int64_t bytes)
{
    char size[16];
    (void)printf("  %-12s %16lld  %s\n", name, (long long)bytes, sn_str_bytes(size, bytes));
}

static void text_memory(const struct sn_memory_plan *m)
{
    (void)printf("memory of the worst rank, bytes\n");
    for (int u = 0; u < SN_NMEMORY_USES; u++) {
        const struct sn_memory_use_row *use = sn_memory_use_row((enum sn_memory_use)u);
        if (m->of[u] || use->always)
            row(use->name, m->of[u]);
    }
    row("total", m->total);
}

static void text_verdict(const struct sn_plan *p)
{
    if (!p->proof.holds)
        (void)printf("refuted: %s\n", p->proof.fault.text);
    else
        (void)printf("verified: no rank waits for ever, no memory is used while it is sent or "
                     "received (%d rank%s)\n",
                     p->proof.played, p->proof.played == 1 ? "" : "s");
    if (p->proof.played != p->ranks)
        (void)printf("  %d ranks stand for %d: a program does not depend on the places on the "
                     "axes that were shrunk\n",
                     p->proof.played, p->ranks);
}

static void text_approximate(unsigned coded)
{
    const char *comma = "  but for what codecs lose of what they send (layout.compress: ";
    for (int c = 0; c < SN_NCODED; c++) {
        if (!(coded >> c & 1u))
            continue;
        (void)printf("%s%s", comma, sn_coded_name((enum sn_coded)c));
        comma = ", ";
    }
    if (coded)
        (void)printf(")\n");
}

static void text_meaning(const struct sn_plan *p)
{
    const struct sn_meaning_proof *m = &p->meaning;
    if (m->gap)
        (void)printf("  what they compute was not looked into: %s\n", m->gap);
    else if (!m->holds)
        (void)printf("refuted: %s\n", m->fault.text);
    else
        (void)printf("  and every rank ends a step with the weights of one rank's: each gradient "
                     "is summed once over "
                     "every micro-batch and replica (%d rank%s, %d micro-batch%s each)\n",
                     m->ranks, m->ranks == 1 ? "" : "s", m->micros, m->micros == 1 ? "" : "es");
    if (m->holds)
        text_approximate(m->approximate);
    if (m->holds)
        (void)printf("certificate: %016" PRIx64 "\n", m->certificate);
}

static void time_row(const char *what, const char *axis, double seconds, double step)
{
    char name[32], time[16];
    (void)snprintf(name, sizeof(name), "%s%s", what, axis);
    (void)printf("  %-17s %11s  %5.1f %%\n", name, sn_str_seconds(time, seconds),
                 100 * seconds / step);
}

/* How far a published trainer's steps were from those planned. */
static void text_accuracy(const struct sn_plan_report *r)
{
    const struct sn_software *s = r->pricer->software;
    const struct sn_config *c = r->stages->job[0]->config;
    char low[16], high[16], why[192];
    if (s->low == 0)
        return;
    (void)printf("nine in ten of this trainer's measured steps in every sheet, none of them "
                 "fitted to, were %.3g to %.3g times those planned: %s to %s\n",
                 s->low, s->high, sn_str_seconds(low, s->low * r->plan->step_time),
                 sn_str_seconds(high, s->high * r->plan->step_time));
    if (sn_software_extrapolates(why, sizeof(why), s, r->plan->ranks, c->model.hidden,
                                 c->model.seq))
        (void)printf("extrapolated: %s\n", why);
}

static void text_time(const struct sn_plan_report *r)
{
    const struct sn_plan *p = r->plan;
    const struct sn_machine *m = r->pricer->machine;
    const char *note = sn_software_mfu_note(r->pricer->software, m);
    char time[16];
    (void)printf("machine: %s, %d rank%s%s; trainer: %s\n", m->name, p->ranks,
                 p->ranks == 1 ? "" : "s",
                 sn_names_machine(r->stages->job[0]->config)
                     ? ""
                     : " (none is named: machine.preset or machine.file)",
                 r->pricer->software->name);
    (void)printf("step: %s, %.6g tokens/s, MFU %.1f %% (%.1f %% by 6N + 12LCT)%s%s\n",
                 sn_str_seconds(time, p->step_time), p->tokens_per_s, 100 * p->mfu,
                 100 * p->mfu_uncausal, note ? "; " : "", note ? note : "");
    text_accuracy(r);
    if (r->stages->n == 1)
        (void)printf("time of a rank\n");
    else
        (void)printf("time of stage %d of 0..%d, which computes longest\n", p->longest,
                     r->stages->n - 1);
    time_row("compute", "", p->stage.busy - p->stage.update, p->step_time);
    if (p->again > 0)
        time_row("of it, recomputed", "", p->again, p->step_time);
    time_row("update", "", p->stage.update, p->step_time);
    if (p->codecs > 0)
        time_row("of both, codecs", "", p->codecs, p->step_time);
    for (int a = 0; a < SN_NAXES; a++)
        if (p->stage.exposed[a] > 0)
            time_row("exposed ", sn_axis_name((enum sn_axis)a), p->stage.exposed[a], p->step_time);
    if (r->stages->n > 1) {
        time_row("idle", "", p->stage.idle, p->step_time);
        (void)printf("bubble: stages wait for %.1f %% of the step for each other\n",
                     100 * p->bubble);
    }
}

/* Steps with smaller batches than the plan's. */
static void text_ramp(const struct sn_plan_report *r)
{
    const struct sn_train_config *t = &r->stages->job[0]->config->train;
    char time[16];
    for (int k = 0; r->ramp && k < sn_batch_sizes(t) - 1; k++) {
        const struct sn_plan *p = &r->ramp[k];
        int64_t first, last;
        int size = sn_batch_size(t, k, &first, &last);
        if (first <= last)
            (void)printf("before, steps %lld..%lld: %d sequences, %d micro-batches, %s, "
                         "%.6g tokens/s\n",
                         (long long)first, (long long)last, size, p->micros,
                         sn_str_seconds(time, p->step_time), p->tokens_per_s);
    }
}

static void text_documents(const struct sn_config *c)
{
    int window = c->model.sliding_window;
    int64_t prompt = sn_model_expected_prompt(c);
    if (c->data.document_length == 0 && prompt == 0)
        return;
    (void)printf(
        "documents of %d tokens, %lld of them prompt: %.4g pairs of query and key per token",
        c->data.document_length > 0 ? c->data.document_length : c->model.seq, (long long)prompt,
        sn_model_expected_keys(c, c->model.seq, 0));
    if (window > 0 && window < c->model.seq)
        (void)printf(", %.4g in layers with a window",
                     sn_model_expected_keys(c, c->model.seq, window));
    (void)printf("\n");
}

/* What attention sees in the first steps. */
static void text_curriculum(const struct sn_job *j)
{
    int n = sn_lengths(j->config);
    for (int k = 0; k < n && n > 1; k++) {
        int64_t first, last;
        int length = sn_length(j->config, k, &first, &last);
        if (first <= last)
            (void)printf("steps %lld..%lld: samples in pieces of %d tokens, %.4g FLOPs per token\n",
                         (long long)first, (long long)last, length,
                         sn_model_flops_of_length(j->model, j->config, length));
    }
}

static void text_sparse(const struct sn_job *j)
{
    struct sn_sparsity x;
    sn_model_sparsity(&x, j->model, j->config);
    if (x.matrices > 0)
        (void)printf(
            "sparse: %d matrices of %lld values, at most %lld of them not 0; %.1f %% of the "
            "model's FLOPs have no 0 as a factor (all are computed, and counted in MFU)\n",
            x.matrices, (long long)x.values, (long long)x.kept, 100 * x.flops);
}

/* What each kind of message is coded with, and what that changes. */
static void text_codecs(const struct sn_plan_report *r)
{
    const struct sn_plan *p = r->plan;
    const struct sn_compress_config *z = &r->stages->job[0]->config->layout.compress;
    const char *sep = "codecs:";
    char time[16];
    if (p->plain_time <= 0)
        return;
    for (int k = 0; k < SN_NCODED; k++) {
        char text[SN_NAME_MAX];
        sn_coding_format(&z->coding[k], text);
        if (!z->coding[k].on)
            continue;
        (void)printf("%s %s %s%s", sep, sn_coded_name((enum sn_coded)k), text,
                     z->coding[k].feedback ? " with feedback" : "");
        sep = ",";
    }
    (void)printf("\n  without them a step takes %s, %+.1f %%; ",
                 sn_str_seconds(time, p->plain_time), 100 * (p->plain_time / p->step_time - 1));
    if (p->rise < 0)
        (void)printf("what they cost the loss is not known\n");
    else
        (void)printf("they raise the loss by %.3g %% (templates/codec_losses.csv)\n",
                     100 * p->rise);
    for (int a = 0; a < SN_AXIS_WORLD; a++)
        if (p->plain_traffic[a] != p->traffic[a])
            (void)printf("  %-12s %16lld bytes without, %.1f %% of them with\n",
                         sn_axis_name((enum sn_axis)a), (long long)p->plain_traffic[a],
                         100 * (double)p->traffic[a] / (double)p->plain_traffic[a]);
}

static void text_traffic(const struct sn_plan_report *r)
{
    const struct sn_plan *p = r->plan;
    const struct sn_machine *m = r->pricer->machine;
    if (p->ranks == 1) {
        (void)printf("traffic of one step: none, one rank\n");
        return;
    }
    (void)printf("traffic of one step over all ranks, bytes\n");
    for (int a = 0; a < SN_NAXES; a++)
        if (p->traffic[a])
            row(sn_axis_name((enum sn_axis)a), p->traffic[a]);
    (void)printf("and by the level of links that it crosses\n");
    for (int l = 0; l < m->n_levels; l++)
        if (p->level_traffic[l])
            row(m->level[l].name, p->level_traffic[l]);
    if (p->snapshot_traffic) {
        (void)printf("and of one snapshot, to other hosts beside a step\n");
        row("snapshot", p->snapshot_traffic);
    }
}

/* How tokens go to their experts, and why so. */
static void text_hops(const struct sn_plan_report *r)
{
    const struct sn_job *j = r->stages->job[0];
    const struct sn_layout_config *l = &j->config->layout;
    struct sn_hops h;
    char one[16], two[16];
    if (sn_config_expert_members(j->config) == 1)
        return;
    sn_hops_choose(&h, j->config, &j->grid, r->pricer->machine, r->pricer->software);
    (void)sn_str_seconds(one, h.one);
    (void)sn_str_seconds(two, h.two);
    if (l->expert > 1 && l->expert_node > 1)
        (void)printf("exchanges: in two hops, %d nodes of %d: %s; in one %s\n",
                     l->expert / l->expert_node, l->expert_node, two, one);
    else if (h.even == 0)
        (void)printf("exchanges: in one hop, because %s\n", h.why);
    else
        (void)printf("exchanges: in one hop: %s; in two, %d nodes of %d, %s\n", one,
                     l->expert / h.even, h.even, two);
}

/* How they are cut, and what that is worth. */
static void text_chunks(const struct sn_plan_report *r)
{
    const struct sn_job *j = r->stages->job[0];
    int chunks = j->config->layout.expert_chunks;
    struct sn_chunks c;
    struct sn_err err;
    char now[16], other[16];
    bool exchanges = sn_config_expert_members(j->config) > 1;
    struct sn_config *open = exchanges ? sn_alloc(sizeof(*open)) : NULL;
    if (!open)
        return;
    *open = *j->config;
    open->layout.expert_chunks = 0;
    enum sn_status st =
        sn_chunks_choose(&c, open, &j->grid, r->pricer->machine, r->pricer->software, &err);
    sn_free(open);
    if (st != SN_OK)
        return;
    if (chunks > 1)
        (void)printf("in %d chunks", chunks);
    else
        (void)printf("all at once");
    (void)sn_str_seconds(now, c.seconds[1]);
    (void)sn_str_seconds(other, c.seconds[c.n]);
    (void)printf(": a layer's step takes %s all at once, ", now);
    if (c.n > 1)
        (void)printf("%s in %d chunks, ", other, c.n);
    (void)printf("which is least\n");
}

static void text_plan(const struct sn_plan_report *r)
{
    const struct sn_plan *p = r->plan;
    const struct sn_job *j = r->stages->job[0];
    const struct sn_config *c = j->config;
    char total[16], limit[16];
    (void)printf("%s: %s, %lld parameters, %s\n", c->run.name, sn_family_name(c->model.family),
                 (long long)sn_model_param_count(j->model), sn_dtype_name(c->train.precision));
    (void)printf("layout: %s, micro_batch %d, %d micro-batches a step",
                 sn_config_axes((char[SN_AXES_SIZE]){0}, &c->layout), c->layout.micro_batch,
                 p->micros);
    if (c->layout.expert > 1)
        (void)printf("; experts shared out over %d", c->layout.expert);
    if (c->layout.expert_tensor > 0 && c->layout.expert_tensor < c->layout.tensor)
        (void)printf("; each expert over %d of the tensor ranks", c->layout.expert_tensor);
    else if (c->layout.expert > 1 && c->layout.tensor > 1)
        (void)printf("; tokens %s%s",
                     c->layout.expert_tokens == SN_TOKENS_SPLIT ? "split" : "gathered",
                     c->layout.expert_tokens == SN_TOKENS_SPLIT           ? ""
                     : c->layout.drop_duplicates == SN_DUPLICATES_DROPPED ? ", duplicates dropped"
                                                                          : ", duplicates sent");
    int kept = sn_config_zero_cache(c);
    if (kept > 0)
        (void)printf("; %d layer%s of a stage gathered once", kept, kept == 1 ? "" : "s");
    (void)printf("\n");
    text_hops(r);
    text_chunks(r);
    text_time(r);
    text_ramp(r);
    text_documents(r->stages->job[0]->config);
    text_curriculum(r->stages->job[0]);
    text_sparse(r->stages->job[0]);
    text_memory(&p->memory);
    text_traffic(r);
    text_codecs(r);
    (void)printf("%s: a rank needs %s of %s", p->memory.total <= r->limit ? "fits" : "does not fit",
                 sn_str_bytes(total, p->memory.total), sn_str_bytes(limit, r->limit));
    if (r->is_hosts)
        (void)printf(" (this host's memory over %d rank%s)\n", p->ranks, p->ranks == 1 ? "" : "s");
    else
        (void)printf(" (%s)\n", r->pricer->machine->device.name);
}

static void text_verdicts(const struct sn_plan *p)
{
    if (p->proof.is_asked)
        text_verdict(p);
    if (p->meaning.is_asked)
        text_meaning(p);
}

enum sn_status sn_plan_print(const struct sn_plan_report *r, struct sn_err *err)
{
    const struct sn_job *j = r->stages->job[0];
    struct sn_str text = {0};
    if (!r->json) {
        text_plan(r);
        sn_goodput_text(&text, r->goodput);
        SN_TRY(print(&text, "goodput", err));
        text_verdicts(r->plan);
        return SN_OK;
    }
    sn_plan_json(&text, &(struct sn_plan_row){.plan = r->plan,
                                              .ramp = r->ramp,
                                              .job = j,
                                              .stage = r->stage,
                                              .n_stages = r->stages->n,
                                              .layout = &j->config->layout,
                                              .model = &j->config->model,
                                              .machine = r->pricer->machine,
                                              .software = r->pricer->software,
                                              .parameters = sn_model_param_count(j->model),
                                              .limit = r->limit,
                                              .goodput = r->goodput});
    sn_str_add(&text, "\n");
    return print(&text, "--json", err);
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

static enum sn_status find_program(const struct sn_program **out, const struct sn_job *j,
                                   const char *name, struct sn_err *err)
{
    const struct sn_programs set = sn_job_programs(j);
    *out = NULL;
    for (int i = 0; i < SN_NPROGRAMS; i++)
        if (strcmp(set.of[i]->name, name) == 0 && set.of[i]->n_ops > 0)
            *out = set.of[i];
    if (*out)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "--program: '%s' is none; want train, evaluate or, for a job of one rank, "
                   "generate or generate_row",
                   name);
}

enum sn_status sn_plan_print_program(const struct sn_job *j, const char *name, struct sn_err *err)
{
    const struct sn_program *p = NULL;
    SN_TRY(find_program(&p, j, name, err));
    struct sn_str text = {0};
    sn_program_print(&text, j, p);
    return print(&text, "--explain", err);
}

enum sn_status sn_plan_print_waits(const struct sn_waits *w, struct sn_err *err)
{
    struct sn_str text = {0};
    sn_waits_text(&text, w);
    return print(&text, "--explain", err);
}

static void operations_text(struct sn_str *out, const struct sn_pricer *price,
                            const struct sn_program *p)
{
    sn_str_add(out,
               "# of the %s program, a rank and step: bytes and FLOPs of one run, seconds as "
               "priced for %s\n",
               p->name, price->machine->name);
    sn_str_add(out, "%-14s %-5s %10s %10s %10s %6s %14s %10s %10s  %s\n", "operation", "type", "m",
               "n", "k", "runs", "bytes", "flops", "seconds", "label");
    for (int c = 0; c < p->n_segments; c++)
        for (int i = p->segments[c].first; i < p->segments[c].first + p->segments[c].n; i++) {
            const struct sn_op *op = &p->ops[i];
            struct sn_measured key;
            if (op->kind >= SN_NKERNELS)
                continue;
            sn_price_key(p, op, &key);
            sn_str_add(out, "%-14s %-5s %10lld %10lld %10lld %6d %14lld %10.4g %10.3g  %s\n",
                       sn_op_name(op->kind), key.dtype == SN_U8 ? "fp8" : sn_dtype_name(key.dtype),
                       (long long)key.m, (long long)key.n, (long long)key.k,
                       sn_program_runs(p, c, op->when), (long long)sn_op_bytes(p, op),
                       sn_op_flops(op), sn_price_op(price, p, op), op->label[0] ? op->label : "-");
        }
}

enum sn_status sn_plan_print_operations(const struct sn_job *j, const struct sn_pricer *price,
                                        const char *name, struct sn_err *err)
{
    const struct sn_program *p = NULL;
    SN_TRY(find_program(&p, j, name, err));
    struct sn_str text = {0};
    operations_text(&text, price, p);
    return print(&text, "--operations", err);
}
