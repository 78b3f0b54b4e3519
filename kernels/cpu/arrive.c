/*
 * arrive.c - ARRIVE: where each sender's rows for each expert lie in the window of a round.
 */
#include "kernels/cpu/cpu.h"

/* A place in the list of arrivals as a row of the window. */
static int32_t within(int64_t at, const struct sn_attr *a)
{
    at -= a->round * a->capacity;
    return (int32_t)(at < 0 ? 0 : at < a->capacity ? at : a->capacity);
}

SN_KERNEL(sn_arrive)
{
    (void)threads;
    const struct sn_mat *bounds = &a->in[0];
    int32_t *out = a->out[0].p;
    int64_t at = 0, experts = a->attr.experts, segment = 0;
    for (int64_t m = 0; m < bounds->rows; m++) {
        const int32_t *b = (const int32_t *)sn_mat_row(bounds, m) + a->attr.member * experts;
        for (int64_t e = 0; e < experts; e++) {
            out[segment++] = within(at, &a->attr);
            at += b[e + 1] - b[e];
        }
    }
    out[segment] = within(at, &a->attr);
    return 0;
}
