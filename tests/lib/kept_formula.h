/*
 * kept_formula.h - the bytes kept from forward to backward, as a formula.
 *
 * What a compiled program keeps for a micro-batch (one slot of a virtual stage: program.h) follows
 * from model and layout alone. The formula below was written on paper and never looks at a
 * program's buffers: tests/unit/report/test_activations.c holds the placed arena to it, byte for
 * byte, and so what is read off compiled texts (lib/report/activations.h, lib/search/kept.h).
 *
 * Letters of kernels/tensor.h, of one rank. t = tensor ranks, c = context ranks, e = bytes of the
 * storage type:
 *
 *   T = micro_batch S / c tokens         T' = T / t under sequence parallelism, else T
 *   y = tensor_x                         D is D / y in all rows but q, d.embed, the table and
 *                                        what belongs to experts
 *   q = D / t                            g = q + 2 d x (key and value heads of a tensor rank)
 *   f = ceil(F / t)                      k = 2 (LayerNorm: mean, 1/std) or 1 (RMSNorm)
 *
 * Every tensor is rounded up to 64 bytes. Without recomputation a block keeps
 *
 *   x            e T' D    its input: a sum lies where one of its addends lay (place.c)
 *   norm         e T D     twice; under sequence parallelism the gathered copy, not the slice
 *   norm.stats   4 T' k    twice
 *   qkv          e T g     rotated in place
 *   core         e T q     attention's output
 *   lse          4 T H/t   its log-sum-exp: scores are never kept
 *   mid          e T' D    x + attention; none where the block is parallel (gpt-neox)
 *   up           e T f     llama: gate and up, twice that
 *   act          e T f
 *
 *   all-to-all             q, k, v of whole sequences, e T g, not qkv; also core.whole, e T q
 *   dropout                nothing: masks are functions of (seed, element), drawn again; so is the
 *                          noise of a router's input
 *
 * selective drops norm, norm.stats and act; full keeps x alone. With comm_aware_recompute neither
 * drops what a collective gave: norm under sequence parallelism, mid with tensor ranks, q, k, v of
 * all-to-all and what comes back (core.sent, e T q), with tensor_x the sums qkv and up and what all
 * ranks know of a row (norm.parts, 4 y T' k, twice), keys and values that came round a ring (full:
 * c - 1 of e T (g - q)), expert.x of other ranks' tokens.
 *
 * A layer with experts has no up and act, but (E experts, k of them for a token, P ranks that share
 * them out; R = T k rows at the experts, with capacity what fits)
 *
 *   logits       4 T E     router's, fp32; dropped by full, as are the next three
 *   w, choice    4 T k     each
 *   place        4 T k     row of each choice
 *   choice.all   4 c T k   of all context ranks: with a capacity, full and comm_aware_recompute
 *   bounds       4 (E + 1) of each expert's rows
 *   counts       4 E       of the balancing loss: of all replicas; only with aux_loss or z_loss
 *   expert.x     e R D     tokens at their experts; dropped by selective too
 *   expert.up    e R 2 f   gate and up; dropped by full
 *   expert.act   e R f     dropped by selective too
 *   expert.y     e R D     what the experts gave; dropped by full
 *
 *   Where tensor ranks route tokens of their own: T is T / t in these rows, but of choice.all;
 *   f is ceil(F / u), for u ranks that share each expert (expert_tensor); and the norm before the
 *   experts is norm.slice, e T / t D, which nobody gathers but for shared experts. Else u is 1.
 *
 *   M = P u > 1: rows are W = expert_buffer u R, at most M R, not R, but of expert.y, which is what
 *   came back, summed, and is never dropped; arrivals, 4 (u E + 1), and bounds.all, 4 M (E + 1),
 *   which is never dropped either, instead of bounds.
 *   In C chunks: C times arrivals and expert.*, each of (W + M (C - 1)) / C rows, at most W
 *
 * A virtual stage also keeps
 *
 *   out          e T' D    what its last layer gives: sent, or read by the final norm
 *   received     e T' D    not on the last virtual stage: the gradient from the next one
 *   sent         e T' D    not on the first virtual stage: the gradient for the previous one
 *   final.stats  4 T' k    last virtual stage
 *   d.head       e T' D    last virtual stage: gradient of the head's input, made in the forward segment
 *   d.table      4 bytes   ZeRO 2 and 3, head and embedding one parameter and both here: an element
 *                          of the table's gradient bucket, which the head opens in forward. Nothing
 *                          else depends on ZeRO
 *
 * Shared experts keep up and act of their joint width in layers with experts (shared.up,
 * shared.act).
 *
 * Split backward (zero-bubble): what is made in backward and read by weight gradients lives until
 * they run, in as many copies as weight gradients are delayed (stage + 1), not in every slot. These
 * are recomputed tensors (norm, norm.stats, core, mid, act, and up, whose place its gradient takes)
 * and gradients:
 *
 *   d.qkv        e T g
 *   d.norm       e T' D    twice
 *   d.o, d.down  e T D     of the two outputs that are added to x; one for both (d.sum) where the
 *                          block is parallel without dropout
 *   d.embed      e T D     first virtual stage
 *   d.expert     e R D     with experts: of expert.y, instead of d.down (which stays where some are
 *                          shared)
 *   d.logits     e T E     with experts
 *
 * Without sequence parallelism the received gradient is one of these: the last layer's d.down
 * (without dropout, or in a parallel block; with experts d.o), or d.embed has its place (first
 * virtual stage, without tensor_x: d.embed has all features).
 */
#ifndef TESTS_LIB_KEPT_FORMULA_H
#define TESTS_LIB_KEPT_FORMULA_H

#include "lib/program/program.h"

enum { KEPT_MAX = 40 };

/* One kind of tensor that a slot holds. */
struct kept_tensor {
    const char *name; /* "x", "norm" ...: of the table above */
    int copies;       /* of this shape in one slot: layers, mostly */
    enum sn_dtype dtype;
    int64_t rows, cols;
    bool late;     /* kept from backward to delayed weight gradients only (SN_CLASS_LATE) */
    int64_t bytes; /* of all copies, each rounded up to 64 */
};

/* One slot of a virtual stage. */
struct kept_formula {
    bool first, last;   /* holds the embedding, the head */
    int slots;          /* micro-batches in flight */
    int lates;          /* backwards that wait for their weight gradients */
    int n;              /* tensors */
    int64_t slot_bytes; /* sum over tensors that are not late */
    int64_t late_bytes; /* of the others */
    struct kept_tensor kept[KEPT_MAX];
};

/* The formula for virtual stage `vstage` of the train program. Reads the configuration, the rank's
 * place in the grid and which layers are whose; not the program. All parameters are taken to
 * train. */
void kept_formula(struct kept_formula *out, const struct sn_job *j, int vstage);

#endif
