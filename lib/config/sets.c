/*
 * sets.c - values of the run file that are sets of data, or phases of their weights.
 */
#include "lib/config/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- text to value -------------------------------------------------------------------------- */

static enum sn_status no_room(const struct sn_key *k, const struct sn_yaml_node *n,
                              struct sn_err *err)
{
    return sn_yaml_fail(n, err,
                        "%s: names and paths take more than %d bytes together; want shorter ones, "
                        "such as links",
                        k->name, SN_SETS_TEXT);
}

/* More than 0. */
static enum sn_status take_number(const struct sn_key *k, const struct sn_yaml_node *n, double *at,
                                  const char *what, struct sn_err *err)
{
    char name[SN_WANT_SIZE];
    const struct sn_key row = {.name = name, .type = SN_KEY_FLOAT, .min = 0, .max = 1e9L};
    (void)snprintf(name, sizeof(name), "%s: %s", k->name, what);
    if (n->kind != SN_YAML_SCALAR)
        return sn_value_wrong_type(&row, n, err);
    SN_TRY(sn_value_float(&row, n, at, err));
    return *at > 0 ? SN_OK
                   : sn_yaml_fail(n, err, "%s: got %s; want more than 0, or leave it out", name,
                                  n->text);
}

static bool is_name(const char *text, size_t n)
{
    static const char taken[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return n > 0 && n < SN_SET_NAME_MAX && strspn(text, taken) >= n;
}

/* Its own, or the last part of its path. */
static enum sn_status take_name(const struct sn_key *k, const struct sn_yaml_node *set,
                                struct sn_data_sets *at, struct sn_err *err)
{
    char name[SN_SET_NAME_MAX], shown[SN_CLIP_SIZE];
    const struct sn_yaml_node *said = sn_yaml_find(set, "name");
    const char *path = at->texts.text + at->set[at->n].path, *slash = strrchr(path, '/');
    const char *text = said && said->kind == SN_YAML_SCALAR ? said->text : slash ? slash + 1 : path;
    size_t n = strlen(text);
    if (!said && n > 4 && (!strcmp(text + n - 4, ".bin") || !strcmp(text + n - 4, ".idx")))
        n -= 4;
    if (!is_name(text, n))
        return sn_yaml_fail(said ? said : set, err,
                            "%s: '%s' is no name of a set; want name: with 1 to %d letters, "
                            "digits, '.', '_' or '-'",
                            k->name, sn_clip(shown, text), SN_SET_NAME_MAX - 1);
    (void)snprintf(name, sizeof(name), "%.*s", (int)n, text);
    if (sn_set_find(at, name) >= 0)
        return sn_yaml_fail(said ? said : set, err,
                            "%s: two sets are called '%s'; want name: with another one", k->name,
                            name);
    at->set[at->n].name = sn_set_texts_add(&at->texts, name);
    return at->set[at->n].name < 0 ? no_room(k, set, err) : SN_OK;
}

static enum sn_status take_path(const struct sn_key *k, const struct sn_yaml_node *n,
                                struct sn_set_texts *texts, int *at, struct sn_err *err)
{
    char path[SN_PATH_MAX];
    struct sn_key row = {.name = k->name, .type = SN_KEY_PATH};
    if (n->kind != SN_YAML_SCALAR)
        return sn_value_wrong_type(&row, n, err);
    SN_TRY(sn_value_text(&row, n, path, err));
    *at = sn_set_texts_add(texts, path);
    return *at < 0 ? no_room(k, n, err) : SN_OK;
}

static enum sn_status check_members(const struct sn_key *k, const struct sn_yaml_node *map,
                                    struct sn_err *err)
{
    char all[SN_WANT_SIZE], have[SN_WANT_SIZE], shown[SN_CLIP_SIZE];
    (void)sn_key_names(k, all);
    if (map->kind != SN_YAML_MAP)
        return sn_yaml_fail(map, err, "%s: got %s in the list; want a mapping of %s", k->name,
                            sn_value_got(map, have), all);
    for (const struct sn_yaml_node *n = map->first; n; n = n->next) {
        int i = 0;
        while (k->names[i] && strcmp(k->names[i], n->key) != 0)
            i++;
        if (!k->names[i])
            return sn_yaml_fail_key(n, err, "%s: unknown key '%s'; want %s", k->name,
                                    sn_clip(shown, n->key), all);
    }
    return sn_yaml_find(map, k->names[0])
               ? SN_OK
               : sn_yaml_fail(map, err, "%s: %s is missing in an entry; want %s", k->name,
                              k->names[0], all);
}

static enum sn_status parse_set(const struct sn_key *k, const struct sn_yaml_node *n,
                                struct sn_data_sets *at, struct sn_err *err)
{
    if (at->n == SN_SETS_MAX)
        return sn_yaml_fail(n, err, "%s: more than %d sets; want fewer, such as joined ones",
                            k->name, SN_SETS_MAX);
    struct sn_data_set *set = &at->set[at->n];
    SN_TRY(check_members(k, n, err));
    const struct sn_yaml_node *valid = sn_yaml_find(n, "valid");
    const struct sn_yaml_node *weight = sn_yaml_find(n, "weight");
    const struct sn_yaml_node *epochs = sn_yaml_find(n, "epochs");
    SN_TRY(take_path(k, sn_yaml_find(n, "path"), &at->texts, &set->path, err));
    SN_TRY(take_name(k, n, at, err));
    if (valid)
        SN_TRY(take_path(k, valid, &at->texts, &set->valid, err));
    if (weight)
        SN_TRY(take_number(k, weight, &set->weight, "weight", err));
    if (epochs)
        SN_TRY(take_number(k, epochs, &set->epochs, "epochs", err));
    at->n++;
    return SN_OK;
}

static enum sn_status parse_sets(const struct sn_key *k, const struct sn_yaml_node *n,
                                 struct sn_data_sets *at, struct sn_err *err)
{
    memset(at, 0, sizeof(*at));
    if (n->kind == SN_YAML_SCALAR) {
        at->n = 1;
        return take_path(k, n, &at->texts, &at->set[0].path, err);
    }
    if (n->kind != SN_YAML_LIST || !n->first)
        return sn_value_wrong_type(k, n, err);
    at->is_list = true;
    for (const struct sn_yaml_node *set = n->first; set; set = set->next)
        SN_TRY(parse_set(k, set, at, err));
    return SN_OK;
}

static enum sn_status parse_part(const struct sn_key *k, const struct sn_yaml_node *n,
                                 struct sn_data_phases *at, struct sn_err *err)
{
    struct sn_data_part *p = &at->part[at->n_parts];
    if (at->n_parts == SN_PARTS_MAX)
        return sn_yaml_fail_key(n, err, "%s: more than %d weights in all; want fewer", k->name,
                                SN_PARTS_MAX);
    p->phase = at->n;
    p->name = sn_set_texts_add(&at->texts, n->key);
    if (p->name < 0)
        return no_room(k, n, err);
    SN_TRY(take_number(k, n, &p->weight, n->key, err));
    at->n_parts++;
    return SN_OK;
}

static enum sn_status parse_phase(const struct sn_key *k, const struct sn_yaml_node *n,
                                  struct sn_data_phases *at, struct sn_err *err)
{
    char have[SN_WANT_SIZE];
    struct sn_key row = {.name = k->name, .type = SN_KEY_LONG, .min = 1, .max = 1e12L};
    if (at->n == SN_PHASES_MAX)
        return sn_yaml_fail(n, err, "%s: more than %d phases; want fewer", k->name, SN_PHASES_MAX);
    SN_TRY(check_members(k, n, err));
    const struct sn_yaml_node *from = sn_yaml_find(n, "from_step");
    const struct sn_yaml_node *weights = sn_yaml_find(n, "weights");
    if (!sn_value_is_whole(from))
        return sn_yaml_fail(from, err, "%s: from_step: got %s; want a step, from 1 on", k->name,
                            sn_value_got(from, have));
    SN_TRY(sn_value_whole(&row, from, &at->from_step[at->n], err));
    if (at->n > 0 && at->from_step[at->n] <= at->from_step[at->n - 1])
        return sn_yaml_fail(from, err,
                            "%s: from_step: %s is not behind %lld, that of the phase "
                            "before; want rising steps",
                            k->name, from->text, (long long)at->from_step[at->n - 1]);
    if (!weights || weights->kind != SN_YAML_MAP || !weights->first)
        return sn_yaml_fail(weights ? weights : n, err,
                            "%s: a phase without weights; want a mapping of names of sets to "
                            "weights",
                            k->name);
    for (const struct sn_yaml_node *p = weights->first; p; p = p->next)
        SN_TRY(parse_part(k, p, at, err));
    at->n++;
    return SN_OK;
}

static enum sn_status parse_phases(const struct sn_key *k, const struct sn_yaml_node *n,
                                   struct sn_data_phases *at, struct sn_err *err)
{
    memset(at, 0, sizeof(*at));
    if (n->kind != SN_YAML_LIST)
        return sn_value_wrong_type(k, n, err);
    for (const struct sn_yaml_node *phase = n->first; phase; phase = phase->next)
        SN_TRY(parse_phase(k, phase, at, err));
    return SN_OK;
}

/* Is there room for its text? */
static enum sn_status fits(const struct sn_key *k, const struct sn_yaml_node *n, const void *at,
                           struct sn_err *err)
{
    char text[SN_VALUE_SIZE];
    sn_sets_format(k, at, text);
    return strlen(text) + 1 < sizeof(text) ? SN_OK : no_room(k, n, err);
}

enum sn_status sn_sets_parse(const struct sn_key *k, const struct sn_yaml_node *n, void *at,
                             struct sn_err *err)
{
    SN_TRY(k->type == SN_KEY_SETS ? parse_sets(k, n, at, err) : parse_phases(k, n, at, err));
    return fits(k, n, at, err);
}

/* --- value to text -------------------------------------------------------------------------- */

struct writer {
    char *text;
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *w, const char *fmt, ...)
{
    size_t room = SN_VALUE_SIZE - w->len;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(w->text + w->len, room, fmt, ap);
    va_end(ap);
    w->len += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static void put_text(struct writer *w, const char *key, const char *text)
{
    if (!*text || SN_VALUE_SIZE - w->len < 8 + strlen(key))
        return;
    put(w, "%s", key);
    w->len += sn_value_quote(w->text + w->len, SN_VALUE_SIZE - w->len, text);
}

static void put_number(struct writer *w, const char *key, double v)
{
    char number[32];
    sn_value_format_double(v, number);
    if (v > 0)
        put(w, "%s%s", key, number);
}

static void format_sets(struct writer *w, const struct sn_data_sets *s)
{
    if (!s->is_list) {
        put_text(w, "", sn_set_path(s, 0));
        put(w, s->n ? "" : "null");
        return;
    }
    for (int i = 0; i < s->n; i++) {
        put(w, i ? ", {" : "[{");
        put_text(w, "name: ", sn_set_name(s, i));
        put_text(w, ", path: ", sn_set_path(s, i));
        put_number(w, ", weight: ", s->set[i].weight);
        put_number(w, ", epochs: ", s->set[i].epochs);
        put_text(w, ", valid: ", sn_set_valid(s, i));
        put(w, "}");
    }
    put(w, "]");
}

static void format_phases(struct writer *w, const struct sn_data_phases *s)
{
    put(w, "[");
    for (int i = 0, k = 0; i < s->n; i++) {
        const char *comma = "";
        put(w, "%s{from_step: %lld, weights: {", i ? ", " : "", (long long)s->from_step[i]);
        for (; k < s->n_parts && s->part[k].phase == i; k++, comma = ", ") {
            put(w, "%s", comma);
            put_text(w, "", s->texts.text + s->part[k].name);
            put_number(w, ": ", s->part[k].weight);
        }
        put(w, "}}");
    }
    put(w, "]");
}

void sn_sets_format(const struct sn_key *k, const void *at, char buf[SN_VALUE_SIZE])
{
    struct writer w = {.text = buf};
    buf[0] = '\0';
    if (k->type == SN_KEY_SETS)
        format_sets(&w, at);
    else
        format_phases(&w, at);
}
