/*
 * compress_legs.c - which legs a coded communication has (compress.c).
 *
 *   send, recv       a transfer of one stream
 *   all-gather       a gather of the own block's stream
 *   reduce-scatter   an all-to-all of a stream for each member, and their sum
 *   all-reduce       the reduce-scatter into a temporary in fp32, then its all-gather
 *
 * Over replicas that lie on several nodes (layout.compress.node) each has two levels. R = N L
 * members, L consecutive ones on each of N nodes; slice k L + l is that of member l of node k:
 *
 *   reduce-scatter   inside: an all-to-all, to member l the N streams of slices l, L + l, .., and
 *                    their sums over the node; between: an all-to-all of these sums, to node k that
 *                    of slice k L + l, and the sum over nodes
 *   all-gather       between: a gather of the own stream from the same place on each node; inside:
 *                    a gather of all N streams as they came, so that nothing is rounded again and
 *                    all members decode the same
 *
 * So between nodes go 1 / L of the bytes that one level would send there. Sums are in the order of
 * members and then of nodes. It is the shape of ZeRO++'s qgZ (Wang et al., arXiv 2306.10209).
 */
#include "lib/program/compress.h"

#include "lib/program/build.h"

static int64_t elements(const struct sn_view *v)
{
    return v->rows * v->cols;
}

static enum sn_dtype type_of(const struct sn_program *p, const struct sn_view *v)
{
    return p->bufs[v->buf].dtype;
}

static int64_t rounded_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

int sn_leg_codecs(const struct sn_job *j, const struct sn_coded_move *m, const struct sn_leg *l,
                  struct sn_codec codec[SN_CODEC_LEVELS])
{
    return sn_coding_levels_at(j->config, (enum sn_coded)(m->op.codable - 1), l->between, codec);
}

/* What legs are planned with. */
struct plan {
    const struct sn_job *j;
    struct sn_program *p;
    struct sn_coded_move *m;
    bool two_level, apart;     /* apart: each member on a node of its own */
    int members, nodes, local; /* of the group; nodes x local of them */
};

static struct sn_leg *add(struct plan *x, int kind, enum sn_group group, int64_t share)
{
    struct sn_leg *l = &x->m->leg[x->m->n_legs++];
    *l = (struct sn_leg){.kind = kind,
                         .group = group,
                         .between = x->apart,
                         .share = share,
                         .send_each = 1,
                         .get_each = 1,
                         .from = sn_no_view,
                         .minus = sn_no_view,
                         .fed = sn_no_view,
                         .to = sn_no_view,
                         .plus = sn_no_view,
                         .type = SN_F32,
                         .leaves = -1,
                         .comes = -1};
    return l;
}

/* Of gradients: what was lost before. */
static struct sn_view feedback_of(const struct plan *x)
{
    const struct sn_op *op = &x->m->op;
    int bucket =
        op->codable == 1 + SN_CODED_DATA ? x->p->bufs[op->in[SN_MOVE_FROM].buf].bucket : -1;
    int buf = bucket < 0 ? -1 : x->j->buckets[bucket].feedback;
    return buf < 0 ? sn_no_view : sn_view_flat(x->p, buf);
}

static struct sn_view sum_buffer(struct plan *x, const char *what, int64_t n)
{
    return sn_view_flat(
        x->p, sn_buffer_add(x->p, SN_CLASS_TEMP, SN_F32, 1, n, "%s.%.60s", what, x->m->op.label));
}

/* --- gathers ---------------------------------------------------------------------------------- */

/* Weights come from masters, of which each rank has its slice. */
static void take_masters(struct plan *x, struct sn_leg *first, struct sn_leg *last)
{
    int bucket = x->p->bufs[first->from.buf].bucket;
    const struct sn_bucket *b = bucket < 0 ? NULL : &x->j->buckets[bucket];
    const struct sn_coding *z = b ? sn_bucket_coding(x->j, b) : NULL;
    if (!z)
        return;
    if (z->diff) {
        first->minus = first->from;
        last->plus = last->to;
    }
    first->from = sn_view_flat(x->p, b->master);
    first->type = last->type = SN_F32;
}

/* One stream of each member; the first leg's number is returned. */
static int gather(struct plan *x, struct sn_view from, struct sn_view to, int64_t share)
{
    int at = x->m->n_legs;
    struct sn_leg *l = add(x, SN_OP_ALL_GATHER, x->m->op.group, share);
    l->send = 1;
    l->get = x->members;
    l->from = from;
    l->type = type_of(x->p, &from);
    if (x->two_level) {
        enum sn_dtype type = l->type;
        l->group = SN_GROUP_REPLICA_RAIL;
        l->get = x->nodes;
        l->between = true;
        l = add(x, SN_OP_ALL_GATHER, SN_GROUP_REPLICA_NODE, share);
        l->between = l->hands_on = true;
        l->send = x->nodes;
        l->get = x->members;
        l->get_each = x->nodes;
        l->type = type;
    }
    l->to = to;
    return at;
}

static void plan_gather(struct plan *x)
{
    struct sn_op *op = &x->m->op;
    int first =
        gather(x, op->in[SN_MOVE_FROM], op->out[SN_MOVE_TO], elements(&op->in[SN_MOVE_FROM]));
    if (op->codable == 1 + SN_CODED_ZERO)
        take_masters(x, &x->m->leg[first], &x->m->leg[x->m->n_legs - 1]);
}

/* --- sums ------------------------------------------------------------------------------------- */

/* How many of the n values slice i of `share` has not: the last ones have less, or nothing. */
static int64_t missing_of(int64_t n, int64_t share, int i)
{
    int64_t own = n - i * share;
    return share - (own < 0 ? 0 : own < share ? own : share);
}

/* The sums of a node over slices l, L + l, .., of which the last ones have less. */
static struct sn_leg *inside(struct plan *x, int64_t share)
{
    int own = x->j->group_index[SN_GROUP_REPLICA_NODE];
    int64_t n = elements(&x->m->op.in[SN_MOVE_FROM]);
    struct sn_leg *l = add(x, SN_OP_ALL_TO_ALL, SN_GROUP_REPLICA_NODE, share);
    l->send = l->get = x->members;
    l->send_each = l->get_each = x->nodes;
    l->sums = true;
    l->to = sum_buffer(x, "node", x->nodes * share);
    for (int k = 0; k < x->nodes; k++)
        l->decode_missing += missing_of(n, share, k * x->local + own);
    return l;
}

/* Of what it moves into `to`, whose share is slice `index`. */
static void scatter(struct plan *x, struct sn_view to, int64_t share)
{
    struct sn_op *op = &x->m->op;
    struct sn_view from = op->in[SN_MOVE_FROM];
    struct sn_leg *first = x->two_level ? inside(x, share) : NULL, *l = first;
    l = add(x, SN_OP_ALL_TO_ALL, first ? SN_GROUP_REPLICA_RAIL : op->group, share);
    l->send = l->get = first ? x->nodes : x->members;
    l->sums = true;
    l->to = to;
    if (first) {
        l->between = true;
        l->from = first->to;
        l->encode_missing = first->decode_missing;
    } else {
        first = l;
    }
    l->decode_missing =
        missing_of(elements(&op->in[SN_MOVE_FROM]), share, x->j->group_index[op->group]);
    first->from = from;
    first->fed = feedback_of(x);
    first->type = type_of(x->p, &from);
}

static void plan_all_reduce(struct plan *x)
{
    struct sn_op *op = &x->m->op;
    int64_t n = elements(&op->in[SN_MOVE_FROM]);
    int64_t share = rounded_up((n + x->members - 1) / x->members, SN_CODEC_BLOCK);
    struct sn_view sum = sum_buffer(x, "sum", share);
    scatter(x, sum, share);
    int at = gather(x, sum, op->out[SN_MOVE_TO], share);
    x->m->leg[at].encode_missing = missing_of(n, share, x->j->group_index[op->group]);
}

static void plan_transfer(struct plan *x)
{
    bool sends = x->m->op.kind == SN_OP_SEND;
    struct sn_view v = sends ? x->m->op.in[SN_MOVE_FROM] : x->m->op.out[SN_MOVE_TO];
    struct sn_leg *l = add(x, x->m->op.kind, x->m->op.group, elements(&v));
    l->send = sends;
    l->get = !sends;
    *(sends ? &l->from : &l->to) = v;
    l->type = type_of(x->p, &v);
}

void sn_legs_of(const struct sn_job *j, struct sn_program *p, struct sn_coded_move *m)
{
    const struct sn_op *op = &m->op;
    bool replicas = op->codable == 1 + SN_CODED_DATA || op->codable == 1 + SN_CODED_ZERO;
    struct plan x = {.j = j, .p = p, .m = m, .members = j->group_size[op->group]};
    x.two_level = replicas && op->group == SN_GROUP_REPLICA && j->grid.replica_node > 0;
    x.apart = replicas && sn_config_replica_node(j->config) == 1;
    x.nodes = j->group_size[SN_GROUP_REPLICA_RAIL];
    x.local = j->group_size[SN_GROUP_REPLICA_NODE];
    if (p->failed)
        return;
    if (op->kind == SN_OP_ALL_GATHER)
        plan_gather(&x);
    else if (op->kind == SN_OP_REDUCE_SCATTER)
        scatter(&x, op->out[SN_MOVE_TO], elements(&op->out[SN_MOVE_TO]));
    else if (op->kind == SN_OP_ALL_REDUCE)
        plan_all_reduce(&x);
    else
        plan_transfer(&x);
}
