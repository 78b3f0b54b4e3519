/*
 * test_exec_device.c - the executor on a device: whatever order the device does things in, the
 * losses are the bits of this processor's.
 *
 * usage: test_exec_device               every twelfth line of tests/equiv/layouts marked fast, in
 *                                       turn through the host and through channels; all of them
 *                                       with experts in a pipeline through channels
 *        test_exec_device ALL | NAME    every line, or those whose name holds NAME, both ways
 *        test_exec_device split         channels that are parts of others alone
 *        ALL=1 test_exec_device         every line, after all else (make check-equiv)
 */
#include "tests/lib/fake_device.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/layouts.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>

enum {
    STEPS = 4,          /* piece by piece, kept in graphs, and twice from them */
    HANG_TIMEOUT = 120, /* seconds: a test that fails, not one that waits */
    MARK_EVERY = 64     /* operations in graphs */
};

static bool same_bits(const struct layout_run *a, const struct layout_run *b)
{
    size_t bytes = (size_t)a->steps * sizeof(a->loss[0]);
    return memcmp(a->loss, b->loss, bytes) == 0 && memcmp(a->norm, b->norm, bytes) == 0 &&
           a->val_loss == b->val_loss;
}

static void compare(const char *name, struct sn_config *c, bool channels)
{
    c->run.hang_timeout = HANG_TIMEOUT;
    struct layout_run here = {.steps = STEPS}, there = {.steps = STEPS, .on_devices = true};
    fake_device_habits()->has_no_channels = !channels;
    fake_device_habits()->seed++;
    layout_train(&here, c);
    layout_train(&there, c);
    tap_ok(!here.fault[0] && !there.fault[0] && same_bits(&here, &there),
           "%s: a device%s gives the bits of this processor (loss %.17g, %.17g)%s%s", name,
           channels ? " with channels" : "", here.loss[STEPS - 1], there.loss[STEPS - 1],
           here.fault, there.fault);
    tap_ok(there.in_graphs > 0, "%s: %ld of its kernels ran in graphs", name, there.in_graphs);
    tap_ok(there.traffic_is_planned, "%s: it sends what was planned", name);
    tap_ok(there.copies_are_whole, "%s: a copy of the state beside a step is that of before", name);
    tap_ok(there.idle == STEPS && here.idle == 0,
           "%s: there is time once a step on a device, on this processor none", name);
    tap_ok(there.pins_before == 0 && there.pins > 0,
           "%s: %ld parts of the mirror are page-locked, none before the first copy", name,
           there.pins);
}

static void families_of_one_rank(void)
{
    static const struct {
        const char *name;
        enum sn_family family;
    } f[] = {{"gpt2", SN_GPT2}, {"gpt-neox", SN_GPT_NEOX}, {"llama", SN_LLAMA}};
    for (size_t i = 0; i < sizeof(f) / sizeof(f[0]); i++) {
        struct sn_config c = layout_config(f[i].family);
        c.model.dropout = 0.1;
        compare(f[i].name, &c, false);
    }
}

/* Graphs of one size of batch are none of the next, which makes its own. */
static void batches_that_grow(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.train.ramp.n_batches = 2;
    c.train.ramp.batches[0] = 2;
    c.train.ramp.batches[1] = 8;
    c.train.ramp.ends[0] = 3;
    c.train.ramp.ends[1] = STEPS - 3;
    compare("a ramp of batches", &c, false);
    c.layout.data = 2;
    c.layout.zero = 2;
    compare("a ramp of two replicas", &c, true);
}

/* The sentence of a run whose n-th kernel fails. */
static void fault_at(struct layout_run *x, struct sn_config *c, long n)
{
    *x = (struct layout_run){.steps = STEPS, .on_devices = true};
    fake_device_habits()->fail_at = n;
    layout_train(x, c);
    fake_device_habits()->fail_at = 0;
}

/* In the first step the operation is named, in later ones the last that was marked: the first of
 * each 64, of which the failed one is one. */
static void a_failure_in_a_graph_is_known_to_64_operations(void)
{
    struct sn_config c = layout_config(SN_GPT2);
    struct layout_run x = {.steps = STEPS, .on_devices = true}, first;
    c.run.hang_timeout = HANG_TIMEOUT;
    c.train.global_batch = 2 * c.layout.micro_batch; /* more of them share a graph */
    fake_device_habits()->has_no_channels = true;
    layout_train(&x, &c);
    long each = x.kept_kernels;
    tap_ok(each > 2 * MARK_EVERY && x.kept_marks == (each + MARK_EVERY - 1) / MARK_EVERY,
           "a step's graphs have %ld marks among %ld kernels", x.kept_marks, each);
    const long at[] = {1, MARK_EVERY, MARK_EVERY + 1, 2 * MARK_EVERY, 2 * MARK_EVERY + 1, each};
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        fault_at(&first, &c, (at[i] - 1) / MARK_EVERY * MARK_EVERY + 1);
        fault_at(&x, &c, 2 * each + at[i]);
        const char *name = strchr(first.fault, '\''), *there = strchr(x.fault, '\'');
        size_t n = name ? (size_t)(strstr(name, "' failed: an illegal") - name) : 0;
        tap_ok(name && there && strncmp(name, there, n) == 0 &&
                   strncmp(there + n, "', or one of the 63 operations after it, failed: ", 48) == 0,
               "kernel %ld of a step: %s", at[i], x.fault);
    }
}

/* Whatever their number: of all but the first, which writes gradients where others add. Each has ids, targets and
 * what its queries see, in two columns, brought to one place. */
static void micro_batches_share_a_graph(void)
{
    long kept[4] = {0}, ran[4] = {0};
    for (int micros = 2; micros <= 5; micros++) {
        struct sn_config c = layout_config(SN_LLAMA);
        c.model.dropout = 0.1;
        c.data.documents = SN_DOCUMENTS_APART;
        c.data.loss = SN_LOSS_MASK;
        c.data.prefix = SN_PREFIX_PROMPT;
        c.train.global_batch = micros * c.layout.micro_batch;
        c.run.hang_timeout = HANG_TIMEOUT;
        struct layout_run here = {.steps = STEPS}, there = {.steps = STEPS, .on_devices = true};
        fake_device_habits()->has_no_channels = true;
        fake_device_habits()->seed++;
        layout_train(&here, &c);
        layout_train(&there, &c);
        tap_ok(!here.fault[0] && !there.fault[0] && same_bits(&here, &there),
               "%d micro-batches: the bits of this processor%s", micros, there.fault);
        kept[micros - 2] = there.kept_kernels;
        ran[micros - 2] = there.in_graphs;
    }
    tap_ok(kept[0] > 0 && kept[1] == kept[0] && kept[2] == kept[0] && kept[3] == kept[0],
           "graphs have %ld, %ld, %ld, %ld kernels for 2 to 5 of them", kept[0], kept[1], kept[2],
           kept[3]);
    tap_ok(ran[1] > ran[0] && ran[2] - ran[1] == ran[1] - ran[0] &&
               ran[3] - ran[2] == ran[1] - ran[0],
           "and each of them runs (%ld, %ld, %ld, %ld kernels)", ran[0], ran[1], ran[2], ran[3]);
}

/* Where groups of one axis lie in each other; whatever is split, the bits are the same. The first
 * row once more on a device that splits nothing. */
static void groups_of_one_axis_share_a_channel(void)
{
    struct sn_config kv = layout_config(SN_LLAMA), data = kv, experts = kv, stages = kv;
    kv.layout.tensor = 4; /* ranks with copies of one head, among those of the tensor axis */
    kv.model.kv_heads = 2;
    data.layout.data = 2; /* one group on each of its axes */
    data.layout.tensor = 2;
    experts.model.experts = (struct sn_experts_config){.count = 4, .top_k = 2, .every = 1};
    experts.layout.data = 4; /* who holds the same experts, among who holds the same weights */
    experts.layout.expert = 2;
    stages.layout.pipeline = 2; /* the same experts' ranks, on each of two stages */
    stages.model.experts = experts.model.experts;
    stages.layout.data = 4;
    stages.layout.expert = 2;
    const struct {
        const char *name;
        struct sn_config config;
        long splits;
    } row[] = {{"copies of heads", kv, 1},
               {"data and tensor", data, 0},
               {"experts", experts, 1},
               {"experts in a pipeline", stages, 1}};
    fake_device_habits()->has_no_channels = false;
    for (size_t i = 0, n = sizeof(row) / sizeof(row[0]); i <= n; i++) {
        struct sn_config c = row[i % n].config;
        long splits = i < n ? row[i].splits : 0;
        struct layout_run here = {.steps = STEPS}, there = {.steps = STEPS, .on_devices = true};
        c.run.hang_timeout = HANG_TIMEOUT;
        fake_device_habits()->splits_none = i == n;
        fake_device_habits()->seed++;
        layout_train(&here, &c);
        layout_train(&there, &c);
        tap_ok(!here.fault[0] && !there.fault[0] && same_bits(&here, &there),
               "%s: %ld channels that are parts of others give the bits of this processor%s%s",
               row[i % n].name, there.splits, here.fault, there.fault);
        tap_ok(there.splits == splits, "%s: %ld of them where the device %s", row[i % n].name,
               splits, i == n ? "splits none" : "splits");
    }
    fake_device_habits()->splits_none = false;
}

/* Rows are counted while a receive is under way, which nobody may wait for then. */
static bool waits_in_its_midst(const struct sn_config *c)
{
    return c->layout.expert > 1 && c->layout.pipeline > 1;
}

int main(int argc, char **argv)
{
    struct layouts_line line;
    struct sn_err err = {0};
    const char *want = argc > 1 ? argv[1] : "";
    bool both = want[0] || getenv("ALL"), all = strcmp(want, "ALL") == 0 || (both && !want[0]);
    int more = -1, n = 0;
    FILE *f = fopen("tests/equiv/layouts", "r");
    if (!want[0]) {
        families_of_one_rank();
        batches_that_grow();
        a_failure_in_a_graph_is_known_to_64_operations();
        micro_batches_share_a_graph();
        groups_of_one_axis_share_a_channel();
    }
    if (strcmp(want, "split") == 0) {
        groups_of_one_axis_share_a_channel();
        return tap_done();
    }
    while (f && (more = layouts_next(f, &line, &err)) > 0)
        if (all || (want[0] ? strstr(line.name, want) != NULL : line.fast)) {
            if (both || n % 24 == 0)
                compare(line.name, &line.config, false);
            if (both || n % 24 == 12 || waits_in_its_midst(&line.config))
                compare(line.name, &line.config, true);
            n++;
            (void)fflush(stdout);
        }
    tap_ok(more == 0, "tests/equiv/layouts is read to its end%s", err.text);
    if (f)
        (void)fclose(f);
    return tap_done();
}
