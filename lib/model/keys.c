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
 * a query are as many as those before. The mean is that over p = 0 .. S.
 */
#include "lib/model/model.h"

#include "kernels/mask.h"

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

static double mean_of(const struct sn_config *c, double p, int64_t window)
{
    double s = (double)c->model.seq, length = (double)c->data.document_length;
    double q = window > 0 ? fmin((double)window, s) : s;
    return (area(q, p, length) + (s - q) * before(q, p, length)) / s;
}

double sn_model_expected_keys(const struct sn_config *c, int64_t window)
{
    int64_t length = c->data.document_length, prefix = c->data.prefix_length;
    if (length > 0)
        return mean_of(c, (double)length, window) + mean_of(c, (double)prefix, window);
    double more = (double)prefix * sn_mask_keys(prefix, window) / (double)c->model.seq;
    return sn_mask_keys(c->model.seq, window) + more;
}
