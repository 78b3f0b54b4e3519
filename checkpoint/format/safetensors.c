/*
 * safetensors.c - the header of a file and the index of several, checked.
 *
 *   u64 N | N bytes of JSON | data
 *
 * The rules are those of the reference reader (huggingface/safetensors@24b0b28, tensor.rs): at most
 * 100,000,000 bytes of header, no key twice, and the tensors sorted by offset tile the data with no
 * hole and no overlap, up to the last byte of the file.
 */
#include "checkpoint/format/safetensors.h"

#include "checkpoint/format/safetensors_file.h"
#include "checkpoint/io/files.h"
#include "checkpoint/io/json.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_MAX UINT64_C(100000000)

struct file {
    struct sn_st_file bytes;
    json_t *root; /* owns the names of its tensors */
};

struct sn_safetensors {
    int n_files, n_tensors;
    struct file *files;
    struct sn_st_tensor *tensors; /* sorted by name */
    json_t *index;                /* owns the file names; NULL for a single file */
};

struct shown {
    char text[120];
};

/* Names come from outside: cut, and without control characters. */
static struct shown show(const char *name)
{
    struct shown s;
    (void)snprintf(s.text, sizeof(s.text), "%s", name);
    for (char *c = s.text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return s;
}

static enum sn_status load_json(json_t **out, const char *p, size_t len, const char *file,
                                const char *what, struct sn_err *err)
{
    json_set_alloc_funcs(sn_json_alloc, sn_free); /* the library's one setting, the same for all */
    uint64_t refused = sn_json_refusals();
    json_error_t why = {0};
    json_t *root = json_loadb(p, len, JSON_REJECT_DUPLICATES, &why);
    bool is_json = root, is_object = json_is_object(root), lost = sn_json_refusals() != refused;
    if (is_object && !lost) {
        *out = root;
        return SN_OK;
    }
    json_decref(root);
    if (lost)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to read %s", file, what);
    if (is_json)
        return sn_fail(err, SN_EINPUT, "%s: %s is not a JSON object", file, what);
    return sn_fail(err, SN_EINPUT, "%s: %s is not JSON: %s at byte %d", file, what,
                   show(why.text).text, why.position);
}

/* --- one tensor of a header ------------------------------------------------------------------ */

static bool is_size(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

static enum sn_status read_shape(struct sn_st_tensor *t, const json_t *shape, struct sn_err *err)
{
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape))
        return sn_fail(err, SN_EINPUT, "%s: tensor '%s' has no shape", t->file, show(t->name).text);
    if (rank > SN_ST_RANK_MAX)
        return sn_fail(err, SN_EINPUT, "%s: tensor '%s' has %zu dimensions; at most %d are read",
                       t->file, show(t->name).text, rank, SN_ST_RANK_MAX);
    t->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *v = json_array_get(shape, i);
        if (!is_size(v))
            return sn_fail(err, SN_EINPUT,
                           "%s: tensor '%s': dimension %zu is not a whole number from 0 up",
                           t->file, show(t->name).text, i);
        t->shape[i] = json_integer_value(v);
    }
    return SN_OK;
}

/* Bytes that shape and dtype ask for; false when the number has no whole bytes or overflows. */
static bool bytes_wanted(const struct sn_st_tensor *t, int bits, int64_t *bytes)
{
    int64_t n = bits;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] == 0)
            n = 0; /* an empty tensor, whatever the other dimensions */
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(n, t->shape[i], &n))
            return false;
    *bytes = n / 8;
    return n % 8 == 0;
}

/* `first` is where the data begin. */
static enum sn_status read_entry(struct sn_st_tensor *t, const json_t *entry, uint64_t first,
                                 struct sn_err *err)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    int bits = dtype ? sn_st_dtype_bits(dtype) : 0;
    uint64_t len = t->in->len - first;
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *b = json_array_get(offsets, 0), *e = json_array_get(offsets, 1);
    if (!json_is_object(entry))
        return sn_fail(err, SN_EINPUT, "%s: tensor '%s' is not a JSON object", t->file,
                       show(t->name).text);
    if (!bits)
        return sn_fail(err, SN_EINPUT, "%s: tensor '%s' has no dtype that the format knows",
                       t->file, show(t->name).text);
    SN_TRY(read_shape(t, json_object_get(entry, "shape"), err));
    if (json_array_size(offsets) != 2 || !is_size(b) || !is_size(e))
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s': data_offsets are not two whole numbers from 0 up", t->file,
                       show(t->name).text);
    int64_t begin = json_integer_value(b), end = json_integer_value(e), want = 0;
    if (begin > end || (uint64_t)end > len)
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s' lies at bytes %" PRId64 " to %" PRId64
                       " of the data, which has %" PRIu64,
                       t->file, show(t->name).text, begin, end, len);
    if (!bytes_wanted(t, bits, &want) || want != end - begin) {
        char shape[SN_ST_SHAPE_MAX];
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s' has %" PRId64 " bytes, which is not %s of %s", t->file,
                       show(t->name).text, end - begin, sn_st_shape(shape, t), dtype);
    }
    t->dtype = dtype;
    t->offset = first + (uint64_t)begin;
    t->bytes = (size_t)want;
    return SN_OK;
}

static enum sn_status check_metadata(const struct file *f, const json_t *metadata,
                                     struct sn_err *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return sn_fail(err, SN_EINPUT, "%s: __metadata__ is not a JSON object", f->bytes.path);
    json_object_foreach((json_t *)metadata, key, value) /* jansson's iterator is not const */
        if (!json_is_string(value)) return sn_fail(
            err, SN_EINPUT, "%s: __metadata__ '%s' is not a string", f->bytes.path, show(key).text);
    return SN_OK;
}

/* --- one file -------------------------------------------------------------------------------- */

static int by_place(const void *pa, const void *pb)
{
    const struct sn_st_tensor *a = pa, *b = pb;
    int order = (a->offset > b->offset) - (a->offset < b->offset);
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static enum sn_status check_tiling(const struct file *f, struct sn_st_tensor *t, size_t n,
                                   uint64_t first, struct sn_err *err)
{
    uint64_t at = first, end = f->bytes.len;
    const char *path = f->bytes.path;
    qsort(t, n, sizeof(*t), by_place);
    for (size_t i = 0; i < n; i++) {
        if (t[i].offset > at)
            return sn_fail(err, SN_EINPUT,
                           "%s: %" PRIu64 " bytes before tensor '%s' belong to no tensor", path,
                           t[i].offset - at, show(t[i].name).text);
        if (t[i].offset < at)
            return sn_fail(err, SN_EINPUT,
                           "%s: tensor '%s' overlaps the one before it by %" PRIu64 " bytes", path,
                           show(t[i].name).text, at - t[i].offset);
        at += t[i].bytes;
    }
    if (at != end)
        return sn_fail(err, SN_EINPUT, "%s: the last %" PRIu64 " bytes belong to no tensor", path,
                       end - at);
    return SN_OK;
}

/* Length of the JSON text, checked against the file. */
static enum sn_status header_length(const struct sn_st_file *f, size_t *len, struct sn_err *err)
{
    uint64_t n = 0;
    unsigned char head[9] = {0}; /* the length, and the text's first byte */
    if (f->len < 8)
        return sn_fail(err, SN_EINPUT,
                       "%s: has %" PRIu64 " bytes; a safetensors file has at least 8", f->path,
                       f->len);
    SN_TRY(sn_st_file_get(f, 0, head, f->len > 8 ? 9 : 8, err));
    for (int i = 7; i >= 0; i--)
        n = n << 8 | head[i];
    if (n > HEADER_MAX)
        return sn_fail(err, SN_EINPUT,
                       "%s: asks for a header of %" PRIu64 " bytes; at most %" PRIu64
                       " are allowed, so this is no safetensors file",
                       f->path, n, HEADER_MAX);
    if (n > f->len - 8)
        return sn_fail(err, SN_EINPUT,
                       "%s: is cut: it has %" PRIu64 " bytes, its header alone needs %" PRIu64,
                       f->path, f->len, n + 8);
    if (n == 0 || head[8] != '{')
        return sn_fail(err, SN_EINPUT, "%s: its header does not begin with '{'", f->path);
    *len = (size_t)n;
    return SN_OK;
}

static enum sn_status load_header(struct file *f, size_t len, struct sn_err *err)
{
    char *text = sn_alloc(len);
    if (!text)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a header of %zu bytes", f->bytes.path,
                       len);
    enum sn_status st = sn_st_file_get(&f->bytes, 8, text, len, err);
    if (st == SN_OK)
        st = load_json(&f->root, text, len, f->bytes.path, "its header", err);
    sn_free(text);
    return st;
}

static enum sn_status make_room(struct sn_safetensors *st, size_t more, struct sn_err *err)
{
    size_t want = (size_t)st->n_tensors + more;
    struct sn_st_tensor *t =
        want > INT32_MAX ? NULL : sn_realloc(st->tensors, (want + 1) * sizeof(*t));
    if (!t)
        return sn_fail(err, SN_ENOMEM, "safetensors: no memory for %zu tensors", want);
    st->tensors = t;
    return SN_OK;
}

static enum sn_status parse_file(struct sn_safetensors *st, struct file *f, struct sn_err *err)
{
    size_t header = 0;
    SN_TRY(header_length(&f->bytes, &header, err));
    SN_TRY(load_header(f, header, err));
    SN_TRY(make_room(st, json_object_size(f->root), err));
    struct sn_st_tensor *first = st->tensors + st->n_tensors;
    uint64_t data = 8 + header;
    const char *key;
    json_t *value;
    json_object_foreach(f->root, key, value)
    {
        if (strcmp(key, "__metadata__") == 0) {
            SN_TRY(check_metadata(f, value, err));
            continue;
        }
        struct sn_st_tensor *t = st->tensors + st->n_tensors;
        *t = (struct sn_st_tensor){.name = key, .file = f->bytes.path, .in = &f->bytes};
        SN_TRY(read_entry(t, value, data, err));
        st->n_tensors++;
    }
    return check_tiling(f, first, (size_t)(st->tensors + st->n_tensors - first), data, err);
}

/* Takes `path` over, also on failure: the tensors and sentences point to it. */
static enum sn_status add_file(struct sn_safetensors *st, char *path, struct sn_err *err)
{
    if (!path)
        return sn_fail(err, SN_ENOMEM, "safetensors: no memory for a file's name");
    struct file *f = &st->files[st->n_files++];
    SN_TRY(sn_st_file_open(&f->bytes, path, err));
    return parse_file(st, f, err);
}

/* --- all files ------------------------------------------------------------------------------- */

static int by_name(const void *pa, const void *pb)
{
    const struct sn_st_tensor *a = pa, *b = pb;
    return strcmp(a->name, b->name);
}

static enum sn_status sort_names(struct sn_safetensors *st, struct sn_err *err)
{
    struct sn_st_tensor *t = st->tensors;
    if (st->n_tensors > 0)
        qsort(t, (size_t)st->n_tensors, sizeof(*t), by_name);
    for (int i = 1; i < st->n_tensors; i++)
        if (strcmp(t[i - 1].name, t[i].name) == 0)
            return sn_fail(err, SN_EINPUT, "%s: tensor '%s' is also in %s", t[i].file,
                           show(t[i].name).text, t[i - 1].file);
    return SN_OK;
}

static struct sn_safetensors *create(size_t n_files, struct sn_err *err)
{
    struct sn_safetensors *st = sn_alloc(sizeof(*st));
    struct file *files = sn_alloc_n(n_files, sizeof(*files));
    if (!st || !files) {
        sn_free(st);
        sn_free(files);
        (void)sn_fail(err, SN_ENOMEM, "safetensors: no memory for %zu files", n_files);
        return NULL;
    }
    st->files = files;
    return st;
}

void sn_safetensors_close(struct sn_safetensors *st)
{
    if (!st)
        return;
    for (int i = 0; i < st->n_files; i++) {
        struct file *f = &st->files[i];
        json_decref(f->root);
        sn_st_file_close(&f->bytes);
    }
    json_decref(st->index);
    sn_free(st->files);
    sn_free(st->tensors);
    sn_free(st);
}

enum sn_status sn_safetensors_parse(struct sn_safetensors **out, const void *p, size_t len,
                                    const char *name, struct sn_err *err)
{
    struct sn_safetensors *st = create(1, err);
    char *path = st ? sn_strdup(name) : NULL;
    enum sn_status status = SN_ENOMEM;
    if (st && !path)
        (void)sn_fail(err, status, "%s: no memory for its name", name);
    if (path) {
        st->files[0] = (struct file){.bytes = {.path = path, .len = len, .fd = -1, .p = p}};
        st->n_files = 1;
        status = parse_file(st, &st->files[0], err);
    }
    if (status == SN_OK)
        status = sort_names(st, err);
    if (status != SN_OK) {
        sn_safetensors_close(st);
        return status;
    }
    *out = st;
    return SN_OK;
}

static enum sn_status check_index(const struct sn_safetensors *st, const json_t *map,
                                  size_t dir_len, const char *path, struct sn_err *err)
{
    const char *name;
    json_t *file;
    json_object_foreach((json_t *)map, name, file)
    { /* jansson's iterator is not const */
        const struct sn_st_tensor *t = sn_safetensors_find(st, name);
        if (!t || strcmp(t->file + dir_len, json_string_value(file)) != 0)
            return sn_fail(err, SN_EINPUT,
                           "%s: says that tensor '%s' is in %s, which does not have it", path,
                           show(name).text, json_string_value(file));
    }
    for (int i = 0; i < st->n_tensors; i++)
        if (!json_object_get(map, st->tensors[i].name))
            return sn_fail(err, SN_EINPUT, "%s: has a tensor '%s' that %s does not list",
                           st->tensors[i].file, show(st->tensors[i].name).text, path);
    return SN_OK;
}

static bool is_open(const struct sn_safetensors *st, const char *file, size_t dir_len)
{
    for (int i = st->n_files; i-- > 0;) /* neighbours in the index are mostly in one file */
        if (strcmp(st->files[i].bytes.path + dir_len, file) == 0)
            return true;
    return false;
}

/* `dir_len` bytes of `path` are its folder with the slash. */
static enum sn_status open_listed(struct sn_safetensors *st, const json_t *map, const char *path,
                                  size_t dir_len, struct sn_err *err)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)map, name, value)
    { /* jansson's iterator is not const */
        const char *file = json_string_value(value);
        if (!file || !*file || *file == '.' || strchr(file, '/'))
            return sn_fail(err, SN_EINPUT, "%s: tensor '%s' has no plain file name", path,
                           show(name).text);
        if (!is_open(st, file, dir_len))
            SN_TRY(add_file(st, sn_format("%.*s%s", (int)dir_len, path, file), err));
    }
    SN_TRY(sort_names(st, err));
    return check_index(st, map, dir_len, path, err);
}

static enum sn_status open_index(struct sn_safetensors **out, const char *path, struct sn_err *err)
{
    char *text;
    size_t len;
    json_t *root;
    SN_TRY(sn_file_load(&text, &len, path, err));
    enum sn_status status = load_json(&root, text, len, path, "the index", err);
    sn_free(text);
    SN_TRY(status);
    const json_t *map = json_object_get(root, "weight_map");
    const char *slash = strrchr(path, '/');
    struct sn_safetensors *st = NULL;
    if (!json_is_object(map))
        status = sn_fail(err, SN_EINPUT, "%s: has no weight_map", path);
    else if (!(st = create(json_object_size(map), err))) /* at most one file per tensor */
        status = SN_ENOMEM;
    if (!st) {
        json_decref(root);
        return status;
    }
    st->index = root;
    status = open_listed(st, map, path, slash ? (size_t)(slash + 1 - path) : 0, err);
    if (status != SN_OK)
        sn_safetensors_close(st);
    else
        *out = st;
    return status;
}

static enum sn_status open_one(struct sn_safetensors **out, const char *path, struct sn_err *err)
{
    struct sn_safetensors *st = create(1, err);
    if (!st)
        return SN_ENOMEM;
    enum sn_status status = add_file(st, sn_strdup(path), err);
    if (status == SN_OK)
        status = sort_names(st, err);
    if (status != SN_OK)
        sn_safetensors_close(st);
    else
        *out = st;
    return status;
}

static enum sn_status open_path(struct sn_safetensors **out, const char *path, struct sn_err *err)
{
    size_t len = strlen(path);
    bool is_index = len > 5 && strcmp(path + len - 5, ".json") == 0;
    return is_index ? open_index(out, path, err) : open_one(out, path, err);
}

enum sn_status sn_safetensors_open(struct sn_safetensors **out, const char *path,
                                   struct sn_err *err)
{
    struct stat sb;
    char *file;
    if (stat(path, &sb) != 0 || !S_ISDIR(sb.st_mode))
        return open_path(out, path, err);
    SN_TRY(sn_st_file_choose(&file, path, err));
    enum sn_status status = open_path(out, file, err);
    sn_free(file);
    return status;
}

int sn_safetensors_count(const struct sn_safetensors *st)
{
    return st->n_tensors;
}

const struct sn_st_tensor *sn_safetensors_get(const struct sn_safetensors *st, int i)
{
    return &st->tensors[i];
}

const struct sn_st_tensor *sn_safetensors_find(const struct sn_safetensors *st, const char *name)
{
    struct sn_st_tensor key = {.name = name};
    if (st->n_tensors == 0)
        return NULL;
    return bsearch(&key, st->tensors, (size_t)st->n_tensors, sizeof(key), by_name);
}
