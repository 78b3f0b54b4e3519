/*
 * study_text.c - the tables of a study as text.
 */
#include "lib/layout/axes.h"
#include "lib/study/study.h"

#include <stdio.h>
#include <string.h>

enum { CELL = 28 };

/* "tensor 2 pipeline 4 micro-batch 1", in few letters: t2 p4 m1. */
static void grid(struct sn_str *out, const struct sn_layout_config *l)
{
    sn_str_add(out, "t%d", l->tensor);
    if (l->tensor_x > 1)
        sn_str_add(out, "x%d", l->tensor_x);
    sn_str_add(out, " p%d", l->pipeline);
    if (l->context > 1)
        sn_str_add(out, " c%d", l->context);
    if (l->expert > 1)
        sn_str_add(out, " e%d", l->expert);
    sn_str_add(out, " m%d", l->micro_batch);
}

static void cell(struct sn_str *out, const struct sn_study_cell *x, bool best)
{
    struct sn_str text = {0};
    if (x->found) {
        sn_str_add(&text, "%.1f %% ", 100 * x->plan.mfu);
        grid(&text, &x->layout);
        sn_str_add(&text, best ? " *" : "");
    } else
        sn_str_add(&text, x->valid ? "does not fit" : "-");
    sn_str_add(out, "  %-*s", CELL, text.p ? text.p : "");
    out->failed |= text.failed;
    sn_str_fini(&text);
}

/* Without the blanks of its last column. */
static void end_line(struct sn_str *out)
{
    while (out->len > 0 && out->p[out->len - 1] == ' ')
        out->len--;
    sn_str_add(out, "\n");
}

static void table(struct sn_str *out, const struct sn_study_table *t)
{
    const struct sn_study_cell *best = sn_study_best_of(t);
    sn_str_add(out, "\n%s by %s\n%-17s", t->down, t->across, "");
    for (int k = 0; k < t->columns; k++)
        sn_str_add(out, "  %-*s", CELL, t->column[k]);
    end_line(out);
    for (int r = 0; r < t->rows; r++) {
        sn_str_add(out, "%17s", t->row[r]);
        for (int k = 0; k < t->columns; k++)
            cell(out, &t->cell[r][k], &t->cell[r][k] == best);
        end_line(out);
    }
}

void sn_study_text(struct sn_str *out, const struct sn_study *s, const struct sn_study_want *w)
{
    const struct sn_study_cell *best = sn_study_best(s);
    sn_str_add(out,
               "%s on %d devices, %s: MFU of the best layout with each pair of values, all else "
               "searched\n",
               w->config->run.name, s->ranks, w->machine->name);
    sn_str_add(out, "t: tensor ranks, p: pipeline stages, c: context ranks, e: expert ranks, m: "
                    "micro-batch; *: the best of a table\n");
    for (int i = 0; i < s->n; i++)
        table(out, &s->table[i]);
    if (best) {
        struct sn_str text = {0};
        grid(&text, &best->layout);
        sn_str_add(out, "\nbest: %.4g s a step, %.1f %% MFU, with %s\n", best->plan.step_time,
                   100 * best->plan.mfu, text.p ? text.p : "");
        sn_str_fini(&text);
    }
}
