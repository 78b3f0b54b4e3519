#include "bin/train/tune.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/machine/named.h"

#include <stdio.h>
#include <string.h>

enum sn_status sn_train_tune_take(const struct sn_accelerator *a, const struct sn_config *c,
                                  int rank, struct sn_err *err)
{
    struct sn_machine m = {0};
    int taken = 0, passed = 0;
    if (!a->device || !c->machine.file[0])
        return SN_OK;
    SN_TRY(sn_machine_load(&m, c->machine.file, err));
    enum sn_status st = SN_OK;
    for (int i = 0; i < m.choices.n && st == SN_OK; i++) {
        int rc = a->ops->choose(a->device, m.choices.line[i]);
        taken += rc == 0;
        passed += rc == 1;
        if (rc != 0 && rc != 1)
            st = sn_fail(err, SN_EINPUT, "%s: choices: %s", c->machine.file,
                         a->ops->explain(a->device));
    }
    if (st == SN_OK && rank == 0 && taken > 0)
        sn_log(SN_LOG_INFO, "%s: %d measured algorithms", c->machine.file, taken);
    if (st == SN_OK && rank == 0 && passed > 0)
        sn_log(SN_LOG_WARN,
               "%s: %d algorithms are of another kind of device or version of its library; "
               "sennit-train --tune measures anew",
               c->machine.file, passed);
    sn_machine_fini(&m);
    return st;
}

/* --- saving ----------------------------------------------------------------------------------- */

/* On rank 0: `all` are `most` lines of each rank, the empty ones none. */
static enum sn_status merge(const struct sn_config *c, const char (*all)[SN_DEVICE_CHOICE], int n,
                            const char *path, int *found, struct sn_err *err)
{
    struct sn_machine m = {0};
    SN_TRY(sn_machine_of(&m, c, NULL, err));
    sn_choices_fini(&m.choices); /* those of before are measured anew */
    enum sn_status st = SN_OK;
    for (int i = 0; i < n && st == SN_OK; i++)
        if (all[i][0])
            st = sn_choices_add(&m.choices, all[i], err);
    *found = m.choices.n;
    if (st == SN_OK && !m.n_levels)
        st = sn_fail(err, SN_EINPUT,
                     "--tune: %s is of the short form, which keeps no algorithms; want one with "
                     "device and links (docs/MACHINES.md)",
                     c->machine.file);
    if (st == SN_OK)
        st = sn_machine_save(&m, path, err);
    sn_machine_fini(&m);
    return st;
}

static int lines_of(const struct sn_accelerator *a)
{
    char line[SN_DEVICE_CHOICE];
    int n = 0;
    while (a->ops->choice(a->device, n, line) == 0)
        n++;
    return n;
}

enum sn_status sn_train_tune_save(const struct sn_accelerator *a, const struct sn_config *c,
                                  struct sn_comm *comm, const char *path, int *found,
                                  struct sn_err *err)
{
    int32_t mine = lines_of(a), most = 0;
    size_t ranks = comm->rank == 0 ? (size_t)comm->size : 1;
    int32_t *counts = sn_alloc_n(ranks, sizeof(*counts));
    enum sn_status st = counts ? SN_OK : sn_fail(err, SN_ENOMEM, "--tune: no memory");
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = comm->ops->gather(comm, &mine, (int64_t)sizeof(mine), counts, 0, err);
    for (size_t i = 0; st == SN_OK && comm->rank == 0 && i < ranks; i++)
        most = counts[i] > most ? counts[i] : most;
    sn_free(counts);
    if (st == SN_OK)
        st = comm->ops->broadcast(comm, &most, (int64_t)sizeof(most), 0, err);
    SN_TRY(st);
    char(*own)[SN_DEVICE_CHOICE] = sn_alloc_n((size_t)most + 1, sizeof(*own));
    char(*all)[SN_DEVICE_CHOICE] = sn_alloc_n(ranks * (size_t)most + 1, sizeof(*all));
    st = own && all ? SN_OK : sn_fail(err, SN_ENOMEM, "--tune: no memory for %d lines", most);
    for (int i = 0; st == SN_OK && i < mine; i++)
        (void)a->ops->choice(a->device, i, own[i]); /* it was there a moment ago */
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK && most > 0)
        st = comm->ops->gather(comm, own, (int64_t)sizeof(*own) * most, all, 0, err);
    if (st == SN_OK && comm->rank == 0)
        st = merge(c, (const char(*)[SN_DEVICE_CHOICE])all, (int)ranks * most, path, found, err);
    sn_free(own);
    sn_free(all);
    return comm->ops->agree(comm, st, err);
}
