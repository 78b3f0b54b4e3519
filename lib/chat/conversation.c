/*
 * conversation.c - a line's messages, as a text; and whose bytes are whose.
 */
#include "lib/base/mem.h"
#include "lib/chat/chat_inner.h"

/* --- messages --------------------------------------------------------------------------------- */

/* ShareGPT's {from, value}, as {role, content}. */
static struct sn_chat_value from_sharegpt(struct sn_pool *p, struct sn_chat_value from,
                                          struct sn_chat_value value)
{
    static const char *const names[][2] = {
        {"human", "user"},      {"user", "user"},        {"gpt", "assistant"},
        {"model", "assistant"}, {"system", "system"},    {"assistant", "assistant"},
        {"tool", "tool"},       {"observation", "tool"},
    };
    struct sn_chat_value m = sn_value_map(p);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (sn_value_is(from, names[i][0])) {
            const char *role = names[i][1];
            sn_value_put(p, m, sn_value_text("role", 4), sn_value_text(role, strlen(role)));
            sn_value_put(p, m, sn_value_text("content", 7), value);
            return m;
        }
    sn_pool_fail(p, SN_EINPUT,
                 "a turn is from '%.*s'; want human, user, gpt, model, assistant, system, tool or "
                 "observation",
                 from.kind == SN_V_TEXT ? (int)(from.len < 60 ? from.len : 60) : 0,
                 from.kind == SN_V_TEXT ? from.p : "");
    return m;
}

/* Without members that are null, and reasoning under all its names: transformers' apply_chat_template. */
static struct sn_chat_value normal_message(struct sn_pool *p, struct sn_chat_value m)
{
    static const char *const reasoning[] = {"reasoning_content", "thinking", "reasoning"};
    struct sn_chat_value out = sn_value_map(p), v;
    const struct sn_items *g = m.items;
    for (size_t i = 0; i < g->n && !p->failed; i++)
        if (g->v[i].kind != SN_V_NONE)
            sn_value_put(p, out, g->keys[i], g->v[i]);
    for (int i = 0; i < 3 && !p->failed; i++)
        if (sn_value_member(out, reasoning[i], &v)) {
            struct sn_chat_value old;
            if (!sn_value_member(out, "thinking", &old))
                sn_value_put(p, out, sn_value_text("thinking", 8), v);
            sn_value_put(p, out, sn_value_text("reasoning_content", 17), v);
            break;
        }
    return out;
}

static struct sn_chat_value one_message(struct sn_pool *p, struct sn_chat_value m)
{
    struct sn_chat_value role, from, value;
    if (m.kind != SN_V_MAP) {
        sn_pool_fail(p, SN_EINPUT, "a turn is a %s; want an object with role and content",
                     sn_value_kind_name(m));
        return m;
    }
    if (!sn_value_member(m, "role", &role) && sn_value_member(m, "from", &from) &&
        sn_value_member(m, "value", &value))
        m = from_sharegpt(p, from, value);
    if (!p->failed && (!sn_value_member(m, "role", &role) || role.kind != SN_V_TEXT))
        sn_pool_fail(p, SN_EINPUT, "a turn has no role; want role and content, or from and value");
    return p->failed ? m : normal_message(p, m);
}

static struct sn_chat_value find_messages(const struct sn_chat *c, struct sn_pool *p,
                                          struct sn_chat_value line)
{
    struct sn_chat_value list = {0}, out = sn_value_list(p);
    bool found = c->field ? sn_value_member(line, c->field, &list)
                          : sn_value_member(line, "messages", &list) ||
                                sn_value_member(line, "conversations", &list);
    if (!found || list.kind != SN_V_LIST || list.items->n == 0) {
        sn_pool_fail(p, SN_EINPUT, "has no turns in '%s'; name the member with --field",
                     c->field ? c->field : "messages");
        return out;
    }
    for (size_t i = 0; i < list.items->n && !p->failed; i++)
        sn_value_push(p, out, one_message(p, list.items->v[i]));
    return out;
}

static bool trains(const struct sn_chat *c, struct sn_chat_value message)
{
    struct sn_chat_value role;
    (void)sn_value_member(message, "role", &role);
    for (size_t i = 0; i < c->train_on.items->n; i++)
        if (sn_value_equal(c->train_on.items->v[i], role))
            return true;
    return false;
}

/* --- spans ------------------------------------------------------------------------------------ */

/* Bytes from .. to of the text count, but for blanks at their end. */
static void add_span(struct sn_chat_work *w, size_t from, size_t to)
{
    struct sn_text_spans *s = &w->counts;
    while (to > from && strchr(" \t\r\n", w->text.p[to - 1]) && w->text.p[to - 1])
        to--;
    if (to == from)
        return;
    if (s->n > 0 && s->list[s->n - 1].to == from)
        s->list[s->n - 1].to = to;
    else if (!sn_text_spans_add(s, from, to))
        sn_pool_fail(&w->pool, SN_ENOMEM, "no memory for turns");
}

/* --- by roles --------------------------------------------------------------------------------- */

static const struct sn_chat_role *role_of(const struct sn_chat *c, struct sn_chat_value message)
{
    struct sn_chat_value role;
    (void)sn_value_member(message, "role", &role);
    for (int i = 0; i < c->n_roles; i++)
        if (sn_value_equal(c->roles[i].name, role))
            return &c->roles[i];
    return NULL;
}

static void render_roles(const struct sn_chat *c, struct sn_chat_work *w,
                         struct sn_chat_value messages)
{
    struct sn_chat_value content, calls;
    struct sn_pool *p = &w->pool;
    for (size_t i = 0; i < messages.items->n && !p->failed; i++) {
        struct sn_chat_value m = messages.items->v[i];
        const struct sn_chat_role *r = role_of(c, m);
        if (!r) {
            (void)sn_value_member(m, "role", &content);
            sn_pool_fail(p, SN_EINPUT, "turn %zu: no --role for '%.*s'", i + 1,
                         (int)(content.len < 60 ? content.len : 60), content.p);
            return;
        }
        bool has_calls = sn_value_member(m, "tool_calls", &calls) && sn_value_truth(calls);
        if (!sn_value_member(m, "content", &content) || content.kind != SN_V_TEXT || has_calls) {
            sn_pool_fail(p, SN_EINPUT, "turn %zu: %s, which --role does not write; want a template",
                         i + 1, has_calls ? "calls tools" : "its content is no text");
            return;
        }
        sn_value_append(p, &w->text, r->before.p, r->before.len);
        size_t from = w->text.len;
        sn_value_append(p, &w->text, content.p, content.len);
        sn_value_append(p, &w->text, r->behind.p, r->behind.len);
        if (!p->failed && trains(c, m))
            add_span(w, from, w->text.len);
    }
}

/* --- by a template ---------------------------------------------------------------------------- */

/* What the template makes of the first n messages. */
static enum sn_status render_first(const struct sn_chat *c, struct sn_chat_work *w, size_t n,
                                   bool prompt, struct sn_bytes *out, struct sn_err *err)
{
    struct sn_pool *p = &w->pool;
    struct sn_chat_value first = sn_value_list(p);
    for (size_t i = 0; i < n && !p->failed; i++)
        sn_value_push(p, first, w->messages.items->v[i]);
    sn_value_put(p, w->variables, sn_value_text("messages", 8), first);
    sn_value_put(p, w->variables, sn_value_text("add_generation_prompt", 21),
                 sn_value_bool(prompt));
    if (p->failed)
        return SN_OK; /* which the caller sees */
    out->len = 0;
    w->marks.n = 0;
    w->rendering.limit = c->most;
    enum sn_status st =
        sn_template_render(c->template, &w->rendering, w->variables, out, &w->marks, err);
    sn_pool_fini(&w->rendering);
    w->rendering.failed = false;
    return st;
}

/* Where a turn begins (behind the prompt) or ends: the bytes of what is made of the first n messages, with
 * which the whole must begin. */
static enum sn_status boundary(const struct sn_chat *c, struct sn_chat_work *w, size_t n,
                               bool prompt, size_t *at, struct sn_err *err)
{
    struct sn_err why = {0};
    *at = 0;
    if (n == 0 && !prompt)
        return SN_OK;
    enum sn_status st = render_first(c, w, n, prompt, &w->part, &why);
    *at = w->part.len;
    if (st == SN_ENOMEM)
        *err = why;
    if (st == SN_ENOMEM || w->pool.failed)
        return st;
    if (st == SN_OK && w->part.len <= w->text.len &&
        (w->part.len == 0 || memcmp(w->part.p, w->text.p, w->part.len) == 0))
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "turn %zu: what the template makes of the turns %s is not how the conversation "
                   "begins%s%.200s; want a template with {%% generation %%} (--chat-template), or "
                   "--role",
                   prompt ? n + 1 : n, prompt ? "before it and its prompt" : "up to it",
                   st == SN_OK ? "" : ": ", st == SN_OK ? "" : why.text);
}

static void add_variables(struct sn_pool *p, struct sn_chat_value to, struct sn_chat_value from)
{
    for (size_t i = 0; from.kind == SN_V_MAP && i < from.items->n && !p->failed; i++)
        sn_value_put(p, to, from.items->keys[i], from.items->v[i]);
}

static struct sn_chat_value variables_of(const struct sn_chat *c, struct sn_pool *p,
                                         struct sn_chat_value line)
{
    static const char *const lists[] = {"tools", "documents"};
    struct sn_chat_value out = sn_value_map(p), v;
    add_variables(p, out, c->variables);
    for (int i = 0; i < 2 && !p->failed; i++) {
        if (!sn_value_member(line, lists[i], &v))
            v = sn_value_none();
        if (v.kind != SN_V_NONE && v.kind != SN_V_LIST)
            sn_pool_fail(p, SN_EINPUT, "'%s' is a %s; want a list", lists[i],
                         sn_value_kind_name(v));
        sn_value_put(p, out, sn_value_text(lists[i], strlen(lists[i])), v);
    }
    if (sn_value_member(line, "chat_template_kwargs", &v))
        add_variables(p, out, v);
    return out;
}

static enum sn_status render_template(const struct sn_chat *c, struct sn_chat_work *w,
                                      struct sn_err *err)
{
    size_t from, to, n = w->messages.items->n;
    SN_TRY(render_first(c, w, n, false, &w->text, err));
    for (int i = 0; c->by_marks && i < w->marks.n; i++)
        if (!sn_text_spans_add(&w->counts, w->marks.list[i].from, w->marks.list[i].to))
            return sn_fail(err, SN_ENOMEM, "no memory for turns");
    for (size_t i = 0; !c->by_marks && i < n && !w->pool.failed; i++) {
        struct sn_chat_value role;
        if (!trains(c, w->messages.items->v[i]))
            continue;
        (void)sn_value_member(w->messages.items->v[i], "role", &role);
        SN_TRY(boundary(c, w, i, sn_value_is(role, "assistant"), &from, err));
        to = w->text.len;
        if (i + 1 < n)
            SN_TRY(boundary(c, w, i + 1, false, &to, err));
        if (from < to)
            add_span(w, from, to);
    }
    return SN_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

void sn_chat_work_fini(struct sn_chat_work *w)
{
    sn_pool_fini(&w->pool);
    sn_pool_fini(&w->rendering);
    sn_bytes_fini(&w->text);
    sn_bytes_fini(&w->part);
    sn_text_spans_fini(&w->counts);
    sn_text_spans_fini(&w->marks);
}

enum sn_status sn_chat_render(const struct sn_chat *c, struct sn_chat_work *w, const char *line,
                              size_t len, struct sn_err *err)
{
    struct sn_err why = {0};
    struct sn_json json;
    enum sn_status st = SN_OK;
    w->text.len = 0;
    w->counts.n = 0;
    w->pool.limit = c->most;
    w->pool.err = &why;
    if (!sn_json_parse(&json, line, len) || *json.at != '{')
        return sn_fail(err, SN_EINPUT, "is no JSON object, or it is cut short");
    struct sn_chat_value value = sn_value_of_json(&w->pool, json);
    if (!w->pool.failed)
        w->messages = find_messages(c, &w->pool, value);
    if (!w->pool.failed && c->template)
        w->variables = variables_of(c, &w->pool, value);
    if (!w->pool.failed && c->template)
        st = render_template(c, w, err);
    else if (!w->pool.failed)
        render_roles(c, w, w->messages);
    if (st == SN_OK && w->pool.failed)
        st = sn_fail(err, why.status, "%s", why.text);
    sn_pool_fini(&w->pool);
    w->pool.failed = false;
    w->pool.err = NULL;
    return st;
}
