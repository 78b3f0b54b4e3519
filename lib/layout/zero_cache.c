#include "lib/layout/zero_cache.h"

/* Layers: units first .. end - 1. */
struct layers {
    const struct sn_cache_stage *s;
    bool *keeps;
    int first, end, left; /* left: units that may still be kept */
};

static void keep(struct layers *l, int unit)
{
    if (unit >= 0 && l->left > 0 && !l->keeps[unit]) {
        l->keeps[unit] = true;
        l->left--;
    }
}

static bool begins_module(const struct layers *l, int unit)
{
    return unit == l->first || l->s->module[unit] != l->s->module[unit - 1];
}

static bool ends_module(const struct layers *l, int unit)
{
    return unit + 1 == l->end || l->s->module[unit] != l->s->module[unit + 1];
}

/* Between two that are kept, as those at the ends of all stage modules are; -1: there is none. */
static int middle_of_widest(const struct layers *l)
{
    int widest = 1, middle = -1;
    for (int unit = l->first, before = l->first; unit < l->end; unit++) {
        if (!l->keeps[unit])
            continue;
        if (unit - before > widest) {
            widest = unit - before;
            middle = before + widest / 2;
        }
        before = unit;
    }
    return middle;
}

int sn_cache_choose(bool *keeps, const struct sn_cache_stage *s, int n)
{
    struct layers l = {s, keeps, s->first, s->units - s->last, n};
    for (int i = 0; i < s->units; i++)
        keeps[i] = false;
    for (int i = l.end - 1; i >= l.first; i--)
        keep(&l, ends_module(&l, i) ? i : -1);
    for (int i = l.first; i < l.end; i++)
        keep(&l, begins_module(&l, i) ? i : -1);
    keep(&l, s->first && s->first_again ? 0 : -1);
    for (int i = middle_of_widest(&l); i >= 0 && l.left > 0; i = middle_of_widest(&l))
        keep(&l, i);
    keep(&l, s->last && s->last_again ? s->units - 1 : -1);
    return n - l.left;
}
