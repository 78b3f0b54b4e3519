/*
 * hook.c - linked into the binaries of `make check-oom` only: makes the n-th allocation fail.
 *
 * SN_TEST_FAIL_AT=n   the n-th call of lib/base/mem.h returns NULL, once
 * SN_TEST_COUNT=FILE  at exit the number of calls made is written there
 */
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void arm(void)
{
    const char *n = getenv("SN_TEST_FAIL_AT");
    if (n)
        sn_mem_fail_at(strtoull(n, NULL, 10));
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("SN_TEST_COUNT");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (f) {
        (void)fprintf(f, "%" PRIu64 "\n", sn_mem_count());
        (void)fclose(f);
    }
}
