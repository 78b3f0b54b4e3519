/*
 * count.c - linked into the binaries of build/ub: how much work a command is, in a number that is
 * the same on every machine and under any load.
 *
 * The compiler calls __sanitizer_cov_trace_pc at the begin of each basic block
 * (-fsanitize-coverage=trace-pc): of the planner, the trainer, the readers of files; not of kernels
 * or libraries.
 *
 * SN_TEST_COUNT=FILE  at exit the number of blocks that were run is written there
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void __sanitizer_cov_trace_pc(void);

static _Thread_local uint64_t count; /* of the main thread, where all of the planner is done */

void __sanitizer_cov_trace_pc(void)
{
    count++;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("SN_TEST_COUNT");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (f) {
        (void)fprintf(f, "%" PRIu64 "\n", count);
        (void)fclose(f);
    }
}
