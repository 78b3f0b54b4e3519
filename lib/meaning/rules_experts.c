/*
 * rules_experts.c - routers, and rows of tokens at the experts (struct sn_routing).
 *
 * What a router says of a token is a value of its row. A row at expert e has the token's value times
 * a number that stands for how much of it goes there, so that a sum over experts in which one is
 * missing, or another's, is another sum.
 */
#include "lib/meaning/inner.h"

/* How much of a token goes to expert e, by what the router said. */
static uint64_t part_of(uint64_t said, int64_t e)
{
    return sn_field_of(sn_field_mix(sn_name(SN_OP_MOE_PERMUTE, said), (uint64_t)e));
}

/* --- the router ------------------------------------------------------------------------------- */

/* The logits of each row as one value, in rows of `cols` equal columns. */
static enum sn_status by_rows(const struct sn_visit *s, int in, uint64_t name, int64_t cols,
                              struct sn_slabs *out)
{
    struct sn_slabs x = {0};
    int64_t width = s->op->in[in].cols;
    enum sn_status st = sn_read(s, in, &x);
    if (st == SN_OK)
        st = sn_are_rectangles(s, &x, width);
    for (int i = 0; i < x.n && st == SN_OK; i++) {
        struct sn_slab t = x.t[i];
        t.value = sn_field_mul(t.value, sn_extent(s->m, &t, SN_SLAB_COLS));
        t.at = sn_corner(&t, width).row * cols;
        t.cols = t.ld = cols;
        t.space[SN_SLAB_COLS] = SN_SPACE_FIXED;
        t.first[SN_SLAB_COLS] = 0;
        st = sn_collect(s, out, &t);
    }
    for (int i = 0; i < out->n; i++)
        out->t[i].value = sn_function(name, &out->t[i].value, 1);
    sn_slabs_fini(&x);
    return st;
}

static uint64_t name_of_router(const struct sn_visit *s, uint64_t what)
{
    const struct sn_experts_attr *a = &s->op->attr.experts;
    uint64_t name = sn_name(SN_OP_ROUTE, what + (a->sparsemixer ? 16 : 0) + (a->of_all ? 32 : 0) + (a->sigmoid ? 64 : 0));
    if (a->groups > 1)
        name = sn_field_mix(name, (uint64_t)a->groups << 32 | (uint64_t)a->top_groups);
    if (a->route_scale > 0)
        name = sn_name_float(name, a->route_scale);
    return a->sparsemixer ? sn_name_float(sn_field_mix(name, s->op->attr.random.site), a->range)
                          : name;
}

/* Of all experts, as one value. */
static enum sn_status value_of_bias(const struct sn_visit *s, uint64_t *out)
{
    struct sn_slabs bias = {0};
    *out = 0;
    if (!sn_has_in(s, SN_ROUTE_BIAS))
        return SN_OK;
    enum sn_status st = sn_read(s, SN_ROUTE_BIAS, &bias);
    for (int i = 0; i < bias.n && st == SN_OK; i++)
        *out = sn_field_add(
            *out, sn_field_mul(bias.t[i].value, sn_extent(s->m, &bias.t[i], SN_SLAB_COLS)));
    sn_slabs_fini(&bias);
    return st;
}

/* The rows of a slab, from the `from`-th on, that are of one sequence. */
static struct sn_slab of_sequence(const struct sn_visit *s, const struct sn_slab *x, int64_t from)
{
    struct sn_slab t = *x;
    int64_t seq = s->op->attr.position.seq;
    t.at += from * x->ld;
    t.first[SN_SLAB_ROWS] += from;
    int64_t left = seq - t.first[SN_SLAB_ROWS] % seq;
    t.rows = x->rows - from < left ? x->rows - from : left;
    return t;
}

/* Sums over the rows of each of so many sequences, which are named by its first token; of no rows they are 0. */
static enum sn_status sequence_sums(const struct sn_visit *s, const struct sn_slabs *rows, const struct sn_view *v,
                                    struct sn_slabs *out)
{
    enum sn_status st = SN_OK;
    int64_t cols = v->cols;
    struct sn_slab zeros = {0, v->rows, cols, cols, .space = {SN_SPACE_ANY, SN_SPACE_ANY}};
    sn_slabs_push(out, &zeros);
    for (int i = 0; i < rows->n; i++)
        for (int64_t from = 0; from < rows->t[i].rows && st == SN_OK;) {
            struct sn_slab t = of_sequence(s, &rows->t[i], from);
            from += t.rows;
            t.value = sn_field_mul(t.value, sn_extent(s->m, &t, SN_SLAB_ROWS));
            t.at = sn_row_sample(&s->op->attr.position, t.at / cols) * cols;
            t.rows = 1;
            t.first[SN_SLAB_ROWS] -= t.first[SN_SLAB_ROWS] % s->op->attr.position.seq;
            st = sn_collect(s, out, &t);
        }
    return st;
}

/* An output that depends on the logits of rows, and on the bias: rows, or their sums in all or in each sequence. */
static enum sn_status write_routes(const struct sn_visit *s, int out, uint64_t what, uint64_t bias)
{
    struct sn_slabs rows = {0}, sums = {0};
    int64_t cols = s->op->out[out].cols;
    bool counts = out == SN_ROUTE_COUNTS || out == SN_ROUTE_SEQUENCES;
    if (!sn_has_out(s, out))
        return SN_OK;
    enum sn_status st = by_rows(s, SN_ROUTE_LOGITS, sn_field_mix(name_of_router(s, what), bias), cols, &rows);
    for (int i = 0; i < rows.n && counts; i++)
        rows.t[i].space[SN_SLAB_COLS] = SN_SPACE_EXPERTS;
    if (st == SN_OK && counts)
        st = out == SN_ROUTE_COUNTS ? sn_column_sums(s, &rows, cols, &sums) : sequence_sums(s, &rows, &s->op->out[out], &sums);
    if (st == SN_OK)
        st = sn_write(s, out, counts ? &sums : &rows);
    sn_slabs_fini(&rows);
    sn_slabs_fini(&sums);
    return st;
}

enum sn_status sn_rule_route(const struct sn_visit *s)
{
    uint64_t bias;
    SN_TRY(value_of_bias(s, &bias));
    SN_TRY(write_routes(s, SN_ROUTE_W, 0, bias));
    SN_TRY(write_routes(s, SN_ROUTE_CHOICE, 1, bias));
    SN_TRY(write_routes(s, SN_ROUTE_P, 2, bias));
    SN_TRY(write_routes(s, SN_ROUTE_OWN, 1, 0));
    SN_TRY(write_routes(s, SN_ROUTE_COUNTS, 3, bias));
    return write_routes(s, SN_ROUTE_SEQUENCES, 3, sn_has_out(s, SN_ROUTE_OWN) ? 0 : bias);
}

/* Counts of the micro-batch's tokens on all replicas: as if they were those of all tokens, which is
 * what they stand for. Another sum gives another number. 0: no losses, or not on this rank. */
static enum sn_status value_of_counts(const struct sn_visit *s, int in, uint64_t *out)
{
    const struct sn_meaning *m = s->m;
    struct sn_slabs counts = {0};
    *out = 0;
    if (!sn_has_in(s, in))
        return SN_OK;
    *out = 1;
    if (m->config->model.experts.aux_loss <= 0 || s->op->attr.experts.by_sequence) /* nobody sums them, or others */
        return SN_OK;
    const struct sn_layout_config *l = &s->r->job->config->layout;
    int64_t of_micro = (int64_t)l->data * l->micro_batch * m->config->model.seq;
    enum sn_status st = sn_read(s, in, &counts);
    uint64_t part = m->is_reference
                        ? sn_interval(m, SN_SPACE_TOKENS, 0, s->r->job->rows)
                        : sn_interval(m, SN_SPACE_TOKENS, s->micro * of_micro, of_micro);
    uint64_t all =
        sn_interval(m, SN_SPACE_TOKENS, 0, m->is_reference ? s->r->job->rows : m->tokens);
    if (st == SN_OK && counts.n == 1)
        *out = sn_field_mul(sn_field_mul(counts.t[0].value, all), sn_field_inverse(part));
    sn_slabs_fini(&counts);
    return st;
}

/* What the counts of a sequence are over its tokens, if they are of it: that of each of them, in whichever
 * sequence. */
static enum sn_status value_of_sequence(const struct sn_visit *s, const struct sn_slabs *counts, int64_t cols,
                                        struct sn_slab *t)
{
    int64_t seq = s->op->attr.position.seq, row = sn_row_sample(&s->op->attr.position, t->at / t->cols);
    int64_t first = t->first[SN_SLAB_ROWS] - t->first[SN_SLAB_ROWS] % seq;
    uint64_t all = sn_interval(s->m, SN_SPACE_TOKENS, first, seq);
    for (int i = 0; i < counts->n; i++) {
        const struct sn_slab *c = &counts->t[i];
        int64_t from = sn_corner(c, cols).row;
        if (row < from || row >= from + c->rows)
            continue;
        if (c->cols != cols || c->first[SN_SLAB_ROWS] + row - from != first)
            return sn_visit_fault(s, "balances %s by counts of %s", sn_place_text(s->m, t, SN_SLAB_ROWS).s,
                                  sn_place_text(s->m, c, SN_SLAB_ROWS).s);
        t->value = sn_field_mul(c->value, sn_field_inverse(all));
        return SN_OK;
    }
    return sn_visit_fault(s, "reads no counts of %s", sn_place_text(s->m, t, SN_SLAB_ROWS).s);
}

/* What rows of `rows` are balanced by, beside them in z. */
static enum sn_status zip_counts(const struct sn_visit *s, struct sn_zip *z, int in, const struct sn_slabs *rows)
{
    struct sn_slabs counts = {0}, of = {0};
    bool each = s->op->attr.experts.by_sequence && sn_has_in(s, in);
    uint64_t value;
    SN_TRY(value_of_counts(s, in, &value));
    enum sn_status st = each ? sn_read(s, in, &counts) : SN_OK;
    for (int i = 0; i < rows->n; i++)
        for (int64_t from = 0; from < rows->t[i].rows && st == SN_OK;) {
            struct sn_slab t = each ? of_sequence(s, &rows->t[i], from) : rows->t[i];
            from += t.rows;
            t.value = value;
            if (each)
                st = value_of_sequence(s, &counts, s->op->in[in].cols, &t);
            sn_slabs_push(&of, &t);
        }
    if (st == SN_OK)
        st = sn_zip_with(s, z, &of, SN_DIM_ROWS);
    sn_slabs_fini(&counts);
    sn_slabs_fini(&of);
    return st;
}

/* What stands in each row of a vector for tokens, to be compared with rows of `cols` columns. */
static enum sn_status zip_tokens(const struct sn_visit *s, struct sn_zip *z, int in, int64_t cols)
{
    struct sn_slabs v = {0};
    int64_t width = s->op->in[in].cols;
    enum sn_status st = sn_read(s, in, &v);
    for (int i = 0; i < v.n && st == SN_OK; i++) {
        struct sn_slab *t = &v.t[i];
        t->at = sn_corner(t, width).row * cols;
        t->cols = t->ld = cols;
        t->space[SN_SLAB_COLS] = SN_SPACE_ANY;
    }
    if (st == SN_OK)
        st = sn_zip_with(s, z, &v, SN_DIM_ROWS);
    sn_slabs_fini(&v);
    return st;
}

/* Linear in dw, which may be a sum over ranks; the losses are added once. */
enum sn_status sn_rule_route_dx(const struct sn_visit *s)
{
    const struct sn_experts_attr *a = &s->op->attr.experts;
    int64_t cols = s->op->out[SN_ROUTE_DX_DLOGITS].cols;
    struct sn_slabs rows = {0}, out = {0};
    struct sn_zip z = {0};
    uint64_t name = sn_name_float(sn_name_float(name_of_router(s, 5), a->aux_loss), a->z_loss);
    enum sn_status st = by_rows(s, SN_ROUTE_DX_LOGITS, name_of_router(s, 4), cols, &rows);
    sn_zip_begin(&z, &rows);
    if (st == SN_OK)
        st = zip_tokens(s, &z, SN_ROUTE_DX_DW, cols);
    if (st == SN_OK)
        st = zip_tokens(s, &z, SN_ROUTE_DX_CHOICE, cols);
    if (st == SN_OK)
        st = zip_counts(s, &z, SN_ROUTE_DX_COUNTS, &rows);
    for (int i = 0; i < z.n; i++) {
        struct sn_slab t = z.t[i];
        uint64_t of[] = {z.value[i][0], z.value[i][2], z.value[i][3]};
        t.value = sn_field_mul(sn_function(name_of_router(s, 7), of, 2), z.value[i][1]);
        if (of[2])
            t.value = sn_field_add(t.value, sn_function(name, of, 3));
        t.space[SN_SLAB_COLS] = SN_SPACE_EXPERTS;
        sn_slabs_push(&out, &t);
    }
    if (st == SN_OK)
        st = sn_write(s, SN_ROUTE_DX_DLOGITS, &out);
    sn_slabs_fini(&rows);
    sn_slabs_fini(&out);
    sn_zip_fini(&z);
    return st;
}

enum sn_status sn_rule_route_loss(const struct sn_visit *s)
{
    struct sn_slabs rows = {0};
    struct sn_zip z = {0};
    uint64_t name = name_of_router(s, 6);
    enum sn_status st = by_rows(s, SN_ROUTE_LOSS_LOGITS, name, 1, &rows);
    sn_zip_begin(&z, &rows);
    if (st == SN_OK)
        st = zip_counts(s, &z, SN_ROUTE_LOSS_COUNTS, &rows);
    for (int i = 0; i < z.n && st == SN_OK; i++)
        for (int k = SN_TOLD_BALANCE; k <= SN_TOLD_Z; k++)
            s->r->told[k] = sn_field_add(s->r->told[k], sn_field_mul(sn_function(name, z.value[i], 2),
                                                                     sn_extent(s->m, &z.t[i], SN_SLAB_ROWS)));
    sn_slabs_fini(&rows);
    sn_zip_fini(&z);
    return st;
}

enum sn_status sn_rule_router_bias(const struct sn_visit *s)
{
    struct sn_slabs x = {0};
    struct sn_zip z = {0};
    enum sn_status st = sn_read_view(s, &s->op->out[SN_ROUTER_BIAS_BIAS], &x);
    sn_zip_begin(&z, &x);
    if (st == SN_OK)
        st = sn_read(s, SN_ROUTER_BIAS_COUNTS, &x);
    if (st == SN_OK)
        st = sn_zip_with(s, &z, &x, SN_DIM_COLS);
    sn_map(&z, sn_name_float(sn_name(SN_OP_ROUTER_BIAS, 0), s->op->attr.experts.rate), &x);
    if (st == SN_OK)
        st = sn_write_view(s, &s->op->out[SN_ROUTER_BIAS_BIAS], SN_ACC_WRITE, &x);
    sn_slabs_fini(&x);
    sn_zip_fini(&z);
    return st;
}

/* --- where rows go ---------------------------------------------------------------------------- */

/* One slab with a value, that tells of which tokens it is. */
static enum sn_status write_note(const struct sn_visit *s, int out, uint64_t value, int64_t token)
{
    const struct sn_view *v = &s->op->out[out];
    struct sn_slabs note = {0};
    struct sn_slab t = {.rows = v->rows,
                        .cols = v->cols,
                        .ld = v->cols,
                        .value = value,
                        .space = {SN_SPACE_TOKENS, SN_SPACE_FIXED},
                        .first = {token, 0}};
    sn_slabs_push(&note, &t);
    enum sn_status st = sn_write(s, out, &note);
    sn_slabs_fini(&note);
    return st;
}

enum sn_status sn_rule_moe_permute(const struct sn_visit *s)
{
    struct sn_slabs choice = {0};
    enum sn_status st = sn_read(s, SN_MOE_PERMUTE_CHOICE, &choice);
    if (st == SN_OK)
        st = sn_check_positions(s, &choice, s->op->in[SN_MOE_PERMUTE_CHOICE].cols,
                                s->op->attr.position.context_rank);
    int64_t token = choice.n > 0 ? choice.t[0].first[SN_SLAB_ROWS] : 0;
    for (int i = 0; i < choice.n; i++) {
        struct sn_slab *t = &choice.t[i];
        token = t->at == 0 ? t->first[SN_SLAB_ROWS] : token;
        t->value = sn_function(sn_name(SN_OP_MOE_PERMUTE, 1), &t->value, 1);
    }
    if (st == SN_OK)
        st = sn_write(s, SN_MOE_PERMUTE_PLACE, &choice);
    uint64_t value = choice.n > 0 ? choice.t[0].value : 0;
    if (st == SN_OK)
        st = write_note(s, SN_MOE_PERMUTE_BOUNDS, value, token);
    sn_slabs_fini(&choice);
    return st;
}

enum sn_status sn_rule_recv_offsets(const struct sn_visit *s)
{
    struct sn_slabs bounds = {0};
    enum sn_status st = sn_read(s, SN_RECV_OFFSETS_BOUNDS, &bounds);
    int64_t token = 0;
    for (int i = 0; i < bounds.n; i++)
        token = bounds.t[i].at == 0 ? bounds.t[i].first[SN_SLAB_ROWS] : token;
    if (st == SN_OK)
        st = write_note(s, SN_RECV_OFFSETS_ARRIVALS,
                        bounds.n > 0 ? sn_route_of_window(s, bounds.t[0].value) : 0, token);
    sn_slabs_fini(&bounds);
    return st;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Tokens' rows, beside `place` and the weights where there are some. */
static enum sn_status zip_routes(const struct sn_visit *s, struct sn_zip *z, int place, int w,
                                 int64_t cols)
{
    enum sn_status st = zip_tokens(s, z, place, cols);
    if (st == SN_OK && w >= 0 && sn_has_in(s, w))
        st = zip_tokens(s, z, w, cols);
    return st;
}

/* What a row counts at expert e: by its place, and its weight if z has one. */
static uint64_t weight_at(const struct sn_zip *z, int i, int64_t e)
{
    uint64_t part = part_of(z->value[i][1], e);
    return z->operands > 2 ? sn_field_mul(part, part_of(z->value[i][2], e)) : part;
}

enum sn_status sn_rule_dispatch(const struct sn_visit *s)
{
    const struct sn_routing *r = &s->r->routing;
    int64_t cols = s->op->in[SN_DISPATCH_X].cols;
    struct sn_slabs x = {0}, y = {0};
    struct sn_zip z = {0};
    enum sn_status st = sn_read(s, SN_DISPATCH_X, &x);
    sn_zip_begin(&z, &x);
    if (st == SN_OK)
        st = zip_routes(s, &z, SN_DISPATCH_PLACE, SN_DISPATCH_W, cols);
    for (int e = 0; e < r->experts && st == SN_OK; e++)
        for (int i = 0; i < z.n; i++) {
            struct sn_slab t = z.t[i];
            t.at += e * r->tokens * cols;
            t.value = sn_field_mul(z.value[i][0], weight_at(&z, i, e));
            t.route = z.value[i][1];
            sn_slabs_push(&y, &t);
        }
    if (st == SN_OK)
        st = sn_write(s, SN_DISPATCH_Y, &y);
    sn_slabs_fini(&x);
    sn_slabs_fini(&y);
    sn_zip_fini(&z);
    return st;
}

/* A routed row of tokens as the row of its expert's tokens; the expert in *e. */
static struct sn_slab of_expert(const struct sn_routing *r, const struct sn_slab *x, int64_t cols,
                                int64_t *e)
{
    struct sn_slab t = *x;
    *e = x->at / cols / r->tokens;
    t.at -= *e * r->tokens * cols;
    return t;
}

/* Rows of all experts, every one of them, cut where another expert's begin. */
static enum sn_status read_routed(const struct sn_visit *s, int in, int place, struct sn_slabs *out)
{
    const struct sn_routing *r = &s->r->routing;
    struct sn_area a = sn_view_area(s, &s->op->in[in]);
    struct sn_slabs x = {0};
    int64_t n, due = a.rows * a.cols;
    enum sn_status st = sn_read_written(s, &s->op->in[in], &x, &n);
    out->n = 0;
    if (st == SN_OK && n != due)
        st = sn_visit_fault(s, "reads '%s', where %lld of %lld elements have come back",
                            s->r->program->bufs[s->op->in[in].buf].name, (long long)n,
                            (long long)due);
    if (st == SN_OK)
        st = sn_check_route(s, place, &x);
    for (int64_t row = 0; row < a.rows && st == SN_OK; row += r->tokens) {
        struct sn_area block = {row * a.cols, 1, r->tokens * a.cols, r->tokens * a.cols};
        for (int i = 0; i < x.n; i++)
            (void)sn_slab_cut(out, &x.t[i], &block);
    }
    sn_slabs_fini(&x);
    return st == SN_OK && out->failed ? sn_visit_no_memory(s) : st;
}

enum sn_status sn_rule_combine(const struct sn_visit *s)
{
    const struct sn_routing *r = &s->r->routing;
    int64_t cols = s->op->out[SN_COMBINE_Y].cols, e;
    struct sn_slabs x = {0}, y = {0}, one = {0};
    enum sn_status st = read_routed(s, SN_COMBINE_X, SN_COMBINE_PLACE, &x);
    for (int i = 0; i < x.n && st == SN_OK; i++) {
        struct sn_zip z = {0};
        struct sn_slab t = of_expert(r, &x.t[i], cols, &e);
        one.n = 0;
        sn_slabs_push(&one, &t);
        sn_zip_begin(&z, &one);
        st = zip_routes(s, &z, SN_COMBINE_PLACE, SN_COMBINE_W, cols);
        for (int k = 0; k < z.n && st == SN_OK; k++) {
            t = z.t[k];
            t.route = 0;
            t.value = sn_field_mul(t.value, weight_at(&z, k, e));
            st = sn_collect(s, &y, &t);
        }
        sn_zip_fini(&z);
    }
    if (st == SN_OK && sn_has_in(s, SN_COMBINE_ADDEND))
        st = sn_read(s, SN_COMBINE_ADDEND, &x);
    for (int i = 0; i < x.n && st == SN_OK && sn_has_in(s, SN_COMBINE_ADDEND); i++)
        st = sn_collect(s, &y, &x.t[i]);
    if (st == SN_OK)
        st = sn_write(s, SN_COMBINE_Y, &y);
    sn_slabs_fini(&x);
    sn_slabs_fini(&y);
    sn_slabs_fini(&one);
    return st;
}

/* dw of a token: what its rows at all experts say, linear in dy and in them. */
enum sn_status sn_rule_combine_dw(const struct sn_visit *s)
{
    const struct sn_routing *r = &s->r->routing;
    int64_t cols = s->op->in[SN_COMBINE_DW_DY].cols, width = s->op->out[SN_COMBINE_DW_DW].cols, e;
    struct sn_slabs x = {0}, dy = {0}, dw = {0}, one = {0};
    enum sn_status st = read_routed(s, SN_COMBINE_DW_X, SN_COMBINE_DW_PLACE, &x);
    if (st == SN_OK)
        st = sn_read(s, SN_COMBINE_DW_DY, &dy);
    for (int i = 0; i < x.n && st == SN_OK; i++) {
        struct sn_zip z = {0};
        struct sn_slab t = of_expert(r, &x.t[i], cols, &e);
        one.n = 0;
        sn_slabs_push(&one, &t);
        sn_zip_begin(&z, &one);
        st = zip_tokens(s, &z, SN_COMBINE_DW_PLACE, cols);
        if (st == SN_OK)
            st = sn_zip_with(s, &z, &dy, SN_DIM_BOTH);
        for (int k = 0; k < z.n && st == SN_OK; k++) {
            t = z.t[k];
            t.value = sn_field_mul(
                sn_field_mul(z.value[k][0], z.value[k][2]),
                sn_field_mul(part_of(z.value[k][1], e), sn_extent(s->m, &t, SN_SLAB_COLS)));
            t.at = sn_corner(&t, cols).row * width;
            t.cols = t.ld = width;
            t.space[SN_SLAB_COLS] = SN_SPACE_FIXED;
            t.first[SN_SLAB_COLS] = 0;
            st = sn_collect(s, &dw, &t);
        }
        sn_zip_fini(&z);
    }
    if (st == SN_OK)
        st = sn_write(s, SN_COMBINE_DW_DW, &dw);
    sn_slabs_fini(&x);
    sn_slabs_fini(&dy);
    sn_slabs_fini(&dw);
    sn_slabs_fini(&one);
    return st;
}
