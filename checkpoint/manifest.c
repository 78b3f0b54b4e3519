#include "checkpoint/manifest.h"

#include "checkpoint/json.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* --- value to text: one line per tensor, so that people can grep it ------------------------- */

static void format_scalars(struct sn_str *out, const struct sn_state_scalars *s)
{
    sn_str_add(out,
               "  \"scalars\": {\"step\": %" PRId64 ", \"tokens\": %" PRId64
               ", \"adam_count\": %" PRId64 ", \"scale_age\": %" PRId64 ", \"skipped\": %" PRId64
               ", \"loss_scale\": \"%a\"},\n",
               s->step, s->tokens, s->adam_count, s->scale_age, s->skipped, (double)s->loss_scale);
}

static void format_tensor(struct sn_str *out, const struct sn_manifest_tensor *t)
{
    sn_str_add(out, "    {\"group\": ");
    sn_str_add_json(out, t->group);
    sn_str_add(out, ", \"name\": ");
    sn_str_add_json(out, t->name);
    sn_str_add(out,
               ", \"shape\": [%" PRId64 ", %" PRId64 "], \"dtype\": \"fp32\", \"pieces\": "
               "[{\"row\": [0, %" PRId64 "], \"col\": [0, %" PRId64
               "], \"shard\": %d, \"dataset\": ",
               t->rows, t->cols, t->rows, t->cols, t->shard);
    sn_str_add_json(out, t->dataset);
    sn_str_add(out, ", \"bytes\": %" PRId64 ", \"xxh3\": \"%016" PRIx64 "\"}]}",
               t->rows * t->cols * (int64_t)sizeof(float), t->hash);
}

void sn_manifest_format(struct sn_str *out, const struct sn_manifest *m)
{
    sn_str_add(out, "{\n  \"schema\": %d,\n  \"model\": ", SN_MANIFEST_SCHEMA);
    sn_str_add_json(out, m->model_text);
    sn_str_add(out, ",\n  \"config_hash\": \"%016" PRIx64 "\",\n", m->config_hash);
    format_scalars(out, &m->scalars);
    sn_str_add(out, "  \"shards\": [\n");
    for (int i = 0; i < m->n_shards; i++) {
        sn_str_add(out, "    {\"file\": ");
        sn_str_add_json(out, m->shards[i].file);
        sn_str_add(out, ", \"bytes\": %" PRId64 "}%s\n", m->shards[i].bytes,
                   i + 1 < m->n_shards ? "," : "");
    }
    sn_str_add(out, "  ],\n  \"tensors\": [\n");
    for (int i = 0; i < m->n_tensors; i++) {
        format_tensor(out, &m->tensors[i]);
        sn_str_add(out, "%s\n", i + 1 < m->n_tensors ? "," : "");
    }
    sn_str_add(out, "  ]\n}\n");
}

/* --- text to value --------------------------------------------------------------------------- */

/* Reads members of one JSON object; the first thing that is wrong is the sentence that stays. */
struct reader {
    const char *file;
    struct sn_err *err;
    enum sn_status st;
};

static const json_t *member(struct reader *r, const json_t *of, const char *key)
{
    const json_t *v = json_object_get(of, key);
    if (!v && r->st == SN_OK)
        r->st = sn_fail(r->err, SN_EIO, "%s: a '%s' is missing; the file is damaged", r->file, key);
    return v;
}

static int64_t whole(struct reader *r, const json_t *of, const char *key)
{
    const json_t *v = member(r, of, key);
    if (r->st == SN_OK && (!json_is_integer(v) || json_integer_value(v) < 0))
        r->st = sn_fail(r->err, SN_EIO, "%s: '%s' is not a number from 0 up; the file is damaged",
                        r->file, key);
    return json_integer_value(v);
}

static const char *string(struct reader *r, const json_t *of, const char *key)
{
    const json_t *v = member(r, of, key);
    if (r->st == SN_OK && !json_is_string(v))
        r->st =
            sn_fail(r->err, SN_EIO, "%s: '%s' is not a string; the file is damaged", r->file, key);
    const char *s = json_string_value(v);
    return s ? s : "";
}

static const json_t *array(struct reader *r, const json_t *of, const char *key)
{
    const json_t *v = member(r, of, key);
    if (r->st == SN_OK && !json_is_array(v))
        r->st =
            sn_fail(r->err, SN_EIO, "%s: '%s' is not a list; the file is damaged", r->file, key);
    return v;
}

static uint64_t hex64(struct reader *r, const json_t *of, const char *key)
{
    const char *s = string(r, of, key);
    char *end;
    errno = 0;
    uint64_t v = strtoull(s, &end, 16);
    if (r->st == SN_OK && (strlen(s) != 16 || *end || errno))
        r->st =
            sn_fail(r->err, SN_EIO, "%s: '%s' is '%s', not 16 hexadecimal digits", r->file, key, s);
    return v;
}

static struct sn_state_scalars parse_scalars(struct reader *r, const json_t *of)
{
    const json_t *o = member(r, of, "scalars");
    struct sn_state_scalars s = {whole(r, o, "step"),       whole(r, o, "tokens"),
                                 whole(r, o, "adam_count"), whole(r, o, "scale_age"),
                                 whole(r, o, "skipped"),    0};
    const char *text = string(r, o, "loss_scale");
    char *end;
    s.loss_scale = strtof(text, &end);
    if (r->st == SN_OK && (end == text || *end))
        r->st = sn_fail(r->err, SN_EIO, "%s: 'loss_scale' is '%s', not a number", r->file, text);
    return s;
}

static struct sn_manifest_shard parse_shard(struct reader *r, const json_t *of)
{
    struct sn_manifest_shard s = {string(r, of, "file"), whole(r, of, "bytes")};
    if (r->st == SN_OK && (!*s.file || strchr(s.file, '/') || *s.file == '.'))
        r->st = sn_fail(r->err, SN_EIO, "%s: '%s' is no shard's file name", r->file, s.file);
    return s;
}

static bool is_range(const json_t *v, int64_t first, int64_t end)
{
    return json_is_array(v) && json_array_size(v) == 2 && json_is_integer(json_array_get(v, 0)) &&
           json_integer_value(json_array_get(v, 0)) == first &&
           json_is_integer(json_array_get(v, 1)) && json_integer_value(json_array_get(v, 1)) == end;
}

static void parse_piece(struct reader *r, const json_t *of, int n_shards,
                        struct sn_manifest_tensor *t)
{
    int64_t shard = whole(r, of, "shard"), bytes = whole(r, of, "bytes"), values = 0;
    t->dataset = string(r, of, "dataset");
    t->hash = hex64(r, of, "xxh3");
    bool fits = !__builtin_mul_overflow(t->rows, t->cols, &values) && values <= INT64_MAX / 4;
    if (r->st == SN_OK && (!fits || bytes != values * 4 || shard >= n_shards))
        r->st = sn_fail(r->err, SN_EIO,
                        "%s: %s %s: shape %" PRId64 " x %" PRId64 ", %" PRId64
                        " bytes and shard %" PRId64 " do not belong together",
                        r->file, t->group, t->name, t->rows, t->cols, bytes, shard);
    if (r->st == SN_OK && (!is_range(json_object_get(of, "row"), 0, t->rows) ||
                           !is_range(json_object_get(of, "col"), 0, t->cols)))
        r->st = sn_fail(r->err, SN_EIO, "%s: %s %s: the piece is not the whole tensor", r->file,
                        t->group, t->name);
    t->shard = (int)shard;
}

static struct sn_manifest_tensor parse_tensor(struct reader *r, const json_t *of, int n_shards)
{
    struct sn_manifest_tensor t = {.group = string(r, of, "group"), .name = string(r, of, "name")};
    const char *dtype = string(r, of, "dtype");
    const json_t *shape = array(r, of, "shape"), *pieces = array(r, of, "pieces");
    if (r->st == SN_OK && strcmp(dtype, "fp32") != 0)
        r->st = sn_fail(r->err, SN_EINPUT, "%s: %s %s has dtype '%s'; this version reads fp32",
                        r->file, t.group, t.name, dtype);
    if (r->st == SN_OK && json_array_size(pieces) != 1)
        r->st = sn_fail(r->err, SN_EINPUT,
                        "%s: %s %s is cut into %zu pieces; this version reads whole tensors",
                        r->file, t.group, t.name, json_array_size(pieces));
    t.rows = json_integer_value(json_array_get(shape, 0));
    t.cols = json_integer_value(json_array_get(shape, 1));
    if (r->st == SN_OK && (json_array_size(shape) != 2 || t.rows < 0 || t.cols < 0))
        r->st = sn_fail(r->err, SN_EIO, "%s: %s %s: its shape is not two sizes", r->file, t.group,
                        t.name);
    parse_piece(r, json_array_get(pieces, 0), n_shards, &t);
    return t;
}

static int by_name(const void *pa, const void *pb)
{
    const struct sn_manifest_tensor *a = pa, *b = pb;
    int order = strcmp(a->group, b->group);
    return order ? order : strcmp(a->name, b->name);
}

static void sort_tensors(struct reader *r, struct sn_manifest *m)
{
    qsort(m->tensors, (size_t)m->n_tensors, sizeof(*m->tensors), by_name);
    for (int i = 1; i < m->n_tensors && r->st == SN_OK; i++)
        if (by_name(&m->tensors[i - 1], &m->tensors[i]) == 0)
            r->st = sn_fail(r->err, SN_EIO, "%s: tensor %s %s is listed twice", r->file,
                            m->tensors[i].group, m->tensors[i].name);
}

static void parse_lists(struct reader *r, const json_t *root, struct sn_manifest *m)
{
    const json_t *shards = array(r, root, "shards"), *tensors = array(r, root, "tensors");
    size_t ns = json_array_size(shards), nt = json_array_size(tensors);
    if (r->st != SN_OK)
        return;
    m->shards = sn_alloc_n(ns, sizeof(*m->shards));
    m->tensors = sn_alloc_n(nt, sizeof(*m->tensors));
    if (!m->shards || !m->tensors || ns > INT32_MAX || nt > INT32_MAX) {
        r->st = sn_fail(r->err, SN_ENOMEM, "%s: no memory for %zu shards and %zu tensors", r->file,
                        ns, nt);
        return;
    }
    m->n_shards = (int)ns;
    m->n_tensors = (int)nt;
    for (size_t i = 0; i < ns && r->st == SN_OK; i++)
        m->shards[i] = parse_shard(r, json_array_get(shards, i));
    for (size_t i = 0; i < nt && r->st == SN_OK; i++)
        m->tensors[i] = parse_tensor(r, json_array_get(tensors, i), m->n_shards);
    if (r->st == SN_OK)
        sort_tensors(r, m);
}

static enum sn_status load_json(json_t **out, const char *text, size_t len, const char *file,
                                struct sn_err *err)
{
    json_set_alloc_funcs(sn_json_alloc, sn_free); /* the library's one setting, the same for all */
    uint64_t refused = sn_json_refusals();
    json_error_t why = {0};
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (sn_json_refusals() != refused) {
        json_decref(root);
        return sn_fail(err, SN_ENOMEM, "%s: no memory to read it", file);
    }
    if (root) {
        *out = root;
        return SN_OK;
    }
    return sn_fail(err, SN_EIO, "%s:%d:%d: is not JSON: %s", file, why.line, why.column, why.text);
}

enum sn_status sn_manifest_parse(struct sn_manifest *out, const char *text, size_t len,
                                 const char *file, struct sn_err *err)
{
    json_t *root = NULL;
    SN_TRY(load_json(&root, text, len, file, err));
    struct reader r = {file, err, SN_OK};
    struct sn_manifest m = {.json = root};
    int64_t schema = whole(&r, root, "schema");
    if (r.st == SN_OK && schema != SN_MANIFEST_SCHEMA)
        r.st = sn_fail(err, SN_EINPUT,
                       "%s: has schema version %" PRId64 ", but this version of sennit reads %d; "
                       "use the version that wrote it",
                       file, schema, SN_MANIFEST_SCHEMA);
    m.model_text = string(&r, root, "model");
    m.config_hash = hex64(&r, root, "config_hash");
    m.scalars = parse_scalars(&r, root);
    parse_lists(&r, root, &m);
    if (r.st != SN_OK) {
        sn_manifest_fini(&m);
        return r.st;
    }
    *out = m;
    return SN_OK;
}

void sn_manifest_fini(struct sn_manifest *m)
{
    sn_free(m->shards);
    sn_free(m->tensors);
    json_decref(m->json);
    *m = (struct sn_manifest){0};
}

const struct sn_manifest_tensor *sn_manifest_find(const struct sn_manifest *m, const char *group,
                                                  const char *name)
{
    struct sn_manifest_tensor key = {.group = group, .name = name};
    return bsearch(&key, m->tensors, (size_t)m->n_tensors, sizeof(key), by_name);
}
