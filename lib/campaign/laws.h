/*
 * laws.h - how many tokens a model of so many parameters should see, by published scaling laws.
 *
 * L(N, D) = E + A / N^alpha + B / D^beta of N parameters and D tokens (Hoffmann et al. 2022, arXiv
 * 2203.15556, approach 3). With C = 6 N D FLOPs it is least at
 *   N = G (C / 6)^(beta / (alpha + beta)), D = C / 6 / N, G = (alpha A / (beta B))^(1 / (alpha + beta)),
 * so that D = (N / G)^((alpha + beta) / beta) / N. Where A is 0 the law is D = ratio N and has no loss.
 */
#ifndef SN_LAWS_H
#define SN_LAWS_H

#include "lib/base/err.h"

struct sn_law {
    const char *name;
    double e, a, alpha, b, beta, ratio;
    const char *source;
};

enum { SN_NLAWS = 3 };
extern const struct sn_law sn_laws[SN_NLAWS]; /* the first one is the default */

/* SN_EINPUT with the names there are. */
enum sn_status sn_law_find(const struct sn_law **out, const char *name, struct sn_err *err);
double sn_law_loss(const struct sn_law *l, double parameters, double tokens); /* 0: it has none */
/* Tokens at which a model of so many parameters is the best for its FLOPs. */
double sn_law_tokens(const struct sn_law *l, double parameters);
/* The best number of parameters for so many FLOPs. */
double sn_law_parameters(const struct sn_law *l, double flops);

#endif
