/*
 * plugin.c - kernels/device.h in CUDA: what libsennit_cuda.so exports.
 *
 * It only enqueues; what follows what is decided by the executor. Host code in C, so that it also
 * compiles, links and is tested (tests/gpu/fake_cudart.c) where no CUDA compiler is.
 */
#include "kernels/cuda/plugin.h"

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

int sn_cuda_check(struct sn_device *d, cudaError_t rc, const char *what)
{
    return rc == cudaSuccess ? 0 : sn_cuda_fail(d, "%s: %s", what, cudaGetErrorString(rc));
}

static const char *explain(const struct sn_device *d)
{
    return d->why;
}

/* --- is there one --------------------------------------------------------------------------------
 */

static int count(char *why, size_t room)
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

/* Does the plugin hold code for this device? */
static int try_kernel(struct sn_device *d)
{
    struct sn_args a = {.out = {{d->numbers, SN_F32, 1, 64, 64}}};
    d->cuda.stream = d->stream[0];
    int rc = sn_cuda_run_op(&d->cuda, SN_OP_ZERO, &a);
    if (rc == 0)
        return sn_cuda_check(d, cudaStreamSynchronize(d->stream[0]), "the first kernel");
    if (d->cuda.fault.code == cudaErrorNoKernelImageForDevice)
        return sn_cuda_fail(d,
                            "%s is sm_%d; the plugin was built for CUDA_ARCH=\"%s\"; build it "
                            "with CUDA_ARCH=%d",
                            d->properties.name, d->cuda.device.arch, SN_CUDA_ARCH,
                            d->cuda.device.arch);
    return sn_cuda_fail(d, "the first kernel: %s", d->cuda.fault.what);
}

/* --- begin and end -------------------------------------------------------------------------------
 */

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

/* A mark is a copy of its number from a table on the device to page-locked memory: graphs keep it,
 * and the host sees it without a call. */
static int make_marks(struct sn_device *d)
{
    void *numbers = NULL, *marked = NULL;
    size_t bytes = SN_CUDA_MARKS * sizeof(uint32_t);
    if (sn_cuda_check(d, cudaMalloc(&numbers, bytes), "memory of marks") != 0)
        return -1;
    d->numbers = numbers;
    if (try_kernel(d) != 0)
        return -1;
    if (sn_cuda_check(d, cudaHostAlloc(&marked, bytes, cudaHostAllocPortable),
                      "page-locked memory"))
        return -1;
    uint32_t *here = marked;
    d->marked = here;
    for (uint32_t i = 0; i < SN_CUDA_MARKS; i++)
        here[i] = i;
    if (sn_cuda_check(d, cudaMemcpy(numbers, marked, bytes, cudaMemcpyHostToDevice), "marks") != 0)
        return -1;
    here[0] = 0;
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

static int open_device(struct sn_device *d, int number, const struct sn_device_options *how)
{
    d->number = number;
    (void)cudaDriverGetVersion(&d->driver); /* for people */
    if (sn_cuda_check(d, cudaSetDevice(number), "taking the device") != 0 ||
        sn_cuda_check(d, cudaGetDeviceProperties(&d->properties, number), "its properties") != 0)
        return -1;
    int rc = sn_cuda_open(&d->cuda, number);
    if (rc >= 10000)
        return sn_cuda_fail(d, "cuBLASLt does not begin (status %d); is it the driver's version?",
                            rc - 10000);
    if (sn_cuda_check(d, (cudaError_t)rc, "opening the device") != 0)
        return -1;
    if (takes_fp8(d, how->fp8) != 0)
        return -1;
    d->cuda.tf32 = how->tf32;
    d->cuda.tunes = how->tune;
    return make_streams(d) != 0 ? -1 : make_marks(d);
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

static void close_device(struct sn_device *d)
{
    const struct sn_cuda_channels *channels = sn_cuda_channels();
    if (channels)
        channels->leave(d);
    drop_events(d);
    for (int i = 0; i < d->n_clocks; i++)
        (void)cudaEventDestroy(d->clock[i]);
    (void)cudaFreeHost(d->clock);
    (void)cudaFreeHost((void *)(uintptr_t)d->marked);
    (void)cudaFree(d->numbers);
    sn_cuda_close(&d->cuda);
    for (int i = 0; i < SN_DEVICE_STREAMS; i++)
        if (d->stream[i])
            (void)cudaStreamDestroy(d->stream[i]);
}

static const char *refuses(const struct sn_device *d, enum sn_dtype storage)
{
    return sn_cuda_refuses(&d->cuda.device, storage);
}

static int make_events(struct sn_device *d, int n)
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

static int make_clocks(struct sn_device *d, int n)
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

static int choice(const struct sn_device *d, int i, char line[SN_DEVICE_CHOICE])
{
    return sn_cuda_plan_format(&d->cuda, i, line, SN_DEVICE_CHOICE);
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
    for (int t = 0; t < SN_NDTYPES; t++)
        out->peak[t] = per_clock(arch, (enum sn_dtype)t) * d->cuda.device.multiprocessors * clock;
}

/* --- memory ------------------------------------------------------------------------------------
 */

static int alloc(struct sn_device *d, size_t bytes, void **out)
{
    void *p = NULL;
    if (sn_cuda_check(d, cudaMalloc(&p, bytes ? bytes : 1), "memory of the device") != 0)
        return -1;
    *out = p;
    if (sn_cuda_check(d, cudaMemset(p, 0, bytes), "filling memory") != 0)
        return -1;
    return sn_cuda_check(d, cudaDeviceSynchronize(), "filling memory");
}

static void release(struct sn_device *d, void *p)
{
    (void)d;
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

/* --- enqueuing -----------------------------------------------------------------------------------
 */

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
    uint32_t n = number < SN_CUDA_MARKS ? number : SN_CUDA_MARKS - 1;
    return sn_cuda_check(d,
                         cudaMemcpyAsync((void *)(uintptr_t)d->marked, d->numbers + n, sizeof(n),
                                         cudaMemcpyDeviceToHost, d->stream[stream]),
                         "a mark");
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

/* --- graphs ------------------------------------------------------------------------------------
 */

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
    int rc = sn_cuda_check(d, cudaGraphInstantiateWithFlags(&ready, kept, 0), "making a graph");
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

/* --- the plugin ----------------------------------------------------------------------------------
 */

/* Products of 1024 rows and more fill a device, and their tiles have no rest; a block of 2 GiB
 * keeps the traffic of the head's gradient far below that of the logits themselves. */
static const struct sn_ops planned = {
    .name = "cuda",
    .scratch = sn_cuda_scratch,
    .head = {.bytes = (int64_t)2 << 30, .least = 1024, .multiple = 1024}};

#define DEVICE                                                                                     \
    .abi = SN_DEVICE_ABI, .maker = "cuda", .size = sizeof(struct sn_device), .ops = &planned,      \
    .count = count, .open = open_device, .close = close_device, .refuses = refuses,                \
    .make_events = make_events, .make_clocks = make_clocks, .stamp = stamp, .between = between,    \
    .choice = choice, .choose = choose, .describe = describe, .explain = explain, .alloc = alloc,  \
    .release = release, .pin = pin, .unpin = unpin, .copy = copy, .run = run, .record = record,    \
    .await = await, .mark = mark, .graph_begin = graph_begin, .graph_end = graph_end,              \
    .graph_launch = graph_launch, .graph_free = graph_free, .query = query, .marked = marked

sn_device_plugin_fn sn_device_plugin;

const struct sn_device_ops *sn_device_plugin(int abi, const struct sn_ops *cpu)
{
    static const struct sn_device_ops alone = {DEVICE, .abort = abort_nothing};
    static struct sn_device_ops joined = {DEVICE};
    const struct sn_cuda_channels *channels = sn_cuda_channels();
    (void)cpu; /* tests compare; a run does not */
    if (abi != SN_DEVICE_ABI)
        return NULL;
    if (!channels)
        return &alone;
    joined.channel_id = channels->channel_id;
    joined.join = channels->join;
    joined.transfer = channels->transfer;
    joined.look = channels->look;
    joined.abort = channels->abort;
    return &joined;
}
