/*
 * test_findings.c - what the study of layouts on A100s measured (arXiv 2311.05610, abstract and
 * section 5) comes out of our prices unprompted.
 *
 * Its sweeps are searched as it had them: data, tensor and pipeline axes, micro-batch,
 * recomputation and sequence parallelism free, ZeRO 1, 1f1b, on DGX A100 80 GB.
 */
#include "lib/base/mem.h"
#include "lib/search/search.h"
#include "tests/lib/tap.h"

struct sweep {
    const char *name, *model;
    int gpus, batch;
};

static const struct sweep sweeps[] = {
    {"13B, 2k tokens, 64 GPUs", "layers: 40, hidden: 5120, heads: 40, ffn: 13824, seq: 2048", 64,
     2048},
    {"13B, 8k tokens, 128 GPUs", "layers: 40, hidden: 5120, heads: 40, ffn: 13824, seq: 8192", 128,
     512},
    {"30B, 2k tokens, 256 GPUs", "layers: 60, hidden: 6656, heads: 52, ffn: 17888, seq: 2048", 256,
     2048},
    {"30B, 8k tokens, 128 GPUs", "layers: 60, hidden: 6656, heads: 52, ffn: 17888, seq: 8192", 128,
     512},
    {"65B, 2k tokens, 128 GPUs", "layers: 80, hidden: 8192, heads: 64, ffn: 22016, seq: 2048", 128,
     2048},
};
enum { SWEEPS = sizeof(sweeps) / sizeof(sweeps[0]) };

/* The best layout with these further keys; step time 0 when nothing fits. */
static struct sn_found best_of(const struct sweep *x, const struct sn_machine *m, const char *keys)
{
    struct sn_config c;
    struct sn_software soft;
    struct sn_err err = {0};
    struct sn_search s = {0};
    struct sn_found best = {.rest = 0};
    char *text = sn_format("model: {family: llama, %s, vocab: 128000}\n"
                           "train: {steps: 1, global_batch: %d, precision: bf16}\n"
                           "layout: {context: 1, zero: 1, schedule: 1f1b%s}\n",
                           x->model, x->batch, keys);
    sn_software_default(&soft);
    enum sn_status st = sn_config_parse(&c, text, strlen(text), x->name, "templates", &err);
    sn_free(text);
    struct sn_search_want w = {.config = &c,
                               .machine = m,
                               .software = &soft,
                               .ops = sn_ops_cpu(),
                               .threads = 1,
                               .ranks = x->gpus,
                               .top = 1};
    if (st == SN_OK) {
        c.machine.memory_fraction = 1;
        w.limit = sn_memory_limit(m, &c);
        st = sn_search_run(&s, &w, &err);
    }
    if (st != SN_OK)
        tap_ok(false, "%s", err.text);
    else if (s.n > 0)
        best = s.found[0];
    sn_search_fini(&s);
    return best;
}

/* The same layout without sequence parallelism. */
static double without_sequence_parallel(const struct sweep *x, const struct sn_machine *m,
                                        const struct sn_layout_config *l)
{
    char keys[256];
    static const char *const recompute[] = {"none", "selective", "full"};
    (void)snprintf(keys, sizeof(keys),
                   ", tensor: %d, pipeline: %d, micro_batch: %d, recompute: %s, "
                   "sequence_parallel: false",
                   l->tensor, l->pipeline, l->micro_batch, recompute[l->recompute]);
    struct sn_found f = best_of(x, m, keys);
    return f.plan.step_time;
}

static void findings_come_out(void)
{
    struct sn_machine m;
    struct sn_err err = {0};
    int smallest = 0, without = 0, pays = 0, large = 0;
    if (sn_machine_preset(&m, "dgx-a100-80", "templates", &err) != SN_OK) {
        tap_ok(false, "%s", err.text);
        return;
    }
    for (int i = 0; i < SWEEPS; i++) {
        const struct sweep *x = &sweeps[i];
        struct sn_found best = best_of(x, &m, ""), kept = best_of(x, &m, ", recompute: none"),
                        full = best_of(x, &m, ", recompute: full"),
                        cut = best_of(x, &m, ", tensor: 4, sequence_parallel: true");
        const struct sn_layout_config *l = &best.layout;
        double plain = without_sequence_parallel(x, &m, &cut.layout);
        printf(
            "# %s: best micro-batch %d, tensor %d, pipeline %d, %s: %.2f s, MFU %.1f %%; all kept "
            "%.2f s, all recomputed %.2f s; tensor 4 with sequence parallelism %.2f s, without "
            "%.2f s\n",
            x->name, l->micro_batch, l->tensor, l->pipeline,
            l->sequence_parallel && l->tensor > 1 ? "sequence parallel" : "no sequence parallel",
            best.plan.step_time, 100 * best.plan.mfu, kept.plan.step_time, full.plan.step_time,
            cut.plan.step_time, plain);
        smallest += l->micro_batch == 1;
        without += kept.plan.step_time > 0 && kept.plan.step_time < full.plan.step_time;
        large += i > 0;
        pays += i > 0 && (plain == 0 || cut.plan.step_time < plain);
    }
    tap_ok(smallest > SWEEPS / 2, "micro-batch 1 wins in most sweeps (%d of %d)", smallest, SWEEPS);
    tap_ok(without == SWEEPS, "recomputation loses where memory suffices without (%d of %d)",
           without, SWEEPS);
    tap_ok(pays == large, "sequence parallelism pays from 30B or beyond 2k tokens on (%d of %d)",
           pays, large);
    sn_machine_fini(&m);
}

int main(void)
{
    findings_come_out();
    return tap_done();
}
