/*
 * fake_blaslt.c - a cuBLASLt that begins, says its version, and computes nothing: what
 * kernels/cuda/blaslt.c opens in tests. FAKE_CUDA="blas=120805 blas_status=1" sets what it says.
 * Without the library's header, so that the rest is names alone.
 */
#include <stdlib.h>
#include <string.h>

static long habit(const char *name, long otherwise)
{
    const char *text = getenv("FAKE_CUDA");
    const char *at = text ? strstr(text, name) : NULL;
    return at ? strtol(at + strlen(name), NULL, 10) : otherwise;
}

int cublasLtCreate(void **h);
int cublasLtDestroy(void *h);
size_t cublasLtGetVersion(void);
const char *cublasLtGetStatusString(int status);

int cublasLtCreate(void **h)
{
    *h = h; /* anything but NULL */
    return (int)habit("blas_status=", 0);
}

int cublasLtDestroy(void *h)
{
    return h ? 0 : 7;
}

size_t cublasLtGetVersion(void)
{
    return (size_t)habit("blas=", 130002);
}

const char *cublasLtGetStatusString(int status)
{
    return status == 1 ? "the library was not initialized" : "another status";
}

#define NEVER_CALLED(name)                                                                         \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        abort();                                                                                   \
    }
NEVER_CALLED(cublasLtMatmul)
NEVER_CALLED(cublasLtMatmulAlgoGetHeuristic)
NEVER_CALLED(cublasLtMatmulDescInit_internal)
NEVER_CALLED(cublasLtMatmulDescSetAttribute)
NEVER_CALLED(cublasLtMatmulPreferenceInit_internal)
NEVER_CALLED(cublasLtMatmulPreferenceSetAttribute)
NEVER_CALLED(cublasLtMatrixLayoutInit_internal)
