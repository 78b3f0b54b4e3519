/*
 * test_seen_products.cc - warpgroup products: faults that the emulation must see (wgmma.h).
 */
#include "kernels/cuda/wgmma.cuh"
#include "tests/cuda_emul/seen.h"

enum { GROUP = 128, ROW = 128 /* bytes */, A_BYTES = 64 * ROW, B_BYTES = 128 * ROW };
enum fault {
    NONE,
    NO_FENCE,
    NO_FENCE_AGAIN,
    NO_PUBLISH,
    COPY_NO_PUBLISH,
    LATE_PUBLISH,
    NO_BARRIER,
    NO_WAIT,
    NO_COMMIT,
    READ_EARLY,
    SUMS_WRITTEN,
    OVERWRITTEN,
    OTHER_OPERAND,
    OFF_TILE,
    ACROSS_LINES,
    NO_SWIZZLE,
    BASE_OFFSET,
    NEAR_ROWS,
    TWICE
};

/* 16 columns of ones in A, of `value` in B; the sum is 16 value. */
static __device__ void fill(unsigned char *to, int rows, float value)
{
    for (int i = (int)threadIdx.x; i < rows * 16; i += (int)blockDim.x) {
        int r = i / 16, at = r * ROW + i % 16 * 2;
        sn_narrow((sn_bf16 *)(to + (at ^ (r % 8 * 16))), value);
    }
}

static __device__ void copy(unsigned char *to, const sn_bf16 *twos, int rows)
{
    for (int i = (int)threadIdx.x; i < rows * 2; i += (int)blockDim.x) {
        int r = i / 2, at = r * ROW + i % 2 * 16;
        sn_copy_async(to + (at ^ (r % 8 * 16)), twos, true);
    }
    sn_copy_commit();
    sn_copy_wait<0>();
}

static __device__ void product(float c[16][4], const unsigned char *a, const unsigned char *b,
                               enum fault f)
{
    if (f == OTHER_OPERAND && threadIdx.x >= 64)
        b += 64 * ROW;
    uint64_t to_b = sn_wgmma_descriptor(b, 8 * ROW, 16);
    to_b += f == OFF_TILE ? ROW / 16 : f == ACROSS_LINES ? 7 : 0; /* pieces of 16 bytes */
    to_b ^= f == NO_SWIZZLE ? (uint64_t)1 << 62 : f == BASE_OFFSET ? (uint64_t)1 << 49 : 0;
    to_b -= f == NEAR_ROWS ? (uint64_t)(ROW / 16) << 32 : 0;
    sn_wgmma(c, sn_wgmma_descriptor(a, 8 * ROW, 16), to_b, (const sn_bf16 *)0);
}

static __global__ void __launch_bounds__(GROUP)
    products(float *out, const sn_bf16 *twos, enum fault f)
{
    SN_DYNAMIC_SHARED(shared);
    unsigned char *a = shared, *b = shared + A_BYTES;
    float c[16][4] = {{0}}, early = 0;
    fill(a, 64, 1);
    copy(b, twos, 128);
    if (f == NO_PUBLISH)
        sn_wgmma_publish();
    if (f == NO_PUBLISH || f == COPY_NO_PUBLISH)
        fill(f == NO_PUBLISH ? a : b, 64, f == NO_PUBLISH ? 1.0f : 2.0f);
    else if (f != LATE_PUBLISH)
        sn_wgmma_publish();
    if (f != NO_BARRIER)
        __syncthreads();
    if (f == LATE_PUBLISH)
        sn_wgmma_publish();
    if (f != NO_FENCE)
        sn_wgmma_begin();
    product(c, a, b, f);
    if (f == READ_EARLY)
        early = c[3][1];
    if (f == SUMS_WRITTEN)
        c[3][1] = 0;
    if (f == OVERWRITTEN) {
        __syncthreads(); /* all have issued it */
        fill(b, 128, 3);
    }
    if (f == NO_WAIT)
        return;
    if (f == NO_COMMIT)
        sn_emul_product_wait(0);
    else
        sn_wgmma_end(c);
    if (f == TWICE || f == NO_FENCE_AGAIN) {
        if (f == TWICE)
            sn_wgmma_begin();
        product(c, a, b, f);
        sn_wgmma_end(c);
    }
    for (int n = 0; n < 16; n++)
        for (int i = 0; i < 4; i++)
            out[(threadIdx.x * 16 + n) * 4 + i] = c[n][i] + early;
}

static int run(enum fault f, float value)
{
    static float out[GROUP * 64];
    sn_bf16 twos[8] __attribute__((aligned(16)));
    for (int i = 0; i < 8; i++)
        twos[i] = __float2bfloat16_rn(2);
    int rc =
        sn_launch(&cx, products, shape(GROUP, A_BYTES + B_BYTES), out, (const sn_bf16 *)twos, f);
    for (int i = 0; i < GROUP * 64 && rc == 0; i++)
        if (!(out[i] == value)) {
            fprintf(stderr, "sum %d is %g, not %g\n", i, (double)out[i], (double)value);
            rc = 1;
        }
    return rc;
}

int main(void)
{
    static const struct {
        enum fault f;
        const char *what, *words;
    } t[] = {
        {NO_FENCE, "a product without a fence before it", "without a fence"},
        {NO_FENCE_AGAIN, "a second product without a fence after the wait", "without a fence"},
        {NO_PUBLISH, "stores that are not published", "not published"},
        {COPY_NO_PUBLISH, "stores over copies that are not published", "not published"},
        {LATE_PUBLISH, "publishing behind the barrier", "without a barrier"},
        {NO_BARRIER, "no barrier behind publishing", "without a barrier"},
        {NO_WAIT, "a block that ends before the wait", "nobody waited"},
        {NO_COMMIT, "a wait without a commit", "nobody waited"},
        {READ_EARLY, "sums read before the wait", "is nan"},
        {SUMS_WRITTEN, "sums written before the wait", "sums were written"},
        {OVERWRITTEN, "an operand overwritten before the wait", "is 48, not 32"},
        {OTHER_OPERAND, "warps that name different operands", "different operands"},
        {OFF_TILE, "a tile between multiples of 1024 bytes", "not at a multiple of 1024"},
        {ACROSS_LINES, "16 elements of two lines", "one line of 128 bytes"},
        {NO_SWIZZLE, "another swizzle than the tile's", "not of the 128-byte swizzle"},
        {BASE_OFFSET, "a base offset", "not of the 128-byte swizzle"},
        {NEAR_ROWS, "rows that lie too near", "distances that are not multiples"},
    };
    cx.device = {90, 4, 227 * 1024, 0};
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        enum fault f = t[i].f;
        sees(t[i].what, t[i].words, [=](bool bad) { return run(bad ? f : NONE, 32); });
    }
    ok(run(TWICE, 64) == 0, "two products one after the other", "their sums are right");
    printf("1..%d\n", points);
    return failed != 0;
}
