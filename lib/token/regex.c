/*
 * regex.c - the one file that knows PCRE2.
 */
#include "lib/token/regex.h"

#include "lib/base/mem.h"
#include "lib/token/bytes.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct sn_regex {
    pcre2_general_context *memory;
    pcre2_code *code;
    bool is_compiled; /* to machine code */
};

struct sn_regex_search {
    pcre2_general_context *memory;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    pcre2_match_data *data;
};

static void *take(size_t bytes, void *none)
{
    (void)none;
    return sn_alloc(bytes);
}

static void give(void *p, void *none)
{
    (void)none;
    sn_free(p);
}

/* --- translation ------------------------------------------------------------------------------ */

/* Properties, as members of a class. */
#define SPACES "\\t-\\r\\x{85}\\p{Z}"
#define WORDS  "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

struct translation {
    const char *p, *end;
    struct sn_bytes out;
    enum sn_dialect dialect;
    int depth; /* of brackets */
    bool good; /* there was memory */
    const char *refused;
};

static void put(struct translation *t, const char *text, size_t n)
{
    t->good = t->good && sn_bytes_add(&t->out, text, n);
}

/* A class of characters: bare within brackets, in brackets of its own outside of them. */
static void put_class(struct translation *t, const char *members, bool is_opposite)
{
    if (t->depth > 0 && is_opposite)
        t->refused = "the opposite of a class within brackets";
    if (t->depth == 0)
        put(t, is_opposite ? "[^" : "[", is_opposite ? 2 : 1);
    put(t, members, strlen(members));
    if (t->depth == 0)
        put(t, "]", 1);
}

static void put_escape(struct translation *t)
{
    char c = t->p + 1 < t->end ? t->p[1] : '\0';
    char low = (char)(c | 0x20);
    if (low == 's')
        put_class(t, SPACES, c == 'S');
    else if (low == 'w')
        put_class(t, t->dialect == SN_FANCY ? WORDS "\\p{Join_Control}" : WORDS, c == 'W');
    else if (c == 'd' || c == 'D')
        put(t, c == 'd' ? "\\p{Nd}" : "\\P{Nd}", 6);
    else if (c == '\0' || strchr("hHKyYgGQECNR", c))
        t->refused = c == '\0' ? "a backslash at the end" : "an escape of a rare kind";
    else
        put(t, t->p, 2);
    t->p += 2;
}

/* What follows {n,m}. */
static void after_braces(struct translation *t, const char *open)
{
    bool counts = open + 1 < t->p && open[1] >= '0' && open[1] <= '9';
    if (t->p < t->end && *t->p == '+' && counts && t->dialect == SN_ONIGURUMA)
        t->refused = "{n,m}+, which means one thing here and another there";
}

static void put_other(struct translation *t)
{
    char c = *t->p;
    if (c == '[') {
        if (t->depth > 0 && !(t->p + 1 < t->end && t->p[1] == ':'))
            t->refused = "a class within a class";
        if (t->depth > 0) { /* [:alpha:] */
            const char *close = memchr(t->p, ']', (size_t)(t->end - t->p));
            size_t n = close ? (size_t)(close + 1 - t->p) : 1;
            put(t, t->p, n);
            t->p += n;
            return;
        }
        t->depth++;
    } else if (c == ']' && t->depth > 0) {
        t->depth--;
    } else if (c == '&' && t->depth > 0 && t->p + 1 < t->end && t->p[1] == '&') {
        t->refused = "&& within brackets";
    }
    put(t, t->p++, 1);
}

static void translate(struct translation *t)
{
    const char *open = t->p;
    while (t->p < t->end && t->good && !t->refused) {
        if (*t->p == '{')
            open = t->p;
        bool closes = *t->p == '}' && t->depth == 0;
        if (*t->p == '\\')
            put_escape(t);
        else
            put_other(t);
        if (closes)
            after_braces(t, open);
    }
}

/* --- compiling -------------------------------------------------------------------------------- */

static enum sn_status compile(struct sn_regex *r, const struct translation *t, const char *shown,
                              struct sn_err *err)
{
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C |
                       (t->dialect == SN_FANCY ? PCRE2_DOLLAR_ENDONLY : PCRE2_MULTILINE);
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *how = pcre2_compile_context_create(r->memory);
    if (!how)
        return sn_fail(err, SN_ENOMEM, "pattern '%s': no memory to compile it", shown);
    (void)pcre2_set_newline(how, PCRE2_NEWLINE_LF);
    r->code = pcre2_compile((PCRE2_SPTR)t->out.p, t->out.len, options, &code, &at, how);
    pcre2_compile_context_free(how);
    if (r->code) {
        r->is_compiled = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
        return SN_OK;
    }
    PCRE2_UCHAR why[128] = "";
    (void)pcre2_get_error_message(code, why, sizeof(why));
    if (code == PCRE2_ERROR_NOMEMORY || code == 121) /* ERR21: the heap is exhausted */
        return sn_fail(err, SN_ENOMEM, "pattern '%s': no memory to compile it", shown);
    return sn_fail(err, SN_EINPUT, "pattern '%s': %s; PCRE2 does not take it", shown,
                   (const char *)why);
}

enum sn_status sn_regex_create(struct sn_regex **out, const char *pattern, size_t len,
                               enum sn_dialect dialect, struct sn_err *err)
{
    struct translation t = {.p = pattern, .end = pattern + len, .dialect = dialect, .good = true};
    char shown[128];
    size_t n = len < sizeof(shown) - 1 ? len : sizeof(shown) - 1;
    memcpy(shown, pattern, n);
    shown[n] = '\0';
    translate(&t);
    enum sn_status st = SN_OK;
    struct sn_regex *r = t.good ? sn_alloc(sizeof(*r)) : NULL;
    if (r)
        r->memory = pcre2_general_context_create(take, give, NULL);
    if (!r || !r->memory)
        st = sn_fail(err, SN_ENOMEM, "pattern '%s': no memory", shown);
    else if (t.refused)
        st = sn_fail(err, SN_EINPUT, "pattern '%s' has %s; write it without", shown, t.refused);
    else
        st = compile(r, &t, shown, err);
    sn_bytes_fini(&t.out);
    if (st == SN_OK)
        *out = r;
    else
        sn_regex_destroy(r);
    return st;
}

void sn_regex_destroy(struct sn_regex *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    pcre2_general_context_free(r->memory);
    sn_free(r);
}

/* --- searching -------------------------------------------------------------------------------- */

enum { STACK_FIRST = 64 << 10, STACK_MOST = 8 << 20 };

enum sn_status sn_regex_search_create(struct sn_regex_search **out, struct sn_err *err)
{
    struct sn_regex_search *s = sn_alloc(sizeof(*s));
    if (s)
        s->memory = pcre2_general_context_create(take, give, NULL);
    if (s && s->memory) {
        s->context = pcre2_match_context_create(s->memory);
        s->data = pcre2_match_data_create(1, s->memory);
        s->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MOST, s->memory);
    }
    if (!s || !s->context || !s->data) { /* without a stack: where there is no machine code */
        sn_regex_search_destroy(s);
        return sn_fail(err, SN_ENOMEM, "no memory to search by patterns");
    }
    if (s->stack)
        pcre2_jit_stack_assign(s->context, NULL, s->stack);
    *out = s;
    return SN_OK;
}

void sn_regex_search_destroy(struct sn_regex_search *s)
{
    if (!s)
        return;
    pcre2_jit_stack_free(s->stack);
    pcre2_match_data_free(s->data);
    pcre2_match_context_free(s->context);
    pcre2_general_context_free(s->memory);
    sn_free(s);
}

int sn_regex_find(const struct sn_regex *r, struct sn_regex_search *s, const char *text, size_t len,
                  size_t at, size_t match[2])
{
    int rc = r->is_compiled
                 ? pcre2_jit_match(r->code, (PCRE2_SPTR)text, len, at, 0, s->data, s->context)
                 : pcre2_match(r->code, (PCRE2_SPTR)text, len, at, PCRE2_NO_UTF_CHECK, s->data,
                               s->context);
    if (rc < 0)
        return rc == PCRE2_ERROR_NOMATCH ? 0 : -1;
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(s->data);
    match[0] = ends[0];
    match[1] = ends[1];
    return 1;
}
