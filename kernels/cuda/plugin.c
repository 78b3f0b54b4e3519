/*
 * plugin.c - kernels/device.h in CUDA: what libsennit_cuda.so exports.
 *
 * It only enqueues; what follows what is decided by the executor. Host code in C, so that it also
 * compiles, links and is tested (tests/gpu/fake_cudart.c) where no CUDA compiler is.
 */
#include "kernels/cuda/plugin.h"

#include "kernels/cuda/gemm.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const enum cudaMemcpyKind copy_kind[] = {[SN_TO_DEVICE] = cudaMemcpyHostToDevice,
                                                [SN_TO_HOST] = cudaMemcpyDeviceToHost,
                                                [SN_ON_DEVICE] = cudaMemcpyDeviceToDevice};

int sn_cuda_fail(struct sn_device *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(d->why, sizeof(d->why), fmt, ap);
    va_end(ap);
    return -1;
}

void sn_cuda_lacks(struct sn_device *d, const char *fmt, ...)
{
    size_t used = strlen(d->lacks);
    va_list ap;
    va_start(ap, fmt);
    used += (size_t)snprintf(d->lacks + used, sizeof(d->lacks) - used, "%s", used ? "; " : "");
    if (used < sizeof(d->lacks))
        (void)vsnprintf(d->lacks + used, sizeof(d->lacks) - used, fmt, ap);
    va_end(ap);
}

int sn_cuda_check(struct sn_device *d, cudaError_t rc, const char *what)
{
    return rc == cudaSuccess ? 0 : sn_cuda_fail(d, "%s: %s", what, cudaGetErrorString(rc));
}

static const char *explain(const struct sn_device *d)
{
    return d->why;
}

static const char *refuses(const struct sn_device *d, enum sn_dtype storage)
{
    return sn_cuda_refuses(&d->cuda.device, storage);
}

static int choice(const struct sn_device *d, int i, char line[SN_DEVICE_CHOICE])
{
    return sn_cuda_plan_format(&d->cuda, i, line, SN_DEVICE_CHOICE);
}

static int note(const struct sn_device *d, int i, char line[SN_DEVICE_CHOICE])
{
    return sn_cuda_gemm_note(&d->cuda, i, line, SN_DEVICE_CHOICE);
}

static int choose(struct sn_device *d, const char *line)
{
    int rc = sn_cuda_plan_parse(&d->cuda, line);
    return rc >= 0 ? rc
                   : sn_cuda_fail(d,
                                  "'%.40s' is no choice of cuBLASLt's; want a line that "
                                  "sennit-train --tune has written",
                                  line);
}

/* Dense products per multiprocessor and clock, 2 FLOP a multiply-add, with sums in fp32 (NVIDIA's
 * architecture papers): what MFU is told against. */
static double per_clock(int arch, enum sn_dtype t)
{
    bool is_half = t == SN_BF16 || t == SN_F16;
    if (t == SN_U8) /* 8-bit floats */
        return arch >= 89 ? 2 * per_clock(arch, SN_BF16) : 0;
    if (!is_half)
        return arch >= 86 ? 256 : 128;
    return arch >= 120   ? 512
           : arch >= 100 ? 8192
           : arch >= 90  ? 4096
           : arch == 80  ? 2048
           : arch > 80   ? 512
                         : 1024;
}

/* Which libraries, and from where: what a report of a failure needs. */
static void say_libraries(const struct sn_device *d, char *text, size_t room)
{
    size_t v = cublasLtGetVersion();
    int n = snprintf(text, room, "cuBLASLt %zu.%zu.%zu (%.200s)", v / 10000, v % 10000 / 100,
                     v % 100, sn_cuda_blaslt()->path);
    if (sn_cuda_channels() && n > 0 && (size_t)n + 2 < room) {
        memcpy(text + n, ", ", 3);
        sn_cuda_say_channels(text + n + 2, room - (size_t)n - 2);
    }
    size_t at = strlen(text);
    if (d->attention == SN_LIBRARY_NEVER || at + 2 >= room)
        return;
    memcpy(text + at, ", ", 3);
    if (d->cuda.sdpa)
        sn_sdpa_say(d->cuda.sdpa, text + at + 2, room - at - 2);
    else
        (void)snprintf(text + at + 2, room - at - 2, "no cuDNN: attention by kernels of our own");
}

static void describe(struct sn_device *d, struct sn_device_info *out)
{
    size_t free_bytes = 0, bytes = 0;
    int kHz = 0, arch = d->cuda.device.arch;
    (void)cudaMemGetInfo(&free_bytes, &bytes); /* 0 says that it is not known */
    (void)cudaDeviceGetAttribute(&kHz, cudaDevAttrClockRate, d->number);
    /* Data sheets of Hopper count 1.83 GHz, which it holds with its tensor cores busy. */
    double clock = arch == 90 && kHz > 1830000 ? 1.83e9 : kHz * 1e3;
    *out = (struct sn_device_info){.bytes = (int64_t)bytes, .free_bytes = (int64_t)free_bytes};
    (void)snprintf(out->name, sizeof(out->name), "%.40s, sm_%d, driver for CUDA %d.%d",
                   d->properties.name, arch, d->driver / 1000, d->driver % 1000 / 10);
    memcpy(out->uuid, d->properties.uuid.bytes, sizeof(out->uuid));
    say_libraries(d, out->libraries, sizeof(out->libraries));
    memcpy(out->lacks, d->lacks, sizeof(out->lacks));
    for (int t = 0; t < SN_NDTYPES; t++)
        out->peak[t] = per_clock(arch, (enum sn_dtype)t) * d->cuda.device.multiprocessors * clock;
}

/* --- memory ----------------------------------------------------------------------------------- */

static int alloc(struct sn_device *d, size_t bytes, void **out)
{
    const struct sn_cuda_channels *channels = d->registers ? sn_cuda_channels() : NULL;
    size_t room = bytes ? bytes : 1;
    void *p = NULL;
    if (channels ? channels->alloc(d, room, &p) != 0
                 : sn_cuda_check(d, cudaMalloc(&p, room), "memory of the device") != 0)
        return -1;
    *out = p;
    if (sn_cuda_check(d, cudaMemset(p, 0, bytes), "filling memory") != 0)
        return -1;
    return sn_cuda_check(d, cudaDeviceSynchronize(), "filling memory");
}

static void release(struct sn_device *d, void *p)
{
    const struct sn_cuda_channels *channels = d->registers ? sn_cuda_channels() : NULL;
    if (!channels || !channels->release(d, p))
        (void)cudaFree(p); /* NULL is allowed; the device may have failed */
}

static int pin(struct sn_device *d, void *p, size_t bytes)
{
    int rc = sn_cuda_check(d, cudaHostRegister(p, bytes ? bytes : 1, cudaHostRegisterPortable),
                           "page-locking memory");
    (void)cudaGetLastError();
    return rc;
}

static void unpin(struct sn_device *d, void *p)
{
    (void)d;
    (void)cudaHostUnregister(p);
}

static int host_alloc(struct sn_device *d, size_t bytes, void **out)
{
    void *p = NULL;
    if (sn_cuda_check(d, cudaHostAlloc(&p, bytes ? bytes : 1, cudaHostAllocPortable),
                      "page-locked memory") != 0)
        return -1;
    memset(p, 0, bytes);
    *out = p;
    return 0;
}

static void host_free(struct sn_device *d, void *p)
{
    (void)d;
    (void)cudaFreeHost(p); /* NULL is allowed */
}

/* --- enqueuing -------------------------------------------------------------------------------- */

static int copy(struct sn_device *d, int stream, void *to, const void *from, size_t bytes,
                enum sn_device_way way)
{
    return sn_cuda_check(d, cudaMemcpyAsync(to, from, bytes, copy_kind[way], d->stream[stream]),
                         "a copy");
}

static int run(struct sn_device *d, int stream, enum sn_op_kind kind, const struct sn_args *a)
{
    d->cuda.stream = d->stream[stream];
    if (sn_cuda_run_op(&d->cuda, kind, a) == 0)
        return 0;
    return sn_cuda_fail(d, "%s (code %d)", d->cuda.fault.what, d->cuda.fault.code);
}

static int record(struct sn_device *d, int stream, int event)
{
    return sn_cuda_check(d, cudaEventRecord(d->event[event], d->stream[stream]), "an event");
}

static int await(struct sn_device *d, int stream, int event)
{
    return sn_cuda_check(d, cudaStreamWaitEvent(d->stream[stream], d->event[event], 0), "an event");
}

static int stamp(struct sn_device *d, int stream, int clock)
{
    return sn_cuda_check(d, cudaEventRecord(d->clock[clock], d->stream[stream]), "a clock");
}

static int between(struct sn_device *d, int first, int second, double *seconds)
{
    float ms = 0;
    int rc =
        sn_cuda_check(d, cudaEventElapsedTime(&ms, d->clock[first], d->clock[second]), "a clock");
    *seconds = 1e-3 * (double)ms;
    return rc;
}

static int mark(struct sn_device *d, int stream, uint32_t number)
{
    d->cuda.stream = d->stream[stream];
    if (sn_cuda_mark(&d->cuda, d->marked, number) == 0)
        return 0;
    return sn_cuda_fail(d, "a mark: %s (code %d)", d->cuda.fault.what, d->cuda.fault.code);
}

static uint32_t marked(const struct sn_device *d)
{
    return *d->marked;
}

static int query(struct sn_device *d, int stream)
{
    cudaError_t rc = cudaStreamQuery(d->stream[stream]);
    if (rc == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* it is no error */
        return 1;
    }
    return sn_cuda_check(d, rc, "the device");
}

/* --- graphs ----------------------------------------------------------------------------------- */

static int graph_begin(struct sn_device *d, int stream)
{
    return sn_cuda_check(
        d, cudaStreamBeginCapture(d->stream[stream], cudaStreamCaptureModeThreadLocal),
        "beginning a graph");
}

static int graph_end(struct sn_device *d, int stream, void **graph)
{
    cudaGraph_t kept = NULL;
    cudaGraphExec_t ready = NULL;
    if (sn_cuda_check(d, cudaStreamEndCapture(d->stream[stream], &kept), "ending a graph") != 0)
        return -1;
    /* Else all of its nodes have the priority of the stream that it is launched on: the lowest. */
    int rc = sn_cuda_check(
        d, cudaGraphInstantiateWithFlags(&ready, kept, cudaGraphInstantiateFlagUseNodePriority),
        "making a graph");
    (void)cudaGraphDestroy(kept); /* what is ready does not need it */
    if (rc == 0)
        *graph = ready;
    return rc;
}

static int graph_launch(struct sn_device *d, int stream, void *graph)
{
    return sn_cuda_check(d, cudaGraphLaunch(graph, d->stream[stream]), "launching a graph");
}

static void graph_free(struct sn_device *d, void *graph)
{
    (void)d;
    (void)cudaGraphExecDestroy(graph);
}

/* Without channels there is nothing that could block. */
static void abort_nothing(struct sn_device *d)
{
    d->is_aborted = true;
}

/* --- the plugin ------------------------------------------------------------------------------- */

/* Products of 1024 rows and more fill a device, and their tiles have no rest; a block of 2 GiB
 * keeps the traffic of the head's gradient far below that of the logits themselves. */
static const struct sn_ops planned = {
    .name = "cuda",
    .scratch = sn_cuda_scratch,
    .head = {.bytes = (int64_t)2 << 30, .least = 1024, .multiple = 1024},
    .adds_in_products = true,
    .fuses = sn_gemm_joins};

#define DEVICE                                                                                     \
    .abi = SN_DEVICE_ABI, .maker = "cuda", .size = sizeof(struct sn_device), .ops = &planned,      \
    .count = sn_cuda_count, .open = sn_cuda_begin, .close = sn_cuda_end, .refuses = refuses,       \
    .make_events = sn_cuda_make_events, .make_clocks = sn_cuda_make_clocks, .stamp = stamp,        \
    .between = between, .choice = choice, .choose = choose, .describe = describe,                  \
    .explain = explain, .alloc = alloc, .release = release, .pin = pin, .unpin = unpin,            \
    .copy = copy, .run = run, .record = record, .await = await, .mark = mark,                      \
    .graph_begin = graph_begin, .graph_end = graph_end, .graph_launch = graph_launch,              \
    .graph_free = graph_free, .query = query, .marked = marked, .host_alloc = host_alloc,          \
    .host_free = host_free, .watched = sn_cuda_watched, .range_begin = sn_cuda_range_begin,        \
    .range_end = sn_cuda_range_end, .note = note, .health = sn_cuda_health

sn_device_plugin_fn sn_device_plugin;

const struct sn_device_ops *sn_device_plugin(int abi, const struct sn_ops *cpu)
{
    static const struct sn_device_ops alone = {DEVICE, .abort = abort_nothing,
                                               .no_channels = sn_cuda_no_channels};
    static struct sn_device_ops joined = {DEVICE};
    const struct sn_cuda_channels *channels = sn_cuda_channels();
    (void)cpu; /* tests compare; a run does not */
    if (abi != SN_DEVICE_ABI)
        return NULL;
    if (!channels)
        return &alone;
    joined.channel_id = channels->channel_id;
    joined.join = channels->join;
    joined.split = channels->split;
    joined.transfer = channels->transfer;
    joined.look = channels->look;
    joined.abort = channels->abort;
    return &joined;
}
