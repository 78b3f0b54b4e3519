/*
 * curve.h - curves over logarithmic axes as a drawing, in the style of picture.h's.
 */
#ifndef SN_CURVE_H
#define SN_CURVE_H

#include "lib/base/str.h"

struct sn_curve_point {
    double x, y;       /* above 0 */
    const char *label; /* beside it; NULL: none */
};

/* Points in order of x. */
struct sn_curve {
    const char *head;
    const struct sn_curve_point *point;
    int n;
    bool into; /* marks in the panel of the curve before, without a line */
};

/* A panel for each curve, one below the other. */
struct sn_curves {
    const char *title, *note;
    const struct sn_curve *curve;
    int n;
    bool is_part; /* of a page that has sn_svg_style: without title and note */
};

/* Self-contained SVG. Writers of `out` look at out->failed. */
void sn_curves_svg(struct sn_str *out, const struct sn_curves *c);

#endif
