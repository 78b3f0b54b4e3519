/*
 * other.c - architectures for which the kernels are compiled once; see isa.h.
 */
#include "kernels/isa.h"

extern const struct sn_ops sn_cpu_table_generic;

int sn_isa_list(struct sn_isa list[SN_ISA_MOST], const char **lacks)
{
    *lacks = NULL;
    list[0] = (struct sn_isa){&sn_cpu_table_generic, "cpu/generic, own GEMM", 0, false};
    return 1;
}
