/*
 * svg.c - the frame of the drawing: colours, scales, shapes; the panels are in svg_panels.c.
 */
#include "lib/base/mem.h"
#include "lib/base/plain.h"
#include "lib/report/svg_inner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Kinds of work are cold colours, reasons to wait are warm ones, an idle stage is an empty lane. */
static const char on_light[] =
    "text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;font-size:12px;"
    "fill:#1d2730}\n"
    ".title{font-size:20px;font-weight:600}.head{font-size:14px;font-weight:600}\n"
    ".soft{fill:#66737f}.over{fill:#c22f3d;font-weight:600}.in{fill:#fff;font-size:10px}\n"
    ".paper{fill:#fff}.idle{fill:#edf0f3}.grid{stroke:#d5dbe1;stroke-width:1}\n"
    ".gap{stroke:#66737f;stroke-width:1;stroke-dasharray:2 3}\n"
    ".limit{stroke:#c22f3d;stroke-width:1;stroke-dasharray:5 3}\n"
    ".forward{fill:#3a78c2}.backward{fill:#2f8f6b}.weight{fill:#7fa834}.update{fill:#7d5bb5}\n"
    ".compute{fill:#35859a}.library{fill:#a9b4be}.state{fill:#5a7fa8}.kept{fill:#4fae9b}\n";
static const char on_dark[] =
    "text{fill:#e5eaef}.soft{fill:#94a2af}.over{fill:#ff7f88}\n"
    ".in{fill:#fff}.paper{fill:#12171c}.idle{fill:#212930}.grid{stroke:#313b45}\n"
    ".gap{stroke:#94a2af}.limit{stroke:#ff7f88}.library{fill:#5b6670}";

/* Communication of an axis has the axis' name as its class. */
void sn_svg_style(struct sn_str *out)
{
    sn_str_add(out, "%s", on_light);
    for (int a = 0; a < SN_NAXES; a++)
        sn_str_add(out, ".%s{fill:%s}", sn_axis_name((enum sn_axis)a),
                   sn_axis_row((enum sn_axis)a)->colour);
    sn_str_add(out, "\n@media (prefers-color-scheme:dark){%s", on_dark);
    for (int a = 0; a < SN_NAXES; a++)
        if (sn_axis_row((enum sn_axis)a)->dark)
            sn_str_add(out, ".%s{fill:%s}", sn_axis_name((enum sn_axis)a),
                       sn_axis_row((enum sn_axis)a)->dark);
    sn_str_add(out, "}\n");
}

double svg_x(const struct svg *g, int stretch, double seconds)
{
    double x = SVG_LEFT;
    for (int i = 0; i < stretch; i++)
        x += (g->times.end[i] - g->times.begin[i]) * g->scale + SVG_GAP;
    return x + (seconds - g->times.begin[stretch]) * g->scale;
}

void svg_rect(struct svg *g, const char *cls, double x, double y, double w, double h)
{
    sn_str_add(g->out,
               "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n", cls,
               x, y, w, h);
}

void svg_escape(struct sn_str *out, const char *text)
{
    for (int n; *text; text += n) {
        unsigned character;
        n = sn_plain_decode(text, &character);
        if (n == 0 || sn_plain_is_obeyed(character))
            sn_str_add(out, "?");
        else if (n == 1 && strchr("<>&", *text))
            sn_str_add(out, "&#%d;", *text);
        else
            sn_str_add(out, "%.*s", n, text);
        n = n ? n : 1;
    }
}

void svg_text(struct svg *g, const char *cls, const char *anchor, double x, double y,
              const char *text)
{
    sn_str_add(g->out, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">", cls, anchor,
               x, y);
    svg_escape(g->out, text);
    sn_str_add(g->out, "</text>\n");
}

double svg_legend(struct svg *g, const char *cls, double x, const char *text)
{
    svg_rect(g, cls, x, g->y - 10, 11, 11);
    svg_text(g, "soft", "start", x + 16, g->y, text);
    return x + 30 + 6.9 * (double)strlen(text);
}

void svg_stage_label(struct svg *g, int stage, double y, double h)
{
    char text[24];
    int each = (int)ceil(13 / h);
    (void)snprintf(text, sizeof(text), "stage %d", stage);
    if (stage % each == 0)
        svg_text(g, "soft", "end", SVG_LEFT - 10, y + h / 2 + 4, text);
}

static void gap(struct svg *g, int stretch, double y, double h)
{
    double x = svg_x(g, stretch, g->times.end[stretch]) + SVG_GAP / 2.0;
    sn_str_add(g->out, "<path class=\"gap\" d=\"M%.1f %.1fv%.1fM%.1f %.1fv%.1f\" fill=\"none\"/>\n",
               x - 3, y, h, x + 3, y, h);
}

void svg_time_axis(struct svg *g, double y, double h)
{
    double step = sn_tick(g->times.shown, 12), all = g->picture->sim->step;
    double unit = all >= 1 ? 1 : all >= 1e-3 ? 1e-3 : 1e-6;
    const char *name = all >= 1 ? "s" : all >= 1e-3 ? "ms" : "us";
    char text[40];
    for (int k = 0; k < g->times.n; k++) {
        double last = -1e9;
        for (double i = ceil(g->times.begin[k] / step - 1e-9); i * step <= g->times.end[k]; i++) {
            double x = svg_x(g, k, i * step);
            sn_str_add(g->out, "<path class=\"grid\" d=\"M%.1f %.1fv%.1f\"/>\n", x, y, h + 5);
            (void)snprintf(text, sizeof(text), "%.6g %s", fabs(i * step / unit), name);
            if (x - last > 52)
                svg_text(g, "soft", "middle", x, y + h + 18, text);
            last = x - last > 52 ? x : last;
        }
        if (k + 1 < g->times.n)
            gap(g, k, y, h);
    }
}

static void header(struct svg *g)
{
    const struct sn_picture *p = g->picture;
    char step[24], text[256];
    double exposed = 0;
    for (int a = 0; a < SN_NAXES; a++)
        exposed += p->sim->exposed[a];
    int n = snprintf(text, sizeof(text), "one step takes %s", sn_picture_time(step, p->sim->step));
    if (p->mfu > 0)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", MFU %.1f %%%s%s%s", 100 * p->mfu,
                      p->mfu_note ? " (" : "", p->mfu_note ? p->mfu_note : "",
                      p->mfu_note ? ")" : "");
    (void)snprintf(text + n, sizeof(text) - (size_t)n,
                   "; bubble %.1f %%, exposed communication %.1f %%; %d stage%s, %d micro-batch%s",
                   100 * p->sim->bubble, 100 * exposed / p->sim->step, p->sim->stages,
                   p->sim->stages == 1 ? "" : "s", p->micros, p->micros == 1 ? "" : "es");
    svg_text(g, "title", "start", 24, 38, p->title);
    svg_text(g, "soft", "start", 24, 60, text);
    if (g->times.n > 1) {
        char all[24];
        (void)snprintf(
            text, sizeof(text),
            "Drawn are the step's beginning, a stretch of its middle and its end, on one "
            "scale: %s of %s.",
            sn_picture_time(step, g->times.shown), sn_picture_time(all, p->sim->step));
        svg_text(g, "soft", "start", 24, 78, text);
    }
    g->y = g->times.n > 1 ? 112 : 96;
}

/* Counting sort by stage, which keeps their order. */
static bool sort_events(struct svg *g)
{
    const struct sn_sim *s = g->picture->sim;
    g->first = sn_alloc_n((size_t)s->stages + 2, sizeof(*g->first));
    g->event = sn_alloc_n((size_t)s->n_events + 1, sizeof(const struct sn_event *));
    if (!g->first || !g->event)
        return false;
    for (int64_t i = 0; i < s->n_events; i++)
        g->first[s->event[i].stage + 2]++;
    for (int i = 0; i < s->stages; i++)
        g->first[i + 2] += g->first[i + 1];
    for (int64_t i = 0; i < s->n_events; i++)
        g->event[g->first[s->event[i].stage + 1]++] = &s->event[i];
    return true;
}

static void draw(struct svg *g)
{
    const struct sn_picture *p = g->picture;
    sn_stretches_find(&g->times, p, SVG_PLOT / 26.0);
    g->scale = (SVG_PLOT - SVG_GAP * (g->times.n - 1)) / g->times.shown;
    unsigned panels = p->panels ? p->panels : ~0u;
    if (p->panels)
        g->y = 16;
    else
        header(g);
    if (panels & SN_PANEL_PIPELINE)
        svg_pipeline(g);
    if (p->memory && panels & SN_PANEL_MEMORY)
        svg_memory(g);
    if (panels & SN_PANEL_BREAKDOWN)
        svg_breakdown(g);
}

void svg_document(struct sn_str *out, struct sn_str *body, double height, bool is_part)
{
    sn_str_add(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" "
               "height=\"%.0f\">\n",
               SVG_WIDTH, height, SVG_WIDTH, height);
    if (!is_part) {
        sn_str_add(out, "<style>");
        sn_svg_style(out);
        sn_str_add(out, "</style>\n<rect class=\"paper\" width=\"%d\" height=\"%.0f\"/>\n",
                   SVG_WIDTH, height);
    }
    sn_str_add(out, "%s</svg>\n", body->p ? body->p : "");
    out->failed |= body->failed;
    sn_str_fini(body);
}

void sn_picture_svg(struct sn_str *out, const struct sn_picture *p)
{
    struct sn_str body = {0};
    struct svg g = {.out = &body, .picture = p};
    if (sort_events(&g))
        draw(&g);
    else
        out->failed = true;
    sn_free(g.event);
    sn_free(g.first);
    svg_document(out, &body, p->panels ? g.y - 30 : g.y, p->panels != 0);
}
