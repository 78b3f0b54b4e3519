/*
 * wgmma.cuh - products of a warpgroup (four warps), sm_90a: PTX ISA, 9.7.15.
 *
 * C is 64 x N; warp w of the group has rows 16 w .. 16 w + 15, its lanes the fragments of mma.cuh:
 * c[n][4] of columns 8 n .. 8 n + 7. A is in shared memory or, 16 deep, in registers as an mma A
 * fragment; B is in shared memory.
 *
 * Tiles in shared memory are rows of 64 elements (128 bytes), 16-byte pieces of row r swapped by
 * r mod 8 ("128-byte swizzle"), beginning at a multiple of 1024 bytes; wider matrices are several
 * tiles side by side. A descriptor gives a tile's address and two distances:
 *   rows of the tile are rows of A or columns of B: `rows8` from 8 rows to the next 8
 *   rows of the tile are depth (B turned): `rows8` from 8 deep to the next 8, `columns64` from 64
 *   columns to the next 64
 * and moves 32 bytes for 16 elements along a row.
 *
 * Compiled for another target than sm_90a (or newer kinds without these instructions) the functions
 * are empty; the emulation has a header in place of this one.
 */
#ifndef SN_CUDA_WGMMA_CUH
#define SN_CUDA_WGMMA_CUH

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/wgmma_descriptor.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define SN_HAS_WGMMA 1
#else
#define SN_HAS_WGMMA 0
#endif

static __device__ __forceinline__ uint64_t sn_wgmma_descriptor(const void *tile, int rows8,
                                                               int columns64)
{
    return sn_wgmma_bits((uint64_t)__cvta_generic_to_shared(tile), rows8, columns64);
}

/* Before products: registers and shared memory written so far are to be seen by them. */
static __device__ __forceinline__ void sn_wgmma_begin(void)
{
#if SN_HAS_WGMMA
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}

/* After them: until they are done. c is named so that nothing that reads it moves ahead of this. */
template <int N> static __device__ __forceinline__ void sn_wgmma_end(float (&c)[N][4])
{
#if SN_HAS_WGMMA
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n" ::
                     : "memory");
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm volatile("" : "+f"(c[n][i])::"memory");
#endif
}

/* What this thread wrote to shared memory is to be seen by products, after a barrier. */
static __device__ __forceinline__ void sn_wgmma_publish(void)
{
#if SN_HAS_WGMMA
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}

#define SN_C4(c, n)  "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define SN_C16(c, n) SN_C4(c, n), SN_C4(c, (n) + 1), SN_C4(c, (n) + 2), SN_C4(c, (n) + 3)
#define SN_C32(c, n) SN_C16(c, n), SN_C16(c, (n) + 4)
#define SN_R32                                                                                     \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"   \
    "%25,%26,%27,%28,%29,%30,%31"
#define SN_R64                                                                                     \
    SN_R32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52," \
           "%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

/* c += A B, A and B in shared memory; N = 128. */
#define SN_WGMMA_SS(type)                                                                          \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" SN_R64 "}, "    \
                 "%64, %65, 1, 1, 1, 0, 0;\n"                                                      \
                 : SN_C32(c, 0), SN_C32(c, 8)                                                      \
                 : "l"(a), "l"(b))
/* c += A B, A in registers, B turned; N = 64 and 128. */
#define SN_WGMMA_RS_64(type)                                                                       \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" SN_R32 "}, "     \
                 "{%32,%33,%34,%35}, %36, 1, 1, 1, 1;\n"                                           \
                 : SN_C32(c, 0)                                                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define SN_WGMMA_RS_128(type)                                                                      \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" SN_R64 "}, "    \
                 "{%64,%65,%66,%67}, %68, 1, 1, 1, 1;\n"                                           \
                 : SN_C32(c, 0), SN_C32(c, 8)                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

static __device__ __forceinline__ void sn_wgmma(float c[16][4], uint64_t a, uint64_t b,
                                                const sn_bf16 *)
{
#if SN_HAS_WGMMA
    SN_WGMMA_SS("bf16");
#endif
}
static __device__ __forceinline__ void sn_wgmma(float c[16][4], uint64_t a, uint64_t b,
                                                const sn_f16 *)
{
#if SN_HAS_WGMMA
    SN_WGMMA_SS("f16");
#endif
}

/* Another type of c for each width picks the instruction. */
static __device__ __forceinline__ void sn_wgmma_turned(float (&c)[8][4], const uint32_t a[4],
                                                       uint64_t b, const sn_bf16 *)
{
#if SN_HAS_WGMMA
    SN_WGMMA_RS_64("bf16");
#endif
}
static __device__ __forceinline__ void sn_wgmma_turned(float (&c)[8][4], const uint32_t a[4],
                                                       uint64_t b, const sn_f16 *)
{
#if SN_HAS_WGMMA
    SN_WGMMA_RS_64("f16");
#endif
}
static __device__ __forceinline__ void sn_wgmma_turned(float (&c)[16][4], const uint32_t a[4],
                                                       uint64_t b, const sn_bf16 *)
{
#if SN_HAS_WGMMA
    SN_WGMMA_RS_128("bf16");
#endif
}
static __device__ __forceinline__ void sn_wgmma_turned(float (&c)[16][4], const uint32_t a[4],
                                                       uint64_t b, const sn_f16 *)
{
#if SN_HAS_WGMMA
    SN_WGMMA_RS_128("f16");
#endif
}

#endif
