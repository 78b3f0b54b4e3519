/*
 * kernel_slack.h - what attention may round beside its results, as a share of values of size 1.
 *
 * Products of 16-bit operands take 16-bit operands: attention rounds its probabilities p, and the
 * backward the gradients of scores, to the storage type, whose unit is u. That is u sum p |v| in a
 * result; in the backward also over the heads that share keys, and with dropout times 1 / (1 -
 * drop): 3 u was seen forward, 5 u backward.
 */
#ifndef KERNEL_SLACK_H
#define KERNEL_SLACK_H

#include "kernels/ops.h"

static inline double kt_slack_of(enum sn_op_kind kind, enum sn_dtype t)
{
    double unit = t == SN_F16 ? 1.0 / 2048 : t == SN_BF16 ? 1.0 / 512 : 0.0;
    return kind == SN_OP_ATTENTION ? 4 * unit : kind == SN_OP_ATTENTION_DX ? 8 * unit : 0.0;
}

#endif
