/*
 * parse.c - a template's statements in a tree, and what reads tokens.
 */
#include "lib/base/mem.h"
#include "lib/chat/parse.h"

#include <stdio.h>

bool sn_node_is(const struct sn_chat_node *n, const char *text)
{
    return n->len == strlen(text) && memcmp(n->p, text, n->len) == 0;
}

bool sn_parse_failed(const struct sn_parser *x)
{
    return x->t->pool.failed;
}

void sn_parse_fail(struct sn_parser *x, const char *what)
{
    sn_pool_fail(&x->t->pool, SN_EINPUT, "line %d: %s", x->at->line, what);
}

static bool is(const struct sn_parser *x, enum sn_token_kind kind, const char *text)
{
    const struct sn_template_token *t = x->at;
    return t->kind == kind && t->len == strlen(text) && memcmp(t->p, text, t->len) == 0;
}

bool sn_parse_is_sign(const struct sn_parser *x, const char *text)
{
    return is(x, SN_T_SIGN, text);
}

bool sn_parse_is_word(const struct sn_parser *x, const char *text)
{
    return is(x, SN_T_NAME, text);
}

void sn_parse_next(struct sn_parser *x)
{
    if (x->at->kind != SN_T_END)
        x->at++;
}

bool sn_parse_sign(struct sn_parser *x, const char *text)
{
    bool there = !sn_parse_failed(x) && sn_parse_is_sign(x, text);
    if (there)
        sn_parse_next(x);
    return there;
}

bool sn_parse_word(struct sn_parser *x, const char *text)
{
    bool there = !sn_parse_failed(x) && sn_parse_is_word(x, text);
    if (there)
        sn_parse_next(x);
    return there;
}

void sn_parse_want(struct sn_parser *x, const char *text)
{
    char what[80];
    if (sn_parse_failed(x) || sn_parse_sign(x, text))
        return;
    (void)snprintf(what, sizeof(what), "want '%s' here", text);
    sn_parse_fail(x, what);
}

struct sn_chat_node *sn_parse_make(struct sn_parser *x, enum sn_chat_node_kind kind,
                                   struct sn_chat_node *a, struct sn_chat_node *b)
{
    struct sn_chat_node *n = sn_pool_get(&x->t->pool, sizeof(*n));
    if (!n)
        return NULL;
    n->kind = kind;
    n->line = x->at->line;
    n->p = "";
    n->a = a;
    n->b = b;
    return n;
}

struct sn_chat_node *sn_parse_named(struct sn_parser *x, enum sn_chat_node_kind kind,
                                    struct sn_chat_node *a)
{
    struct sn_chat_node *n = sn_parse_make(x, kind, a, NULL);
    if (n && x->at->kind != SN_T_NAME && x->at->kind != SN_T_SIGN)
        sn_parse_fail(x, "want a name here");
    if (n) {
        n->p = x->at->p;
        n->len = x->at->len;
    }
    sn_parse_next(x);
    return n;
}

bool sn_parse_deeper(struct sn_parser *x)
{
    if (++x->depth > SN_TEMPLATE_DEEP)
        sn_parse_fail(x, "the template is nested too deep");
    return !sn_parse_failed(x);
}

/* --- statements ------------------------------------------------------------------------------- */

static struct sn_chat_node *body(struct sn_parser *x, const char *const *ends);

static void end_block(struct sn_parser *x)
{
    if (!sn_parse_failed(x) && x->at->kind != SN_T_BLOCK_END)
        sn_parse_fail(x, "want %} here");
    sn_parse_next(x);
}

static struct sn_chat_node *targets(struct sn_parser *x)
{
    struct sn_chat_node *first = NULL, **last = &first;
    bool parenthesis_opens = sn_parse_sign(x, "(");
    do {
        if (!sn_parse_failed(x) && x->at->kind != SN_T_NAME)
            sn_parse_fail(x, "want a name here");
        struct sn_chat_node *n = sn_parse_named(x, SN_N_NAME, NULL);
        if (sn_parse_sign(x, "."))
            n = sn_parse_named(x, SN_N_MEMBER, n);
        if (sn_parse_failed(x))
            return NULL;
        *last = n;
        last = &n->next;
    } while (sn_parse_sign(x, ",") && !sn_parse_is_word(x, "in"));
    if (parenthesis_opens)
        sn_parse_want(x, ")");
    return first;
}

/* The words that end a body; the one that did is the current token. */
static struct sn_chat_node *if_statement(struct sn_parser *x)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct sn_chat_node *n = sn_parse_make(x, SN_N_IF, sn_parse_tuple(x, false), NULL);
    end_block(x);
    struct sn_chat_node *then = body(x, ends), *otherwise = NULL;
    if (!sn_parse_deeper(x))
        return NULL;
    if (sn_parse_word(x, "elif")) {
        otherwise = if_statement(x); /* which takes the end */
    } else {
        if (sn_parse_word(x, "else")) {
            end_block(x);
            otherwise = body(x, ends + 2);
        }
        (void)sn_parse_word(x, "endif");
        end_block(x);
    }
    x->depth--;
    if (n) {
        n->b = then;
        n->c = otherwise;
    }
    return n;
}

static struct sn_chat_node *for_statement(struct sn_parser *x)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct sn_chat_node *n = sn_parse_make(x, SN_N_FOR, targets(x), NULL);
    if (!n)
        return NULL;
    if (!sn_parse_failed(x) && !sn_parse_word(x, "in"))
        sn_parse_fail(x, "want 'in' here");
    n->b = sn_parse_tuple(x, true);
    if (sn_parse_word(x, "if"))
        n->c = sn_parse_expression(x);
    if (!sn_parse_failed(x) && sn_parse_is_word(x, "recursive"))
        sn_parse_fail(x, "'recursive' is not done");
    end_block(x);
    x->loops++;
    n->d = body(x, ends);
    x->loops--;
    if (sn_parse_word(x, "else")) {
        end_block(x);
        n->e = body(x, ends + 1);
    }
    (void)sn_parse_word(x, "endfor");
    end_block(x);
    return n;
}

static struct sn_chat_node *set_statement(struct sn_parser *x)
{
    static const char *const ends[] = {"endset", NULL};
    struct sn_chat_node *n = sn_parse_make(x, SN_N_SET, targets(x), NULL);
    if (sn_parse_failed(x))
        return NULL;
    if (sn_parse_sign(x, "=")) {
        n->b = sn_parse_tuple(x, false);
        end_block(x);
        return n;
    }
    n->kind = SN_N_SET_BLOCK;
    if (sn_parse_is_sign(x, "|"))
        sn_parse_fail(x, "filters of a set's block are not done");
    end_block(x);
    n->d = body(x, ends);
    (void)sn_parse_word(x, "endset");
    end_block(x);
    return n;
}

static struct sn_chat_node *macro_statement(struct sn_parser *x)
{
    static const char *const ends[] = {"endmacro", NULL};
    struct sn_chat_node *n = sn_parse_named(x, SN_N_MACRO, NULL);
    int loops = x->loops;
    if (!n)
        return NULL;
    sn_parse_want(x, "(");
    for (struct sn_chat_node **last = &n->a; !sn_parse_failed(x) && !sn_parse_is_sign(x, ")");) {
        *last = sn_parse_named(x, SN_N_ARGUMENT, NULL);
        if (!*last)
            break;
        if (sn_parse_sign(x, "="))
            (*last)->a = sn_parse_expression(x);
        last = &(*last)->next;
        if (!sn_parse_sign(x, ","))
            break;
    }
    sn_parse_want(x, ")");
    end_block(x);
    x->loops = 0;
    n->d = body(x, ends);
    x->loops = loops;
    (void)sn_parse_word(x, "endmacro");
    if (!sn_parse_failed(x) && x->at->kind == SN_T_NAME)
        sn_parse_next(x); /* its name, which Jinja allows */
    end_block(x);
    return n;
}

static struct sn_chat_node *statement(struct sn_parser *x)
{
    static const char *const generation_ends[] = {"endgeneration", NULL};
    struct sn_chat_node *n = NULL;
    if (sn_parse_word(x, "if"))
        return if_statement(x);
    if (sn_parse_word(x, "for"))
        return for_statement(x);
    if (sn_parse_word(x, "set"))
        return set_statement(x);
    if (sn_parse_word(x, "macro"))
        return macro_statement(x);
    if (sn_parse_word(x, "generation")) {
        n = sn_parse_make(x, SN_N_GENERATION, NULL, NULL);
        x->t->has_marks = true;
        end_block(x);
        struct sn_chat_node *d = body(x, generation_ends);
        if (n)
            n->d = d;
        (void)sn_parse_word(x, "endgeneration");
        end_block(x);
        return n;
    }
    bool stops = sn_parse_word(x, "break");
    if (stops || sn_parse_word(x, "continue")) {
        if (x->loops == 0)
            sn_parse_fail(x, "'break' or 'continue' outside of a loop");
        n = sn_parse_make(x, stops ? SN_N_BREAK : SN_N_CONTINUE, NULL, NULL);
        end_block(x);
        return n;
    }
    if (!sn_parse_failed(x)) {
        char what[120];
        (void)snprintf(what, sizeof(what), "the statement '%.*s' is not done",
                       (int)(x->at->len < 60 ? x->at->len : 60), x->at->p);
        sn_parse_fail(x, x->at->kind == SN_T_NAME ? what : "a statement is missing here");
    }
    return NULL;
}

/* Up to a block that begins with one of these words, which is then the current token; without words
 * to the end. */
static struct sn_chat_node *body(struct sn_parser *x, const char *const *ends)
{
    struct sn_chat_node *first = NULL, **last = &first;
    if (!sn_parse_deeper(x))
        return NULL;
    while (!sn_parse_failed(x)) {
        struct sn_chat_node *n = NULL;
        if (x->at->kind == SN_T_END) {
            if (ends)
                sn_parse_fail(x, "a block has no end");
            break;
        }
        if (x->at->kind == SN_T_DATA) {
            n = sn_parse_make(x, SN_N_DATA, NULL, NULL);
            if (n)
                n->value = sn_value_text(x->at->p, x->at->len);
            sn_parse_next(x);
        } else if (x->at->kind == SN_T_PRINT) {
            sn_parse_next(x);
            n = sn_parse_make(x, SN_N_PRINT, sn_parse_tuple(x, false), NULL);
            if (!sn_parse_failed(x) && x->at->kind != SN_T_PRINT_END)
                sn_parse_fail(x, "want }} here");
            sn_parse_next(x);
        } else {
            sn_parse_next(x);
            for (int i = 0; ends && ends[i]; i++)
                if (sn_parse_is_word(x, ends[i])) {
                    x->depth--;
                    return first;
                }
            n = statement(x);
        }
        if (sn_parse_failed(x) || !n)
            break;
        *last = n;
        last = &n->next;
    }
    x->depth--;
    return first;
}

/* --- all -------------------------------------------------------------------------------------- */

/* As Jinja reads a file: one kind of line ends, and none at the end. */
static char *clean(struct sn_pool *p, const char *text, size_t *len)
{
    char *out = sn_pool_get(p, *len + 1);
    size_t n = 0;
    for (size_t i = 0; out && i < *len; i++) {
        bool both = text[i] == '\r' && i + 1 < *len && text[i + 1] == '\n';
        out[n++] = text[i] == '\r' ? '\n' : text[i];
        i += both;
    }
    *len = n > 0 && out[n - 1] == '\n' ? n - 1 : n;
    return out;
}

static void parse(struct sn_template *t, const char *text, size_t len)
{
    struct sn_template_tokens tokens = {0};
    struct sn_parser x = {.t = t};
    char *copy = NULL;
    if (memchr(text, 0, len) || sn_utf8_check(text, len) != len)
        sn_pool_fail(&t->pool, SN_EINPUT, "is no text of valid UTF-8");
    else
        copy = clean(&t->pool, text, &len);
    if (copy)
        sn_template_lex(&t->pool, copy, len, &tokens);
    x.at = tokens.list;
    if (!t->pool.failed && tokens.n > 0)
        t->body = body(&x, NULL);
    sn_free(tokens.list);
}

enum sn_status sn_template_parse(struct sn_template **out, const char *text, size_t len,
                                 const char *name, struct sn_err *err)
{
    struct sn_template *t = sn_alloc(sizeof(*t));
    struct sn_err why = {0};
    if (t)
        t->name = sn_strdup(name);
    if (!t || !t->name) {
        sn_template_destroy(t);
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a template", name);
    }
    t->steps = (int64_t)1 << 26;
    t->pool.limit = (size_t)256 << 20;
    t->pool.err = &why;
    parse(t, text, len);
    t->pool.err = NULL;
    if (!t->pool.failed) {
        *out = t;
        return SN_OK;
    }
    sn_template_destroy(t);
    return sn_fail(err, why.status, "%s: %s", name, why.text);
}

void sn_template_destroy(struct sn_template *t)
{
    if (!t)
        return;
    sn_pool_fini(&t->pool);
    sn_free(t->name);
    sn_free(t);
}

bool sn_template_has_marks(const struct sn_template *t)
{
    return t->has_marks;
}

void sn_template_limit(struct sn_template *t, int64_t steps)
{
    t->steps = steps;
}
