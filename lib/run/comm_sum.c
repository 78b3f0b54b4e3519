#include "lib/run/comm_sum.h"

/* Vectors of 16 bytes exist on every machine; memory, not arithmetic, is the limit. */
typedef float f32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double f64x2 __attribute__((vector_size(16), aligned(8), may_alias));

static void add_f32(float *sum, const float *a, const float *b, int64_t n)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        *(f32x4 *)(sum + i) = *(const f32x4 *)(a + i) + *(const f32x4 *)(b + i);
    for (; i < n; i++)
        sum[i] = a[i] + b[i];
}

static void add_f64(double *sum, const double *a, const double *b, int64_t n)
{
    int64_t i = 0;
    for (; i + 2 <= n; i += 2)
        *(f64x2 *)(sum + i) = *(const f64x2 *)(a + i) + *(const f64x2 *)(b + i);
    for (; i < n; i++)
        sum[i] = a[i] + b[i];
}

void sn_comm_sum(const struct sn_comm_parts *parts, int64_t n, enum sn_dtype dtype)
{
    int rank = parts->rank, size = parts->size;
    char *sum = rank == 0 ? parts->own : parts->others;
    for (int p = 1; p < size; p++) {
        char *part =
            p == rank ? parts->own : parts->others + (p < rank ? p : p - 1) * parts->stride;
        char *to = p == size - 1 ? parts->own : sum;
        if (dtype == SN_F32)
            add_f32((float *)to, (const float *)sum, (const float *)part, n);
        else
            add_f64((double *)to, (const double *)sum, (const double *)part, n);
    }
}
