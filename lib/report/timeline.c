/*
 * timeline.c - the pipeline of a step in a terminal: a line for each stage, a character for what it
 * does most of in that time.
 *
 *   stage  0 |00112233aabb....ccdd#####| 81 %
 */
#include "lib/base/mem.h"
#include "lib/report/picture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct glyphs {
    const char *idle, *wait, *update, *weight, *gap, *bar;
};

struct cell {
    double most, work, wait, idle; /* seconds: of the event that has most, of all, of standing */
    const struct sn_event *event;
};

struct lines {
    const struct sn_picture *picture;
    struct sn_stretches times;
    struct cell *cell; /* [stages x columns] */
    int columns;       /* without gaps */
    double slice;      /* seconds of one */
};

static int columns_of(const struct lines *l, int stretch)
{
    return (int)((l->times.end[stretch] - l->times.begin[stretch]) / l->slice + 0.5);
}

/* Charge an event to the cells of a stretch that begins at column `first`. */
static void charge(struct lines *l, const struct sn_event *e, int stretch, int first)
{
    double origin = l->times.begin[stretch];
    int n = columns_of(l, stretch);
    int from = (int)fmax(0, floor((e->begin - origin) / l->slice));
    for (int i = from; i < n && origin + i * l->slice < e->end; i++) {
        struct cell *c = &l->cell[(int64_t)e->stage * l->columns + first + i];
        double t =
            fmin(e->end, origin + (i + 1) * l->slice) - fmax(e->begin, origin + i * l->slice);
        if (t <= 0)
            continue;
        if (e->kind >= SN_EVENT_WAIT) {
            *(e->kind == SN_EVENT_WAIT ? &c->wait : &c->idle) += t;
            continue;
        }
        c->work += t;
        if (t > c->most) {
            c->most = t;
            c->event = e;
        }
    }
}

static void add_cell(struct sn_str *out, const struct cell *c, double slice, const struct glyphs *g)
{
    if (c->wait >= slice / 2)
        sn_str_add(out, "%s", g->wait);
    else if (!c->event || c->work - c->idle < slice / 2)
        sn_str_add(out, "%s", g->idle);
    else if (c->event->kind == SN_EVENT_UPDATE)
        sn_str_add(out, "%s", g->update);
    else if (c->event->kind == SN_EVENT_WEIGHT)
        sn_str_add(out, "%s", g->weight);
    else
        sn_str_add(out, "%c",
                   (c->event->kind == SN_EVENT_FORWARD ? '0' : 'a') + c->event->micro % 10);
}

static void add_stage(struct sn_str *out, const struct lines *l, int stage, const struct glyphs *g)
{
    const struct sn_sim *s = l->picture->sim;
    const struct cell *c = l->cell + (int64_t)stage * l->columns;
    sn_str_add(out, "stage %3d %s", stage, g->bar);
    for (int k = 0; k < l->times.n; k++) {
        for (int i = 0; i < columns_of(l, k); i++)
            add_cell(out, c++, l->slice, g);
        sn_str_add(out, "%s", k + 1 < l->times.n ? g->gap : "");
    }
    sn_str_add(out, "%s %3.0f %%\n", g->bar, 100 * s->stage[stage].busy / s->step);
}

static void add_legend(struct sn_str *out, const struct lines *l, const struct glyphs *g)
{
    char step[24], slice[24], shown[24];
    sn_str_add(out, "pipeline of one step of %s, %s a column; right: how busy a stage is\n",
               sn_picture_time(step, l->picture->sim->step), sn_picture_time(slice, l->slice));
    if (l->times.n > 1)
        sn_str_add(out, "drawn: beginning %s middle %s end, %s of it\n", g->gap, g->gap,
                   sn_picture_time(shown, l->times.shown));
    sn_str_add(out,
               "0-9 forward, a-j backward (last digit of the micro-batch), %s weight gradients, %s "
               "update,\n%s waiting for communication, %s idle\n",
               g->weight, g->update, g->wait, g->idle);
}

enum sn_status sn_picture_timeline(struct sn_str *out, const struct sn_picture *p, int width,
                                   bool utf8, struct sn_err *err)
{
    static const struct glyphs ascii = {".", "!", "=", "w", " ~ ", "|"};
    static const struct glyphs drawn = {"·", "░", "█", "w", " ⋯ ", "│"};
    const struct glyphs *g = utf8 ? &drawn : &ascii;
    const struct sn_sim *s = p->sim;
    struct lines l = {.picture = p};
    int columns = (width > 40 ? width : 40) - (int)strlen("stage 000 || 100 %");
    sn_stretches_find(&l.times, p, columns / 3.0);
    columns -= 3 * (l.times.n - 1);
    l.slice = l.times.shown / columns;
    for (int k = 0; k < l.times.n; k++)
        l.columns += columns_of(&l, k);
    l.cell = sn_alloc_n((size_t)s->stages * (size_t)l.columns, sizeof(*l.cell));
    if (!l.cell)
        return sn_fail(err, SN_ENOMEM, "--timeline: no memory for %d stages", s->stages);
    for (int k = 0, first = 0; k < l.times.n; first += columns_of(&l, k++))
        for (int64_t i = 0; i < s->n_events; i++)
            if (s->event[i].kind != SN_EVENT_TRANSFER)
                charge(&l, &s->event[i], k, first);
    add_legend(out, &l, g);
    for (int i = 0; i < s->stages; i++)
        add_stage(out, &l, i, g);
    sn_free(l.cell);
    return out->failed ? sn_fail(err, SN_ENOMEM, "--timeline: no memory for the text") : SN_OK;
}
