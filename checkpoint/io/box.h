/*
 * box.h - rectangles of a matrix: where pieces and wanted parts of a tensor meet, and whether
 * pieces tile it.
 *
 * Knows neither files nor tensors.
 */
#ifndef SN_BOX_H
#define SN_BOX_H

#include <stdbool.h>
#include <stdint.h>

/* Rows row .. row + rows - 1, columns col .. col + cols - 1; all from 0 up. */
struct sn_box {
    int64_t row, col, rows, cols;
};

static inline int64_t sn_box_size(struct sn_box b)
{
    return b.rows * b.cols;
}

/* Is b inside a rows x cols matrix? No sum in it can overflow. */
bool sn_box_fits(struct sn_box b, int64_t rows, int64_t cols);
/* The common part; its size is 0 when there is none. */
struct sn_box sn_box_common(struct sn_box a, struct sn_box b);
/* For sorting: by row, then by column. */
int sn_box_order(struct sn_box a, struct sn_box b);

/* Two of n boxes, sorted by sn_box_order, that have an element in common: true, and their numbers.
 * Fast when few boxes share a row, as slices do. */
bool sn_boxes_overlap(int64_t n, const struct sn_box *boxes, int64_t pair[2]);
/* The first element, row by row, of a rows x cols matrix that is in none of the n boxes (sorted):
 * true, and its row and column. For messages: it may take n^2 steps. */
bool sn_boxes_gap(int64_t n, const struct sn_box *boxes, int64_t rows, int64_t cols, int64_t at[2]);

#endif
