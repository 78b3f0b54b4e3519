/*
 * page_traffic.c - who sends how many bytes to whom.
 */
#include "lib/page/page_inner.h"

#include "lib/base/mem.h"
#include "lib/mapping/flow.h"

#include <stdio.h>

enum { MOST_PARTS = 32, LABEL = 56 };

/* Ranks of a part, neighbours, and what it is called. */
struct division {
    int ranks, n;
    char what[24]; /* "node" */
};

static int parts_of(int ranks, int64_t size)
{
    return (int)((ranks + size - 1) / size);
}

/* Nodes; where they are many, those under a switch; where these are, several of them. On one node: ranks. */
static struct division divide(const struct sn_machine *m, int ranks)
{
    struct division d = {.ranks = 1, .n = ranks};
    (void)snprintf(d.what, sizeof(d.what), "rank");
    if (m->devices > 0 && (parts_of(ranks, m->devices) > 1 || ranks > MOST_PARTS)) {
        d = (struct division){.ranks = m->devices, .n = parts_of(ranks, m->devices)};
        (void)snprintf(d.what, sizeof(d.what), "node");
    }
    for (int l = 0; l < m->n_levels && d.n > MOST_PARTS; l++) {
        int64_t size = m->level[l].ranks;
        if (size <= d.ranks || parts_of(ranks, size) == 1)
            continue;
        d = (struct division){.ranks = (int)size, .n = parts_of(ranks, size)};
        (void)snprintf(d.what, sizeof(d.what), "%s", m->level[l].name);
    }
    return d;
}

static void heat(struct sn_str *out, const int64_t *bytes, const struct division *d, int together)
{
    char text[MOST_PARTS][LABEL];
    const char *label[MOST_PARTS];
    int n = parts_of(d->n, together);
    for (int i = 0; i < n; i++) {
        int first = i * together, last = first + together - 1;
        last = last < d->n ? last : d->n - 1;
        if (first == last)
            (void)snprintf(text[i], LABEL, "%s %d", d->what, first);
        else
            (void)snprintf(text[i], LABEL, "%ss %d-%d", d->what, first, last);
        label[i] = text[i];
    }
    if (together > 1)
        sn_html_add(out, "h3", NULL, "From each %d %ss (rows) to each (columns)", together,
                    d->what);
    else
        sn_html_add(out, "h3", NULL, "From each %s (rows) to each (columns)", d->what);
    if (d->ranks > 1)
        sn_html_add(out, "p", "note",
                    "A %s has %d ranks; what they send each other is on the diagonal. Colours are "
                    "by logarithms; each square says its bytes to a pointer.",
                    d->what, d->ranks);
    sn_html_box_begin(out, "scroll");
    sn_html_heat(out, &(struct sn_html_heat){bytes, label, n});
    sn_html_box_end(out);
}

static enum sn_status matrix(struct sn_str *out, const struct sn_page *p, struct sn_err *err)
{
    struct division d = divide(p->pricer->machine, p->plan->ranks);
    struct sn_flow flow;
    int together = 1, n = d.n;
    for (; n > MOST_PARTS; n = parts_of(d.n, together))
        together *= 2;
    SN_TRY(sn_flow_create(&flow, p->stages, err));
    int64_t *bytes = sn_alloc_n((size_t)n * (size_t)n, sizeof(*bytes));
    int *part_of = sn_alloc_n((size_t)p->plan->ranks, sizeof(*part_of));
    enum sn_status st =
        bytes && part_of ? SN_OK : sn_fail(err, SN_ENOMEM, "--report: no memory for %d parts", n);
    for (int r = 0; st == SN_OK && r < p->plan->ranks; r++)
        part_of[r] = r / d.ranks / together;
    if (st == SN_OK)
        st = sn_flow_parts(bytes, &flow, part_of, n, err);
    if (st == SN_OK)
        heat(out, bytes, &d, together);
    sn_free(part_of);
    sn_free(bytes);
    sn_flow_fini(&flow);
    return st;
}

static void row(struct sn_str *out, const char *name, int64_t bytes, int64_t total)
{
    char size[16];
    sn_html_row_begin(out, bytes == total ? "this" : NULL);
    sn_html_cell(out, NULL, "%s", name);
    sn_html_count(out, bytes);
    sn_html_cell(out, "num", "%s", sn_str_bytes(size, bytes));
    sn_html_cell(out, "num", "%.1f %%", 100 * (double)bytes / (double)total);
    sn_html_row_end(out);
}

enum sn_status page_traffic(struct sn_str *out, const struct sn_page *p, struct sn_err *err)
{
    static const char *const axis_head[] = {"by axis", "#bytes of a step", "#", "#share"};
    static const char *const level_head[] = {"by the links that they cross", "#bytes of a step",
                                             "#", "#share"};
    const struct sn_plan *plan = p->plan;
    const struct sn_machine *m = p->pricer->machine;
    int64_t total = 0;
    for (int a = 0; a < SN_NAXES; a++)
        total += plan->traffic[a];
    sn_html_section_begin(out, "3. Traffic");
    if (total == 0) {
        sn_html_add(out, "p", NULL, "None: no rank sends anything in a step.");
        sn_html_section_end(out);
        return SN_OK;
    }
    sn_html_add(out, "p", NULL, "What all ranks send in a step, by the compiled programs, exact.");
    sn_html_box_begin(out, "pair");
    sn_html_table_begin(out, axis_head, 4);
    for (int a = 0; a < SN_NAXES; a++)
        if (plan->traffic[a])
            row(out, sn_axis_name((enum sn_axis)a), plan->traffic[a], total);
    sn_html_table_end(out);
    sn_html_table_begin(out, level_head, 4);
    for (int l = 0; l < m->n_levels; l++)
        if (plan->level_traffic[l])
            row(out, m->level[l].name, plan->level_traffic[l], total);
    sn_html_table_end(out);
    sn_html_box_end(out);
    SN_TRY(matrix(out, p, err));
    sn_html_section_end(out);
    return SN_OK;
}
