/*
 * test_codings.c - the table of losses, and codecs for a budget: what is chosen is the fastest of
 * all that the budget allows, by compiling every one.
 */
#include "lib/search/codings.h"

#include "kernels/codec.h"
#include "lib/sim/sim.h"
#include "lib/sim/stages.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

/* --- the table -------------------------------------------------------------------------------- */

static const char table[] = "# comment\n"
                            "error,,int8,0.01\n"
                            "error,,int4,0.1\n"
                            "\n"
                            "sensitivity,data,,0.02\n"
                            "sensitivity,data+feedback,,0.01\n"
                            "sensitivity,pipeline,,0.2\n"
                            "sensitivity,tensor,,0.2\n"
                            "sensitivity,zero,,0.5\n"
                            "sensitivity,zero-diff,,0.05\n"
                            "loss,pipeline,int4,0.0003\n";

static struct sn_coding coding(const char *name, bool feedback, bool diff)
{
    struct sn_coding z;
    memset(&z, 0, sizeof(z));
    z.on = sn_codec_parse(&z.codec, name);
    z.between = z.codec;
    z.feedback = feedback;
    z.diff = diff;
    return z;
}

static void rows_tell_what_a_codec_costs(void)
{
    struct sn_losses l = {.n = 0};
    struct sn_err err = {0};
    double rise;
    bool measured;
    struct sn_coding int8 = coding("int8", false, false), int4 = coding("int4", false, false);
    struct sn_coding fed = coding("int4", true, false), diff = coding("int4", false, true);
    struct sn_coding mpc = coding("mpc", false, false), other = coding("zfp-8", false, false);
    tap_ok(sn_losses_parse(&l, table, "t.csv", &err) == SN_OK, "a table is read%s", err.text);
    tap_ok(sn_losses_find(&rise, &measured, &l, SN_CODED_DATA, &int8) && !measured &&
               fabs(rise - 0.0002) < 1e-12,
           "without a measurement: sensitivity times error");
    tap_ok(sn_losses_find(&rise, &measured, &l, SN_CODED_DATA, &fed) && fabs(rise - 0.001) < 1e-12,
           "with feedback another sensitivity");
    tap_ok(sn_losses_find(&rise, &measured, &l, SN_CODED_ZERO, &diff) && fabs(rise - 0.005) < 1e-12,
           "of differences, too");
    tap_ok(sn_losses_find(&rise, &measured, &l, SN_CODED_PIPELINE, &int4) && measured &&
               rise == 0.0003,
           "what was measured goes before that");
    tap_ok(sn_losses_find(&rise, &measured, &l, SN_CODED_TENSOR, &mpc) && rise == 0,
           "what loses nothing costs nothing");
    tap_ok(!sn_losses_find(&rise, &measured, &l, SN_CODED_TENSOR, &other),
           "a codec without rows is not known");
    struct sn_layout_config y;
    memset(&y, 0, sizeof(y));
    y.compress.coding[SN_CODED_DATA] = int8;
    y.compress.coding[SN_CODED_PIPELINE] = int4;
    tap_ok(sn_losses_sum(&rise, &l, &y) && fabs(rise - 0.0005) < 1e-12, "kinds add up");
    y.compress.coding[SN_CODED_TENSOR] = other;
    tap_ok(!sn_losses_sum(&rise, &l, &y), "and are not known where one is not");
    sn_losses_fini(&l);
}

static void bad_tables_are_explained(void)
{
    static const char *const bad[][2] = {
        {"error,int8,0.1\n", "t.csv:1: want four fields, such as error,,int8,0.0065"},
        {"error,,int8,0.1\nerror,,int7,0.1\n", "t.csv:2: 'int7' is no codec; want "},
        {"error,,int8,much\n", "t.csv:1: value: got 'much'; want a number in 0..1000"},
        {"error,,int8,-1\n", "t.csv:1: value: got '-1'; want a number in 0..1000"},
        {"error,,int8,nan\n", "t.csv:1: value: got 'nan'; want a number in 0..1000"},
        {"loss,weights,int8,1\n", "t.csv:1: 'weights' is no way to send; want data, "},
        {"los,data,int8,1\n", "t.csv:1: unknown row 'los'; want error, sensitivity or loss"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sn_losses l = {.n = 42};
        struct sn_err err = {0};
        bool refused = sn_losses_parse(&l, bad[i][0], "t.csv", &err) == SN_EINPUT && l.n == 42;
        if (!tap_ok(refused && !strncmp(err.text, bad[i][1], strlen(bad[i][1])), "%s", bad[i][1]))
            printf("#  got: %s\n", err.text);
    }
}

static void the_table_that_ships_is_read(void)
{
    struct sn_losses l = {.n = 0};
    struct sn_err err = {0};
    bool all = sn_losses_load(&l, "templates", &err) == SN_OK;
    tap_ok(all, "templates/codec_losses.csv%s", err.text);
    for (int w = 0; all && w < SN_NWAYS; w++)
        all = l.sensitivity[w] >= 0;
    tap_ok(all, "has a sensitivity of every way");
    sn_losses_fini(&l);
}

/* --- the choice ------------------------------------------------------------------------------- */

static const char machine_text[] =
    "name: test\n"
    "device: {memory: 1GiB, bandwidth: 1.0e11, overhead: 2.0e-6, peak: {fp32: 1.0e12, bf16: "
    "4.0e12},\n"
    "  codecs: [{codec: int4, type: fp32, encode: 2.0e9, decode: 2.0e9}]}\n"
    "node: {devices: 4}\n"
    "links:\n"
    "  - {name: node, ranks: 4, latency: 2.0e-6, device: 4.0e10}\n"
    "  - {name: spine, ranks: 0, latency: 1.0e-5, device: 1.0e9, domain: 2.0e9}\n";

struct given {
    struct sn_machine m;
    struct sn_software s;
    struct sn_losses l;
    struct sn_config c;
    struct sn_model *model;
};

static double step_of(const struct given *g, const struct sn_config *c)
{
    struct sn_job_env env = {.config = c, .model = g->model, .ops = sn_ops_cpu(), .threads = 1};
    struct sn_stages stages = {0};
    struct sn_pricer p;
    struct sn_sim sim = {0};
    struct sn_err err;
    double seconds = -1;
    if (sn_stages_create_text(&stages, &env, &err) == SN_OK) {
        sn_pricer_init(&p, &g->m, &g->s, stages.job[0]);
        if (sn_sim_run(&sim, &stages, &p, false, &err) == SN_OK)
            seconds = sim.step;
    }
    sn_sim_fini(&sim);
    sn_stages_fini(&stages);
    return seconds;
}

static const char *const names[] = {"none", "mpc", "int8", "int4"};

/* Every combination of these for data (with and without feedback), zero (also -diff), tensor and
 * pipeline that the budget allows, compiled. */
static double least_of_all(const struct given *g, int *n)
{
    struct sn_config c = g->c;
    struct sn_coding *z = c.layout.compress.coding;
    double least = HUGE_VAL, rise;
    *n = 0;
    for (int k = 0; k < 8 * 8 * 4 * 4; k++) {
        z[SN_CODED_DATA] = coding(names[k % 4], k / 4 % 2, false);
        z[SN_CODED_ZERO] = coding(names[k / 8 % 4], false, k / 32 % 2);
        z[SN_CODED_TENSOR] = coding(names[k / 64 % 4], false, false);
        z[SN_CODED_PIPELINE] = coding(names[k / 256], false, false);
        bool twice = (z[SN_CODED_DATA].feedback && !sn_coding_loses(&z[SN_CODED_DATA])) ||
                     (z[SN_CODED_ZERO].diff && !sn_coding_loses(&z[SN_CODED_ZERO]));
        if (twice || !sn_losses_sum(&rise, &g->l, &c.layout) || rise > g->c.layout.compress.budget)
            continue;
        double step = step_of(g, &c);
        least = step < least ? step : least;
        (*n)++;
    }
    return least;
}

static void nothing_within_the_budget_is_faster(struct given *g, double budget)
{
    struct sn_codings found = {.sum = -1};
    struct sn_err err = {0};
    int n;
    g->c.layout.compress.budget = budget;
    enum sn_status st = sn_codings_choose(&found, &g->c, &g->m, &g->s, &g->l, &err);
    tap_ok(st == SN_OK && found.sum <= budget, "budget %g: %g is used%s", budget, found.sum,
           err.text);
    double least = least_of_all(g, &n);
    struct sn_config c = g->c;
    memcpy(c.layout.compress.coding, found.coding, sizeof(found.coding));
    tap_ok(found.seconds <= least * (1 + 1e-9) && fabs(step_of(g, &c) / found.seconds - 1) < 1e-9,
           "of %d combinations none is faster: %.4g ms, without codecs %.4g (%d compiled of %d)", n,
           1e3 * found.seconds, 1e3 * found.plain, found.compiled, found.combined);
}

static void what_is_named_stands(struct given *g)
{
    struct sn_codings found;
    struct sn_err err = {0};
    struct sn_compress_config *z = &g->c.layout.compress;
    z->budget = 0.003;
    z->coding[SN_CODED_TENSOR] = coding("int8", false, false);
    (void)snprintf(z->name[SN_CODED_TENSOR], SN_NAME_MAX, "int8");
    enum sn_status st = sn_codings_choose(&found, &g->c, &g->m, &g->s, &g->l, &err);
    tap_ok(st == SN_OK && found.coding[SN_CODED_TENSOR].codec.kind == SN_CODEC_INT8 &&
               found.rise[SN_CODED_TENSOR] == 0.002 && found.sum <= 0.003,
           "a named codec stands, and its cost counts: %g%s", found.sum, err.text);
    z->budget = 0.001;
    st = sn_codings_choose(&found, &g->c, &g->m, &g->s, &g->l, &err);
    bool lossless = true;
    for (int k = 0; k < SN_NCODED; k++)
        lossless = lossless && (k == SN_CODED_TENSOR || !sn_coding_loses(&found.coding[k]));
    tap_ok(st == SN_OK && lossless, "where it costs more than all, the others lose nothing");
    sn_codings_put(&g->c.layout, &found);
    tap_ok(z->scheme == SN_SCHEME_NONE && !strcmp(z->name[SN_CODED_TENSOR], "int8") &&
               z->name[SN_CODED_DATA][0],
           "what was chosen stands in the layout by name");
}

static void codecs_are_chosen_for_a_budget(enum sn_dtype precision, int zero)
{
    struct given g = {.c = layout_config(SN_LLAMA)};
    struct sn_err err = {0};
    sn_software_default(&g.s);
    g.c.model.layers = 4;
    g.c.train.precision = precision;
    g.c.layout.data = g.c.layout.tensor = g.c.layout.pipeline = 2;
    g.c.layout.zero = zero;
    g.c.layout.schedule = SN_1F1B;
    g.c.train.global_batch = 8;
    bool ready = sn_machine_parse(&g.m, machine_text, strlen(machine_text), "m", &err) == SN_OK &&
                 sn_losses_parse(&g.l, table, "t.csv", &err) == SN_OK &&
                 sn_model_create(&g.model, &g.c.model, &g.c.train, &err) == SN_OK;
    tap_ok(ready, "a run%s", err.text);
    if (ready) {
        nothing_within_the_budget_is_faster(&g, 0);
        nothing_within_the_budget_is_faster(&g, 0.004);
        nothing_within_the_budget_is_faster(&g, 1);
        what_is_named_stands(&g);
    }
    sn_model_destroy(g.model);
    sn_losses_fini(&g.l);
    sn_machine_fini(&g.m);
}

int main(void)
{
    rows_tell_what_a_codec_costs();
    bad_tables_are_explained();
    the_table_that_ships_is_read();
    codecs_are_chosen_for_a_budget(SN_F32, 1);
    codecs_are_chosen_for_a_budget(SN_BF16, 2);
    return tap_done();
}
