/*
 * test_layouts.c - every layout gives the losses of one rank.
 *
 * Ranks are threads of this process. The long matrix over MPI is tests/equiv.
 */
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <string.h>

struct layout {
    const char *name;
    enum sn_family family;
    enum sn_dtype dtype;
    int data, tensor, context, pipeline, virtual_stages, micro_batch, zero, kv_heads;
    bool sequence_parallel;
    enum sn_schedule schedule;
    enum sn_recompute recompute;
    enum sn_context_kind kind;
};

int main(int argc, char **argv)
{
    static const struct layout cases[] = {
        {.name = "llama dp2", .family = SN_LLAMA, .data = 2},
        {.name = "llama tp2", .family = SN_LLAMA, .tensor = 2},
        {.name = "gpt2 tp3", .family = SN_GPT2, .tensor = 3},
        {.name = "neox tp2", .family = SN_GPT_NEOX, .tensor = 2},
        {.name = "llama tp2 sp", .family = SN_LLAMA, .tensor = 2, .sequence_parallel = true},
        {.name = "gpt2 tp3 sp", .family = SN_GPT2, .tensor = 3, .sequence_parallel = true},
        {.name = "llama tp4 kv2", .family = SN_LLAMA, .tensor = 4, .kv_heads = 2, .sequence_parallel = true},
        {.name = "llama pp2", .family = SN_LLAMA, .pipeline = 2},
        {.name = "gpt2 pp2 gpipe", .family = SN_GPT2, .pipeline = 2, .schedule = SN_GPIPE},
        {.name = "gpt2 pp4 zb", .family = SN_GPT2, .pipeline = 4, .schedule = SN_ZERO_BUBBLE},
        {.name = "llama pp2 v2", .family = SN_LLAMA, .pipeline = 2, .virtual_stages = 2, .schedule = SN_INTERLEAVED},
        {.name = "gpt2 pp2 v2", .family = SN_GPT2, .pipeline = 2, .virtual_stages = 2, .schedule = SN_INTERLEAVED},
        {.name = "llama cp2", .family = SN_LLAMA, .context = 2},
        {.name = "gpt2 cp3", .family = SN_GPT2, .context = 3},
        {.name = "llama cp2 a2a", .family = SN_LLAMA, .context = 2, .kind = SN_CONTEXT_ALL_TO_ALL},
        {.name = "gpt2 cp3 a2a mb2", .family = SN_GPT2, .context = 3, .kind = SN_CONTEXT_ALL_TO_ALL, .micro_batch = 2},
        {.name = "llama dp2 z1", .family = SN_LLAMA, .data = 2, .zero = 1},
        {.name = "gpt2 dp3 z2", .family = SN_GPT2, .data = 3, .zero = 2},
        {.name = "llama dp2 z3", .family = SN_LLAMA, .data = 2, .zero = 3},
        {.name = "gpt2 dp3 z3", .family = SN_GPT2, .data = 3, .zero = 3},
        {.name = "llama full", .family = SN_LLAMA, .recompute = SN_RECOMPUTE_FULL},
        {.name = "gpt2 selective", .family = SN_GPT2, .recompute = SN_RECOMPUTE_SELECTIVE},
        {.name = "llama all", .family = SN_LLAMA, .data = 2, .tensor = 2, .context = 2, .pipeline = 2, .zero = 3, .recompute = SN_RECOMPUTE_FULL, .sequence_parallel = true},
    };
    int only = argc > 1;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct layout *l = &cases[i];
        if (only && !strstr(l->name, argv[1]))
            continue;
        struct layout_run one = {.steps = 5}, many = {.steps = 5};
        struct sn_config c = layout_config(l->family);
        c.train.precision = l->dtype;
        c.layout.micro_batch = l->micro_batch ? l->micro_batch : 1;
        if (l->kv_heads)
            c.model.kv_heads = l->kv_heads;
        layout_train(&one, &c);
        c.layout.data = l->data ? l->data : 1;
        c.layout.tensor = l->tensor ? l->tensor : 1;
        c.layout.context = l->context ? l->context : 1;
        c.layout.pipeline = l->pipeline ? l->pipeline : 1;
        c.layout.virtual_stages = l->virtual_stages ? l->virtual_stages : 1;
        c.layout.sequence_parallel = l->sequence_parallel;
        c.layout.schedule = l->schedule || l->pipeline == 0 ? l->schedule : SN_1F1B;
        c.layout.zero = l->zero;
        c.layout.recompute = l->recompute;
        c.layout.context_kind = l->kind;
        layout_train(&many, &c);
        double off = layout_difference(&many, &one);
        tap_ok(!many.fault[0] && off < 1e-5, "%s: off by %.1e %s", l->name, off, many.fault);
        tap_ok(many.traffic_is_planned, "%s: traffic", l->name);
    }
    return tap_done();
}
