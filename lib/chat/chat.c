#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/chat/chat_inner.h"
#include "lib/token/tokenizer.h"

#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

/* --- files ------------------------------------------------------------------------------------ */

/* A file beside the tokenizer's, whole; it may lack. */
static enum sn_status read_beside(const char *tokenizer, const char *name, struct sn_bytes *out,
                                  struct sn_err *err)
{
    const char *slash = strrchr(tokenizer, '/');
    char *path = sn_format("%.*s%s", slash ? (int)(slash + 1 - tokenizer) : 0, tokenizer, name);
    enum sn_status st = path ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory for a name", name);
    if (st == SN_OK && access(path, F_OK) == 0)
        st = sn_tokenizer_read(out, path, "a readable one, or move it away", err);
    sn_free(path);
    return st;
}

/* A token as the file has it: a text, or an object with its content. */
static struct sn_chat_value token_of(struct sn_chat_value v)
{
    struct sn_chat_value content;
    return v.kind == SN_V_MAP && sn_value_member(v, "content", &content) ? content : v;
}

static void take_tokens(struct sn_chat *c, struct sn_json config)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    struct sn_chat_value v;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        v = token_of(sn_value_of_json(&c->pool, sn_json_get(config, names[i])));
        if (v.kind == SN_V_TEXT)
            sn_value_put(&c->pool, c->variables, sn_value_text(names[i], strlen(names[i])), v);
    }
    if (sn_value_member(c->variables, "eos_token", &v)) {
        char *copy = sn_pool_get(&c->pool, v.len + 1);
        if (copy && v.len > 0)
            memcpy(copy, v.p, v.len);
        c->end_token = copy;
    }
}

/* The template that the file has: one, or of several the one that is called default. */
static struct sn_chat_value template_of(struct sn_chat_value v)
{
    struct sn_chat_value name, text;
    if (v.kind != SN_V_LIST)
        return v;
    for (size_t i = 0; i < v.items->n; i++)
        if (sn_value_member(v.items->v[i], "name", &name) && sn_value_is(name, "default") &&
            sn_value_member(v.items->v[i], "template", &text))
            return text;
    return (struct sn_chat_value){0};
}

/* Only members that are asked for are read: transformers writes a model_max_length of 1e30. */
static enum sn_status read_config(struct sn_chat *c, const struct sn_chat_want *want,
                                  struct sn_err *err)
{
    struct sn_bytes *file = &c->files[0];
    struct sn_json json;
    SN_TRY(read_beside(want->tokenizer, "tokenizer_config.json", file, err));
    if (file->len == 0)
        return SN_OK;
    if (!sn_json_parse(&json, file->p, file->len) || *json.at != '{')
        return sn_fail(err, SN_EINPUT,
                       "tokenizer_config.json beside %s: is no JSON object; copy it anew, or move "
                       "it away",
                       want->tokenizer);
    take_tokens(c, json);
    c->template_text = template_of(sn_value_of_json(&c->pool, sn_json_get(json, "chat_template")));
    return SN_OK;
}

static enum sn_status read_template(struct sn_chat *c, const struct sn_chat_want *want,
                                    struct sn_err *err)
{
    const char *name = want->template_file ? want->template_file : "the chat template";
    struct sn_bytes *file = &c->files[1];
    if (want->template_file)
        SN_TRY(sn_tokenizer_read(file, name, "a chat template with --chat-template", err));
    else
        SN_TRY(read_beside(want->tokenizer, "chat_template.jinja", file, err));
    if (want->template_file || file->len > 0)
        c->template_text = sn_value_text(file->p, file->len);
    if (c->template_text.kind != SN_V_TEXT)
        return sn_fail(err, SN_EINPUT,
                       "%s: no chat template is beside it, in chat_template.jinja or "
                       "tokenizer_config.json; want --chat-template FILE or --role NAME=TEXT",
                       want->tokenizer);
    return sn_template_parse(&c->template, c->template_text.p, c->template_text.len, name, err);
}

/* --- options ---------------------------------------------------------------------------------- */

/* The part before '='; 0: there is none. */
static size_t name_length(const char *text)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '-')
        n++;
    return text[n] == '=' ? n : 0;
}

/* A text with \n, \t, \r and \\ in it. */
static struct sn_chat_value unescape(struct sn_pool *p, const char *text, size_t len)
{
    static const char forms[] = "n\nt\tr\r\\\\";
    char *out = sn_pool_get(p, len + 1);
    size_t n = 0;
    for (size_t i = 0; out && i < len; i++) {
        const char *s = forms;
        if (text[i] == '\\' && i + 1 < len)
            while (*s && *s != text[i + 1])
                s += 2;
        bool is_escape = text[i] == '\\' && i + 1 < len && *s;
        out[n++] = is_escape ? s[1] : text[i];
        i += is_escape;
    }
    return sn_value_text(out, out ? n : 0);
}

static enum sn_status take_role(struct sn_chat *c, const char *text, struct sn_err *err)
{
    size_t n = name_length(text);
    const char *form = text + n + 1, *content = n > 0 ? strstr(form, "{}") : NULL;
    if (!content || strstr(content + 2, "{}"))
        return sn_fail(err, SN_EINPUT,
                       "--role: '%s' is none; want NAME=TEXT with one {} for the content, such as "
                       "'user=<|user|>\\n{}\\n'",
                       text);
    if (c->n_roles == SN_CHAT_ROLES)
        return sn_fail(err, SN_EINPUT, "--role: more than %d", SN_CHAT_ROLES);
    struct sn_chat_role *r = &c->roles[c->n_roles++];
    r->name = sn_value_text(text, n);
    r->before = unescape(&c->pool, form, (size_t)(content - form));
    r->behind = unescape(&c->pool, content + 2, strlen(content + 2));
    for (int i = 0; i + 1 < c->n_roles; i++)
        if (sn_value_equal(c->roles[i].name, r->name))
            return sn_fail(err, SN_EINPUT, "--role: '%.*s' is given twice", (int)n, text);
    return SN_OK;
}

static enum sn_status take_argument(struct sn_chat *c, const char *text, struct sn_err *err)
{
    size_t n = name_length(text);
    struct sn_json json;
    if (n == 0)
        return sn_fail(err, SN_EINPUT,
                       "--chat-arg: '%s' is none; want NAME=VALUE, such as enable_thinking=false",
                       text);
    const char *value = text + n + 1;
    struct sn_chat_value v = sn_json_parse(&json, value, strlen(value))
                                 ? sn_value_of_json(&c->pool, json)
                                 : sn_value_text(value, strlen(value));
    sn_value_put(&c->pool, c->variables, sn_value_text(text, n), v);
    return SN_OK;
}

static enum sn_status take_date(struct sn_chat *c, const char *date, struct sn_err *err)
{
    int year, month, day, end = 0;
    if (sscanf(date, "%4d-%2d-%2d%n", &year, &month, &day, &end) != 3 || end != 10 || date[end] ||
        year < 1900 || month < 1 || month > 12 || day < 1 || day > 31)
        return sn_fail(err, SN_EINPUT, "--chat-date: '%s' is no date; want YYYY-MM-DD", date);
    sn_value_put(&c->pool, c->variables, sn_value_text(SN_TODAY, strlen(SN_TODAY)),
                 sn_value_text(date, 10));
    return SN_OK;
}

/* Names by commas; each is a role that was given, where roles were. */
static enum sn_status take_train_on(struct sn_chat *c, const char *text, struct sn_err *err)
{
    c->train_on = sn_value_list(&c->pool);
    for (const char *p = text, *end; p; p = *end ? end + 1 : NULL) {
        end = p + strcspn(p, ",");
        struct sn_chat_value name = sn_value_text(p, (size_t)(end - p));
        bool known = c->n_roles == 0;
        for (int i = 0; i < c->n_roles; i++)
            known = known || sn_value_equal(c->roles[i].name, name);
        if (end == p || !known)
            return sn_fail(err, SN_EINPUT,
                           "--train-on: '%.*s' is %s; want roles with commas between them",
                           (int)(end - p), p, end == p ? "none" : "no role that --role names");
        sn_value_push(&c->pool, c->train_on, name);
    }
    return SN_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

/* Whatever decides a text. */
static uint64_t hash_all(const struct sn_chat *c, const struct sn_chat_want *want)
{
    struct sn_pool pool = {0};
    struct sn_bytes all = {0};
    struct sn_json_form form = {.indent = -1};
    uint64_t hash = 0;
    sn_value_append(&pool, &all, c->template_text.p,
                    c->template_text.kind == SN_V_TEXT ? c->template_text.len : 0);
    sn_value_to_json(&pool, c->variables, &form, &all);
    sn_value_to_json(&pool, c->train_on, &form, &all);
    for (int i = 0; i < want->n_roles; i++)
        sn_value_append(&pool, &all, want->roles[i], strlen(want->roles[i]) + 1);
    if (!pool.failed)
        hash = sn_hash64(all.p, all.len);
    sn_bytes_fini(&all);
    return hash;
}

static enum sn_status load(struct sn_chat *c, const struct sn_chat_want *want, struct sn_err *err)
{
    const char *train_on = want->train_on ? want->train_on : "assistant";
    c->variables = sn_value_map(&c->pool);
    c->field = want->field;
    if (want->n_roles > 0 && want->template_file)
        return sn_fail(err, SN_EINPUT, "--role and --chat-template: want one of them");
    if (want->n_roles > 0 && want->n_arguments > 0)
        return sn_fail(err, SN_EINPUT, "--chat-arg: goes to a template, and --role is given");
    SN_TRY(read_config(c, want, err));
    for (int i = 0; i < want->n_roles; i++)
        SN_TRY(take_role(c, want->roles[i], err));
    for (int i = 0; i < want->n_arguments; i++)
        SN_TRY(take_argument(c, want->arguments[i], err));
    if (want->date)
        SN_TRY(take_date(c, want->date, err));
    SN_TRY(take_train_on(c, train_on, err));
    if (want->n_roles == 0)
        SN_TRY(read_template(c, want, err));
    c->by_marks =
        c->template && sn_template_has_marks(c->template) && strcmp(train_on, "assistant") == 0;
    if (!c->pool.failed)
        c->hash = hash_all(c, want);
    return SN_OK;
}

enum sn_status sn_chat_load(struct sn_chat **out, const struct sn_chat_want *want,
                            struct sn_err *err)
{
    struct sn_chat *c = sn_alloc(sizeof(*c));
    struct sn_err why = {0};
    if (!c)
        return sn_fail(err, SN_ENOMEM, "no memory for a chat template");
    c->most = (size_t)1 << 30;
    c->pool.err = &why;
    enum sn_status st = load(c, want, err);
    c->pool.err = NULL;
    if (st == SN_OK && c->pool.failed)
        st = sn_fail(err, why.status, "%s: what is beside it, or an option: %s", want->tokenizer,
                     why.text);
    if (st != SN_OK) {
        sn_chat_destroy(c);
        return st;
    }
    *out = c;
    return SN_OK;
}

void sn_chat_destroy(struct sn_chat *c)
{
    if (!c)
        return;
    sn_template_destroy(c->template);
    sn_pool_fini(&c->pool);
    sn_bytes_fini(&c->files[0]);
    sn_bytes_fini(&c->files[1]);
    sn_free(c);
}

uint64_t sn_chat_hash(const struct sn_chat *c)
{
    return c->hash;
}

const char *sn_chat_end_token(const struct sn_chat *c)
{
    return c->end_token;
}

struct sn_chat_value sn_chat_template_text(const struct sn_chat *c)
{
    return c->template ? c->template_text : (struct sn_chat_value){0};
}
