/*
 * test_software.c - software profiles: the default is ours, what a file gives, bad files, and the
 * way back to text.
 */
#include "lib/base/mem.h"
#include "lib/layout/grid.h"
#include "lib/machine/named.h"
#include "tests/lib/tap.h"

static const char full[] =
    "name: other-2023\n"
    "attention: torch\n"
    "fused_norm: false\n"
    "time:\n"
    "  gemm: 1.1\n"
    "  attention_forward: {flash2: 1.2, flash1: 1.3, fused: 1.4, torch: 1.5}\n"
    "  attention_backward: {flash2: 2.2, flash1: 2.3, fused: 2.4, torch: 2.5}\n"
    "  norm_fused: 1.6\n"
    "  norm_unfused: 1.7\n"
    "  elementwise: 1.8\n"
    "  overhead: 1.9\n"
    "  step_fixed: 0.1\n"
    "  layer_fixed: 2.0e-4\n"
    "communication:\n"
    "  latency: {tensor: 3.1, context: 3.2, data: 3.3, pipeline: 3.4, expert: 3.5, world: 3.6}\n"
    "  bandwidth: {tensor: 0.1, context: 0.2, data: 0.3, pipeline: 0.4, expert: 0.5, world: 0.6}\n"
    "  per_node: {data: 0.08}\n"
    "  hidden: {tensor: 0.7, data: 1}\n"
    "  late: 0.01\n"
    "  late_full: 0.02\n"
    "  data_overlaps: false\n"
    "  grad_wire_bytes: 2\n"
    "  logits_gathered: true\n"
    "memory:\n"
    "  param_bytes: 2\n"
    "  grad_bytes: 4\n"
    "  optimizer_bytes: 12\n"
    "  fixed_bytes: 1.0e9\n"
    "  cutoff: 0.9\n"
    "accuracy: {low: 0.9, high: 1.2, devices_least: 64, devices_most: 256, hidden_least: 5120, "
    "hidden_most: 6656, seq_least: 2048, seq_most: 8192}\n";

static enum sn_status parse(struct sn_software *s, const char *text, struct sn_err *err)
{
    return sn_software_parse(s, text, strlen(text), "s.yaml", err);
}

static void the_default_changes_nothing(void)
{
    struct sn_software s;
    sn_software_default(&s);
    tap_ok(!strcmp(s.name, "sennit") && s.attention == SN_ATTENTION_FLASH2 && s.fused_norm,
           "our own kernels");
    bool factors = s.gemm == 1 && s.norm_fused == 1 && s.norm_unfused == 1 && s.elementwise == 1 &&
                   s.overhead == 1;
    for (int k = 0; k < SN_NATTENTIONS; k++)
        factors = factors && s.attention_forward[k] == 1 && s.attention_backward[k] == 1;
    for (int a = 0; a < SN_NAXES; a++)
        factors = factors && s.latency[a] == 1 && s.bandwidth[a] == 1 && s.hidden[a] == 0;
    tap_ok(factors, "all factors are 1, nothing is hidden");
    tap_ok(s.step_fixed == 0 && s.layer_fixed == 0 && s.data_overlaps && !s.logits_gathered &&
               s.grad_wire_bytes == 0 && s.param_bytes == 0 && s.fixed_bytes == 0 &&
               s.memory_cutoff == 1,
           "nothing is added");
    struct sn_software shipped;
    struct sn_err err = {0};
    tap_ok(sn_software_load(&shipped, "templates/software/sennit.yaml", &err) == SN_OK &&
               memcmp(&shipped, &s, sizeof(s)) == 0,
           "the profile that ships as ours is the default%s", err.text);
}

static void every_key_arrives(void)
{
    struct sn_software s;
    struct sn_err err = {0};
    tap_ok(parse(&s, full, &err) == SN_OK, "a profile with many keys is read%s", err.text);
    tap_ok(!strcmp(s.name, "other-2023") && s.attention == SN_ATTENTION_TORCH && !s.fused_norm,
           "kernels");
    tap_ok(s.gemm == 1.1 && s.attention_forward[SN_ATTENTION_FLASH2] == 1.2 &&
               s.attention_forward[SN_ATTENTION_TORCH] == 1.5 &&
               s.attention_backward[SN_ATTENTION_FLASH1] == 2.3 &&
               s.attention_backward[SN_ATTENTION_FUSED] == 2.4 && s.norm_fused == 1.6 &&
               s.norm_unfused == 1.7 && s.elementwise == 1.8 && s.overhead == 1.9 &&
               s.step_fixed == 0.1 && s.layer_fixed == 2e-4,
           "time");
    tap_ok(s.latency[SN_AXIS_TENSOR] == 3.1 && s.latency[SN_AXIS_WORLD] == 3.6 &&
               s.bandwidth[SN_AXIS_CONTEXT] == 0.2 && s.bandwidth[SN_AXIS_EXPERT] == 0.5 &&
               s.hidden[SN_AXIS_TENSOR] == 0.7 && s.hidden[SN_AXIS_DATA] == 1 &&
               s.hidden[SN_AXIS_PIPELINE] == 0 && s.per_node[SN_AXIS_DATA] == 0.08 &&
               s.per_node[SN_AXIS_TENSOR] == 0 && s.late == 0.01 && s.late_full == 0.02,
           "communication, by axis");
    tap_ok(!s.data_overlaps && s.grad_wire_bytes == 2 && s.logits_gathered, "habits");
    tap_ok(s.param_bytes == 2 && s.grad_bytes == 4 && s.optimizer_bytes == 12 &&
               s.fixed_bytes == 1e9 && s.memory_cutoff == 0.9,
           "memory");
}

static void what_was_not_measured_is_told(void)
{
    static const struct {
        int devices, hidden, seq;
        const char *why; /* NULL: measured */
    } plan[] = {
        {64, 5120, 2048, NULL},
        {256, 6656, 8192, NULL},
        {1024, 6656, 8192, "1024 devices, measured 64 to 256"},
        {32, 8192, 512,
         "32 devices, measured 64 to 256; 8192 features, measured 5120 to 6656; 512 tokens a "
         "sequence, measured 2048 to 8192"}};
    struct sn_software s, ours;
    char why[192];
    sn_software_default(&ours);
    bool read = parse(&s, full, NULL) == SN_OK;
    tap_ok(read && s.low == 0.9 && s.high == 1.2, "how good a profile is");
    for (size_t i = 0; i < sizeof(plan) / sizeof(plan[0]); i++) {
        bool is = sn_software_extrapolates(why, sizeof(why), &s, plan[i].devices, plan[i].hidden,
                                           plan[i].seq);
        tap_ok(is == (plan[i].why != NULL) && (!is || strcmp(why, plan[i].why) == 0),
               "%d devices: %s", plan[i].devices, is ? why : "measured");
    }
    tap_ok(!sn_software_extrapolates(why, sizeof(why), &ours, 1 << 20, 1, 1) &&
               sn_software_extrapolates(why, 12, &s, 1024, 1, 1) && strlen(why) == 11,
           "nothing is told of what knows nothing, nor more than there is room for");
}

static void format_and_parse_are_inverse(void)
{
    const char *text[] = {full, "{}", "time: {gemm: 0.3333333333333333}\n"};
    for (int i = 0; i < 3; i++) {
        struct sn_software a, b;
        struct sn_str out = {0};
        bool read = parse(&a, text[i], NULL) == SN_OK;
        sn_software_format(&out, &a);
        tap_ok(read && out.p && parse(&b, out.p, NULL) == SN_OK && !memcmp(&a, &b, sizeof(a)),
               "profile %d is written and read again", i);
        sn_str_fini(&out);
    }
}

static void bad_profiles_are_explained(void)
{
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"", "s.yaml: want a software profile: a mapping of keys such as attention: flash2"},
        {"- 1\n", "s.yaml: want a software profile"},
        {"attention: flash3\n", "s.yaml:1:12: attention: unknown name 'flash3'; did you mean"},
        {"time: {gem: 1}\n",
         "s.yaml:1:8: unknown key 'time.gem' of a software profile; did you mean 'time.gemm'?"},
        {"time: {gemm: 0}\n", "s.yaml:1:14: time.gemm: 0 is outside 0.001..1000"},
        {"communication: {hidden: {data: 2}}\n",
         "s.yaml:1:32: communication.hidden.data: 2 is outside 0..1"},
        {"memory: {cutoff: 1.5}\n", "s.yaml:1:18: memory.cutoff: 1.5 is outside 0.01..1"},
        {"fused_norm: maybe\n", "s.yaml:1:13: fused_norm: got 'maybe'; want true or false"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sn_software s = {.gemm = 42};
        struct sn_err err = {0};
        bool refused = parse(&s, bad[i].text, &err) == SN_EINPUT && s.gemm == 42;
        if (!tap_ok(refused && !strncmp(err.text, bad[i].want, strlen(bad[i].want)), "%s",
                    bad[i].want))
            printf("#  got: %s\n", err.text);
    }
}

static void a_run_names_its_trainer(void)
{
    static const char run[] = "model: {preset: gpt2-124m}\ntrain: {steps: 1, global_batch: 1}\n"
                              "machine: {software: {profile: sennit, attention: fused, "
                              "fused_norm: false}}\n";
    struct sn_config c;
    struct sn_software s;
    struct sn_err err = {0};
    enum sn_status st = sn_config_parse(&c, run, strlen(run), "run.yaml", "templates", &err);
    tap_ok(st == SN_OK && sn_software_of(&s, &c, "templates", &err) == SN_OK &&
               s.attention == SN_ATTENTION_FUSED && !s.fused_norm && s.gemm == 1,
           "its profile, with another attention kernel%s", err.text);
    (void)snprintf(c.machine.software.profile, sizeof(c.machine.software.profile), "senit");
    tap_ok(sn_software_of(&s, &c, "templates", &err) == SN_EINPUT &&
               !strcmp(err.text, "run.yaml: machine.software.profile: no preset 'senit'; did you "
                                 "mean 'sennit'?"),
           "%s", err.text);
}

static void allocations_may_fail(void)
{
    uint64_t before = sn_mem_count();
    struct sn_software s;
    tap_ok(parse(&s, full, NULL) == SN_OK, "a profile to run out of memory with");
    uint64_t n = sn_mem_count() - before;
    int wrong = 0;
    for (uint64_t i = 1; i <= n; i++) {
        struct sn_err err = {0};
        sn_mem_fail_at(i);
        wrong += parse(&s, full, &err) != SN_ENOMEM || !err.text[0];
    }
    sn_mem_fail_at(0);
    tap_ok(wrong == 0, "each of %d failing allocations is reported", (int)n);
}

int main(void)
{
    the_default_changes_nothing();
    every_key_arrives();
    what_was_not_measured_is_told();
    format_and_parse_are_inverse();
    bad_profiles_are_explained();
    a_run_names_its_trainer();
    allocations_may_fail();
    return tap_done();
}
