/*
 * row.cuh - a row in the registers of its threads.
 *
 * Thread t of a row has the items t, t + threads, ... of A::N elements. Up to SN_ROW_KEPT of them
 * are loaded once and kept (`kept`); wider rows are read again in each pass, from cache as a rule.
 */
#ifndef SN_CUDA_ROW_CUH
#define SN_CUDA_ROW_CUH

#include "kernels/cuda/device.cuh"

template <class A, bool kept> struct sn_row {
    float x[kept ? SN_ROW_KEPT : 1][A::N];
    struct sn_mat m;
    int64_t r;

    __device__ __forceinline__ sn_row(const struct sn_mat &of, int64_t row, bool there)
        : m(of), r(row)
    {
        if constexpr (kept) {
#pragma unroll
            for (int i = 0; i < SN_ROW_KEPT; i++) {
                int64_t c = ((int64_t)i * blockDim.x + threadIdx.x) * A::N;
                if (there && c < m.cols)
                    A::load(m, r, c, x[i]);
            }
        }
    }

    /* The row is x + g from here on, rounded and written to `sum`; nothing happens without g. `sum`
     * may be the memory of x or g: a thread has read what it overwrites. */
    __device__ __forceinline__ void add(const struct sn_mat &g, const struct sn_mat &sum,
                                        bool there)
    {
        if (!g.p)
            return;
        each(there, [&](int64_t c, float *v) {
            float more[A::N];
            A::load(g, r, c, more);
#pragma unroll
            for (int i = 0; i < A::N; i++)
                v[i] += more[i];
            A::round(sum, v);
            A::store(sum, r, c, v);
        });
        m.p = sum.p;
        m.ld = sum.ld;
        m.dtype = sum.dtype;
    }

    /* f(first column, its A::N elements) for every item of this thread. */
    template <class F> __device__ __forceinline__ void each(bool there, F f)
    {
        if constexpr (kept) {
#pragma unroll
            for (int i = 0; i < SN_ROW_KEPT; i++) {
                int64_t c = ((int64_t)i * blockDim.x + threadIdx.x) * A::N;
                if (there && c < m.cols)
                    f(c, x[i]);
            }
        } else {
            for (int64_t c = (int64_t)threadIdx.x * A::N; there && c < m.cols;
                 c += (int64_t)blockDim.x * A::N) {
                A::load(m, r, c, x[0]);
                f(c, x[0]);
            }
        }
    }
};

/* Launches kernel<A, kept> with rows of `cols` columns. */
#define SN_LAUNCH_ROWS(kernel, cx, a, rows, cols)                                                  \
    (sn_row_is_kept((cols) / A::N)                                                                 \
         ? sn_launch(cx, kernel<A, true>, sn_shape_rows(rows, (cols) / A::N), *(a))                \
         : sn_launch(cx, kernel<A, false>, sn_shape_rows(rows, (cols) / A::N), *(a)))

#endif
