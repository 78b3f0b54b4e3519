/*
 * gemm_bf16.c - a block of a product by tiles of bf16; see gemm_block.h and bf16.h.
 *
 * Tiles that need more operands than L2 delivers (AMX: 4 KiB in 64 cycles) work through short parts
 * of the depth: a strip of A of that part stays in L1 while all panels of a group of B pass by;
 * sums wait in scratch between parts. While a group is used, the next one is fetched. The sums of an
 * element are those of one pass over the depth, bit for bit.
 */
#include "kernels/cpu/gemm/gemm_block.h"

enum {
    GROUP = 768 * 1024, /* bytes of a group of panels, at most: a third of L2 */
    LINE = 64,          /* bytes of a cache line */
};

/* The rows at hand against the group of panels at hand. */
struct strip {
    const uint16_t *packed_a, *panels;
    int64_t row, rows;     /* of C */
    int64_t in_place;      /* so many of them are read where A is stored */
    int64_t col, cols;     /* of C */
    int64_t whole, near;   /* the depth with its zeros, and of a part */
    int64_t a_row, a_step; /* of packed strips */
};

/* Whole strips of a stored row-major A whose rows the instructions read as they lie. */
static int64_t rows_in_place(const struct sn_gemm_job *j, const struct sn_gemm_work *w,
                             int64_t rows)
{
    const struct sn_mat *a = &j->a->in[SN_GEMM_A];
    bool lies = j->bf16->reads_rows && !j->a->attr.gemm.trans_a && a->ld % 2048 != 0 &&
                w->depth % j->bf16->step == 0;
    return lies ? rows / j->mr * j->mr : 0;
}

static void last_part(const struct sn_gemm_job *j, const struct sn_gemm_work *w,
                      struct sn_bf16_tile *t, const int64_t at[2])
{
    float buffer[SN_GEMM_LARGEST];
    double terms[SN_GEMM_LARGEST];
    if (j->exact) { /* the whole block of k is one */
        memset(buffer, 0, sizeof(buffer));
        t->c = buffer;
        t->c_row = j->nr;
        t->rows = w->row + w->rows - at[0] < j->mr ? w->row + w->rows - at[0] : j->mr;
        t->cols = w->col + w->cols - at[1] < j->nr ? w->col + w->cols - at[1] : j->nr;
        j->bf16->tile(t);
        SN_K(sn_gemm_terms)(terms, buffer, j->mr * j->nr, j->shift, true);
        SN_K(sn_gemm_finish_exact)(j, w, at, terms);
        return;
    }
    struct sn_gemm_target to = SN_K(sn_gemm_target)(j, w, at, buffer);
    t->c = to.c;
    t->c_row = to.c_row;
    t->add = to.add;
    t->streams = to.streams;
    t->rows = to.rows;
    t->cols = to.cols;
    j->bf16->tile(t);
    SN_K(sn_gemm_finish)(j, w, &to);
}

/* The tile at row r and column c of the strip, over the part of the depth from l on. */
static void part(const struct sn_gemm_job *j, const struct sn_gemm_work *w, const struct strip *s,
                 const int64_t at[3])
{
    int64_t r = at[0], c = at[1], l = at[2];
    float *sums = w->near + c * j->mr;
    struct sn_bf16_tile t = {.depth = s->whole - l < s->near ? s->whole - l : s->near,
                             .b = s->panels + c * s->whole + l * j->nr,
                             .from = l > 0 ? sums : NULL,
                             .a_row = s->a_row,
                             .a_step = s->a_step};
    if (r < s->in_place) {
        const struct sn_mat *a = &j->a->in[SN_GEMM_A];
        t.a = (const uint16_t *)sn_mat_row(a, s->row + r) + w->l + l;
        t.a_row = a->ld;
    } else {
        t.a = s->packed_a + (r - s->in_place) * s->whole + l / j->bf16->a_group * s->a_step;
    }
    if (l + s->near >= s->whole) {
        last_part(j, w, &t, (int64_t[2]){s->row + r, s->col + c});
        return;
    }
    t.rows = s->rows - r < j->mr ? s->rows - r : j->mr;
    t.cols = s->cols - c < j->nr ? s->cols - c : j->nr;
    t.c = sums;
    t.c_row = j->nr;
    j->bf16->tile(&t);
}

static int64_t parts_of(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* Share `i` of `shares` of a block's cache lines, for its packing. */
static void ask_for(const struct sn_bf16_block *b, int64_t i, int64_t shares)
{
    enum { OF_LINE = LINE / sizeof(uint16_t) };
    int64_t rows = b->across ? b->depth : b->lines, cols = b->across ? b->lines : b->depth;
    int64_t per_row = parts_of(cols, OF_LINE), lines = rows * per_row;
    int64_t at = lines * i / shares, end = lines * (i + 1) / shares;
    const uint16_t *first = (const uint16_t *)sn_mat_row(b->x, b->across ? b->l : b->line) +
                            (b->across ? b->line : b->l);
    int64_t row = at / per_row, col = at % per_row;
    for (; at < end; at++) {
        __builtin_prefetch(first + row * b->x->ld + col * OF_LINE, 0, 2);
        if (++col == per_row) {
            col = 0;
            row++;
        }
    }
}

static void multiply(const struct sn_gemm_job *j, const struct sn_gemm_work *w,
                     const struct strip *s, const struct sn_bf16_block *next)
{
    int64_t share = 0, shares = parts_of(s->rows, j->mr) * parts_of(s->whole, s->near) *
                                parts_of(s->cols, j->nr);
    for (int64_t r = 0; r < s->rows; r += j->mr) {
        for (int64_t l = 0; l < s->whole; l += s->near) {
            for (int64_t c = 0; c < s->cols; c += j->nr) {
                if (next->lines > 0)
                    ask_for(next, share++, shares);
                part(j, w, s, (int64_t[3]){r, c, l});
            }
        }
    }
}

void SN_K(sn_gemm_rows_bf16)(const struct sn_gemm_job *j, const struct sn_gemm_work *w, int64_t row,
                             int64_t rows)
{
    const struct sn_bf16_products *f = j->bf16;
    bool trans_a = j->a->attr.gemm.trans_a, in_rows = f->reads_rows && !trans_a;
    struct strip s = {.packed_a = (uint16_t *)w->packed_a,
                      .row = row,
                      .rows = rows,
                      .in_place = rows_in_place(j, w, rows),
                      .whole = sn_bf16_depth(f, w->depth)};
    s.near = f->near ? f->near : s.whole;
    s.a_row = in_rows ? s.whole : f->a_group;
    s.a_step = in_rows ? f->a_group : f->a_group * j->mr;
    struct sn_bf16_block a = {&j->a->in[SN_GEMM_A],
                              trans_a,
                              row + s.in_place,
                              rows - s.in_place,
                              w->l,
                              w->depth,
                              j->mr,
                              s.a_row,
                              s.whole};
    uint16_t *line = (uint16_t *)w->line, *packed_b = (uint16_t *)w->packed_b;
    SN_K(sn_bf16_pack)(&a, line, (uint16_t *)w->packed_a);
    int64_t group = j->nr;
    if (f->near) {
        int64_t most = GROUP / 2 / s.whole < SN_GEMM_GROUP ? GROUP / 2 / s.whole : SN_GEMM_GROUP;
        group = most / j->nr * j->nr;
    }
    for (int64_t c = 0; c < w->cols; c += group) {
        uint16_t *panels = packed_b + (rows < w->rows ? c * s.whole : 0);
        struct sn_bf16_block b = {&j->a->in[SN_GEMM_B],
                                  !j->a->attr.gemm.trans_b,
                                  w->col + c,
                                  w->cols - c,
                                  w->l,
                                  w->depth,
                                  j->nr,
                                  f->b_group,
                                  s.whole};
        b.lines = b.lines < group ? b.lines : group;
        if (row == w->row)
            SN_K(sn_bf16_pack)(&b, line, panels);
        s.panels = panels;
        s.col = b.line;
        s.cols = b.lines;
        b.line += b.lines;
        b.lines = w->cols - c - s.cols < group ? w->cols - c - s.cols : group;
        if (row != w->row || !f->near)
            b.lines = 0; /* packed already, or fetched by the hardware */
        multiply(j, w, &s, &b);
    }
}
