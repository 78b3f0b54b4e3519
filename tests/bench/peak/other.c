/*
 * other.c - in the place of x86_64.c on other processors.
 */
#include "tests/bench/peak/peak.h"

#include <stddef.h>

const char *bench_peak_instruction(enum sn_dtype t)
{
    (void)t;
    return NULL;
}

double bench_peak(enum sn_dtype t, int threads)
{
    (void)t;
    (void)threads;
    return 0;
}

double bench_peak_from(enum sn_dtype t, size_t room)
{
    (void)t;
    (void)room;
    return 0;
}
