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
    const struct sn_mat &m;
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
