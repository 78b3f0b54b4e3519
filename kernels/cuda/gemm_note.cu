/*
 * gemm_note.cu - what is slower than it might be, as sentences for a run's log: shapes of GEMM, and
 * attention without cuDNN.
 */
#include "kernels/cuda/attention_cudnn.cuh"
#include "kernels/cuda/gemm_inner.cuh"

#include <stdio.h>

/* Once for each shape: products of our own are several times as slow, and an epilogue that is a
 * kernel of its own is a pass more over memory. */
void sn_gemm_remember(struct sn_cuda *cx, const struct sn_args *a, bool is_refused)
{
    const struct sn_mat *c = &a->out[SN_GEMM_C];
    struct sn_cuda_own x = {c->rows,
                            c->cols,
                            a->attr.gemm.trans_a ? a->in[SN_GEMM_A].rows : a->in[SN_GEMM_A].cols,
                            a->in[SN_GEMM_A].dtype,
                            c->dtype,
                            a->attr.gemm.epilogue,
                            is_refused,
                            0};
    for (int i = 0; i < cx->n_own; i++) {
        const struct sn_cuda_own *o = &cx->own[i];
        if (o->m == x.m && o->n == x.n && o->k == x.k && o->dtype == x.dtype &&
            o->result == x.result && o->epilogue == x.epilogue && o->is_refused == is_refused)
            return;
    }
    if (x.k > 0 && cx->n_own < SN_CUDA_OWN) /* an empty depth costs nothing */
        cx->own[cx->n_own++] = x;
}

int sn_cuda_gemm_note(const struct sn_cuda *cx, int i, char *line, size_t room)
{
    if (i < 0 || i >= cx->n_own)
        return 1;
    static const char *const epilogue[] = {"", "activation", "activation's gradient",
                                           "sum of columns"};
    const struct sn_cuda_own *o = &cx->own[i];
    if (o->attention)
        (void)snprintf(line, room, "%s", cx->sdpa->note[o->attention - 1]);
    else if (o->epilogue)
        (void)snprintf(
            line, room,
            "the %s of a product of %lld x %lld, %lld deep, of %s to %s is a kernel of its "
            "own, because cuBLASLt refuses both in one; that is slower",
            epilogue[o->epilogue], (long long)o->m, (long long)o->n, (long long)o->k,
            sn_dtype_name(o->dtype), sn_dtype_name(o->result));
    else
        (void)snprintf(
            line, room,
            "a product of %lld x %lld, %lld deep, of %s to %s is computed without cuBLASLt, which "
            "%s; that is slower",
            (long long)o->m, (long long)o->n, (long long)o->k, sn_dtype_name(o->dtype),
            sn_dtype_name(o->result),
            o->is_refused ? "refuses this shape" : "has none with such operands");
    return 0;
}
