/*
 * slabs.h - what a buffer holds, as rectangles of logical tensors.
 *
 * A slab is a rectangle of a buffer, rows ld elements apart, and says of which rectangle of which
 * logical tensor it is: element (i, j) of the slab is that at coordinates first[0] + i of space[0]
 * and first[1] + j of space[1]. A space is a dimension that logical tensors share: the step's
 * tokens, the features between blocks, the words of the vocabulary. The same tensor has the same
 * value (field.h) at all coordinates: what differs is how far a sum has come.
 *
 * The slabs of a buffer do not overlap. Neighbours that are one rectangle of one tensor, and have
 * the same value, are made one, so that lists are short whatever way a tensor took.
 */
#ifndef SN_SLABS_H
#define SN_SLABS_H

#include <stdbool.h>
#include <stdint.h>

enum { SN_SLAB_ROWS, SN_SLAB_COLS, SN_SLAB_DIMS };

/* Spaces that belong to no parameter; those of parameters follow. */
enum {
    SN_SPACE_ANY = -1, /* of zeros, which are of any tensor */
    SN_SPACE_ONE,      /* the one row of a vector */
    SN_SPACE_TOKENS,   /* of a step: sample x positions + position */
    SN_SPACE_FIXED,    /* columns that every row has: of statistics, of parts of a loss */
    SN_SPACE_HEADS,
    SN_SPACE_POSITIONS,
    SN_SPACE_EXPERTS,
    SN_SPACE_KEYS_VALUES, /* what is of latents: k and v of all heads, without what their keys share */
    SN_SPACE_SHARED_KEY,  /* that */
    SN_SPACE_VALUES,      /* features that attention gives, of all heads */
    SN_NSPACES
};

struct sn_slab {
    int64_t at, rows, cols, ld; /* elements of the buffer; never empty */
    uint64_t value;
    int space[SN_SLAB_DIMS];
    int64_t first[SN_SLAB_DIMS];
    uint64_t route; /* of rows on their way to experts: what says where they go; 0: they are none */
};

struct sn_slabs {
    struct sn_slab *t;
    int n, cap;
    bool failed; /* an allocation */
};

/* Spaces that have turned out to be the same: a forest. */
struct sn_spaces {
    int *parent, n;
};
static inline int sn_space(const struct sn_spaces *s, int space)
{
    while (space >= 0 && s->parent[space] != space)
        space = s->parent[space];
    return space;
}

/* A rectangle of a buffer, without what it holds. */
struct sn_area {
    int64_t at, rows, cols, ld;
};
static inline struct sn_area sn_slab_area(const struct sn_slab *t)
{
    return (struct sn_area){t->at, t->rows, t->cols, t->ld};
}
/* Without gaps between its rows? */
static inline bool sn_area_is_dense(const struct sn_area *a)
{
    return a->rows == 1 || a->ld == a->cols;
}

void sn_slabs_fini(struct sn_slabs *l);
/* Append as it is. */
void sn_slabs_push(struct sn_slabs *l, const struct sn_slab *t);
/* Append the parts of t that lie in the area. Returns how many elements they have. */
int64_t sn_slab_cut(struct sn_slabs *out, const struct sn_slab *t, const struct sn_area *a);
/* Forget what lies in the area. */
void sn_slabs_clear(struct sn_slabs *l, const struct sn_area *a);
/* What t says is in its place, and nothing else. */
void sn_slabs_put(struct sn_slabs *l, const struct sn_spaces *s, const struct sn_slab *t);

enum sn_slabs_sum { SN_SUM_GOOD, SN_SUM_NOTHING_THERE, SN_SUM_OTHER };
/* Add the values of t to what lies in its place. NOTHING_THERE: in part of it is nothing, which is
 * put there if `fill`, and else a fault; OTHER: what is there is of other coordinates, which
 * *there tells. */
enum sn_slabs_sum sn_slabs_add(struct sn_slabs *l, const struct sn_spaces *s,
                               const struct sn_slab *t, bool fill, struct sn_slab *there);

#endif
