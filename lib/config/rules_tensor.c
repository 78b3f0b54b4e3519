/*
 * rules_tensor.c - what goes with the grid of tensors (layout.tensor_x), and with rows in pieces
 * (layout.tensor_pieces).
 */
#include "lib/config/settings.h"

#include <stdio.h>

const char *sn_near_that_fit(char buf[SN_NEAR_SIZE], const struct sn_config *c, sn_fits *f, int n,
                             int most)
{
    int below = n < most ? n : most, above = n;
    while (below > 1 && !f(c, below))
        below--;
    while (above <= most && !f(c, above))
        above++;
    if (above <= most)
        (void)snprintf(buf, SN_NEAR_SIZE, "%d or %d", below, above);
    else
        (void)snprintf(buf, SN_NEAR_SIZE, "%d", below);
    return buf;
}

/* --- the rules -------------------------------------------------------------------------------- */

static bool x_fits_features(const struct sn_config *c, int x)
{
    return c->model.hidden % x == 0;
}

/* X of the grid of tensors: what goes with it. */
enum sn_status sn_rule_tensor_x(const struct sn_config *c, const struct sn_settings *s,
                                struct sn_err *err)
{
    static const char key[] = "layout.tensor_x";
    int x = c->layout.tensor_x;
    char near[SN_NEAR_SIZE];
    const char *what =
        sn_config_fold(c) > 1
            ? "experts' tokens that tensor ranks split (layout.expert_tokens, expert_tensor)"
        : sn_config_exact(c)         ? "run.bits: all"
        : c->train.fp8 != SN_FP8_OFF ? "train.fp8"
                                     : NULL;
    if (x == 1)
        return SN_OK;
    if (!x_fits_features(c, x))
        return sn_settings_fail(
            s, key, err, "%d does not divide model.hidden (%d); nearest that work: %s", x,
            c->model.hidden, sn_near_that_fit(near, c, x_fits_features, x, c->model.hidden));
    if (what)
        return sn_settings_fail(s, key, err, "%d does not go with %s yet; use 1", x, what);
    return SN_OK;
}

static bool pieces_fit_tokens(const struct sn_config *c, int pieces)
{
    const struct sn_layout_config *l = &c->layout;
    int64_t shares = l->sequence_parallel && l->tensor_x == 1 ? l->tensor : 1;
    return sn_config_tokens(c) % (pieces * shares) == 0;
}

/* Pieces of rows, as many rows each; with sequence parallelism each over tensor ranks. */
enum sn_status sn_rule_tensor_pieces(const struct sn_config *c, const struct sn_settings *s,
                                     struct sn_err *err)
{
    static const char key[] = "layout.tensor_pieces";
    const struct sn_layout_config *l = &c->layout;
    int n = l->tensor_pieces;
    char near[SN_NEAR_SIZE];
    bool deals = l->sequence_parallel && l->tensor > 1 && l->tensor_x == 1;
    const char *what =
        l->compress.coding[SN_CODED_TENSOR].on ? "layout.compress.tensor"
        : deals && c->model.experts.count > 0
            ? "experts and sequence_parallel, which have an order of rows"
        : deals && sn_prompt_positions(&c->train.prompt) > 0
            ? "train.prompt and sequence_parallel, whose positions are dealt out anew"
            : NULL;
    if (n == 1 || (l->tensor == 1 && l->tensor_x == 1))
        return SN_OK;
    if (l->overlap == SN_OVERLAP_NONE)
        return sn_settings_fail(s, key, err, "%d needs layout.overlap: auto", n);
    if (what)
        return sn_settings_fail(s, key, err, "%d does not go with %s; use 1", n, what);
    if (pieces_fit_tokens(c, n))
        return SN_OK;
    return sn_settings_fail(
        s, key, err, "%d does not divide micro_batch x seq / context (%d x %d / %d)%s; nearest "
        "that work: %s",
        n, l->micro_batch, c->model.seq, l->context, deals ? ", with sequence_parallel / tensor" : "",
        sn_near_that_fit(near, c, pieces_fit_tokens, n, 64));
}
