/*
 * products.h - are a processor's products right here? A set of instructions may first meet a
 * processor that has it at a user's: where it was written it was modelled or emulated.
 */
#ifndef SN_PRODUCTS_H
#define SN_PRODUCTS_H

#include "kernels/ops.h"
#include "lib/base/err.h"

/* Multiply small integers, whose sums every set meets exactly, in fp32 and in bf16: well under a
 * millisecond, once for each process before it trains or measures. SN_EFAIL: a product is wrong.
 * SN_ENOMEM: no memory for scratch. */
enum sn_status sn_products_check(const struct sn_ops *ops, struct sn_err *err);

#endif
