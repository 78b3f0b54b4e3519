/*
 * launch.cuh - launching a kernel, and the shared memory that a launch asks for.
 *
 * tests/cuda_emul has a header in place of this one that runs the threads of a block on the host.
 */
#ifndef SN_CUDA_LAUNCH_CUH
#define SN_CUDA_LAUNCH_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/geometry.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

/* The dynamic shared memory of a block, as bytes. */
#define SN_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]

/* The architecture that is compiled for, 0 on the host. Code that needs more than a device has is
 * never launched there (sn_cuda_device.arch decides), but its file is compiled for that device too.
 */
#ifdef __CUDA_ARCH__
#define SN_DEVICE_ARCH (__CUDA_ARCH__ / 10)
#else
#define SN_DEVICE_ARCH 0
#endif

/* Records what went wrong, if anything did. */
static inline int sn_launched(struct sn_cuda *cx, cudaError_t e)
{
    if (e == cudaSuccess)
        return 0;
    cx->fault.code = (int)e;
    cx->fault.what = cudaGetErrorString(e);
    return (int)e;
}

template <class... P, class... A>
static int sn_launch(struct sn_cuda *cx, void (*kernel)(P...), struct sn_shape g, A... args)
{
    if (g.x == 0 || g.y == 0 || g.z == 0)
        return 0;
    /* Static shared memory, up to whole KiB (the alignment of the dynamic), counts as well. */
    if (g.shared > SN_SHARED_PLAIN / 2) {
        cudaError_t e = cudaFuncSetAttribute(
            (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)g.shared);
        if (e != cudaSuccess)
            return sn_launched(cx, e);
    }
    kernel<<<dim3(g.x, g.y, g.z), dim3(g.bx, g.by, 1), g.shared, cx->stream>>>(
        static_cast<P>(args)...);
    return sn_launched(cx, cudaGetLastError());
}

#endif
