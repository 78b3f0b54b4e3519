#include "checkpoint/io/box.h"

bool sn_box_fits(struct sn_box b, int64_t rows, int64_t cols)
{
    return b.row >= 0 && b.rows >= 0 && b.row <= rows && b.rows <= rows - b.row && b.col >= 0 &&
           b.cols >= 0 && b.col <= cols && b.cols <= cols - b.col;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

struct sn_box sn_box_common(struct sn_box a, struct sn_box b)
{
    struct sn_box c = {.row = most(a.row, b.row), .col = most(a.col, b.col)};
    c.rows = most(least(a.row + a.rows, b.row + b.rows) - c.row, 0);
    c.cols = most(least(a.col + a.cols, b.col + b.cols) - c.col, 0);
    return c;
}

int sn_box_order(struct sn_box a, struct sn_box b)
{
    int rows = (a.row > b.row) - (a.row < b.row);
    return rows ? rows : (a.col > b.col) - (a.col < b.col);
}

bool sn_boxes_overlap(int64_t n, const struct sn_box *boxes, int64_t pair[2])
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n && boxes[j].row < boxes[i].row + boxes[i].rows; j++)
            if (sn_box_size(sn_box_common(boxes[i], boxes[j])) > 0) {
                pair[0] = i;
                pair[1] = j;
                return true;
            }
    return false;
}

/* The end of a box that holds the element; `col` itself when none does. */
static int64_t past(int64_t n, const struct sn_box *boxes, int64_t row, int64_t col)
{
    for (int64_t i = 0; i < n && boxes[i].row <= row; i++) {
        struct sn_box b = boxes[i];
        if (row < b.row + b.rows && b.col <= col && col < b.col + b.cols)
            return b.col + b.cols;
    }
    return col;
}

static bool gap_in_row(int64_t n, const struct sn_box *boxes, int64_t row, int64_t cols,
                       int64_t *col)
{
    int64_t next = 0;
    for (*col = 0; *col < cols; *col = next) {
        next = past(n, boxes, row, *col);
        if (next == *col)
            return true;
    }
    return false;
}

/* What is covered changes from one row to the next only where a box begins or ends; it can become
 * less only where one ends. So the first row with a gap is row 0 or the end of a box. */
bool sn_boxes_gap(int64_t n, const struct sn_box *boxes, int64_t rows, int64_t cols, int64_t at[2])
{
    int64_t first = rows, col = 0;
    if (rows > 0 && gap_in_row(n, boxes, 0, cols, &col)) {
        at[0] = 0;
        at[1] = col;
        return true;
    }
    for (int64_t i = 0, seen = -1; i < n; i++) {
        int64_t row = boxes[i].row + boxes[i].rows;
        if (row == seen || row >= first)
            continue;
        seen = row;
        if (gap_in_row(n, boxes, row, cols, &col)) {
            first = row;
            at[0] = row;
            at[1] = col;
        }
    }
    return first < rows;
}
