#include "lib/chat/value.h"

#include "lib/base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 1 << 16, DEEP = 64 };

/* --- memory ----------------------------------------------------------------------------------- */

struct sn_pool_block {
    struct sn_pool_block *next;
    size_t used, bytes;
    max_align_t data[];
};

void sn_pool_fail(struct sn_pool *p, enum sn_status st, const char *fmt, ...)
{
    char text[512];
    va_list args;
    if (p->failed)
        return;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    p->failed = true;
    (void)sn_fail(p->err, st, "%s", text);
}

static struct sn_pool_block *add_block(struct sn_pool *p, size_t bytes)
{
    size_t room = bytes > BLOCK ? bytes : BLOCK;
    if (p->limit > 0 && (bytes > p->limit || p->used + room > p->limit)) {
        sn_pool_fail(p, SN_EINPUT, "the template takes more than %zu MiB of memory",
                     p->limit >> 20);
        return NULL;
    }
    struct sn_pool_block *b = sn_alloc(sizeof(*b) + room);
    if (!b) {
        sn_pool_fail(p, SN_ENOMEM, "no memory for what a template makes");
        return NULL;
    }
    b->bytes = room;
    b->next = p->blocks;
    p->blocks = b;
    p->used += room;
    return b;
}

void *sn_pool_get(struct sn_pool *p, size_t bytes)
{
    size_t align = sizeof(max_align_t);
    struct sn_pool_block *b = p->blocks;
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + align - 1) / align * align;
    if (!b || b->bytes - b->used < bytes)
        b = add_block(p, bytes);
    if (!b)
        return NULL;
    void *at = (char *)b->data + b->used;
    b->used += bytes;
    return at;
}

void sn_pool_fini(struct sn_pool *p)
{
    for (struct sn_pool_block *b = p->blocks, *next; b; b = next) {
        next = b->next;
        sn_free(b);
    }
    p->blocks = NULL;
    p->used = 0;
}

/* --- making values ---------------------------------------------------------------------------- */

struct sn_chat_value sn_value_text(const char *p, size_t len)
{
    return (struct sn_chat_value){.kind = SN_V_TEXT, .p = len > 0 ? p : "", .len = len};
}

struct sn_chat_value sn_value_int(int64_t i)
{
    return (struct sn_chat_value){.kind = SN_V_INT, .i = i};
}

struct sn_chat_value sn_value_bool(bool b)
{
    return (struct sn_chat_value){.kind = SN_V_BOOL, .i = b};
}

struct sn_chat_value sn_value_none(void)
{
    return (struct sn_chat_value){.kind = SN_V_NONE};
}

struct sn_chat_value sn_value_copy(struct sn_pool *p, const char *text, size_t len)
{
    char *copy = len > 0 ? sn_pool_get(p, len) : NULL;
    if (!copy)
        return sn_value_text("", 0);
    memcpy(copy, text, len);
    return sn_value_text(copy, len);
}

static struct sn_chat_value group(struct sn_pool *p, enum sn_chat_value_kind kind)
{
    struct sn_chat_value v = {.kind = kind};
    v.items = sn_pool_get(p, sizeof(*v.items));
    return v.items ? v : (struct sn_chat_value){0};
}

struct sn_chat_value sn_value_list(struct sn_pool *p)
{
    return group(p, SN_V_LIST);
}

struct sn_chat_value sn_value_map(struct sn_pool *p)
{
    return group(p, SN_V_MAP);
}

static bool room(struct sn_pool *p, struct sn_items *g, bool has_keys)
{
    if (g->n < g->cap)
        return true;
    size_t cap = g->cap ? g->cap * 2 : 4;
    struct sn_chat_value *v = sn_pool_get(p, cap * sizeof(*v));
    struct sn_chat_value *keys = has_keys && v ? sn_pool_get(p, cap * sizeof(*keys)) : NULL;
    if (!v || (has_keys && !keys))
        return false;
    if (g->n > 0)
        memcpy(v, g->v, g->n * sizeof(*v));
    if (g->n > 0 && has_keys)
        memcpy(keys, g->keys, g->n * sizeof(*keys));
    g->v = v;
    g->keys = keys;
    g->cap = cap;
    return true;
}

void sn_value_push(struct sn_pool *p, struct sn_chat_value list, struct sn_chat_value v)
{
    if (list.kind == SN_V_LIST && room(p, list.items, false))
        list.items->v[list.items->n++] = v;
}

static int64_t place_of(struct sn_chat_value map, struct sn_chat_value key)
{
    for (size_t i = 0; map.kind == SN_V_MAP && i < map.items->n; i++)
        if (sn_value_equal(map.items->keys[i], key))
            return (int64_t)i;
    return -1;
}

void sn_value_put(struct sn_pool *p, struct sn_chat_value map, struct sn_chat_value key,
                  struct sn_chat_value v)
{
    int64_t at = place_of(map, key);
    if (at >= 0) {
        map.items->v[at] = v;
    } else if (map.kind == SN_V_MAP && room(p, map.items, true)) {
        map.items->keys[map.items->n] = key;
        map.items->v[map.items->n++] = v;
    }
}

bool sn_value_find(struct sn_chat_value map, struct sn_chat_value key, struct sn_chat_value *out)
{
    int64_t at = place_of(map, key);
    if (at >= 0)
        *out = map.items->v[at];
    return at >= 0;
}

bool sn_value_member(struct sn_chat_value map, const char *name, struct sn_chat_value *out)
{
    return sn_value_find(map, sn_value_text(name, strlen(name)), out);
}

bool sn_value_is(struct sn_chat_value v, const char *text)
{
    return v.kind == SN_V_TEXT && v.len == strlen(text) && memcmp(v.p, text, v.len) == 0;
}

/* --- asking values ---------------------------------------------------------------------------- */

const char *sn_value_kind_name(struct sn_chat_value v)
{
    static const char *const names[] = {
        [SN_V_UNDEFINED] = "value that is undefined",
        [SN_V_NONE] = "none",
        [SN_V_BOOL] = "bool",
        [SN_V_INT] = "int",
        [SN_V_REAL] = "float",
        [SN_V_TEXT] = "str",
        [SN_V_LIST] = "list",
        [SN_V_MAP] = "dict",
        [SN_V_LOOP] = "loop",
        [SN_V_METHOD] = "function",
    };
    return names[v.kind];
}

bool sn_value_truth(struct sn_chat_value v)
{
    switch (v.kind) {
    case SN_V_UNDEFINED:
    case SN_V_NONE:
        return false;
    case SN_V_BOOL:
    case SN_V_INT:
        return v.i != 0;
    case SN_V_REAL:
        return v.x != 0;
    case SN_V_TEXT:
        return v.len > 0;
    case SN_V_LIST:
        return v.items->n > 0;
    case SN_V_MAP:
        return v.is_space || v.items->n > 0;
    default:
        return true;
    }
}

bool sn_value_number(struct sn_chat_value v, double *x)
{
    if (v.kind == SN_V_REAL)
        *x = v.x;
    else if (v.kind == SN_V_INT || v.kind == SN_V_BOOL)
        *x = (double)v.i;
    else
        return false;
    return true;
}

static bool equal_groups(struct sn_chat_value a, struct sn_chat_value b, int depth);

static bool equal(struct sn_chat_value a, struct sn_chat_value b, int depth)
{
    double x, y;
    bool is_whole = a.kind != SN_V_REAL && b.kind != SN_V_REAL;
    if (sn_value_number(a, &x) && sn_value_number(b, &y))
        return is_whole ? a.i == b.i : x == y;
    if (a.kind != b.kind)
        return false;
    if (a.kind == SN_V_TEXT)
        return a.len == b.len && memcmp(a.p, b.p, a.len) == 0;
    if (a.kind == SN_V_LIST || a.kind == SN_V_MAP)
        return equal_groups(a, b, depth);
    if (a.kind == SN_V_LOOP)
        return a.loop == b.loop;
    return a.kind != SN_V_METHOD || a.method == b.method;
}

static bool equal_groups(struct sn_chat_value a, struct sn_chat_value b, int depth)
{
    struct sn_chat_value other;
    if (a.items == b.items)
        return true;
    if (depth > DEEP || a.items->n != b.items->n || a.is_space || b.is_space ||
        a.is_tuple != b.is_tuple)
        return false;
    for (size_t i = 0; i < a.items->n; i++) {
        if (a.kind == SN_V_LIST)
            other = b.items->v[i];
        else if (!sn_value_find(b, a.items->keys[i], &other))
            return false;
        if (!equal(a.items->v[i], other, depth + 1))
            return false;
    }
    return true;
}

bool sn_value_equal(struct sn_chat_value a, struct sn_chat_value b)
{
    return equal(a, b, 0);
}

static int compare(struct sn_pool *p, struct sn_chat_value a, struct sn_chat_value b, int depth)
{
    double x, y;
    if (sn_value_number(a, &x) && sn_value_number(b, &y)) {
        if (a.kind != SN_V_REAL && b.kind != SN_V_REAL)
            return (a.i > b.i) - (a.i < b.i);
        return (x > y) - (x < y);
    }
    if (a.kind == SN_V_TEXT && b.kind == SN_V_TEXT) {
        size_t least = a.len < b.len ? a.len : b.len;
        int order = memcmp(a.p, b.p, least); /* UTF-8 has the order of its characters */
        return order ? order : (a.len > b.len) - (a.len < b.len);
    }
    if (a.kind == SN_V_LIST && b.kind == SN_V_LIST && depth < DEEP) {
        for (size_t i = 0; i < a.items->n && i < b.items->n; i++)
            if (!sn_value_equal(a.items->v[i], b.items->v[i]))
                return compare(p, a.items->v[i], b.items->v[i], depth + 1);
        return (a.items->n > b.items->n) - (a.items->n < b.items->n);
    }
    sn_pool_fail(p, SN_EINPUT, "%s and %s have no order", sn_value_kind_name(a),
                 sn_value_kind_name(b));
    return 0;
}

int sn_value_compare(struct sn_pool *p, struct sn_chat_value a, struct sn_chat_value b)
{
    return compare(p, a, b, 0);
}

int64_t sn_value_length(struct sn_chat_value v)
{
    int64_t n = 0;
    if (v.kind == SN_V_UNDEFINED)
        return 0;
    if (v.kind == SN_V_LIST || (v.kind == SN_V_MAP && !v.is_space))
        return (int64_t)v.items->n;
    if (v.kind != SN_V_TEXT)
        return -1;
    for (size_t i = 0; i < v.len; i++)
        n += ((unsigned char)v.p[i] & 0xc0) != 0x80;
    return n;
}

size_t sn_value_bytes(struct sn_chat_value text, int64_t n)
{
    size_t at = 0;
    for (; n > 0 && at < text.len; n--)
        at += sn_utf8_length((unsigned char)text.p[at]);
    return at < text.len ? at : text.len;
}
