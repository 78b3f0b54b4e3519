#include "lib/campaign/laws.h"

#include "lib/base/str.h"

#include <math.h>
#include <string.h>

const struct sn_law sn_laws[SN_NLAWS] = {
    {"epoch-2024", 1.8172, 482.01, 0.3478, 2085.43, 0.3658, 0,
     "Hoffmann's approach 3, fitted again (Besiroglu et al. 2024, arXiv 2404.10102)"},
    {"hoffmann-2022", 1.69, 406.4, 0.34, 410.7, 0.28, 0,
     "approach 3 as published (Hoffmann et al. 2022, arXiv 2203.15556)"},
    {"20", 0, 0, 0, 0, 0, 20, "20 tokens a parameter (Hoffmann et al. 2022, approaches 1 and 2)"},
};

enum sn_status sn_law_find(const struct sn_law **out, const char *name, struct sn_err *err)
{
    for (int i = 0; i < SN_NLAWS; i++)
        if (strcmp(sn_laws[i].name, name) == 0) {
            *out = &sn_laws[i];
            return SN_OK;
        }
    return sn_fail(err, SN_EINPUT, "--law: there is no '%s'; want %s, %s or %s", name,
                   sn_laws[0].name, sn_laws[1].name, sn_laws[2].name);
}

/* G above. */
static double scale(const struct sn_law *l)
{
    return pow(l->alpha * l->a / (l->beta * l->b), 1 / (l->alpha + l->beta));
}

double sn_law_loss(const struct sn_law *l, double parameters, double tokens)
{
    return l->a > 0 ? l->e + l->a / pow(parameters, l->alpha) + l->b / pow(tokens, l->beta) : 0;
}

double sn_law_tokens(const struct sn_law *l, double parameters)
{
    if (l->a <= 0)
        return l->ratio * parameters;
    return pow(parameters / scale(l), (l->alpha + l->beta) / l->beta) / parameters;
}

double sn_law_parameters(const struct sn_law *l, double flops)
{
    if (l->a <= 0)
        return sqrt(flops / 6 / l->ratio);
    return scale(l) * pow(flops / 6, l->beta / (l->alpha + l->beta));
}
