/*
 * bench.h - what the benchmarks that print a table share.
 */
#ifndef SN_BENCH_H
#define SN_BENCH_H

#include <stdlib.h>
#include <string.h>

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

#endif
