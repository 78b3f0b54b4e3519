#include "lib/layout/collective.h"

#include <assert.h>

int64_t sn_collective_all_reduce_bytes(int64_t n, enum sn_dtype dtype, int size, int rank)
{
    assert(n >= 0 && size >= 1 && rank >= 0 && rank < size);
    int64_t width = (int64_t)sn_dtype_size(dtype);
    if (n * width <= SN_COLLECTIVE_SMALL)
        return (size - 1) * n * width;
    int64_t chunk = sn_collective_chunk_bytes(size) / width;
    int64_t rest = n % chunk;
    int64_t own = n / chunk * sn_collective_slice(chunk, size, rank).count +
                  sn_collective_slice(rest, size, rank).count;
    int64_t scatter = n - own;         /* every slice but its own, to its owner */
    int64_t gather = own * (size - 1); /* its own, to everybody */
    return (scatter + gather) * width;
}

int64_t sn_collective_staging(int size)
{
    return SN_COLLECTIVE_SLOTS * (int64_t)(size - 1) * sn_collective_slice_bytes(size);
}
