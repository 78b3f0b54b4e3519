/*
 * moe_permute.c - MOE_PERMUTE: a counting sort of the tokens' choices by expert. RECV_OFFSETS: where each
 * sender's rows for each expert lie in the window of a round.
 *
 * Serial: it touches T k numbers once or twice, where what follows touches T k D.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/position.h"

static int32_t *row(const struct sn_mat *m, int64_t r)
{
    return sn_mat_row(m, r);
}

/* Mark with -1 in `place` whose choices of the sample find no room;
 * `used` is room for E numbers. */
static void drop(const struct sn_args *a, int64_t sample, int32_t *used)
{
    const struct sn_mat *all = a->in[SN_MOE_PERMUTE_ALL].p ? &a->in[SN_MOE_PERMUTE_ALL]
                                                           : &a->in[SN_MOE_PERMUTE_CHOICE],
                        *place = &a->out[SN_MOE_PERMUTE_PLACE];
    int64_t rows = all->rows / (a->attr.position.context > 1 ? a->attr.position.context : 1);
    int64_t here = rows * a->attr.position.context_rank + a->attr.position.row0;
    memset(used, 0, (size_t)a->attr.experts.count * sizeof(*used));
    for (int64_t j = 0; j < all->cols; j++)
        for (int64_t p = 0; p < a->attr.position.seq; p++) {
            int64_t r = sn_row_of(&a->attr.position, p, rows,
                                  sample * sn_rows_per_sample(&a->attr.position));
            bool has_room = used[row(all, r)[j]]++ < a->attr.experts.capacity;
            if (r >= here && r < here + place->rows)
                row(place, r - here)[j] = has_room ? 0 : -1;
        }
}

static void place_all(const struct sn_args *a)
{
    const struct sn_mat *place = &a->out[SN_MOE_PERMUTE_PLACE];
    int32_t *bounds = a->out[SN_MOE_PERMUTE_BOUNDS].p, experts = a->attr.experts.count,
            first = a->attr.experts.member * experts;
    int32_t rows = (int32_t)place->rows;
    for (int32_t r = 0; r < rows; r++)
        for (int32_t e = 0; e < place->cols; e++)
            row(place, r)[e] = e < first || e >= first + experts ? -1 : (e - first) * rows + r;
    for (int32_t e = 0; e <= experts; e++)
        bounds[e] = e * rows;
}

SN_KERNEL(sn_moe_permute)
{
    (void)threads;
    if (a->attr.experts.dense) {
        place_all(a);
        return 0;
    }
    const struct sn_mat *choice = &a->in[SN_MOE_PERMUTE_CHOICE],
                        *place = &a->out[SN_MOE_PERMUTE_PLACE];
    int32_t *bounds = a->out[SN_MOE_PERMUTE_BOUNDS].p, n = 0, experts = a->attr.experts.count;
    for (int64_t r = 0; r < place->rows; r++)
        memset(row(place, r), 0, (size_t)place->cols * sizeof(int32_t));
    int64_t whole = a->in[SN_MOE_PERMUTE_ALL].p ? a->in[SN_MOE_PERMUTE_ALL].rows : place->rows;
    for (int64_t i = 0; a->attr.experts.capacity && i < whole / a->attr.position.seq; i++)
        drop(a, i, bounds);
    memset(bounds, 0, ((size_t)experts + 1) * sizeof(*bounds));
    for (int64_t r = 0; r < place->rows; r++)
        for (int64_t j = 0; j < place->cols; j++)
            bounds[row(choice, r)[j]] += row(place, r)[j] == 0;
    for (int32_t e = 0; e <= experts; e++) { /* counts to begins */
        int32_t count = bounds[e];
        bounds[e] = n;
        n += count;
    }
    for (int64_t r = 0; r < place->rows; r++)
        for (int64_t j = 0; j < place->cols; j++)
            if (row(place, r)[j] == 0)
                row(place, r)[j] = bounds[row(choice, r)[j]]++;
    for (int32_t e = experts; e > 0; e--) /* ends to begins */
        bounds[e] = bounds[e - 1];
    bounds[0] = 0;
    return 0;
}

/* --- RECV_OFFSETS ------------------------------------------------------------------------------ */

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
