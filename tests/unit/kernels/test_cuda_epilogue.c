/*
 * Which products the plugin for CUDA has in one with what stands beside them, and their scratch.
 * Needs no GPU: kernels/cuda/gemm.h is plain C.
 */
#include "kernels/cuda/gemm.h"
#include "tests/lib/tap.h"

enum { T = 4096, C = 768, F = 3072 };

static struct sn_mat mat(enum sn_dtype t, int64_t rows, int64_t cols)
{
    return (struct sn_mat){NULL, t, rows, cols, cols};
}

/* ffn.up forward, dx of ffn.down, dw of ffn.up, as the compiler asks: without pointers. */
static struct sn_args product(enum sn_epilogue e)
{
    struct sn_args a = {.attr = {.gemm.epilogue = e, .gemm.trans_b = e == SN_EPILOGUE_ACT}};
    a.in[0] = mat(SN_BF16, T, e == SN_EPILOGUE_COLSUM ? F : C);
    a.in[1] = mat(SN_BF16, C, F);
    a.out[0] = mat(SN_BF16, T, F);
    if (e == SN_EPILOGUE_ACT) {
        a.in[1] = mat(SN_BF16, F, C);
        a.in[2] = mat(SN_BF16, 1, F);
        a.out[1] = mat(SN_BF16, T, F);
    } else if (e == SN_EPILOGUE_ACT_DX)
        a.in[4] = mat(SN_BF16, T, F);
    else if (e == SN_EPILOGUE_COLSUM) {
        a.attr.gemm.trans_a = true;
        a.in[1] = mat(SN_BF16, T, C);
        a.out[0] = mat(SN_F32, F, C);
        a.out[1] = mat(SN_F32, 1, F);
        a.acc[0] = a.acc[1] = SN_ADD;
    }
    return a;
}

static void the_library_has_those_of_a_layer(void)
{
    struct sn_args act = product(SN_EPILOGUE_ACT), slope = product(SN_EPILOGUE_ACT_DX);
    struct sn_args sums = product(SN_EPILOGUE_COLSUM), none = product(SN_EPILOGUE_NONE);
    tap_ok(sn_gemm_joins(&act) && sn_gemm_joins(&slope) && sn_gemm_joins(&sums),
           "GELU, its slope and sums of columns, of bf16");
    tap_ok(!sn_gemm_joins(&none), "a product alone is none of them");
    act.out[1] = (struct sn_mat){0};
    tap_ok(sn_gemm_joins(&act), "GELU whose input nobody reads");
    slope.in[4] = (struct sn_mat){0};
    tap_ok(!sn_gemm_joins(&slope), "a slope is of something");
}

static void what_the_header_excludes_stays_apart(void)
{
    struct sn_args a = product(SN_EPILOGUE_ACT);
    a.attr.act = SN_ACT_GELU_ERF;
    tap_ok(!sn_gemm_joins(&a), "GELU with erf");
    a = product(SN_EPILOGUE_ACT);
    a.out[0].cols = a.out[0].ld = a.out[1].cols = a.out[1].ld = F + 4;
    tap_ok(!sn_gemm_joins(&a), "rows of its input that are no multiple of 8 elements");
    a = product(SN_EPILOGUE_ACT_DX);
    a.in[4].dtype = SN_F32;
    tap_ok(!sn_gemm_joins(&a), "an input of another type than the result");
    a = product(SN_EPILOGUE_ACT_DX);
    a.in[3] = mat(SN_BF16, T, F);
    tap_ok(!sn_gemm_joins(&a), "an addend beside a slope");
    a = product(SN_EPILOGUE_COLSUM);
    a.out[0].dtype = SN_BF16;
    tap_ok(!sn_gemm_joins(&a), "sums in fp32 beside a result in bf16");
    a = product(SN_EPILOGUE_COLSUM);
    a.attr.gemm.fp8 = SN_FP8_BACKWARD;
    tap_ok(!sn_gemm_joins(&a), "sums of what is rounded to 8 bits");
    a = product(SN_EPILOGUE_ACT);
    for (int i = 0; i < 3; i++)
        a.in[i].dtype = SN_F32;
    a.out[0].dtype = a.out[1].dtype = SN_F32;
    tap_ok(!sn_gemm_joins(&a), "products of fp32");
}

/* In one: the workspace, and a row of sums that are to be added; apart: the sums of chunks. */
static void scratch_is_enough_for_both_forms(void)
{
    struct sn_args act = product(SN_EPILOGUE_ACT), sums = product(SN_EPILOGUE_COLSUM);
    tap_ok(sn_gemm_room(&act) == SN_GEMM_WORKSPACE, "GELU needs no more than its product");
    tap_ok(sn_gemm_room(&sums) == SN_GEMM_WORKSPACE + F * 4 &&
               sn_gemm_room(&sums) >= sn_sum_scratch(T, F, 1),
           "sums of columns: a row more");
    sums.in[0] = mat(SN_BF16, 1 << 20, 1 << 17);
    sums.out[1] = mat(SN_F32, 1, 1 << 17);
    tap_ok(sn_gemm_room(&sums) == sn_sum_scratch(1 << 20, 1 << 17, 1),
           "of many and wide rows, what sums of chunks take");
}

int main(void)
{
    the_library_has_those_of_a_layer();
    what_the_header_excludes_stays_apart();
    scratch_is_enough_for_both_forms();
    return tap_done();
}
