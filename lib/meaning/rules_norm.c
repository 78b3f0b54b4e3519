/*
 * rules_norm.c - norms of rows, which need all of a row's features, and their gradients.
 *
 * What a norm needs of a row is a mean over its features of a function of each: not a linear one,
 * so that parts of summands are no parts of their sum. A slice of the features gives the mean over
 * itself, and the mean of those of all slices, which are as long, is that of the row.
 */
#include "lib/meaning/inner.h"

_Static_assert((int)SN_NORM_DX_DY == (int)SN_NORM_DW_DY && (int)SN_NORM_DX_X == (int)SN_NORM_DW_X,
               "gradients of norms begin with the same operands");
_Static_assert((int)SN_NORM_DX_PART_DY == (int)SN_NORM_DX_DY &&
                   (int)SN_NORM_DX_PART_X == (int)SN_NORM_DX_X &&
                   (int)SN_NORM_DX_PART_W == (int)SN_NORM_DX_W &&
                   (int)SN_NORM_DX_PART_STATS == (int)SN_NORM_DX_STATS,
               "so does the part of one");

static bool is_layernorm(int kind)
{
    return kind == SN_OP_LAYERNORM || kind == SN_OP_LAYERNORM_DX || kind == SN_OP_LAYERNORM_DW;
}

/* What a function of a row's features and their weights is called. */
static uint64_t name_of(const struct sn_visit *s, int kind, uint64_t what)
{
    return sn_name_float(sn_name(kind, what), s->op->attr.shift);
}

/* Rows of features, and how many numbers are known of each of them: the kind of norm. */
struct shape {
    int64_t rows, cols, width;
};

static struct shape shape_of(const struct sn_view *x, const struct sn_view *known)
{
    return (struct shape){x->rows, x->cols, known->cols};
}

/* To z, a vector with an element for each column: the same at all rows. `cols` of the operand. */
static enum sn_status zip_vector(const struct sn_visit *s, struct sn_zip *z, int in, int64_t cols)
{
    struct sn_slabs v = {0}, wide = {0};
    enum sn_status st = sn_read(s, in, &v);
    int64_t rows = 0;
    for (int i = 0; i < z->n; i++) {
        int64_t end = sn_corner(&z->t[i], cols).row + z->t[i].rows;
        rows = end > rows ? end : rows;
    }
    for (int i = 0; i < v.n; i++) {
        struct sn_slab t = v.t[i];
        t.rows = rows;
        t.ld = rows > 1 ? cols : t.cols;
        sn_slabs_push(&wide, &t);
    }
    if (st == SN_OK)
        st = sn_zip_with(s, z, &wide, SN_DIM_COLS);
    sn_slabs_fini(&v);
    sn_slabs_fini(&wide);
    return st;
}

/* To z, what is known of rows, the same at all columns: `known` gets as wide as they are. */
static enum sn_status zip_known(const struct sn_visit *s, struct sn_zip *z, struct sn_slabs *known,
                                const struct shape *x)
{
    SN_TRY(sn_are_rectangles(s, known, x->width));
    for (int i = 0; i < known->n; i++) {
        struct sn_slab *t = &known->t[i];
        t->at = sn_corner(t, x->width).row * x->cols;
        t->cols = t->ld = x->cols;
        t->space[SN_SLAB_COLS] = SN_SPACE_ANY;
    }
    return sn_zip_with(s, z, known, SN_DIM_ROWS);
}

static enum sn_status zip_stats(const struct sn_visit *s, struct sn_zip *z, int in)
{
    struct sn_slabs v = {0};
    struct shape shape = shape_of(&s->op->in[SN_NORM_DX_DY], &s->op->in[in]);
    enum sn_status st = sn_read(s, in, &v);
    if (st == SN_OK)
        st = zip_known(s, z, &v, &shape);
    sn_slabs_fini(&v);
    return st;
}

static enum sn_status zip_more(const struct sn_visit *s, struct sn_zip *z, int in)
{
    struct sn_slabs x = {0};
    enum sn_status st = sn_read(s, in, &x);
    if (st == SN_OK)
        st = sn_zip_with(s, z, &x, SN_DIM_BOTH);
    sn_slabs_fini(&x);
    return st;
}

/* --- means of rows ---------------------------------------------------------------------------- */

/* By n: sums become means. */
static void divide(struct sn_slabs *sums, int64_t n)
{
    uint64_t by = sn_field_inverse((uint64_t)n);
    for (int i = 0; i < sums->n; i++)
        sums->t[i].value = sn_field_mul(sums->t[i].value, by);
}

/* Over the features here: one value for a block of rows. */
static enum sn_status means(const struct sn_visit *s, const struct sn_slabs *terms,
                            const struct shape *x, struct sn_slabs *out)
{
    SN_TRY(sn_are_rectangles(s, terms, x->cols));
    for (int i = 0; i < terms->n; i++) {
        struct sn_slab t = terms->t[i];
        t.at = sn_corner(&t, x->cols).row * x->width;
        t.cols = t.ld = x->width;
        t.value = sn_field_mul(t.value, sn_extent(s->m, &terms->t[i], SN_SLAB_COLS));
        t.space[SN_SLAB_COLS] = SN_SPACE_FIXED;
        t.first[SN_SLAB_COLS] = 0;
        SN_TRY(sn_collect(s, out, &t));
    }
    divide(out, x->cols);
    return SN_OK;
}

/* Of the means of slices, which lie one under the other. */
static enum sn_status means_of_parts(const struct sn_visit *s, int in, const struct shape *x,
                                     struct sn_slabs *out)
{
    const struct sn_view *v = &s->op->in[in];
    struct sn_slabs parts = {0}, block = {0};
    if (v->cols != x->width || x->rows < 1 || v->rows % x->rows != 0)
        return sn_visit_fault(s, "takes %lld x %lld numbers for %lld of each of %lld rows",
                              (long long)v->rows, (long long)v->cols, (long long)x->width,
                              (long long)x->rows);
    enum sn_status st = sn_read(s, in, &parts);
    if (st == SN_OK)
        st = sn_are_rectangles(s, &parts, x->width);
    for (int64_t first = 0; first < v->rows && st == SN_OK; first += x->rows) {
        struct sn_area area = {first * x->width, x->rows, x->width, x->width};
        block.n = 0;
        for (int i = 0; i < parts.n; i++)
            (void)sn_slab_cut(&block, &parts.t[i], &area);
        for (int i = 0; i < block.n && st == SN_OK; i++) {
            block.t[i].at -= area.at;
            st = sn_collect(s, out, &block.t[i]);
        }
    }
    divide(out, v->rows / x->rows);
    bool failed = block.failed;
    sn_slabs_fini(&parts);
    sn_slabs_fini(&block);
    return st == SN_OK && failed ? sn_visit_no_memory(s) : st;
}

/* --- forward ---------------------------------------------------------------------------------- */

/* x, plus the addend if there is one, which is written. */
static enum sn_status sum_of_inputs(const struct sn_visit *s, struct sn_slabs *x)
{
    SN_TRY(sn_read(s, SN_NORM_X, x));
    if (sn_has_in(s, SN_NORM_ADDEND)) {
        struct sn_zip z = {0};
        sn_zip_begin(&z, x);
        enum sn_status st = zip_more(s, &z, SN_NORM_ADDEND);
        x->n = 0;
        for (int i = 0; i < z.n; i++) {
            z.t[i].value = sn_field_add(z.value[i][0], z.value[i][1]);
            sn_slabs_push(x, &z.t[i]);
        }
        sn_zip_fini(&z);
        SN_TRY(st);
    }
    return sn_has_out(s, SN_NORM_SUM) ? sn_write(s, SN_NORM_SUM, x) : SN_OK;
}

/* Over the slabs of x, each a function of its value. */
static enum sn_status means_of_squares(const struct sn_visit *s, const struct sn_slabs *x,
                                       const struct shape *shape, struct sn_slabs *out)
{
    struct sn_slabs squares = {0};
    struct sn_zip z = {0};
    sn_zip_begin(&z, x);
    sn_map(&z, sn_name(SN_OP_NORM_PART, (uint64_t)shape->width), &squares);
    enum sn_status st = z.failed || squares.failed ? sn_visit_no_memory(s) : SN_OK;
    if (st == SN_OK)
        st = means(s, &squares, shape, out);
    sn_zip_fini(&z);
    sn_slabs_fini(&squares);
    return st;
}

enum sn_status sn_rule_norm_part(const struct sn_visit *s)
{
    const struct shape shape = shape_of(&s->op->in[SN_NORM_PART_X], &s->op->out[SN_NORM_PART_PART]);
    struct sn_slabs x = {0}, part = {0};
    enum sn_status st = sn_read(s, SN_NORM_PART_X, &x);
    if (st == SN_OK)
        st = means_of_squares(s, &x, &shape, &part);
    if (st == SN_OK)
        st = sn_write(s, SN_NORM_PART_PART, &part);
    sn_slabs_fini(&x);
    sn_slabs_fini(&part);
    return st;
}

/* Of all features of each row: x, or the parts, if there are some. */
static enum sn_status statistics(const struct sn_visit *s, const struct sn_slabs *x,
                                 const struct shape *shape, struct sn_slabs *out)
{
    uint64_t name =
        sn_name_float(sn_name(SN_OP_RMSNORM, is_layernorm(s->op->kind)), s->op->attr.eps);
    SN_TRY(sn_has_in(s, SN_NORM_PARTS) ? means_of_parts(s, SN_NORM_PARTS, shape, out)
                                       : means_of_squares(s, x, shape, out));
    for (int i = 0; i < out->n; i++)
        out->t[i].value = sn_function(name, &out->t[i].value, 1);
    return SN_OK;
}

enum sn_status sn_rule_norm(const struct sn_visit *s)
{
    const struct shape shape = shape_of(&s->op->in[SN_NORM_X], &s->op->out[SN_NORM_STATS]);
    struct sn_slabs x = {0}, stats = {0};
    struct sn_zip z = {0};
    enum sn_status st = sum_of_inputs(s, &x);
    if (st == SN_OK)
        st = statistics(s, &x, &shape, &stats);
    if (st == SN_OK)
        st = sn_write(s, SN_NORM_STATS, &stats);
    sn_zip_begin(&z, &x);
    if (st == SN_OK)
        st = zip_known(s, &z, &stats, &shape);
    if (st == SN_OK)
        st = zip_vector(s, &z, SN_NORM_W, shape.cols);
    if (st == SN_OK && sn_has_in(s, SN_NORM_B))
        st = zip_vector(s, &z, SN_NORM_B, shape.cols);
    sn_map(&z, name_of(s, SN_OP_LAYERNORM, is_layernorm(s->op->kind)), &x);
    if (st == SN_OK)
        st = sn_write(s, SN_NORM_Y, &x);
    sn_zip_fini(&z);
    sn_slabs_fini(&x);
    sn_slabs_fini(&stats);
    return st;
}

/* --- gradients -------------------------------------------------------------------------------- */

/* Of weights (0) and biases (1): z has dy, x and the statistics. */
static enum sn_status weight_sums(const struct sn_visit *s, const struct sn_zip *z, int64_t cols,
                                  int which, int out)
{
    struct sn_slabs per_row = {0}, sums = {0};
    enum sn_status st = SN_OK;
    if (!sn_has_out(s, out))
        return SN_OK;
    sn_map(z, sn_name(SN_OP_LAYERNORM_DW, (uint64_t)(2 * which) + is_layernorm(s->op->kind)),
           &per_row);
    for (int i = 0; i < per_row.n && which == 1; i++) /* of dy alone: a COLSUM */
        per_row.t[i].value = z->value[i][0];
    st = sn_column_sums(s, &per_row, cols, &sums);
    if (st == SN_OK)
        st = sn_write(s, out, &sums);
    sn_slabs_fini(&per_row);
    sn_slabs_fini(&sums);
    return st;
}

/* dy, x and the statistics, which stand first in all kinds but for the weights. */
static enum sn_status zip_gradient(const struct sn_visit *s, struct sn_zip *z, int stats)
{
    struct sn_slabs dy = {0};
    enum sn_status st = sn_read(s, SN_NORM_DX_DY, &dy);
    sn_zip_begin(z, &dy);
    sn_slabs_fini(&dy);
    if (st == SN_OK)
        st = zip_more(s, z, SN_NORM_DX_X);
    return st == SN_OK ? zip_stats(s, z, stats) : st;
}

/* Of each row's products with dy, of which z has the factors; where dy is zero they are. */
static enum sn_status means_of_products(const struct sn_visit *s, const struct sn_zip *z,
                                        const struct shape *shape, struct sn_slabs *out)
{
    struct sn_slabs products = {0};
    sn_map(z, name_of(s, SN_OP_NORM_DX_PART, (uint64_t)shape->width), &products);
    enum sn_status st = products.failed ? sn_visit_no_memory(s) : SN_OK;
    for (int i = 0; i < products.n; i++)
        if (z->value[i][0] == 0)
            products.t[i].value = 0;
    if (st == SN_OK)
        st = means(s, &products, shape, out);
    sn_slabs_fini(&products);
    return st;
}

enum sn_status sn_rule_norm_dx_part(const struct sn_visit *s)
{
    const struct shape shape =
        shape_of(&s->op->in[SN_NORM_DX_PART_DY], &s->op->out[SN_NORM_DX_PART_PART]);
    struct sn_slabs part = {0};
    struct sn_zip z = {0};
    enum sn_status st = zip_gradient(s, &z, SN_NORM_DX_PART_STATS);
    if (st == SN_OK)
        st = zip_vector(s, &z, SN_NORM_DX_PART_W, shape.cols);
    if (st == SN_OK)
        st = means_of_products(s, &z, &shape, &part);
    if (st == SN_OK)
        st = sn_write(s, SN_NORM_DX_PART_PART, &part);
    sn_zip_fini(&z);
    sn_slabs_fini(&part);
    return st;
}

/* To z, which has dy, x, the statistics and the weights, what is known of whole rows. */
static enum sn_status zip_means(const struct sn_visit *s, struct sn_zip *z)
{
    const struct shape shape = shape_of(&s->op->in[SN_NORM_DX_DY], &s->op->in[SN_NORM_DX_STATS]);
    struct sn_slabs known = {0};
    enum sn_status st = sn_has_in(s, SN_NORM_DX_PARTS)
                            ? means_of_parts(s, SN_NORM_DX_PARTS, &shape, &known)
                            : means_of_products(s, z, &shape, &known);
    if (st == SN_OK)
        st = zip_known(s, z, &known, &shape);
    sn_slabs_fini(&known);
    return st;
}

enum sn_status sn_rule_norm_dx(const struct sn_visit *s)
{
    int64_t cols = s->op->in[SN_NORM_DX_DY].cols;
    struct sn_slabs dx = {0}, g = {0};
    struct sn_zip z = {0};
    enum sn_status st = zip_gradient(s, &z, SN_NORM_DX_STATS);
    if (st == SN_OK)
        st = weight_sums(s, &z, cols, 0, SN_NORM_DX_DW);
    if (st == SN_OK)
        st = weight_sums(s, &z, cols, 1, SN_NORM_DX_DB);
    if (st == SN_OK)
        st = zip_vector(s, &z, SN_NORM_DX_W, cols);
    if (st == SN_OK)
        st = zip_means(s, &z);
    sn_map(&z, name_of(s, SN_OP_LAYERNORM_DX, is_layernorm(s->op->kind)), &dx);
    if (st == SN_OK && sn_has_in(s, SN_NORM_DX_ADDEND)) {
        st = sn_read(s, SN_NORM_DX_ADDEND, &g);
        for (int i = 0; i < g.n && st == SN_OK; i++)
            st = sn_collect(s, &dx, &g.t[i]);
    }
    if (st == SN_OK)
        st = sn_write(s, SN_NORM_DX_DX, &dx);
    sn_zip_fini(&z);
    sn_slabs_fini(&dx);
    sn_slabs_fini(&g);
    return st;
}

enum sn_status sn_rule_norm_dw(const struct sn_visit *s)
{
    int64_t cols = s->op->in[SN_NORM_DW_DY].cols;
    struct sn_zip z = {0};
    enum sn_status st = zip_gradient(s, &z, SN_NORM_DW_STATS);
    if (st == SN_OK)
        st = weight_sums(s, &z, cols, 0, SN_NORM_DW_DW);
    if (st == SN_OK)
        st = weight_sums(s, &z, cols, 1, SN_NORM_DW_DB);
    sn_zip_fini(&z);
    return st;
}
