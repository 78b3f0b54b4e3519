/*
 * exec_comm.c - communication operations of a program: what each moves, posting, waiting, and the
 * agreement at the end of a step.
 */
#include "lib/exec/exec_inner.h"

#include "kernels/codec.h"

#include <math.h>
#include <string.h>

int sn_exec_request_place(const struct sn_exec *x, const struct sn_op *op, int id, int slot)
{
    return x->first_request[id] + (op->per_slot ? slot : 0);
}

int sn_exec_codec_level(const struct sn_exec *x, const struct sn_op *op)
{
    const struct sn_program *p = &x->job->train;
    const struct sn_scalars *s =
        (const void *)sn_exec_here(x, sn_buffer_address(p, x->job->scalars, 0, 0));
    return op->attr.stream.levels > 1 ? s->codec_level[op->attr.stream.coded] : 0;
}

struct sn_transfer sn_exec_transfer(const struct sn_exec *x, const struct sn_program *p,
                                    const struct sn_op *op, const struct sn_at *at)
{
    struct sn_mat in = sn_exec_resolve(x, p, &op->in[SN_MOVE_FROM], at),
                  out = sn_exec_resolve(x, p, &op->out[SN_MOVE_TO], at);
    struct sn_transfer t = {
        .group = op->group,
        .dtype = in.p ? in.dtype : out.dtype,
        .in = in.p,
        .out = out.p,
        .add = sn_exec_acc(op->acc[SN_MOVE_TO], at) == SN_ADD,
        .peer = op->peer,
        .tag = op->tag,
        .staging = (char *)sn_exec_here(x, sn_buffer_address(p, x->job->staging, 0, 0)) +
                   sn_job_staging_at(x->job, op->group),
        .label = op->label};
    (void)sn_op_collective(op, &t.kind, &t.n);
    if (op->is_coded) { /* one byte an element: what the streams use of their room */
        int64_t room = op->kind == SN_OP_RECV ? out.rows * out.cols : in.rows * in.cols;
        if (op->kind == SN_OP_ALL_TO_ALL)
            room /= op->attr.blocks_a;
        int level = sn_exec_codec_level(x, op);
        const struct sn_codec *c = &op->attr.stream.codec[level];
        t.n = sn_coded_used(op, room, level);
        t.sized = !sn_codec_is_fixed(c) && /* one stream, not several in a row */
                  t.n == sn_coded_bytes(c, op->attr.stream.type, op->attr.stream.share);
    }
    return t;
}

bool sn_exec_copy_args(const struct sn_exec *x, const struct sn_program *p, const struct sn_op *op,
                       const struct sn_at *at, struct sn_args *out)
{
    struct sn_mat from = sn_exec_resolve(x, p, &op->in[SN_MOVE_FROM], at),
                  to = sn_exec_resolve(x, p, &op->out[SN_MOVE_TO], at);
    int64_t n = from.rows * from.cols; /* without gaps */
    *out = (struct sn_args){.in = {{from.p, from.dtype, 1, n, n}},
                            .out = {{to.p, to.dtype, 1, n, n}},
                            .acc = {sn_exec_acc(op->acc[SN_MOVE_TO], at)}};
    return from.p != to.p;
}

struct sn_exchange sn_exec_exchange(const struct sn_exec *x, const struct sn_op *op,
                                    const struct sn_at *at, const int32_t *bounds)
{
    return (struct sn_exchange){
        .bounds = bounds,
        .rows = op->attr.experts.rows,
        .members = x->job->group_size[SN_GROUP_EXPERT],
        .index = x->job->group_index[SN_GROUP_EXPERT],
        .experts = op->attr.experts.count,
        .capacity = op->attr.experts.capacity,
        .round = at->round,
        .back = op->attr.inverse,
        .slices = op->attr.experts.slices,
        .chunk = op->attr.experts.chunk,
        .chunks = op->attr.experts.chunks,
        .shares = (int)op->attr.blocks_b,
        .share = op->attr.blocks_b > 1 ? x->job->group_index[SN_GROUP_TENSOR] : 0,
        .hop = op->group == SN_GROUP_EXPERT_NODE   ? SN_HOP_NODE
               : op->group == SN_GROUP_EXPERT_RAIL ? SN_HOP_RAIL
                                                   : SN_HOP_ALL,
        .node = x->job->grid.expert_node};
}

int sn_exec_previous(const struct sn_exec *x, const struct sn_op *op)
{
    int size = x->job->group_size[op->group];
    return (x->job->group_index[op->group] - 1 + size) % size;
}

int sn_exec_next(const struct sn_exec *x, const struct sn_op *op)
{
    return (x->job->group_index[op->group] + 1) % x->job->group_size[op->group];
}

void sn_exec_post(struct sn_exec *x, const struct sn_op *op, const struct sn_transfer *t,
                  struct sn_op_requests *requests)
{
    const struct sn_comm_ops *comm = x->comm->ops;
    struct sn_transfer half = *t;
    half.times = x->timeline ? sn_timeline_moves(x, op) : sn_meter_moves(x, op);
    if (op->kind != SN_OP_SHIFT) {
        requests->request[0] = comm->post(x->comm, &half);
        return;
    }
    half.kind = SN_RECV; /* both halves of a step of a ring */
    half.peer = sn_exec_previous(x, op);
    requests->request[0] = comm->post(x->comm, &half);
    half.kind = SN_SEND;
    half.peer = sn_exec_next(x, op);
    requests->request[1] = comm->post(x->comm, &half);
}

void sn_exec_take_rows(struct sn_exec *x, const struct sn_op *op, struct sn_transfer *t,
                       struct sn_op_requests *requests)
{
    t->exchange = &requests->exchange;
    t->n = op->in[SN_MOVE_FROM].cols;
    int64_t row = t->n * (int64_t)sn_dtype_size(t->dtype);
    if (t->kind == SN_ALL_TO_ALL)
        x->routed.exchanged += sn_exchange_sent(t->exchange) * row;
    else
        x->routed.gathered += sn_exchange_sent_within(t->exchange) * row;
}

void sn_exec_take_off_plan(struct sn_exec *x, int64_t bytes[SN_NAXES])
{
    for (int a = 0; a < SN_NAXES; a++) {
        bytes[a] += x->off_plan[a];
        x->off_plan[a] = 0;
    }
}

enum sn_status sn_exec_wait(struct sn_exec *x, const struct sn_op *op, const struct sn_at *at,
                            struct sn_err *err)
{
    const struct sn_op_requests *requests =
        &x->requests[sn_exec_request_place(x, op, op->waits_for, at->slot)];
    for (int i = 0; i < 2; i++)
        if (requests->request[i] && x->comm->ops->wait(x->comm, requests->request[i], err) != SN_OK)
            return sn_err_prefix(err, "%s", op->label);
    return SN_OK;
}

/* What the ranks add up: the scalars' words, and behind them what experts got of the tokens that
 * are this rank's alone. A stage's rows of other stages' layers stay 0. */
static double *agreed_words(struct sn_exec *x, const struct sn_op *op)
{
    struct sn_scalars *s = sn_exec_scalars(x);
    const struct sn_job *j = x->job;
    if (j->agreed < 0)
        return s->agree;
    double *words = sn_exec_address(x, &j->train, j->agreed);
    const float *load =
        j->expert_load < 0 ? NULL : sn_exec_address(x, &j->train, j->expert_load);
    bool counts = sn_exec_is_first(x, j->same_routes);
    memcpy(words, s->agree, SN_NAGREE * sizeof(s->agree[0]));
    for (int64_t i = 0; i < op->attr.experts.rows; i++)
        words[SN_NAGREE + i] = counts ? (double)load[i] : 0;
    return words;
}

_Static_assert((int)SN_NAXES <= (int)SN_NAGREE_AXES, "each axis has a word");

/* What codecs lost, and what they sent beside the plan since the last time, the gathers of weights
 * that followed it included: the last words. */
static void put_coded(struct sn_exec *x, const struct sn_op *op, double *words)
{
    const struct sn_scalars *s = sn_exec_scalars(x);
    double *to = words + sn_agree_words(op) - SN_NAGREE_CODED;
    if (!op->attr.stream.levels)
        return;
    memset(to, 0, SN_NAGREE_CODED * sizeof(*to));
    memcpy(to + SN_AGREE_LOST, s->codec_error, sizeof(s->codec_error));
    for (int a = 0; a < SN_NAXES; a++)
        to[SN_AGREE_OFF_PLAN + a] = (double)x->off_unreported[a];
    memset(x->off_unreported, 0, sizeof(x->off_unreported));
}

static void take_coded(struct sn_exec *x, const struct sn_op *op, const double *words)
{
    struct sn_scalars *s = sn_exec_scalars(x);
    const double *from = words + sn_agree_words(op) - SN_NAGREE_CODED;
    if (!op->attr.stream.levels)
        return;
    memcpy(s->codec_error, from + SN_AGREE_LOST, sizeof(s->codec_error));
    memmove(s->agree + SN_NAGREE, from, SN_NAGREE_CODED * sizeof(*from));
}

/* Squares of gradients, where they are summed exactly: the last words. */
static void put_exact(const struct sn_exec *x, const struct sn_op *op, double *words)
{
    const struct sn_scalars *s = sn_exec_scalars((struct sn_exec *)x);
    if (op->attr.exact.of != SN_EXACT_NONE)
        memcpy(words + sn_agree_words(op) - SN_NAGREE_EXACT, s->sq_exact, sizeof(s->sq_exact));
}

/* Losses of sets of data, of each row once: behind what experts got. */
static void put_sets(struct sn_exec *x, const struct sn_op *op, double *words)
{
    bool tells = sn_exec_is_first(x, x->job->same_loss);
    const double *losses = sn_set_losses(sn_exec_scalars(x));
    for (int i = 0; i < op->attr.vocab.sets; i++)
        words[SN_NAGREE + op->attr.experts.rows + i] = tells ? losses[i] : 0;
}

static void take_sets(struct sn_exec *x, const struct sn_op *op, const double *words)
{
    double *losses = sn_set_losses(sn_exec_scalars(x));
    for (int i = 0; i < op->attr.vocab.sets; i++)
        losses[i] = words[SN_NAGREE + op->attr.experts.rows + i];
}

/* Sums beside the loss, of each row once: behind those. How many; `word` and `sum` say which word is which. */
enum { SUMS_MOST = 2 };
static int sums_beside(struct sn_exec *x, const struct sn_op *op, double *words,
                       double *word[SUMS_MOST], double *sum[SUMS_MOST])
{
    struct sn_scalars *s = sn_exec_scalars(x);
    double *end = words + sn_agree_words(op) - (op->attr.stream.levels ? SN_NAGREE_CODED : 0) -
                  (op->attr.exact.of != SN_EXACT_NONE ? SN_NAGREE_EXACT : 0);
    int n = 0;
    if (op->attr.vocab.z_loss != 0) {
        word[n] = end -= SN_NAGREE_HEAD_Z;
        sum[n++] = &s->head_z_sum;
    }
    if (op->attr.vocab.weight != 0) {
        word[n] = end -= SN_NAGREE_BESIDE;
        sum[n++] = &s->beside_sum;
    }
    return n;
}

static void take_exact(struct sn_exec *x, const struct sn_op *op, const double *words)
{
    __extension__ unsigned __int128 sum = 0;
    struct sn_scalars *s = sn_exec_scalars(x);
    const double *from = words + sn_agree_words(op) - SN_NAGREE_EXACT;
    if (op->attr.exact.of == SN_EXACT_NONE)
        return;
    for (int i = SN_NAGREE_EXACT - 1; i >= 0; i--)
        sum = (sum << 32) + (uint64_t)from[i];
    s->sq_norm = from[SN_NAGREE_EXACT - 1] < 0x1p31 ? (double)sum * 0x1p-92 : INFINITY;
}

enum sn_status sn_exec_agree(struct sn_exec *x, const struct sn_op *op, struct sn_err *err)
{
    struct sn_scalars *s = sn_exec_scalars(x);
    s->agree[SN_AGREE_LOSS] = sn_exec_is_first(x, x->job->same_loss) ? s->loss_sum : 0;
    s->agree[SN_AGREE_SQ_NORM] = s->sq_norm;
    s->agree[SN_AGREE_NONFINITE] = (double)s->nonfinite;
    s->agree[SN_AGREE_BALANCE] = s->balance_sum;
    s->agree[SN_AGREE_Z] = s->z_sum;
    s->agree[SN_AGREE_ROUTED] = (double)x->routed.exchanged;
    s->agree[SN_AGREE_GATHERED] = (double)x->routed.gathered;
    double *words = agreed_words(x, op);
    put_coded(x, op, words);
    put_exact(x, op, words);
    put_sets(x, op, words);
    double *word[SUMS_MOST], *sum[SUMS_MOST];
    int beside = sums_beside(x, op, words, word, sum);
    for (int i = 0; i < beside; i++)
        *word[i] = sn_exec_is_first(x, x->job->same_loss) ? *sum[i] : 0;
    struct sn_transfer all = {.kind = SN_ALL_REDUCE,
                              .group = SN_GROUP_WORLD,
                              .dtype = SN_F64,
                              .n = sn_agree_words(op),
                              .out = words,
                              .staging = sn_exec_address(x, &x->job->train, x->job->staging),
                              .label = "step_end"};
    SN_TRY(x->comm->ops->drain(x->comm, err)); /* what is under way on other axes */
    sn_request t = x->comm->ops->post(x->comm, &all);
    SN_TRY(x->comm->ops->wait(x->comm, t, err));
    sn_meter_agreed(x);
    if (words != s->agree)
        memcpy(s->agree, words, SN_NAGREE * sizeof(s->agree[0]));
    for (int i = 0; i < beside; i++)
        *sum[i] = *word[i]; /* before the words behind it move */
    take_sets(x, op, words);
    take_coded(x, op, words);
    s->loss_sum = s->agree[SN_AGREE_LOSS];
    s->sq_norm = s->agree[SN_AGREE_SQ_NORM];
    take_exact(x, op, words);
    s->nonfinite = (int64_t)s->agree[SN_AGREE_NONFINITE];
    s->balance_sum = s->agree[SN_AGREE_BALANCE];
    s->z_sum = s->agree[SN_AGREE_Z];
    return SN_OK;
}
