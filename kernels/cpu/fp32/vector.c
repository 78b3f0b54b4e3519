/*
 * vector.c - tiles of fp32 by the compiler's vectors (tile.h).
 */
#include "kernels/cpu/gemm/gemm_pack.h"

SN_TILE(tile_1, SN_MR, 1)
SN_TILE(tile_2, SN_MR, 2)
SN_TILE_AHEAD(whole_tile, SN_MR, SN_NV, 16)

const bool SN_K(sn_gemm_by_steps) = false;

void SN_K(sn_gemm_tile)(const struct sn_tile *t, int64_t cols)
{
    if (cols > 2 * SN_VL)
        whole_tile(t);
    else if (cols > SN_VL)
        tile_2(t);
    else
        tile_1(t);
}
