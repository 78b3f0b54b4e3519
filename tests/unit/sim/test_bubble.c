/*
 * test_bubble.c - the idle time of compiled schedules is what their papers say.
 *
 * The tasks come from compiled programs' schedules, stage by stage, as they are executed; the costs
 * are equal for all stage modules, as the papers' formulas want.
 */
#include "tests/lib/bubble.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

enum { MOST_STAGES = 6 };

struct setting {
    enum sn_schedule kind;
    int stages, vstages, micros;
};

static struct sn_config config_of(struct setting s)
{
    struct sn_config c = layout_config(SN_GPT2);
    c.model.layers = s.stages * s.vstages;
    c.model.tied_embeddings = false;
    c.train.global_batch = s.micros;
    c.layout.schedule = s.kind;
    c.layout.pipeline = s.stages;
    c.layout.virtual_stages = s.vstages;
    return c;
}

/* All stages' work; false and a failed point where they do not compile. */
static bool compile(struct stage_work work[MOST_STAGES], struct sn_pipeline *pipe,
                    const struct sn_config *c)
{
    struct sn_model *model = NULL;
    struct sn_err err = {0};
    struct sn_job_env env = {.config = c, .ops = sn_ops_cpu(), .threads = 1};
    enum sn_status st = sn_model_create(&model, &c->model, &c->train, &err);
    env.model = model;
    for (env.rank = 0; st == SN_OK && env.rank < c->layout.pipeline; env.rank++) {
        struct sn_job *j = NULL;
        st = sn_job_create(&j, &env, &err);
        if (st == SN_OK) {
            *pipe = job_pipeline(j);
            st = stage_work_init(&work[j->stage], j, &err);
        }
        sn_job_destroy(j);
    }
    sn_model_destroy(model);
    return st == SN_OK || tap_ok(false, "compiles: %s", err.text);
}

static void fini(struct stage_work work[MOST_STAGES])
{
    for (int s = 0; s < MOST_STAGES; s++)
        stage_work_fini(&work[s]);
}

/* Every stage's idle time, or -1 if two differ or nothing could be played. */
static int64_t idle_of(struct setting s, struct sn_task_cost cost, double *fraction)
{
    struct sn_config c = config_of(s);
    struct stage_work work[MOST_STAGES] = {0};
    struct sn_pipeline pipe;
    struct sn_pipeline_time time = {0};
    struct sn_err err = {0};
    int64_t idle = -1;
    *fraction = -1;
    if (compile(work, &pipe, &c)) {
        if (bubble_play(&time, &pipe, work, &(struct sn_pipeline_cost){.each = cost}, &err) !=
            SN_OK)
            tap_ok(false, "plays: %s", err.text);
        else {
            idle = time.stage[0].idle;
            *fraction = sn_pipeline_idle_fraction(&time, pipe.stages);
        }
        for (int i = 1; idle >= 0 && i < pipe.stages; i++)
            idle = time.stage[i].idle == idle ? idle : -1;
        sn_pipeline_time_fini(&time);
    }
    fini(work);
    return idle;
}

/* (p-1)/(v m + p-1) of the time, when backward costs as much as forward and when twice that. */
static void check_fraction(const char *name, struct setting s)
{
    for (int64_t weight = 0; weight <= 1; weight++) {
        int64_t gap = (int64_t)(s.stages - 1) * (2 + weight);
        double want = (double)(s.stages - 1) / (s.vstages * s.micros + s.stages - 1), fraction;
        int64_t idle = idle_of(s, (struct sn_task_cost){1, 1, weight}, &fraction);
        tap_ok(idle == gap && fabs(fraction - want) < 1e-12,
               "%s, %d stages x %d, %d micro-batches, B = %d F: idle %lld of %lld, %.6f of %.6f",
               name, s.stages, s.vstages, s.micros, (int)weight + 1, (long long)idle,
               (long long)gap, fraction, want);
    }
}

static void one_f_one_b_and_gpipe_idle_as_their_papers_say(void)
{
    for (int p = 2; p <= MOST_STAGES; p++)
        for (int m = 1; m <= 12; m += p == 4 ? 1 : 5) {
            check_fraction("1f1b", (struct setting){SN_1F1B, p, 1, m});
            check_fraction("gpipe", (struct setting){SN_GPIPE, p, 1, m});
        }
}

static void interleaving_divides_the_idle_time_by_the_virtual_stages(void)
{
    for (int p = 2; p <= MOST_STAGES; p++)
        for (int v = 2; v <= 3; v++)
            for (int groups = 1; groups <= 3; groups++)
                check_fraction("interleaved", (struct setting){SN_INTERLEAVED, p, v, groups * p});
}

static void zero_bubble_idles_for_the_part_that_weights_do_not_fill(void)
{
    static const struct sn_task_cost costs[] = {{1, 1, 1}, {3, 4, 2}};
    for (int p = 2; p <= MOST_STAGES; p++)
        for (int m = p; m <= 3 * p; m += p)
            for (int k = 0; k < 2; k++) {
                struct sn_task_cost c = costs[k];
                int64_t want = (int64_t)(p - 1) * (c.forward + c.backward - c.weight);
                double fraction;
                int64_t idle = idle_of((struct setting){SN_ZERO_BUBBLE, p, 1, m}, c, &fraction);
                tap_ok(idle == want, "zero-bubble, %d stages, %d micro-batches: idle %lld of %lld",
                       p, m, (long long)idle, (long long)want);
            }
}

/* --- costs from FLOPs ------------------------------------------------------------------------- */

static double measured(const struct sn_config *c, struct stage_work work[MOST_STAGES])
{
    struct sn_pipeline pipe;
    struct sn_err err = {0};
    double fraction = -1;
    if (compile(work, &pipe, c) && bubble_fraction(&fraction, &pipe, work, &err) != SN_OK)
        tap_ok(false, "measures: %s", err.text);
    return fraction;
}

static void one_stage_never_waits(void)
{
    struct sn_config c = config_of((struct setting){SN_1F1B, 1, 1, 4});
    struct stage_work work[MOST_STAGES] = {0};
    double f = measured(&c, work);
    tap_ok(f == 0, "one stage: bubble %g", f);
    fini(work);
}

/* A backward segment has two products for one of forward; attention's has five for two, and its
 * forward's scores again are one of them. The head does all three in its forward segment. */
static void segments_cost_their_multiply_adds(void)
{
    struct sn_config c = config_of((struct setting){SN_1F1B, 2, 1, 4});
    struct stage_work work[MOST_STAGES] = {0};
    (void)measured(&c, work);
    double T = c.model.seq, D = c.model.hidden, F = c.model.ffn, V = c.model.vocab, S = T;
    double linear = 2 * T * (4 * D * D + 2 * D * F), scores = 2 * T * S * D;
    double head = 3 * 2 * T * D * V;
    const struct vstage_work *first = &work[0].vstage[0], *last = &work[1].vstage[0];
    tap_ok(first->forward == linear + scores, "forward of a block: %.0f", first->forward);
    tap_ok(first->backward == 2 * linear + 2.5 * scores, "backward: %.0f", first->backward);
    tap_ok(last->forward == linear + scores + head, "with the head: %.0f", last->forward);
    fini(work);
    c.layout.recompute = SN_RECOMPUTE_FULL;
    (void)measured(&c, work);
    double again = linear + scores - 2 * T * D * F; /* nobody reads the last product's result */
    tap_ok(first->backward == 2 * linear + 2.5 * scores + again,
           "full recomputation is in backward: %.0f", first->backward);
    fini(work);
}

static void a_heavier_head_makes_the_other_stages_wait(void)
{
    struct sn_config c = config_of((struct setting){SN_1F1B, 2, 1, 4});
    struct stage_work work[MOST_STAGES] = {0};
    double light = measured(&c, work), even = 1.0 / 5;
    fini(work);
    c.model.vocab *= 20;
    double heavy = measured(&c, work);
    tap_ok(light > even && heavy > light + 0.1, "bubble %.3f, then %.3f (equal stages: %.3f)",
           light, heavy, even);
    fini(work);
}

/* Zero-bubble's order is worth something: with the same work it waits less than 1f1b. */
static void delayed_weight_gradients_fill_the_gap(void)
{
    struct setting s = {SN_1F1B, 4, 1, 8};
    struct sn_config c = config_of(s);
    struct stage_work work[MOST_STAGES] = {0};
    double plain = measured(&c, work);
    fini(work);
    c.layout.schedule = SN_ZERO_BUBBLE;
    double delayed = measured(&c, work);
    tap_ok(delayed > 0 && delayed < 0.8 * plain, "1f1b %.3f, zero-bubble %.3f", plain, delayed);
    fini(work);
}

static void a_schedule_out_of_order_is_refused(void)
{
    struct sn_config c = config_of((struct setting){SN_1F1B, 2, 1, 2});
    struct stage_work work[MOST_STAGES] = {0};
    struct sn_pipeline pipe;
    struct sn_err err = {0};
    double fraction;
    if (compile(work, &pipe, &c)) {
        struct sn_task t = work[1].tasks[0];
        work[1].tasks[0] = work[1].tasks[1];
        work[1].tasks[1] = t;
        enum sn_status st = bubble_fraction(&fraction, &pipe, work, &err);
        tap_ok(st != SN_OK && strstr(err.text, "waits for ever"), "refused: %s", err.text);
    }
    fini(work);
}

int main(void)
{
    one_f_one_b_and_gpipe_idle_as_their_papers_say();
    interleaving_divides_the_idle_time_by_the_virtual_stages();
    zero_bubble_idles_for_the_part_that_weights_do_not_fill();
    one_stage_never_waits();
    segments_cost_their_multiply_adds();
    a_heavier_head_makes_the_other_stages_wait();
    delayed_weight_gradients_fill_the_gap();
    a_schedule_out_of_order_is_refused();
    return tap_done();
}
