/*
 * bench.h - what the benchmarks share: the first line of their records, times, memory.
 */
#ifndef SN_BENCH_H
#define SN_BENCH_H

#include "kernels/ops.h"
#include "lib/exec/products.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first statement of every benchmark: a set that SN_ISA names and this processor
 * lacks, or whose products are wrong, ends it. */
static inline void bench_check(void)
{
    char why[256];
    struct sn_err err;
    if (!sn_ops_cpu_check(why, sizeof(why))) {
        (void)fprintf(stderr, "%s\n", why);
        exit(2);
    }
    if (sn_products_check(sn_ops_cpu(), &err) != SN_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
}

/* That, and the first line of the record: the instruction set, without which no
 * figure says much. */
static inline void bench_head(void)
{
    const char *warning;
    bench_check();
    printf("# %s\n", sn_ops_cpu_describe(&warning));
    if (warning)
        printf("# warning: %s\n", warning);
    (void)fflush(stdout); /* children print after it, and do not repeat it */
}

/* For qsort of doubles, ascending. */
static inline int bench_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Zeroed, touched, on a cache line; the program ends without memory. */
static inline void *bench_room(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!p)
        abort();
    memset(p, 0, bytes);
    return p;
}

/* The plugin of BUILD, whose programs look beside BUILD/bin, for one in BUILD/tests/gpu; what
 * SN_PLUGIN names stands. */
static inline void bench_plugin(void)
{
    char self[1024], path[1100];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    for (int up = 0; up < 3; up++) {
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = '\0';
    }
    (void)snprintf(path, sizeof(path), "%s/lib/sennit/libsennit_cuda.so", self);
    if (setenv("SN_PLUGIN", path, 0) != 0)
        abort();
}

#endif
