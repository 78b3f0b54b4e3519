/*
 * comm_sum.h - the sum of one piece over ranks, in rank order whatever arrived first. Knows no MPI.
 *
 *   sum = ((part[0] + part[1]) + part[2]) + ...
 *
 * fp32 and fp64 parts are added in their own type. bf16 and fp16 parts are added in fp32, and the
 * sum is rounded once, to nearest even, at the end.
 */
#ifndef SN_COMM_SUM_H
#define SN_COMM_SUM_H

#include "kernels/tensor.h"

#include <stdbool.h>
#include <stdint.h>

/* One part of each rank: this rank's own, and the others' in rank order, `stride` bytes apart. */
struct sn_comm_parts {
    const char *own;
    char *others;
    int64_t stride;
    int rank, size;
    char *out; /* may be `own`; else it overlaps no part, and `own` stays as it is */
    bool add;  /* out += sum instead of out = sum (fp32, and out is not `own`) */
};

/* Over n elements of SN_F32, SN_F64, SN_BF16 or SN_F16. Destroys the first of the others, which may
 * take partial sums. One rank: out = own. */
void sn_comm_sum(const struct sn_comm_parts *parts, int64_t n, enum sn_dtype dtype);

#endif
