/*
 * transpose.cu - TRANSPOSE, as kernels/cpu/transpose.c: blocks of n elements are moved as they are, 16 bytes at a
 * time where every run of a block is whole 16-byte pieces in both matrices, else by element.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

/* Where element e of the matrix, read row after row, lies. */
static __device__ __forceinline__ int64_t offset(const struct sn_mat &m, int64_t e)
{
    return m.ld == m.cols ? e : e / m.cols * m.ld + e % m.cols;
}

/* U: what is moved, `each` elements. */
template <class U>
static __global__ void __launch_bounds__(SN_BLOCK) transpose(const struct sn_args a, int each)
{
    const struct sn_mat &x = a.in[SN_TRANSPOSE_X], &y = a.out[SN_TRANSPOSE_Y];
    int64_t all = x.rows * x.cols, na = a.attr.blocks_a, nb = a.attr.blocks_b, n = all / (na * nb);
    int64_t step = (int64_t)gridDim.x * blockDim.x * each;
    for (int64_t e = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * each; e < all; e += step) {
        int64_t block = e / n, i = block % na, j = block / na; /* of y: [j][i] */
        int64_t from = (i * nb + j) * n + e % n;
        ((U *)y.p)[offset(y, e) / each] = ((const U *)x.p)[offset(x, from) / each];
    }
}

/* Are all runs of blocks whole 16-byte pieces of m? */
static bool has_pieces(const struct sn_mat *m, int64_t n)
{
    int64_t each = 16 / (int64_t)sn_dtype_size(m->dtype);
    bool gaps = m->rows > 1 && m->ld != m->cols;
    return (uintptr_t)m->p % 16 == 0 && n % each == 0 &&
           (!gaps || (m->cols % each == 0 && m->ld % each == 0));
}

SN_CUDA_OP(transpose)
{
    struct sn_args b = *a;
    struct sn_mat *x = &b.in[SN_TRANSPOSE_X], *y = &b.out[SN_TRANSPOSE_Y];
    x->ld = x->rows == 1 ? x->cols : x->ld;
    y->ld = y->rows == 1 ? y->cols : y->ld;
    int64_t all = x->rows * x->cols, n = all / (a->attr.blocks_a * a->attr.blocks_b);
    int size = (int)sn_dtype_size(x->dtype);
    if (all == 0)
        return 0;
    if (has_pieces(x, n) && has_pieces(y, n))
        return sn_launch(cx, transpose<uint4>, sn_shape_line(all / (16 / size)), b, 16 / size);
    switch (size) {
    case 1:
        return sn_launch(cx, transpose<uint8_t>, sn_shape_line(all), b, 1);
    case 2:
        return sn_launch(cx, transpose<uint16_t>, sn_shape_line(all), b, 1);
    case 4:
        return sn_launch(cx, transpose<uint32_t>, sn_shape_line(all), b, 1);
    default:
        return sn_launch(cx, transpose<uint64_t>, sn_shape_line(all), b, 1);
    }
}
