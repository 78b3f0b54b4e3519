/*
 * optimizer.c - the rows of optimizer.h as tables.
 */
#include "lib/config/optimizer.h"

#include <string.h>

#define NAME_OF(KIND, name, ...)   [SN_OPTIMIZER_##KIND] = #name,
#define ROW_OF(KIND, word, n, ...) [SN_OPTIMIZER_##KIND] = {#word, n, __VA_ARGS__},
#define KEY_OF(KIND, member, ...)  [SN_HYPER_##KIND] = "train.optimizer." #member,

const char *const sn_optimizer_names[SN_NOPTIMIZERS + 1] = {SN_OPTIMIZERS(NAME_OF)};
static const struct sn_optimizer_row rows[SN_NOPTIMIZERS] = {SN_OPTIMIZERS(ROW_OF)};
static const char *const keys[SN_NHYPERS] = {SN_HYPERS(KEY_OF)};

const struct sn_optimizer_row *sn_optimizer_row(enum sn_optimizer o)
{
    return &rows[o];
}

bool sn_optimizer_ignores(enum sn_optimizer o, const char *key)
{
    for (int h = 0; h < SN_NHYPERS; h++)
        if (strcmp(keys[h], key) == 0)
            return !(rows[o].uses >> h & 1u);
    return false;
}

int sn_moment_power(const char *group)
{
    for (int o = 0; o < SN_NOPTIMIZERS; o++)
        for (int i = 0; i < rows[o].n_moments; i++)
            if (strcmp(rows[o].moment[i].name, group) == 0)
                return rows[o].moment[i].power;
    return 0;
}

bool sn_optimizer_of_groups(enum sn_optimizer *out, bool (*has)(const void *of, const char *group),
                            const void *of)
{
    int most = 0;
    for (int o = 0; o < SN_NOPTIMIZERS; o++) {
        int n = 0;
        while (n < rows[o].n_moments && has(of, rows[o].moment[n].name))
            n++;
        if (n < rows[o].n_moments || n <= most)
            continue;
        most = n;
        *out = (enum sn_optimizer)o;
    }
    return most > 0;
}
