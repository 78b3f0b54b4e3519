/*
 * lower_powersgd.c - gradients among replicas as products of two thin factors (Vogels, Karimireddy,
 * Jaggi 2019, "PowerSGD", arXiv 1905.13727, algorithms 1 and 2).
 *
 * For each matrix of a bucket that is complete, with g_k the gradient of rank k of N, e_k what was
 * lost on it before, and Q of the step before:
 *
 *   M_k = g_k + e_k        Q: orthonormal
 *   P_k = M_k Q            P = sum P_k (an all-reduce), orthonormal
 *   Q_k = M_k^T P          Q = sum Q_k (an all-reduce)
 *   e_k = M_k - P Q_k^T    gradient = P Q^T
 *
 * Gradients are sums here, not means: the loss of a token is divided by the tokens of all ranks
 * (scalars.targets_in_step), and the paper's division by N is in that. P Q^T = P P^T sum M_k, so
 * sum e_k is exactly what the sum of all M_k lost: of all gradients together nothing is lost but
 * the last e. The scale of P does not matter, and Q is kept as it is, as the next step's start.
 *
 * R (rows + cols) values travel in place of rows x cols. A shard that would not shrink to half, and
 * every vector, is summed as it is: contiguous ones in one all-reduce. Of experts each has factors
 * of its own. A shard of a matrix is a matrix: tensor ranks compress what they hold.
 *
 * Everything is text of the segment in which the bucket is complete, on the last micro-batch. While
 * one bucket's P is under way the Q of the one before it is made, and the gradient of the one
 * before that; what is still open at the segment's end is waited for there.
 *
 * There is no warm-up: the first steps, in which Q is a random start, lose more, and e has it.
 */
#include "lib/program/build.h"

#include "lib/base/rng.h"

/* --- which matrices --------------------------------------------------------------------------- */

int sn_low_rank_of(const struct sn_job *j, const struct sn_bucket *b)
{
    bool sums = b->trains && j->group_size[b->replicas] > 1;
    return sums ? j->config->layout.compress.coding[SN_CODED_DATA].rank : 0;
}

/* Matrices that lie in a shard one under the other: of experts each one's. */
static int64_t blocks_of(const struct sn_job *j, const struct sn_shard *q)
{
    int count = j->config->model.experts.count;
    if (j->buckets[q->bucket].replicas != SN_GROUP_EXPERT_DATA || count == 0)
        return 1;
    return q->n_tensors / (j->model->params[q->param].n_tensors / count);
}

/* Is a shard worth it? */
static bool shrinks(const struct sn_job *j, const struct sn_shard *q)
{
    int64_t rank = sn_low_rank_of(j, &j->buckets[q->bucket]), rows = q->rows / blocks_of(j, q);
    return rank > 0 && q->cols > 1 && rows * q->cols >= 2 * rank * (rows + q->cols);
}

bool sn_low_rank_next(const struct sn_job *j, int bucket, struct sn_low_rank *m)
{
    int n = j->buckets[bucket].n_shards;
    if (m->rows > 0) {
        m->left += m->rows;
        m->right += m->cols;
        m->at += m->rows * m->cols;
        if (++m->block < blocks_of(j, &j->shards[m->shard]))
            return true;
        m->k++;
    }
    while (m->k < n && !shrinks(j, &j->shards[sn_bucket_shard(j, bucket, m->k)]))
        m->k++;
    if (m->k == n)
        return false;
    m->shard = sn_bucket_shard(j, bucket, m->k);
    const struct sn_shard *q = &j->shards[m->shard];
    m->block = 0;
    m->at = q->offset;
    m->rows = q->rows / blocks_of(j, q);
    m->cols = q->cols;
    return true;
}

const char *sn_low_rank_name(const struct sn_job *j, const struct sn_low_rank *m)
{
    const struct sn_shard *q = &j->shards[m->shard];
    int64_t first = q->n_tensors / blocks_of(j, q) * m->block;
    return j->model->params[q->param].tensor[q->tensor[first].tensor].name;
}

bool sn_low_rank_sizes(const struct sn_job *j, int bucket, int64_t rows[2])
{
    struct sn_low_rank m = {0};
    while (sn_low_rank_next(j, bucket, &m))
        continue;
    rows[0] = m.left;
    rows[1] = m.right;
    return m.left > 0;
}

/* --- text ------------------------------------------------------------------------------------- */

static struct sn_op *add(struct sn_emit *e, int kind, const struct sn_low_rank *m, const char *what)
{
    struct sn_op *op = sn_op_add(e->p, kind, "%.48s.%s", sn_low_rank_name(e->job, m), what);
    op->when = SN_LAST;
    op->is_weight_grad = true;
    return op;
}

/* The matrix in an array of the bucket's length. */
static struct sn_view matrix(int buf, const struct sn_low_rank *m)
{
    return (struct sn_view){
        .buf = buf, .offset = m->at, .rows = m->rows, .cols = m->cols, .ld = m->cols};
}

static struct sn_view left(const struct sn_emit *e, int buf, const struct sn_low_rank *m)
{
    return sn_view_rows(e->p, buf, m->left, m->rows);
}

static struct sn_view right(const struct sn_emit *e, int buf, const struct sn_low_rank *m)
{
    return sn_view_rows(e->p, buf, m->right, m->cols);
}

static int post(struct sn_emit *e, int bucket, struct sn_view from, struct sn_view to,
                const char *what)
{
    const struct sn_bucket *b = &e->job->buckets[bucket];
    struct sn_op op = sn_comm_op(SN_OP_ALL_REDUCE, b->replicas, "%.40s.%s", b->name, what);
    op.is_weight_grad = true;
    op.when = SN_LAST;
    op.in[SN_MOVE_FROM] = from;
    op.out[SN_MOVE_TO] = to;
    return sn_op_append(e->p, &op);
}

static struct sn_op *orthogonalise(struct sn_emit *e, const struct sn_low_rank *m, struct sn_view v)
{
    struct sn_op *op = add(e, SN_OP_ORTHOGONALISE, m, "orthonormal");
    op->in[SN_ORTHOGONALISE_X] = op->out[SN_ORTHOGONALISE_Y] = v;
    op->attr.random.site = (uint32_t)sn_rng_key(0, sn_low_rank_name(e->job, m));
    return op;
}

/* Shards that are summed as they are; the update waits. */
static void post_others(struct sn_emit *e, int bucket)
{
    const struct sn_job *j = e->job;
    int64_t from = 0, end = 0;
    int n = j->buckets[bucket].n_shards;
    for (int k = 0; k <= n; k++) {
        const struct sn_shard *q = k < n ? &j->shards[sn_bucket_shard(j, bucket, k)] : NULL;
        bool ends = !q || shrinks(j, q);
        if (ends && end > from) {
            struct sn_view v = sn_view_flat(e->p, j->buckets[bucket].grad);
            v.offset = from;
            v.cols = v.ld = end - from;
            (void)post(e, bucket, v, v, "exact");
            from = end;
        }
        if (ends)
            continue;
        from = end > from ? from : q->offset;
        end = q->offset + sn_shard_room(q->rows * q->cols);
    }
}

/* M, in the place of what was lost, and P. */
static struct sn_factored left_factors(struct sn_emit *e, int bucket)
{
    const struct sn_bucket *b = &e->job->buckets[bucket];
    struct sn_low_rank m = {0};
    int64_t rows[2], rank = sn_low_rank_of(e->job, b);
    (void)sn_low_rank_sizes(e->job, bucket, rows);
    int p = sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, rows[0], rank, "left.%.60s", b->name);
    while (sn_low_rank_next(e->job, bucket, &m)) {
        struct sn_op *op = add(e, SN_OP_COPY, &m, "fed");
        op->in[SN_COPY_X] = matrix(b->grad, &m);
        op->out[SN_COPY_Y] = matrix(b->feedback, &m);
        op->acc[SN_COPY_Y] = SN_ACC_ADD;
        op = orthogonalise(e, &m, right(e, b->factors, &m));
        op->attr.draws = true;
        op = add(e, SN_OP_GEMM, &m, "left");
        op->in[SN_GEMM_A] = matrix(b->feedback, &m);
        op->in[SN_GEMM_B] = right(e, b->factors, &m);
        op->out[SN_GEMM_C] = left(e, p, &m);
    }
    struct sn_factored f = {.is_open = true, .bucket = bucket, .left = p};
    f.posted = post(e, bucket, sn_view_flat(e->p, p), sn_view_flat(e->p, p), "left");
    post_others(e, bucket);
    return f;
}

/* P orthonormal, Q, and e while Q is under way. */
static struct sn_factored right_factors(struct sn_emit *e, struct sn_factored f)
{
    if (!f.is_open)
        return f;
    const struct sn_bucket *b = &e->job->buckets[f.bucket];
    int64_t rows[2], rank = sn_low_rank_of(e->job, b);
    (void)sn_low_rank_sizes(e->job, f.bucket, rows);
    int minus = sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, rows[0], rank, "minus.%.60s", b->name);
    int own = sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, rows[1], rank, "right.%.60s", b->name);
    sn_wait_add(e->p, f.posted);
    for (struct sn_low_rank m = {0}; sn_low_rank_next(e->job, f.bucket, &m);) {
        struct sn_op *op = orthogonalise(e, &m, left(e, f.left, &m));
        op->out[SN_ORTHOGONALISE_MINUS] = left(e, minus, &m);
        op = add(e, SN_OP_GEMM, &m, "right");
        op->in[SN_GEMM_A] = matrix(b->feedback, &m);
        op->in[SN_GEMM_B] = left(e, f.left, &m);
        op->attr.gemm.trans_a = true;
        op->out[SN_GEMM_C] = right(e, own, &m);
    }
    f.posted = post(e, f.bucket, sn_view_flat(e->p, own), sn_view_flat(e->p, b->factors), "right");
    for (struct sn_low_rank m = {0}; sn_low_rank_next(e->job, f.bucket, &m);) {
        struct sn_op *op = add(e, SN_OP_GEMM, &m, "lost");
        op->in[SN_GEMM_A] = left(e, minus, &m);
        op->in[SN_GEMM_B] = right(e, own, &m);
        op->attr.gemm.trans_b = true;
        op->out[SN_GEMM_C] = matrix(b->feedback, &m);
        op->acc[SN_GEMM_C] = SN_ACC_ADD;
    }
    return f;
}

static void multiply(struct sn_emit *e, struct sn_factored f)
{
    if (!f.is_open)
        return;
    const struct sn_bucket *b = &e->job->buckets[f.bucket];
    sn_wait_add(e->p, f.posted);
    for (struct sn_low_rank m = {0}; sn_low_rank_next(e->job, f.bucket, &m);) {
        struct sn_op *op = add(e, SN_OP_GEMM, &m, "sum");
        op->in[SN_GEMM_A] = left(e, f.left, &m);
        op->in[SN_GEMM_B] = right(e, b->factors, &m);
        op->attr.gemm.trans_b = true;
        op->out[SN_GEMM_C] = matrix(b->grad, &m);
    }
}

bool sn_low_rank_reduce(struct sn_emit *e, int bucket)
{
    int64_t rows[2];
    if (!sn_low_rank_sizes(e->job, bucket, rows))
        return false;
    struct sn_factored last = e->factored[1];
    e->factored[1] = right_factors(e, e->factored[0]);
    e->factored[0] = left_factors(e, bucket);
    multiply(e, last);
    return true;
}

void sn_low_rank_end(struct sn_emit *e)
{
    multiply(e, e->factored[1]);
    multiply(e, right_factors(e, e->factored[0]));
    e->factored[0] = e->factored[1] = (struct sn_factored){0};
}
