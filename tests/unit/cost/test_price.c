/*
 * test_price.c - the price of kernels.
 */
#include "kernels/codec.h"
#include "lib/cost/price.h"
#include "tests/lib/price_test.h"
#include "tests/lib/tap.h"

static struct sn_op gemm_of(int64_t m, int64_t n, int64_t k)
{
    struct sn_op op = price_op(SN_OP_GEMM);
    op.in[0] = price_view(0, m, k);
    op.in[1] = price_view(0, k, n);
    op.out[0] = price_view(0, m, n);
    return op;
}

static struct sn_op norm_of(int64_t rows, int64_t cols)
{
    struct sn_op op = price_op(SN_OP_RMSNORM);
    op.in[0] = op.out[0] = price_view(0, rows, cols);
    return op;
}

static struct sn_op attention_of(int kind)
{
    struct sn_op op = price_op(kind);
    for (int i = 0; i < 3; i++)
        op.in[i] = price_view(0, 4096, 1024);
    op.out[0] = price_view(0, 4096, 1024);
    op.attr = (struct sn_attr){.attention.heads = 8,
                               .attention.kv_heads = 8,
                               .attention.head_dim = 128,
                               .position.seq = 2048};
    return op;
}

static const int alone[] = {1, 1, 1, 1, 1};

static double price(const struct sn_machine *m, const struct sn_software *s, const struct sn_op *op)
{
    struct sn_pricer p = price_pricer(m, s, alone);
    return sn_price_op(&p, &price_program, op);
}

/* Heads of d columns, and of e of values: d + e forward, 3 d + 2 e backward. */
static void narrower_values_cost_less(void)
{
    struct sn_op op = attention_of(SN_OP_ATTENTION), back = attention_of(SN_OP_ATTENTION_DX);
    int64_t mnk[3];
    op.attr.attention.v_dim = back.attr.attention.v_dim = 64;
    sn_op_shape(&op, mnk);
    double pairs = 4096.0 * 2048 * 8;
    tap_ok(sn_op_flops(&op) == pairs * (128 + 64), "attention with narrower values, forward");
    tap_ok(sn_op_flops(&back) == pairs * (3 * 128 + 2 * 64), "and backward");
    tap_ok(mnk[1] == 8 * 96, "its width is the mean of both");
}

static void kernels_follow_their_formulas(const struct sn_software *s)
{
    struct sn_machine m = price_cluster();
    struct sn_op gemm = gemm_of(1000, 2000, 500), norm = norm_of(1000, 4096);
    struct sn_op forward = attention_of(SN_OP_ATTENTION), back = attention_of(SN_OP_ATTENTION_DX);
    double flops = 2.0 * 1000 * 2000 * 500, lost = 1 + 0.1 + 0.025 + 0.05;
    tap_ok(price_near(price(&m, s, &gemm), 4e-6 + flops * lost / (300e12 * 0.8)),
           "GEMM: by its sizes");
    double bytes = (double)sn_op_bytes(&price_program, &norm);
    tap_ok(price_near(price(&m, s, &norm), 4e-6 + (bytes + 1e6) / (2e12 * 0.5)),
           "a norm: by its bytes and those that are lost");
    flops = 2.0 * 4096 * 2048 * 1024;
    tap_ok(price_near(price(&m, s, &forward), 4e-6 + flops * (1 + 256.0 / 2048) / (300e12 * 0.5)),
           "attention, forward");
    tap_ok(
        price_near(price(&m, s, &back), 4e-6 + 2.5 * flops * (1 + 256.0 / 2048) / (300e12 * 0.4)),
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
    struct sn_op op = price_op(kind);
    op.attr = (struct sn_attr){.blocks_a = 8,
                               .stream.levels = 1,
                               .stream.share = 1000,
                               .stream.type = SN_F32,
                               .inverse = false};
    (void)sn_codec_parse(&op.attr.stream.codec[0], name);
    int64_t room = sn_coded_bytes(&op.attr.stream.codec[0], SN_F32, 1000);
    bool encodes = kind == SN_OP_ENCODE;
    *(encodes ? &op.out[0] : &op.in[0]) = price_view(2, 8, room);
    *(encodes ? &op.in[0] : &op.out[0]) = price_view(1, 80, 100);
    return op;
}

static void codecs_move_their_bytes_where_no_rate_is_known(const struct sn_software *s)
{
    struct sn_machine m = price_cluster();
    struct sn_op op = coded(SN_OP_ENCODE, "int8"), sum = coded(SN_OP_DECODE, "int8");
    double stream = 8 * 1032, values = 32000; /* 1,000 codes and 8 scales */
    double fixed = 4e-6 + 1e6 / (2e12 * 0.8);
    tap_ok(price_near(price(&m, s, &op), fixed + (values + stream) / (2e12 * 0.8)),
           "an encoding: values and streams");
    op.in[1] = op.out[1] = price_view(1, 80, 100);
    tap_ok(price_near(price(&m, s, &op), fixed + (4 * values + stream) / (2e12 * 0.8)),
           "with a difference it reads another operand, with feedback it reads and writes one");
    sum.attr.inverse = true;
    sum.out[0] = price_view(1, 10, 100);
    tap_ok(price_near(price(&m, s, &sum), fixed + (values / 8 + stream) / (2e12 * 0.8)),
           "a sum of 8 streams reads 8 and writes one");
    sum.in[1] = price_view(1, 10, 100);
    sum.acc[0] = SN_ACC_ADD;
    tap_ok(price_near(price(&m, s, &sum), fixed + (3 * values / 8 + stream) / (2e12 * 0.8)),
           "and an addend, and what it adds to");
    op = coded(SN_OP_ENCODE, "mpc");
    double likely = 8.0 * (double)sn_coded_likely(&op.attr.stream.codec[0], SN_F32, 1000);
    tap_ok(likely < (double)(8 * op.out[0].cols) &&
               price_near(price(&m, s, &op), fixed + (values + likely) / (2e12 * 0.8)),
           "a lossless stream counts as long as it is likely to be");
}

static void codecs_have_rates_of_their_own(const struct sn_software *s)
{
    struct sn_machine m = price_cluster();
    struct sn_codec_rate int8 = {{.kind = SN_CODEC_INT8}, SN_F32, 4e9, 8e9, 0}, found;
    struct sn_codec_rate zfp = {{.kind = SN_CODEC_ZFP, .rate = 8}, SN_F32, 1e9, 2e9, 5e8};
    struct sn_op op = coded(SN_OP_ENCODE, "int8"), sum = coded(SN_OP_DECODE, "int8");
    tap_ok(sn_codec_rates_add(&m.device.codecs, &int8, NULL) == SN_OK &&
               sn_codec_rates_add(&m.device.codecs, &zfp, NULL) == SN_OK && m.device.codecs.n == 2,
           "two rows");
    tap_ok(price_near(price(&m, s, &op), 4e-6 + 32000 / 4e9), "encoding, by bytes of values");
    tap_ok(price_near(price(&m, s, &sum), 4e-6 + 32000 / 8e9), "decoding");
    sum.attr.inverse = true;
    sum.out[0] = price_view(1, 10, 100);
    tap_ok(price_near(price(&m, s, &sum), 4e-6 + 32000 / 8e9), "a sum decodes every stream");
    op.out[1] = price_view(1, 80, 100);
    tap_ok(price_near(price(&m, s, &op), 4e-6 + 32000 / 4e9 + 32000 / 8e9 + 64000 / (2e12 * 0.8)),
           "feedback: by a decoding, and reading and writing it");
    op.in[1] = price_view(1, 80, 100);
    op.out[1].buf = -1;
    tap_ok(price_near(price(&m, s, &op), 4e-6 + 32000 / 4e9 + 32000 / (2e12 * 0.8)),
           "a difference");
    op = coded(SN_OP_ENCODE, "zfp-12");
    op.out[1] = price_view(1, 80, 100);
    tap_ok(price_near(price(&m, s, &op), 4e-6 + 32000 / 5e8),
           "the nearest rate of zfp, with feedback");
    op = coded(SN_OP_ENCODE, "int8-hadamard");
    tap_ok(price(&m, s, &op) < 5e-6, "another word is another codec: by its bytes");
    op = coded(SN_OP_ENCODE, "int8");
    op.in[0].buf = 0;
    tap_ok(price_near(price(&m, s, &op), 4e-6 + 16000 / 2e9) &&
               sn_codec_rates_find(&found, &m.device.codecs, &op.attr.stream.codec[0], SN_BF16) &&
               found.encode == 2e9,
           "of another type as many values");
    sn_codec_rates_fini(&m.device.codecs);
}

/* 1000 x 500 and 500 x 2000 elements are read for their scale, read to be rounded, and written; the
 * product then reads bytes, at its own rate. */
static void products_in_8_bits_pay_for_their_rounding(const struct sn_software *s)
{
    struct sn_machine m = price_cluster();
    struct sn_op whole = gemm_of(1000, 2000, 500), blocks = whole, plain = whole;
    double flops = 2.0 * 1000 * 2000 * 500, elements = 1000.0 * 500 + 500.0 * 2000;
    double width = 2e12 * 0.8, bf16 = flops * (1 + 0.1 + 0.025 + 0.05) / (300e12 * 0.8);
    whole.attr.gemm.fp8 = SN_FP8_BACKWARD;
    blocks.attr.gemm.fp8 = SN_FP8_LINES;
    tap_ok(price_near(price(&m, s, &whole), 5 * 4e-6 + bf16 + 6 * elements / width) &&
               price_near(price(&m, s, &blocks), 3 * 4e-6 + bf16 + 4 * elements / width),
           "without a rate of its own: in bf16, after four kernels or two");
    m.device.fp8 = (struct sn_gemm_rate){.peak = 600e12, .most = 0.7, .half_m = 200};
    double eight = flops * 1.2 / (600e12 * 0.7);
    tap_ok(price_near(price(&m, s, &whole), 5 * 4e-6 + eight + 5 * elements / width) &&
               price_near(price(&m, s, &blocks), 3 * 4e-6 + eight + 3 * elements / width),
           "with one: at that, and codes are written");
    m.device.fp8.peak = 1e18;
    double bytes = (double)sn_op_bytes(&price_program, &plain) - elements;
    tap_ok(price_near(price(&m, s, &blocks), 3 * 4e-6 + bytes / 2e12 + 3 * elements / width),
           "or as long as bytes take");
    struct sn_measured known[] = {
        {.kind = SN_OP_GEMM, .dtype = SN_BF16, .m = 1000, .n = 2000, .k = 500, .seconds = 3e-5},
        {.kind = SN_OP_GEMM, .dtype = SN_U8, .m = 1000, .n = 2000, .k = 500, .seconds = 2e-5}};
    m.device.measured = known;
    m.device.n_measured = 2;
    tap_ok(price_near(price(&m, s, &plain), 3e-5) && price_near(price(&m, s, &blocks), 2e-5),
           "and what was measured of them is theirs alone");
}

/* The matrix that an activation leaves for its slope, or that the slope reads, at the rate of what
 * moves elements. Alone an activation reads the product's result once more, and is launched. */
static void an_epilogue_costs_what_it_moves(const struct sn_software *s)
{
    struct sn_machine m = price_cluster();
    struct sn_op plain = gemm_of(1000, 2000, 500), act = plain, slope = plain, sums = plain;
    struct sn_op alone_act = price_op(SN_OP_ACT);
    double width = 2e12 * 0.8, matrix = 1000.0 * 2000 * 2, product = price(&m, s, &plain);
    act.attr.gemm.epilogue = SN_EPILOGUE_ACT;
    act.out[1] = price_view(0, 1000, 2000);
    slope.attr.gemm.epilogue = SN_EPILOGUE_ACT_DX;
    slope.in[4] = price_view(0, 1000, 2000);
    sums.attr.gemm.epilogue = SN_EPILOGUE_COLSUM;
    sums.out[1] = price_view(1, 1, 1000);
    alone_act.in[0] = alone_act.out[0] = price_view(0, 1000, 2000);
    tap_ok(price_near(price(&m, s, &act), product + matrix / width) &&
               price_near(price(&m, s, &slope), product + matrix / width) &&
               price_near(price(&m, s, &sums), product + 4000 / width),
           "an epilogue: what it reads and writes beside the product");
    double saved = product + price(&m, s, &alone_act) - price(&m, s, &act);
    tap_ok(price_near(saved, 4e-6 + (matrix + 1e6) / width),
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
    tap_ok(price_near(price(&m, s, &plain), 3e-5) && price_near(price(&m, s, &act), 3.5e-5),
           "what was measured with it and without is each one's own");
    m.device.n_measured = 1;
    tap_ok(price_near(price(&m, s, &slope), 3e-5 * (product + matrix / width) / product),
           "a product without it says by how much the formula errs");
}

static void measured_shapes_win(const struct sn_software *s)
{
    struct sn_machine m = price_cluster();
    struct sn_op a = gemm_of(1000, 2000, 500), b = gemm_of(1000, 2000, 1000), n = norm_of(8, 8);
    double plain_a = price(&m, s, &a), plain_b = price(&m, s, &b), plain_n = price(&m, s, &n);
    struct sn_measured known[] = {
        {.kind = SN_OP_GEMM, .dtype = SN_BF16, .m = 1000, .n = 2000, .k = 500, .seconds = 3e-5},
        {.kind = SN_OP_GEMM, .dtype = SN_BF16, .m = 10, .n = 20, .k = 5, .seconds = 1},
        {.kind = SN_OP_GEMM, .dtype = SN_F32, .m = 1000, .n = 2000, .k = 1000, .seconds = 1}};
    m.device.measured = known;
    m.device.n_measured = 3;
    tap_ok(price_near(price(&m, s, &a), 3e-5), "an equal shape is the price");
    tap_ok(price_near(price(&m, s, &b), plain_b * 3e-5 / plain_a),
           "else the nearest of its kind and type says by how much the formula errs");
    tap_ok(price(&m, s, &n) == plain_n, "other kinds keep their formula");
    struct sn_measured key;
    sn_price_key(&price_program, &b, &key);
    tap_ok(key.kind == SN_OP_GEMM && key.dtype == SN_BF16 && key.m == 1000 && key.n == 2000 &&
               key.k == 1000,
           "the key of a product is its own sizes");
}

static void habits_change_prices(const struct sn_software *s)
{
    struct sn_machine m = price_cluster();
    struct sn_op gemm = gemm_of(4096, 4096, 4096), norm = norm_of(4096, 4096);
    struct sn_op forward = attention_of(SN_OP_ATTENTION), add = price_op(SN_OP_ADD);
    add.in[0] = add.in[1] = add.out[0] = price_view(0, 4096, 4096);
    struct sn_software other = *s;
    other.gemm = 1.5;
    other.fused_norm = false;
    other.norm_unfused = 3;
    other.elementwise = 2;
    other.overhead = 2;
    double extra = 4e-6; /* the second overhead */
    tap_ok(price_near(price(&m, &other, &gemm) - extra, 1.5 * price(&m, s, &gemm) - 0.5 * 4e-6),
           "slower products");
    tap_ok(price_near(price(&m, &other, &norm) - 8e-6, 3 * (price(&m, s, &norm) - 4e-6)),
           "unfused norms");
    tap_ok(price_near(price(&m, &other, &add) - 8e-6, 2 * (price(&m, s, &add) - 4e-6)),
           "unfused adds");
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
    struct sn_op decide = price_op(SN_OP_CLIP_SCALE);
    tap_ok(price_near(price(&m, &other, &forward) - price(&m, s, &forward), 0.5) &&
               price_near(price(&m, &other, &decide), 0.25 + 4e-6),
           "fixed costs of a layer and of a step");
}

int main(void)
{
    struct sn_software s;
    sn_software_default(&s);
    kernels_follow_their_formulas(&s);
    narrower_values_cost_less();
    products_in_8_bits_pay_for_their_rounding(&s);
    codecs_move_their_bytes_where_no_rate_is_known(&s);
    codecs_have_rates_of_their_own(&s);
    an_epilogue_costs_what_it_moves(&s);
    measured_shapes_win(&s);
    habits_change_prices(&s);
    return tap_done();
}
