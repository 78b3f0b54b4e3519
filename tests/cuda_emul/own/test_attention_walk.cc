/*
 * test_attention_walk.cc - ATTENTION and ATTENTION_DX: the same bits whatever the groups of heads
 * are that L2 decides, and whatever order their blocks come in.
 */
#include "tests/cuda_emul/emul.h"

enum { SAMPLES = 2, ROWS = 150, HEADS = 4, KV = 2, D = 32, ALL = SAMPLES * ROWS };
enum { WIDE = HEADS * D, SLIM = KV * D, MOST = ALL * (3 * WIDE + 2 * SLIM) };

static int points, failed;
static struct sn_cuda cx;

static void ok(bool good, const char *what)
{
    printf("%sok %d - %s\n", good ? "" : "not ", ++points, what);
    failed += !good;
}

static uint16_t memory[MOST] __attribute__((aligned(64)));
static float lse[ALL * HEADS] __attribute__((aligned(64)));

/* Results of both operations: o, dq, dk, dv in 16 bits each. */
struct results {
    uint16_t o[ALL * WIDE] __attribute__((aligned(64)));
    uint16_t dq[ALL * WIDE] __attribute__((aligned(64)));
    uint16_t dk[ALL * SLIM] __attribute__((aligned(64)));
    uint16_t dv[ALL * SLIM] __attribute__((aligned(64)));
};

static void run(enum sn_op_kind op, struct sn_args *a)
{
    size_t room = sn_cuda_scratch(op, a, 1);
    a->scratch = aligned_alloc(64, (room + 64) / 64 * 64);
    memset(a->scratch, 0xff, room);
    if (sn_cuda_run_op(&cx, op, a) != 0)
        abort();
    free(a->scratch);
}

static void compute(enum sn_dtype t, size_t l2, int order, struct results *to)
{
    struct sn_args a = {};
    uint16_t *q = memory, *k = q + ALL * WIDE, *v = k + ALL * SLIM, *g = v + ALL * SLIM;
    memset(to, 0xff, sizeof(*to));
    cx.device.l2_bytes = l2;
    sn_emul_order = order;
    a.attr.attention.heads = HEADS;
    a.attr.attention.kv_heads = KV;
    a.attr.attention.head_dim = D;
    a.attr.position.seq = ROWS;
    a.attr.attention.scale = 0.2f;
    a.in[0] = {q, t, ALL, WIDE, WIDE};
    a.in[1] = {k, t, ALL, SLIM, SLIM};
    a.in[2] = {v, t, ALL, SLIM, SLIM};
    a.out[0] = {to->o, t, ALL, WIDE, WIDE};
    a.out[1] = {lse, SN_F32, ALL, HEADS, HEADS};
    run(SN_OP_ATTENTION, &a);
    a.in[3] = a.out[0];
    a.in[4] = {g, t, ALL, WIDE, WIDE};
    a.in[5] = a.out[1];
    a.out[0] = {to->dq, t, ALL, WIDE, WIDE};
    a.out[1] = {to->dk, t, ALL, SLIM, SLIM};
    a.out[2] = {to->dv, t, ALL, SLIM, SLIM};
    run(SN_OP_ATTENTION_DX, &a);
}

static bool is_same(enum sn_dtype t)
{
    static struct results first, other;
    static const size_t l2[] = {1, 128 << 10, 1 << 30};
    bool same = true;
    for (int64_t i = 0; i < MOST; i++) /* of either sign, 1/2 and more, less than 2 */
        memory[i] =
            (uint16_t)(i * 7919 % 5 % 2 << 15 | (t == SN_BF16 ? 0x3f00 : 0x3800) | i * 7919 % 251);
    compute(t, 0, 0, &first); /* not known: all heads here are one group */
    for (int i = 0; i < 3; i++) {
        compute(t, l2[i], i, &other);
        same = same && memcmp(&first, &other, sizeof(first)) == 0;
    }
    return same;
}

int main(void)
{
    cx.device = {90, 4, 227 * 1024, 0};
    ok(is_same(SN_BF16), "warpgroups, mma: the same bits for every size of L2");
    cx.device.arch = 80;
    ok(is_same(SN_F16), "mma: the same bits for every size of L2");
    cx.device.arch = 70;
    cx.device.shared_per_block = 96 * 1024;
    ok(is_same(SN_F16), "warp matrix functions: the same bits for every size of L2");
    printf("1..%d\n", points);
    return failed != 0;
}
