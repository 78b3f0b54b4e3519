/*
 * value.c - one value of the run file: text to value and back, by the type in its row.
 *
 * Lists are in lists.c. Numbers are read strictly (no hex, no octal, no underscores, no nan), so
 * that what a person reads is what the run uses.
 */
#include "lib/config/value.h"

#include "lib/base/str.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t bytes;
} units[] = {
    {"GiB", 1LL << 30}, {"MiB", 1LL << 20},    {"KiB", 1LL << 10},   {"B", 1},
    {"kB", 1000},       {"MB", 1000LL * 1000}, {"GB", 1000000000LL},
};

/* --- what a key takes, in words ------------------------------------------------------------ */

void sn_value_format_double(double v, char buf[32])
{
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(buf, 32, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            return;
    }
}

static void format_size(int64_t v, char buf[32])
{
    size_t u = 0;
    while (units[u].bytes > 1 && (v % units[u].bytes != 0 || v == 0))
        u++;
    (void)snprintf(buf, 32, "%lld%s", (long long)(v / units[u].bytes), units[u].name);
}

static void format_bound(const struct sn_key *k, long double v, char buf[32])
{
    if (k->type == SN_KEY_BYTES)
        format_size((int64_t)v, buf);
    else if (k->type == SN_KEY_FLOAT)
        sn_value_format_double((double)v, buf);
    else
        (void)snprintf(buf, 32, "%lld", (long long)v);
}

const char *sn_key_range(const struct sn_key *k, char buf[SN_WANT_SIZE])
{
    char lo[32], hi[32];
    buf[0] = '\0';
    if (k->max <= k->min)
        return buf;
    format_bound(k, k->min, lo);
    format_bound(k, k->max, hi);
    (void)snprintf(buf, SN_WANT_SIZE, "%s..%s%s%s", lo, hi, k->unit ? " " : "",
                   k->unit ? k->unit : "");
    return buf;
}

const char *sn_key_names(const struct sn_key *k, char buf[SN_WANT_SIZE])
{
    int last = -1, n = 0;
    size_t len = 0;
    buf[0] = '\0';
    for (int i = 0; k->names[i]; i++)
        last = k->later >> i & 1 ? last : i;
    for (int i = 0; i <= last; i++) {
        if (k->later >> i & 1)
            continue;
        const char *before = !n++ ? "" : i == last ? " or " : ", ";
        int w = snprintf(buf + len, SN_WANT_SIZE - len, "%s%s", before, k->names[i]);
        len += w > 0 ? (size_t)w : 0;
    }
    return buf;
}

const char *sn_key_want(const struct sn_key *k, char buf[SN_WANT_SIZE])
{
    static const char *const nouns[] = {
        [SN_KEY_MAP] = "a mapping of keys",
        [SN_KEY_INCLUDE] = "a name or a path",
        [SN_KEY_INT] = "a whole number",
        [SN_KEY_LONG] = "a whole number",
        [SN_KEY_FLOAT] = "a number",
        [SN_KEY_BOOL] = "true or false",
        [SN_KEY_BYTES] = "a size like 25MiB",
        [SN_KEY_WORDS] = "a list of names",
        [SN_KEY_INTS] = "a list of whole numbers",
        [SN_KEY_FLOATS] = "a list of numbers",
        [SN_KEY_SETS] = "a path or a list of sets",
        [SN_KEY_PHASES] = "a list of phases",
    };
    char range[SN_WANT_SIZE], names[SN_WANT_SIZE];
    if (k->only) {
        (void)snprintf(buf, SN_WANT_SIZE, "%s", k->only);
        return buf;
    }
    if (k->type == SN_KEY_ENUM)
        return sn_key_names(k, buf);
    if (k->type == SN_KEY_RANKING) {
        (void)snprintf(buf, SN_WANT_SIZE, "a list of %.180s, each once", sn_key_names(k, names));
        return buf;
    }
    if (k->type == SN_KEY_TEXT || k->type == SN_KEY_PATH) {
        (void)snprintf(buf, SN_WANT_SIZE, "%s", k->type == SN_KEY_TEXT ? "a word" : "a path");
        return buf;
    }
    (void)sn_key_range(k, range);
    (void)snprintf(buf, SN_WANT_SIZE, "%s%s%s%s%.180s", k->word ? k->word : "",
                   k->word ? " or " : "", nouns[k->type], range[0] ? " in " : "", range);
    return buf;
}

/* --- text to value -------------------------------------------------------------------------- */

const char *sn_value_got(const struct sn_yaml_node *n, char buf[SN_WANT_SIZE])
{
    char shown[SN_CLIP_SIZE];
    if (n->kind != SN_YAML_SCALAR)
        (void)snprintf(buf, SN_WANT_SIZE, "%s", n->kind == SN_YAML_MAP ? "a mapping" : "a list");
    else if (!n->quoted && !*n->text)
        (void)snprintf(buf, SN_WANT_SIZE, "nothing");
    else
        (void)snprintf(buf, SN_WANT_SIZE, n->quoted ? "the text '%s'" : "'%s'",
                       sn_clip(shown, n->text));
    return buf;
}

enum sn_status sn_value_wrong_type(const struct sn_key *k, const struct sn_yaml_node *n,
                                   struct sn_err *err)
{
    char want[SN_WANT_SIZE], have[SN_WANT_SIZE];
    return sn_yaml_fail(n, err, "%s: got %s; want %s", k->name, sn_value_got(n, have),
                        sn_key_want(k, want));
}

static enum sn_status outside(const struct sn_key *k, const struct sn_yaml_node *n,
                              struct sn_err *err)
{
    char range[SN_WANT_SIZE], shown[SN_CLIP_SIZE];
    return sn_yaml_fail(n, err, "%s: %s is outside %s", k->name, sn_clip(shown, n->text),
                        sn_key_range(k, range));
}

/* Length of [+-]digits without leading zeros; 0: something else. */
static size_t whole_length(const char *t)
{
    size_t sign = *t == '-' || *t == '+';
    size_t n = strspn(t + sign, "0123456789");
    if (n == 0 || (n > 1 && t[sign] == '0'))
        return 0;
    return sign + n;
}

/* Length of a decimal number such as -1.5e-3; 0: something else. */
static size_t number_length(const char *t)
{
    size_t at = *t == '-' || *t == '+';
    size_t whole = strspn(t + at, "0123456789"), part = 0;
    at += whole;
    if (t[at] == '.') {
        part = strspn(t + at + 1, "0123456789");
        at += 1 + part;
    }
    if (whole + part == 0)
        return 0;
    if (t[at] == 'e' || t[at] == 'E') {
        size_t sign = t[at + 1] == '-' || t[at + 1] == '+';
        size_t digits = strspn(t + at + 1 + sign, "0123456789");
        if (!digits)
            return 0;
        at += 1 + sign + digits;
    }
    return at;
}

bool sn_value_is_whole(const struct sn_yaml_node *n)
{
    size_t len = n->kind == SN_YAML_SCALAR && !n->quoted ? whole_length(n->text) : 0;
    return len && !n->text[len];
}

enum sn_status sn_value_whole(const struct sn_key *k, const struct sn_yaml_node *n, int64_t *out,
                              struct sn_err *err)
{
    errno = 0;
    long long v = strtoll(n->text, NULL, 10);
    if (errno || v < k->min || v > k->max)
        return outside(k, n, err);
    *out = v;
    return SN_OK;
}

/* A whole number in another spelling, such as 1e6 or 1_000, is told in ours. */
static enum sn_status wrong_whole(const struct sn_key *k, const struct sn_yaml_node *n,
                                  struct sn_err *err)
{
    char digits[32], have[SN_WANT_SIZE];
    size_t len = 0;
    if (n->kind != SN_YAML_SCALAR || n->quoted || !strpbrk(n->text, "_eE."))
        return sn_value_wrong_type(k, n, err);
    for (const char *c = n->text; *c && len + 1 < sizeof(digits); c++)
        if (*c != '_')
            digits[len++] = *c;
    digits[len] = '\0';
    double v = len && number_length(digits) == len ? strtod(digits, NULL) : 0.5;
    if (!(fabs(v) < 0x1p53) || v != floor(v))
        return sn_value_wrong_type(k, n, err);
    return sn_yaml_fail(n, err, "%s: got %s; write %.0f", k->name, sn_value_got(n, have), v);
}

static enum sn_status parse_whole(const struct sn_key *k, const struct sn_yaml_node *n, void *at,
                                  struct sn_err *err)
{
    int64_t v = k->word_is;
    bool word = k->word && strcmp(n->text, k->word) == 0;
    if (!word && !sn_value_is_whole(n))
        return wrong_whole(k, n, err);
    if (!word)
        SN_TRY(sn_value_whole(k, n, &v, err));
    if (k->type == SN_KEY_INT)
        *(int *)at = (int)v;
    else
        *(int64_t *)at = v;
    return SN_OK;
}

enum sn_status sn_value_float(const struct sn_key *k, const struct sn_yaml_node *n, double *at,
                              struct sn_err *err)
{
    if (k->word && strcmp(n->text, k->word) == 0) {
        *at = 0;
        return SN_OK;
    }
    size_t len = number_length(n->text);
    if (n->quoted || !len || n->text[len])
        return sn_value_wrong_type(k, n, err);
    double v = strtod(n->text, NULL);
    if (!(v >= (double)k->min && v <= (double)k->max))
        return outside(k, n, err);
    *at = v == 0 ? 0 : v; /* no -0.0 */
    return SN_OK;
}

static enum sn_status parse_bytes(const struct sn_key *k, const struct sn_yaml_node *n, int64_t *at,
                                  struct sn_err *err)
{
    size_t len = number_length(n->text);
    const char *unit = n->text + len + strspn(n->text + len, " ");
    size_t n_units = sizeof(units) / sizeof(units[0]), u = 0;
    while (u < n_units && strcmp(units[u].name, *unit ? unit : "B") != 0)
        u++;
    if (!len || u == n_units)
        return sn_value_wrong_type(k, n, err);
    long double v = (long double)strtod(n->text, NULL) * (long double)units[u].bytes;
    if (!(v >= k->min && v <= k->max))
        return outside(k, n, err);
    if (v != (long double)(int64_t)v)
        return sn_yaml_fail(n, err, "%s: %s is not a whole number of bytes; want one", k->name,
                            n->text);
    *at = (int64_t)v;
    return SN_OK;
}

static enum sn_status parse_bool(const struct sn_key *k, const struct sn_yaml_node *n, bool *at,
                                 struct sn_err *err)
{
    bool yes = !strcmp(n->text, "true") || !strcmp(n->text, "True") || !strcmp(n->text, "TRUE");
    bool no = !strcmp(n->text, "false") || !strcmp(n->text, "False") || !strcmp(n->text, "FALSE");
    if (n->quoted || !(yes || no))
        return sn_value_wrong_type(k, n, err);
    *at = yes;
    return SN_OK;
}

/* Bytes of the place of a text. */
static size_t text_size(const struct sn_key *k)
{
    return k->type == SN_KEY_PATH ? SN_PATH_MAX : k->type == SN_KEY_TEXT ? SN_NAME_MAX : 0;
}

enum sn_status sn_value_text(const struct sn_key *k, const struct sn_yaml_node *n, char *at,
                             struct sn_err *err)
{
    size_t size = text_size(k), len = strlen(n->text);
    char shown[SN_CLIP_SIZE];
    if (sn_yaml_is_null(n) || len == 0)
        return sn_value_wrong_type(k, n, err);
    if (k->type == SN_KEY_PATH && n->text[0] == '~' && strchr(n->text, '/'))
        return sn_yaml_fail(n, err,
                            "%s: '%s' begins with '~', which shells expand and run files do not; "
                            "write the whole path",
                            k->name, sn_clip(shown, n->text));
    if (len >= size)
        return sn_yaml_fail(n, err, "%s: %zu bytes long; want at most %zu", k->name, len, size - 1);
    memset(at, 0, size);
    memcpy(at, n->text, len);
    return SN_OK;
}

/* YAML's other spellings of a word that is a name of some keys. */
static const char *spelt(const struct sn_yaml_node *n)
{
    bool yes = !strcmp(n->text, "True") || !strcmp(n->text, "TRUE");
    bool no = !strcmp(n->text, "False") || !strcmp(n->text, "FALSE");
    return n->quoted || !(yes || no) ? n->text : yes ? "true" : "false";
}

enum sn_status sn_value_name(const struct sn_key *k, const struct sn_yaml_node *n, int *at,
                             struct sn_err *err)
{
    char names[SN_WANT_SIZE], shown[SN_CLIP_SIZE];
    int near = 0, nearest = 99;
    (void)sn_key_names(k, names);
    if (sn_yaml_is_null(n))
        return sn_value_wrong_type(k, n, err);
    for (int i = 0; k->names[i]; i++) {
        int d = sn_str_distance(spelt(n), k->names[i]);
        if (d == 0 && k->later >> i & 1)
            return sn_yaml_fail(n, err, "%s: %s is not built yet; use %s", k->name, k->names[i],
                                names);
        if (d == 0) {
            *at = i;
            return SN_OK;
        }
        near = d < nearest ? i : near;
        nearest = d < nearest ? d : nearest;
    }
    if (nearest <= 2)
        return sn_yaml_fail(n, err, "%s: unknown name '%s'; did you mean '%s' (want %s)?", k->name,
                            sn_clip(shown, n->text), k->names[near], names);
    return sn_yaml_fail(n, err, "%s: unknown name '%s'; want %s", k->name, sn_clip(shown, n->text),
                        names);
}

static bool is_list(const struct sn_key *k)
{
    return k->type == SN_KEY_WORDS || k->type == SN_KEY_INTS || k->type == SN_KEY_FLOATS ||
           k->type == SN_KEY_RANKING || k->type == SN_KEY_SETS || k->type == SN_KEY_PHASES;
}

static enum sn_status parse_typed(const struct sn_key *k, const struct sn_yaml_node *n, void *at,
                                  struct sn_err *err)
{
    if (!is_list(k) && n->kind != SN_YAML_SCALAR)
        return sn_value_wrong_type(k, n, err);
    switch (k->type) {
    case SN_KEY_INT:
    case SN_KEY_LONG:
        return parse_whole(k, n, at, err);
    case SN_KEY_FLOAT:
        return sn_value_float(k, n, at, err);
    case SN_KEY_BOOL:
        return parse_bool(k, n, at, err);
    case SN_KEY_BYTES:
        return parse_bytes(k, n, at, err);
    case SN_KEY_ENUM:
        return sn_value_name(k, n, at, err);
    case SN_KEY_TEXT:
    case SN_KEY_PATH:
        return sn_value_text(k, n, at, err);
    default:
        break;
    }
    return is_list(k) ? sn_list_parse(k, n, at, err) : sn_value_wrong_type(k, n, err);
}

/* A key of a feature that is not built: the value must be the one that means "off". Another form
 * than the type's, such as {x: 2, y: 2} for tensor, belongs to the feature too. */
static enum sn_status check_only(const struct sn_key *k, const struct sn_yaml_node *n,
                                 const void *at, bool parsed, struct sn_err *err)
{
    char have[SN_VALUE_SIZE], shown[SN_CLIP_SIZE];
    if (parsed && strcmp(sn_key_format(k, at, have), k->only) == 0)
        return SN_OK;
    const char *what = n->kind == SN_YAML_MAP    ? "this mapping"
                       : n->kind == SN_YAML_LIST ? "this list"
                                                 : sn_clip(shown, n->text);
    return sn_yaml_fail(n, err, "%s: %s is not built yet; use %s", k->name, what, k->only);
}

enum sn_status sn_key_parse(const struct sn_key *k, const struct sn_yaml_node *n, void *at,
                            struct sn_err *err)
{
    if (k->null_ok && sn_yaml_is_null(n)) {
        if (!text_size(k))
            return sn_key_parse_default(k, at);
        memset(at, 0, text_size(k));
        return SN_OK;
    }
    if (!k->only)
        return parse_typed(k, n, at, err);
    bool other_form = n->kind != SN_YAML_SCALAR && k->type != SN_KEY_BOOL && !is_list(k);
    if (!other_form)
        SN_TRY(parse_typed(k, n, at, err));
    return check_only(k, n, at, !other_form, err);
}

enum sn_status sn_key_parse_default(const struct sn_key *k, void *at)
{
    struct sn_yaml_node n = {.kind = SN_YAML_SCALAR, .file = "default", .text = (char *)k->value};
    if (is_list(k)) {
        sn_list_default(k, at);
        return SN_OK;
    }
    if (text_size(k) && sn_yaml_is_null(&n)) {
        memset(at, 0, text_size(k));
        return SN_OK;
    }
    return parse_typed(k, &n, at, NULL);
}

/* --- value to text -------------------------------------------------------------------------- */

size_t sn_value_quote(char *out, size_t size, const char *text)
{
    size_t n = 0;
    out[n++] = '"';
    for (; *text && n + 4 < size; text++) {
        if (*text == '"' || *text == '\\')
            out[n++] = '\\';
        out[n++] = *text;
    }
    out[n++] = '"';
    out[n] = '\0';
    return n;
}

static void format_text(const struct sn_key *k, const char *text, char buf[SN_VALUE_SIZE])
{
    if (k->only)
        (void)snprintf(buf, SN_VALUE_SIZE, "%s", text); /* compared with a bare word */
    else if (!*text)
        (void)snprintf(buf, SN_VALUE_SIZE, "null");
    else
        (void)sn_value_quote(buf, SN_VALUE_SIZE, text);
}

static void format_whole(const struct sn_key *k, int64_t v, char buf[SN_VALUE_SIZE])
{
    if (k->word && v == k->word_is)
        (void)snprintf(buf, SN_VALUE_SIZE, "%s", k->word);
    else
        (void)snprintf(buf, SN_VALUE_SIZE, "%lld", (long long)v);
}

const char *sn_key_format(const struct sn_key *k, const void *at, char buf[SN_VALUE_SIZE])
{
    switch (k->type) {
    case SN_KEY_INT:
        format_whole(k, *(const int *)at, buf);
        break;
    case SN_KEY_LONG:
        format_whole(k, *(const int64_t *)at, buf);
        break;
    case SN_KEY_FLOAT:
        if (k->word && *(const double *)at == 0)
            (void)snprintf(buf, SN_VALUE_SIZE, "%s", k->word);
        else
            sn_value_format_double(*(const double *)at, buf);
        break;
    case SN_KEY_BOOL:
        (void)snprintf(buf, SN_VALUE_SIZE, "%s", *(const bool *)at ? "true" : "false");
        break;
    case SN_KEY_BYTES:
        format_size(*(const int64_t *)at, buf);
        break;
    case SN_KEY_ENUM:
        (void)snprintf(buf, SN_VALUE_SIZE, "%s", k->names[*(const int *)at]);
        break;
    case SN_KEY_TEXT:
    case SN_KEY_PATH:
        format_text(k, at, buf);
        break;
    default:
        buf[0] = '\0';
        if (is_list(k))
            sn_list_format(k, at, buf);
    }
    return buf;
}
