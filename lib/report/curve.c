#include "lib/report/curve.h"

#include "lib/report/svg_inner.h"

#include <math.h>
#include <stdio.h>

enum { TOP = 96, PANEL = 300, PLOT = 210, MOST_TICKS = 24 };

/* The axes of a panel: from low to high, by logarithms. */
struct frame {
    double x[2], y[2], top;
};

static double at_x(const struct frame *f, double x)
{
    return SVG_LEFT + SVG_PLOT * log(x / f->x[0]) / log(f->x[1] / f->x[0]);
}

static double at_y(const struct frame *f, double y)
{
    return f->top + PLOT * (1 - log(y / f->y[0]) / log(f->y[1] / f->y[0]));
}

static void reach(double range[2], double v)
{
    range[0] = fmin(range[0], v);
    range[1] = fmax(range[1], v);
}

/* With some room around the points of a panel, which are those of the curves first .. end - 1. */
static struct frame frame_of(const struct sn_curves *c, int first, int end, double top)
{
    struct frame f = {.x = {INFINITY, 0}, .y = {INFINITY, 0}, .top = top};
    for (int k = first; k < end; k++)
        for (int i = 0; i < c->curve[k].n; i++) {
            reach(f.x, c->curve[k].point[i].x);
            reach(f.y, c->curve[k].point[i].y);
        }
    double x = fmax(1.02, pow(f.x[1] / f.x[0], 0.04)), y = fmax(1.002, pow(f.y[1] / f.y[0], 0.12));
    f.x[0] /= x;
    f.x[1] *= x;
    f.y[0] /= y;
    f.y[1] *= y;
    return f;
}

/* Round numbers inside: 1, 2, 5 times powers of ten, or, in less than a decade, of an even step. */
static int ticks(double out[MOST_TICKS], const double range[2])
{
    static const double of[] = {1, 2, 5};
    int n = 0;
    double unit = pow(10, floor(log10(range[1] - range[0])));
    if (range[1] / range[0] < 6) {
        double step = (range[1] - range[0]) / unit > 5 ? unit : unit / 2;
        for (double v = ceil(range[0] / step) * step; v <= range[1] && n < MOST_TICKS; v += step)
            out[n++] = v;
        return n;
    }
    for (double p = pow(10, floor(log10(range[0]))); p <= range[1]; p *= 10)
        for (int k = 0; k < 3; k++)
            if (of[k] * p >= range[0] && of[k] * p <= range[1] && n < MOST_TICKS)
                out[n++] = of[k] * p;
    return n;
}

static void axes(struct svg *g, const struct frame *f)
{
    double tick[MOST_TICKS], last = -1e9;
    char text[24];
    svg_rect(g, "idle", SVG_LEFT, f->top, SVG_PLOT, PLOT);
    for (int i = 0, n = ticks(tick, f->y); i < n; i++) {
        double y = at_y(f, tick[i]);
        sn_str_add(g->out, "<path class=\"grid\" d=\"M%d %.1fh%d\"/>\n", SVG_LEFT, y, SVG_PLOT);
        (void)snprintf(text, sizeof(text), "%.4g", tick[i]);
        svg_text(g, "soft", "end", SVG_LEFT - 8, y + 4, text);
    }
    for (int i = 0, n = ticks(tick, f->x); i < n; i++) {
        double x = at_x(f, tick[i]);
        sn_str_add(g->out, "<path class=\"grid\" d=\"M%.1f %.1fv%d\"/>\n", x, f->top, PLOT + 5);
        (void)snprintf(text, sizeof(text), "%.4g", tick[i]);
        if (x - last > 52)
            svg_text(g, "soft", "middle", x, f->top + PLOT + 18, text);
        last = x - last > 52 ? x : last;
    }
}

static void line(struct svg *g, const struct frame *f, const struct sn_curve *c)
{
    sn_str_add(g->out, "<path fill=\"none\" stroke=\"#3a78c2\" stroke-width=\"2\" d=\"");
    for (int i = 0; i < c->n; i++)
        sn_str_add(g->out, "%s%.1f %.1f", i ? "L" : "M", at_x(f, c->point[i].x),
                   at_y(f, c->point[i].y));
    sn_str_add(g->out, "\"/>\n");
}

/* Labels keep off the line: above a mark that it falls to the right of, below one from which it rises;
 * those of marks into a panel stand above each other, for marks may be near each other. */
static double label_y(const struct frame *f, const struct sn_curve *c, int i, bool ends)
{
    int a = i + 1 < c->n ? i : i - 1;
    double y = at_y(f, c->point[i].y);
    bool rises = a >= 0 && c->n > 1 && c->point[a + 1].y > c->point[a].y;
    if (c->into)
        return y - 7 - 18 * i;
    return rises == ends ? y - 7 : y + 18;
}

static void marks(struct svg *g, const struct frame *f, const struct sn_curve *c)
{
    for (int i = 0; i < c->n; i++) {
        const struct sn_curve_point *p = &c->point[i];
        double x = at_x(f, p->x);
        bool ends = x > SVG_LEFT + 0.75 * SVG_PLOT;
        if (!p->label)
            continue;
        sn_str_add(g->out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n",
                   c->into ? "update" : "forward", x, at_y(f, p->y));
        svg_text(g, "", ends ? "end" : "start", ends ? x - 9 : x + 9, label_y(f, c, i, ends),
                 p->label);
    }
}

void sn_curves_svg(struct sn_str *out, const struct sn_curves *c)
{
    struct sn_str body = {0};
    struct svg g = {.out = &body};
    double top = c->is_part ? 8 : TOP;
    if (!c->is_part) {
        svg_text(&g, "title", "start", 24, 38, c->title);
        svg_text(&g, "soft", "start", 24, 60, c->note);
    }
    for (int k = 0, end; k < c->n; k = end) {
        for (end = k + 1; end < c->n && c->curve[end].into; end++)
            ;
        struct frame f = frame_of(c, k, end, top + 24);
        svg_text(&g, "head", "start", 24, top + 8, c->curve[k].head);
        axes(&g, &f);
        line(&g, &f, &c->curve[k]);
        for (int i = k; i < end; i++)
            marks(&g, &f, &c->curve[i]);
        top += PANEL;
    }
    svg_document(out, &body, top, c->is_part);
}
