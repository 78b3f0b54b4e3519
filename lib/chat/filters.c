/*
 * filters.c - the filters and tests that chat templates use, as Jinja 3.1 has them.
 */
#include "lib/base/mem.h"
#include "lib/chat/run.h"

#include <ctype.h>
#include <stdlib.h>

/* --- filters ---------------------------------------------------------------------------------- */

static struct sn_chat_value undefined(void)
{
    return (struct sn_chat_value){0};
}

static struct sn_chat_value trim(struct sn_rendering *r, struct sn_chat_value v,
                                 const struct sn_arguments *a)
{
    return sn_text_strip(r, v, sn_argument(a, 0, "chars", sn_value_none()), true, true);
}

static struct sn_chat_value length(struct sn_rendering *r, struct sn_chat_value v,
                                   const struct sn_arguments *a)
{
    int64_t n = sn_value_length(v);
    (void)a;
    if (n < 0)
        sn_run_fail(r, "a %s has no length", sn_value_kind_name(v));
    return sn_value_int(n);
}

static struct sn_chat_value otherwise(struct sn_rendering *r, struct sn_chat_value v,
                                      const struct sn_arguments *a)
{
    bool by_truth = sn_value_truth(sn_argument(a, 1, "boolean", sn_value_bool(false)));
    (void)r;
    return v.kind == SN_V_UNDEFINED || (by_truth && !sn_value_truth(v))
               ? sn_argument(a, 0, "default_value", sn_value_text("", 0))
               : v;
}

static struct sn_chat_value to_json(struct sn_rendering *r, struct sn_chat_value v,
                                    const struct sn_arguments *a)
{
    struct sn_chat_value none = sn_value_none(), no = sn_value_bool(false);
    struct sn_chat_value indent = sn_argument(a, 1, "indent", none);
    struct sn_chat_value separators = sn_argument(a, 2, "separators", none);
    struct sn_json_form form = {
        .indent = indent.kind == SN_V_INT ? indent.i : -1,
        .ascii = sn_value_truth(sn_argument(a, 0, "ensure_ascii", no)),
        .sorted = sn_value_truth(sn_argument(a, 3, "sort_keys", no)),
    };
    struct sn_bytes out = {0};
    if ((indent.kind != SN_V_INT && indent.kind != SN_V_NONE) || form.indent > 64 ||
        (indent.kind == SN_V_INT && form.indent < 0))
        sn_run_fail(r, "tojson: an indent is a number from 0 to 64");
    if (separators.kind == SN_V_LIST && separators.items->n == 2) {
        form.item = separators.items->v[0];
        form.key = separators.items->v[1];
    } else if (separators.kind != SN_V_NONE) {
        sn_run_fail(r, "tojson: separators are two texts");
    }
    sn_value_to_json(r->pool, v, &form, &out);
    return sn_text_take(r, &out);
}

static struct sn_chat_value string(struct sn_rendering *r, struct sn_chat_value v,
                                   const struct sn_arguments *a)
{
    (void)a;
    return v.kind == SN_V_TEXT ? v : sn_text_of(r, v);
}

static struct sn_chat_value safe(struct sn_rendering *r, struct sn_chat_value v,
                                 const struct sn_arguments *a)
{
    v = string(r, v, a);
    v.is_safe = true;
    return v;
}

static struct sn_chat_value upper(struct sn_rendering *r, struct sn_chat_value v,
                                  const struct sn_arguments *a)
{
    (void)a;
    return sn_text_case(r, v, "upper");
}

static struct sn_chat_value lower(struct sn_rendering *r, struct sn_chat_value v,
                                  const struct sn_arguments *a)
{
    (void)a;
    return sn_text_case(r, v, "lower");
}

static struct sn_chat_value capitalize(struct sn_rendering *r, struct sn_chat_value v,
                                       const struct sn_arguments *a)
{
    (void)a;
    return sn_text_case(r, v, "capitalize");
}

static struct sn_chat_value replace(struct sn_rendering *r, struct sn_chat_value v,
                                    const struct sn_arguments *a)
{
    struct sn_chat_value none = sn_value_none();
    return sn_text_replace(r, v, sn_argument(a, 0, "old", none), sn_argument(a, 1, "new", none),
                           sn_argument(a, 2, "count", none));
}

static struct sn_chat_value list(struct sn_rendering *r, struct sn_chat_value v,
                                 const struct sn_arguments *a)
{
    (void)a;
    v = sn_eval_items(r, v);
    v.is_tuple = false;
    return v;
}

static struct sn_chat_value first(struct sn_rendering *r, struct sn_chat_value v,
                                  const struct sn_arguments *a)
{
    (void)a;
    v = sn_eval_items(r, v);
    return r->pool->failed || v.items->n == 0 ? undefined() : v.items->v[0];
}

static struct sn_chat_value last(struct sn_rendering *r, struct sn_chat_value v,
                                 const struct sn_arguments *a)
{
    (void)a;
    v = sn_eval_items(r, v);
    return r->pool->failed || v.items->n == 0 ? undefined() : v.items->v[v.items->n - 1];
}

static struct sn_chat_value reverse(struct sn_rendering *r, struct sn_chat_value v,
                                    const struct sn_arguments *a)
{
    struct sn_chat_value out = sn_value_list(r->pool);
    (void)a;
    if (v.kind == SN_V_TEXT)
        sn_run_fail(r, "'reverse' of a text is not done");
    v = sn_eval_items(r, v);
    for (size_t i = 0; !r->pool->failed && i < v.items->n; i++)
        sn_value_push(r->pool, out, v.items->v[v.items->n - 1 - i]);
    return out;
}

static struct sn_chat_value items(struct sn_rendering *r, struct sn_chat_value v,
                                  const struct sn_arguments *a)
{
    struct sn_method m = {.kind = SN_M_BOUND, .name = "items", .len = 5, .self = v};
    if (v.kind == SN_V_UNDEFINED)
        return sn_value_list(r->pool);
    if (v.kind == SN_V_MAP && !v.is_space)
        return sn_method_call(r, &m, a);
    sn_run_fail(r, "'items' wants a dict, not a %s", sn_value_kind_name(v));
    return undefined();
}

/* Do keys have another order, with capitals as small letters? */
static int key_order(struct sn_rendering *r, struct sn_chat_value a, struct sn_chat_value b)
{
    if (a.kind != SN_V_TEXT || b.kind != SN_V_TEXT)
        return sn_value_compare(r->pool, a, b);
    for (size_t i = 0; i < a.len && i < b.len; i++) {
        int x = (unsigned char)a.p[i], y = (unsigned char)b.p[i];
        if (x >= 0x80 || y >= 0x80)
            sn_run_fail(r, "'dictsort' of keys beyond ASCII is not done");
        if (tolower(x) != tolower(y))
            return tolower(x) - tolower(y);
    }
    return (a.len > b.len) - (a.len < b.len);
}

static struct sn_chat_value dictsort(struct sn_rendering *r, struct sn_chat_value v,
                                     const struct sn_arguments *a)
{
    struct sn_arguments none = {sn_value_list(r->pool), sn_value_map(r->pool)};
    if (a->list.items->n + a->named.items->n > 0)
        sn_run_fail(r, "'dictsort' with arguments is not done");
    struct sn_chat_value all = r->pool->failed ? undefined() : items(r, v, &none);
    struct sn_chat_value *p = r->pool->failed ? NULL : all.items->v;
    for (size_t i = 1; p && i < all.items->n && !r->pool->failed; i++)
        for (size_t k = i; k > 0 && !r->pool->failed; k--) {
            if (key_order(r, p[k - 1].items->v[0], p[k].items->v[0]) <= 0)
                break;
            struct sn_chat_value swap = p[k];
            p[k] = p[k - 1];
            p[k - 1] = swap;
        }
    return all;
}

/* A member by its path, such as function.name. */
static struct sn_chat_value by_path(struct sn_rendering *r, struct sn_chat_value v,
                                    struct sn_chat_value path)
{
    const char *p = path.p, *end = p + path.len;
    if (path.kind != SN_V_TEXT) {
        sn_run_fail(r, "an attribute is a text");
        return undefined();
    }
    while (p <= end && !r->pool->failed) {
        const char *dot = p < end ? memchr(p, '.', (size_t)(end - p)) : NULL;
        size_t n = (size_t)((dot ? dot : end) - p);
        v = n > 0 && isdigit((unsigned char)*p)
                ? sn_eval_item(r, v, sn_value_int(strtoll(p, NULL, 10)))
                : sn_eval_item(r, v, sn_value_text(p, n));
        p += n + 1;
    }
    return v;
}

static struct sn_chat_value join(struct sn_rendering *r, struct sn_chat_value v,
                                 const struct sn_arguments *a)
{
    struct sn_chat_value path = sn_argument(a, 1, "attribute", undefined());
    struct sn_chat_value by = sn_argument(a, 0, "d", sn_value_text("", 0));
    if (path.kind == SN_V_UNDEFINED)
        return sn_text_join(r, by, v);
    struct sn_chat_value from = sn_eval_items(r, v), out = sn_value_list(r->pool);
    for (size_t i = 0; !r->pool->failed && i < from.items->n; i++)
        sn_value_push(r->pool, out, by_path(r, from.items->v[i], path));
    return sn_text_join(r, by, out);
}

/* The arguments behind the first n. */
static struct sn_arguments behind(struct sn_rendering *r, const struct sn_arguments *a, size_t n)
{
    struct sn_arguments out = {sn_value_list(r->pool), a->named};
    for (size_t i = n; !r->pool->failed && i < a->list.items->n; i++)
        sn_value_push(r->pool, out.list, a->list.items->v[i]);
    return out;
}

static struct sn_chat_value map(struct sn_rendering *r, struct sn_chat_value v,
                                const struct sn_arguments *a)
{
    struct sn_chat_value path, what = sn_argument(a, 0, NULL, undefined()), other = undefined();
    struct sn_chat_value from = sn_eval_items(r, v), out = sn_value_list(r->pool);
    struct sn_arguments rest = behind(r, a, 1);
    bool has_path = sn_value_member(a->named, "attribute", &path);
    (void)sn_value_member(a->named, "default", &other);
    if (!has_path && what.kind != SN_V_TEXT)
        sn_run_fail(r, "'map' wants attribute= or a filter's name");
    for (size_t i = 0; !r->pool->failed && i < from.items->n; i++) {
        struct sn_chat_value one = from.items->v[i];
        one = has_path ? by_path(r, one, path) : sn_filter(r, what.p, what.len, one, &rest);
        sn_value_push(r->pool, out, has_path && one.kind == SN_V_UNDEFINED ? other : one);
    }
    return out;
}

/* select, reject, selectattr, rejectattr. */
static struct sn_chat_value choose(struct sn_rendering *r, struct sn_chat_value v,
                                   const struct sn_arguments *a, bool by_member, bool keeps)
{
    struct sn_chat_value from = sn_eval_items(r, v), out = sn_value_list(r->pool);
    struct sn_chat_value path = sn_argument(a, 0, NULL, undefined());
    struct sn_chat_value test = sn_argument(a, by_member, NULL, undefined());
    struct sn_arguments rest = behind(r, a, by_member ? 2 : 1);
    for (size_t i = 0; !r->pool->failed && i < from.items->n; i++) {
        struct sn_chat_value one = from.items->v[i];
        if (by_member)
            one = by_path(r, one, path);
        bool holds =
            test.kind == SN_V_TEXT ? sn_test(r, test.p, test.len, one, &rest) : sn_value_truth(one);
        if (holds == keeps)
            sn_value_push(r->pool, out, from.items->v[i]);
    }
    return out;
}

static struct sn_chat_value choose_some(struct sn_rendering *r, struct sn_chat_value v,
                                        const struct sn_arguments *a)
{
    return choose(r, v, a, false, true);
}

static struct sn_chat_value reject(struct sn_rendering *r, struct sn_chat_value v,
                                   const struct sn_arguments *a)
{
    return choose(r, v, a, false, false);
}

static struct sn_chat_value selectattr(struct sn_rendering *r, struct sn_chat_value v,
                                       const struct sn_arguments *a)
{
    return choose(r, v, a, true, true);
}

static struct sn_chat_value rejectattr(struct sn_rendering *r, struct sn_chat_value v,
                                       const struct sn_arguments *a)
{
    return choose(r, v, a, true, false);
}

static struct sn_chat_value to_int(struct sn_rendering *r, struct sn_chat_value v,
                                   const struct sn_arguments *a)
{
    struct sn_chat_value none = sn_argument(a, 0, "default", sn_value_int(0));
    char *end = NULL, text[24];
    if (v.kind == SN_V_INT || v.kind == SN_V_BOOL)
        return sn_value_int(v.i);
    if (v.kind != SN_V_TEXT || v.len == 0 || v.len >= sizeof(text) ||
        !(isdigit((unsigned char)*v.p) || *v.p == '-')) {
        sn_run_fail(r, "'int' of this %s is not done", sn_value_kind_name(v));
        return none;
    }
    memcpy(text, v.p, v.len);
    text[v.len] = 0;
    int64_t i = strtoll(text, &end, 10);
    return *end ? none : sn_value_int(i);
}

struct sn_chat_value sn_filter(struct sn_rendering *r, const char *name, size_t len,
                               struct sn_chat_value v, const struct sn_arguments *a)
{
    static const struct {
        const char *name;
        struct sn_chat_value (*run)(struct sn_rendering *, struct sn_chat_value,
                                    const struct sn_arguments *);
    } filters[] = {
        {"trim", trim},
        {"length", length},
        {"count", length},
        {"default", otherwise},
        {"d", otherwise},
        {"tojson", to_json},
        {"string", string},
        {"safe", safe},
        {"upper", upper},
        {"lower", lower},
        {"capitalize", capitalize},
        {"replace", replace},
        {"list", list},
        {"first", first},
        {"last", last},
        {"reverse", reverse},
        {"items", items},
        {"dictsort", dictsort},
        {"join", join},
        {"map", map},
        {"select", choose_some},
        {"reject", reject},
        {"selectattr", selectattr},
        {"rejectattr", rejectattr},
        {"int", to_int},
    };
    for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++)
        if (strlen(filters[i].name) == len && memcmp(filters[i].name, name, len) == 0)
            return filters[i].run(r, v, a);
    sn_run_fail(r, "the filter '%.*s' is not done", (int)(len < 60 ? len : 60), name);
    return undefined();
}

/* --- tests ------------------------------------------------------------------------------------ */

static bool named(const char *name, size_t len, const char *what)
{
    return strlen(what) == len && memcmp(name, what, len) == 0;
}

/* Of the kind of a value alone: 1, 0, or -1: no such test. */
static int kind_test(const char *name, size_t len, struct sn_chat_value v)
{
    enum sn_chat_value_kind k = v.kind;
    bool is_map = k == SN_V_MAP && !v.is_space,
         has_items = is_map || k == SN_V_TEXT || k == SN_V_LIST || k == SN_V_UNDEFINED;
    const struct {
        const char *name;
        bool holds;
    } tests[] = {
        {"defined", k != SN_V_UNDEFINED},
        {"undefined", k == SN_V_UNDEFINED},
        {"none", k == SN_V_NONE},
        {"string", k == SN_V_TEXT},
        {"mapping", is_map},
        {"iterable", has_items || k == SN_V_LOOP},
        {"sequence", has_items},
        {"number", k == SN_V_INT || k == SN_V_REAL || k == SN_V_BOOL},
        {"integer", k == SN_V_INT},
        {"float", k == SN_V_REAL},
        {"boolean", k == SN_V_BOOL},
        {"true", k == SN_V_BOOL && v.i},
        {"false", k == SN_V_BOOL && !v.i},
        {"callable", k == SN_V_METHOD},
    };
    for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)
        if (named(name, len, tests[i].name))
            return tests[i].holds;
    return -1;
}

bool sn_test(struct sn_rendering *r, const char *name, size_t len, struct sn_chat_value v,
             const struct sn_arguments *a)
{
    static const char *const equals[] = {"==", "eq", "equalto", "!=", "ne"};
    struct sn_chat_value other = sn_argument(a, 0, NULL, undefined());
    int holds = kind_test(name, len, v);
    if (holds >= 0)
        return holds;
    for (int i = 0; i < 5; i++)
        if (named(name, len, equals[i]))
            return sn_value_equal(v, other) == (i < 3);
    if (named(name, len, "in"))
        return sn_eval_in(r, v, other);
    bool is_whole = v.kind == SN_V_INT;
    if (is_whole && (named(name, len, "odd") || named(name, len, "even")))
        return (v.i % 2 != 0) == (*name == 'o');
    if (is_whole && named(name, len, "divisibleby") && other.kind == SN_V_INT && other.i > 0)
        return v.i % other.i == 0;
    sn_run_fail(r, "the test '%.*s' of a %s is not done", (int)(len < 60 ? len : 60), name,
                sn_value_kind_name(v));
    return false;
}
