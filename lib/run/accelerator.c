/*
 * accelerator.c - opens the plugin of devices and the device of this rank.
 */
#include "lib/run/accelerator.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN "libsennit_cuda.so"

enum { PATH_ROOM = 1024 };

/* --- the plugin --------------------------------------------------------------------------------
 */

/* Beside the binary, as `make` and `make install` put it: DIR/bin and DIR/lib/sennit. SN_PLUGIN, a
 * test hook, names another one; "none": there is none. */
static void find(char *path, size_t room)
{
    char self[PATH_ROOM];
    const char *hook = getenv("SN_PLUGIN");
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = '\0';
    }
    if (hook)
        (void)snprintf(path, room, "%s", hook);
    else
        (void)snprintf(path, room, "%.900s/lib/sennit/" PLUGIN, self);
}

static bool is_there(void)
{
    char path[PATH_ROOM];
    find(path, sizeof(path));
    return access(path, R_OK) == 0;
}

static enum sn_status load(struct sn_accelerator *a, const char *path, struct sn_err *err)
{
    sn_device_plugin_fn *plugin;
    /* It stays to the end of the process: its maker's runtime has handlers of the exit. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return sn_fail(err, SN_EINPUT, "run.backend: the plugin does not open: %.400s", dlerror());
    void *symbol = dlsym(library, SN_DEVICE_PLUGIN);
    memcpy(&plugin, &symbol, sizeof(plugin)); /* as POSIX asks: no cast of a data pointer */
    a->ops = plugin ? plugin(SN_DEVICE_ABI, sn_ops_cpu()) : NULL;
    if (!a->ops || a->ops->abi != SN_DEVICE_ABI)
        return sn_fail(err, SN_EINPUT,
                       "run.backend: %s is of another version of sennit; build both from the same "
                       "sources",
                       path);
    return SN_OK;
}

enum sn_status sn_accelerator_load(struct sn_accelerator *a, struct sn_err *err)
{
    char path[PATH_ROOM];
    *a = (struct sn_accelerator){
        .give_up = a->give_up, .self = a->self, .patience_s = a->patience_s};
    find(path, sizeof(path));
    if (!is_there())
        return sn_fail(err, SN_EINPUT,
                       "run.backend: cuda needs the plugin %s, which is not there; build it where "
                       "nvcc is (make cuda), or set run.backend: cpu",
                       path);
    enum sn_status st = load(a, path, err);
    if (st != SN_OK)
        sn_accelerator_close(a);
    return st;
}

void sn_accelerator_close(struct sn_accelerator *a)
{
    if (a->is_hung) /* it goes with the process */
        return;
    if (a->device)
        a->ops->close(a->device);
    sn_free(a->device);
    *a = (struct sn_accelerator){0};
}

enum sn_status sn_accelerator_hangs(struct sn_accelerator *a, const struct sn_err *err)
{
    a->is_hung = true;
    if (a->give_up)
        a->give_up(a->self, err);
    return err->status;
}

enum sn_status sn_accelerator_wait(struct sn_accelerator *a, struct sn_err *err)
{
    double began = sn_clock();
    int rc;
    while ((rc = a->ops->query(a->device, 0)) == 1) {
        if (a->patience_s == 0 || sn_clock() - began < a->patience_s)
            continue;
        (void)sn_fail(err, SN_ELOST, "%s: the device has not ended what it was given for %d s",
                      a->ops->maker, a->patience_s);
        return sn_accelerator_hangs(a, err);
    }
    if (rc == 0)
        return SN_OK;
    return sn_fail(err, SN_EFAIL, "%s: %s", a->ops->maker, a->ops->explain(a->device));
}

void sn_accelerator_release(struct sn_accelerator *a, void *p)
{
    if (!a->is_hung)
        a->ops->release(a->device, p);
}

/* --- the device --------------------------------------------------------------------------------
 */

/* Ranks of a host take its devices in turn; one that sees a single device was given it.
 * *expected: something here is made for devices, so that having none is worth a word. */
static enum sn_status open_device(struct sn_accelerator *a, const struct sn_config *c, bool tune,
                                  int node_rank, bool *expected, struct sn_err *err)
{
    char why[300] = "";
    *expected = is_there();
    SN_TRY(sn_accelerator_load(a, err));
    int n = a->ops->count(why, sizeof(why));
    *expected = n != 0;
    if (n <= 0)
        return sn_fail(err, SN_EINPUT, "run.backend: %s", why);
    a->device = sn_alloc(a->ops->size);
    if (!a->device)
        return sn_fail(err, SN_ENOMEM, "run.backend: no memory for a device");
    struct sn_device_options how = {
        .tf32 = c->run.tf32, .fp8 = c->train.fp8, .tune = tune, .patience_s = c->run.hang_timeout};
    int rc = a->ops->open(a->device, node_rank % n, &how);
    if (rc == SN_DEVICE_HANGS) {
        (void)sn_fail(err, SN_ELOST, "%s: %s", a->ops->maker, a->ops->explain(a->device));
        return sn_accelerator_hangs(a, err);
    }
    if (rc != 0)
        return sn_fail(err, SN_EINPUT, "run.backend: %s", a->ops->explain(a->device));
    a->ops->describe(a->device, &a->info);
    const char *refusal = a->ops->refuses(a->device, c->train.precision);
    if (refusal)
        return sn_fail(err, SN_EINPUT, "train.precision: %s", refusal);
    return SN_OK;
}

/* What a rank tells the others. */
struct told {
    int32_t has, joins; /* a device; channels */
    unsigned char uuid[16];
};

/* Do two ranks have the same device, or one no channels; how many have a device? Unless one has
 * failed. */
static enum sn_status compare(bool *is_shared, int *having, const struct sn_accelerator *a,
                              struct sn_comm *comm, enum sn_status st, struct sn_err *err)
{
    struct told mine = {.has = a->device != NULL, .joins = a->device && a->ops->transfer};
    size_t size = (size_t)comm->size;
    struct told *all = sn_alloc_n(size, sizeof(*all));
    memcpy(mine.uuid, a->info.uuid, sizeof(mine.uuid));
    if (st == SN_OK && !all)
        st = sn_fail(err, SN_ENOMEM, "run.backend: no memory");
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = comm->ops->gather(comm, &mine, (int64_t)sizeof(mine), all, 0, err);
    int32_t verdict[2] = {0, 0};
    for (size_t i = 0; st == SN_OK && comm->rank == 0 && i < size; i++) {
        verdict[0] += all[i].has;
        verdict[1] |= all[i].has && !all[i].joins;
        for (size_t k = 0; k < i && !verdict[1]; k++)
            verdict[1] = all[i].has && all[k].has && !memcmp(all[i].uuid, all[k].uuid, 16);
    }
    sn_free(all);
    if (st == SN_OK)
        st = comm->ops->broadcast(comm, verdict, (int64_t)sizeof(verdict), 0, err);
    *having = verdict[0];
    *is_shared = verdict[1];
    return st;
}

enum sn_status sn_accelerator_open(struct sn_accelerator *a, const struct sn_config *c, bool tune,
                                   struct sn_comm *comm, struct sn_err *err)
{
    struct sn_err why = {0};
    int having = 0;
    bool expected;
    *a = (struct sn_accelerator){.give_up = a->give_up, .self = a->self};
    a->patience_s = c->run.hang_timeout;
    if (c->run.backend == SN_BACKEND_CPU)
        return SN_OK;
    enum sn_status st = open_device(a, c, tune, comm->node_rank, &expected, &why);
    if (st != SN_OK)
        sn_accelerator_close(a);
    if (st != SN_OK && expected)
        (void)snprintf(a->why, sizeof(a->why), "%.500s", why.text);
    if (st == SN_ELOST || (st != SN_OK && c->run.backend == SN_BACKEND_CUDA))
        *err = why;
    else
        st = SN_OK;
    SN_TRY(compare(&a->is_shared, &having, a, comm, st, err));
    if (having == 0 || having == comm->size)
        return SN_OK;
    if (!a->device)
        st = sn_fail(err, SN_EINPUT,
                     "run.backend: auto: %d of %d ranks have a device, this one has none (%s); set "
                     "cpu, or give every rank one",
                     having, comm->size, why.text);
    return comm->ops->agree(comm, st, err);
}
