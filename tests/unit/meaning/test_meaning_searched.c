/*
 * test_meaning_searched.c - layouts that a search looks at are proven to compute what one rank does:
 * no false alarm, whatever the grid, schedule, ZeRO stage, recomputation and order of messages.
 *
 * usage: test_meaning_searched    some; ALL=1: 2,000; SEED=N: others
 */
#include "lib/base/mem.h"
#include "lib/meaning/prove.h"
#include "lib/search/variants.h"
#include "tests/lib/dice.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/layouts.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>

enum { SOME = 16, ALL_LAYOUTS = 2000, OF_A_MODEL = 8 };

struct count {
    int proven, gaps, ranks_most, overlapped, experts, pipelines;
};

/* A model whose sizes suit many grids; with sequences that context ranks may share. */
static struct sn_config model(struct dice *d)
{
    static const enum sn_family families[] = {SN_LLAMA, SN_GPT2, SN_GPT_NEOX, SN_QWEN2, SN_MIXTRAL};
    static const int layers[] = {4, 6, 8};
    enum sn_family f = families[(int)roll(d, 5)];
    struct sn_config c = layout_config(f);
    c.model.layers = layers[(int)roll(d, 3)];
    c.model.hidden = 96;
    c.model.heads = 24;
    c.model.kv_heads = sn_family_traits(f)->grouped_heads ? 12 : 24;
    c.model.ffn = 192;
    c.model.vocab = 1000;
    c.model.seq = 8192;
    c.train.precision = (int)roll(d, 2) ? SN_BF16 : SN_F32;
    c.train.global_batch = 48;
    c.train.eval_every = 0;
    c.layout_named = 0;
    if (f == SN_MIXTRAL)
        c.model.experts = (struct sn_experts_config){.count = (int)roll(d, 2) ? 8 : 4,
                                                     .top_k = 2,
                                                     .every = 1,
                                                     .aux_loss = (int)roll(d, 2) ? 0.01 : 0};
    return c;
}

static void prove(struct sn_config *c, int ranks, struct count *n)
{
    struct sn_err err = {0};
    struct sn_model *m = NULL;
    struct sn_meaning_proof proof = {0};
    struct sn_str text = {0};
    struct sn_job_env env = {.config = c, .ops = sn_ops_cpu(), .threads = 1};
    bool good = sn_model_create(&m, &c->model, &c->train, &err) == SN_OK;
    env.model = m;
    good = good && sn_meaning_prove(&proof, &env, &err) == SN_OK;
    n->gaps += good && proof.gap != NULL;
    if (good && proof.gap == NULL && proof.holds) {
        n->proven++;
        n->ranks_most = ranks > n->ranks_most ? ranks : n->ranks_most;
        n->overlapped += c->layout.overlap == SN_OVERLAP_AUTO;
        n->experts += c->layout.expert > 1;
        n->pipelines += c->layout.pipeline > 1;
    } else if (!good || proof.gap == NULL) {
        sn_config_format_layout(&text, c);
        tap_ok(false, "%s on %d ranks is proven: %s%s\n%s", sn_family_name(c->model.family), ranks,
               err.text, proof.fault.text, text.p);
    }
    sn_str_fini(&text);
    sn_model_destroy(m);
}

/* Some of all layouts of a model on a number of ranks. */
static void draw(struct dice *d, struct count *n, int due)
{
    static const int sizes[] = {2, 4, 6, 8, 12, 16, 24, 32, 48};
    struct sn_config base = model(d);
    struct sn_variants v = {0};
    struct sn_err err = {0};
    int ranks = sizes[(int)roll(d, (int)(sizeof(sizes) / sizeof(sizes[0])))];
    if (sn_variants_list(&v, &base, ranks, 4, &err) != SN_OK)
        v.n = 0; /* none is valid on so many */
    for (int i = 0; i < OF_A_MODEL && v.n > 0 && n->proven + n->gaps < due; i++) {
        struct sn_config c = base;
        sn_variant_expand(&c.layout, &v.of[(int)roll(d, (int)v.n)], &base);
        sn_config_settle_tokens(&c.layout);
        if ((int)roll(d, 2))
            layouts_overlap(&c);
        if (sn_config_check_layout(&c, ranks, &err) == SN_OK)
            prove(&c, ranks, n);
    }
    sn_variants_fini(&v);
}

int main(void)
{
    const char *seed = getenv("SEED");
    struct dice d = {seed ? strtoull(seed, NULL, 10) : 20261127, 0};
    int due = getenv("ALL") ? ALL_LAYOUTS : SOME;
    struct count n = {0};
    for (int round = 0; round < 20 * due && n.proven + n.gaps < due && tap_failed < 8; round++)
        draw(&d, &n, due);
    tap_ok(
        n.gaps == 0 && n.proven >= due,
        "%d layouts of up to %d ranks are proven: %d with pipelines, %d with experts shared out, "
        "%d with messages hidden; %d were not looked into",
        n.proven, n.ranks_most, n.pipelines, n.experts, n.overlapped, n.gaps);
    tap_ok(n.pipelines > due / 8 && n.experts > due / 32 && n.overlapped > due / 4,
           "all kinds are among them");
    return tap_done();
}
