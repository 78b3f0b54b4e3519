/*
 * codings.h - which codec each kind of message gets, for a loss that may rise so much
 * (layout.compress.scheme: auto, layout.compress.budget).
 *
 * What is minimised is the planned seconds of a step, subject to: the rises of the loss of all
 * kinds (losses.h) add up to the budget at most. A kind that the run file names stands, and its
 * rise counts.
 *
 * Of each kind the candidates are every codec that the table knows, mpc and none; those that are
 * not better than another one in anything (rise, bytes, seconds to encode and to decode) are left
 * out. All combinations of the rest are bounded by formulas (estimate.h) and taken up in the order
 * of their bounds, compiled and played, until no bound that is left is below the best: of these
 * candidates nothing is faster than what is found, on this machine's figures. Equally fast ones:
 * the first in the order of candidates, mildest first.
 */
#ifndef SN_CODINGS_H
#define SN_CODINGS_H

#include "lib/machine/losses.h"
#include "lib/machine/machine.h"
#include "lib/machine/software.h"

struct sn_codings {
    struct sn_coding coding[SN_NCODED];
    double rise[SN_NCODED], sum; /* of the loss, relative */
    double seconds, plain;       /* of a step with them, and without any */
    int combined, compiled;      /* combinations within the budget, and those played */
};

/* For a resolved layout whose experts' hops and chunks are settled. */
enum sn_status sn_codings_choose(struct sn_codings *out, const struct sn_config *c,
                                 const struct sn_machine *m, const struct sn_software *s,
                                 const struct sn_losses *l, struct sn_err *err);
/* Put them into a layout, named as a run file would: the scheme is none then. */
void sn_codings_put(struct sn_layout_config *l, const struct sn_codings *found);
/* Where c->layout.compress.scheme is auto: choose, and put them there. SN_EINPUT without a named
 * machine, because nothing says what links cost. */
enum sn_status sn_codings_resolve(struct sn_config *c, struct sn_err *err);

#endif
