/*
 * In how many chunks tokens go to their experts: what the plan of the whole model says, too; more
 * than one where messages and products take as long, one where messages are short or dear.
 */
#include "lib/search/chunks.h"

#include "lib/model/model.h"
#include "lib/sim/plan.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sn_software software;

/* A network of one level; latency of a message in seconds. */
static bool machine_of(struct sn_machine *m, double latency, double bytes_per_s)
{
    char text[512];
    struct sn_err err;
    (void)snprintf(
        text, sizeof(text),
        "name: test\n"
        "device: {memory: 80GiB, bandwidth: 2.0e12, peak: {bf16: 3.0e14, fp32: 1.0e13}}\n"
        "node: {devices: 1}\n"
        "links:\n"
        "  - {name: net, ranks: 0, latency: %g, device: %g}\n",
        latency, bytes_per_s);
    return tap_ok(sn_machine_parse(m, text, strlen(text), "m.yaml", &err) == SN_OK,
                  "a network of %g bytes/s, %g s", bytes_per_s, latency);
}

static struct sn_config config_of(int seq)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.model.family = SN_MIXTRAL;
    c.model.hidden = 1024;
    c.model.heads = c.model.kv_heads = 8;
    c.model.ffn = 4096;
    c.model.layers = 4;
    c.model.seq = seq;
    c.model.experts = (struct sn_experts_config){.count = 8, .top_k = 2, .every = 1};
    c.train.precision = SN_BF16;
    c.train.global_batch = 8;
    c.run.threads = 1;
    c.layout.data = 8;
    c.layout.expert = 8;
    c.layout.expert_buffer = 2;
    c.layout.expert_node = 1;
    return c;
}

static struct sn_chunks choose(const struct sn_config *c, const struct sn_machine *m)
{
    struct sn_grid g;
    struct sn_chunks x = {.n = -1};
    struct sn_err err = {0};
    if (sn_job_grid(&g, c, &err) != SN_OK ||
        sn_chunks_choose(&x, c, &g, m, &software, &err) != SN_OK)
        tap_ok(false, "%s", err.text);
    return x;
}

/* The step of the whole model with n chunks; 0: *err says why. */
static double planned(const struct sn_config *c, const struct sn_machine *m, int n,
                      struct sn_err *err)
{
    struct sn_config cut = *c;
    struct sn_model *model = NULL;
    struct sn_stages stages = {0};
    struct sn_pricer p;
    struct sn_sim sim = {0};
    struct sn_job_env env = {.config = &cut, .ops = sn_ops_cpu(), .threads = 1};
    cut.layout.expert_chunks = n;
    enum sn_status st = sn_model_create(&model, &cut.model, &cut.train, err);
    env.model = model;
    if (st == SN_OK)
        st = sn_stages_create_text(&stages, &env, err);
    if (st == SN_OK) {
        sn_pricer_init(&p, m, &software, stages.job[0]);
        st = sn_sim_run(&sim, &stages, &p, false, err);
    }
    double step = st == SN_OK ? sim.step : 0;
    sn_sim_fini(&sim);
    sn_stages_fini(&stages);
    sn_model_destroy(model);
    return step;
}

static void answer_is_the_whole_plans(const char *what, const struct sn_config *c,
                                      const struct sn_machine *m, bool pays)
{
    struct sn_chunks x = choose(c, m);
    struct sn_err err = {0};
    double step[SN_CHUNKS_MOST + 1] = {0};
    int best = 1;
    for (int n = 1; n <= SN_CHUNKS_MOST; n *= 2) {
        step[n] = planned(c, m, n, &err);
        best = step[n] < step[best] ? n : best;
    }
    tap_ok(x.n > 0 && step[1] > 0 && x.n == best,
           "%s: %d chunks, the whole model is planned "
           "fastest with %d %s",
           what, x.n, best, err.text);
    double gain = x.n > 0 ? x.seconds[1] / x.seconds[x.n] : 0;
    tap_ok(pays ? x.n > 1 && gain > 1.1 : x.n == 1,
           "%s: a layer's step takes %.4g ms all at once, %.4g, %.4g and %.4g in 2, 4 and 8 chunks",
           what, 1e3 * x.seconds[1], 1e3 * x.seconds[2], 1e3 * x.seconds[4], 1e3 * x.seconds[8]);
}

/* --- tokens split over tensor ranks ----------------------------------------------------------- */

/* Two devices of a node, in a file that the run file names. */
static bool machine_file(struct sn_machine *m, struct sn_config *c, const char *links)
{
    char path[] = "/tmp/sennit-chunks-XXXXXX";
    struct sn_err err = {0};
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f)
        return tap_ok(false, "a machine file is written");
    (void)fprintf(f,
                  "name: test\n"
                  "device: {memory: 80GiB, bandwidth: 2.0e12, peak: {bf16: 3.0e14}}\n"
                  "node: {devices: 2}\n"
                  "links:\n%s",
                  links);
    (void)fclose(f);
    (void)snprintf(c->machine.file, sizeof(c->machine.file), "%s", path);
    c->machine.memory_fraction = 1;
    return tap_ok(sn_machine_load(m, path, &err) == SN_OK, "the machine is read %s", err.text);
}

static void tokens_go_the_cheaper_way(const char *what, const char *links,
                                      enum sn_expert_tokens want)
{
    struct sn_machine m = {0};
    struct sn_config c = config_of(2048);
    struct sn_err err = {0};
    c.train.global_batch = 4;
    c.layout.data = c.layout.expert = 4;
    c.layout.tensor = 2;
    c.layout.sequence_parallel = true;
    c.layout.drop_duplicates = true;
    c.layout.expert_chunks = 1;
    if (!machine_file(&m, &c, links))
        return;
    double gathered = planned(&c, &m, 1, &err);
    c.layout.expert_tokens = SN_TOKENS_SPLIT;
    double split = planned(&c, &m, 1, &err);
    enum sn_expert_tokens best = split < gathered ? SN_TOKENS_SPLIT : SN_TOKENS_GATHERED;
    c.layout.expert_tokens = SN_TOKENS_AUTO;
    tap_ok(sn_chunks_resolve(&c, &err) == SN_OK && c.layout.expert_tokens == best && best == want,
           "%s: auto has tokens %s (the whole model: gathered %.4g ms, split %.4g ms) %s", what,
           c.layout.expert_tokens == SN_TOKENS_SPLIT ? "split" : "gathered", 1e3 * gathered,
           1e3 * split, err.text);
    struct sn_config some = c; /* they are split in any case */
    some.layout.tensor = 4;
    some.layout.expert = 1;
    some.layout.expert_tensor = 2;
    some.layout.expert_tokens = SN_TOKENS_AUTO;
    some.layout.expert_chunks = 0;
    bool good = sn_chunks_resolve(&some, &err) == SN_OK;
    tap_ok(good && some.layout.expert_chunks >= 1 &&
               some.layout.expert_tokens == SN_TOKENS_GATHERED,
           "experts over two of four tensor ranks leave chunks alone to choose: %d %s",
           some.layout.expert_chunks, err.text);
    (void)remove(c.machine.file);
    c.machine.file[0] = 0;
    c.layout.expert_tokens = SN_TOKENS_AUTO;
    c.layout.drop_duplicates = SN_DUPLICATES_AUTO;
    tap_ok(sn_chunks_resolve(&c, &err) == SN_OK && c.layout.expert_tokens == SN_TOKENS_GATHERED &&
               c.layout.drop_duplicates == SN_DUPLICATES_SENT,
           "and without a machine gathered, each row sent by all");
    sn_machine_fini(&m);
}

/* Whatever auto takes is as short as the shortest way, by the price of the whole model. */
static void nothing_named_is_shortest(const char *what, const char *links)
{
    struct sn_machine m = {0};
    struct sn_config c = config_of(2048);
    struct sn_err err = {0};
    c.train.global_batch = 4;
    c.layout.data = c.layout.expert = 4;
    c.layout.tensor = 2;
    c.layout.sequence_parallel = true;
    c.layout.expert_chunks = 1;
    if (!machine_file(&m, &c, links))
        return;
    double sent = planned(&c, &m, 1, &err);
    c.layout.drop_duplicates = SN_DUPLICATES_DROPPED;
    double dropped = planned(&c, &m, 1, &err);
    c.layout.drop_duplicates = SN_DUPLICATES_SENT;
    c.layout.expert_tokens = SN_TOKENS_SPLIT;
    double split = planned(&c, &m, 1, &err);
    c.layout.expert_tokens = SN_TOKENS_AUTO;
    c.layout.drop_duplicates = SN_DUPLICATES_AUTO;
    bool good = sn_chunks_resolve(&c, &err) == SN_OK;
    double taken = planned(&c, &m, 1, &err), least = fmin(sent, fmin(dropped, split));
    tap_ok(good && taken <= least * 1.000001,
           "%s: %.4g ms of %.4g sent by all, %.4g without duplicates, %.4g split %s", what,
           1e3 * taken, 1e3 * sent, 1e3 * dropped, 1e3 * split, err.text);
    (void)remove(c.machine.file);
    sn_machine_fini(&m);
}

/* Bytes of the rank that needs most. */
static int64_t needed(const struct sn_config *c, const struct sn_machine *m)
{
    struct sn_model *model = NULL;
    struct sn_stages stages = {0};
    struct sn_pricer p;
    struct sn_memory_plan need = {.total = -1};
    struct sn_err err;
    struct sn_job_env env = {.config = c, .ops = sn_ops_cpu(), .threads = 1};
    enum sn_status st = sn_model_create(&model, &c->model, &c->train, &err);
    env.model = model;
    if (st == SN_OK)
        st = sn_stages_create(&stages, &env, &err);
    if (st == SN_OK) {
        sn_pricer_init(&p, m, &software, stages.job[0]);
        sn_plan_memory(&need, &stages, &p);
    }
    sn_stages_fini(&stages);
    sn_model_destroy(model);
    return need.total;
}

/* A faster way is not taken where it does not fit and plain sending does. */
static void what_fits_still_fits(void)
{
    struct sn_machine m = {0};
    struct sn_config c = config_of(2048);
    struct sn_err err = {0};
    c.train.global_batch = 4;
    c.layout.data = c.layout.expert = 4;
    c.layout.tensor = 2;
    c.layout.sequence_parallel = true;
    c.layout.expert_chunks = 1;
    if (!machine_file(&m, &c,
                      "  - {name: node, ranks: 2, latency: 1e-6, device: 3.0e11}\n"
                      "  - {name: net, ranks: 0, latency: 1e-6, device: 2.0e9}\n"))
        return;
    struct sn_config dropped = c;
    dropped.layout.drop_duplicates = SN_DUPLICATES_DROPPED;
    int64_t plain = needed(&c, &m), more = needed(&dropped, &m), limit = (plain + more) / 2;
    c.layout.expert_tokens = SN_TOKENS_AUTO;
    c.layout.drop_duplicates = SN_DUPLICATES_AUTO;
    struct sn_config small = c;
    small.machine.memory_fraction = (double)limit / (double)m.device.memory;
    tap_ok(sn_chunks_resolve(&c, &err) == SN_OK &&
               c.layout.drop_duplicates == SN_DUPLICATES_DROPPED,
           "duplicates are dropped where there is room %s", err.text);
    tap_ok(plain < more && sn_chunks_resolve(&small, &err) == SN_OK &&
               small.layout.drop_duplicates == SN_DUPLICATES_SENT,
           "and sent where dropping needs %lld bytes, sending %lld, and there are %lld %s",
           (long long)more, (long long)plain, (long long)limit, err.text);
    (void)remove(small.machine.file);
    sn_machine_fini(&m);
}

int main(void)
{
    struct sn_machine even, dear;
    struct sn_config longer = config_of(4096), shorter = config_of(64);
    sn_software_default(&software);
    if (!machine_of(&even, 1e-6, 5e10) || !machine_of(&dear, 2e-3, 5e10))
        return tap_done();
    answer_is_the_whole_plans("messages as long as products", &longer, &even, true);
    answer_is_the_whole_plans("dear messages", &longer, &dear, false);
    answer_is_the_whole_plans("dear messages of few tokens", &shorter, &dear, false);
    longer.layout.recompute = SN_RECOMPUTE_FULL;
    answer_is_the_whole_plans("all computed again", &longer, &even, true);
    longer.layout.expert_node = 4;
    answer_is_the_whole_plans("and in two hops", &longer, &even, true);
    tokens_go_the_cheaper_way("slow links between nodes",
                              "  - {name: node, ranks: 2, latency: 1e-6, device: 3.0e11}\n"
                              "  - {name: net, ranks: 0, latency: 1e-6, device: 2.0e9}\n",
                              SN_TOKENS_GATHERED);
    tokens_go_the_cheaper_way("one network, dear phases",
                              "  - {name: net, ranks: 0, latency: 1e-4, device: 5.0e10}\n",
                              SN_TOKENS_SPLIT);
    nothing_named_is_shortest("slow links between nodes",
                              "  - {name: node, ranks: 2, latency: 1e-6, device: 3.0e11}\n"
                              "  - {name: net, ranks: 0, latency: 1e-6, device: 2.0e9}\n");
    nothing_named_is_shortest("one network, dear phases",
                              "  - {name: net, ranks: 0, latency: 1e-4, device: 5.0e10}\n");
    what_fits_still_fits();
    struct sn_config c = config_of(4096);
    struct sn_err err = {0};
    c.layout.expert_chunks = 3;
    tap_ok(sn_chunks_resolve(&c, &err) == SN_OK && c.layout.expert_chunks == 3,
           "what the run file names stands");
    c.layout.expert_chunks = 0;
    tap_ok(sn_chunks_resolve(&c, &err) == SN_OK && c.layout.expert_chunks == 1,
           "without a machine tokens go all at once");
    sn_machine_fini(&even);
    sn_machine_fini(&dear);
    return tap_done();
}
