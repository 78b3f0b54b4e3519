/*
 * cublasLt.h - as much of the library as gemm.cu names, by plain loops over column-major matrices:
 * it checks what is described, not how fast. See tests/cuda_emul/emul.h.
 */
#ifndef SN_EMUL_CUBLASLT_H
#define SN_EMUL_CUBLASLT_H

#include <cuda_runtime_api.h>

#include <stdint.h>

typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
} cublasStatus_t;
typedef enum {
    CUDA_R_32F = 0,
    CUDA_R_16F = 2,
    CUDA_R_16BF = 14,
    CUDA_R_8F_E4M3 = 28,
    CUDA_R_8F_E5M2 = 29
} cudaDataType_t;
typedef enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 } cublasComputeType_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum {
    CUBLASLT_EPILOGUE_DEFAULT = 1,
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_GELU = 32,
    CUBLASLT_EPILOGUE_GELU_BIAS = 36,
    CUBLASLT_EPILOGUE_GELU_AUX = 160,
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
    CUBLASLT_EPILOGUE_DGELU = 192,
    CUBLASLT_EPILOGUE_BGRADB = 512
} cublasLtEpilogue_t;
typedef enum {
    CUBLASLT_MATMUL_DESC_TRANSA,
    CUBLASLT_MATMUL_DESC_TRANSB,
    CUBLASLT_MATMUL_DESC_EPILOGUE,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER,
    CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
    CUBLASLT_MATMUL_DESC_A_SCALE_MODE = 31, /* the library's own numbers: gemm.cu has them too */
    CUBLASLT_MATMUL_DESC_B_SCALE_MODE
} cublasLtMatmulDescAttributes_t;
typedef enum {
    CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F = 0,
    CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F = 4,
    CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F = 5
} cublasLtMatmulMatrixScale_t;
typedef enum {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
} cublasLtMatmulPreferenceAttributes_t;
enum { CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2 };

typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
    cublasOperation_t a, b;
    cublasLtEpilogue_t epilogue;
    void *bias; /* or the sums of columns */
    const float *scale_a, *scale_b;
    void *aux;
    int64_t aux_ld;
    int32_t mode_a, mode_b;
} cublasLtMatmulDescOpaque_t;
typedef struct {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
} cublasLtMatrixLayoutOpaque_t;
typedef struct {
    size_t workspace;
} cublasLtMatmulPreferenceOpaque_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
} cublasLtMatmulHeuristicResult_t;
typedef struct sn_emul_lt *cublasLtHandle_t;
typedef struct sn_emul_event {
    float ms;
} * cudaEvent_t;

#ifdef __cplusplus
extern "C" {
#endif
/* How often an algorithm was asked for; which one a product was done with last. */
extern int sn_emul_asked, sn_emul_taken;
extern long sn_emul_codes;  /* products of 8-bit operands */
extern long sn_emul_parts;  /* of those, with scales of lines and blocks */
extern long sn_emul_joined; /* products with an epilogue beyond a bias */
/* Milliseconds that such an epilogue costs a product, and that a kernel takes: what events tell. */
extern float sn_emul_joined_ms, sn_emul_kernel_ms;

size_t cublasLtGetVersion(void);
cublasStatus_t cublasLtCreate(cublasLtHandle_t *h);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h);
const char *cublasLtGetStatusString(cublasStatus_t st);
cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDescOpaque_t *d, cublasComputeType_t compute,
                                      cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDescOpaque_t *d,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes);
cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayoutOpaque_t *l, cudaDataType_t type,
                                        uint64_t rows, uint64_t cols, int64_t ld);
cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreferenceOpaque_t *p);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreferenceOpaque_t *p,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t bytes);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDescOpaque_t *d,
                                              cublasLtMatrixLayoutOpaque_t *la,
                                              cublasLtMatrixLayoutOpaque_t *lb,
                                              cublasLtMatrixLayoutOpaque_t *lc,
                                              cublasLtMatrixLayoutOpaque_t *ld,
                                              cublasLtMatmulPreferenceOpaque_t *pref, int most,
                                              cublasLtMatmulHeuristicResult_t *found, int *n);
cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, const cublasLtMatmulDescOpaque_t *desc,
                              const void *alpha, const void *a,
                              const cublasLtMatrixLayoutOpaque_t *la, const void *b,
                              const cublasLtMatrixLayoutOpaque_t *lb, const void *beta,
                              const void *c, const cublasLtMatrixLayoutOpaque_t *lc, void *d,
                              const cublasLtMatrixLayoutOpaque_t *ld,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
                              cudaStream_t stream);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaEventCreate(cudaEvent_t *e);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b);
#ifdef __cplusplus
}
#endif

#endif
