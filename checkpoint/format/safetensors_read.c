/* Boxes of a safetensors tensor as fp32. */
#include "checkpoint/format/safetensors.h"

#include "checkpoint/format/safetensors_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors hold little-endian numbers");

int64_t sn_st_rows(const struct sn_st_tensor *t)
{
    return t->rank > 0 ? t->shape[0] : 1;
}

int64_t sn_st_cols(const struct sn_st_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] == 0)
            return 0;
    for (int i = 1; i < t->rank; i++)
        n *= t->shape[i]; /* rows x cols was checked to fit when the file was opened */
    return n;
}

const char *sn_st_shape(char buf[SN_ST_SHAPE_MAX], const struct sn_st_tensor *t)
{
    int at = snprintf(buf, SN_ST_SHAPE_MAX, "[");
    for (int i = 0; i < t->rank; i++)
        at += snprintf(buf + at, (size_t)(SN_ST_SHAPE_MAX - at), "%s%" PRId64, i ? ", " : "",
                       t->shape[i]);
    (void)snprintf(buf + at, (size_t)(SN_ST_SHAPE_MAX - at), "]");
    return buf;
}

static float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static float from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31)
        return from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent > 0)
        return from_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f; /* subnormal in fp16, exact in fp32 */
    return sign ? -tiny : tiny;
}

/* n elements at p, of any alignment. */
static void copy_f32(const unsigned char *p, int64_t n, float *out)
{
    memcpy(out, p, (size_t)n * sizeof(*out));
}

static void widen_f16(const unsigned char *p, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * i, sizeof(h));
        out[i] = from_f16(h);
    }
}

static void widen_bf16(const unsigned char *p, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * i, sizeof(h));
        out[i] = from_bits((uint32_t)h << 16);
    }
}

static void narrow_f64(const unsigned char *p, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        double d;
        memcpy(&d, p + 8 * i, sizeof(d));
        out[i] = (float)d;
    }
}

static const struct dtype {
    const char *name;
    int bits;
    void (*row)(const unsigned char *p, int64_t n, float *out); /* NULL: not a weight */
} dtypes[] = {
    {"F32", 32, copy_f32},   {"F16", 16, widen_f16},   {"BF16", 16, widen_bf16},
    {"F64", 64, narrow_f64}, {"BOOL", 8, NULL},        {"F4", 4, NULL},
    {"F6_E2M3", 6, NULL},    {"F6_E3M2", 6, NULL},     {"U8", 8, NULL},
    {"I8", 8, NULL},         {"F8_E5M2", 8, NULL},     {"F8_E4M3", 8, NULL},
    {"F8_E8M0", 8, NULL},    {"F8_E4M3FNUZ", 8, NULL}, {"F8_E5M2FNUZ", 8, NULL},
    {"I16", 16, NULL},       {"U16", 16, NULL},        {"I32", 32, NULL},
    {"U32", 32, NULL},       {"C64", 64, NULL},        {"I64", 64, NULL},
    {"U64", 64, NULL},
};

static const struct dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

int sn_st_dtype_bits(const char *name)
{
    const struct dtype *d = find_dtype(name);
    return d ? d->bits : 0;
}

/* n values from number `first` of the tensor on. */
static enum sn_status read_run(const struct sn_st_tensor *t, const struct dtype *d, int64_t first,
                               int64_t n, float *out, struct sn_err *err)
{
    enum { PART = 2048 };
    unsigned char raw[PART * 8];
    int64_t size = d->bits / 8;
    uint64_t at = t->offset + (uint64_t)(first * size);
    if (d->row == copy_f32)
        return sn_st_file_get(t->in, at, out, (size_t)(n * size), err);
    for (int64_t i = 0; i < n; i += PART) {
        int64_t m = n - i < PART ? n - i : PART;
        SN_TRY(sn_st_file_get(t->in, at + (uint64_t)(i * size), raw, (size_t)(m * size), err));
        d->row(raw, m, out + i);
    }
    return SN_OK;
}

enum sn_status sn_safetensors_read(const struct sn_st_tensor *t, const struct sn_st_box *box,
                                   float *out, int64_t ld, struct sn_err *err)
{
    int64_t rows = sn_st_rows(t), cols = sn_st_cols(t);
    char shape[SN_ST_SHAPE_MAX];
    if (box->row < 0 || box->rows < 0 || box->col < 0 || box->cols < 0 || box->row > rows ||
        box->rows > rows - box->row || box->col > cols || box->cols > cols - box->col)
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s' is %s; rows %" PRId64 " + %" PRId64 ", columns %" PRId64
                       " + %" PRId64 " are not in it",
                       t->file, t->name, sn_st_shape(shape, t), box->row, box->rows, box->col,
                       box->cols);
    const struct dtype *d = find_dtype(t->dtype);
    if (!d || !d->row)
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s' is %s; weights are read from F32, F16, BF16 and F64",
                       t->file, t->name, t->dtype);
    if (box->cols == cols && ld == cols)
        return read_run(t, d, box->row * cols, box->rows * cols, out, err);
    for (int64_t i = 0; i < box->rows && box->cols > 0; i++)
        SN_TRY(read_run(t, d, (box->row + i) * cols + box->col, box->cols, out + i * ld, err));
    return SN_OK;
}

enum sn_status sn_safetensors_same(const struct sn_st_tensor *a, const struct sn_st_tensor *b,
                                   bool *same, struct sn_err *err)
{
    enum { PART = 16384 };
    unsigned char x[PART], y[PART];
    *same = strcmp(a->dtype, b->dtype) == 0 && a->bytes == b->bytes;
    for (size_t i = 0; *same && i < a->bytes; i += PART) {
        size_t n = a->bytes - i < PART ? a->bytes - i : PART;
        SN_TRY(sn_st_file_get(a->in, a->offset + i, x, n, err));
        SN_TRY(sn_st_file_get(b->in, b->offset + i, y, n, err));
        *same = memcmp(x, y, n) == 0;
    }
    return SN_OK;
}
