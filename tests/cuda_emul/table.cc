/*
 * table.cc - the table of tests/gpu/other_table.h, emulated: operands stay where they are.
 *
 * SN_EMUL_ARCH is the architecture that the kernels are told (default 90); with SN_ANY_ORDER sums
 * are told to be in any order. SN_EMUL_FAULT=17: call 17 ends the program, as a fault that a
 * device does not survive would; SN_EMUL_WRONG=gemm: what that operation makes is wrong.
 */
#include "kernels/cuda/attention_cudnn.cuh"
#include "tests/cuda_emul/emul.h"
#include "tests/gpu/other_table.h"

#include <stdio.h>
#include <string.h>

/* The most shared memory of a block: CUDA C++ Programming Guide, technical specifications. */
static size_t shared_of(int arch)
{
    static const struct {
        int arch, kib;
    } of[] = {{70, 96}, {75, 64}, {80, 163}, {87, 163}, {90, 227}, {100, 227}};
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
        if (of[i].arch == arch)
            return (size_t)of[i].kib * 1024;
    return 99 * 1024; /* 86, 89, 120 */
}

static struct sn_cuda *context(void)
{
    const char *arch = getenv("SN_EMUL_ARCH");
    static struct sn_cuda cx;
    cx.device.arch = arch ? atoi(arch) : 90;
    cx.device.multiprocessors = 4;
    cx.device.shared_per_block = shared_of(cx.device.arch);
    cx.device.l2_bytes = 16 * 1024; /* so little that attention walks heads in several groups */
    if (!cx.sdpa && kt_library() != SN_LIBRARY_NEVER) {
        static struct sn_sdpa sdpa;
        char why[400];
        cx.sdpa = &sdpa;
        if (sn_sdpa_open(&sdpa, why, sizeof(why)) != 0) { /* of tests/gpu/fake_cudnn.c */
            printf("1..0 # SKIP cuDNN: %s\n", why);
            exit(0);
        }
    }
    return &cx;
}

static struct sn_args told(const struct sn_args *a)
{
    struct sn_args b = *a;
    b.attr.any_order = b.attr.any_order || kt_any_order();
    b.attr.attention.library = kt_library();
    return b;
}

static int run_kind(enum sn_op_kind kind, const struct sn_args *a)
{
    static long calls;
    const char *fault = getenv("SN_EMUL_FAULT"), *wrong = getenv("SN_EMUL_WRONG");
    struct sn_args b = told(a);
    if (kt_is_left_out(++calls))
        return printf("# call %ld, %s, is left out\n", calls, sn_cuda_op_name(kind));
    if (fault && atol(fault) == calls) {
        printf("Bail out! call %ld, %s: a planted fault\n", calls, sn_cuda_op_name(kind));
        exit(1);
    }
    int rc = sn_cuda_run_op(context(), kind, &b);
    if (wrong && strcmp(wrong, sn_cuda_op_name(kind)) == 0 && b.out[0].p)
        memset(b.out[0].p, 0x45, sn_dtype_size(b.out[0].dtype));
    return rc;
}

template <int kind> static int run(const struct sn_args *a, int)
{
    return run_kind((enum sn_op_kind)kind, a);
}

static size_t scratch(enum sn_op_kind kind, const struct sn_args *a, int threads)
{
    struct sn_args b = told(a);
    return sn_cuda_scratch(kind, &b, threads);
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
    t.name = "cuda/emulated";
    t.scratch = scratch;
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
/* Threads here take turns in the same order each time, so that a second run has the bits of the first; what a
 * run leaves behind, the next shape finds. */
int kt_threads(void)
{
    return getenv("ALL") ? 2 : 1;
}
}
