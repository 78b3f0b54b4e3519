/*
 * What DeepSpeed-TED's passes save, three ways: formula, plan and counters are equal.
 *
 * usage: test_accounting            the tests
 *        test_accounting --table    the tables of docs/EXPERTS.md (tools/experts)
 */
#include "tests/lib/accounting.h"
#include "tests/lib/tap.h"

#include <stdio.h>
#include <string.h>

struct variant {
    bool sequence_parallel;
    enum sn_recompute recompute;
    bool aware, drop, split, fewer; /* fewer: experts over fewer ranks than all else */
};

enum { GATHERED = 12, VARIANTS = GATHERED + 6 };

static struct variant variant(int i)
{
    if (i >= GATHERED)
        return (struct variant){.sequence_parallel = true,
                                .recompute = i % 3 > 0 ? SN_RECOMPUTE_FULL : SN_RECOMPUTE_NONE,
                                .aware = i % 3 == 2,
                                .split = i < GATHERED + 3,
                                .fewer = i >= GATHERED + 3};
    return (struct variant){.sequence_parallel = i >= GATHERED / 2,
                            .recompute = i / 2 % 3 > 0 ? SN_RECOMPUTE_FULL : SN_RECOMPUTE_NONE,
                            .aware = i / 2 % 3 == 2,
                            .drop = i % 2};
}

/* The largest divisor below n. */
static int fewer_than(int n)
{
    int fewer = n - 1;
    while (n % fewer != 0)
        fewer--;
    return fewer;
}

static struct sn_config config_of(const struct variant *v, int tensor, int expert)
{
    struct sn_config c = account_config(tensor, expert, v->sequence_parallel);
    c.layout.recompute = v->recompute;
    c.layout.comm_aware_recompute = v->aware;
    c.layout.drop_duplicates = v->drop;
    c.layout.expert_tokens = v->split ? SN_TOKENS_SPLIT : SN_TOKENS_GATHERED;
    c.layout.expert_tensor = v->fewer ? fewer_than(tensor) : 0;
    return c;
}

static const char *recompute_name(const struct variant *v)
{
    return v->recompute == SN_RECOMPUTE_NONE ? "none" : v->aware ? "full, aware" : "full";
}

static const char *duplicates(const struct variant *v)
{
    return v->split   ? "none: tokens split"
           : v->fewer ? "none: expert_tensor less"
           : v->drop  ? "dropped"
                      : "sent";
}

static bool same(const struct account_bytes *a, const struct account_bytes *b)
{
    return a->expert == b->expert && a->tensor == b->tensor;
}

static void three_ways_agree(int tensor, int expert)
{
    for (int i = 0; i < VARIANTS; i++) {
        struct variant v = variant(i);
        struct sn_config c = config_of(&v, tensor, expert);
        struct account a;
        account_layer(&a, &c);
        tap_ok(!a.fault[0] && same(&a.formula, &a.planned) && same(&a.planned, &a.counted),
               "tensor %d, expert %d, %s, recompute %s, duplicates %s: over expert %lld planned, "
               "%lld counted, "
               "formula %lld; over tensor %lld, %lld, %lld%s",
               tensor, expert, v.sequence_parallel ? "sequence parallel" : "whole sequences",
               recompute_name(&v), duplicates(&v), (long long)a.planned.expert,
               (long long)a.counted.expert, (long long)a.formula.expert,
               (long long)a.planned.tensor, (long long)a.counted.tensor,
               (long long)a.formula.tensor, a.fault);
        tap_ok(memcmp(&a.ops, &a.want_ops, sizeof(a.ops)) == 0,
               "and %d exchanges, %d all-reduces, %d + %d all-gathers, %d + %d reduce-scatters",
               a.ops.exchanges, a.ops.all_reduces, a.ops.all_gathers, a.ops.gathered,
               a.ops.reduce_scatters, a.ops.scattered);
    }
}

/* --- tables ----------------------------------------------------------------------------------- */

static int layer_table(int tensor, int expert)
{
    (void)printf("| sequence parallel | recompute | duplicates | exchanges | all-reduces | "
                 "all-gathers | reduce-scatters | expert: formula | planned | counted | tensor: "
                 "formula | planned | counted |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
                 "---|\n");
    for (int i = 0; i < VARIANTS; i++) {
        struct variant v = variant(i);
        struct sn_config c = config_of(&v, tensor, expert);
        struct account a;
        account_layer(&a, &c);
        if (a.fault[0]) {
            (void)fprintf(stderr, "test_accounting: %s\n", a.fault);
            return 1;
        }
        (void)printf("| %s | %s | %s | %d | %d | %d | %d | %lld | %lld | %lld | %lld | %lld | "
                     "%lld |\n",
                     v.sequence_parallel ? "yes" : "no", recompute_name(&v), duplicates(&v),
                     a.ops.exchanges, a.ops.all_reduces, a.ops.all_gathers + a.ops.gathered,
                     a.ops.reduce_scatters + a.ops.scattered, (long long)a.formula.expert,
                     (long long)a.planned.expert, (long long)a.counted.expert,
                     (long long)a.formula.tensor, (long long)a.planned.tensor,
                     (long long)a.counted.tensor);
    }
    return 0;
}

static int update_table(void)
{
    struct sn_err err = {0};
    (void)printf("\n| width of an expert | values of the largest bucket | scratch, formula | "
                 "planned | in tiles of 65536, formula | planned |\n|---|---|---|---|---|---|\n");
    for (int ffn = 512; ffn <= 4096; ffn *= 2) {
        struct sn_config c = account_config(1, 2, false);
        struct sn_memory_plan plan;
        int64_t n = 0, tile = SN_TILE_VALUES;
        c.model.ffn = ffn;
        c.layout.bucket = 1 << 20;
        c.train.grad_dtype = SN_BF16;
        int64_t whole = account_update(&c, &n, &plan, &err);
        c.layout.optimizer_tile = tile;
        int64_t tiled = account_update(&c, &n, &plan, &err);
        if (whole < 0 || tiled < 0) {
            (void)fprintf(stderr, "test_accounting: %s\n", err.text);
            return 1;
        }
        (void)printf("| %d | %lld | %lld | %lld | %lld | %lld |\n", ffn, (long long)n,
                     (long long)(4 * n), (long long)whole, (long long)(4 * tile), (long long)tiled);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--table") == 0)
        return layer_table(4, 2) || update_table();
    three_ways_agree(2, 2);
    three_ways_agree(4, 2);
    three_ways_agree(3, 4);
    return tap_done();
}
