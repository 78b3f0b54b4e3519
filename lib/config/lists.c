/*
 * lists.c - values of the run file that are lists: names, whole numbers, an order of given names.
 */
#include "lib/config/value.h"

#include <stdio.h>
#include <string.h>

/* --- text to value -------------------------------------------------------------------------- */

static enum sn_status parse_words(const struct sn_key *k, const struct sn_yaml_node *n,
                                  struct sn_words *at, struct sn_err *err)
{
    char have[SN_WANT_SIZE];
    if (n->kind != SN_YAML_LIST)
        return sn_value_wrong_type(k, n, err);
    memset(at, 0, sizeof(*at));
    for (const struct sn_yaml_node *w = n->first; w; w = w->next) {
        if (w->kind != SN_YAML_SCALAR || sn_yaml_is_null(w) || !*w->text)
            return sn_yaml_fail(w, err, "%s: got %s as a name; want a word", k->name,
                                sn_value_got(w, have));
        if (strlen(w->text) >= SN_NAME_MAX)
            return sn_yaml_fail(w, err, "%s: a name of %zu bytes; want at most %d", k->name,
                                strlen(w->text), SN_NAME_MAX - 1);
        if (at->n == SN_FREEZE_MAX)
            return sn_yaml_fail(w, err, "%s: more than %d names; want fewer, such as a pattern",
                                k->name, SN_FREEZE_MAX);
        memcpy(at->word[at->n++], w->text, strlen(w->text));
    }
    return SN_OK;
}

static enum sn_status parse_ints(const struct sn_key *k, const struct sn_yaml_node *n,
                                 struct sn_ints *at, struct sn_err *err)
{
    char have[SN_WANT_SIZE], range[SN_WANT_SIZE];
    memset(at, 0, sizeof(*at));
    if (n->kind == SN_YAML_SCALAR && strcmp(n->text, k->word) == 0)
        return SN_OK;
    if (n->kind != SN_YAML_LIST || !n->first)
        return sn_value_wrong_type(k, n, err);
    for (const struct sn_yaml_node *w = n->first; w; w = w->next) {
        int64_t v;
        if (!sn_value_is_whole(w))
            return sn_yaml_fail(w, err, "%s: got %s in the list; want a whole number in %s",
                                k->name, sn_value_got(w, have), sn_key_range(k, range));
        SN_TRY(sn_value_whole(k, w, &v, err));
        if (at->n == SN_SPLIT_MAX)
            return sn_yaml_fail(w, err, "%s: more than %d numbers; want fewer, or %s", k->name,
                                SN_SPLIT_MAX, k->word);
        at->v[at->n++] = (int)v;
    }
    return SN_OK;
}

static enum sn_status parse_floats(const struct sn_key *k, const struct sn_yaml_node *n,
                                   struct sn_floats *at, struct sn_err *err)
{
    char have[SN_WANT_SIZE];
    if (n->kind != SN_YAML_LIST)
        return sn_value_wrong_type(k, n, err);
    memset(at, 0, sizeof(*at));
    for (const struct sn_yaml_node *w = n->first; w; w = w->next) {
        if (w->kind != SN_YAML_SCALAR || sn_yaml_is_null(w))
            return sn_yaml_fail(w, err, "%s: got %s in the list; want a number", k->name,
                                sn_value_got(w, have));
        if (at->n == SN_FLOATS_MAX)
            return sn_yaml_fail(w, err, "%s: more than %d numbers; want fewer", k->name,
                                SN_FLOATS_MAX);
        SN_TRY(sn_value_float(k, w, &at->v[at->n], err));
        at->n++;
    }
    return SN_OK;
}

/* "tensor, context, data, pipeline": the names that may not be left out; returns buf. */
static const char *required_names(const struct sn_key *k, char buf[SN_WANT_SIZE])
{
    size_t len = 0;
    buf[0] = '\0';
    for (int i = 0; k->names[i] && len < SN_WANT_SIZE; i++) {
        if (k->optional >> i & 1)
            continue;
        int w = snprintf(buf + len, SN_WANT_SIZE - len, "%s%s", len ? ", " : "", k->names[i]);
        len += w > 0 ? (size_t)w : 0;
    }
    return buf;
}

static enum sn_status parse_ranking(const struct sn_key *k, const struct sn_yaml_node *n,
                                    struct sn_ranking *at, struct sn_err *err)
{
    char have[SN_WANT_SIZE];
    unsigned seen = 0;
    if (n->kind != SN_YAML_LIST)
        return sn_value_wrong_type(k, n, err);
    memset(at, 0, sizeof(*at));
    for (const struct sn_yaml_node *w = n->first; w; w = w->next) {
        int name;
        if (w->kind != SN_YAML_SCALAR || sn_yaml_is_null(w))
            return sn_yaml_fail(w, err, "%s: got %s as a name; want a word", k->name,
                                sn_value_got(w, have));
        SN_TRY(sn_value_name(k, w, &name, err));
        if (seen >> name & 1)
            return sn_yaml_fail(w, err, "%s: %s is given twice; keep one", k->name, k->names[name]);
        seen |= 1u << name;
        at->name[at->n++] = name;
    }
    for (int i = 0; k->names[i]; i++) {
        if (!((seen | k->optional) >> i & 1))
            return sn_yaml_fail(n, err, "%s: %s is missing; want each of %s once", k->name,
                                k->names[i], required_names(k, have));
    }
    return SN_OK;
}

enum sn_status sn_list_parse(const struct sn_key *k, const struct sn_yaml_node *n, void *at,
                             struct sn_err *err)
{
    if (k->type == SN_KEY_WORDS)
        return parse_words(k, n, at, err);
    if (k->type == SN_KEY_SETS || k->type == SN_KEY_PHASES)
        return sn_sets_parse(k, n, at, err);
    if (k->type == SN_KEY_FLOATS)
        return parse_floats(k, n, at, err);
    return k->type == SN_KEY_INTS ? parse_ints(k, n, at, err) : parse_ranking(k, n, at, err);
}

void sn_list_default(const struct sn_key *k, void *at)
{
    if (k->type == SN_KEY_WORDS)
        memset(at, 0, sizeof(struct sn_words));
    else if (k->type == SN_KEY_INTS)
        memset(at, 0, sizeof(struct sn_ints));
    else if (k->type == SN_KEY_FLOATS)
        memset(at, 0, sizeof(struct sn_floats));
    else if (k->type == SN_KEY_SETS)
        memset(at, 0, sizeof(struct sn_data_sets));
    else if (k->type == SN_KEY_PHASES)
        memset(at, 0, sizeof(struct sn_data_phases));
    if (k->type != SN_KEY_RANKING)
        return;
    struct sn_ranking *r = at;
    for (r->n = 0; k->names[r->n]; r->n++)
        r->name[r->n] = r->n;
}

/* --- value to text -------------------------------------------------------------------------- */

static void format_words(const struct sn_words *w, char buf[SN_VALUE_SIZE])
{
    size_t n = 0;
    buf[n++] = '[';
    for (int i = 0; i < w->n; i++) {
        if (i) {
            buf[n++] = ',';
            buf[n++] = ' ';
        }
        n += sn_value_quote(buf + n, SN_VALUE_SIZE - n - 2, w->word[i]);
    }
    buf[n++] = ']';
    buf[n] = '\0';
}

/* The row's names, or plain numbers where it has none. */
static void format_bare(const char *const *names, int n, const int *v, char buf[SN_VALUE_SIZE])
{
    size_t len = 1;
    (void)snprintf(buf, SN_VALUE_SIZE, "[");
    for (int i = 0; i < n && len < SN_VALUE_SIZE; i++) {
        const char *comma = i ? ", " : "";
        int w = names ? snprintf(buf + len, SN_VALUE_SIZE - len, "%s%s", comma, names[v[i]])
                      : snprintf(buf + len, SN_VALUE_SIZE - len, "%s%d", comma, v[i]);
        len += w > 0 ? (size_t)w : 0;
    }
    if (len + 1 < SN_VALUE_SIZE)
        (void)snprintf(buf + len, SN_VALUE_SIZE - len, "]");
}

static void format_floats(const struct sn_floats *f, char buf[SN_VALUE_SIZE])
{
    size_t len = 1;
    char number[32];
    (void)snprintf(buf, SN_VALUE_SIZE, "[");
    for (int i = 0; i < f->n; i++) {
        sn_value_format_double(f->v[i], number);
        len += (size_t)snprintf(buf + len, SN_VALUE_SIZE - len, "%s%s", i ? ", " : "", number);
    }
    (void)snprintf(buf + len, SN_VALUE_SIZE - len, "]");
}

void sn_list_format(const struct sn_key *k, const void *at, char buf[SN_VALUE_SIZE])
{
    const struct sn_ints *ints = at;
    const struct sn_ranking *ranking = at;
    if (k->type == SN_KEY_WORDS)
        format_words(at, buf);
    else if (k->type == SN_KEY_SETS || k->type == SN_KEY_PHASES)
        sn_sets_format(k, at, buf);
    else if (k->type == SN_KEY_FLOATS)
        format_floats(at, buf);
    else if (k->type == SN_KEY_RANKING)
        format_bare(k->names, ranking->n, ranking->name, buf);
    else if (ints->n == 0)
        (void)snprintf(buf, SN_VALUE_SIZE, "%s", k->word);
    else
        format_bare(NULL, ints->n, ints->v, buf);
}
