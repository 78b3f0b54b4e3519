/*
 * grouped_wgmma.cu - grouped products by warpgroups, sm_90a (Hopper): each of two has 64 rows of
 * the tile. While a step is multiplied the next one's operands are copied, and two steps are on
 * their way.
 *
 * Where the file was compiled for another target its kernels are stubs bounded to one warp, which
 * is seen before they are launched: then mma does the work.
 */
#include "kernels/cuda/grouped.cuh"
#include "kernels/cuda/wgmma_shared.cuh"

enum { ROW = SN_GROUPED_ROW, BOUND = SN_HAS_WGMMA ? (int)SN_GROUPED_THREADS : (int)SN_WARP };
enum { STEPS_KEPT = 4 };

template <class E, int WIDTH> struct groups {
    typedef E element;
    enum { COLUMNS = WIDTH, STAGES = STEPS_KEPT, AHEAD = STAGES - 2, ASYNC = 1, N = WIDTH / 8 };
    float sum[N][4];

    static __device__ __forceinline__ void publish(void)
    {
        sn_wgmma_publish();
    }

    __device__ __forceinline__ void start(void)
    {
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sum[n][i] = 0.0f;
    }

    /* Of A the group's 64 rows, or 64 columns: a tile of its own. */
    template <bool TA, bool TB>
    __device__ __forceinline__ void step(const unsigned char *a, const unsigned char *b)
    {
        const unsigned char *own = a + threadIdx.x / 128 * 64 * ROW;
        sn_wgmma_begin();
#pragma unroll
        for (int l = 0; l < SN_GROUPED_K / 16; l++) {
            uint64_t da = sn_wgmma_descriptor(own + l * (TA ? 16 * ROW : 32), 8 * ROW,
                                              TA ? SN_GROUPED_K * ROW : 16);
            uint64_t db = sn_wgmma_descriptor(b + l * (TB ? 32 : 16 * ROW), 8 * ROW,
                                              TB ? 16 : SN_GROUPED_K * ROW);
            sn_wgmma_shared<TA, !TB>(sum, da, db, (const E *)0);
        }
        sn_wgmma_commit();
    }

    __device__ __forceinline__ void wait(void)
    {
        sn_wgmma_wait<1>();
    }

    __device__ __forceinline__ void end(void)
    {
        sn_wgmma_finish(sum);
    }

    template <class F> __device__ __forceinline__ void each(const F &f) const
    {
        int lane = (int)threadIdx.x % SN_WARP;
        int row = (int)threadIdx.x / SN_WARP * 16 + lane / 4, col = lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < N; n++) {
            f(row, n * 8 + col, sum[n][0], sum[n][1]);
            f(row + 8, n * 8 + col, sum[n][2], sum[n][3]);
        }
    }
};

template <class E, int N, bool TA, bool TB>
static __global__ void __launch_bounds__(BOUND, 1) wgmma_grouped(const struct sn_product p)
{
    SN_DYNAMIC_SHARED(shared); /* begins at a multiple of 1024 bytes */
    if constexpr (SN_HAS_WGMMA)
        sn_grouped<groups<E, N>, TA, TB>(p, shared);
}

struct family {
    typedef void run(struct sn_product);
    template <class E, int N, bool TA, bool TB> static run *kernel(void)
    {
        return wgmma_grouped<E, N, TA, TB>;
    }
};

static bool is_there(const struct sn_cuda *cx)
{
    struct cudaFuncAttributes f;
    const void *any = (const void *)wgmma_grouped<sn_bf16, SN_GROUPED_WIDE, false, true>;
    if (cx->device.arch != 90)
        return false;
    if (cudaFuncGetAttributes(&f, any) != cudaSuccess) {
        (void)cudaGetLastError(); /* it was not an error of ours */
        return false;
    }
    return f.maxThreadsPerBlock >= SN_GROUPED_THREADS;
}

int sn_grouped_wgmma(struct sn_cuda *cx, const struct sn_product *p, bool *taken)
{
    *taken = false;
    return is_there(cx) && sn_grouped_takes(p) ? sn_grouped_run<family>(cx, p, STEPS_KEPT, taken)
                                               : 0;
}
