/*
 * keys.c - how many keys a token sees, as far as a run file tells (kernels/mask.h says which): what plans count.
 *
 * Samples of S tokens are cut out of a text of documents of L tokens each, and begin anywhere in one. A token at
 * position p of its sample stands u tokens behind its document's first one, all u of 0 .. L alike often, and sees
 * min(p, u, W) tokens before itself. Over those u that are less than P, q = min(p, W):
 *
 *   1/L integral of min(q, u) du = (q P - q^2 / 2) / L    q < P
 *                                  P^2 / 2 L              q >= P
 *
 * With P = L that is what a causal document gives. A prefix of P tokens adds as much with its own P: of it those behind
 * a query are as many as those before. The mean is that over p = 0 .. S. Pieces of a curriculum are shorter samples.
 */
#include "lib/model/model.h"

#include "kernels/mask.h"
#include "lib/config/prompt.h"

#include <math.h>

static double before(double q, double p, double length)
{
    return q < p ? (q * p - q * q / 2) / length : p * p / (2 * length);
}

/* Its integral over 0 .. q. */
static double area(double q, double p, double length)
{
    if (q < p)
        return (q * q * p / 2 - q * q * q / 6) / length;
    return p * p * p / (3 * length) + (q - p) * p * p / (2 * length);
}

static double mean_of(double s, double p, double length, int64_t window)
{
    double q = window > 0 ? fmin((double)window, s) : s;
    return (area(q, p, length) + (s - q) * before(q, p, length)) / s;
}

int64_t sn_model_expected_prompt(const struct sn_config *c)
{
    int64_t places = c->data.prefix == SN_PREFIX_PROMPT ? sn_prompt_positions(&c->train.prompt) : 0;
    return c->data.prefix_length > places ? c->data.prefix_length : places;
}

/* Of a piece of n tokens; without documents what is causal of it. */
static double of_piece(const struct sn_config *c, int64_t n, int64_t window)
{
    double length = (double)c->data.document_length;
    if (length <= 0)
        return sn_mask_keys(n, window);
    return mean_of((double)n, length, length, window) +
           mean_of((double)n, (double)c->data.prefix_length, length, window);
}

double sn_model_expected_keys(const struct sn_config *c, int64_t length, int64_t window)
{
    int64_t seq = c->model.seq, rest = seq % length, prompt = sn_model_expected_prompt(c);
    double keys = of_piece(c, length, window);
    if (rest > 0)
        keys += (of_piece(c, rest, window) - keys) * (double)rest / (double)seq;
    if (c->data.document_length == 0 && prompt > 0) /* at the begin of the sample */
        keys += (double)prompt * sn_mask_keys_cut(prompt, length, window) / (double)seq;
    return keys;
}

/* The p of 0 .. most at which documents of `length` (0: of p) have so many keys; they grow with p. */
static double solve(double keys, double seq, double length, double most)
{
    double low = 0, high = most;
    for (int i = 0; i < 100; i++) {
        double p = (low + high) / 2;
        if (mean_of(seq, p, length > 0 ? length : p, 0) < keys)
            low = p;
        else
            high = p;
    }
    return (low + high) / 2;
}

void sn_model_documents_of(int64_t seq, double keys, double prompt_keys, int64_t *length,
                           int64_t *prompt)
{
    const double s = (double)seq, most = SN_EXPECTED_TOKENS_MOST;
    *length = keys < mean_of(s, most, most, 0) ? llround(fmax(solve(keys, s, 0, most), 1)) : 0;
    double of = (double)*length;
    *prompt = of > 0 ? llround(solve(prompt_keys, s, of, of))
                     : llround(fmin(sqrt(2 * s * prompt_keys), s));
}
