/*
 * colsum.c - COLSUM: the gradient of a bias.
 */
#include "kernels/cpu/rows.h"

static void strip(const struct sn_args *a, int64_t c, int64_t n)
{
    const struct sn_mat *dy = &a->in[SN_COLSUM_DY];
    float buf[SN_TILE_COLS];
    struct sn_colsum db;
    sn_colsum_start(&db, a, n);
    for (int64_t r = 0; r < dy->rows; r++) {
        const float *dyp = sn_get(dy, r, c, n, buf);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            db.sub[i] += dyp[i];
        sn_colsum_row_done(&db, r, n);
    }
    sn_colsum_store(&db, &a->out[SN_COLSUM_DB], a->acc[SN_COLSUM_DB], c, n);
}

SN_KERNEL(sn_colsum)
{
    sn_each_strip(a, threads, a->in[SN_COLSUM_DY].rows, a->in[SN_COLSUM_DY].cols, strip);
    return 0;
}
