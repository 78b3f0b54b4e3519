/* Boxes: what is covered, judged as by counting every element. */
#include "checkpoint/io/box.h"
#include "tests/lib/dice.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

/* Overlap and first gap of n boxes in a 6 x 6 matrix, by counting. */
static void count_cover(const struct sn_box *boxes, int n, int *most, int64_t gap[2])
{
    int times[36] = {0};
    *most = 0;
    gap[0] = gap[1] = -1;
    for (int i = 0; i < n; i++)
        for (int64_t e = 0; e < sn_box_size(boxes[i]); e++) {
            int64_t r = boxes[i].row + e / boxes[i].cols, c = boxes[i].col + e % boxes[i].cols;
            times[r * 6 + c]++;
        }
    for (int e = 35; e >= 0; e--) {
        *most = times[e] > *most ? times[e] : *most;
        if (times[e] == 0) {
            gap[0] = e / 6;
            gap[1] = e % 6;
        }
    }
}

static int in_order(const void *a, const void *b)
{
    return sn_box_order(*(const struct sn_box *)a, *(const struct sn_box *)b);
}

static void cover_is_judged_as_by_counting(void)
{
    enum { ROUNDS = 20000 };
    struct dice d = {sn_rng_key(1, "boxes"), 0};
    int wrong = 0, seen_gap = 0, seen_overlap = 0, seen_neither = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct sn_box boxes[6];
        int n = 1 + (int)roll(&d, 6), most;
        int64_t gap[2], at[2] = {-1, -1}, pair[2];
        for (int i = 0; i < n; i++) {
            int64_t row = roll(&d, 2) * 3, col = roll(&d, 3) * 2;
            boxes[i] = (struct sn_box){row, col, roll(&d, 6 - row + 1), roll(&d, 6 - col + 1)};
            if (round % 2) /* often a tiling: the six 3 x 2 boxes, some lost */
                boxes[i] = (struct sn_box){i / 3 * 3, i % 3 * 2, 3, 2};
        }
        qsort(boxes, (size_t)n, sizeof(*boxes), in_order);
        count_cover(boxes, n, &most, gap);
        bool overlap = sn_boxes_overlap(n, boxes, pair), open = sn_boxes_gap(n, boxes, 6, 6, at);
        bool good = overlap == (most > 1) && open == (gap[0] >= 0) &&
                    (!open || (at[0] == gap[0] && at[1] == gap[1]));
        if (overlap)
            good = good && sn_box_size(sn_box_common(boxes[pair[0]], boxes[pair[1]])) > 0;
        wrong += !good;
        seen_gap += open;
        seen_overlap += overlap;
        seen_neither += !open && !overlap;
    }
    tap_ok(wrong == 0 && seen_gap > 1000 && seen_overlap > 1000 && seen_neither > 100,
           "%d random covers: %d wrong, %d with gaps, %d with overlaps, %d exact", (int)ROUNDS,
           wrong, seen_gap, seen_overlap, seen_neither);
    tap_ok(sn_box_fits((struct sn_box){0, 0, 3, 4}, 3, 4) &&
               !sn_box_fits((struct sn_box){1, 0, 3, 4}, 3, 4) &&
               !sn_box_fits((struct sn_box){0, -1, 3, 4}, 3, 4) &&
               !sn_box_fits((struct sn_box){INT64_MAX, 0, INT64_MAX, 1}, 3, 4),
           "what is not inside does not fit");
}

int main(void)
{
    cover_is_judged_as_by_counting();
    return tap_done();
}
