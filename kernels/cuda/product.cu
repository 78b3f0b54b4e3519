/*
 * product.cu - see product.cuh.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/product.cuh"

#include <mma.h>

enum { M = SN_PRODUCT_M, N = SN_PRODUCT_N, K = SN_PRODUCT_K, THREADS = SN_PRODUCT_THREADS };

/* A window of an operand: rows row0 .. row_end - 1, columns col0 .. col_end - 1 of x. */
struct window {
    int64_t row0, row_end, col0, col_end;
};

/*
 * ROWS x COLS elements in shared memory as E, 16 bytes a thread and turn where the source has E and
 * is aligned, else by element. fetch() takes a piece to registers, put() lays it down.
 */
template <class E, int ROWS, int COLS> struct piece {
    enum {
        EACH = 16 / sizeof(E),
        LD = COLS + EACH,
        ITEMS = ROWS * COLS / EACH,
        TURNS = ITEMS / THREADS
    };
    float x[TURNS][EACH];
    static_assert(ITEMS % THREADS == 0, "every thread has as many");

    __device__ __forceinline__ void fetch(const struct sn_mat &m, const struct window &w,
                                          bool aligned)
    {
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            int i = t * THREADS + (int)threadIdx.x;
            int64_t r = w.row0 + i / (COLS / EACH), c = w.col0 + i % (COLS / EACH) * EACH;
            if (aligned && r < w.row_end && c + EACH <= w.col_end) {
                sn_vec<E>::load(m, r, c, x[t]);
                continue;
            }
#pragma unroll
            for (int e = 0; e < EACH; e++)
                x[t][e] = r < w.row_end && c + e < w.col_end ? sn_element(m, r, c + e) : 0.0f;
        }
    }

    __device__ __forceinline__ void put(E *to) const
    {
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            int i = t * THREADS + (int)threadIdx.x;
            E *p = to + i / (COLS / EACH) * LD + i % (COLS / EACH) * EACH;
#pragma unroll
            for (int e = 0; e < EACH; e++)
                sn_narrow(p + e, x[t][e]);
        }
    }
};

/* Where a tile of C goes, and what joins it. */
struct target {
    int64_t row0, row_end, col0, col_end; /* of C */
};

static __device__ __forceinline__ void finish(const struct sn_product &p, const struct target &to,
                                              int64_t r, int64_t c, float sum)
{
    if (r >= to.row_end || c >= to.col_end)
        return;
    float y[1] = {sum};
    if (p.bias.p)
        y[0] += sn_element(p.bias, 0, c);
    if (p.addend.p)
        y[0] += sn_element(p.addend, r, c);
    if (p.add)
        y[0] += sn_element(p.c, r, c);
    sn_any::store(p.c, r, c, y);
}

/* --- engines --------------------------------------------------------------------------------- */

/* 256 threads in 16 x 16, 8 x 8 elements of C each. */
template <bool TA, bool TB> struct simt {
    typedef float element;
    enum { LDA = (TA ? M : K) + 4, LDB = (TB ? K : N) + 4, EACH = 8, ACROSS = N / EACH };
    float sum[EACH][EACH];

    __device__ __forceinline__ void start(void)
    {
#pragma unroll
        for (int y = 0; y < EACH; y++)
#pragma unroll
            for (int x = 0; x < EACH; x++)
                sum[y][x] = 0.0f;
    }

    __device__ __forceinline__ void step(const float *a, const float *b)
    {
        int row = (int)threadIdx.x / ACROSS * EACH, col = (int)threadIdx.x % ACROSS;
#pragma unroll 4
        for (int l = 0; l < K; l++) {
            float u[EACH], v[EACH];
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                u[i] = TA ? a[l * LDA + row + i] : a[(row + i) * LDA + l];
                v[i] = TB ? b[(col + i * ACROSS) * LDB + l] : b[l * LDB + col + i * ACROSS];
            }
#pragma unroll
            for (int y = 0; y < EACH; y++)
#pragma unroll
                for (int x = 0; x < EACH; x++)
                    sum[y][x] += u[y] * v[x];
        }
    }

    __device__ __forceinline__ void end(const struct sn_product &p, const struct target &to,
                                        float *)
    {
        int64_t row = to.row0 + threadIdx.x / ACROSS * EACH, col = to.col0 + threadIdx.x % ACROSS;
#pragma unroll
        for (int y = 0; y < EACH; y++)
#pragma unroll
            for (int x = 0; x < EACH; x++)
                finish(p, to, row + y, col + x * ACROSS, sum[y][x]);
    }
};

template <bool col> struct order {
    typedef nvcuda::wmma::row_major type;
};
template <> struct order<true> {
    typedef nvcuda::wmma::col_major type;
};

/* Eight warps in 2 x 4, 64 x 32 elements of C each. */
template <class E, bool TA, bool TB> struct warps {
    typedef E element;
    enum { LDA = (TA ? M : K) + 8, LDB = (TB ? K : N) + 8, DOWN = 4, RIGHT = 2, ACROSS = 4 };
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum[DOWN][RIGHT];

    __device__ __forceinline__ void start(void)
    {
#pragma unroll
        for (int y = 0; y < DOWN; y++)
#pragma unroll
            for (int x = 0; x < RIGHT; x++)
                nvcuda::wmma::fill_fragment(sum[y][x], 0.0f);
    }

    __device__ __forceinline__ void step(const E *a, const E *b)
    {
        using namespace nvcuda;
        int warp = (int)threadIdx.x / SN_WARP, row = warp / ACROSS * DOWN * 16;
        int col = warp % ACROSS * RIGHT * 16;
#pragma unroll
        for (int l = 0; l < K; l += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, E, typename order<TB>::type> v[RIGHT];
#pragma unroll
            for (int x = 0; x < RIGHT; x++) {
                int c = col + x * 16;
                wmma::load_matrix_sync(v[x], b + (TB ? c * LDB + l : l * LDB + c), LDB);
            }
#pragma unroll
            for (int y = 0; y < DOWN; y++) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, E, typename order<TA>::type> u;
                int r = row + y * 16;
                wmma::load_matrix_sync(u, a + (TA ? l * LDA + r : r * LDA + l), LDA);
#pragma unroll
                for (int x = 0; x < RIGHT; x++)
                    wmma::mma_sync(sum[y][x], u, v[x], sum[y][x]);
            }
        }
    }

    /* Fragments pass through shared memory: which lane holds what is the device's secret. */
    __device__ __forceinline__ void end(const struct sn_product &p, const struct target &to,
                                        float *room)
    {
        int warp = (int)threadIdx.x / SN_WARP, lane = (int)threadIdx.x % SN_WARP;
        int64_t row0 = to.row0 + warp / ACROSS * DOWN * 16,
                col0 = to.col0 + warp % ACROSS * RIGHT * 16;
        float *mine = room + warp * 256;
#pragma unroll
        for (int y = 0; y < DOWN; y++)
#pragma unroll
            for (int x = 0; x < RIGHT; x++) {
                nvcuda::wmma::store_matrix_sync(mine, sum[y][x], 16, nvcuda::wmma::mem_row_major);
                __syncwarp();
                for (int i = lane; i < 256; i += SN_WARP)
                    finish(p, to, row0 + y * 16 + i / 16, col0 + x * 16 + i % 16, mine[i]);
                __syncwarp();
            }
    }
};

/* --- the kernel ------------------------------------------------------------------------------ */

/* What a block computes: its tile of C, the first row of B that belongs to it, and the ranges of
 * depth, whose segments are first_segment, + experts, ... (one range without segments). */
struct task {
    struct target to;
    int64_t a_row, b_row; /* of stored A and B: where this expert's begin, where not by depth */
    int32_t segment;
};

/* False when the block has nothing to do. */
template <bool TA>
static __device__ __forceinline__ bool task_of(const struct sn_product &p, struct task *t)
{
    int64_t tile = blockIdx.x;
    t->to.col0 = (int64_t)blockIdx.y * N;
    t->to.col_end = p.c.cols;
    t->segment = 0;
    t->b_row = 0;
    t->to.row0 = tile * M;
    t->to.row_end = p.c.rows;
    if (!p.bounds)
        return true;
    if constexpr (TA) {
        t->segment = (int32_t)blockIdx.z;
        t->to.row0 = blockIdx.z * p.expert_rows + tile * M;
        t->to.row_end = (blockIdx.z + 1) * p.expert_rows;
        return t->to.row0 < t->to.row_end;
    } else {
        for (int32_t s = 0; s < p.segments; s++) {
            int64_t first = p.bounds[s], end = p.bounds[s + 1], tiles = (end - first + M - 1) / M;
            if (tile < tiles) {
                t->to.row0 = first + tile * M;
                t->to.row_end = end;
                t->b_row = s % p.experts * p.expert_rows;
                return true;
            }
            tile -= tiles;
        }
        return false;
    }
}

/* A's window at depth l of [.., end), and B's. */
template <bool TA, bool TB>
static __device__ __forceinline__ void windows(const struct sn_product &p, const struct task &t,
                                               int64_t l, int64_t end, struct window *a,
                                               struct window *b)
{
    int64_t row0 = t.to.row0, row_end = t.to.row_end;
    if (TA && p.bounds) { /* columns of A are rows of one expert's C */
        row0 -= t.segment % p.experts * p.expert_rows;
        row_end -= t.segment % p.experts * p.expert_rows;
    }
    struct window rows = {row0, row_end, l, end}, cols = {l, end, row0, row_end};
    *a = TA ? cols : rows;
    struct window stored = {t.b_row + t.to.col0, t.b_row + t.to.col_end, l, end};
    struct window turned = {t.b_row + l, t.b_row + end, t.to.col0, t.to.col_end};
    *b = TB ? stored : turned;
}

template <class Engine, bool TA, bool TB>
static __global__ void __launch_bounds__(THREADS)
    product(const struct sn_product p, bool aligned_a, bool aligned_b)
{
    typedef typename Engine::element E;
    typedef piece<E, TA ? K : M, TA ? M : K> PA;
    typedef piece<E, TB ? N : K, TB ? K : N> PB;
    __shared__ __align__(128) E a[(TA ? K : M) * PA::LD];
    __shared__ __align__(128) E b[(TB ? N : K) * PB::LD];
    __shared__ __align__(128) float room[THREADS / SN_WARP * 256];
    struct task t;
    if (!task_of<TA>(p, &t))
        return;
    int64_t depth = TA ? p.a.rows : p.a.cols;
    if (!TA && p.bounds && !TB)
        depth = p.expert_rows;
    Engine engine;
    engine.start();
    for (int32_t s = t.segment; s < (TA && p.bounds ? p.segments : t.segment + 1);
         s += p.bounds ? p.experts : 1) {
        int64_t l = TA && p.bounds ? p.bounds[s] : 0,
                end = TA && p.bounds ? p.bounds[s + 1] : depth;
        struct window wa, wb;
        PA next_a;
        PB next_b;
        if (l >= end)
            continue;
        windows<TA, TB>(p, t, l, end, &wa, &wb);
        next_a.fetch(p.a, wa, aligned_a);
        next_b.fetch(p.b, wb, aligned_b);
        for (; l < end; l += K) {
            __syncthreads();
            next_a.put(a);
            next_b.put(b);
            __syncthreads();
            if (l + K < end) {
                windows<TA, TB>(p, t, l + K, end, &wa, &wb);
                next_a.fetch(p.a, wa, aligned_a);
                next_b.fetch(p.b, wb, aligned_b);
            }
            engine.step(a, b);
        }
    }
    engine.end(p, t.to, room);
}

/* --- launching ------------------------------------------------------------------------------- */

/* Stands for an engine that the architecture compiled for does not have. */
template <class E> struct absent {
    typedef E element;
    __device__ void start(void)
    {
    }
    __device__ void step(const E *, const E *)
    {
    }
    __device__ void end(const struct sn_product &, const struct target &, float *)
    {
    }
};
template <class E, bool TA, bool TB, bool there> struct where_it_is : warps<E, TA, TB> {
};
template <class E, bool TA, bool TB> struct where_it_is<E, TA, TB, false> : absent<E> {
};

template <class E> struct tensor {
    enum { THERE = SN_DEVICE_ARCH == 0 || SN_DEVICE_ARCH >= (sn_type<E>::id == SN_BF16 ? 80 : 70) };
    template <bool TA, bool TB> struct engine : where_it_is<E, TA, TB, THERE> {
    };
};
struct plain {
    template <bool TA, bool TB> struct engine : simt<TA, TB> {
    };
};

template <class How>
static int run(struct sn_cuda *cx, const struct sn_product *p, struct sn_shape g, bool a, bool b)
{
    if (p->trans_a && p->trans_b)
        return sn_launch(cx, product<typename How::template engine<true, true>, true, true>, g, *p,
                         a, b);
    if (p->trans_a)
        return sn_launch(cx, product<typename How::template engine<true, false>, true, false>, g,
                         *p, a, b);
    if (p->trans_b)
        return sn_launch(cx, product<typename How::template engine<false, true>, false, true>, g,
                         *p, a, b);
    return sn_launch(cx, product<typename How::template engine<false, false>, false, false>, g, *p,
                     a, b);
}

int sn_product_run(struct sn_cuda *cx, const struct sn_product *p)
{
    bool grouped = p->bounds != NULL;
    int64_t rows = grouped && p->trans_a ? p->expert_rows : p->c.rows;
    int64_t matrices = grouped && p->trans_a ? p->experts : 1;
    int64_t segments = grouped && !p->trans_a ? p->segments : 0;
    if (rows == 0 || p->c.cols == 0)
        return 0;
    if (!sn_product_fits(rows, p->c.cols, segments, matrices)) {
        cx->fault.what = "a product of this size exceeds the grid of a launch";
        return cx->fault.code = 1;
    }
    struct sn_shape g = sn_shape_product(rows, p->c.cols, segments, matrices);
    if (segments == 1)
        g.x += 1;
    bool a = sn_is_aligned(&p->a), b = sn_is_aligned(&p->b);
    enum sn_dtype t = p->a.dtype == p->b.dtype ? p->a.dtype : SN_NDTYPES;
    if (t == SN_F16 && cx->device.arch >= 70)
        return run<tensor<sn_f16>>(cx, p, g, a, b);
    if (t == SN_BF16 && cx->device.arch >= 80)
        return run<tensor<sn_bf16>>(cx, p, g, a, b);
    return run<plain>(cx, p, g, a && p->a.dtype == SN_F32, b && p->b.dtype == SN_F32);
}
