/*
 * prove.c - sn_cuda_prove: what a device and this plugin's code make of known operands, before a
 * run believes them: a copy that converts, a product through cuBLASLt, and on sm_90 a warpgroup
 * product.
 *
 * Values are small whole numbers, exact in every type, so results are right or wrong.
 */
#include "kernels/cuda/prove.h"

#include "kernels/cuda/plugin.h"
#include "kernels/half.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 4096, SIDE = 64, TILE = SN_PROVE_ROWS * SN_PROVE_COLS };

/* On the device; freed at the end of the proof, but where it hangs. */
struct room {
    float *wide;    /* TILE of them */
    uint16_t *half; /* 3 x N */
    void *scratch;
};

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int sn_cuda_settle(struct sn_device *d, const char *what)
{
    double began = now();
    cudaError_t rc;
    while ((rc = cudaStreamQuery(d->stream[0])) == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* it is no error */
        (void)sched_yield();      /* cannot fail on Linux */
        if (d->patience_s == 0 || now() - began < d->patience_s)
            continue;
        (void)sn_cuda_fail(d, "%s has not ended after %d s", what, d->patience_s);
        return SN_DEVICE_HANGS;
    }
    return sn_cuda_check(d, rc, what);
}

/* What the code of an operation that does not begin means. */
static int refused(struct sn_device *d, const char *what)
{
    int code = d->cuda.fault.code, arch = d->cuda.device.arch;
    if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorUnsupportedPtxVersion ||
        code == cudaErrorInvalidPtx)
        return sn_cuda_fail(
            d,
            "%.60s is sm_%d; the plugin was built for CUDA_ARCH=\"%s\", of which the "
            "driver (for CUDA %d.%d) has no code for it (%s); build it with "
            "CUDA_ARCH=%d",
            d->properties.name, arch, SN_CUDA_ARCH, d->driver / 1000, d->driver % 1000 / 10,
            d->cuda.fault.what, arch);
    return sn_cuda_fail(d, "%s does not begin: %s (code %d)", what, d->cuda.fault.what, code);
}

static int carry(struct sn_device *d, void *to, const void *from, size_t bytes,
                 enum cudaMemcpyKind way, const char *what)
{
    int rc = sn_cuda_check(d, cudaMemcpyAsync(to, from, bytes, way, d->stream[0]), what);
    return rc ? rc : sn_cuda_settle(d, what);
}

static int run(struct sn_device *d, enum sn_op_kind kind, const struct sn_args *a, const char *what)
{
    d->cuda.stream = d->stream[0];
    return sn_cuda_run_op(&d->cuda, kind, a) == 0 ? sn_cuda_settle(d, what) : refused(d, what);
}

static float wide_of(uint16_t x, enum sn_dtype t)
{
    return t == SN_BF16 ? sn_bf16_to_f32(x) : sn_f16_to_f32(x);
}

/* fp32 to the type of products: a kernel of the plugin's, not a copy of the driver's. */
static int copies(struct sn_device *d, const struct room *r, enum sn_dtype half)
{
    static const char what[] = "the first kernel (copy, fp32 to 16 bits)";
    float x[N];
    uint16_t y[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 251 - 125);
    struct sn_args a = {.in = {{r->wide, SN_F32, 1, N, N}}, .out = {{r->half, half, 1, N, N}}};
    int rc = carry(d, r->wide, x, sizeof(x), cudaMemcpyHostToDevice, what);
    rc = rc ? rc : run(d, SN_OP_COPY, &a, what);
    rc = rc ? rc : carry(d, y, r->half, sizeof(y), cudaMemcpyDeviceToHost, what);
    for (int i = 0; i < N && rc == 0; i++)
        if (wide_of(y[i], half) != x[i])
            return sn_cuda_fail(d,
                                "%s: element %d is %g, not %g; the device or the plugin's build "
                                "is broken",
                                what, i, (double)wide_of(y[i], half), (double)x[i]);
    return rc;
}

static int a_of(int row, int k)
{
    return (row + k) % 3 - 1;
}

static int b_of(int k, int col)
{
    return (2 * k + col) % 3 - 1;
}

/* Through cuBLASLt, as layers are; of what it has no algorithm for, our own kernel is the way. */
static int product(struct sn_device *d, struct room *r, enum sn_dtype half)
{
    static const char what[] = "the first product (cuBLASLt, 64 x 64 x 64)";
    uint16_t x[2][SIDE * SIDE], y[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        float v[2] = {(float)a_of(i / SIDE, i % SIDE), (float)b_of(i / SIDE, i % SIDE)};
        for (int k = 0; k < 2; k++)
            x[k][i] = half == SN_BF16 ? sn_f32_to_bf16(v[k]) : sn_f32_to_f16(v[k]);
    }
    struct sn_args a = {
        .in = {{r->half, half, SIDE, SIDE, SIDE}, {r->half + N, half, SIDE, SIDE, SIDE}},
        .out = {{r->half + 2 * N, half, SIDE, SIDE, SIDE}}};
    int rc =
        sn_cuda_check(d, cudaMalloc(&r->scratch, sn_cuda_scratch(SN_OP_GEMM, &a, 1) + 1), what);
    a.scratch = r->scratch;
    rc = rc ? rc : carry(d, r->half, x, sizeof(x), cudaMemcpyHostToDevice, what);
    rc = rc ? rc : run(d, SN_OP_GEMM, &a, what);
    rc = rc ? rc : carry(d, y, r->half + 2 * N, sizeof(y), cudaMemcpyDeviceToHost, what);
    for (int i = 0; i < SIDE * SIDE && rc == 0; i++) {
        int sum = 0;
        for (int k = 0; k < SIDE; k++)
            sum += a_of(i / SIDE, k) * b_of(k, i % SIDE);
        if (wide_of(y[i], half) != (float)sum)
            return sn_cuda_fail(d,
                                "%s: row %d, column %d is %g, not %d; another version of "
                                "cuBLASLt, or another device",
                                what, i / SIDE, i % SIDE, (double)wide_of(y[i], half), sum);
    }
    if (rc == 0 && d->cuda.plans.n == 0)
        sn_cuda_lacks(d, "cuBLASLt has no algorithm for the first product: kernels of our own "
                         "multiply, which is slower");
    d->cuda.plans.n = 0; /* none of the run's */
    return rc;
}

/* Memory that nobody has written is NaN, which no sum is. */
static int warpgroup(struct sn_device *d, const struct room *r)
{
    static const char what[] = "the first warpgroup product";
    float y[TILE];
    d->cuda.stream = d->stream[0];
    int rc = sn_cuda_check(d, cudaMemsetAsync(r->wide, 0xff, sizeof(y), d->stream[0]), what);
    if (rc == 0 && sn_cuda_prove_warpgroup(&d->cuda, r->wide) != 0)
        rc = refused(d, what);
    rc = rc ? rc : carry(d, y, r->wide, sizeof(y), cudaMemcpyDeviceToHost, what);
    if (rc)
        return rc;
    int written = 0;
    for (int i = 0; i < TILE; i++)
        written += y[i] == y[i];
    if (written == 0) {
        sn_cuda_lacks(
            d,
            "the plugin (CUDA_ARCH=\"%s\") has no warpgroup products for sm_90: attention "
            "takes mma.sync, which is slower; build it with CUDA_ARCH=90",
            SN_CUDA_ARCH);
        return 0;
    }
    for (int i = 0; i < TILE; i++) {
        int row = i / SN_PROVE_COLS, col = i % SN_PROVE_COLS, sum = 0;
        for (int k = 0; k < SN_PROVE_DEPTH; k++)
            sum += sn_prove_a(row, k) * sn_prove_b(k, col);
        if (y[i] != (float)sum)
            return sn_cuda_fail(d,
                                "%s: row %d, column %d is %g, not %d; the device or the plugin's "
                                "build is broken",
                                what, row, col, (double)y[i], sum);
    }
    return 0;
}

int sn_cuda_prove(struct sn_device *d)
{
    struct room r = {0};
    enum sn_dtype half = d->cuda.device.arch >= 80 ? SN_BF16 : SN_F16;
    int rc = sn_cuda_check(d, cudaMalloc((void **)&r.wide, TILE * sizeof(float)), "memory");
    rc =
        rc ? rc : sn_cuda_check(d, cudaMalloc((void **)&r.half, 3 * N * sizeof(*r.half)), "memory");
    rc = rc ? rc : copies(d, &r, half);
    rc = rc ? rc : product(d, &r, half);
    rc = rc || d->cuda.device.arch != 90 ? rc : warpgroup(d, &r);
    if (rc == SN_DEVICE_HANGS)
        return rc;
    (void)cudaFree(r.wide); /* NULL is allowed, and nothing follows from a failure */
    (void)cudaFree(r.half);
    (void)cudaFree(r.scratch);
    return rc;
}
