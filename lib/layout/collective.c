#include "lib/layout/collective.h"

#include <assert.h>

static int64_t all_reduce_bytes(int64_t n, enum sn_dtype dtype, int size, int rank)
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

int64_t sn_collective_bytes(enum sn_collective k, int64_t n, enum sn_dtype dtype, int size,
                            int index)
{
    int64_t bytes = n * (int64_t)sn_dtype_size(dtype);
    if (size == 1 || k == SN_RECV)
        return 0;
    if (k == SN_ALL_REDUCE)
        return all_reduce_bytes(n, dtype, size, index);
    return k == SN_SEND ? bytes : (size - 1) * bytes;
}

int64_t sn_collective_total(enum sn_collective k, int64_t n, enum sn_dtype dtype, int size)
{
    int64_t bytes = n * (int64_t)sn_dtype_size(dtype);
    if (k != SN_ALL_REDUCE)
        return k == SN_SEND || k == SN_RECV ? sn_collective_bytes(k, n, dtype, size, 0)
                                            : size * sn_collective_bytes(k, n, dtype, size, 0);
    return bytes <= SN_COLLECTIVE_SMALL ? (int64_t)size * (size - 1) * bytes
                                        : 2 * (int64_t)(size - 1) * bytes;
}

const char *sn_collective_name(enum sn_collective k)
{
    static const char *const name[SN_NCOLLECTIVES] = {"all_reduce", "all_gather", "reduce_scatter",
                                                      "all_to_all", "send",       "recv"};
    return name[k];
}

int64_t sn_collective_shm_bytes(int queues)
{
    return queues > 0 ? SN_COLLECTIVE_LINE + SN_COLLECTIVE_HEAD +
                            queues * SN_COLLECTIVE_SLOTS * (int64_t)SN_COLLECTIVE_CHUNK
                      : 0;
}
