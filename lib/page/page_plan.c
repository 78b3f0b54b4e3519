/*
 * page_plan.c - what was planned: headline, layout, memory, time.
 */
#include "lib/page/page_inner.h"

#include "lib/layout/axes.h"
#include "lib/machine/named.h"
#include "lib/search/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- headline --------------------------------------------------------------------------------- */

static void step_tile(struct sn_str *out, const struct sn_page *p)
{
    const struct sn_software *s = p->pricer->software;
    char step[16], low[16], high[16], below[128];
    if (s->low > 0)
        (void)snprintf(below, sizeof(below), "nine in ten measured: %s to %s",
                       sn_str_seconds(low, s->low * p->plan->step_time),
                       sn_str_seconds(high, s->high * p->plan->step_time));
    else
        (void)snprintf(below, sizeof(below), "no interval: trainer %s was not measured", s->name);
    sn_html_tile(out, "Step", sn_str_seconds(step, p->plan->step_time), below);
}

static void machine_tile(struct sn_str *out, const struct sn_page *p)
{
    const struct sn_machine *m = p->pricer->machine;
    char below[160];
    int nodes = m->devices > 0 ? (p->plan->ranks + m->devices - 1) / m->devices : 1;
    (void)snprintf(below, sizeof(below), "%d node%s of %d, %s", nodes, nodes == 1 ? "" : "s",
                   m->devices > 0 ? m->devices : p->plan->ranks, m->device.name);
    if (!sn_names_machine(p->asked))
        (void)snprintf(below, sizeof(below), "none is named: machine.preset or machine.file");
    sn_html_tile(out, "Machine", m->name, below);
}

static void rate_tiles(struct sn_str *out, const struct sn_page *p)
{
    const struct sn_plan *plan = p->plan;
    const char *note = sn_software_mfu_note(p->pricer->software, p->pricer->machine);
    char figure[32], below[160], digits[32];
    (void)snprintf(figure, sizeof(figure), "%.0f", plan->tokens_per_s / plan->ranks);
    (void)snprintf(below, sizeof(below), "%s on %d devices",
                   sn_html_digits(digits, (int64_t)(plan->tokens_per_s + 0.5)), plan->ranks);
    sn_html_tile(out, "Tokens/s a device", figure, below);
    (void)snprintf(figure, sizeof(figure), "%.1f %%", 100 * plan->mfu);
    (void)snprintf(below, sizeof(below), "%.1f %% by 6N + 12LCT%s%s", 100 * plan->mfu_uncausal,
                   note ? "; " : "", note ? note : "");
    sn_html_tile(out, "MFU", figure, below);
}

static void memory_tile(struct sn_str *out, const struct sn_page *p)
{
    char need[16], have[16], below[96];
    (void)snprintf(below, sizeof(below), "%s %s%s on the fullest device",
                   p->plan->memory.total <= p->limit ? "fits" : "does not fit",
                   sn_str_bytes(have, p->limit), p->is_hosts ? " (this host's)" : "");
    sn_html_tile(out, "Memory", sn_str_bytes(need, p->plan->memory.total), below);
}

void page_headline(struct sn_str *out, const struct sn_page *p)
{
    const struct sn_job *j = p->stages->job[0];
    const struct sn_config *c = j->config;
    const struct sn_goodput *g = p->goodput;
    char axes[PAGE_AXES], figure[32], below[128], time[24], why[192], digits[32];
    sn_html_add(out, "h1", NULL, "%s", c->run.name);
    sn_html_add(out, "p", "note",
                "%s, %s parameters, %s; %d sequences of %d tokens a step; a plan by sennit",
                sn_family_name(c->model.family),
                sn_html_digits(digits, sn_model_param_count(j->model)),
                sn_dtype_name(c->train.precision), c->train.global_batch, c->model.seq);
    sn_html_box_begin(out, "tiles");
    machine_tile(out, p);
    (void)snprintf(figure, sizeof(figure), "%d ranks", p->plan->ranks);
    sn_html_tile(out, "Layout", figure, page_axes(axes, &c->layout));
    step_tile(out, p);
    rate_tiles(out, p);
    memory_tile(out, p);
    (void)snprintf(figure, sizeof(figure), "%.2f %%", 100 * g->fraction);
    (void)snprintf(below, sizeof(below), "of time trains, saved every %lld steps (%s)",
                   (long long)g->steps, sn_picture_hours(time, g->interval));
    sn_html_tile(out, "Goodput", figure, below);
    sn_html_box_end(out);
    if (p->pricer->software->low > 0 &&
        sn_software_extrapolates(why, sizeof(why), p->pricer->software, p->plan->ranks,
                                 c->model.hidden, c->model.seq))
        sn_html_add(out, "p", "note", "Extrapolated: %s.", why);
}

/* --- layout ----------------------------------------------------------------------------------- */

void page_layout(struct sn_str *out, const struct sn_page *p)
{
    const struct sn_config *c = p->stages->job[0]->config;
    const struct sn_layout_config *l = &c->layout;
    struct sn_str words = {0}, order = {0};
    char axes[SN_AXES_SIZE];
    struct sn_picture pipeline = *p->picture;
    sn_html_section_begin(out, "1. Layout");
    sn_search_describe(&words, l);
    sn_html_add(out, "p", NULL, "%s: %s; %d micro-batch%s a step.", sn_config_axes(axes, l),
                words.p ? words.p : "", p->plan->micros, p->plan->micros == 1 ? "" : "es");
    for (int i = 0; i < l->n_axis_order; i++)
        sn_str_add(&order, "%s%s", i ? ", " : "", sn_axis_name(sn_axes_ordered(l->axis_order[i])));
    sn_html_add(out, "p", "note", "%s%s%sDrawn is one simulated step%s.",
                l->n_axis_order ? "Neighbours, from inside: " : "", order.p ? order.p : "",
                l->n_axis_order ? ". " : "",
                p->stages->n == 1 ? "" : "; stage 0 is the first pipeline stage");
    out->failed |= words.failed || order.failed;
    sn_str_fini(&words);
    sn_str_fini(&order);
    pipeline.panels = SN_PANEL_PIPELINE;
    sn_html_box_begin(out, "scroll");
    sn_picture_svg(out, &pipeline);
    sn_html_box_end(out);
    sn_html_section_end(out);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* What some stage has of it; the others are left out. */
static int memory_uses(enum sn_memory_use use[SN_NMEMORY_USES], const struct sn_page *p)
{
    int n = 0;
    for (int u = 0; u < SN_NMEMORY_USES; u++) {
        int64_t any = 0;
        for (int i = 0; i < p->stages->n; i++)
            any |= p->stage[i].memory.of[u];
        if (any)
            use[n++] = (enum sn_memory_use)u;
    }
    return n;
}

static void memory_rows(struct sn_str *out, const struct sn_page *p, const enum sn_memory_use *use,
                        int n, int64_t most)
{
    struct sn_html_part part[SN_NMEMORY_USES];
    char size[16];
    for (int i = 0; i < p->stages->n; i++) {
        const struct sn_memory_plan *m = &p->stage[i].memory;
        for (int k = 0; k < n; k++)
            part[k] = (struct sn_html_part){.cls = sn_memory_use_row(use[k])->name,
                                            .value = (double)m->of[use[k]]};
        sn_html_row_begin(out, NULL);
        sn_html_cell(out, "keep", "stage %d", i);
        sn_html_bar(out, part, n, (double)most, (double)p->limit);
        sn_html_cell(out, m->total <= p->limit ? "num" : "num bad", "%s",
                     sn_str_bytes(size, m->total));
        sn_html_row_end(out);
    }
}

/* Bytes of the fullest rank, by what they are for. */
static void memory_table(struct sn_str *out, const struct sn_memory_plan *m)
{
    static const char *const head[] = {"the fullest device", "#bytes", "#", "#share"};
    char size[16];
    sn_html_box_begin(out, "few");
    sn_html_table_begin(out, head, 4);
    for (int u = 0; u <= SN_NMEMORY_USES; u++) {
        bool is_total = u == SN_NMEMORY_USES;
        int64_t bytes = is_total ? m->total : m->of[u];
        if (!is_total && bytes == 0)
            continue;
        sn_html_row_begin(out, is_total ? "this" : NULL);
        sn_html_cell(out, NULL, "%s",
                     is_total ? "total" : sn_memory_use_row((enum sn_memory_use)u)->name);
        sn_html_count(out, bytes);
        sn_html_cell(out, "num", "%s", sn_str_bytes(size, bytes));
        sn_html_cell(out, "num", "%.1f %%", 100 * (double)bytes / (double)m->total);
        sn_html_row_end(out);
    }
    sn_html_table_end(out);
    sn_html_box_end(out);
}

void page_memory(struct sn_str *out, const struct sn_page *p)
{
    static const char *const head[] = {"", "a device of each pipeline stage", "#"};
    enum sn_memory_use use[SN_NMEMORY_USES];
    struct sn_html_part legend[SN_NMEMORY_USES];
    int n = memory_uses(use, p);
    char size[16];
    struct sn_picture memory = *p->picture;
    int64_t most = p->limit > p->plan->memory.total ? p->limit : p->plan->memory.total;
    sn_html_section_begin(out, "2. Memory");
    for (int k = 0; k < n; k++)
        legend[k] = (struct sn_html_part){.cls = sn_memory_use_row(use[k])->name,
                                          .name = sn_memory_use_row(use[k])->name};
    sn_html_add(out, "p", NULL,
                "A device has %s%s. Memory is that of the compiled program, to the "
                "byte.",
                sn_str_bytes(size, p->limit), p->is_hosts ? " (this host's, over its ranks)" : "");
    sn_html_legend(out, legend, n, true);
    sn_html_table_begin(out, head, 3);
    memory_rows(out, p, use, n, most);
    sn_html_table_end(out);
    memory_table(out, &p->plan->memory);
    memory.panels = SN_PANEL_MEMORY;
    sn_html_add(out, "h3", NULL, "Over the step");
    sn_html_add(out, "p", "note",
                "What is in use at each time. What is mapped, above, has room for "
                "all that may be kept at once.");
    sn_html_box_begin(out, "scroll");
    sn_picture_svg(out, &memory);
    sn_html_box_end(out);
    sn_html_section_end(out);
}

/* --- time ------------------------------------------------------------------------------------- */

enum { TIME_PARTS = SN_NAXES + 4 };

/* Of a stage, in order: computing, what is computed again, update, exposed of each axis, bubble. */
static int time_parts(struct sn_html_part part[TIME_PARTS], const struct sn_plan_stage *s)
{
    static const char *const exposed[] = {
#define NAME(ID, name, ...) "exposed " #name,
        SN_AXES(NAME)
#undef NAME
    };
    const struct sn_sim_stage *t = &s->time;
    int n = 0;
    part[n++] = (struct sn_html_part){"compute", "compute", t->busy - t->update - s->again};
    part[n++] = (struct sn_html_part){"again", "of it recomputed", s->again};
    part[n++] = (struct sn_html_part){"update", "update", t->update};
    for (int a = 0; a < SN_NAXES; a++)
        part[n++] = (struct sn_html_part){sn_axis_name((enum sn_axis)a), exposed[a], t->exposed[a]};
    part[n++] = (struct sn_html_part){"bubble", "idle (bubble)", t->idle};
    return n;
}

static void time_bars(struct sn_str *out, const struct sn_page *p)
{
    static const char *const head[] = {"", "a step of each pipeline stage", "#busy"};
    struct sn_html_part part[TIME_PARTS], legend[TIME_PARTS];
    bool seen[TIME_PARTS] = {false};
    int n = 0, shown = 0;
    for (int i = 0; i < p->stages->n; i++) {
        n = time_parts(part, &p->stage[i]);
        for (int k = 0; k < n; k++)
            seen[k] = seen[k] || part[k].value > 0;
    }
    for (int k = 0; k < n; k++)
        if (seen[k])
            legend[shown++] = part[k];
    sn_html_legend(out, legend, shown, false);
    sn_html_table_begin(out, head, 3);
    for (int i = 0; i < p->stages->n; i++) {
        n = time_parts(part, &p->stage[i]);
        sn_html_row_begin(out, NULL);
        sn_html_cell(out, "keep", "stage %d", i);
        sn_html_bar(out, part, n, p->plan->step_time, 0);
        sn_html_cell(out, "num", "%.1f %%", 100 * p->stage[i].time.busy / p->plan->step_time);
        sn_html_row_end(out);
    }
    sn_html_table_end(out);
}

static void time_row(struct sn_str *out, const char *name, double seconds, double step)
{
    char time[16];
    sn_html_row_begin(out, name ? NULL : "this");
    sn_html_cell(out, NULL, "%s", name ? name : "step");
    sn_html_cell(out, "num", "%s", sn_str_seconds(time, seconds));
    sn_html_cell(out, "num", "%.1f %%", 100 * seconds / step);
    sn_html_row_end(out);
}

void page_time(struct sn_str *out, const struct sn_page *p)
{
    static const char *const head[] = {"", "#seconds", "#of the step"};
    struct sn_html_part part[TIME_PARTS];
    int n = time_parts(part, &p->stage[p->plan->longest]);
    sn_html_section_begin(out, "4. Where the time goes");
    time_bars(out, p);
    if (p->stages->n > 1)
        sn_html_add(out, "h3", NULL, "Stage %d of 0..%d, which computes longest", p->plan->longest,
                    p->stages->n - 1);
    sn_html_box_begin(out, "few");
    sn_html_table_begin(out, head, 3);
    for (int k = 0; k < n; k++)
        if (part[k].value > 0)
            time_row(out, part[k].name, part[k].value + (k == 0 ? part[1].value : 0),
                     p->plan->step_time);
    time_row(out, NULL, p->plan->step_time, p->plan->step_time);
    sn_html_table_end(out);
    sn_html_box_end(out);
    if (p->stages->n > 1)
        sn_html_add(out, "p", "note", "Stages wait for each other for %.1f %% of the step.",
                    100 * p->plan->bubble);
    sn_html_section_end(out);
}

/* --- how it was made -------------------------------------------------------------------------- */

enum sn_status page_made(struct sn_str *out, const struct sn_page *p, struct sn_err *err)
{
    const struct sn_plan *plan = p->plan;
    uint64_t hash;
    bool proven = plan->meaning.holds && plan->proof.holds;
    SN_TRY(sn_stages_certificate(&hash, p->stages, err));
    sn_html_section_begin(out, "7. How this was made");
    sn_html_add(out, "p", NULL,
                "sennit %s, from the compiled programs of %d pipeline stage%s:", p->version,
                p->stages->n, p->stages->n == 1 ? "" : "s");
    sn_str_add(out, "<p>");
    sn_html_add(out, "code", NULL, "%s", p->command);
    sn_str_add(out, "</p>\n<p>");
    sn_html_add(out, "code", NULL, "programs %016" PRIx64, hash);
    sn_str_add(out, "</p>\n");
    sn_html_add(out, "p", "note", "%s Prices are those of %s%s%s; trainer: %s.",
                proven
                    ? "Proven: no rank waits for ever, and every rank ends a step with the "
                      "weights of one rank's; this is the certificate to which sennit-train "
                      "holds what it compiles."
                    : "The hash of all ranks' programs; with --verify they are proven first, and "
                      "it is their certificate.",
                p->pricer->machine->name, p->pricer->machine->source[0] ? ": " : "",
                p->pricer->machine->source, p->pricer->software->name);
    sn_html_section_end(out);
    return SN_OK;
}
