#include "lib/exec/profile.h"

void sn_profile_print(FILE *f, const struct sn_exec_time *times)
{
    double total = 0;
    for (int k = 0; k < SN_NKINDS; k++)
        total += times[k].seconds;
    (void)fprintf(f, "%-14s %10s %8s %6s %10s\n", "operation", "runs", "seconds", "share",
                  "GFLOP/s");
    for (int k = 0; k < SN_NKINDS; k++) {
        const struct sn_exec_time *t = &times[k];
        if (t->runs == 0)
            continue;
        (void)fprintf(f, "%-14s %10lld %8.3f %5.1f%%", sn_op_name(k), (long long)t->runs,
                      t->seconds, 100 * t->seconds / total);
        if (t->flops > 0)
            (void)fprintf(f, " %10.1f", t->flops / t->seconds * 1e-9);
        (void)fprintf(f, "\n");
    }
    (void)fprintf(f, "%-14s %10s %8.3f\n", "total", "", total);
}
