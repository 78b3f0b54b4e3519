/*
 * features.c - see features.h. Of the header's dictionary the three keys that the format has are read.
 */
#include "lib/data/features.h"

#include "kernels/half.h"
#include "lib/base/mem.h"
#include "lib/data/data_format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { HEADER_MOST = 4096, DIMS_MOST = 3 };

struct sn_features {
    struct sn_data_mapped file;
    struct sn_features_shape shape;
    struct sn_features_layout layout;
};

/* --- the header ------------------------------------------------------------------------------- */

static enum sn_status no_npy(const char *name, struct sn_err *err)
{
    return sn_fail(err, SN_EINPUT, "%s: not a file that numpy.save writes; write it again", name);
}

/* What follows `key` in the dictionary; NULL: there is no such key. */
static const char *value_of(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    if (!at)
        return NULL;
    at += strlen(key);
    return at + strspn(at, " ");
}

/* "(12, 4, 768)" into dims; how many, or -1. */
static int dims_of(const char *text, int64_t dims[DIMS_MOST])
{
    int n = 0;
    if (*text++ != '(')
        return -1;
    for (; *text != ')'; n++) {
        char *end;
        if (n == DIMS_MOST)
            return -1;
        dims[n] = strtoll(text, &end, 10);
        if (end == text || dims[n] < 0)
            return -1;
        text = end + strspn(end, ", ");
    }
    return n;
}

static enum sn_status check_shape(struct sn_features_layout *out, const char *header,
                                  struct sn_features_shape want, const char *name,
                                  struct sn_err *err)
{
    int64_t dims[DIMS_MOST] = {0};
    const char *shape = value_of(header, "'shape':");
    int n = shape ? dims_of(shape, dims) : -1;
    if (n < 0)
        return no_npy(name, err);
    bool fits = n == 3   ? dims[1] == want.rows && dims[2] == want.size
                : n == 2 ? want.rows == 1 && dims[1] == want.size
                         : false;
    if (!fits)
        return sn_fail(
            err, SN_EINPUT, "%s: its shape is %.*s; train.prompt wants (entries, %lld, %lld)", name,
            (int)strcspn(shape, ")") + 1, shape, (long long)want.rows, (long long)want.size);
    out->entries = dims[0];
    return SN_OK;
}

static enum sn_status check_type(struct sn_features_layout *out, const char *header,
                                 const char *name, struct sn_err *err)
{
    const char *type = value_of(header, "'descr':"), *order = value_of(header, "'fortran_order':");
    if (!type || !order)
        return no_npy(name, err);
    out->width = strncmp(type, "'<f4'", 5) == 0 ? 4 : strncmp(type, "'<f2'", 5) == 0 ? 2 : 0;
    if (out->width == 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: its numbers are of type %.*s; want little-endian float32 or float16",
                       name, (int)strcspn(type, ",}"), type);
    if (strncmp(order, "False", 5) != 0)
        return sn_fail(err, SN_EINPUT, "%s: in Fortran's order; save numpy.ascontiguousarray of it",
                       name);
    return SN_OK;
}

enum sn_status sn_features_check(struct sn_features_layout *out, const void *bytes, size_t len,
                                 struct sn_features_shape want, const char *name,
                                 struct sn_err *err)
{
    const unsigned char *p = bytes;
    char header[HEADER_MOST + 1];
    if (len < 12 || memcmp(p, "\x93NUMPY", 6) != 0 || p[6] < 1 || p[6] > 3)
        return no_npy(name, err);
    size_t begin = p[6] == 1 ? 10 : 12;
    size_t n = p[6] == 1 ? sn_le_u16(p + 8) : (size_t)(uint32_t)sn_le_i32(p + 8);
    if (n > HEADER_MOST || begin + n > len)
        return no_npy(name, err);
    memcpy(header, p + begin, n);
    header[n] = '\0';
    struct sn_features_layout x = {.first = begin + n};
    SN_TRY(check_type(&x, header, name, err));
    SN_TRY(check_shape(&x, header, want, name, err));
    int64_t entry = want.rows * want.size * x.width, all;
    if (__builtin_mul_overflow(x.entries, entry, &all) || (uint64_t)all != len - x.first)
        return sn_fail(err, SN_EINPUT,
                       "%s: %zu bytes behind its header; %lld entries of %lld bytes want others; "
                       "copy or write it again",
                       name, len - x.first, (long long)x.entries, (long long)entry);
    *out = x;
    return SN_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

enum sn_status sn_features_open(struct sn_features **out, const char *path,
                                struct sn_features_shape want, struct sn_open_files *files,
                                struct sn_err *err)
{
    struct sn_features *f = sn_alloc(sizeof(*f));
    if (!f)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
    f->shape = want;
    enum sn_status st =
        sn_data_map(&f->file, path, NULL,
                    "train.prompt.rows reads what numpy.save(PREFIX.npy) wrote", files, NULL, err);
    if (st == SN_OK)
        st = sn_features_check(&f->layout, f->file.bytes, f->file.len, want, f->file.path, err);
    if (st != SN_OK) {
        sn_features_close(f);
        return st;
    }
    *out = f;
    return SN_OK;
}

enum sn_status sn_features_find(char **path, const char *prefix, struct sn_err *err)
{
    *path = sn_data_file_path(prefix, "npy");
    if (!*path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to look for its features", prefix);
    if (access(*path, F_OK) == 0)
        return SN_OK;
    sn_free(*path);
    *path = NULL;
    return SN_OK;
}

void sn_features_close(struct sn_features *f)
{
    if (!f)
        return;
    sn_data_unmap(&f->file);
    sn_free(f);
}

int64_t sn_features_entries(const struct sn_features *f)
{
    return f->layout.entries;
}

const char *sn_features_path(const struct sn_features *f)
{
    return f->file.path;
}

enum sn_status sn_features_read(const struct sn_features *f, int64_t entry, float *out,
                                struct sn_err *err)
{
    int64_t n = f->shape.rows * f->shape.size;
    const unsigned char *from = f->file.bytes + f->layout.first + entry * n * f->layout.width;
    if (f->layout.width == 4)
        memcpy(out, from, (size_t)n * 4);
    for (int64_t i = 0; i < n && f->layout.width == 2; i++)
        out[i] = sn_f16_to_f32(sn_le_u16(from + 2 * i));
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(out[i]))
            return sn_fail(
                err, SN_EINPUT,
                "%s: number %lld of row %lld of entry %lld is not finite; write it again",
                f->file.path, (long long)(i % f->shape.size), (long long)(i / f->shape.size),
                (long long)entry);
    return SN_OK;
}
