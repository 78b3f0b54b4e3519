/*
 * mma.cuh - the instructions of sm_80 and later that attention_mma*.cu is made of.
 *
 * mma.sync.m16n8k16 (PTX ISA, 9.7.14.5): with g = lane / 4 and t = lane % 4 a lane holds
 *   A 16 x 16   a[0] (g, 2t 2t+1)  a[1] (g + 8, same)  a[2] (g, 2t+8 2t+9)  a[3] (g + 8, same)
 *   B 16 x 8    b[0] (2t 2t+1, g)  b[1] (2t+8 2t+9, g)
 *   C 16 x 8    c[0] c[1] (g, 2t 2t+1)  c[2] c[3] (g + 8, same)
 * so two neighbouring C tiles, packed, are an A tile: probabilities never leave registers.
 *
 * On older architectures the functions are empty; nothing that uses them is launched there. The
 * emulation (tests/cuda_emul) has a header in place of this one.
 */
#ifndef SN_CUDA_MMA_CUH
#define SN_CUDA_MMA_CUH

#include "kernels/cuda/device.cuh"

static __device__ __forceinline__ uint32_t sn_shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Four 8 x 8 tiles of 16-bit elements; lane l gives the address of row l % 8 of tile l / 8. A lane
 * gets (row lane / 4, columns 2t 2t+1) of each; turned: (rows 2t 2t+1, column lane / 4). */
static __device__ __forceinline__ void sn_ldmatrix(uint32_t r[4], const void *row)
{
#if SN_DEVICE_ARCH >= 80
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(sn_shared_address(row))
                 : "memory");
#endif
}

static __device__ __forceinline__ void sn_ldmatrix_turned(uint32_t r[4], const void *row)
{
#if SN_DEVICE_ARCH >= 80
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(sn_shared_address(row))
                 : "memory");
#endif
}

/* c += a b */
static __device__ __forceinline__ void sn_mma(float c[4], const uint32_t a[4], const uint32_t b[2],
                                              const sn_bf16 *)
{
#if SN_DEVICE_ARCH >= 80
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

static __device__ __forceinline__ void sn_mma(float c[4], const uint32_t a[4], const uint32_t b[2],
                                              const sn_f16 *)
{
#if SN_DEVICE_ARCH >= 80
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* 16 or 8 bytes from global to shared memory behind the thread's back; zeros when not `there`, and
 * then `from` is not read. */
static __device__ __forceinline__ void sn_copy_async(void *to, const void *from, bool there)
{
#if SN_DEVICE_ARCH >= 80
    int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(sn_shared_address(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
#endif
}

static __device__ __forceinline__ void sn_copy_async_8(void *to, const void *from, bool there)
{
#if SN_DEVICE_ARCH >= 80
    int bytes = there ? 8 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(sn_shared_address(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
#endif
}

static __device__ __forceinline__ void sn_copy_async_4(void *to, const void *from, bool there)
{
#if SN_DEVICE_ARCH >= 80
    int bytes = there ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(sn_shared_address(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
#endif
}

/* Ends a group of this thread's copies. */
static __device__ __forceinline__ void sn_copy_commit(void)
{
#if SN_DEVICE_ARCH >= 80
    asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

/* Until all but the last n groups of this thread have arrived; others' need a barrier after it. */
template <int n> static __device__ __forceinline__ void sn_copy_wait(void)
{
#if SN_DEVICE_ARCH >= 80
    asm volatile("cp.async.wait_group %0;\n" ::"n"(n) : "memory");
#endif
}

#endif
