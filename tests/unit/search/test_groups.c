/*
 * test_groups.c - what a search passes over without looking: the bound of a group is none that a member of
 * it undercuts, and what is found is what looking at every layout finds. With ALL=1 on more models.
 */
#include "lib/base/mem.h"
#include "lib/search/estimate.h"
#include "lib/search/search.h"
#include "lib/search/variants.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct run {
    const char *model, *machine, *train; /* keys of train */
    int ranks, batch, seq;
    enum device { AS_IT_IS, LOSES_NOTHING, MEASURED } device;
    const char *layout; /* NULL: auto */
};

static const struct run runs[] = {
    {"gpt2-1.5b", "dgx-a100-80", "precision: bf16", 16, 32, 1024, AS_IT_IS, NULL},
    {"llama3-8b", "dgx-h100", "precision: bf16", 16, 32, 4096, AS_IT_IS, NULL},
    {"mixtral-8x7b", "lassen", "precision: fp16", 16, 16, 4096, AS_IT_IS, NULL},
    {"mixtral-8x7b", "dgx-h100", "precision: bf16", 8, 8, 4096, LOSES_NOTHING,
     "{recompute: full, context: 1}"},
    {"llama3.2-1b", "dgx-h100", "precision: bf16", 8, 8, 4096, LOSES_NOTHING,
     "{recompute: full, comm_aware_recompute: true}"},
    {"llama3.2-1b", "dgx-h100", "precision: bf16", 8, 8, 4096, MEASURED, NULL},
    {"gpt2-1.5b", "perlmutter-40", "precision: bf16", 64, 256, 1024, AS_IT_IS,
     NULL}, /* from here on with ALL=1 */
    {"llama3-8b", "marconi100", "precision: fp16", 64, 128, 8192, AS_IT_IS, NULL},
    {"llama3-8b", "gh200-4", "precision: bf16, grad_dtype: bf16", 64, 256, 32768, AS_IT_IS, NULL},
    {"mixtral-8x7b", "dgx-h100", "precision: bf16", 64, 64, 4096, AS_IT_IS, NULL},
    {"deepseek-v2-lite", "h800-8", "precision: bf16", 32, 64, 4096, AS_IT_IS, NULL},
    {"gemma2-9b", "dgx-h200", "precision: bf16, lora: {rank: 8, targets: [\"*.attn.q.weight\"]}",
     32, 64, 8192, AS_IT_IS, NULL},
    {"llama3-8b", "dgx-h100", "precision: bf16, freeze: [\"embed*\", \"layers.*\"]", 64, 4096, 8192,
     AS_IT_IS, NULL},
    {"gpt-neox-20b", "summit", "precision: fp16", 96, 96, 2048, AS_IT_IS, NULL},
    {"qwen3-8b, mtp: 2", "dgx-h200", "precision: bf16", 16, 32, 4096, AS_IT_IS, NULL},
    {"llama3.2-1b", "dgx-h100", "precision: bf16, prompt: {soft: 8, layers: [4, 8]}", 16, 32, 2048,
     AS_IT_IS, NULL},
};
enum { QUICK = 6 };

struct seen {
    int64_t layouts, timed, under, wrong; /* wrong: of a group that is over the limit, and fits */
    int64_t floors;                       /* that are above a member's bound */
    double worst; /* the least bound of a member over that of its group, less 1 */
};

static void compare(struct seen *k, const struct sn_estimate *group, const struct sn_estimate *one,
                    int64_t limit)
{
    k->wrong += group->memory > 0 && one->memory <= limit;
    if (one->seconds <= 0 || group->seconds <= 0) /* more is kept than fits */
        return;
    k->timed++;
    k->under += one->seconds < group->seconds * (1 - 1e-12);
    k->worst = fmin(k->worst, one->seconds / group->seconds - 1);
}

/* Of the group of all that compute as much again: its floor is above this. */
static bool is_under_floor(struct sn_estimator *e, const struct sn_layout_config *l,
                           const struct sn_estimate *one)
{
    struct sn_estimate floor;
    struct sn_err err;
    if (sn_estimate(&floor, e, l, SN_ESTIMATE_FLOOR, &err) != SN_OK || floor.seconds <= 0)
        return true;
    return one->seconds > 0 && one->seconds < floor.seconds;
}

/* Each layout beside the group of those that compute as much again, and that of all. */
static void look(struct seen *k, struct sn_estimator *e, const struct sn_config *c,
                 const struct sn_variants *all, int64_t limit)
{
    struct sn_err err;
    for (int64_t i = 0; i < all->n; i++) {
        struct sn_layout_config l;
        struct sn_estimate group, again, one;
        sn_variant_expand(&l, &all->of[i], c);
        bool good = sn_estimate(&one, e, &l, SN_ESTIMATE_ANY_ORDER, &err) == SN_OK &&
                    sn_estimate(&again, e, &l, SN_ESTIMATE_GROUP, &err) == SN_OK;
        k->floors += good && is_under_floor(e, &l, &one);
        l.recompute = SN_RECOMPUTE_NONE;
        if (!good || sn_estimate(&group, e, &l, SN_ESTIMATE_GROUP, &err) != SN_OK) {
            tap_ok(false, "%s", err.text);
            return;
        }
        k->layouts++;
        k->floors += is_under_floor(e, &l, &one);
        compare(k, &again, &one, limit);
        compare(k, &group, &one, limit);
    }
}

/* A device whose operations take their arithmetic and nothing else; one on which two products were measured, of which one
 * is faster than the formula. */
static void change_device(struct sn_machine_device *d, enum device as)
{
    static struct sn_measured measured[] = {
        {SN_OP_GEMM, SN_BF16, 4096, 2048, 2048, 2e-5, SN_EPILOGUE_NONE},
        {SN_OP_GEMM, SN_BF16, 64, 2048, 2048, 9e-5, SN_EPILOGUE_NONE}};
    if (as == MEASURED) {
        d->measured = measured;
        d->n_measured = 2;
    }
    if (as != LOSES_NOTHING)
        return;
    for (int t = 0; t < SN_NPRECISIONS; t++)
        d->gemm[t] = (struct sn_gemm_rate){.peak = d->gemm[t].peak};
    d->tile_m = d->tile_n = d->units = 0;
    d->overhead = d->half_bytes = d->attention_half_seq = 0;
    d->attention_forward = d->attention_backward = 1;
    d->bandwidth *= 1000;
}

static void no_member_undercuts(const struct run *r)
{
    struct sn_config c;
    struct sn_machine m = {0};
    struct sn_software soft;
    struct sn_estimator *e = NULL;
    struct sn_variants all = {0};
    struct sn_err err = {0};
    struct seen k = {.worst = 1};
    char *text =
        sn_format("model: {preset: %s, seq: %d}\ntrain: {steps: 1, global_batch: %d, "
                  "%s}\nmachine: {preset: %s}\nlayout: %s\n",
                  r->model, r->seq, r->batch, r->train, r->machine, r->layout ? r->layout : "auto");
    sn_software_default(&soft);
    bool good = sn_config_parse(&c, text, strlen(text), "r.yaml", NULL, &err) == SN_OK &&
                sn_machine_of(&m, &c, NULL, &err) == SN_OK &&
                sn_variants_list(&all, &c, r->ranks, m.devices, &err) == SN_OK &&
                sn_estimator_create(&e, &c, &m, &soft, sn_ops_cpu(), 1, &err) == SN_OK;
    if (good) {
        change_device(&m.device, r->device);
        int64_t limit = sn_memory_limit(&m, &c);
        sn_estimator_limit(e, limit, SN_LIBRARY_BYTES);
        look(&k, e, &c, &all, limit);
    }
    tap_ok(good && k.timed > 0 && k.under == 0 && k.wrong == 0 && k.floors == 0,
           "%s on %d of %s: %lld layouts, none of %lld under a bound of its group (least: %.2g %% "
           "above) or its floor, none fits whose group is told not to %s",
           r->model, r->ranks, r->machine, (long long)k.layouts, (long long)k.timed, 100 * k.worst,
           err.text);
    sn_estimator_destroy(e);
    sn_variants_fini(&all);
    if (r->device == MEASURED)
        m.device.measured = NULL;
    sn_machine_fini(&m);
    sn_free(text);
}

int main(void)
{
    int n = getenv("ALL") ? (int)(sizeof(runs) / sizeof(runs[0])) : QUICK;
    for (int i = 0; i < n; i++)
        no_member_undercuts(&runs[i]);
    return tap_done();
}
