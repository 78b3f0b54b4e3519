/*
 * run.h - a rendering under way; for the files of lib/chat that run a template.
 */
#ifndef SN_CHAT_RUN_H
#define SN_CHAT_RUN_H

#include "lib/chat/syntax.h"

struct sn_names;

struct sn_rendering {
    const struct sn_template *t;
    struct sn_pool *pool;
    struct sn_chat_value variables;
    struct sn_bytes *out;
    bool is_inner; /* out is of a macro or a block that is set */
    struct sn_text_spans *marks;
    int marking; /* how many {% generation %} are open */
    struct sn_names *scope;
    enum { SN_GO, SN_BREAK, SN_CONTINUE } jump;
    int depth, line;
    int64_t steps;
};
void sn_run_fail(struct sn_rendering *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

struct sn_loop {
    const struct sn_items *items;
    size_t at;
};
enum sn_method_kind { SN_M_BUILTIN, SN_M_BOUND, SN_M_MACRO };
struct sn_method {
    enum sn_method_kind kind;
    const char *name;
    size_t len;
    struct sn_chat_value self;        /* BOUND */
    const struct sn_chat_node *macro; /* MACRO */
    struct sn_names *scope;           /* where it was defined */
};
struct sn_arguments {
    struct sn_chat_value list, named; /* LIST, MAP */
};
/* Argument i, or the one of this name; `otherwise` where there is neither. */
struct sn_chat_value sn_argument(const struct sn_arguments *a, size_t i, const char *name,
                                 struct sn_chat_value otherwise);

void sn_run_body(struct sn_rendering *r, const struct sn_chat_node *first);
void sn_scope_open(struct sn_rendering *r, struct sn_names *up);
void sn_scope_set(struct sn_rendering *r, const char *name, size_t len, struct sn_chat_value v);
bool sn_scope_find(const struct sn_rendering *r, const char *name, size_t len,
                   struct sn_chat_value *out);
/* A body's text, with an output of its own, in a scope that the caller opened. */
struct sn_chat_value sn_run_inner(struct sn_rendering *r, const struct sn_chat_node *body);

struct sn_chat_value sn_eval(struct sn_rendering *r, const struct sn_chat_node *n);
struct sn_chat_value sn_eval_member(struct sn_rendering *r, struct sn_chat_value of,
                                    const char *name, size_t len);
struct sn_chat_value sn_eval_item(struct sn_rendering *r, struct sn_chat_value of,
                                  struct sn_chat_value key);
bool sn_eval_in(struct sn_rendering *r, struct sn_chat_value a, struct sn_chat_value b);
/* The items that a loop passes: a list's, a map's keys, a text's characters. */
struct sn_chat_value sn_eval_items(struct sn_rendering *r, struct sn_chat_value of);

struct sn_chat_value sn_filter(struct sn_rendering *r, const char *name, size_t len,
                               struct sn_chat_value v, const struct sn_arguments *a);
bool sn_test(struct sn_rendering *r, const char *name, size_t len, struct sn_chat_value v,
             const struct sn_arguments *a);
/* Does a text (or a map that is no namespace) have a method of this name, in Python? */
bool sn_method_known(enum sn_chat_value_kind kind, const char *name, size_t len);
struct sn_chat_value sn_method_call(struct sn_rendering *r, const struct sn_method *m,
                                    const struct sn_arguments *a);
/* Texts, as methods and filters of a name have them. */
struct sn_chat_value sn_text_strip(struct sn_rendering *r, struct sn_chat_value v,
                                   struct sn_chat_value chars, bool left, bool right);
struct sn_chat_value sn_text_case(struct sn_rendering *r, struct sn_chat_value v, const char *how);
struct sn_chat_value sn_text_replace(struct sn_rendering *r, struct sn_chat_value v,
                                     struct sn_chat_value from, struct sn_chat_value to,
                                     struct sn_chat_value count);
struct sn_chat_value sn_text_join(struct sn_rendering *r, struct sn_chat_value by,
                                  struct sn_chat_value list);
/* str() of a value; texts that `safe` gave are refused, since what is added to them is escaped. */
struct sn_chat_value sn_text_of(struct sn_rendering *r, struct sn_chat_value v);
/* A finished buffer as a text of the pool; the buffer goes. */
struct sn_chat_value sn_text_take(struct sn_rendering *r, struct sn_bytes *b);

#endif
