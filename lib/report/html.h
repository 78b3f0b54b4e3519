/*
 * html.h - pieces of a page that stands alone: no script, no font, no picture from elsewhere.
 *
 * What is written with a format is escaped. Widths follow the reader's; wide drawings scroll in a box
 * of their own. Colours are those of the drawings (picture.h), light or dark as the reader prefers.
 */
#ifndef SN_HTML_H
#define SN_HTML_H

#include "lib/base/str.h"

void sn_html_begin(struct sn_str *out, const char *title);
void sn_html_end(struct sn_str *out);

void sn_html_section_begin(struct sn_str *out, const char *head);
void sn_html_section_end(struct sn_str *out);
/* An element with escaped text: tag "p", class "note" or NULL. */
void sn_html_add(struct sn_str *out, const char *tag, const char *cls, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A figure of the headline: a small head, the figure, a line below it (may be ""). */
void sn_html_tile(struct sn_str *out, const char *head, const char *figure, const char *below);
/* What belongs together: "tiles" of the headline; "pair": two tables, beside each other where there is
 * room; "few": a table of few columns; "scroll": a drawing wider than the page. */
void sn_html_box_begin(struct sn_str *out, const char *cls);
void sn_html_box_end(struct sn_str *out);

/* Heads of columns; those of numbers begin with '#'. "" is none. */
void sn_html_table_begin(struct sn_str *out, const char *const *head, int n);
void sn_html_table_end(struct sn_str *out);
void sn_html_row_begin(struct sn_str *out, const char *cls);
void sn_html_row_end(struct sn_str *out);
/* Class "num" is a number; NULL words. */
void sn_html_cell(struct sn_str *out, const char *cls, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A whole number, its digits in threes; as a cell. */
const char *sn_html_digits(char buf[32], int64_t n);
void sn_html_count(struct sn_str *out, int64_t n);

struct sn_html_part {
    const char *cls;  /* its colour */
    const char *name; /* and meaning */
    double value;
};
/* A cell with a bar of stacked parts; `whole` is as long as the cell, `limit` a mark (0: none). */
void sn_html_bar(struct sn_str *out, const struct sn_html_part *part, int n, double whole,
                 double limit);
/* What the colours mean. */
void sn_html_legend(struct sn_str *out, const struct sn_html_part *part, int n, bool limit);

/* Bytes from each part (rows) to each (columns), on a scale of logarithms; of up to 8 parts with figures. */
struct sn_html_heat {
    const int64_t *bytes;     /* [n * n] */
    const char *const *label; /* [n] */
    int n;
};
void sn_html_heat(struct sn_str *out, const struct sn_html_heat *h);

#endif
