/*
 * fake_cudart.c - the calls of CUDA that kernels/cuda/plugin.c makes, on host memory and at once,
 * and the CPU's kernels in place of CUDA's: the plugin itself, tested where there is no GPU.
 *
 * Streams do things in the order of the calls, so this shows nothing about dependencies, which
 * tests/lib/fake_device.c does. It shows that the plugin asks for the right things: directions of
 * copies, memory of its own, what a graph keeps and does again, errors and their sentences.
 * FAKE_CUDA="driver=12020 devices=0 rc=35 fail_at=100 copies_out=0 no_pin=1" sets what is found and
 * what goes wrong; copies_out: graphs with more copies to the host are refused.
 */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/prove.h"
#include "kernels/cuda/sdpa.h"
#include "kernels/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 4096, NODES = 1 << 16 };

enum node_kind { COPY, RUN, MARK };

struct node {
    enum node_kind kind;
    void *to;
    const void *from;
    size_t bytes;
    enum cudaMemcpyKind way;
    enum sn_op_kind op;
    struct sn_args args;
    volatile uint32_t *mark;
    uint32_t number;
};

struct graph {
    int n;
    struct node *node;
};

static struct {
    char *p;
    size_t bytes;
} block[BLOCKS];
static struct graph *capture;
static long kernels;
static cudaError_t sticky;
static const struct sn_ops *cpu_ops;

/* plugin.c is compiled with its entry renamed to real_plugin: the CPU's kernels come by ours. */
sn_device_plugin_fn real_plugin, sn_device_plugin;

const struct sn_device_ops *sn_device_plugin(int abi, const struct sn_ops *cpu)
{
    cpu_ops = cpu;
    return real_plugin(abi, cpu);
}

static long habit(const char *name, long otherwise)
{
    const char *text = getenv("FAKE_CUDA");
    const char *at = text ? strstr(text, name) : NULL;
    return at ? strtol(at + strlen(name) + 1, NULL, 10) : otherwise;
}

static int is_here(const void *p, size_t bytes)
{
    for (int i = 0; i < BLOCKS; i++)
        if (block[i].p && (const char *)p >= block[i].p &&
            (const char *)p + bytes <= block[i].p + block[i].bytes)
            return 1;
    return 0;
}

/* --- memory ---------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    for (int i = 0; i < BLOCKS; i++)
        if (!block[i].p) {
            block[i].bytes = bytes;
            block[i].p = aligned_alloc(256, (bytes + 255) / 256 * 256);
            memset(block[i].p, 0xff, bytes); /* not zero, as there */
            *p = block[i].p;
            return cudaSuccess;
        }
    return cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *p)
{
    for (int i = 0; i < BLOCKS && p; i++)
        if (block[i].p == p) {
            free(p);
            block[i].p = NULL;
            return cudaSuccess;
        }
    return p ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    if (!is_here(p, bytes))
        return cudaErrorInvalidValue;
    memset(p, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    *p = calloc(1, bytes);
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *p)
{
    free(p);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    (void)flags;
    if (habit("no_pin", 0))
        return cudaErrorNotSupported;
    return is_here(p, bytes) ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    (void)p;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *bytes)
{
    *free_bytes = *bytes = (size_t)1 << 30;
    return cudaSuccess;
}

/* --- doing ----------------------------------------------------------------------------------- */

static cudaError_t move(const struct node *n)
{
    if (is_here(n->to, n->bytes) != (n->way != cudaMemcpyDeviceToHost) ||
        is_here(n->from, n->bytes) != (n->way != cudaMemcpyHostToDevice))
        return cudaErrorInvalidMemcpyDirection;
    memcpy(n->to, n->from, n->bytes);
    return cudaSuccess;
}

static cudaError_t carry_out(const struct node *n)
{
    if (n->kind == COPY)
        return move(n);
    if (n->kind == MARK) {
        if (is_here((const void *)(uintptr_t)n->mark, sizeof(n->number)))
            return cudaErrorIllegalAddress; /* the host could not read it */
        *n->mark = n->number;
        return cudaSuccess;
    }
    if (++kernels == habit("fail_at", 0))
        sticky = cudaErrorIllegalAddress;
    return cpu_ops->run[n->op](&n->args, 1) == 0 ? cudaSuccess : cudaErrorUnknown;
}

static cudaError_t enqueue(const struct node *n)
{
    if (sticky != cudaSuccess)
        return sticky;
    if (!capture)
        return carry_out(n);
    if (capture->n == NODES)
        return cudaErrorMemoryAllocation;
    capture->node[capture->n++] = *n;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind way,
                            cudaStream_t stream)
{
    (void)stream;
    return enqueue(
        &(struct node){.kind = COPY, .to = to, .from = from, .bytes = bytes, .way = way});
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    return cudaMemset(p, value, bytes);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind way)
{
    return move(&(struct node){.kind = COPY, .to = to, .from = from, .bytes = bytes, .way = way});
}

/* --- streams, events, graphs ----------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority)
{
    (void)flags, (void)priority;
    *s = calloc(1, 8);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    free(s);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    (void)s;
    return sticky;
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    (void)s;
    if (habit("hangs", 0))
        return cudaErrorNotReady;
    return capture ? cudaErrorStreamCaptureUnsupported : sticky;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    (void)flags;
    return s && e ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    (void)flags;
    *e = calloc(1, 8);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    return cudaEventCreateWithFlags(e, 0);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    const double *from = (const void *)a, *to = (const void *)b;
    *ms = (float)(1e3 * (*to - *from));
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    free(e);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    struct timespec now;
    if (!s || !e)
        return cudaErrorInvalidResourceHandle;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    *(double *)(void *)e = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    (void)s, (void)mode;
    if (capture)
        return cudaErrorIllegalState;
    capture = calloc(1, sizeof(*capture));
    capture->node = malloc(NODES * sizeof(*capture->node));
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph)
{
    (void)s;
    long out = 0;
    if (!capture)
        return cudaErrorIllegalState;
    for (int i = 0; i < capture->n; i++)
        out += capture->node[i].kind == COPY && capture->node[i].way == cudaMemcpyDeviceToHost;
    if (out > habit("copies_out", NODES))
        return cudaErrorStreamCaptureUnsupported;
    *graph = (cudaGraph_t)(void *)capture;
    capture = NULL;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *ready, cudaGraph_t graph,
                                          unsigned long long flags)
{
    const struct graph *from = (const void *)graph;
    if (!(flags & cudaGraphInstantiateFlagUseNodePriority)) /* communication would come last */
        return cudaErrorInvalidValue;
    struct graph *g = calloc(1, sizeof(*g));
    g->n = from->n;
    g->node = malloc(((size_t)g->n + 1) * sizeof(*g->node));
    memcpy(g->node, from->node, (size_t)g->n * sizeof(*g->node));
    *ready = (cudaGraphExec_t)(void *)g;
    return cudaSuccess;
}

static void free_graph(struct graph *g)
{
    free(g->node);
    free(g);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    free_graph((void *)graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    free_graph((void *)graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t s)
{
    const struct graph *g = (const void *)graph;
    (void)s;
    if (capture)
        return cudaErrorStreamCaptureUnsupported;
    for (int i = 0; i < g->n && sticky == cudaSuccess; i++) {
        cudaError_t rc = carry_out(&g->node[i]);
        if (rc != cudaSuccess)
            return rc;
    }
    return cudaSuccess;
}

/* --- devices --------------------------------------------------------------------------------- */

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = (int)habit("driver", CUDART_VERSION);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = (int)habit("devices", 1);
    return (cudaError_t)habit("rc", *n ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t rc)
{
    return rc == cudaErrorIllegalAddress     ? "an illegal memory access was encountered"
           : rc == cudaErrorMemoryAllocation ? "out of memory"
                                             : "an error";
}

cudaError_t cudaSetDevice(int number)
{
    return number == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceSynchronize(void)
{
    return sticky;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int number)
{
    (void)attribute, (void)number;
    *value = 1000000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int number)
{
    (void)number;
    memset(p, 0, sizeof(*p));
    (void)snprintf(p->name, sizeof(p->name), "a fake GPU");
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (habit("apart", 0) && rank) /* each rank has one of its own */
        p->uuid.bytes[0] = (char)(1 + strtol(rank, NULL, 10));
    return cudaSuccess;
}

/* --- kernels --------------------------------------------------------------------------------- */

int sn_cuda_open(struct sn_cuda *cx, int ordinal)
{
    cublasStatus_t status = cublasLtCreate(&cx->blas); /* of a stand-in: fake_blaslt.c */
    (void)sn_cuda_device_of(ordinal, &cx->device);
    return status == CUBLAS_STATUS_SUCCESS ? 0 : 10000 + (int)status;
}

void sn_cuda_close(struct sn_cuda *cx)
{
    if (cx->blas)
        (void)cublasLtDestroy(cx->blas);
    sn_sdpa_close(cx->sdpa);
}

int sn_cuda_device_of(int ordinal, struct sn_cuda_device *out)
{
    (void)ordinal;
    *out = (struct sn_cuda_device){(int)habit("arch", 90), 4, 1 << 16, 0};
    return 0;
}

const char *sn_cuda_refuses(const struct sn_cuda_device *d, enum sn_dtype storage)
{
    (void)d, (void)storage;
    return NULL;
}

size_t sn_cuda_scratch(enum sn_op_kind kind, const struct sn_args *a, int threads)
{
    return cpu_ops->scratch(kind, a, threads);
}

static int launched(struct sn_cuda *cx, const struct node *n)
{
    cudaError_t rc = habit("image", 1) ? cudaSuccess : cudaErrorNoKernelImageForDevice;
    if (rc == cudaSuccess)
        rc = enqueue(n);
    if (rc == cudaSuccess)
        return 0;
    cx->fault.op = "an operation";
    cx->fault.what = cudaGetErrorString(rc);
    cx->fault.code = (int)rc;
    return (int)rc;
}

int sn_cuda_run_op(struct sn_cuda *cx, enum sn_op_kind kind, const struct sn_args *a)
{
    int rc = launched(cx, &(struct node){.kind = RUN, .op = kind, .args = *a});
    if (rc == 0 && (long)kind == habit("spoils", -1))
        *(uint16_t *)a->out[0].p ^= 0x80; /* one bit of one element */
    if (kind == SN_OP_GEMM && habit("algorithms", 1) && cx->plans.n == 0)
        cx->plans.n = 1;
    return rc;
}

int sn_cuda_mark(struct sn_cuda *cx, volatile uint32_t *to, uint32_t number)
{
    return launched(cx, &(struct node){.kind = MARK, .mark = to, .number = number});
}

/* FAKE_CUDA="warpgroup=0": an empty kernel, 2: wrong. */
int sn_cuda_prove_warpgroup(struct sn_cuda *cx, float *out)
{
    long way = habit("warpgroup", 1);
    (void)cx;
    for (int i = 0; way && i < SN_PROVE_ROWS * SN_PROVE_COLS; i++) {
        out[i] = way == 2;
        for (int k = 0; k < SN_PROVE_DEPTH; k++)
            out[i] += (float)(sn_prove_a(i / SN_PROVE_COLS, k) * sn_prove_b(k, i % SN_PROVE_COLS));
    }
    return 0;
}

/* --- choices --------------------------------------------------------------------------------- */

int sn_cuda_plan_format(const struct sn_cuda *cx, int i, char *line, size_t room)
{
    (void)cx;
    (void)snprintf(line, room, "fake choice %d", i);
    return i < 2 && cx->tunes ? 0 : 1;
}

int sn_cuda_gemm_note(const struct sn_cuda *cx, int i, char *line, size_t room)
{
    (void)cx;
    (void)snprintf(line, room, "fake note %d", i);
    return i < 2 ? 0 : 1;
}

int sn_cuda_plan_parse(struct sn_cuda *cx, const char *line)
{
    (void)cx;
    return strncmp(line, "fake", 4) == 0 ? 0 : strncmp(line, "cublasLt ", 9) == 0 ? 1 : -1;
}
