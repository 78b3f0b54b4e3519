/*
 * collective.h - how an all-reduce is cut into chunks and slices, and so how many bytes it sends:
 * shared by the planner's accounting and by the communicator that sends them.
 *
 * A buffer is cut into chunks, a chunk into one slice per rank: rank j sums slice j. Slices are
 * multiples of 16 elements; the last ones of a short chunk are short or empty. Arithmetic only.
 */
#ifndef SN_COLLECTIVE_H
#define SN_COLLECTIVE_H

#include "kernels/tensor.h"

#include <stdint.h>

enum {
    SN_COLLECTIVE_SMALL = 512,     /* bytes: up to here one exchange of everything with everybody */
    SN_COLLECTIVE_CHUNK = 1 << 20, /* bytes: larger messages make Open MPI map fresh memory */
    SN_COLLECTIVE_SLICE =
        16 << 10,             /* bytes: with many ranks a chunk grows to keep slices this long */
    SN_COLLECTIVE_ALIGN = 16, /* elements */
    SN_COLLECTIVE_SLOTS = 2   /* chunks in flight */
};

struct sn_collective_slice {
    int64_t start, count; /* elements, start within the chunk */
};

static inline int64_t sn_collective_chunk_bytes(int size)
{
    int64_t grown = (int64_t)size * SN_COLLECTIVE_SLICE;
    return grown > SN_COLLECTIVE_CHUNK ? grown : SN_COLLECTIVE_CHUNK;
}

/* Slice j of a chunk of m elements. */
static inline struct sn_collective_slice sn_collective_slice(int64_t m, int size, int j)
{
    int64_t per_rank = SN_COLLECTIVE_ALIGN * (int64_t)size;
    int64_t length = (m + per_rank - 1) / per_rank * SN_COLLECTIVE_ALIGN;
    int64_t start = j * length < m ? j * length : m;
    int64_t end = m - start < length ? m : start + length;
    return (struct sn_collective_slice){start, end - start};
}

/* Bytes of the longest slice, whatever the dtype. */
static inline int64_t sn_collective_slice_bytes(int size)
{
    int64_t per_rank = SN_COLLECTIVE_ALIGN * (int64_t)size * 8;
    return (sn_collective_chunk_bytes(size) + per_rank - 1) / per_rank * SN_COLLECTIVE_ALIGN * 8;
}

/* Exact bytes that rank `rank` sends in an all-reduce of n elements over `size` ranks. Nothing is
 * padded on the wire: with S = n x size of dtype,
 *   up to 512 bytes every rank sends all of it to all others:  (size-1) S
 *   else reduce-scatter and all-gather, about                  2 (size-1)/size S
 * in which ranks differ by the length of the slices they own. Rank 0 sends most. */
int64_t sn_collective_all_reduce_bytes(int64_t n, enum sn_dtype dtype, int size, int rank);
/* Planned staging memory of one posted all-reduce (0 for size 1); independent of n (chunked): about
 * 2 MiB up to 64 ranks, 32 KiB a rank beyond. */
int64_t sn_collective_staging(int size);

#endif
