/*
 * exact.c - where every layout is to have the same bits (run.bits: all): sums over ranks of the mesh are
 * exact (kernels/exact.h), and what terms they are of is the same whatever the layout.
 *
 * A product whose depth ranks of the mesh can share out, forward or backward, is a sum of terms that no
 * rank splits, on one rank, too. Where ranks do share it out, each gives its part in fp64, the collective
 * adds these up, and a copy rounds them, once, to the type in which one rank would have given them.
 */
#include "lib/program/build.h"

static bool has(const struct sn_job *j, const struct sn_cut *cut, enum sn_cut_kind kind)
{
    for (int a = 0; a < j->mesh.n_axes; a++)
        if (cut->weight[a] == kind)
            return true;
    return false;
}

struct sn_exact_attr sn_exact_product(const struct sn_job *j, const struct sn_cut *cut, int64_t k,
                                      int64_t n)
{
    const struct sn_model_config *m = &j->config->model;
    struct sn_exact_attr a = {SN_EXACT_NONE};
    int64_t width = sn_model_head_dim(m), kv = m->kv_heads;
    struct sn_mesh_place at = sn_mesh_place(&j->mesh, j->rank);
    if (!sn_config_exact(j->config))
        return a;
    if (has(j, cut, SN_CUT_QKV)) /* heads, of which the fewest are those of keys */
        a.dx_depth = sn_config_term_depth(kv * width, kv);
    if (has(j, cut, SN_CUT_ROWS)) {
        n *= sn_cut_ways(cut->weight, SN_CUT_ROWS, &at).size;
        n = n == 2 * m->ffn || n == 2 * m->dense_ffn
                ? n / 2
                : n; /* a gate's and its product's, one beside the other */
        a.dx_depth = sn_config_term_depth(n, n);
    }
    if (has(j, cut, SN_CUT_COLS)) {
        k *= sn_cut_ways(cut->weight, SN_CUT_COLS, &at).size;
        a.of = SN_EXACT_VALUES;
        a.depth = sn_config_term_depth(k, k == sn_model_query_width(m) ? kv : k);
    }
    return a;
}

enum sn_dtype sn_exact_type(const struct sn_job *j, struct sn_placement give)
{
    bool sums = sn_placement_groups(&j->mesh, sn_placement_on(&j->mesh, give), SN_PARTIAL) != 0;
    return sums && sn_config_exact(j->config) ? SN_F64 : j->dtype;
}

int sn_exact_gradient(struct sn_emit *e, int buf)
{
    if (e->p->failed || !e->p->bufs[buf].partial_grad || !sn_config_exact(e->job->config))
        return sn_buffer_like(e->p, buf, "d");
    struct sn_buffer b = e->p->bufs[buf]; /* a copy: the array may grow */
    return sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F64, b.rows, b.cols, "d.%.100s", b.name);
}

int sn_exact_rounded(struct sn_emit *e, int buf)
{
    if (e->p->failed || e->p->bufs[buf].dtype != SN_F64)
        return buf;
    struct sn_buffer b = e->p->bufs[buf]; /* a copy: the array may grow */
    int to =
        sn_buffer_add(e->p, SN_CLASS_TEMP, e->job->dtype, b.rows, b.cols, "%.90s.rounded", b.name);
    struct sn_op *op = sn_op_add(e->p, SN_OP_COPY, "%.60s", e->p->failed ? "" : b.name);
    op->in[SN_COPY_X] = sn_view_all(e->p, buf);
    op->out[SN_COPY_Y] = sn_view_all(e->p, to);
    if (!e->p->failed)
        e->p->bufs[to].needs_grad = b.needs_grad;
    return to;
}
