/*
 * test_price_comm.c - the price of collectives on levels, and the bytes that cross them.
 */
#include "kernels/codec.h"
#include "lib/cost/price.h"
#include "lib/sim/plan.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/price_test.h"
#include "tests/lib/tap.h"

/* An exchange of streams among four, each room for one. */
static struct sn_op coded_exchange(const char *name)
{
    struct sn_op op = price_op(SN_OP_ALL_TO_ALL);
    op.group = SN_GROUP_REPLICA;
    op.is_coded = true;
    op.attr = (struct sn_attr){
        .blocks_a = 4, .stream.levels = 1, .stream.share = 100000, .stream.type = SN_F32};
    (void)sn_codec_parse(&op.attr.stream.codec[0], name);
    int64_t room = sn_coded_bytes(&op.attr.stream.codec[0], SN_F32, 100000);
    op.in[0] = op.out[0] = price_view(2, 1, 4 * room);
    return op;
}

static void streams_cost_what_goes(const struct sn_software *s)
{
    static const int four[] = {1, 1, 1, 4, 1};
    struct sn_machine m = price_cluster();
    struct sn_pricer p = price_pricer(&m, s, four);
    struct sn_op fixed = coded_exchange("int4"), sized = coded_exchange("mpc");
    double exact = sn_price_collective(&p, SN_ALL_TO_ALL, 53128, SN_U8, SN_GROUP_REPLICA);
    int64_t likely = sn_coded_likely(&sized.attr.stream.codec[0], SN_F32, 100000), n = 0;
    double ahead = sn_price_collective(&p, SN_ALL_TO_ALL, 8, SN_U8, SN_GROUP_REPLICA);
    double rest = sn_price_collective(&p, SN_ALL_TO_ALL, likely, SN_U8, SN_GROUP_REPLICA);
    enum sn_collective kind;
    tap_ok(price_near(sn_price_comm(&p, &price_program, &fixed), exact),
           "streams of a fixed rate: 50,000 bytes of codes and 782 scales of a share");
    tap_ok(likely < 400000 && price_near(sn_price_comm(&p, &price_program, &sized), ahead + rest),
           "lossless ones: their lengths, and what is likely");
    tap_ok(sn_op_collective(&sized, &kind, &n) && n == likely, "which is their traffic, too");
    fixed.attr.stream.codec[1] = (struct sn_codec){.kind = SN_CODEC_INT8};
    fixed.attr.stream.levels = 2;
    fixed.in[0].cols = fixed.in[0].ld =
        4 * sn_coded_room(fixed.attr.stream.codec, 2, SN_F32, fixed.attr.stream.share);
    tap_ok(price_near(sn_price_comm(&p, &price_program, &fixed), exact),
           "room for a milder codec costs nothing");
}

static void collectives_take_the_slowest_level(const struct sn_software *s)
{
    struct sn_machine m = price_cluster();
    const int node[] = {8, 1, 1, 4, 1}, flat[] = {1, 1, 1, 32, 1}, pipe[] = {2, 1, 1, 1, 8};
    struct sn_pricer p = price_pricer(&m, s, node);
    const int64_t n = 1 << 28; /* bf16: 2^29 bytes */
    double bytes = 2.0 * (double)n, wire = 20e-6 + 2 * 3 * 5e-6;
    tap_ok(price_near(sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_TENSOR),
                      wire + 2 * 7.0 / 8 * bytes / 240e9),
           "all-reduce in a node: 2(n-1)/n over its links");
    tap_ok(price_near(sn_price_collective(&p, SN_REDUCE_SCATTER, n / 8, SN_BF16, SN_GROUP_TENSOR),
                      20e-6 + 3 * 5e-6 + 7.0 / 8 * bytes / 240e9),
           "reduce-scatter: half of it");
    double nic = 200e9 / 8 * 0.9;
    tap_ok(price_near(sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA),
                      20e-6 + 2 * 2 * 30e-6 + 2 * 3.0 / 4 * bytes / nic),
           "eight groups share a node's NICs");
    p = price_pricer(&m, s, flat);
    double latency = 20e-6 + 2 * (3 * 5e-6 + 2 * 30e-6);
    tap_ok(price_near(sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA),
                      latency + 2 * 31.0 / 32 * bytes / (8 * nic)),
           "one group of all: eight members carry what leaves a node");
    tap_ok(price_near(sn_price_collective(&p, SN_ALL_TO_ALL, n / 32, SN_BF16, SN_GROUP_DATA),
                      20e-6 + 3 * 5e-6 + 2 * 30e-6 + 24.0 / 32 * bytes / nic),
           "all-to-all: what is for other nodes");
    m.algorithm = SN_ALGORITHM_DIRECT;
    tap_ok(price_near(sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA),
                      latency + 2 * 24.0 / 32 * bytes / nic),
           "direct: each member sends to 24 others beyond its node");
    m.level[1].crowd = 0.8;
    tap_ok(price_near(sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA),
                      latency + 2 * 24.0 / 32 * bytes / (0.8 * nic)),
           "whose messages meet at the receivers");
    p.span[SN_GROUP_DATA].at[1] = 2;
    double pair = sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA);
    m.level[1].crowd = 0;
    tap_ok(pair == sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA),
           "unless there are two nodes alone");
    m.algorithm = SN_ALGORITHM_RING;
    p = price_pricer(&m, s, pipe);
    tap_ok(price_near(sn_price_collective(&p, SN_SEND, n, SN_BF16, SN_GROUP_PIPELINE),
                      20e-6 + 30e-6 + bytes / (50e9 * 0.9)),
           "a transfer to the next node: two devices share four NICs");
    tap_ok(sn_price_collective(&p, SN_RECV, n, SN_BF16, SN_GROUP_PIPELINE) == 0 &&
               sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA) == 0,
           "a receive, and a group of one, cost nothing");
}

static void sizes_and_switches_change_rates(const struct sn_software *s)
{
    struct sn_machine m = price_cluster();
    m.launch = m.level[0].latency = 0;
    m.level[0].half_bytes = 1 << 20;
    const int node[] = {8, 1, 1, 1, 1}, part[] = {4, 1, 1, 2, 1};
    struct sn_pricer p = price_pricer(&m, s, node), q = price_pricer(&m, s, part);
    double half = 2 * 7.0 / 8 * (1 << 20) / 240e9;
    tap_ok(price_near(sn_price_collective(&p, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_TENSOR),
                      2 * half),
           "a message of half_bytes reaches half of the rate");
    double before = sn_price_collective(&q, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_TENSOR);
    m.level[0].all_reduce = 1.25;
    tap_ok(price_near(sn_price_collective(&p, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_TENSOR),
                      2 * half / 1.25) &&
               sn_price_collective(&q, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_TENSOR) == before,
           "switches sum for more than half of a node, and only then");
    struct sn_machine rings = m;
    const int wide[] = {1, 1, 1, 32, 1};
    rings.level[0].hop = 1e-3;
    rings.level[1].hop = 1;
    struct sn_pricer w = price_pricer(&rings, s, wide), v = price_pricer(&m, s, wide);
    double steps = sn_price_collective(&w, SN_ALL_GATHER, 1, SN_F32, SN_GROUP_DATA) -
                   sn_price_collective(&v, SN_ALL_GATHER, 1, SN_F32, SN_GROUP_DATA);
    tap_ok(price_near(steps + 2 * 30e-6, 3 + 28e-3),
           "a ring of 32 on 4 nodes: 3 steps between nodes, 28 in them");
    struct sn_machine mesh = m;
    mesh.level[0].peer = 50e9;
    struct sn_pricer r = price_pricer(&mesh, s, part);
    tap_ok(price_near(sn_price_collective(&r, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_TENSOR),
                      2 * before),
           "where pairs have links of their own, four devices use three of them each");
    struct sn_software other = *s;
    other.bandwidth[SN_AXIS_TENSOR] = 0.5;
    other.grad_wire_bytes = 2;
    struct sn_pricer slow = price_pricer(&m, &other, part), usual = price_pricer(&m, s, part);
    tap_ok(price_near(sn_price_collective(&slow, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_TENSOR),
                      2 * before),
           "a trainer may reach half of the rate on an axis");
    tap_ok(sn_price_collective(&slow, SN_ALL_REDUCE, 1 << 19, SN_F32, SN_GROUP_DATA) ==
               sn_price_collective(&usual, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_DATA),
           "and reduce gradients in 2 bytes");
}

/* Stages of a layout: bytes by level sum to the traffic, with no level lost. */
static void check_levels(const struct sn_config *c, const struct sn_machine *m,
                         const struct sn_software *s, int *checked, int *wrong)
{
    struct sn_model *model;
    struct sn_err err = {0};
    if (sn_model_create(&model, &c->model, &c->train, &err) != SN_OK)
        return;
    struct sn_job_env env = {.config = c, .model = model, .ops = sn_ops_cpu(), .threads = 1};
    struct sn_stages st;
    if (sn_stages_create(&st, &env, &err) == SN_OK) {
        for (int i = 0; i < st.n; i++) {
            struct sn_pricer p;
            int64_t level[SN_MAX_LEVELS], axis[SN_NAXES], sum = 0, want = 0;
            sn_pricer_init(&p, m, s, st.job[i]);
            sn_price_levels(&p, st.job[i], level);
            sn_job_traffic_of_stage(st.job[i], axis);
            for (int k = 0; k < SN_MAX_LEVELS; k++)
                sum += level[k];
            for (int a = 0; a < SN_NAXES; a++)
                want += axis[a];
            (*checked)++;
            *wrong += sum != want || want == 0 || level[1] == 0;
        }
        sn_stages_fini(&st);
    }
    sn_model_destroy(model);
}

static void levels_sum_to_the_traffic(const struct sn_software *s)
{
    static const struct {
        int tensor, context, data, pipeline, zero, kind;
    } layouts[] = {{1, 1, 3, 1, 0, 0}, {2, 1, 3, 1, 1, 0}, {4, 1, 1, 2, 0, 0}, {2, 2, 1, 2, 0, 0},
                   {1, 2, 2, 2, 3, 0}, {2, 2, 2, 1, 2, 1}, {1, 1, 2, 3, 1, 0}, {3, 1, 3, 2, 1, 0}};
    struct sn_machine m = price_cluster();
    m.level[0].ranks = 2;
    int checked = 0, wrong = 0;
    for (size_t i = 0; i < 2 * sizeof(layouts) / sizeof(layouts[0]); i++) {
        struct sn_config c = layout_config(i % 3 == 0 ? SN_GPT2 : SN_LLAMA);
        c.model.layers = 6;
        c.train.global_batch = 36;
        c.layout.tensor = layouts[i / 2].tensor;
        c.layout.context = layouts[i / 2].context;
        c.layout.data = layouts[i / 2].data;
        c.layout.pipeline = layouts[i / 2].pipeline;
        c.layout.zero = layouts[i / 2].zero;
        c.layout.context_kind = (enum sn_context_kind)layouts[i / 2].kind;
        m.algorithm = i % 2 ? SN_ALGORITHM_DIRECT : SN_ALGORITHM_RING;
        check_levels(&c, &m, s, &checked, &wrong);
    }
    tap_ok(checked >= 20 && wrong == 0, "bytes by level sum to the traffic: %d stages, %d wrong",
           checked, wrong);
}

int main(void)
{
    struct sn_software s;
    sn_software_default(&s);
    streams_cost_what_goes(&s);
    collectives_take_the_slowest_level(&s);
    sizes_and_switches_change_rates(&s);
    levels_sum_to_the_traffic(&s);
    return tap_done();
}
