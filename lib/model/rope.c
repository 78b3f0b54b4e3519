/*
 * rope.c - scaled wavelengths of the rotary embedding: how fast each pair of features of a head turns.
 *
 * With n = features that are rotated, s = factor, L = original_seq, pair i of n/2 turns by w_i a
 * position, where plain w_i = theta^(-2i/n):
 *
 *   linear    w_i / s                                  (Chen et al., arXiv 2306.15595)
 *   dynamic   plain, of the base theta (s seq/L - (s - 1))^(n/(n-2)) where seq > L: in a model of a
 *             fixed length that is a number, not a function of what has been read
 *   yarn      between w_i / s and w_i by a ramp over i   (Peng et al., arXiv 2309.00071, 3.2)
 *   llama3    w_i / s where the wavelength is above L/low, w_i where it is below L/high, between them
 *             by how often it fits into L                 (Llama 3.1's model code)
 *   longrope  w_i / f_i, f of long_factor where seq > L, else of short_factor
 *                                                        (Ding et al., arXiv 2402.13753)
 *
 * yarn and longrope multiply sines and cosines by a number, too: scores grow by its square. Of heads of
 * which a part is rotated, as those of latents are, it is the part's alone; yarn then multiplies scores
 * whole by the square of 0.1 mscale_all_dim log(s) + 1, as DeepSeek's code does.
 */
#include "lib/model/build.h"

#include "lib/base/mem.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static double original(const struct sn_model_config *c)
{
    return c->rope_scaling.original_seq > 0 ? c->rope_scaling.original_seq : c->seq;
}

/* The pair that turns so often in L tokens. */
static double pair_of(const struct sn_model_config *c, double turns)
{
    return sn_model_rotated(c) * log(original(c) / (turns * 2 * pi)) / (2 * log(c->rope_theta));
}

/* 0: not scaled, 1: scaled whole. */
static double yarn_ramp(const struct sn_model_config *c, int i)
{
    const struct sn_rope_config *r = &c->rope_scaling;
    double low = pair_of(c, r->beta_fast), high = pair_of(c, r->beta_slow);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, sn_model_rotated(c) - 1);
    return clamp((i - low) / (low == high ? 0.001 : high - low), 0, 1);
}

static double llama3(const struct sn_model_config *c, double w)
{
    const struct sn_rope_config *r = &c->rope_scaling;
    double turns = original(c) * w / (2 * pi);
    double share = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    if (turns < r->low_freq_factor)
        return w / r->factor;
    return turns > r->high_freq_factor ? w : (1 - share) * w / r->factor + share * w;
}

static double frequency(const struct sn_model_config *c, int i)
{
    const struct sn_rope_config *r = &c->rope_scaling;
    double n = sn_model_rotated(c), base = c->rope_theta, longer = c->seq / original(c);
    if (r->kind == SN_ROPE_DYNAMIC && longer > 1 && n > 2)
        base *= pow(r->factor * longer - (r->factor - 1), n / (n - 2));
    double w = pow(base, -2.0 * i / n);
    switch (r->kind) {
    case SN_ROPE_LINEAR:
        return w / r->factor;
    case SN_ROPE_YARN: {
        double ramp = yarn_ramp(c, i);
        return w / r->factor * ramp + w * (1 - ramp);
    }
    case SN_ROPE_LLAMA3:
        return llama3(c, w);
    case SN_ROPE_LONGROPE:
        return w / (longer > 1 ? r->long_factor.v[i] : r->short_factor.v[i]);
    case SN_ROPE_PLAIN:
    case SN_ROPE_DYNAMIC:
        break;
    }
    return w;
}

static double by_log(double factor, double weight)
{
    return factor <= 1 ? 1 : 0.1 * weight * log(factor) + 1;
}

double sn_rope_amplitude(const struct sn_model_config *c)
{
    const struct sn_rope_config *r = &c->rope_scaling;
    bool scales = r->kind == SN_ROPE_YARN || r->kind == SN_ROPE_LONGROPE;
    if (!scales || r->attention_factor > 0)
        return scales ? r->attention_factor : 1;
    if (r->kind == SN_ROPE_LONGROPE)
        return r->factor <= 1 ? 1 : sqrt(1 + log(r->factor) / log(original(c)));
    if (r->mscale > 0 && r->mscale_all_dim > 0)
        return by_log(r->factor, r->mscale) / by_log(r->factor, r->mscale_all_dim);
    return by_log(r->factor, 1);
}

double sn_rope_score_scale(const struct sn_model_config *c)
{
    const struct sn_rope_config *r = &c->rope_scaling;
    bool scales = sn_model_has_latents(c) && r->kind == SN_ROPE_YARN && r->mscale_all_dim > 0;
    double root = scales ? by_log(r->factor, r->mscale_all_dim) : 1;
    return root * root;
}

const double *sn_rope_frequencies(struct sn_model_builder *b)
{
    int pairs = sn_model_rotated(b->config) / 2;
    if (b->config->rope_scaling.kind == SN_ROPE_PLAIN || b->model->frequencies)
        return b->model->frequencies;
    b->model->frequencies = sn_alloc_n((size_t)pairs, sizeof(double));
    b->failed = b->failed || !b->model->frequencies;
    for (int i = 0; i < pairs && b->model->frequencies; i++)
        b->model->frequencies[i] = frequency(b->config, i);
    return b->model->frequencies;
}
