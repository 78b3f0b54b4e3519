#include "tests/lib/mesh_sim.h"

struct sn_mesh mesh_of_sizes(int n, const int *size)
{
    static const char *const name[SN_MESH_AXES] = {"x", "y", "z"};
    struct sn_mesh m = {.n_axes = n};
    int stride = 1;
    for (int a = n - 1; a >= 0; a--) {
        m.axis[a] = (struct sn_mesh_axis){.name = name[a],
                                          .use = (enum sn_mesh_use)a,
                                          .group = (enum sn_group)a,
                                          .size = size[a],
                                          .stride = stride};
        stride *= size[a];
    }
    return m;
}

static double small(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (double)((*seed >> 16) % 9) - 4;
}

void mesh_random(struct mesh_matrix *m, unsigned *seed)
{
    m->rows = m->cols = MESH_SIM_N;
    for (int i = 0; i < MESH_SIM_N * MESH_SIM_N; i++)
        m->v[i] = small(seed);
}

static double at(const struct mesh_matrix *m, bool trans, int r, int c)
{
    return trans ? m->v[c * m->cols + r] : m->v[r * m->cols + c];
}

struct mesh_matrix mesh_product(const struct mesh_matrix *a, bool trans_a,
                                const struct mesh_matrix *b, bool trans_b)
{
    struct mesh_matrix c = {.rows = trans_a ? a->cols : a->rows,
                            .cols = trans_b ? b->rows : b->cols};
    int inner = trans_a ? a->rows : a->cols;
    for (int i = 0; i < c.rows; i++)
        for (int j = 0; j < c.cols; j++)
            for (int k = 0; k < inner; k++)
                c.v[i * c.cols + j] += at(a, trans_a, i, k) * at(b, trans_b, k, j);
    return c;
}

/* --- parts of matrices ------------------------------------------------------------------------ */

static int length(const struct mesh_matrix *m, enum sn_dim d)
{
    return d == SN_ROWS ? m->rows : m->cols;
}

/* Block i of n along a dimension. */
static struct mesh_matrix block_of(const struct mesh_matrix *m, enum sn_dim d, int n, int i)
{
    struct mesh_matrix b = {.rows = d == SN_ROWS ? m->rows / n : m->rows,
                            .cols = d == SN_COLS ? m->cols / n : m->cols};
    int row = d == SN_ROWS ? b.rows * i : 0, col = d == SN_COLS ? b.cols * i : 0;
    for (int r = 0; r < b.rows; r++)
        for (int c = 0; c < b.cols; c++)
            b.v[r * b.cols + c] = m->v[(row + r) * m->cols + col + c];
    return b;
}

/* b behind what is there. */
static void append(struct mesh_matrix *m, const struct mesh_matrix *b, enum sn_dim d)
{
    struct mesh_matrix was = *m;
    if (was.rows == 0) {
        *m = *b;
        return;
    }
    *(d == SN_ROWS ? &m->rows : &m->cols) += length(b, d);
    for (int r = 0; r < m->rows; r++)
        for (int c = 0; c < m->cols; c++)
            m->v[r * m->cols + c] = r < was.rows && c < was.cols ? was.v[r * was.cols + c]
                                    : d == SN_ROWS ? b->v[(r - was.rows) * b->cols + c]
                                                   : b->v[r * b->cols + c - was.cols];
}

static void add(struct mesh_matrix *m, const struct mesh_matrix *b, double factor)
{
    if (m->rows == 0) {
        m->rows = b->rows;
        m->cols = b->cols;
    }
    for (int i = 0; i < m->rows * m->cols; i++)
        m->v[i] += factor * b->v[i];
}

static bool is_same(const struct mesh_matrix *a, const struct mesh_matrix *b)
{
    bool same = a->rows == b->rows && a->cols == b->cols;
    for (int i = 0; same && i < a->rows * a->cols; i++)
        same = a->v[i] == b->v[i];
    return same;
}

/* --- placements, by definition ---------------------------------------------------------------- */

/* What the slices leave to a rank. */
static struct mesh_matrix slice_at(const struct sn_mesh *mesh, struct sn_placement p,
                                   const struct mesh_matrix *x, int rank)
{
    struct mesh_matrix m = *x;
    for (int a = 0; a < mesh->n_axes; a++)
        if (p.axis[a].kind == SN_SHARD)
            m = block_of(&m, p.axis[a].dim, mesh->axis[a].size, sn_mesh_coord(mesh, a, rank));
    return m;
}

/* The rank with coordinate 0 on all axes of the given kinds. */
static int first_of(const struct sn_mesh *mesh, struct sn_placement p, int rank, unsigned kinds)
{
    for (int a = 0; a < mesh->n_axes; a++)
        if (kinds >> p.axis[a].kind & 1u)
            rank = sn_mesh_member(mesh, a, rank, 0);
    return rank;
}

enum { COPIES = 1u << SN_REPLICATE | 1u << SN_REPLICATE_PARTIAL_GRAD, SUMS = 1u << SN_PARTIAL };

void mesh_sim_place(struct mesh_sim *s, struct sn_placement p, const struct mesh_matrix *x,
                    unsigned *seed)
{
    for (int r = 0; r < sn_mesh_ranks(s->mesh); r++) {
        int first = first_of(s->mesh, p, r, SUMS); /* of the summands, and not behind r */
        struct mesh_matrix *m = &s->local[r];
        *m = slice_at(s->mesh, p, x, r);
        if (first == r || first_of(s->mesh, p, r, COPIES) != r)
            continue;
        for (int i = 0; i < m->rows * m->cols; i++) {
            m->v[i] = small(seed);
            s->local[first].v[i] -= m->v[i];
        }
    }
    for (int r = 0; r < sn_mesh_ranks(s->mesh); r++)
        s->local[r] = s->local[first_of(s->mesh, p, r, COPIES)];
}

bool mesh_sim_is(const struct mesh_sim *s, struct sn_placement p, const struct mesh_matrix *x)
{
    int n = sn_mesh_ranks(s->mesh);
    for (int r = 0; r < n; r++) {
        struct mesh_matrix want = slice_at(s->mesh, p, x, r), sum = {0};
        int origin = first_of(s->mesh, p, r, COPIES), first = first_of(s->mesh, p, r, SUMS);
        if (s->local[r].rows != want.rows || s->local[r].cols != want.cols ||
            !is_same(&s->local[r], &s->local[origin]))
            return false;
        for (int k = 0; k < n && first == r; k++)
            if (first_of(s->mesh, p, k, SUMS) == r)
                add(&sum, &s->local[k], 1);
        if (first == r && !is_same(&sum, &want))
            return false;
    }
    return true;
}

double mesh_sim_inner(const struct mesh_sim *g, const struct mesh_sim *x, struct sn_placement p)
{
    double sum = 0;
    for (int r = 0; r < sn_mesh_ranks(g->mesh); r++)
        if (first_of(g->mesh, p, r, 1u << SN_REPLICATE) == r)
            for (int i = 0; i < x->local[r].rows * x->local[r].cols; i++)
                sum += g->local[r].v[i] * x->local[r].v[i];
    return sum;
}

/* --- collectives, by definition --------------------------------------------------------------- */

/* What a rank has after the move: `i` is its coordinate, `peer` all ranks of its group. */
static struct mesh_matrix moved(const struct mesh_matrix *const *peer, int n, int i,
                                enum sn_move move, const enum sn_dim dims[2])
{
    struct mesh_matrix m = {0}, b;
    for (int k = 0; k < n; k++)
        if (move == SN_MOVE_ALL_GATHER) {
            append(&m, peer[k], dims[0]);
        } else if (move == SN_MOVE_ALL_TO_ALL) {
            b = block_of(peer[k], dims[1], n, i);
            append(&m, &b, dims[0]);
        } else {
            add(&m, peer[k], 1);
        }
    return move == SN_MOVE_REDUCE_SCATTER ? block_of(&m, dims[1], n, i) : m;
}

static bool fits(const struct mesh_matrix *m, int n, enum sn_move move, const enum sn_dim dims[2])
{
    bool grows = move == SN_MOVE_ALL_GATHER || move == SN_MOVE_ALL_TO_ALL;
    bool shrinks = move == SN_SLICE || move == SN_MOVE_REDUCE_SCATTER || move == SN_MOVE_ALL_TO_ALL;
    return !(grows && length(m, dims[0]) * n > MESH_SIM_N) &&
           !(shrinks && length(m, dims[1]) % n != 0);
}

bool mesh_sim_move(struct mesh_sim *s, int axis, enum sn_move move, enum sn_dim from,
                   enum sn_dim to)
{
    struct mesh_sim was = *s;
    const enum sn_dim dims[] = {from, to};
    int n = s->mesh->axis[axis].size, ranks = sn_mesh_ranks(s->mesh);
    if (move == SN_KEEP)
        return true;
    if (move == SN_NEVER || !fits(&s->local[0], n, move, dims))
        return false;
    for (int r = 0; r < ranks; r++) {
        const struct mesh_matrix *peer[MESH_SIM_RANKS];
        int i = sn_mesh_coord(s->mesh, axis, r);
        for (int k = 0; k < n; k++)
            peer[k] = &was.local[sn_mesh_member(s->mesh, axis, r, k)];
        s->local[r] =
            move == SN_SLICE ? block_of(peer[i], to, n, i) : moved(peer, n, i, move, dims);
    }
    return true;
}
