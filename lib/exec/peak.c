#include "lib/exec/peak.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

enum { SIZE = 768, REPEATS = 8 };
/* Seconds. All ranks measure at the same time: where they share cores that is their start-up. */
static const double ENOUGH = 0.05;

enum sn_status sn_peak_measure(double *out, const struct sn_ops *ops, enum sn_dtype dtype,
                               int threads, struct sn_err *err)
{
    struct sn_args a = {.attr = {.gemm.trans_b = true}};
    size_t bytes = (size_t)SIZE * SIZE * 4;
    struct sn_mat *m[] = {&a.in[SN_GEMM_A], &a.in[SN_GEMM_B], &a.out[SN_GEMM_C]};
    for (int i = 0; i < 3; i++)
        *m[i] = (struct sn_mat){NULL, dtype, SIZE, SIZE, SIZE};
    size_t scratch = ops->scratch(SN_OP_GEMM, &a, threads);
    char *memory = sn_arena_map(3 * bytes + scratch);
    if (!memory)
        return sn_fail(err, SN_ENOMEM, "peak: no memory for a GEMM of %d", SIZE);
    for (int i = 0; i < 3; i++)
        m[i]->p = memory + (size_t)i * bytes;
    a.scratch = memory + 3 * bytes;
    double best = 1e30, spent = 0;
    for (int i = 0; i < REPEATS && (i < 2 || spent < ENOUGH); i++) {
        double t0 = sn_clock();
        if (ops->run[SN_OP_GEMM](&a, threads) != 0)
            break;
        double t = sn_clock() - t0;
        spent += t;
        best = t < best ? t : best;
    }
    sn_arena_unmap(memory, 3 * bytes + scratch);
    *out = 2.0 * SIZE * SIZE * SIZE / best;
    return SN_OK;
}
