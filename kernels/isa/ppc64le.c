/*
 * ppc64le.c - which instruction sets this little-endian POWER processor has; see isa.h.
 *
 * generic is POWER8, the first that runs little-endian Linux; power9 loads a number into all lanes
 * by one instruction. power10 is power9 with products of fp32 and bf16 by MMA.
 */
#include "kernels/isa.h"

#include <sys/auxv.h>

extern const struct sn_ops sn_cpu_table_generic, sn_cpu_table_power9;
/* Not there where the compiler does not know the instructions. */
extern const struct sn_ops sn_cpu_table_power10 __attribute__((weak));

int sn_isa_list(struct sn_isa list[SN_ISA_MOST], const char **lacks)
{
    const unsigned long has = getauxval(AT_HWCAP2), ten = PPC_FEATURE2_ARCH_3_1 | PPC_FEATURE2_MMA;
    int n = 0;
    *lacks = NULL;
    list[n++] = (struct sn_isa){&sn_cpu_table_generic, "cpu/generic (VSX), own GEMM", 0, false};
    if (has & PPC_FEATURE2_ARCH_3_00)
        list[n++] = (struct sn_isa){&sn_cpu_table_power9, "cpu/power9, own GEMM", 1, false};
    if ((has & PPC_FEATURE2_ARCH_3_00) && (has & ten) == ten && &sn_cpu_table_power10)
        list[n++] = (struct sn_isa){&sn_cpu_table_power10, "cpu/power10, own GEMM", 1, false};
    return n;
}
