/*
 * rules_products.c - products of matrices, sums of columns, and tables that tokens look up.
 *
 * Where columns k .. k + n - 1 of A meet rows of B with the same coordinates, the product of the
 * values times the length of that interval is a part of C. A sum over tokens is such a product too,
 * and so is a look-up: of a matrix with a one in each row at the token's word.
 */
#include "lib/meaning/inner.h"

/* An operand of a product: its slabs as rectangles, along the product's depth and across. */
struct factor {
    struct sn_slabs slabs;
    int64_t cols;
    int depth; /* the dimension that is summed over */
};

struct span {
    int64_t first, n;
};

/* Where a slab lies along a dimension of its operand. */
static struct span along(const struct factor *f, const struct sn_slab *t, int dim)
{
    struct sn_corner c = sn_corner(t, f->cols);
    return dim == SN_SLAB_ROWS ? (struct span){c.row, t->rows} : (struct span){c.col, t->cols};
}

static enum sn_status read_factor(const struct sn_visit *s, int in, int depth, struct factor *f)
{
    f->cols = s->op->in[in].cols;
    f->depth = depth;
    SN_TRY(sn_read(s, in, &f->slabs));
    return sn_are_rectangles(s, &f->slabs, f->cols);
}

/* A matrix that is read across, A by rows or B by columns. Where its rows and columns are of one space, nothing else tells
 * it from one that is read along. */
static uint64_t turned(const struct factor *a, const struct factor *b)
{
    uint64_t by_rows = a->depth == SN_SLAB_ROWS ? sn_name(SN_OP_GEMM, SN_GEMM_A) : 1;
    uint64_t by_cols = b->depth == SN_SLAB_COLS ? sn_name(SN_OP_GEMM, SN_GEMM_B) : 1;
    return sn_field_mul(by_rows, by_cols);
}

/* What a pair of slabs adds to C, of `cols` columns. */
static enum sn_status multiply(const struct sn_visit *s, const struct factor *a,
                               const struct sn_slab *x, const struct factor *b,
                               const struct sn_slab *y, int64_t cols, struct sn_slabs *c)
{
    struct span ka = along(a, x, a->depth), kb = along(b, y, b->depth);
    int64_t first = ka.first > kb.first ? ka.first : kb.first;
    int64_t end_a = ka.first + ka.n, end_b = kb.first + kb.n, end = end_a < end_b ? end_a : end_b;
    if (first >= end)
        return SN_OK;
    int64_t at = x->first[a->depth] + first - ka.first;
    bool meets = sn_same_space(s->m, x->space[a->depth], y->space[b->depth]) &&
                 at == y->first[b->depth] + first - kb.first;
    if (!meets)
        return sn_visit_fault(s, "sums over %s of one operand and %s of the other",
                              sn_place_text(s->m, x, a->depth).s,
                              sn_place_text(s->m, y, b->depth).s);
    struct span m = along(a, x, !a->depth), n = along(b, y, !b->depth);
    uint64_t length = sn_interval(s->m, x->space[a->depth], at, end - first);
    length = sn_field_mul(length, turned(a, b));
    struct sn_slab t = {.at = m.first * cols + n.first,
                        .rows = m.n,
                        .cols = n.n,
                        .ld = m.n > 1 ? cols : n.n,
                        .value = sn_field_mul(sn_field_mul(x->value, y->value), length),
                        .space = {x->space[!a->depth], y->space[!b->depth]},
                        .first = {x->first[!a->depth], y->first[!b->depth]}};
    return sn_collect(s, c, &t);
}

static enum sn_status product(const struct sn_visit *s, const struct factor *a,
                              const struct factor *b, int64_t cols, struct sn_slabs *c)
{
    for (int i = 0; i < a->slabs.n; i++)
        for (int k = 0; k < b->slabs.n; k++)
            SN_TRY(multiply(s, a, &a->slabs.t[i], b, &b->slabs.t[k], cols, c));
    return SN_OK;
}

/* --- GEMM ------------------------------------------------------------------------------------- */

/* To every row of c, of `cols` columns. */
static enum sn_status add_bias(const struct sn_visit *s, int64_t cols, struct sn_slabs *c)
{
    struct sn_slabs bias = {0}, old = *c;
    enum sn_status st = sn_read(s, SN_GEMM_BIAS, &bias);
    *c = (struct sn_slabs){0};
    for (int i = 0; i < old.n && st == SN_OK; i++)
        for (int k = 0; k < bias.n && st == SN_OK; k++) {
            struct sn_corner at = sn_corner(&old.t[i], cols);
            const struct sn_slab *b = &bias.t[k];
            struct sn_area below = {at.row * cols + b->at, old.t[i].rows, b->cols,
                                    old.t[i].rows > 1 ? cols : b->cols};
            int before = c->n;
            (void)sn_slab_cut(c, &old.t[i], &below);
            for (int q = before; q < c->n && st == SN_OK; q++) {
                struct sn_slab *t = &c->t[q];
                int64_t col = b->first[SN_SLAB_COLS] + sn_corner(t, cols).col - b->at;
                t->value = sn_field_add(t->value, b->value);
                if (!sn_same_space(s->m, t->space[1], b->space[1]) || t->first[1] != col)
                    st = sn_visit_fault(s, "adds a bias of %s to %s",
                                        sn_place_text(s->m, b, SN_SLAB_COLS).s,
                                        sn_place_text(s->m, t, SN_SLAB_COLS).s);
            }
        }
    sn_slabs_fini(&bias);
    sn_slabs_fini(&old);
    return st;
}

static enum sn_status add_addend(const struct sn_visit *s, struct sn_slabs *c)
{
    struct sn_slabs g = {0};
    enum sn_status st = sn_read(s, SN_GEMM_ADDEND, &g);
    struct sn_zip z = {0};
    sn_zip_begin(&z, c);
    if (st == SN_OK)
        st = sn_zip_with(s, &z, &g, SN_DIM_BOTH);
    c->n = 0;
    for (int i = 0; i < z.n; i++) {
        z.t[i].value = sn_field_add(z.value[i][0], z.value[i][1]);
        sn_slabs_push(c, &z.t[i]);
    }
    sn_zip_fini(&z);
    sn_slabs_fini(&g);
    return st;
}

/* Another operation in one with the product. */
static enum sn_status epilogue(const struct sn_visit *s, const struct factor *a, struct sn_slabs *c)
{
    const struct sn_attr *at = &s->op->attr;
    struct sn_slabs other = {0};
    struct sn_zip z = {0};
    enum sn_status st = SN_OK;
    if (at->gemm.epilogue == SN_EPILOGUE_ACT) {
        if (sn_has_out(s, SN_GEMM_BESIDE))
            st = sn_write(s, SN_GEMM_BESIDE, c);
        sn_zip_begin(&z, c);
        sn_map(&z, sn_name(SN_OP_ACT, at->act), c);
    } else if (at->gemm.epilogue == SN_EPILOGUE_ACT_DX) {
        sn_zip_begin(&z, c);
        st = sn_read(s, SN_GEMM_SLOPE_OF, &other);
        if (st == SN_OK)
            st = sn_zip_with(s, &z, &other, SN_DIM_BOTH);
        sn_map(&z, sn_name(SN_OP_ACT_DX, at->act), c);
    } else if (at->gemm.epilogue == SN_EPILOGUE_COLSUM) {
        st = sn_column_sums(s, &a->slabs, a->cols, &other);
        if (st == SN_OK)
            st = sn_write(s, SN_GEMM_BESIDE, &other);
    }
    sn_slabs_fini(&other);
    sn_zip_fini(&z);
    return st;
}

enum sn_status sn_rule_gemm(const struct sn_visit *s)
{
    const struct sn_gemm_attr *g = &s->op->attr.gemm;
    int64_t cols = s->op->out[SN_GEMM_C].cols;
    struct factor a = {0}, b = {0};
    struct sn_slabs c = {0};
    enum sn_status st = read_factor(s, SN_GEMM_A, g->trans_a ? SN_SLAB_ROWS : SN_SLAB_COLS, &a);
    if (st == SN_OK)
        st = read_factor(s, SN_GEMM_B, g->trans_b ? SN_SLAB_COLS : SN_SLAB_ROWS, &b);
    if (st == SN_OK)
        st = product(s, &a, &b, cols, &c);
    if (st == SN_OK && sn_has_in(s, SN_GEMM_BIAS))
        st = add_bias(s, cols, &c);
    if (st == SN_OK && sn_has_in(s, SN_GEMM_ADDEND))
        st = add_addend(s, &c);
    if (st == SN_OK)
        st = epilogue(s, &a, &c);
    if (st == SN_OK)
        st = sn_write(s, SN_GEMM_C, &c);
    sn_slabs_fini(&a.slabs);
    sn_slabs_fini(&b.slabs);
    sn_slabs_fini(&c);
    return st;
}

/* --- experts ---------------------------------------------------------------------------------- */

/* Of a factor, the rows first .. first + n - 1, as an operand of their own. */
static enum sn_status rows_of(const struct sn_visit *s, const struct factor *all, int64_t first,
                              int64_t n, struct factor *out)
{
    struct sn_area a = {first * all->cols, 1, n * all->cols, n * all->cols};
    out->slabs.n = 0;
    out->cols = all->cols;
    out->depth = all->depth;
    for (int i = 0; i < all->slabs.n; i++)
        (void)sn_slab_cut(&out->slabs, &all->slabs.t[i], &a);
    for (int i = 0; i < out->slabs.n; i++)
        out->slabs.t[i].at -= a.at;
    return out->slabs.failed ? sn_visit_no_memory(s) : SN_OK;
}

/* Segment `k` of the tokens' rows, whose expert is k mod those that are here. */
static enum sn_status segment(const struct sn_visit *s, const struct factor *a,
                              const struct factor *b, int64_t k, struct sn_slabs *out)
{
    const struct sn_view *vb = &s->op->in[SN_EXPERT_GEMM_B];
    int64_t tokens = s->r->routing.tokens, cols = s->op->out[SN_EXPERT_GEMM_C].cols;
    int64_t count = s->op->attr.experts.count, e = k % count, rows = tokens;
    bool is_gradient = s->op->attr.gemm.trans_a;
    struct factor x = {0}, y = {0};
    struct sn_slabs c = {0};
    enum sn_status st = rows_of(s, a, k * tokens, tokens, &x);
    if (st == SN_OK && is_gradient)
        st = rows_of(s, b, k * tokens, tokens, &y);
    else if (st == SN_OK)
        st = rows_of(s, b, e * (vb->rows / count), vb->rows / count, &y);
    if (st == SN_OK)
        st = product(s, &x, &y, cols, &c);
    rows = is_gradient ? s->op->out[SN_EXPERT_GEMM_C].rows / count : rows;
    for (int i = 0; i < c.n && st == SN_OK; i++) {
        c.t[i].at += (is_gradient ? e : k) * rows * cols;
        c.t[i].route = is_gradient || x.slabs.n == 0 ? 0 : x.slabs.t[0].route;
        if (is_gradient)
            st = sn_collect(s, out, &c.t[i]);
        else
            sn_slabs_push(out, &c.t[i]);
    }
    sn_slabs_fini(&x.slabs);
    sn_slabs_fini(&y.slabs);
    sn_slabs_fini(&c);
    return st;
}

enum sn_status sn_rule_expert_gemm(const struct sn_visit *s)
{
    const struct sn_gemm_attr *g = &s->op->attr.gemm;
    struct factor a = {0}, b = {0};
    struct sn_slabs c = {0};
    enum sn_status st =
        read_factor(s, SN_EXPERT_GEMM_A, g->trans_a ? SN_SLAB_ROWS : SN_SLAB_COLS, &a);
    if (st == SN_OK)
        st = read_factor(s, SN_EXPERT_GEMM_B, g->trans_b ? SN_SLAB_COLS : SN_SLAB_ROWS, &b);
    if (st == SN_OK)
        st = sn_check_route(s, SN_EXPERT_GEMM_BOUNDS, &a.slabs);
    struct sn_area rows = sn_view_area(s, &s->op->in[SN_EXPERT_GEMM_A]);
    int64_t segments = st == SN_OK ? rows.rows / s->r->routing.tokens : 0;
    for (int64_t k = 0; k < segments && st == SN_OK; k++)
        st = segment(s, &a, &b, k, &c);
    if (st == SN_OK)
        st = sn_write(s, SN_EXPERT_GEMM_C, &c);
    sn_slabs_fini(&a.slabs);
    sn_slabs_fini(&b.slabs);
    sn_slabs_fini(&c);
    return st;
}

/* --- sums of columns -------------------------------------------------------------------------- */

enum sn_status sn_column_sums(const struct sn_visit *s, const struct sn_slabs *slabs, int64_t cols,
                              struct sn_slabs *out)
{
    SN_TRY(sn_are_rectangles(s, slabs, cols));
    for (int i = 0; i < slabs->n; i++) {
        const struct sn_slab *x = &slabs->t[i];
        struct sn_slab t = *x;
        t.at = sn_corner(x, cols).col;
        t.rows = 1;
        t.ld = t.cols;
        t.space[SN_SLAB_ROWS] = SN_SPACE_ONE;
        t.first[SN_SLAB_ROWS] = 0;
        t.value = sn_field_mul(sn_field_mul(x->value, sn_extent(s->m, x, SN_SLAB_ROWS)),
                               sn_field_of(sn_name(SN_OP_COLSUM, 0)));
        SN_TRY(sn_collect(s, out, &t));
    }
    return SN_OK;
}

enum sn_status sn_rule_colsum(const struct sn_visit *s)
{
    struct sn_slabs dy = {0}, db = {0};
    enum sn_status st = sn_read(s, SN_COLSUM_DY, &dy);
    if (st == SN_OK)
        st = sn_column_sums(s, &dy, s->op->in[SN_COLSUM_DY].cols, &db);
    if (st == SN_OK)
        st = sn_write(s, SN_COLSUM_DB, &db);
    sn_slabs_fini(&dy);
    sn_slabs_fini(&db);
    return st;
}

/* --- tables ----------------------------------------------------------------------------------- */

/* The words of a table's rows here begin where the attributes say. */
static enum sn_status check_words(const struct sn_visit *s, const struct sn_slabs *w, int64_t cols)
{
    for (int i = 0; i < w->n; i++) {
        int64_t first = w->t[i].first[SN_SLAB_ROWS] - sn_corner(&w->t[i], cols).row;
        if (w->t[i].value != 0 && first != s->op->attr.vocab.first)
            return sn_visit_fault(s, "takes row 0 of its table, which is word %lld, for word %lld",
                                  (long long)first, (long long)s->op->attr.vocab.first);
    }
    return SN_OK;
}

/* Rows of positions: of a number of their own. */
static enum sn_status add_positions(const struct sn_visit *s, struct sn_slabs *y)
{
    struct sn_slabs p = {0};
    enum sn_status st = sn_read(s, SN_EMBED_P, &p);
    if (st == SN_OK)
        st = sn_check_positions(s, y, s->op->out[SN_EMBED_Y].cols,
                                s->op->attr.position.context_rank);
    for (int i = 0; i < y->n && st == SN_OK; i++) {
        uint64_t value = p.n > 0 ? p.t[0].value : 0;
        y->t[i].value =
            sn_field_add(y->t[i].value, sn_field_mul(value, sn_field_of(sn_name(SN_OP_EMBED, 1))));
        if (p.n > 0 && !sn_same_space(s->m, y->t[i].space[1], p.t[0].space[1]))
            st = sn_visit_fault(s, "adds positions of other columns");
    }
    sn_slabs_fini(&p);
    return st;
}

enum sn_status sn_rule_embed(const struct sn_visit *s)
{
    struct sn_slabs ids = {0}, w = {0}, y = {0};
    int64_t cols = s->op->out[SN_EMBED_Y].cols;
    enum sn_status st = sn_read(s, SN_EMBED_IDS, &ids);
    if (st == SN_OK)
        st = sn_read(s, SN_EMBED_W, &w);
    if (st == SN_OK)
        st = check_words(s, &w, cols);
    for (int i = 0; i < ids.n && st == SN_OK; i++)
        for (int k = 0; k < w.n && st == SN_OK; k++) {
            struct sn_slab t = ids.t[i];
            int64_t col = sn_corner(&w.t[k], cols).col;
            t.at = t.at * cols + col;
            t.cols = w.t[k].cols;
            t.ld = t.rows > 1 ? cols : t.cols;
            t.space[SN_SLAB_COLS] = w.t[k].space[SN_SLAB_COLS];
            t.first[SN_SLAB_COLS] = w.t[k].first[SN_SLAB_COLS];
            t.value = sn_field_mul(sn_field_mul(ids.t[i].value, w.t[k].value),
                                   sn_extent(s->m, &w.t[k], SN_SLAB_ROWS));
            st = sn_collect(s, &y, &t);
        }
    if (st == SN_OK && sn_has_in(s, SN_EMBED_P))
        st = add_positions(s, &y);
    if (st == SN_OK)
        st = sn_write(s, SN_EMBED_Y, &y);
    sn_slabs_fini(&ids);
    sn_slabs_fini(&w);
    sn_slabs_fini(&y);
    return st;
}

enum sn_status sn_gradient_table(const struct sn_visit *s, const struct sn_view *v,
                                 struct sn_slabs *out)
{
    struct sn_slabs all = {0};
    const struct sn_buffer *b = &s->r->program->bufs[v->buf];
    if (b->bucket < 0)
        return sn_visit_fault(s, "adds to what is no gradient of a table");
    enum sn_status st = sn_weight_slabs(s->m, s->r->job, b->bucket, NULL, &all);
    struct sn_area a = sn_view_area(s, v);
    for (int i = 0; i < all.n && st == SN_OK; i++)
        (void)sn_slab_cut(out, &all.t[i], &a);
    for (int i = 0; i < out->n; i++)
        out->t[i].at -= a.at;
    sn_slabs_fini(&all);
    return st;
}

/* To every row of a table the same: what tokens' gradients say of columns. */
static enum sn_status add_to_table(const struct sn_visit *s, int out, const struct sn_slabs *sums)
{
    const struct sn_view *v = &s->op->out[out];
    struct sn_slabs table = {0}, made = {0};
    enum sn_status st = sn_gradient_table(s, v, &table);
    for (int i = 0; i < table.n && st == SN_OK; i++)
        for (int k = 0; k < sums->n && st == SN_OK; k++) {
            struct sn_slab t = table.t[i];
            const struct sn_slab *x = &sums->t[k];
            struct sn_area below = {sn_corner(&t, v->cols).row * v->cols + x->at, t.rows, x->cols,
                                    t.rows > 1 ? v->cols : x->cols};
            int before = made.n;
            (void)sn_slab_cut(&made, &t, &below);
            for (int q = before; q < made.n && st == SN_OK; q++) {
                struct sn_slab *y = &made.t[q];
                y->value = y->value ? x->value : 0;
                if (y->value && (!sn_same_space(s->m, y->space[1], x->space[1]) ||
                                 y->first[1] - sn_corner(y, v->cols).col != x->first[1] - x->at))
                    st = sn_visit_fault(s, "adds %s to %s", sn_place_text(s->m, x, SN_SLAB_COLS).s,
                                        sn_place_text(s->m, y, SN_SLAB_COLS).s);
            }
        }
    if (st == SN_OK)
        st = sn_write(s, out, &made);
    sn_slabs_fini(&table);
    sn_slabs_fini(&made);
    return st;
}

enum sn_status sn_rule_embed_grad(const struct sn_visit *s)
{
    struct sn_slabs ids = {0}, dy = {0}, sums = {0};
    enum sn_status st = sn_read(s, SN_EMBED_GRAD_IDS, &ids);
    if (st == SN_OK)
        st = sn_read(s, SN_EMBED_GRAD_DY, &dy);
    int64_t cols = s->op->in[SN_EMBED_GRAD_DY].cols;
    for (int i = 0; i < ids.n; i++) /* as wide as dy, so that they can be compared */
        ids.t[i] = (struct sn_slab){.at = ids.t[i].at * cols,
                                    .rows = ids.t[i].rows,
                                    .cols = cols,
                                    .ld = cols,
                                    .value = ids.t[i].value,
                                    .space = {ids.t[i].space[0], SN_SPACE_ANY},
                                    .first = {ids.t[i].first[0], 0}};
    struct sn_zip z = {0};
    sn_zip_begin(&z, &dy);
    if (st == SN_OK)
        st = sn_zip_with(s, &z, &ids, SN_DIM_ROWS);
    dy.n = 0;
    for (int i = 0; i < z.n; i++) {
        z.t[i].value = sn_field_mul(sn_field_mul(z.value[i][0], z.value[i][1]),
                                    sn_field_of(sn_name(SN_OP_EMBED_GRAD, 0)));
        sn_slabs_push(&dy, &z.t[i]);
    }
    if (st == SN_OK)
        st = sn_column_sums(s, &dy, cols, &sums);
    if (st == SN_OK)
        st = add_to_table(s, SN_EMBED_GRAD_DW, &sums);
    sn_zip_fini(&z);
    sn_slabs_fini(&ids);
    sn_slabs_fini(&dy);
    sn_slabs_fini(&sums);
    return st;
}

/* Each position gets what its tokens have; the sum over samples is measured in tokens. */
enum sn_status sn_rule_pos_grad(const struct sn_visit *s)
{
    struct sn_slabs dy = {0}, sums = {0};
    int64_t cols = s->op->in[SN_POS_GRAD_DY].cols;
    enum sn_status st = sn_read(s, SN_POS_GRAD_DY, &dy);
    if (st == SN_OK)
        st = sn_check_positions(s, &dy, cols, s->op->attr.position.context_rank);
    for (int i = 0; i < dy.n; i++)
        dy.t[i].value = sn_field_mul(dy.t[i].value, sn_field_of(sn_name(SN_OP_POS_GRAD, 0)));
    if (st == SN_OK)
        st = sn_column_sums(s, &dy, cols, &sums);
    if (st == SN_OK)
        st = add_to_table(s, SN_POS_GRAD_DP, &sums);
    sn_slabs_fini(&dy);
    sn_slabs_fini(&sums);
    return st;
}
