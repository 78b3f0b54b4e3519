/*
 * cpu.c - picks the CPU backend for this processor, and describes it.
 *
 * The tables are compiled for x86-64-v3 and -v4; the features asked for are those that tell the
 * levels apart and that gcc and clang both know by name.
 */
#include "kernels/codec.h"
#include "kernels/ops.h"

extern const struct sn_ops sn_cpu_table_generic;
#ifdef SN_HAVE_ISA_avx512
extern const struct sn_ops sn_cpu_table_avx2, sn_cpu_table_avx512;

static bool has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static bool has_v4(void)
{
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

const struct sn_ops *sn_ops_cpu(void)
{
    return has_v4() ? &sn_cpu_table_avx512 : has_v3() ? &sn_cpu_table_avx2 : &sn_cpu_table_generic;
}

int sn_cpu_level(void)
{
    return has_v4() ? 2 : has_v3();
}

const char *sn_ops_cpu_describe(const char **warning)
{
    *warning = has_v3() ? NULL
                        : "this processor has no AVX2: kernels use SSE2 and take several times as "
                          "long; run on a newer node";
    return has_v4()   ? "cpu/avx512, own GEMM"
           : has_v3() ? "cpu/avx2, own GEMM"
                      : "cpu/generic, own GEMM";
}
#else
const struct sn_ops *sn_ops_cpu(void)
{
    return &sn_cpu_table_generic;
}

int sn_cpu_level(void)
{
    return 0;
}

const char *sn_ops_cpu_describe(const char **warning)
{
    *warning = NULL;
    return "cpu/generic, own GEMM";
}
#endif
