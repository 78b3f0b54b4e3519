/*
 * other_table.h - the kernels' unit tests, run on another table than the CPU's.
 *
 * tests/unit/kernels/test_kernels_*.c and their like are compiled once more with sn_ops_cpu and
 * sn_cpu_table_generic renamed to these (Makefile), and linked with the file that defines them:
 * tests/cuda_emul/table.cc runs the CUDA kernels' sources on the host, tests/gpu/table.cu on a GPU.
 */
#ifndef OTHER_TABLE_H
#define OTHER_TABLE_H

#include "tests/lib/kernel_slack.h"

#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
extern const struct sn_ops kt_other_table;
const struct sn_ops *kt_other_ops(void); /* &kt_other_table */

/* What this table rounds where the CPU keeps fp32 (kernel_slack.h): kernel_test.h adds it to
 * tolerances, for values of size 1. */
double kt_slack(enum sn_op_kind kind, enum sn_dtype t);

/* Is SN_ANY_ORDER set in the environment? Then every operation is run with attr.any_order, and two
 * runs need not have the same bits. */
bool kt_any_order(void);

/* SN_ATTENTION in the environment: "auto" lets cuDNN compute attention where it can, "cudnn" wants
 * that it does; else own kernels. */
static inline enum sn_library_use kt_library(void)
{
    const char *whose = getenv("SN_ATTENTION");
    return !whose                        ? SN_LIBRARY_NEVER
           : strcmp(whose, "auto") == 0  ? SN_LIBRARY_MAY
           : strcmp(whose, "cudnn") == 0 ? SN_LIBRARY_MUST
                                         : SN_LIBRARY_NEVER;
}

/* The numbers of threads to try are 1 to this; a table that does not define it has none. */
int kt_threads(void);

/* Calls of operations count from 1. Those that SN_LEAVE_OUT names ("17 204") do nothing and fail:
 * a fault that a device does not survive ends the program at "Bail out! call 17, ...", which is run
 * again without that call (tests/gpu/check), so that only its test is lost. */
static inline bool kt_is_left_out(long call)
{
    const char *at = getenv("SN_LEAVE_OUT");
    for (char *end; at && *at; at = end) {
        long number = strtol(at, &end, 10);
        if (end == at || number == call)
            return end != at;
    }
    return false;
}
#ifdef __cplusplus
}
#endif

#endif
