/*
 * test_ema.c - train.ema: averages of weights are those of a float64 reference in every layout, and the same in
 * all of them.
 */
#include "lib/base/mem.h"
#include "lib/exec/exec.h"
#include "lib/program/boxes.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <pthread.h>

enum { RANKS = 4, STEPS = 8, VALUES = 1 << 19 };

/* Of each rank, by bucket, what its slice's average is in double; of the last step all averages, tensor after
 * tensor as the ranks own them. */
struct averages {
    pthread_mutex_t lock;
    double decay, off;
    double *own[RANKS];
    int64_t compared, owned;
    float *all;
};

static int average_of(const struct sn_job *j, const struct sn_bucket *b)
{
    return sn_state_buffer(j, b, (enum sn_state_kind)sn_state_average(j->config));
}

/* The master's slice and the average's, of each bucket one after the other. */
static void hold_to_double(struct averages *a, struct sn_exec *x, const struct sn_job *j, int step)
{
    double *own = a->own[j->rank];
    for (int i = 0; i < j->n_buckets; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        if (average_of(j, b) < 0)
            continue;
        const float *p = sn_exec_address(x, &j->train, b->master),
                    *e = sn_exec_address(x, &j->train, average_of(j, b));
        p += j->train.bufs[b->master].cols > b->slice ? sn_bucket_slice_at(j, b) : 0;
        for (int64_t k = 0; k < b->slice; k++, own++) {
            *own = step == 0 ? (double)p[k] : a->decay * *own + (1 - a->decay) * (double)p[k];
            a->off = fmax(a->off, fabs(*own - (double)e[k]) / fmax(fabs(*own), 1e-2));
            a->compared++;
        }
    }
}

/* Where tensor `tensor` of a parameter begins among all. */
static int64_t first_of(const struct sn_model *m, int param, int tensor)
{
    int64_t at = 0;
    for (int i = 0; i <= param; i++)
        for (int k = 0; k < m->params[i].n_tensors && (i < param || k < tensor); k++)
            at += m->params[i].tensor[k].rows * m->params[i].cols;
    return at;
}

static void collect(struct averages *a, struct sn_exec *x, const struct sn_job *j)
{
    struct sn_job_box *box;
    struct sn_err err;
    int n;
    if (sn_job_boxes(&box, &n, j, &err) != SN_OK)
        return;
    for (int i = 0; i < n; i++) {
        const struct sn_job_box *b = &box[i];
        if (!b->owned || (int)b->kind != sn_state_average(j->config))
            continue;
        const float *e = sn_exec_address(x, &j->train, b->buf);
        int64_t first = first_of(j->model, b->param, b->tensor);
        int64_t cols = j->model->params[b->param].cols;
        for (int64_t r = 0; r < b->n_rows; r++)
            for (int64_t c = 0; c < b->n_cols; c++, a->owned++)
                a->all[first + (b->row + r) * cols + b->col + c] = e[b->at + r * b->ld + c];
    }
    sn_free(box);
}

static void see(void *seen, struct sn_exec *x, const struct sn_job *j, int step)
{
    struct averages *a = seen;
    (void)pthread_mutex_lock(&a->lock);
    hold_to_double(a, x, j, step);
    if (step == STEPS - 1)
        collect(a, x, j);
    (void)pthread_mutex_unlock(&a->lock);
}

/* False: did not run. */
static bool averages_of(struct averages *a, const struct sn_config *c)
{
    struct layout_run run = {.steps = STEPS, .see = see, .seen = a};
    *a = (struct averages){.decay = (double)(float)c->train.ema.decay,
                           .all = sn_alloc_n(VALUES, sizeof(float))};
    (void)pthread_mutex_init(&a->lock, NULL);
    for (int r = 0; r < RANKS; r++)
        a->own[r] = sn_alloc_n(VALUES, sizeof(double));
    layout_train(&run, c);
    for (int r = 0; r < RANKS; r++)
        sn_free(a->own[r]);
    (void)pthread_mutex_destroy(&a->lock);
    if (run.fault[0])
        tap_ok(false, "%s", run.fault);
    return !run.fault[0] && run.traffic_is_planned;
}

static double difference(const struct averages *a, const struct averages *b)
{
    double off = 0, most = 0;
    for (int64_t i = 0; i < VALUES; i++) {
        off = fmax(off, fabs((double)a->all[i] - (double)b->all[i]));
        most = fmax(most, fabs((double)a->all[i]));
    }
    return a->owned == b->owned && a->owned > 0 ? off / most : 1;
}

struct layout {
    const char *name;
    int data, tensor, pipeline, context, zero;
    enum sn_dtype precision;
    double limit; /* of the difference from one rank, of the largest */
};

static const struct layout layouts[] = {
    {"data 2", 2, 1, 1, 1, 0, SN_F32, 1e-5},
    {"data 2, ZeRO 1", 2, 1, 1, 1, 1, SN_F32, 1e-5},
    {"data 2, tensor 2, ZeRO 3", 2, 2, 1, 1, 3, SN_F32, 1e-5},
    {"tensor 2, pipeline 2", 1, 2, 2, 1, 0, SN_F32, 1e-5},
    {"data 2, context 2, ZeRO 2, bf16", 2, 1, 1, 2, 2, SN_BF16, 5e-3},
};

static struct sn_config config_of(const struct layout *l)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.train.ema.decay = 0.8;
    c.train.precision = l->precision;
    c.layout.data = l->data;
    c.layout.tensor = l->tensor;
    c.layout.pipeline = l->pipeline;
    c.layout.context = l->context;
    c.layout.zero = l->zero;
    return c;
}

int main(void)
{
    static const struct layout alone = {"one rank", 1, 1, 1, 1, 0, SN_F32, 0};
    struct averages one, of;
    struct sn_config c = config_of(&alone);
    bool ran = averages_of(&one, &c);
    tap_ok(ran && one.compared > 0 && one.off < 1e-6, "one rank: %lld averages, %.1e from double",
           (long long)one.compared, one.off);
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        const struct layout *l = &layouts[i];
        c = config_of(l);
        ran = averages_of(&of, &c);
        tap_ok(ran && of.compared > 0 && of.off < 1e-6, "%s: %.1e from double", l->name, of.off);
        double off = difference(&one, &of);
        tap_ok(off < l->limit, "%s: %.1e from one rank's", l->name, off);
        sn_free(of.all);
    }
    sn_free(one.all);
    return tap_done();
}
