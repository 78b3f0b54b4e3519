/*
 * picture.h - a simulated step as a drawing, as a trace and as lines of a terminal.
 *
 * All three take times from the simulator as they are and add nothing to them. A step of hundreds
 * of micro-batches is drawn in three stretches on one scale: its beginning, a piece of its middle,
 * and its end; the picture says so. The trace leaves nothing out.
 */
#ifndef SN_PICTURE_H
#define SN_PICTURE_H

#include "lib/base/str.h"
#include "lib/sim/sim.h"

/* A stage's memory over the step: what sn_sim_memory found, on top of what is always there. */
struct sn_memory_curve {
    const struct sn_memory_point *point; /* in order of time */
    int n;
    int64_t library; /* not in the points */
    int64_t state;   /* in the points, and constant: weights, gradients, moments */
};

struct sn_picture {
    const char *title;
    const struct sn_sim *sim;             /* with its events */
    const struct sn_memory_curve *memory; /* [sim->stages]; NULL: not drawn */
    int64_t limit;                        /* of a rank's memory; 0: unknown */
    int micros, vstages;                  /* of the step; virtual stages of a stage */
    double mfu;                           /* 0: not said */
    const char *mfu_note;                 /* stands beside it (software.h); NULL: nothing does */
    unsigned panels;                      /* bits of enum sn_panel; 0: all, as a file of its own */
};
enum sn_panel { SN_PANEL_PIPELINE = 1, SN_PANEL_MEMORY = 2, SN_PANEL_BREAKDOWN = 4 };

/* Times that are drawn, in order and apart: the whole step or three stretches of it. */
struct sn_stretches {
    double begin[3], end[3];
    int n;
    double shown; /* seconds, of all of them */
};
/* `room`: how many micro-batches side by side can be told apart. */
void sn_stretches_find(struct sn_stretches *out, const struct sn_picture *p, double room);

/* Self-contained SVG: the pipeline, memory over time and where each stage's time goes. Readers that
 * prefer dark get dark colours. Writers of `out` look at out->failed, here and below. With `panels` these
 * alone, for a page that has sn_svg_style. */
void sn_picture_svg(struct sn_str *out, const struct sn_picture *p);
/* Colours and letters of all drawings, as rules of CSS. */
void sn_svg_style(struct sn_str *out);
/* Chrome's trace event format, which Perfetto opens (trace.h): a process for each stage, with
 * threads for computing and for each axis, and a counter of memory. */
enum sn_status sn_picture_trace(struct sn_str *out, const struct sn_picture *p, struct sn_err *err);
/* Its events alone, for a trace that has others, too: process i is called "PREFIXstage i", and
 * stands at place i x `order`. */
enum sn_status sn_picture_events(struct sn_str *out, const struct sn_picture *p, const char *prefix,
                                 int order, struct sn_err *err);
/* A line for each stage, `width` columns wide (at least 40); ASCII, or UTF-8. */
enum sn_status sn_picture_timeline(struct sn_str *out, const struct sn_picture *p, int width,
                                   bool utf8, struct sn_err *err);

/* For the drawings: a name such as "forward" or "data". */
const char *sn_event_name(enum sn_event_kind k);
/* A round number of seconds, 1, 2 or 5 times a power of ten, of which about n make `seconds`. */
double sn_tick(double seconds, int n);
/* "26.5 s", "310 ms", "42 us": buf of at least 24 bytes; returns buf. */
const char *sn_picture_time(char buf[24], double seconds);
/* The same, but from two minutes on "14 min", from two hours on "2.3 h". */
const char *sn_picture_hours(char buf[24], double seconds);

#endif
