/*
 * values.c - points of spaces, functions and names as elements of the field; the words of faults.
 */
#include "lib/meaning/inner.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint64_t sn_point(const struct sn_meaning *m, int space, int64_t at)
{
    int root = sn_space(&m->spaces, space);
    if (m->is_reference && root == SN_SPACE_TOKENS && at == m->rank[0].job->rows)
        at = m->tokens; /* its micro-batch stands for all */
    return sn_field_of(sn_field_mix((uint64_t)root, (uint64_t)at));
}

uint64_t sn_interval(const struct sn_meaning *m, int space, int64_t from, int64_t n)
{
    return sn_field_sub(sn_point(m, space, from + n), sn_point(m, space, from));
}

uint64_t sn_extent(const struct sn_meaning *m, const struct sn_slab *t, int dim)
{
    return sn_interval(m, t->space[dim], t->first[dim], dim == SN_SLAB_ROWS ? t->rows : t->cols);
}

uint64_t sn_function(uint64_t name, const uint64_t *values, int n)
{
    bool all_zero = true;
    uint64_t h = name;
    for (int i = 0; i < n; i++) {
        all_zero = all_zero && values[i] == 0;
        h = sn_field_mix(h, values[i]);
    }
    return all_zero ? 0 : sn_field_of(h);
}

uint64_t sn_name(int kind, uint64_t what)
{
    return sn_field_mix(0x5e447 + (uint64_t)kind, what);
}

uint64_t sn_name_float(uint64_t name, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return sn_field_mix(name, bits);
}

bool sn_same_space(struct sn_meaning *m, int a, int b)
{
    int x = sn_space(&m->spaces, a), y = sn_space(&m->spaces, b);
    if (x == y || x == SN_SPACE_ANY || y == SN_SPACE_ANY)
        return true;
    if (!m->binds)
        return false;
    m->spaces.parent[x > y ? x : y] = x > y ? y : x; /* the older one stands for both */
    return true;
}

/* --- faults ----------------------------------------------------------------------------------- */

static struct sn_place_text rank_text(const struct sn_rank *r)
{
    struct sn_place_text t;
    const struct sn_grid *g = &r->job->grid;
    int at = snprintf(t.s, sizeof(t.s), "rank %d (", r->rank);
    for (int i = 0; i < SN_NGRID_AXES; i++) {
        enum sn_axis a = sn_axis_told(i);
        if (sn_axis_is_told(a, g->size[a]))
            at += snprintf(t.s + at, sizeof(t.s) - (size_t)at, "%s%s %d", i ? ", " : "",
                           sn_axis_name(a), sn_grid_coord(g, r->rank, a));
    }
    (void)snprintf(t.s + at, sizeof(t.s) - (size_t)at, ")");
    return t;
}

enum sn_status sn_visit_fault(const struct sn_visit *s, const char *format, ...)
{
    char what[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return sn_fail(s->m->err, SN_EFAIL, "%s: %s: %s '%s' (operation %d, micro-batch %d) %s",
                   s->r->program->name, rank_text(s->r).s, sn_op_name(s->op->kind), s->op->label,
                   s->number, s->micro, what);
}

enum sn_status sn_visit_no_memory(const struct sn_visit *s)
{
    return sn_fail(s->m->err, SN_ENOMEM, "meaning: no memory for what rank %d holds", s->r->rank);
}

static const char *space_name(const struct sn_meaning *m, int space, char *room, size_t size)
{
    static const char *const fixed[] = {"row",   "tokens",    "columns",
                                        "heads", "positions", "experts",
                                        "features of keys and values", "features of shared keys",
                                        "features of values"};
    if (space < SN_NSPACES)
        return space < 0 ? "zeros" : fixed[space];
    int p = 0;
    while (p + 1 < m->model->n_params && m->first_space[p + 1] <= space)
        p++;
    int which = space - m->first_space[p];
    (void)snprintf(room, size, "%s of '%.80s'", which % 2 ? "columns" : "rows",
                   m->model->params[p].tensor[which / 2].name);
    return room;
}

struct sn_place_text sn_place_text(const struct sn_meaning *m, const struct sn_slab *t, int dim)
{
    struct sn_place_text out;
    char room[128];
    int64_t n = dim == SN_SLAB_ROWS ? t->rows : t->cols;
    (void)snprintf(out.s, sizeof(out.s), "%s %lld to %lld",
                   space_name(m, sn_space(&m->spaces, t->space[dim]), room, sizeof(room)),
                   (long long)t->first[dim], (long long)(t->first[dim] + n - 1));
    return out;
}
