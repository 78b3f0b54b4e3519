/*
 * cross_entropy.cu - row_loss = lse - logit[target], and its gradient in one more pass: formulas as
 * in kernels/cpu/cross_entropy.c. The logits are read twice (the second time from the second-level
 * cache, if the row fits there) and written once; nothing as large as they is stored beside them.
 *
 * The losses are added to scalars.loss_sum by one block, thread after thread over consecutive rows.
 * They are floats added in double: exact, and so the same bits in any order, unless they differ by
 * a factor of 2^29 / rows.
 */
#include "kernels/cuda/cross_entropy.cuh"
#include "kernels/cuda/ops.cuh"

struct row {
    double lse;
    float chosen; /* the target's logit */
};

/* From the parts of all ranks, in rank order. */
static __device__ struct row row_merged(const struct sn_args &a, int64_t r)
{
    const struct sn_mat &parts = a.in[SN_CROSS_ENTROPY_PARTS];
    int64_t rows = a.in[SN_CROSS_ENTROPY_LOGITS].rows;
    float max = -INFINITY, chosen = 0;
    double sum = 0;
    for (int64_t p = r; p < parts.rows; p += rows) {
        const float *part = (const float *)parts.p + p * parts.ld;
        max = part[0] > max ? part[0] : max;
        chosen += part[2];
    }
    double base = max == -INFINITY ? 0.0 : (double)max; /* nothing but -infinity */
    for (int64_t p = r; p < parts.rows; p += rows) {
        const float *part = (const float *)parts.p + p * parts.ld;
        sum += (double)part[1] * exp((double)part[0] - base);
    }
    struct row row = {(double)max + log(sum), chosen};
    return row;
}

template <class A>
static __device__ __forceinline__ void gradient(const struct sn_args &a, int64_t r, double lse,
                                                int64_t target)
{
    enum { N = A::N };
    double weight = a.attr.vocab.weight > 0 ? (double)a.attr.vocab.weight : 1.0;
    float scale = (float)((double)a.scalars->loss_scale * weight / a.scalars->targets_in_step);
    double z = (double)a.attr.vocab.z_loss;
    float of_softmax = z != 0 ? (float)((double)scale * (1.0 + 2.0 * z * lse)) : scale;
    float high = (float)lse, low = (float)(lse - (double)high);
    float cap = a.attr.vocab.cap;
    int64_t words = sn_ce_words(a);
    for (int64_t c = (int64_t)threadIdx.x * N; c < a.in[SN_CROSS_ENTROPY_LOGITS].cols;
         c += (int64_t)blockDim.x * N) {
        float v[N];
        A::load(a.in[SN_CROSS_ENTROPY_LOGITS], r, c, v);
#pragma unroll
        for (int i = 0; i < N; i++) {
            float x = sn_ce_capped(v[i], cap), g = expf((x - high) - low) * of_softmax;
            g = c + i == target ? g - scale : g;
            g = cap > 0 ? g * (1.0f - (x / cap) * (x / cap)) : g;
            v[i] = c + i < words ? g : 0.0f;
        }
        A::store(a.out[SN_CROSS_ENTROPY_DLOGITS], r, c, v);
    }
}

/* The row's loss and, where it is wanted, the square of its log-sum-exp. */
static __device__ __forceinline__ void put_row(const struct sn_args &a, int64_t r, float loss,
                                               float square)
{
    const struct sn_mat &losses = a.out[SN_CROSS_ENTROPY_ROW_LOSS],
                        &squares = a.out[SN_CROSS_ENTROPY_ROW_Z];
    ((float *)losses.p)[r * losses.ld] = loss;
    if (squares.p)
        ((float *)squares.p)[r * squares.ld] = square;
}

/* For all threads of the block: words here that are taken before the target, as on the processor. */
template <class A>
static __device__ void put_ahead(const struct sn_args &a, int64_t r, float chosen, double *room)
{
    enum { N = A::N };
    const struct sn_mat &ahead = a.out[SN_CROSS_ENTROPY_ROW_AHEAD];
    int64_t target = sn_ce_target(a, r) - a.attr.vocab.first, words = sn_ce_words(a), n = 0;
    for (int64_t c = (int64_t)threadIdx.x * N; c < words; c += (int64_t)blockDim.x * N) {
        float v[N];
        A::load(a.in[SN_CROSS_ENTROPY_LOGITS], r, c, v);
        for (int i = 0; i < N && c + i < words; i++) {
            float x = sn_ce_capped(v[i], a.attr.vocab.cap);
            n += !(x < chosen || (x == chosen && c + i >= target));
        }
    }
    double all = sn_row_sum((double)n, room);
    if (threadIdx.x == 0)
        ((float *)ahead.p)[r * ahead.ld] = (float)all;
}

template <class A>
static __device__ __forceinline__ void row_of_nothing(const struct sn_args &a, int64_t r)
{
    enum { N = A::N };
    const float zero[N] = {0};
    const struct sn_mat &ahead = a.out[SN_CROSS_ENTROPY_ROW_AHEAD];
    if (threadIdx.x == 0)
        put_row(a, r, 0.0f, 0.0f);
    if (threadIdx.x == 0 && ahead.p)
        ((float *)ahead.p)[r * ahead.ld] = 0.0f;
    if (!a.out[SN_CROSS_ENTROPY_DLOGITS].p)
        return;
    for (int64_t c = (int64_t)threadIdx.x * N; c < a.in[SN_CROSS_ENTROPY_LOGITS].cols;
         c += (int64_t)blockDim.x * N)
        A::store(a.out[SN_CROSS_ENTROPY_DLOGITS], r, c, zero);
}

template <class A>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) cross_entropy(const struct sn_args a)
{
    __shared__ float max_room[SN_WARP];
    __shared__ double sum_room[SN_WARP];
    for (int64_t r = blockIdx.x; r < a.in[SN_CROSS_ENTROPY_LOGITS].rows; r += gridDim.x) {
        int64_t target = sn_ce_column(a, r);
        struct row row;
        if (sn_ce_target(a, r) == SN_NO_TARGET) { /* so for all threads of the block */
            row_of_nothing<A>(a, r);
            continue;
        }
        if (a.in[SN_CROSS_ENTROPY_PARTS].p) {
            row = row_merged(a, r);
        } else {
            struct sn_ce_sum s = sn_ce_row<A>(a, r, max_room, sum_room);
            row.lse = (double)s.max + log(s.sum);
            /* A target that is no word must not pass as a loss. */
            row.chosen = target < 0 ? NAN
                                    : sn_ce_capped(sn_element(a.in[SN_CROSS_ENTROPY_LOGITS], r, target),
                                                   a.attr.vocab.cap);
        }
        if (threadIdx.x == 0)
            put_row(a, r, (float)(row.lse - (double)row.chosen), (float)(row.lse * row.lse));
        if (a.out[SN_CROSS_ENTROPY_ROW_AHEAD].p)
            put_ahead<A>(a, r, row.chosen, sum_room);
        __syncthreads(); /* dlogits may take the place of the logits: the target has been read */
        if (a.out[SN_CROSS_ENTROPY_DLOGITS].p)
            gradient<A>(a, r, row.lse, target);
    }
}

/* The sum of a column, for all threads. */
static __device__ double column_sum(const struct sn_mat &m, double *room)
{
    int64_t each = (m.rows + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each;
    double sum = 0;
    for (int64_t r = first; r < first + each && r < m.rows; r++)
        sum += (double)((const float *)m.p)[r * m.ld];
    return sn_row_sum(sum, room);
}

/* The same of the rows of one set. */
static __device__ double sum_of_set(const struct sn_args &a, int32_t set, double *room)
{
    const struct sn_mat &m = a.out[SN_CROSS_ENTROPY_ROW_LOSS], &sets = a.in[SN_CROSS_ENTROPY_SETS];
    int64_t each = (m.rows + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each;
    double sum = 0;
    for (int64_t r = first; r < first + each && r < m.rows; r++)
        if (((const int32_t *)sets.p)[r * sets.ld] == set)
            sum += (double)((const float *)m.p)[r * m.ld];
    return sn_row_sum(sum, room);
}

static __global__ void __launch_bounds__(SN_BLOCK_MOST) add_losses(const struct sn_args a)
{
    __shared__ double room[SN_WARP], room_of_squares[SN_WARP];
    bool has_squares = a.out[SN_CROSS_ENTROPY_ROW_Z].p != NULL;
    double sum = column_sum(a.out[SN_CROSS_ENTROPY_ROW_LOSS], room);
    double squares =
        has_squares ? column_sum(a.out[SN_CROSS_ENTROPY_ROW_Z], room_of_squares) : 0.0;
    for (int32_t set = 0; set < a.attr.vocab.sets && a.in[SN_CROSS_ENTROPY_SETS].p; set++) {
        __syncthreads(); /* the room is that of the sum before */
        double of_set = sum_of_set(a, set, room);
        if (threadIdx.x == 0)
            sn_set_losses(a.scalars)[set] += of_set;
    }
    if (threadIdx.x != 0)
        return;
    if (a.attr.vocab.weight > 0)
        a.scalars->beside_sum += sum;
    else
        a.scalars->loss_sum += sum;
    if (has_squares)
        a.scalars->head_z_sum += squares;
}

SN_CUDA_OP(cross_entropy)
{
    const struct sn_mat *m[] = {&a->in[SN_CROSS_ENTROPY_LOGITS], &a->out[SN_CROSS_ENTROPY_DLOGITS]};
    int rc = 0;
    SN_BY_TYPE(sn_common(m, 2),
               rc = sn_launch(cx, cross_entropy<A>,
                              sn_shape_ce(a->in[SN_CROSS_ENTROPY_LOGITS].rows,
                                          a->in[SN_CROSS_ENTROPY_LOGITS].cols / A::N),
                              *a))
    struct sn_shape one = {a->in[SN_CROSS_ENTROPY_LOGITS].rows > 0, 1, 1, SN_BLOCK_MOST, 1, 0};
    return rc ? rc : sn_launch(cx, add_losses, one, *a);
}
