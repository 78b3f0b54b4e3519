/*
 * parquet_rows.c - columns put together to rows, by their levels (Melnik et al., Dremel, VLDB 2010), each
 * a line of JSON.
 *
 * A value's definition level says how many of the nodes above it are there, its repetition level which
 * of the lists that it is in goes on.
 */
#include "lib/texts/parquet_inner.h"

#include <math.h>
#include <stdio.h>

struct line {
    struct sn_parquet *p;
    struct sn_bytes *out;
    struct sn_err *err;
};

static enum sn_status add(struct line *l, const char *text, size_t n)
{
    return sn_bytes_add(l->out, text, n) ? SN_OK : sn_pq_no_memory(l->p->name, l->err);
}

static enum sn_status add_word(struct line *l, const char *word)
{
    return add(l, word, strlen(word));
}

/* Bytes that are no UTF-8 stay: who reads the line says so. */
static enum sn_status add_text(struct line *l, const char *text, size_t n)
{
    char code[8];
    size_t from = 0;
    SN_TRY(add(l, "\"", 1));
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        SN_TRY(add(l, text + from, i - from));
        (void)snprintf(code, sizeof(code), c < 0x20 ? "\\u%04x" : "\\%c", c);
        SN_TRY(add_word(l, code));
        from = i + 1;
    }
    SN_TRY(add(l, text + from, n - from));
    return add(l, "\"", 1);
}

static enum sn_status add_value(struct line *l, const struct sn_pq_node *n,
                                const struct sn_pq_value *v)
{
    char text[40];
    if (n->type == SN_PQ_BYTES)
        return add_text(l, v->text, v->len);
    if (n->type == SN_PQ_BOOLEAN)
        return add_word(l, v->integer ? "true" : "false");
    bool is_real = n->type == SN_PQ_FLOAT || n->type == SN_PQ_DOUBLE;
    if (is_real && !isfinite(v->real))
        return add_word(l, "null");
    bool is_unsigned = n->converted >= 11 && n->converted <= 14; /* UINT_8 .. UINT_64 */
    if (is_real)
        (void)snprintf(text, sizeof(text), "%.17g", v->real);
    else if (is_unsigned && n->type == SN_PQ_INT32)
        (void)snprintf(text, sizeof(text), "%lu", (unsigned long)(uint32_t)v->integer);
    else if (is_unsigned)
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)v->integer);
    else
        (void)snprintf(text, sizeof(text), "%lld", (long long)v->integer);
    return add_word(l, text);
}

/* --- entries ---------------------------------------------------------------------------------- */

static struct sn_pq_column *column_below(struct line *l, const struct sn_pq_node *n, int leaf)
{
    return &l->p->column[l->p->column_of[n->leaf + leaf]];
}

/* The entry that the first column below a node is at; there must be one. */
static enum sn_status look(struct line *l, const struct sn_pq_node *n, struct sn_pq_column **out)
{
    bool any;
    *out = column_below(l, n, 0);
    SN_TRY(sn_pq_column_look(*out, &any, l->err));
    return any ? SN_OK
               : sn_pq_column_fail(*out,
                                   "the column has fewer rows than its row group; copy the "
                                   "file anew",
                                   l->err);
}

/* Past an entry of each column below a node. */
static enum sn_status pass(struct line *l, const struct sn_pq_node *n)
{
    for (int i = 0; i < n->leaves; i++) {
        bool any;
        struct sn_pq_column *c = column_below(l, n, i);
        SN_TRY(sn_pq_column_look(c, &any, l->err));
        if (!any)
            return sn_pq_column_fail(c, "ends before others do; copy the file anew", l->err);
        c->v += c->def[c->i] == c->node->max_def;
        c->i++;
    }
    return SN_OK;
}

/* Is there one more of a list? */
static enum sn_status goes_on(struct line *l, const struct sn_pq_node *n, bool *more)
{
    struct sn_pq_column *c = column_below(l, n, 0);
    SN_TRY(sn_pq_column_look(c, more, l->err));
    *more = *more && c->rep[c->i] == n->max_rep;
    return SN_OK;
}

/* --- nodes ------------------------------------------------------------------------------------ */

static enum sn_status add_node(struct line *l, int i);

static enum sn_status add_members(struct line *l, int i)
{
    const struct sn_pq_node *node = l->p->node;
    SN_TRY(add(l, "{", 1));
    for (int k = i + 1; k < node[i].end; k = node[k].end) {
        if (k > i + 1)
            SN_TRY(add(l, ", ", 2));
        SN_TRY(add_text(l, node[k].name, node[k].name_len));
        SN_TRY(add(l, ": ", 2));
        SN_TRY(add_node(l, k));
    }
    return add(l, "}", 1);
}

/* Does a repeated group stand for its one member? (Parquet's rules for lists that older programs wrote.) */
static bool is_shell(const struct sn_parquet *p, int list, int i)
{
    const struct sn_pq_node *n = &p->node[i], *above = &p->node[list];
    size_t len = above->name_len;
    if (n->type != SN_PQ_GROUP || n->children != 1)
        return false;
    bool is_array = n->name_len == 5 && memcmp(n->name, "array", 5) == 0;
    bool is_tuple = n->name_len == len + 6 && memcmp(n->name, above->name, len) == 0 &&
                    memcmp(n->name + len, "_tuple", 6) == 0;
    return !is_array && !is_tuple;
}

/* A node that is there, of a list one element. */
static enum sn_status add_one(struct line *l, int i, bool is_shell_of_one)
{
    const struct sn_pq_node *n = &l->p->node[i];
    if (is_shell_of_one)
        return add_node(l, i + 1);
    if (n->type == SN_PQ_GROUP)
        return add_members(l, i);
    struct sn_pq_column *c;
    SN_TRY(look(l, n, &c));
    if (c->def[c->i] != n->max_def)
        return sn_pq_column_fail(c, "is damaged; copy the file anew", l->err);
    SN_TRY(add_value(l, n, &c->value[c->v]));
    return pass(l, n);
}

static enum sn_status add_list(struct line *l, int i, bool is_shell_of_one)
{
    const struct sn_pq_node *n = &l->p->node[i];
    struct sn_pq_column *c;
    SN_TRY(look(l, n, &c));
    if (c->def[c->i] < n->max_def) {
        SN_TRY(pass(l, n));
        return add(l, "[]", 2);
    }
    SN_TRY(add(l, "[", 1));
    for (bool more = true, first = true; more; first = false) {
        if (!first)
            SN_TRY(add(l, ", ", 2));
        SN_TRY(add_one(l, i, is_shell_of_one));
        SN_TRY(goes_on(l, n, &more));
    }
    return add(l, "]", 1);
}

static enum sn_status add_node(struct line *l, int i)
{
    const struct sn_pq_node *n = &l->p->node[i];
    struct sn_pq_column *c;
    if (n->repetition == SN_PQ_REPEATED)
        return add_list(l, i, false);
    SN_TRY(look(l, n, &c));
    if (n->repetition == SN_PQ_OPTIONAL && c->def[c->i] < n->max_def) {
        SN_TRY(pass(l, n));
        return add_word(l, "null");
    }
    bool is_list = (n->converted == 3 || n->logical == 3) && n->children == 1 &&
                   l->p->node[i + 1].repetition == SN_PQ_REPEATED;
    return is_list ? add_list(l, i + 1, is_shell(l->p, i, i + 1)) : add_one(l, i, false);
}

/* --- rows ------------------------------------------------------------------------------------- */

static enum sn_status add_row(struct line *l)
{
    struct sn_parquet *p = l->p;
    SN_TRY(add(l, "{", 1));
    for (int k = 0; k < p->n_shown; k++) {
        const struct sn_pq_node *n = &p->node[p->shown[k]];
        if (k > 0)
            SN_TRY(add(l, ", ", 2));
        SN_TRY(add_text(l, n->name, n->name_len));
        SN_TRY(add(l, ": ", 2));
        SN_TRY(add_node(l, p->shown[k]));
    }
    return add(l, "}\n", 2);
}

enum sn_status sn_parquet_read(struct sn_parquet *p, struct sn_bytes *lines, size_t goal,
                               struct sn_err *err)
{
    struct line l = {.p = p, .out = lines, .err = err};
    while (lines->len < goal) {
        if (p->left > 0) {
            SN_TRY(add_row(&l));
            p->left--;
            continue;
        }
        if (p->group == p->groups)
            break;
        p->left = p->rows[p->group];
        for (int i = 0; i < p->columns; i++)
            sn_pq_column_begin(&p->column[i], &p->chunk[p->group * (int64_t)p->columns + i]);
        p->group++;
    }
    return SN_OK;
}
