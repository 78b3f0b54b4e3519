/*
 * table.c - the operations that are products, of one instruction set, as the other table on which
 * the kernels' unit tests run (tests/gpu/other_table.h): compiled with the set's kernels for a
 * model of its instructions, or for another architecture and run by an emulator.
 */
#include "kernels/cpu/bf16.h"
#include "tests/gpu/other_table.h"

/* Not there for a test of GEMM alone. */
#define NOT_ALWAYS(name) extern __typeof__(SN_K(name)) SN_K(name) __attribute__((weak))
NOT_ALWAYS(sn_expert_gemm);
NOT_ALWAYS(sn_attention);
NOT_ALWAYS(sn_attention_dx);
NOT_ALWAYS(sn_expert_gemm_scratch);
NOT_ALWAYS(sn_attention_scratch);
NOT_ALWAYS(sn_attention_dx_scratch);

static size_t scratch(enum sn_op_kind kind, const struct sn_args *a, int threads)
{
    switch (kind) {
    case SN_OP_GEMM:
        return SN_K(sn_gemm_scratch)(a, threads);
    case SN_OP_EXPERT_GEMM:
        return SN_K(sn_expert_gemm_scratch)(a, threads);
    case SN_OP_ATTENTION:
        return SN_K(sn_attention_scratch)(a, threads);
    case SN_OP_ATTENTION_DX:
        return SN_K(sn_attention_dx_scratch)(a, threads);
    default:
        abort();
    }
}

static bool multiplies(enum sn_dtype t)
{
    return t == SN_BF16 && SN_K(sn_bf16);
}

#define STRING2(x) #x
#define STRING(x)  STRING2(x)

const struct sn_ops kt_other_table = {.name = "cpu/" STRING(SN_ISA),
                                      .run = {[SN_OP_GEMM] = SN_K(sn_gemm),
                                              [SN_OP_EXPERT_GEMM] = SN_K(sn_expert_gemm),
                                              [SN_OP_ATTENTION] = SN_K(sn_attention),
                                              [SN_OP_ATTENTION_DX] = SN_K(sn_attention_dx)},
                                      .scratch = scratch,
                                      .multiplies = multiplies};

const struct sn_ops *kt_other_ops(void)
{
    return &kt_other_table;
}

/* Sums are in fp32, as everywhere; what is rounded the table says (`multiplies`). */
double kt_slack(enum sn_op_kind kind, enum sn_dtype t)
{
    (void)kind;
    (void)t;
    return 0.0;
}

bool kt_any_order(void)
{
    return false;
}

/* How rows are shared out is the same for every set; the unit tests on this processor's have 4. */
int kt_threads(void)
{
    return getenv("ALL") ? 3 : 2;
}
