/*
 * rules_latents.c - how queries, keys and values of latents are joined (MLA_JOIN), and the gradients of that.
 *
 * A head's key is a function of its own part and of what all heads share; it has the coordinates of that
 * head's query. Values have those of what attention gives. Rows of the matrix that gives both have one space in
 * all layers, as a gradient does not read of which layer it is.
 */
#include "lib/meaning/inner.h"

/* What q, k | v of each head and what its key shares with others, or the gradient of their join, hold of
 * some rows. */
struct joint {
    const struct sn_visit *s;
    struct sn_row_run rows;
    int64_t heads, d, n, e; /* of this rank; features of q and k, of those without what is shared, of v */
    int64_t cols;           /* of q | k | v */
};

static struct joint joint_of(const struct sn_visit *s, const struct sn_view *all, int64_t shared)
{
    const struct sn_attention_attr *a = &s->op->attr.attention;
    return (struct joint){.s = s,
                          .heads = a->heads,
                          .d = a->head_dim,
                          .n = a->head_dim - shared,
                          .e = sn_v_dim(a),
                          .cols = all->cols};
}

/* Rows of `run` that lie in the same slabs of m as its first one does; false: none has that. */
static bool narrow(const struct sn_matrix *m, struct sn_row_run *run)
{
    bool found = false;
    for (int i = 0; i < m->slabs.n; i++) {
        const struct sn_slab *t = &m->slabs.t[i];
        int64_t first = sn_corner(t, m->cols).row, end = first + t->rows;
        if (run->row < first || run->row >= end)
            continue;
        run->n = run->n < end - run->row ? run->n : end - run->row;
        found = true;
    }
    return found;
}

/* The head of k | v goes with that of the queries, and all three are of the same tokens. */
static enum sn_status check_joint(const struct joint *j, const struct sn_slab *q,
                                  const struct sn_slab *kv, const struct sn_slab *r)
{
    const struct sn_visit *s = j->s;
    int64_t of_q = q->first[SN_SLAB_COLS] / j->d, of_kv = kv->first[SN_SLAB_COLS] / (j->n + j->e);
    if (of_q != of_kv)
        return sn_visit_fault(s, "joins query head %lld and key head %lld", (long long)of_q,
                              (long long)of_kv);
    if (!sn_same_space(s->m, kv->space[SN_SLAB_COLS], SN_SPACE_KEYS_VALUES) ||
        !sn_same_space(s->m, r->space[SN_SLAB_COLS], SN_SPACE_SHARED_KEY) ||
        r->first[SN_SLAB_COLS] != 0 || q->first[SN_SLAB_ROWS] != kv->first[SN_SLAB_ROWS] ||
        q->first[SN_SLAB_ROWS] != r->first[SN_SLAB_ROWS] ||
        q->space[SN_SLAB_ROWS] != kv->space[SN_SLAB_ROWS] ||
        q->space[SN_SLAB_ROWS] != r->space[SN_SLAB_ROWS])
        return sn_visit_fault(s, "joins queries, keys and values of different tokens or features");
    return SN_OK;
}

static enum sn_status join_head(const struct joint *j, const struct sn_matrix in[3], int64_t h,
                                struct sn_slabs *out)
{
    const struct sn_visit *s = j->s;
    struct sn_slab q, kv, r;
    SN_TRY(sn_matrix_look(s, &in[0], &j->rows, h * j->d, j->d, &q));
    SN_TRY(sn_matrix_look(s, &in[1], &j->rows, h * (j->n + j->e), j->n + j->e, &kv));
    SN_TRY(sn_matrix_look(s, &in[2], &j->rows, 0, j->d - j->n, &r));
    SN_TRY(check_joint(j, &q, &kv, &r));
    uint64_t values[] = {kv.value, r.value};
    struct sn_slab t = sn_result_at(&q, &j->rows, h * j->d, j->d, j->cols);
    SN_TRY(sn_collect(s, out, &t));
    t = sn_result_at(&q, &j->rows, (j->heads + h) * j->d, j->d, j->cols);
    t.value = sn_function(sn_name(SN_OP_MLA_JOIN, 0), values, 2);
    SN_TRY(sn_collect(s, out, &t));
    t = sn_result_at(&kv, &j->rows, 2 * j->heads * j->d + h * j->e, j->e, j->cols);
    t.space[SN_SLAB_COLS] = SN_SPACE_VALUES;
    t.first[SN_SLAB_COLS] = kv.first[SN_SLAB_COLS] / (j->n + j->e) * j->e;
    return sn_collect(s, out, &t);
}

enum sn_status sn_rule_mla_join(const struct sn_visit *s)
{
    const struct sn_view *in = s->op->in;
    struct joint j = joint_of(s, &s->op->out[SN_MLA_JOIN_Y], in[SN_MLA_JOIN_R].cols);
    struct sn_matrix of[3] = {{.cols = 0}};
    struct sn_slabs out = {0};
    enum sn_status st = SN_OK;
    for (int i = 0; i < 3 && st == SN_OK; i++)
        st = sn_matrix_load(s, i, &of[i]);
    for (int64_t row = 0; row < in[0].rows && st == SN_OK; row += j.rows.n) {
        j.rows = (struct sn_row_run){.row = row, .n = in[0].rows - row};
        if (!narrow(&of[0], &j.rows) || !narrow(&of[1], &j.rows) || !narrow(&of[2], &j.rows))
            st = sn_visit_fault(s, "reads rows that nothing has written");
        for (int64_t h = 0; h < j.heads && st == SN_OK; h++)
            st = join_head(&j, of, h, &out);
    }
    if (st == SN_OK)
        st = sn_write(s, SN_MLA_JOIN_Y, &out);
    for (int i = 0; i < 3; i++)
        sn_slabs_fini(&of[i].slabs);
    sn_slabs_fini(&out);
    return st;
}

/* A gradient is linear in what comes back. That of k | v is one value, as the two are of one matrix; that of
 * what heads share is a sum over them. */
static enum sn_status part_head(const struct joint *j, const struct sn_matrix *dy, int64_t h,
                                struct sn_slabs out[3])
{
    const struct sn_visit *s = j->s;
    struct sn_slab q, k, v;
    uint64_t of_k = sn_field_of(sn_name(SN_OP_MLA_JOIN_DX, 1)),
             of_v = sn_field_of(sn_name(SN_OP_MLA_JOIN_DX, 2)),
             of_r = sn_field_of(sn_name(SN_OP_MLA_JOIN_DX, 3));
    SN_TRY(sn_matrix_look(s, dy, &j->rows, h * j->d, j->d, &q));
    SN_TRY(sn_matrix_look(s, dy, &j->rows, (j->heads + h) * j->d, j->d, &k));
    SN_TRY(sn_matrix_look(s, dy, &j->rows, 2 * j->heads * j->d + h * j->e, j->e, &v));
    int64_t head = k.first[SN_SLAB_COLS] / j->d, both = j->n + j->e, r = j->d - j->n;
    if (v.first[SN_SLAB_COLS] / j->e != head || q.first[SN_SLAB_COLS] / j->d != head)
        return sn_visit_fault(s, "parts gradients of different heads");
    struct sn_slab t = sn_result_at(&q, &j->rows, h * j->d, j->d, j->heads * j->d);
    SN_TRY(sn_collect(s, &out[SN_MLA_JOIN_DX_DQ], &t));
    t = sn_result_at(&k, &j->rows, h * both, both, j->heads * both);
    t.space[SN_SLAB_COLS] = SN_SPACE_KEYS_VALUES;
    t.first[SN_SLAB_COLS] = head * both;
    t.value = sn_field_add(sn_field_mul(k.value, of_k), sn_field_mul(v.value, of_v));
    SN_TRY(sn_collect(s, &out[SN_MLA_JOIN_DX_DKV], &t));
    t = sn_result_at(&k, &j->rows, 0, r, r);
    t.space[SN_SLAB_COLS] = SN_SPACE_SHARED_KEY;
    t.first[SN_SLAB_COLS] = 0;
    t.value = sn_field_mul(sn_field_mul(k.value, of_r), sn_interval(s->m, SN_SPACE_HEADS, head, 1));
    return sn_collect(s, &out[SN_MLA_JOIN_DX_DR], &t);
}

enum sn_status sn_rule_mla_join_dx(const struct sn_visit *s)
{
    struct joint j = joint_of(s, &s->op->in[SN_MLA_JOIN_DX_DY], s->op->out[SN_MLA_JOIN_DX_DR].cols);
    struct sn_matrix dy = {.cols = 0};
    struct sn_slabs out[3] = {{0}};
    int64_t rows = s->op->in[SN_MLA_JOIN_DX_DY].rows;
    enum sn_status st = sn_matrix_load(s, SN_MLA_JOIN_DX_DY, &dy);
    for (int64_t row = 0; row < rows && st == SN_OK; row += j.rows.n) {
        j.rows = (struct sn_row_run){.row = row, .n = rows - row};
        if (!narrow(&dy, &j.rows))
            st = sn_visit_fault(s, "reads rows that nothing has written");
        for (int64_t h = 0; h < j.heads && st == SN_OK; h++)
            st = part_head(&j, &dy, h, out);
    }
    for (int i = 0; i < 3 && st == SN_OK; i++)
        st = sn_write(s, i, &out[i]);
    sn_slabs_fini(&dy.slabs);
    for (int i = 0; i < 3; i++)
        sn_slabs_fini(&out[i]);
    return st;
}
