/*
 * yaml.h - YAML text as a small tree that remembers where everything was written.
 *
 * Only what a run file needs: mappings, lists and one-line scalars. Anchors, aliases, tags, a
 * second document and control characters are refused, as are texts that are too large or too deep.
 * It knows nothing of keys and types.
 */
#ifndef SN_YAML_H
#define SN_YAML_H

#include "lib/base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

enum { SN_YAML_MAX_BYTES = 1 << 20, SN_YAML_MAX_NODES = 4096, SN_YAML_MAX_DEPTH = 16 };

enum sn_yaml_kind { SN_YAML_SCALAR, SN_YAML_LIST, SN_YAML_MAP };

struct sn_yaml_node {
    enum sn_yaml_kind kind;
    bool quoted;      /* a scalar in quotes: text, never a number or null */
    const char *file; /* the document's path; borrowed from it */
    int line, col;    /* of the value, from 1; line 0: not known */
    char *key;        /* NULL for the root and in lists */
    int key_line, key_col;
    char *text;                        /* of a scalar */
    struct sn_yaml_node *first, *last; /* children of a map or list, in order */
    struct sn_yaml_node *next, *parent;
    struct sn_yaml_node *older; /* the document's list of all its nodes */
};

struct sn_yaml_doc {
    char *path;
    struct sn_yaml_node *root; /* NULL: an empty document */
    struct sn_yaml_node *newest;
    int n_nodes;
    struct sn_yaml_doc *next; /* for the owner's list */
};

/* Parse one document. `path` is used in messages. Caller destroys *out. */
enum sn_status sn_yaml_parse(struct sn_yaml_doc **out, const char *text, size_t len,
                             const char *path, struct sn_err *err);
void sn_yaml_destroy(struct sn_yaml_doc *doc); /* NULL is allowed */

/* Build a document by hand: an empty one, then its nodes (parent NULL: the root). The node is
 * owned by the document; NULL when there is no memory. */
enum sn_status sn_yaml_create(struct sn_yaml_doc **out, const char *path, struct sn_err *err);
struct sn_yaml_node *sn_yaml_add(struct sn_yaml_doc *doc, struct sn_yaml_node *parent,
                                 enum sn_yaml_kind kind, const char *key, const char *text);

struct sn_yaml_node *sn_yaml_find(const struct sn_yaml_node *map, const char *key);
bool sn_yaml_is_null(const struct sn_yaml_node *n);

/* SN_EINPUT with "FILE:LINE:COL: " of the value or of the key before the sentence. */
enum sn_status sn_yaml_fail(const struct sn_yaml_node *n, struct sn_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum sn_status sn_yaml_fail_key(const struct sn_yaml_node *n, struct sn_err *err, const char *fmt,
                                ...) __attribute__((format(printf, 3, 4)));
/* The same for any place; line 0 leaves the position out. */
enum sn_status sn_yaml_vfail(const char *file, int line, int col, struct sn_err *err,
                             const char *fmt, va_list ap) __attribute__((format(printf, 5, 0)));

/* At most 40 characters of text for a message, cut between characters; returns buf. */
enum { SN_CLIP_SIZE = 48 };
const char *sn_clip(char buf[SN_CLIP_SIZE], const char *text);

#endif
