/*
 * test_generate_row.c - `generate_row`, a row over kept keys and values, gives the logits that the whole
 * window gives: every model of tests/equiv/layouts, in fp32.
 *
 * The first tokens go through the window at once; what it has kept of rows behind them is made NaN, so that
 * a row that is not written before it is read, or that is read before its time, shows.
 *
 * Tolerance: logits are below 1; products of one row sum in another order than those of many.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "tests/lib/job_test.h"
#include "tests/lib/layouts.h"
#include "tests/lib/models.h"
#include "tests/lib/tap.h"

#include <math.h>

enum { PROMPT = 19 };

struct one {
    struct sn_config config;
    struct sn_model *model;
    struct sn_job *job;
    struct sn_comm *comm;
    struct sn_exec *exec;
    int32_t *ids;
};

static enum sn_status open_one(struct one *x, const struct sn_config *c, struct sn_err *err)
{
    *x = (struct one){.config = layouts_reference(c)};
    x->config.layout.micro_batch = 1;
    x->config.train.precision = SN_F32;
    x->config.train.fp8 = SN_FP8_OFF;
    SN_TRY(sn_model_create(&x->model, &x->config.model, &x->config.train, err));
    struct sn_job_env env = {.config = &x->config,
                             .model = x->model,
                             .ops = sn_ops_cpu(),
                             .threads = 1,
                             .keeps_past = true};
    SN_TRY(sn_job_create(&x->job, &env, err));
    SN_TRY(sn_comm_create_self(&x->comm, err));
    SN_TRY(sn_exec_create(&x->exec, x->job, x->comm, err));
    const struct sn_program *p = &x->job->train;
    x->ids = sn_exec_address(x->exec, p, x->job->ids);
    float *f = x->job->features < 0 ? NULL : sn_exec_address(x->exec, p, x->job->features);
    for (int64_t i = 0; f && i < p->bufs[x->job->features].rows * p->bufs[x->job->features].cols; i++)
        f[i] = (float)sn_rng_uniform(8, (uint64_t)i);
    return job_weights(x->exec, x->job, x->comm, err);
}

static void close_one(struct one *x)
{
    sn_exec_destroy(x->exec);
    if (x->comm)
        x->comm->ops->destroy(x->comm);
    sn_job_destroy(x->job);
    sn_model_destroy(x->model);
}

/* Tokens 0 .. n - 1 of a text, zeros behind them. */
static void write_window(struct one *x, int n)
{
    const struct sn_model_config *m = &x->config.model;
    for (int i = 0; i < m->seq; i++)
        x->ids[i] =
            i < n ? (int32_t)(sn_rng_uniform(7, (uint64_t)i) * (double)m->vocab) : 0;
}

static enum sn_status logits_at(struct one *x, const struct sn_program *p, int row, float *out,
                                struct sn_err *err)
{
    struct sn_at at = {.micros = 1, .row = row};
    const void *found;
    bool whole = p == &x->job->generate && row > 0;
    for (int s = whole ? 1 : 0; s < 2; s++)
        SN_TRY(sn_exec_segment(x->exec, p, s, at, err));
    SN_TRY(sn_exec_fetch(x->exec, p, p->logits, &found, err));
    memcpy(out, found, (size_t)x->config.model.vocab * sizeof(float));
    return SN_OK;
}

static void forget_rows(struct one *x, int64_t from)
{
    const struct sn_program *p = &x->job->train;
    for (int b = x->job->past; b < p->n_state_bufs && p->bufs[b].cls == SN_CLASS_PAST; b++) {
        float *kept = sn_exec_address(x->exec, p, b);
        for (int64_t i = from * p->bufs[b].cols; i < p->bufs[b].rows * p->bufs[b].cols; i++)
            kept[i] = NAN;
    }
}

/* The largest difference of any logit; and the largest logit. */
static enum sn_status compare(struct one *x, double *off, double *most, struct sn_err *err)
{
    int seq = x->config.model.seq, vocab = x->config.model.vocab;
    float *want = sn_alloc_n((size_t)seq * (size_t)vocab, sizeof(*want)),
          *got = sn_alloc_n((size_t)vocab, sizeof(*got));
    enum sn_status st = want && got ? SN_OK : sn_fail(err, SN_ENOMEM, "no memory");
    write_window(x, seq);
    for (int r = 0; r < seq && st == SN_OK; r++)
        st = logits_at(x, &x->job->generate, r, want + (size_t)r * (size_t)vocab, err);
    write_window(x, PROMPT);
    if (st == SN_OK)
        st = logits_at(x, &x->job->generate, 0, got, err);
    forget_rows(x, PROMPT);
    write_window(x, seq);
    for (int r = PROMPT; r < seq && st == SN_OK; r++) {
        st = logits_at(x, &x->job->generate_row, r, got, err);
        for (int v = 0; v < vocab && st == SN_OK; v++) {
            double w = (double)want[r * vocab + v], d = fabs((double)got[v] - w);
            *off = d <= *off ? *off : d; /* NaN stays */
            *most = fabs(w) > *most ? fabs(w) : *most;
        }
    }
    sn_free(want);
    sn_free(got);
    return st;
}

int main(void)
{
    struct sn_err err = {0};
    struct layouts_line line;
    struct models seen = {0};
    int more = 1, good = 0;
    FILE *f = fopen("tests/equiv/layouts", "r");
    while (f && (more = layouts_next(f, &line, &err)) > 0) {
        struct one x;
        double off = 0, most = 0;
        if (!models_add(&seen, &line.config))
            continue;
        enum sn_status st = open_one(&x, &line.config, &err);
        if (st == SN_OK)
            st = compare(&x, &off, &most, &err);
        close_one(&x);
        bool same = st == SN_OK && off <= 1e-5 && most > 1e-3;
        good += same;
        if (!same)
            tap_ok(false, "%s: rows give the window's logits (%g of %g) %s", line.name, off, most, err.text);
    }
    tap_ok(f && more == 0 && good == seen.n && good > 40,
           "%d of %d models give the same logits row by row as of whole windows %s", good, seen.n, err.text);
    if (f)
        (void)fclose(f);
    return tap_done();
}
