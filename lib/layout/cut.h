/*
 * cut.h - how the parameters at a model's points are cut over the axes of a mesh, and the
 * placements in which those points take and give tensors (Shoeybi et al., "Megatron-LM", arXiv
 * 1909.08053, 3; Korthikanti et al., arXiv 2205.05198, 4.2, for sequence parallelism; Singh et al.,
 * arXiv 2305.13525, for more than one axis).
 *
 * A point has one row per use of an axis (enum sn_mesh_use); a mesh says which uses there are, so
 * that who asks by a point names no axis. Rows of a weight W[out, in] are output features, its
 * columns input features. Slices are as long as the ceiling asks, so every rank has the same
 * shapes; the last ranks' slices end in padding, which is zero and stays zero.
 */
#ifndef SN_CUT_H
#define SN_CUT_H

#include "lib/config/config.h"
#include "lib/layout/placement.h"

/* Of a parameter over one axis. */
enum sn_cut_kind {
    SN_CUT_NONE,    /* every rank holds all of it */
    SN_CUT_ROWS,    /* column-parallel linear, embedding and head by words */
    SN_CUT_QKV,     /* rows by heads: query heads, and key and value heads or copies of them */
    SN_CUT_COLS,    /* row-parallel linear: its output is a sum over ranks */
    SN_CUT_SUMMED,  /* every rank holds all of it and gives a part of its gradient */
    SN_CUT_GATHERED /* the same, but kept in slices of its rows, which are gathered for use */
};

/*
 * Adapters of a weight (lib/model/lora.c) are cut with it. For y = x W^T over one axis:
 *
 *   W                     u = x A^T               A                  y += u B^T               B
 *   rows (outputs cut)    x, u whole, a gradient  whole, summed      u whole, a gradient      rows, as W
 *                         of each rank's own                         of each rank's own
 *   columns (y a sum)     x cut, u a sum          columns            u a sum, so y is         whole, summed
 *   rows gathered (Z)     tokens cut              gathered           tokens cut               gathered
 *
 * "Summed": a gradient of which each rank has a part. So no step's micro-batch has a collective more
 * than W alone: with outputs cut, A's part of dx joins W's in its sum; with inputs cut, u stays a sum
 * that B, which is linear, passes on to y's. What is summed beside is the gradient of the whole one,
 * r x in or r x out values, once a step.
 */
struct sn_cut {
    enum sn_cut_kind weight[SN_MESH_AXES], bias[SN_MESH_AXES];
    struct sn_placement want, give;
};

/* The cut at a point ("l3.attn.qkv", "head"); false: an operation without one, which works on what
 * stands between blocks. */
bool sn_cut_at(struct sn_cut *out, const struct sn_mesh *m, const char *point);
/* That of what stands between blocks: whole over an axis of outputs, or with sequence parallelism
 * slices of rows. */
struct sn_cut sn_cut_between(const struct sn_mesh *m, bool sequence_parallel);
/* At any point: one of these two, but that a product between blocks takes whole rows, of which it gives slices
 * of features over an axis of inputs. */
struct sn_cut sn_cut_on(const struct sn_mesh *m, const char *point, bool sequence_parallel);

/* A parameter that is cut so, as optimizers keep it and as operations use it: what is to be moved
 * in between follows as for every tensor. */
struct sn_placement sn_cut_kept(const enum sn_cut_kind cut[SN_MESH_AXES]);
struct sn_placement sn_cut_used(const enum sn_cut_kind cut[SN_MESH_AXES]);

struct sn_slice {
    int64_t first, count; /* what is really there; count may be 0 on the last ranks */
    int64_t padded;       /* what is allocated, the same on every rank */
};

/* Slice `index` of n over `size` ranks. */
struct sn_slice sn_slice_of(int64_t n, int size, int index);
/* Rows of tensor 0 (q), 1 (k) or 2 (v) of a QKV cut. */
struct sn_slice sn_slice_of_heads(const struct sn_model_config *m, int tensor, int size, int index);
/* Tensor ranks that hold the same key and value heads: 1 when there are enough heads. */
int sn_kv_copies(const struct sn_model_config *m, int size);

/* The axes with this kind as one, the first outermost: over how many ranks they cut, and which of
 * those the place is. */
struct sn_ways {
    int size, index;
};
struct sn_ways sn_cut_ways(const enum sn_cut_kind cut[SN_MESH_AXES], enum sn_cut_kind kind,
                           const struct sn_mesh_place *at);
/* What the place holds of n rows (SN_CUT_ROWS) or columns (SN_CUT_COLS): the slice of its index among
 * those of all axes that cut them, so that all but the last are whole. */
struct sn_slice sn_cut_slice(const enum sn_cut_kind cut[SN_MESH_AXES], enum sn_cut_kind kind,
                             const struct sn_mesh_place *at, int64_t n);

#endif
