/*
 * test_monitor.c - runs of eight ranks, drawn: who is slow, and which link, is named within ten steps,
 * and quiet runs name nobody.
 *
 * A run is made of what monitor.h says it measures: ranks compute for the planned time, the machine's
 * factor and noise, some longer now and then; transfers begin when each member comes and end when the
 * last has come and the planned time has passed. Hosts' clocks are apart by seconds and drift.
 */
#include "lib/base/rng.h"
#include "lib/monitor/monitor.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

enum { RANKS = 8, OF_PATH = 4, DATA = 2, PIPELINE = 3 };

struct run {
    uint64_t key;
    struct sn_monitor_plan plan[RANKS];
    struct sn_monitor_record record[RANKS];
    double core[RANKS], link[RANKS]; /* how many times as long: of a rank, of its host's link */
    double noise, spikes;            /* of the logarithm; how often */
    double clock;                    /* of host 0 */
    struct sn_monitor *monitor;
    int64_t step, draw;
};

static double uniform(struct run *r)
{
    return sn_rng_uniform(r->key, (uint64_t)r->draw++);
}

static double normal(struct run *r)
{
    float x;
    sn_rng_normal(r->key + 1, (uint64_t)r->draw++, 1, 1.0F, &x);
    return (double)x;
}

static double noisy(struct run *r, double seconds)
{
    double spike = uniform(r) < r->spikes ? 2 : 1;
    return seconds * spike * exp(r->noise * normal(r));
}

static void add_samples(struct sn_monitor_plan *p, int group, int from, int to, int members)
{
    for (int k = 0; k < OF_PATH; k++)
        p->sample[p->n++] = (struct sn_monitor_sample){{group, from, to}, members, 0.02F};
}

/* Two stages of four replicas each, or one group of eight; a host each. */
static void plan(struct run *r, bool is_one_group)
{
    for (int i = 0; i < RANKS; i++) {
        struct sn_monitor_plan *p = &r->plan[i];
        int stage = is_one_group ? 0 : i / 4;
        p->text = 100 + (uint64_t)stage;
        p->work[SN_WORK_FORWARD] = stage ? 0.3 : 0.2;
        p->work[SN_WORK_BACKWARD] = stage ? 0.6 : 0.4;
        p->work[SN_WORK_UPDATE] = 0.05;
        (void)snprintf(p->host, sizeof(p->host), "n%d", i);
        (void)snprintf(p->leaf, sizeof(p->leaf), "leaf%d", i / 4);
        add_samples(p, DATA, is_one_group ? 0 : stage * 4, -1, is_one_group ? RANKS : 4);
        if (is_one_group)
            continue;
        add_samples(p, PIPELINE, i % 4, i % 4 + 4, 2);
        add_samples(p, PIPELINE, i % 4 + 4, i % 4, 2);
    }
}

static bool has_path(const struct sn_monitor_plan *p, const struct sn_path *path, int *at)
{
    for (*at = 0; *at < p->n; ++*at)
        if (sn_path_is(&p->sample[*at].path, path))
            return true;
    return false;
}

/* Rank i's clock is i * 1000 s ahead, and gains a millisecond in 100 steps. */
static double clock_of(const struct run *r, int i, double time)
{
    return time + 1000.0 * i + 1e-5 * (double)(i * r->step);
}

/* Sample k of a path: all come, the last waits for nobody, and the slowest link decides. */
static void transfer(struct run *r, const struct sn_path *path, int k, double begins)
{
    double last = 0, slowest = 1;
    int slow = -1, at;
    double came[RANKS] = {0};
    for (int i = 0; i < RANKS; i++)
        if (has_path(&r->plan[i], path, &at)) {
            came[i] = begins + 0.1 * uniform(r);
            last = came[i] > last ? came[i] : last;
            slow = r->link[i] > slowest ? i : slow;
            slowest = r->link[i] > slowest ? r->link[i] : slowest;
        }
    double ends = last + noisy(r, 0.02 * slowest);
    for (int i = 0; i < RANKS; i++)
        if (has_path(&r->plan[i], path, &at)) {
            struct sn_monitor_record *x = &r->record[i];
            x->sample[at + k].begin = (float)(clock_of(r, i, came[i]) - x->began);
            x->sample[at + k].end = (float)(clock_of(r, i, ends) - x->began);
            x->sample[at + k].last = slow >= 0 && i != slow ? slow : (int)(uniform(r) * RANKS);
        }
}

static void compute(struct run *r, int i)
{
    struct sn_monitor_record *x = &r->record[i];
    x->ran = 0;
    x->core = 7;
    for (int w = 0; w < SN_NWORKS; w++) {
        double seconds =
            r->plan[i].work[w] > 0 ? noisy(r, 3.7 * r->plan[i].work[w] * r->core[i]) : 0;
        x->work[w] = (float)seconds;
        x->ran += seconds / (r->core[i] > 1 ? r->core[i] : 1); /* something else has the rest */
    }
}

static void step(struct run *r)
{
    r->step++;
    r->clock += 5;
    for (int i = 0; i < RANKS; i++) {
        r->record[i] =
            (struct sn_monitor_record){.step = r->step, .began = clock_of(r, i, r->clock)};
        compute(r, i);
        r->record[i].left = clock_of(r, i, r->clock + 4.2001 + 2e-4 * uniform(r));
    }
    for (int i = 0; i < RANKS; i++)
        for (int s = 0; s < r->plan[i].n; s += OF_PATH)
            if (r->plan[i].sample[s].path.from == i)
                for (int k = 0; k < OF_PATH; k++)
                    transfer(r, &r->plan[i].sample[s].path, k, r->clock + 0.5 * k);
    sn_monitor_take(r->monitor, r->record);
}

static struct run *begin(uint64_t key, bool is_one_group)
{
    struct run *r = calloc(1, sizeof(*r));
    struct sn_err err;
    if (!r)
        exit(1);
    r->key = key;
    r->noise = 0.03;
    r->spikes = 0.01;
    for (int i = 0; i < RANKS; i++)
        r->core[i] = r->link[i] = 1;
    plan(r, is_one_group);
    if (sn_monitor_create(&r->monitor, r->plan, RANKS, &err) != SN_OK)
        exit(1);
    return r;
}

static void end(struct run *r)
{
    sn_monitor_destroy(r->monitor);
    free(r);
}

/* Steps until something is found, at most `most`; what was found in *f. */
static int until_found(struct run *r, int most, struct sn_finding *f)
{
    const struct sn_finding *all;
    for (int i = 1; i <= most; i++) {
        step(r);
        if (sn_monitor_findings(r->monitor, &all) > 0) {
            *f = all[0];
            return i;
        }
    }
    return -1;
}

static void quiet_runs_name_nobody(void)
{
    for (int one = 0; one < 2; one++) {
        struct run *r = begin(71 + (uint64_t)one, one == 1);
        struct sn_finding f;
        int found = until_found(r, 20000, &f);
        tap_ok(found < 0, "20,000 quiet steps of %s: nobody is named",
               one ? "one group of eight" : "four replicas of two stages");
        end(r);
    }
}

static void a_slow_core_is_named(void)
{
    int wrong = 0, worst = 0;
    char text[512];
    struct sn_finding f = {0};
    for (int i = 0; i < 40; i++) {
        struct run *r = begin(500 + 10 * (uint64_t)i, false);
        int early = until_found(r, 15 + i, &f);
        r->core[i % RANKS] = 4.0 / 3;
        int found = until_found(r, 10, &f);
        worst = found > worst ? found : worst;
        wrong += early > 0 || found < 0 || f.kind != SN_FINDING_CORE || f.rank != i % RANKS ||
                 f.since < 15 + i || f.since > 18 + i;
        end(r);
    }
    tap_ok(wrong == 0, "a core slowed by a third: named in 40 of 40 runs (%d wrong)", wrong);
    tap_ok(worst <= 8, "within %d steps", worst);
    sn_finding_say(text, sizeof(text), &f);
    tap_ok(strstr(text, "rank 7 (n7, core 7) computes 1.3") &&
               strstr(text, "times as long as the plan says beside its peers since step 5") &&
               strstr(text, "; it had a core for 7"),
           "%s", text);
}

static void a_slow_core_is_named_from_the_start(void)
{
    struct run *r = begin(900, false);
    struct sn_finding f = {0};
    r->core[2] = 4.0 / 3;
    int found = until_found(r, 12, &f);
    tap_ok(found == 8 && f.kind == SN_FINDING_CORE && f.rank == 2,
           "a core that is slow from the start is named after eight steps (%d)", found);
    end(r);
}

static void one_kind_of_work_is_named(void)
{
    struct run *r = begin(901, false);
    struct sn_finding f = {0};
    char text[512];
    (void)until_found(r, 20, &f);
    for (int i = 0; i < 12; i++) {
        r->plan[5].work[SN_WORK_BACKWARD] = 0.6 * 1.6; /* what is drawn; the monitor has its own */
        step(r);
    }
    const struct sn_finding *all;
    int n = sn_monitor_findings(r->monitor, &all);
    sn_finding_say(text, sizeof(text), all);
    tap_ok(n == 1 && all->rank == 5 && all->work == SN_WORK_BACKWARD &&
               strstr(text, "most in backward (1."),
           "%s", text);
    end(r);
}

static void a_slow_link_is_named(void)
{
    int wrong = 0, worst = 0;
    char text[512];
    struct sn_finding f = {0};
    for (int i = 0; i < 40; i++) {
        struct run *r = begin(2000 + 10 * (uint64_t)i, i >= 20);
        char host[8];
        (void)snprintf(host, sizeof(host), "n%d", i % RANKS);
        int early = until_found(r, 15 + i, &f);
        r->link[i % RANKS] = 2;
        int found = until_found(r, 10, &f);
        worst = found > worst ? found : worst;
        wrong +=
            early > 0 || found < 0 || f.kind != SN_FINDING_HOST_LINK || strcmp(f.host, host) != 0;
        end(r);
    }
    tap_ok(
        wrong == 0,
        "a link slowed to half, of a pipeline or of one group: named in 40 of 40 runs (%d wrong)",
        wrong);
    tap_ok(worst <= 9, "within %d steps", worst);
    sn_finding_say(text, sizeof(text), &f);
    tap_ok(strstr(text, "the link of n7 takes ") &&
               strstr(text, "times the planned time since step 5"),
           "%s", text);
}

static void who_comes_late_slows_no_link(void)
{
    struct run *r = begin(3000, true);
    struct sn_finding f = {0};
    (void)until_found(r, 20, &f);
    r->core[3] = 2;
    int found = until_found(r, 10, &f);
    const struct sn_finding *all;
    int n = sn_monitor_findings(r->monitor, &all);
    tap_ok(found > 0 && n == 1 && f.kind == SN_FINDING_CORE && f.rank == 3,
           "a rank that others wait for is named, and no link");
    end(r);
}

static void all_slow_alike_is_nobodys(void)
{
    struct run *r = begin(3100, false);
    struct sn_finding f;
    (void)until_found(r, 20, &f);
    for (int i = 0; i < RANKS; i++)
        r->core[i] = 2;
    tap_ok(until_found(r, 50, &f) < 0, "where all ranks are slow alike none is named");
    end(r);
}

static void the_end_is_told(void)
{
    struct run *r = begin(3200, false);
    struct sn_finding f;
    const struct sn_finding *all;
    int over = 0, news = 0;
    (void)until_found(r, 20, &f);
    for (int i = 0; i < 60; i++) {
        r->core[1] = i < 20 ? 1.5 : 1;
        step(r);
        over += sn_monitor_ended(r->monitor, &all);
        int n = sn_monitor_findings(r->monitor, &all);
        for (int k = 0; k < n; k++)
            news += all[k].is_new;
    }
    tap_ok(news == 1 && over == 1, "a departure is news once, and ends once (%d, %d)", news, over);
    end(r);
}

int main(void)
{
    quiet_runs_name_nobody();
    a_slow_core_is_named();
    a_slow_core_is_named_from_the_start();
    one_kind_of_work_is_named();
    a_slow_link_is_named();
    who_comes_late_slows_no_link();
    all_slow_alike_is_nobodys();
    the_end_is_told();
    return tap_done();
}
