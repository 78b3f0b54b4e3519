/*
 * gemm_epilogue.cu - GEMM with an epilogue: in one with cuBLASLt's product, or product and kernel
 * apart.
 *
 * Which of the two is faster depends on the algorithms that the library has for such a product, so
 * it is measured (cx->tunes): both forms as a whole, the fastest algorithm in each, and what was
 * found is kept with the plans. Without a measurement GELU and its slope are the library's from
 * sm_90 on, and all else is apart (docs/CUDA.md, "Epilogues of products"). Both forms have the same
 * operands and the same scratch.
 *
 * Sums of columns that are to be added go to a row in scratch first: the library overwrites.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gemm_inner.cuh"
#include "kernels/cuda/ops.cuh"

#include <string.h>

typedef int form(struct sn_cuda *cx, const struct sn_args *a, bool *refused);

/* --- in one ---------------------------------------------------------------------------------- */

static int in_one(struct sn_cuda *cx, const struct sn_args *a, bool *refused)
{
    if (a->attr.gemm.epilogue != SN_EPILOGUE_COLSUM || a->acc[SN_GEMM_BESIDE] == SN_WRITE)
        return sn_gemm_by_library(cx, a, refused);
    struct sn_args b = *a, sum;
    b.out[SN_GEMM_BESIDE].p = (char *)a->scratch + SN_GEMM_WORKSPACE;
    b.acc[SN_GEMM_BESIDE] = SN_WRITE;
    memset((void *)&sum, 0, sizeof(sum));
    sum.in[SN_COPY_X] = b.out[SN_GEMM_BESIDE];
    sum.out[SN_COPY_Y] = a->out[SN_GEMM_BESIDE];
    sum.acc[SN_COPY_Y] = SN_ADD;
    int rc = sn_gemm_by_library(cx, &b, refused);
    return rc || *refused ? rc : sn_cuda_copy(cx, &sum);
}

/* --- apart ----------------------------------------------------------------------------------- */

/* The other operation alone, on what the product has written, or on its first operand. */
static int alone(struct sn_cuda *cx, const struct sn_args *a, const struct sn_mat *product)
{
    bool sums = a->attr.gemm.epilogue == SN_EPILOGUE_COLSUM;
    struct sn_args b;
    memset((void *)&b, 0, sizeof(b));
    b.attr.act = a->attr.act;
    b.scratch = a->scratch; /* the product is done with it */
    b.in[0] = sums ? a->in[SN_GEMM_A] : *product;
    b.in[1] = a->in[SN_GEMM_SLOPE_OF]; /* of a slope */
    b.out[0] = sums ? a->out[SN_GEMM_BESIDE] : a->out[SN_GEMM_C];
    b.acc[0] = sums ? a->acc[SN_GEMM_BESIDE] : SN_WRITE;
    return sums                                       ? sn_cuda_colsum(cx, &b)
           : a->attr.gemm.epilogue == SN_EPILOGUE_ACT ? sn_cuda_act(cx, &b)
                                                      : sn_cuda_act_dx(cx, &b);
}

static int apart(struct sn_cuda *cx, const struct sn_args *a, bool *refused)
{
    struct sn_args b = *a;
    bool has_x = a->attr.gemm.epilogue == SN_EPILOGUE_ACT && a->out[SN_GEMM_BESIDE].p;
    b.attr.gemm.epilogue = SN_EPILOGUE_NONE;
    b.out[SN_GEMM_C] = has_x ? a->out[SN_GEMM_BESIDE] : a->out[SN_GEMM_C];
    b.out[SN_GEMM_BESIDE].p = b.in[SN_GEMM_SLOPE_OF].p = NULL;
    *refused = false;
    int rc = sn_cuda_gemm(cx, &b);
    return rc ? rc : alone(cx, a, &b.out[SN_GEMM_C]);
}

/* --- which ----------------------------------------------------------------------------------- */

/* Milliseconds of three runs after one that warms up, and in which products apart
 * find their plan. */
static int time_of(struct sn_cuda *cx, const struct sn_args *a, form *run, float *ms)
{
    cudaEvent_t event[2];
    bool refused;
    if (sn_launched(cx, cudaEventCreate(&event[0])))
        return cx->fault.code;
    if (sn_launched(cx, cudaEventCreate(&event[1]))) {
        (void)cudaEventDestroy(event[0]);
        return cx->fault.code;
    }
    int rc = run(cx, a, &refused);
    rc = rc ? rc : sn_launched(cx, cudaEventRecord(event[0], cx->stream));
    for (int i = 0; i < 3 && rc == 0; i++)
        rc = run(cx, a, &refused);
    rc = rc ? rc : sn_launched(cx, cudaEventRecord(event[1], cx->stream));
    rc = rc ? rc : sn_launched(cx, cudaEventSynchronize(event[1]));
    rc = rc ? rc : sn_launched(cx, cudaEventElapsedTime(ms, event[0], event[1]));
    (void)cudaEventDestroy(event[0]);
    (void)cudaEventDestroy(event[1]);
    return rc;
}

static int measure(struct sn_cuda *cx, const struct sn_args *a)
{
    float one = 0.0f, two = 0.0f;
    int rc = sn_gemm_find_plan(cx, a);
    if (rc == 0 && !sn_gemm_plan(cx, a)) {
        sn_gemm_keep_apart(cx, a);
        sn_gemm_remember(cx, a, true);
        return 0;
    }
    rc = rc ? rc : time_of(cx, a, in_one, &one);
    rc = rc ? rc : time_of(cx, a, apart, &two);
    if (rc == 0 && two < one)
        sn_gemm_keep_apart(cx, a);
    return rc;
}

/* Where nobody has measured. */
static bool is_likely_faster(const struct sn_cuda *cx, const struct sn_args *a)
{
    return a->attr.gemm.epilogue != SN_EPILOGUE_COLSUM && cx->device.arch >= 90;
}

int sn_gemm_with_epilogue(struct sn_cuda *cx, const struct sn_args *a)
{
    bool refused = true;
    if (!sn_gemm_is_for_library(a) || a->out[SN_GEMM_C].rows == 0 || a->out[SN_GEMM_C].cols == 0)
        return apart(cx, a, &refused);
    if (cx->tunes && !sn_gemm_plan(cx, a)) {
        int rc = measure(cx, a);
        if (rc)
            return rc;
    }
    const struct sn_cuda_plan *plan = sn_gemm_plan(cx, a);
    if (plan ? !plan->is_apart : is_likely_faster(cx, a)) {
        int rc = in_one(cx, a, &refused);
        if (rc || !refused)
            return rc;
        sn_gemm_keep_apart(cx, a); /* the library need not be asked again */
        sn_gemm_remember(cx, a, true);
    }
    return apart(cx, a, &refused);
}
