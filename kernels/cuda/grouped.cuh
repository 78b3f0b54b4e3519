/*
 * grouped.cuh - a grouped product: EXPERT_GEMM's of 16-bit floats, on tensor cores.
 *
 * As many blocks as multiprocessors take tiles of C in turn. How many tiles a segment has only the
 * device knows: each block counts them from the bounds first. Copies to shared memory run ahead of
 * products by whole steps, from the end of one tile into the next one, whose first pieces come
 * while results are stored. Who computes which tile follows from the bounds, and a tile has one
 * order of sums: nothing depends on the order of blocks.
 *
 * An operand lies in shared memory as in memory, in tiles of 64 columns side by side, rows of 128
 * bytes, 16-byte pieces of row r swapped by r mod 8: what ldmatrix reads without bank conflicts,
 * and warpgroup products take.
 *
 * An engine multiplies:
 *   element, COLUMNS of its tiles, STAGES, AHEAD (steps that copies are ahead)
 *   ASYNC: step<TA, TB>(a, b) begins a step, wait() until all but it are done, end() all of them
 *   each(f): f(r, c, x, y) for elements c, c + 1 of row r of the tile that this thread has
 */
#ifndef SN_CUDA_GROUPED_CUH
#define SN_CUDA_GROUPED_CUH

#include "kernels/cuda/grouped.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/product.cuh"

enum { SN_GROUPED_ROW = 2 * SN_GROUPED_K }; /* bytes */

/* A tile of C: rows row0 .. row_end - 1, columns from col0 on; its segment, and the expert's first
 * row of the weights. */
struct sn_grouped_task {
    int64_t row0, row_end, col0, weights;
    int32_t segment;
};

/* Where blocks find their tiles: before[s], in shared memory, tiles before segment s, in rows. */
struct sn_grouped_plan {
    int32_t *before;
    int32_t parts, cols; /* segments, or experts for gradients of weights; tiles of a row */
};

template <bool TA, int N>
static __device__ __forceinline__ struct sn_grouped_plan sn_grouped_plan(const struct sn_product &p,
                                                                         int32_t *before)
{
    struct sn_grouped_plan plan = {before, TA ? p.experts : p.segments,
                                   (int32_t)((p.c.cols + N - 1) / N)};
    int lane = (int)threadIdx.x % SN_WARP;
    int32_t sum = 0;
    if (threadIdx.x < SN_WARP)
        for (int32_t base = 0; base < plan.parts; base += SN_WARP) {
            int32_t s = base + lane, mine = 0;
            if (s < plan.parts)
                mine = TA ? (int32_t)((p.expert_rows + SN_GROUPED_M - 1) / SN_GROUPED_M)
                          : (p.bounds[s + 1] - p.bounds[s] + SN_GROUPED_M - 1) / SN_GROUPED_M;
            int32_t up_to = mine;
#pragma unroll
            for (int d = 1; d < SN_WARP; d *= 2) {
                int32_t less = __shfl_up_sync((unsigned)SN_ALL_LANES, up_to, (unsigned)d);
                up_to += lane >= d ? less : 0;
            }
            if (s < plan.parts)
                before[s] = sum + up_to - mine;
            sum += __shfl_sync((unsigned)SN_ALL_LANES, up_to, SN_WARP - 1);
        }
    if (threadIdx.x == 0)
        before[plan.parts] = sum;
    __syncthreads();
    return plan;
}

/* False when there is no such tile. */
template <bool TA, int N>
static __device__ __forceinline__ bool sn_grouped_task(const struct sn_product &p,
                                                       const struct sn_grouped_plan &plan,
                                                       int32_t tile, struct sn_grouped_task *t)
{
    int32_t low = 0, high = plan.parts;
    if (tile >= plan.before[plan.parts] * plan.cols)
        return false;
    while (high - low > 1) { /* the last that begins at or before it: none without tiles */
        int32_t middle = (low + high) / 2;
        if (plan.before[middle] * plan.cols <= tile)
            low = middle;
        else
            high = middle;
    }
    struct sn_grouped_spot at = sn_grouped_spot(tile - plan.before[low] * plan.cols,
                                                plan.before[low + 1] - plan.before[low], plan.cols);
    t->segment = low;
    t->col0 = (int64_t)at.col * N;
    t->weights = low % p.experts * p.expert_rows;
    t->row0 = (TA ? t->weights : p.bounds[low]) + (int64_t)at.row * SN_GROUPED_M;
    t->row_end = TA ? t->weights + p.expert_rows : p.bounds[low + 1];
    return true;
}

/* --- copies ---------------------------------------------------------------------------------- */

/*
 * A step of an operand: FREE rows of SN_GROUPED_K (DEEP false), or SN_GROUPED_K rows of FREE
 * columns, which are whole tiles of 64 side by side. A thread copies one piece of every EACH-th
 * row. Zeros beyond `free` and `depth`.
 */
template <bool DEEP, int FREE> struct sn_grouped_piece {
    enum {
        ROWS = DEEP ? (int)SN_GROUPED_K : FREE,
        COLS = DEEP ? FREE : (int)SN_GROUPED_K,
        EACH = SN_GROUPED_THREADS / (COLS / 8),
        BYTES = ROWS * COLS * 2
    };
    const unsigned char *from; /* this thread's first piece of the step */
    int free;

    static __device__ __forceinline__ int row(void)
    {
        return (int)threadIdx.x / (COLS / 8);
    }
    static __device__ __forceinline__ int piece(void)
    {
        return (int)threadIdx.x % (COLS / 8);
    }

    /* The tile begins at element (first, l) of the matrix, or (l, first). */
    __device__ __forceinline__ void seek(const struct sn_mat &m, int64_t first, int64_t left,
                                         int64_t l)
    {
        int64_t r = (DEEP ? l : first) + row(), c = (DEEP ? first : l) + piece() * 8;
        free = left < FREE ? (int)left : FREE;
        from = (const unsigned char *)m.p + (r * m.ld + c) * 2;
    }

    /* And goes on to the next step. */
    __device__ __forceinline__ void copy(const struct sn_mat &m, unsigned char *to, int depth)
    {
        int r = row(), c = piece();
        int rows = DEEP ? depth : free, cols = DEEP ? free : depth;
        unsigned char *own =
            to + c / 8 * ROWS * SN_GROUPED_ROW + r * SN_GROUPED_ROW + ((c % 8) ^ (r % 8)) * 16;
        bool there = c * 8 < cols;
        const unsigned char *at = from;
        static_assert(EACH % 8 == 0 && ROWS % EACH == 0, "a thread's pieces are swapped alike");
#pragma unroll
        for (int i = 0; i < ROWS / EACH; i++, at += EACH * 2 * m.ld)
            sn_copy_async(own + i * EACH * SN_GROUPED_ROW, at, there && r + i * EACH < rows);
        from += DEEP ? SN_GROUPED_K * 2 * m.ld : (int64_t)SN_GROUPED_ROW;
    }
};

/* Walks the steps of this block's tiles ahead of the products. */
template <bool TA, bool TB, int N> struct sn_grouped_copies {
    typedef sn_grouped_piece<TA, SN_GROUPED_M> A;
    typedef sn_grouped_piece<!TB, N> B;
    A a;
    B b;
    struct sn_grouped_task task;
    int32_t tile, segment; /* segment: whose rows are the depth, of gradients of weights */
    int32_t depth;         /* that is left; 0 or less: look for more */

    __device__ __forceinline__ void start(int32_t first)
    {
        tile = first - (int32_t)gridDim.x;
        segment = INT32_MAX - SN_GROUPED_SEGMENTS;
        depth = 0;
        a.from = b.from = NULL;
        a.free = b.free = 0;
    }

    /* The next tile or segment of any depth; false at the end. */
    __device__ __forceinline__ bool find(const struct sn_product &p,
                                         const struct sn_grouped_plan &plan)
    {
        int64_t l = 0;
        while (depth <= 0) {
            segment += p.experts;
            if (!TA || segment >= p.segments) {
                tile += (int32_t)gridDim.x;
                if (!sn_grouped_task<TA, N>(p, plan, tile, &task)) {
                    tile -= (int32_t)gridDim.x; /* and again not, when asked again */
                    return false;
                }
                segment = task.segment;
            }
            l = TA ? p.bounds[segment] : 0;
            depth = (int32_t)(TA ? p.bounds[segment + 1] - l : TB ? p.a.cols : p.expert_rows);
        }
        int64_t first = TA ? task.row0 - task.weights : task.row0;
        a.seek(p.a, first, task.row_end - task.row0, l);
        b.seek(p.b, task.col0 + (TB ? task.weights : 0), p.c.cols - task.col0,
               TA || TB ? l : task.weights);
        return true;
    }

    /* One step, and a group of copies, which may be empty. */
    __device__ __forceinline__ void next(const struct sn_product &p,
                                         const struct sn_grouped_plan &plan, unsigned char *stage)
    {
        if (depth > 0 || find(p, plan)) {
            a.copy(p.a, stage, depth);
            b.copy(p.b, stage + A::BYTES, depth);
            depth -= SN_GROUPED_K;
        }
        sn_copy_commit();
    }
};

/* --- the kernel ------------------------------------------------------------------------------ */

/* Steps of a tile. */
template <bool TA, bool TB>
static __device__ __forceinline__ int32_t sn_grouped_steps(const struct sn_product &p,
                                                           int32_t segment)
{
    int32_t steps = 0;
    if constexpr (!TA)
        steps = (int32_t)(((TB ? p.a.cols : p.expert_rows) + SN_GROUPED_K - 1) / SN_GROUPED_K);
    else
        for (int32_t s = segment; s < p.segments; s += p.experts)
            steps += (p.bounds[s + 1] - p.bounds[s] + SN_GROUPED_K - 1) / SN_GROUPED_K;
    return steps;
}

template <class E> struct sn_grouped_bits {
    typedef uint32_t type;
};
template <> struct sn_grouped_bits<float> {
    typedef uint2 type;
};

/* Two neighbours in memory, read and written at once. */
template <class E> union sn_grouped_pair {
    typename sn_grouped_bits<E>::type all;
    E each[2];
    __device__ sn_grouped_pair() : all()
    {
    }
};

/* To two neighbours of C, of type E. */
template <class E>
static __device__ __forceinline__ void sn_grouped_store(E *to, bool add, float x, float y)
{
    typedef typename sn_grouped_bits<E>::type bits;
    union sn_grouped_pair<E> v;
    if (add) {
        v.all = *(const bits *)to;
        x += sn_wide(v.each[0]);
        y += sn_wide(v.each[1]);
    }
    sn_narrow(&v.each[0], x);
    sn_narrow(&v.each[1], y);
    *(bits *)to = v.all;
}

/* A tile's results; rows beyond the segment are nobody's. Columns are whole pieces of four, so both
 * of two neighbours are there or none. */
template <class E, class Engine>
static __device__ __forceinline__ void
sn_grouped_finish(const struct sn_product &p, const struct sn_grouped_task &t, const Engine &engine)
{
    int64_t rows = t.row_end - t.row0, cols = p.c.cols - t.col0;
    E *c0 = (E *)p.c.p + t.row0 * p.c.ld + t.col0;
    bool add = p.add;
    engine.each([&](int r, int c, float x, float y) {
        if (r < rows && c < cols)
            sn_grouped_store(c0 + r * p.c.ld + c, add, x, y);
    });
}

template <class Engine, bool TA, bool TB>
static __device__ __forceinline__ void sn_grouped(const struct sn_product &p, unsigned char *shared)
{
    enum { N = Engine::COLUMNS, STAGE = (SN_GROUPED_M + N) * SN_GROUPED_ROW };
    enum { A_BYTES = SN_GROUPED_M * SN_GROUPED_ROW };
    int32_t *before = (int32_t *)(shared + Engine::STAGES * STAGE);
    struct sn_grouped_plan plan = sn_grouped_plan<TA, N>(p, before);
    sn_grouped_copies<TA, TB, N> copies;
    struct sn_grouped_task t;
    Engine engine;
    int now = 0, filled = Engine::AHEAD; /* stages */
    copies.start((int32_t)blockIdx.x);
#pragma unroll 1
    for (int i = 0; i < Engine::AHEAD; i++)
        copies.next(p, plan, shared + i * STAGE);
    for (int32_t tile = (int32_t)blockIdx.x; sn_grouped_task<TA, N>(p, plan, tile, &t);
         tile += (int32_t)gridDim.x) {
        engine.start();
        for (int32_t steps = sn_grouped_steps<TA, TB>(p, t.segment); steps > 0; steps--) {
            unsigned char *stage = shared + now * STAGE;
            sn_copy_wait<Engine::AHEAD - 1>();
            Engine::publish();
            __syncthreads(); /* the step is here, and the stage that is filled next is read */
            if (Engine::ASYNC)
                engine.template step<TA, TB>(stage, stage + A_BYTES);
            copies.next(p, plan, shared + filled * STAGE);
            if (!Engine::ASYNC)
                engine.template step<TA, TB>(stage, stage + A_BYTES);
            engine.wait();
            now = now + 1 < Engine::STAGES ? now + 1 : 0;
            filled = filled + 1 < Engine::STAGES ? filled + 1 : 0;
        }
        engine.end();
        (void)sn_grouped_task<TA, N>(p, plan, tile, &t); /* once more: registers are few */
        if (p.c.dtype == SN_F32)
            sn_grouped_finish<float>(p, t, engine);
        else
            sn_grouped_finish<typename Engine::element>(p, t, engine);
    }
    sn_copy_wait<0>();
}

/* --- launching ------------------------------------------------------------------------------- */

/* What the kernels take: pieces of 16 bytes throughout, 16-bit operands of one type, results of
 * that type or fp32. */
static inline bool sn_grouped_takes(const struct sn_product *p)
{
    return p->bounds && !(p->trans_a && p->trans_b) && !p->bias.p && !p->addend.p &&
           p->a.dtype == p->b.dtype && (p->a.dtype == SN_BF16 || p->a.dtype == SN_F16) &&
           (p->c.dtype == p->a.dtype || p->c.dtype == SN_F32) && sn_is_aligned(&p->a) &&
           sn_is_aligned(&p->b) && sn_is_aligned(&p->c) && p->segments <= SN_GROUPED_SEGMENTS;
}

/* grouped_mma.cu (sm_80 and later), grouped_wgmma.cu (sm_90). *taken: whether it was for them. */
int sn_grouped_mma(struct sn_cuda *cx, const struct sn_product *p, bool *taken);
int sn_grouped_wgmma(struct sn_cuda *cx, const struct sn_product *p, bool *taken);

/* K::kernel<E, N, TA, TB>() is a kernel of a family. */
template <class K, class E, int N>
static int sn_grouped_launch(struct sn_cuda *cx, const struct sn_product *p, struct sn_shape g)
{
    if (p->trans_a)
        return sn_launch(cx, K::template kernel<E, N, true, false>(), g, *p);
    if (p->trans_b)
        return sn_launch(cx, K::template kernel<E, N, false, true>(), g, *p);
    return sn_launch(cx, K::template kernel<E, N, false, false>(), g, *p);
}

template <class K>
static int sn_grouped_run(struct sn_cuda *cx, const struct sn_product *p, int stages, bool *taken)
{
    int n = sn_grouped_columns(p->c.cols, stages, cx->device.shared_per_block);
    int64_t tiles = p->trans_a
                        ? sn_grouped_tiles(p->expert_rows, p->c.cols, 0, p->experts, n ? n : 1)
                        : sn_grouped_tiles(p->c.rows, p->c.cols, p->segments, 1, n ? n : 1);
    *taken = n > 0 && tiles + cx->device.multiprocessors <= INT32_MAX;
    if (!*taken)
        return 0;
    struct sn_shape g = sn_shape_grouped(tiles, cx->device.multiprocessors, n, stages);
    if (p->a.dtype == SN_BF16)
        return n == SN_GROUPED_WIDE ? sn_grouped_launch<K, sn_bf16, SN_GROUPED_WIDE>(cx, p, g)
                                    : sn_grouped_launch<K, sn_bf16, SN_GROUPED_NARROW>(cx, p, g);
    return n == SN_GROUPED_WIDE ? sn_grouped_launch<K, sn_f16, SN_GROUPED_WIDE>(cx, p, g)
                                : sn_grouped_launch<K, sn_f16, SN_GROUPED_NARROW>(cx, p, g);
}

#endif
