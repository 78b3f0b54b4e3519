/*
 * price.c - seconds of a kernel: a roofline with measured efficiencies (Williams et al., 2009; the
 * rates are struct sn_machine_device's, the habits struct sn_software's).
 *
 *   GEMM m x n x k   2 m n k / (peak most / (1 + half_m/m + half_n/n + half_k/k)) / waves
 *   attention        FLOPs (1 + half_seq/s) / (peak forward or backward)
 *   its epilogue     bytes / (bandwidth fraction), of what it reads and writes beside the product's
 *   all others       (bytes + half_bytes) / (bandwidth fraction)
 *
 * each not faster than its bytes cross memory, and after the device's overhead. Where shapes were
 * measured, an equal one gives the price, and the nearest one says by how much the formula errs.
 */
#include "lib/cost/price.h"

#include "kernels/mask.h"
#include "lib/program/opinfo.h"

#include <math.h>

/* How often each score crosses memory, in elements of storage type, where they are kept: counted in
 * Megatron-LM's fused_softmax.py and its CUDA kernels. FUSED: the GEMM writes them, the softmax
 * reads and writes, the second GEMM reads; backward reads the probabilities, writes their gradient,
 * the softmax's reads both and writes, two GEMMs read. TORCH: a cast, the mask, the softmax and a
 * cast back are kernels of their own, three of them on fp32. */
enum { FUSED_FORWARD = 4, FUSED_BACKWARD = 8, TORCH_FORWARD = 15, TORCH_BACKWARD = 21 };

/* What a price depends on; the shape as in struct sn_measured. */
struct work {
    int kind;
    enum sn_dtype dtype;
    int64_t m, n, k;
    double flops, bytes;
    int64_t seq;    /* attention: as sn_op_seq() has it */
    double rounded; /* bytes that kernels before a product move, ... */
    int rounds;     /* and how many they are */
    enum sn_epilogue epilogue;
    double joined; /* bytes that it moves */
};

void sn_pricer_init(struct sn_pricer *out, const struct sn_machine *m, const struct sn_software *s,
                    const struct sn_job *j)
{
    *out = (struct sn_pricer){
        .machine = m, .software = s, .precision = j->dtype, .grid = j->grid, .threads = j->threads};
    for (int k = 0; k < 2; k++) {
        int64_t seq = j->config->model.seq, window = k ? j->config->model.sliding_window : 0;
        out->seen[k] = sn_model_expected_keys(j->config, seq, window) / sn_mask_keys(seq, window);
    }
    for (int q = 0; q < SN_NGROUPS; q++)
        sn_span_of(&out->span[q], m, &j->grid, (enum sn_group)q);
}

bool sn_price_moved(int kind, enum sn_moved *out)
{
    switch (sn_op_row(kind)->cost) {
    case SN_COST_NORM:
        *out = SN_MOVED_NORM;
        return true;
    case SN_COST_LOSS:
        *out = SN_MOVED_LOSS;
        return true;
    case SN_COST_UPDATE:
        *out = SN_MOVED_UPDATE;
        return true;
    case SN_COST_ELEMENTWISE:
        *out = SN_MOVED_ELEMENTWISE;
        return true;
    default:
        return false;
    }
}

void sn_price_key(const struct sn_program *prog, const struct sn_op *op, struct sn_measured *key)
{
    const struct sn_view *v = op->in[0].buf >= 0 ? &op->in[0] : &op->out[0];
    *key = (struct sn_measured){.kind = (enum sn_op_kind)op->kind,
                                .dtype = v->buf >= 0 ? prog->bufs[v->buf].dtype : SN_F32};
    if (op->kind == SN_OP_GEMM && op->attr.gemm.fp8)
        key->dtype = SN_U8;
    if (op->kind == SN_OP_GEMM)
        key->epilogue = op->attr.gemm.epilogue;
    int64_t mnk[3];
    sn_op_shape(op, mnk);
    key->m = mnk[0];
    key->n = mnk[1];
    key->k = mnk[2];
}

/* ---- formulas -------------------------------------------------------------------------------- */

static double or_one(double fraction)
{
    return fraction > 0 ? fraction : 1;
}

/* Part of the device that tiles of m x n keep busy, the last wave included. */
static double waves(const struct sn_machine_device *d, int64_t m, int64_t n)
{
    if (d->tile_m <= 0 || d->tile_n <= 0 || d->units <= 0)
        return 1;
    int64_t tiles = ((m + d->tile_m - 1) / d->tile_m) * ((n + d->tile_n - 1) / d->tile_n);
    int64_t rounds = (tiles + d->units - 1) / d->units;
    return (double)m * (double)n / ((double)d->tile_m * (double)d->tile_n) /
           ((double)rounds * (double)d->units);
}

static const struct sn_gemm_rate *product_rate(const struct sn_machine_device *d, enum sn_dtype t)
{
    return t != SN_U8 ? &d->gemm[t] : d->fp8.peak > 0 ? &d->fp8 : &d->gemm[SN_BF16];
}

/* Seconds of the arithmetic alone. A precision without a peak cannot be computed at all. */
static double arithmetic(const struct sn_machine_device *d, const struct work *w)
{
    if (w->flops == 0)
        return 0;
    if (d->rate_of[w->kind] > 0)
        return w->flops / d->rate_of[w->kind];
    const struct sn_gemm_rate *g = product_rate(d, w->dtype);
    if (g->peak <= 0)
        return HUGE_VAL;
    if (sn_op_row(w->kind)->cost == SN_COST_PRODUCT) {
        double lost =
            g->half_m / (double)w->m + g->half_n / (double)w->n + g->half_k / (double)w->k;
        return w->flops * (1 + lost) / (g->peak * or_one(g->most) * waves(d, w->m, w->n));
    }
    double fraction = w->kind == SN_OP_ATTENTION ? d->attention_forward : d->attention_backward;
    return w->flops * (1 + d->attention_half_seq / (double)w->seq) / (g->peak * or_one(fraction));
}

/* Seconds of an operation without its overhead. */
static double formula(const struct sn_machine_device *d, const struct work *w)
{
    enum sn_moved moved;
    if (sn_price_moved(w->kind, &moved))
        return w->bytes > 0 ? (w->bytes + d->half_bytes) / (d->bandwidth * or_one(d->moved[moved]))
                            : 0;
    double rounding =
        w->rounds * d->overhead +
        (w->rounded + w->joined) / (d->bandwidth * or_one(d->moved[SN_MOVED_ELEMENTWISE]));
    return fmax(arithmetic(d, w), w->bytes / d->bandwidth) + rounding;
}

/* ---- measured shapes ------------------------------------------------------------------------- */

static double ratio(int64_t a, int64_t b)
{
    double x = (double)(a > 0 ? a : 1), y = (double)(b > 0 ? b : 1);
    return x > y ? x / y : y / x;
}

/* What an activation beside a product of m x n moves: the matrix that it writes, or reads for its
 * slope. Sums of columns are a row. */
static double joined_bytes(const struct sn_measured *x)
{
    bool is_matrix = x->epilogue == SN_EPILOGUE_ACT || x->epilogue == SN_EPILOGUE_ACT_DX;
    return is_matrix ? (double)x->m * (double)x->n * (double)sn_dtype_size(x->dtype) : 0;
}

/* The work of another shape of the same kind: FLOPs grow with all sizes, bytes with operands. */
static struct work reshaped(const struct work *w, const struct sn_measured *to)
{
    struct work r = *w;
    double operands = (double)w->m, wanted = (double)to->m;
    r.m = to->m;
    r.n = to->n;
    r.k = to->k;
    if (sn_op_row(w->kind)->cost == SN_COST_PRODUCT) {
        operands = (double)(w->m * w->n + w->m * w->k + w->n * w->k);
        wanted = (double)(r.m * r.n + r.m * r.k + r.n * r.k);
    }
    r.flops = w->flops == 0 ? 0
                            : w->flops * ((double)r.m / (double)w->m) *
                                  ((double)r.n / (double)w->n) * ((double)r.k / (double)w->k);
    r.bytes = operands > 0 ? w->bytes * wanted / operands : w->bytes;
    r.rounded = operands > 0 ? w->rounded * wanted / operands : w->rounded;
    r.joined = joined_bytes(to);
    return r;
}

/* Overhead and formula, as the machine's measurements correct them. */
static double on_machine(const struct sn_machine_device *d, const struct work *w)
{
    const struct sn_measured *nearest = NULL;
    double least = 0;
    for (int i = 0; i < d->n_measured; i++) {
        const struct sn_measured *x = &d->measured[i];
        if ((int)x->kind != w->kind || x->dtype != w->dtype)
            continue;
        double other = x->epilogue == w->epilogue ? 1 : 2; /* rather than twice the size */
        double far = other * ratio(x->m, w->m) * ratio(x->n, w->n) * ratio(x->k, w->k);
        if (nearest == NULL || far < least) {
            nearest = x;
            least = far;
        }
    }
    double seconds = d->overhead + formula(d, w);
    if (nearest == NULL)
        return seconds;
    if (least == 1)
        return nearest->seconds;
    struct work known = reshaped(w, nearest);
    return seconds * nearest->seconds / (d->overhead + formula(d, &known));
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Kernels before a product of operands in 8 bits, and what they move: each operand is read for its
 * scale (where all of it shares one) and to be rounded, and written. */
static void add_rounding(const struct sn_machine_device *d, const struct sn_op *op, struct work *w)
{
    bool parts = op->attr.gemm.fp8 == SN_FP8_BLOCKS || op->attr.gemm.fp8 == SN_FP8_LINES;
    double elements = (double)(op->in[SN_GEMM_A].rows * op->in[SN_GEMM_A].cols +
                               op->in[SN_GEMM_B].rows * op->in[SN_GEMM_B].cols);
    double written = d->fp8.peak > 0 ? 1 : 2;
    w->rounds = parts ? 2 : 4;
    w->rounded = elements * ((parts ? 2 : 4) + written);
    w->bytes -= elements * (2 - written); /* what the product reads */
}

/* Products reach their rate with what they read and write alone; an epilogue's own operands come on
 * top. So one that stands alone costs what it reads of the product's result more, and its launch.
 */
static void add_epilogue(const struct sn_program *prog, const struct sn_op *op, struct work *w)
{
    struct sn_op plain = *op;
    plain.in[SN_GEMM_SLOPE_OF].buf = plain.out[SN_GEMM_BESIDE].buf = -1;
    w->joined = w->bytes - (double)sn_op_bytes(prog, &plain);
    w->bytes -= w->joined;
}

/* What rounding and adding a term of an exact sum costs, in FLOPs of products in fp32: measured with
 * AVX-512 (docs/BITS.md). */
enum { EXACT_TERM = 20 };

static void add_terms(const struct sn_op *op, struct work *w)
{
    bool sums = op->kind == SN_OP_GEMM || op->kind == SN_OP_EXPERT_GEMM;
    if (sums && op->attr.exact.of != SN_EXACT_NONE)
        w->flops *= 1 + EXACT_TERM / (2.0 * op->attr.exact.depth);
}

static struct work work_of(const struct sn_machine_device *d, const struct sn_program *prog,
                           const struct sn_op *op)
{
    struct sn_measured key;
    sn_price_key(prog, op, &key);
    struct work w = (struct work){.kind = op->kind,
                                  .dtype = key.dtype,
                                  .m = key.m,
                                  .n = key.n,
                                  .k = key.k,
                                  .flops = sn_op_flops(op),
                                  .bytes = (double)sn_op_bytes(prog, op),
                                  .seq = sn_op_seq(op),
                                  .epilogue = key.epilogue};
    if (key.epilogue)
        add_epilogue(prog, op, &w);
    add_terms(op, &w);
    if (key.dtype == SN_U8)
        add_rounding(d, op, &w);
    return w;
}

/* Products over rows of a head's width run on tensor cores where such a row is a multiple of 16
 * bytes (NVIDIA, Matrix Multiplication Background); else at the rate of fp32. */
static const struct sn_gemm_rate *head_rate(const struct sn_machine_device *d, const struct work *w,
                                            const struct sn_op *op)
{
    const struct sn_attention_attr *a = &op->attr.attention;
    int64_t element = (int64_t)sn_dtype_size(w->dtype);
    bool aligned = a->head_dim * element % 16 == 0 && sn_v_dim(a) * element % 16 == 0;
    return &d->gemm[aligned || d->gemm[SN_F32].peak <= 0 ? w->dtype : SN_F32];
}

/* Scores that are kept: products over all of them, masked or not (four backward: none is computed
 * again), and their way through memory. */
static double kept_scores(const struct sn_pricer *p, const struct work *w, const struct sn_op *op)
{
    const struct sn_machine_device *d = &p->machine->device;
    bool forward = w->kind == SN_OP_ATTENTION, torch = p->software->attention == SN_ATTENTION_TORCH;
    int crossings = forward ? (torch ? TORCH_FORWARD : FUSED_FORWARD)
                            : (torch ? TORCH_BACKWARD : FUSED_BACKWARD);
    double flops = forward ? 2 * w->flops : 1.6 * w->flops;
    double scores = (double)w->m * (double)op->attr.attention.heads * (double)w->k;
    double bytes = w->bytes + crossings * scores * (double)sn_dtype_size(w->dtype);
    const struct sn_gemm_rate *g = head_rate(d, w, op);
    return flops / (g->peak * or_one(g->most)) +
           bytes / (d->bandwidth * or_one(d->moved[SN_MOVED_ELEMENTWISE]));
}

/* Attention of a share of the causal pairs, beyond its overhead. Machines measure all of these, and say by how much
 * the formula errs. */
static double attention_seen(const struct sn_machine_device *d, const struct work *w, double seen)
{
    double seconds = on_machine(d, w) - d->overhead, all = formula(d, w);
    if (seen == 1 || !(all > 0) || !isfinite(all))
        return seconds;
    struct work part = *w;
    part.flops *= seen;
    part.seq = (int64_t)fmax(1, seen * (double)w->seq);
    return seconds * formula(d, &part) / all;
}

static double attention(const struct sn_pricer *p, const struct work *w, const struct sn_op *op)
{
    const struct sn_software *s = p->software;
    const struct sn_machine_device *d = &p->machine->device;
    bool forward = w->kind == SN_OP_ATTENTION;
    bool keeps = s->attention == SN_ATTENTION_FUSED || s->attention == SN_ATTENTION_TORCH;
    double factor = (forward ? s->attention_forward : s->attention_backward)[s->attention];
    double seen = or_one(p->seen[op->attr.attention.window > 0]);
    /* Scores that are kept are computed whole. */
    double seconds = keeps ? kept_scores(p, w, op) : attention_seen(d, w, seen);
    /* Once a layer and pass; of a ring of contexts, with the own keys. */
    double fixed =
        op->attr.position.key_rank == op->attr.position.context_rank ? s->layer_fixed : 0;
    return s->overhead * d->overhead + factor * seconds + fixed;
}

/* Logits that are gathered before the loss, so that each tensor rank computes all of it. */
static double gathered_loss(const struct sn_pricer *p, struct work *w, const struct sn_op *op)
{
    if (op->kind == SN_OP_CE_PART) {
        w->bytes = 0;
        return 0;
    }
    double all = (double)op->attr.vocab.words / (double)op->in[SN_CROSS_ENTROPY_LOGITS].cols;
    w->bytes *= all;
    w->m = (int64_t)((double)w->m * all);
    return sn_price_collective(p, SN_ALL_GATHER,
                               op->in[SN_CROSS_ENTROPY_LOGITS].rows *
                                   op->in[SN_CROSS_ENTROPY_LOGITS].cols,
                               w->dtype, SN_GROUP_TENSOR);
}

static double moving(const struct sn_pricer *p, struct work *w, const struct sn_op *op)
{
    const struct sn_software *s = p->software;
    const struct sn_machine_device *d = &p->machine->device;
    enum sn_moved as = SN_MOVED_UPDATE;
    (void)sn_price_moved(op->kind, &as);
    double factor = as == SN_MOVED_UPDATE ? 1
                    : as != SN_MOVED_NORM ? s->elementwise
                    : s->fused_norm       ? s->norm_fused
                                          : s->norm_unfused;
    double extra = op->kind == SN_OP_CLIP_SCALE ? s->step_fixed : 0;
    if (s->logits_gathered && as == SN_MOVED_LOSS && p->span[SN_GROUP_TENSOR].members > 1)
        extra += gathered_loss(p, w, op);
    return s->overhead * d->overhead + factor * (on_machine(d, w) - d->overhead) + extra;
}

double sn_price_op(const struct sn_pricer *p, const struct sn_program *prog, const struct sn_op *op)
{
    if (op->kind >= SN_NKERNELS)
        return 0;
    double coded;
    if (sn_price_coded(&coded, p, prog, op))
        return coded;
    const struct sn_machine_device *d = &p->machine->device;
    struct work w = work_of(d, prog, op);
    enum sn_cost cost = sn_op_row(op->kind)->cost;
    if (cost == SN_COST_ATTENTION)
        return attention(p, &w, op);
    if (cost == SN_COST_PRODUCT)
        return p->software->overhead * d->overhead +
               p->software->gemm * (on_machine(d, &w) - d->overhead);
    return moving(p, &w, op);
}

/* ---- the least ------------------------------------------------------------------------------- */

/* By how much the bytes of an operand's element may be more in another layout, at most: a result that is added to is read,
 * too, and gradients may be of fp32. */
enum { MORE_BYTES = 4 };

/* The least factor by which a measured shape corrects the formula, at most 1, whatever lies beside the operands. */
static double best_measured(const struct sn_machine_device *d, const struct work *w)
{
    double best = 1;
    for (int i = 0; i < d->n_measured; i++) {
        const struct sn_measured *x = &d->measured[i];
        if ((int)x->kind != w->kind || x->dtype != w->dtype)
            continue;
        struct work known = reshaped(w, x);
        known.bytes *= MORE_BYTES;
        known.rounded *= MORE_BYTES;
        best = fmin(best, x->seconds / (d->overhead + formula(d, &known)));
    }
    return best;
}

double sn_price_least(const struct sn_pricer *p, const struct sn_program *prog,
                      const struct sn_op *op)
{
    const struct sn_machine_device *d = &p->machine->device;
    const struct sn_software *s = p->software;
    enum sn_cost cost = op->kind < SN_NKERNELS ? sn_op_row(op->kind)->cost : SN_COST_ELEMENTWISE;
    if (cost != SN_COST_PRODUCT && cost != SN_COST_ATTENTION)
        return 0;
    struct work w = work_of(d, prog, op);
    const struct sn_gemm_rate *g = product_rate(d, w.dtype);
    bool forward = w.kind == SN_OP_ATTENTION, is_product = cost == SN_COST_PRODUCT;
    bool keeps = s->attention == SN_ATTENTION_FUSED || s->attention == SN_ATTENTION_TORCH;
    double fraction = is_product || keeps ? g->most
                      : forward           ? d->attention_forward
                                          : d->attention_backward;
    double factor = is_product
                        ? s->gemm
                        : (forward ? s->attention_forward : s->attention_backward)[s->attention];
    double rate = g->peak * or_one(fraction);
    if (!is_product && keeps) /* of some heads (head_rate) */
        rate = fmax(rate, d->gemm[SN_F32].peak * or_one(d->gemm[SN_F32].most));
    else if (d->rate_of[w.kind] > 0)
        rate = d->rate_of[w.kind];
    if (!is_product && !keeps)
        factor *= fmin(1, or_one(p->seen[op->attr.attention.window > 0]));
    double best = is_product || !keeps ? best_measured(d, &w) : 1;
    /* on_machine() scales overheads, too: what is taken of them is made up for where they count as much as the rest. */
    if (best < 1 && s->overhead < factor)
        return 0;
    return rate > 0 ? factor * best * sn_op_flops(op) / rate : 0;
}
