/*
 * operands.c - what operands hold, and what is written to them.
 */
#include "lib/meaning/inner.h"

#include "lib/base/mem.h"

#include <string.h>

struct sn_slabs *sn_held(const struct sn_visit *s, int buf)
{
    const struct sn_buffer *b = &s->r->program->bufs[buf];
    int copy = b->cls == SN_CLASS_SLOT ? s->slot : b->cls == SN_CLASS_LATE ? s->late : 0;
    return &s->r->held[s->r->first_held[buf] + copy];
}

struct sn_area sn_view_area(const struct sn_visit *s, const struct sn_view *v)
{
    if (v->buf < 0 || v->rows == 0 || v->cols == 0)
        return (struct sn_area){0};
    if (s->r->routing.units && s->r->routing.units[v->buf] > 0)
        return sn_routed_area(s->r, v);
    if (s->r->share_of[v->buf] > 0)
        return sn_streams_area(s->r, v);
    struct sn_area a = {v->offset, v->rows, v->cols, v->rows > 1 ? v->ld : v->cols};
    const struct sn_job *j = s->r->job;
    if (v->index == SN_AT_MICRO)
        a.at += s->micro * v->stride;
    else if (v->index == SN_AT_SLICE)
        a.at +=
            j->group_index[j->buckets[s->r->program->bufs[v->buf].bucket].sliced_over] * v->stride;
    return a;
}

bool sn_has_in(const struct sn_visit *s, int in)
{
    bool elsewhere = s->op->in_first >> in & 1u && !sn_job_is_first(s->r->job, s->op->first_of);
    return s->op->in[in].buf >= 0 && !elsewhere;
}

bool sn_has_out(const struct sn_visit *s, int out)
{
    return s->op->out[out].buf >= 0;
}

/* A part of what lies in a view, by where it is in the view. */
static struct sn_slab inside(const struct sn_slab *t, const struct sn_area *a)
{
    struct sn_slab p = *t;
    p.at -= a->at;
    if (!sn_area_is_dense(a)) {
        p.at = p.at / a->ld * a->cols + p.at % a->ld;
        p.ld = p.rows > 1 ? a->cols : p.cols;
    }
    return p;
}

enum sn_status sn_read_written(const struct sn_visit *s, const struct sn_view *v,
                               struct sn_slabs *out, int64_t *n)
{
    struct sn_area a = sn_view_area(s, v);
    const struct sn_slabs *held = sn_held(s, v->buf);
    *n = 0;
    out->n = 0;
    for (int i = 0; i < held->n; i++)
        *n += sn_slab_cut(out, &held->t[i], &a);
    for (int i = 0; i < out->n; i++)
        out->t[i] = inside(&out->t[i], &a);
    return out->failed ? sn_visit_no_memory(s) : SN_OK;
}

enum sn_status sn_read_view(const struct sn_visit *s, const struct sn_view *v, struct sn_slabs *out)
{
    int64_t n;
    struct sn_area a = sn_view_area(s, v);
    SN_TRY(sn_read_written(s, v, out, &n));
    bool is_routed = s->r->routing.units && s->r->routing.units[v->buf] > 0; /* a chunk, a share */
    if (n == a.rows * a.cols || (is_routed && n > 0))
        return SN_OK;
    return sn_visit_fault(s, "reads '%s', of which %lld of %lld elements have been written",
                          s->r->program->bufs[v->buf].name, (long long)n,
                          (long long)(a.rows * a.cols));
}

enum sn_status sn_read(const struct sn_visit *s, int in, struct sn_slabs *out)
{
    return sn_read_view(s, &s->op->in[in], out);
}

/* The other way round. */
static enum sn_status outside(const struct sn_visit *s, struct sn_slab *t, const struct sn_area *a)
{
    if (sn_area_is_dense(a)) {
        t->at += a->at;
        return SN_OK;
    }
    struct sn_corner c = sn_corner(t, a->cols);
    if ((t->rows > 1 && t->ld != a->cols) || c.col + t->cols > a->cols)
        return sn_visit_fault(s, "gives rows of another length than its result has");
    t->at = a->at + c.row * a->ld + c.col;
    t->ld = t->rows > 1 ? a->ld : t->cols;
    return SN_OK;
}

/* As sn_slabs_add(). While spaces are bound, those of summands become one. */
static enum sn_slabs_sum add_up(struct sn_meaning *m, struct sn_slabs *l, const struct sn_slab *t,
                                bool fill, struct sn_slab *there)
{
    enum sn_slabs_sum sum;
    do
        sum = sn_slabs_add(l, &m->spaces, t, fill, there);
    while (sum == SN_SUM_OTHER && m->binds &&
           (sn_space(&m->spaces, t->space[0]) != sn_space(&m->spaces, there->space[0]) ||
            sn_space(&m->spaces, t->space[1]) != sn_space(&m->spaces, there->space[1])) &&
           sn_same_space(m, t->space[0], there->space[0]) &&
           sn_same_space(m, t->space[1], there->space[1]));
    return sum;
}

static enum sn_status add(const struct sn_visit *s, const struct sn_view *v,
                          const struct sn_slab *t)
{
    struct sn_slab there;
    struct sn_meaning *m = s->m;
    const char *name = s->r->program->bufs[v->buf].name;
    switch (add_up(m, sn_held(s, v->buf), t, false, &there)) {
    case SN_SUM_GOOD:
        return SN_OK;
    case SN_SUM_NOTHING_THERE:
        return sn_visit_fault(s, "adds to '%s', which nothing has written", name);
    case SN_SUM_OTHER:
        break;
    }
    return sn_visit_fault(s, "adds %s and %s to %s and %s in '%s'",
                          sn_place_text(m, t, SN_SLAB_ROWS).s, sn_place_text(m, t, SN_SLAB_COLS).s,
                          sn_place_text(m, &there, SN_SLAB_ROWS).s,
                          sn_place_text(m, &there, SN_SLAB_COLS).s, name);
}

enum sn_status sn_write_view(const struct sn_visit *s, const struct sn_view *v,
                             enum sn_acc_rule acc, const struct sn_slabs *slabs)
{
    struct sn_area a = sn_view_area(s, v);
    bool adds = acc == SN_ACC_ADD || (acc == SN_ACC_FIRST_WRITES && s->micro > 0);
    struct sn_slabs *held = sn_held(s, v->buf);
    if (!adds)
        sn_slabs_clear(held, &a);
    for (int i = 0; i < slabs->n; i++) {
        struct sn_slab t = slabs->t[i];
        if (t.at < 0 || t.at + (t.rows - 1) * t.ld + t.cols > a.rows * a.cols)
            return sn_visit_fault(s, "writes beyond the end of its view of '%s'",
                                  s->r->program->bufs[v->buf].name);
        SN_TRY(outside(s, &t, &a));
        if (adds)
            SN_TRY(add(s, v, &t));
        else
            sn_slabs_put(held, &s->m->spaces, &t);
    }
    return slabs->failed || held->failed ? sn_visit_no_memory(s) : SN_OK;
}

enum sn_status sn_write(const struct sn_visit *s, int out, const struct sn_slabs *slabs)
{
    return sn_write_view(s, &s->op->out[out], s->op->acc[out], slabs);
}

enum sn_status sn_collect(const struct sn_visit *s, struct sn_slabs *result,
                          const struct sn_slab *t)
{
    struct sn_slab there;
    enum sn_slabs_sum sum = add_up(s->m, result, t, true, &there);
    if (result->failed)
        return sn_visit_no_memory(s);
    if (sum == SN_SUM_GOOD)
        return SN_OK;
    return sn_visit_fault(s, "adds %s and %s to %s and %s", sn_place_text(s->m, t, SN_SLAB_ROWS).s,
                          sn_place_text(s->m, t, SN_SLAB_COLS).s,
                          sn_place_text(s->m, &there, SN_SLAB_ROWS).s,
                          sn_place_text(s->m, &there, SN_SLAB_COLS).s);
}

enum sn_status sn_are_rectangles(const struct sn_visit *s, const struct sn_slabs *slabs,
                                 int64_t cols)
{
    for (int i = 0; i < slabs->n; i++) {
        const struct sn_slab *t = &slabs->t[i];
        if ((t->rows > 1 && t->ld != cols) || t->at % cols + t->cols > cols)
            return sn_visit_fault(s, "reads %s and %s as rows of %lld elements",
                                  sn_place_text(s->m, t, SN_SLAB_ROWS).s,
                                  sn_place_text(s->m, t, SN_SLAB_COLS).s, (long long)cols);
    }
    return SN_OK;
}

/* --- operands of one shape -------------------------------------------------------------------- */

void sn_zip_fini(struct sn_zip *z)
{
    sn_free(z->t);
    sn_free(z->value);
    *z = (struct sn_zip){0};
}

static void zip_push(struct sn_zip *z, const struct sn_slab *t, const uint64_t *values, int n)
{
    if (!sn_grow((void **)&z->t, z->n, &z->cap, sizeof(*z->t)) ||
        !sn_grow((void **)&z->value, z->n, &z->cap_values, sizeof(*z->value))) {
        z->failed = true;
        return;
    }
    z->t[z->n] = *t;
    memcpy(z->value[z->n++], values, (size_t)n * sizeof(*values));
}

void sn_zip_begin(struct sn_zip *z, const struct sn_slabs *slabs)
{
    z->n = 0;
    z->operands = 1;
    for (int i = 0; i < slabs->n; i++)
        zip_push(z, &slabs->t[i], &slabs->t[i].value, 1);
}

/* Does the first operand's part have the coordinates of this one's? */
static bool agree(const struct sn_visit *s, const struct sn_slab *a, const struct sn_slab *b,
                  unsigned dims)
{
    for (int d = 0; d < SN_SLAB_DIMS; d++)
        if (dims >> d & 1u && b->space[d] != SN_SPACE_ANY && a->space[d] != SN_SPACE_ANY &&
            (!sn_same_space(s->m, a->space[d], b->space[d]) || a->first[d] != b->first[d]))
            return false;
    return true;
}

static enum sn_status mismatch(const struct sn_visit *s, const struct sn_slab *a,
                               const struct sn_slab *b)
{
    return sn_visit_fault(
        s, "takes %s, %s together with %s, %s", sn_place_text(s->m, a, SN_SLAB_ROWS).s,
        sn_place_text(s->m, a, SN_SLAB_COLS).s, sn_place_text(s->m, b, SN_SLAB_ROWS).s,
        sn_place_text(s->m, b, SN_SLAB_COLS).s);
}

enum sn_status sn_zip_with(const struct sn_visit *s, struct sn_zip *z, const struct sn_slabs *slabs,
                           unsigned dims)
{
    struct sn_zip old = *z;
    struct sn_slabs cut = {0}, back = {0};
    enum sn_status st = SN_OK;
    *z = (struct sn_zip){.operands = old.operands + 1};
    for (int i = 0; i < old.n && st == SN_OK; i++)
        for (int k = 0; k < slabs->n && st == SN_OK; k++) {
            struct sn_area a = sn_slab_area(&slabs->t[k]);
            cut.n = 0;
            (void)sn_slab_cut(&cut, &old.t[i], &a);
            for (int c = 0; c < cut.n && st == SN_OK; c++) {
                struct sn_area here = sn_slab_area(&cut.t[c]);
                back.n = 0;
                (void)sn_slab_cut(&back, &slabs->t[k], &here);
                uint64_t values[SN_ZIP_MOST];
                memcpy(values, old.value[i], sizeof(values));
                values[old.operands] = slabs->t[k].value;
                zip_push(z, &cut.t[c], values, z->operands);
                if (back.n > 0 && !agree(s, &cut.t[c], &back.t[0], dims))
                    st = mismatch(s, &cut.t[c], &back.t[0]);
            }
        }
    bool failed = z->failed || cut.failed || back.failed;
    sn_zip_fini(&old);
    sn_slabs_fini(&cut);
    sn_slabs_fini(&back);
    return st == SN_OK && failed ? sn_visit_no_memory(s) : st;
}

void sn_map(const struct sn_zip *z, uint64_t name, struct sn_slabs *out)
{
    out->n = 0;
    for (int i = 0; i < z->n; i++) {
        struct sn_slab t = z->t[i];
        t.value = sn_function(name, z->value[i], z->operands);
        sn_slabs_push(out, &t);
    }
}

/* --- what operands are of --------------------------------------------------------------------- */

/* Rows from `row` on, up to a place where their positions, or their tokens, jump. */
static int64_t until_jump(const struct sn_position_attr *a, int64_t row, int64_t token)
{
    int64_t dealt = sn_rows_per_sample(a);
    dealt = a->context > 1 && a->zigzag ? dealt / 2 : dealt;
    int64_t rows = dealt - row % dealt, tokens = a->seq - token % a->seq;
    return rows < tokens ? rows : tokens;
}

/* What draws takes its numbers by sample and position: a micro-batch's rows are of its own samples. */
int64_t sn_first_sample(const struct sn_visit *s)
{
    const struct sn_job *j = s->r->job;
    const struct sn_layout_config *l = &j->config->layout;
    return ((int64_t)s->micro * l->data + j->group_index[SN_GROUP_DATA]) * l->micro_batch;
}

enum sn_status sn_check_positions(const struct sn_visit *s, const struct sn_slabs *slabs,
                                  int64_t cols, int rank)
{
    const struct sn_position_attr *a = &s->op->attr.position;
    for (int i = 0; i < slabs->n && a->seq > 0; i++) {
        const struct sn_slab *t = &slabs->t[i];
        int64_t first = sn_corner(t, cols).row;
        for (int64_t k = 0; k < t->rows && t->value != 0;) {
            int64_t row = a->row0 + first + k, token = t->first[SN_SLAB_ROWS] + k;
            int64_t position = sn_position(a, rank, row % sn_rows_per_sample(a));
            if (position != token % a->seq)
                return sn_visit_fault(s, "takes row %lld, which is token %lld, for position %lld",
                                      (long long)(first + k), (long long)token,
                                      (long long)position);
            int64_t sample = sn_first_sample(s) + row / sn_rows_per_sample(a);
            if (sample != token / a->seq)
                return sn_visit_fault(s, "takes row %lld, which is token %lld, for one of sample %lld",
                                      (long long)(first + k), (long long)token, (long long)sample);
            k += until_jump(a, row, token);
        }
    }
    return SN_OK;
}

/* Rows of a shard that belong to one logical tensor, then padding up to the next. */
static void shard_rows(const struct sn_meaning *m, const struct sn_shard *q, int k,
                       const uint64_t *value, struct sn_slabs *out)
{
    const struct sn_shard_tensor *x = &q->tensor[k];
    const struct sn_param *param = &m->model->params[q->param];
    int64_t end = k + 1 < q->n_tensors ? q->tensor[k + 1].at : q->rows;
    int space = m->first_space[q->param] + 2 * x->tensor;
    bool is_vector = param->cols == 1;
    struct sn_slab t = {.at = q->offset + x->at * q->cols,
                        .rows = x->n,
                        .cols = x->n_cols,
                        .ld = q->cols,
                        .value = value ? value[space - SN_NSPACES] : 1,
                        .space = {space, space + 1},
                        .first = {x->from, x->col}};
    if (is_vector)
        t = (struct sn_slab){.at = t.at,
                             .rows = 1,
                             .cols = x->n,
                             .ld = x->n,
                             .value = t.value,
                             .space = {SN_SPACE_ONE, space},
                             .first = {0, x->from}};
    if (t.rows > 0 && t.cols > 0)
        sn_slabs_push(out, &t);
    t.value = 0;
    struct sn_slab pad = t;
    if (is_vector) {
        pad.at += x->n;
        pad.cols = pad.ld = end - x->at - x->n;
        pad.first[SN_SLAB_COLS] += x->n;
    } else {
        pad.cols = q->cols;
        pad.at += x->n * q->cols;
        pad.rows = end - x->at - x->n;
        pad.first[SN_SLAB_ROWS] += x->n;
    }
    if (pad.rows > 0 && pad.cols > 0)
        sn_slabs_push(out, &pad);
    t.at += x->n_cols;
    t.cols = q->cols - x->n_cols;
    t.first[SN_SLAB_COLS] += x->n_cols;
    if (!is_vector && t.rows > 0 && t.cols > 0)
        sn_slabs_push(out, &t);
}

enum sn_status sn_weight_slabs(const struct sn_meaning *m, const struct sn_job *job, int bucket,
                               const uint64_t *value, struct sn_slabs *out)
{
    const struct sn_bucket *b = &job->buckets[bucket];
    out->n = 0;
    for (int k = 0; k < b->n_shards; k++) {
        const struct sn_shard *q = &job->shards[sn_bucket_shard(job, bucket, k)];
        for (int x = 0; x < q->n_tensors; x++)
            shard_rows(m, q, x, value, out);
    }
    return out->failed ? sn_fail(m->err, SN_ENOMEM, "meaning: no memory for a bucket") : SN_OK;
}
