/*
 * rules_pointwise.c - operations whose result at a place depends on their operands there, and those
 * that only move.
 */
#include "lib/meaning/inner.h"

/* Operands in[0 .. n - 1] of one shape; those that are absent are left out. */
static enum sn_status zip_inputs(const struct sn_visit *s, const int *in, int n, struct sn_zip *z)
{
    struct sn_slabs slabs = {0};
    enum sn_status st = SN_OK;
    bool begun = false;
    for (int i = 0; i < n && st == SN_OK; i++) {
        if (!sn_has_in(s, in[i]))
            continue;
        st = sn_read(s, in[i], &slabs);
        if (st == SN_OK && begun)
            st = sn_zip_with(s, z, &slabs, SN_DIM_BOTH);
        else if (st == SN_OK)
            sn_zip_begin(z, &slabs);
        begun = true;
    }
    sn_slabs_fini(&slabs);
    return st == SN_OK && z->failed ? sn_visit_no_memory(s) : st;
}

static enum sn_status write_and_free(const struct sn_visit *s, enum sn_status st, int out,
                                     struct sn_slabs *slabs, struct sn_zip *z)
{
    if (st == SN_OK)
        st = sn_write(s, out, slabs);
    sn_slabs_fini(slabs);
    sn_zip_fini(z);
    return st;
}

/* Sums of the operands, times a number. */
static void sum(const struct sn_zip *z, struct sn_slabs *out)
{
    for (int i = 0; i < z->n; i++) {
        struct sn_slab t = z->t[i];
        t.value = 0;
        for (int k = 0; k < z->operands; k++)
            t.value = sn_field_add(t.value, z->value[i][k]);
        sn_slabs_push(out, &t);
    }
}

static void scale(struct sn_slabs *slabs, uint64_t by)
{
    for (int i = 0; i < slabs->n; i++)
        slabs->t[i].value = sn_field_mul(slabs->t[i].value, by);
}

enum sn_status sn_rule_zero(const struct sn_visit *s)
{
    const struct sn_view *v = &s->op->out[SN_ZERO_X];
    struct sn_area a = sn_view_area(s, v);
    struct sn_slabs zeros = {0};
    struct sn_slab t = {.rows = a.rows, .cols = a.cols, .ld = a.cols, .space = {-1, -1}};
    if (a.rows > 0)
        sn_slabs_push(&zeros, &t);
    enum sn_status st = sn_write(s, SN_ZERO_X, &zeros);
    sn_slabs_fini(&zeros);
    return st;
}

enum sn_status sn_rule_copy(const struct sn_visit *s)
{
    struct sn_slabs x = {0};
    enum sn_status st = sn_read(s, SN_COPY_X, &x);
    if (st == SN_OK)
        st = sn_write(s, SN_COPY_Y, &x);
    sn_slabs_fini(&x);
    return st;
}

enum sn_status sn_rule_add(const struct sn_visit *s)
{
    struct sn_zip z = {0};
    struct sn_slabs y = {0};
    enum sn_status st = zip_inputs(s, (const int[]){SN_ADD_A, SN_ADD_B}, 2, &z);
    sum(&z, &y);
    return write_and_free(s, st, SN_ADD_Y, &y, &z);
}

enum sn_status sn_rule_scale(const struct sn_visit *s)
{
    struct sn_slabs x = {0};
    enum sn_status st = sn_read(s, SN_SCALE_X, &x);
    scale(&x, sn_field_of(sn_name_float(sn_name(SN_OP_SCALE, 0), s->op->attr.scale)));
    if (st == SN_OK)
        st = sn_write(s, SN_SCALE_Y, &x);
    sn_slabs_fini(&x);
    return st;
}

/* To z, what stands in each row of an operand of one column, which is of *space. */
static enum sn_status zip_column(const struct sn_visit *s, struct sn_zip *z, int in, int64_t cols,
                                 int *space)
{
    struct sn_slabs v = {0};
    enum sn_status st = sn_read(s, in, &v);
    *space = SN_SPACE_ANY;
    for (int i = 0; i < v.n && st == SN_OK; i++) {
        *space = v.t[i].space[SN_SLAB_COLS];
        v.t[i].at *= cols;
        v.t[i].cols = v.t[i].ld = cols;
        v.t[i].space[SN_SLAB_COLS] = SN_SPACE_ANY;
    }
    if (st == SN_OK)
        st = sn_zip_with(s, z, &v, SN_DIM_ROWS);
    sn_slabs_fini(&v);
    return st;
}

/* A number for each value of z: products with it are linear in what is gated. */
static uint64_t gate_of(uint64_t z)
{
    return sn_function(sn_name(SN_OP_GATE, 0), &z, 1);
}

enum sn_status sn_rule_gate(const struct sn_visit *s)
{
    int space;
    struct sn_zip z = {0};
    struct sn_slabs y = {0};
    enum sn_status st = zip_inputs(s, (const int[]){SN_GATE_X}, 1, &z);
    if (st == SN_OK)
        st = zip_column(s, &z, SN_GATE_Z, s->op->in[SN_GATE_X].cols, &space);
    for (int i = 0; i < z.n && st == SN_OK; i++) {
        struct sn_slab t = z.t[i];
        t.value = sn_field_mul(z.value[i][0], gate_of(z.value[i][1]));
        sn_slabs_push(&y, &t);
    }
    return write_and_free(s, st, SN_GATE_Y, &y, &z);
}

/* Sums over the columns here of the products of dy, x and the slope. */
static enum sn_status gate_slopes(const struct sn_visit *s, const struct sn_zip *z, int space,
                                  struct sn_slabs *dz)
{
    struct sn_slabs terms = {0};
    int64_t cols = s->op->in[SN_GATE_DX_DY].cols;
    for (int i = 0; i < z->n; i++) {
        struct sn_slab t = z->t[i];
        uint64_t slope = sn_function(sn_name(SN_OP_GATE_DX, 0), &z->value[i][2], 1);
        t.value = sn_field_mul(sn_field_mul(z->value[i][0], z->value[i][1]), slope);
        sn_slabs_push(&terms, &t);
    }
    enum sn_status st = sn_are_rectangles(s, &terms, cols);
    for (int i = 0; i < terms.n && st == SN_OK; i++) {
        struct sn_slab t = terms.t[i];
        t.value = sn_field_mul(t.value, sn_extent(s->m, &t, SN_SLAB_COLS));
        t.at = sn_corner(&t, cols).row;
        t.cols = t.ld = 1;
        t.space[SN_SLAB_COLS] = space;
        t.first[SN_SLAB_COLS] = 0;
        st = sn_collect(s, dz, &t);
    }
    sn_slabs_fini(&terms);
    return st;
}

enum sn_status sn_rule_gate_dx(const struct sn_visit *s)
{
    int space;
    struct sn_zip z = {0};
    struct sn_slabs dx = {0}, dz = {0};
    enum sn_status st = zip_inputs(s, (const int[]){SN_GATE_DX_DY, SN_GATE_DX_X}, 2, &z);
    if (st == SN_OK)
        st = zip_column(s, &z, SN_GATE_DX_Z, s->op->in[SN_GATE_DX_DY].cols, &space);
    for (int i = 0; i < z.n && st == SN_OK; i++) {
        struct sn_slab t = z.t[i];
        t.value = sn_field_mul(z.value[i][0], gate_of(z.value[i][2]));
        sn_slabs_push(&dx, &t);
    }
    if (st == SN_OK)
        st = gate_slopes(s, &z, space, &dz);
    if (st == SN_OK && sn_has_out(s, SN_GATE_DX_DX))
        st = sn_write(s, SN_GATE_DX_DX, &dx);
    if (st == SN_OK && !sn_has_out(s, SN_GATE_DX_DZ))
        dz.n = 0;
    else if (st == SN_OK)
        st = sn_write(s, SN_GATE_DX_DZ, &dz);
    sn_slabs_fini(&dx);
    sn_slabs_fini(&dz);
    sn_zip_fini(&z);
    return st;
}

enum sn_status sn_rule_act(const struct sn_visit *s)
{
    struct sn_zip z = {0};
    struct sn_slabs y = {0};
    enum sn_status st = zip_inputs(s, (const int[]){SN_ACT_X}, 1, &z);
    sn_map(&z, sn_name(SN_OP_ACT, s->op->attr.act), &y);
    return write_and_free(s, st, SN_ACT_Y, &y, &z);
}

enum sn_status sn_rule_act_dx(const struct sn_visit *s)
{
    struct sn_zip z = {0};
    struct sn_slabs dx = {0};
    enum sn_status st = zip_inputs(s, (const int[]){SN_ACT_DX_DY, SN_ACT_DX_X}, 2, &z);
    sn_map(&z, sn_name(SN_OP_ACT_DX, s->op->attr.act), &dx);
    return write_and_free(s, st, SN_ACT_DX_DX, &dx, &z);
}

/* A mask, or a factor for each element: a number for each site. */
enum sn_status sn_rule_noise(const struct sn_visit *s)
{
    const struct sn_random_attr *a = &s->op->attr.random;
    struct sn_slabs x = {0}, g = {0};
    enum sn_status st = sn_read(s, SN_NOISE_X, &x);
    if (st == SN_OK)
        st = sn_check_positions(s, &x, s->op->in[SN_NOISE_X].cols,
                                s->op->attr.position.context_rank);
    uint64_t name = sn_name_float(sn_name_float(sn_name(s->op->kind, a->site), a->drop), a->jitter);
    scale(&x, sn_field_of(name));
    if (st == SN_OK && sn_has_in(s, SN_NOISE_ADDEND))
        st = sn_read(s, SN_NOISE_ADDEND, &g);
    for (int i = 0; i < g.n && st == SN_OK; i++)
        st = sn_collect(s, &x, &g.t[i]);
    if (st == SN_OK)
        st = sn_write(s, SN_NOISE_Y, &x);
    sn_slabs_fini(&x);
    sn_slabs_fini(&g);
    return st;
}

/* --- gated activations ------------------------------------------------------------------------ */

/* The gates (0) or what they gate (1) of an operand. */
static struct sn_view half(const struct sn_view *v, int which)
{
    struct sn_view h = *v;
    h.cols = v->cols / 2;
    h.offset += which * h.cols;
    return h;
}

/* Where rows are those of experts, `bounds` says which there are. */
static enum sn_status check_bounds(const struct sn_visit *s, int x, int bounds)
{
    struct sn_slabs rows = {0};
    if (!sn_has_in(s, bounds))
        return SN_OK;
    enum sn_status st = sn_read(s, x, &rows);
    if (st == SN_OK)
        st = sn_check_route(s, bounds, &rows);
    sn_slabs_fini(&rows);
    return st;
}

static enum sn_status zip_halves(const struct sn_visit *s, const struct sn_view *x,
                                 struct sn_zip *z, bool begun)
{
    struct sn_slabs slabs = {0};
    enum sn_status st = SN_OK;
    for (int i = 0; i < 2 && st == SN_OK; i++) {
        struct sn_view v = half(x, i);
        st = sn_read_view(s, &v, &slabs);
        if (st == SN_OK && (begun || i > 0))
            st = sn_zip_with(s, z, &slabs, SN_DIM_BOTH);
        else if (st == SN_OK)
            sn_zip_begin(z, &slabs);
    }
    sn_slabs_fini(&slabs);
    return st;
}

enum sn_status sn_rule_swiglu(const struct sn_visit *s)
{
    struct sn_zip z = {0};
    struct sn_slabs y = {0};
    SN_TRY(check_bounds(s, SN_SWIGLU_X, SN_SWIGLU_BOUNDS));
    enum sn_status st = zip_halves(s, &s->op->in[SN_SWIGLU_X], &z, false);
    sn_map(&z, sn_name(SN_OP_SWIGLU, s->op->attr.gate), &y);
    return write_and_free(s, st, SN_SWIGLU_Y, &y, &z);
}

enum sn_status sn_rule_swiglu_dx(const struct sn_visit *s)
{
    struct sn_zip z = {0};
    struct sn_slabs dx = {0};
    SN_TRY(check_bounds(s, SN_SWIGLU_DX_X, SN_SWIGLU_DX_BOUNDS));
    enum sn_status st = sn_read(s, SN_SWIGLU_DX_DY, &dx);
    if (st == SN_OK) {
        sn_zip_begin(&z, &dx);
        st = zip_halves(s, &s->op->in[SN_SWIGLU_DX_X], &z, true);
    }
    for (int i = 0; i < 2 && st == SN_OK; i++) {
        struct sn_view v = half(&s->op->out[SN_SWIGLU_DX_DX], i);
        sn_map(&z, sn_name(SN_OP_SWIGLU_DX, (uint64_t)(2 * s->op->attr.gate) + (uint64_t)i), &dx);
        st = sn_write_view(s, &v, SN_ACC_WRITE, &dx);
    }
    sn_slabs_fini(&dx);
    sn_zip_fini(&z);
    return st;
}

/* --- moves inside a rank ---------------------------------------------------------------------- */

/* a x b blocks of n elements, of which the one in row i and column k goes to row k, column i. */
struct blocks {
    int64_t a, b, n;
};

static int64_t place_of_block(const struct blocks *x, int64_t block)
{
    return (block % x->b * x->a + block / x->b) * x->n;
}

/* Rows of a slab that lie in one block each, `step` blocks apart: as many at once as stay in a row or
 * a column of blocks. */
static void transpose_rows(struct sn_slabs *y, const struct sn_slab *t, const struct blocks *x)
{
    int64_t step = t->rows > 1 ? t->ld / x->n : 1;
    bool down = step % x->b == 0; /* a column of blocks */
    for (int64_t r = 0, n; r < t->rows; r += n) {
        struct sn_slab part = *t;
        int64_t block = t->at / x->n + r * step, fit = (x->b - 1 - block % x->b) / step + 1;
        n = t->rows - r;
        if (!down && n > fit)
            n = fit;
        part.at = place_of_block(x, block) + t->at % x->n;
        part.rows = n;
        part.ld = n == 1 ? t->cols : (down ? step / x->b : step * x->a) * x->n;
        part.first[SN_SLAB_ROWS] += r;
        sn_slabs_push(y, &part);
    }
}

static void transpose_slab(struct sn_slabs *y, const struct sn_slab *t, const struct blocks *x)
{
    int64_t first = t->at / x->n, last = (t->at + (t->rows - 1) * t->ld + t->cols - 1) / x->n;
    if (first == last) {
        struct sn_slab all = *t;
        all.at += place_of_block(x, first) - first * x->n;
        sn_slabs_push(y, &all);
        return;
    }
    if (t->rows == 1 || t->ld % x->n == 0) {
        for (int64_t c = 0, n; c < t->cols; c += n) { /* of one block each */
            struct sn_slab part = *t;
            part.at += c;
            part.first[SN_SLAB_COLS] += c;
            n = x->n - part.at % x->n < t->cols - c ? x->n - part.at % x->n : t->cols - c;
            part.cols = n;
            part.ld = t->rows == 1 ? n : t->ld;
            transpose_rows(y, &part, x);
        }
        return;
    }
    for (int64_t block = first; block <= last; block++) {
        struct sn_area area = {block * x->n, 1, x->n, x->n};
        int before = y->n;
        (void)sn_slab_cut(y, t, &area);
        for (int q = before; q < y->n; q++)
            y->t[q].at += place_of_block(x, block) - block * x->n;
    }
}

enum sn_status sn_rule_transpose(const struct sn_visit *s)
{
    const struct sn_view *v = &s->op->in[SN_TRANSPOSE_X];
    struct blocks of = {s->op->attr.blocks_a, s->op->attr.blocks_b, 0};
    struct sn_slabs x = {0}, y = {0};
    of.n = v->rows * v->cols / (of.a * of.b);
    enum sn_status st = sn_read(s, SN_TRANSPOSE_X, &x);
    for (int i = 0; i < x.n && st == SN_OK; i++)
        transpose_slab(&y, &x.t[i], &of);
    if (st == SN_OK && y.failed)
        st = sn_visit_no_memory(s);
    if (st == SN_OK)
        st = sn_write(s, SN_TRANSPOSE_Y, &y);
    sn_slabs_fini(&x);
    sn_slabs_fini(&y);
    return st;
}
