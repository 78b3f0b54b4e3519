/*
 * attention_cudnn.cu - ATTENTION and ATTENTION_DX by cuDNN (sdpa.h), and what is said where not.
 */
#include "kernels/cuda/attention_cudnn.cuh"
#include "kernels/cuda/device.cuh"

#include <stdio.h>

size_t sn_attn_cudnn_scratch(const struct sn_args *a, bool is_backward)
{
    if (a->attr.attention.library == SN_LIBRARY_NEVER || sn_sdpa_refuses(a, is_backward, 0))
        return 0;
    struct sn_sdpa_shape s = sn_sdpa_shape_of(a, is_backward);
    return sn_sdpa_bound(&s);
}

/* lse of rows x heads as [samples, heads, S]: cuDNN before 9.26 reads no other. */
static __global__ void __launch_bounds__(SN_BLOCK)
    pack(const struct sn_mat lse, int64_t heads, int64_t seq, float *to)
{
    int64_t all = lse.rows * heads, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
        int64_t position = i % seq, head = i / seq % heads, sample = i / seq / heads;
        to[i] = sn_element(lse, sample * seq + position, head);
    }
}

/* The begin of scratch (sdpa.h), and its parts in turn. */
static char *begin_of(const struct sn_args *a)
{
    uintptr_t at = (uintptr_t)a->scratch;
    return (char *)a->scratch + (SN_SDPA_PIECE - at % SN_SDPA_PIECE) % SN_SDPA_PIECE;
}

static void *part_of(char **at, size_t bytes)
{
    void *part = *at;
    *at += (bytes + SN_SDPA_PIECE - 1) / SN_SDPA_PIECE * SN_SDPA_PIECE;
    return part;
}

static int backward(struct sn_cuda *cx, const struct sn_args *a, struct sn_sdpa_plan *p)
{
    int64_t heads = a->attr.attention.heads, n = a->in[SN_ATTENTION_DX_Q].rows * heads;
    char *at = begin_of(a);
    void *operand[SN_SDPA_NOPERANDS] = {a->in[SN_ATTENTION_DX_Q].p, a->in[SN_ATTENTION_DX_K].p,
                                        a->in[SN_ATTENTION_DX_V].p, a->in[SN_ATTENTION_DX_O].p};
    operand[SN_SDPA_LSE] = part_of(&at, (size_t)n * sizeof(float));
    operand[SN_SDPA_DY] = a->in[SN_ATTENTION_DX_DO].p;
    for (int o = 0; o < 3; o++)
        operand[SN_SDPA_DQ + o] = a->out[o].p;
    operand[SN_SDPA_DELTA] = part_of(&at, (size_t)n * sizeof(float));
    if (!p->shape.in_order)
        operand[SN_SDPA_SUMS] =
            part_of(&at, (size_t)(n * a->attr.attention.head_dim) * sizeof(float));
    int rc = sn_launch(cx, pack, sn_shape_line(n), a->in[SN_ATTENTION_DX_LSE], heads,
                       a->attr.position.seq, (float *)operand[SN_SDPA_LSE]);
    return rc ? rc : sn_sdpa_run(cx->sdpa, p, (void *)cx->stream, operand, at);
}

static int forward(struct sn_cuda *cx, const struct sn_args *a, struct sn_sdpa_plan *p)
{
    void *operand[SN_SDPA_NOPERANDS] = {a->in[SN_ATTENTION_Q].p, a->in[SN_ATTENTION_K].p,
                                        a->in[SN_ATTENTION_V].p, a->out[SN_ATTENTION_O].p,
                                        a->out[SN_ATTENTION_LSE].p};
    return sn_sdpa_run(cx->sdpa, p, (void *)cx->stream, operand, begin_of(a));
}

/* The run asks for cuDNN and nothing else: a failure. Else a note, and our own kernels. */
static bool without(struct sn_cuda *cx, const struct sn_args *a, bool is_backward, const char *why,
                    int *rc)
{
    struct sn_sdpa *s = cx->sdpa;
    if (a->attr.attention.library != SN_LIBRARY_MUST) {
        int number = sn_sdpa_remember(s, is_backward, why);
        if (number > 0 && cx->n_own < SN_CUDA_OWN) {
            struct sn_cuda_own o = {};
            o.attention = number;
            cx->own[cx->n_own++] = o;
        }
        return false;
    }
    (void)snprintf(s->why, sizeof(s->why),
                   "cuDNN cannot compute it: %.230s; set run.attention: auto or own", why);
    cx->fault.what = s->why;
    *rc = cx->fault.code = 1;
    return true;
}

bool sn_attn_cudnn(struct sn_cuda *cx, const struct sn_args *a, bool is_backward, int *rc)
{
    *rc = 0;
    if (a->attr.attention.library == SN_LIBRARY_NEVER || !cx->sdpa)
        return false;
    const char *why = sn_sdpa_refuses(a, is_backward, cx->device.arch);
    if (why)
        return without(cx, a, is_backward, why, rc);
    struct sn_sdpa_shape shape = sn_sdpa_shape_of(a, is_backward);
    struct sn_sdpa_plan *p = sn_sdpa_find(cx->sdpa, &shape, &why);
    if (!p)
        return without(cx, a, is_backward, why, rc);
    *rc = is_backward ? backward(cx, a, p) : forward(cx, a, p);
    if (*rc != 0 && !cx->fault.what) {
        cx->fault.what = p->set.why;
        cx->fault.code = *rc;
    }
    return true;
}
