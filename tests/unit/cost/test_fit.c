/*
 * test_fit.c - rates from measured operations, and measured collectives.
 *
 * Samples are made by the formulas of machine.h from rates that are known: the fit has to find
 * them, and the price (price.h) of the same operations has to be what was measured.
 */
#include "lib/base/mem.h"
#include "lib/cost/fit.h"
#include "lib/cost/fit_links.h"
#include "lib/cost/price.h"
#include "lib/probe/calibrate.h"
#include "lib/sim/plan.h"
#include "tests/lib/tap.h"

#include <math.h>

static bool near(double got, double wanted, double part)
{
    bool good = fabs(got / wanted - 1) <= part;
    if (!good)
        printf("# got %g, wanted %g\n", got, wanted);
    return good;
}

static struct sn_sample gemm(int64_t m, int64_t n, int64_t k, const struct sn_machine_device *d)
{
    const struct sn_gemm_rate *g = &d->gemm[SN_F32];
    double flops = 2.0 * (double)m * (double)n * (double)k;
    double lost = 1 + g->half_m / (double)m + g->half_n / (double)n + g->half_k / (double)k;
    return (struct sn_sample){
        .what = {SN_OP_GEMM, SN_F32, m, n, k, d->overhead + flops * lost / (g->peak * g->most)},
        .flops = flops,
        .weight = 1};
}

static struct sn_machine_device known(void)
{
    return (struct sn_machine_device){
        .bandwidth = 1e10,
        .overhead = 2e-6,
        .gemm = {{1e11, 0.8, 12, 30, 5}, {5e10, 0.5, 1, 1, 1}, {.most = 1}},
        .attention_forward = 0.4,
        .attention_backward = 0.3,
        .attention_half_seq = 64,
        .moved = {0.9, 0.7, 0.5, 1.2},
        .half_bytes = 4096};
}

static void add(struct sn_samples *s, struct sn_sample x)
{
    struct sn_err err;
    if (sn_samples_add(s, &x, &err) != SN_OK)
        printf("# %s\n", err.text);
}

static void made_up(struct sn_samples *s, const struct sn_machine_device *d)
{
    static const int64_t sizes[] = {16, 64, 256, 1024};
    static const enum sn_op_kind kinds[] = {SN_OP_RMSNORM, SN_OP_ADD, SN_OP_CROSS_ENTROPY,
                                            SN_OP_ADAMW};
    for (int i = 0; i < 64; i++)
        add(s, gemm(sizes[i % 4], sizes[i / 4 % 4], sizes[i / 16], d));
    for (int i = 0; i < 8; i++) {
        int64_t seq = 64 << (i / 2);
        bool forward = i % 2;
        double flops = 1e3 * (double)(seq * seq);
        double part = forward ? d->attention_forward : d->attention_backward;
        double t = d->overhead + flops * (1 + d->attention_half_seq / (double)seq) /
                                     (d->gemm[SN_F32].peak * part);
        enum sn_op_kind kind = forward ? SN_OP_ATTENTION : SN_OP_ATTENTION_DX;
        add(s,
            (struct sn_sample){
                .what = {kind, SN_F32, seq, 64, seq, t}, .flops = flops, .seq = seq, .weight = 1});
    }
    for (int i = 0; i < 16; i++) {
        int64_t bytes = 1000 << (i / 4 * 3);
        double t = d->overhead + ((double)bytes + d->half_bytes) / (d->bandwidth * d->moved[i % 4]);
        add(s, (struct sn_sample){.what = {kinds[i % 4], SN_F32, bytes / 4, 0, 0, t},
                                  .bytes = bytes,
                                  .weight = 1});
    }
    add(s,
        (struct sn_sample){.what = {SN_OP_CLIP_SCALE, SN_F32, 0, 0, 0, d->overhead}, .weight = 1});
}

static void rates_are_found_again(void)
{
    struct sn_machine_device want = known(), d = {.bandwidth = want.bandwidth};
    struct sn_samples s = {0};
    made_up(&s, &want);
    for (int t = 0; t < SN_NPRECISIONS; t++)
        d.gemm[t].peak = want.gemm[t].peak;
    sn_fit_device(&d, &s);
    tap_ok(near(d.overhead, want.overhead, 0.01), "the overhead is that of the shortest operation");
    tap_ok(near(d.gemm[0].most, 0.8, 0.02) && near(d.gemm[0].half_m, 12, 0.1) &&
               near(d.gemm[0].half_n, 30, 0.1) && near(d.gemm[0].half_k, 5, 0.2),
           "what products lose on each side is told apart");
    tap_ok(d.gemm[1].peak == 5e10 && d.gemm[1].most == d.gemm[0].most,
           "a type without products has the fractions of one that was measured, and its own peak");
    tap_ok(near(d.attention_forward, 0.4, 0.02) && near(d.attention_backward, 0.3, 0.02) &&
               near(d.attention_half_seq, 64, 0.05),
           "attention, forward and backward");
    tap_ok(near(d.moved[SN_MOVED_NORM], 0.9, 0.02) &&
               near(d.moved[SN_MOVED_ELEMENTWISE], 0.7, 0.02) &&
               near(d.moved[SN_MOVED_LOSS], 0.5, 0.02) &&
               near(d.moved[SN_MOVED_UPDATE], 1.2, 0.02) && near(d.half_bytes, 4096, 0.05),
           "and what moves memory, by kind");
    sn_samples_fini(&s);
}

static void no_product_is_faster_than_the_peak(void)
{
    struct sn_machine_device d = {.gemm = {{.peak = 1e9}}};
    struct sn_samples s = {0};
    struct sn_machine_device fast = known();
    fast.overhead = 0;
    add(&s, gemm(1024, 1024, 1024, &fast));
    add(&s, (struct sn_sample){.what = {SN_OP_CLIP_SCALE, SN_F32, 0, 0, 0, 1e-6}, .weight = 1});
    sn_fit_device(&d, &s);
    tap_ok(d.gemm[0].peak > 7e10 && d.gemm[0].most <= 2,
           "a peak that was measured in a bad moment");
    sn_samples_fini(&s);
}

static void nothing_measured_changes_nothing(void)
{
    struct sn_machine_device d = known(), was = d;
    struct sn_samples none = {0};
    sn_fit_device(&d, &none);
    tap_ok(d.overhead == was.overhead && d.gemm[0].most == was.gemm[0].most &&
               d.attention_forward == was.attention_forward && d.moved[0] == was.moved[0],
           "without samples every rate stays");
}

static void equal_shapes_are_averaged(void)
{
    struct sn_machine_device d = known();
    struct sn_samples s = {0};
    struct sn_sample a = gemm(8, 8, 8, &d), b = a;
    a.what.seconds = 1;
    b.what.seconds = 4;
    b.weight = 2;
    add(&s, a);
    add(&s, b);
    tap_ok(s.n == 1 && near(s.v[0].what.seconds, 3, 1e-12), "the mean of two, by weight");
    b.what.dtype = SN_BF16;
    add(&s, b);
    tap_ok(s.n == 2, "another type is another shape");
    sn_samples_fini(&s);
}

/* --- links ------------------------------------------------------------------------------------ */

static double find(const struct sn_links *l, enum sn_collective kind, int members, int64_t bytes)
{
    double t = -1;
    struct sn_measured_link x = {.kind = kind, .members = members, .bytes = bytes};
    return sn_links_find(&t, l, &x) ? t : -1;
}

static void between_two_sizes_lies_a_line(void)
{
    static const double t[] = {1e-5, 1e-5, 1e-4, 1e-3};
    struct sn_links l = {0};
    struct sn_err err;
    for (int i = 3; i >= 0; i--) /* in no order */
        (void)sn_links_add(
            &l, (struct sn_measured_link){SN_ALL_REDUCE, 4, 100 * (int64_t)pow(10, i), t[i]}, &err);
    tap_ok(find(&l, SN_ALL_REDUCE, 4, 10000) == 1e-4, "a size that was measured has its time");
    tap_ok(near(find(&l, SN_ALL_REDUCE, 4, 31623), sqrt(1e-7), 1e-3),
           "between two: the logarithms");
    tap_ok(find(&l, SN_ALL_REDUCE, 4, 7) == 1e-5, "less than the least costs as much");
    tap_ok(near(find(&l, SN_ALL_REDUCE, 4, 200000), 2e-3, 0.01), "more goes on at the last rate");
    tap_ok(find(&l, SN_ALL_REDUCE, 2, 1000) == -1 && find(&l, SN_ALL_GATHER, 4, 1000) == -1,
           "other members and other kinds are not known");
    sn_links_fini(&l);
    (void)sn_links_add(&l, (struct sn_measured_link){SN_SEND, 2, 1000, 1e-3}, &err);
    tap_ok(find(&l, SN_SEND, 2, 500) == 1e-3 && near(find(&l, SN_SEND, 2, 3000), 3e-3, 1e-9),
           "a single point is a rate");
    sn_links_fini(&l);
}

static void a_level_is_found_again(void)
{
    struct sn_machine m = {.n_levels = 1,
                           .algorithm = SN_ALGORITHM_DIRECT,
                           .level = {{.latency = 3e-5, .device = 2e9, .half_bytes = 5000}}};
    struct sn_level level = {.efficiency = 1};
    struct sn_software software;
    struct sn_err err;
    sn_software_default(&software);
    struct sn_pricer p = {.machine = &m, .software = &software};
    p.grid = (struct sn_grid){
        .size = {1, 1, 1, 4, 1}, .stride = {1, 1, 1, 1, 1}, .kv_copies = 1, .experts = 1};
    sn_span_of(&p.span[SN_GROUP_DATA], &m, &p.grid, SN_GROUP_DATA);
    for (int64_t n = 16; n <= 1 << 22; n *= 8) {
        double t = sn_price_collective(&p, SN_ALL_REDUCE, n, SN_F32, SN_GROUP_DATA);
        (void)sn_links_add(&level.measured, (struct sn_measured_link){SN_ALL_REDUCE, 4, 4 * n, t},
                           &err);
    }
    sn_fit_level(&level);
    tap_ok(near(level.latency, 3e-5, 0.05) && near(level.device, 2e9, 0.05),
           "latency and rate of a level come back from its collectives");
    m.level[0].measured = level.measured;
    m.level[0].latency = 1; /* a formula that is far off */
    tap_ok(sn_price_collective(&p, SN_ALL_REDUCE, 16, SN_F32, SN_GROUP_DATA) ==
               level.measured.v[0].seconds,
           "what was measured goes before the formula");
    sn_links_fini(&level.measured);
}

static void a_file_keeps_what_was_measured(void)
{
    struct sn_machine m = {.name = "m",
                           .device = known(),
                           .devices = 1,
                           .n_levels = 1,
                           .level = {{.name = "host",
                                      .latency = 1e-5,
                                      .device = 1e9,
                                      .efficiency = 1,
                                      .all_reduce = 1,
                                      .crowd = 1,
                                      .processor = 0.5}}};
    struct sn_machine back = {0};
    struct sn_str text = {0}, again = {0};
    struct sn_err err = {0};
    m.device.memory = 1 << 30;
    m.device.fp8.most = 1;
    (void)sn_links_add(&m.level[0].measured, (struct sn_measured_link){SN_SEND, 2, 256, 1.5e-5},
                       &err);
    (void)sn_links_add(&m.level[0].measured,
                       (struct sn_measured_link){SN_ALL_TO_ALL, 4, 4096, 2.5e-4}, &err);
    sn_machine_format(&text, &m);
    enum sn_status st = sn_machine_parse(&back, text.p, text.len, "m.yaml", &err);
    tap_ok(st == SN_OK, "a file with measured collectives loads");
    if (st != SN_OK)
        printf("# %s\n%s\n", err.text, text.p);
    sn_machine_format(&again, &back);
    tap_text(again.p ? again.p : "", text.p, "and says the same");
    sn_links_fini(&m.level[0].measured);
    sn_machine_fini(&back);
    sn_str_fini(&text);
    sn_str_fini(&again);
}

/* --- kernels where they stand ----------------------------------------------------------------- */

static bool three_rounds(void *arg, int rounds, double seconds)
{
    (void)arg, (void)seconds;
    return rounds < 3;
}

static const char run_text[] =
    "model: {family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 48, vocab: 64, seq: "
    "16}\n"
    "train: {steps: 1, global_batch: 8}\n"
    "layout: {data: 2, tensor: 2, context: 2, pipeline: 2, zero: 3, recompute: full}\n";

/* Every kernel of every stage of a layout of 16 ranks, in one process. */
static void every_kernel_of_a_run_is_measured(void)
{
    static struct sn_config c;
    struct sn_err err = {0};
    struct sn_model *model = NULL;
    struct sn_stages stages = {0};
    struct sn_samples s = {0};
    enum sn_status st = sn_config_parse(&c, run_text, sizeof(run_text) - 1, "r.yaml", NULL, &err);
    if (st == SN_OK)
        st = sn_config_resolve_ranks(&c, 16, &err);
    if (st == SN_OK)
        st = sn_model_create(&model, &c.model, &c.train, &err);
    struct sn_job_env env = {.config = &c, .model = model, .ops = sn_ops_cpu(), .threads = 1};
    if (st == SN_OK)
        st = sn_stages_create(&stages, &env, &err);
    for (int i = 0; st == SN_OK && i < stages.n; i++)
        st = sn_calibrate_job(&s, stages.job[i], NULL,
                              &(struct sn_calibrate_turn){three_rounds, NULL}, &err);
    tap_ok(st == SN_OK, "both stages of 16 ranks run in one process");
    if (st != SN_OK)
        printf("# %s\n", err.text);
    int missing = 0;
    for (int i = 0; st == SN_OK && i < stages.n; i++)
        for (int k = 0; k < stages.job[i]->train.n_ops; k++) {
            const struct sn_program *p = &stages.job[i]->train;
            struct sn_sample x = {.weight = 1};
            if (p->ops[k].kind >= SN_NKERNELS)
                continue;
            sn_price_key(p, &p->ops[k], &x.what);
            int before = s.n;
            add(&s, x);
            missing += s.n > before;
        }
    tap_ok(st == SN_OK && missing == 0, "and each of their kernels has a time (%d have none)",
           missing);
    sn_samples_fini(&s);
    sn_stages_fini(&stages);
    sn_model_destroy(model);
}

int main(void)
{
    rates_are_found_again();
    no_product_is_faster_than_the_peak();
    nothing_measured_changes_nothing();
    equal_shapes_are_averaged();
    between_two_sizes_lies_a_line();
    a_level_is_found_again();
    a_file_keeps_what_was_measured();
    every_kernel_of_a_run_is_measured();
    return tap_done();
}
