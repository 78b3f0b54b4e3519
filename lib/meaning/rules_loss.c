/*
 * rules_loss.c - cross-entropy, also where ranks share out the words, and the end of a step: the
 * norm of the gradients, and the update.
 */
#include "lib/meaning/inner.h"

/* --- cross-entropy ---------------------------------------------------------------------------- */

/* Columns are the words that the attributes say. */
static enum sn_status check_words(const struct sn_visit *s, const struct sn_slabs *logits)
{
    int64_t cols = s->op->in[SN_CROSS_ENTROPY_LOGITS].cols;
    SN_TRY(sn_are_rectangles(s, logits, cols));
    for (int i = 0; i < logits->n; i++) {
        const struct sn_slab *t = &logits->t[i];
        if (t->value != 0 &&
            t->first[SN_SLAB_COLS] - sn_corner(t, cols).col != s->op->attr.vocab.first)
            return sn_visit_fault(s, "takes %s for words from %lld on",
                                  sn_place_text(s->m, t, SN_SLAB_COLS).s,
                                  (long long)s->op->attr.vocab.first);
    }
    return SN_OK;
}

/* Columns first .. first + n - 1 of the logits. */
static enum sn_status words_of(const struct sn_visit *s, int64_t first, int64_t n,
                               struct sn_slabs *out)
{
    const struct sn_view *v = &s->op->in[SN_CROSS_ENTROPY_LOGITS];
    struct sn_area area = {first, v->rows, n, v->cols};
    struct sn_slabs all = {0};
    enum sn_status st = sn_read(s, SN_CROSS_ENTROPY_LOGITS, &all);
    if (st == SN_OK)
        st = check_words(s, &all);
    for (int i = 0; i < all.n && st == SN_OK; i++)
        (void)sn_slab_cut(out, &all.t[i], &area);
    sn_slabs_fini(&all);
    return st;
}

/* What stands for a logit: a function of it, where there is a cap. */
static void cap(const struct sn_visit *s, struct sn_slabs *logits)
{
    uint64_t name = sn_name_float(sn_name(SN_OP_CROSS_ENTROPY, 3), s->op->attr.vocab.cap);
    for (int i = 0; i < logits->n && s->op->attr.vocab.cap > 0; i++)
        logits->t[i].value = sn_function(name, &logits->t[i].value, 1);
}

/* The sums over those words of rows here: with the targets, functions of a row. One column. */
static enum sn_status row_sums(const struct sn_visit *s, int64_t first, int64_t n,
                               struct sn_slabs *out)
{
    struct sn_slabs logits = {0};
    int64_t cols = s->op->in[SN_CROSS_ENTROPY_LOGITS].cols;
    enum sn_status st = words_of(s, first, n, &logits);
    cap(s, &logits);
    for (int i = 0; i < logits.n && st == SN_OK; i++) {
        struct sn_slab t = logits.t[i];
        struct sn_corner c = sn_corner(&t, cols);
        t.value = sn_field_mul(t.value, sn_extent(s->m, &t, SN_SLAB_COLS));
        t.at = c.row;
        t.cols = t.ld = 1;
        t.space[SN_SLAB_COLS] = SN_SPACE_FIXED;
        t.first[SN_SLAB_COLS] = 0;
        st = sn_collect(s, out, &t);
    }
    sn_slabs_fini(&logits);
    return st;
}

/* Part `p` of n words, as rows of what the operation gives. */
static enum sn_status one_part(const struct sn_visit *s, int64_t p, int64_t n,
                               const struct sn_slabs *targets, struct sn_slabs *out)
{
    struct sn_slabs sums = {0};
    struct sn_zip z = {0};
    int64_t width = s->op->out[SN_CE_PART_PART].cols, rows = s->op->in[SN_CE_PART_LOGITS].rows;
    enum sn_status st = row_sums(s, p * n, n, &sums);
    sn_zip_begin(&z, &sums);
    if (st == SN_OK)
        st = sn_zip_with(s, &z, targets, SN_DIM_ROWS);
    for (int i = 0; i < sums.n && st == SN_OK; i++) {
        struct sn_slab t = sums.t[i];
        t.at = (t.at + p * rows) * width;
        t.cols = t.ld = width;
        st = sn_collect(s, out, &t);
    }
    sn_slabs_fini(&sums);
    sn_zip_fini(&z);
    return st;
}

enum sn_status sn_rule_ce_part(const struct sn_visit *s)
{
    struct sn_slabs parts = {0}, targets = {0};
    int64_t cols = s->op->in[SN_CE_PART_LOGITS].cols;
    int64_t n = s->op->attr.exact.depth ? s->op->attr.exact.depth : cols;
    enum sn_status st = sn_read(s, SN_CE_PART_TARGETS, &targets);
    for (int64_t p = 0; p < cols / n && st == SN_OK; p++)
        st = one_part(s, p, n, &targets, &parts);
    if (st == SN_OK)
        st = sn_write(s, SN_CE_PART_PART, &parts);
    sn_slabs_fini(&parts);
    sn_slabs_fini(&targets);
    return st;
}

/* The parts of all ranks, which lie one under the other, added up. */
static enum sn_status sums_of_parts(const struct sn_visit *s, struct sn_slabs *out)
{
    const struct sn_view *v = &s->op->in[SN_CROSS_ENTROPY_PARTS];
    int64_t rows = s->op->in[SN_CROSS_ENTROPY_LOGITS].rows;
    struct sn_slabs parts = {0}, cut = {0};
    enum sn_status st = sn_read(s, SN_CROSS_ENTROPY_PARTS, &parts);
    out->n = 0;
    for (int64_t first = 0; first < v->rows && st == SN_OK; first += rows)
        for (int i = 0; i < parts.n && st == SN_OK; i++) {
            struct sn_area block = {first * v->cols, 1, rows * v->cols, rows * v->cols};
            cut.n = 0;
            (void)sn_slab_cut(&cut, &parts.t[i], &block);
            for (int k = 0; k < cut.n && st == SN_OK; k++) {
                struct sn_slab t = cut.t[k];
                t.at = t.at / v->cols - first;
                t.cols = t.ld = 1;
                t.first[SN_SLAB_COLS] = 0;
                st = sn_collect(s, out, &t);
            }
        }
    sn_slabs_fini(&parts);
    sn_slabs_fini(&cut);
    return st;
}

static void add_told(const struct sn_visit *s, int what, const struct sn_slabs *of_rows)
{
    uint64_t *told = &s->r->told[what];
    for (int i = 0; i < of_rows->n; i++)
        *told = sn_field_add(*told, sn_field_mul(of_rows->t[i].value,
                                                 sn_extent(s->m, &of_rows->t[i], SN_SLAB_ROWS)));
}

/* A row's loss is told with what says which set it is of. */
static enum sn_status tell_sets(const struct sn_visit *s, const struct sn_slabs *losses)
{
    struct sn_slabs sets = {0}, both = {0};
    struct sn_zip z = {0};
    enum sn_status st = sn_read(s, SN_CROSS_ENTROPY_SETS, &sets);
    sn_zip_begin(&z, losses);
    if (st == SN_OK)
        st = sn_zip_with(s, &z, &sets, SN_DIM_ROWS);
    if (st == SN_OK) {
        sn_map(&z, sn_name(SN_OP_CROSS_ENTROPY, 4), &both);
        add_told(s, SN_TOLD_SETS, &both);
    }
    sn_slabs_fini(&sets);
    sn_slabs_fini(&both);
    sn_zip_fini(&z);
    return st;
}

/* Rows that the step's loss has, and their losses. */
static enum sn_status tell_loss(const struct sn_visit *s, const struct sn_zip *rows)
{
    struct sn_slabs losses = {0};
    sn_map(rows, sn_name(SN_OP_CROSS_ENTROPY, 0), &losses);
    add_told(s, s->op->attr.vocab.weight > 0 ? SN_TOLD_BESIDE : SN_TOLD_LOSS, &losses);
    enum sn_status st = sn_write(s, SN_CROSS_ENTROPY_ROW_LOSS, &losses);
    if (st == SN_OK && sn_has_in(s, SN_CROSS_ENTROPY_SETS))
        st = tell_sets(s, &losses);
    if (st == SN_OK && sn_has_out(s, SN_CROSS_ENTROPY_ROW_Z)) {
        sn_map(rows, sn_name(SN_OP_CROSS_ENTROPY, 3), &losses);
        st = sn_write(s, SN_CROSS_ENTROPY_ROW_Z, &losses);
    }
    sn_slabs_fini(&losses);
    return st;
}

/* Values of rows at all columns. */
static void widen(struct sn_zip *rows, uint64_t name, int64_t cols, struct sn_slabs *out)
{
    sn_map(rows, name, out);
    for (int i = 0; i < out->n; i++) {
        out->t[i].at *= cols;
        out->t[i].cols = out->t[i].ld = cols;
        out->t[i].space[SN_SLAB_COLS] = SN_SPACE_ANY;
    }
}

/* rows: sums and targets. */
static enum sn_status gradients(const struct sn_visit *s, struct sn_zip *rows)
{
    struct sn_slabs logits = {0}, of_rows = {0};
    struct sn_zip z = {0};
    enum sn_status st = sn_read(s, SN_CROSS_ENTROPY_LOGITS, &logits);
    if (st == SN_OK)
        st = check_words(s, &logits);
    uint64_t name = sn_name_float(sn_name(SN_OP_CROSS_ENTROPY, 1), s->op->attr.vocab.z_loss);
    name = sn_name_float(name, s->op->attr.vocab.weight);
    widen(rows, name, s->op->in[SN_CROSS_ENTROPY_LOGITS].cols, &of_rows);
    sn_zip_begin(&z, &logits);
    if (st == SN_OK)
        st = sn_zip_with(s, &z, &of_rows, SN_DIM_ROWS);
    for (int i = 0; i < z.n; i++) /* padding has no gradient */
        z.value[i][1] = z.value[i][0] ? z.value[i][1] : 0;
    sn_map(&z, sn_name_float(sn_name(SN_OP_CROSS_ENTROPY, 2), s->op->attr.vocab.cap), &logits);
    if (st == SN_OK)
        st = sn_write(s, SN_CROSS_ENTROPY_DLOGITS, &logits);
    sn_slabs_fini(&logits);
    sn_slabs_fini(&of_rows);
    sn_zip_fini(&z);
    return st;
}

enum sn_status sn_rule_cross_entropy(const struct sn_visit *s)
{
    struct sn_slabs sums = {0}, targets = {0};
    struct sn_zip rows = {0};
    bool parts = sn_has_in(s, SN_CROSS_ENTROPY_PARTS);
    enum sn_status st = parts ? sums_of_parts(s, &sums)
                              : row_sums(s, 0, s->op->in[SN_CROSS_ENTROPY_LOGITS].cols, &sums);
    if (st == SN_OK)
        st = sn_read(s, SN_CROSS_ENTROPY_TARGETS, &targets);
    sn_zip_begin(&rows, &sums);
    if (st == SN_OK)
        st = sn_zip_with(s, &rows, &targets, SN_DIM_ROWS);
    if (st == SN_OK)
        st = tell_loss(s, &rows);
    if (st == SN_OK && sn_has_out(s, SN_CROSS_ENTROPY_DLOGITS))
        st = gradients(s, &rows);
    sn_slabs_fini(&sums);
    sn_slabs_fini(&targets);
    sn_zip_fini(&rows);
    return st;
}

/* --- the end of a step ------------------------------------------------------------------------ */

enum sn_status sn_rule_sq_norm(const struct sn_visit *s)
{
    struct sn_slabs g = {0};
    enum sn_status st = sn_read_view(s, &s->op->in[SN_SQ_NORM_G], &g);
    uint64_t *told = &s->r->told[SN_TOLD_SQ_NORM];
    for (int i = 0; i < g.n; i++) {
        const struct sn_slab *t = &g.t[i];
        uint64_t size = sn_field_mul(sn_extent(s->m, t, 0), sn_extent(s->m, t, 1));
        uint64_t square = sn_function(sn_name(SN_OP_SQ_NORM, 0), &t->value, 1);
        *told = sn_field_add(*told, sn_field_mul(square, size));
    }
    sn_slabs_fini(&g);
    return st;
}

enum sn_status sn_rule_clip_scale(const struct sn_visit *s)
{
    s->r->scale = sn_function(sn_name(SN_OP_CLIP_SCALE, s->op->attr.optimizer.dynamic_scale),
                              &s->r->told[SN_TOLD_SQ_NORM], 1);
    return SN_OK;
}

static uint64_t name_of_update(const struct sn_visit *s, int what)
{
    const struct sn_optimizer_attr *a = &s->op->attr.optimizer;
    uint64_t name = sn_name(s->op->kind, (uint64_t)what);
    const float of[] = {a->beta1, a->beta2, a->eps, a->momentum, a->decay, a->rate};
    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++)
        name = sn_name_float(name, of[i]);
    return name;
}

/* z has p, the moments, and the gradient; `what`: p (0), or a moment. */
static enum sn_status updated(const struct sn_visit *s, const struct sn_zip *z, int what, int out)
{
    struct sn_slabs y = {0};
    if (!sn_has_out(s, out))
        return SN_OK;
    sn_map(z, sn_field_mix(name_of_update(s, what), s->r->scale), &y);
    enum sn_status st = sn_write_view(s, &s->op->out[out], SN_ACC_WRITE, &y);
    sn_slabs_fini(&y);
    return st;
}

enum sn_status sn_rule_average(const struct sn_visit *s)
{
    struct sn_slabs x = {0};
    struct sn_zip z = {0};
    enum sn_status st = sn_read(s, SN_AVERAGE_P, &x);
    sn_zip_begin(&z, &x);
    if (st == SN_OK)
        st = sn_read_view(s, &s->op->out[SN_AVERAGE_E], &x);
    if (st == SN_OK)
        st = sn_zip_with(s, &z, &x, SN_DIM_BOTH);
    if (st == SN_OK)
        st = updated(s, &z, 0, SN_AVERAGE_E);
    sn_slabs_fini(&x);
    sn_zip_fini(&z);
    return st;
}

enum sn_status sn_rule_prune(const struct sn_visit *s)
{
    struct sn_slabs x = {0};
    struct sn_zip z = {0};
    enum sn_status st = sn_read_view(s, &s->op->out[SN_PRUNE_G], &x);
    sn_zip_begin(&z, &x);
    if (st == SN_OK)
        st = sn_read(s, SN_PRUNE_P, &x);
    if (st == SN_OK)
        st = sn_zip_with(s, &z, &x, SN_DIM_BOTH);
    if (st == SN_OK) {
        sn_map(&z, sn_name(SN_OP_PRUNE, 0), &x);
        st = sn_write_view(s, &s->op->out[SN_PRUNE_G], SN_ACC_WRITE, &x);
    }
    sn_slabs_fini(&x);
    sn_zip_fini(&z);
    return st;
}

enum sn_status sn_rule_update(const struct sn_visit *s)
{
    struct sn_slabs x = {0};
    struct sn_zip z = {0};
    enum sn_status st = sn_read_view(s, &s->op->out[SN_UPDATE_P], &x);
    sn_zip_begin(&z, &x);
    int64_t due = 0, found = 0;
    for (int i = 0; i < x.n; i++)
        due += x.t[i].rows * x.t[i].cols;
    for (int o = SN_UPDATE_M; o <= SN_UPDATE_V && st == SN_OK; o++)
        if (sn_has_out(s, o)) {
            st = sn_read_view(s, &s->op->out[o], &x);
            if (st == SN_OK)
                st = sn_zip_with(s, &z, &x, SN_DIM_BOTH);
        }
    if (st == SN_OK)
        st = sn_read_view(s, &s->op->in[SN_UPDATE_G], &x);
    if (st == SN_OK)
        st = sn_zip_with(s, &z, &x, SN_DIM_BOTH);
    for (int i = 0; i < z.n && st == SN_OK; i++) {
        found += z.t[i].rows * z.t[i].cols;
        z.t[i].value = z.value[i][0];
        st = sn_check_gradient(s, &z.t[i], z.value[i][z.operands - 1]);
    }
    if (st == SN_OK && found != due)
        st = sn_visit_fault(s, "updates %lld parameters, of which %lld have gradients and moments",
                            (long long)due, (long long)found);
    if (st == SN_OK)
        st = updated(s, &z, 0, SN_UPDATE_P);
    for (int o = SN_UPDATE_M; o <= SN_UPDATE_V && st == SN_OK; o++)
        st = updated(s, &z, o, o);
    if (st == SN_OK)
        st = updated(s, &z, 0, SN_UPDATE_W);
    sn_slabs_fini(&x);
    sn_zip_fini(&z);
    return st;
}
