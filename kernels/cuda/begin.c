/*
 * begin.c - the begin and the end of a device: is there one, may it be used, streams, events,
 * marks.
 */
#include "kernels/cuda/plugin.h"

#include <stdio.h>
#include <string.h>

/* --- is there one ----------------------------------------------------------------------------- */

int sn_cuda_count(char *why, size_t room)
{
    int driver = 0, n = 0;
    (void)cudaDriverGetVersion(&driver); /* 0 where there is none */
    cudaError_t rc = cudaGetDeviceCount(&n);
    (void)cudaGetLastError();
    if (rc == cudaSuccess && n > 0)
        return n;
    if (driver == 0)
        (void)snprintf(why, room,
                       "this host has no NVIDIA driver; run on a node with a GPU, or set cpu");
    else if (rc == cudaErrorInsufficientDriver)
        (void)snprintf(
            why, room,
            "the driver of this host is for CUDA %d.%d, the plugin was built with %d.%d; "
            "update the driver, or build with a CUDA that it knows",
            driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    else if (rc == cudaErrorNoDevice || rc == cudaSuccess)
        (void)snprintf(
            why, room,
            "the driver of this host shows no GPU; ask the scheduler for one, and look at "
            "CUDA_VISIBLE_DEVICES");
    else
        (void)snprintf(why, room, "looking for GPUs failed: %s", cudaGetErrorString(rc));
    return driver == 0 ? 0 : -1;
}

/* --- begin and end ---------------------------------------------------------------------------- */

/* Communication comes first where both could run. */
static int make_streams(struct sn_device *d)
{
    int least = 0, greatest = 0;
    if (sn_cuda_check(d, cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities") != 0)
        return -1;
    for (int i = 0; i < SN_DEVICE_STREAMS; i++)
        if (sn_cuda_check(d,
                          cudaStreamCreateWithPriority(&d->stream[i], cudaStreamNonBlocking,
                                                       i == 0 ? least : greatest),
                          "a stream") != 0)
            return -1;
    return 0;
}

/* Kernels write marks to memory of the host, which it reads without a call; page-locked memory has
 * the same address on both sides (CUDA C++ Programming Guide, unified virtual addressing). */
static int make_marks(struct sn_device *d)
{
    void *marked = NULL;
    if (sn_cuda_check(d, cudaHostAlloc(&marked, sizeof(*d->marked), cudaHostAllocMapped),
                      "page-locked memory"))
        return -1;
    d->marked = marked;
    *d->marked = 0;
    return 0;
}

/* cuBLASLt has products of 8-bit operands from sm_89 on; with scales of parts on sm_90 alone, since
 * version 12.9 (its manual, scaling modes). */
static int takes_fp8(struct sn_device *d, enum sn_fp8_scaling scaling)
{
    const char *name = d->properties.name;
    int arch = d->cuda.device.arch;
    if (scaling != SN_FP8_OFF && arch < 89)
        return sn_cuda_fail(d,
                            "train.fp8 needs sm_89 or later, and %.40s is sm_%d; leave it out, or "
                            "take another GPU",
                            name, arch);
    if (scaling != SN_FP8_BLOCKWISE)
        return 0;
    if (arch != 90)
        return sn_cuda_fail(d,
                            "train.fp8: blockwise needs sm_90, and %.40s is sm_%d; take "
                            "tensorwise, or another GPU",
                            name, arch);
    if (cublasLtGetVersion() < 120900)
        return sn_cuda_fail(d,
                            "train.fp8: blockwise needs cuBLASLt 12.9 or later, and this is "
                            "version %zu; take tensorwise, or a later CUDA",
                            cublasLtGetVersion());
    return 0;
}

/* cuDNN, if attention may or must be computed by it. Where it may, and there is none, nothing is
 * wrong: describe() says so; one that is there and does not do is worth a warning. */
static int takes_attention(struct sn_device *d, enum sn_library_use use)
{
    int arch = d->cuda.device.arch;
    char why[400] = "";
    d->attention = use;
    if (use == SN_LIBRARY_NEVER || (use == SN_LIBRARY_MAY && arch < 80))
        return 0;
    if (arch < 80)
        return sn_cuda_fail(d,
                            "run.attention: cudnn needs sm_80 or later, and %.40s is sm_%d; take "
                            "own or auto",
                            d->properties.name, arch);
    if (sn_sdpa_open(&d->sdpa, why, sizeof(why)) == 0) {
        d->cuda.sdpa = &d->sdpa;
        return 0;
    }
    if (use == SN_LIBRARY_MUST)
        return sn_cuda_fail(d, "run.attention: cudnn: %s; or take own or auto", why);
    if (sn_cudnn_path()[0] || !strstr(why, "nor is it in"))
        sn_cuda_lacks(d, "attention is computed without cuDNN: %s", why);
    return 0;
}

/* What keeps cuBLASLt from beginning. */
static int no_products(struct sn_device *d, cublasStatus_t status)
{
    const struct sn_library *l = sn_cuda_blaslt();
    if (l->why[0])
        return sn_cuda_fail(d, "cuBLASLt: %s", l->why);
    size_t version = cublasLtGetVersion();
    return sn_cuda_fail(d,
                        "cuBLASLt %zu.%zu.%zu (%.200s) does not begin: %s (status %d); the driver "
                        "is for CUDA %d.%d",
                        version / 10000, version % 10000 / 100, version % 100, l->path,
                        cublasLtGetStatusString(status), (int)status, d->driver / 1000,
                        d->driver % 1000 / 10);
}

int sn_cuda_begin(struct sn_device *d, int number, const struct sn_device_options *how)
{
    d->number = number;
    (void)cudaDriverGetVersion(&d->driver); /* for people */
    if (sn_cuda_check(d, cudaSetDevice(number), "taking the device") != 0 ||
        sn_cuda_check(d, cudaGetDeviceProperties(&d->properties, number), "its properties") != 0)
        return -1;
    int rc = sn_cuda_open(&d->cuda, number);
    if (rc >= 10000)
        return no_products(d, (cublasStatus_t)(rc - 10000));
    if (sn_cuda_check(d, (cudaError_t)rc, "opening the device") != 0)
        return -1;
    if (takes_fp8(d, how->fp8) != 0 || takes_attention(d, how->attention) != 0)
        return -1;
    d->patience_s = how->patience_s;
    d->channel_ctas = how->channel_ctas;
    d->registers = how->registers;
    rc = make_streams(d);
    rc = rc ? rc : sn_cuda_prove(d);
    d->cuda.tf32 = how->tf32;
    d->cuda.tunes = how->tune;
    return rc ? rc : make_marks(d);
}

static void drop_events(struct sn_device *d)
{
    for (int i = 0; i < d->n_events; i++)
        if (d->event[i])
            (void)cudaEventDestroy(d->event[i]); /* nothing follows from a failure here */
    (void)cudaFreeHost(d->event);
    d->event = NULL;
    d->n_events = 0;
}

void sn_cuda_end(struct sn_device *d)
{
    const struct sn_cuda_channels *channels = sn_cuda_channels();
    if (channels)
        channels->leave(d);
    drop_events(d);
    for (int i = 0; i < d->n_clocks; i++)
        (void)cudaEventDestroy(d->clock[i]);
    (void)cudaFreeHost(d->clock);
    (void)cudaFreeHost((void *)(uintptr_t)d->marked);
    sn_cuda_close(&d->cuda);
    for (int i = 0; i < SN_DEVICE_STREAMS; i++)
        if (d->stream[i])
            (void)cudaStreamDestroy(d->stream[i]);
}

int sn_cuda_make_events(struct sn_device *d, int n)
{
    void *room = NULL;
    drop_events(d);
    if (sn_cuda_check(d, cudaHostAlloc(&room, (size_t)n * sizeof(*d->event), 0), "events") != 0)
        return -1;
    memset(room, 0, (size_t)n * sizeof(*d->event));
    d->event = room;
    for (d->n_events = 0; d->n_events < n; d->n_events++)
        if (sn_cuda_check(d,
                          cudaEventCreateWithFlags(&d->event[d->n_events], cudaEventDisableTiming),
                          "an event") != 0)
            return -1;
    return 0;
}

int sn_cuda_make_clocks(struct sn_device *d, int n)
{
    void *room = NULL;
    if (n <= d->n_clocks)
        return 0;
    if (sn_cuda_check(d, cudaHostAlloc(&room, (size_t)n * sizeof(*d->clock), 0), "clocks") != 0)
        return -1;
    if (d->n_clocks)
        memcpy(room, d->clock, (size_t)d->n_clocks * sizeof(*d->clock));
    (void)cudaFreeHost(d->clock); /* NULL is allowed */
    for (d->clock = room; d->n_clocks < n; d->n_clocks++)
        if (sn_cuda_check(d, cudaEventCreate(&d->clock[d->n_clocks]), "a clock") != 0)
            return -1;
    return 0;
}
