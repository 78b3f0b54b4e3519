/*
 * by_pointer.c - operations of the plugin by name, on memory that the caller has: what
 * tests/gpu/torch_compare.py loads, so that PyTorch and we work on the same tensors.
 *
 * Linked with the plugin on a GPU, and with the emulated kernels on a host (tests/cuda_emul), where
 * the same comparison runs on small shapes.
 */
#include "kernels/cuda/cuda.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As torch_compare.py lays it out. */
struct by_pointer_call {
    const char *op;    /* "attention_dx" */
    const char *attrs; /* "heads=8 seq=1024 scale=0.125" */
    struct sn_mat in[SN_MAX_IN], out[SN_MAX_OUT];
    void *scalars, *scratch;
};

static const struct name {
    const char *name;
    size_t at;
    char kind; /* b: bool, i: int32_t or an enum, l: int64_t, f: float */
} names[] = {
#define MEMBER(member, kind)                                                                       \
    {                                                                                              \
#member, offsetof(struct sn_attr, member), kind                                            \
    }
    MEMBER(gemm.trans_a, 'b'),       MEMBER(gemm.trans_b, 'b'),
    MEMBER(gemm.fp8, 'i'),           MEMBER(act, 'i'),
    MEMBER(attention.heads, 'i'),    MEMBER(attention.kv_heads, 'i'),
    MEMBER(attention.head_dim, 'i'), MEMBER(position.seq, 'l'),
    MEMBER(attention.scale, 'f'),    MEMBER(attention.rotary_dim, 'i'),
    MEMBER(attention.theta, 'f'),    MEMBER(eps, 'f'),
    MEMBER(optimizer.eps, 'f'),      MEMBER(optimizer.beta1, 'f'),
    MEMBER(optimizer.beta2, 'f'),    MEMBER(any_order, 'b'),
    MEMBER(optimizer.decay, 'f'),    MEMBER(optimizer.momentum, 'f'),
#undef MEMBER
};

/* A member by its own name, in whichever families have one: norms and optimizers an eps. */
static int set(struct sn_attr *a, const char *name, size_t length, double value)
{
    int rc = -1;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *to = (char *)a + names[i].at;
        const char *dot = strrchr(names[i].name, '.'), *own = dot ? dot + 1 : names[i].name;
        if (strlen(own) != length || strncmp(own, name, length) != 0)
            continue;
        if (names[i].kind == 'b')
            *(bool *)to = value != 0;
        else if (names[i].kind == 'i')
            *(int32_t *)to = (int32_t)value;
        else if (names[i].kind == 'l')
            *(int64_t *)to = (int64_t)value;
        else
            *(float *)to = (float)value;
        rc = 0;
    }
    return rc;
}

/* The kind of operation; SN_NKERNELS: there is none of that name, or an attribute is unknown. */
static enum sn_op_kind args_of(const struct by_pointer_call *c, struct sn_args *a)
{
    int kind = 0;
    memset(a, 0, sizeof(*a));
    for (const char *at = c->attrs; *at;) {
        size_t length = strcspn(at, "=");
        char *end;
        double value = at[length] ? strtod(at + length + 1, &end) : 0;
        if (!at[length])
            return SN_NKERNELS;
        if (length == 3 && strncmp(at, "add", 3) == 0)
            a->acc[0] = SN_ADD;
        else if (set(&a->attr, at, length, value) != 0)
            return SN_NKERNELS;
        at = end + strspn(end, " ");
    }
    memcpy(a->in, c->in, sizeof(a->in));
    memcpy(a->out, c->out, sizeof(a->out));
    a->scalars = c->scalars;
    a->scratch = c->scratch;
    while (kind < SN_NKERNELS && strcmp(sn_cuda_op_name((enum sn_op_kind)kind), c->op) != 0)
        kind++;
    return (enum sn_op_kind)kind;
}

/* --- what is exported ------------------------------------------------------------------------- */

size_t by_pointer_call_size(void);
size_t by_pointer_scalars(void *to, size_t room, double tokens);
void *by_pointer_open(int device);
void by_pointer_close(struct sn_cuda *cx);
int by_pointer_arch(const struct sn_cuda *cx);
long by_pointer_scratch(const struct by_pointer_call *c);
int by_pointer_run(struct sn_cuda *cx, const struct by_pointer_call *c, void *stream);
const char *by_pointer_why(const struct sn_cuda *cx);

size_t by_pointer_call_size(void)
{
    return sizeof(struct by_pointer_call);
}

/* The bytes of scalars in a first step of so many tokens; returns how many. */
size_t by_pointer_scalars(void *to, size_t room, double tokens)
{
    struct sn_scalars s;
    memset(&s, 0, sizeof(s));
    s.step = s.adam_count = 1;
    s.ok = 1;
    s.lr = 1e-3f;
    s.grad_scale = s.loss_scale = 1;
    s.tokens_in_step = s.targets_in_step = tokens;
    if (room >= sizeof(s))
        memcpy(to, &s, sizeof(s));
    return sizeof(s);
}

/* NULL: the device does not open. */
void *by_pointer_open(int device)
{
    struct sn_cuda *cx = calloc(1, sizeof(*cx));
    if (cx && sn_cuda_open(cx, device) != 0) {
        free(cx);
        return NULL;
    }
    return cx;
}

void by_pointer_close(struct sn_cuda *cx)
{
    sn_cuda_close(cx);
    free(cx);
}

int by_pointer_arch(const struct sn_cuda *cx)
{
    return cx->device.arch;
}

/* Bytes; -1: it is no operation. */
long by_pointer_scratch(const struct by_pointer_call *c)
{
    struct sn_args a;
    enum sn_op_kind kind = args_of(c, &a);
    return kind == SN_NKERNELS ? -1 : (long)sn_cuda_scratch(kind, &a, 1);
}

/* Enqueues it; 0, or by_pointer_why() says what went wrong. */
int by_pointer_run(struct sn_cuda *cx, const struct by_pointer_call *c, void *stream)
{
    struct sn_args a;
    enum sn_op_kind kind = args_of(c, &a);
    if (kind == SN_NKERNELS)
        return -1;
    cx->stream = (cudaStream_t)stream;
    return sn_cuda_run_op(cx, kind, &a);
}

const char *by_pointer_why(const struct sn_cuda *cx)
{
    return cx->fault.what ? cx->fault.what : "no such operation or attribute";
}
