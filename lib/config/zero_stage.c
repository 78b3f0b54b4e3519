/*
 * zero_stage.c - the rows of zero_stage.h.
 */
#include "lib/config/zero_stage.h"

#include "lib/config/config.h"

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
