/*
 * test_redistribute.c - the moves of a value as text, on a mesh of two axes of outputs, which no
 * layout has: each axis sends over its own group, forward and back; and what the text computes, on
 * ranks that hold matrices, from every placement to every other.
 */
#include "lib/base/mem.h"
#include "lib/program/build.h"
#include "tests/lib/mesh_sim.h"
#include "tests/lib/tap.h"

enum { X, Y, RANK_ROWS = 24, COLS = 5 };

static const int sizes[] = {[X] = 2, [Y] = 3};

/* A job with a mesh, and a text with one value in it. */
struct scene {
    struct sn_config config;
    struct sn_job job;
    struct sn_program p;
    struct sn_value_place value;
    struct sn_emit e;
};

static void begin(struct scene *s, bool sequence_parallel, struct sn_placement have)
{
    *s = (struct scene){.config.layout.sequence_parallel = sequence_parallel};
    s->job = (struct sn_job){
        .config = &s->config, .mesh = mesh_of_sizes(2, sizes), .rows = RANK_ROWS, .rank = 4};
    s->job.mesh.axis[Y].use = SN_MESH_OUTPUTS;
    s->e = (struct sn_emit){.job = &s->job, .p = &s->p, .value = &s->value, .train = true};
    int b = sn_buffer_add(&s->p, SN_CLASS_TEMP, SN_F32, sn_rows_here(&s->job, have), COLS, "y");
    s->value = (struct sn_value_place){.buf = b, .have = have, .used = -1};
    s->p.bufs[b].needs_grad = true;
}

static void end(struct scene *s)
{
    sn_free(s->p.bufs);
    sn_free(s->p.ops);
    sn_free(s->p.op_of_id);
    sn_free(s->e.gview);
    sn_free(s->e.origin);
    sn_free(s->e.again);
    sn_free(s->e.copied);
}

static struct sn_placement over_both(enum sn_placement_kind kind)
{
    return (struct sn_placement){{{kind, SN_ROWS}, {kind, SN_ROWS}}};
}

/* What the operations from `first` on do, waits left out: "all_reduce x 24". */
static void text_of(const struct scene *s, int first, struct sn_str *out)
{
    for (int i = first; i < s->p.n_ops; i++) {
        const struct sn_op *op = &s->p.ops[i];
        if (op->kind != SN_OP_WAIT)
            sn_str_add(out, "%s%s %s %lld", out->len ? ", " : "", sn_op_name(op->kind),
                       op->group == s->job.mesh.axis[X].group ? "x" : "y",
                       (long long)op->out[SN_MOVE_TO].rows);
    }
}

static void text_is(const struct scene *s, int first, const char *want, const char *what)
{
    struct sn_str got = {0};
    text_of(s, first, &got);
    tap_text(got.p ? got.p : "", want, what);
    sn_str_fini(&got);
}

/* The gradient of what was taken, back through all moves. */
static void go_back(struct scene *s, int buf, const char *want)
{
    int n = s->p.n_ops;
    struct sn_view dy = sn_view_all(&s->p, sn_buffer_like(&s->p, buf, "d"));
    sn_grad_set(&s->e, buf, dy);
    for (int i = n - 1; i >= 0; i--) {
        struct sn_op f = s->p.ops[i];
        if (f.kind != SN_OP_WAIT)
            sn_grad_move(&s->e, &f);
    }
    text_is(s, n, want, "and back");
    struct sn_view dx = sn_grad_get(&s->e, 0);
    tap_ok(dx.buf >= 0 && dx.rows == RANK_ROWS && dx.cols == COLS,
           "a sum's gradient is as long as the sum");
}

static void a_sum_is_taken(bool sequence_parallel, const char *sums, const char *enters,
                           const char *back)
{
    struct scene s;
    begin(&s, sequence_parallel, over_both(SN_PARTIAL));
    printf("# sequence_parallel: %d\n", sequence_parallel);
    int between = sn_take(&s.e, 0, sn_region(&s.job)).buf, n = s.p.n_ops;
    text_is(&s, 0, sums, "between blocks: summed over both axes");
    int used = sn_take(&s.e, 0, over_both(SN_REPLICATE_PARTIAL_GRAD)).buf, all = s.p.n_ops;
    text_is(&s, n, enters, "a layer: from there, both axes enter");
    tap_ok(sn_take(&s.e, 0, over_both(SN_REPLICATE_PARTIAL_GRAD)).buf == used &&
               sn_take(&s.e, 0, sn_region(&s.job)).buf == between && s.p.n_ops == all,
           "once, whoever asks");
    go_back(&s, used, back);
    end(&s);
}

static void moves_of_all_axes_are_emitted(void)
{
    a_sum_is_taken(false, "all_reduce x 24, all_reduce y 24", "alias x 24, alias y 24",
                   "all_reduce y 24, all_reduce x 24");
    a_sum_is_taken(true, "reduce_scatter x 12, reduce_scatter y 4",
                   "all_gather y 12, all_gather x 24",
                   "reduce_scatter x 12, reduce_scatter y 4, all_gather y 12, all_gather x 24");
}

static void rows_of_a_rank_are_those_of_its_place(void)
{
    struct scene s;
    begin(&s, true, over_both(SN_PARTIAL));
    bool seen[RANK_ROWS] = {false};
    int n = 0;
    for (s.job.rank = 0; s.job.rank < 6; s.job.rank++) {
        int64_t first = sn_first_row(&s.job, sn_region(&s.job));
        n += first % 4 == 0 && first < RANK_ROWS && !seen[first];
        seen[first] = true;
    }
    tap_ok(n == 6, "each of 6 ranks has 4 rows of its own");
    s.job.rank = sn_mesh_member(&s.job.mesh, X, sn_mesh_member(&s.job.mesh, Y, 0, 2), 1);
    tap_ok(sn_first_row(&s.job, sn_region(&s.job)) == 4 * (1 * 3 + 2), "x is the outer axis");
    unsigned x = 1u << s.job.mesh.axis[X].group, y = 1u << s.job.mesh.axis[Y].group;
    struct sn_placement rows = over_both(SN_REPLICATE);
    rows.axis[Y].kind = SN_SHARD;
    tap_ok(sn_same_rows(&s.job, sn_region(&s.job)) == 0 && sn_same_rows(&s.job, rows) == x &&
               sn_same_rows(&s.job, over_both(SN_PARTIAL)) == (x | y),
           "axes that cut no rows are those whose ranks have the same");
    struct sn_op op = sn_op_blank(SN_OP_GEMM);
    sn_add_once(&s.e, &op, SN_GEMM_BIAS, over_both(SN_PARTIAL));
    tap_ok(op.in_first == 1u << SN_GEMM_BIAS && op.first_of == (x | y),
           "a bias of a sum over both is added on the first of both");
    end(&s);
}

static void tokens_that_an_axis_shares_out_are_a_rank_s_own(void)
{
    struct scene s;
    begin(&s, false, over_both(SN_PARTIAL));
    int64_t rows = s.job.rows;
    tap_ok(sn_mesh_token_ranks(&s.job.mesh) == 1 && sn_rows_here(&s.job, sn_region(&s.job)) == rows,
           "no axis of outputs shares them out");
    s.job.mesh.axis[Y].use = SN_MESH_TOKENS;
    tap_ok(sn_mesh_token_ranks(&s.job.mesh) == 3 && sn_rows_here(&s.job, sn_region(&s.job)) == rows,
           "where one does, a rank has all of those that it was given");
    tap_ok(sn_same_rows(&s.job, sn_region(&s.job)) == 1u << s.job.mesh.axis[X].group,
           "which ranks of the other axis have, too");
    end(&s);
}

/* --- what the text computes ------------------------------------------------------------------- */

enum { RANKS = 6, BUFFERS = 32 };

/* All buffers of all ranks. */
struct machine {
    const struct sn_mesh *mesh;
    struct mesh_sim buf[BUFFERS];
};

/* [a x b blocks] -> [b x a blocks] */
static void swap(struct mesh_matrix *y, const struct mesh_matrix *x, int a, int b)
{
    int n = x->rows * x->cols / (a * b);
    for (int i = 0; i < a; i++)
        for (int k = 0; k < b; k++)
            memcpy(&y->v[(k * a + i) * n], &x->v[(i * b + k) * n], (size_t)n * sizeof(double));
}

/* What member k of n gives to member i: y is 0 before the first. */
static void send(double *y, const struct mesh_matrix *x, int kind, int k, const int in[2])
{
    int n = in[0], i = in[1], all = x->rows * x->cols, block = all / n;
    bool scatters = kind == SN_OP_REDUCE_SCATTER || kind == SN_OP_ALL_TO_ALL;
    const double *from = scatters ? &x->v[i * block] : x->v;
    y += kind == SN_OP_ALL_GATHER ? k * all : kind == SN_OP_ALL_TO_ALL ? k * block : 0;
    for (int e = 0; e < (scatters ? block : all); e++)
        y[e] += from[e];
}

static void run_op(struct machine *m, const struct sn_program *p, const struct sn_op *op)
{
    struct mesh_sim *y = &m->buf[op->out[0].buf], *x = &m->buf[op->in[0].buf];
    int a = op->group == m->mesh->axis[X].group ? X : Y, n = m->mesh->axis[a].size;
    for (int r = 0; r < RANKS; r++) {
        y->local[r] = (struct mesh_matrix){.rows = (int)p->bufs[op->out[0].buf].rows,
                                           .cols = (int)p->bufs[op->out[0].buf].cols};
        const int in[] = {n, sn_mesh_coord(m->mesh, a, r)};
        if (op->kind == SN_OP_TRANSPOSE)
            swap(&y->local[r], &x->local[r], (int)op->attr.blocks_a, (int)op->attr.blocks_b);
        else if (op->kind == SN_OP_ALIAS)
            y->local[r] = x->local[r];
        else
            for (int k = 0; k < n; k++)
                send(y->local[r].v, &x->local[sn_mesh_member(m->mesh, a, r, k)], op->kind, k, in);
    }
}

static void run(struct machine *m, const struct sn_program *p, int first)
{
    for (int i = first; i < p->n_ops; i++)
        if (p->ops[i].kind != SN_OP_WAIT)
            run_op(m, p, &p->ops[i]);
}

/* Are there moves, and none of them a slice, which no operation takes? */
static bool has_text(struct sn_placement have, struct sn_placement want)
{
    struct sn_axis_move m[SN_MESH_AXES];
    int n = sn_redistribute(m, have, want);
    for (int i = 0; i < n; i++)
        if (m[i].forward == SN_SLICE || m[i].backward == SN_SLICE)
            return false;
    return n >= 0;
}

/* Sums are taken first, and not into what each rank uses its own way (sn_take). */
static struct sn_placement with_sums(struct sn_placement have, struct sn_placement want)
{
    for (int a = 0; a < 2; a++)
        if (have.axis[a].kind == SN_PARTIAL)
            have.axis[a] = want.axis[a].kind == SN_REPLICATE_PARTIAL_GRAD
                               ? (struct sn_axis_placement){SN_REPLICATE, SN_ROWS}
                               : want.axis[a];
    return have;
}

/* Forward and backward; returns whether both are as placements say. */
static bool computes(struct sn_placement have, struct sn_placement want)
{
    static struct machine m;
    struct scene s;
    struct mesh_matrix x, dy;
    unsigned seed = 9;
    begin(&s, false, have);
    s.job.rows = MESH_SIM_N;
    s.p.bufs[0].rows = sn_placement_local(&s.job.mesh, have, SN_ROWS, MESH_SIM_N);
    s.p.bufs[0].cols = sn_placement_local(&s.job.mesh, have, SN_COLS, MESH_SIM_N);
    m.mesh = &s.job.mesh;
    for (int b = 0; b < BUFFERS; b++)
        m.buf[b].mesh = m.mesh;
    mesh_random(&x, &seed);
    mesh_random(&dy, &seed);
    mesh_sim_place(&m.buf[0], have, &x, &seed);
    int taken = sn_take(&s.e, 0, want).buf, n = s.p.n_ops;
    run(&m, &s.p, 0);
    bool good = mesh_sim_is(&m.buf[taken], want, &x);
    int d = sn_buffer_like(&s.p, taken, "d");
    mesh_sim_place(&m.buf[d], sn_placement_of_gradient(want), &dy, &seed);
    sn_grad_set(&s.e, taken, sn_view_all(&s.p, d));
    for (int i = n - 1; i >= 0; i--) {
        struct sn_op f = s.p.ops[i];
        if (f.kind != SN_OP_WAIT)
            sn_op_row(f.kind)->gradient(&s.e, &f);
    }
    run(&m, &s.p, n);
    int dx = sn_grad_get(&s.e, 0).buf;
    good = good && dx >= 0 && s.p.n_bufs <= BUFFERS &&
           mesh_sim_is(&m.buf[dx], sn_placement_of_gradient(have), &dy);
    end(&s);
    return good;
}

static void the_text_does_what_placements_say(void)
{
    static const struct sn_axis_placement kinds[] = {{SN_REPLICATE, SN_ROWS},
                                                     {SN_REPLICATE_PARTIAL_GRAD, SN_ROWS},
                                                     {SN_SHARD, SN_ROWS},
                                                     {SN_SHARD, SN_COLS},
                                                     {SN_PARTIAL, SN_ROWS}};
    int pairs = 0, wrong = 0;
    for (int i = 0; i < 5 * 5 * 5 * 5; i++) {
        struct sn_placement have = {{kinds[i % 5], kinds[i / 5 % 5]}};
        struct sn_placement want = {{kinds[i / 25 % 5], kinds[i / 125]}};
        struct sn_placement between = with_sums(have, want);
        if (!has_text(have, between) || !has_text(between, want))
            continue;
        pairs++;
        if (!computes(have, want) && wrong++ < 5)
            printf("# pair %d\n", i);
    }
    tap_ok(pairs > 100 && wrong == 0, "%d pairs on 2 x 3 ranks, forward and back: %d are wrong",
           pairs, wrong);
}

int main(void)
{
    moves_of_all_axes_are_emitted();
    rows_of_a_rank_are_those_of_its_place();
    tokens_that_an_axis_shares_out_are_a_rank_s_own();
    the_text_does_what_placements_say();
    return tap_done();
}
