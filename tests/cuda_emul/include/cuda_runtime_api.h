/* cuda_runtime_api.h - as much of CUDA's as the kernels name; see tests/cuda_emul/emul.h. */
#ifndef SN_EMUL_RUNTIME_API_H
#define SN_EMUL_RUNTIME_API_H

#include <stddef.h>

typedef int cudaError_t;
enum { cudaSuccess = 0 };
typedef struct sn_emul_stream *cudaStream_t;
enum cudaDeviceAttr {
    cudaDevAttrComputeCapabilityMajor,
    cudaDevAttrComputeCapabilityMinor,
    cudaDevAttrMultiProcessorCount,
    cudaDevAttrMaxSharedMemoryPerBlockOptin,
    cudaDevAttrL2CacheSize
};

struct cudaFuncAttributes {
    int maxThreadsPerBlock;
};

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *f, const void *kernel);
cudaError_t cudaGetLastError(void);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, int kind, cudaStream_t stream);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device);
const char *cudaGetErrorString(cudaError_t e);
#ifdef __cplusplus
}
#endif
enum { cudaMemcpyDeviceToDevice = 3 };

#endif
