/*
 * table.cu - the operations table, scratch, and what a device can do.
 */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_cudnn.cuh"
#include "kernels/cuda/codec.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/ops.cuh"
#include "kernels/cuda/tally.h"

#include <cuda_runtime.h>
#include <string.h>

struct entry {
    const char *name;
    sn_cuda_run *run;
};

#define OP(KIND, name) {#name, sn_cuda_##name},
static const struct entry entries[SN_NKERNELS] = {SN_OP_KINDS(OP)};
#undef OP

const char *sn_cuda_op_name(enum sn_op_kind kind)
{
    return (int)kind >= 0 && kind < SN_NKERNELS ? entries[kind].name : "no operation";
}

SN_CUDA_OP(orthogonalise)
{
    (void)a;
    cx->fault.what =
        "it has no CUDA kernel yet; use run.backend: cpu, or a codec in place of powersgd";
    return 1;
}

int sn_cuda_run_op(struct sn_cuda *cx, enum sn_op_kind kind, const struct sn_args *a)
{
    cx->fault.op = NULL;
    cx->fault.what = NULL;
    cx->fault.code = 0;
    int rc = entries[kind].run(cx, a);
    if (rc == 0)
        return 0;
    cx->fault.op = entries[kind].name;
    if (!cx->fault.what)
        cx->fault.what = "it failed";
    return rc;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Room for the sums of a norm's gradients, where they are asked for. */
static size_t norm_dx_scratch(const struct sn_args *a, int outputs)
{
    bool sums = a->out[SN_NORM_DX_DW].cols > 0 || a->out[SN_NORM_DX_DB].cols > 0;
    return sums ? sn_norm_scratch(a->in[SN_NORM_DX_X].rows, a->in[SN_NORM_DX_X].cols,
                                  a->in[SN_NORM_DX_X].dtype, outputs)
                : 0;
}

#define CASE(KIND, name) case SN_OP_##KIND:

/* Sums in any order are added to their outputs by atomics and need no room for parts. */
size_t sn_cuda_scratch(enum sn_op_kind kind, const struct sn_args *a, int threads)
{
    (void)threads;
    bool at_once = a->attr.any_order;
    switch (kind) {
    case SN_OP_EMBED_GRAD:
        return at_once
                   ? 0
                   : sn_embed_scratch(a->in[SN_EMBED_GRAD_DY].rows, a->in[SN_EMBED_GRAD_DY].cols,
                                      a->out[SN_EMBED_GRAD_DW].rows);
    case SN_OP_COLSUM:
        return at_once ? 0 : sn_sum_scratch(a->in[SN_COLSUM_DY].rows, a->in[SN_COLSUM_DY].cols, 1);
    case SN_OP_LAYERNORM_DX:
        return at_once ? 0 : norm_dx_scratch(a, 2);
    case SN_OP_RMSNORM_DX:
        return at_once ? 0 : norm_dx_scratch(a, 1);
    case SN_OP_LAYERNORM_DW:
        return at_once ? 0 : sn_sum_scratch(a->in[SN_NORM_DW_X].rows, a->in[SN_NORM_DW_X].cols, 2);
    case SN_OP_RMSNORM_DW:
        return at_once ? 0 : sn_sum_scratch(a->in[SN_NORM_DW_X].rows, a->in[SN_NORM_DW_X].cols, 1);
    case SN_OP_HEAD_NORM_DX:
    case SN_OP_HEAD_NORM_DW:
        return at_once ? 0
                       : sn_sum_scratch(a->in[SN_NORM_DW_X].rows * a->attr.attention.heads,
                                        2 * (int64_t)a->attr.attention.head_dim, 1);
    case SN_OP_ROPE:
        return (size_t)(sn_rope_entries(a->attr.position.seq) * a->attr.attention.rotary_dim) *
               sizeof(double);
    case SN_OP_ROUTE:
        return sn_route_scratch(a);
    case SN_OP_MOE_PERMUTE:
        return sn_place_scratch(a);
    case SN_OP_ROUTE_LOSS:
        return (size_t)SN_ROUTE_BLOCKS * 2 * sizeof(double);
    case SN_OP_SQ_NORM:
        return (size_t)sn_ceil_div(a->in[SN_SQ_NORM_G].cols, SN_SQUARES_PIECE) * 2 * sizeof(double);
        SN_UPDATE_KINDS(CASE)
        return SN_UPDATE_SCRATCH;
    case SN_OP_GEMM:
        return sn_gemm_room(a);
    case SN_OP_ATTENTION:
        return sn_attn_cudnn_scratch(a, false);
    case SN_OP_ATTENTION_DX:
        return larger(sn_attention_dx_scratch(a), sn_attn_cudnn_scratch(a, true));
    case SN_OP_ENCODE:
    case SN_OP_DECODE:
        return sn_codec_scratch(&a->attr);
    default:
        return 0;
    }
}

int sn_cuda_open(struct sn_cuda *cx, int ordinal)
{
    memset(cx, 0, sizeof(*cx));
    int rc = (int)cudaSetDevice(ordinal);
    rc = rc ? rc : sn_cuda_device_of(ordinal, &cx->device);
    if (rc == 0) {
        cublasStatus_t st = cublasLtCreate(&cx->blas);
        rc = st == CUBLAS_STATUS_SUCCESS ? 0 : 10000 + (int)st;
    }
    return rc;
}

void sn_cuda_close(struct sn_cuda *cx)
{
    if (cx->blas)
        (void)cublasLtDestroy(cx->blas); /* nothing is left to be done about it */
    cx->blas = NULL;
    sn_sdpa_close(cx->sdpa);
    cx->sdpa = NULL;
}

int sn_cuda_device_of(int ordinal, struct sn_cuda_device *out)
{
    int major = 0, minor = 0, shared = 0, processors = 0, l2 = 0;
    cudaError_t e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, ordinal);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, ordinal);
    if (e != cudaSuccess)
        return (int)e;
    out->arch = 10 * major + minor;
    out->multiprocessors = processors;
    out->shared_per_block = (size_t)shared;
    out->l2_bytes = (size_t)l2;
    return 0;
}

const char *sn_cuda_refuses(const struct sn_cuda_device *d, enum sn_dtype storage)
{
    if (d->arch < 70)
        return "devices before sm_70 (Volta) are not supported";
    if (storage == SN_BF16 && d->arch < 80)
        return "bf16 needs sm_80 or later; use fp16 on this device";
    return NULL;
}
