/*
 * bf16_pack.c - packing for products of bf16; see bf16.h. Elements are moved, never converted.
 */
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/tile.h"

/* A pair of neighbours along the depth, the first of them in the lower half; and four. */
typedef uint32_t pair __attribute__((may_alias, aligned(2)));
typedef uint64_t quad __attribute__((may_alias, aligned(2)));

enum { WIDEST = 64, DEEPEST = 32 }; /* strip, and group */

static const uint16_t *stored(const struct sn_bf16_block *b, int64_t row, int64_t col)
{
    return (const uint16_t *)b->x->p + row * b->x->ld + col;
}

/* --- lines are stored rows -------------------------------------------------------------------- */

/* Can rows be read as pairs where they lie? */
static bool has_whole_pairs(const struct sn_bf16_block *b)
{
    return b->depth == b->whole && b->x->ld % 2 == 0 &&
           (uintptr_t)stored(b, b->line, b->l) % sizeof(float) == 0;
}

/* Pairs of up to SN_BF16_LINES rows, transposed as if they were floats. */
static void transpose_pairs(const struct sn_bf16_block *b, int64_t first, int64_t rows,
                            uint16_t *line, uint16_t *out)
{
    const uint16_t *from = stored(b, b->line + first, b->l);
    int64_t ld = b->x->ld;
    if (!has_whole_pairs(b)) {
        for (int64_t r = 0; r < rows; r++) {
            memcpy(line + r * b->whole, from + r * ld, (size_t)b->depth * sizeof(uint16_t));
            memset(line + r * b->whole + b->depth, 0,
                   (size_t)(b->whole - b->depth) * sizeof(uint16_t));
        }
        from = line;
        ld = b->whole;
    }
    sn_transpose((const float *)(const void *)from, ld / 2, rows, b->whole / 2,
                 (float *)(void *)out, b->width);
}

static void copy_groups(const struct sn_bf16_block *b, int64_t first, int64_t rows, uint16_t *out)
{
    size_t group = (size_t)b->group * sizeof(uint16_t);
    int64_t step = b->width * b->group;
    for (int64_t r = 0; r < rows; r++) {
        const uint16_t *from = stored(b, b->line + first + r, b->l);
        uint16_t *to = out + r * b->group;
        int64_t l = 0;
        if (b->group == 4)
            for (; l + 4 <= b->depth; l += 4, to += step)
                memcpy(to, from + l, 4 * sizeof(uint16_t));
        for (; l + b->group <= b->depth; l += b->group, to += step)
            memcpy(to, from + l, group);
        for (; l < b->whole; l += b->group, to += step) {
            int64_t left = b->depth > l ? b->depth - l : 0;
            memset(to, 0, group);
            memcpy(to, from + l, (size_t)left * sizeof(uint16_t));
        }
    }
}

static void pack_along(const struct sn_bf16_block *b, uint16_t *line, uint16_t *out)
{
    for (int64_t i = 0; i < b->lines; i += b->width, out += b->width * b->whole) {
        int64_t lines = b->lines - i < b->width ? b->lines - i : b->width;
        if (lines < b->width)
            memset(out, 0, (size_t)(b->width * b->whole) * sizeof(uint16_t));
        for (int64_t g = 0; g < lines; g += SN_BF16_LINES) {
            int64_t rows = lines - g < SN_BF16_LINES ? lines - g : SN_BF16_LINES;
            if (b->group == 2)
                transpose_pairs(b, i + g, rows, line, out + g * 2);
            else
                copy_groups(b, i + g, rows, out + g * b->group);
        }
    }
}

/* --- lines are stored columns ----------------------------------------------------------------- */

static void join_pairs(const uint16_t *restrict low, const uint16_t *restrict high, int64_t n,
                       pair *restrict out)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = (uint32_t)low[i] | (uint32_t)high[i] << 16;
}

static void join_quads(const uint16_t *const row[4], int64_t n, quad *restrict out)
{
    const uint16_t *restrict a = row[0], *restrict b = row[1], *restrict c = row[2],
                             *restrict d = row[3];
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] =
            (uint64_t)a[i] | (uint64_t)b[i] << 16 | (uint64_t)c[i] << 32 | (uint64_t)d[i] << 48;
}

/* One group of n lines, `row` being its stored rows. Deep groups are transposed pairs. */
static void join(const struct sn_bf16_block *b, const uint16_t *const row[DEEPEST], int64_t n,
                 uint16_t *out)
{
    if (b->group == 2) {
        join_pairs(row[0], row[1], n, (pair *)(void *)out);
    } else if (b->group == 4) {
        join_quads(row, n, (quad *)(void *)out);
    } else if (b->group == DEEPEST) {
        pair joined[DEEPEST / 2][WIDEST];
        for (int i = 0; i < DEEPEST / 2; i++)
            join_pairs(row[2 * i], row[2 * i + 1], n, joined[i]);
        sn_transpose((const float *)(const void *)joined, WIDEST, DEEPEST / 2, n,
                     (float *)(void *)out, DEEPEST / 2);
    } else {
        for (int e = 0; e < b->group; e++)
            for (int64_t i = 0; i < n; i++)
                out[i * b->group + e] = row[e][i];
    }
}

/* Some rows of the depth at a time, which stay in L1 while every strip takes its part of them. */
static void pack_across(const struct sn_bf16_block *b, uint16_t *out)
{
    static const uint16_t zeros[WIDEST] = {0};
    int64_t size = b->width * b->group;
    for (int64_t l = 0; l < b->whole; l += DEEPEST) {
        int64_t end = l + DEEPEST < b->whole ? l + DEEPEST : b->whole;
        for (int64_t i = 0; i < b->lines; i += b->width) {
            int64_t n = b->lines - i < b->width ? b->lines - i : b->width;
            for (int64_t g = l; g < end; g += b->group) {
                const uint16_t *row[DEEPEST];
                uint16_t *to = out + i * b->whole + g / b->group * size;
                for (int e = 0; e < b->group; e++)
                    row[e] = g + e < b->depth ? stored(b, b->l + g + e, b->line + i) : zeros;
                if (n < b->width)
                    memset(to, 0, (size_t)size * sizeof(uint16_t));
                join(b, row, n, to);
            }
        }
    }
}

void SN_K(sn_bf16_pack)(const struct sn_bf16_block *b, uint16_t *line, uint16_t *out)
{
    if (b->across)
        pack_across(b, out);
    else
        pack_along(b, line, out);
}
