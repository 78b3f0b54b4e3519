/*
 * run.c - statements, and the scopes of names: a loop's body and a macro have one of their own, an if
 * has none.
 */
#include "lib/chat/run.h"

#include "lib/base/mem.h"

#include <stdarg.h>
#include <stdio.h>

enum { DEEP = 600, LARGEST_LIST = 1 << 20 };

void sn_run_fail(struct sn_rendering *r, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    sn_pool_fail(r->pool, SN_EINPUT, "%s", text);
}

/* --- scopes ----------------------------------------------------------------------------------- */

struct binding {
    struct binding *next;
    const char *name;
    size_t len;
    struct sn_chat_value v;
};
struct sn_names {
    struct sn_names *up;
    struct binding *first;
};

void sn_scope_open(struct sn_rendering *r, struct sn_names *up)
{
    struct sn_names *s = sn_pool_get(r->pool, sizeof(*s));
    if (!s)
        return;
    s->up = up;
    r->scope = s;
}

static struct binding *find(const struct sn_names *s, const char *name, size_t len)
{
    for (struct binding *b = s->first; b; b = b->next)
        if (b->len == len && memcmp(b->name, name, len) == 0)
            return b;
    return NULL;
}

void sn_scope_set(struct sn_rendering *r, const char *name, size_t len, struct sn_chat_value v)
{
    struct binding *b = find(r->scope, name, len);
    if (!b) {
        b = sn_pool_get(r->pool, sizeof(*b));
        if (!b)
            return;
        b->name = name;
        b->len = len;
        b->next = r->scope->first;
        r->scope->first = b;
    }
    b->v = v;
}

bool sn_scope_find(const struct sn_rendering *r, const char *name, size_t len,
                   struct sn_chat_value *out)
{
    for (const struct sn_names *s = r->scope; s; s = s->up) {
        const struct binding *b = find(s, name, len);
        if (b) {
            *out = b->v;
            return true;
        }
    }
    return sn_value_find(r->variables, sn_value_text(name, len), out);
}

/* --- statements ------------------------------------------------------------------------------- */

struct sn_chat_value sn_text_take(struct sn_rendering *r, struct sn_bytes *b)
{
    struct sn_chat_value v = sn_value_copy(r->pool, b->p, b->len);
    sn_bytes_fini(b);
    return v;
}

struct sn_chat_value sn_run_inner(struct sn_rendering *r, const struct sn_chat_node *body)
{
    struct sn_bytes text = {0}, *out = r->out;
    bool was_inner = r->is_inner;
    r->out = &text;
    r->is_inner = true;
    sn_run_body(r, body);
    r->out = out;
    r->is_inner = was_inner;
    return sn_text_take(r, &text);
}

static void assign(struct sn_rendering *r, const struct sn_chat_node *target,
                   struct sn_chat_value v)
{
    struct sn_chat_value space;
    if (target->kind == SN_N_NAME) {
        sn_scope_set(r, target->p, target->len, v);
        return;
    }
    space = sn_eval(r, target->a);
    if (space.kind == SN_V_MAP && space.is_space)
        sn_value_put(r->pool, space, sn_value_text(target->p, target->len), v);
    else
        sn_run_fail(r, "a member of what is no namespace cannot be set");
}

/* One target takes the value, several its items. */
static void assign_all(struct sn_rendering *r, const struct sn_chat_node *targets,
                       struct sn_chat_value v)
{
    size_t i = 0;
    if (!targets->next) {
        assign(r, targets, v);
        return;
    }
    struct sn_chat_value items = sn_eval_items(r, v);
    if (r->pool->failed)
        return;
    for (const struct sn_chat_node *t = targets; t && !r->pool->failed; t = t->next, i++) {
        if (i >= items.items->n)
            break;
        assign(r, t, items.items->v[i]);
        if (!t->next && i + 1 == items.items->n)
            return;
    }
    sn_run_fail(r, "%zu values do not fit their names", items.items->n);
}

static struct sn_chat_value keep(struct sn_rendering *r, const struct sn_chat_node *n,
                                 struct sn_chat_value items)
{
    struct sn_chat_value kept = sn_value_list(r->pool);
    struct sn_names *outer = r->scope;
    for (size_t i = 0; i < items.items->n && !r->pool->failed; i++) {
        sn_scope_open(r, outer);
        assign_all(r, n->a, items.items->v[i]);
        if (sn_value_truth(sn_eval(r, n->c)))
            sn_value_push(r->pool, kept, items.items->v[i]);
    }
    r->scope = outer;
    return kept;
}

static void run_for(struct sn_rendering *r, const struct sn_chat_node *n)
{
    struct sn_chat_value items = sn_eval_items(r, sn_eval(r, n->b)), loop = {.kind = SN_V_LOOP};
    struct sn_names *outer = r->scope;
    if (!r->pool->failed && n->c)
        items = keep(r, n, items);
    loop.loop = sn_pool_get(r->pool, sizeof(*loop.loop));
    if (r->pool->failed || !loop.loop)
        return;
    loop.loop->items = items.items;
    for (size_t i = 0; i < items.items->n && !r->pool->failed && r->jump != SN_BREAK; i++) {
        r->jump = SN_GO;
        loop.loop->at = i;
        sn_scope_open(r, outer);
        sn_scope_set(r, "loop", 4, loop);
        assign_all(r, n->a, items.items->v[i]);
        sn_run_body(r, n->d);
    }
    r->jump = SN_GO;
    r->scope = outer;
    if (items.items->n == 0 && n->e && !r->pool->failed) {
        sn_scope_open(r, outer);
        sn_run_body(r, n->e);
        r->scope = outer;
    }
}

static void run_generation(struct sn_rendering *r, const struct sn_chat_node *n)
{
    struct sn_names *outer = r->scope;
    size_t from = r->out->len;
    if (r->is_inner) {
        sn_run_fail(r, "{%% generation %%} in a macro or a block that is set is not done");
        return;
    }
    r->marking++;
    sn_scope_open(r, outer);
    sn_run_body(r, n->d);
    r->scope = outer;
    r->marking--;
    if (r->marking > 0 || r->pool->failed || from == r->out->len)
        return;
    if (!sn_text_spans_add(r->marks, from, r->out->len))
        sn_pool_fail(r->pool, SN_ENOMEM, "no memory for marks");
}

static void define_macro(struct sn_rendering *r, const struct sn_chat_node *n)
{
    struct sn_chat_value v = {.kind = SN_V_METHOD};
    v.method = sn_pool_get(r->pool, sizeof(*v.method));
    if (!v.method)
        return;
    *v.method = (struct sn_method){
        .kind = SN_M_MACRO, .name = n->p, .len = n->len, .macro = n, .scope = r->scope};
    sn_scope_set(r, n->p, n->len, v);
}

static void set_block(struct sn_rendering *r, const struct sn_chat_node *n)
{
    struct sn_names *outer = r->scope;
    sn_scope_open(r, outer);
    struct sn_chat_value v = sn_run_inner(r, n->d);
    r->scope = outer;
    assign(r, n->a, v);
}

static void run_one(struct sn_rendering *r, const struct sn_chat_node *n)
{
    r->line = n->line;
    switch (n->kind) {
    case SN_N_DATA:
        sn_value_append(r->pool, r->out, n->value.p, n->value.len);
        return;
    case SN_N_PRINT:
        sn_value_print(r->pool, sn_eval(r, n->a), r->out);
        return;
    case SN_N_IF:
        sn_run_body(r, sn_value_truth(sn_eval(r, n->a)) ? n->b : n->c);
        return;
    case SN_N_FOR:
        run_for(r, n);
        return;
    case SN_N_SET:
        assign_all(r, n->a, sn_eval(r, n->b));
        return;
    case SN_N_SET_BLOCK:
        set_block(r, n);
        return;
    case SN_N_MACRO:
        define_macro(r, n);
        return;
    case SN_N_GENERATION:
        run_generation(r, n);
        return;
    default:
        r->jump = n->kind == SN_N_BREAK ? SN_BREAK : SN_CONTINUE;
    }
}

void sn_run_body(struct sn_rendering *r, const struct sn_chat_node *first)
{
    if (++r->depth > DEEP)
        sn_run_fail(r, "calls are nested too deep");
    for (const struct sn_chat_node *n = first; n && !r->pool->failed && r->jump == SN_GO;
         n = n->next) {
        if (--r->steps < 0)
            sn_run_fail(r, "the template takes too many steps");
        else
            run_one(r, n);
    }
    r->depth--;
}

/* --- all -------------------------------------------------------------------------------------- */

enum sn_status sn_template_render(const struct sn_template *t, struct sn_pool *p,
                                  struct sn_chat_value variables, struct sn_bytes *out,
                                  struct sn_text_spans *marks, struct sn_err *err)
{
    struct sn_err why = {0};
    struct sn_rendering r = {.t = t,
                             .pool = p,
                             .variables = variables,
                             .out = out,
                             .marks = marks,
                             .line = 1,
                             .steps = t->steps};
    p->err = &why;
    sn_scope_open(&r, NULL);
    if (!p->failed)
        sn_run_body(&r, t->body);
    p->err = NULL;
    return p->failed ? sn_fail(err, why.status, "%s: line %d: %s", t->name, r.line, why.text)
                     : SN_OK;
}
