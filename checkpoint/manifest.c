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

static void format_piece(struct sn_str *out, const struct sn_manifest_piece *p)
{
    sn_str_add(out,
               "{\"row\": [%" PRId64 ", %" PRId64 "], \"col\": [%" PRId64 ", %" PRId64
               "], \"shard\": %d, \"dataset\": ",
               p->box.row, p->box.row + p->box.rows, p->box.col, p->box.col + p->box.cols,
               p->shard);
    sn_str_add_json(out, p->dataset);
    sn_str_add(out, ", \"bytes\": %" PRId64 ", \"xxh3\": \"%016" PRIx64 "\"}",
               sn_box_size(p->box) * (int64_t)sizeof(float), p->hash);
}

static void format_tensor(struct sn_str *out, const struct sn_manifest_tensor *t)
{
    sn_str_add(out, "    {\"group\": ");
    sn_str_add_json(out, t->group);
    sn_str_add(out, ", \"name\": ");
    sn_str_add_json(out, t->name);
    sn_str_add(out, ", \"shape\": [%" PRId64 ", %" PRId64 "], \"dtype\": \"fp32\", \"pieces\": [",
               t->rows, t->cols);
    for (int i = 0; i < t->n_pieces; i++) {
        sn_str_add(out, "%s", i ? ",\n      " : "");
        format_piece(out, &t->pieces[i]);
    }
    sn_str_add(out, "]}");
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

/* A range [first, end) of a dimension of `size`. */
static bool parse_range(const json_t *v, int64_t size, int64_t *first, int64_t *count)
{
    if (!json_is_array(v) || json_array_size(v) != 2 || !json_is_integer(json_array_get(v, 0)) ||
        !json_is_integer(json_array_get(v, 1)))
        return false;
    int64_t begin = json_integer_value(json_array_get(v, 0)),
            end = json_integer_value(json_array_get(v, 1));
    if (begin < 0 || begin > end || end > size)
        return false;
    *first = begin;
    *count = end - begin;
    return true;
}

static struct sn_manifest_piece parse_piece(struct reader *r, const json_t *of, int n_shards,
                                            const struct sn_manifest_tensor *t)
{
    struct sn_manifest_piece p = {.dataset = string(r, of, "dataset")};
    int64_t shard = whole(r, of, "shard"), bytes = whole(r, of, "bytes");
    p.hash = hex64(r, of, "xxh3");
    bool rows = parse_range(json_object_get(of, "row"), t->rows, &p.box.row, &p.box.rows);
    bool cols = parse_range(json_object_get(of, "col"), t->cols, &p.box.col, &p.box.cols);
    if (r->st == SN_OK && (!rows || !cols))
        r->st = sn_fail(r->err, SN_EIO,
                        "%s: %s %s: the place of a piece is not two ranges inside its shape",
                        r->file, t->group, t->name);
    if (r->st == SN_OK &&
        (bytes != sn_box_size(p.box) * (int64_t)sizeof(float) || shard >= n_shards))
        r->st = sn_fail(r->err, SN_EIO,
                        "%s: %s %s: a piece of %" PRId64 " x %" PRId64 ", %" PRId64
                        " bytes and shard %" PRId64 " do not belong together",
                        r->file, t->group, t->name, p.box.rows, p.box.cols, bytes, shard);
    p.shard = (int)shard;
    return p;
}

static void check_shape(struct reader *r, const json_t *shape, const struct sn_manifest_tensor *t)
{
    int64_t values = 0;
    if (r->st == SN_OK && (json_array_size(shape) != 2 || t->rows < 0 || t->cols < 0))
        r->st = sn_fail(r->err, SN_EIO, "%s: %s %s: its shape is not two sizes", r->file, t->group,
                        t->name);
    if (r->st == SN_OK &&
        (__builtin_mul_overflow(t->rows, t->cols, &values) || values > INT64_MAX / 4))
        r->st = sn_fail(r->err, SN_EIO, "%s: %s %s: %" PRId64 " x %" PRId64 " is no size", r->file,
                        t->group, t->name, t->rows, t->cols);
}

/* Reads a tensor without its pieces; their list is *pieces. */
static struct sn_manifest_tensor parse_tensor(struct reader *r, const json_t *of,
                                              const json_t **pieces)
{
    struct sn_manifest_tensor t = {.group = string(r, of, "group"), .name = string(r, of, "name")};
    const char *dtype = string(r, of, "dtype");
    const json_t *shape = array(r, of, "shape");
    *pieces = array(r, of, "pieces");
    if (r->st == SN_OK && strcmp(dtype, "fp32") != 0)
        r->st = sn_fail(r->err, SN_EINPUT, "%s: %s %s has dtype '%s'; this version reads fp32",
                        r->file, t.group, t.name, dtype);
    t.rows = json_integer_value(json_array_get(shape, 0));
    t.cols = json_integer_value(json_array_get(shape, 1));
    check_shape(r, shape, &t);
    return t;
}

static int by_place(const void *pa, const void *pb)
{
    const struct sn_manifest_piece *a = pa, *b = pb;
    return sn_box_order(a->box, b->box);
}

static void parse_pieces(struct reader *r, const json_t *pieces, struct sn_manifest *m,
                         struct sn_manifest_tensor *t)
{
    t->pieces = m->pieces + m->n_pieces;
    t->n_pieces = (int)json_array_size(pieces); /* all together are fewer than INT32_MAX */
    for (int i = 0; i < t->n_pieces && r->st == SN_OK; i++)
        t->pieces[i] = parse_piece(r, json_array_get(pieces, (size_t)i), m->n_shards, t);
    if (r->st == SN_OK && t->n_pieces > 1)
        qsort(t->pieces, (size_t)t->n_pieces, sizeof(*t->pieces), by_place);
    m->n_pieces += t->n_pieces;
}

int sn_manifest_order(const char *group_a, const char *name_a, const char *group_b,
                      const char *name_b)
{
    int order = strcmp(group_a, group_b);
    return order ? order : strcmp(name_a, name_b);
}

static int by_name(const void *pa, const void *pb)
{
    const struct sn_manifest_tensor *a = pa, *b = pb;
    return sn_manifest_order(a->group, a->name, b->group, b->name);
}

static void sort_tensors(struct reader *r, struct sn_manifest *m)
{
    qsort(m->tensors, (size_t)m->n_tensors, sizeof(*m->tensors), by_name);
    for (int i = 1; i < m->n_tensors && r->st == SN_OK; i++)
        if (by_name(&m->tensors[i - 1], &m->tensors[i]) == 0)
            r->st = sn_fail(r->err, SN_EIO, "%s: tensor %s %s is listed twice", r->file,
                            m->tensors[i].group, m->tensors[i].name);
}

static size_t count_pieces(const json_t *tensors)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(tensors); i++)
        n += json_array_size(json_object_get(json_array_get(tensors, i), "pieces"));
    return n;
}

/* In a manifest of schema 1 every tensor is one whole piece. */
static void check_whole(struct reader *r, const struct sn_manifest_tensor *t)
{
    struct sn_box whole_box = {0, 0, t->rows, t->cols};
    if (r->st == SN_OK && (t->n_pieces != 1 || sn_box_order(t->pieces->box, whole_box) != 0 ||
                           t->pieces->box.rows != t->rows || t->pieces->box.cols != t->cols))
        r->st = sn_fail(r->err, SN_EIO, "%s: %s %s: the piece is not the whole tensor", r->file,
                        t->group, t->name);
}

static void parse_lists(struct reader *r, const json_t *root, bool wholes, struct sn_manifest *m)
{
    const json_t *shards = array(r, root, "shards"), *tensors = array(r, root, "tensors"), *list;
    size_t ns = json_array_size(shards), nt = json_array_size(tensors), np = count_pieces(tensors);
    if (r->st != SN_OK)
        return;
    m->shards = sn_alloc_n(ns, sizeof(*m->shards));
    m->tensors = sn_alloc_n(nt, sizeof(*m->tensors));
    m->pieces = sn_alloc_n(np, sizeof(*m->pieces));
    if (!m->shards || !m->tensors || !m->pieces || ns > INT32_MAX || nt > INT32_MAX ||
        np > INT32_MAX) {
        r->st = sn_fail(r->err, SN_ENOMEM, "%s: no memory for %zu shards and %zu tensors", r->file,
                        ns, nt);
        return;
    }
    m->n_shards = (int)ns;
    m->n_tensors = (int)nt;
    for (size_t i = 0; i < ns && r->st == SN_OK; i++)
        m->shards[i] = parse_shard(r, json_array_get(shards, i));
    for (size_t i = 0; i < nt && r->st == SN_OK; i++) {
        m->tensors[i] = parse_tensor(r, json_array_get(tensors, i), &list);
        parse_pieces(r, list, m, &m->tensors[i]);
        if (wholes)
            check_whole(r, &m->tensors[i]);
    }
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
    if (r.st == SN_OK && (schema < 1 || schema > SN_MANIFEST_SCHEMA))
        r.st = sn_fail(err, SN_EINPUT,
                       "%s: has schema version %" PRId64 ", but this version of sennit reads 1 to "
                       "%d; use the version that wrote it",
                       file, schema, SN_MANIFEST_SCHEMA);
    m.model_text = string(&r, root, "model");
    m.config_hash = hex64(&r, root, "config_hash");
    m.scalars = parse_scalars(&r, root);
    parse_lists(&r, root, schema == 1, &m);
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
    sn_free(m->pieces);
    json_decref(m->json);
    *m = (struct sn_manifest){0};
}

const struct sn_manifest_tensor *sn_manifest_find(const struct sn_manifest *m, const char *group,
                                                  const char *name)
{
    struct sn_manifest_tensor key = {.group = group, .name = name};
    return bsearch(&key, m->tensors, (size_t)m->n_tensors, sizeof(key), by_name);
}
