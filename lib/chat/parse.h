/*
 * parse.h - a parser under way; for parse.c (statements) and parse_expression.c.
 */
#ifndef SN_CHAT_PARSE_H
#define SN_CHAT_PARSE_H

#include "lib/chat/syntax.h"

struct sn_parser {
    struct sn_template *t;
    const struct sn_template_token *at;
    int depth, loops;
};

bool sn_parse_failed(const struct sn_parser *x);
void sn_parse_fail(struct sn_parser *x, const char *what); /* at the current token */
bool sn_parse_is_sign(const struct sn_parser *x, const char *text);
bool sn_parse_is_word(const struct sn_parser *x, const char *text);
void sn_parse_next(struct sn_parser *x);
/* The current token is this one, and goes. */
bool sn_parse_sign(struct sn_parser *x, const char *text);
bool sn_parse_word(struct sn_parser *x, const char *text);
void sn_parse_want(struct sn_parser *x, const char *sign);
/* NULL: no memory, and the work has failed. */
struct sn_chat_node *sn_parse_make(struct sn_parser *x, enum sn_chat_node_kind kind,
                                   struct sn_chat_node *a, struct sn_chat_node *b);
/* With the name that the current token is. */
struct sn_chat_node *sn_parse_named(struct sn_parser *x, enum sn_chat_node_kind kind,
                                    struct sn_chat_node *a);
/* One level deeper; false: too deep. */
bool sn_parse_deeper(struct sn_parser *x);

struct sn_chat_node *sn_parse_expression(struct sn_parser *x);
/* An expression, or several with commas: a tuple. */
struct sn_chat_node *sn_parse_tuple(struct sn_parser *x, bool without_if);

#endif
