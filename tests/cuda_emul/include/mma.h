/*
 * mma.h - the warp matrix functions, emulated: lane 0 holds and computes the whole fragment, the
 * others only meet it. See tests/cuda_emul/emul.h.
 */
#ifndef SN_EMUL_MMA_H
#define SN_EMUL_MMA_H

#include "tests/cuda_emul/emul.h"

static inline float sn_emul_wide(float x)
{
    return x;
}
static inline float sn_emul_wide(__half x)
{
    return __half2float(x);
}
static inline float sn_emul_wide(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

namespace nvcuda
{
namespace wmma
{
struct matrix_a {
};
struct matrix_b {
};
struct accumulator {
};
struct row_major {
};
struct col_major {
};
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int M, int N, int K, class E, class Layout = row_major> struct fragment {
    float x[16][16];
};

static inline bool sn_emul_is_col(row_major *)
{
    return false;
}
static inline bool sn_emul_is_col(col_major *)
{
    return true;
}

static inline void sn_emul_check(const void *p, unsigned ld, size_t size)
{
    if ((uintptr_t)p % 32 || ld * size % 16) {
        fprintf(stderr, "emul: a fragment's memory is not aligned to 32 bytes, rows to 16\n");
        abort();
    }
}

template <class Use, class E, class L>
static void load_matrix_sync(fragment<Use, 16, 16, 16, E, L> &f, const E *p, unsigned ld)
{
    bool col = sn_emul_is_col((L *)0);
    sn_emul_check(p, ld, sizeof(E));
    __syncwarp();
    for (unsigned r = 0; r < 16 && sn_emul_lane() == 0; r++)
        for (unsigned c = 0; c < 16; c++)
            f.x[r][c] = sn_emul_wide(col ? p[c * ld + r] : p[r * ld + c]);
    __syncwarp();
}

static inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float> &f, const float *p,
                                    unsigned ld, layout_t)
{
    sn_emul_check(p, ld, sizeof(float));
    __syncwarp();
    for (unsigned r = 0; r < 16 && sn_emul_lane() == 0; r++)
        for (unsigned c = 0; c < 16; c++)
            f.x[r][c] = p[r * ld + c];
    __syncwarp();
}

static inline void store_matrix_sync(float *p, const fragment<accumulator, 16, 16, 16, float> &f,
                                     unsigned ld, layout_t)
{
    sn_emul_check(p, ld, sizeof(float));
    __syncwarp();
    if (sn_emul_lane() == 0)
        for (unsigned r = 0; r < 16; r++)
            for (unsigned c = 0; c < 16; c++)
                p[r * ld + c] = f.x[r][c];
    __syncwarp();
}

static inline void fill_fragment(fragment<accumulator, 16, 16, 16, float> &f, float v)
{
    for (int r = 0; r < 16 && sn_emul_lane() == 0; r++)
        for (int c = 0; c < 16; c++)
            f.x[r][c] = v;
}

template <class A, class B>
static void mma_sync(fragment<accumulator, 16, 16, 16, float> &d, const A &a, const B &b,
                     const fragment<accumulator, 16, 16, 16, float> &c)
{
    __syncwarp();
    if (sn_emul_lane() == 0)
        for (int r = 0; r < 16; r++)
            for (int n = 0; n < 16; n++) {
                float sum = c.x[r][n];
                for (int l = 0; l < 16; l++)
                    sum += a.x[r][l] * b.x[l][n];
                d.x[r][n] = sum;
            }
}
} // namespace wmma
} // namespace nvcuda

#endif
