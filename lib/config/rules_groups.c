/* rules_groups.c - what train.groups says of each of its names. */
#include "lib/config/settings.h"

enum sn_status sn_rule_groups(const struct sn_config *c, const struct sn_settings *s,
                              struct sn_err *err)
{
    const struct sn_groups_config *g = &c->train.groups;
    const struct {
        const char *key;
        const struct sn_floats *of;
    } lists[] = {{"train.groups.lr", &g->lr}, {"train.groups.weight_decay", &g->weight_decay}};
    for (int i = 0; i < 2; i++)
        if (lists[i].of->n > 0 && lists[i].of->n != g->n_names)
            return sn_settings_fail(s, lists[i].key, err,
                                    "%d numbers of %d groups; want one for each of "
                                    "train.groups.names, or none",
                                    lists[i].of->n, g->n_names);
    if (g->n_names > 0 && g->lr.n == 0 && g->weight_decay.n == 0)
        return sn_settings_fail(s, "train.groups.names", err,
                                "has no effect without train.groups.lr or "
                                "train.groups.weight_decay; want one of them");
    return SN_OK;
}
