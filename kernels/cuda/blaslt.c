/*
 * blaslt.c - cuBLASLt, opened with the first device: the library is half a gigabyte, of which a
 * process has 170 MB resident and takes 0.1 s even where there is no device to be found.
 *
 * The functions have the library's own names and pass on what they get; the plugin is not linked
 * with it.
 */
#include "kernels/cuda/plugin.h"

#include <pthread.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define LIBRARY    "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

/* name, parameters, what is passed on */
#define FUNCTIONS(F)                                                                               \
    F(cublasLtDestroy, (cublasLtHandle_t h), (h))                                                  \
    F(cublasLtMatmul,                                                                              \
      (cublasLtHandle_t h, cublasLtMatmulDesc_t how, const void *alpha, const void *a,             \
       cublasLtMatrixLayout_t al, const void *b, cublasLtMatrixLayout_t bl, const void *beta,      \
       const void *c, cublasLtMatrixLayout_t cl, void *d, cublasLtMatrixLayout_t dl,               \
       const cublasLtMatmulAlgo_t *algo, void *work, size_t bytes, cudaStream_t stream),           \
      (h, how, alpha, a, al, b, bl, beta, c, cl, d, dl, algo, work, bytes, stream))                \
    F(cublasLtMatmulAlgoGetHeuristic,                                                              \
      (cublasLtHandle_t h, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t al,                    \
       cublasLtMatrixLayout_t bl, cublasLtMatrixLayout_t cl, cublasLtMatrixLayout_t dl,            \
       cublasLtMatmulPreference_t wish, int most, cublasLtMatmulHeuristicResult_t *found, int *n), \
      (h, how, al, bl, cl, dl, wish, most, found, n))                                              \
    F(cublasLtMatmulDescInit_internal,                                                             \
      (cublasLtMatmulDesc_t how, size_t size, cublasComputeType_t type, cudaDataType_t scale),     \
      (how, size, type, scale))                                                                    \
    F(cublasLtMatmulDescSetAttribute,                                                              \
      (cublasLtMatmulDesc_t how, cublasLtMatmulDescAttributes_t what, const void *value,           \
       size_t size),                                                                               \
      (how, what, value, size))                                                                    \
    F(cublasLtMatmulPreferenceInit_internal, (cublasLtMatmulPreference_t wish, size_t size),       \
      (wish, size))                                                                                \
    F(cublasLtMatmulPreferenceSetAttribute,                                                        \
      (cublasLtMatmulPreference_t wish, cublasLtMatmulPreferenceAttributes_t what,                 \
       const void *value, size_t size),                                                            \
      (wish, what, value, size))                                                                   \
    F(cublasLtMatrixLayoutInit_internal,                                                           \
      (cublasLtMatrixLayout_t l, size_t size, cudaDataType type, uint64_t rows, uint64_t cols,     \
       int64_t ld),                                                                                \
      (l, size, type, rows, cols, ld))

static struct {
    struct sn_library library;
    cublasStatus_t (*create)(cublasLtHandle_t *);
    size_t (*version)(void);
    const char *(*text)(cublasStatus_t);
#define MEMBER(name, parameters, passed) cublasStatus_t(*name) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
} lt;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    struct sn_library *l = &lt.library;
    int rc = sn_library_open(l, LIBRARY);
    rc = rc ? rc : sn_library_find(l, (void *)&lt.version, "cublasLtGetVersion");
    rc = rc ? rc : sn_library_find(l, (void *)&lt.text, "cublasLtGetStatusString");
#define FIND(name, parameters, passed) rc = rc ? rc : sn_library_find(l, (void *)&lt.name, #name);
    FUNCTIONS(FIND)
#undef FIND
    if (rc == 0)
        (void)sn_library_find(l, (void *)&lt.create, "cublasLtCreate"); /* last: all is there */
}

const struct sn_library *sn_cuda_blaslt(void)
{
    (void)pthread_once(&once, open_library); /* cannot fail with a constant */
    return &lt.library;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    (void)sn_cuda_blaslt();
    return lt.create ? lt.create(h) : CUBLAS_STATUS_NOT_INITIALIZED;
}

size_t cublasLtGetVersion(void)
{
    return lt.version(); /* with a handle, as all below */
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return lt.create ? lt.text(status) : lt.library.why;
}

#define PASS_ON(name, parameters, passed)                                                          \
    cublasStatus_t name parameters                                                                 \
    {                                                                                              \
        return lt.name passed;                                                                     \
    }
FUNCTIONS(PASS_ON)
