/*
 * search_test.h - a small run and a machine of nodes of four devices, whose layouts tests search.
 */
#ifndef SN_SEARCH_TEST_H
#define SN_SEARCH_TEST_H

#include "tests/lib/layout_test.h"

static const char machine_text[] =
    "name: test\n"
    "device: {memory: 1GiB, bandwidth: 1.0e11, overhead: 2.0e-6, peak: {fp32: 1.0e12, bf16: "
    "4.0e12},\n"
    "  moved: {norm: 0.5, half_bytes: 1.0e4}}\n"
    "node: {devices: 4}\n"
    "links:\n"
    "  - {name: node, ranks: 4, latency: 2.0e-6, device: 2.0e10, efficiency: 0.8}\n"
    "  - {name: spine, ranks: 0, latency: 1.0e-5, device: 4.0e9, domain: 8.0e9}\n";

static struct sn_config small_run(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.model.layers = 4;
    c.model.hidden = 256;
    c.model.heads = c.model.kv_heads = 4;
    c.model.ffn = 688;
    c.model.vocab = 1000;
    c.model.seq = 128;
    c.train.precision = SN_BF16;
    c.train.global_batch = 32;
    c.train.eval_every = 0;
    c.layout_named = 0;
    return c;
}

#endif
