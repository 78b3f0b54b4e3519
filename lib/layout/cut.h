/*
 * cut.h - how the parameters at a model's points are cut over the tensor axis, and the forms in
 * which those points take and give tensors (Shoeybi et al., "Megatron-LM", arXiv 1909.08053, 3;
 * Korthikanti et al., arXiv 2205.05198, 4.2, for sequence parallelism).
 *
 * Rows of a weight W[out, in] are output features, its columns input features. Slices are as long
 * as the ceiling asks, so every rank has the same shapes; the last ranks' slices end in padding,
 * which is zero and stays zero.
 */
#ifndef SN_CUT_H
#define SN_CUT_H

#include "lib/config/config.h"
#include "lib/layout/edge.h"

enum sn_cut_kind {
    SN_CUT_NONE,  /* every rank holds all of it */
    SN_CUT_ROWS,  /* column-parallel linear, embedding and head by words */
    SN_CUT_QKV,   /* rows by heads: query heads, and key and value heads or copies of them */
    SN_CUT_COLS,  /* row-parallel linear: its output is a sum over ranks */
    SN_CUT_SUMMED /* every rank holds all of it and gives a part of its gradient */
};

struct sn_cut {
    enum sn_cut_kind weight, bias;
    struct sn_layout_form want, give;
};

/* The cut at a point ("l3.attn.qkv", "head"); NULL: an operation without a cut, which takes and
 * gives the form of its input. */
const struct sn_cut *sn_cut_at(const char *point);

struct sn_slice {
    int64_t first, count; /* what is really there; count may be 0 on the last ranks */
    int64_t padded;       /* what is allocated, the same on every rank */
};

/* Slice `index` of n over `size` ranks. */
struct sn_slice sn_slice_of(int64_t n, int size, int index);
/* Rows of piece 0 (q), 1 (k) or 2 (v) of a QKV cut. */
struct sn_slice sn_slice_of_heads(const struct sn_model_config *m, int piece, int size, int index);
/* Tensor ranks that hold the same key and value heads: 1 when there are enough heads. */
int sn_kv_copies(const struct sn_model_config *m, int size);

#endif
