#include "lib/run/weights.h"

#include "lib/base/mem.h"

static float *address(struct sn_exec *x, const struct sn_job *j, int buf)
{
    return sn_exec_address(x, &j->train, buf);
}

/* --- boxes: what this rank holds of the logical tensors ------------------------------------------
 */

/* An array over a bucket in memory: all n elements, or the slice of this rank. */
struct array {
    float *p;
    int64_t first; /* element of the bucket at p */
};

static struct array array_of(struct sn_exec *x, const struct sn_job *j, const struct sn_bucket *b,
                             int buf)
{
    bool is_slice = j->train.bufs[buf].cols < b->n;
    int64_t first = is_slice ? j->group_index[SN_GROUP_REPLICA] * b->slice : 0;
    return (struct array){address(x, j, buf), first};
}

/* The rows r .. r + n - 1, columns c .. end - 1, of a part, as far as they are those of a piece. */
static void add_box(struct sn_state *s, struct sn_state_tensor t, const struct sn_part *part,
                    const struct sn_part_piece *q, const int64_t rect[4])
{
    int64_t r = rect[0], end_r = rect[1], c = rect[2], end_c = rect[3];
    int64_t from = r > q->at ? r : q->at, to = end_r < q->at + q->n ? end_r : q->at + q->n;
    end_c = end_c < q->n_cols ? end_c : q->n_cols;
    if (from >= to || c >= end_c)
        return;
    t.row = q->from + from - q->at;
    t.col = q->col + c;
    t.n_rows = to - from;
    t.n_cols = end_c - c;
    t.ld = part->cols;
    t.p += from * part->cols + c;
    s->tensors[s->n_tensors++] = t;
}

/* The elements [lo, hi) of the bucket, as far as they are a piece of this part: part of a row,
 * whole rows, part of a row. `a` is where the array's elements are. */
static void add_range(struct sn_state *s, struct sn_state_tensor t, const struct sn_part *part,
                      const struct sn_part_piece *q, const int64_t range[2])
{
    int64_t cols = part->cols, size = part->rows * cols;
    int64_t lo = range[0] - part->offset, hi = range[1] - part->offset;
    lo = lo > 0 ? lo : 0;
    hi = hi < size ? hi : size;
    if (lo >= hi)
        return;
    int64_t first = lo / cols, last = hi / cols; /* rows; `last` is cut, or behind the end */
    if (lo % cols) {
        int64_t end = hi < (first + 1) * cols ? hi - first * cols : cols;
        add_box(s, t, part, q, (int64_t[]){first, first + 1, lo % cols, end});
        if (hi < (first + 1) * cols)
            return;
        first++;
    }
    if (first < last)
        add_box(s, t, part, q, (int64_t[]){first, last, 0, cols});
    if (hi % cols)
        add_box(s, t, part, q, (int64_t[]){last, last + 1, 0, hi % cols});
}

static bool owns(const struct sn_job *j, const struct sn_bucket *b)
{
    unsigned groups = b->copies | (j->zero ? 0 : 1u << SN_GROUP_REPLICA);
    for (int q = 0; q < SN_NGROUPS; q++)
        if (groups >> q & 1u && j->group_index[q] != 0)
            return false;
    return true;
}

static void add_part(struct sn_state *s, struct sn_exec *x, const struct sn_job *j, int part,
                     const char *group)
{
    const struct sn_part *q = &j->parts[part];
    const struct sn_bucket *b = &j->buckets[q->bucket];
    const struct sn_param *param = &j->model->params[q->param];
    int buf = group[0] == 'm' ? b->master : group[7] ? b->exp_avg_sq : b->exp_avg;
    if (buf < 0)
        return;
    struct array a = array_of(x, j, b, buf);
    int64_t lo = j->zero ? j->group_index[SN_GROUP_REPLICA] * b->slice : 0;
    for (int k = 0; k < q->n_pieces; k++) {
        const struct sn_piece *piece = &param->piece[q->piece[k].piece];
        struct sn_state_tensor t = {.group = group,
                                    .name = piece->name,
                                    .rows = piece->rows,
                                    .cols = param->cols,
                                    .p = a.p + (q->offset - a.first),
                                    .owned = owns(j, b)};
        add_range(s, t, q, &q->piece[k], (int64_t[]){lo, lo + b->slice});
    }
}

static const char *const groups[] = {"model", "exp_avg", "exp_avg_sq"};

static void list_all(struct sn_state *s, const struct sn_model *m)
{
    for (int g = 0; g < 3; g++)
        for (int i = 0; i < m->n_params; i++)
            for (int k = 0; k < m->params[i].n_pieces; k++)
                if (g == 0 || m->params[i].trainable)
                    s->all[s->n_all++] =
                        (struct sn_state_shape){groups[g], m->params[i].piece[k].name,
                                                m->params[i].piece[k].rows, m->params[i].cols};
}

enum sn_status sn_state_create(struct sn_state *out, struct sn_exec *x, const struct sn_job *j,
                               struct sn_err *err)
{
    size_t boxes = (size_t)j->n_parts * SN_MAX_PIECES * 3 * 3 + 1;
    size_t all = (size_t)j->model->n_params * SN_MAX_PIECES * 3;
    *out = (struct sn_state){.tensors = sn_alloc_n(boxes, sizeof(*out->tensors)),
                             .all = sn_alloc_n(all, sizeof(*out->all))};
    if (!out->tensors || !out->all) {
        sn_state_fini(out);
        return sn_fail(err, SN_ENOMEM, "state: no memory for a list of %zu tensors", boxes);
    }
    list_all(out, j->model);
    for (int g = 0; g < 3; g++)
        for (int i = 0; i < j->n_parts; i++)
            add_part(out, x, j, i, groups[g]);
    return SN_OK;
}

void sn_state_fini(struct sn_state *s)
{
    sn_free(s->tensors);
    sn_free(s->all);
    *s = (struct sn_state){0};
}

/* --- initial values, and what the forward pass reads
 * ---------------------------------------------- */

/* The parameter that a box belongs to, and the row at which the box's tensor begins in it. */
static const struct sn_param *param_of(const struct sn_job *j, const struct sn_state_tensor *t,
                                       int64_t *row)
{
    for (int i = 0; i < j->model->n_params; i++)
        for (int k = 0; k < j->model->params[i].n_pieces; k++)
            if (j->model->params[i].piece[k].name == t->name) {
                *row = j->model->params[i].piece[k].row;
                return &j->model->params[i];
            }
    return NULL;
}

enum sn_status sn_weights_init(const struct sn_state *s, const struct sn_job *j, struct sn_err *err)
{
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        int64_t at = 0;
        const struct sn_param *p = param_of(j, t, &at);
        if (t->group[0] != 'm')
            continue;
        if (t->n_cols == t->cols) {
            sn_param_init(p, j->config->run.seed, at + t->row, t->n_rows, t->p);
            continue;
        }
        float *row = sn_alloc_n((size_t)t->cols, sizeof(*row));
        if (!row)
            return sn_fail(err, SN_ENOMEM, "%s: no memory for one row", t->name);
        for (int64_t r = 0; r < t->n_rows; r++) {
            sn_param_init(p, j->config->run.seed, at + t->row + r, 1, row);
            for (int64_t c = 0; c < t->n_cols; c++)
                t->p[r * t->ld + c] = row[t->col + c];
        }
        sn_free(row);
    }
    return SN_OK;
}

/* This rank's part of a bucket's weights, from the master copy in their own type. */
static enum sn_status cast(struct sn_exec *x, const struct sn_job *j, const struct sn_bucket *b,
                           struct sn_err *err)
{
    struct sn_args a = {.scalars = sn_exec_scalars(x)};
    int64_t skip =
        j->train.bufs[b->weight].cols > b->slice ? j->group_index[SN_GROUP_REPLICA] * b->slice : 0;
    char *to = sn_exec_address(x, &j->train, b->weight);
    a.in[0] = (struct sn_mat){address(x, j, b->master), SN_F32, 1, b->slice, b->slice};
    a.out[0] = (struct sn_mat){to + skip * (int64_t)sn_dtype_size(j->dtype), j->dtype, 1, b->slice,
                               b->slice};
    if (j->ops->run[SN_OP_COPY](&a, j->threads) != 0)
        return sn_fail(err, SN_EFAIL, "%s: copying the weights to %s failed", b->name,
                       sn_dtype_name(j->dtype));
    return SN_OK;
}

static enum sn_status gather(struct sn_exec *x, const struct sn_job *j, struct sn_comm *comm,
                             const struct sn_bucket *b, struct sn_err *err)
{
    char *all = sn_exec_address(x, &j->train, b->weight);
    int64_t own = j->group_index[SN_GROUP_REPLICA] * b->slice * (int64_t)sn_dtype_size(j->dtype);
    struct sn_transfer t = {.kind = SN_ALL_GATHER,
                            .group = SN_GROUP_REPLICA,
                            .dtype = j->dtype,
                            .n = b->slice,
                            .in = all + own,
                            .out = all,
                            .staging = sn_exec_address(x, &j->train, j->staging),
                            .label = b->name};
    return comm->ops->wait(comm, comm->ops->post(comm, &t), err);
}

enum sn_status sn_weights_publish(struct sn_exec *x, const struct sn_job *j, struct sn_comm *comm,
                                  struct sn_err *err)
{
    int64_t dropped[SN_NAXES] = {0}; /* not a step's traffic */
    for (int i = 0; i < j->n_buckets; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        if (b->master != b->weight)
            SN_TRY(cast(x, j, b, err));
        if (j->zero == 1 || j->zero == 2)
            SN_TRY(gather(x, j, comm, b, err));
    }
    comm->ops->take_sent_bytes(comm, dropped);
    return SN_OK;
}
