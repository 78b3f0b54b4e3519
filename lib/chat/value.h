/*
 * value.h - what expressions of a template give: Python's values, as far as JSON has them.
 *
 * All memory is of one rendering (struct sn_pool) and goes at once. Values never change but for
 * namespaces, so they are copied by their heads.
 */
#ifndef SN_CHAT_VALUE_H
#define SN_CHAT_VALUE_H

#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/token/bytes.h"

struct sn_pool {
    struct sn_pool_block *blocks;
    size_t used, limit; /* bytes of all blocks; 0: no limit */
    struct sn_err *err; /* who failed first says why; nothing is overwritten */
    bool failed;
};
/* Zeroed; NULL: none, which p->err says. */
void *sn_pool_get(struct sn_pool *p, size_t bytes);
void sn_pool_fini(struct sn_pool *p);
/* The work has failed: with the first sentence alone. */
void sn_pool_fail(struct sn_pool *p, enum sn_status st, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

enum sn_chat_value_kind {
    SN_V_UNDEFINED,
    SN_V_NONE,
    SN_V_BOOL,
    SN_V_INT,
    SN_V_REAL,
    SN_V_TEXT,
    SN_V_LIST,
    SN_V_MAP,
    SN_V_LOOP,  /* the variable `loop` */
    SN_V_METHOD /* what can be called */
};
struct sn_chat_value {
    enum sn_chat_value_kind kind;
    bool is_safe;  /* TEXT: Markup, which `safe` gives */
    bool is_space; /* MAP: a namespace */
    bool is_tuple; /* LIST */
    size_t len;    /* TEXT: bytes of UTF-8 */
    union {
        const char *p;
        int64_t i; /* INT, BOOL */
        double x;
        struct sn_items *items;   /* LIST, MAP */
        struct sn_loop *loop;     /* LOOP */
        struct sn_method *method; /* METHOD */
    };
};
struct sn_items {
    struct sn_chat_value *keys, *v; /* keys: of a map */
    size_t n, cap;
};

struct sn_chat_value sn_value_text(const char *p, size_t len); /* borrowed */
struct sn_chat_value sn_value_int(int64_t i);
struct sn_chat_value sn_value_bool(bool b);
struct sn_chat_value sn_value_none(void);
/* Of these bytes, copied. */
struct sn_chat_value sn_value_copy(struct sn_pool *p, const char *text, size_t len);
struct sn_chat_value sn_value_list(struct sn_pool *p);
struct sn_chat_value sn_value_map(struct sn_pool *p);
void sn_value_push(struct sn_pool *p, struct sn_chat_value list, struct sn_chat_value v);
/* A member anew, or in place of the one of an equal key. */
void sn_value_put(struct sn_pool *p, struct sn_chat_value map, struct sn_chat_value key,
                  struct sn_chat_value v);
/* A member; false: there is none. */
bool sn_value_find(struct sn_chat_value map, struct sn_chat_value key, struct sn_chat_value *out);
bool sn_value_member(struct sn_chat_value map, const char *name, struct sn_chat_value *out);
bool sn_value_is(struct sn_chat_value v, const char *text);

const char *sn_value_kind_name(struct sn_chat_value v); /* as Python calls it */
bool sn_value_truth(struct sn_chat_value v);
bool sn_value_equal(struct sn_chat_value a, struct sn_chat_value b);
/* Of two numbers, texts or lists: below 0, 0, above 0. */
int sn_value_compare(struct sn_pool *p, struct sn_chat_value a, struct sn_chat_value b);
bool sn_value_number(struct sn_chat_value v, double *x);
/* Characters of a text, items of a list or map; -1: it has no length. */
int64_t sn_value_length(struct sn_chat_value v);
/* Bytes of the first n characters. */
size_t sn_value_bytes(struct sn_chat_value text, int64_t n);

/* Append what str() gives. */
void sn_value_print(struct sn_pool *p, struct sn_chat_value v, struct sn_bytes *out);
void sn_value_append(struct sn_pool *p, struct sn_bytes *out, const char *text, size_t len);

/* A value of JSON, as Python's json.loads has it. */
struct sn_chat_value sn_value_of_json(struct sn_pool *p, struct sn_json v);
/* json.dumps: indent -1 is one line; separators NULL are Python's. */
struct sn_json_form {
    int64_t indent;
    bool ascii, sorted;
    struct sn_chat_value item, key; /* separators; of kind UNDEFINED: Python's */
};
void sn_value_to_json(struct sn_pool *p, struct sn_chat_value v, const struct sn_json_form *form,
                      struct sn_bytes *out);

#endif
