/*
 * heat.c - who sends how much to whom, as squares.
 */
#include "lib/report/html.h"
#include "lib/report/svg_inner.h"

#include <math.h>
#include <stdio.h>

enum { LEFT = 112, TOP = 30, SIDE = 480, FIGURES = 8, BELOW = 52 };

/* 0: nothing is sent; else 0.1 .. 1, by logarithms between the least and the most. */
static double shade(int64_t bytes, int64_t least, int64_t most)
{
    if (bytes <= 0)
        return 0;
    if (most <= least)
        return 1;
    return 0.1 + 0.9 * log((double)bytes / (double)least) / log((double)most / (double)least);
}

static void extent(const struct sn_html_heat *h, int64_t *least, int64_t *most)
{
    *least = INT64_MAX;
    *most = 0;
    for (int i = 0; i < h->n * h->n; i++) {
        if (h->bytes[i] > 0 && h->bytes[i] < *least)
            *least = h->bytes[i];
        *most = h->bytes[i] > *most ? h->bytes[i] : *most;
    }
}

static void square(struct svg *g, const struct sn_html_heat *h, int from, int to, double opacity)
{
    double side = (double)SIDE / h->n, x = LEFT + to * side, y = TOP + from * side;
    char size[16];
    int64_t bytes = h->bytes[from * h->n + to];
    svg_rect(g, "idle", x + 0.5, y + 0.5, side - 1, side - 1);
    sn_str_add(g->out,
               "<rect class=\"heatcell\" opacity=\"%.3f\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
               "height=\"%.2f\"><title>",
               opacity, x + 0.5, y + 0.5, side - 1, side - 1);
    svg_escape(g->out, h->label[from]);
    sn_str_add(g->out, " to ");
    svg_escape(g->out, h->label[to]);
    sn_str_add(g->out, ": %lld bytes</title></rect>\n", (long long)bytes);
    if (h->n <= FIGURES && bytes > 0)
        svg_text(g, opacity > 0.6 ? "in heattext" : "heattext", "middle", x + side / 2,
                 y + side / 2 + 4, sn_str_bytes(size, bytes));
}

/* Labels of rows, and of columns their numbers; as many as have room. */
static void labels(struct svg *g, const struct sn_html_heat *h)
{
    double side = (double)SIDE / h->n;
    int each = (int)ceil(13 / side), across = (int)ceil(34 / side);
    for (int i = 0; i < h->n; i++) {
        char number[16];
        (void)snprintf(number, sizeof(number), "%d", i);
        if (i % each == 0)
            svg_text(g, "soft", "end", LEFT - 8, TOP + (i + 0.5) * side + 4, h->label[i]);
        if (i % across == 0)
            svg_text(g, "soft", "middle", LEFT + (i + 0.5) * side, TOP - 8,
                     side > 64 ? h->label[i] : number);
    }
}

static void scale(struct svg *g, int64_t least, int64_t most)
{
    enum { STEPS = 24, WIDE = 200 };
    char size[16];
    double y = TOP + SIDE + 18;
    for (int i = 0; i < STEPS; i++)
        sn_str_add(g->out,
                   "<rect class=\"heatcell\" opacity=\"%.3f\" x=\"%.2f\" y=\"%.1f\" "
                   "width=\"%.2f\" height=\"10\"/>\n",
                   0.1 + 0.9 * i / (STEPS - 1), LEFT + 78 + (double)i * WIDE / STEPS, y,
                   (double)WIDE / STEPS);
    svg_text(g, "soft", "end", LEFT + 70, y + 9, sn_str_bytes(size, least));
    svg_text(g, "soft", "start", LEFT + 86 + WIDE, y + 9, sn_str_bytes(size, most));
}

void sn_html_heat(struct sn_str *out, const struct sn_html_heat *h)
{
    struct svg g = {.out = out};
    int64_t least, most;
    extent(h, &least, &most);
    sn_str_add(out, "<svg class=\"heat\" viewBox=\"0 0 %d %d\" role=\"img\">\n", LEFT + SIDE + 8,
               TOP + SIDE + BELOW);
    labels(&g, h);
    for (int i = 0; i < h->n; i++)
        for (int k = 0; k < h->n; k++)
            square(&g, h, i, k, shade(h->bytes[i * h->n + k], least, most));
    if (most > 0)
        scale(&g, least, most);
    sn_str_add(out, "</svg>\n");
}
