/*
 * test_goodput.c - the formulas of the checkpoint interval against a job that fails at random, and
 * against the best interval there is.
 */
#include "lib/base/rng.h"
#include "lib/report/goodput.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

/* From a checkpoint's restart to a failure `life` seconds later, event by event: how much work is
 * in checkpoints that count. */
static double safe_work(const struct sn_failures *f, double work, double life)
{
    double now = f->restart, done = 0, safe = 0;
    while (now < life) {
        now += work;
        if (now >= life)
            break;
        done += work;
        now += f->pause;
        if (now + f->write <= life)
            safe = done;
    }
    return safe;
}

static double played(const struct sn_failures *f, double work, int failures)
{
    uint64_t key = sn_rng_key(20061, "failures");
    double useful = 0, all = 0;
    for (int i = 0; i < failures; i++) {
        double life = -f->mtbf * log(1 - sn_rng_uniform(key, (uint64_t)i));
        useful += safe_work(f, work, life);
        all += life;
    }
    return useful / all;
}

static void the_fraction_is_what_failures_leave(void)
{
    const struct sn_failures all[] = {
        {.mtbf = 86400, .pause = 60, .restart = 300},
        {.mtbf = 3600, .pause = 120, .restart = 600},
        {.mtbf = 900, .pause = 200, .restart = 400},              /* hardly gets on */
        {.mtbf = 7200, .pause = 2, .write = 180, .restart = 300}, /* asynchronous */
        {.mtbf = 1800, .pause = 5, .write = 300, .restart = 60},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        for (int k = 1; k <= 4; k *= 2) {
            char what[128];
            double work = sn_daly_interval(&all[i]) * k / 2 + all[i].write;
            (void)snprintf(what, sizeof(what), "M %.0f, pause %.0f, write %.0f: every %.0f s",
                           all[i].mtbf, all[i].pause, all[i].write, work);
            tap_close(played(&all[i], work, 400000), sn_goodput_fraction(&all[i], work), 0.01, 0,
                      what);
        }
}

static double best_fraction(const struct sn_failures *f)
{
    double best = 0;
    for (double work = f->mtbf / 1e5; work < 10 * f->mtbf; work *= 1.001)
        best = fmax(best, sn_goodput_fraction(f, work));
    return best;
}

static void daly_finds_the_best_interval(void)
{
    double worst_daly = 0, worst_young = 0;
    for (double pause = 1; pause <= 4000; pause *= 3) {
        struct sn_failures f = {.mtbf = 10000, .pause = pause, .write = 30, .restart = 300};
        double best = best_fraction(&f);
        worst_daly = fmax(worst_daly, 1 - sn_goodput_fraction(&f, sn_daly_interval(&f)) / best);
        worst_young = fmax(worst_young, 1 - sn_goodput_fraction(&f, sn_young_interval(&f)) / best);
    }
    tap_ok(worst_daly < 2e-4, "Daly loses at most %.1e of the best goodput", worst_daly);
    tap_ok(worst_young > worst_daly, "and Young more (%.1e)", worst_young);
    struct sn_failures f = {.mtbf = 100, .pause = 300};
    tap_ok(sn_daly_interval(&f) == 100, "where a pause is longer than twice M, the interval is M");
    f = (struct sn_failures){.mtbf = 1e6, .pause = 1e-3};
    tap_close(sn_daly_interval(&f), sn_young_interval(&f), 1e-4, 0, "short pauses: Young's");
}

/* A job of 8 ranks on nodes of 4, saved every 100 steps. */
struct planned {
    struct sn_config config;
    struct sn_model *model;
    struct sn_stages stages;
    struct sn_machine machine;
};

static bool plan(struct planned *p, int tensor, bool async)
{
    struct sn_err err = {0};
    p->config = layout_config(SN_GPT2);
    p->config.layout.data = 4 / tensor;
    p->config.layout.tensor = tensor;
    p->config.layout.pipeline = 2;
    p->config.train.global_batch = 8;
    p->config.checkpoint.every = 100;
    p->config.checkpoint.async = async;
    p->machine = (struct sn_machine){.devices = 4,
                                     .mtbf_hours = 1000,
                                     .storage_write = 1e6,
                                     .storage_node = 1e9,
                                     .device = {.bandwidth = 2e9},
                                     .storage_host = 1e7};
    struct sn_job_env env = {.config = &p->config, .ops = sn_ops_cpu(), .threads = 1};
    enum sn_status st = sn_model_create(&p->model, &p->config.model, &p->config.train, &err);
    env.model = p->model;
    if (st == SN_OK)
        st = sn_stages_create(&p->stages, &env, &err);
    return tap_ok(st == SN_OK, "a job of 8 ranks compiles %s", err.text);
}

static void plan_fini(struct planned *p)
{
    sn_stages_fini(&p->stages);
    sn_model_destroy(p->model);
}

static void a_plan_has_an_interval(void)
{
    struct planned p = {0};
    struct sn_goodput g, h;
    if (plan(&p, 1, false)) {
        sn_goodput_find(&g, &p.stages, &p.machine, 2.0);
        double least = 12.0 * (double)sn_model_param_count(p.model);
        tap_ok((double)g.bytes >= least && (double)g.bytes < 1.1 * least,
               "a checkpoint has weights and two moments (%lld bytes of %.0f)", (long long)g.bytes,
               least);
        tap_close(g.failures.mtbf, 1000.0 * 3600 / 2, 1e-12, 0, "eight ranks are two nodes");
        tap_close(g.failures.restart, SN_RESTART_SECONDS + (double)g.bytes / 1e6, 1e-12, 0,
                  "a restart reads what a checkpoint writes");
        tap_ok(g.failures.write == 0 && g.failures.pause > (double)g.bytes / 1e6,
               "training stands while it is written");
        tap_close(g.interval, 2.0 * (double)g.steps, 1e-12, 0, "the interval is whole steps");
        tap_ok(sn_goodput_fraction(&g.failures, 2.0 * (double)(g.steps - 1)) <= g.fraction &&
                   sn_goodput_fraction(&g.failures, 2.0 * (double)(g.steps + 1)) <= g.fraction,
               "and no neighbour (every %lld steps: %.6f) is better", (long long)g.steps,
               g.fraction);
        tap_close(g.as_it_was, sn_goodput_fraction(&g.failures, 200), 1e-12, 0,
                  "what checkpoint.every gives is said too");
        p.machine.mtbf_hours = 10;
        sn_goodput_find(&h, &p.stages, &p.machine, 2.0);
        tap_ok(h.steps < g.steps && h.fraction < g.fraction, "worse nodes: more checkpoints");
        tap_ok(!h.mtbf_assumed && !h.storage_assumed, "both are the machine's");
        p.machine.mtbf_hours = p.machine.storage_write = p.machine.storage_node = 0;
        sn_goodput_find(&h, &p.stages, &p.machine, 2.0);
        tap_ok(h.mtbf_assumed && h.storage_assumed && h.failures.pause > 0,
               "or assumed, and said so");
        tap_close(h.failures.mtbf, SN_MTBF_DEVICE_HOURS * 3600 / 8, 1e-12, 0,
                  "a device's failures are counted by devices");
        p.machine.mtbf_hours = 10;
        p.machine.storage_write = 1e6;
        p.machine.storage_node = 1e9;
    }
    plan_fini(&p);
    p = (struct planned){0};
    if (plan(&p, 2, false)) {
        int64_t bytes = g.bytes;
        sn_goodput_find(&g, &p.stages, &p.machine, 2.0);
        tap_ok(llabs(g.bytes - bytes) < bytes / 50,
               "tensor ranks do not write more: %lld bytes, %lld", (long long)g.bytes,
               (long long)bytes);
    }
    plan_fini(&p);
}

static void asynchronous_saves_pause_less(void)
{
    struct planned p = {0}, q = {0};
    struct sn_goodput g, h;
    if (plan(&p, 1, false) && plan(&q, 1, true)) {
        p.machine.mtbf_hours = q.machine.mtbf_hours = 10;
        sn_goodput_find(&g, &p.stages, &p.machine, 0.5);
        sn_goodput_find(&h, &q.stages, &q.machine, 0.5);
        tap_ok(h.failures.pause < g.failures.pause && h.failures.write > 0 &&
                   h.fraction > g.fraction,
               "copied and written beside the work: %.4f instead of %.4f", h.fraction, g.fraction);
        q.machine.storage_write = 1e3;
        sn_goodput_find(&h, &q.stages, &q.machine, 0.5);
        tap_ok(h.interval >= h.failures.write && h.interval < h.failures.write + 1,
               "one write ends before the next begins");
    }
    plan_fini(&p);
    plan_fini(&q);
}

int main(void)
{
    the_fraction_is_what_failures_leave();
    daly_finds_the_best_interval();
    a_plan_has_an_interval();
    asynchronous_saves_pause_less();
    return tap_done();
}
