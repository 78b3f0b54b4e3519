/*
 * transpose.cu - TRANSPOSE, as kernels/cpu/transpose.c: blocks of n elements are moved as they are, 16 bytes at a
 * time where every run of a block is whole 16-byte pieces in both matrices, else by element. MLA_JOIN and MLA_JOIN_DX, as
 * kernels/cpu/mla_join.c.
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

/* --- operands of multi-head latent attention ---------------------------------------------------- */

/* Where columns of q | k | v are: of q, of kv or of r. */
enum source { OF_Q, OF_KV, OF_R };
struct place {
    enum source of;
    int64_t c;
};

/* Column c of y; `shared`: columns of r. */
static __device__ __forceinline__ struct place place_of(const struct sn_attention_attr &t,
                                                        int64_t shared, int64_t c)
{
    int64_t d = t.head_dim, n = d - shared, e = sn_v_dim(&t), q = t.heads * d;
    struct place p = {OF_Q, c};
    if (c < q)
        return p;
    c -= q;
    p.of = OF_KV;
    if (c >= q) {
        p.c = (c - q) / e * (n + e) + n + (c - q) % e;
    } else if (c % d < n) {
        p.c = c / d * (n + e) + c % d;
    } else {
        p.of = OF_R;
        p.c = c % d - n;
    }
    return p;
}

template <class A> struct join : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        struct place p = place_of(a.attr.attention, a.in[SN_MLA_JOIN_R].cols, c);
        float x[N];
        A::load(a.in[p.of == OF_Q    ? SN_MLA_JOIN_Q
                     : p.of == OF_KV ? SN_MLA_JOIN_KV
                                     : SN_MLA_JOIN_R],
                r, p.c, x);
        A::store(a.out[SN_MLA_JOIN_Y], r, c, x);
    }
};

template <class A> struct join_dx : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        struct place p = place_of(a.attr.attention, a.out[SN_MLA_JOIN_DX_DR].cols, c);
        float x[N];
        if (p.of == OF_R)
            return;
        A::load(a.in[SN_MLA_JOIN_DX_DY], r, c, x);
        A::store(a.out[p.of == OF_Q ? SN_MLA_JOIN_DX_DQ : SN_MLA_JOIN_DX_DKV], r, p.c, x);
    }
};

template <class A> struct sum_heads : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        const struct sn_mat &dy = a.in[SN_MLA_JOIN_DX_DY], &dr = a.out[SN_MLA_JOIN_DX_DR];
        int64_t heads = a.attr.attention.heads, d = a.attr.attention.head_dim, from = d - dr.cols;
        float sum[N], x[N];
        A::load(dy, r, heads * d + from + c, sum);
        for (int64_t h = 1; h < heads; h++) {
            A::load(dy, r, (heads + h) * d + from + c, x);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] += x[i];
        }
        A::store(dr, r, c, sum);
    }
};

/* The type of n operands whose parts, r of `shared` columns among them, are whole pieces of 16 bytes. */
static enum sn_dtype common_of(const struct sn_args *a, const struct sn_mat *const *m, int n,
                               int64_t shared)
{
    const struct sn_attention_attr *t = &a->attr.attention;
    int64_t piece = 16 / (int64_t)sn_dtype_size(m[0]->dtype);
    bool whole = t->head_dim % piece == 0 && shared % piece == 0 && sn_v_dim(t) % piece == 0;
    return whole ? sn_common(m, n) : SN_NDTYPES;
}

SN_CUDA_OP(mla_join)
{
    const struct sn_mat *y = &a->out[SN_MLA_JOIN_Y], *r = &a->in[SN_MLA_JOIN_R];
    const struct sn_mat *m[] = {y, r, &a->in[SN_MLA_JOIN_Q], &a->in[SN_MLA_JOIN_KV]};
    SN_BY_TYPE(common_of(a, m, 4, r->cols), return sn_plane_run<join<A>>(cx, a, y->rows, y->cols))
    return 0;
}

SN_CUDA_OP(mla_join_dx)
{
    const struct sn_mat *dy = &a->in[SN_MLA_JOIN_DX_DY], *dr = &a->out[SN_MLA_JOIN_DX_DR];
    const struct sn_mat *moved[] = {dy, &a->out[SN_MLA_JOIN_DX_DQ], &a->out[SN_MLA_JOIN_DX_DKV]};
    const struct sn_mat *summed[] = {dy, dr};
    int rc = 0;
    SN_BY_TYPE(common_of(a, moved, 3, dr->cols),
               rc = sn_plane_run<join_dx<A>>(cx, a, dy->rows, dy->cols))
    if (rc || dr->cols == 0)
        return rc;
    SN_BY_TYPE(common_of(a, summed, 2, dr->cols),
               return sn_plane_run<sum_heads<A>>(cx, a, dr->rows, dr->cols))
    return 0;
}
