/*
 * test_price.c - the price of kernels, of collectives on levels, and the bytes that cross them.
 * Longer than 500 lines because all of them are priced on the same machine.
 */
#include "kernels/codec.h"
#include "lib/cost/price.h"
#include "lib/sim/plan.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

static struct sn_buffer bufs[] = {{.dtype = SN_BF16}, {.dtype = SN_F32}, {.dtype = SN_U8}};
static const struct sn_program prog = {.bufs = bufs, .n_bufs = 3, .micros = 1};

static bool near(double got, double want)
{
    return fabs(got - want) <= 1e-9 * fabs(want);
}

static struct sn_op op_of(int kind)
{
    struct sn_op op = {.kind = kind};
    for (int i = 0; i < SN_MAX_IN; i++)
        op.in[i].buf = -1;
    for (int o = 0; o < SN_MAX_OUT; o++)
        op.out[o].buf = -1;
    return op;
}

static struct sn_view view(int buf, int64_t rows, int64_t cols)
{
    return (struct sn_view){.buf = buf, .rows = rows, .cols = cols, .ld = cols};
}

static struct sn_op gemm_of(int64_t m, int64_t n, int64_t k)
{
    struct sn_op op = op_of(SN_OP_GEMM);
    op.in[0] = view(0, m, k);
    op.in[1] = view(0, k, n);
    op.out[0] = view(0, m, n);
    return op;
}

static struct sn_op norm_of(int64_t rows, int64_t cols)
{
    struct sn_op op = op_of(SN_OP_RMSNORM);
    op.in[0] = op.out[0] = view(0, rows, cols);
    return op;
}

static struct sn_op attention_of(int kind)
{
    struct sn_op op = op_of(kind);
    for (int i = 0; i < 3; i++)
        op.in[i] = view(0, 4096, 1024);
    op.out[0] = view(0, 4096, 1024);
    op.attr = (struct sn_attr){.attention.heads = 8,
                               .attention.kv_heads = 8,
                               .attention.head_dim = 128,
                               .position.seq = 2048};
    return op;
}

/* 8 devices a node over NICs of 25 GB/s each, nodes under one switch. */
static struct sn_machine cluster(void)
{
    struct sn_machine m = {.n_levels = 2, .launch = 20e-6};
    m.device.bandwidth = 2e12;
    m.device.overhead = 4e-6;
    m.device.half_bytes = 1e6;
    m.device.gemm[SN_BF16] = (struct sn_gemm_rate){
        .peak = 300e12, .most = 0.8, .half_m = 100, .half_n = 50, .half_k = 25};
    m.device.attention_forward = 0.5;
    m.device.attention_backward = 0.4;
    m.device.attention_half_seq = 256;
    m.device.moved[SN_MOVED_NORM] = 0.5;
    m.device.moved[SN_MOVED_ELEMENTWISE] = 0.8;
    m.level[0] = (struct sn_level){
        .ranks = 8, .latency = 5e-6, .device = 300e9, .efficiency = 0.8, .all_reduce = 1};
    m.level[1] = (struct sn_level){
        .latency = 30e-6, .device = 50e9, .domain = 200e9, .efficiency = 0.9, .all_reduce = 1};
    return m;
}

static struct sn_pricer pricer_of(const struct sn_machine *m, const struct sn_software *s,
                                  const int size[SN_NGRID_AXES])
{
    static const enum sn_axis order[] = {SN_AXIS_TENSOR, SN_AXIS_CONTEXT, SN_AXIS_DATA,
                                         SN_AXIS_PIPELINE};
    struct sn_pricer p = {.machine = m, .software = s, .precision = SN_BF16};
    (void)sn_grid_init(&p.grid, size[0] * size[1] * size[2] * size[3], size, order, NULL);
    for (int q = 0; q < SN_NGROUPS; q++)
        sn_span_of(&p.span[q], m, &p.grid, (enum sn_group)q);
    return p;
}

static const int alone[] = {1, 1, 1, 1};

static double price(const struct sn_machine *m, const struct sn_software *s, const struct sn_op *op)
{
    struct sn_pricer p = pricer_of(m, s, alone);
    return sn_price_op(&p, &prog, op);
}

static void kernels_follow_their_formulas(const struct sn_software *s)
{
    struct sn_machine m = cluster();
    struct sn_op gemm = gemm_of(1000, 2000, 500), norm = norm_of(1000, 4096);
    struct sn_op forward = attention_of(SN_OP_ATTENTION), back = attention_of(SN_OP_ATTENTION_DX);
    double flops = 2.0 * 1000 * 2000 * 500, lost = 1 + 0.1 + 0.025 + 0.05;
    tap_ok(near(price(&m, s, &gemm), 4e-6 + flops * lost / (300e12 * 0.8)), "GEMM: by its sizes");
    double bytes = (double)sn_op_bytes(&prog, &norm);
    tap_ok(near(price(&m, s, &norm), 4e-6 + (bytes + 1e6) / (2e12 * 0.5)),
           "a norm: by its bytes and those that are lost");
    flops = 2.0 * 4096 * 2048 * 1024;
    tap_ok(near(price(&m, s, &forward), 4e-6 + flops * (1 + 256.0 / 2048) / (300e12 * 0.5)),
           "attention, forward");
    tap_ok(near(price(&m, s, &back), 4e-6 + 2.5 * flops * (1 + 256.0 / 2048) / (300e12 * 0.4)),
           "attention, backward");
    m.device.tile_m = 128;
    m.device.tile_n = 256;
    m.device.units = 108;
    gemm = gemm_of(128 * 109, 256, 4096);
    struct sn_op full = gemm_of(128 * 108, 256, 4096);
    tap_ok(price(&m, s, &gemm) > 1.9 * price(&m, s, &full), "one tile more is another wave");
    gemm.in[0].buf = gemm.in[1].buf = 1;
    tap_ok(price(&m, s, &gemm) == HUGE_VAL, "a precision without a peak takes for ever");
    m.device.gemm[SN_F32] = (struct sn_gemm_rate){.peak = 1e18};
    gemm = gemm_of(1, 8192, 8192);
    tap_ok(price(&m, s, &gemm) > 2.0 * 8192 * 8192 / 2e12, "a product of one row: its bytes");
}

/* 8 streams of 1,000 values each. */
static struct sn_op coded(int kind, const char *name)
{
    struct sn_op op = op_of(kind);
    op.attr = (struct sn_attr){.blocks_a = 8,
                               .stream.levels = 1,
                               .stream.share = 1000,
                               .stream.type = SN_F32,
                               .inverse = false};
    (void)sn_codec_parse(&op.attr.stream.codec[0], name);
    int64_t room = sn_coded_bytes(&op.attr.stream.codec[0], SN_F32, 1000);
    bool encodes = kind == SN_OP_ENCODE;
    *(encodes ? &op.out[0] : &op.in[0]) = view(2, 8, room);
    *(encodes ? &op.in[0] : &op.out[0]) = view(1, 80, 100);
    return op;
}

static void codecs_move_their_bytes_where_no_rate_is_known(const struct sn_software *s)
{
    struct sn_machine m = cluster();
    struct sn_op op = coded(SN_OP_ENCODE, "int8"), sum = coded(SN_OP_DECODE, "int8");
    double stream = 8 * 1032, values = 32000; /* 1,000 codes and 8 scales */
    double fixed = 4e-6 + 1e6 / (2e12 * 0.8);
    tap_ok(near(price(&m, s, &op), fixed + (values + stream) / (2e12 * 0.8)),
           "an encoding: values and streams");
    op.in[1] = op.out[1] = view(1, 80, 100);
    tap_ok(near(price(&m, s, &op), fixed + (4 * values + stream) / (2e12 * 0.8)),
           "with a difference it reads another operand, with feedback it reads and writes one");
    sum.attr.inverse = true;
    sum.out[0] = view(1, 10, 100);
    tap_ok(near(price(&m, s, &sum), fixed + (values / 8 + stream) / (2e12 * 0.8)),
           "a sum of 8 streams reads 8 and writes one");
    sum.in[1] = view(1, 10, 100);
    sum.acc[0] = SN_ACC_ADD;
    tap_ok(near(price(&m, s, &sum), fixed + (3 * values / 8 + stream) / (2e12 * 0.8)),
           "and an addend, and what it adds to");
    op = coded(SN_OP_ENCODE, "mpc");
    double likely = 8.0 * (double)sn_coded_likely(&op.attr.stream.codec[0], SN_F32, 1000);
    tap_ok(likely < (double)(8 * op.out[0].cols) &&
               near(price(&m, s, &op), fixed + (values + likely) / (2e12 * 0.8)),
           "a lossless stream counts as long as it is likely to be");
}

static void codecs_have_rates_of_their_own(const struct sn_software *s)
{
    struct sn_machine m = cluster();
    struct sn_codec_rate int8 = {{.kind = SN_CODEC_INT8}, SN_F32, 4e9, 8e9, 0}, found;
    struct sn_codec_rate zfp = {{.kind = SN_CODEC_ZFP, .rate = 8}, SN_F32, 1e9, 2e9, 5e8};
    struct sn_op op = coded(SN_OP_ENCODE, "int8"), sum = coded(SN_OP_DECODE, "int8");
    tap_ok(sn_codec_rates_add(&m.device.codecs, &int8, NULL) == SN_OK &&
               sn_codec_rates_add(&m.device.codecs, &zfp, NULL) == SN_OK && m.device.codecs.n == 2,
           "two rows");
    tap_ok(near(price(&m, s, &op), 4e-6 + 32000 / 4e9), "encoding, by bytes of values");
    tap_ok(near(price(&m, s, &sum), 4e-6 + 32000 / 8e9), "decoding");
    sum.attr.inverse = true;
    sum.out[0] = view(1, 10, 100);
    tap_ok(near(price(&m, s, &sum), 4e-6 + 32000 / 8e9), "a sum decodes every stream");
    op.out[1] = view(1, 80, 100);
    tap_ok(near(price(&m, s, &op), 4e-6 + 32000 / 4e9 + 32000 / 8e9 + 64000 / (2e12 * 0.8)),
           "feedback: by a decoding, and reading and writing it");
    op.in[1] = view(1, 80, 100);
    op.out[1].buf = -1;
    tap_ok(near(price(&m, s, &op), 4e-6 + 32000 / 4e9 + 32000 / (2e12 * 0.8)), "a difference");
    op = coded(SN_OP_ENCODE, "zfp-12");
    op.out[1] = view(1, 80, 100);
    tap_ok(near(price(&m, s, &op), 4e-6 + 32000 / 5e8), "the nearest rate of zfp, with feedback");
    op = coded(SN_OP_ENCODE, "int8-hadamard");
    tap_ok(price(&m, s, &op) < 5e-6, "another word is another codec: by its bytes");
    op = coded(SN_OP_ENCODE, "int8");
    op.in[0].buf = 0;
    tap_ok(near(price(&m, s, &op), 4e-6 + 16000 / 2e9) &&
               sn_codec_rates_find(&found, &m.device.codecs, &op.attr.stream.codec[0], SN_BF16) &&
               found.encode == 2e9,
           "of another type as many values");
    sn_codec_rates_fini(&m.device.codecs);
}

/* An exchange of streams among four, each room for one. */
static struct sn_op coded_exchange(const char *name)
{
    struct sn_op op = op_of(SN_OP_ALL_TO_ALL);
    op.group = SN_GROUP_REPLICA;
    op.is_coded = true;
    op.attr = (struct sn_attr){
        .blocks_a = 4, .stream.levels = 1, .stream.share = 100000, .stream.type = SN_F32};
    (void)sn_codec_parse(&op.attr.stream.codec[0], name);
    int64_t room = sn_coded_bytes(&op.attr.stream.codec[0], SN_F32, 100000);
    op.in[0] = op.out[0] = view(2, 1, 4 * room);
    return op;
}

static void streams_cost_what_goes(const struct sn_software *s)
{
    static const int four[] = {1, 1, 4, 1};
    struct sn_machine m = cluster();
    struct sn_pricer p = pricer_of(&m, s, four);
    struct sn_op fixed = coded_exchange("int4"), sized = coded_exchange("mpc");
    double exact = sn_price_collective(&p, SN_ALL_TO_ALL, 53128, SN_U8, SN_GROUP_REPLICA);
    int64_t likely = sn_coded_likely(&sized.attr.stream.codec[0], SN_F32, 100000), n = 0;
    double ahead = sn_price_collective(&p, SN_ALL_TO_ALL, 8, SN_U8, SN_GROUP_REPLICA);
    double rest = sn_price_collective(&p, SN_ALL_TO_ALL, likely, SN_U8, SN_GROUP_REPLICA);
    enum sn_collective kind;
    tap_ok(near(sn_price_comm(&p, &prog, &fixed), exact),
           "streams of a fixed rate: 50,000 bytes of codes and 782 scales of a share");
    tap_ok(likely < 400000 && near(sn_price_comm(&p, &prog, &sized), ahead + rest),
           "lossless ones: their lengths, and what is likely");
    tap_ok(sn_op_collective(&sized, &kind, &n) && n == likely, "which is their traffic, too");
    fixed.attr.stream.codec[1] = (struct sn_codec){.kind = SN_CODEC_INT8};
    fixed.attr.stream.levels = 2;
    fixed.in[0].cols = fixed.in[0].ld =
        4 * sn_coded_room(fixed.attr.stream.codec, 2, SN_F32, fixed.attr.stream.share);
    tap_ok(near(sn_price_comm(&p, &prog, &fixed), exact), "room for a milder codec costs nothing");
}

/* 1000 x 500 and 500 x 2000 elements are read for their scale, read to be rounded, and written; the
 * product then reads bytes, at its own rate. */
static void products_in_8_bits_pay_for_their_rounding(const struct sn_software *s)
{
    struct sn_machine m = cluster();
    struct sn_op whole = gemm_of(1000, 2000, 500), blocks = whole, plain = whole;
    double flops = 2.0 * 1000 * 2000 * 500, elements = 1000.0 * 500 + 500.0 * 2000;
    double width = 2e12 * 0.8, bf16 = flops * (1 + 0.1 + 0.025 + 0.05) / (300e12 * 0.8);
    whole.attr.gemm.fp8 = SN_FP8_BACKWARD;
    blocks.attr.gemm.fp8 = SN_FP8_LINES;
    tap_ok(near(price(&m, s, &whole), 5 * 4e-6 + bf16 + 6 * elements / width) &&
               near(price(&m, s, &blocks), 3 * 4e-6 + bf16 + 4 * elements / width),
           "without a rate of its own: in bf16, after four kernels or two");
    m.device.fp8 = (struct sn_gemm_rate){.peak = 600e12, .most = 0.7, .half_m = 200};
    double eight = flops * 1.2 / (600e12 * 0.7);
    tap_ok(near(price(&m, s, &whole), 5 * 4e-6 + eight + 5 * elements / width) &&
               near(price(&m, s, &blocks), 3 * 4e-6 + eight + 3 * elements / width),
           "with one: at that, and codes are written");
    m.device.fp8.peak = 1e18;
    double bytes = (double)sn_op_bytes(&prog, &plain) - elements;
    tap_ok(near(price(&m, s, &blocks), 3 * 4e-6 + bytes / 2e12 + 3 * elements / width),
           "or as long as bytes take");
    struct sn_measured known[] = {
        {.kind = SN_OP_GEMM, .dtype = SN_BF16, .m = 1000, .n = 2000, .k = 500, .seconds = 3e-5},
        {.kind = SN_OP_GEMM, .dtype = SN_U8, .m = 1000, .n = 2000, .k = 500, .seconds = 2e-5}};
    m.device.measured = known;
    m.device.n_measured = 2;
    tap_ok(near(price(&m, s, &plain), 3e-5) && near(price(&m, s, &blocks), 2e-5),
           "and what was measured of them is theirs alone");
}

/* The matrix that an activation leaves for its slope, or that the slope reads, at the rate of what
 * moves elements. Alone an activation reads the product's result once more, and is launched. */
static void an_epilogue_costs_what_it_moves(const struct sn_software *s)
{
    struct sn_machine m = cluster();
    struct sn_op plain = gemm_of(1000, 2000, 500), act = plain, slope = plain, sums = plain;
    struct sn_op alone_act = op_of(SN_OP_ACT);
    double width = 2e12 * 0.8, matrix = 1000.0 * 2000 * 2, product = price(&m, s, &plain);
    act.attr.gemm.epilogue = SN_EPILOGUE_ACT;
    act.out[1] = view(0, 1000, 2000);
    slope.attr.gemm.epilogue = SN_EPILOGUE_ACT_DX;
    slope.in[4] = view(0, 1000, 2000);
    sums.attr.gemm.epilogue = SN_EPILOGUE_COLSUM;
    sums.out[1] = view(1, 1, 1000);
    alone_act.in[0] = alone_act.out[0] = view(0, 1000, 2000);
    tap_ok(near(price(&m, s, &act), product + matrix / width) &&
               near(price(&m, s, &slope), product + matrix / width) &&
               near(price(&m, s, &sums), product + 4000 / width),
           "an epilogue: what it reads and writes beside the product");
    double saved = product + price(&m, s, &alone_act) - price(&m, s, &act);
    tap_ok(near(saved, 4e-6 + (matrix + 1e6) / width),
           "in one they save a launch and a pass over the product's result");
    struct sn_measured known[] = {
        {.kind = SN_OP_GEMM, .dtype = SN_BF16, .m = 1000, .n = 2000, .k = 500, .seconds = 3e-5},
        {.kind = SN_OP_GEMM,
         .dtype = SN_BF16,
         .epilogue = SN_EPILOGUE_ACT,
         .m = 1000,
         .n = 2000,
         .k = 500,
         .seconds = 3.5e-5}};
    m.device.measured = known;
    m.device.n_measured = 2;
    tap_ok(near(price(&m, s, &plain), 3e-5) && near(price(&m, s, &act), 3.5e-5),
           "what was measured with it and without is each one's own");
    m.device.n_measured = 1;
    tap_ok(near(price(&m, s, &slope), 3e-5 * (product + matrix / width) / product),
           "a product without it says by how much the formula errs");
}

static void measured_shapes_win(const struct sn_software *s)
{
    struct sn_machine m = cluster();
    struct sn_op a = gemm_of(1000, 2000, 500), b = gemm_of(1000, 2000, 1000), n = norm_of(8, 8);
    double plain_a = price(&m, s, &a), plain_b = price(&m, s, &b), plain_n = price(&m, s, &n);
    struct sn_measured known[] = {
        {.kind = SN_OP_GEMM, .dtype = SN_BF16, .m = 1000, .n = 2000, .k = 500, .seconds = 3e-5},
        {.kind = SN_OP_GEMM, .dtype = SN_BF16, .m = 10, .n = 20, .k = 5, .seconds = 1},
        {.kind = SN_OP_GEMM, .dtype = SN_F32, .m = 1000, .n = 2000, .k = 1000, .seconds = 1}};
    m.device.measured = known;
    m.device.n_measured = 3;
    tap_ok(near(price(&m, s, &a), 3e-5), "an equal shape is the price");
    tap_ok(near(price(&m, s, &b), plain_b * 3e-5 / plain_a),
           "else the nearest of its kind and type says by how much the formula errs");
    tap_ok(price(&m, s, &n) == plain_n, "other kinds keep their formula");
    struct sn_measured key;
    sn_price_key(&prog, &b, &key);
    tap_ok(key.kind == SN_OP_GEMM && key.dtype == SN_BF16 && key.m == 1000 && key.n == 2000 &&
               key.k == 1000,
           "the key of a product is its own sizes");
}

static void habits_change_prices(const struct sn_software *s)
{
    struct sn_machine m = cluster();
    struct sn_op gemm = gemm_of(4096, 4096, 4096), norm = norm_of(4096, 4096);
    struct sn_op forward = attention_of(SN_OP_ATTENTION), add = op_of(SN_OP_ADD);
    add.in[0] = add.in[1] = add.out[0] = view(0, 4096, 4096);
    struct sn_software other = *s;
    other.gemm = 1.5;
    other.fused_norm = false;
    other.norm_unfused = 3;
    other.elementwise = 2;
    other.overhead = 2;
    double extra = 4e-6; /* the second overhead */
    tap_ok(near(price(&m, &other, &gemm) - extra, 1.5 * price(&m, s, &gemm) - 0.5 * 4e-6),
           "slower products");
    tap_ok(near(price(&m, &other, &norm) - 8e-6, 3 * (price(&m, s, &norm) - 4e-6)),
           "unfused norms");
    tap_ok(near(price(&m, &other, &add) - 8e-6, 2 * (price(&m, s, &add) - 4e-6)), "unfused adds");
    double seconds[SN_NATTENTIONS];
    for (int k = 0; k < SN_NATTENTIONS; k++) {
        other = *s;
        other.attention = (enum sn_attention_kernel)k;
        seconds[k] = price(&m, &other, &forward);
    }
    tap_ok(seconds[SN_ATTENTION_FLASH2] == seconds[SN_ATTENTION_FLASH1] &&
               seconds[SN_ATTENTION_FUSED] > 2 * seconds[SN_ATTENTION_FLASH2] &&
               seconds[SN_ATTENTION_TORCH] > 2 * seconds[SN_ATTENTION_FUSED],
           "scores that cross memory cost: %.2g, %.2g, %.2g s", seconds[SN_ATTENTION_FLASH2],
           seconds[SN_ATTENTION_FUSED], seconds[SN_ATTENTION_TORCH]);
    m.device.gemm[SN_F32].peak = 20e12;
    struct sn_op odd = forward, even = forward;
    odd.attr.attention.head_dim = 108;
    even.attr.attention.head_dim = 104;
    other.attention = SN_ATTENTION_FUSED;
    tap_ok(price(&m, &other, &odd) > 1.5 * price(&m, &other, &even),
           "heads whose rows are no multiple of 16 bytes miss the tensor cores");
    other = *s;
    other.layer_fixed = 0.5;
    other.step_fixed = 0.25;
    struct sn_op decide = op_of(SN_OP_CLIP_SCALE);
    tap_ok(near(price(&m, &other, &forward) - price(&m, s, &forward), 0.5) &&
               near(price(&m, &other, &decide), 0.25 + 4e-6),
           "fixed costs of a layer and of a step");
}

static void collectives_take_the_slowest_level(const struct sn_software *s)
{
    struct sn_machine m = cluster();
    const int node[] = {8, 1, 4, 1}, flat[] = {1, 1, 32, 1}, pipe[] = {2, 1, 1, 8};
    struct sn_pricer p = pricer_of(&m, s, node);
    const int64_t n = 1 << 28; /* bf16: 2^29 bytes */
    double bytes = 2.0 * (double)n, wire = 20e-6 + 2 * 3 * 5e-6;
    tap_ok(near(sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_TENSOR),
                wire + 2 * 7.0 / 8 * bytes / 240e9),
           "all-reduce in a node: 2(n-1)/n over its links");
    tap_ok(near(sn_price_collective(&p, SN_REDUCE_SCATTER, n / 8, SN_BF16, SN_GROUP_TENSOR),
                20e-6 + 3 * 5e-6 + 7.0 / 8 * bytes / 240e9),
           "reduce-scatter: half of it");
    double nic = 200e9 / 8 * 0.9;
    tap_ok(near(sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA),
                20e-6 + 2 * 2 * 30e-6 + 2 * 3.0 / 4 * bytes / nic),
           "eight groups share a node's NICs");
    p = pricer_of(&m, s, flat);
    double latency = 20e-6 + 2 * (3 * 5e-6 + 2 * 30e-6);
    tap_ok(near(sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA),
                latency + 2 * 31.0 / 32 * bytes / (8 * nic)),
           "one group of all: eight members carry what leaves a node");
    tap_ok(near(sn_price_collective(&p, SN_ALL_TO_ALL, n / 32, SN_BF16, SN_GROUP_DATA),
                20e-6 + 3 * 5e-6 + 2 * 30e-6 + 24.0 / 32 * bytes / nic),
           "all-to-all: what is for other nodes");
    m.algorithm = SN_ALGORITHM_DIRECT;
    tap_ok(near(sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA),
                latency + 2 * 24.0 / 32 * bytes / nic),
           "direct: each member sends to 24 others beyond its node");
    m.level[1].crowd = 0.8;
    tap_ok(near(sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA),
                latency + 2 * 24.0 / 32 * bytes / (0.8 * nic)),
           "whose messages meet at the receivers");
    p.span[SN_GROUP_DATA].at[1] = 2;
    double pair = sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA);
    m.level[1].crowd = 0;
    tap_ok(pair == sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA),
           "unless there are two nodes alone");
    m.algorithm = SN_ALGORITHM_RING;
    p = pricer_of(&m, s, pipe);
    tap_ok(near(sn_price_collective(&p, SN_SEND, n, SN_BF16, SN_GROUP_PIPELINE),
                20e-6 + 30e-6 + bytes / (50e9 * 0.9)),
           "a transfer to the next node: two devices share four NICs");
    tap_ok(sn_price_collective(&p, SN_RECV, n, SN_BF16, SN_GROUP_PIPELINE) == 0 &&
               sn_price_collective(&p, SN_ALL_REDUCE, n, SN_BF16, SN_GROUP_DATA) == 0,
           "a receive, and a group of one, cost nothing");
}

static void sizes_and_switches_change_rates(const struct sn_software *s)
{
    struct sn_machine m = cluster();
    m.launch = m.level[0].latency = 0;
    m.level[0].half_bytes = 1 << 20;
    const int node[] = {8, 1, 1, 1}, part[] = {4, 1, 2, 1};
    struct sn_pricer p = pricer_of(&m, s, node), q = pricer_of(&m, s, part);
    double half = 2 * 7.0 / 8 * (1 << 20) / 240e9;
    tap_ok(
        near(sn_price_collective(&p, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_TENSOR), 2 * half),
        "a message of half_bytes reaches half of the rate");
    double before = sn_price_collective(&q, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_TENSOR);
    m.level[0].all_reduce = 1.25;
    tap_ok(near(sn_price_collective(&p, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_TENSOR),
                2 * half / 1.25) &&
               sn_price_collective(&q, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_TENSOR) == before,
           "switches sum for more than half of a node, and only then");
    struct sn_machine rings = m;
    const int wide[] = {1, 1, 32, 1};
    rings.level[0].hop = 1e-3;
    rings.level[1].hop = 1;
    struct sn_pricer w = pricer_of(&rings, s, wide), v = pricer_of(&m, s, wide);
    double steps = sn_price_collective(&w, SN_ALL_GATHER, 1, SN_F32, SN_GROUP_DATA) -
                   sn_price_collective(&v, SN_ALL_GATHER, 1, SN_F32, SN_GROUP_DATA);
    tap_ok(near(steps + 2 * 30e-6, 3 + 28e-3),
           "a ring of 32 on 4 nodes: 3 steps between nodes, 28 in them");
    struct sn_machine mesh = m;
    mesh.level[0].peer = 50e9;
    struct sn_pricer r = pricer_of(&mesh, s, part);
    tap_ok(
        near(sn_price_collective(&r, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_TENSOR), 2 * before),
        "where pairs have links of their own, four devices use three of them each");
    struct sn_software other = *s;
    other.bandwidth[SN_AXIS_TENSOR] = 0.5;
    other.grad_wire_bytes = 2;
    struct sn_pricer slow = pricer_of(&m, &other, part), usual = pricer_of(&m, s, part);
    tap_ok(near(sn_price_collective(&slow, SN_ALL_REDUCE, 1 << 19, SN_BF16, SN_GROUP_TENSOR),
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
    struct sn_machine m = cluster();
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
    kernels_follow_their_formulas(&s);
    products_in_8_bits_pay_for_their_rounding(&s);
    codecs_move_their_bytes_where_no_rate_is_known(&s);
    codecs_have_rates_of_their_own(&s);
    streams_cost_what_goes(&s);
    an_epilogue_costs_what_it_moves(&s);
    measured_shapes_win(&s);
    habits_change_prices(&s);
    collectives_take_the_slowest_level(&s);
    sizes_and_switches_change_rates(&s);
    levels_sum_to_the_traffic(&s);
    return tap_done();
}
