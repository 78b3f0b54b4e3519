/*
 * grouped_mma.cu - grouped products by mma.sync, sm_80 and later: eight warps in 2 x 4, each 64
 * rows and a quarter of the columns of the tile.
 */
#include "kernels/cuda/grouped.cuh"

enum { ROW = SN_GROUPED_ROW, STEPS_KEPT = 3, DOWN = 4, ACROSS = 4 };

/*
 * Addresses of 16 bytes for ldmatrix. The piece of a row is one bit of the lane plus an even number
 * known when compiled; both, and the row mod 8, are swapped in by exclusive or.
 */
static __device__ __forceinline__ int swapped(int bit, int even)
{
    return ((bit ^ (int)threadIdx.x % 8) * 16) ^ even * 16;
}

/* Rows 16 y .. 16 y + 15 of the warp's of op(A), 16 deep from l on. */
template <bool TA>
static __device__ __forceinline__ void load_a(uint32_t f[4], const unsigned char *a, int y, int l)
{
    int lane = (int)threadIdx.x % SN_WARP, half = (int)threadIdx.x / SN_WARP / ACROSS;
    const unsigned char *own = a + half * 64 * ROW; /* rows, or a tile of 64 columns */
    if (TA)
        sn_ldmatrix_turned(f, own + (l + lane / 16 * 8 + lane % 8) * ROW +
                                  swapped(lane / 8 % 2, y * 2));
    else
        sn_ldmatrix(f, own + (y * 16 + lane % 16) * ROW + swapped(lane / 16, l / 8));
}

/* Columns 8 n .. 8 n + 15 of op(B), of those OWN that are the warp's. */
template <bool TB, int OWN>
static __device__ __forceinline__ void load_b(uint32_t f[4], const unsigned char *b, int n, int l)
{
    int lane = (int)threadIdx.x % SN_WARP, col = (int)threadIdx.x / SN_WARP % ACROSS * OWN;
    if (TB)
        sn_ldmatrix(f, b + (col + n * 8 + lane / 16 * 8 + lane % 8) * ROW +
                           swapped(lane / 8 % 2, l / 8));
    else
        sn_ldmatrix_turned(f, b + col / 64 * SN_GROUPED_K * ROW +
                                  (l + lane / 8 % 2 * 8 + lane % 8) * ROW +
                                  (swapped(lane / 16, n) ^ col % 64 * 2));
}

template <class E, int WIDTH> struct warps {
    typedef E element;
    enum { COLUMNS = WIDTH, STAGES = STEPS_KEPT, AHEAD = STAGES - 1, ASYNC = 0 };
    enum { OWN = WIDTH / ACROSS, N = OWN / 8 };
    float sum[DOWN][N][4];

    static __device__ __forceinline__ void publish(void)
    {
    }

    __device__ __forceinline__ void start(void)
    {
#pragma unroll
        for (int y = 0; y < DOWN; y++)
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sum[y][n][i] = 0.0f;
    }

    template <bool TA, bool TB>
    __device__ __forceinline__ void step(const unsigned char *a, const unsigned char *b)
    {
#pragma unroll
        for (int l = 0; l < SN_GROUPED_K; l += 16) {
            uint32_t u[DOWN][4];
#pragma unroll
            for (int y = 0; y < DOWN; y++)
                load_a<TA>(u[y], a, y, l);
#pragma unroll
            for (int n = 0; n < N; n += 2) {
                uint32_t v[4];
                load_b<TB, OWN>(v, b, n, l);
#pragma unroll
                for (int y = 0; y < DOWN; y++) {
                    sn_mma(sum[y][n], u[y], v, (const E *)0);
                    sn_mma(sum[y][n + 1], u[y], v + 2, (const E *)0);
                }
            }
        }
    }

    __device__ __forceinline__ void wait(void)
    {
    }
    __device__ __forceinline__ void end(void)
    {
    }

    template <class F> __device__ __forceinline__ void each(const F &f) const
    {
        int warp = (int)threadIdx.x / SN_WARP, lane = (int)threadIdx.x % SN_WARP;
        int row = warp / ACROSS * DOWN * 16 + lane / 4, col = warp % ACROSS * OWN + lane % 4 * 2;
#pragma unroll
        for (int y = 0; y < DOWN; y++)
#pragma unroll
            for (int n = 0; n < N; n++) {
                f(row + y * 16, col + n * 8, sum[y][n][0], sum[y][n][1]);
                f(row + y * 16 + 8, col + n * 8, sum[y][n][2], sum[y][n][3]);
            }
    }
};

template <class E, int N, bool TA, bool TB>
static __global__ void __launch_bounds__(SN_GROUPED_THREADS, 1)
    mma_grouped(const struct sn_product p)
{
    SN_DYNAMIC_SHARED(shared);
    if constexpr (SN_DEVICE_ARCH == 0 || SN_DEVICE_ARCH >= 80)
        sn_grouped<warps<E, N>, TA, TB>(p, shared);
}

struct family {
    typedef void run(struct sn_product);
    template <class E, int N, bool TA, bool TB> static run *kernel(void)
    {
        return mma_grouped<E, N, TA, TB>;
    }
};

int sn_grouped_mma(struct sn_cuda *cx, const struct sn_product *p, bool *taken)
{
    *taken = false;
    return cx->device.arch >= 80 && sn_grouped_takes(p)
               ? sn_grouped_run<family>(cx, p, STEPS_KEPT, taken)
               : 0;
}
