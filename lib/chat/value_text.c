/*
 * value_text.c - values as texts: str(), repr() and JSON, to the letter as Python writes them.
 */
#include "lib/chat/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEEP = 64 };

void sn_value_append(struct sn_pool *p, struct sn_bytes *out, const char *text, size_t len)
{
    if (p->failed)
        return;
    if (p->limit > 0 && out->len + len > p->limit)
        sn_pool_fail(p, SN_EINPUT, "the template makes more than %zu MiB of text", p->limit >> 20);
    else if (!sn_bytes_add(out, text, len))
        sn_pool_fail(p, SN_ENOMEM, "no memory for what a template makes");
}

static void add(struct sn_pool *p, struct sn_bytes *out, const char *text)
{
    sn_value_append(p, out, text, strlen(text));
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* repr() of a float: the fewest digits that read as the same number. */
static void print_real(struct sn_pool *p, double x, bool as_json, struct sn_bytes *out)
{
    char text[64], digits[32];
    int n = 1, exponent;
    if (isnan(x) || isinf(x)) {
        add(p, out,
            isnan(x) ? (as_json ? "NaN" : "nan")
            : x < 0  ? (as_json ? "-Infinity" : "-inf")
                     : (as_json ? "Infinity" : "inf"));
        return;
    }
    for (; n < 17; n++) {
        (void)snprintf(text, sizeof(text), "%.*e", n - 1, x);
        if (strtod(text, NULL) == x)
            break;
    }
    (void)snprintf(text, sizeof(text), "%.*e", n - 1, x);
    const char *e = strchr(text, 'e');
    exponent = e ? (int)strtol(e + 1, NULL, 10) : 0;
    if (exponent >= -4 && exponent < 16) {
        int behind = n - 1 - exponent > 1 ? n - 1 - exponent : 1;
        (void)snprintf(text, sizeof(text), "%.*f", behind, x);
        add(p, out, text);
        return;
    }
    (void)snprintf(digits, sizeof(digits), "%.*s", (int)(e - text), text);
    (void)snprintf(text, sizeof(text), "%se%c%02d", digits, exponent < 0 ? '-' : '+',
                   exponent < 0 ? -exponent : exponent);
    add(p, out, text);
}

static void print_int(struct sn_pool *p, int64_t i, struct sn_bytes *out)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)i);
    add(p, out, text);
}

/* --- str() and repr() ------------------------------------------------------------------------- */

static void print_quoted(struct sn_pool *p, struct sn_chat_value v, struct sn_bytes *out)
{
    char quote = memchr(v.p, '\'', v.len) && !memchr(v.p, '"', v.len) ? '"' : '\'';
    char text[8];
    sn_value_append(p, out, &quote, 1);
    for (size_t i = 0; i < v.len && !p->failed; i++) {
        unsigned char c = (unsigned char)v.p[i];
        if (c >= 0x80)
            sn_pool_fail(p, SN_EINPUT,
                         "a list or dict with characters beyond ASCII is printed as Python writes "
                         "it, which is not done; want |tojson");
        else if (c == '\n' || c == '\r' || c == '\t')
            add(p, out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else if (c < 0x20 || c == 0x7f) {
            (void)snprintf(text, sizeof(text), "\\x%02x", c);
            add(p, out, text);
        } else {
            if (c == '\\' || c == (unsigned char)quote)
                add(p, out, "\\");
            sn_value_append(p, out, &v.p[i], 1);
        }
    }
    sn_value_append(p, out, &quote, 1);
}

static void print(struct sn_pool *p, struct sn_chat_value v, bool quoted, int depth,
                  struct sn_bytes *out);

static void print_group(struct sn_pool *p, struct sn_chat_value v, int depth, struct sn_bytes *out)
{
    const char *ends = v.kind == SN_V_MAP ? "{}" : v.is_tuple ? "()" : "[]";
    if (depth > DEEP || v.is_space) {
        sn_pool_fail(p, SN_EINPUT, "a namespace or what holds itself cannot be printed");
        return;
    }
    sn_value_append(p, out, ends, 1);
    for (size_t i = 0; i < v.items->n && !p->failed; i++) {
        if (i > 0)
            add(p, out, ", ");
        if (v.kind == SN_V_MAP) {
            print(p, v.items->keys[i], true, depth + 1, out);
            add(p, out, ": ");
        }
        print(p, v.items->v[i], true, depth + 1, out);
    }
    if (v.is_tuple && v.items->n == 1)
        add(p, out, ",");
    sn_value_append(p, out, ends + 1, 1);
}

static void print(struct sn_pool *p, struct sn_chat_value v, bool quoted, int depth,
                  struct sn_bytes *out)
{
    switch (v.kind) {
    case SN_V_UNDEFINED:
        add(p, out, quoted ? "Undefined" : "");
        return;
    case SN_V_NONE:
        add(p, out, "None");
        return;
    case SN_V_BOOL:
        add(p, out, v.i ? "True" : "False");
        return;
    case SN_V_INT:
        print_int(p, v.i, out);
        return;
    case SN_V_REAL:
        print_real(p, v.x, false, out);
        return;
    case SN_V_TEXT:
        if (quoted)
            print_quoted(p, v, out);
        else
            sn_value_append(p, out, v.p, v.len);
        return;
    case SN_V_LIST:
    case SN_V_MAP:
        print_group(p, v, depth, out);
        return;
    default:
        sn_pool_fail(p, SN_EINPUT, "a %s cannot be printed", sn_value_kind_name(v));
    }
}

void sn_value_print(struct sn_pool *p, struct sn_chat_value v, struct sn_bytes *out)
{
    print(p, v, false, 0, out);
}

/* --- from JSON -------------------------------------------------------------------------------- */

static struct sn_chat_value number_of(struct sn_pool *p, struct sn_json v)
{
    int64_t i;
    double x = 0;
    bool is_real = memchr(v.at, '.', v.len) || memchr(v.at, 'e', v.len) || memchr(v.at, 'E', v.len);
    if (!is_real && sn_json_integer(v, &i))
        return sn_value_int(i);
    if (!is_real)
        sn_pool_fail(p, SN_EINPUT, "the number %.*s has more than 64 bits",
                     (int)(v.len < 40 ? v.len : 40), v.at);
    char text[512];
    if (v.len >= sizeof(text)) {
        sn_pool_fail(p, SN_EINPUT, "a number of %zu digits is not read", v.len);
        return sn_value_none();
    }
    memcpy(text, v.at, v.len);
    text[v.len] = 0;
    x = strtod(text, NULL);
    return (struct sn_chat_value){.kind = SN_V_REAL, .x = x};
}

static struct sn_chat_value text_of(struct sn_pool *p, struct sn_json v)
{
    char *text = sn_pool_get(p, v.len > 0 ? v.len : 1);
    int64_t n = text ? sn_json_unescape(v, text) : 0;
    if (n > 0 && sn_utf8_check(text, (size_t)n) != (size_t)n)
        sn_pool_fail(p, SN_EINPUT, "a text is no valid UTF-8, or has half a pair of surrogates");
    return sn_value_text(text, n > 0 ? (size_t)n : 0);
}

struct sn_chat_value sn_value_of_json(struct sn_pool *p, struct sn_json v)
{
    struct sn_json name, item;
    size_t at = 0;
    if (!v.at || p->failed)
        return (struct sn_chat_value){0};
    switch (*v.at) {
    case '"':
        return text_of(p, v);
    case 't':
    case 'f':
        return sn_value_bool(*v.at == 't');
    case 'n':
        return sn_value_none();
    case '[':
    case '{':
        break;
    default:
        return number_of(p, v);
    }
    struct sn_chat_value group = *v.at == '{' ? sn_value_map(p) : sn_value_list(p);
    while (!p->failed && sn_json_next(v, &at, &name, &item)) {
        struct sn_chat_value value = sn_value_of_json(p, item);
        if (name.at)
            sn_value_put(p, group, text_of(p, name), value);
        else
            sn_value_push(p, group, value);
    }
    return group;
}

/* --- to JSON ---------------------------------------------------------------------------------- */

static void json_text(struct sn_pool *p, struct sn_chat_value v, bool ascii, struct sn_bytes *out)
{
    static const char short_forms[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    char text[16];
    size_t used;
    add(p, out, "\"");
    for (size_t i = 0; i < v.len && !p->failed; i += used) {
        uint32_t c = sn_utf8_get(v.p + i, &used);
        const char *s = short_forms;
        while (*s && (uint32_t)(unsigned char)*s != c)
            s += 2;
        text[0] = '\\';
        text[1] = *s ? s[1] : 0;
        text[2] = 0;
        if (!*s && (c < 0x20 || (ascii && c >= 0x7f && c < 0x10000)))
            (void)snprintf(text, sizeof(text), "\\u%04x", c);
        else if (!*s && ascii && c >= 0x10000)
            (void)snprintf(text, sizeof(text), "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                           0xdc00 + ((c - 0x10000) & 0x3ff));
        else if (!*s) {
            sn_value_append(p, out, v.p + i, used);
            continue;
        }
        add(p, out, text);
    }
    add(p, out, "\"");
}

static void json_break(struct sn_pool *p, const struct sn_json_form *form, int depth,
                       struct sn_bytes *out)
{
    if (form->indent < 0)
        return;
    add(p, out, "\n");
    for (int64_t i = 0; i < form->indent * depth && !p->failed; i++)
        add(p, out, " ");
}

static void to_json(struct sn_pool *p, struct sn_chat_value v, const struct sn_json_form *form,
                    int depth, struct sn_bytes *out);

/* A key: json.dumps makes texts of numbers, booleans and none. */
static void json_key(struct sn_pool *p, struct sn_chat_value key, const struct sn_json_form *form,
                     struct sn_bytes *out)
{
    if (key.kind == SN_V_TEXT) {
        json_text(p, key, form->ascii, out);
        return;
    }
    if (key.kind == SN_V_LIST || key.kind == SN_V_MAP)
        sn_pool_fail(p, SN_EINPUT, "tojson: a %s is no key", sn_value_kind_name(key));
    add(p, out, "\"");
    to_json(p, key, form, 0, out);
    add(p, out, "\"");
}

/* The next member in the order of keys, behind the last one. */
static size_t next_sorted(struct sn_pool *p, const struct sn_items *g, int64_t last)
{
    int64_t best = -1;
    for (size_t i = 0; i < g->n && !p->failed; i++)
        if ((last < 0 || sn_value_compare(p, g->keys[i], g->keys[last]) > 0) &&
            (best < 0 || sn_value_compare(p, g->keys[i], g->keys[best]) < 0))
            best = (int64_t)i;
    return best < 0 ? 0 : (size_t)best;
}

static void json_group(struct sn_pool *p, struct sn_chat_value v, const struct sn_json_form *form,
                       int depth, struct sn_bytes *out)
{
    struct sn_chat_value item = form->item, key = form->key;
    bool is_map = v.kind == SN_V_MAP;
    int64_t last = -1;
    if (item.kind != SN_V_TEXT)
        item = form->indent < 0 ? sn_value_text(", ", 2) : sn_value_text(",", 1);
    if (key.kind != SN_V_TEXT)
        key = sn_value_text(": ", 2);
    add(p, out, is_map ? "{" : "[");
    for (size_t i = 0; i < v.items->n && !p->failed; i++) {
        size_t at = is_map && form->sorted ? next_sorted(p, v.items, last) : i;
        last = (int64_t)at;
        if (i > 0)
            sn_value_append(p, out, item.p, item.len);
        json_break(p, form, depth + 1, out);
        if (is_map) {
            json_key(p, v.items->keys[at], form, out);
            sn_value_append(p, out, key.p, key.len);
        }
        to_json(p, v.items->v[at], form, depth + 1, out);
    }
    if (v.items->n > 0)
        json_break(p, form, depth, out);
    add(p, out, is_map ? "}" : "]");
}

static void to_json(struct sn_pool *p, struct sn_chat_value v, const struct sn_json_form *form,
                    int depth, struct sn_bytes *out)
{
    if (v.kind == SN_V_NONE)
        add(p, out, "null");
    else if (v.kind == SN_V_BOOL)
        add(p, out, v.i ? "true" : "false");
    else if (v.kind == SN_V_INT)
        print_int(p, v.i, out);
    else if (v.kind == SN_V_REAL)
        print_real(p, v.x, true, out);
    else if (v.kind == SN_V_TEXT)
        json_text(p, v, form->ascii, out);
    else if (depth > DEEP || v.is_space || (v.kind != SN_V_LIST && v.kind != SN_V_MAP))
        sn_pool_fail(p, SN_EINPUT, "tojson: a %s is no JSON",
                     v.is_space ? "namespace" : sn_value_kind_name(v));
    else
        json_group(p, v, form, depth, out);
}

void sn_value_to_json(struct sn_pool *p, struct sn_chat_value v, const struct sn_json_form *form,
                      struct sn_bytes *out)
{
    to_json(p, v, form, 0, out);
}
