#include "checkpoint/store/uses.h"

#include "kernels/half.h"

#include <string.h>

/* The first byte of the piece from `at` on that belongs to its part; -1 for none. */
static int64_t wanted_byte(struct sn_box piece, struct sn_box part, int64_t size, int64_t at)
{
    int64_t width = piece.cols * size, first = part.row - piece.row;
    int64_t begin = (part.col - piece.col) * size, end = begin + part.cols * size;
    int64_t row = at / width, col = at % width;
    if (row < first || col >= end) {
        row = row < first ? first : row + 1;
        col = begin;
    }
    if (row >= first + part.rows)
        return -1;
    return row * width + (col < begin ? begin : col);
}

/* The next block of piece u->piece with values of the want; false for none. */
static bool next_block(struct sn_uses *u, struct sn_use *out)
{
    const struct sn_want *w = &u->wants[u->want];
    const struct sn_manifest_piece *p = &w->tensor->pieces[u->piece];
    struct sn_box part = sn_box_common(p->box, w->box);
    if (sn_box_size(part) == 0)
        return false;
    int64_t at = wanted_byte(p->box, part, (int64_t)sn_dtype_size(w->tensor->dtype), u->at);
    if (at < 0)
        return false;
    *out = (struct sn_use){w, p, part, at / u->block};
    u->at = (out->block + 1) * u->block;
    return true;
}

/* Can the want have anything of piece `piece`, or of a later one? They are sorted by row. */
static bool has_more(const struct sn_want *w, int piece)
{
    return piece < w->tensor->n_pieces &&
           w->tensor->pieces[piece].box.row < w->box.row + w->box.rows;
}

bool sn_uses_next(struct sn_uses *u, struct sn_use *out)
{
    for (; u->want < u->n; u->want++, u->piece = 0)
        for (; has_more(&u->wants[u->want], u->piece); u->piece++, u->at = 0)
            if (next_block(u, out))
                return true;
    return false;
}

int64_t sn_block_bytes(const struct sn_manifest_piece *p, enum sn_dtype dtype, int64_t block,
                       int64_t k)
{
    int64_t left = sn_box_size(p->box) * (int64_t)sn_dtype_size(dtype) - k * block;
    return left < block ? left : block;
}

/* --- copying --------------------------------------------------------------------------------- */

static void widen(float *out, const void *from, int64_t n, enum sn_dtype dtype)
{
    const uint16_t *half = from;
    if (dtype == SN_F32)
        memcpy(out, from, (size_t)n * sizeof(*out));
    else if (dtype == SN_BF16)
        for (int64_t i = 0; i < n; i++)
            out[i] = sn_bf16_to_f32(half[i]);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = sn_f16_to_f32(half[i]);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void sn_use_copy(const struct sn_use *u, int64_t block, const void *data, int64_t bytes, float *out,
                 int64_t ld)
{
    enum sn_dtype dtype = u->want->tensor->dtype;
    int64_t size = (int64_t)sn_dtype_size(dtype), begin = u->block * block / size;
    int64_t end = begin + bytes / size; /* elements of the piece that the block holds */
    struct sn_box piece = u->piece->box, part = u->part, box = u->want->box;
    int64_t first = (part.row - piece.row) * piece.cols + part.col - piece.col;
    int64_t rows = part.rows, cols = part.cols, width = piece.cols;
    out += (part.row - box.row) * ld + part.col - box.col;
    if (cols == width && cols == ld) { /* without gaps on either side: one row */
        cols *= rows;
        width = ld = cols;
        rows = 1;
    }
    int64_t r = begin <= first ? 0 : (begin - first) / width;
    for (; r < rows && first + r * width < end; r++) {
        int64_t from = first + r * width, to = least(from + cols, end), skip = 0;
        if (from < begin)
            skip = least(begin - from, cols);
        if (from + skip < to)
            widen(out + r * ld + skip, (const char *)data + (from + skip - begin) * size,
                  to - from - skip, dtype);
    }
}
