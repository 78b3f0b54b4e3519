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
        16 << 10,              /* bytes: with many ranks a chunk grows to keep slices this long */
    SN_COLLECTIVE_ALIGN = 16,  /* elements */
    SN_COLLECTIVE_SLOTS = 2,   /* chunks in flight */
    SN_COLLECTIVE_HEAD = 4096, /* bytes of a rank's area of the shared memory before its slots, */
    SN_COLLECTIVE_LINE = 64,   /* of the cache; one stays free after each part */
    SN_COLLECTIVE_LENGTH = 8   /* bytes of the length that a sized block begins with */
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

/* What a posted communication does, over the members 0 .. size-1 of a group. n counts elements. */
enum sn_collective {
    SN_ALL_REDUCE,     /* out[n] = sum over members of in[n]; the same bits on all */
    SN_ALL_GATHER,     /* out[size x n]: block i is member i's in[n] */
    SN_REDUCE_SCATTER, /* out[n] = sum over members of block (own index) of their in[size x n] */
    SN_ALL_TO_ALL,     /* block i of out[size x n] is block (own index) of member i's in */
    SN_SEND,           /* in[n] to one member */
    SN_RECV,           /* out[n] from one member */
    SN_NCOLLECTIVES
};
const char *sn_collective_name(enum sn_collective k); /* "all_reduce", ... */

/* Exact bytes that member `index` sends; nothing is padded on the wire beyond what n says.
 * Reductions are sums in member order, in fp32 or better, rounded once.
 *   all-reduce      up to 512 bytes every member sends all of it to all others: (size-1) S;
 *                   else reduce-scatter and all-gather, about 2 (size-1)/size S, in which members
 *                   differ by the length of the slices they own (member 0 sends most)
 *   all-gather, reduce-scatter, all-to-all    (size-1) n
 *   send            n; receive 0
 * The same on every transport (messages, shared memory): bytes are counted where a member's data
 * becomes another member's. */
int64_t sn_collective_bytes(enum sn_collective k, int64_t n, enum sn_dtype dtype, int size,
                            int index);
/* Bytes that travel of a sized block (comm.h) whose length says that `length` bytes follow it: the
 * length, and those rounded up to 8. In an all-gather a member sends its block to size-1 others, in
 * an all-to-all those of the others to each, in a send the one; on every transport. */
static inline int64_t sn_collective_sized(int64_t length)
{
    return SN_COLLECTIVE_LENGTH + (length + 7) / 8 * 8;
}
/* The sum over all members. */
int64_t sn_collective_total(enum sn_collective k, int64_t n, enum sn_dtype dtype, int size);
/* Planned staging memory of posted operations of a group of this size (0 for size 1); independent
 * of n (chunked): about 2 MiB up to 64 ranks, 32 KiB a rank beyond. A rank plans the largest over
 * the groups of a queue (sn_group_queue), once for each queue. */
int64_t sn_collective_staging(int size);
/* Planned bytes of a rank's part of the shared memory of its host, through which groups that
 * lie on one host communicate, with slots for each of so many queues (sn_grid_queues); 0 for a job
 * of one rank, which has none. Mapped by the communicator, counted in the plan's `comm`. */
int64_t sn_collective_shm_bytes(int queues);

#endif
