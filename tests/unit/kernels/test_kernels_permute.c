/*
 * Which tokens find room with their expert where ranks hold parts of every sequence: on each of
 * them those that would if one had it all. And counting and placing more choices than one block of
 * a device takes.
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
    return (struct sn_attr){.experts.count = E,
                            .experts.capacity = CAPACITY,
                            .position.seq = SEQ,
                            .position.context = c->context,
                            .position.context_rank = rank,
                            .position.zigzag = c->zigzag,
                            .position.row0 = slice * (ROWS / c->context / c->slices)};
}

static int64_t token_of(const struct sn_attr *a, int64_t r)
{
    return sn_row_sample(&a->position, r) * SEQ + sn_row_position(&a->position, r);
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
    bool same = kt_check(&k, SN_OP_MOE_PERMUTE, 0);
    kt_free(&k);
    return same ? dropped : -1;
}

/* --- many choices ----------------------------------------------------------------------------- */

enum { MANY_E = 300, MANY_K = 4, MANY_SEQ = 350, MANY_ROWS = 2 * MANY_SEQ };

/* Expert 0 has most of them, expert 299 none. */
static int one_of_many(int64_t t, int j)
{
    return (t * 7 + j) % 5 < 2 ? j : (int)((t * t + 31 * j) % (MANY_E - 6)) + 5;
}

static void many_choices_are_placed(int64_t capacity)
{
    struct kt k = {0};
    k.a.attr = (struct sn_attr){
        .experts.count = MANY_E, .experts.capacity = capacity, .position.seq = MANY_SEQ};
    struct sn_mat *choice = kt_new(&k, 0, (struct kt_shape){SN_I32, MANY_ROWS, MANY_K, 0});
    kt_out(&k, 0, (struct kt_shape){SN_I32, MANY_ROWS, MANY_K, 1}, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_I32, 1, MANY_E + 1, 0}, SN_WRITE);
    double *place = kt_ref(&k, 0), *bounds = kt_ref(&k, 1);
    int used[2][MANY_E] = {{0}}, n[MANY_E] = {0}, dropped = 0;
    for (int j = 0; j < MANY_K; j++)
        for (int64_t t = 0; t < MANY_ROWS; t++) {
            int e = one_of_many(t, j);
            kt_set(choice, t, j, e);
            bool has_room = used[t / MANY_SEQ][e]++ < capacity || capacity == 0;
            place[t * MANY_K + j] = has_room ? 0 : -1;
            dropped += !has_room;
            bounds[e + 1] += has_room;
        }
    for (int e = 0; e < MANY_E; e++)
        bounds[e + 1] += bounds[e];
    for (int64_t i = 0; i < MANY_ROWS * MANY_K; i++)
        if (place[i] == 0) {
            int e = one_of_many(i / MANY_K, (int)(i % MANY_K));
            place[i] = bounds[e] + n[e]++;
        }
    tap_ok(kt_check(&k, SN_OP_MOE_PERMUTE, 0) && (dropped > 0) == (capacity > 0),
           "MOE_PERMUTE of %d choices of %d experts, capacity %ld: %d pass by", MANY_ROWS * MANY_K,
           MANY_E, (long)capacity, dropped);
    kt_free(&k);
}

static void many_choices_are_counted(void)
{
    struct kt k = {.magnitude = 1e-3};
    struct sn_mat *x = kt_in(&k, 0, (struct kt_shape){SN_F32, MANY_ROWS, MANY_E, 0});
    kt_out(&k, 0, (struct kt_shape){SN_F32, MANY_ROWS, 1, 0}, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_I32, MANY_ROWS, 1, 1}, SN_WRITE);
    kt_out(&k, 2, (struct kt_shape){SN_F32, 1, MANY_E, 0}, SN_WRITE);
    double *w = kt_ref(&k, 0), *choice = kt_ref(&k, 1), *counts = kt_ref(&k, 2);
    for (int64_t t = 0; t < MANY_ROWS; t++) {
        int e = one_of_many(t, (int)(t % MANY_K));
        kt_set(x, t, e, 100);
        w[t] = 1;
        choice[t] = e;
        counts[e]++;
    }
    tap_ok(kt_check(&k, SN_OP_ROUTE, 0), "ROUTE counts what %d tokens choose of %d experts",
           MANY_ROWS, MANY_E);
    kt_free(&k);
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
        tap_ok(
            all == whole && whole > 0,
            "%d context ranks%s, %d slices each: MOE_PERMUTE passes %d of %d choices by, %d in all",
            cuts[i].context, cuts[i].zigzag ? " (zigzag)" : "", cuts[i].slices, all, ROWS * K,
            whole);
    }
    many_choices_are_placed(0);
    many_choices_are_placed(3);
    many_choices_are_counted();
    return tap_done();
}
