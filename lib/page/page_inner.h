/*
 * page_inner.h - the sections of a page.
 */
#ifndef SN_PAGE_INNER_H
#define SN_PAGE_INNER_H

#include "lib/page/page.h"
#include "lib/report/html.h"
#include "lib/search/search.h"

/* Seconds after which what-ifs and the search begin nothing new. */
#define SN_PAGE_PATIENCE 20.0

void page_headline(struct sn_str *out, const struct sn_page *p);
void page_layout(struct sn_str *out, const struct sn_page *p);
void page_memory(struct sn_str *out, const struct sn_page *p);
void page_time(struct sn_str *out, const struct sn_page *p);
enum sn_status page_traffic(struct sn_str *out, const struct sn_page *p, struct sn_err *err);
enum sn_status page_rivals(struct sn_str *out, const struct sn_page *p, struct sn_err *err);
enum sn_status page_what_ifs(struct sn_str *out, const struct sn_page *p, struct sn_err *err);
enum sn_status page_made(struct sn_str *out, const struct sn_page *p, struct sn_err *err);

/* Of a search's front; nothing where it has fewer than two points. */
void page_less_memory(struct sn_str *out, const struct sn_search *s, const struct sn_page *p);
/* The run on other numbers of ranks, with what grids do not say as in the best layout. */
enum sn_status page_less_time(struct sn_str *out, const struct sn_page *p,
                              const struct sn_layout_config *best, struct sn_err *err);
/* All keys of the layout are open, but those that a search holds have the values of *l. */
void page_hold(struct sn_config *c, const struct sn_layout_config *l);

/* "data 16 x tensor 2 x pipeline 2": axes of more than one rank; returns buf. */
enum { PAGE_AXES = 128 };
const char *page_axes(char buf[PAGE_AXES], const struct sn_layout_config *l);
/* A layout's cell: its grid, behind a name where it has one, and what is not the usual. */
void page_layout_cell(struct sn_str *out, const char *name, const struct sn_layout_config *l);
/* A plan's cells: step, beside the best or planned one (of `step` seconds), MFU, memory, verdict. */
void page_plan_cells(struct sn_str *out, const struct sn_plan *p, double step, int64_t limit);

#endif
