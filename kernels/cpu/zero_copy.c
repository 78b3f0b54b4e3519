/*
 * zero_copy.c - ZERO, and COPY with its casts.
 *
 * Between fp32, bf16 and fp16 a value is rounded once, to nearest even. Other pairs pass through
 * double; a cast to an integer truncates and saturates, and makes 0 of a NaN.
 */
#include "kernels/cpu/rows.h"

static void zero_tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    memset(sn_at(&a->out[SN_ZERO_X], r, c), 0, (size_t)n * sn_dtype_size(a->out[SN_ZERO_X].dtype));
}

SN_KERNEL(sn_zero)
{
    struct sn_args flat = sn_flatten(a);
    sn_each_tile(&flat, threads, &flat.out[SN_ZERO_X], SN_COPIED, zero_tile);
    return 0;
}

static bool is_small_float(enum sn_dtype t)
{
    return t == SN_F32 || t == SN_BF16 || t == SN_F16;
}

static void load_doubles(double *out, const void *p, enum sn_dtype t, int64_t n)
{
    float buf[SN_TILE_COLS];
    if (is_small_float(t))
        sn_row_load(buf, p, t, n);
    for (int64_t i = 0; i < n; i++) {
        if (t == SN_F64)
            out[i] = ((const double *)p)[i];
        else if (t == SN_I32)
            out[i] = ((const int32_t *)p)[i];
        else if (t == SN_U8)
            out[i] = ((const uint8_t *)p)[i];
        else
            out[i] = (double)buf[i];
    }
}

static double saturate(double x, double lowest, double highest)
{
    if (!(x > lowest)) /* NaN too */
        return x <= lowest ? lowest : 0.0;
    return x < highest ? x : highest;
}

static void store_doubles(void *p, enum sn_dtype t, const double *in, int64_t n)
{
    float buf[SN_TILE_COLS];
    for (int64_t i = 0; i < n; i++) {
        if (t == SN_F64)
            ((double *)p)[i] = in[i];
        else if (t == SN_I32)
            ((int32_t *)p)[i] = (int32_t)saturate(in[i], INT32_MIN, INT32_MAX);
        else if (t == SN_U8)
            ((uint8_t *)p)[i] = (uint8_t)saturate(in[i], 0, UINT8_MAX);
        else
            buf[i] = (float)in[i];
    }
    if (is_small_float(t))
        sn_row_store(p, t, buf, n);
}

static void copy_doubles(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    const struct sn_mat *x = &a->in[SN_COPY_X], *y = &a->out[SN_COPY_Y];
    double x_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    load_doubles(x_buf, sn_at(x, r, c), x->dtype, n);
    if (a->acc[SN_COPY_Y] == SN_ADD) {
        load_doubles(y_buf, sn_at(y, r, c), y->dtype, n);
        for (int64_t i = 0; i < n; i++)
            x_buf[i] += y_buf[i];
    }
    store_doubles(sn_at(y, r, c), y->dtype, x_buf, n);
}

static void copy_tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    memcpy(sn_at(&a->out[SN_COPY_Y], r, c), sn_at(&a->in[SN_COPY_X], r, c),
           (size_t)n * sn_dtype_size(a->in[SN_COPY_X].dtype));
}

static void cast_tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    const struct sn_mat *x = &a->in[SN_COPY_X], *y = &a->out[SN_COPY_Y];
    float x_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    if (!is_small_float(x->dtype) || !is_small_float(y->dtype)) {
        copy_doubles(a, r, c, n);
        return;
    }
    const float *from = sn_get(x, r, c, n, x_buf);
    if (a->acc[SN_COPY_Y] == SN_WRITE) {
        sn_row_store(sn_at(y, r, c), y->dtype, from, n);
        return;
    }
    const float *old = sn_get(y, r, c, n, y_buf);
    float *to = sn_dst(y, r, c, y_buf);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = old[i] + from[i];
    sn_put(y, r, c, n, to);
}

SN_KERNEL(sn_copy)
{
    struct sn_args flat = sn_flatten(a);
    if (a->in[SN_COPY_X].dtype == a->out[SN_COPY_Y].dtype && a->acc[SN_COPY_Y] == SN_WRITE)
        sn_each_tile(&flat, threads, &flat.out[SN_COPY_Y], SN_COPIED, copy_tile);
    else
        sn_each_tile(&flat, threads, &flat.out[SN_COPY_Y], SN_TILE_COLS, cast_tile);
    return 0;
}
