/*
 * redistribute.c - values of the model, and the moves between the placements in which they are
 * given and taken.
 *
 * A lowering asks for a value as its point takes it (lib/layout/cut.h); the moves are derived from
 * that and from where the value is, one collective for each axis of the mesh at most, and emitted
 * here. Each is an operation with a gradient of its own, so the way back needs no second list.
 */
#include "lib/program/build.h"

#include <assert.h>

struct sn_cut sn_cut_of(const struct sn_job *j, const char *point)
{
    return sn_cut_on(&j->mesh, point, j->config->layout.sequence_parallel);
}

struct sn_placement sn_region(const struct sn_job *j)
{
    struct sn_cut c = sn_cut_between(&j->mesh, j->config->layout.sequence_parallel);
    return sn_placement_on(&j->mesh, c.want);
}

int64_t sn_rows_here(const struct sn_job *j, struct sn_placement p)
{
    return sn_placement_local(&j->mesh, p, SN_ROWS, j->rows * sn_mesh_token_ranks(&j->mesh));
}

int64_t sn_first_row(const struct sn_job *j, struct sn_placement p)
{
    struct sn_mesh_place at = sn_mesh_place(&j->mesh, j->rank);
    int64_t index = 0;
    for (int a = 0; a < j->mesh.n_axes; a++)
        if (sn_placement_cuts(p, a, SN_ROWS))
            index = index * at.size[a] + at.index[a];
    return index * sn_rows_here(j, p);
}

int64_t sn_first_col(const struct sn_job *j, struct sn_placement p, int64_t cols)
{
    struct sn_mesh_place at = sn_mesh_place(&j->mesh, j->rank);
    int64_t index = 0;
    for (int a = 0; a < j->mesh.n_axes; a++)
        if (sn_placement_cuts(p, a, SN_COLS))
            index = index * at.size[a] + at.index[a];
    return index * sn_placement_local(&j->mesh, p, SN_COLS, cols);
}

unsigned sn_same_rows(const struct sn_job *j, struct sn_placement p)
{
    unsigned groups = 0;
    for (int a = 0; a < j->mesh.n_axes; a++)
        groups |= sn_placement_cuts(p, a, SN_ROWS) ? 0 : 1u << j->mesh.axis[a].group;
    return groups;
}

void sn_add_once(const struct sn_emit *e, struct sn_op *op, int input, struct sn_placement give)
{
    const struct sn_mesh *mesh = &e->job->mesh;
    op->first_of = sn_placement_groups(mesh, sn_placement_on(mesh, give), SN_PARTIAL);
    op->in_first = op->first_of ? 1u << input : 0;
}

int sn_result(struct sn_emit *e, const struct sn_node *n, int64_t cols, struct sn_placement give)
{
    give = sn_placement_on(&e->job->mesh, give);
    bool sums = n->kind != SN_NODE_EMBED; /* of which one rank alone has what is not 0 */
    int b = sn_buffer_add(e->p, SN_CLASS_TEMP, sums ? sn_exact_type(e->job, give) : e->job->dtype,
                          sn_rows_here(e->job, give), cols, "%s", n->point);
    if (e->p->failed)
        return b;
    bool needs = false;
    for (int i = 0; i < 2; i++)
        if (sn_param_shards(e->job, n->param[i]) > 0)
            needs = needs || sn_shard_trains(e, e->job->first_shard[n->param[i]]);
    for (int i = 0; i < SN_NODE_INS; i++)
        needs = needs || (n->in[i] >= 0 && e->p->bufs[e->value[n->in[i]].buf].needs_grad);
    e->p->bufs[b].needs_grad = needs;
    e->value[n->out] = (struct sn_value_place){.buf = b, .have = give, .used = -1};
    return b;
}

/* --- moves ------------------------------------------------------------------------------------ */

/* A buffer like `buf`, of other rows and columns. */
static int shaped(struct sn_emit *e, int buf, int64_t rows, int64_t cols, const char *what)
{
    struct sn_buffer x = e->p->bufs[buf]; /* a copy: the array may grow */
    int to = sn_buffer_add(e->p, SN_CLASS_TEMP, x.dtype, rows, cols, "%.90s.%s", x.name, what);
    if (!e->p->failed)
        e->p->bufs[to].needs_grad = x.needs_grad;
    return to;
}

/* Collectives send blocks of rows. Slices of columns become such, [rows x n blocks] to
 * [n x rows blocks], and back. */
static int columns_to_blocks(struct sn_emit *e, int buf, int n, bool back)
{
    if (e->p->failed)
        return buf;
    int64_t rows = e->p->bufs[buf].rows, cols = e->p->bufs[buf].cols;
    int to = back ? shaped(e, buf, rows / n, cols * n, "cols")
                  : shaped(e, buf, rows * n, cols / n, "blocks");
    struct sn_op *op =
        sn_op_add(e->p, SN_OP_TRANSPOSE, "%.60s", e->p->failed ? "" : e->p->bufs[to].name);
    op->in[SN_TRANSPOSE_X] = sn_view_all(e->p, buf);
    op->out[SN_TRANSPOSE_Y] = sn_view_all(e->p, to);
    op->attr.blocks_a = back ? n : rows;
    op->attr.blocks_b = back ? rows / n : n;
    return to;
}

/* The operation of a move, and its new buffer. */
static int collective(struct sn_emit *e, int buf, const struct sn_axis_move *m, bool used)
{
    static const int kind[] = {[SN_KEEP] = SN_OP_ALIAS,
                               [SN_MOVE_ALL_GATHER] = SN_OP_ALL_GATHER,
                               [SN_MOVE_ALL_REDUCE] = SN_OP_ALL_REDUCE,
                               [SN_MOVE_REDUCE_SCATTER] = SN_OP_REDUCE_SCATTER,
                               [SN_MOVE_ALL_TO_ALL] = SN_OP_ALL_TO_ALL};
    assert(m->forward != SN_SLICE && m->forward != SN_NEVER); /* no operation takes a slice */
    if (e->p->failed)
        return buf;
    const struct sn_mesh_axis *axis = &e->job->mesh.axis[m->axis];
    struct sn_buffer x = e->p->bufs[buf];
    int64_t rows = m->forward == SN_MOVE_ALL_GATHER       ? x.rows * axis->size
                   : m->forward == SN_MOVE_REDUCE_SCATTER ? x.rows / axis->size
                                                          : x.rows;
    struct sn_op op = sn_comm_op(kind[m->forward], axis->group, "%.60s", x.name);
    op.grad_move = m->backward;
    op.codable = 1 + SN_CODED_TENSOR;
    op.attr.blocks_a = m->forward == SN_MOVE_ALL_TO_ALL ? axis->size : 0;
    int to = shaped(e, buf, rows, x.cols, used ? "all" : "sum");
    if (!e->p->failed)
        e->p->bufs[to].partial_grad = used;
    op.in[SN_MOVE_FROM] = sn_view_all(e->p, buf);
    op.out[SN_MOVE_TO] = sn_view_all(e->p, to);
    if (m->forward == SN_KEEP)
        (void)sn_op_append(e->p, &op);
    else
        sn_comm_run(e->p, &op);
    return to;
}

static int move(struct sn_emit *e, int buf, const struct sn_axis_move *m, bool used)
{
    int size = e->job->mesh.axis[m->axis].size;
    bool turns = m->forward == SN_MOVE_ALL_TO_ALL;
    if (m->to == SN_COLS && (turns || m->forward == SN_MOVE_REDUCE_SCATTER))
        buf = columns_to_blocks(e, buf, size, false);
    buf = collective(e, buf, m, used);
    if (m->from == SN_COLS && (turns || m->forward == SN_MOVE_ALL_GATHER))
        buf = columns_to_blocks(e, buf, size, true);
    return buf;
}

static int redistribute(struct sn_emit *e, int buf, struct sn_placement have,
                        struct sn_placement want)
{
    struct sn_axis_move moves[SN_MESH_AXES];
    if (e->p->failed) /* what it has may be anything */
        return buf;
    int n = sn_redistribute(moves, have, want);
    assert(n >= 0);
    for (int i = 0; i < n; i++)
        buf = move(e, buf, &moves[i], want.axis[moves[i].axis].kind == SN_REPLICATE_PARTIAL_GRAD);
    return sn_exact_rounded(e, buf);
}

/* The first axis' slices are cut again by those behind it: the last is gathered first. */
struct sn_view sn_parts_of_all(struct sn_emit *e, int part, struct sn_placement p,
                               const char *label)
{
    const struct sn_mesh *mesh = &e->job->mesh;
    for (int a = mesh->n_axes - 1; a >= 0 && !e->p->failed; a--) {
        if (!sn_placement_cuts(p, a, SN_COLS) || mesh->axis[a].size == 1)
            continue;
        int64_t cols = e->p->bufs[part].cols, rows = e->p->bufs[part].rows * mesh->axis[a].size;
        int all = sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, rows, cols, "%.90s.parts", label);
        struct sn_op gather =
            sn_comm_op(SN_OP_ALL_GATHER, mesh->axis[a].group, "%.90s.parts", label);
        gather.in[SN_MOVE_FROM] = sn_view_all(e->p, part);
        gather.out[SN_MOVE_TO] = sn_view_all(e->p, all);
        sn_comm_run(e->p, &gather);
        part = all;
    }
    return sn_view_all(e->p, part);
}

bool sn_features_are_cut(const struct sn_job *j, struct sn_placement p)
{
    return sn_placement_local(&j->mesh, p, SN_COLS, 1 << 20) != 1 << 20;
}

/* Where a value that is a sum over some axes is to be summed: as it is wanted, or, where ranks use
 * it in ways of their own, as what stands between blocks; so that there is one sum for all. */
static struct sn_placement summed(const struct sn_emit *e, struct sn_placement have,
                                  struct sn_placement want)
{
    struct sn_placement region = sn_region(e->job);
    for (int a = 0; a < SN_MESH_AXES; a++)
        if (have.axis[a].kind == SN_PARTIAL)
            have.axis[a] =
                want.axis[a].kind == SN_REPLICATE_PARTIAL_GRAD ? region.axis[a] : want.axis[a];
    return have;
}

struct sn_view sn_take(struct sn_emit *e, int value, struct sn_placement want)
{
    struct sn_value_place *v = &e->value[value];
    want = sn_placement_on(&e->job->mesh, want);
    struct sn_placement sum = summed(e, v->have, want);
    if (sn_placement_equal(v->have, want))
        return sn_view_all(e->p, v->buf);
    if (v->used >= 0 && sn_placement_equal(v->used_as, want))
        return sn_view_all(e->p, v->used);
    if (!sn_placement_equal(v->have, sum)) {
        v->buf = redistribute(e, v->buf, v->have, sum);
        v->have = sum;
        return sn_take(e, value, want);
    }
    v->used = redistribute(e, v->buf, v->have, want);
    v->used_as = want;
    return sn_view_all(e->p, v->used);
}
