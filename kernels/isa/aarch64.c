/*
 * aarch64.c - which instruction sets this 64-bit Arm processor has; see isa.h.
 *
 * generic is ARMv8.0, which has NEON; armbf16 is the same with products of bf16 by BFMMLA, and
 * compiled for ARMv8.2, which every processor that has them is.
 *
 * There is no set for SVE. Its vectors have a size that only the processor knows, so that they can
 * be neither elements of arrays nor a tile's shape as tile.h writes it, and code for one size must
 * not run on another. What it would bring is little where it is found: Neoverse V1 multiplies four
 * vectors of NEON or two of 256-bit SVE in a cycle, Neoverse V2 (Grace) and N2 have SVE of 128
 * bits. A64FX, with 512 bits, is the exception.
 */
#include "kernels/isa.h"

#include <sys/auxv.h>

extern const struct sn_ops sn_cpu_table_generic;
/* Not there where the compiler does not know the instructions. */
extern const struct sn_ops sn_cpu_table_armbf16 __attribute__((weak));

int sn_isa_list(struct sn_isa list[SN_ISA_MOST], const char **lacks)
{
    int n = 0;
    *lacks = NULL;
    list[n++] = (struct sn_isa){&sn_cpu_table_generic, "cpu/generic (NEON), own GEMM", 0, false};
    if ((getauxval(AT_HWCAP2) & HWCAP2_BF16) && &sn_cpu_table_armbf16)
        list[n++] = (struct sn_isa){&sn_cpu_table_armbf16, "cpu/armbf16, own GEMM", 0, false};
    return n;
}
