#include "lib/machine/fields.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 128, FIELDS_MAX = SN_KEYS_MAX };

/* A map being read: which rows were set is noted, to find what is missing. */
struct reader {
    const struct sn_fields *fields;
    char *to;
    bool set[FIELDS_MAX];
};

static bool is_value(const struct sn_key *k)
{
    return k->type != SN_KEY_MAP && k->type != SN_KEY_INCLUDE;
}

static const struct sn_key *find_near(const struct sn_fields *f, const char *section,
                                      const char *word)
{
    const struct sn_key *near = NULL;
    const char *other;
    int best = (int)(strlen(word) + 2) / 3; /* one slip per three characters, as in the run file */
    for (int i = 0; i < f->n; i++) {
        int d = sn_key_in(&f->row[i], section, &other) ? sn_str_distance(word, other) : 99;
        if (d < best || (d == best && !near)) {
            best = d;
            near = &f->row[i];
        }
    }
    return near;
}

static enum sn_status unknown_key(const struct sn_fields *f, const char *section,
                                  const struct sn_yaml_node *n, struct sn_err *err)
{
    char shown[SN_CLIP_SIZE], all[480] = "";
    const struct sn_key *near = find_near(f, section, n->key);
    const char *word, *dot = *section ? "." : "";
    (void)sn_clip(shown, n->key);
    if (near)
        return sn_yaml_fail_key(n, err, "unknown key '%s%s%s' of %s; did you mean '%s'?", section,
                                dot, shown, f->what, near->name);
    size_t len = 0;
    for (int i = 0; i < f->n; i++) {
        if (!sn_key_in(&f->row[i], section, &word))
            continue;
        int w = snprintf(all + len, sizeof(all) - len, "%s%s", len ? ", " : "", word);
        len = w > 0 && len + (size_t)w < sizeof(all) ? len + (size_t)w : sizeof(all) - 1;
    }
    return sn_yaml_fail_key(n, err, "unknown key '%s%s%s' of %s; want %s", section, dot, shown,
                            f->what, all);
}

static enum sn_status read_text(const struct sn_key *k, const struct sn_yaml_node *n, char *to,
                                struct sn_err *err)
{
    size_t size = (size_t)k->max;
    char shown[SN_CLIP_SIZE];
    if (n->kind != SN_YAML_SCALAR || sn_yaml_is_null(n) || !*n->text)
        return sn_yaml_fail(n, err, "%s: got %s; want a text", k->name,
                            n->kind != SN_YAML_SCALAR ? "a list or mapping" : "nothing");
    if (strlen(n->text) >= size)
        return sn_yaml_fail(n, err, "%s: '%s' has %zu bytes; want at most %zu", k->name,
                            sn_clip(shown, n->text), strlen(n->text), size - 1);
    memset(to, 0, size);
    memcpy(to, n->text, strlen(n->text));
    return SN_OK;
}

/* Sections nest no deeper than the rows' names have dots. */
static enum sn_status read_map(struct reader *r, const char *section,
                               const struct sn_yaml_node *map, struct sn_err *err)
{
    const struct sn_fields *f = r->fields;
    const char *word;
    if (map->kind != SN_YAML_MAP)
        return sn_yaml_fail(map, err, "%s: want a mapping of keys", *section ? section : f->what);
    for (const struct sn_yaml_node *n = map->first; n; n = n->next) {
        int i = 0;
        while (i < f->n && (!sn_key_in(&f->row[i], section, &word) || strcmp(word, n->key) != 0))
            i++;
        if (i == f->n)
            return unknown_key(f, section, n, err);
        const struct sn_key *k = &f->row[i];
        r->set[i] = true;
        if (k->type == SN_KEY_MAP && !sn_yaml_is_null(n))
            SN_TRY(read_map(r, k->name, n, err));
        else if (k->type == SN_KEY_TEXT)
            SN_TRY(read_text(k, n, r->to + k->offset, err));
        else if (is_value(k))
            SN_TRY(sn_key_parse(k, n, r->to + k->offset, err));
    }
    return SN_OK;
}

void sn_fields_default(const struct sn_fields *f, void *to)
{
    for (int i = 0; i < f->n; i++)
        if (is_value(&f->row[i]) && f->row[i].value)
            (void)sn_key_parse_default(&f->row[i], (char *)to + f->row[i].offset);
}

enum sn_status sn_fields_read(const struct sn_fields *f, const struct sn_yaml_node *map, void *to,
                              struct sn_err *err)
{
    struct reader r = {.fields = f, .to = to};
    char want[SN_WANT_SIZE];
    sn_fields_default(f, to);
    SN_TRY(read_map(&r, f->prefix, map, err));
    for (int i = 0; i < f->n; i++) {
        const struct sn_key *k = &f->row[i];
        if (is_value(k) && !k->value && !k->derived && !r.set[i])
            return sn_yaml_fail(map, err, "%s: missing; want %s", k->name, sn_key_want(k, want));
    }
    return SN_OK;
}

enum sn_status sn_fields_parse(struct sn_yaml_doc **out, const char *text, size_t len,
                               const char *path, const char *what, struct sn_err *err)
{
    struct sn_yaml_doc *doc;
    SN_TRY(sn_yaml_parse(&doc, text, len, path, err));
    if (!doc->root || doc->root->kind != SN_YAML_MAP) {
        enum sn_status st = sn_fail(err, SN_EINPUT, "%s: want %s", path, what);
        sn_yaml_destroy(doc);
        return st;
    }
    *out = doc;
    return SN_OK;
}

/* --- back to text ----------------------------------------------------------------------------- */

static bool is_default(const struct sn_key *k, const void *at)
{
    char now[SN_VALUE_SIZE], usual[SN_VALUE_SIZE];
    union sn_scratch scratch;
    if (k->type == SN_KEY_TEXT)
        return !*(const char *)at;
    if (!k->value)
        return k->derived && k->type == SN_KEY_FLOAT && *(const double *)at == 0;
    (void)sn_key_parse_default(k, &scratch);
    return strcmp(sn_key_format(k, at, now), sn_key_format(k, &scratch, usual)) == 0;
}

static bool is_written(const struct sn_fields *f, const struct sn_key *k, const void *from)
{
    if (k->type == SN_KEY_INCLUDE)
        return false;
    if (k->type != SN_KEY_MAP)
        return !is_default(k, (const char *)from + k->offset);
    size_t n = strlen(k->name);
    for (int i = 0; i < f->n; i++)
        if (strncmp(f->row[i].name, k->name, n) == 0 && f->row[i].name[n] == '.' &&
            is_written(f, &f->row[i], from))
            return true;
    return false;
}

static int dots(const char *name)
{
    int n = 0;
    for (; *name; name++)
        n += *name == '.';
    return n;
}

void sn_fields_format(struct sn_str *out, const struct sn_fields *f, const void *from, int indent,
                      const char *first)
{
    char value[SN_VALUE_SIZE];
    int depth = *f->prefix ? dots(f->prefix) + 1 : 0;
    for (int i = 0; i < f->n; i++) {
        const struct sn_key *k = &f->row[i];
        if (!is_written(f, k, from))
            continue;
        const char *dot = strrchr(k->name, '.');
        int level = dots(k->name) - depth;
        sn_str_add(out, "%*s%s%s:", indent - (int)strlen(first) + 2 * level, "", first,
                   dot ? dot + 1 : k->name);
        first = "";
        if (k->type == SN_KEY_MAP)
            sn_str_add(out, "\n");
        else
            sn_str_add(out, " %s\n", sn_key_format(k, (const char *)from + k->offset, value));
    }
}

void sn_fields_help(struct sn_str *out, const struct sn_fields *f)
{
    char want[SN_WANT_SIZE];
    sn_str_add(out, "| key | takes | default | meaning |\n|---|---|---|---|\n");
    for (int i = 0; i < f->n; i++) {
        const struct sn_key *k = &f->row[i];
        if (is_value(k))
            sn_str_add(out, "| `%s` | %s | %s | %s |\n", k->name,
                       k->type == SN_KEY_TEXT ? "a text" : sn_key_want(k, want),
                       k->value     ? k->value
                       : k->derived ? k->derived
                                    : "required",
                       k->sentence);
        else if (k->type == SN_KEY_INCLUDE)
            sn_str_add(out, "| `%s` | %s | %s | %s |\n", k->name, k->unit,
                       k->derived ? k->derived : "required", k->sentence);
    }
}
