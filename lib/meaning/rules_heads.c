/*
 * rules_heads.c - norms of heads, each by itself, and their gradients.
 *
 * Every head has the same function of its own features and of weights that all share. So it is a function of
 * a place's value, where whole heads are here; gradients are linear in what comes back, of which ranks that
 * share heads of keys have parts; and a weight's is a sum over rows, and over heads by their columns.
 */
#include "lib/meaning/inner.h"

/* The heads of q (0), those of k (1), and what is behind them (2): their columns. */
struct part {
    int64_t first, cols;
};

static struct part part_of(const struct sn_visit *s, const struct sn_view *v, int which)
{
    const struct sn_attention_attr *a = &s->op->attr.attention;
    int64_t q = (int64_t)a->heads * a->head_dim, k = (int64_t)a->kv_heads * a->head_dim;
    return which == 0   ? (struct part){0, q}
           : which == 1 ? (struct part){q, k}
                        : (struct part){q + k, v->cols - q - k};
}

/* A part of an operand, of whole heads. */
static enum sn_status read_part(const struct sn_visit *s, const struct sn_view *v, int which,
                                struct sn_slabs *out)
{
    struct part p = part_of(s, v, which);
    struct sn_view of = *v;
    int64_t d = s->op->attr.attention.head_dim;
    of.offset += p.first;
    of.cols = p.cols;
    SN_TRY(sn_read_view(s, &of, out));
    SN_TRY(sn_are_rectangles(s, out, of.cols));
    for (int i = 0; i < out->n; i++)
        if (which < 2 && (out->t[i].cols % d != 0 || sn_corner(&out->t[i], of.cols).col % d != 0 ||
                          out->t[i].first[SN_SLAB_COLS] % d != 0))
            return sn_visit_fault(s, "takes parts of heads of %lld columns", (long long)d);
    return SN_OK;
}

/* The one value of the weights of a part. */
static enum sn_status weight_of(const struct sn_visit *s, int in, int which, struct sn_slab *out)
{
    int64_t d = s->op->attr.attention.head_dim;
    struct sn_view v = s->op->in[in];
    struct sn_slabs w = {0};
    v.offset += which * d;
    v.cols = d;
    enum sn_status st = sn_read_view(s, &v, &w);
    for (int i = 0; i < w.n && st == SN_OK; i++)
        if (w.t[i].value != w.t[0].value || w.t[i].first[SN_SLAB_COLS] != w.t[i].at)
            st = sn_visit_fault(s, "takes weights of which %s is in another's place",
                                sn_place_text(s->m, &w.t[i], SN_SLAB_COLS).s);
    if (st == SN_OK && w.n == 0)
        st = sn_visit_fault(s, "takes no weights");
    if (st == SN_OK)
        *out = w.t[0];
    sn_slabs_fini(&w);
    return st;
}

static enum sn_status zip_part(const struct sn_visit *s, int in, int which, struct sn_zip *z,
                               bool first)
{
    struct sn_slabs x = {0};
    enum sn_status st = read_part(s, &s->op->in[in], which, &x);
    if (st == SN_OK && first)
        sn_zip_begin(z, &x);
    else if (st == SN_OK)
        st = sn_zip_with(s, z, &x, SN_DIM_BOTH);
    sn_slabs_fini(&x);
    return st == SN_OK && z->failed ? sn_visit_no_memory(s) : st;
}

/* One value more at all places. */
static void add_value(struct sn_zip *z, uint64_t value)
{
    for (int i = 0; i < z->n; i++)
        z->value[i][z->operands] = value;
    z->operands++;
}

static enum sn_status write_part(const struct sn_visit *s, int out, int which,
                                 const struct sn_slabs *y)
{
    struct sn_view v = s->op->out[out];
    struct part p = part_of(s, &v, which);
    v.offset += p.first;
    v.cols = p.cols;
    return sn_write_view(s, &v, SN_ACC_WRITE, y);
}

/* z's first value times a function of the others: linear in it, as a gradient is in what comes back. */
static void map_linear(const struct sn_zip *z, uint64_t name, struct sn_slabs *out)
{
    for (int i = 0; i < z->n; i++) {
        struct sn_slab t = z->t[i];
        t.value = sn_field_mul(z->value[i][0], sn_function(name, z->value[i] + 1, z->operands - 1));
        sn_slabs_push(out, &t);
    }
}

/* What is behind the heads, as it is. */
static enum sn_status copy_rest(const struct sn_visit *s, int in, int out)
{
    struct sn_slabs x = {0};
    if (part_of(s, &s->op->in[in], 2).cols == 0)
        return SN_OK;
    enum sn_status st = read_part(s, &s->op->in[in], 2, &x);
    if (st == SN_OK)
        st = write_part(s, out, 2, &x);
    sn_slabs_fini(&x);
    return st;
}

/* --- forward ---------------------------------------------------------------------------------- */

/* Of the heads of a part: a function of the values there, as statistics lie. */
static enum sn_status write_stats(const struct sn_visit *s, int which, const struct sn_zip *z)
{
    const struct sn_attention_attr *a = &s->op->attr.attention;
    struct sn_view v = s->op->out[SN_NORM_STATS];
    int64_t heads = which ? a->kv_heads : a->heads, cols = heads * a->head_dim;
    struct sn_slabs stats = {0};
    sn_map(z, sn_name_float(sn_name(SN_OP_HEAD_NORM, 2), s->op->attr.eps), &stats);
    for (int i = 0; i < stats.n; i++) {
        struct sn_slab *t = &stats.t[i];
        struct sn_corner at = sn_corner(t, cols);
        t->at = at.row * heads + at.col / a->head_dim;
        t->cols /= a->head_dim;
        t->ld = t->rows > 1 ? heads : t->cols;
        t->space[SN_SLAB_COLS] = SN_SPACE_HEADS;
        t->first[SN_SLAB_COLS] /= a->head_dim;
    }
    v.offset += which * a->heads;
    v.cols = heads;
    enum sn_status st =
        stats.failed ? sn_visit_no_memory(s) : sn_write_view(s, &v, SN_ACC_WRITE, &stats);
    sn_slabs_fini(&stats);
    return st;
}

static enum sn_status forward_part(const struct sn_visit *s, int which)
{
    struct sn_zip z = {0};
    struct sn_slabs y = {0};
    struct sn_slab w;
    enum sn_status st = zip_part(s, SN_NORM_X, which, &z, true);
    if (st == SN_OK)
        st = weight_of(s, SN_NORM_W, which, &w);
    if (st == SN_OK)
        st = write_stats(s, which, &z);
    if (st == SN_OK) {
        add_value(&z, w.value);
        uint64_t name = sn_name_float(sn_name(SN_OP_HEAD_NORM, 0), s->op->attr.eps);
        sn_map(&z, sn_name_float(name, s->op->attr.shift), &y);
        st = write_part(s, SN_NORM_Y, which, &y);
    }
    sn_zip_fini(&z);
    sn_slabs_fini(&y);
    return st;
}

enum sn_status sn_rule_head_norm(const struct sn_visit *s)
{
    for (int which = 0; which < 2; which++)
        SN_TRY(forward_part(s, which));
    return copy_rest(s, SN_NORM_X, SN_NORM_Y);
}

/* --- gradients -------------------------------------------------------------------------------- */

/* The statistics of a part's heads are those of their values: as many for each head. */
static enum sn_status zip_stats(const struct sn_visit *s, int in, int which, struct sn_zip *z)
{
    const struct sn_attention_attr *a = &s->op->attr.attention;
    struct sn_view v = s->op->in[in];
    int64_t heads = which ? a->kv_heads : a->heads;
    struct sn_slabs stats = {0};
    v.offset += which * a->heads;
    v.cols = heads;
    enum sn_status st = sn_read_view(s, &v, &stats);
    if (st == SN_OK)
        st = sn_are_rectangles(s, &stats, heads);
    for (int i = 0; i < stats.n; i++) {
        struct sn_slab *t = &stats.t[i];
        struct sn_corner at = sn_corner(t, heads);
        t->at = (at.row * heads + at.col) * a->head_dim;
        t->cols *= a->head_dim;
        t->ld = heads * a->head_dim;
        t->ld = t->rows > 1 ? t->ld : t->cols;
    }
    if (st == SN_OK)
        st = sn_zip_with(s, z, &stats, SN_DIM_ROWS);
    sn_slabs_fini(&stats);
    return st;
}

/* Weights' gradients of a part, of which z has dy, x and statistics: over rows and heads. Linear in dy. */
static enum sn_status sum_part(const struct sn_visit *s, int which, int out, const struct sn_zip *z)
{
    int64_t d = s->op->attr.attention.head_dim;
    struct sn_slabs terms = {0}, sums = {0};
    struct sn_view v = s->op->out[out];
    if (!sn_has_out(s, out))
        return SN_OK;
    map_linear(z, sn_name(SN_OP_HEAD_NORM_DW, (uint64_t)which), &terms);
    enum sn_status st = terms.failed ? sn_visit_no_memory(s) : SN_OK;
    for (int i = 0; i < terms.n && st == SN_OK; i++) {
        struct sn_slab t = terms.t[i];
        t.value = sn_field_mul(t.value, sn_extent(s->m, &terms.t[i], SN_SLAB_ROWS));
        t.value = sn_field_mul(t.value, sn_extent(s->m, &terms.t[i], SN_SLAB_COLS));
        t.at = 0;
        t.rows = 1;
        t.cols = t.ld = d;
        t.space[SN_SLAB_ROWS] = SN_SPACE_ONE;
        t.space[SN_SLAB_COLS] = SN_SPACE_ANY;
        t.first[SN_SLAB_ROWS] = t.first[SN_SLAB_COLS] = 0;
        st = sn_collect(s, &sums, &t);
    }
    v.offset += which * d;
    v.cols = d;
    if (st == SN_OK)
        st = sn_write_view(s, &v, s->op->acc[out], &sums);
    sn_slabs_fini(&terms);
    sn_slabs_fini(&sums);
    return st;
}

static enum sn_status zip_gradient(const struct sn_visit *s, int which, int stats, struct sn_zip *z)
{
    SN_TRY(zip_part(s, SN_NORM_DX_DY, which, z, true));
    SN_TRY(zip_part(s, SN_NORM_DX_X, which, z, false));
    return zip_stats(s, stats, which, z);
}

static enum sn_status gradient_part(const struct sn_visit *s, int which)
{
    struct sn_zip z = {0};
    struct sn_slabs dx = {0};
    struct sn_slab w;
    enum sn_status st = zip_gradient(s, which, SN_NORM_DX_STATS, &z);
    if (st == SN_OK)
        st = sum_part(s, which, SN_NORM_DX_DW, &z);
    if (st == SN_OK)
        st = weight_of(s, SN_NORM_DX_W, which, &w);
    if (st == SN_OK) {
        add_value(&z, w.value);
        map_linear(&z, sn_name_float(sn_name(SN_OP_HEAD_NORM_DX, 0), s->op->attr.shift), &dx);
        st = write_part(s, SN_NORM_DX_DX, which, &dx);
    }
    sn_zip_fini(&z);
    sn_slabs_fini(&dx);
    return st;
}

enum sn_status sn_rule_head_norm_dx(const struct sn_visit *s)
{
    for (int which = 0; which < 2; which++)
        SN_TRY(gradient_part(s, which));
    return copy_rest(s, SN_NORM_DX_DY, SN_NORM_DX_DX);
}

enum sn_status sn_rule_head_norm_dw(const struct sn_visit *s)
{
    enum sn_status st = SN_OK;
    for (int which = 0; which < 2 && st == SN_OK; which++) {
        struct sn_zip z = {0};
        st = zip_gradient(s, which, SN_NORM_DW_STATS, &z);
        if (st == SN_OK)
            st = sum_part(s, which, SN_NORM_DW_DW, &z);
        sn_zip_fini(&z);
    }
    return st;
}
