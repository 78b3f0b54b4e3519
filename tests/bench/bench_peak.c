/*
 * bench_peak.c - the multiply-add peak of this processor with the set in use: fp32, and bf16 where the
 * set multiplies it (peak/peak.h). Median and best of 40 runs with one thread and with all; of tiles
 * also with operands that come from L1 and from L2. Skips aloud where the set's instruction is not
 * known.
 */
#include "kernels/ops.h"
#include "tests/bench/bench.h"
#include "tests/bench/peak/peak.h"

#include <omp.h>

enum { RUNS = 40 };

static void measure(enum sn_dtype t, int threads)
{
    double rate[RUNS];
    for (int i = 0; i < RUNS; i++)
        rate[i] = bench_peak(t, threads);
    qsort(rate, RUNS, sizeof(rate[0]), bench_by_value);
    printf("%-5s %-16s %d threads: median %.0f, best %.0f GFLOP/s\n", sn_dtype_name(t),
           bench_peak_instruction(t), threads, rate[RUNS / 2] * 1e-9, rate[RUNS - 1] * 1e-9);
}

static void measure_loads(enum sn_dtype t, const char *where, size_t room)
{
    double rate[RUNS];
    for (int i = 0; i < RUNS; i++)
        rate[i] = bench_peak_from(t, room);
    qsort(rate, RUNS, sizeof(rate[0]), bench_by_value);
    if (rate[0] > 0)
        printf("%-5s %-16s 1 thread, operands from %s: median %.0f, best %.0f GFLOP/s\n",
               sn_dtype_name(t), bench_peak_instruction(t), where, rate[RUNS / 2] * 1e-9,
               rate[RUNS - 1] * 1e-9);
}

int main(void)
{
    static const enum sn_dtype types[] = {SN_F32, SN_BF16};
    bench_head();
    for (int i = 0; i < 2; i++) {
        if (!bench_peak_instruction(types[i])) {
            printf("# SKIP %s: nothing here knows what %s multiplies with\n",
                   sn_dtype_name(types[i]), sn_ops_cpu()->name);
            continue;
        }
        measure(types[i], 1);
        if (omp_get_max_threads() > 1)
            measure(types[i], omp_get_max_threads());
        measure_loads(types[i], "L1", 16 << 10);
        measure_loads(types[i], "L2", 512 << 10);
    }
    return 0;
}
