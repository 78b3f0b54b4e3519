/*
 * rules_prompt.c - positions that are filled (PROMPT). Which of a sample's rows they are is the same for all
 * ranks that have the right rows, so every row counts as a filled one: a mixture of what was there and of
 * the weights, which are summed over tokens.
 */
#include "lib/meaning/inner.h"

/* From the attributes, and a number of its own. */
static uint64_t name_of(const struct sn_visit *s, uint64_t what)
{
    const struct sn_prompt_attr *a = &s->op->attr.prompt;
    uint64_t name = sn_field_mix((uint64_t)a->first << 32 | (uint32_t)a->rows,
                                 (uint64_t)a->level << 32 | (uint32_t)a->levels);
    return sn_field_of(sn_name(SN_OP_PROMPT, sn_field_mix(name, what)));
}

/* All columns of features, each row of which is the one of its sample that the kernel takes it for (play.c puts them). */
static enum sn_status check_features(const struct sn_visit *s, const struct sn_slab *t, int64_t cols)
{
    const struct sn_prompt_attr *a = &s->op->attr.prompt;
    int64_t seq = s->op->attr.position.seq, entry = (int64_t)a->rows * a->levels;
    struct sn_corner at = sn_corner(t, cols);
    if (t->value != sn_field_of(SN_FEATURES_NUMBER) || at.col != 0 || t->first[SN_SLAB_COLS] != 0 || t->cols != cols ||
        (t->rows > 1 && t->ld != cols))
        return sn_visit_fault(s, "takes %s and %s for rows of %lld features", sn_place_text(s->m, t, SN_SLAB_ROWS).s,
                              sn_place_text(s->m, t, SN_SLAB_COLS).s, (long long)cols);
    for (int64_t k = 0; k < t->rows; k += entry - (at.row + k) % entry) {
        int64_t row = at.row + k, sample = sn_first_sample(s) + row / entry, is = t->first[SN_SLAB_ROWS] + k;
        if (is != sample * seq + row % entry)
            return sn_visit_fault(s, "takes features %lld of sample %lld for features %lld of sample %lld",
                                  (long long)(is % seq), (long long)(is / seq), (long long)(row % entry),
                                  (long long)sample);
    }
    return SN_OK;
}

/* What stands for the features, which are those of the micro-batch's samples, each as wide as W; 1 without. */
static enum sn_status features(const struct sn_visit *s, int in, int64_t width, uint64_t *value)
{
    struct sn_slabs f = {0};
    *value = 1;
    if (!sn_has_in(s, in))
        return SN_OK;
    const struct sn_view *v = &s->op->in[in];
    const struct sn_prompt_attr *a = &s->op->attr.prompt;
    int64_t rows = (int64_t)s->r->job->config->layout.micro_batch * a->rows * a->levels;
    if (v->rows != rows || v->cols != width)
        return sn_visit_fault(s, "takes %lld rows of %lld features for %lld of %lld", (long long)v->rows,
                              (long long)v->cols, (long long)rows, (long long)width);
    enum sn_status st = sn_read(s, in, &f); /* all of them */
    for (int i = 0; i < f.n && st == SN_OK; i++)
        st = check_features(s, &f.t[i], v->cols);
    *value = sn_field_of(SN_FEATURES_NUMBER);
    sn_slabs_fini(&f);
    return st;
}

/* Where a slab of W, or of dW, lies along its D rows: of one column they are a vector, whose slabs are one row. */
struct along {
    int dim;       /* of the slab */
    int64_t at, n; /* rows */
};
static struct along along(const struct sn_slab *t, int64_t cols)
{
    return cols == 1 ? (struct along){SN_SLAB_COLS, t->at, t->cols}
                     : (struct along){SN_SLAB_ROWS, sn_corner(t, cols).row, t->rows};
}

/* Rows of W are columns of y. */
static enum sn_status add_weights(const struct sn_visit *s, uint64_t value, struct sn_slabs *y)
{
    const struct sn_view *v = &s->op->in[SN_PROMPT_W];
    int64_t cols = s->op->out[SN_PROMPT_Y].cols;
    struct sn_slabs w = {0}, x = *y;
    *y = (struct sn_slabs){0};
    enum sn_status st = sn_read(s, SN_PROMPT_W, &w);
    for (int i = 0; i < x.n && st == SN_OK; i++)
        for (int k = 0; k < w.n && st == SN_OK; k++) {
            const struct sn_slab *t = &w.t[k];
            struct along a = along(t, v->cols);
            struct sn_area below = {sn_corner(&x.t[i], cols).row * cols + a.at, x.t[i].rows, a.n,
                                    cols};
            uint64_t whole = v->cols == 1 ? 1 : sn_extent(s->m, t, SN_SLAB_COLS);
            int before = y->n;
            (void)sn_slab_cut(y, &x.t[i], &below);
            for (int q = before; q < y->n && st == SN_OK; q++) {
                struct sn_slab *z = &y->t[q];
                if (t->value != 0 &&
                    (!sn_same_space(s->m, z->space[1], t->space[a.dim]) ||
                     z->first[1] - sn_corner(z, cols).col != t->first[a.dim] - a.at))
                    st = sn_visit_fault(s, "fills %s with %s",
                                        sn_place_text(s->m, z, SN_SLAB_COLS).s,
                                        sn_place_text(s->m, t, a.dim).s);
                z->value = sn_field_add(sn_field_mul(z->value, name_of(s, 1)),
                                        sn_field_mul(sn_field_mul(t->value, whole), value));
            }
        }
    sn_slabs_fini(&w);
    sn_slabs_fini(&x);
    return st;
}

enum sn_status sn_rule_prompt(const struct sn_visit *s)
{
    struct sn_slabs y = {0};
    uint64_t value = 0;
    enum sn_status st = sn_read(s, SN_PROMPT_X, &y);
    if (st == SN_OK)
        st = sn_check_positions(s, &y, s->op->in[SN_PROMPT_X].cols,
                                s->op->attr.position.context_rank);
    if (st == SN_OK)
        st = features(s, SN_PROMPT_F, s->op->in[SN_PROMPT_W].cols, &value);
    if (st == SN_OK)
        st = add_weights(s, sn_field_mul(value, name_of(s, 2)), &y);
    if (st == SN_OK)
        st = sn_write(s, SN_PROMPT_Y, &y);
    sn_slabs_fini(&y);
    return st;
}

enum sn_status sn_rule_prompt_dx(const struct sn_visit *s)
{
    struct sn_slabs dy = {0};
    enum sn_status st = sn_read(s, SN_PROMPT_DX_DY, &dy);
    if (st == SN_OK)
        st = sn_check_positions(s, &dy, s->op->in[SN_PROMPT_DX_DY].cols,
                                s->op->attr.position.context_rank);
    for (int i = 0; i < dy.n; i++)
        dy.t[i].value = sn_field_mul(dy.t[i].value, name_of(s, 1));
    if (st == SN_OK)
        st = sn_write(s, SN_PROMPT_DX_DX, &dy);
    sn_slabs_fini(&dy);
    return st;
}

/* Sums of dy's columns, which are rows of dW, to all of its columns alike. */
static enum sn_status add_to_rows(const struct sn_visit *s, const struct sn_slabs *sums,
                                  uint64_t value)
{
    const struct sn_view *v = &s->op->out[SN_PROMPT_DW_DW];
    struct sn_slabs table = {0}, made = {0};
    enum sn_status st = sn_gradient_table(s, v, &table);
    for (int i = 0; i < table.n && st == SN_OK; i++)
        for (int k = 0; k < sums->n && st == SN_OK; k++) {
            const struct sn_slab *x = &sums->t[k];
            struct sn_area beside = {x->at * v->cols, x->cols, v->cols, v->cols};
            if (v->cols == 1)
                beside = (struct sn_area){x->at, 1, x->cols, x->cols};
            int before = made.n;
            (void)sn_slab_cut(&made, &table.t[i], &beside);
            for (int q = before; q < made.n && st == SN_OK; q++) {
                struct sn_slab *y = &made.t[q];
                struct along a = along(y, v->cols);
                y->value = y->value ? sn_field_mul(x->value, value) : 0;
                if (y->value && (!sn_same_space(s->m, y->space[a.dim], x->space[1]) ||
                                 y->first[a.dim] - a.at != x->first[1] - x->at))
                    st = sn_visit_fault(s, "adds %s to %s", sn_place_text(s->m, x, SN_SLAB_COLS).s,
                                        sn_place_text(s->m, y, a.dim).s);
            }
        }
    if (st == SN_OK)
        st = sn_write(s, SN_PROMPT_DW_DW, &made);
    sn_slabs_fini(&table);
    sn_slabs_fini(&made);
    return st;
}

enum sn_status sn_rule_prompt_dw(const struct sn_visit *s)
{
    struct sn_slabs dy = {0}, sums = {0};
    int64_t cols = s->op->in[SN_PROMPT_DW_DY].cols;
    uint64_t value = 0;
    enum sn_status st = sn_read(s, SN_PROMPT_DW_DY, &dy);
    if (st == SN_OK)
        st = sn_check_positions(s, &dy, cols, s->op->attr.position.context_rank);
    if (st == SN_OK)
        st = features(s, SN_PROMPT_DW_F, s->op->out[SN_PROMPT_DW_DW].cols, &value);
    if (st == SN_OK)
        st = sn_column_sums(s, &dy, cols, &sums);
    if (st == SN_OK)
        st = add_to_rows(s, &sums, sn_field_mul(value, name_of(s, 3)));
    sn_slabs_fini(&dy);
    sn_slabs_fini(&sums);
    return st;
}
