/*
 * plan_json - what tests ask about JSON files.
 *
 *   plan_json schema SCHEMA FILE...   does each file satisfy the schema? what does not is named
 *   plan_json same A B TOLERANCE [KEY...]  the same values, numbers within a relative tolerance; of
 *                                     the keys only that both have them
 *   plan_json sums FILE               does what a plan says in parts add up to what it says in one?
 *   plan_json parse FILE...           is each file one JSON value?
 *
 * The schema is JSON Schema draft 2020-12 with the keywords in `keywords` below; any other keyword
 * is refused, so that nothing in a schema is passed over.
 */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *load(const char *path)
{
    json_error_t e;
    json_t *v = json_load_file(path, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &e);
    if (!v)
        (void)fprintf(stderr, "%s:%d: %s\n", path, e.line, e.text);
    return v;
}

/* --- schema ----------------------------------------------------------------------------------- */

struct check {
    const json_t *root;
    bool quiet; /* inside of oneOf: a mismatch is no error yet */
};

static bool valid(const struct check *c, const json_t *schema, const json_t *v, const char *where);

static bool wrong(const struct check *c, const char *where, const char *what)
{
    if (!c->quiet)
        (void)fprintf(stderr, "%s: %s\n", where, what);
    return false;
}

static bool is_type(const json_t *v, const char *type)
{
    return strcmp(type, "object") == 0    ? json_is_object(v)
           : strcmp(type, "array") == 0   ? json_is_array(v)
           : strcmp(type, "string") == 0  ? json_is_string(v)
           : strcmp(type, "boolean") == 0 ? json_is_boolean(v)
           : strcmp(type, "null") == 0    ? json_is_null(v)
           : strcmp(type, "number") == 0  ? json_is_number(v)
           : strcmp(type, "integer") == 0 ? json_is_integer(v)
                                          : false;
}

static bool check_type(const struct check *c, const json_t *rule, const json_t *v,
                       const char *where)
{
    bool good = json_is_string(rule) && is_type(v, json_string_value(rule));
    for (size_t i = 0; i < json_array_size(rule); i++)
        good |= is_type(v, json_string_value(json_array_get(rule, i)));
    return good || wrong(c, where, "has the wrong type");
}

static bool check_enum(const struct check *c, const json_t *rule, const json_t *v,
                       const char *where)
{
    for (size_t i = 0; i < json_array_size(rule); i++)
        if (json_equal(json_array_get(rule, i), v))
            return true;
    return wrong(c, where, "is none of the values that may be");
}

static bool check_required(const struct check *c, const json_t *rule, const json_t *v,
                           const char *where)
{
    bool good = true;
    for (size_t i = 0; json_is_object(v) && i < json_array_size(rule); i++) {
        char what[128];
        const char *key = json_string_value(json_array_get(rule, i));
        (void)snprintf(what, sizeof(what), "lacks the key '%s'", key);
        if (!json_object_get(v, key))
            good = wrong(c, where, what);
    }
    return good;
}

/* `rest`: additionalProperties; false or a schema, NULL where there is none. */
static bool check_properties(const struct check *c, const json_t *properties, const json_t *rest,
                             const json_t *v, const char *where)
{
    const char *key;
    json_t *member;
    bool good = true;
    json_object_foreach((json_t *)v, key, member)
    {
        char path[512];
        const json_t *rule = json_object_get(properties, key);
        (void)snprintf(path, sizeof(path), "%s.%s", where, key);
        if (!rule && json_is_false(rest))
            good = wrong(c, path, "is no key of the schema");
        else if (rule || json_is_object(rest))
            good &= valid(c, rule ? rule : rest, member, path);
    }
    return good;
}

static bool check_items(const struct check *c, const json_t *rule, const json_t *v,
                        const char *where)
{
    bool good = true;
    for (size_t i = 0; i < json_array_size(v); i++) {
        char path[512];
        (void)snprintf(path, sizeof(path), "%s[%zu]", where, i);
        good &= valid(c, rule, json_array_get(v, i), path);
    }
    return good;
}

static const json_t *referred(const struct check *c, const char *ref)
{
    const char *prefix = "#/$defs/";
    if (strncmp(ref, prefix, strlen(prefix)) != 0)
        return NULL;
    return json_object_get(json_object_get(c->root, "$defs"), ref + strlen(prefix));
}

/* Where none fits, say what is wrong with those that are of the value's type. */
static bool check_one_of(const struct check *c, const json_t *rule, const json_t *v,
                         const char *where)
{
    struct check quiet = {c->root, true};
    int n = 0;
    for (size_t i = 0; i < json_array_size(rule); i++)
        n += valid(&quiet, json_array_get(rule, i), v, where);
    for (size_t i = 0; n == 0 && i < json_array_size(rule); i++) {
        const json_t *schema = json_array_get(rule, i), *ref = json_object_get(schema, "$ref");
        schema = ref ? referred(c, json_string_value(ref)) : schema;
        const char *type = json_string_value(json_object_get(schema, "type"));
        if (type && is_type(v, type))
            (void)valid(c, schema, v, where);
    }
    return n == 1 || wrong(c, where, "satisfies none of oneOf, or several");
}

static bool check_keyword(const struct check *c, const json_t *schema, const char *keyword,
                          const json_t *rule, const json_t *v, const char *where)
{
    static const char *const no_meaning[] = {"$schema", "$id",         "$defs",
                                             "title",   "description", "properties"};
    const json_t *other;
    for (size_t i = 0; i < sizeof(no_meaning) / sizeof(no_meaning[0]); i++)
        if (strcmp(keyword, no_meaning[i]) == 0 &&
            (strcmp(keyword, "properties") != 0 || json_object_get(schema, "additionalProperties")))
            return true;
    if (strcmp(keyword, "properties") == 0)
        return check_properties(c, rule, NULL, v, where);
    if (strcmp(keyword, "additionalProperties") == 0)
        return check_properties(c, json_object_get(schema, "properties"), rule, v, where);
    if (strcmp(keyword, "type") == 0)
        return check_type(c, rule, v, where);
    if (strcmp(keyword, "enum") == 0)
        return check_enum(c, rule, v, where);
    if (strcmp(keyword, "required") == 0)
        return check_required(c, rule, v, where);
    if (strcmp(keyword, "items") == 0)
        return check_items(c, rule, v, where);
    if (strcmp(keyword, "oneOf") == 0)
        return check_one_of(c, rule, v, where);
    if (strcmp(keyword, "minimum") == 0)
        return !json_is_number(v) || json_number_value(v) >= json_number_value(rule) ||
               wrong(c, where, "is too small");
    if (strcmp(keyword, "maximum") == 0)
        return !json_is_number(v) || json_number_value(v) <= json_number_value(rule) ||
               wrong(c, where, "is too large");
    if (strcmp(keyword, "$ref") == 0 && (other = referred(c, json_string_value(rule))))
        return valid(c, other, v, where);
    (void)fprintf(stderr, "schema: keyword '%s' is unknown or refers to nothing\n", keyword);
    exit(2);
}

static bool valid(const struct check *c, const json_t *schema, const json_t *v, const char *where)
{
    const char *keyword;
    json_t *rule;
    bool good = true;
    json_object_foreach((json_t *)schema, keyword, rule) good &=
        check_keyword(c, schema, keyword, rule, v, where);
    return good;
}

static bool all_valid(const char *schema, char **files)
{
    struct check c = {load(schema), false};
    bool good = c.root != NULL;
    for (; c.root && *files; files++) {
        json_t *v = load(*files);
        good &= v && valid(&c, c.root, v, *files);
        json_decref(v);
    }
    json_decref((json_t *)c.root);
    return good;
}

/* --- comparison ------------------------------------------------------------------------------- */

struct comparison {
    double tolerance;
    char **not_compared; /* keys, NULL at the end */
};

static bool is_compared(const struct comparison *c, const char *key)
{
    for (char **k = c->not_compared; *k; k++)
        if (strcmp(*k, key) == 0)
            return false;
    return true;
}

static bool same(const struct comparison *c, const json_t *a, const json_t *b, const char *where)
{
    char path[512];
    bool good = true;
    if (json_is_number(a) && json_is_number(b)) {
        double x = json_number_value(a), y = json_number_value(b);
        if (fabs(x - y) <= c->tolerance * fmax(fabs(x), fabs(y)))
            return true;
        (void)fprintf(stderr, "%s: %.12g, %.12g\n", where, x, y);
        return false;
    }
    if (json_typeof(a) != json_typeof(b) || json_object_size(a) != json_object_size(b) ||
        json_array_size(a) != json_array_size(b)) {
        (void)fprintf(stderr, "%s: other types or numbers of members\n", where);
        return false;
    }
    if (json_is_object(a)) {
        const char *key;
        json_t *member;
        json_object_foreach((json_t *)a, key, member)
        {
            const json_t *other = json_object_get(b, key);
            (void)snprintf(path, sizeof(path), "%s.%s", where, key);
            if (!other)
                (void)fprintf(stderr, "%s: is in one only\n", path);
            good &= other && (!is_compared(c, key) || same(c, member, other, path));
        }
        return good;
    }
    for (size_t i = 0; i < json_array_size(a); i++) {
        (void)snprintf(path, sizeof(path), "%s[%zu]", where, i);
        good &= same(c, json_array_get(a, i), json_array_get(b, i), path);
    }
    if (!json_is_array(a) && !json_equal(a, b)) {
        (void)fprintf(stderr, "%s: not the same value\n", where);
        return false;
    }
    return good;
}

static bool files_same(char **argv)
{
    json_t *a = load(argv[0]), *b = load(argv[1]);
    struct comparison c = {strtod(argv[2], NULL), argv + 3};
    bool good = a && b && same(&c, a, b, argv[1]);
    json_decref(a);
    json_decref(b);
    return good;
}

static double sum(const json_t *object, const char *but)
{
    const char *key;
    json_t *member;
    double total = 0;
    json_object_foreach((json_t *)object, key, member)
    {
        total += strcmp(key, but) == 0 ? 0 : json_number_value(member);
    }
    return total;
}

static bool equal(const char *what, double a, double b, double tolerance)
{
    if (fabs(a - b) <= tolerance * fmax(fabs(a), fabs(b)))
        return true;
    (void)fprintf(stderr, "%s: %.12g, %.12g\n", what, a, b);
    return false;
}

static double at(const json_t *v, const char *key)
{
    return json_number_value(json_object_get(v, key));
}

static bool adds_up(const char *path)
{
    json_t *v = load(path);
    const json_t *memory = json_object_get(v, "memory_bytes");
    double busy = at(v, "compute_s") + at(v, "update_s") + at(v, "idle_s");
    bool good = v && equal("memory", sum(memory, "total"), at(memory, "total"), 0);
    good = good && equal("traffic", sum(json_object_get(v, "traffic_bytes"), ""),
                         sum(json_object_get(v, "traffic_by_level"), ""), 0);
    good = good && equal("time", busy + sum(json_object_get(v, "exposed_comm_s"), ""),
                         at(v, "step_time_s"), 1e-7);
    json_decref(v);
    return good;
}

static bool all_parse(char **files)
{
    bool good = true;
    for (; *files; files++) {
        json_t *v = load(*files);
        good &= v != NULL;
        json_decref(v);
    }
    return good;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "schema") == 0)
        return !all_valid(argv[2], argv + 3);
    if (argc >= 5 && strcmp(argv[1], "same") == 0)
        return !files_same(argv + 2);
    if (argc == 3 && strcmp(argv[1], "sums") == 0)
        return !adds_up(argv[2]);
    if (argc >= 3 && strcmp(argv[1], "parse") == 0)
        return !all_parse(argv + 2);
    (void)fprintf(stderr, "usage: plan_json schema SCHEMA FILE... | same A B TOLERANCE [KEY...] | "
                          "sums FILE | parse FILE...\n");
    return 2;
}
