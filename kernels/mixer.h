/*
 * mixer.h - how a ROUTE with attr.experts.sparsemixer chooses: the specification, shared by CPU and CUDA
 * code.
 *
 * SparseMixer-v2 (Liu et al., "GRIN: GRadient-INformed MoE", arXiv 2409.12136, Algorithm 1, and its
 * equation 2 for what is masked). For the j-th choice of a token with logits z, among the experts
 * that it has not chosen before, with z* the largest of their logits:
 *
 *   near      z* - z_e <= range (|z_e| + |z*|)
 *   p         softmax of the z_e that are near, 0 for the others
 *   D         drawn from p; in evaluation the largest
 *   y        += f p_D expert_D(x)     f = 1 if D is the largest, else (1 + 2 B) / 3, B 1 with
 *                                     probability 1/4 (Heun's third-order rule); in evaluation 1
 *   backward  of p_D expert_D(x), without f: dz_e = p_D (dy . expert_D(x)) ((e = D) - p_e)
 *
 * The paper says of this version that its derivation has an error, and that a corrected one (its
 * Algorithm 2: p of z / 2, B with 5/8, f = 2 B) came out equal at 2.5 T tokens. This is the one
 * that the published models were trained with.
 *
 * Numbers of choice j of k, position i of global sample n, at random site s, in step t of a run
 * with a seed:
 *
 *   key   = first 64 bits of philox(key = seed, counter = (t, "mixr"))
 *   words = philox(key, counter = (s << 32 | n mod 2^32, i k + j))
 *   D     = the first e with  sum of p up to e  >  words[0] 2^-32;   B = words[1] < 2^30
 *
 * No rank, layout or launch shape enters: recomputation, micro-batches and tensor ranks agree.
 */
#ifndef SN_MIXER_H
#define SN_MIXER_H

#include "kernels/dropout.h"
#include "kernels/position.h"

struct sn_mixer_draw {
    double unit; /* in [0, 1) */
    bool whole;  /* B */
};

/* What choice j of k is drawn with in row r. */
SN_BOTH struct sn_mixer_draw sn_mixer_draw(const struct sn_attr *a, const struct sn_scalars *s,
                                           int64_t r, int64_t k, int64_t j)
{
    uint64_t key = sn_noise_key(s->seed, s->step, 0x6d697872u);
    struct sn_philox w =
        sn_dropout_words(key, a->random.site, s->first_sample + sn_row_sample(&a->position, r),
                         sn_row_position(&a->position, r) * k + j);
    struct sn_mixer_draw d = {(double)w.v[0] / 4294967296.0, w.v[1] < 1u << 30};
    return d;
}

SN_BOTH bool sn_mixer_is_near(float z, float top, float range)
{
    float size = (z < 0 ? -z : z) + (top < 0 ? -top : top);
    return top - z <= range * size;
}

SN_BOTH float sn_mixer_factor(bool is_largest, const struct sn_mixer_draw *d)
{
    return is_largest || d->whole ? 1.0f : 1.0f / 3.0f;
}

#endif
