/*
 * none.c - an instruction set that has no products of bf16: GEMM widens it to fp32.
 */
#include "kernels/cpu/bf16.h"

const struct sn_bf16_products *const SN_K(sn_bf16) = NULL;
