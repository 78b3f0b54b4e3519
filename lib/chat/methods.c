/*
 * methods.c - what is called: Jinja's functions, and the methods of Python's str and dict. A text has all
 * of Python's as members, so that `x.format is defined` is true; those that are not done say so when
 * they are called.
 */
#include "lib/base/mem.h"
#include "lib/chat/run.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LONGEST_RANGE = 1 << 20 };

/* --- texts ------------------------------------------------------------------------------------ */

struct sn_chat_value sn_text_of(struct sn_rendering *r, struct sn_chat_value v)
{
    struct sn_bytes text = {0};
    if (v.kind == SN_V_TEXT && v.is_safe)
        sn_run_fail(r, "what 'safe' gave is only printed, joined by ~ and compared here");
    if (v.kind == SN_V_TEXT)
        return v;
    sn_value_print(r->pool, v, &text);
    return sn_text_take(r, &text);
}

/* str.isspace() of one character. */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Is the character at p among `chars`, or a blank where these are none? */
static bool is_among(struct sn_chat_value chars, const char *p, size_t *used)
{
    uint32_t c = sn_utf8_get(p, used);
    if (chars.kind != SN_V_TEXT)
        return is_space(c);
    return memmem(chars.p, chars.len, p, *used) != NULL;
}

struct sn_chat_value sn_text_strip(struct sn_rendering *r, struct sn_chat_value v,
                                   struct sn_chat_value chars, bool left, bool right)
{
    size_t used, from = 0, to;
    if (chars.kind != SN_V_TEXT && chars.kind != SN_V_NONE)
        sn_run_fail(r, "the characters to strip are a %s", sn_value_kind_name(chars));
    v = sn_text_of(r, v);
    to = v.len;
    while (left && from < to && is_among(chars, v.p + from, &used))
        from += used;
    while (right && to > from) {
        size_t n = sn_utf8_before(v.p + from, v.p + to);
        if (!is_among(chars, v.p + to - n, &used))
            break;
        to -= n;
    }
    return sn_value_text(v.p + from, to - from);
}

struct sn_chat_value sn_text_case(struct sn_rendering *r, struct sn_chat_value v, const char *how)
{
    v = sn_text_of(r, v);
    char *out = sn_pool_get(r->pool, v.len + 1);
    bool begins = true;
    for (size_t i = 0; out && i < v.len; i++) {
        int c = (unsigned char)v.p[i];
        if (c >= 0x80)
            sn_run_fail(r, "'%s' of letters beyond ASCII is not done", how);
        bool up = *how == 'u' || (begins && *how != 'l');
        out[i] = (char)(up ? toupper(c) : tolower(c));
        begins = *how == 't' ? !isalpha(c) : false;
    }
    return out ? sn_value_text(out, v.len) : v;
}

struct sn_chat_value sn_text_replace(struct sn_rendering *r, struct sn_chat_value v,
                                     struct sn_chat_value from, struct sn_chat_value to,
                                     struct sn_chat_value count)
{
    struct sn_bytes out = {0};
    int64_t left = count.kind == SN_V_INT && count.i >= 0 ? count.i : INT64_MAX;
    v = sn_text_of(r, v);
    if (from.kind != SN_V_TEXT || to.kind != SN_V_TEXT || from.len == 0) {
        sn_run_fail(r, "'replace' wants two texts, of which the first is not empty");
        return v;
    }
    const char *p = v.p, *end = v.p + v.len, *at;
    while (left-- > 0 && (at = memmem(p, (size_t)(end - p), from.p, from.len))) {
        sn_value_append(r->pool, &out, p, (size_t)(at - p));
        sn_value_append(r->pool, &out, to.p, to.len);
        p = at + from.len;
    }
    sn_value_append(r->pool, &out, p, (size_t)(end - p));
    return sn_text_take(r, &out);
}

struct sn_chat_value sn_text_join(struct sn_rendering *r, struct sn_chat_value by,
                                  struct sn_chat_value list)
{
    struct sn_bytes out = {0};
    struct sn_chat_value items = sn_eval_items(r, list);
    by = sn_text_of(r, by);
    for (size_t i = 0; !r->pool->failed && i < items.items->n; i++) {
        if (i > 0)
            sn_value_append(r->pool, &out, by.p, by.len);
        sn_value_print(r->pool, items.items->v[i], &out);
    }
    return sn_text_take(r, &out);
}

static bool ends(struct sn_chat_value v, struct sn_chat_value what, bool first)
{
    return what.kind == SN_V_TEXT && what.len <= v.len &&
           memcmp(first ? v.p : v.p + v.len - what.len, what.p, what.len) == 0;
}

/* startswith, endswith: of one text or any of a tuple. */
static struct sn_chat_value ends_with(struct sn_rendering *r, struct sn_chat_value v,
                                      struct sn_chat_value what, bool first)
{
    bool any = ends(v, what, first);
    if (what.kind != SN_V_TEXT && !(what.kind == SN_V_LIST && what.is_tuple))
        sn_run_fail(r, "'startswith' and 'endswith' want a text or a tuple of texts");
    for (size_t i = 0; what.kind == SN_V_LIST && i < what.items->n; i++)
        any = any || ends(v, what.items->v[i], first);
    return sn_value_bool(any);
}

/* split() by blanks. */
static struct sn_chat_value words(struct sn_rendering *r, struct sn_chat_value v, int64_t most)
{
    struct sn_chat_value list = sn_value_list(r->pool);
    size_t used, at = 0, from;
    while (!r->pool->failed) {
        while (at < v.len && is_among(sn_value_none(), v.p + at, &used))
            at += used;
        if (at == v.len)
            break;
        from = at;
        if (most-- == 0) {
            sn_value_push(r->pool, list, sn_value_text(v.p + from, v.len - from));
            break;
        }
        while (at < v.len && !is_among(sn_value_none(), v.p + at, &used))
            at += used;
        sn_value_push(r->pool, list, sn_value_text(v.p + from, at - from));
    }
    return list;
}

static struct sn_chat_value split(struct sn_rendering *r, struct sn_chat_value v,
                                  struct sn_chat_value by, int64_t most)
{
    if (by.kind == SN_V_NONE)
        return words(r, v, most);
    if (by.kind != SN_V_TEXT || by.len == 0) {
        sn_run_fail(r, "'split' wants a text that is not empty");
        return by;
    }
    struct sn_chat_value list = sn_value_list(r->pool);
    const char *p = v.p, *end = v.p + v.len, *at;
    while (!r->pool->failed && most-- != 0 && (at = memmem(p, (size_t)(end - p), by.p, by.len))) {
        sn_value_push(r->pool, list, sn_value_text(p, (size_t)(at - p)));
        p = at + by.len;
    }
    sn_value_push(r->pool, list, sn_value_text(p, (size_t)(end - p)));
    return list;
}

static struct sn_chat_value count_of(struct sn_chat_value v, struct sn_chat_value what)
{
    int64_t n = 0;
    const char *p = v.p, *end = v.p + v.len;
    while (what.len > 0 && (p = memmem(p, (size_t)(end - p), what.p, what.len))) {
        n++;
        p += what.len;
    }
    return sn_value_int(what.len > 0 ? n : sn_value_length(v) + 1);
}

static struct sn_chat_value find_in(struct sn_chat_value v, struct sn_chat_value what)
{
    const char *at = what.len > 0 ? memmem(v.p, v.len, what.p, what.len) : v.p;
    return sn_value_int(at ? sn_value_length(sn_value_text(v.p, (size_t)(at - v.p))) : -1);
}

/* --- methods ---------------------------------------------------------------------------------- */

static const char str_methods[] =
    " capitalize casefold center count encode endswith expandtabs find format format_map index "
    "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace "
    "istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix replace "
    "rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title "
    "translate upper zfill ";
static const char dict_methods[] =
    " clear copy fromkeys get items keys pop popitem setdefault update values ";
static const char list_methods[] = " copy count index ";

bool sn_method_known(enum sn_chat_value_kind kind, const char *name, size_t len)
{
    char word[40];
    const char *all = kind == SN_V_TEXT   ? str_methods
                      : kind == SN_V_MAP  ? dict_methods
                      : kind == SN_V_LIST ? list_methods
                                          : "";
    if (len + 3 > sizeof(word) || memchr(name, ' ', len))
        return false;
    (void)snprintf(word, sizeof(word), " %.*s ", (int)len, name);
    return strstr(all, word) != NULL;
}

static bool is(const struct sn_method *m, const char *name)
{
    return m->len == strlen(name) && memcmp(m->name, name, m->len) == 0;
}

static struct sn_chat_value not_done(struct sn_rendering *r, const struct sn_method *m)
{
    sn_run_fail(r, "'%.*s' of a %s is not done", (int)(m->len < 40 ? m->len : 40), m->name,
                sn_value_kind_name(m->self));
    return sn_value_none();
}

static struct sn_chat_value text_method(struct sn_rendering *r, const struct sn_method *m,
                                        const struct sn_arguments *a)
{
    struct sn_chat_value none = sn_value_none(), v = sn_text_of(r, m->self);
    struct sn_chat_value one = sn_argument(a, 0, NULL, none), two = sn_argument(a, 1, NULL, none);
    size_t n = a->list.items->n;
    bool has_text = n >= 1 && one.kind == SN_V_TEXT;
    if (is(m, "strip") || is(m, "lstrip") || is(m, "rstrip"))
        return sn_text_strip(r, v, one, !is(m, "rstrip"), !is(m, "lstrip"));
    if (is(m, "split")) {
        struct sn_chat_value most = sn_argument(a, 1, "maxsplit", sn_value_int(-1));
        one = sn_argument(a, 0, "sep", none);
        return split(r, v, one, most.kind == SN_V_INT ? most.i : -1);
    }
    if (is(m, "startswith") || is(m, "endswith"))
        return n == 1 ? ends_with(r, v, one, is(m, "startswith")) : not_done(r, m);
    if (is(m, "replace"))
        return sn_text_replace(r, v, one, two, sn_argument(a, 2, "count", none));
    if (is(m, "upper") || is(m, "lower") || is(m, "capitalize") || is(m, "title"))
        return sn_text_case(r, v,
                            is(m, "upper")   ? "upper"
                            : is(m, "lower") ? "lower"
                            : is(m, "title") ? "title"
                                             : "capitalize");
    if (is(m, "join") && n == 1)
        return sn_text_join(r, v, one);
    if (is(m, "count") && has_text && n == 1)
        return count_of(v, one);
    if (is(m, "find") && has_text && n == 1)
        return find_in(v, one);
    if (is(m, "removeprefix") && has_text)
        return ends(v, one, true) ? sn_value_text(v.p + one.len, v.len - one.len) : v;
    if (is(m, "removesuffix") && has_text)
        return ends(v, one, false) ? sn_value_text(v.p, v.len - one.len) : v;
    return not_done(r, m);
}

static struct sn_chat_value pair(struct sn_rendering *r, struct sn_chat_value a,
                                 struct sn_chat_value b)
{
    struct sn_chat_value v = sn_value_list(r->pool);
    v.is_tuple = true;
    sn_value_push(r->pool, v, a);
    sn_value_push(r->pool, v, b);
    return v;
}

static struct sn_chat_value map_method(struct sn_rendering *r, const struct sn_method *m,
                                       const struct sn_arguments *a)
{
    const struct sn_items *g = m->self.items;
    struct sn_chat_value v, key = sn_argument(a, 0, NULL, (struct sn_chat_value){0});
    if (is(m, "get") && key.kind != SN_V_UNDEFINED)
        return sn_value_find(m->self, key, &v) ? v : sn_argument(a, 1, NULL, sn_value_none());
    if (!is(m, "items") && !is(m, "keys") && !is(m, "values"))
        return not_done(r, m);
    v = sn_value_list(r->pool);
    for (size_t i = 0; i < g->n && !r->pool->failed; i++)
        sn_value_push(r->pool, v,
                      is(m, "items")  ? pair(r, g->keys[i], g->v[i])
                      : is(m, "keys") ? g->keys[i]
                                      : g->v[i]);
    return v;
}

/* --- functions -------------------------------------------------------------------------------- */

static struct sn_chat_value range(struct sn_rendering *r, const struct sn_arguments *a)
{
    struct sn_chat_value list = sn_value_list(r->pool), none = sn_value_none();
    size_t n = a->list.items->n;
    struct sn_chat_value v[3] = {sn_value_int(0), sn_argument(a, 0, NULL, none), sn_value_int(1)};
    for (size_t i = 0; n > 1 && i < 3; i++)
        v[i] = sn_argument(a, i, NULL, v[2]);
    if (r->pool->failed)
        return none;
    if (n < 1 || n > 3 || v[0].kind != SN_V_INT || v[1].kind != SN_V_INT || v[2].kind != SN_V_INT ||
        v[2].i == 0) {
        sn_run_fail(r, "'range' wants one to three whole numbers, the step not 0");
        return none;
    }
    for (int64_t i = v[0].i; (v[2].i > 0 ? i < v[1].i : i > v[1].i) && !r->pool->failed;) {
        if (list.items->n >= LONGEST_RANGE)
            sn_run_fail(r, "a range of more than %d numbers", LONGEST_RANGE);
        sn_value_push(r->pool, list, sn_value_int(i));
        if (__builtin_add_overflow(i, v[2].i, &i))
            break;
    }
    return list;
}

static struct sn_chat_value map_of(struct sn_rendering *r, const struct sn_arguments *a,
                                   bool is_space)
{
    struct sn_chat_value v = sn_value_map(r->pool), from = sn_argument(a, 0, NULL, a->named);
    if (from.kind != SN_V_MAP || from.is_space) {
        sn_run_fail(r, "'dict' and 'namespace' want members by name");
        return v;
    }
    for (int twice = 0; twice < 2; twice++, from = a->named)
        for (size_t i = 0; i < from.items->n && !r->pool->failed; i++)
            sn_value_put(r->pool, v, from.items->keys[i], from.items->v[i]);
    v.is_space = is_space;
    return v;
}

/* Of the day that stands for today, where one does. */
static struct sn_chat_value date(struct sn_rendering *r, const struct sn_arguments *a)
{
    struct sn_chat_value day, form = sn_argument(a, 0, NULL, sn_value_none());
    struct tm t = {0};
    char text[200] = "", pattern[100];
    if (!sn_value_member(r->variables, SN_TODAY, &day)) {
        sn_run_fail(r, "asks for today's date, by which tokens would change from day to day; want "
                       "--chat-date YYYY-MM-DD");
        return form;
    }
    bool good = form.kind == SN_V_TEXT && form.len > 0 && form.len < sizeof(pattern);
    for (size_t i = 0; good && i + 1 < form.len; i++)
        good = form.p[i] != '%' || memchr("dbBYmyaAje%-", form.p[i + 1], 12);
    if (!good || sscanf(day.p, "%4d-%2d-%2d", &t.tm_year, &t.tm_mon, &t.tm_mday) != 3) {
        sn_run_fail(r, "'strftime_now' is done for days, months and years alone");
        return form;
    }
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    t.tm_hour = 12;
    t.tm_isdst = -1;
    (void)timegm(&t); /* fills in the day of the week and of the year */
    (void)snprintf(pattern, sizeof(pattern), "%.*s", (int)form.len, form.p);
    size_t n = strftime(text, sizeof(text), pattern, &t);
    return sn_value_copy(r->pool, text, n);
}

static struct sn_chat_value function(struct sn_rendering *r, const struct sn_method *m,
                                     const struct sn_arguments *a)
{
    if (is(m, "raise_exception")) {
        struct sn_chat_value why = sn_text_of(r, sn_argument(a, 0, NULL, sn_value_text("", 0)));
        sn_run_fail(r, "the template refuses it: %.*s", (int)(why.len < 300 ? why.len : 300),
                    why.p);
        return why;
    }
    if (is(m, "range"))
        return range(r, a);
    if (is(m, "strftime_now"))
        return date(r, a);
    return map_of(r, a, is(m, "namespace"));
}

struct sn_chat_value sn_method_call(struct sn_rendering *r, const struct sn_method *m,
                                    const struct sn_arguments *a)
{
    if (m->kind == SN_M_BUILTIN)
        return function(r, m, a);
    return m->self.kind == SN_V_TEXT  ? text_method(r, m, a)
           : m->self.kind == SN_V_MAP ? map_method(r, m, a)
                                      : not_done(r, m);
}
