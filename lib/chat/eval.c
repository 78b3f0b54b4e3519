/*
 * eval.c - expressions, with Python's rules: `or` gives an operand, an index may count from the end,
 * what is not there is undefined, and a member of that is an error.
 */
#include "lib/chat/run.h"

#include <math.h>
#include <stdio.h>

enum { DEEP = 600, LONGEST_TEXT = 1 << 24 };

/* --- members, items, slices ------------------------------------------------------------------- */

static struct sn_chat_value undefined(void)
{
    return (struct sn_chat_value){0};
}

static struct sn_chat_value bind(struct sn_rendering *r, struct sn_chat_value self,
                                 const char *name, size_t len)
{
    struct sn_chat_value v = {.kind = SN_V_METHOD};
    v.method = sn_pool_get(r->pool, sizeof(*v.method));
    if (!v.method)
        return undefined();
    *v.method = (struct sn_method){.kind = SN_M_BOUND, .name = name, .len = len, .self = self};
    return v;
}

static struct sn_chat_value loop_member(struct sn_rendering *r, const struct sn_loop *l,
                                        const char *name, size_t len)
{
    int64_t at = (int64_t)l->at, n = (int64_t)l->items->n;
    const struct {
        const char *name;
        struct sn_chat_value v;
    } members[] = {
        {"index", sn_value_int(at + 1)},
        {"index0", sn_value_int(at)},
        {"first", sn_value_bool(at == 0)},
        {"last", sn_value_bool(at + 1 == n)},
        {"length", sn_value_int(n)},
        {"revindex", sn_value_int(n - at)},
        {"revindex0", sn_value_int(n - at - 1)},
        {"previtem", at > 0 ? l->items->v[at - 1] : undefined()},
        {"nextitem", at + 1 < n ? l->items->v[at + 1] : undefined()},
    };
    for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
        if (strlen(members[i].name) == len && memcmp(members[i].name, name, len) == 0)
            return members[i].v;
    sn_run_fail(r, "loop.%.*s is not done", (int)(len < 40 ? len : 40), name);
    return undefined();
}

struct sn_chat_value sn_eval_member(struct sn_rendering *r, struct sn_chat_value of,
                                    const char *name, size_t len)
{
    struct sn_chat_value v = undefined();
    if (of.kind == SN_V_UNDEFINED) {
        sn_run_fail(r, "'%.*s' is asked of what is undefined", (int)(len < 80 ? len : 80), name);
    } else if (of.kind == SN_V_LOOP) {
        return loop_member(r, of.loop, name, len);
    } else if (!of.is_space && sn_method_known(of.kind, name, len)) {
        return bind(r, of, name, len);
    } else if (of.kind == SN_V_MAP) {
        (void)sn_value_find(of, sn_value_text(name, len), &v);
    }
    return v;
}

static bool is_int(struct sn_chat_value v)
{
    return v.kind == SN_V_INT || v.kind == SN_V_BOOL;
}

struct sn_chat_value sn_eval_item(struct sn_rendering *r, struct sn_chat_value of,
                                  struct sn_chat_value key)
{
    struct sn_chat_value v;
    if (of.kind == SN_V_MAP && !of.is_space && sn_value_find(of, key, &v))
        return v;
    if (key.kind == SN_V_TEXT && of.kind != SN_V_MAP)
        return sn_eval_member(r, of, key.p, key.len);
    if (key.kind == SN_V_TEXT && (of.is_space || sn_method_known(of.kind, key.p, key.len)))
        return sn_eval_member(r, of, key.p, key.len);
    if (of.kind == SN_V_UNDEFINED) {
        sn_run_fail(r, "an item is asked of what is undefined");
        return undefined();
    }
    int64_t n = of.kind == SN_V_LIST || of.kind == SN_V_TEXT ? sn_value_length(of) : 0;
    int64_t at = is_int(key) ? (key.i < 0 ? key.i + n : key.i) : -1;
    if (at < 0 || at >= n)
        return undefined();
    if (of.kind == SN_V_LIST)
        return of.items->v[at];
    size_t from = sn_value_bytes(of, at);
    return sn_value_text(of.p + from, sn_utf8_length((unsigned char)of.p[from]));
}

/* A bound of a slice, as Python's slice.indices: within 0 .. n, or -1 .. n - 1 backwards. */
static int64_t bound(struct sn_rendering *r, const struct sn_chat_node *n, int64_t length,
                     int64_t otherwise, bool back)
{
    struct sn_chat_value v = n ? sn_eval(r, n) : sn_value_none();
    if (v.kind == SN_V_NONE)
        return otherwise;
    if (!is_int(v)) {
        sn_run_fail(r, "a slice wants whole numbers, not a %s", sn_value_kind_name(v));
        return 0;
    }
    int64_t at = v.i < 0 ? v.i + length : v.i, low = back ? -1 : 0,
            high = back ? length - 1 : length;
    return at < low ? low : at > high ? high : at;
}

static struct sn_chat_value slice(struct sn_rendering *r, const struct sn_chat_node *n)
{
    struct sn_chat_value of = sn_eval(r, n->a), step = n->d ? sn_eval(r, n->d) : sn_value_none();
    struct sn_bytes text = {0};
    if (of.kind != SN_V_LIST && of.kind != SN_V_TEXT) {
        sn_run_fail(r, "a %s cannot be sliced", sn_value_kind_name(of));
        return undefined();
    }
    int64_t by = step.kind == SN_V_NONE ? 1 : is_int(step) ? step.i : 0;
    int64_t length = sn_value_length(of);
    if (by == 0)
        sn_run_fail(r, "the step of a slice is a whole number, not 0");
    int64_t from = bound(r, n->b, length, by < 0 ? length - 1 : 0, by < 0);
    int64_t to = bound(r, n->c, length, by < 0 ? -1 : length, by < 0);
    if (r->pool->failed)
        return undefined();
    if (of.kind == SN_V_TEXT && by == 1) {
        size_t begin = sn_value_bytes(of, from), end = sn_value_bytes(of, to);
        return sn_value_text(of.p + begin, end > begin ? end - begin : 0);
    }
    struct sn_chat_value out = sn_value_list(r->pool), all = sn_eval_items(r, of);
    out.is_tuple = of.is_tuple;
    for (int64_t i = from; (by > 0 ? i < to : i > to) && !r->pool->failed;) {
        struct sn_chat_value one = all.items->v[i];
        if (of.kind == SN_V_TEXT)
            sn_value_print(r->pool, one, &text);
        else
            sn_value_push(r->pool, out, one);
        if (__builtin_add_overflow(i, by, &i))
            break;
    }
    return of.kind == SN_V_TEXT ? sn_text_take(r, &text) : out;
}

struct sn_chat_value sn_eval_items(struct sn_rendering *r, struct sn_chat_value of)
{
    struct sn_chat_value list = of.kind == SN_V_LIST ? of : sn_value_list(r->pool);
    size_t used;
    if (of.kind == SN_V_LIST || of.kind == SN_V_UNDEFINED)
        return list;
    if (of.kind == SN_V_MAP && !of.is_space) {
        for (size_t i = 0; i < of.items->n && !r->pool->failed; i++)
            sn_value_push(r->pool, list, of.items->keys[i]);
    } else if (of.kind == SN_V_TEXT) {
        for (size_t i = 0; i < of.len && !r->pool->failed; i += used) {
            used = sn_utf8_length((unsigned char)of.p[i]);
            sn_value_push(r->pool, list, sn_value_text(of.p + i, used));
        }
    } else {
        sn_run_fail(r, "a %s has no items", of.is_space ? "namespace" : sn_value_kind_name(of));
    }
    return list;
}

/* --- operators -------------------------------------------------------------------------------- */

bool sn_eval_in(struct sn_rendering *r, struct sn_chat_value a, struct sn_chat_value b)
{
    struct sn_chat_value v;
    if (b.kind == SN_V_MAP && !b.is_space)
        return sn_value_find(b, a, &v);
    if (b.kind == SN_V_TEXT && a.kind == SN_V_TEXT)
        return a.len == 0 || memmem(b.p, b.len, a.p, a.len);
    if (b.kind != SN_V_LIST && b.kind != SN_V_UNDEFINED)
        sn_run_fail(r, "a %s cannot be in a %s", sn_value_kind_name(a), sn_value_kind_name(b));
    for (size_t i = 0; b.kind == SN_V_LIST && i < b.items->n; i++)
        if (sn_value_equal(a, b.items->v[i]))
            return true;
    return false;
}

static bool compare_one(struct sn_rendering *r, const struct sn_chat_node *n,
                        struct sn_chat_value a, struct sn_chat_value b)
{
    if (sn_node_is(n, "=="))
        return sn_value_equal(a, b);
    if (sn_node_is(n, "!="))
        return !sn_value_equal(a, b);
    if (sn_node_is(n, "in"))
        return sn_eval_in(r, a, b);
    if (sn_node_is(n, "not"))
        return !sn_eval_in(r, a, b);
    int order = sn_value_compare(r->pool, a, b);
    return *n->p == '<' ? order < 0 || (n->len == 2 && order == 0)
                        : order > 0 || (n->len == 2 && order == 0);
}

static struct sn_chat_value compare(struct sn_rendering *r, const struct sn_chat_node *n)
{
    struct sn_chat_value a = sn_eval(r, n->a);
    for (const struct sn_chat_node *one = n->b; one && !r->pool->failed; one = one->next) {
        struct sn_chat_value b = sn_eval(r, one->a);
        if (!compare_one(r, one, a, b))
            return sn_value_bool(false);
        a = b;
    }
    return sn_value_bool(true);
}

static struct sn_chat_value no_operator(struct sn_rendering *r, const struct sn_chat_node *n,
                                        struct sn_chat_value a, struct sn_chat_value b)
{
    sn_run_fail(r, "%s %.*s %s is not done", sn_value_kind_name(a), (int)n->len, n->p,
                sn_value_kind_name(b));
    return undefined();
}

static struct sn_chat_value add(struct sn_rendering *r, const struct sn_chat_node *n,
                                struct sn_chat_value a, struct sn_chat_value b)
{
    if (a.kind == SN_V_TEXT && b.kind == SN_V_TEXT) {
        char *text = a.len + b.len > 0 ? sn_pool_get(r->pool, a.len + b.len) : NULL;
        if (a.is_safe != b.is_safe)
            sn_run_fail(r, "what 'safe' gave and another text are added, which escapes the other; "
                           "want ~");
        if (!text)
            return sn_value_text("", 0);
        memcpy(text, a.p, a.len);
        memcpy(text + a.len, b.p, b.len);
        struct sn_chat_value v = sn_value_text(text, a.len + b.len);
        v.is_safe = a.is_safe;
        return v;
    }
    if (a.kind != SN_V_LIST || b.kind != SN_V_LIST || a.is_tuple != b.is_tuple)
        return no_operator(r, n, a, b);
    struct sn_chat_value v = sn_value_list(r->pool);
    for (size_t i = 0; i < a.items->n; i++)
        sn_value_push(r->pool, v, a.items->v[i]);
    for (size_t i = 0; i < b.items->n; i++)
        sn_value_push(r->pool, v, b.items->v[i]);
    v.is_tuple = a.is_tuple;
    return v;
}

static struct sn_chat_value repeat(struct sn_rendering *r, struct sn_chat_value text, int64_t times)
{
    struct sn_bytes out = {0};
    if (times > 0 && text.len > 0 && times > LONGEST_TEXT / (int64_t)text.len)
        sn_run_fail(r, "a text is repeated %lld times", (long long)times);
    for (int64_t i = 0; i < times && text.len > 0 && !r->pool->failed; i++)
        sn_value_append(r->pool, &out, text.p, text.len);
    return sn_text_take(r, &out);
}

static struct sn_chat_value of_ints(struct sn_rendering *r, const struct sn_chat_node *n, int64_t a,
                                    int64_t b)
{
    int64_t v = 0;
    bool over = false;
    if (sn_node_is(n, "+"))
        over = __builtin_add_overflow(a, b, &v);
    else if (sn_node_is(n, "-"))
        over = __builtin_sub_overflow(a, b, &v);
    else if (sn_node_is(n, "*"))
        over = __builtin_mul_overflow(a, b, &v);
    else if (b == 0 || (a == INT64_MIN && b == -1))
        sn_run_fail(r, "a division by %s", b == 0 ? "zero" : "-1 that is too large");
    else if (sn_node_is(n, "//"))
        v = a / b - (a % b != 0 && (a < 0) != (b < 0));
    else
        v = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
    if (over)
        sn_run_fail(r, "a number of more than 64 bits");
    return sn_value_int(v);
}

static struct sn_chat_value arithmetic(struct sn_rendering *r, const struct sn_chat_node *n,
                                       struct sn_chat_value a, struct sn_chat_value b)
{
    double x, y;
    struct sn_chat_value v = {.kind = SN_V_REAL};
    bool are_texts = a.kind == SN_V_TEXT || b.kind == SN_V_TEXT;
    if (sn_node_is(n, "+") && (are_texts || a.kind == SN_V_LIST))
        return add(r, n, a, b);
    if (sn_node_is(n, "*") && are_texts && is_int(a.kind == SN_V_TEXT ? b : a))
        return a.kind == SN_V_TEXT ? repeat(r, a, b.i) : repeat(r, b, a.i);
    if (!sn_value_number(a, &x) || !sn_value_number(b, &y))
        return no_operator(r, n, a, b);
    if (is_int(a) && is_int(b) && !sn_node_is(n, "/"))
        return of_ints(r, n, a.i, b.i);
    if (y == 0 && (*n->p == '/' || *n->p == '%'))
        sn_run_fail(r, "a division by zero");
    if (*n->p == '%')
        return no_operator(r, n, a, b);
    v.x = *n->p == '+'   ? x + y
          : *n->p == '-' ? x - y
          : *n->p == '*' ? x * y
          : n->len == 2  ? floor(x / y)
                         : x / y;
    return v;
}

static struct sn_chat_value binary(struct sn_rendering *r, const struct sn_chat_node *n)
{
    struct sn_chat_value a = sn_eval(r, n->a), b = sn_eval(r, n->b);
    struct sn_bytes text = {0};
    if (r->pool->failed)
        return undefined();
    if (*n->p != '~')
        return arithmetic(r, n, a, b);
    sn_value_print(r->pool, a, &text);
    sn_value_print(r->pool, b, &text);
    return sn_text_take(r, &text);
}

static struct sn_chat_value negate(struct sn_rendering *r, struct sn_chat_value v)
{
    if (v.kind == SN_V_REAL)
        v.x = -v.x;
    else if (is_int(v) && v.i != INT64_MIN)
        v = sn_value_int(-v.i);
    else
        sn_run_fail(r, "a %s has no sign", sn_value_kind_name(v));
    return v;
}

/* --- calls ------------------------------------------------------------------------------------ */

struct sn_chat_value sn_argument(const struct sn_arguments *a, size_t i, const char *name,
                                 struct sn_chat_value otherwise)
{
    struct sn_chat_value v;
    if (i < a->list.items->n)
        return a->list.items->v[i];
    return name && sn_value_member(a->named, name, &v) ? v : otherwise;
}

static bool arguments(struct sn_rendering *r, const struct sn_chat_node *n,
                      struct sn_arguments *out)
{
    *out = (struct sn_arguments){sn_value_list(r->pool), sn_value_map(r->pool)};
    for (; n && !r->pool->failed; n = n->next) {
        struct sn_chat_value v = sn_eval(r, n->a);
        if (n->len > 0)
            sn_value_put(r->pool, out->named, sn_value_text(n->p, n->len), v);
        else
            sn_value_push(r->pool, out->list, v);
    }
    return !r->pool->failed;
}

static struct sn_chat_value call_macro(struct sn_rendering *r, const struct sn_method *m,
                                       const struct sn_arguments *a)
{
    struct sn_names *outer = r->scope;
    struct sn_chat_value v;
    size_t i = 0, taken = 0;
    int line = r->line;
    sn_scope_open(r, m->scope);
    for (const struct sn_chat_node *p = m->macro->a; p && !r->pool->failed; p = p->next, i++) {
        bool named = sn_value_find(a->named, sn_value_text(p->p, p->len), &v);
        if (named && i < a->list.items->n)
            sn_run_fail(r, "the macro gets '%.*s' twice", (int)(p->len < 80 ? p->len : 80), p->p);
        taken += named;
        if (i < a->list.items->n)
            v = a->list.items->v[i];
        else if (!named)
            v = p->a ? sn_eval(r, p->a) : undefined();
        sn_scope_set(r, p->p, p->len, v);
    }
    if (!r->pool->failed && (a->list.items->n > i || a->named.items->n > taken))
        sn_run_fail(r, "the macro '%.*s' has no such argument", (int)(m->len < 80 ? m->len : 80),
                    m->name);
    v = sn_run_inner(r, m->macro->d);
    r->scope = outer;
    if (!r->pool->failed)
        r->line = line;
    return v;
}

static struct sn_chat_value call(struct sn_rendering *r, const struct sn_chat_node *n)
{
    struct sn_chat_value f = sn_eval(r, n->a);
    struct sn_arguments a;
    if (f.kind != SN_V_METHOD)
        sn_run_fail(r, "a %s is called", sn_value_kind_name(f));
    if (r->pool->failed || !arguments(r, n->b, &a))
        return undefined();
    return f.method->kind == SN_M_MACRO ? call_macro(r, f.method, &a)
                                        : sn_method_call(r, f.method, &a);
}

static struct sn_chat_value name(struct sn_rendering *r, const struct sn_chat_node *n)
{
    static const char *const builtins[] = {"raise_exception", "namespace", "range", "dict",
                                           "strftime_now"};
    struct sn_chat_value v = undefined();
    if (sn_scope_find(r, n->p, n->len, &v))
        return v;
    for (size_t i = 0; i < 5; i++)
        if (sn_node_is(n, builtins[i])) {
            v = bind(r, undefined(), n->p, n->len);
            if (v.kind == SN_V_METHOD)
                v.method->kind = SN_M_BUILTIN;
            return v;
        }
    return v;
}

/* --- all -------------------------------------------------------------------------------------- */

static struct sn_chat_value group(struct sn_rendering *r, const struct sn_chat_node *n)
{
    struct sn_chat_value v = n->kind == SN_N_MAP ? sn_value_map(r->pool) : sn_value_list(r->pool);
    v.is_tuple = n->kind == SN_N_TUPLE;
    for (const struct sn_chat_node *i = n->a; i && !r->pool->failed; i = i->next) {
        struct sn_chat_value one = sn_eval(r, i);
        if (n->kind == SN_N_MAP) {
            i = i->next;
            sn_value_put(r->pool, v, one, sn_eval(r, i));
        } else {
            sn_value_push(r->pool, v, one);
        }
    }
    return v;
}

static struct sn_chat_value applied(struct sn_rendering *r, const struct sn_chat_node *n)
{
    struct sn_chat_value v = sn_eval(r, n->a);
    struct sn_arguments a;
    if (r->pool->failed || !arguments(r, n->b, &a))
        return undefined();
    return n->kind == SN_N_FILTER ? sn_filter(r, n->p, n->len, v, &a)
                                  : sn_value_bool(sn_test(r, n->p, n->len, v, &a));
}

static struct sn_chat_value eval(struct sn_rendering *r, const struct sn_chat_node *n)
{
    struct sn_chat_value v;
    switch (n->kind) {
    case SN_N_VALUE:
        return n->value;
    case SN_N_NAME:
        return name(r, n);
    case SN_N_CHOICE:
        if (sn_value_truth(sn_eval(r, n->a)))
            return sn_eval(r, n->b);
        return n->c ? sn_eval(r, n->c) : undefined();
    case SN_N_OR:
        v = sn_eval(r, n->a);
        return sn_value_truth(v) ? v : sn_eval(r, n->b);
    case SN_N_AND:
        v = sn_eval(r, n->a);
        return sn_value_truth(v) ? sn_eval(r, n->b) : v;
    case SN_N_NOT:
        return sn_value_bool(!sn_value_truth(sn_eval(r, n->a)));
    case SN_N_COMPARE:
        return compare(r, n);
    case SN_N_BINARY:
        return binary(r, n);
    case SN_N_MINUS:
        return negate(r, sn_eval(r, n->a));
    case SN_N_PLUS:
        return sn_eval(r, n->a);
    case SN_N_MEMBER:
        return sn_eval_member(r, sn_eval(r, n->a), n->p, n->len);
    case SN_N_ITEM:
        v = sn_eval(r, n->a);
        return sn_eval_item(r, v, sn_eval(r, n->b));
    case SN_N_SLICE:
        return slice(r, n);
    case SN_N_CALL:
        return call(r, n);
    case SN_N_FILTER:
    case SN_N_TEST:
        return applied(r, n);
    default:
        return group(r, n);
    }
}

struct sn_chat_value sn_eval(struct sn_rendering *r, const struct sn_chat_node *n)
{
    struct sn_chat_value v = undefined();
    if (r->pool->failed)
        return v;
    if (++r->depth > DEEP || --r->steps < 0)
        sn_run_fail(r, r->steps < 0 ? "the template takes too many steps"
                                    : "expressions are nested too deep");
    else
        v = eval(r, n);
    r->depth--;
    return r->pool->failed ? undefined() : v;
}
