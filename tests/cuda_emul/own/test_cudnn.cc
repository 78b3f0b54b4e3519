/*
 * test_cudnn.cc - the hook of attention (attention_cudnn.cu): when cuDNN computes, when our own
 * kernels do and what is said, and when the operation fails. cuDNN is tests/gpu/fake_cudnn.c.
 */
#include "kernels/cuda/attention_cudnn.cuh"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 32, SEQ = 16, HEADS = 2, D = 16, WIDE = HEADS * D };

alignas(64) static uint16_t q[ROWS * 3 * WIDE], o[2][ROWS * WIDE];
alignas(64) static float lse[2][ROWS * HEADS];
static struct sn_cuda cx;
static struct sn_sdpa sdpa;

static struct sn_mat matrix(void *p, enum sn_dtype t, int64_t cols, int64_t ld)
{
    struct sn_mat m = {p, t, ROWS, cols, ld};
    return m;
}

static struct sn_args forward(int to, enum sn_library_use use)
{
    struct sn_args a;
    memset((void *)&a, 0, sizeof(a));
    for (int i = 0; i < 3; i++)
        a.in[i] = matrix(q + i * WIDE, SN_BF16, WIDE, 3 * WIDE);
    a.out[0] = matrix(o[to], SN_BF16, WIDE, WIDE);
    a.out[1] = matrix(lse[to], SN_F32, HEADS, HEADS);
    a.attr.attention.heads = a.attr.attention.kv_heads = HEADS;
    a.attr.attention.head_dim = D;
    a.attr.position.seq = SEQ;
    a.attr.attention.scale = 0.25f;
    a.attr.attention.library = use;
    return a;
}

/* With exactly the scratch that is planned, which lies at a multiple of 64 bytes and of no more. */
static int run(struct sn_args *a)
{
    static struct sn_scalars scalars;
    size_t bytes = sn_cuda_scratch(SN_OP_ATTENTION, a, 1), guard = 64;
    char *room = (char *)aligned_alloc(256, (bytes + 64 + guard + 255) / 256 * 256);
    memset(room + 64 + bytes, 0xa5, guard);
    a->scalars = &scalars;
    a->scratch = room + 64;
    int rc = sn_cuda_run_op(&cx, SN_OP_ATTENTION, a);
    for (size_t i = 0; i < guard; i++)
        rc = (unsigned char)room[64 + bytes + i] == 0xa5 ? rc : -77;
    free(room);
    return rc;
}

static int notes(char line[320])
{
    int n = 0;
    while (sn_cuda_gemm_note(&cx, n, line, 320) == 0)
        n++;
    return n;
}

int main(void)
{
    char why[400] = "", line[320] = "";
    for (size_t i = 0; i < sizeof(q) / sizeof(q[0]); i++)
        q[i] = (uint16_t)(0x3c00 + i * 7 % 512 + i % 2 * 0x8000);
    cx.device.arch = 90;
    cx.device.multiprocessors = 4;
    cx.device.shared_per_block = 227 * 1024;
    struct sn_args own = forward(0, SN_LIBRARY_NEVER), may = forward(1, SN_LIBRARY_MAY);
    tap_ok(sn_cuda_scratch(SN_OP_ATTENTION, &own, 1) == 0 &&
               sn_cuda_scratch(SN_OP_ATTENTION, &may, 1) > 0,
           "scratch is planned for cuDNN, and not for own kernels alone");
    setenv("FAKE_CUDNN", "first=1048576", 1); /* all of what is planned */
    tap_ok(sn_sdpa_open(&sdpa, why, sizeof(why)) == 0, "cuDNN opens: %s", why);
    cx.sdpa = &sdpa;
    if (!sdpa.api)
        return tap_done();
    tap_ok(run(&own) == 0 && sdpa.n == 0, "never: cuDNN is not asked");
    tap_ok(run(&may) == 0 && sdpa.n == 1 && notes(line) == 0, "may: it is");
    bool near = true;
    for (int i = 0; i < ROWS * HEADS; i++)
        near = near && lse[0][i] - lse[1][i] < 1e-4f && lse[1][i] - lse[0][i] < 1e-4f;
    tap_ok(near, "statistics lie where ours do");
    memset(lse[1], 0, sizeof(lse[1]));
    struct sn_args must = forward(1, SN_LIBRARY_MUST);
    tap_ok(run(&must) == 0 && lse[1][0] != 0, "must: it does, by the same plan");

    may.attr.random.drop = 0.5f;
    tap_ok(run(&may) == 0 && run(&may) == 0 && notes(line) == 1,
           "dropout, may: own kernels, said once");
    tap_text(line, "attention is computed without cuDNN: dropout's random numbers are our own",
             "the sentence");
    must.attr.random.drop = 0.5f;
    tap_ok(run(&must) != 0, "dropout, must: it fails");
    tap_text(cx.fault.what,
             "cuDNN cannot compute it: dropout's random numbers are our own; set run.attention: "
             "auto or own",
             "the sentence");

    setenv("FAKE_CUDNN", "engines=-1", 1);
    may = forward(1, SN_LIBRARY_MAY);
    may.attr.attention.scale = 0.5f; /* another plan */
    memset(lse[1], 0, sizeof(lse[1]));
    tap_ok(run(&may) == 0 && lse[1][0] != 0 && notes(line) == 2, "no engine, may: own kernels");
    tap_text(line,
             "attention is computed without cuDNN: no engine: CUDNN_STATUS_NOT_SUPPORTED, no "
             "engine knows this graph",
             "the sentence has cuDNN's words");
    must = forward(1, SN_LIBRARY_MUST);
    must.attr.attention.scale = 0.5f;
    tap_ok(run(&must) != 0 && strstr(cx.fault.what, "no engine knows this graph"),
           "no engine, must: it fails");
    setenv("FAKE_CUDNN", "fails=1", 1);
    may = forward(1, SN_LIBRARY_MAY);
    tap_ok(run(&may) != 0 && strstr(cx.fault.what, "the launch failed"),
           "an execution that fails is a failure of the operation");
    cx.device.arch = 75;
    may = forward(1, SN_LIBRARY_MAY);
    tap_ok(!sn_attn_cudnn(&cx, &may, false, &cx.fault.code) && notes(line) == 3 &&
               strstr(line, "older than sm_80"),
           "an old device: own kernels");
    sn_cuda_close(&cx);
    tap_ok(!cx.sdpa && !sdpa.api, "it is closed with the device");
    return tap_done();
}
