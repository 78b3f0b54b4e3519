/*
 * search_auto.c - what no layout satisfies, in a sentence; and `layout: auto`.
 */
#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/search/search.h"
#include "lib/search/search_heap.h"
#include "lib/search/variants.h"

#include <stdio.h>

enum { FAR = 64 };

/* The nearest number of ranks on one side of `ranks` on which some layout is valid;
 * 0: none near. */
static int near_ranks(const struct sn_config *c, int ranks, int step, struct sn_err *err)
{
    for (int i = 1; i <= FAR && ranks + i * step > 0; i++) {
        struct sn_variants v;
        if (sn_variants_list(&v, c, ranks + i * step, 0, err) != SN_OK)
            return 0;
        bool any = v.n > 0;
        sn_variants_fini(&v);
        if (any)
            return ranks + i * step;
    }
    return 0;
}

enum sn_status sn_search_refuse(const struct sn_config *c, int ranks, struct sn_err *err)
{
    int fewer = near_ranks(c, ranks, -1, err), more = near_ranks(c, ranks, 1, err);
    char would[96] = "another train.global_batch or fewer named keys";
    if (fewer && more)
        (void)snprintf(would, sizeof(would), "%d or %d ranks would work", fewer, more);
    else if (fewer || more)
        (void)snprintf(would, sizeof(would), "%d ranks would work", fewer ? fewer : more);
    return sn_fail(err, SN_EINPUT,
                   "%s: no layout of %d ranks is valid: tensor divides model.heads (%d), context "
                   "model.seq (%d), pipeline is at most model.layers (%d), data x micro_batch "
                   "divides %s (%d)%s; %s",
                   c->path, ranks, c->model.heads, c->model.seq, c->model.layers,
                   c->train.ramp.n_batches ? "all batches" : "train.global_batch",
                   sn_batch_divisor(&c->train),
                   c->layout_named ? ", and keys that layout names stand" : "", would);
}

const char *sn_search_why(char text[SN_SEARCH_WHY], const struct sn_search *s, int64_t limit)
{
    char need[16], have[16];
    (void)snprintf(text, SN_SEARCH_WHY, "none of %lld layouts fits %s; the nearest needs %s a rank",
                   (long long)s->valid, sn_str_bytes(have, limit),
                   sn_str_bytes(need, s->n_near ? s->near[0].plan.memory.total : 0));
    return text;
}

enum sn_status sn_search_ranks(int *ranks, int64_t asked, const struct sn_config *c,
                               const struct sn_machine *m, struct sn_err *err)
{
    int64_t n = asked ? asked : sn_machine_ranks(m, c);
    if (n == 0 && c->layout.data)
        n = sn_config_ranks(c);
    if (n == 0)
        return sn_fail(
            err, SN_EINPUT,
            "%s: nothing says how many ranks to search for; use --gpus, machine.nodes or "
            "layout.data",
            c->path);
    *ranks = (int)n;
    return SN_OK;
}

static enum sn_status refuse_all(const struct sn_config *c, const struct sn_search *s,
                                 int64_t limit, struct sn_err *err)
{
    char why[SN_SEARCH_WHY];
    return sn_fail(err, SN_EINPUT, "%s: layout: auto: %s", c->path, sn_search_why(why, s, limit));
}

enum sn_status sn_search_check_machine(const struct sn_config *c, const char *machine,
                                       struct sn_err *err)
{
    if (c->run.backend != SN_BACKEND_CUDA || sn_names_machine(c) || (machine && machine[0]))
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: run.backend is cuda, and no machine says what its GPUs hold; want "
                   "machine.preset, machine.file or a slurm.site that has one",
                   c->path);
}

/* By whose measure, and what a rank may fill. The site's machine counts where the run could be on
 * its GPUs: one that may run on the processor does so where they lack its precision. */
static enum sn_status find_machine(struct sn_machine *m, int64_t *limit, const struct sn_config *c,
                                   const struct sn_search_auto_want *w, struct sn_err *err)
{
    bool named = sn_names_machine(c);
    SN_TRY(sn_search_check_machine(c, w->machine, err));
    if (!named && w->machine && w->machine[0]) {
        SN_TRY(sn_machine_preset(m, w->machine, NULL, err));
        *limit = sn_memory_limit(m, c);
        enum sn_status st = sn_machine_check_precision(m, c->train.precision, err);
        if (st == SN_OK)
            return SN_OK;
        sn_machine_fini(m);
        if (c->run.backend == SN_BACKEND_CUDA)
            return sn_err_prefix(err, "%s", c->path);
    }
    SN_TRY(sn_machine_of(m, c, NULL, err));
    *limit = named ? sn_memory_limit(m, c) : w->host_limit;
    return SN_OK;
}

void sn_search_free(struct sn_config *c)
{
    struct sn_layout_config *l = &c->layout;
    c->layout_named = 0;
    l->tensor_pieces = 1;
    l->expert_node = l->expert_chunks = l->expert_tensor = l->compress.node = 0;
    l->expert_tokens = SN_TOKENS_AUTO;
    l->drop_duplicates = SN_DUPLICATES_AUTO;
}

enum sn_status sn_search_best(struct sn_search *out, const struct sn_config *c,
                              const struct sn_search_auto_want *want, int top, struct sn_err *err)
{
    struct sn_machine machine = {0};
    struct sn_software software;
    struct sn_search_want w = {.config = c,
                               .machine = &machine,
                               .software = &software,
                               .ops = want->ops,
                               .threads = want->threads,
                               .ranks = want->ranks,
                               .top = top};
    *out = (struct sn_search){0};
    enum sn_status st = find_machine(&machine, &w.limit, c, want, err);
    if (st == SN_OK)
        st = sn_software_of(&software, c, NULL, err);
    if (st == SN_OK)
        st = sn_search_run(out, &w, err);
    if (st == SN_OK && out->n == 0)
        st = refuse_all(c, out, w.limit, err);
    sn_machine_fini(&machine);
    return st;
}

enum sn_status sn_search_auto(struct sn_config *c, const struct sn_search_auto_want *want,
                              struct sn_err *err)
{
    struct sn_search s;
    enum sn_status st = sn_search_best(&s, c, want, 1, err);
    if (st == SN_OK) {
        c->layout = s.found[0].layout;
        c->layout_auto = false;
    }
    sn_search_fini(&s);
    return st;
}
