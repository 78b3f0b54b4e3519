/*
 * attention_ref.h - attention of one head of one sample, and its gradients, by double loops that
 * hold the whole matrix of scores. Some keys, or the pairs of some queries and some keys, may be
 * left out: that is what a rank with a part of the sequence computes.
 */
#ifndef ATTENTION_REF_H
#define ATTENTION_REF_H

#include "kernels/dropout.h"
#include "tests/lib/kernel_test.h"

struct attn {
    int64_t seq, samples;
    int32_t heads, kv_heads, d;
    int64_t pad; /* elements between rows: operands are column slices of a fused matrix */
    float drop;
    int32_t head0; /* the first head here, in the whole model */
};

/* What the masks are drawn from. */
enum { SEED = 1234, STEP = 7, SITE = 5, FIRST_SAMPLE = 40 };

/* Everything of one head of one sample, in double. */
struct head {
    int64_t s, d;
    double *q, *k, *v, *go; /* s x d */
    double *p, *mask;       /* s x s */
    double *o, *lse, *dq, *dk, *dv;
    bool *asks, *gives; /* s: the queries and keys that count; all, to begin with */
};

static double *head_take(double **at, int64_t n)
{
    double *p = *at;
    *at += n;
    return p;
}

/* All zero but asks and gives; the caller frees what is returned. */
static double *head_alloc(struct head *h, int64_t s, int64_t d)
{
    size_t doubles = (size_t)(8 * s * d + 2 * s * s + s);
    double *all = calloc(1, doubles * sizeof(double) + 2 * (size_t)s), *at = all;
    if (!all)
        abort();
    *h = (struct head){.s = s, .d = d};
    h->q = head_take(&at, s * d), h->k = head_take(&at, s * d), h->v = head_take(&at, s * d);
    h->go = head_take(&at, s * d), h->o = head_take(&at, s * d);
    h->dq = head_take(&at, s * d), h->dk = head_take(&at, s * d), h->dv = head_take(&at, s * d);
    h->p = head_take(&at, s * s), h->mask = head_take(&at, s * s), h->lse = head_take(&at, s);
    h->asks = (bool *)at, h->gives = h->asks + s;
    memset(h->asks, true, 2 * (size_t)s);
    return all;
}

static double head_dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* o, lse and p of the asking queries over the keys that give; without any, o = 0 and lse = -inf. */
static void head_forward(struct head *h, double scale)
{
    for (int64_t i = 0; i < h->s; i++) {
        if (!h->asks[i])
            continue;
        double *p = h->p + i * h->s, max = -INFINITY, sum = 0;
        for (int64_t j = 0; j <= i; j++) {
            if (!h->gives[j])
                continue;
            p[j] = scale * head_dot(h->q + i * h->d, h->k + j * h->d, h->d);
            max = p[j] > max ? p[j] : max;
        }
        for (int64_t j = 0; j <= i; j++)
            sum += h->gives[j] ? exp(p[j] - max) : 0.0;
        h->lse[i] = max + log(sum);
        for (int64_t c = 0; c < h->d; c++)
            h->o[i * h->d + c] = 0;
        for (int64_t j = 0; j <= i; j++) {
            if (!h->gives[j])
                continue;
            p[j] = exp(p[j] - h->lse[i]);
            for (int64_t c = 0; c < h->d; c++)
                h->o[i * h->d + c] += h->mask[i * h->s + j] * p[j] * h->v[j * h->d + c];
        }
    }
}

/* Adds to dq, dk and dv what the pairs of asking queries and giving keys contribute. */
static void head_backward(struct head *h, double scale)
{
    for (int64_t i = 0; i < h->s; i++) {
        const double *go = h->go + i * h->d, *p = h->p + i * h->s;
        double delta = head_dot(go, h->o + i * h->d, h->d);
        for (int64_t j = 0; j <= i; j++) {
            if (!h->asks[i] || !h->gives[j])
                continue;
            double mask = h->mask[i * h->s + j];
            double ds = scale * p[j] * (mask * head_dot(go, h->v + j * h->d, h->d) - delta);
            for (int64_t c = 0; c < h->d; c++) {
                h->dv[j * h->d + c] += mask * p[j] * go[c];
                h->dq[i * h->d + c] += ds * h->k[j * h->d + c];
                h->dk[j * h->d + c] += ds * h->q[i * h->d + c];
            }
        }
    }
}

/* The rows of one head of an operand. */
static void head_get(double *out, const struct sn_mat *m, const struct attn *p, int64_t sample,
                     int64_t head)
{
    for (int64_t i = 0; i < p->seq; i++)
        for (int64_t c = 0; c < p->d; c++)
            out[i * p->d + c] = kt_get(m, sample * p->seq + i, head * p->d + c);
}

/* The mask as dropout.h has it, element by element. */
static void head_mask(struct head *h, const struct attn *p, int64_t sample, int64_t head)
{
    uint64_t key = sn_dropout_key(SEED, STEP);
    for (int64_t i = 0; i < h->s; i++)
        for (int64_t j = 0; j <= i; j++) {
            int64_t e = ((p->head0 + head) * h->s + i) * h->s + j;
            struct sn_philox w = sn_dropout_words(key, SITE, FIRST_SAMPLE + sample, e / 4);
            double scale = (double)(1.0f / (1.0f - p->drop));
            bool kept = sn_philox_unit(w.v[e % 4]) >= p->drop;
            h->mask[i * h->s + j] = p->drop > 0 ? (kept ? scale : 0.0) : 1.0;
        }
}

#endif
