/*
 * tree.c - the tree behind yaml.h, without libyaml: nodes, look-up and located sentences.
 */
#include "lib/config/yaml.h"

#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>

enum sn_status sn_yaml_create(struct sn_yaml_doc **out, const char *path, struct sn_err *err)
{
    struct sn_yaml_doc *doc = sn_alloc(sizeof(*doc));
    if (doc)
        doc->path = sn_strdup(path);
    if (!doc || !doc->path) {
        sn_free(doc);
        return sn_fail(err, SN_ENOMEM, "%s: no memory to read it", path);
    }
    *out = doc;
    return SN_OK;
}

void sn_yaml_destroy(struct sn_yaml_doc *doc)
{
    if (!doc)
        return;
    for (struct sn_yaml_node *n = doc->newest, *older; n; n = older) {
        older = n->older;
        sn_free(n->key);
        sn_free(n->text);
        sn_free(n);
    }
    sn_free(doc->path);
    sn_free(doc);
}

struct sn_yaml_node *sn_yaml_add(struct sn_yaml_doc *doc, struct sn_yaml_node *parent,
                                 enum sn_yaml_kind kind, const char *key, const char *text)
{
    struct sn_yaml_node *n = sn_alloc(sizeof(*n));
    if (!n)
        return NULL;
    n->kind = kind;
    n->file = doc->path;
    n->parent = parent;
    n->older = doc->newest;
    doc->newest = n; /* from here on the document frees it */
    doc->n_nodes++;
    if (key && !(n->key = sn_strdup(key)))
        return NULL;
    if (text && !(n->text = sn_strdup(text)))
        return NULL;
    if (!parent)
        doc->root = n;
    else if (parent->last)
        parent->last->next = n;
    else
        parent->first = n;
    if (parent)
        parent->last = n;
    return n;
}

struct sn_yaml_node *sn_yaml_find(const struct sn_yaml_node *map, const char *key)
{
    struct sn_yaml_node *n = map ? map->first : NULL;
    while (n && (!n->key || strcmp(n->key, key) != 0))
        n = n->next;
    return n;
}

bool sn_yaml_is_null(const struct sn_yaml_node *n)
{
    return n->kind == SN_YAML_SCALAR && !n->quoted &&
           (!*n->text || !strcmp(n->text, "~") || !strcmp(n->text, "null") ||
            !strcmp(n->text, "Null") || !strcmp(n->text, "NULL"));
}

enum sn_status sn_yaml_vfail(const char *file, int line, int col, struct sn_err *err,
                             const char *fmt, va_list ap)
{
    enum { PATH_SHOWN = 240 }; /* leaves room for the sentence */
    char what[sizeof(err->text)];
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    size_t n = strlen(file);
    const char *cut = n > PATH_SHOWN ? "..." : "";
    const char *tail = n > PATH_SHOWN ? file + n - PATH_SHOWN : file;
    if (!line)
        return sn_fail(err, SN_EINPUT, "%s%s: %s", cut, tail, what);
    return sn_fail(err, SN_EINPUT, "%s%s:%d:%d: %s", cut, tail, line, col, what);
}

enum sn_status sn_yaml_fail(const struct sn_yaml_node *n, struct sn_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    enum sn_status st = sn_yaml_vfail(n->file, n->line, n->col, err, fmt, ap);
    va_end(ap);
    return st;
}

enum sn_status sn_yaml_fail_key(const struct sn_yaml_node *n, struct sn_err *err, const char *fmt,
                                ...)
{
    va_list ap;
    va_start(ap, fmt);
    enum sn_status st = sn_yaml_vfail(n->file, n->key_line, n->key_col, err, fmt, ap);
    va_end(ap);
    return st;
}

const char *sn_clip(char buf[SN_CLIP_SIZE], const char *text)
{
    enum { SHOWN = 40 };
    size_t n = strnlen(text, SHOWN + 1);
    bool cut = n > SHOWN;
    if (cut) {
        n = SHOWN;
        while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--; /* not in the middle of a UTF-8 character */
    }
    (void)snprintf(buf, SN_CLIP_SIZE, "%.*s%s", (int)n, text, cut ? "..." : "");
    return buf;
}
