/*
 * test_arrange.c - bytes between ranks against the plan's sums, and the arrangement of small jobs
 * against all permutations.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/mapping/arrange.h"
#include "tests/lib/dice.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

struct axes {
    int tensor, context, data, pipeline, zero, virtual_stages;
    bool tied;
    int tensor_x;
};

/* The flow of a small model in a layout; bytes by axis of the same programs. */
static bool make_flow(struct sn_flow *f, int64_t traffic[SN_NAXES], const struct axes *a)
{
    struct sn_config c = layout_config(SN_LLAMA);
    struct sn_model *model = NULL;
    struct sn_stages s = {0};
    struct sn_err err = {0};
    c.layout.tensor = a->tensor;
    c.layout.tensor_x = a->tensor_x;
    c.layout.context = a->context;
    c.layout.data = a->data;
    c.layout.pipeline = a->pipeline;
    c.layout.zero = a->zero;
    c.layout.virtual_stages = a->virtual_stages;
    c.layout.schedule = a->virtual_stages > 1 ? SN_INTERLEAVED : SN_1F1B;
    c.model.tied_embeddings = a->tied;
    c.train.global_batch = 12 * a->data;
    enum sn_status st = sn_model_create(&model, &c.model, &c.train, &err);
    struct sn_job_env env = {.config = &c, .model = model, .ops = sn_ops_cpu(), .threads = 1};
    if (st == SN_OK)
        st = sn_stages_create_text(&s, &env, &err);
    if (st == SN_OK)
        st = sn_flow_create(f, &s, &err);
    for (int i = 0; st == SN_OK && i < s.n; i++) {
        int64_t one[SN_NAXES];
        sn_job_traffic_of_stage(s.job[i], one);
        for (int x = 0; x < SN_NAXES; x++)
            traffic[x] += one[x];
    }
    sn_stages_fini(&s);
    sn_model_destroy(model);
    return tap_ok(
        st == SN_OK, "tensor %d x %d, context %d, data %d, pipeline %d, zero %d compiles %s",
        a->tensor, c.layout.tensor_x, a->context, a->data, a->pipeline, a->zero, err.text);
}

static void pairs_add_up_to_the_traffic(void)
{
    static const struct axes of[] = {
        {2, 1, 2, 2, 0, 1, false, 1}, {2, 2, 2, 1, 1, 1, false, 1}, {1, 1, 3, 2, 2, 1, false, 1},
        {4, 1, 1, 3, 0, 1, true, 1},  {2, 1, 2, 3, 3, 1, true, 1},  {2, 1, 1, 2, 0, 2, false, 1},
        {1, 1, 2, 2, 1, 1, false, 2}, {2, 1, 2, 3, 3, 1, true, 2},  {2, 2, 1, 2, 0, 2, false, 4},
    };
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        struct sn_flow f = {.n_terms = 0};
        int64_t traffic[SN_NAXES] = {0}, want = 0, got = 0;
        if (!make_flow(&f, traffic, &of[i]))
            continue;
        for (int x = 0; x < SN_NAXES; x++)
            want += traffic[x];
        int n = sn_grid_ranks(&f.grid);
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++)
                got += sn_flow_pair(&f, a, b);
        tap_ok(got == want && want > 0, "%lld bytes between pairs, %lld of the plan",
               (long long)got, (long long)want);
        sn_flow_fini(&f);
    }
}

/* Is what parts of a job exchange the sum of their ranks' pairs? */
static void parts_are_sums_of_pairs(void)
{
    static const struct axes of[] = {{2, 1, 2, 2, 0, 1, false, 1},
                                     {4, 1, 1, 3, 0, 1, true, 1},
                                     {2, 1, 2, 3, 3, 1, true, 2},
                                     {2, 2, 1, 2, 0, 2, false, 4},
                                     {1, 1, 3, 2, 2, 1, false, 1}};
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        struct sn_flow f = {.n_terms = 0};
        int64_t traffic[SN_NAXES] = {0}, want[9] = {0}, got[9];
        int part_of[64];
        struct sn_err err;
        if (!make_flow(&f, traffic, &of[i]))
            continue;
        int n = sn_grid_ranks(&f.grid), wrong = 0;
        for (int a = 0; a < n; a++)
            part_of[a] = a * 7 % 5 % 3; /* not neighbours */
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++)
                want[part_of[a] * 3 + part_of[b]] += sn_flow_pair(&f, a, b);
        bool made = sn_flow_parts(got, &f, part_of, 3, &err) == SN_OK;
        for (int k = 0; k < 9 && made; k++)
            wrong += got[k] != want[k];
        tap_ok(made && wrong == 0, "three parts of %d ranks: %d sums of pairs are others", n,
               wrong);
        sn_flow_fini(&f);
    }
}

/* ---- trees ----------------------------------------------------------------------------------- */

enum { MOST = 64 };

struct forest {
    struct sn_tree tree;
    int node[MOST], leaf[MOST];
};

/* `leaf_of_node` names the leaf of each node; `cyclic`: process p is on node p % nodes. */
static void plant(struct forest *w, int processes, int nodes, const char *leaf_of_node, bool cyclic)
{
    int leaves = 0;
    for (int i = 0; i < nodes; i++)
        leaves = leaf_of_node[i] - 'a' + 1 > leaves ? leaf_of_node[i] - 'a' + 1 : leaves;
    for (int p = 0; p < processes; p++) {
        w->node[p] = cyclic ? p % nodes : p / (processes / nodes);
        w->leaf[p] = leaf_of_node[w->node[p]] - 'a';
    }
    w->tree = (struct sn_tree){.n = processes,
                               .levels = leaves > 1 ? 2 : 1,
                               .domain = {w->node, w->leaf},
                               .domains = {nodes, leaves},
                               .name = {"node", "leaf", "spine"}};
}

/* By the definition, pair by pair. */
static void count_pairs(int64_t *bytes, const struct sn_flow *f, const struct sn_tree *t,
                        const int *process_of)
{
    for (int i = 0; i <= t->levels; i++)
        bytes[i] = 0;
    for (int a = 0; a < t->n; a++)
        for (int b = 0; b < t->n; b++) {
            int level = 0;
            while (level < t->levels &&
                   t->domain[level][process_of[a]] != t->domain[level][process_of[b]])
                level++;
            bytes[level] += sn_flow_pair(f, a, b);
        }
}

static void counts_are_those_of_pairs(void)
{
    static const struct axes of[] = {{2, 1, 2, 3, 0, 1, true, 1}, {2, 2, 3, 1, 1, 1, false, 1}};
    struct dice d = {.key = 5};
    for (size_t i = 0; i < 2; i++) {
        struct sn_flow f = {.n_terms = 0};
        int64_t unused[SN_NAXES] = {0}, got[SN_TREE_LEVELS + 1], want[SN_TREE_LEVELS + 1];
        struct forest w;
        int process_of[12];
        if (!make_flow(&f, unused, &of[i]))
            continue;
        plant(&w, 12, 6, "abbcac", false);
        for (int r = 0; r < 12; r++)
            process_of[r] = r;
        for (int r = 11; r > 0; r--) {
            int k = (int)roll(&d, r + 1), x = process_of[r];
            process_of[r] = process_of[k];
            process_of[k] = x;
        }
        struct sn_err err;
        count_pairs(want, &f, &w.tree, process_of);
        bool good = sn_arrange_count(got, &f, &w.tree, process_of, &err) == SN_OK;
        tap_ok(good && memcmp(got, want, 3 * sizeof(got[0])) == 0,
               "bytes by level of a shuffled job: %lld %lld %lld", (long long)got[0],
               (long long)got[1], (long long)got[2]);
        sn_flow_fini(&f);
    }
}

/* ---- against all permutations ---------------------------------------------------------------- */

struct exhaustive {
    const struct sn_flow *f;
    const struct sn_tree *t;
    int64_t pair[8][8];
    int process_of[8];
    bool used[8];
    double best;
    int64_t most_outside; /* of the launcher's order */
};

static void try_all(struct exhaustive *x, int rank)
{
    int n = x->t->n;
    if (rank < n) {
        for (int p = 0; p < n; p++) {
            if (x->used[p])
                continue;
            x->used[p] = true;
            x->process_of[rank] = p;
            try_all(x, rank + 1);
            x->used[p] = false;
        }
        return;
    }
    int64_t bytes[SN_TREE_LEVELS + 1] = {0};
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            int level = 0;
            while (level < x->t->levels &&
                   x->t->domain[level][x->process_of[a]] != x->t->domain[level][x->process_of[b]])
                level++;
            bytes[level] += x->pair[a][b];
        }
    double cost = sn_arrange_cost(bytes, x->t->levels + 1);
    if (cost < x->best && bytes[x->t->levels] <= x->most_outside)
        x->best = cost;
}

static void small_jobs_are_arranged_as_well_as_can_be(void)
{
    static const struct axes of[] = {
        {2, 1, 2, 2, 0, 1, false, 1}, {4, 1, 2, 1, 1, 1, false, 1}, {2, 2, 2, 1, 0, 1, false, 1},
        {1, 1, 4, 2, 2, 1, false, 1}, {2, 1, 1, 4, 0, 1, true, 1},  {2, 1, 4, 1, 3, 1, false, 1},
        {1, 2, 1, 4, 0, 1, false, 1}, {2, 1, 2, 1, 1, 1, false, 2}, {2, 1, 1, 2, 0, 1, true, 2},
        {1, 1, 2, 2, 0, 1, false, 2}, {2, 1, 1, 1, 0, 1, false, 4}};
    static const struct {
        int nodes;
        const char *leaves;
        bool cyclic;
    } on[] = {{4, "aabb", false}, {4, "abab", false},     {4, "aabb", true},
              {4, "aaab", false}, {8, "ababacbc", false}, {2, "aa", true}};
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        struct sn_flow f = {.n_terms = 0};
        int64_t unused[SN_NAXES] = {0};
        int as_good = 0, never_worse = 0, total = sizeof(on) / sizeof(on[0]);
        if (!make_flow(&f, unused, &of[i]))
            continue;
        for (int k = 0; k < total; k++) {
            struct forest w;
            struct sn_arrangement a;
            struct sn_err err;
            int process_of[8];
            plant(&w, 8, on[k].nodes, on[k].leaves, on[k].cyclic);
            if (sn_arrange(process_of, &a, &f, &w.tree, 1, &err) != SN_OK)
                continue;
            struct exhaustive x = {
                .f = &f, .t = &w.tree, .best = 1e300, .most_outside = a.in_order[w.tree.levels]};
            for (int r = 0; r < 8; r++)
                for (int q = 0; q < 8; q++)
                    x.pair[r][q] = sn_flow_pair(&f, r, q);
            try_all(&x, 0);
            double got = sn_arrange_cost(a.arranged, a.levels);
            as_good += got <= x.best;
            never_worse += a.arranged[w.tree.levels] <= a.in_order[w.tree.levels];
            if (got > x.best)
                printf("# %s: cost %.0f, best %.0f, in order %.0f\n", on[k].leaves, got, x.best,
                       sn_arrange_cost(a.in_order, a.levels));
        }
        tap_ok(as_good == total, "as good as the best of 40,320 permutations in %d of %d trees",
               as_good, total);
        tap_ok(never_worse == total, "never more over the outermost border than in order");
        sn_flow_fini(&f);
    }
}

/* ---- what it must be like -------------------------------------------------------------------- */

static void every_rank_has_a_process_of_its_own(void)
{
    struct axes a = {4, 1, 4, 4, 0, 1, false, 1};
    struct sn_flow f = {.n_terms = 0};
    int64_t unused[SN_NAXES] = {0};
    struct forest w;
    struct sn_arrangement first, second;
    struct sn_err err;
    int one[MOST], two[MOST], seen[MOST] = {0}, n = 64, once = 0;
    if (!make_flow(&f, unused, &a))
        return;
    plant(&w, n, 16, "abcdabcdaaabbbcd", false);
    bool good = sn_arrange(one, &first, &f, &w.tree, 1, &err) == SN_OK &&
                sn_arrange(two, &second, &f, &w.tree, 1, &err) == SN_OK;
    for (int r = 0; r < n; r++)
        seen[one[r]]++;
    for (int p = 0; p < n; p++)
        once += seen[p] == 1;
    tap_ok(good && once == n, "64 ranks are 64 processes");
    tap_ok(memcmp(one, two, sizeof(one)) == 0, "the same again gives the same");
    tap_ok(!first.is_identity && first.arranged[2] < first.in_order[2],
           "mixed leaves: %lld bytes over the spine instead of %lld", (long long)first.arranged[2],
           (long long)first.in_order[2]);
    good = sn_arrange(two, &second, &f, &w.tree, 0, &err) == SN_OK;
    tap_ok(good && second.is_identity && two[5] == 5 && second.arranged[2] == second.in_order[2],
           "not wanted: the launcher's order");
    plant(&w, n, 16, "aaaabbbbccccdddd", false);
    good = sn_arrange(two, &second, &f, &w.tree, 1, &err) == SN_OK;
    tap_ok(good && sn_arrange_cost(second.arranged, 3) <= sn_arrange_cost(second.in_order, 3),
           "nothing to gain is no loss");
    sn_flow_fini(&f);
}

/* Names alternate between two leaves, as an alphabetical node list does on some clusters. */
static void sixteen_thousand_ranks_take_a_moment(void)
{
    enum { RANKS = 16384, PER_NODE = 4, LEAF_NODES = 16 };
    static const enum sn_axis order[] = {SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT,
                                         SN_AXIS_DATA, SN_AXIS_PIPELINE};
    const int size[SN_NGRID_AXES] = {[SN_AXIS_TENSOR] = 8,
                                     [SN_AXIS_TENSOR_X] = 1,
                                     [SN_AXIS_CONTEXT] = 1,
                                     [SN_AXIS_DATA] = 128,
                                     [SN_AXIS_PIPELINE] = 16};
    int *node = sn_alloc_n(RANKS, sizeof(int)), *leaf = sn_alloc_n(RANKS, sizeof(int)),
        *process_of = sn_alloc_n(RANKS, sizeof(int));
    int64_t zero[2 * 128] = {0};
    struct sn_flow_term term[32];
    struct sn_flow_send send[32];
    struct sn_err err;
    if (!node || !leaf || !process_of)
        return;
    struct sn_flow f = {.term = term, .send = send};
    (void)sn_grid_init(&f.grid, RANKS, size, order, &err);
    for (int s = 0; s < 16; s++) {
        f.term[f.n_terms++] =
            (struct sn_flow_term){SN_GROUP_TENSOR, s, 8, 1000000, zero, zero + 128, 0};
        f.term[f.n_terms++] =
            (struct sn_flow_term){SN_GROUP_REPLICA, s, 128, 20000, zero, zero + 128, 0};
        if (s < 15)
            f.send[f.n_sends++] = (struct sn_flow_send){SN_GROUP_PIPELINE, s, s + 1, 3000000};
        if (s > 0)
            f.send[f.n_sends++] = (struct sn_flow_send){SN_GROUP_PIPELINE, s, s - 1, 3000000};
    }
    int nodes = RANKS / PER_NODE, leaves = nodes / LEAF_NODES;
    for (int p = 0; p < RANKS; p++) {
        node[p] = p / PER_NODE;
        leaf[p] = node[p] % leaves;
    }
    struct sn_tree t = {.n = RANKS,
                        .levels = 2,
                        .domain = {node, leaf},
                        .domains = {nodes, leaves},
                        .name = {"node", "leaf", "spine"}};
    struct sn_arrangement got;
    double began = sn_clock();
    bool good = sn_arrange(process_of, &got, &f, &t, 1, &err) == SN_OK;
    double seconds = sn_clock() - began;
    tap_ok(good && seconds < 5, "16,384 ranks in %.2f s (limit 5)", seconds);
    tap_ok(good && got.arranged[2] * 10 < got.in_order[2] * 7,
           "%lld bytes over the spine instead of %lld", (long long)got.arranged[2],
           (long long)got.in_order[2]);
    sn_free(node);
    sn_free(leaf);
    sn_free(process_of);
}

static void no_memory_is_told(void)
{
    struct axes a = {2, 1, 2, 2, 0, 1, false, 1};
    struct sn_flow f = {.n_terms = 0};
    int64_t unused[SN_NAXES] = {0};
    struct forest w;
    struct sn_arrangement got;
    struct sn_err err;
    int process_of[8], refused = 0;
    if (!make_flow(&f, unused, &a))
        return;
    plant(&w, 8, 4, "abab", false);
    enum sn_status st = SN_ENOMEM;
    for (int n = 1; st == SN_ENOMEM && n < 1000; n++) {
        sn_mem_fail_at((uint64_t)n);
        st = sn_arrange(process_of, &got, &f, &w.tree, 1, &err);
        refused += st == SN_ENOMEM;
    }
    sn_mem_fail_at(0);
    tap_ok(st == SN_OK && refused > 20, "%d failing allocations are told, then it works", refused);
    sn_flow_fini(&f);
}

int main(void)
{
    pairs_add_up_to_the_traffic();
    parts_are_sums_of_pairs();
    counts_are_those_of_pairs();
    small_jobs_are_arranged_as_well_as_can_be();
    every_rank_has_a_process_of_its_own();
    sixteen_thousand_ranks_take_a_moment();
    no_memory_is_told();
    return tap_done();
}
