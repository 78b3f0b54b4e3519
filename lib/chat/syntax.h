/*
 * syntax.h - a template as tokens and as a tree; for the files of lib/chat that make and run it.
 */
#ifndef SN_CHAT_SYNTAX_H
#define SN_CHAT_SYNTAX_H

#include "lib/chat/template.h"

/* --- tokens ----------------------------------------------------------------------------------- */

enum sn_token_kind {
    SN_T_END,
    SN_T_DATA,
    SN_T_BLOCK,     /* {% */
    SN_T_BLOCK_END, /* %} */
    SN_T_PRINT,     /* {{ */
    SN_T_PRINT_END,
    SN_T_NAME,
    SN_T_TEXT,
    SN_T_INT,
    SN_T_REAL,
    SN_T_SIGN /* operators and brackets */
};
struct sn_template_token {
    enum sn_token_kind kind;
    int line;
    const char *p; /* of the template, or of its pool */
    size_t len;
    struct sn_chat_value number;
};
struct sn_template_tokens {
    struct sn_template_token *list;
    int n, cap;
};
/* Cut a text, which the pool holds with a NUL behind it; tokens are freed by the caller in any case. */
void sn_template_lex(struct sn_pool *pool, const char *text, size_t len,
                     struct sn_template_tokens *out);

/* --- the tree --------------------------------------------------------------------------------- */

enum sn_chat_node_kind {
    /* statements */
    SN_N_DATA,
    SN_N_PRINT,      /* a */
    SN_N_IF,         /* a, then b, else c */
    SN_N_FOR,        /* a: targets, b: of what, c: if, d: body, e: else */
    SN_N_SET,        /* a: targets, b: value */
    SN_N_SET_BLOCK,  /* a: target, d: body */
    SN_N_MACRO,      /* text: name, a: parameters (text, a: default), d: body */
    SN_N_GENERATION, /* d */
    SN_N_BREAK,
    SN_N_CONTINUE,
    /* expressions */
    SN_N_VALUE,
    SN_N_NAME,
    SN_N_LIST,    /* a: items */
    SN_N_TUPLE,   /* a: items */
    SN_N_MAP,     /* a: key, value, key, value */
    SN_N_CHOICE,  /* b if a else c */
    SN_N_OR,      /* a, b */
    SN_N_AND,     /* a, b */
    SN_N_NOT,     /* a */
    SN_N_COMPARE, /* a, then b: each with its sign in text, and a */
    SN_N_BINARY,  /* text: sign; a, b */
    SN_N_MINUS,   /* a */
    SN_N_PLUS,    /* a */
    SN_N_MEMBER,  /* a . text */
    SN_N_ITEM,    /* a [ b ] */
    SN_N_SLICE,   /* a [ b : c : d ] */
    SN_N_CALL,    /* a ( b: arguments ) */
    SN_N_FILTER,  /* a | text ( b ) */
    SN_N_TEST,    /* a is text ( b ) */
    SN_N_ARGUMENT /* text: its name or none; a */
};
struct sn_chat_node {
    enum sn_chat_node_kind kind;
    int line;
    const char *p; /* text */
    size_t len;
    struct sn_chat_value value;
    struct sn_chat_node *a, *b, *c, *d, *e, *next;
};

struct sn_template {
    struct sn_pool pool; /* the text and the tree */
    struct sn_chat_node *body;
    char *name;
    bool has_marks;
    int64_t steps;
};

bool sn_node_is(const struct sn_chat_node *n, const char *text);

/* Which of Jinja's filters, tests and methods there are. */
enum { SN_TEMPLATE_DEEP = 100 };

#endif
