/*
 * test_cost.c - machine files, and the price of operations on a machine.
 */
#include "lib/cost/price.h"
#include "tests/lib/tap.h"

static const char good[] = "flops: 1.0e12\nmemory_bandwidth: 1.0e11\noverhead: 2.0e-6\n";

static bool near(double got, double want)
{
    return fabs(got - want) <= 1e-12 * fabs(want); /* a few roundings */
}

static enum sn_status parse(struct sn_machine *m, const char *text, struct sn_err *err)
{
    return sn_machine_parse(m, text, strlen(text), "m.yaml", err);
}

static void a_machine_file_gives_rates(void)
{
    struct sn_machine m;
    struct sn_err err = {0};
    tap_ok(parse(&m, good, &err) == SN_OK && m.device.gemm[SN_BF16].peak == 1e12 &&
               m.device.bandwidth == 1e11 && m.device.overhead == 2e-6 && m.n_levels == 0,
           "three rates are read");
    char text[256];
    (void)snprintf(text, sizeof(text), "%sflops_of: {attention: 5e11}\n", good);
    tap_ok(parse(&m, text, &err) == SN_OK && m.device.rate_of[SN_OP_ATTENTION] == 5e11 &&
               m.device.rate_of[SN_OP_GEMM] == 0 && m.device.rate_of[SN_OP_ATTENTION_DX] == 0,
           "one kind has another rate, the others keep theirs");
}

static void bad_machine_files_are_explained(void)
{
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"", "flops, memory_bandwidth and overhead"},
        {"- 1\n", "flops, memory_bandwidth and overhead"},
        {"flops: 1e12\noverhead: 0\n", "memory_bandwidth: missing"},
        {"flops: fast\nmemory_bandwidth: 1e11\noverhead: 0\n", "m.yaml:1:8: flops: got 'fast'"},
        {"flops: 1000\nmemory_bandwidth: 1e11\noverhead: 0\n", "m.yaml:1:8: flops: 1000"},
        {"flops: 1e12\nmemory_bandwidth: -1e11\noverhead: 0\n", "m.yaml:2:19: memory_bandwidth"},
        {"flops: 1e12\nmemory_bandwidth: 1e11\noverhead: 5\n", "m.yaml:3:11: overhead"},
        {"flops: nan\nmemory_bandwidth: 1e11\noverhead: 0\n", "m.yaml:1:8: flops"},
        {"flop: 1e12\n", "m.yaml:1:1: unknown key 'flop'"},
        {"flops: 1e12\nmemory_bandwidth: 1e11\noverhead: 0\nflops_of: 3\n",
         "m.yaml:4:11: flops_of"},
        {"flops: 1e12\nmemory_bandwidth: 1e11\noverhead: 0\nflops_of: {adamw: 1e9}\n",
         "m.yaml:4:12: unknown key 'flops_of.adamw'"},
        {"flops: 1e12\nflops: 1e12\n", "flops"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sn_machine m = {.devices = 42};
        struct sn_err err = {0};
        enum sn_status st = parse(&m, bad[i].text, &err);
        bool said = strstr(err.text, bad[i].want) != NULL;
        tap_ok(st == SN_EINPUT && said && m.devices == 42, "case %zu: %s", i, err.text);
    }
    struct sn_machine m;
    struct sn_err err = {0};
    tap_ok(sn_machine_load(&m, "/nowhere/m.yaml", &err) == SN_EINPUT &&
               strstr(err.text, "/nowhere/m.yaml: cannot be opened"),
           "a missing file: %s", err.text);
}

/* A program of buffers alone; operations are written by hand. */
static struct sn_buffer bufs[] = {{.dtype = SN_BF16}, {.dtype = SN_F32}, {.dtype = SN_I32}};
static const struct sn_view none = {.buf = -1};

static struct sn_op op_of(int kind)
{
    struct sn_op op = {.kind = kind};
    for (int i = 0; i < SN_MAX_IN; i++)
        op.in[i] = none;
    for (int o = 0; o < SN_MAX_OUT; o++)
        op.out[o] = none;
    return op;
}

static struct sn_view view(int buf, int64_t rows, int64_t cols)
{
    return (struct sn_view){.buf = buf, .rows = rows, .cols = cols, .ld = 2 * cols};
}

static void bytes_count_operands_once_and_updates_twice(const struct sn_program *p)
{
    struct sn_op gemm = op_of(SN_OP_GEMM);
    gemm.in[0] = view(0, 10, 20);
    gemm.in[1] = view(0, 20, 30);
    gemm.out[0] = view(1, 10, 30);
    tap_ok(sn_op_bytes(p, &gemm) == 2 * 200 + 2 * 600 + 4 * 300, "a product: its three operands");
    gemm.acc[0] = SN_ACC_ADD;
    tap_ok(sn_op_bytes(p, &gemm) == 2 * 200 + 2 * 600 + 8 * 300, "what it adds to is read, too");
    gemm.acc[0] = SN_ACC_FIRST_WRITES;
    struct sn_program one = *p;
    one.micros = 1;
    tap_ok(sn_op_bytes(p, &gemm) == 1600 + 2400 && sn_op_bytes(&one, &gemm) == 1600 + 1200,
           "the first of several micro-batches is priced as the others; the only one writes");
    struct sn_op adamw = op_of(SN_OP_ADAMW);
    adamw.in[0] = adamw.out[0] = adamw.out[1] = adamw.out[2] = view(1, 1, 1000);
    adamw.out[3] = view(0, 1, 1000);
    tap_ok(sn_op_bytes(p, &adamw) == 30 * 1000, "AdamW: 28 bytes a parameter and a bf16 copy");
}

static void lookups_touch_the_rows_that_tokens_name(const struct sn_program *p)
{
    struct sn_op embed = op_of(SN_OP_EMBED), grad = op_of(SN_OP_EMBED_GRAD);
    embed.in[0] = grad.in[0] = view(2, 8, 1);
    embed.in[1] = view(0, 50000, 16);
    embed.out[0] = grad.in[1] = view(0, 8, 16);
    grad.out[0] = view(1, 50000, 16);
    tap_ok(sn_op_bytes(p, &embed) == 8 * 4 + 2 * 8 * 16 * 2, "embedding");
    embed.in[2] = view(0, 64, 16);
    tap_ok(sn_op_bytes(p, &embed) == 8 * 4 + 3 * 8 * 16 * 2, "embedding with positions");
    tap_ok(sn_op_bytes(p, &grad) == 8 * 4 + 8 * 16 * 2 + 2 * 8 * 16 * 4, "its gradient");
}

static struct sn_pricer pricer_of(const struct sn_machine *m, const struct sn_software *s)
{
    return (struct sn_pricer){.machine = m, .software = s, .precision = SN_F32, .threads = 1};
}

static void the_slower_of_arithmetic_and_memory_is_the_price(const struct sn_program *p)
{
    struct sn_machine m = {0};
    struct sn_software s;
    sn_software_default(&s);
    struct sn_pricer price = pricer_of(&m, &s);
    tap_ok(parse(&m, good, NULL) == SN_OK, "a machine to price for");
    struct sn_op gemm = op_of(SN_OP_GEMM);
    gemm.in[0] = view(1, 1000, 1000);
    gemm.in[1] = view(1, 1000, 1000);
    gemm.out[0] = view(1, 1000, 1000);
    tap_ok(near(sn_price_op(&price, p, &gemm), 2e-6 + 2e9 / 1e12), "a large product: arithmetic");
    m.device.rate_of[SN_OP_GEMM] = 1e15;
    tap_ok(near(sn_price_op(&price, p, &gemm), 2e-6 + 12e6 / 1e11),
           "on a machine with fast products: memory");
    struct sn_op decide = op_of(SN_OP_CLIP_SCALE), wait = op_of(SN_OP_WAIT);
    tap_ok(sn_price_op(&price, p, &decide) == 2e-6, "nothing but overhead");
    tap_ok(sn_price_op(&price, p, &wait) == 0, "communication has no price");
}

int main(void)
{
    const struct sn_program p = {.bufs = bufs, .n_bufs = 3, .micros = 4};
    a_machine_file_gives_rates();
    bad_machine_files_are_explained();
    bytes_count_operands_once_and_updates_twice(&p);
    lookups_touch_the_rows_that_tokens_name(&p);
    the_slower_of_arithmetic_and_memory_is_the_price(&p);
    return tap_done();
}
