/*
 * test_block_order.cc - sums that several blocks have a part in: their bits are the same in
 * whatever order the blocks come, and with any_order, by atomics, they are not (or this test would
 * see nothing).
 */
#include "tests/cuda_emul/emul.h"

static int points, failed;
static struct sn_cuda cx;
enum { ROWS = 6000, COLS = 24, WORDS = 40, BIG = 300000 };

static void ok(bool good, const char *what)
{
    printf("%sok %d - %s\n", good ? "" : "not ", ++points, what);
    failed += !good;
}

struct sum {
    enum sn_op_kind op;
    struct sn_args a;
    void *out; /* zeroed before each run */
    size_t bytes;
};

static void run(struct sum *s, int order, unsigned char *bits)
{
    size_t room = sn_cuda_scratch(s->op, &s->a, 1);
    s->a.scratch = aligned_alloc(64, (room + 64) / 64 * 64);
    memset(s->a.scratch, 0xff, room);
    memset(s->out, 0, s->bytes);
    sn_emul_order = order;
    if (sn_cuda_run_op(&cx, s->op, &s->a) != 0)
        abort();
    memcpy(bits, s->out, s->bytes);
    free(s->a.scratch);
}

static bool is_same(struct sum *s)
{
    static unsigned char first[1 << 16], other[1 << 16];
    bool same = true;
    run(s, 0, first);
    for (int order = 1; order < 5; order++) {
        run(s, order, other);
        same = same && memcmp(first, other, s->bytes) == 0;
    }
    return same;
}

int main(void)
{
    static float big[BIG] __attribute__((aligned(16))),
        sums[WORDS * COLS] __attribute__((aligned(16)));
    static int32_t ids[ROWS];
    static struct sn_scalars scalars;
    cx.device = {90, 4, 227 * 1024, 0};
    for (int i = 0; i < BIG; i++)
        big[i] = (float)((int64_t)i * 7919 % 1000003) / 1000003.0f - 0.5f;
    for (int r = 0; r < ROWS; r++)
        ids[r] = r * 31 % 7 ? r % 3 : r * 131 % WORDS;

    struct sum embed = {SN_OP_EMBED_GRAD, {}, sums, sizeof(sums)};
    embed.a.in[0] = {ids, SN_I32, ROWS, 1, 1};
    embed.a.in[1] = {big, SN_F32, ROWS, COLS, COLS};
    embed.a.out[0] = {sums, SN_F32, WORDS, COLS, COLS};
    embed.a.acc[0] = SN_ADD;
    ok(is_same(&embed), "EMBED_GRAD: the same bits in every order of blocks");
    embed.a.attr.any_order = true;
    ok(!is_same(&embed), "EMBED_GRAD in any order: others");

    struct sum bias = {SN_OP_COLSUM, {}, sums, COLS * sizeof(float)};
    bias.a.in[0] = {big, SN_F32, ROWS, COLS, COLS};
    bias.a.out[0] = {sums, SN_F32, 1, COLS, COLS};
    ok(is_same(&bias), "COLSUM: the same bits in every order of blocks");
    bias.a.attr.any_order = true;
    ok(!is_same(&bias), "COLSUM in any order: others");

    struct sum norm = {SN_OP_SQ_NORM, {}, &scalars, sizeof(scalars)};
    norm.a.in[0] = {big, SN_F32, 1, BIG, BIG};
    norm.a.scalars = &scalars;
    ok(is_same(&norm) && scalars.sq_norm > 1, "SQ_NORM: the same bits in every order of blocks");
    printf("1..%d\n", points);
    return failed != 0;
}
