/*
 * One hop or two: where the ranks that share experts out lie, what an exchange takes either way,
 * and when the second pays.
 */
#include "lib/cost/hops.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <string.h>

static const char machine_text[] =
    "name: test\n"
    "device: {memory: 80GiB, bandwidth: 2.0e12, peak: {bf16: 3.0e14, fp32: 1.0e13}}\n"
    "node: {devices: 8}\n"
    "launch: 2.0e-5\n"
    "links:\n"
    "  - {name: node, ranks: 8, latency: 3.0e-6, device: 3.0e11, message: 5.0e-7}\n"
    "  - {name: spine, ranks: 0, latency: 1.0e-5, device: 5.0e10, domain: 2.0e11, message: "
    "4.0e-6}\n";

static struct sn_machine machine;
static struct sn_software software;

static struct sn_config config_of(int data, int tensor, int expert)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.model.family = SN_MIXTRAL;
    c.model.hidden = 1024;
    c.model.seq = 1024;
    c.model.experts = (struct sn_experts_config){.count = 64, .top_k = 2, .every = 1};
    c.train.precision = SN_BF16;
    c.layout.data = data;
    c.layout.tensor = tensor;
    c.layout.expert = expert;
    c.layout.expert_buffer = 2;
    return c;
}

static struct sn_hops choose(const struct sn_config *c)
{
    struct sn_grid g;
    struct sn_hops h = {.node = -1};
    struct sn_err err = {0};
    if (sn_job_grid(&g, c, &err) == SN_OK)
        sn_hops_choose(&h, c, &g, &machine, &software);
    else
        tap_ok(false, "%s", err.text);
    return h;
}

static void places_are_told(void)
{
    static const struct {
        int data, tensor, expert, even;
        bool apart;
        const char *why;
    } of[] = {
        {64, 1, 64, 8, false, "8 on each of 8 nodes"},
        {64, 2, 64, 4, false, "4 on each of 16 nodes"},
        {64, 1, 16, 8, false, "8 on each of 2 nodes"},
        {64, 1, 8, 0, false, "the ranks that share experts out are on one node"},
        {64, 1, 4, 0, false, "the ranks that share experts out are on one node"},
        {64, 8, 16, 0, false, "each rank that shares experts out is on a node of its own"},
        {64, 1, 8, 0, true, "each rank that shares experts out is on a node of its own"},
        {64, 1, 16, 2, true, "2 on each of 8 nodes"},
        {64, 3, 64, 0, false,
         "64 ranks that share experts out, 3 apart, lie unevenly on nodes of 8"},
        {6, 2, 6, 0, false, "6 ranks that share experts out, 2 apart, lie unevenly on nodes of 8"},
        {8, 1, 1, 0, false, "no experts are shared out"},
    };
    static const enum sn_order_axis outside[] = {
        SN_ORDER_TENSOR, SN_ORDER_CONTEXT, SN_ORDER_DATA_AXIS, SN_ORDER_EXPERT, SN_ORDER_PIPELINE};
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        struct sn_config c = config_of(of[i].data, of[i].tensor, of[i].expert);
        if (of[i].apart) {
            c.layout.n_axis_order = 5;
            memcpy(c.layout.axis_order, outside, sizeof(outside));
        }
        struct sn_hops h = choose(&c);
        tap_ok(h.even == of[i].even, "data %d, tensor %d, expert %d%s: %d ranks on each node",
               of[i].data, of[i].tensor, of[i].expert, of[i].apart ? " outside data" : "", h.even);
        tap_text(h.why, of[i].why, "and why");
    }
}

/* A group of 64 on 8 nodes of 8; no ramp, so that V / B is plain. */
static void prices_are_the_formula(void)
{
    struct sn_config c = config_of(64, 1, 64);
    struct sn_hops h = choose(&c);
    double e = 1024.0 * 2 * 1024 * 2, out = 2.0e11 / 8;
    double one = 2.0e-5 + 3 * 3.0e-6 + 3 * 1.0e-5 + 7 * 5.0e-7 + 56 * 4.0e-6 + e * 56 / 64 / out;
    double two = 2.0e-5 + 3 * 3.0e-6 + 7 * 8 * 5.0e-7 + e * 7 / 8 / 3.0e11;
    two += 2.0e-5 + 3 * 1.0e-5 + 7 * 4.0e-6 + e * 7 / 8 / out;
    tap_ok(fabs(h.one - one) < 1e-9 * one && fabs(h.two - two) < 1e-9 * two,
           "one hop: %.6g us, want %.6g; two: %.6g us, want %.6g", 1e6 * h.one, 1e6 * one,
           1e6 * h.two, 1e6 * two);
}

/* 49 messages between nodes less, 49 inside more and a launch: 152 us less, against seven eighths
 * of the rows inside a node instead of at most seven sixty-fourths. */
static void two_hops_pay_where_messages_are_short(void)
{
    int few = 0, many = 0;
    for (int tokens = 256; tokens <= 65536; tokens *= 2) {
        struct sn_config c = config_of(64, 1, 64);
        c.model.seq = tokens;
        struct sn_hops h = choose(&c);
        bool pays = h.two < h.one;
        tap_ok(h.node == (pays ? 8 : 1), "%d tokens: %d ranks of a node first (%.4g us, %.4g us)",
               tokens, h.node, 1e6 * h.one, 1e6 * h.two);
        few += pays && tokens <= 1024;
        many += !pays && tokens >= 16384;
    }
    tap_ok(few == 3 && many == 3, "up to 1024 tokens two hops are cheaper, from 16384 on one is");
    struct sn_config c = config_of(16, 1, 16);
    c.model.seq = 4096;
    struct sn_hops h = choose(&c);
    tap_ok(h.even == 8 && h.node == 1, "16 ranks save 7 messages: one hop (%.4g us, %.4g us)",
           1e6 * h.one, 1e6 * h.two);
}

static void what_is_named_stands(void)
{
    struct sn_config c = config_of(64, 1, 64);
    c.layout.expert_node = 1;
    struct sn_hops h = choose(&c);
    tap_ok(h.node == 1 && h.two < h.one, "expert_node 1 stands where two hops are cheaper");
    c.layout.expert_node = 4;
    h = choose(&c);
    tap_ok(h.node == 4 && h.even == 8 && h.two > 0, "so do 4 of the 8 of a node");
}

int main(void)
{
    struct sn_err err = {0};
    sn_software_default(&software);
    if (!tap_ok(sn_machine_parse(&machine, machine_text, strlen(machine_text), "m.yaml", &err) ==
                    SN_OK,
                "the machine is read %s", err.text))
        return tap_done();
    places_are_told();
    prices_are_the_formula();
    two_hops_pay_where_messages_are_short();
    what_is_named_stands();
    sn_machine_fini(&machine);
    return tap_done();
}
