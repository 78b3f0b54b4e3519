/*
 * gemm_pack.c - packing for GEMM; see gemm_pack.h.
 */
#include "kernels/cpu/gemm/gemm_pack.h"

/* Row r of the stored matrix from column c on. */
static const void *stored(const struct sn_mat *x, int64_t r, int64_t c)
{
    return (const char *)x->p + (size_t)(r * x->ld + c) * sn_dtype_size(x->dtype);
}

static void pack_a_rows(const struct sn_block *a, float *out)
{
    for (int64_t i = 0; i < (a->rows + SN_MR - 1) / SN_MR * SN_MR; i++, out += a->cols) {
        if (i < a->rows)
            sn_row_load(out, stored(a->x, a->row + i, a->col), a->x->dtype, a->cols);
        else
            memset(out, 0, (size_t)a->cols * sizeof(float));
    }
}

/* Steps of k side by side: a strip is transposed. Its rows beyond the block are zero. */
static void pack_a_steps(const struct sn_block *a, float *line, float *out)
{
    for (int64_t i = 0; i < a->rows; i += SN_MR, out += SN_MR * a->cols) {
        int64_t rows = a->rows - i < SN_MR ? a->rows - i : SN_MR, ld = a->x->ld;
        const float *from = stored(a->x, a->row + i, a->col);
        if (a->x->dtype != SN_F32) {
            for (int64_t r = 0; r < rows; r++)
                sn_row_load(line + r * a->cols, stored(a->x, a->row + i + r, a->col), a->x->dtype,
                            a->cols);
            from = line;
            ld = a->cols;
        }
        if (rows < SN_MR)
            memset(out, 0, (size_t)(SN_MR * a->cols) * sizeof(float));
        sn_transpose(from, ld, rows, a->cols, out, SN_MR);
    }
}

enum { LINES = 16 }; /* rows of a stored A^T at a time: they stay in L1 */

/* A strip's share of `lines` rows of fp32: whole vectors when the strip is full. */
static inline void pack_strip(const float *in, int64_t in_row, int64_t lines, int64_t rows,
                              float *out)
{
    for (int64_t l = 0; l < lines; l++, in += in_row, out += SN_MR) {
        if (rows == SN_MR) {
            memcpy(out, in, SN_MR * sizeof(float));
        } else {
            memset(out, 0, SN_MR * sizeof(float));
            memcpy(out, in, (size_t)rows * sizeof(float));
        }
    }
}

static void pack_a_columns(const struct sn_block *a, float *line, float *out)
{
    for (int64_t l = 0; l < a->cols; l += LINES) {
        int64_t lines = a->cols - l < LINES ? a->cols - l : LINES;
        const float *from = stored(a->x, a->col + l, a->row);
        int64_t ld = a->x->ld;
        if (a->x->dtype != SN_F32) {
            for (int64_t i = 0; i < lines; i++)
                sn_row_load(line + i * a->rows, stored(a->x, a->col + l + i, a->row), a->x->dtype,
                            a->rows);
            from = line;
            ld = a->rows;
        }
        for (int64_t i = 0; i < a->rows; i += SN_MR) {
            int64_t rows = a->rows - i < SN_MR ? a->rows - i : SN_MR;
            pack_strip(from + i, ld, lines, rows, out + i * a->cols + l * SN_MR);
        }
    }
}

void SN_K(sn_gemm_pack_a)(const struct sn_block *a, float *line, float *out)
{
    if (a->trans)
        pack_a_columns(a, line, out);
    else if (SN_K(sn_gemm_by_steps))
        pack_a_steps(a, line, out);
    else
        pack_a_rows(a, out);
}

static void pack_b_rows(const struct sn_block *b, float *out)
{
    for (int64_t l = 0; l < b->rows; l++) {
        float *to = out + l * SN_NR;
        int64_t j = 0;
        for (; j + SN_NR <= b->cols; j += SN_NR, to += SN_NR * b->rows)
            sn_row_load(to, stored(b->x, b->row + l, b->col + j), b->x->dtype, SN_NR);
        if (j < b->cols) {
            memset(to, 0, SN_NR * sizeof(float));
            sn_row_load(to, stored(b->x, b->row + l, b->col + j), b->x->dtype, b->cols - j);
        }
    }
}

/* Columns of op(B) are stored rows: transposed, in groups of SN_VL rows that share one line. */
static void pack_b_columns(const struct sn_block *b, float *line, float *out)
{
    for (int64_t j = 0; j < b->cols; j += SN_NR, out += SN_NR * b->rows) {
        int64_t cols = b->cols - j < SN_NR ? b->cols - j : SN_NR;
        if (cols < SN_NR)
            memset(out, 0, (size_t)(SN_NR * b->rows) * sizeof(float));
        for (int64_t g = 0; g < cols; g += SN_VL) {
            int64_t rows = cols - g < SN_VL ? cols - g : SN_VL;
            const float *from = stored(b->x, b->col + j + g, b->row);
            int64_t ld = b->x->ld;
            if (b->x->dtype != SN_F32) {
                for (int64_t r = 0; r < rows; r++)
                    sn_row_load(line + r * b->rows, stored(b->x, b->col + j + g + r, b->row),
                                b->x->dtype, b->rows);
                from = line;
                ld = b->rows;
            }
            sn_transpose(from, ld, rows, b->rows, out + g, SN_NR);
        }
    }
}

void SN_K(sn_gemm_pack_b)(const struct sn_block *b, float *line, float *out)
{
    if (b->trans)
        pack_b_columns(b, line, out);
    else
        pack_b_rows(b, out);
}
