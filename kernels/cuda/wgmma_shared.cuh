/*
 * wgmma_shared.cuh - products of a warpgroup whose operands both lie in shared memory, either way
 * round, and several of them on their way: PTX ISA, 9.7.15; beside wgmma.cuh, whose tiles and
 * descriptors these are.
 *
 * The emulation has a header in place of this one.
 */
#ifndef SN_CUDA_WGMMA_SHARED_CUH
#define SN_CUDA_WGMMA_SHARED_CUH

#include "kernels/cuda/wgmma.cuh"

/* Ends a group of products. */
static __device__ __forceinline__ void sn_wgmma_commit(void)
{
#if SN_HAS_WGMMA
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#endif
}

/* Until all groups are done but the last `later` ones; c, sums of those that are done, may then be
 * read. */
template <int later = 0, int N>
static __device__ __forceinline__ void sn_wgmma_finish(float (&c)[N][4])
{
#if SN_HAS_WGMMA
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(later) : "memory");
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm volatile("" : "+f"(c[n][i])::"memory");
#endif
}

/* Until all but the last `n` groups are done; sums may not be read before sn_wgmma_finish(). */
template <int n> static __device__ __forceinline__ void sn_wgmma_wait(void)
{
#if SN_HAS_WGMMA
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(n) : "memory");
#endif
}

#define SN_C128(c) SN_C32(c, 0), SN_C32(c, 8), SN_C32(c, 16), SN_C32(c, 24)
#define SN_R128                                                                                    \
    SN_R64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84," \
           "%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104," \
           "%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121," \
           "%122,%123,%124,%125,%126,%127"
#define SN_WGMMA_SHARED_64(type)                                                                   \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" SN_R32 "}, "     \
                 "%32, %33, %36, 1, 1, %34, %35;\n"                                                \
                 : SN_C32(c, 0)                                                                    \
                 : "l"(a), "l"(b), "n"(TA), "n"(TB), "n"(ADD))
#define SN_WGMMA_SHARED_128(type)                                                                  \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" SN_R64 "}, "    \
                 "%64, %65, %68, 1, 1, %66, %67;\n"                                                \
                 : SN_C32(c, 0), SN_C32(c, 8)                                                      \
                 : "l"(a), "l"(b), "n"(TA), "n"(TB), "n"(ADD))
#define SN_WGMMA_SHARED_256(type)                                                                  \
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" SN_R128 "}, "   \
                 "%128, %129, %132, 1, 1, %130, %131;\n"                                           \
                 : SN_C128(c)                                                                      \
                 : "l"(a), "l"(b), "n"(TA), "n"(TB), "n"(ADD))

/* c += op(A) op(B), 64 x 64, 128 or 256, 16 deep; without ADD c = op(A) op(B). TA, TB: rows of the
 * operand's tiles are depth. */
#if SN_HAS_WGMMA
#define SN_WGMMA_SHARED(columns, E, type)                                                          \
    template <int TA, int TB, int ADD = 1>                                                         \
    static __device__ __forceinline__ void sn_wgmma_shared(float(&c)[columns / 8][4], uint64_t a,  \
                                                           uint64_t b, const E *)                  \
    {                                                                                              \
        SN_WGMMA_SHARED_##columns(type);                                                           \
    }
#else
#define SN_WGMMA_SHARED(columns, E, type)                                                          \
    template <int TA, int TB, int ADD = 1>                                                         \
    static __device__ __forceinline__ void sn_wgmma_shared(float(&)[columns / 8][4], uint64_t,     \
                                                           uint64_t, const E *)                    \
    {                                                                                              \
    }
#endif
SN_WGMMA_SHARED(64, sn_bf16, "bf16")
SN_WGMMA_SHARED(64, sn_f16, "f16")
SN_WGMMA_SHARED(128, sn_bf16, "bf16")
SN_WGMMA_SHARED(128, sn_f16, "f16")
SN_WGMMA_SHARED(256, sn_bf16, "bf16")
SN_WGMMA_SHARED(256, sn_f16, "f16")
#undef SN_WGMMA_SHARED

#endif
