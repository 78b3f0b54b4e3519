/*
 * cuda.h - what the CUDA kernels need of a device, and the table of operations that they fill.
 *
 * The kernels are held to kernels/ops.h: same operands, same attributes, but every pointer of a
 * struct sn_args (operands, scalars, scratch) is device memory. An operation is a few launches on
 * cx->stream; it allocates nothing, waits for nothing and reads nothing back, so it can be captured
 * in a graph, except that the first GEMM of each shape asks cuBLASLt for a plan (host work only;
 * run a step once before capturing). Errors of launching are returned at once; what goes wrong on
 * the device later surfaces at the caller's next synchronisation.
 *
 * Scratch is a buffer of the program: sn_cuda_scratch() knows its bytes from shapes alone, without
 * a device, so a login node plans what a compute node runs. cuBLASLt's workspace is in it too.
 *
 * Deterministic: no float atomics, one order in every sum, whatever the device; except where
 * attr.any_order is set.
 */
#ifndef SN_CUDA_H
#define SN_CUDA_H

#include "kernels/ops.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Filled by sn_cuda_device_of(); tests fill it by hand. */
struct sn_cuda_device {
    int arch; /* 70, 75, 80, 90, 100, ... */
    int multiprocessors;
    size_t shared_per_block; /* what a block may ask for at most (opt-in) */
    size_t l2_bytes;         /* 0: not known; then a small device's are taken (attention.h) */
};

enum { SN_CUDA_PLANS = 512 }; /* shapes of GEMM whose plan is kept; beyond, plans are made anew */

/* How cuBLASLt computes one shape on one device (gemm.cu). Plain data: measured ones may be kept in
 * a file and given back, for the same version of the library. */
struct sn_cuda_plan {
    uint64_t key[5];
    bool is_apart; /* the epilogue is a kernel of its own; no algorithm */
    cublasLtMatmulAlgo_t algo;
};

struct sn_cuda_plans {
    int n;
    struct sn_cuda_plan plan[SN_CUDA_PLANS];
};

enum { SN_CUDA_OWN = 32 }; /* shapes of GEMM without cuBLASLt, and the like, that are remembered */

/* A shape that our own product computed: C[m,n] of depth k. */
struct sn_cuda_own {
    int64_t m, n, k;
    enum sn_dtype dtype, result;
    enum sn_epilogue epilogue; /* which alone our own kernel computed, not the product */
    bool is_refused;           /* by the library, which else has no such product */
    int attention; /* not 0: no product, but why attention is without cuDNN: sdpa.h's note, + 1 */
};

/* What an operation that failed leaves behind. */
struct sn_cuda_fault {
    const char *op;   /* "attention_dx" */
    const char *what; /* of the library or the driver: "invalid configuration argument" */
    int code;         /* its number */
};

struct sn_sdpa;

/* One per device and host thread that launches; some 70 KiB. */
struct sn_cuda {
    struct sn_cuda_device device;
    cudaStream_t stream; /* may be changed between operations */
    cublasLtHandle_t blas;
    struct sn_sdpa *sdpa; /* cuDNN, for attention (sdpa.h); set by who wants it, closed here */
    bool tf32;            /* GEMMs of fp32 operands round them to TF32 (sm_80 and later) */
    bool tunes; /* time algorithms when a shape first comes, as sn_cuda_gemm_measure() does */
    struct sn_cuda_fault fault;
    struct sn_cuda_plans plans;
    int n_own;
    struct sn_cuda_own own[SN_CUDA_OWN];
};

typedef int sn_cuda_run(struct sn_cuda *cx, const struct sn_args *a);

/* Run one operation; 0, or non-zero with cx->fault set. */
int sn_cuda_run_op(struct sn_cuda *cx, enum sn_op_kind kind, const struct sn_args *a);
const char *sn_cuda_op_name(enum sn_op_kind kind); /* "attention_dx" */

/* Write a number to page-locked memory of the host, on cx->stream, in order with operations; 0, or
 * non-zero with cx->fault set. */
int sn_cuda_mark(struct sn_cuda *cx, volatile uint32_t *to, uint32_t number);

/* Bytes of scratch, as struct sn_ops has it; `threads` is not used. The same for every device. */
size_t sn_cuda_scratch(enum sn_op_kind kind, const struct sn_args *a, int threads);

/* Fill *cx for a device, which becomes the thread's current one: its properties and a handle of
 * cuBLASLt; options off, stream 0. A cudaError_t, or 10000 + a cublasStatus_t; close takes a zeroed
 * one too. */
int sn_cuda_open(struct sn_cuda *cx, int ordinal);
void sn_cuda_close(struct sn_cuda *cx);

/*
 * Time up to `most` (16 at most) of cuBLASLt's algorithms for a GEMM, three runs each on the
 * operands given, whose result is lost; keep the fastest as its plan, and its milliseconds in *ms.
 * Waits for the stream: for calibration, never in a step.
 */
int sn_cuda_gemm_measure(struct sn_cuda *cx, const struct sn_args *a, int most, float *ms);

/*
 * The i-th plan as a line of text, and back: version of the library, kind of device, key,
 * algorithm. format: 0, or 1 when there are no more. parse: 0: it is a plan now; 1: of another
 * version or device; -1: no such line. One that the library then refuses fails where it is used.
 */
int sn_cuda_plan_format(const struct sn_cuda *cx, int i, char *line, size_t room);
int sn_cuda_plan_parse(struct sn_cuda *cx, const char *line);

/* Enqueue a warpgroup product with a known result (prove.h) on sm_90; `out` is fp32 on the device,
 * rows of SN_PROVE_COLS, and left as it was where the build has no code for sm_90a. 0, or cx->fault
 * is set. */
int sn_cuda_prove_warpgroup(struct sn_cuda *cx, float *out);

/* The i-th shape of GEMM that our own product computed, or whose epilogue our own kernel did
 * because cuBLASLt refused it, or reason why attention was computed without cuDNN although it
 * might, as a sentence. 0, or 1 when there are no more. */
int sn_cuda_gemm_note(const struct sn_cuda *cx, int i, char *line, size_t room);

/* The properties of a device; a cudaError_t. */
int sn_cuda_device_of(int ordinal, struct sn_cuda_device *out);

/* May operations of this program type run on the device? NULL, or what is missing: "bf16 needs
 * sm_80; this device is sm_70: use fp16". */
const char *sn_cuda_refuses(const struct sn_cuda_device *d, enum sn_dtype storage);

#ifdef __cplusplus
}
#endif
#endif
