/*
 * emul.h - runs CUDA kernels on the host: in place of kernels/cuda/launch.cuh, for tests.
 *
 * The kernels' sources are compiled as C++ with this header in front. A block's threads are fibres
 * of one host thread; a fibre runs until it meets a barrier or an exchange within its warp and
 * then waits for the others, so what a missing barrier breaks on a device breaks here too as soon
 * as the order of threads changes: SN_EMUL_ORDER=0 runs them forwards, 1 backwards, a larger number
 * shuffled. A barrier that not all reach ends the program with a message. Blocks run one after
 * another, in such an order too. Shared memory is filled with NaNs before each block.
 *
 * A launch is refused as on a device: threads, grid and dynamic shared memory by sn_launch(), with
 * its error; the kernel's bounds and its static shared memory, of which tests/cuda_emul/bounded
 * tells in its body, with a message that ends the program. All is compiled with UBSan (Makefile),
 * so that an access that is not aligned to its type, an index beyond an array and an overflow end
 * it too.
 */
#ifndef SN_EMUL_H
#define SN_EMUL_H
#define SN_CUDA_LAUNCH_CUH /* this is it */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __constant__    const
#define __forceinline__ inline
#define __shared__      static
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/geometry.h"

struct sn_emul_3 {
    unsigned x, y, z;
};
extern struct sn_emul_3 threadIdx, blockIdx, blockDim, gridDim;

#define SN_DYNAMIC_SHARED(name) unsigned char *name = sn_emul_shared()
#define SN_DEVICE_ARCH          90

/* --- emul.cc --------------------------------------------------------------------------------- */

enum { SN_EMUL_SHARED = 256 * 1024 }; /* bytes of it */
unsigned char *sn_emul_shared(void);
void __syncthreads(void);
void sn_emul_warp_barrier(unsigned mask);
void *sn_emul_slots(void); /* of this thread's warp: 32 x 64 bytes */
int sn_emul_lane(void);
void sn_emul_group_barrier(int threads); /* aligned groups of so many threads */
uint32_t sn_emul_barriers(void);         /* of the block, so far */
struct sn_emul_body {
    virtual void run() = 0;
    virtual ~sn_emul_body()
    {
    }
};
void sn_emul_grid(struct sn_shape g, struct sn_emul_body *body);
extern long sn_emul_launches;
extern int sn_emul_order; /* SN_EMUL_ORDER; a test may set it */

/* At the begin of a body: as many threads may be in a block; without bounds a thread may take all
 * of its 255 registers, of 65536. */
void sn_emul_bounds(int threads = SN_BLOCK, int blocks = 1);
/* A variable in static shared memory: NaN when a block begins. */
void sn_emul_static(void *variable, size_t bytes);
extern size_t sn_emul_shared_most; /* of a block of the device that is played */

/* wgmma.cc: this thread wrote to shared memory, if that is where it is; a block is over. */
void sn_emul_wrote(const void *to, size_t bytes);
void sn_emul_products_end(void);
void sn_emul_copies_end(void); /* copy.cc */

/* --- warps ----------------------------------------------------------------------------------- */

static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    sn_emul_warp_barrier(mask);
}

template <class V> static V sn_emul_exchange(unsigned mask, V x, int from)
{
    static_assert(sizeof(V) <= 64, "slots are 64 bytes");
    unsigned char *slots = (unsigned char *)sn_emul_slots();
    memcpy(slots + 64 * sn_emul_lane(), &x, sizeof(x));
    sn_emul_warp_barrier(mask);
    memcpy(&x, slots + 64 * (from & 31), sizeof(x));
    sn_emul_warp_barrier(mask);
    return x;
}

template <class V> static V __shfl_xor_sync(unsigned mask, V x, int d)
{
    return sn_emul_exchange(mask, x, sn_emul_lane() ^ d);
}
template <class V> static V __shfl_sync(unsigned mask, V x, int from)
{
    return sn_emul_exchange(mask, x, from);
}
template <class V> static V __shfl_up_sync(unsigned mask, V x, unsigned d)
{
    int lane = sn_emul_lane();
    return sn_emul_exchange(mask, x, lane >= (int)d ? lane - (int)d : lane);
}
template <class V> static V __shfl_down_sync(unsigned mask, V x, unsigned d)
{
    int lane = sn_emul_lane();
    return sn_emul_exchange(mask, x, lane + (int)d < 32 ? lane + (int)d : lane);
}

static inline unsigned __ballot_sync(unsigned mask, bool vote)
{
    unsigned all = 0;
    unsigned char *slots = (unsigned char *)sn_emul_slots();
    slots[64 * sn_emul_lane()] = vote;
    sn_emul_warp_barrier(mask);
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1)
            all |= (unsigned)(slots[64 * i] & 1) << i;
    sn_emul_warp_barrier(mask);
    return all;
}
static inline bool __any_sync(unsigned mask, bool vote)
{
    return __ballot_sync(mask, vote) != 0;
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline float atomicAdd(float *p, float x)
{
    float old = *p;
    *p += x;
    return old;
}
static inline unsigned atomicMax(unsigned *p, unsigned x)
{
    unsigned old = *p;
    *p = x > old ? x : old;
    return old;
}
static inline float2 atomicAdd(float2 *p, float2 x)
{
    float2 old = *p;
    if ((uintptr_t)p % sizeof(*p)) {
        fprintf(stderr, "emul: an atomic sum of two is not aligned to 8 bytes\n");
        abort();
    }
    p->x += x.x;
    p->y += x.y;
    return old;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
static inline int min(int a, int b)
{
    return a < b ? a : b;
}
static inline int max(int a, int b)
{
    return a > b ? a : b;
}
static inline unsigned __float_as_uint(float f)
{
    unsigned u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float __uint_as_float(unsigned u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline void __threadfence_block(void)
{
}
static inline void __threadfence_system(void)
{
}

/* --- launching ------------------------------------------------------------------------------- */

template <class F> struct sn_emul_call : sn_emul_body {
    F f;
    explicit sn_emul_call(F g) : f(g)
    {
    }
    void run() override
    {
        f();
    }
};

static inline int sn_launched(struct sn_cuda *cx, cudaError_t e)
{
    cx->fault.code = (int)e;
    return (int)e;
}

template <class... P, class... A>
static int sn_launch(struct sn_cuda *cx, void (*kernel)(P...), struct sn_shape g, A... args)
{
    if (g.x == 0 || g.y == 0 || g.z == 0)
        return 0;
    if (g.y > SN_GRID_Y_MOST || g.z > SN_GRID_Y_MOST || g.x > 0x7fffffffu ||
        g.bx * g.by > SN_BLOCK_MOST || g.bx * g.by == 0 || g.shared > cx->device.shared_per_block)
        return sn_launched(cx, 9); /* invalid configuration argument */
    sn_emul_shared_most = cx->device.shared_per_block;
    auto body = [=]() { kernel(static_cast<P>(args)...); };
    sn_emul_call<decltype(body)> call(body);
    sn_emul_grid(g, &call);
    return 0;
}

#endif
