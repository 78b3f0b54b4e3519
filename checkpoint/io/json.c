#include "checkpoint/io/json.h"

#include "lib/base/mem.h"

#include <stdatomic.h>

/* A counter like those of mem.c: the library's allocation function has no argument of ours. */
static atomic_ullong n_refused;

void *sn_json_alloc(size_t bytes)
{
    void *p = sn_alloc(bytes);
    if (!p)
        atomic_fetch_add(&n_refused, 1);
    return p;
}

uint64_t sn_json_refusals(void)
{
    return atomic_load(&n_refused);
}
