/*
 * place.c - PLACE: a counting sort of the tokens' choices by expert.
 *
 * Serial: it touches T k numbers once or twice, where what follows touches T k D.
 */
#include "kernels/cpu/cpu.h"

static int32_t *row(const struct sn_mat *m, int64_t r)
{
    return sn_mat_row(m, r);
}

/* Mark with -1 in `place` who finds no room among rows first .. end - 1; `used` is room for E
 * numbers. */
static void drop(const struct sn_args *a, int64_t first, int64_t end, int32_t *used)
{
    const struct sn_mat *choice = &a->in[0], *place = &a->out[0];
    memset(used, 0, (size_t)a->attr.experts * sizeof(*used));
    for (int64_t j = 0; j < choice->cols; j++)
        for (int64_t r = first; r < end; r++)
            row(place, r)[j] = used[row(choice, r)[j]]++ < a->attr.capacity ? 0 : -1;
}

SN_KERNEL(sn_place)
{
    (void)threads;
    const struct sn_mat *choice = &a->in[0], *place = &a->out[0];
    int32_t *bounds = a->out[1].p, n = 0, experts = a->attr.experts;
    for (int64_t r = 0; r < place->rows; r++)
        memset(row(place, r), 0, (size_t)place->cols * sizeof(int32_t));
    for (int64_t r = 0; a->attr.capacity && r < place->rows; r += a->attr.seq)
        drop(a, r, r + a->attr.seq, bounds);
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
