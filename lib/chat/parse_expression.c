/*
 * parse_expression.c - expressions in a tree, in the grammar of Jinja 3.1: filters and tests bind closer
 * than any operator, ~ between + and *.
 */
#include "lib/chat/parse.h"

static struct sn_chat_node *unary(struct sn_parser *x, bool with_filters);

/* Expressions between commas, up to a closing sign, which is taken. */
static struct sn_chat_node *list_of(struct sn_parser *x, const char *close, bool pairs)
{
    struct sn_chat_node *first = NULL, **last = &first;
    while (!sn_parse_failed(x) && !sn_parse_is_sign(x, close)) {
        struct sn_chat_node *n = sn_parse_expression(x);
        if (!n)
            break;
        *last = n;
        last = &n->next;
        if (pairs) {
            sn_parse_want(x, ":");
            *last = sn_parse_expression(x);
            if (!*last)
                break;
            last = &(*last)->next;
        }
        if (!sn_parse_sign(x, ","))
            break;
    }
    sn_parse_want(x, close);
    return first;
}

static struct sn_chat_node *arguments(struct sn_parser *x)
{
    struct sn_chat_node *first = NULL, **last = &first;
    while (!sn_parse_failed(x) && !sn_parse_is_sign(x, ")")) {
        struct sn_chat_node *n = sn_parse_make(x, SN_N_ARGUMENT, NULL, NULL);
        if (sn_parse_is_sign(x, "*") || sn_parse_is_sign(x, "**"))
            sn_parse_fail(x, "arguments of a list (*, **) are not done");
        if (n && x->at->kind == SN_T_NAME && x->at[1].kind == SN_T_SIGN && x->at[1].len == 1 &&
            *x->at[1].p == '=') {
            n->p = x->at->p;
            n->len = x->at->len;
            sn_parse_next(x);
            sn_parse_next(x);
        }
        if (n)
            n->a = sn_parse_expression(x);
        if (sn_parse_failed(x))
            break;
        *last = n;
        last = &n->next;
        if (!sn_parse_sign(x, ","))
            break;
    }
    sn_parse_want(x, ")");
    return first;
}

/* Behind an opening parenthesis. */
static struct sn_chat_node *with_arguments(struct sn_parser *x, struct sn_chat_node *n)
{
    struct sn_chat_node *list = arguments(x);
    if (n)
        n->b = list;
    return n;
}

/* A parenthesis: a tuple, if a comma is in it. */
static struct sn_chat_node *parenthesis(struct sn_parser *x)
{
    if (sn_parse_sign(x, ")"))
        return sn_parse_make(x, SN_N_TUPLE, NULL, NULL);
    struct sn_chat_node *n = sn_parse_expression(x);
    if (sn_parse_failed(x) || sn_parse_sign(x, ")"))
        return n;
    sn_parse_want(x, ",");
    if (sn_parse_failed(x))
        return NULL;
    n->next = list_of(x, ")", false);
    return sn_parse_make(x, SN_N_TUPLE, n, NULL);
}

static struct sn_chat_node *texts(struct sn_parser *x)
{
    struct sn_chat_node *n = sn_parse_make(x, SN_N_VALUE, NULL, NULL);
    size_t len = 0;
    const struct sn_template_token *from = x->at;
    for (; x->at->kind == SN_T_TEXT; sn_parse_next(x))
        len += x->at->len;
    char *text = sn_pool_get(&x->t->pool, len + 1);
    for (char *to = text; text && from < x->at; to += from->len, from++)
        if (from->len > 0)
            memcpy(to, from->p, from->len);
    if (n && text)
        n->value = sn_value_text(text, len);
    return n;
}

static struct sn_chat_node *word(struct sn_parser *x)
{
    static const char *const constants[] = {"true", "True", "false", "False", "none", "None"};
    struct sn_chat_node *n = sn_parse_make(x, SN_N_VALUE, NULL, NULL);
    for (size_t i = 0; n && i < 6; i++)
        if (sn_parse_word(x, constants[i])) {
            n->value = i < 4 ? sn_value_bool(i < 2) : sn_value_none();
            return n;
        }
    return sn_parse_named(x, SN_N_NAME, NULL);
}

static struct sn_chat_node *primary(struct sn_parser *x)
{
    struct sn_chat_node *n;
    if (sn_parse_failed(x))
        return NULL;
    switch (x->at->kind) {
    case SN_T_NAME:
        return word(x);
    case SN_T_TEXT:
        return texts(x);
    case SN_T_INT:
    case SN_T_REAL:
        n = sn_parse_make(x, SN_N_VALUE, NULL, NULL);
        if (n)
            n->value = x->at->number;
        sn_parse_next(x);
        return n;
    default:
        break;
    }
    if (sn_parse_sign(x, "("))
        return parenthesis(x);
    if (sn_parse_sign(x, "["))
        return sn_parse_make(x, SN_N_LIST, list_of(x, "]", false), NULL);
    if (sn_parse_sign(x, "{"))
        return sn_parse_make(x, SN_N_MAP, list_of(x, "}", true), NULL);
    sn_parse_fail(x, "an expression is missing here");
    return NULL;
}

static struct sn_chat_node *subscript(struct sn_parser *x, struct sn_chat_node *of)
{
    struct sn_chat_node *n = sn_parse_make(x, SN_N_ITEM, of, NULL), *parts[3] = {NULL};
    int colons = 0;
    while (!sn_parse_failed(x) && !sn_parse_is_sign(x, "]")) {
        if (sn_parse_sign(x, ":")) {
            if (++colons > 2)
                sn_parse_fail(x, "a slice has three parts");
            continue;
        }
        if (parts[colons])
            sn_parse_fail(x, "want ']' here");
        parts[colons] = sn_parse_expression(x);
    }
    sn_parse_want(x, "]");
    if (sn_parse_failed(x))
        return NULL;
    if (colons == 0 && !parts[0])
        sn_parse_fail(x, "an index is missing here");
    n->kind = colons > 0 ? SN_N_SLICE : SN_N_ITEM;
    n->b = parts[0];
    n->c = parts[1];
    n->d = parts[2];
    return n;
}

static struct sn_chat_node *postfix(struct sn_parser *x, struct sn_chat_node *n)
{
    while (!sn_parse_failed(x)) {
        if (sn_parse_sign(x, ".")) {
            if (x->at->kind == SN_T_INT) {
                n = sn_parse_make(x, SN_N_ITEM, n, sn_parse_make(x, SN_N_VALUE, NULL, NULL));
                if (n && n->b)
                    n->b->value = x->at->number;
                sn_parse_next(x);
                continue;
            }
            n = sn_parse_named(x, SN_N_MEMBER, n);
        } else if (sn_parse_sign(x, "[")) {
            n = subscript(x, n);
        } else if (sn_parse_sign(x, "(")) {
            n = with_arguments(x, sn_parse_make(x, SN_N_CALL, n, NULL));
        } else {
            break;
        }
    }
    return n;
}

/* Does an argument without parentheses follow a test's name? */
static bool has_operand(const struct sn_parser *x)
{
    enum sn_token_kind kind = x->at->kind;
    if (kind == SN_T_NAME)
        return !sn_parse_is_word(x, "else") && !sn_parse_is_word(x, "or") &&
               !sn_parse_is_word(x, "and") && !sn_parse_is_word(x, "is") &&
               !sn_parse_is_word(x, "if") && !sn_parse_is_word(x, "in") &&
               !sn_parse_is_word(x, "not");
    return kind == SN_T_TEXT || kind == SN_T_INT || kind == SN_T_REAL || sn_parse_is_sign(x, "[") ||
           sn_parse_is_sign(x, "{");
}

static struct sn_chat_node *test(struct sn_parser *x, struct sn_chat_node *of)
{
    bool is_not = sn_parse_word(x, "not");
    struct sn_chat_node *n = sn_parse_named(x, SN_N_TEST, of);
    if (sn_parse_sign(x, "(")) {
        n = with_arguments(x, n);
    } else if (!sn_parse_failed(x) && has_operand(x)) {
        n->b = sn_parse_make(x, SN_N_ARGUMENT, NULL, NULL);
        struct sn_chat_node *operand = postfix(x, primary(x));
        if (n->b)
            n->b->a = operand;
    }
    return is_not ? sn_parse_make(x, SN_N_NOT, n, NULL) : n;
}

static struct sn_chat_node *filters(struct sn_parser *x, struct sn_chat_node *n)
{
    while (!sn_parse_failed(x)) {
        if (sn_parse_sign(x, "|")) {
            n = sn_parse_named(x, SN_N_FILTER, n);
            if (!sn_parse_failed(x) && sn_parse_is_sign(x, "."))
                sn_parse_fail(x, "filters with a dot are not done");
            if (sn_parse_sign(x, "("))
                n = with_arguments(x, n);
        } else if (sn_parse_word(x, "is")) {
            n = test(x, n);
        } else if (sn_parse_sign(x, "(")) {
            n = with_arguments(x, sn_parse_make(x, SN_N_CALL, n, NULL));
        } else {
            break;
        }
    }
    return n;
}

static struct sn_chat_node *unary(struct sn_parser *x, bool with_filters)
{
    struct sn_chat_node *n;
    if (!sn_parse_deeper(x))
        return NULL;
    if (sn_parse_sign(x, "-"))
        n = sn_parse_make(x, SN_N_MINUS, unary(x, false), NULL);
    else if (sn_parse_sign(x, "+"))
        n = sn_parse_make(x, SN_N_PLUS, unary(x, false), NULL);
    else
        n = primary(x);
    n = postfix(x, n);
    if (with_filters)
        n = filters(x, n);
    x->depth--;
    if (!sn_parse_failed(x) && sn_parse_is_sign(x, "**"))
        sn_parse_fail(x, "'**' is not done");
    return n;
}

/* Signs of one rank, left to right. */
static struct sn_chat_node *binary(struct sn_parser *x, int rank)
{
    static const char *const signs[3][4] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}};
    struct sn_chat_node *n = rank == 2 ? unary(x, true) : binary(x, rank + 1);
    for (bool found = true; found && !sn_parse_failed(x);) {
        found = false;
        for (int i = 0; i < 4 && signs[rank][i] && !found; i++)
            found = sn_parse_is_sign(x, signs[rank][i]);
        if (!found)
            break;
        n = sn_parse_named(x, SN_N_BINARY, n);
        struct sn_chat_node *right = rank == 2 ? unary(x, true) : binary(x, rank + 1);
        if (n)
            n->b = right;
    }
    return n;
}

static bool is_comparison(const struct sn_parser *x)
{
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
    for (int i = 0; i < 6; i++)
        if (sn_parse_is_sign(x, signs[i]))
            return true;
    return sn_parse_is_word(x, "in") || (sn_parse_is_word(x, "not") && x->at[1].kind == SN_T_NAME &&
                                         x->at[1].len == 2 && memcmp(x->at[1].p, "in", 2) == 0);
}

static struct sn_chat_node *comparison(struct sn_parser *x)
{
    struct sn_chat_node *n = binary(x, 0), *all = NULL, **last = NULL;
    while (!sn_parse_failed(x) && is_comparison(x)) {
        if (!all) {
            all = sn_parse_make(x, SN_N_COMPARE, n, NULL);
            if (!all)
                return NULL;
            last = &all->b;
        }
        bool is_not = sn_parse_word(x, "not");
        struct sn_chat_node *one = sn_parse_named(x, SN_N_COMPARE, NULL);
        if (!one)
            return NULL;
        if (is_not)
            one->p = "not", one->len = 3;
        one->a = binary(x, 0);
        *last = one;
        last = &one->next;
    }
    return all ? all : n;
}

static struct sn_chat_node *negation(struct sn_parser *x)
{
    struct sn_chat_node *n;
    if (!sn_parse_deeper(x))
        return NULL;
    if (sn_parse_word(x, "not"))
        n = sn_parse_make(x, SN_N_NOT, negation(x), NULL);
    else
        n = comparison(x);
    x->depth--;
    return n;
}

static struct sn_chat_node *conjunction(struct sn_parser *x)
{
    struct sn_chat_node *n = negation(x);
    while (sn_parse_word(x, "and"))
        n = sn_parse_make(x, SN_N_AND, n, negation(x));
    return n;
}

static struct sn_chat_node *disjunction(struct sn_parser *x)
{
    struct sn_chat_node *n = conjunction(x);
    while (sn_parse_word(x, "or"))
        n = sn_parse_make(x, SN_N_OR, n, conjunction(x));
    return n;
}

struct sn_chat_node *sn_parse_expression(struct sn_parser *x)
{
    struct sn_chat_node *n = NULL;
    if (!sn_parse_deeper(x))
        return NULL;
    n = disjunction(x);
    while (sn_parse_word(x, "if")) {
        n = sn_parse_make(x, SN_N_CHOICE, NULL, n);
        struct sn_chat_node *a = disjunction(x),
                            *c = sn_parse_word(x, "else") ? sn_parse_expression(x) : NULL;
        if (n) {
            n->a = a;
            n->c = c;
        }
    }
    x->depth--;
    return n;
}

struct sn_chat_node *sn_parse_tuple(struct sn_parser *x, bool without_if)
{
    struct sn_chat_node *n = without_if ? disjunction(x) : sn_parse_expression(x);
    if (sn_parse_failed(x) || !sn_parse_is_sign(x, ","))
        return n;
    struct sn_chat_node *all = sn_parse_make(x, SN_N_TUPLE, n, NULL);
    while (sn_parse_sign(x, ",") && x->at->kind != SN_T_BLOCK_END &&
           x->at->kind != SN_T_PRINT_END) {
        n->next = without_if ? disjunction(x) : sn_parse_expression(x);
        if (sn_parse_failed(x))
            break;
        n = n->next;
    }
    return all;
}
