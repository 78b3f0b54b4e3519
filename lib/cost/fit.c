/*
 * fit.c - rates from measured operations.
 */
#include "lib/cost/fit.h"

#include "lib/base/mem.h"
#include "lib/cost/price.h"
#include "lib/program/opinfo.h"

#include <math.h>

enum { MOST_UNKNOWNS = 8 };

/* --- the list --------------------------------------------------------------------------------- */

static bool is_same(const struct sn_measured *a, const struct sn_measured *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->epilogue == b->epilogue &&
           a->m == b->m && a->n == b->n && a->k == b->k;
}

enum sn_status sn_samples_add(struct sn_samples *s, const struct sn_sample *x, struct sn_err *err)
{
    for (int i = 0; i < s->n; i++) {
        struct sn_sample *v = &s->v[i];
        if (!is_same(&v->what, &x->what))
            continue;
        double all = v->weight + x->weight;
        v->what.seconds = (v->weight * v->what.seconds + x->weight * x->what.seconds) / all;
        v->weight = all;
        return SN_OK;
    }
    if (!sn_grow((void **)&s->v, s->n, &s->cap, sizeof(*s->v)))
        return sn_fail(err, SN_ENOMEM, "calibrate: no memory for %d measurements", s->n + 1);
    s->v[s->n++] = *x;
    return SN_OK;
}

void sn_samples_fini(struct sn_samples *s)
{
    sn_free(s->v);
    *s = (struct sn_samples){0};
}

/* --- downhill --------------------------------------------------------------------------------- */

/* Coordinate search in the logarithm: each variable in turn is multiplied or divided by a factor
 * that shrinks when nothing helps. Few variables, no derivative, always the same answer. */
void sn_fit_minimise(double *x, int n, sn_loss *loss, const void *arg)
{
    double best = loss(x, arg);
    for (double factor = 2; factor > 1.005;) {
        bool helped = false;
        for (int i = 0; i < 2 * n; i++) {
            double was = x[i / 2];
            x[i / 2] = i % 2 ? was / factor : was * factor;
            double now = loss(x, arg);
            helped |= now < best;
            if (now < best)
                best = now;
            else
                x[i / 2] = was;
        }
        if (!helped)
            factor = sqrt(factor);
    }
}

/* What the search has driven to nothing is nothing. */
static double or_nothing(double x)
{
    return x > 1e-3 ? x : 0;
}

/* --- formulas --------------------------------------------------------------------------------- */

/* Which samples a fit reads, and the device as far as it is known. */
struct fit {
    const struct sn_samples *s;
    const struct sn_machine_device *d;
    enum sn_dtype dtype;
    enum sn_op_kind kind;
};

static double log_error(double predicted, const struct sn_sample *x)
{
    double e = log(predicted / x->what.seconds);
    return e * e;
}

/* A product and nothing else: what an epilogue takes is not the products' rate. */
static bool is_product(const struct fit *f, const struct sn_sample *s)
{
    return s->what.kind == SN_OP_GEMM && s->what.dtype == f->dtype &&
           s->what.epilogue == SN_EPILOGUE_NONE;
}

/* x: most, half_m, half_n, half_k. */
static double gemm_loss(const double *x, const void *arg)
{
    const struct fit *f = arg;
    double sum = 0, peak = f->d->gemm[f->dtype].peak;
    if (x[0] > 1) /* a part of the peak, whatever noise would have it */
        return INFINITY;
    for (int i = 0; i < f->s->n; i++) {
        const struct sn_sample *s = &f->s->v[i];
        if (!is_product(f, s))
            continue;
        double lost =
            1 + x[1] / (double)s->what.m + x[2] / (double)s->what.n + x[3] / (double)s->what.k;
        sum += log_error(f->d->overhead + s->flops * lost / (peak * x[0]), s);
    }
    return sum + 1e-6 * (x[1] + x[2] + x[3]) / 1e3; /* of equals the smallest */
}

static enum sn_dtype product_type(const struct sn_machine_device *d, enum sn_dtype t)
{
    return d->gemm[t].peak > 0 ? t : SN_F32;
}

/* x: half_seq, forward, backward. */
static double attention_loss(const double *x, const void *arg)
{
    const struct fit *f = arg;
    double sum = 1e-9 * x[0];
    if (x[1] > 1 || x[2] > 1)
        return INFINITY;
    for (int i = 0; i < f->s->n; i++) {
        const struct sn_sample *s = &f->s->v[i];
        if (sn_op_row(s->what.kind)->cost != SN_COST_ATTENTION)
            continue;
        double peak = f->d->gemm[product_type(f->d, s->what.dtype)].peak;
        double part = s->what.kind == SN_OP_ATTENTION ? x[1] : x[2];
        double flops = s->flops * (1 + x[0] / (double)s->seq);
        sum += log_error(f->d->overhead + flops / (peak * part), s);
    }
    return sum;
}

/* x: half_bytes, then the fraction of each kind. */
static double moved_loss(const double *x, const void *arg)
{
    const struct fit *f = arg;
    double sum = 1e-12 * x[0];
    for (int k = 0; k < SN_NMOVED; k++)
        if (x[1 + k] > 100) /* times the bandwidth of memory: from a cache, but not more */
            return INFINITY;
    for (int i = 0; i < f->s->n; i++) {
        const struct sn_sample *s = &f->s->v[i];
        enum sn_moved kind;
        if (!sn_price_moved(s->what.kind, &kind) || s->bytes == 0)
            continue;
        double rate = f->d->bandwidth * x[1 + kind];
        sum += log_error(f->d->overhead + ((double)s->bytes + x[0]) / rate, s);
    }
    return sum;
}

/* --- the fit ---------------------------------------------------------------------------------- */

static int count(const struct fit *f, bool (*takes)(const struct fit *f, const struct sn_sample *s))
{
    int n = 0;
    for (int i = 0; i < f->s->n; i++)
        n += takes(f, &f->s->v[i]);
    return n;
}

static bool is_of_kind(const struct fit *f, const struct sn_sample *s)
{
    return s->what.kind == f->kind;
}

static bool is_moved(const struct fit *f, const struct sn_sample *s)
{
    enum sn_moved kind;
    return sn_price_moved(s->what.kind, &kind) && (int)kind == (int)f->kind && s->bytes > 0;
}

static bool fit_products(struct sn_machine_device *d, const struct sn_samples *s, enum sn_dtype t)
{
    struct fit f = {s, d, t, SN_OP_GEMM};
    for (int i = 0; d->gemm[t].peak > 0 && i < s->n; i++) /* no part is more than the whole */
        if (is_product(&f, &s->v[i]))
            d->gemm[t].peak = fmax(d->gemm[t].peak, s->v[i].flops / s->v[i].what.seconds);
    if (d->gemm[t].peak == 0 || count(&f, is_product) == 0)
        return false;
    double x[] = {0.8, 8, 8, 8};
    sn_fit_minimise(x, 4, gemm_loss, &f);
    d->gemm[t].most = x[0];
    d->gemm[t].half_m = or_nothing(x[1]);
    d->gemm[t].half_n = or_nothing(x[2]);
    d->gemm[t].half_k = or_nothing(x[3]);
    return true;
}

static void fit_all_products(struct sn_machine_device *d, const struct sn_samples *s)
{
    bool is_known[SN_NPRECISIONS];
    int known = -1;
    for (int t = 0; t < SN_NPRECISIONS; t++) {
        is_known[t] = fit_products(d, s, (enum sn_dtype)t);
        if (is_known[t] && known < 0)
            known = t;
    }
    for (int t = 0; known >= 0 && t < SN_NPRECISIONS; t++)
        if (!is_known[t]) {
            double peak = d->gemm[t].peak;
            d->gemm[t] = d->gemm[known];
            d->gemm[t].peak = peak;
        }
}

static void fit_attention(struct sn_machine_device *d, const struct sn_samples *s)
{
    struct fit forward = {s, d, SN_F32, SN_OP_ATTENTION};
    struct fit backward = {s, d, SN_F32, SN_OP_ATTENTION_DX};
    double x[] = {16, 0.3, 0.3};
    if (!count(&forward, is_of_kind) && !count(&backward, is_of_kind))
        return;
    sn_fit_minimise(x, 3, attention_loss, &forward);
    d->attention_half_seq = or_nothing(x[0]);
    if (count(&forward, is_of_kind))
        d->attention_forward = x[1];
    if (count(&backward, is_of_kind))
        d->attention_backward = x[2];
}

static void fit_moved(struct sn_machine_device *d, const struct sn_samples *s)
{
    struct fit f = {s, d, SN_F32, SN_OP_ZERO};
    double x[1 + SN_NMOVED] = {1024};
    int n = 0, of[SN_NMOVED];
    for (int k = 0; k < SN_NMOVED; k++) {
        f.kind = (enum sn_op_kind)k;
        x[1 + k] = 0.5;
        n += of[k] = count(&f, is_moved);
    }
    if (n == 0)
        return;
    sn_fit_minimise(x, 1 + SN_NMOVED, moved_loss, &f);
    d->half_bytes = or_nothing(x[0]);
    for (int k = 0; k < SN_NMOVED; k++)
        if (of[k])
            d->moved[k] = x[1 + k];
}

/* What the shortest operation takes: it does next to nothing. */
static double shortest(const struct sn_samples *s, double otherwise)
{
    double least = INFINITY;
    for (int i = 0; i < s->n; i++)
        least = fmin(least, s->v[i].what.seconds);
    return isfinite(least) ? least : otherwise;
}

void sn_fit_device(struct sn_machine_device *d, const struct sn_samples *s)
{
    d->overhead = shortest(s, d->overhead);
    fit_all_products(d, s);
    fit_attention(d, s);
    fit_moved(d, s);
}
