/*
 * table.cu - the table of tests/gpu/other_table.h on the first GPU: operands are copied there, an
 * operation runs, and what it may write is copied back.
 *
 * Around each operand on the device lie guards that must survive; an address keeps its alignment.
 * Operands that overlap on the host overlap there too. Without a device the program says so and
 * ends before its first test. With SN_ANY_ORDER sums are told to be in any order. With SN_GUARD=0
 * there are no guards, and scratch holds what it held: so a sanitizer sees each read and write
 * beyond an operand, and each read of what nobody wrote.
 */
#include "kernels/cuda/attention_cudnn.cuh"
#include "kernels/cuda/cuda.h"
#include "tests/gpu/other_table.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 4096, ALIGN = 256, MOST = SN_MAX_IN + SN_MAX_OUT };

/* Host bytes [first, end), and where they are on the device. */
struct region {
    char *first, *end, *device; /* device: of `first` */
    char *base;                 /* of the allocation, guards included */
    size_t bytes;               /* of the allocation */
};

struct regions {
    struct region r[MOST];
    int n;
};

static struct sn_cuda context;
static long calls;          /* of operations */
static const char *running; /* the operation of this call */

static size_t guard(void)
{
    const char *asked = getenv("SN_GUARD");
    return asked && atoi(asked) == 0 ? 0 : GUARD;
}

/* An error of CUDA ends the program: what comes after it would fail, too. */
static void must(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return;
    if (running)
        printf("Bail out! call %ld, %s: %s: %s\n", calls, running, what, cudaGetErrorString(e));
    else
        printf("Bail out! %s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}

/* Adds the bytes of m, joined with what they overlap. */
static void add(struct regions *all, const struct sn_mat *m)
{
    if (!m->p || m->rows == 0 || m->cols == 0)
        return;
    char *first = (char *)m->p;
    char *end = first + (size_t)((m->rows - 1) * m->ld + m->cols) * sn_dtype_size(m->dtype);
    for (int i = 0; i < all->n; i++) {
        struct region *r = &all->r[i];
        if (r->end <= first || end <= r->first)
            continue;
        first = r->first < first ? r->first : first;
        end = r->end > end ? r->end : end;
        all->r[i--] = all->r[--all->n];
    }
    struct region made = {first, end, NULL, NULL, 0};
    all->r[all->n++] = made;
}

static void allocate(struct region *r)
{
    size_t around = guard(), off = (uintptr_t)r->first % ALIGN;
    r->bytes = around + off + (size_t)(r->end - r->first) + around;
    must(cudaMalloc((void **)&r->base, r->bytes), "memory for an operand");
    if (around)
        must(cudaMemset(r->base, 0xa5, r->bytes), "guards");
    r->device = r->base + around + off;
}

static void upload(struct region *r)
{
    size_t bytes = (size_t)(r->end - r->first);
    allocate(r);
    must(cudaMemcpy(r->device, r->first, bytes, cudaMemcpyHostToDevice),
         "an operand to the device");
}

/* Back to the host; false when a guard was written to. */
static bool download(struct region *r)
{
    size_t bytes = (size_t)(r->end - r->first), before = (size_t)(r->device - r->base);
    char *all = (char *)malloc(r->bytes);
    bool good = all != NULL;
    if (!all)
        return false;
    char *from = guard() ? r->base : r->device; /* what nobody wrote is not read */
    must(cudaMemcpy(all + (from - r->base), from, r->bytes - (size_t)(from - r->base),
                    cudaMemcpyDeviceToHost),
         "an operand from the device");
    for (size_t i = 0; i < r->bytes && guard(); i++)
        if ((i < before || i >= before + bytes) && (unsigned char)all[i] != 0xa5)
            good = false;
    memcpy(r->first, all + before, bytes);
    free(all);
    return good;
}

static void *device_of(const struct regions *all, void *p)
{
    for (int i = 0; i < all->n; i++)
        if ((char *)p >= all->r[i].first && (char *)p < all->r[i].end)
            return all->r[i].device + ((char *)p - all->r[i].first);
    return NULL;
}

static size_t scratch_of(enum sn_op_kind kind, const struct sn_args *a, int threads)
{
    struct sn_args d = *a;
    d.attr.any_order = d.attr.any_order || kt_any_order();
    d.attr.attention.library = kt_library();
    return sn_cuda_scratch(kind, &d, threads);
}

static void open_all(struct regions *all, bool is_filled)
{
    for (int i = 0; i < all->n; i++)
        if (is_filled)
            upload(&all->r[i]);
        else
            allocate(&all->r[i]);
}

/* Back to the host, and freed; false when something beside an operand was written. */
static bool close_all(struct regions *all, bool is_read)
{
    bool good = true;
    for (int i = 0; i < all->n; i++)
        good = (!is_read || download(&all->r[i])) && good;
    for (int i = 0; i < all->n; i++)
        must(cudaFree(all->r[i].base), "freeing an operand");
    return good;
}

static int run_kind(enum sn_op_kind kind, const struct sn_args *a)
{
    struct sn_args d = *a;
    running = sn_cuda_op_name(kind);
    if (kt_is_left_out(++calls))
        return printf("# call %ld, %s, is left out\n", calls, running);
    d.attr.any_order = d.attr.any_order || kt_any_order();
    d.attr.attention.library = kt_library();
    struct regions all, room;
    all.n = room.n = 0;
    struct sn_mat scalars = {a->scalars, SN_U8, 1, (int64_t)sizeof(*a->scalars), 0};
    struct sn_mat scratch = {a->scratch, SN_U8, 1, (int64_t)scratch_of(kind, a, 1), 0};
    struct regions work;
    work.n = 0;
    for (int i = 0; i < SN_MAX_IN; i++)
        add(&all, &a->in[i]);
    for (int i = 0; i < SN_MAX_OUT; i++)
        add(&all, &a->out[i]);
    add(&work, &scalars);
    add(&room, &scratch);
    open_all(&all, true);
    open_all(&work, true);
    open_all(&room, guard() != 0);
    for (int i = 0; i < SN_MAX_IN; i++)
        d.in[i].p = a->in[i].p ? device_of(&all, a->in[i].p) : NULL;
    for (int i = 0; i < SN_MAX_OUT; i++)
        d.out[i].p = a->out[i].p ? device_of(&all, a->out[i].p) : NULL;
    d.scalars = (struct sn_scalars *)device_of(&work, a->scalars);
    d.scratch = scratch.cols ? device_of(&room, a->scratch) : NULL;
    int rc = sn_cuda_run_op(&context, kind, &d);
    cudaError_t e = cudaStreamSynchronize(context.stream);
    must(e, "it failed"); /* the device's context is lost */
    if (rc)
        printf("# %s: %s\n", running, context.fault.what);
    if (!close_all(&all, true))
        rc = rc ? rc : printf("# %s wrote beside its operands\n", running);
    if (!close_all(&work, true))
        rc = rc ? rc : printf("# %s wrote beside the scalars\n", running);
    if (!close_all(&room, guard() != 0))
        rc = rc ? rc : printf("# %s wrote beside its scratch\n", running);
    return rc;
}

template <int kind> static int run(const struct sn_args *a, int)
{
    return run_kind((enum sn_op_kind)kind, a);
}

template <int kind> struct filled {
    static void fill(struct sn_ops *t)
    {
        t->run[kind] = run<kind>;
        filled<kind - 1>::fill(t);
    }
};
template <> struct filled<-1> {
    static void fill(struct sn_ops *)
    {
    }
};

static struct sn_ops make(void)
{
    struct sn_ops t;
    int devices = 0;
    cudaError_t e = cudaGetDeviceCount(&devices);
    if (e != cudaSuccess || devices == 0) {
        printf("1..0 # SKIP no CUDA device here: %s\n",
               e == cudaSuccess ? "the driver lists none" : cudaGetErrorString(e));
        exit(0);
    }
    int rc = sn_cuda_open(&context, 0);
    if (rc) {
        printf("Bail out! the first device does not open: error %d\n", rc);
        exit(1);
    }
    if (kt_library() != SN_LIBRARY_NEVER) {
        static struct sn_sdpa sdpa;
        char why[400];
        context.sdpa = &sdpa;
        if (sn_sdpa_open(&sdpa, why, sizeof(why)) != 0) {
            printf("1..0 # SKIP cuDNN: %s\n", why);
            exit(0);
        }
    }
    /* SN_GPU_ARCH=70: the kernels that an older device would take. */
    const char *as = getenv("SN_GPU_ARCH");
    if (as && atoi(as) < context.device.arch)
        context.device.arch = atoi(as);
    t.name = "cuda";
    t.scratch = scratch_of;
    filled<SN_NKERNELS - 1>::fill(&t);
    return t;
}

extern "C" {
const struct sn_ops kt_other_table = make();
const struct sn_ops *kt_other_ops(void)
{
    return &kt_other_table;
}
bool kt_any_order(void)
{
    return getenv("SN_ANY_ORDER") != NULL;
}
double kt_slack(enum sn_op_kind kind, enum sn_dtype t)
{
    return kt_slack_of(kind, t);
}
}
