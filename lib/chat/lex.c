/*
 * lex.c - a template in tokens, as Jinja's lexer with trim_blocks and lstrip_blocks: the first line
 * end behind a block goes, and so do blanks before one that begins its line.
 */
#include "lib/chat/syntax.h"

#include "lib/base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

struct lexer {
    struct sn_pool *pool;
    struct sn_template_tokens *out;
    const char *text, *at, *end;
    int line;
    bool line_starts; /* the last tag ended with a line end, or there was none */
};

static void push(struct lexer *x, enum sn_token_kind kind, const char *p, size_t len)
{
    struct sn_template_tokens *t = x->out;
    if (x->pool->failed)
        return;
    if (!sn_grow((void **)&t->list, t->n, &t->cap, sizeof(*t->list))) {
        sn_pool_fail(x->pool, SN_ENOMEM, "no memory for a template");
        return;
    }
    t->list[t->n++] = (struct sn_template_token){kind, x->line, p, len, {0}};
}

static void fail(struct lexer *x, const char *what)
{
    sn_pool_fail(x->pool, SN_EINPUT, "line %d: %s", x->line, what);
}

static void go(struct lexer *x, const char *to)
{
    for (; x->at < to; x->at++)
        x->line += *x->at == '\n';
}

static bool begins(const struct lexer *x, const char *what)
{
    size_t n = strlen(what);
    return (size_t)(x->end - x->at) >= n && memcmp(x->at, what, n) == 0;
}

/* --- names, numbers, texts -------------------------------------------------------------------- */

static bool is_name(char c, bool first)
{
    return isalpha((unsigned char)c) || c == '_' || (!first && isdigit((unsigned char)c));
}

static void lex_number(struct lexer *x)
{
    char text[40];
    size_t n = 0;
    const char *p = x->at;
    bool is_real = false;
    while (p < x->end && n + 1 < sizeof(text) && (isdigit((unsigned char)*p) || *p == '_')) {
        if (*p != '_')
            text[n++] = *p;
        p++;
    }
    /* a dot behind digits is a member's (x.0.y), unless a digit follows */
    if (p + 1 < x->end && *p == '.' && isdigit((unsigned char)p[1])) {
        is_real = true;
        do
            text[n++] = *p++;
        while (p < x->end && n + 1 < sizeof(text) && isdigit((unsigned char)*p));
    }
    text[n] = 0;
    if (p < x->end && (is_name(*p, false) || n + 1 == sizeof(text))) {
        fail(x, "a number of a form that is not done; want decimal digits");
        return;
    }
    push(x, is_real ? SN_T_REAL : SN_T_INT, x->at, (size_t)(p - x->at));
    if (!x->pool->failed) {
        struct sn_chat_value *v = &x->out->list[x->out->n - 1].number;
        *v = sn_value_int(strtoll(text, NULL, 10));
        if (is_real)
            *v = (struct sn_chat_value){.kind = SN_V_REAL, .x = strtod(text, NULL)};
    }
    go(x, p);
}

/* The character of \xHH, \uHHHH, \UHHHHHHHH or \OOO; 0 digits: none. */
static size_t escape_number(const char *p, const char *end, uint32_t *c)
{
    int base = *p >= '0' && *p <= '7' ? 8 : 16;
    size_t most = base == 8 ? 3 : *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    const char *from = base == 8 ? p : p + 1, *q = from;
    char digits[9] = "";
    while (q < end && (size_t)(q - from) < most &&
           (base == 16 ? isxdigit((unsigned char)*q) : *q >= '0' && *q <= '7')) {
        digits[q - from] = *q;
        q++;
    }
    if (most == 0 || (base == 16 && (size_t)(q - from) != most))
        return 0;
    *c = (uint32_t)strtoul(digits, NULL, base);
    return (size_t)(q - p);
}

static size_t unescape_one(struct lexer *x, const char *p, const char *end, char *out, size_t *used)
{
    static const char short_forms[] = "n\nt\tr\r\\\\''\"\"a\ab\bf\fv\v";
    uint32_t c;
    size_t n;
    for (const char *s = short_forms; *s; s += 2)
        if (*s == *p) {
            *out = s[1];
            *used = 1;
            return 1;
        }
    if (*p == '\n') {
        *used = 1;
        return 0;
    }
    n = escape_number(p, end, &c);
    if (n == 0 && strchr("xuUN", *p))
        fail(x, "an escape of a form that is not done; want \\xHH, \\uHHHH or the character");
    if (n > 0 && (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)))
        fail(x, "an escape that is no character");
    if (n > 0 && !x->pool->failed) {
        *used = n;
        return sn_utf8_put(out, c);
    }
    out[0] = '\\'; /* what means nothing stays */
    *used = 0;
    return 1;
}

static void lex_text(struct lexer *x)
{
    const char *p = x->at + 1;
    while (p < x->end && *p != *x->at)
        p += *p == '\\' && p + 1 < x->end ? 2 : 1;
    if (p >= x->end) {
        fail(x, "a text in quotes has no end");
        return;
    }
    char *out = sn_pool_get(x->pool, (size_t)(p - x->at) + 4);
    size_t n = 0, used;
    for (const char *q = x->at + 1; out && q < p && !x->pool->failed;) {
        if (*q != '\\') {
            out[n++] = *q++;
            continue;
        }
        q++;
        n += unescape_one(x, q, p, out + n, &used);
        q += used;
    }
    push(x, SN_T_TEXT, out, n);
    go(x, p + 1);
}

/* --- tags ------------------------------------------------------------------------------------- */

static size_t sign_length(const struct lexer *x)
{
    static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
    for (size_t i = 0; i < sizeof(two) / sizeof(*two); i++)
        if (begins(x, two[i]))
            return 2;
    return strchr("+-*/%~<>=.,:|()[]{}", *x->at) ? 1 : 0;
}

static void lex_one(struct lexer *x)
{
    const char *p = x->at;
    size_t n;
    if (isspace((unsigned char)*p)) {
        go(x, p + 1);
    } else if (is_name(*p, true)) {
        while (p < x->end && is_name(*p, false))
            p++;
        push(x, SN_T_NAME, x->at, (size_t)(p - x->at));
        go(x, p);
    } else if (isdigit((unsigned char)*p)) {
        lex_number(x);
    } else if (*p == '\'' || *p == '"') {
        lex_text(x);
    } else if ((n = sign_length(x)) > 0) {
        push(x, SN_T_SIGN, p, n);
        go(x, p + n);
    } else {
        fail(x, "a character in a tag that Jinja does not know");
    }
}

/* Behind the end of a tag: all blanks go, or of a block the line end. */
static void skip_behind(struct lexer *x, bool all, bool line_end)
{
    const char *p = x->at;
    while (all && p < x->end && isspace((unsigned char)*p))
        p++;
    if (!all && line_end && p < x->end && *p == '\n')
        p++;
    x->line_starts = p > x->text && p[-1] == '\n';
    go(x, p);
}

/* From the inside of a tag to its end, %} or }}. */
static void lex_tag(struct lexer *x, bool is_block)
{
    const char *end = is_block ? "%}" : "}}";
    char open[SN_TEMPLATE_DEEP];
    int depth = 0;
    while (x->at < x->end && !x->pool->failed) {
        bool minus = *x->at == '-', plus = *x->at == '+' && is_block;
        x->at += minus || plus;
        bool ends = depth == 0 && begins(x, end);
        if (ends) {
            go(x, x->at + 2);
            push(x, is_block ? SN_T_BLOCK_END : SN_T_PRINT_END, x->at, 0);
            skip_behind(x, minus, is_block && !plus);
            return;
        }
        x->at -= minus || plus;
        char c = *x->at;
        if (strchr("([{", c) && depth + 1 < SN_TEMPLATE_DEEP) {
            open[depth++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (strchr("([{", c)) {
            fail(x, "brackets are nested too deep");
        } else if (strchr(")]}", c) && (depth == 0 || open[--depth] != c)) {
            fail(x, "a bracket is closed that was not opened");
        }
        lex_one(x);
    }
    fail(x, is_block ? "a block has no end; want %}" : "a print has no end; want }}");
}

static void lex_comment(struct lexer *x)
{
    const char *p = x->at;
    p = x->end - p >= 2 ? memmem(p, (size_t)(x->end - p), "#}", 2) : NULL;
    if (!p) {
        fail(x, "a comment has no end; want #}");
        return;
    }
    bool minus = p > x->at && p[-1] == '-', plus = p > x->at && p[-1] == '+';
    go(x, p + 2);
    skip_behind(x, minus, !plus);
}

/* The next tag: where it begins; the end where there is none. */
static const char *find_tag(const struct lexer *x)
{
    const char *p = x->at;
    while ((p = memchr(p, '{', (size_t)(x->end - p)))) {
        if (p + 1 < x->end && strchr("{%#", p[1]))
            return p;
        p++;
    }
    return x->end;
}

static bool is_blank(const char *p, const char *end)
{
    while (p < end && isspace((unsigned char)*p))
        p++;
    return p == end;
}

/* The text up to a tag, of which its sign and lstrip_blocks take blanks off. */
static void push_data(struct lexer *x, const char *tag)
{
    const char *end = tag, *from = tag;
    if (tag < x->end) {
        char sign = tag + 2 < x->end ? tag[2] : 0;
        while (sign == '-' && end > x->at && isspace((unsigned char)end[-1]))
            end--;
        while (from > x->at && from[-1] != '\n')
            from--;
        if (sign != '-' && sign != '+' && tag[1] != '{' && is_blank(from, tag) &&
            (from > x->at || x->line_starts))
            end = from;
    }
    if (end > x->at)
        push(x, SN_T_DATA, x->at, (size_t)(end - x->at));
    go(x, tag);
}

void sn_template_lex(struct sn_pool *pool, const char *text, size_t len,
                     struct sn_template_tokens *out)
{
    struct lexer x = {pool, out, text, text, text + len, 1, true};
    while (x.at < x.end && !pool->failed) {
        push_data(&x, find_tag(&x));
        if (x.at == x.end)
            break;
        char kind = x.at[1];
        go(&x, x.at + 2);
        if (x.at < x.end && (*x.at == '-' || *x.at == '+'))
            go(&x, x.at + 1);
        if (kind == '#') {
            lex_comment(&x);
            continue;
        }
        push(&x, kind == '%' ? SN_T_BLOCK : SN_T_PRINT, x.at, 0);
        lex_tag(&x, kind == '%');
    }
    push(&x, SN_T_END, text + len, 0);
}
