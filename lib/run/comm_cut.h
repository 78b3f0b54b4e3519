/*
 * comm_cut.h - how an all-reduce is cut into chunks and slices: shared by the formulas of comm.c
 * and by what comm_mpi.c sends.
 *
 * A buffer is cut into chunks, a chunk into one slice per rank: rank j sums slice j. Slices are
 * multiples of 16 elements; the last ones of a short chunk are short or empty. Arithmetic only.
 */
#ifndef SN_COMM_CUT_H
#define SN_COMM_CUT_H

#include <stdint.h>

enum {
    SN_COMM_SMALL = 512,      /* bytes: up to here one exchange of everything with everybody */
    SN_COMM_CHUNK = 1 << 20,  /* bytes: larger messages make Open MPI map fresh memory */
    SN_COMM_SLICE = 16 << 10, /* bytes: with many ranks a chunk grows to keep slices this long */
    SN_COMM_ALIGN = 16,       /* elements */
    SN_COMM_SLOTS = 2         /* chunks in flight */
};

struct sn_comm_slice {
    int64_t start, count; /* elements, start within the chunk */
};

static inline int64_t sn_comm_chunk_bytes(int size)
{
    int64_t grown = (int64_t)size * SN_COMM_SLICE;
    return grown > SN_COMM_CHUNK ? grown : SN_COMM_CHUNK;
}

/* Slice j of a chunk of m elements. */
static inline struct sn_comm_slice sn_comm_slice(int64_t m, int size, int j)
{
    int64_t per_rank = SN_COMM_ALIGN * (int64_t)size;
    int64_t length = (m + per_rank - 1) / per_rank * SN_COMM_ALIGN;
    int64_t start = j * length < m ? j * length : m;
    int64_t end = m - start < length ? m : start + length;
    return (struct sn_comm_slice){start, end - start};
}

/* Bytes of the longest slice, whatever the dtype. */
static inline int64_t sn_comm_slice_bytes(int size)
{
    int64_t per_rank = SN_COMM_ALIGN * (int64_t)size * 8;
    return (sn_comm_chunk_bytes(size) + per_rank - 1) / per_rank * SN_COMM_ALIGN * 8;
}

#endif
