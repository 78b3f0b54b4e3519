/*
 * bench_peak.c - the multiply-add peak of this processor, in fp32: what no GEMM can exceed.
 *
 * Ten independent chains of AVX-512 multiply-adds per thread, no memory. Median and best of 40 runs
 * with one thread and with all. Skips aloud where there is no AVX-512; the
 * Makefile leaves it out on other processors than x86-64.
 */
#include "lib/base/clock.h"
#include "tests/bench/bench.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 40, STEPS = 20000000, CHAINS = 10, LANES = 16 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a - *(const double *)b;
    return x < 0 ? -1 : x > 0;
}

static void chains(void)
{
    __asm__ volatile("vpxorq %%zmm0, %%zmm0, %%zmm0\n\t"
                     "vmovaps %%zmm0, %%zmm1\n\tvmovaps %%zmm0, %%zmm2\n\t"
                     "vmovaps %%zmm0, %%zmm3\n\tvmovaps %%zmm0, %%zmm4\n\t"
                     "vmovaps %%zmm0, %%zmm5\n\tvmovaps %%zmm0, %%zmm6\n\t"
                     "vmovaps %%zmm0, %%zmm7\n\tvmovaps %%zmm0, %%zmm8\n\t"
                     "vmovaps %%zmm0, %%zmm9\n\tvmovaps %%zmm0, %%zmm10\n\t"
                     "vmovaps %%zmm0, %%zmm11\n\t"
                     "mov %0, %%ecx\n\t"
                     "1:\n\t"
                     "vfmadd231ps %%zmm0, %%zmm1, %%zmm2\n\tvfmadd231ps %%zmm0, %%zmm1, %%zmm3\n\t"
                     "vfmadd231ps %%zmm0, %%zmm1, %%zmm4\n\tvfmadd231ps %%zmm0, %%zmm1, %%zmm5\n\t"
                     "vfmadd231ps %%zmm0, %%zmm1, %%zmm6\n\tvfmadd231ps %%zmm0, %%zmm1, %%zmm7\n\t"
                     "vfmadd231ps %%zmm0, %%zmm1, %%zmm8\n\tvfmadd231ps %%zmm0, %%zmm1, %%zmm9\n\t"
                     "vfmadd231ps %%zmm0, %%zmm1, %%zmm10\n\tvfmadd231ps %%zmm0, %%zmm1, %%zmm11\n\t"
                     "dec %%ecx\n\t"
                     "jnz 1b\n\t"
                     "vzeroupper"
                     :
                     : "i"(STEPS)
                     : "ecx", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                       "xmm8", "xmm9", "xmm10", "xmm11");
}

static void measure(int threads)
{
    double t[RUNS], flops = 2.0 * LANES * CHAINS * (double)STEPS * threads;
    for (int i = 0; i < RUNS; i++) {
        double t0 = sn_clock();
#pragma omp parallel num_threads(threads)
        chains();
        t[i] = sn_clock() - t0;
    }
    qsort(t, RUNS, sizeof(t[0]), ascending);
    printf("%d threads: median %.0f, best %.0f GFLOP/s\n", threads, flops / t[RUNS / 2] * 1e-9,
           flops / t[0] * 1e-9);
}

int main(void)
{
    bench_head();
    if (!__builtin_cpu_supports("avx512f")) {
        printf("# SKIP this processor has no AVX-512\n");
        return 0;
    }
    measure(1);
    if (omp_get_max_threads() > 1)
        measure(omp_get_max_threads());
    return 0;
}
