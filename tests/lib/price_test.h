/*
 * price_test.h - the machine on which the tests of prices price, and operations to be priced.
 */
#ifndef PRICE_TEST_H
#define PRICE_TEST_H

#include "lib/cost/price.h"

#include <stdbool.h>

/* Buffers 0, 1 and 2, of bf16, fp32 and bytes. */
extern const struct sn_program price_program;

/* Equal but for rounding. */
bool price_near(double got, double want);
/* An operation without operands. */
struct sn_op price_op(int kind);
struct sn_view price_view(int buf, int64_t rows, int64_t cols);
/* 8 devices a node over NICs of 25 GB/s each, nodes under one switch. */
struct sn_machine price_cluster(void);
/* Of a grid of these sizes, in bf16; borrows the machine and the software. */
struct sn_pricer price_pricer(const struct sn_machine *m, const struct sn_software *s,
                              const int size[SN_NGRID_AXES]);

#endif
