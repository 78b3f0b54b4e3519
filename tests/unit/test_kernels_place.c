/*
 * Which tokens find room with their expert where ranks hold parts of every sequence: on each of
 * them those that would if one had it all.
 */
#include "kernels/position.h"
#include "tests/lib/kernel_test.h"

enum { E = 5, K = 3, SEQ = 24, SAMPLES = 3, ROWS = SAMPLES * SEQ, CAPACITY = 11 };

/* Context ranks, and the slices in which each of them gives its rows to tensor ranks. */
struct cut {
    int context, slices;
    bool zigzag;
};

/* Of token t of the micro-batch, sequence after sequence. */
static int choice_of(int64_t t, int j)
{
    return (int)((t * t + 3 * t * j + 2 * j) % 11 % E);
}

/* Is choice j of token t among the first of its expert in its sequence? */
static bool fits(int64_t t, int j)
{
    int64_t before = 0, first = t / SEQ * SEQ;
    for (int i = 0; i <= j; i++)
        for (int64_t s = first; s < first + SEQ && (i < j || s < t); s++)
            before += choice_of(s, i) == choice_of(t, j);
    return before < CAPACITY;
}

static struct sn_attr attr_of(const struct cut *c, int rank, int slice)
{
    return (struct sn_attr){.experts = E,
                            .capacity = CAPACITY,
                            .seq = SEQ,
                            .context = c->context,
                            .context_rank = rank,
                            .zigzag = c->zigzag,
                            .row0 = slice * (ROWS / c->context / c->slices)};
}

static int64_t token_of(const struct sn_attr *a, int64_t r)
{
    return sn_row_sample(a, r) * SEQ + sn_row_position(a, r);
}

static void put_all(struct kt *k, const struct cut *c)
{
    int64_t rows = ROWS / c->context;
    struct sn_mat *all = kt_new(k, 1, (struct kt_shape){SN_I32, ROWS, K, 1});
    for (int rank = 0; rank < c->context; rank++) {
        struct sn_attr a = attr_of(c, rank, 0);
        for (int64_t r = 0; r < rows; r++)
            for (int j = 0; j < K; j++)
                kt_set(all, rank * rows + r, j, choice_of(token_of(&a, r), j));
    }
}

/* Returns how many choices find no room; -1 where they are not those of the whole. */
static int part_is_placed(const struct cut *c, int rank, int slice)
{
    int64_t rows = ROWS / c->context / c->slices, n = 0;
    struct kt k = {0};
    k.a.attr = attr_of(c, rank, slice);
    struct sn_mat *choice = kt_new(&k, 0, (struct kt_shape){SN_I32, rows, K, 1});
    put_all(&k, c);
    kt_out(&k, 0, (struct kt_shape){SN_I32, rows, K, 2}, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_I32, 1, E + 1, 0}, SN_WRITE);
    double *place = kt_ref(&k, 0), *bounds = kt_ref(&k, 1);
    int dropped = 0;
    for (int e = 0; e < E; e++) {
        for (int64_t r = 0; r < rows; r++)
            for (int j = 0; j < K; j++) {
                int64_t t = token_of(&k.a.attr, r);
                kt_set(choice, r, j, choice_of(t, j));
                if (choice_of(t, j) != e)
                    continue;
                place[r * K + j] = fits(t, j) ? (double)n++ : -1;
                dropped += !fits(t, j);
            }
        bounds[e + 1] = (double)n;
    }
    bool same = kt_check(&k, SN_OP_PLACE, 0);
    kt_free(&k);
    return same ? dropped : -1;
}

int main(void)
{
    static const struct cut cuts[] = {{1, 2, false}, {2, 1, false}, {2, 1, true}, {3, 1, true},
                                      {4, 1, true},  {3, 1, false}, {2, 3, true}, {4, 2, false}};
    int whole = 0;
    for (int64_t t = 0; t < ROWS; t++)
        for (int j = 0; j < K; j++)
            whole += !fits(t, j);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        int all = 0;
        for (int rank = 0; rank < cuts[i].context; rank++)
            for (int slice = 0; slice < cuts[i].slices; slice++) {
                int dropped = part_is_placed(&cuts[i], rank, slice);
                all = dropped < 0 || all < 0 ? -1 : all + dropped;
            }
        tap_ok(all == whole && whole > 0,
               "%d context ranks%s, %d slices each: PLACE passes %d of %d choices by, %d in all",
               cuts[i].context, cuts[i].zigzag ? " (zigzag)" : "", cuts[i].slices, all, ROWS * K,
               whole);
    }
    return tap_done();
}
