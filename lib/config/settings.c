/*
 * settings.c - walks the run file's tree, follows preset, file and config, and notes for each key
 * the setting that stands: what is written beside an inclusion overrides what it brings.
 */
#include "lib/config/settings.h"

#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/config/aliases.h"
#include "lib/config/files.h"
#include "lib/config/hfconfig.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 192 };

static enum sn_status read_map(struct sn_settings *s, const char *section,
                               const struct sn_yaml_node *map, struct sn_err *err);

static const char *join(char buf[NAME_SIZE], const char *section, const char *key)
{
    (void)snprintf(buf, NAME_SIZE, "%s%s%s", section, *section ? "." : "", key);
    return buf;
}

/* --- unknown keys ----------------------------------------------------------------------------- */

/* A key of that name in another section, or NULL. */
static const char *find_elsewhere(const char *word)
{
    if (strcmp(word, "preset") == 0 || strcmp(word, "file") == 0) /* each section has its own */
        return NULL;
    for (int i = 0; i < sn_n_keys; i++) {
        const char *dot = strrchr(sn_keys[i].name, '.');
        if (dot && strcmp(dot + 1, word) == 0 && !sn_keys[i].not_built &&
            sn_keys[i].type != SN_KEY_INCLUDE)
            return sn_keys[i].name;
    }
    return NULL;
}

static const char *find_near(const char *section, const char *word)
{
    const char *near = NULL, *other;
    int best = (int)(strlen(word) + 2) / 3; /* one slip per three characters */
    for (int i = 0; i < sn_n_keys; i++) {
        if (!sn_key_in(&sn_keys[i], section, &other))
            continue;
        int d = sn_str_distance(word, other);
        if (d < best || (d == best && !near)) {
            best = d;
            near = sn_keys[i].name;
        }
    }
    return near;
}

static enum sn_status unknown_key(const char *section, const struct sn_yaml_node *n,
                                  struct sn_err *err)
{
    char name[NAME_SIZE], all[480] = "";
    const char *here = sn_alias_find(n->key), *near = find_near(section, n->key), *word;
    if (here)
        return sn_yaml_fail_key(n, err, "unknown key '%s'; it is called '%s' here",
                                join(name, section, n->key), here);
    if (!near)
        near = find_elsewhere(n->key);
    if (near)
        return sn_yaml_fail_key(n, err, "unknown key '%s'; did you mean '%s'?",
                                join(name, section, n->key), near);
    size_t len = 0;
    for (int i = 0; i < sn_n_keys; i++) {
        if (!sn_key_in(&sn_keys[i], section, &word))
            continue;
        int w = snprintf(all + len, sizeof(all) - len, "%s%s", len ? ", " : "", word);
        len = w > 0 && len + (size_t)w < sizeof(all) ? len + (size_t)w : sizeof(all) - 1;
    }
    return sn_yaml_fail_key(n, err, "unknown key '%s'; %s%s has %s", join(name, section, n->key),
                            *section ? "" : "the run file", section, all);
}

/* --- inclusions ------------------------------------------------------------------------------- */

static enum sn_status preset_path(const struct sn_settings *s, const char *section,
                                  const struct sn_yaml_node *n, char path[SN_PATH_MAX],
                                  struct sn_err *err)
{
    char share[SN_PATH_MAX], dir[SN_PATH_MAX + 16], key[NAME_SIZE];
    (void)join(key, section, n->key);
    if (s->share_dir)
        (void)snprintf(share, sizeof(share), "%s", s->share_dir);
    else if (sn_share_find(share, sizeof(share), err) != SN_OK)
        return sn_yaml_fail(n, err, "%s: no shipped templates beside this program; use 'file'",
                            key);
    (void)snprintf(dir, sizeof(dir), "%s/%s", share, *section ? "models" : "runs");
    return sn_preset_find(path, SN_PATH_MAX, dir, key, n, err);
}

static enum sn_status enter_file(struct sn_settings *s, const char *key,
                                 const struct sn_yaml_node *n, const char *path, struct sn_err *err)
{
    char shown[SN_CLIP_SIZE];
    struct stat id;
    (void)sn_clip(shown, n->text);
    if (stat(path, &id) != 0 || !S_ISREG(id.st_mode))
        return sn_yaml_fail(n, err, "%s: '%s' is not a file; name one that can be read", key,
                            shown);
    for (int i = 0; i < s->depth; i++) {
        if (s->open[i].st_dev == id.st_dev && s->open[i].st_ino == id.st_ino)
            return sn_yaml_fail(n, err, "%s: '%s' includes itself; remove one of the inclusions",
                                key, shown);
    }
    if (s->depth > SN_INCLUDES_MAX)
        return sn_yaml_fail(n, err, "%s: '%s' is more than %d files deep; include fewer", key,
                            shown, SN_INCLUDES_MAX);
    s->open[s->depth++] = id;
    return SN_OK;
}

/* A file named in a section holds that section's keys, or it is a run file that has the section. */
static enum sn_status read_included(struct sn_settings *s, const char *section,
                                    const struct sn_yaml_node *root, struct sn_err *err)
{
    const struct sn_yaml_node *part = *section ? sn_yaml_find(root, section) : NULL;
    if (part && part->kind == SN_YAML_MAP)
        root = part;
    return read_map(s, section, root, err);
}

static enum sn_status include(struct sn_settings *s, const char *section,
                              const struct sn_yaml_node *n, struct sn_err *err)
{
    char path[SN_PATH_MAX], key[NAME_SIZE];
    (void)join(key, section, n->key);
    if (n->kind != SN_YAML_SCALAR || sn_yaml_is_null(n) || strlen(n->text) >= sizeof(path))
        return sn_yaml_fail(n, err, "%s: want %s", key,
                            strcmp(n->key, "preset") == 0 ? "the name of a preset" : "a path");
    if (strcmp(n->key, "preset") == 0)
        SN_TRY(preset_path(s, section, n, path, err));
    else
        (void)snprintf(path, sizeof(path), "%s", n->text);
    SN_TRY(enter_file(s, key, n, path, err));
    char *text;
    size_t len;
    struct stat id;
    SN_TRY(sn_file_read(&text, &len, &id, path, err));
    struct sn_yaml_doc *doc;
    enum sn_status st = strcmp(n->key, "config") == 0
                            ? sn_hfconfig_parse(&doc, text, len, path, err)
                            : sn_yaml_parse(&doc, text, len, path, err);
    sn_free(text);
    SN_TRY(st);
    doc->next = s->docs;
    s->docs = doc;
    st = doc->root ? read_included(s, section, doc->root, err) : SN_OK;
    s->depth--;
    return st;
}

/* Is this key an inclusion in this section? `preset` only where presets ship. */
static bool is_include(const char *section, const char *key)
{
    if (strchr(section, '.') || strcmp(section, "machine") == 0)
        return false;
    if (strcmp(key, "file") == 0)
        return true;
    bool model = strcmp(section, "model") == 0;
    if (strcmp(key, "config") == 0)
        return model;
    return strcmp(key, "preset") == 0 && (model || !*section);
}

/* Or does it name a file whose keys are not those of a run file (lib/machine/named.h)? */
static bool is_named(const char *section, const struct sn_yaml_node *n)
{
    bool software = strcmp(section, "machine.software") == 0;
    if (sn_yaml_is_null(n) || !(software || strcmp(section, "machine") == 0))
        return false;
    return strcmp(n->key, "file") == 0 || strcmp(n->key, software ? "profile" : "preset") == 0;
}

/* --- sections --------------------------------------------------------------------------------- */

/* A section that starts from a file or preset starts anew: nothing of an including run file's
 * section is left to mix with it. */
static void forget_section(struct sn_settings *s, const char *section)
{
    size_t n = strlen(section);
    for (int i = 0; n && i < sn_n_keys; i++) {
        if (strncmp(sn_keys[i].name, section, n) == 0 && sn_keys[i].name[n] == '.')
            s->set[i] = NULL;
    }
}

/* "x, y or z"; returns buf. */
static const char *words_of(char buf[NAME_SIZE], const struct sn_key_member *m)
{
    size_t at = 0;
    for (const struct sn_key_member *i = m; i->word; i++)
        at += (size_t)snprintf(buf + at, NAME_SIZE - at, "%s%s",
                               i == m      ? ""
                               : i[1].word ? ", "
                                           : " or ",
                               i->word);
    return buf;
}

static void set_row(struct sn_settings *s, int row, const struct sn_yaml_node *n)
{
    s->set[row] = n;
    s->own[row] = s->depth == 1;
}

/* What a key's mapping has set in what is included ends where the key is given again; and where it is
 * given as a mapping all that is not written beside it. */
static void forget_members(struct sn_settings *s, const struct sn_key *k,
                           const struct sn_yaml_node *n)
{
    for (const struct sn_key_member *m = k->members; m->word; m++) {
        const struct sn_yaml_node **set = &s->set[sn_key_find(m->key, strlen(m->key))];
        const char *last = strrchr(m->key, '.') + 1;
        bool is_member = *set && strcmp((*set)->key, last) != 0;
        bool is_beside = sn_yaml_find(n->parent, last) && strcmp(m->key, k->name) != 0;
        if (is_member || (n->kind == SN_YAML_MAP && !is_beside))
            *set = NULL;
    }
}

/* A mapping in the place of a number: each of its words is the value of a key. */
static enum sn_status read_members(struct sn_settings *s, const struct sn_key *k,
                                   const struct sn_yaml_node *n, struct sn_err *err)
{
    char words[NAME_SIZE];
    s->set[k - sn_keys] = NULL;
    for (const struct sn_yaml_node *w = n->first; w; w = w->next) {
        const struct sn_key_member *m = k->members;
        while (m->word && strcmp(m->word, w->key) != 0)
            m++;
        if (!m->word)
            return sn_yaml_fail_key(w, err, "%s: '%s' is no part of it; want %s", k->name, w->key,
                                    words_of(words, k->members));
        const char *last = strrchr(m->key, '.') + 1;
        if (strcmp(m->key, k->name) != 0 && sn_yaml_find(n->parent, last))
            return sn_yaml_fail_key(w, err, "%s: %s is %s, which is given, too; keep one", k->name,
                                    m->word, m->key);
        set_row(s, sn_key_find(m->key, strlen(m->key)), w);
    }
    return SN_OK;
}

static enum sn_status read_key(struct sn_settings *s, const char *section,
                               const struct sn_yaml_node *n, struct sn_err *err)
{
    char name[NAME_SIZE], shown[SN_CLIP_SIZE];
    (void)join(name, section, n->key);
    int row = strchr(n->key, '.') ? -1 : sn_key_find(name, strlen(name));
    if (row < 0)
        return unknown_key(section, n, err);
    const struct sn_key *k = &sn_keys[row];
    if (k->not_built)
        return sn_yaml_fail_key(n, err, "%s is not built yet; leave it out", name);
    if (k->members)
        forget_members(s, k, n);
    set_row(s, row, n);
    if (k->members && n->kind == SN_YAML_MAP)
        return read_members(s, k, n, err);
    if (k->type != SN_KEY_MAP || sn_yaml_is_null(n)) /* an empty section: every default */
        return SN_OK;
    if (n->kind == SN_YAML_MAP)
        return read_map(s, name, n, err);
    bool scalar = n->kind == SN_YAML_SCALAR;
    if (scalar && k->short_for) {
        forget_section(s, name);
        set_row(s, sn_key_find(k->short_for, strlen(k->short_for)), n);
        return SN_OK;
    }
    if (scalar && k->word && strcmp(n->text, k->word) == 0)
        return SN_OK;
    return sn_yaml_fail(n, err, "%s: got %s%s%s; want a mapping of keys", name, scalar ? "'" : "",
                        scalar ? sn_clip(shown, n->text) : "a list", scalar ? "'" : "");
}

static enum sn_status read_map(struct sn_settings *s, const char *section,
                               const struct sn_yaml_node *map, struct sn_err *err)
{
    const struct sn_yaml_node *from = NULL;
    if (map->kind != SN_YAML_MAP)
        return sn_yaml_fail(map, err, "want a mapping of keys, such as '%s: ...'",
                            *section ? "layers" : "model");
    for (const struct sn_yaml_node *n = map->first; n; n = n->next) {
        if (!is_include(section, n->key) && !is_named(section, n))
            continue;
        if (from)
            return sn_yaml_fail_key(n, err, "'%s' and '%s' in one section; keep one", from->key,
                                    n->key);
        from = n;
    }
    if (from) {
        forget_section(s, section);
        if (is_include(section, from->key))
            SN_TRY(include(s, section, from, err));
    }
    for (const struct sn_yaml_node *n = map->first; n; n = n->next) {
        if (n != from || !is_include(section, n->key))
            SN_TRY(read_key(s, section, n, err));
    }
    return SN_OK;
}

/* --- the settings ----------------------------------------------------------------------------- */

enum sn_status sn_settings_read(struct sn_settings *s, const char *text, size_t len,
                                const struct stat *id, struct sn_err *err)
{
    struct sn_yaml_doc *doc;
    SN_TRY(sn_yaml_parse(&doc, text, len, s->path, err));
    s->docs = doc;
    s->depth = 1;
    if (id)
        s->open[0] = *id;
    return doc->root ? read_map(s, "", doc->root, err) : SN_OK;
}

void sn_settings_fini(struct sn_settings *s)
{
    for (struct sn_yaml_doc *d = s->docs, *next; d; d = next) {
        next = d->next;
        sn_yaml_destroy(d);
    }
    s->docs = NULL;
}

const struct sn_yaml_node *sn_settings_get(const struct sn_settings *s, const char *key)
{
    int row = sn_key_find(key, strlen(key));
    return row < 0 ? NULL : s->set[row];
}

const struct sn_yaml_node *sn_settings_own(const struct sn_settings *s, const char *key)
{
    int row = sn_key_find(key, strlen(key));
    return row < 0 || !s->own[row] ? NULL : s->set[row];
}

const struct sn_yaml_node *sn_settings_grid_z(const struct sn_settings *s)
{
    const struct sn_yaml_node *n = sn_settings_get(s, "layout.zero_node");
    return n && strcmp(n->key, "z") == 0 ? n : NULL;
}

/* The node to blame for a key: its setting, or the nearest section that was written. */
static const struct sn_yaml_node *blame(const struct sn_settings *s, const char *key, bool *own)
{
    size_t len = strlen(key);
    *own = true;
    while (len) {
        int row = sn_key_find(key, len);
        if (row >= 0 && s->set[row])
            return s->set[row];
        *own = false;
        while (len && key[len - 1] != '.')
            len--;
        len -= len ? 1 : 0;
    }
    return NULL;
}

enum sn_status sn_settings_fail(const struct sn_settings *s, const char *key, struct sn_err *err,
                                const char *fmt, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    bool own;
    const struct sn_yaml_node *n = blame(s, key, &own);
    if (!n) {
        struct sn_yaml_node nowhere = {.file = s->path};
        return sn_yaml_fail(&nowhere, err, "%s: %s", key, what);
    }
    return own ? sn_yaml_fail(n, err, "%s: %s", key, what)
               : sn_yaml_fail_key(n, err, "%s: %s", key, what);
}
