/*
 * svg_inner.h - what the panels of the drawing share: where things are, and a few shapes.
 *
 * Lengths are in pixels of a drawing 1280 wide; classes are colours (svg.c has them all).
 */
#ifndef SN_SVG_INNER_H
#define SN_SVG_INNER_H

#include "lib/report/picture.h"

enum { SVG_WIDTH = 1280, SVG_LEFT = 84, SVG_PLOT = 1096, SVG_GAP = 28 };

struct svg {
    struct sn_str *out;
    const struct sn_picture *picture;
    struct sn_stretches times;
    const struct sn_event **event; /* stage by stage, in order of begin: */
    int64_t *first;                /* those of stage i are first[i] .. first[i + 1] - 1 */
    double scale;                  /* pixels a second */
    double y;                      /* where the next panel begins */
};

/* The whole drawing of what was drawn in *body, which ends here; a part of a page has no style and
 * no paper. */
void svg_document(struct sn_str *out, struct sn_str *body, double height, bool is_part);
/* Text with what SVG and HTML read as marks escaped (not quotes, for attributes); what is no character of UTF-8, or what
 * a terminal obeys, is "?". */
void svg_escape(struct sn_str *out, const char *text);
/* Where a time is drawn; stretch k begins at x_of(g, k, begin[k]). */
double svg_x(const struct svg *g, int stretch, double seconds);
void svg_rect(struct svg *g, const char *cls, double x, double y, double w, double h);
/* `anchor`: "start", "middle" or "end". The text is escaped. */
void svg_text(struct svg *g, const char *cls, const char *anchor, double x, double y,
              const char *text);
/* A coloured square and its meaning; returns where the next one goes. */
double svg_legend(struct svg *g, const char *cls, double x, const char *text);
/* "stage 3" left of a row, where rows are high enough for it. */
void svg_stage_label(struct svg *g, int stage, double y, double h);
/* Round times below (or through) the rows from y to y + h, and the gaps between stretches. */
void svg_time_axis(struct svg *g, double y, double h);

/* Draw one panel at g->y and move g->y below it. */
void svg_pipeline(struct svg *g);
void svg_memory(struct svg *g);
void svg_breakdown(struct svg *g);

#endif
