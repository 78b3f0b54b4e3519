/*
 * zero_stage.c - the rows of zero_stage.h, and layout.zero_cache, which one of them may have.
 */
#include "lib/config/zero_stage.h"

#include "lib/config/config.h"
#include "lib/config/settings.h"

const struct sn_holding *sn_zero_holding(int stage)
{
    static const struct sn_holding stages[] = {
        {.weights = SN_HOLD_ALL, .gradients = SN_HOLD_ALL, .optimizer = SN_HOLD_ALL},
        {.weights = SN_HOLD_ALL, .gradients = SN_HOLD_ALL, .optimizer = SN_HOLD_SLICE},
        {.weights = SN_HOLD_ALL, .gradients = SN_HOLD_SLICE, .optimizer = SN_HOLD_SLICE},
        {.weights = SN_HOLD_SLICE, .gradients = SN_HOLD_SLICE, .optimizer = SN_HOLD_SLICE},
    };
    return &stages[stage];
}

const struct sn_holding *sn_config_holding(const struct sn_config *c)
{
    const struct sn_layout_config *l = &c->layout;
    return sn_zero_holding((int64_t)l->data * l->context > 1 ? l->zero : 0);
}

int sn_config_zero_cache(const struct sn_config *c)
{
    bool gathers = sn_weights_are_slices(sn_config_holding(c));
    return gathers && c->layout.zero_cache > 0 ? c->layout.zero_cache : 0;
}

enum sn_status sn_rule_zero_cache(const struct sn_config *c, const struct sn_settings *s,
                                  struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    if (l->zero_cache <= 0 || sn_weights_are_slices(sn_zero_holding(l->zero)))
        return SN_OK;
    return sn_settings_fail(s, "layout.zero_cache", err,
                            "%d, but with layout.zero: %d ranks hold all weights, and gather none; "
                            "set layout.zero: 3, or leave it out",
                            l->zero_cache, l->zero);
}
