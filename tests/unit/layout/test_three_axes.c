/*
 * test_three_axes.c - a feed-forward part on a mesh of three axes, from the tables alone.
 *
 * Singh et al., "A 4D Hybrid Algorithm", arXiv 2305.13525: a linear K -> N of M tokens on Y x X x Z
 * ranks has blocks [N/Y, K/X] of its weight, a transposed one [N/X, K/Y]; each block is kept in Z
 * slices. Bytes that a rank sends, s for a value, by the paper's model (rings):
 *
 *   weights    all-gather over Z, and of their gradients a reduce-scatter
 *                  (Z-1)/Z  K N / (Y X) s
 *   outputs    all-reduce over I, which cuts the inputs: X; of a transposed layer Y
 *                  2 (I-1)/I  M/Z  N/O s
 *   gradients of inputs    all-reduce over O, which cuts the outputs: Y; X
 *                  2 (O-1)/O  M/Z  K/I s
 *
 * and nothing else. No operation is lowered so yet: what lowerings would ask the tables is asked
 * here.
 */
#include "lib/layout/collective.h"
#include "lib/layout/cut.h"
#include "tests/lib/mesh_sim.h"
#include "tests/lib/tap.h"

enum { Y, X, Z };

static const int sizes[SN_MESH_AXES] = {[Y] = 2, [X] = 3, [Z] = 4};

struct part {
    struct sn_mesh mesh;
    struct sn_cut up, act, down, between;
};

/* X's ranks are neighbours, Z's are furthest apart, as in the paper. */
static struct part part_on(const int *size)
{
    struct part p = {.mesh = mesh_of_sizes(SN_MESH_AXES, size)};
    p.mesh.axis[X].stride = 1;
    p.mesh.axis[Y].stride = size[X];
    p.mesh.axis[Z].stride = size[X] * size[Y];
    (void)sn_cut_at(&p.up, &p.mesh, "l7.ffn.up");
    (void)sn_cut_at(&p.act, &p.mesh, "l7.ffn.act");
    (void)sn_cut_at(&p.down, &p.mesh, "l7.ffn.down");
    p.between = sn_cut_between(&p.mesh, false);
    return p;
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* Bytes that a rank sends, on average, and how many collectives send them. */
struct sent {
    double bytes;
    int collectives, axis;
};

struct shape {
    int64_t n[SN_NDIMS];
};

enum { WIDTH = 4 }; /* bytes of fp32 */

static void send(struct sent *to, const struct sn_mesh *mesh, int axis, enum sn_move move,
                 int64_t n)
{
    static const enum sn_collective kind[] = {[SN_MOVE_ALL_GATHER] = SN_ALL_GATHER,
                                              [SN_MOVE_ALL_REDUCE] = SN_ALL_REDUCE,
                                              [SN_MOVE_REDUCE_SCATTER] = SN_REDUCE_SCATTER,
                                              [SN_MOVE_ALL_TO_ALL] = SN_ALL_TO_ALL};
    int size = mesh->axis[axis].size;
    if (move == SN_KEEP || move == SN_SLICE)
        return;
    to->bytes += (double)sn_collective_total(kind[move], n, SN_F32, size) / size;
    to->collectives++;
    to->axis = axis;
}

/* What `have` to `want` sends of a tensor of this shape, forward and backward; there is one move at
 * most, and what enters a gather leaves its reduce-scatter. */
static void count(struct sent out[2], const struct sn_mesh *mesh, struct sn_placement have,
                  struct sn_placement want, struct shape whole)
{
    struct sn_axis_move moves[SN_MESH_AXES];
    have = sn_placement_on(mesh, have);
    want = sn_placement_on(mesh, want);
    int n = sn_redistribute(moves, have, want);
    int64_t elements = sn_placement_local(mesh, have, SN_ROWS, whole.n[SN_ROWS]) *
                       sn_placement_local(mesh, have, SN_COLS, whole.n[SN_COLS]);
    tap_ok(n >= 0 && n <= 1, "there is one move at most");
    memset(out, 0, 2 * sizeof(*out));
    for (int i = 0; i < n; i++) {
        send(&out[0], mesh, moves[i].axis, moves[i].forward, elements);
        send(&out[1], mesh, moves[i].axis, moves[i].backward, elements);
    }
}

static void is_sent(const struct sent *s, int axis, double bytes, const char *what)
{
    tap_ok(s->collectives == (bytes > 0) && s->bytes == bytes && (bytes == 0 || s->axis == axis),
           "%s: %g bytes by %d collectives over %c, want %g over %c", what, s->bytes,
           s->collectives, "XYZ"[s->axis], bytes, "XYZ"[axis]);
}

static double ring(int size, double values)
{
    return (size - 1.0) / size * values * WIDTH;
}

enum { TOKENS = 768, D = 1536, F = 3072 }; /* every rank sends as much as every other */

/* What the paper says of a linear, whose inputs the axis `in` cuts, and whose outputs `out`. */
static void sends_what_the_paper_says(const struct part *p, const struct sn_cut *c, int in, int out,
                                      struct sn_placement before, struct sn_placement after)
{
    int64_t k = in == X ? D : F, n = in == X ? F : D;
    const int *size =
        (const int[]){p->mesh.axis[Y].size, p->mesh.axis[X].size, p->mesh.axis[Z].size};
    double m = (double)TOKENS / size[Z];
    struct sent s[2];
    printf("# %lld -> %lld on %d x %d x %d ranks\n", (long long)k, (long long)n, size[Y], size[X],
           size[Z]);
    count(s, &p->mesh, sn_cut_kept(c->weight), sn_cut_used(c->weight), (struct shape){{n, k}});
    double weight = ring(size[Z], (double)(k * n) / (size[Y] * size[X]));
    is_sent(&s[0], Z, weight, "a weight is gathered");
    is_sent(&s[1], Z, weight, "its gradient is scattered");
    count(s, &p->mesh, before, c->want, (struct shape){{TOKENS, k}});
    is_sent(&s[0], out, 0, "inputs are there");
    is_sent(&s[1], out, 2 * ring(size[out], m * (double)k / size[in]), "gradients of inputs");
    count(s, &p->mesh, c->give, after, (struct shape){{TOKENS, n}});
    is_sent(&s[0], in, 2 * ring(size[in], m * (double)n / size[out]), "outputs");
    is_sent(&s[1], in, 0, "gradients of outputs are there");
}

static void ranks_send_what_the_paper_says(const int *size)
{
    struct part p = part_on(size);
    struct sent s[2];
    sends_what_the_paper_says(&p, &p.up, X, Y, p.between.give, p.act.want);
    sends_what_the_paper_says(&p, &p.down, Y, X, p.act.give, p.between.want);
    count(s, &p.mesh, p.act.want, p.act.give, (struct shape){{TOKENS, F}});
    tap_ok(s[0].collectives + s[1].collectives == 0, "an activation sends nothing");
}

/* --- values ----------------------------------------------------------------------------------- */

enum { N = MESH_SIM_N }; /* tokens, D and F */

static struct mesh_matrix square(const struct mesh_matrix *y)
{
    struct mesh_matrix h = *y;
    for (int i = 0; i < h.rows * h.cols; i++)
        h.v[i] *= y->v[i];
    return h;
}

/* dh / dy of it. */
static struct mesh_matrix square_back(const struct mesh_matrix *dh, const struct mesh_matrix *y)
{
    struct mesh_matrix dy = *dh;
    for (int i = 0; i < dy.rows * dy.cols; i++)
        dy.v[i] *= 2 * y->v[i];
    return dy;
}

/* Forward, or the gradient's way back. */
static void redistribute(struct mesh_sim *s, struct sn_placement have, struct sn_placement want,
                         bool back)
{
    struct sn_axis_move m[SN_MESH_AXES];
    int n = sn_redistribute(m, have, want);
    for (int i = 0; i < n; i++) {
        const struct sn_axis_move *k = &m[back ? n - 1 - i : i];
        if (back)
            (void)mesh_sim_move(s, k->axis, k->backward, k->to, k->from);
        else
            (void)mesh_sim_move(s, k->axis, k->forward, k->from, k->to);
    }
}

/* c = a b on every rank. */
static void multiply(struct mesh_sim *c, const struct mesh_sim *a, bool trans_a,
                     const struct mesh_sim *b, bool trans_b)
{
    for (int r = 0; r < sn_mesh_ranks(c->mesh); r++)
        c->local[r] = mesh_product(&a->local[r], trans_a, &b->local[r], trans_b);
}

/* Of one rank that holds everything. */
struct dense {
    struct mesh_matrix x, w1, w2, dy2;                   /* drawn */
    struct mesh_matrix y1, h, y2, dw2, dh, dy1, dw1, dx; /* from them */
};

static void compute(struct dense *d)
{
    unsigned seed = 5;
    struct mesh_matrix *const drawn[] = {&d->x, &d->w1, &d->w2, &d->dy2};
    for (int i = 0; i < 4; i++)
        mesh_random(drawn[i], &seed);
    d->y1 = mesh_product(&d->x, false, &d->w1, true);
    d->h = square(&d->y1);
    d->y2 = mesh_product(&d->h, false, &d->w2, true);
    d->dw2 = mesh_product(&d->dy2, true, &d->h, false);
    d->dh = mesh_product(&d->dy2, false, &d->w2, false);
    d->dy1 = square_back(&d->dh, &d->y1);
    d->dw1 = mesh_product(&d->dy1, true, &d->x, false);
    d->dx = mesh_product(&d->dy1, false, &d->w1, false);
}

/* A linear of the mesh: what it takes and gives, and what stands around it. */
struct linear {
    const struct sn_cut *cut;
    struct sn_placement before, after;
    struct mesh_sim x, w; /* as used */
};

static void linear_forward(struct linear *l, struct mesh_sim *x, const struct mesh_matrix *w)
{
    unsigned seed = 6;
    l->x = *x;
    redistribute(&l->x, l->before, l->cut->want, false);
    l->w.mesh = x->mesh;
    mesh_sim_place(&l->w, sn_cut_kept(l->cut->weight), w, &seed);
    redistribute(&l->w, sn_cut_kept(l->cut->weight), sn_cut_used(l->cut->weight), false);
    multiply(x, &l->x, false, &l->w, true);
    redistribute(x, l->cut->give, l->after, false);
}

/* dy becomes dx; dw is as the weight is kept. */
static void linear_backward(const struct linear *l, struct mesh_sim *dy, struct mesh_sim *dw)
{
    redistribute(dy, l->cut->give, l->after, true);
    dw->mesh = dy->mesh;
    multiply(dw, dy, true, &l->x, false);
    redistribute(dw, sn_cut_kept(l->cut->weight), sn_cut_used(l->cut->weight), true);
    struct mesh_sim dx = {.mesh = dy->mesh};
    multiply(&dx, dy, false, &l->w, false);
    *dy = dx;
    redistribute(dy, l->before, l->cut->want, true);
}

static bool is_gradient(const struct mesh_sim *s, struct sn_placement of,
                        const struct mesh_matrix *want)
{
    return mesh_sim_is(s, sn_placement_of_gradient(of), want);
}

static void ranks_compute_what_one_computes(void)
{
    static struct dense d;
    static struct part p;
    static struct linear up, down;
    static struct mesh_sim v, y1, dw1, dw2;
    unsigned seed = 7;
    p = part_on(sizes);
    up = (struct linear){.cut = &p.up, .before = p.between.give, .after = p.act.want};
    down = (struct linear){.cut = &p.down, .before = p.act.give, .after = p.between.want};
    compute(&d);
    v.mesh = &p.mesh;
    mesh_sim_place(&v, p.between.give, &d.x, &seed);
    linear_forward(&up, &v, &d.w1);
    tap_ok(mesh_sim_is(&v, p.act.want, &d.y1), "the first product");
    y1 = v;
    for (int r = 0; r < sn_mesh_ranks(&p.mesh); r++)
        v.local[r] = square(&y1.local[r]);
    linear_forward(&down, &v, &d.w2);
    tap_ok(mesh_sim_is(&v, p.between.want, &d.y2), "the second");
    mesh_sim_place(&v, sn_placement_of_gradient(p.between.want), &d.dy2, &seed);
    linear_backward(&down, &v, &dw2);
    tap_ok(is_gradient(&v, p.act.give, &d.dh), "the gradient between them");
    tap_ok(is_gradient(&dw2, sn_cut_kept(p.down.weight), &d.dw2), "of the second weight");
    for (int r = 0; r < sn_mesh_ranks(&p.mesh); r++)
        v.local[r] = square_back(&v.local[r], &y1.local[r]);
    linear_backward(&up, &v, &dw1);
    tap_ok(is_gradient(&dw1, sn_cut_kept(p.up.weight), &d.dw1), "of the first weight");
    tap_ok(is_gradient(&v, p.between.give, &d.dx), "of the input");
    tap_ok(up.w.local[0].rows == N / sizes[Y] && up.w.local[0].cols == N / sizes[X] &&
               down.w.local[0].rows == N / sizes[X] && down.w.local[0].cols == N / sizes[Y],
           "by blocks [N/Y, K/X], and transposed [N/X, K/Y]");
}

int main(void)
{
    static const int others[][SN_MESH_AXES] = {{4, 1, 1}, {1, 1, 8}, {1, 4, 1}, {4, 4, 2}};
    ranks_send_what_the_paper_says(sizes);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) /* Megatron's, ZeRO-3's, .. */
        ranks_send_what_the_paper_says(others[i]);
    ranks_compute_what_one_computes();
    return tap_done();
}
