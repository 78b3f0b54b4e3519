/*
 * comm_test.h - what tests and benchmarks of communicators share.
 */
#ifndef SN_TESTS_COMM_TEST_H
#define SN_TESTS_COMM_TEST_H

#include "lib/comm/comm.h"

/* A grid whose axes are given in the order tensor, context, data, pipeline, tensor innermost. */
static inline struct sn_grid test_grid(int tensor, int context, int data, int pipeline)
{
    static const enum sn_axis order[] = {SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT,
                                         SN_AXIS_DATA, SN_AXIS_PIPELINE};
    int size[SN_NGRID_AXES] = {tensor, 1, context, data, pipeline};
    struct sn_grid g = {.kv_copies = 1, .experts = 1};
    struct sn_err err;
    (void)sn_grid_init(&g, tensor * context * data * pipeline, size, order, &err);
    return g;
}

/* Of memory with sn_collective_staging() of all ranks for each axis, what groups of a queue use. */
static inline char *test_staging(const struct sn_comm *c, char *all, enum sn_group q)
{
    return all + (int)sn_group_queue(q) * sn_collective_staging(c->size);
}

/* An all-reduce over all ranks, in place. */
static inline sn_request post_sum(struct sn_comm *c, void *buf, int64_t n, enum sn_dtype dtype,
                                  void *staging)
{
    struct sn_transfer t = {.kind = SN_ALL_REDUCE,
                            .group = SN_GROUP_WORLD,
                            .dtype = dtype,
                            .n = n,
                            .out = buf,
                            .staging = staging,
                            .label = "sum"};
    return c->ops->post(c, &t);
}

/* What all axes together were billed since the last call. */
static inline int64_t take_sent(struct sn_comm *c)
{
    int64_t bytes[SN_NAXES] = {0}, sum = 0;
    c->ops->take_sent_bytes(c, bytes);
    for (int a = 0; a < SN_NAXES; a++)
        sum += bytes[a];
    return sum;
}

#endif
