#include "lib/exec/products.h"

#include "kernels/half.h"
#include "lib/base/mem.h"

/* Whole tiles of every set, and the rest of one. */
enum { ROWS = 37, COLS = 83, DEPTH = 70, UP_TO = 5 };

static int small(int64_t i, int64_t j)
{
    return (int)((7 * i + 3 * j + i * j) % (2 * UP_TO + 1)) - UP_TO;
}

static void fill(struct sn_mat *m)
{
    for (int64_t i = 0; i < m->rows * m->cols; i++) {
        float x = (float)small(i / m->cols, i % m->cols + m->rows);
        if (m->dtype == SN_BF16)
            ((uint16_t *)m->p)[i] = sn_f32_to_bf16(x);
        else
            ((float *)m->p)[i] = x;
    }
}

/* C = A B^T */
static bool is_product(const float *c)
{
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) {
            int sum = 0;
            for (int l = 0; l < DEPTH; l++)
                sum += small(i, l + ROWS) * small(j, l + COLS);
            if (c[i * COLS + j] != (float)sum)
                return false;
        }
    return true;
}

static enum sn_status check(const struct sn_ops *ops, enum sn_dtype t, struct sn_err *err)
{
    float a[ROWS * DEPTH], b[COLS * DEPTH], c[ROWS * COLS] = {0};
    struct sn_args args = {.in = {{a, t, ROWS, DEPTH, DEPTH}, {b, t, COLS, DEPTH, DEPTH}},
                           .out = {{c, SN_F32, ROWS, COLS, COLS}},
                           .attr = {.gemm.trans_b = true}};
    fill(&args.in[0]);
    fill(&args.in[1]);
    size_t bytes = ops->scratch(SN_OP_GEMM, &args, 1);
    if (bytes && !(args.scratch = sn_arena_map(bytes)))
        return sn_fail(err, SN_ENOMEM, "%s: no memory for %zu bytes of scratch", ops->name, bytes);
    bool right = ops->run[SN_OP_GEMM](&args, 1) == 0 && is_product(c);
    if (args.scratch)
        sn_arena_unmap(args.scratch, bytes);
    return right ? SN_OK
                 : sn_fail(err, SN_EFAIL,
                           "%s: products of small integers in %s come out wrong on this "
                           "processor; run elsewhere, or with SN_ISA=generic in the environment",
                           ops->name, sn_dtype_name(t));
}

enum sn_status sn_products_check(const struct sn_ops *ops, struct sn_err *err)
{
    enum sn_status st = check(ops, SN_F32, err);
    return st == SN_OK ? check(ops, SN_BF16, err) : st;
}
