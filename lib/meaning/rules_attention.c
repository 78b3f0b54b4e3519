/*
 * rules_attention.c - attention, whose sums over keys are made in parts, and rotary positions.
 *
 * Rows are taken in runs: tokens of one sample whose positions follow one another, as they are dealt
 * to context ranks. A run of queries that ends at position p attends to the keys before p. What a
 * run of keys adds to the result is the result times the share of its interval in 0 .. p, so that
 * all of them add up to the result itself. The same holds for gradients of keys and values, which
 * sum over the queries from their own position to the end of the sample, and over the query heads
 * that share them. With prefixes a query may see any key of its sample: there the interval is all of it,
 * and each pair of runs has to meet.
 */
#include "lib/meaning/inner.h"

/* One run of queries with one run of keys, and one head of keys. */
struct pair {
    struct sn_row_run q, k;
    int head; /* of keys, of this rank */
};

enum sn_status sn_matrix_load(const struct sn_visit *s, int in, struct sn_matrix *m)
{
    m->cols = s->op->in[in].cols;
    SN_TRY(sn_read(s, in, &m->slabs));
    return sn_are_rectangles(s, &m->slabs, m->cols);
}

/* Positions that are dealt together. */
static int64_t dealt(const struct sn_position_attr *a)
{
    int64_t per_rank = sn_rows_per_sample(a);
    return a->context > 1 && a->zigzag ? per_rank / 2 : per_rank;
}

/* The run that begins with a row; false: no slab has that row, or it is of no tokens. */
static bool next_run(const struct sn_visit *s, const struct sn_matrix *m, int64_t row, struct sn_row_run *out)
{
    int64_t seq = s->op->attr.position.seq, chunk = dealt(&s->op->attr.position);
    for (int i = 0; i < m->slabs.n; i++) {
        const struct sn_slab *t = &m->slabs.t[i];
        int64_t first = sn_corner(t, m->cols).row;
        if (row < first || row >= first + t->rows || t->space[0] != SN_SPACE_TOKENS)
            continue;
        int64_t token = t->first[SN_SLAB_ROWS] + row - first, to_end = chunk - token % chunk;
        int64_t left = first + t->rows - row;
        *out = (struct sn_row_run){row, left < to_end ? left : to_end, token / seq, token % seq};
        return true;
    }
    return false;
}

enum sn_status sn_matrix_look(const struct sn_visit *s, const struct sn_matrix *m, const struct sn_row_run *r,
                           int64_t col, int64_t n, struct sn_slab *out)
{
    struct sn_area want = {r->row * m->cols + col, r->n, n, r->n > 1 ? m->cols : n};
    struct sn_slabs cut = {0};
    for (int i = 0; i < m->slabs.n && cut.n == 0; i++)
        (void)sn_slab_cut(&cut, &m->slabs.t[i], &want);
    bool whole = cut.n == 1 && cut.t[0].rows == r->n && cut.t[0].cols == n;
    if (cut.n > 0)
        *out = cut.t[0];
    sn_slabs_fini(&cut);
    return whole ? SN_OK
                 : sn_visit_fault(s, "reads a sum of which rows %lld to %lld are not equally far",
                                  (long long)r->row, (long long)(r->row + r->n - 1));
}

/* --- who attends to whom ---------------------------------------------------------------------- */

static int heads_of_key(const struct sn_visit *s)
{
    const struct sn_attention_attr *a = &s->op->attr.attention;
    return a->heads / a->kv_heads;
}

/* Heads of queries that read this head of keys or values, each `width` wide, by their numbers in the model. */
static enum sn_status check_heads(const struct sn_visit *s, const struct sn_slab *q,
                                  const struct sn_slab *k, int64_t width)
{
    const struct sn_model_config *m = &s->m->config->model;
    int64_t d = s->op->attr.attention.head_dim, per_key = m->heads / m->kv_heads;
    int64_t first = q->first[SN_SLAB_COLS] / d, last = first + q->cols / d - 1,
            key = k->first[SN_SLAB_COLS] / width;
    if (q->value == 0 || (first / per_key == key && last / per_key == key))
        return SN_OK;
    return sn_visit_fault(s, "lets query heads %lld to %lld read key head %lld", (long long)first,
                          (long long)last, (long long)key);
}

/* Which keys a query sees is said by an operand of two columns: perhaps those behind it, too. */
static bool sees_behind(const struct sn_visit *s)
{
    int in = s->op->kind == SN_OP_ATTENTION ? SN_ATTENTION_STARTS : SN_ATTENTION_DX_STARTS;
    return s->op->kind != SN_OP_ATTENTION_ROWS && s->op->in[in].buf >= 0 && s->op->in[in].cols > 1;
}

static uint64_t length(const struct sn_visit *s, int64_t from, int64_t end)
{
    return sn_interval(s->m, SN_SPACE_POSITIONS, from, end - from);
}

static uint64_t share(uint64_t part, uint64_t whole)
{
    return part == 0 ? 0 : sn_field_mul(part, sn_field_inverse(whole));
}

/* Of the keys that the queries attend to. */
static uint64_t share_of_keys(const struct sn_visit *s, const struct pair *p)
{
    int64_t end = sees_behind(s) ? s->op->attr.position.seq : p->q.from + p->q.n;
    int64_t to = p->k.from + p->k.n < end ? p->k.from + p->k.n : end;
    if (p->k.from >= end)
        return 0;
    return share(length(s, p->k.from, to), length(s, 0, end));
}

/* Of the queries that attend to the keys, and of the query heads that share them. */
static uint64_t share_of_queries(const struct sn_visit *s, const struct pair *p,
                                 const struct sn_slab *q)
{
    const struct sn_model_config *m = &s->m->config->model;
    int64_t end = p->q.from + p->q.n, least = sees_behind(s) ? 0 : p->k.from;
    int64_t from = p->q.from > least ? p->q.from : least;
    if (from >= end)
        return 0;
    int64_t d = s->op->attr.attention.head_dim, per_key = m->heads / m->kv_heads;
    int64_t head = q->first[SN_SLAB_COLS] / d, first = head / per_key * per_key;
    uint64_t of_heads = share(sn_interval(s->m, SN_SPACE_HEADS, head, q->cols / d),
                              sn_interval(s->m, SN_SPACE_HEADS, first, per_key));
    uint64_t whole = length(s, least, s->op->attr.position.seq);
    return sn_field_mul(share(length(s, from, end), whole), of_heads);
}

struct sn_slab sn_result_at(const struct sn_slab *like, const struct sn_row_run *r, int64_t col,
                                int64_t n, int64_t cols)
{
    struct sn_slab t = *like;
    t.at = r->row * cols + col;
    t.rows = r->n;
    t.cols = n;
    t.ld = r->n > 1 ? cols : n;
    return t;
}

/* Of values that are as wide as keys, what attention gives has the coordinates of its queries; of latents
 * those that the values have. `col` counts columns of queries. */
static struct sn_slab output_at(const struct sn_visit *s, const struct sn_slab *q, const struct sn_row_run *r,
                                int64_t col, int64_t cols)
{
    const struct sn_attention_attr *a = &s->op->attr.attention;
    int64_t d = a->head_dim, e = sn_v_dim(a);
    struct sn_slab t = sn_result_at(q, r, col / d * e, q->cols / d * e, cols);
    if (a->v_dim > 0) {
        t.space[SN_SLAB_COLS] = SN_SPACE_VALUES;
        t.first[SN_SLAB_COLS] = q->first[SN_SLAB_COLS] / d * e;
    }
    return t;
}

/* --- walks over pairs ------------------------------------------------------------------------- */

struct walk {
    const struct sn_visit *s;
    struct sn_matrix q, k, v, o, d_o, lse, starts;
    struct sn_slabs out[3];
};
typedef enum sn_status on_pair(struct walk *w, const struct pair *p);

static enum sn_status for_keys(struct walk *w, struct pair *p, int64_t key_rows, on_pair *then)
{
    for (int64_t row = 0; row < key_rows && next_run(w->s, &w->k, row, &p->k); row += p->k.n) {
        if (p->k.sample != p->q.sample)
            continue;
        for (p->head = 0; p->head < w->s->op->attr.attention.kv_heads; p->head++)
            SN_TRY(then(w, p));
    }
    return SN_OK;
}

static enum sn_status for_pairs(struct walk *w, on_pair *then)
{
    struct pair p;
    const struct sn_view *in = w->s->op->in;
    for (int64_t row = 0; row < in[SN_ATTENTION_Q].rows; row += p.q.n) {
        if (!next_run(w->s, &w->q, row, &p.q))
            return sn_visit_fault(w->s, "reads queries that are no tokens");
        SN_TRY(for_keys(w, &p, in[SN_ATTENTION_K].rows, then));
    }
    return SN_OK;
}

static enum sn_status load_inputs(struct walk *w, int starts)
{
    const struct sn_visit *s = w->s;
    const struct sn_position_attr *a = &s->op->attr.position;
    SN_TRY(sn_matrix_load(s, SN_ATTENTION_Q, &w->q));
    SN_TRY(sn_matrix_load(s, SN_ATTENTION_K, &w->k));
    SN_TRY(sn_matrix_load(s, SN_ATTENTION_V, &w->v));
    if (sn_has_in(s, starts))
        SN_TRY(sn_matrix_load(s, starts, &w->starts));
    SN_TRY(sn_check_positions(s, &w->q.slabs, w->q.cols, a->context_rank));
    SN_TRY(sn_check_positions(s, &w->k.slabs, w->k.cols, a->key_rank));
    return sn_check_positions(s, &w->v.slabs, w->v.cols, a->key_rank);
}

static void walk_fini(struct walk *w)
{
    struct sn_slabs *of[] = {&w->q.slabs,   &w->k.slabs,     &w->v.slabs, &w->o.slabs,
                             &w->d_o.slabs, &w->lse.slabs,   &w->out[0],  &w->out[1],
                             &w->out[2],    &w->starts.slabs};
    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++)
        sn_slabs_fini(of[i]);
}

/* Queries, keys and values of a pair. */
struct three {
    struct sn_slab q, k, v;
    uint64_t name; /* of what they give, by where the queries' documents begin */
    int64_t col;   /* of the queries, and how many */
    int64_t n;
};

/* Starts lie by sample here and position: they have to be those of the queries. A row over what was kept is behind
 * its prompt, where they hide nothing that is kept: it gives what they give it in its window. */
static enum sn_status look_at_starts(struct walk *w, const struct pair *p, struct three *x)
{
    const struct sn_position_attr *a = &w->s->op->attr.position;
    int64_t here = p->q.row / sn_rows_per_sample(a) * a->seq + p->q.from;
    struct sn_row_run at = {.row = here, .n = p->q.n};
    struct sn_slab t;
    bool is_row = w->s->op->kind == SN_OP_ATTENTION_ROWS;
    bool behind = is_row && w->s->m->config->data.prefix != SN_PREFIX_NONE;
    x->name = behind ? sn_field_mix(sn_field_of(SN_STARTS_NUMBER), 2) : 0;
    if (w->starts.slabs.n == 0)
        return SN_OK;
    SN_TRY(sn_matrix_look(w->s, &w->starts, &at, 0, w->starts.cols, &t));
    if (t.space[0] != SN_SPACE_TOKENS || t.first[0] != p->q.sample * a->seq + p->q.from)
        return sn_visit_fault(w->s, "reads where documents of other tokens than its queries begin");
    x->name = sees_behind(w->s) ? sn_field_mix(t.value, 2) : t.value;
    return SN_OK;
}

static enum sn_status look_at(struct walk *w, const struct pair *p, struct three *x)
{
    const struct sn_visit *s = w->s;
    int64_t d = s->op->attr.attention.head_dim, e = sn_v_dim(&s->op->attr.attention);
    x->n = heads_of_key(s) * d;
    x->col = p->head * x->n;
    SN_TRY(look_at_starts(w, p, x));
    SN_TRY(sn_matrix_look(s, &w->q, &p->q, x->col, x->n, &x->q));
    SN_TRY(sn_matrix_look(s, &w->k, &p->k, p->head * d, d, &x->k));
    SN_TRY(sn_matrix_look(s, &w->v, &p->k, p->head * e, e, &x->v));
    SN_TRY(check_heads(s, &x->q, &x->k, d));
    return check_heads(s, &x->q, &x->v, e);
}

static uint64_t name_of(const struct sn_visit *s, uint64_t what, const struct three *x)
{
    const struct sn_random_attr *r = &s->op->attr.random;
    const struct sn_attention_attr *a = &s->op->attr.attention;
    uint64_t name = sn_name_float(sn_name(SN_OP_ATTENTION, what), a->scale);
    if (a->window > 0)
        name = sn_field_mix(name, (uint64_t)a->window);
    if (a->cap > 0)
        name = sn_name_float(name, a->cap);
    if (x->name != 0)
        name = sn_field_mix(name, x->name);
    return r->drop > 0 ? sn_name_float(sn_field_mix(name, r->site), r->drop) : name;
}

static enum sn_status forward(struct walk *w, const struct pair *p)
{
    const struct sn_visit *s = w->s;
    struct three x;
    SN_TRY(look_at(w, p, &x));
    uint64_t values[] = {x.q.value, x.k.value, x.v.value}, part = share_of_keys(s, p);
    int64_t d = s->op->attr.attention.head_dim, heads = heads_of_key(s);
    struct sn_slab o = output_at(s, &x.q, &p->q, x.col, s->op->out[SN_ATTENTION_O].cols);
    o.value = sn_field_mul(sn_function(name_of(s, 0, &x), values, 3), part);
    SN_TRY(sn_collect(s, &w->out[0], &o));
    if (!sn_has_out(s, SN_ATTENTION_LSE))
        return SN_OK;
    struct sn_slab lse =
        sn_result_at(&x.q, &p->q, p->head * heads, heads, s->op->out[SN_ATTENTION_LSE].cols);
    lse.space[SN_SLAB_COLS] = SN_SPACE_HEADS;
    lse.first[SN_SLAB_COLS] /= d;
    lse.value = sn_field_mul(sn_function(name_of(s, 1, &x), values, 2), part);
    return sn_collect(s, &w->out[1], &lse);
}

enum sn_status sn_rule_attention(const struct sn_visit *s)
{
    struct walk w = {.s = s};
    enum sn_status st = load_inputs(&w, SN_ATTENTION_STARTS);
    if (st == SN_OK)
        st = for_pairs(&w, forward);
    for (int i = 0; i < 2 && st == SN_OK; i++)
        st = sn_write(s, i, &w.out[i]);
    walk_fini(&w);
    return st;
}

/* Of what is kept, rows that nobody has written yet are behind the queries. */
static enum sn_status load_kept(const struct sn_visit *s, int in, struct sn_matrix *m)
{
    struct sn_op whole = *s->op; /* its positions are those of the sample */
    struct sn_visit of = *s;
    int64_t n;
    whole.attr.position.row0 = 0;
    of.op = &whole;
    m->cols = s->op->in[in].cols;
    SN_TRY(sn_read_written(s, &s->op->in[in], &m->slabs, &n));
    SN_TRY(sn_are_rectangles(s, &m->slabs, m->cols));
    return sn_check_positions(&of, &m->slabs, m->cols, 0);
}

/* What ATTENTION gives of these rows. */
enum sn_status sn_rule_attention_rows(const struct sn_visit *s)
{
    struct walk w = {.s = s};
    enum sn_status st = sn_matrix_load(s, SN_ATTENTION_ROWS_Q, &w.q);
    if (st == SN_OK)
        st = sn_check_positions(s, &w.q.slabs, w.q.cols, 0);
    if (st == SN_OK)
        st = load_kept(s, SN_ATTENTION_ROWS_K, &w.k);
    if (st == SN_OK)
        st = load_kept(s, SN_ATTENTION_ROWS_V, &w.v);
    if (st == SN_OK)
        st = for_pairs(&w, forward);
    if (st == SN_OK)
        st = sn_write(s, SN_ATTENTION_ROWS_O, &w.out[0]);
    walk_fini(&w);
    return st;
}

static enum sn_status backward(struct walk *w, const struct pair *p)
{
    const struct sn_visit *s = w->s;
    struct three x;
    struct sn_slab o, d_o, lse;
    int64_t heads = heads_of_key(s), e = sn_v_dim(&s->op->attr.attention);
    int64_t width[] = {s->op->attr.attention.head_dim, e};
    SN_TRY(look_at(w, p, &x));
    SN_TRY(sn_matrix_look(s, &w->o, &p->q, p->head * heads * e, heads * e, &o));
    SN_TRY(sn_matrix_look(s, &w->d_o, &p->q, p->head * heads * e, heads * e, &d_o));
    SN_TRY(sn_matrix_look(s, &w->lse, &p->q, p->head * heads, heads, &lse));
    if (o.first[0] != x.q.first[0] || d_o.first[0] != x.q.first[0] || lse.first[0] != x.q.first[0])
        return sn_visit_fault(s, "reads results and gradients of other tokens than its queries");
    uint64_t values[] = {x.q.value, x.k.value, x.v.value, o.value, d_o.value, lse.value};
    struct sn_slab dq = sn_result_at(&x.q, &p->q, x.col, x.n, s->op->out[SN_ATTENTION_DX_DQ].cols);
    dq.value = sn_field_mul(sn_function(name_of(s, 2, &x), values, 6), share_of_keys(s, p));
    SN_TRY(sn_collect(s, &w->out[0], &dq));
    uint64_t part = share_of_queries(s, p, &x.q);
    const struct sn_slab *of[] = {&x.k, &x.v};
    for (int i = 0; i < 2; i++) {
        struct sn_slab t = sn_result_at(of[i], &p->k, p->head * width[i], width[i], s->op->out[1 + i].cols);
        t.value = sn_field_mul(sn_function(name_of(s, 3 + (uint64_t)i, &x), values, 6), part);
        SN_TRY(sn_collect(s, &w->out[1 + i], &t));
    }
    return SN_OK;
}

enum sn_status sn_rule_attention_dx(const struct sn_visit *s)
{
    struct walk w = {.s = s};
    enum sn_status st = load_inputs(&w, SN_ATTENTION_DX_STARTS);
    if (st == SN_OK)
        st = sn_matrix_load(s, SN_ATTENTION_DX_O, &w.o);
    if (st == SN_OK)
        st = sn_matrix_load(s, SN_ATTENTION_DX_DO, &w.d_o);
    if (st == SN_OK)
        st = sn_matrix_load(s, SN_ATTENTION_DX_LSE, &w.lse);
    if (st == SN_OK)
        st = for_pairs(&w, backward);
    for (int i = 0; i < 3 && st == SN_OK; i++)
        st = sn_write(s, i, &w.out[i]);
    walk_fini(&w);
    return st;
}

/* --- rotary positions ------------------------------------------------------------------------- */

/* A rotation is linear: a number, and another one for its inverse. */
enum sn_status sn_rule_rope(const struct sn_visit *s)
{
    const struct sn_attention_attr *a = &s->op->attr.attention;
    const struct sn_view *v = &s->op->in[SN_ROPE_X];
    struct sn_slabs x = {0}, y = {0};
    enum sn_status st = sn_read(s, SN_ROPE_X, &x);
    if (st == SN_OK)
        st = sn_are_rectangles(s, &x, v->cols);
    if (st == SN_OK)
        st = sn_check_positions(s, &x, v->cols, s->op->attr.position.context_rank);
    uint64_t name = sn_name_float(sn_name(SN_OP_ROPE, s->op->attr.inverse), a->theta);
    name = sn_name_float(name, a->amplitude);
    if (a->rotary_from > 0 || a->interleaved)
        name = sn_field_mix(name, 2 * (uint64_t)a->rotary_from + a->interleaved);
    for (int i = 0; a->frequencies && i < a->rotary_dim / 2; i++)
        name = sn_name_float(name, (float)a->frequencies[i]);
    uint64_t turn = sn_field_of(sn_field_mix(name, (uint64_t)a->rotary_dim));
    int64_t turned = (int64_t)a->heads * a->head_dim;
    struct sn_area left = {0, v->rows, turned, v->cols};
    struct sn_area right = {turned, v->rows, v->cols - turned, v->cols};
    for (int i = 0; i < x.n; i++) {
        int before = y.n;
        (void)sn_slab_cut(&y, &x.t[i], &left);
        for (int k = before; k < y.n; k++)
            y.t[k].value = sn_field_mul(y.t[k].value, turn);
        if (turned < v->cols)
            (void)sn_slab_cut(&y, &x.t[i], &right);
    }
    if (st == SN_OK)
        st = sn_write(s, SN_ROPE_Y, &y);
    sn_slabs_fini(&x);
    sn_slabs_fini(&y);
    return st;
}
