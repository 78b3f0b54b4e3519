/*
 * tile.h - a source whose tensors are tensors of another one: under new names, repeated along rows
 * and columns, divided by a number; and new ones. What sn_source_grow, sn_source_delink and
 * sn_source_upcycle are made of.
 */
#ifndef SN_TILE_H
#define SN_TILE_H

#include "checkpoint/store/source.h"
#include "lib/config/config.h"

/* Element (r, c) is element (r mod rows, c mod columns) of tensor `from` of the inner source,
 * divided. With noise x, copies along columns are taken in pairs: one of the two is multiplied by
 * 1 + x and the other by 1 - x, element by element at random, in every row of the result; the last
 * one of an odd number stays as it is. The sum over copies is as without. */
struct sn_tensor_tile {
    int from;
    int rows, cols; /* copies along each */
    float divisor;
    float noise; /* 0 <= x < 1 */
};

struct sn_tiled; /* the tensors of such a source, while they are listed */

/* With room for `most` tensors. `inner` is borrowed until sn_tiled_finish. */
enum sn_status sn_tiled_create(struct sn_tiled **out, const struct sn_source *inner, int64_t most,
                               struct sn_err *err);
void sn_tiled_destroy(struct sn_tiled *t); /* NULL is allowed; inner stays open */
/* The name is copied; group and dtype are those of the inner tensor. */
enum sn_status sn_tiled_add(struct sn_tiled *t, const char *name, struct sn_tensor_tile tile,
                            struct sn_err *err);
/* The same of group, name and type of another tensor, of the same shape. */
enum sn_status sn_tiled_add_as(struct sn_tiled *t, const struct sn_source_tensor *as,
                               struct sn_tensor_tile tile, struct sn_err *err);
/* A tensor that the inner source has not: normally distributed with this deviation, a function of
 * the name alone; 0: zeros. Group and dtype are those of inner tensor `like`. */
enum sn_status sn_tiled_add_new(struct sn_tiled *t, const char *name, int like, struct sn_box size,
                                float std, struct sn_err *err);
/* Make *out of it: the model is c->model, scalars are the inner source's. `what` names the
 * transformation with its numbers, for the identity and messages. From success on *out owns t, and
 * *inner, which is left closed. */
enum sn_status sn_tiled_finish(struct sn_source *out, struct sn_tiled *t, struct sn_source *inner,
                               const struct sn_config *c, const char *what, struct sn_err *err);

#endif
