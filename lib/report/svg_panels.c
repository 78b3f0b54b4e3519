/*
 * svg_panels.c - the three panels: the pipeline, memory over time, where a stage's time goes.
 */
#include "lib/base/mem.h"
#include "lib/report/svg_inner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The empty row of a stage. */
static void lane(struct svg *g, double y, double h)
{
    for (int k = 0; k < g->times.n; k++)
        svg_rect(g, "idle", svg_x(g, k, g->times.begin[k]), y,
                 (g->times.end[k] - g->times.begin[k]) * g->scale, h);
}

/* --- the pipeline ----------------------------------------------------------------------------- */

/* A row has a lane of computing and below it a strip of what is under way. */
struct lane {
    double y, h, strip;
};

static struct lane lane_of(double top, int stage, double row)
{
    return (struct lane){top + stage * row, row * 0.66, row * 0.18};
}

/* The part of an event inside a stretch, in pixels; false where there is none to see. */
static bool clip(const struct svg *g, int k, const struct sn_event *e, double x[2])
{
    double begin = fmax(e->begin, g->times.begin[k]), end = fmin(e->end, g->times.end[k]);
    if (end <= begin)
        return false;
    x[0] = svg_x(g, k, begin);
    x[1] = svg_x(g, k, end);
    return x[1] - x[0] > 0.02;
}

static void computing(struct svg *g, const struct sn_event *e, const double x[2],
                      const struct lane *l)
{
    static const char *const cls[] = {"forward", "backward", "weight", "update"};
    double inset = x[1] - x[0] > 3 ? 0.4 : 0;
    /* virtual stages after the first one are lighter, so that neighbours differ */
    double opacity = e->vstage > 0 ? 1 - 0.45 * e->vstage / (g->picture->vstages - 1 + 1e-9) : 1;
    if (opacity < 1)
        sn_str_add(g->out, "<g opacity=\"%.2f\">", opacity);
    svg_rect(g, cls[e->kind], x[0] + inset, l->y, x[1] - x[0] - 2 * inset, l->h);
    if (opacity < 1)
        sn_str_add(g->out, "</g>\n");
}

static void number(struct svg *g, const struct sn_event *e, const double x[2], const struct lane *l)
{
    char text[16];
    int n = snprintf(text, sizeof(text), "%d", e->micro);
    if (e->micro >= 0 && l->h >= 11 && x[1] - x[0] > 6.5 * n + 2)
        svg_text(g, "in", "middle", (x[0] + x[1]) / 2, l->y + l->h / 2 + 3.6, text);
}

/* What a stage computes, or on top of everything the micro-batches' numbers. */
static void work(struct svg *g, int stage, const struct lane *l, bool numbers)
{
    double x[2];
    for (int k = 0; k < g->times.n; k++)
        for (int64_t i = g->first[stage]; i < g->first[stage + 1]; i++) {
            const struct sn_event *e = g->event[i];
            if (e->kind > SN_EVENT_UPDATE || !clip(g, k, e, x))
                continue;
            if (numbers)
                number(g, e, x, l);
            else
                computing(g, e, x, l);
        }
}

/* Spans of a stage's events of one kind and axis. Those of a micro-batch that are closer than half
 * a pixel are one span, the paler the less of it they cover. */
struct spans {
    struct svg *g;
    const char *cls;
    double y, h;
    double from, to, covered; /* the span that may still grow; covered 0: none */
    int micro;
};

static void close_span(struct spans *s)
{
    double w = s->to - s->from, share = s->covered / w;
    if (s->covered > 0 && share > 0.95)
        svg_rect(s->g, s->cls, s->from, s->y, w, s->h);
    else if (s->covered > 0)
        sn_str_add(s->g->out,
                   "<rect class=\"%s\" opacity=\"%.2f\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
                   "height=\"%.2f\"/>\n",
                   s->cls, fmax(0.15, share), s->from, s->y, w, s->h);
    s->covered = 0;
}

static void add_span(struct spans *s, const struct sn_event *e, const double x[2])
{
    if (x[0] > s->to + 0.5 || e->micro != s->micro)
        close_span(s);
    if (s->covered == 0)
        s->from = s->to = x[0];
    s->covered += fmax(0, x[1] - fmax(x[0], s->to));
    s->to = fmax(s->to, x[1]);
    s->micro = e->micro;
}

static void spans(struct spans *s, int stage, enum sn_event_kind kind, enum sn_axis a)
{
    const struct svg *g = s->g;
    double x[2];
    for (int k = 0; k < g->times.n; k++) {
        for (int64_t i = g->first[stage]; i < g->first[stage + 1]; i++) {
            const struct sn_event *e = g->event[i];
            if (e->kind == kind && (kind == SN_EVENT_IDLE || e->axis == a) && clip(g, k, e, x))
                add_span(s, e, x);
        }
        close_span(s);
    }
}

/* A stage's row: what it computes, cut out where it is idle in the middle of it; below, where it
 * stands for communication; in the strip what is under way. */
static void stage_row(struct svg *g, int stage, const struct lane *l, unsigned axes)
{
    work(g, stage, l, false);
    spans(&(struct spans){.g = g, .cls = "idle", .y = l->y, .h = l->h}, stage, SN_EVENT_IDLE, 0);
    for (int i = 0; i < SN_NAXES; i++) {
        enum sn_axis a = (enum sn_axis)i;
        struct spans wait = {
            .g = g, .cls = sn_axis_name(a), .y = l->y + 0.6 * l->h, .h = 0.4 * l->h};
        struct spans sent = {.g = g, .cls = wait.cls, .y = l->y + l->h + 1, .h = l->strip};
        if (!(axes >> i & 1))
            continue;
        spans(&wait, stage, SN_EVENT_WAIT, a);
        spans(&sent, stage, SN_EVENT_TRANSFER, a);
    }
    work(g, stage, l, true);
}

/* Axes whose transfers or waits there are. */
static unsigned axes_of(const struct sn_sim *s)
{
    unsigned set = 0;
    for (int64_t i = 0; i < s->n_events; i++)
        if (s->event[i].kind == SN_EVENT_WAIT || s->event[i].kind == SN_EVENT_TRANSFER)
            set |= 1u << s->event[i].axis;
    return set;
}

static void pipeline_legend(struct svg *g, unsigned axes)
{
    bool split = false;
    const struct sn_sim *s = g->picture->sim;
    for (int64_t i = 0; i < s->n_events; i++)
        split |= s->event[i].kind == SN_EVENT_WEIGHT;
    svg_text(g, "head", "start", 24, g->y, "Pipeline");
    double x = svg_legend(g, "forward", 180, "forward");
    x = svg_legend(g, "backward", x, "backward");
    if (split)
        x = svg_legend(g, "weight", x, "weight gradients");
    x = svg_legend(g, "update", x, "update");
    x = svg_legend(g, "idle", x, "idle");
    if (axes) {
        svg_text(g, "soft", "start", x, g->y, "waiting, and below under way:");
        x += 206;
    }
    for (int a = 0; a < SN_NAXES; a++)
        if (axes >> a & 1)
            x = svg_legend(g, sn_axis_name((enum sn_axis)a), x, sn_axis_name((enum sn_axis)a));
    if (g->picture->vstages > 1)
        svg_text(g, "soft", "start", x, g->y, "later virtual stages are lighter");
}

void svg_pipeline(struct svg *g)
{
    const struct sn_sim *s = g->picture->sim;
    unsigned axes = axes_of(s);
    double row = fmin(36, fmax(9, 480.0 / s->stages)), h = row * s->stages;
    pipeline_legend(g, axes);
    double top = g->y + 16;
    for (int i = 0; i < s->stages; i++) {
        struct lane l = lane_of(top, i, row);
        svg_stage_label(g, i, l.y, l.h);
        lane(g, l.y, l.h);
        char text[24];
        (void)snprintf(text, sizeof(text), "%.1f %% busy", 100 * s->stage[i].busy / s->step);
        if (row >= 12)
            svg_text(g, "soft", "start", SVG_LEFT + SVG_PLOT + 10, l.y + l.h / 2 + 4, text);
    }
    svg_time_axis(g, top, h);
    for (int i = 0; i < s->stages; i++) {
        struct lane l = lane_of(top, i, row);
        stage_row(g, i, &l, axes);
    }
    g->y = top + h + 56;
}

/* --- memory over time ------------------------------------------------------------------------- */

static int64_t peak_of(const struct sn_memory_curve *m)
{
    int64_t peak = 0;
    for (int i = 0; i < m->n; i++)
        peak = m->point[i].bytes > peak ? m->point[i].bytes : peak;
    return peak + m->library;
}

/* The most that is in use between two times. *at: the last point not after `begin`. */
static int64_t most_between(const struct sn_memory_curve *m, int *at, double begin, double end)
{
    int64_t most = 0;
    while (*at + 1 < m->n && m->point[*at + 1].time <= begin)
        ++*at;
    for (int i = *at; i < m->n && (i == *at || m->point[i].time < end); i++)
        most = m->point[i].bytes > most ? m->point[i].bytes : most;
    return most + m->library;
}

/* The area below the curve: for each pixel the most of its time. */
static void area(struct svg *g, const struct sn_memory_curve *m, double bottom, double per_byte)
{
    for (int k = 0; k < g->times.n; k++) {
        double begin = g->times.begin[k], left = svg_x(g, k, begin);
        int n = (int)ceil((g->times.end[k] - begin) * g->scale), at = 0;
        int64_t last = -1;
        sn_str_add(g->out, "<path class=\"kept\" d=\"M%.1f %.1f", left, bottom);
        for (int i = 0; i < n; i++) {
            int64_t most = most_between(m, &at, begin + i / g->scale, begin + (i + 1) / g->scale);
            if (most != last)
                sn_str_add(g->out, "H%.1fV%.1f", left + i, bottom - (double)most * per_byte);
            last = most;
        }
        sn_str_add(g->out, "H%.1fV%.1fZ\"/>\n", svg_x(g, k, g->times.end[k]), bottom);
        double w = (g->times.end[k] - begin) * g->scale, state = (double)m->state * per_byte;
        double library = (double)m->library * per_byte;
        svg_rect(g, "state", left, bottom - library - state, w, state);
        svg_rect(g, "library", left, bottom - library, w, library);
    }
}

static void memory_legend(struct svg *g, int64_t top_bytes)
{
    char text[96], size[16];
    svg_text(g, "head", "start", 24, g->y, "Memory of a rank");
    double x = svg_legend(g, "kept", 180, "activations, temporaries, buffers");
    x = svg_legend(g, "state", x, "weights, gradients, moments");
    x = svg_legend(g, "library", x, "libraries");
    if (g->picture->limit > top_bytes)
        (void)snprintf(text, sizeof(text), "the limit, %s, is above the rows",
                       sn_str_bytes(size, g->picture->limit));
    else
        (void)snprintf(text, sizeof(text), "dashed: the limit, %s",
                       sn_str_bytes(size, g->picture->limit));
    if (g->picture->limit)
        svg_text(g, "soft", "start", x, g->y, text);
}

void svg_memory(struct svg *g)
{
    const struct sn_picture *p = g->picture;
    int n = p->sim->stages;
    double row = fmin(64, fmax(12, 560.0 / n)), used = row * 0.84;
    int64_t peak = 1;
    for (int i = 0; i < n; i++) {
        int64_t of_stage = peak_of(&p->memory[i]);
        peak = of_stage > peak ? of_stage : peak;
    }
    int64_t most = p->limit > peak && (double)p->limit < 1.7 * (double)peak ? p->limit : peak;
    memory_legend(g, most);
    double top = g->y + 16;
    for (int i = 0; i < n; i++)
        lane(g, top + i * row, used);
    svg_time_axis(g, top, row * n);
    for (int i = 0; i < n; i++) {
        double bottom = top + i * row + used;
        char size[16];
        int64_t of_stage = peak_of(&p->memory[i]);
        area(g, &p->memory[i], bottom, used / (double)most);
        svg_stage_label(g, i, bottom - used, used);
        if (row >= 12)
            svg_text(g, p->limit && of_stage > p->limit ? "over" : "soft", "start",
                     SVG_LEFT + SVG_PLOT + 10, bottom - used / 2 + 4, sn_str_bytes(size, of_stage));
        if (p->limit && p->limit <= most)
            sn_str_add(g->out, "<path class=\"limit\" d=\"M%d %.1fh%d\"/>\n", SVG_LEFT,
                       bottom - used * (double)p->limit / (double)most, SVG_PLOT);
    }
    g->y = top + row * n + 56;
}

/* --- where time goes -------------------------------------------------------------------------- */

/* A piece of a bar, with its share where it fits; returns where the next one begins. */
static double piece(struct svg *g, const char *cls, double x, double seconds, const struct lane *l)
{
    double share = seconds / g->picture->sim->step, w = share * SVG_PLOT;
    char text[16];
    if (w <= 0)
        return x;
    svg_rect(g, cls, x, l->y, w, l->h);
    (void)snprintf(text, sizeof(text), "%.1f %%", 100 * share);
    if (w > 40 && l->h >= 10)
        svg_text(g, strcmp(cls, "idle") == 0 ? "soft" : "in", "middle", x + w / 2,
                 l->y + l->h / 2 + 4, text);
    return x + w;
}

static void breakdown_legend(struct svg *g)
{
    const struct sn_sim *s = g->picture->sim;
    svg_text(g, "head", "start", 24, g->y, "Where time goes");
    double x = svg_legend(g, "compute", 180, "computing");
    x = svg_legend(g, "update", x, "update");
    for (int a = 0; a < SN_NAXES; a++) {
        double any = 0;
        char text[48];
        for (int i = 0; i < s->stages; i++)
            any += s->stage[i].exposed[a];
        (void)snprintf(text, sizeof(text), "exposed %s", sn_axis_name((enum sn_axis)a));
        if (any > 0)
            x = svg_legend(g, sn_axis_name((enum sn_axis)a), x, text);
    }
    (void)svg_legend(g, "idle", x, "bubble");
}

void svg_breakdown(struct svg *g)
{
    const struct sn_sim *s = g->picture->sim;
    double row = fmin(30, fmax(10, 400.0 / s->stages));
    breakdown_legend(g);
    double top = g->y + 16;
    for (int i = 0; i < s->stages; i++) {
        const struct sn_sim_stage *t = &s->stage[i];
        struct lane l = {.y = top + i * row, .h = row * 0.78};
        double x = piece(g, "compute", SVG_LEFT, t->busy - t->update, &l);
        x = piece(g, "update", x, t->update, &l);
        for (int a = 0; a < SN_NAXES; a++)
            x = piece(g, sn_axis_name((enum sn_axis)a), x, t->exposed[a], &l);
        (void)piece(g, "idle", x, t->idle, &l);
        svg_stage_label(g, i, l.y, l.h);
    }
    g->y = top + row * s->stages + 32;
}
