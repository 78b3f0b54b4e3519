/*
 * x86_64.c - which instruction sets this x86-64 processor has; see isa.h.
 *
 * avx2 and avx512 are compiled for x86-64-v3 and -v4; the features asked for are those that tell
 * the levels apart and that gcc and clang both know by name. avx512bf16 and amx are avx512 with
 * products of bf16.
 */
#include "kernels/isa.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

extern const struct sn_ops sn_cpu_table_generic, sn_cpu_table_avx2, sn_cpu_table_avx512;
/* Not there where the compiler does not know the instructions. */
extern const struct sn_ops sn_cpu_table_avx512bf16 __attribute__((weak));
extern const struct sn_ops sn_cpu_table_amx __attribute__((weak));

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

static bool has_bf16(void)
{
    return has_v4() && __builtin_cpu_supports("avx512bf16");
}

/*
 * VDPBF16PS of 512 bits adds 32 products. Zen 4 and 5 begin one (or two) where they begin one (or
 * two) VFMADD231PS, which adds 16: twice the rate. Intel's, from Sapphire Rapids on, begin one in
 * two cycles and four VFMADD231PS in the same time: half the rate (docs/PERFORMANCE.md), so that
 * bf16 is faster widened to fp32 there.
 */
static bool dots_are_fast(void)
{
    return __builtin_cpu_is("amd");
}

/* Tiles, and TDPBF16PS: bits 24 and 22 of leaf 7, which clang 14 has no words for. */
static bool has_amx(void)
{
    unsigned a, b, c, d;
    return has_bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 1) && (d >> 22 & 1);
}

/* Tiles are 8 KiB of a thread's state: a process asks the kernel for them once, for all its
 * threads (Linux 5.16; asked again, it answers the same). */
static bool may_use_tiles(void)
{
    enum { REQUEST = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILES = 18 /* XTILEDATA */ };
    return syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
}

int sn_isa_list(struct sn_isa list[SN_ISA_MOST], const char **lacks)
{
    int n = 0;
    *lacks = NULL;
    list[n++] = (struct sn_isa){&sn_cpu_table_generic, "cpu/generic, own GEMM", 0, false};
    if (has_v3())
        list[n++] = (struct sn_isa){&sn_cpu_table_avx2, "cpu/avx2, own GEMM", 1, false};
    else
        *lacks = "this processor has no AVX2: kernels use SSE2 and take several times as long; run "
                 "on a newer node";
    if (has_v4())
        list[n++] = (struct sn_isa){&sn_cpu_table_avx512, "cpu/avx512, own GEMM", 2, false};
    if (has_bf16() && &sn_cpu_table_avx512bf16)
        list[n++] = (struct sn_isa){&sn_cpu_table_avx512bf16, "cpu/avx512bf16, own GEMM", 2,
                                    !dots_are_fast()};
    if (has_amx() && &sn_cpu_table_amx && may_use_tiles())
        list[n++] = (struct sn_isa){&sn_cpu_table_amx, "cpu/amx, own GEMM", 2, false};
    return n;
}
