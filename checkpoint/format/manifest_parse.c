/*
 * manifest_parse.c - JSON text to a manifest, believing nothing. Longer than 500 lines because one reader
 * knows all members of one text.
 */
#include "checkpoint/format/hdf5.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/io/json.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_MIN = 4096, BLOCK_MAX = 1 << 30 }; /* bytes a hash */
enum { HEX = 16 };                              /* digits of a hash */

/* Reads members of one JSON object; the first thing that is wrong is the sentence that stays. */
struct reader {
    const char *file;
    struct sn_err *err;
    enum sn_status st;
    int64_t schema;
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

/* A name for sentences and tables: a hostile one must not reach a terminal's control sequences. */
static const char *name_of(struct reader *r, const json_t *of, const char *key)
{
    const char *s = string(r, of, key);
    for (const unsigned char *c = (const unsigned char *)s; *c && r->st == SN_OK; c++)
        if (*c < 0x20 || *c >= 0x7f)
            r->st = sn_fail(r->err, SN_EIO,
                            "%s: a '%s' has the byte 0x%02x, which is no printable ASCII", r->file,
                            key, (unsigned)*c);
    return s;
}

static const json_t *array(struct reader *r, const json_t *of, const char *key)
{
    const json_t *v = member(r, of, key);
    if (r->st == SN_OK && !json_is_array(v))
        r->st =
            sn_fail(r->err, SN_EIO, "%s: '%s' is not a list; the file is damaged", r->file, key);
    return v;
}

/* Reads 16 lower-case digits, as we write them. */
static bool parse_hex(const char *s, uint64_t *out)
{
    uint64_t v = 0;
    for (int i = 0; i < HEX; i++) {
        bool is_digit = s[i] >= '0' && s[i] <= '9', is_letter = s[i] >= 'a' && s[i] <= 'f';
        if (!is_digit && !is_letter)
            return false;
        v = v << 4 | (uint64_t)(is_digit ? s[i] - '0' : s[i] - 'a' + 10);
    }
    *out = v;
    return true;
}

static uint64_t hex64(struct reader *r, const json_t *of, const char *key)
{
    const char *s = string(r, of, key);
    uint64_t v = 0;
    if (r->st == SN_OK && (strlen(s) != HEX || !parse_hex(s, &v)))
        r->st =
            sn_fail(r->err, SN_EIO, "%s: '%s' is '%s', not 16 hexadecimal digits", r->file, key, s);
    return v;
}

/* Those of codecs that this reader knows; without them, all are 0. */
static void parse_levels(struct reader *r, const json_t *o, struct sn_state_scalars *s)
{
    const json_t *all = json_object_get(o, "codec_level");
    if (!all || r->st != SN_OK)
        return;
    bool good = json_array_size(all) == SN_NCODED;
    for (int i = 0; good && i < SN_NCODED; i++) {
        const json_t *v = json_array_get(all, (size_t)i);
        good = json_is_integer(v) && json_integer_value(v) >= 0 &&
               json_integer_value(v) < SN_CODEC_LEVELS;
        s->codec_level[i] = good ? (int32_t)json_integer_value(v) : 0;
    }
    if (!good)
        r->st = sn_fail(r->err, SN_EIO,
                        "%s: 'codec_level' is not a list of %d numbers from 0 to %d; the file is "
                        "damaged",
                        r->file, (int)SN_NCODED, SN_CODEC_LEVELS - 1);
}

/* A float as text in hexadecimal. */
static float parse_float(struct reader *r, const json_t *o, const char *key)
{
    const char *text = string(r, o, key);
    char *end;
    float x = strtof(text, &end);
    if (r->st == SN_OK && (end == text || *end))
        r->st = sn_fail(r->err, SN_EIO, "%s: '%s' is '%s', not a number", r->file, key, text);
    return x;
}

static struct sn_state_scalars parse_scalars(struct reader *r, const json_t *of)
{
    const json_t *o = member(r, of, "scalars");
    struct sn_state_scalars s = {.step = whole(r, o, "step"),
                                 .tokens = whole(r, o, "tokens"),
                                 .adam_count = whole(r, o, "adam_count"),
                                 .scale_age = whole(r, o, "scale_age"),
                                 .skipped = whole(r, o, "skipped")};
    parse_levels(r, o, &s);
    s.loss_scale = parse_float(r, o, "loss_scale");
    if (json_object_get(o, "adapter_scale"))
        s.adapter_scale = parse_float(r, o, "adapter_scale");
    if (r->st == SN_OK && !(s.adapter_scale >= 0 && isfinite(s.adapter_scale)))
        r->st = sn_fail(r->err, SN_EIO, "%s: 'adapter_scale' is %g, not a number from 0 on",
                        r->file, (double)s.adapter_scale);
    if (json_object_get(o, "blend"))
        s.blend = hex64(r, o, "blend");
    return s;
}

static struct sn_manifest_shard parse_shard(struct reader *r, const json_t *of)
{
    struct sn_manifest_shard s = {name_of(r, of, "file"), whole(r, of, "bytes")};
    if (r->st == SN_OK && (!*s.file || strchr(s.file, '/') || *s.file == '.'))
        r->st = sn_fail(r->err, SN_EIO, "%s: '%s' is no shard's file name", r->file, s.file);
    return s;
}

/* Two numbers; which ones is for the caller to judge. */
static bool parse_pair(const json_t *v, int64_t *a, int64_t *b)
{
    const json_t *first = json_array_get(v, 0), *second = json_array_get(v, 1);
    if (json_array_size(v) != 2 || !json_is_integer(first) || !json_is_integer(second))
        return false;
    *a = json_integer_value(first);
    *b = json_integer_value(second);
    return true;
}

/* A range [first, end) of a dimension of `size`. */
static bool parse_range(const json_t *v, int64_t size, int64_t *first, int64_t *count)
{
    int64_t begin, end;
    if (!parse_pair(v, &begin, &end) || begin < 0 || begin > end || end > size)
        return false;
    *first = begin;
    *count = end - begin;
    return true;
}

/* Sizes whose product times the largest element can be counted. */
static bool is_shape(int64_t rows, int64_t cols)
{
    int64_t values;
    return rows >= 0 && cols >= 0 && !__builtin_mul_overflow(rows, cols, &values) &&
           values <= INT64_MAX / 4;
}

/* Where the box lies in its dataset; the dataset is the box unless both are given. */
static void parse_place(struct reader *r, const json_t *of, const struct sn_manifest_tensor *t,
                        struct sn_manifest_piece *p)
{
    const json_t *at = json_object_get(of, "at"), *set = json_object_get(of, "set");
    p->set_rows = p->box.rows;
    p->set_cols = p->box.cols;
    if (r->schema < 3 || (!at && !set))
        return;
    bool good = parse_pair(at, &p->at_row, &p->at_col) &&
                parse_pair(set, &p->set_rows, &p->set_cols) && is_shape(p->set_rows, p->set_cols);
    struct sn_box place = {p->at_row, p->at_col, p->box.rows, p->box.cols};
    if (r->st == SN_OK && (!good || !sn_box_fits(place, p->set_rows, p->set_cols)))
        r->st = sn_fail(r->err, SN_EIO,
                        "%s: %s %s: 'at' and 'set' are not a place of %" PRId64 " x %" PRId64
                        " values in a dataset",
                        r->file, t->group, t->name, p->box.rows, p->box.cols);
}

/* The dataset is in the file. */
static void check_file(struct reader *r, const struct sn_manifest *m,
                       const struct sn_manifest_tensor *t, const struct sn_manifest_piece *p)
{
    if (r->st != SN_OK) /* else rows and columns may be anything */
        return;
    int64_t bytes = p->set_rows * p->set_cols * (int64_t)sn_dtype_size(t->dtype);
    if (bytes > m->shards[p->shard].bytes)
        r->st = sn_fail(r->err, SN_EIO,
                        "%s: %s %s: %s of %" PRId64 " bytes is in %s of %" PRId64 " bytes", r->file,
                        t->group, t->name, p->dataset, bytes, m->shards[p->shard].file,
                        m->shards[p->shard].bytes);
}

/* Takes as many hashes from the pool as the piece has blocks. */
static void parse_hashes(struct reader *r, const json_t *of, struct sn_manifest *m,
                         const struct sn_manifest_tensor *t, struct sn_manifest_piece *p)
{
    const json_t *v = member(r, of, "xxh3");
    const char *s = json_string_value(v);
    size_t n = (size_t)sn_manifest_blocks(sn_manifest_bytes(t, p->box), m->block);
    size_t given = json_string_length(v), want = r->schema < 3 ? 1 : n; /* for empty ones too */
    if (r->st != SN_OK)
        return;
    bool good = s && given == want * HEX;
    p->n_blocks = (int64_t)n;
    p->hashes = m->hashes + m->n_hashes;
    for (size_t k = 0; k < n && good; k++)
        good = parse_hex(s + k * HEX, &p->hashes[k]);
    if (good)
        m->n_hashes += n;
    else
        r->st = sn_fail(r->err, SN_EIO,
                        "%s: %s %s: 'xxh3' has %zu characters, not 16 hexadecimal digits for each "
                        "of %zu blocks",
                        r->file, t->group, t->name, given, want);
}

static const char *parse_dataset(struct reader *r, const json_t *of)
{
    const char *s = name_of(r, of, "dataset");
    if (r->st == SN_OK && (*s != '/' || strlen(s) >= SN_H5_NAME_MAX))
        r->st = sn_fail(r->err, SN_EIO, "%s: '%.200s' is no name of a dataset", r->file, s);
    return s;
}

static struct sn_manifest_piece parse_piece(struct reader *r, const json_t *of,
                                            struct sn_manifest *m,
                                            const struct sn_manifest_tensor *t)
{
    struct sn_manifest_piece p = {.dataset = parse_dataset(r, of)};
    int64_t shard = whole(r, of, "shard"), bytes = whole(r, of, "bytes");
    bool rows = parse_range(json_object_get(of, "row"), t->rows, &p.box.row, &p.box.rows);
    bool cols = parse_range(json_object_get(of, "col"), t->cols, &p.box.col, &p.box.cols);
    if (r->st == SN_OK && (!rows || !cols))
        r->st = sn_fail(r->err, SN_EIO,
                        "%s: %s %s: the place of a piece is not two ranges inside its shape",
                        r->file, t->group, t->name);
    if (r->st == SN_OK && (bytes != sn_manifest_bytes(t, p.box) || shard >= m->n_shards))
        r->st = sn_fail(r->err, SN_EIO,
                        "%s: %s %s: a piece of %" PRId64 " x %" PRId64 ", %" PRId64
                        " bytes and shard %" PRId64 " do not belong together",
                        r->file, t->group, t->name, p.box.rows, p.box.cols, bytes, shard);
    p.shard = (int)shard;
    parse_place(r, of, t, &p);
    check_file(r, m, t, &p);
    parse_hashes(r, of, m, t, &p);
    return p;
}

static enum sn_dtype parse_dtype(struct reader *r, const json_t *of, const char *group,
                                 const char *name)
{
    const char *s = name_of(r, of, "dtype");
    for (int d = SN_F32; d <= (r->schema < 3 ? SN_F32 : SN_F16); d++)
        if (strcmp(s, sn_dtype_name((enum sn_dtype)d)) == 0)
            return (enum sn_dtype)d;
    if (r->st == SN_OK)
        r->st = sn_fail(r->err, SN_EINPUT, "%s: %s %s has dtype '%s'; this version reads %s",
                        r->file, group, name, s, r->schema < 3 ? "fp32" : "fp32, bf16 and fp16");
    return SN_F32;
}

static void parse_shape(struct reader *r, const json_t *of, struct sn_manifest_tensor *t)
{
    const json_t *shape = array(r, of, "shape");
    bool good = parse_pair(shape, &t->rows, &t->cols) && t->rows >= 0 && t->cols >= 0;
    if (r->st == SN_OK && !good)
        r->st = sn_fail(r->err, SN_EIO, "%s: %s %s: its shape is not two sizes", r->file, t->group,
                        t->name);
    if (r->st == SN_OK && !is_shape(t->rows, t->cols))
        r->st = sn_fail(r->err, SN_EIO, "%s: %s %s: %" PRId64 " x %" PRId64 " is no size", r->file,
                        t->group, t->name, t->rows, t->cols);
}

/* Reads a tensor without its pieces; their list is *pieces. */
static struct sn_manifest_tensor parse_tensor(struct reader *r, const json_t *of,
                                              const json_t **pieces)
{
    struct sn_manifest_tensor t = {.group = name_of(r, of, "group"),
                                   .name = name_of(r, of, "name")};
    t.dtype = parse_dtype(r, of, t.group, t.name);
    parse_shape(r, of, &t);
    *pieces = array(r, of, "pieces");
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
        t->pieces[i] = parse_piece(r, json_array_get(pieces, (size_t)i), m, t);
    if (r->st == SN_OK && t->n_pieces > 1)
        qsort(t->pieces, (size_t)t->n_pieces, sizeof(*t->pieces), by_place);
    m->n_pieces += t->n_pieces;
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

/* Lists of lists: how many pieces there are, and room for how many hashes they need. */
static size_t count_pieces(const json_t *tensors, size_t *hashes)
{
    size_t n = 0;
    *hashes = 0;
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *pieces = json_object_get(json_array_get(tensors, i), "pieces");
        n += json_array_size(pieces);
        for (size_t k = 0; k < json_array_size(pieces); k++)
            *hashes += json_string_length(json_object_get(json_array_get(pieces, k), "xxh3")) / HEX;
    }
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

static bool make_room(struct sn_manifest *m, size_t shards, size_t tensors, size_t pieces,
                      size_t hashes)
{
    if (shards > INT32_MAX || tensors > INT32_MAX || pieces > INT32_MAX)
        return false;
    m->shards = sn_alloc_n(shards, sizeof(*m->shards));
    m->tensors = sn_alloc_n(tensors, sizeof(*m->tensors));
    m->pieces = sn_alloc_n(pieces, sizeof(*m->pieces));
    m->hashes = sn_alloc_n(hashes, sizeof(*m->hashes));
    return m->shards && m->tensors && m->pieces && m->hashes;
}

static void parse_lists(struct reader *r, const json_t *root, struct sn_manifest *m)
{
    const json_t *shards = array(r, root, "shards"), *tensors = array(r, root, "tensors"), *list;
    size_t ns = json_array_size(shards), nt = json_array_size(tensors), nh;
    size_t np = count_pieces(tensors, &nh);
    if (r->st == SN_OK && !make_room(m, ns, nt, np, nh))
        r->st = sn_fail(r->err, SN_ENOMEM, "%s: no memory for %zu shards and %zu tensors", r->file,
                        ns, nt);
    if (r->st != SN_OK)
        return;
    m->n_shards = (int)ns;
    m->n_tensors = (int)nt;
    for (size_t i = 0; i < ns && r->st == SN_OK; i++)
        m->shards[i] = parse_shard(r, json_array_get(shards, i));
    for (size_t i = 0; i < nt && r->st == SN_OK; i++) {
        m->tensors[i] = parse_tensor(r, json_array_get(tensors, i), &list);
        parse_pieces(r, list, m, &m->tensors[i]);
        if (r->schema == 1)
            check_whole(r, &m->tensors[i]);
    }
    if (r->st == SN_OK)
        sort_tensors(r, m);
}

/* Bytes a hash; before schema 3 each piece had one. */
static int64_t parse_block(struct reader *r, const json_t *root)
{
    if (r->schema < 3)
        return INT64_MAX;
    int64_t block = whole(r, root, "block");
    if (r->st == SN_OK && (block < BLOCK_MIN || block > BLOCK_MAX || block % BLOCK_MIN != 0))
        r->st = sn_fail(r->err, SN_EIO,
                        "%s: a 'block' of %" PRId64 " bytes is no multiple of %d up to %d", r->file,
                        block, BLOCK_MIN, BLOCK_MAX);
    return r->st == SN_OK ? block : BLOCK_MAX;
}

/* Of master.h5; before it was recorded: zeros. */
static struct sn_manifest_master parse_master(struct reader *r, const json_t *root)
{
    struct sn_manifest_master master = {0};
    const json_t *o = r->schema < 3 ? NULL : json_object_get(root, "master");
    if (!o)
        return master;
    master.bytes = whole(r, o, "bytes");
    master.hash = hex64(r, o, "xxh3");
    if (r->st == SN_OK && master.bytes == 0)
        r->st = sn_fail(r->err, SN_EIO, "%s: a 'master' of 0 bytes is none", r->file);
    return master;
}

/* A token's number; -1: there is none. */
static int32_t token(struct reader *r, const json_t *of, const char *key)
{
    const json_t *v = member(r, of, key);
    json_int_t id = json_integer_value(v);
    if (r->st == SN_OK && (!json_is_integer(v) || id < -1 || id > INT32_MAX))
        r->st = sn_fail(r->err, SN_EIO, "%s: '%s' is no token; the file is damaged", r->file, key);
    return (int32_t)id;
}

static struct sn_tokenizer_id parse_tokenizer(struct reader *r, const json_t *of)
{
    const json_t *o = json_object_get(of, "tokenizer");
    struct sn_tokenizer_id t = {.begin = -1, .end = -1};
    if (!o || r->st != SN_OK)
        return t;
    const char *file = name_of(r, o, "file");
    t.hash = hex64(r, o, "xxh3");
    t.vocab = whole(r, o, "vocab");
    t.begin = token(r, o, "begin");
    t.end = token(r, o, "end");
    t.special = json_is_true(json_object_get(o, "special"));
    if (r->st == SN_OK && !sn_tokenizer_id_is_name(file))
        r->st = sn_fail(r->err, SN_EIO, "%s: '%s' is no name of a tokenizer's file", r->file, file);
    if (r->st == SN_OK)
        (void)snprintf(t.file, sizeof(t.file), "%s", file);
    return t;
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
    struct reader r = {.file = file, .err = err};
    struct sn_manifest m = {.json = root};
    r.schema = whole(&r, root, "schema");
    if (r.st == SN_OK && (r.schema < 1 || r.schema > SN_MANIFEST_SCHEMA))
        r.st = sn_fail(err, SN_EINPUT,
                       "%s: has schema version %" PRId64 ", but this version of sennit reads 1 to "
                       "%d; use the version that wrote it",
                       file, r.schema, SN_MANIFEST_SCHEMA);
    m.schema = (int)r.schema;
    m.model_text = string(&r, root, "model");
    m.layout_text = r.schema < 3 ? "" : string(&r, root, "layout");
    m.config_hash = hex64(&r, root, "config_hash");
    m.scalars = parse_scalars(&r, root);
    m.block = parse_block(&r, root);
    m.master = parse_master(&r, root);
    m.tokenizer = parse_tokenizer(&r, root);
    parse_lists(&r, root, &m);
    if (r.st != SN_OK) {
        sn_manifest_fini(&m);
        return r.st;
    }
    *out = m;
    return SN_OK;
}
