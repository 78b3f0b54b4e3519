/*
 * blas.cc - the emulated cuBLASLt: column-major loops in fp32, rounded once. Every third shape is
 * refused, and every fifth with an epilogue beyond a bias, so that what stands in for the library
 * is run too. GELU is taken of the sum before it is rounded. Of four algorithms, which differ in
 * their numbers alone, the third is said to be fastest, and the second one fails when it is run.
 */
#include "tests/cuda_emul/emul.h"

#include "kernels/fp8.h"

enum { ALGORITHMS = 4, BROKEN = 1 };
static const float milliseconds[ALGORITHMS] = {3, 1, 2, 4}; /* of a run */
int sn_emul_asked, sn_emul_taken;
long sn_emul_codes, sn_emul_parts, sn_emul_joined;
float sn_emul_joined_ms = 0.5f, sn_emul_kernel_ms = 1;
static float products_ms; /* of all so far */

size_t cublasLtGetVersion(void)
{
    const char *other = getenv("SN_EMUL_LT");
    return other ? (size_t)atoi(other) : 130000;
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    *h = NULL;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t)
{
    return CUBLAS_STATUS_SUCCESS;
}
const char *cublasLtGetStatusString(cublasStatus_t)
{
    return "an emulated status";
}
cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDescOpaque_t *d, cublasComputeType_t,
                                      cudaDataType_t scale)
{
    *d = {CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL, NULL, NULL, NULL, 0, 0, 0};
    return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDescOpaque_t *d,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes)
{
    void *to[] = {&d->a,       &d->b,       &d->epilogue, &d->bias,
                  &d->scale_a, &d->scale_b, &d->aux,      &d->aux_ld};
    size_t size[] = {sizeof(d->a),    sizeof(d->b),       sizeof(d->epilogue),
                     sizeof(d->bias), sizeof(d->scale_a), sizeof(d->scale_b),
                     sizeof(d->aux),  sizeof(d->aux_ld)};
    if (what == CUBLASLT_MATMUL_DESC_A_SCALE_MODE || what == CUBLASLT_MATMUL_DESC_B_SCALE_MODE) {
        if (bytes != sizeof(int32_t) || cublasLtGetVersion() < 120900)
            return CUBLAS_STATUS_INVALID_VALUE;
        memcpy(what == CUBLASLT_MATMUL_DESC_A_SCALE_MODE ? &d->mode_a : &d->mode_b, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (bytes != size[what])
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to[what], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayoutOpaque_t *l, cudaDataType_t type,
                                        uint64_t rows, uint64_t cols, int64_t ld)
{
    *l = {type, rows, cols, ld};
    return ld >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreferenceOpaque_t *p)
{
    p->workspace = 0;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreferenceOpaque_t *,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void *, size_t)
{
    return CUBLAS_STATUS_SUCCESS;
}
/* Beyond a bias. */
static bool is_joined(const cublasLtMatmulDescOpaque_t *d)
{
    return d->epilogue != CUBLASLT_EPILOGUE_DEFAULT && d->epilogue != CUBLASLT_EPILOGUE_BIAS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDescOpaque_t *desc,
                                              cublasLtMatrixLayoutOpaque_t *la,
                                              cublasLtMatrixLayoutOpaque_t *,
                                              cublasLtMatrixLayoutOpaque_t *,
                                              cublasLtMatrixLayoutOpaque_t *ld,
                                              cublasLtMatmulPreferenceOpaque_t *, int most,
                                              cublasLtMatmulHeuristicResult_t *found, int *n)
{
    sn_emul_asked++;
    bool refused = (la->rows + ld->rows + ld->cols) % 3 == 0 ||
                   (is_joined(desc) && (ld->rows + ld->cols) % 5 == 0);
    *n = refused ? 0 : min(most, (int)ALGORITHMS);
    memset(found, 0, (size_t)*n * sizeof(*found));
    for (int i = 0; i < *n; i++)
        found[i].algo.data[0] = 40 + (uint64_t)i;
    return *n ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static bool is_code(cudaDataType_t t)
{
    return t == CUDA_R_8F_E4M3 || t == CUDA_R_8F_E5M2;
}

/* ... and of factors of lines and blocks ("128-element 1D and 128x128 2D Block Scaling"). */
static bool factors_fit(const cublasLtMatmulDescOpaque_t *d, const cublasLtMatrixLayoutOpaque_t *a,
                        const cublasLtMatrixLayoutOpaque_t *b)
{
    const int32_t line = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    const int32_t block = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    bool known = (d->mode_a == line || d->mode_a == block) &&
                 (d->mode_b == line || d->mode_b == block) &&
                 !(d->mode_a == block && d->mode_b == block);
    sn_emul_parts += d->mode_a || d->mode_b;
    return (!d->mode_a && !d->mode_b) ||
           (known && a->type == CUDA_R_8F_E4M3 && b->type == CUDA_R_8F_E4M3 &&
            (uintptr_t)d->scale_a % 16 == 0 && (uintptr_t)d->scale_b % 16 == 0 &&
            a->cols % 4 == 0 && b->cols % 4 == 0);
}

/* The factor of element (depth, i) of an operand that has n rows across the depth k. */
static float factor(const float *s, int32_t mode, uint64_t k, uint64_t n, uint64_t depth,
                    uint64_t i)
{
    uint64_t lines = (k + 127) / 128;
    if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F)
        return s[depth / 128 * n + i];
    if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F)
        return s[i / 128 * ((lines + 3) / 4 * 4) + depth / 128];
    return s ? *s : 1.0f;
}

/* What the manual asks of products of 8-bit operands (cublasLtMatmul, FP8 kernels). */
static bool codes_fit(const cublasLtMatmulDescOpaque_t *d, const cublasLtMatrixLayoutOpaque_t *a,
                      const void *pa, const cublasLtMatrixLayoutOpaque_t *b, const void *pb,
                      const cublasLtMatrixLayoutOpaque_t *c)
{
    if (!is_code(a->type) && !is_code(b->type))
        return !d->scale_a && !d->scale_b && !d->mode_a && !d->mode_b;
    sn_emul_codes++;
    return is_code(a->type) && is_code(b->type) && factors_fit(d, a, b) &&
           !(a->type == CUDA_R_8F_E5M2 && b->type == CUDA_R_8F_E5M2) && d->a == CUBLAS_OP_T &&
           d->b == CUBLAS_OP_N && d->scale_a && d->scale_b && a->rows % 16 == 0 &&
           a->cols % 16 == 0 && b->cols % 16 == 0 && a->ld % 16 == 0 && b->ld % 16 == 0 &&
           (uintptr_t)pa % 16 == 0 && (uintptr_t)pb % 16 == 0 &&
           (c->type == CUDA_R_16BF || c->type == CUDA_R_32F);
}

static float get(const void *p, const cublasLtMatrixLayoutOpaque_t *l, uint64_t r, uint64_t c)
{
    size_t at = (size_t)(c * (uint64_t)l->ld + r);
    if (is_code(l->type))
        return sn_fp8_to_f32(((const uint8_t *)p)[at],
                             l->type == CUDA_R_8F_E4M3 ? SN_E4M3 : SN_E5M2);
    return l->type == CUDA_R_32F   ? ((const float *)p)[at]
           : l->type == CUDA_R_16F ? sn_f16_to_f32(((const uint16_t *)p)[at])
                                   : sn_bf16_to_f32(((const uint16_t *)p)[at]);
}

static void put(void *p, const cublasLtMatrixLayoutOpaque_t *l, uint64_t r, uint64_t c, float x)
{
    size_t at = (size_t)(c * (uint64_t)l->ld + r);
    if (l->type == CUDA_R_32F)
        ((float *)p)[at] = x;
    else
        ((uint16_t *)p)[at] = l->type == CUDA_R_16F ? sn_f32_to_f16(x) : sn_f32_to_bf16(x);
}

/* What cublasLt.h says of GELU's auxiliary matrix, and of bias gradients (CUBLASLT_MATMUL_DESC_
 * EPILOGUE_AUX_LD, _BIAS_POINTER); nothing is said of the order of their sums. */
static bool epilogue_fits(const cublasLtMatmulDescOpaque_t *d,
                          const cublasLtMatrixLayoutOpaque_t *out)
{
    bool aux = (int)d->epilogue & 128, vector = (int)d->epilogue & (4 | 512);
    static const int known[] = {CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_BIAS,
                                CUBLASLT_EPILOGUE_GELU,     CUBLASLT_EPILOGUE_GELU_BIAS,
                                CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_BGRADB};
    bool is_known = false;
    for (int k : known)
        is_known = is_known || k == (int)d->epilogue;
    sn_emul_joined += is_joined(d);
    return is_known && (!vector || d->bias) &&
           (aux ? d->aux && d->aux_ld % 8 == 0 && d->aux_ld >= (int64_t)out->rows : !d->aux);
}

static float gelu(float x)
{
    return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

static float gelu_slope(float x)
{
    float t = tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x));
    return 0.5f * (1.0f + t) +
           0.5f * x * (1.0f - t * t) * 0.7978845608028654f * (1.0f + 3.0f * 0.044715f * x * x);
}

/* What becomes of a sum; its place in D and in the auxiliary matrix, which are of one type. */
static float epilogue_of(const cublasLtMatmulDescOpaque_t *d,
                         const cublasLtMatrixLayoutOpaque_t *out, float sum, uint64_t i, uint64_t j)
{
    cublasLtMatrixLayoutOpaque_t bias = {out->type, out->rows, 1, (int64_t)out->rows};
    cublasLtMatrixLayoutOpaque_t aux = {out->type, out->rows, out->cols, d->aux_ld};
    if (d->epilogue == CUBLASLT_EPILOGUE_DGELU)
        return sum * gelu_slope(get(d->aux, &aux, i, j));
    if ((int)d->epilogue & 4)
        sum += get(d->bias, &bias, i, 0);
    if ((int)d->epilogue & 128)
        put(d->aux, &aux, i, j, sum);
    return (int)d->epilogue & 32 ? gelu(sum) : sum;
}

/* Sums over the depth of the second operand, for each column of D, in D's type. */
static void sum_depth(const cublasLtMatmulDescOpaque_t *d, const void *b,
                      const cublasLtMatrixLayoutOpaque_t *lb,
                      const cublasLtMatrixLayoutOpaque_t *out, uint64_t k)
{
    cublasLtMatrixLayoutOpaque_t sums = {out->type, out->cols, 1, (int64_t)out->cols};
    for (uint64_t j = 0; j < out->cols; j++) {
        float sum = 0;
        for (uint64_t l = 0; l < k; l++)
            sum += d->b == CUBLAS_OP_N ? get(b, lb, l, j) : get(b, lb, j, l);
        put(d->bias, &sums, j, 0, sum);
    }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, const cublasLtMatmulDescOpaque_t *desc,
                              const void *alpha, const void *a,
                              const cublasLtMatrixLayoutOpaque_t *la, const void *b,
                              const cublasLtMatrixLayoutOpaque_t *lb, const void *beta,
                              const void *c, const cublasLtMatrixLayoutOpaque_t *lc, void *d,
                              const cublasLtMatrixLayoutOpaque_t *ld,
                              const cublasLtMatmulAlgo_t *algo, void *, size_t, cudaStream_t)
{
    sn_emul_taken = (int)algo->data[0] - 40;
    if (sn_emul_taken < 0 || sn_emul_taken >= ALGORITHMS || sn_emul_taken == BROKEN)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    float al = *(const float *)alpha, be = *(const float *)beta;
    uint64_t k = desc->a == CUBLAS_OP_N ? la->cols : la->rows;
    uint64_t m = desc->a == CUBLAS_OP_N ? la->rows : la->cols;
    uint64_t n = desc->b == CUBLAS_OP_N ? lb->cols : lb->rows;
    if ((desc->b == CUBLAS_OP_N ? lb->rows : lb->cols) != k || ld->rows != m || ld->cols != n ||
        lc->rows != m || lc->cols != n || lc->type != ld->type ||
        (la->type != lb->type && !is_code(la->type)) || !codes_fit(desc, la, a, lb, b, ld) ||
        !epilogue_fits(desc, ld))
        return CUBLAS_STATUS_INVALID_VALUE;
    products_ms += milliseconds[sn_emul_taken] + (is_joined(desc) ? sn_emul_joined_ms : 0);
    if (desc->epilogue == CUBLASLT_EPILOGUE_BGRADB)
        sum_depth(desc, b, lb, ld, k);
    for (uint64_t j = 0; j < n; j++)
        for (uint64_t i = 0; i < m; i++) {
            float sum = 0;
            for (uint64_t l = 0; l < k; l++)
                sum += (desc->a == CUBLAS_OP_N ? get(a, la, i, l) : get(a, la, l, i)) *
                       (desc->b == CUBLAS_OP_N ? get(b, lb, l, j) : get(b, lb, j, l)) *
                       factor(desc->scale_a, desc->mode_a, k, m, l, i) *
                       factor(desc->scale_b, desc->mode_b, k, n, l, j);
            sum *= al;
            if (be != 0.0f)
                sum += be * get(c, lc, i, j);
            put(d, ld, i, j, epilogue_of(desc, ld, sum, i, j));
        }
    return CUBLAS_STATUS_SUCCESS;
}

cudaError_t cudaSetDevice(int)
{
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    *e = (cudaEvent_t)calloc(1, sizeof(**e));
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    free(e);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t)
{
    e->ms = products_ms + sn_emul_kernel_ms * (float)sn_emul_launches;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t)
{
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    *ms = b->ms - a->ms;
    return cudaSuccess;
}
