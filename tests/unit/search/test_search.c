/*
 * test_search.c - what a search finds is the best of all layouts, each compiled and simulated.
 */
#include "lib/base/mem.h"
#include "lib/cost/hops.h"
#include "lib/search/estimate.h"
#include "lib/search/search.h"
#include "lib/search/variants.h"
#include "tests/lib/search_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

enum { GRIDS = 256 };

struct best {
    int tensor, tensor_x, context, pipeline, expert, own;
    double step;
};

struct all {
    struct best of[GRIDS];
    int n;
    int64_t layouts, priced, fits;
};

static void take(struct all *a, const struct sn_variant *v, double step)
{
    int i = 0;
    int tensor = v->size[SN_AXIS_TENSOR], tensor_x = v->size[SN_AXIS_TENSOR_X],
        context = v->size[SN_AXIS_CONTEXT], pipeline = v->size[SN_AXIS_PIPELINE];
    while (i < a->n && (a->of[i].tensor != tensor || a->of[i].tensor_x != tensor_x ||
                        a->of[i].context != context || a->of[i].pipeline != pipeline ||
                        a->of[i].expert != v->expert || a->of[i].own != v->expert_tensor))
        i++;
    if (i == a->n)
        a->of[a->n++] =
            (struct best){tensor, tensor_x, context, pipeline, v->expert, v->expert_tensor, step};
    else if (step < a->of[i].step)
        a->of[i].step = step;
}

static bool price_one(struct all *a, const struct sn_search_want *w, struct sn_config *c,
                      const struct sn_model *m, const struct sn_variant *v)
{
    struct sn_stages stages;
    struct sn_pricer pricer;
    struct sn_plan plan;
    struct sn_err err;
    struct sn_job_env env = {.config = c, .model = m, .ops = w->ops, .threads = w->threads};
    if (sn_stages_create(&stages, &env, &err) != SN_OK)
        return tap_ok(false, "%s", err.text);
    sn_pricer_init(&pricer, w->machine, w->software, stages.job[0]);
    bool good = sn_plan_make(&plan, &stages, &pricer, &err) == SN_OK;
    sn_stages_fini(&stages);
    a->priced++;
    if (good && (!w->limit || plan.memory.total <= w->limit)) {
        a->fits++;
        take(a, v, plan.step_time);
    }
    return good;
}

/* Tensor, context and data side by side, in this order. */
static bool tensor_is_inside(const struct sn_layout_config *l)
{
    int axes[3] = {SN_ORDER_TENSOR, SN_ORDER_CONTEXT, SN_ORDER_DATA_AXIS}, n = 0;
    bool good = true;
    for (int i = 0; i < l->n_axis_order; i++) {
        int a = (int)l->axis_order[i];
        bool skip = a == SN_ORDER_EXPERT || (a == SN_ORDER_CONTEXT && l->context == 1) ||
                    (a == SN_ORDER_PIPELINE && (n == 0 || n == 3 || l->pipeline == 1));
        n += n == 1 && l->context == 1;
        good = good && (skip || (n < 3 && a == axes[n]));
        n += !skip;
    }
    return good;
}

/* Orders in which some group lies otherwise; the usual one first. Copies of experts are neighbours
 * in the second half, or where there are none tensor_x is inside tensor. */
static int orders_of(struct sn_layout_config out[48], const struct sn_layout_config *l,
                     struct sn_estimator *e)
{
    int n = 0;
    bool exchanges = l->expert > 1 || l->expert_tensor > 1;
    for (int k = 0; k < (exchanges || l->tensor_x > 1 ? 512 : 256); k++) {
        int at[4] = {k & 3, k >> 2 & 3, k >> 4 & 3, k >> 6 & 3};
        static const enum sn_order_axis axis[] = {SN_ORDER_TENSOR, SN_ORDER_CONTEXT,
                                                  SN_ORDER_DATA_AXIS, SN_ORDER_PIPELINE};
        if ((1 << at[0] | 1 << at[1] | 1 << at[2] | 1 << at[3]) != 15)
            continue;
        struct sn_err err;
        bool same = false;
        out[n] = *l;
        out[n].n_axis_order = 0;
        bool beside = l->context == 1 || l->expert == 1;
        for (int i = 0; i < 4; i++) {
            if (k >= 256 && axis[at[i]] == SN_ORDER_TENSOR && !exchanges)
                out[n].axis_order[out[n].n_axis_order++] = SN_ORDER_TENSOR_X;
            out[n].axis_order[out[n].n_axis_order++] = axis[at[i]];
            beside = beside || (i > 0 && axis[at[i]] == SN_ORDER_DATA_AXIS &&
                                axis[at[i - 1]] == SN_ORDER_CONTEXT);
            if (k >= 256 && axis[at[i]] == SN_ORDER_DATA_AXIS)
                out[n].axis_order[out[n].n_axis_order++] = SN_ORDER_EXPERT;
        }
        if (!beside || (l->expert_tensor > 0 && !tensor_is_inside(&out[n])))
            continue;
        for (int j = 0; j < n && !same; j++)
            if (sn_estimate_same_order(&same, e, &out[j], &out[n], &err) != SN_OK)
                tap_ok(false, "%s", err.text);
        n += !same;
    }
    return n;
}

/* In one hop, and in two where there are. */
static bool price_hops(struct all *a, const struct sn_search_want *w, struct sn_config *c,
                       const struct sn_model *m, const struct sn_variant *v)
{
    struct sn_grid g;
    struct sn_err err;
    c->layout.expert_node = 1;
    bool good = price_one(a, w, c, m, v) && sn_job_grid(&g, c, &err) == SN_OK;
    c->layout.expert_node = good ? sn_hops_even(w->machine, &g, NULL, 0) : 0;
    return good && (c->layout.expert_node == 0 || price_one(a, w, c, m, v));
}

/* With gathered weights that stay in as many units as one likes, where that is open. */
static bool price_caches(struct all *a, const struct sn_search_want *w, struct sn_config *c,
                         const struct sn_model *m, const struct sn_variant *v)
{
    bool is_open = c->layout.zero_cache == SN_CACHE_AUTO, good = true;
    for (int n = 0; good && n <= (is_open && w->limit ? c->model.layers + 2 : 0); n++) {
        c->layout.zero_cache = is_open ? n : c->layout.zero_cache;
        good = price_hops(a, w, c, m, v);
    }
    return good;
}

static bool price_all(struct all *a, const struct sn_search_want *w)
{
    struct sn_config c = *w->config;
    struct sn_variants v;
    struct sn_model *m = NULL;
    struct sn_estimator *e = NULL;
    struct sn_err err;
    *a = (struct all){.n = 0};
    bool good = sn_variants_list(&v, w->config, w->ranks, w->machine->devices, &err) == SN_OK &&
                sn_model_create(&m, &c.model, &c.train, &err) == SN_OK &&
                sn_estimator_create(&e, &c, w->machine, w->software, w->ops, 1, &err) == SN_OK;
    a->layouts = v.n;
    for (int64_t i = 0; good && i < v.n; i++) {
        struct sn_layout_config order[48], l;
        sn_variant_expand(&l, &v.of[i], w->config);
        int n = orders_of(order, &l, e);
        for (int k = 0; good && k < n; k++) {
            c.layout = order[k];
            good = price_caches(a, w, &c, m, &v.of[i]);
        }
    }
    sn_estimator_destroy(e);
    sn_model_destroy(m);
    sn_variants_fini(&v);
    return good;
}

static bool levels_have_all_bytes(const struct sn_plan *p)
{
    int64_t left = 0;
    for (int a = 0; a < SN_NAXES; a++)
        left += p->traffic[a];
    for (int l = 0; l < SN_MAX_LEVELS; l++)
        left -= p->level_traffic[l];
    return left == 0;
}

/* Returns how many of those found exchange tokens in two hops. */
static int search_finds_the_best_on(const char *text, const struct sn_config *c, int ranks,
                                    int64_t limit)
{
    struct sn_machine m = {0};
    struct sn_software soft;
    struct sn_err err = {0};
    struct sn_search s = {0};
    struct all all;
    sn_software_default(&soft);
    if (sn_machine_parse(&m, text, strlen(text), "m.yaml", &err) != SN_OK) {
        tap_ok(false, "%s", err.text);
        return 0;
    }
    struct sn_search_want w = {.config = c,
                               .machine = &m,
                               .software = &soft,
                               .ops = sn_ops_cpu(),
                               .threads = 1,
                               .ranks = ranks,
                               .top = GRIDS,
                               .limit = limit};
    bool good = price_all(&all, &w) && sn_search_run(&s, &w, &err) == SN_OK;
    if (!tap_ok(good, "%d ranks: %lld layouts, priced %lld in all orders, %lld fit %s", ranks,
                (long long)all.layouts, (long long)all.priced, (long long)all.fits, err.text)) {
        sn_machine_fini(&m);
        return 0;
    }
    int wrong = all.n != s.n, hops = 0, whole = 0, cut = 0, grids = 0;
    for (int i = 0; i < s.n; i++) {
        const struct sn_layout_config *l = &s.found[i].layout;
        bool there = false;
        /* As many units keep weights as fit; the first micro-batch's gathers then stand close together, and
         * may hold up others: 0.26 % once. */
        double off = l->zero_cache > 0 ? 0.005 : 1e-12;
        for (int k = 0; k < all.n; k++)
            there =
                there || (all.of[k].tensor == l->tensor && all.of[k].tensor_x == l->tensor_x &&
                          all.of[k].context == l->context && all.of[k].pipeline == l->pipeline &&
                          all.of[k].expert == l->expert && all.of[k].own == l->expert_tensor &&
                          fabs(all.of[k].step - s.found[i].plan.step_time) <= off * all.of[k].step);
        wrong += !there;
        whole += l->expert_tensor == 1;
        grids += l->tensor_x > 1;
        cut += l->expert_tensor > 1;
        hops += l->expert > 1 && l->expert_node > 1;
        wrong += !levels_have_all_bytes(&s.found[i].plan);
        wrong += i > 0 && s.found[i].plan.step_time < s.found[i - 1].plan.step_time;
    }
    tap_ok(wrong == 0,
           "the best of each of %d grids is the search's, in order (%d of whole experts, %d of "
           "experts over some of the tensor ranks, %d with features cut)",
           all.n, whole, cut, grids);
    /* Blocks of frozen codes are wider than the parts of features that this model has. */
    bool dense = c->model.experts.count == 0 && !(c->layout_named >> SN_KEY_TENSOR_X & 1u) &&
                 c->train.lora.base == 0;
    tap_ok((grids > 0) == (dense || c->layout.tensor_x > 1), "of dense models features are cut");
    bool may = c->layout.tensor > 1 || !(c->layout_named >> SN_KEY_TENSOR & 1u);
    may = may && c->layout.tensor_x == 1;
    tap_ok((whole > 0) == (c->model.experts.count > 0 && may),
           "experts may be whole where there are tensor ranks");
    tap_ok(s.valid == all.layouts && s.exact < all.priced,
           "which compiled %lld of them, and proved %lld too big", (long long)s.exact,
           (long long)s.too_big);
    sn_search_fini(&s);
    sn_machine_fini(&m);
    return hops;
}

static void search_finds_the_best_of_all(const struct sn_config *c, int ranks, int64_t limit)
{
    tap_ok(search_finds_the_best_on(machine_text, c, ranks, limit) == 0,
           "where messages cost nothing but their bytes, tokens go in one hop");
}

/* Of 16 ranks on 8 nodes a message costs what 40 kB do; where they are longer than that by far it
 * does not matter. */
static void messages_that_cost_go_in_two_hops(void)
{
    static const char costly[] =
        "name: test\n"
        "device: {memory: 1GiB, bandwidth: 1.0e11, peak: {bf16: 4.0e12}}\n"
        "node: {devices: 2}\n"
        "links:\n"
        "  - {name: node, ranks: 2, latency: 2.0e-6, device: 2.0e10, message: 1.0e-7}\n"
        "  - {name: spine, ranks: 0, latency: 1.0e-5, device: 4.0e9, message: 1.0e-5}\n";
    struct sn_config c = small_run();
    c.model.family = SN_MIXTRAL;
    c.model.experts = (struct sn_experts_config){.count = 16, .top_k = 2, .every = 1};
    c.model.seq = 32;
    c.layout.expert_buffer = 2;
    c.layout_named = 1u << SN_KEY_RECOMPUTE | 1u << SN_KEY_MICRO_BATCH | 1u << SN_KEY_TENSOR |
                     1u << SN_KEY_CONTEXT | 1u << SN_KEY_ZERO | 1u << SN_KEY_SCHEDULE;
    int few = search_finds_the_best_on(costly, &c, 16, 0);
    c.model.seq = 4096;
    c.train.global_batch = 16;
    int many = search_finds_the_best_on(costly, &c, 16, 0);
    tap_ok(few >= 3 && many == 0,
           "few tokens for many ranks go in two hops, many in one (%d, %d layouts in two)", few,
           many);
}

static void nothing_that_fits_is_told(void)
{
    struct sn_machine m = {0};
    struct sn_software soft;
    struct sn_err err = {0};
    struct sn_search s;
    struct sn_config c = small_run();
    sn_software_default(&soft);
    (void)sn_machine_parse(&m, machine_text, strlen(machine_text), "m.yaml", &err);
    struct sn_search_want w = {.config = &c,
                               .machine = &m,
                               .software = &soft,
                               .ops = sn_ops_cpu(),
                               .threads = 1,
                               .ranks = 4,
                               .top = 3,
                               .limit = 1 << 20};
    bool good = sn_search_run(&s, &w, &err) == SN_OK;
    tap_ok(good && s.n == 0 && s.n_near == 3 && s.too_big == s.valid &&
               s.near[0].plan.memory.total > w.limit &&
               (double)s.near[0].plan.memory.total <= 1.01 * (double)s.near[2].plan.memory.total,
           "nothing fits: the three that need least, by their bounds, are compiled");
    sn_search_fini(&s);
    w.ranks = 7;
    tap_ok(sn_search_run(&s, &w, &err) == SN_EINPUT && strstr(err.text, "6 or 8 ranks would work"),
           "%s", err.text);
    c.layout_named = 1u << SN_KEY_TENSOR | 1u << SN_KEY_ZERO;
    c.layout.tensor = 2;
    c.layout.zero = 1;
    w.ranks = 8;
    w.limit = 0;
    w.top = GRIDS;
    good = sn_search_run(&s, &w, &err) == SN_OK && s.n > 0;
    for (int i = 0; i < s.n; i++)
        good = good && s.found[i].layout.tensor == 2 && s.found[i].layout.zero <= 1;
    tap_ok(good, "keys that the run file names stand");
    sn_search_fini(&s);
    sn_machine_fini(&m);
}

/* This host's memory judges runs on processors alone. */
static void auto_is_judged_by_a_machine(void)
{
    static const struct {
        const char *what, *machine, *named;
        enum sn_backend backend;
        enum sn_status status;
        const char *says;
    } row[] = {
        {"a run on processors by its host", "", "", SN_BACKEND_CPU, SN_EINPUT, "fits 1.00 KiB"},
        {"one that may be on GPUs, too", NULL, "", SN_BACKEND_AUTO, SN_EINPUT, "fits 1.00 KiB"},
        {"one on GPUs by the site's machine", "perlmutter-40", "", SN_BACKEND_CUDA, SN_OK, ""},
        {"one that may be on them by it, too", "perlmutter-40", "", SN_BACKEND_AUTO, SN_OK, ""},
        {"whoever names a machine by that", "", "perlmutter-40", SN_BACKEND_CUDA, SN_OK, ""},
        {"one on GPUs not without one", "", "", SN_BACKEND_CUDA, SN_EINPUT,
         "no machine says what its GPUs hold; want machine.preset"},
        {"nor on some that lack its precision", "lassen", "", SN_BACKEND_CUDA, SN_EINPUT,
         "no bf16"},
        {"where the processor has it, by that", "lassen", "", SN_BACKEND_AUTO, SN_EINPUT,
         "fits 1.00 KiB"}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_config c = small_run();
        struct sn_err err = {0};
        struct sn_search_auto_want w = {.ops = sn_ops_cpu(),
                                        .ranks = 4,
                                        .threads = 1,
                                        .host_limit = 1024,
                                        .machine = row[i].machine};
        c.layout_auto = true;
        c.run.backend = row[i].backend;
        (void)snprintf(c.machine.preset, sizeof(c.machine.preset), "%s", row[i].named);
        c.machine.memory_fraction = 1;
        enum sn_status st = sn_search_auto(&c, &w, &err);
        tap_ok(st == row[i].status && c.layout_auto == (st != SN_OK), "auto: %s", row[i].what);
        tap_ok(strstr(err.text, row[i].says) != NULL, "auto: which is said: %s", err.text);
    }
}

static void no_memory_is_a_sentence(void)
{
    struct sn_machine m = {0};
    struct sn_software soft;
    struct sn_err err = {0};
    struct sn_config c = small_run();
    sn_software_default(&soft);
    (void)sn_machine_parse(&m, machine_text, strlen(machine_text), "m.yaml", &err);
    c.layout_named = 1u << SN_KEY_MICRO_BATCH | 1u << SN_KEY_RECOMPUTE | 1u << SN_KEY_SCHEDULE;
    struct sn_search_want w = {.config = &c,
                               .machine = &m,
                               .software = &soft,
                               .ops = sn_ops_cpu(),
                               .threads = 1,
                               .ranks = 2,
                               .top = 1};
    int failed = 0, other = 0;
    enum sn_status st = SN_ENOMEM;
    for (uint64_t n = 1; st != SN_OK && n < 100000; n += 1 + n / 50) {
        struct sn_search s;
        sn_mem_fail_at(n);
        st = sn_search_run(&s, &w, &err);
        sn_mem_fail_at(0);
        failed += st == SN_ENOMEM;
        other += st != SN_ENOMEM && st != SN_OK;
        if (st == SN_OK)
            sn_search_fini(&s);
    }
    tap_ok(st == SN_OK && failed > 10 && other == 0, "%d allocations failed, each in a sentence",
           failed);
    sn_machine_fini(&m);
}

/* The same search with and without layout.overlap: no grid's best is slower with it. */
static void found_layouts_hide_messages(void)
{
    struct sn_config c[2] = {small_run(), small_run()};
    struct sn_machine m = {0};
    struct sn_software soft;
    struct sn_err err = {0};
    struct sn_search s[2] = {{0}, {0}};
    c[1].layout.overlap = SN_OVERLAP_AUTO;
    sn_software_default(&soft);
    bool good = sn_machine_parse(&m, machine_text, strlen(machine_text), "m.yaml", &err) == SN_OK;
    for (int i = 0; i < 2 && good; i++) {
        struct sn_search_want w = {.config = &c[i],
                                   .machine = &m,
                                   .software = &soft,
                                   .ops = sn_ops_cpu(),
                                   .threads = 1,
                                   .ranks = 8,
                                   .top = GRIDS,
                                   .limit = 96 << 20};
        good = sn_search_run(&s[i], &w, &err) == SN_OK;
    }
    int same = 0, slower = 0, faster = 0, turns = 0, large = 0;
    for (int i = 0; i < s[0].n; i++)
        for (int k = 0; k < s[1].n; k++) {
            const struct sn_found *a = &s[0].found[i], *b = &s[1].found[k];
            if (a->layout.tensor != b->layout.tensor || a->layout.tensor_x != b->layout.tensor_x ||
                a->layout.context != b->layout.context || a->layout.pipeline != b->layout.pipeline)
                continue;
            same++;
            slower += b->plan.step_time > a->plan.step_time * (1 + 1e-9);
            faster += b->plan.step_time < 0.98 * a->plan.step_time;
            turns += sn_schedule_traits(b->layout.schedule)->takes_turns;
            large += b->plan.memory.total > 96 << 20;
        }
    tap_ok(good && same == s[0].n && s[1].n == s[0].n && same > 3, "%d grids in both %s", same,
           err.text);
    tap_ok(slower == 0 && large == 0, "none is slower, or too large (%d, %d)", slower, large);
    tap_ok(faster > 0 && turns > 0, "%d are faster, in %d segments take turns", faster, turns);
    for (int i = 0; i < 2; i++)
        sn_search_fini(&s[i]);
    sn_machine_fini(&m);
}

int main(void)
{
    struct sn_config c = small_run();
    search_finds_the_best_of_all(&c, 8, 64 << 20);
    c.layout_named = 1u << SN_KEY_RECOMPUTE;
    search_finds_the_best_of_all(&c, 16, 0);
    c.layout_named |= 1u << SN_KEY_TENSOR_X | 1u << SN_KEY_SCHEDULE;
    c.layout.tensor_x = 4; /* more than tensor, too */
    search_finds_the_best_of_all(&c, 16, 0);
    c = small_run();
    c.layout_named = 1u << SN_KEY_RECOMPUTE;
    c.train.lora = (struct sn_lora_config){.r = 4, .alpha = 8, .n_targets = 1};
    (void)snprintf(c.train.lora.targets[0], SN_NAME_MAX, "*.attn.*");
    search_finds_the_best_of_all(&c, 8, 0);
    c.train.lora.base = SN_BASE_INT4;
    c.model.ffn = 512;
    search_finds_the_best_of_all(&c, 8, 0);
    c = small_run();
    c.layout_named = 1u << SN_KEY_RECOMPUTE | 1u << SN_KEY_TENSOR_X | 1u << SN_KEY_MICRO_BATCH;
    c.train.prompt = (struct sn_prompt_config){
        .soft = 1, .rows = 2, .size = 24, .n_layers = 2, .layers = {1, 3}};
    search_finds_the_best_of_all(&c, 8, 0);
    c.train.prompt = (struct sn_prompt_config){0};
    c.model.mtp = 1;
    search_finds_the_best_of_all(&c, 8, 0);
    c = small_run();
    c.model.family = SN_MIXTRAL;
    c.model.experts =
        (struct sn_experts_config){.count = 4, .top_k = 2, .every = 2, .aux_loss = 0.01};
    c.layout.expert_buffer = 2;
    c.layout_named = 1u << SN_KEY_RECOMPUTE | 1u << SN_KEY_MICRO_BATCH;
    search_finds_the_best_of_all(&c, 8, 72 << 20);
    c.model.experts.every = 1;
    c.layout_named |= 1u << SN_KEY_TENSOR_X;
    c.layout.tensor_x = 2;
    search_finds_the_best_of_all(&c, 8, 0);
    c.layout_named ^= 1u << SN_KEY_TENSOR_X;
    c.layout.tensor_x = 1;
    c.layout_named |= 1u << SN_KEY_TENSOR;
    c.layout.context_kind = SN_CONTEXT_ALL_TO_ALL;
    search_finds_the_best_of_all(&c, 8, 0);
    c.layout.tensor = 4;
    c.layout.expert_tokens = SN_TOKENS_SPLIT;
    search_finds_the_best_of_all(&c, 8, 0);
    messages_that_cost_go_in_two_hops();
    found_layouts_hide_messages();
    nothing_that_fits_is_told();
    auto_is_judged_by_a_machine();
    no_memory_is_a_sentence();
    return tap_done();
}
