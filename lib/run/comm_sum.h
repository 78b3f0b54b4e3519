/*
 * comm_sum.h - the sum of one piece over ranks, in rank order whatever arrived first. Knows no MPI.
 */
#ifndef SN_COMM_SUM_H
#define SN_COMM_SUM_H

#include "kernels/tensor.h"

#include <stdint.h>

/* One part of each rank: this rank's own, and the others' in rank order, `stride` bytes apart. */
struct sn_comm_parts {
    char *own, *others;
    int64_t stride;
    int rank, size;
};

/* own = part[0] + part[1] + ..., n elements of SN_F32 or SN_F64. Destroys the first of the others,
 * which takes the partial sums. */
void sn_comm_sum(const struct sn_comm_parts *parts, int64_t n, enum sn_dtype dtype);

#endif
