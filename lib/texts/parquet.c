/*
 * parquet.c - what a Parquet file says of itself at its end: columns, and where row groups lie.
 */
#include "lib/texts/parquet_inner.h"

#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/data/data_format.h"

#include <stdio.h>
#include <sys/stat.h>

enum { FOOTER_MAX = 1 << 28, TAIL = 8 };
/* Numbers of annotations: SchemaElement.converted_type and the members of LogicalType. */
enum { C_MAP = 1, C_PAIRS, C_LIST, C_DECIMAL = 5, C_TIMES_END = 10, C_BSON = 20, C_INTERVAL };
enum { L_MAP = 2, L_DECIMAL = 5, L_TIMES_END = 8, L_BSON = 13, L_UUID, L_HALF };

static enum sn_status damaged(const struct sn_parquet *p, struct sn_err *err)
{
    return sn_fail(err, SN_EINPUT,
                   "%s: what the Parquet file says at its end is damaged; copy it anew", p->name);
}

/* --- the schema ------------------------------------------------------------------------------- */

static int logical_of(struct sn_thrift *t)
{
    int which = -1;
    for (struct sn_thrift_field f = {0}; sn_thrift_next(t, &f);) {
        which = (int)f.id;
        sn_thrift_skip(t, f.type);
    }
    return which;
}

static void parse_node(struct sn_thrift *t, struct sn_pq_node *n)
{
    *n = (struct sn_pq_node){.name = "", .type = SN_PQ_GROUP, .converted = -1, .logical = -1};
    for (struct sn_thrift_field f = {0}; sn_thrift_next(t, &f);) {
        if (f.id == 1)
            n->type = (enum sn_pq_type)sn_thrift_int(t, f.type);
        else if (f.id == 3)
            n->repetition = (enum sn_pq_repetition)sn_thrift_int(t, f.type);
        else if (f.id == 4)
            n->name = sn_thrift_text(t, f.type, &n->name_len);
        else if (f.id == 5)
            n->children = (int)sn_thrift_int(t, f.type);
        else if (f.id == 6)
            n->converted = (int)sn_thrift_int(t, f.type);
        else if (f.id == 10 && f.type == SN_THRIFT_STRUCT)
            n->logical = logical_of(t);
        else
            sn_thrift_skip(t, f.type);
    }
}

static enum sn_status parse_schema(struct sn_parquet *p, struct sn_thrift *t, int type,
                                   struct sn_err *err)
{
    int of;
    int64_t n = sn_thrift_list(t, type, &of);
    if (p->node || n < 1 || n > 1 << 20 || of != SN_THRIFT_STRUCT)
        return damaged(p, err);
    p->node = sn_alloc_n((size_t)n, sizeof(*p->node));
    if (!p->node)
        return sn_pq_no_memory(p->name, err);
    p->nodes = (int)n;
    for (int i = 0; i < p->nodes; i++)
        parse_node(t, &p->node[i]);
    return t->is_bad ? damaged(p, err) : SN_OK;
}

/* Levels of node i and of what is below it; the node behind that, or -1. */
static int place(struct sn_parquet *p, int i, unsigned def, unsigned rep, int depth)
{
    struct sn_pq_node *n = &p->node[i];
    if (depth > SN_PQ_DEPTH || n->repetition < SN_PQ_REQUIRED || n->repetition > SN_PQ_REPEATED ||
        n->type < SN_PQ_GROUP || n->type > SN_PQ_FIXED || n->children < 0)
        return -1;
    n->max_def = def + (i > 0 && n->repetition != SN_PQ_REQUIRED);
    n->max_rep = rep + (i > 0 && n->repetition == SN_PQ_REPEATED);
    n->leaf = p->leaves;
    p->leaves += n->type != SN_PQ_GROUP;
    if (n->type != SN_PQ_GROUP ? n->children > 0 : n->children == 0 && i > 0)
        return -1;
    int next = i + 1;
    for (int k = 0; k < n->children && next > 0; k++)
        next = next < p->nodes ? place(p, next, n->max_def, n->max_rep, depth + 1) : -1;
    n->leaves = p->leaves - n->leaf;
    n->end = next;
    return next;
}

/* --- which columns ---------------------------------------------------------------------------- */

static bool is_named(const struct sn_pq_node *n, const char *name)
{
    return strlen(name) == n->name_len && memcmp(name, n->name, n->name_len) == 0;
}

static int find(const struct sn_parquet *p, const char *name)
{
    for (int i = 1; i < p->nodes; i = p->node[i].end)
        if (is_named(&p->node[i], name))
            return i;
    return 0;
}

static enum sn_status say_missing(const struct sn_parquet *p, const struct sn_parquet_want *want,
                                  struct sn_err *err)
{
    struct sn_str there = {0};
    for (int i = 1, n = 0; i < p->nodes && n < 20; i = p->node[i].end, n++)
        sn_str_add(&there, "%s%.*s", n ? ", " : "",
                   p->node[i].name_len < 64 ? (int)p->node[i].name_len : 64, p->node[i].name);
    enum sn_status st =
        there.failed
            ? sn_pq_no_memory(p->name, err)
            : sn_fail(err, SN_EINPUT, "%s: has no column '%s'%s%s%s, but %s; name one with --field",
                      p->name, want->name[0], want->needed > 1 ? " or '" : "",
                      want->needed > 1 ? want->name[1] : "", want->needed > 1 ? "'" : "",
                      there.p ? there.p : "none");
    sn_str_fini(&there);
    return st;
}

static const char *kind_of(const struct sn_pq_node *n)
{
    int c = n->converted, l = n->logical;
    if (n->type == SN_PQ_FIXED || n->type == SN_PQ_INT96)
        return "values of a fixed number of bytes";
    if (c == C_MAP || c == C_PAIRS || l == L_MAP)
        return "maps";
    if (c == C_DECIMAL || l == L_DECIMAL)
        return "decimals";
    if ((c > C_DECIMAL && c <= C_TIMES_END) || (l > L_DECIMAL && l <= L_TIMES_END) ||
        c == C_INTERVAL)
        return "dates or times";
    if (c == C_BSON || l == L_BSON || l == L_UUID || l == L_HALF)
        return "values that are no texts";
    return NULL;
}

/* All columns below a node; SN_EINPUT where one is of a kind that is not read. */
static enum sn_status show(struct sn_parquet *p, int node, struct sn_err *err)
{
    for (int i = node; i < p->node[node].end; i++) {
        const struct sn_pq_node *n = &p->node[i];
        const char *kind = kind_of(n);
        if (kind)
            return sn_fail(
                err, SN_EINPUT,
                "%s: column '%.*s' has %s, which are not read; write it as text, or name "
                "another with --field",
                p->name, n->name_len < 64 ? (int)n->name_len : 64, n->name, kind);
        if (n->type != SN_PQ_GROUP)
            p->column_of[n->leaf] = p->columns++;
    }
    p->shown[p->n_shown++] = node;
    return SN_OK;
}

static enum sn_status choose(struct sn_parquet *p, const struct sn_parquet_want *want,
                             struct sn_err *err)
{
    p->column_of = sn_alloc_n((size_t)p->leaves + 1, sizeof(*p->column_of));
    if (!p->column_of)
        return sn_pq_no_memory(p->name, err);
    for (int i = 0; i < p->leaves; i++)
        p->column_of[i] = -1;
    for (int i = 0; i < want->n; i++) {
        if (i == want->needed && p->n_shown == 0)
            break;
        int node = find(p, want->name[i]);
        if (node)
            SN_TRY(show(p, node, err));
    }
    if (p->n_shown == 0)
        return say_missing(p, want, err);
    p->column = sn_alloc_n((size_t)p->columns, sizeof(*p->column));
    if (!p->column)
        return sn_pq_no_memory(p->name, err);
    for (int i = 1; i < p->nodes; i++) {
        const struct sn_pq_node *n = &p->node[i];
        int at = n->type == SN_PQ_GROUP ? -1 : p->column_of[n->leaf];
        if (at >= 0)
            p->column[at] = (struct sn_pq_column){.node = n, .file = p->name, .fd = p->fd};
    }
    return SN_OK;
}

/* --- row groups ------------------------------------------------------------------------------- */

struct place {
    int64_t codec, values, bytes, data, dictionary;
};

static void parse_place(struct sn_thrift *t, struct place *at)
{
    for (struct sn_thrift_field f = {0}; sn_thrift_next(t, &f);) {
        int64_t *to = f.id == 4    ? &at->codec
                      : f.id == 5  ? &at->values
                      : f.id == 7  ? &at->bytes
                      : f.id == 9  ? &at->data
                      : f.id == 11 ? &at->dictionary
                                   : NULL;
        if (to)
            *to = sn_thrift_int(t, f.type);
        else
            sn_thrift_skip(t, f.type);
    }
}

/* A column of a row group; *elsewhere: in another file, or encrypted. */
static void parse_column(struct sn_thrift *t, struct place *at, bool *elsewhere)
{
    *at = (struct place){.codec = -1, .values = -1, .bytes = -1};
    for (struct sn_thrift_field f = {0}; sn_thrift_next(t, &f);) {
        *elsewhere = *elsewhere || f.id == 1 || f.id == 8;
        if (f.id == 3 && f.type == SN_THRIFT_STRUCT)
            parse_place(t, at);
        else
            sn_thrift_skip(t, f.type);
    }
}

static enum sn_status take_column(const struct sn_parquet *p, struct sn_pq_chunk *chunk,
                                  const struct place *at, int64_t size, struct sn_err *err)
{
    int64_t from = at->dictionary > 0 && at->dictionary < at->data ? at->dictionary : at->data;
    if (from < 0 || at->bytes < 0 || from > size || at->bytes > size - from || at->values < 0)
        return damaged(p, err);
    *chunk = (struct sn_pq_chunk){from, at->bytes, at->values, (int)at->codec};
    return SN_OK;
}

static enum sn_status parse_columns(struct sn_parquet *p, struct sn_thrift *t, int type,
                                    struct sn_pq_chunk *chunk, int64_t size, struct sn_err *err)
{
    int of;
    int64_t n = sn_thrift_list(t, type, &of);
    if (n != p->leaves || of != SN_THRIFT_STRUCT)
        return damaged(p, err);
    for (int i = 0; i < p->leaves && !t->is_bad; i++) {
        struct place at;
        bool elsewhere = false;
        parse_column(t, &at, &elsewhere);
        if (p->column_of[i] < 0)
            continue;
        if (elsewhere)
            return sn_fail(err, SN_EINPUT,
                           "%s: its columns are encrypted, or in other files, which is not read; "
                           "write it anew",
                           p->name);
        SN_TRY(take_column(p, &chunk[p->column_of[i]], &at, size, err));
    }
    return SN_OK;
}

static enum sn_status parse_group(struct sn_parquet *p, struct sn_thrift *t, int group,
                                  int64_t size, struct sn_err *err)
{
    bool has_columns = false;
    p->rows[group] = -1;
    for (struct sn_thrift_field f = {0}; sn_thrift_next(t, &f);) {
        if (f.id == 1) {
            SN_TRY(parse_columns(p, t, f.type, &p->chunk[group * (int64_t)p->columns], size, err));
            has_columns = true;
        } else if (f.id == 3) {
            p->rows[group] = sn_thrift_int(t, f.type);
        } else {
            sn_thrift_skip(t, f.type);
        }
    }
    return has_columns && p->rows[group] >= 0 ? SN_OK : damaged(p, err);
}

static enum sn_status parse_groups(struct sn_parquet *p, struct sn_thrift *t, int type,
                                   int64_t size, struct sn_err *err)
{
    int of;
    int64_t n = sn_thrift_list(t, type, &of);
    if (!p->column || p->rows || n > 1 << 24 || (n > 0 && of != SN_THRIFT_STRUCT))
        return damaged(p, err);
    p->rows = sn_alloc_n((size_t)n + 1, sizeof(*p->rows));
    p->chunk = sn_alloc_n(((size_t)n + 1) * (size_t)p->columns, sizeof(*p->chunk));
    if (!p->rows || !p->chunk)
        return sn_pq_no_memory(p->name, err);
    p->groups = (int)n;
    for (int i = 0; i < p->groups; i++)
        SN_TRY(parse_group(p, t, i, size, err));
    return SN_OK;
}

static enum sn_status parse_footer(struct sn_parquet *p, const struct sn_parquet_want *want,
                                   int64_t size, struct sn_err *err)
{
    const unsigned char *text = (const unsigned char *)p->footer.p;
    struct sn_thrift t = {.p = text, .end = text + p->footer.len};
    for (struct sn_thrift_field f = {0}; sn_thrift_next(&t, &f);) {
        if (f.id == 2) {
            SN_TRY(parse_schema(p, &t, f.type, err));
            if (place(p, 0, 0, 0, 0) != p->nodes)
                return damaged(p, err);
            SN_TRY(choose(p, want, err));
        } else if (f.id == 4) {
            SN_TRY(parse_groups(p, &t, f.type, size, err));
        } else {
            sn_thrift_skip(&t, f.type);
        }
    }
    return !t.is_bad && p->rows ? SN_OK : damaged(p, err);
}

/* --- the file --------------------------------------------------------------------------------- */

static enum sn_status read_footer(struct sn_parquet *p, int64_t *size, struct sn_err *err)
{
    unsigned char tail[TAIL];
    struct stat id;
    if (fstat(p->fd, &id) != 0 || id.st_size < 4 + TAIL)
        return sn_fail(err, SN_EINPUT, "%s: is cut short; copy it anew", p->name);
    SN_TRY(sn_data_bytes(p->fd, p->name, tail, TAIL, id.st_size - TAIL, err));
    int64_t n = (uint32_t)sn_le_i32(tail);
    if (memcmp(tail + 4, "PARE", 4) == 0)
        return sn_fail(err, SN_EINPUT, "%s: is encrypted, which is not read; write it anew",
                       p->name);
    if (memcmp(tail + 4, "PAR1", 4) != 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: does not end as a Parquet file does: it is cut short; copy it anew",
                       p->name);
    *size = id.st_size - TAIL - n;
    if (*size < 4 || n > FOOTER_MAX)
        return damaged(p, err);
    if (!sn_bytes_room(&p->footer, (size_t)n + 1))
        return sn_pq_no_memory(p->name, err);
    p->footer.len = (size_t)n;
    return sn_data_bytes(p->fd, p->name, p->footer.p, (size_t)n, *size, err);
}

enum sn_status sn_parquet_open(struct sn_parquet **out, int fd, const char *name,
                               const struct sn_parquet_want *want, struct sn_err *err)
{
    struct sn_parquet *p = sn_alloc(sizeof(*p));
    int64_t size = 0;
    *out = p;
    if (!p)
        return sn_pq_no_memory(name, err);
    p->name = name;
    p->fd = fd;
    SN_TRY(read_footer(p, &size, err));
    return parse_footer(p, want, size, err);
}

void sn_parquet_close(struct sn_parquet *p)
{
    if (!p)
        return;
    for (int i = 0; p->column && i < p->columns; i++)
        sn_pq_column_fini(&p->column[i]);
    sn_bytes_fini(&p->footer);
    sn_free(p->node);
    sn_free(p->column_of);
    sn_free(p->column);
    sn_free(p->chunk);
    sn_free(p->rows);
    sn_free(p);
}
