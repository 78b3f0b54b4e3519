/*
 * several.h - what a source keeps that reads, for each box that it is asked for, several boxes of
 * the source within (fold.c, merge_adapters.c).
 */
#ifndef SN_SEVERAL_H
#define SN_SEVERAL_H

#include "checkpoint/store/source.h"

struct sn_several {
    struct sn_source inner;
    const struct sn_source_want *wants; /* the caller's */
    int64_t n_wants, at;
    struct sn_source_want *parts;  /* what the inner source was told */
    struct sn_source_want *before; /* the time before, until it is told again */
    float *aside;                  /* room for what is read beside the first box */
};

/* How many boxes of the inner source one box takes; *aside: the floats of all but the first. Written
 * to `parts` unless that is NULL, in the order in which they are read. */
typedef int sn_several_parts(const void *arg, const struct sn_source_want *want,
                             struct sn_source_want *parts, int64_t *aside);

/* The begin of such a source. */
enum sn_status sn_several_begin(struct sn_several *s, const struct sn_source_want *wants, int64_t n,
                                int64_t memory, sn_several_parts *parts_of, const void *arg,
                                struct sn_err *err);
/* The box whose turn it is; SN_EFAIL when all that were announced have been read. */
enum sn_status sn_several_next(struct sn_several *s, const struct sn_source_want **want,
                               struct sn_err *err);
/* What it keeps; not the inner source. */
void sn_several_free(struct sn_several *s);

#endif
