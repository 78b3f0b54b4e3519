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
    int32_t head0;            /* the first head here, in the whole model */
    int32_t window, document; /* tokens; 0: none, and one document a sample */
    float cap;                /* of scores; 0: none */
    int32_t e;                /* columns of a head of v and o; 0: d */
    int32_t prefix;           /* tokens of the first document that are seen both ways; 0: of none */
};

static int64_t attn_e(const struct attn *p)
{
    return p->e > 0 ? p->e : p->d;
}

/* What the masks are drawn from. */
enum { SEED = 1234, STEP = 7, SITE = 5, FIRST_SAMPLE = 40 };

/* Everything of one head of one sample, in double. */
struct head {
    int64_t s, d, e;
    double *q, *k, *v, *go; /* s x d; v, go and o s x e */
    double *p, *mask;       /* s x s */
    double *o, *lse, *dq, *dk, *dv;
    bool *asks, *gives; /* s: the queries and keys that count; all, to begin with */
    bool *sees;         /* s x s: queries and the keys that they see */
    int64_t *upto;      /* s: keys from there on a query does not see */
    double cap;
};

static double *head_take(double **at, int64_t n)
{
    double *p = *at;
    *at += n;
    return p;
}

/* All zero but asks and gives; the caller frees what is returned. */
static double *head_alloc(struct head *h, const struct attn *p)
{
    int64_t s = p->seq, d = p->d, e = attn_e(p);
    size_t doubles = (size_t)(4 * s * d + 4 * s * e + 2 * s * s + s);
    size_t others = (size_t)s * sizeof(int64_t) + (size_t)(s * s + 2 * s);
    double *all = calloc(1, doubles * sizeof(double) + others), *at = all;
    if (!all)
        abort();
    *h = (struct head){.s = s, .d = d, .e = e};
    h->q = head_take(&at, s * d), h->k = head_take(&at, s * d), h->v = head_take(&at, s * e);
    h->go = head_take(&at, s * e), h->o = head_take(&at, s * e);
    h->dq = head_take(&at, s * d), h->dk = head_take(&at, s * d), h->dv = head_take(&at, s * e);
    h->p = head_take(&at, s * s), h->mask = head_take(&at, s * s), h->lse = head_take(&at, s);
    h->upto = (int64_t *)(void *)at;
    h->asks = (bool *)(h->upto + s), h->gives = h->asks + s, h->sees = h->gives + s;
    memset(h->asks, true, 2 * (size_t)s);
    return all;
}

__attribute__((unused)) static void head_clear_gradients(struct head *h)
{
    memset(h->dq, 0, (size_t)(h->s * (2 * h->d + h->e)) * sizeof(double)); /* dq, dk, dv */
}

static double head_dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static double head_score(const struct head *h, double scale, int64_t i, int64_t j)
{
    double s = scale * head_dot(h->q + i * h->d, h->k + j * h->d, h->d);
    return h->cap > 0 ? h->cap * tanh(s / h->cap) : s;
}

static bool head_sees(const struct head *h, int64_t i, int64_t j)
{
    return h->gives[j] && h->sees[i * h->s + j];
}

/* o, lse and p of the asking queries over the keys that give; without any, o = 0 and lse = -inf. */
static void head_forward(struct head *h, double scale)
{
    for (int64_t i = 0; i < h->s; i++) {
        if (!h->asks[i])
            continue;
        double *p = h->p + i * h->s, max = -INFINITY, sum = 0;
        for (int64_t j = 0; j < h->upto[i]; j++) {
            if (!head_sees(h, i, j))
                continue;
            p[j] = head_score(h, scale, i, j);
            max = p[j] > max ? p[j] : max;
        }
        for (int64_t j = 0; j < h->upto[i]; j++)
            sum += head_sees(h, i, j) ? exp(p[j] - max) : 0.0;
        h->lse[i] = max + log(sum);
        for (int64_t c = 0; c < h->e; c++)
            h->o[i * h->e + c] = 0;
        for (int64_t j = 0; j < h->upto[i]; j++) {
            if (!head_sees(h, i, j))
                continue;
            p[j] = exp(p[j] - h->lse[i]);
            for (int64_t c = 0; c < h->e; c++)
                h->o[i * h->e + c] += h->mask[i * h->s + j] * p[j] * h->v[j * h->e + c];
        }
    }
}

/* Adds to dq, dk and dv what the pairs of asking queries and giving keys contribute. */
__attribute__((unused)) static void head_backward(struct head *h, double scale)
{
    for (int64_t i = 0; i < h->s; i++) {
        const double *go = h->go + i * h->e, *p = h->p + i * h->s;
        double delta = head_dot(go, h->o + i * h->e, h->e);
        for (int64_t j = 0; j < h->upto[i]; j++) {
            if (!h->asks[i] || !head_sees(h, i, j))
                continue;
            double mask = h->mask[i * h->s + j];
            double t = h->cap > 0 ? head_score(h, scale, i, j) / h->cap : 0; /* tanh */
            double slope = scale * (1 - t * t);
            double ds = slope * p[j] * (mask * head_dot(go, h->v + j * h->e, h->e) - delta);
            for (int64_t c = 0; c < h->e; c++)
                h->dv[j * h->e + c] += mask * p[j] * go[c];
            for (int64_t c = 0; c < h->d; c++) {
                h->dq[i * h->d + c] += ds * h->k[j * h->d + c];
                h->dk[j * h->d + c] += ds * h->q[i * h->d + c];
            }
        }
    }
}

/* The rows of one head of an operand whose heads have d columns. */
static void head_get(double *out, const struct sn_mat *m, int64_t seq, int64_t sample, int64_t head,
                     int64_t d)
{
    for (int64_t i = 0; i < seq; i++)
        for (int64_t c = 0; c < d; c++)
            out[i * d + c] = kt_get(m, sample * seq + i, head * d + c);
}

/* Where the document of position i of a sample begins: documents of as many tokens, the first of a
 * sample shorter, each sample by another number. */
static int64_t head_start(const struct attn *p, int64_t sample, int64_t i)
{
    int64_t shift = p->document > 0 ? (sample + 1) % p->document : 0;
    int64_t start = p->document > 0 ? (i + shift) / p->document * p->document - shift : 0;
    return start > 0 ? start : 0;
}

/* The last position that is seen from position i: its own, or the last one of its document's prefix. Each
 * document's is longer than that of the one before, or begins anew; a sample's end may cut it. */
static int64_t head_last(const struct attn *p, int64_t sample, int64_t i)
{
    int64_t length = p->document > 0 ? p->document : p->seq;
    int64_t shift = p->document > 0 ? (sample + 1) % length : 0, number = (i + shift) / length;
    int64_t tokens = (p->prefix + 13 * (number + sample)) % (length + 1);
    int64_t last = number * length - shift + tokens - 1;
    last = last < p->seq ? last : p->seq - 1;
    return p->prefix > 0 && last > i ? last : i;
}

/* The operand that says both. */
__attribute__((unused)) static void head_starts(struct kt *k, int slot, const struct attn *p)
{
    if (p->document == 0 && p->prefix == 0)
        return;
    struct kt_shape shape = {SN_I32, p->seq * p->samples, p->prefix > 0 ? 2 : 1, 0};
    struct sn_mat *m = kt_new(k, slot, shape);
    for (int64_t r = 0; r < m->rows; r++) {
        kt_set(m, r, 0, (double)head_start(p, r / p->seq, r % p->seq));
        if (p->prefix > 0)
            kt_set(m, r, 1, (double)head_last(p, r / p->seq, r % p->seq));
    }
}

/* Which keys which queries see, and the mask as dropout.h has it, element by element. */
static void head_mask(struct head *h, const struct attn *p, int64_t sample, int64_t head)
{
    uint64_t key = sn_dropout_key(SEED, STEP);
    h->cap = (double)p->cap;
    for (int64_t i = 0; i < h->s; i++) {
        h->upto[i] = head_last(p, sample, i) + 1;
        for (int64_t j = 0; j < h->upto[i]; j++) {
            int64_t e = ((p->head0 + head) * h->s + i) * h->s + j;
            struct sn_philox w = sn_dropout_words(key, SITE, FIRST_SAMPLE + sample, e / 4);
            double scale = (double)(1.0f / (1.0f - p->drop));
            bool kept = sn_philox_unit(w.v[e % 4]) >= p->drop;
            h->mask[i * h->s + j] = p->drop > 0 ? (kept ? scale : 0.0) : 1.0;
            h->sees[i * h->s + j] = (p->window == 0 || (j > i - p->window && j < i + p->window)) &&
                                    head_start(p, sample, i) == head_start(p, sample, j);
        }
    }
}

#endif
