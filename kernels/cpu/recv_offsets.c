/*
 * recv_offsets.c - RECV_OFFSETS: where each sender's rows for each expert lie in the window of a round.
 */
#include "kernels/cpu/cpu.h"

/* A place in the list of arrivals as a row of the window. */
static int32_t within(int64_t at, const struct sn_attr *a)
{
    at -= a->experts.round * a->experts.capacity;
    return (int32_t)(at < 0 ? 0 : at < a->experts.capacity ? at : a->experts.capacity);
}

/* Of the first n of a sender's `all` rows for this receiver, those in the chunk. */
static int64_t in_chunk(int64_t n, int64_t all, const struct sn_attr *a)
{
    int64_t chunks = a->experts.chunks > 1 ? a->experts.chunks : 1;
    int64_t first = all * a->experts.chunk / chunks, end = all * (a->experts.chunk + 1) / chunks;
    return (n < end ? n : end) - (n < first ? n : first);
}

SN_KERNEL(sn_recv_offsets)
{
    (void)threads;
    const struct sn_mat *bounds = &a->in[SN_RECV_OFFSETS_BOUNDS];
    int32_t *out = a->out[SN_RECV_OFFSETS_ARRIVALS].p;
    int64_t at = 0, experts = a->attr.experts.count, segment = 0;
    for (int64_t m = 0; m < bounds->rows; m++) {
        const int32_t *b =
            (const int32_t *)sn_mat_row(bounds, m) + a->attr.experts.member * experts;
        int64_t all = b[experts] - b[0];
        for (int64_t e = 0; e < experts; e++) {
            out[segment++] = within(at, &a->attr);
            at += in_chunk(b[e + 1] - b[0], all, &a->attr) - in_chunk(b[e] - b[0], all, &a->attr);
        }
    }
    out[segment] = within(at, &a->attr);
    return 0;
}
