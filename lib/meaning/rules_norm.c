/*
 * rules_norm.c - norms of rows, which need all of a row's features, and their gradients.
 */
#include "lib/meaning/inner.h"

_Static_assert((int)SN_NORM_DX_DY == (int)SN_NORM_DW_DY && (int)SN_NORM_DX_X == (int)SN_NORM_DW_X,
               "gradients of norms begin with the same operands");

static bool is_layernorm(int kind)
{
    return kind == SN_OP_LAYERNORM || kind == SN_OP_LAYERNORM_DX || kind == SN_OP_LAYERNORM_DW;
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

/* To z, what a row has of statistics, the same at all columns. */
static enum sn_status zip_stats(const struct sn_visit *s, struct sn_zip *z, int in, int64_t cols)
{
    struct sn_slabs v = {0};
    enum sn_status st = sn_read(s, in, &v);
    int64_t width = s->op->in[in].cols;
    if (st == SN_OK)
        st = sn_are_rectangles(s, &v, width);
    for (int i = 0; i < v.n && st == SN_OK; i++) {
        struct sn_slab *t = &v.t[i];
        *t = (struct sn_slab){.at = sn_corner(t, width).row * cols,
                              .rows = t->rows,
                              .cols = cols,
                              .ld = cols,
                              .value = t->value,
                              .space = {t->space[0], SN_SPACE_ANY},
                              .first = {t->first[0], 0}};
    }
    if (st == SN_OK)
        st = sn_zip_with(s, z, &v, SN_DIM_ROWS);
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

/* Of all features of each row: one value for a block of rows. */
static enum sn_status statistics(const struct sn_visit *s, const struct sn_slabs *x, int64_t cols,
                                 struct sn_slabs *out)
{
    uint64_t name =
        sn_name_float(sn_name(SN_OP_RMSNORM, is_layernorm(s->op->kind)), s->op->attr.eps);
    int64_t width = s->op->out[SN_NORM_STATS].cols;
    SN_TRY(sn_are_rectangles(s, x, cols));
    for (int i = 0; i < x->n; i++) {
        struct sn_slab t = x->t[i];
        t.at = sn_corner(&t, cols).row * width;
        t.cols = t.ld = width;
        t.value = sn_field_mul(t.value, sn_extent(s->m, &x->t[i], SN_SLAB_COLS));
        t.space[SN_SLAB_COLS] = SN_SPACE_FIXED;
        t.first[SN_SLAB_COLS] = 0;
        SN_TRY(sn_collect(s, out, &t));
    }
    for (int i = 0; i < out->n; i++)
        out->t[i].value = sn_function(name, &out->t[i].value, 1);
    return SN_OK;
}

/* Statistics as wide as the operand. */
static void widen(struct sn_slabs *stats, int64_t width, int64_t cols)
{
    for (int i = 0; i < stats->n; i++) {
        struct sn_slab *t = &stats->t[i];
        t->at = sn_corner(t, width).row * cols;
        t->cols = t->ld = cols;
        t->space[SN_SLAB_COLS] = SN_SPACE_ANY;
    }
}

enum sn_status sn_rule_norm(const struct sn_visit *s)
{
    int64_t cols = s->op->in[SN_NORM_X].cols, width = s->op->out[SN_NORM_STATS].cols;
    struct sn_slabs x = {0}, stats = {0};
    struct sn_zip z = {0};
    enum sn_status st = sum_of_inputs(s, &x);
    if (st == SN_OK)
        st = statistics(s, &x, cols, &stats);
    if (st == SN_OK)
        st = sn_write(s, SN_NORM_STATS, &stats);
    widen(&stats, width, cols);
    sn_zip_begin(&z, &x);
    if (st == SN_OK)
        st = sn_zip_with(s, &z, &stats, SN_DIM_ROWS);
    if (st == SN_OK)
        st = zip_vector(s, &z, SN_NORM_W, cols);
    if (st == SN_OK && sn_has_in(s, SN_NORM_B))
        st = zip_vector(s, &z, SN_NORM_B, cols);
    sn_map(&z, sn_name(SN_OP_LAYERNORM, is_layernorm(s->op->kind)), &x);
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

/* dy, x and the statistics, which stand first in both kinds but for the weights. */
static enum sn_status zip_gradient(const struct sn_visit *s, struct sn_zip *z, int stats)
{
    struct sn_slabs dy = {0};
    enum sn_status st = sn_read(s, SN_NORM_DX_DY, &dy);
    sn_zip_begin(z, &dy);
    sn_slabs_fini(&dy);
    if (st == SN_OK)
        st = zip_more(s, z, SN_NORM_DX_X);
    return st == SN_OK ? zip_stats(s, z, stats, s->op->in[SN_NORM_DX_DY].cols) : st;
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
    sn_map(&z, sn_name(SN_OP_LAYERNORM_DX, is_layernorm(s->op->kind)), &dx);
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
