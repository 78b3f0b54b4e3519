/*
 * test_seen.cc - faults that the emulation must see: small kernels, each right once and wrong once.
 */
#include "tests/cuda_emul/seen.h"

/* --- what a sanitizer of the host sees -------------------------------------------------------- */

static __global__ void __launch_bounds__(SN_WARP) store_16(float *p, int at)
{
    if (threadIdx.x == 0)
        *(uint4 *)(p + at) = make_uint4(1, 2, 3, 4);
}

static __global__ void __launch_bounds__(SN_WARP) store_8(float *p, int at)
{
    if (threadIdx.x == 0)
        *(float2 *)(p + at) = make_float2(1, 2);
}

static __global__ void __launch_bounds__(2 * SN_WARP) beyond(int *out, int columns)
{
    __shared__ int room[2][SN_WARP];
    room[0][threadIdx.x % columns] = (int)threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = room[0][threadIdx.x % columns];
}

static __global__ void __launch_bounds__(SN_WARP) shifted(uint32_t *out, int by)
{
    out[threadIdx.x] = 1u << ((int)threadIdx.x + by);
}

static void accesses(void)
{
    static float room[64] __attribute__((aligned(16)));
    static int out[64];
    sees("a store of 16 bytes at an address of 4", "alignment",
         [](bool bad) { return sn_launch(&cx, store_16, shape(SN_WARP), room, bad ? 1 : 4); });
    sees("a store of 8 bytes at an address of 4", "alignment",
         [](bool bad) { return sn_launch(&cx, store_8, shape(SN_WARP), room, bad ? 1 : 2); });
    sees("an index beyond a row of shared memory", "out of bounds",
         [](bool bad) { return sn_launch(&cx, beyond, shape(bad ? 64 : SN_WARP), out, 64); });
    sees("a shift by as many bits as there are", "shift exponent", [](bool bad) {
        return sn_launch(&cx, shifted, shape(SN_WARP), (uint32_t *)out, bad ? 1 : 0);
    });
}

/* --- what a device refuses to launch ---------------------------------------------------------- */

static __global__ void __launch_bounds__(2 * SN_WARP) bounded(int *out)
{
    out[threadIdx.x] = 1;
}

static __global__ void unbounded(int *out)
{
    out[threadIdx.x] = 1;
}

static __global__ void __launch_bounds__(SN_BLOCK) with_static(int *out)
{
    __shared__ int room[10 * 1024];
    room[threadIdx.x] = (int)threadIdx.x;
    out[threadIdx.x] = room[threadIdx.x];
}

static __global__ void __launch_bounds__(SN_BLOCK) with_more(int *out)
{
    __shared__ int room[10 * 1024 + 1];
    room[threadIdx.x] = (int)threadIdx.x;
    out[threadIdx.x] = room[threadIdx.x];
}

static __global__ void __launch_bounds__(SN_WARP) left_over(float *out)
{
    __shared__ float room[SN_WARP];
    if (blockIdx.x == 0)
        room[threadIdx.x] = 1;
    out[blockIdx.x * SN_WARP + threadIdx.x] = room[threadIdx.x];
}

static void refuses(const char *what, struct sn_shape g, int rc)
{
    static int out[SN_BLOCK_MOST];
    ok(sn_launch(&cx, unbounded, g, out) == rc, what, rc ? "is refused" : "is launched");
}

static void launches(void)
{
    static int out[SN_BLOCK_MOST];
    struct sn_shape g = shape(0);
    sees("more threads than a kernel's bounds", "whose bounds allow 64",
         [](bool bad) { return sn_launch(&cx, bounded, shape(bad ? 96 : 64), out); });
    sees("512 threads that may take 255 registers", "whose bounds allow 256",
         [](bool bad) { return sn_launch(&cx, unbounded, shape(bad ? 512 : 256), out); });
    sees("static and dynamic memory beyond 48 KiB unasked", "49152 allowed", [](bool bad) {
        return sn_launch(&cx, with_static, shape(SN_BLOCK, bad ? 16384 : 8192), out);
    });
    sees("dynamic memory that begins at whole KiB behind the static", "49152 allowed",
         [](bool bad) {
             return sn_launch(&cx, with_more, shape(SN_BLOCK, bad ? 7680 : 7168), out);
         });
    sees("static and dynamic memory beyond what a block has", "232448 allowed", [](bool bad) {
        return sn_launch(&cx, with_static, shape(SN_BLOCK, (size_t)(bad ? 200 : 180) * 1024), out);
    });
    refuses("dynamic memory of a whole block", shape(1, 227 * 1024), 0);
    refuses("more dynamic memory than a block has", shape(1, 227 * 1024 + 1), 9);
    refuses("1056 threads", shape(1056), 9);
    g = shape(1);
    g.y = 65536;
    refuses("65536 rows of blocks", g, 9);
    g = shape(1);
    g.x = 0x80000000u;
    refuses("2^31 blocks", g, 9);
}

static void shared_memory(void)
{
    static float out[2 * SN_WARP];
    struct sn_shape g = shape(SN_WARP);
    g.x = 2;
    int rc = sn_launch(&cx, left_over, g, out);
    ok(rc == 0 && out[3] == 1 && out[SN_WARP + 3] != out[SN_WARP + 3],
       "what a block left in static shared memory", "is NaN for the next");
}

int main(void)
{
    cx.device = {90, 4, 227 * 1024, 0};
    accesses();
    launches();
    shared_memory();
    printf("1..%d\n", points);
    return failed != 0;
}
