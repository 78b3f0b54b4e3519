/*
 * accelerator.c - opens the plugin of devices and the device of this rank.
 */
#include "lib/exec/accelerator.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN "libsennit_cuda.so"

enum { PATH_ROOM = 1024 };

/* --- the plugin ------------------------------------------------------------------------------- */

static void go_up(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
}

/* Beside the binary, as `make` and `make install` put it: DIR/bin or DIR/libexec/sennit, and
 * DIR/lib/sennit. SN_PLUGIN, a test hook, names another one; "none": there is none. */
static void find(char *path, size_t room)
{
    char self[PATH_ROOM];
    const char *hook = getenv("SN_PLUGIN"), *last;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    go_up(self);
    go_up(self);
    last = strrchr(self, '/');
    if (last && strcmp(last, "/libexec") == 0)
        go_up(self);
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

enum sn_status sn_accelerator_wait(struct sn_accelerator *a, const char *who, struct sn_err *err)
{
    double began = sn_clock();
    int rc;
    while ((rc = a->ops->query(a->device, 0)) == 1) {
        if (a->patience_s == 0 || sn_clock() - began < a->patience_s)
            continue;
        (void)sn_fail(err, SN_ELOST, "%s: %s: the device has not ended what it was given for %d s",
                      who, a->ops->maker, a->patience_s);
        return sn_accelerator_hangs(a, err);
    }
    if (rc == 0)
        return SN_OK;
    return sn_fail(err, SN_EFAIL, "%s: %s", who, a->ops->explain(a->device));
}

void sn_accelerator_release(struct sn_accelerator *a, void *p)
{
    if (!a->is_hung)
        a->ops->release(a->device, p);
}

/* --- the device ------------------------------------------------------------------------------- */

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
    struct sn_device_options how = {.tf32 = c->run.tf32,
                                    .fp8 = c->train.fp8,
                                    .tune = tune,
                                    .patience_s = c->run.hang_timeout,
                                    .channel_ctas = c->run.channel_ctas,
                                    .attention = c->run.attention,
                                    .registers = c->run.channel_register};
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
struct device_report {
    int32_t has, joins; /* a device; channels */
    unsigned char uuid[16];
    char why[400]; /* it has no channels */
};

/* What rank 0 makes of it. */
struct verdict {
    int32_t having, is_one;
    char why[512]; /* empty: channels between all */
};

/* Two ranks of one device have no channel: NCCL refuses them. SN_SHARED_CHANNELS, a test hook, lets
 * them try, each as a host of its own (NCCL_HOSTID). */
static void judge(struct verdict *v, const struct device_report *all, size_t n)
{
    bool may_share = getenv("SN_SHARED_CHANNELS") != NULL;
    v->is_one = 1;
    for (size_t i = 0; i < n; i++) {
        v->having += all[i].has;
        v->is_one &= !memcmp(all[i].uuid, all[0].uuid, sizeof(all[i].uuid));
        if (all[i].has && !all[i].joins && !v->why[0])
            (void)snprintf(v->why, sizeof(v->why), "rank %zu has no channels: %s", i, all[i].why);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i && !v->why[0] && !may_share; k++)
            if (all[i].has && all[k].has && !memcmp(all[i].uuid, all[k].uuid, sizeof(all[i].uuid)))
                (void)snprintf(v->why, sizeof(v->why),
                               "ranks %zu and %zu share a device; start no more ranks than devices",
                               k, i);
}

/* Do two ranks have the same device, or one no channels; how many have a device? Unless one has
 * failed. */
static enum sn_status compare(struct verdict *v, const struct sn_accelerator *a,
                              struct sn_comm *comm, enum sn_status st, struct sn_err *err)
{
    struct device_report mine = {.has = a->device != NULL, .joins = a->device && a->ops->transfer};
    size_t size = (size_t)comm->size;
    struct device_report *all = sn_alloc_n(size, sizeof(*all));
    memcpy(mine.uuid, a->info.uuid, sizeof(mine.uuid));
    if (mine.has && !mine.joins && a->ops->no_channels)
        (void)snprintf(mine.why, sizeof(mine.why), "%s", a->ops->no_channels());
    if (st == SN_OK && !all)
        st = sn_fail(err, SN_ENOMEM, "run.backend: no memory");
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = comm->ops->gather(comm, &mine, (int64_t)sizeof(mine), all, 0, err);
    if (st == SN_OK && comm->rank == 0)
        judge(v, all, size);
    sn_free(all);
    if (st == SN_OK)
        st = comm->ops->broadcast(comm, v, (int64_t)sizeof(*v), 0, err);
    return st;
}

enum sn_status sn_accelerator_check_channels(const struct sn_accelerator *a,
                                             const struct sn_config *c, struct sn_err *err)
{
    if (!a->device || !a->no_channels[0] || a->is_one || c->run.channels == SN_CHANNELS_HOST ||
        c->run.backend != SN_BACKEND_CUDA)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "run.channels: devices cannot talk to each other, because %s; mend that, or set "
                   "run.channels: host, which is slow",
                   a->no_channels);
}

enum sn_status sn_accelerator_open(struct sn_accelerator *a, const struct sn_config *c, bool tune,
                                   struct sn_comm *comm, struct sn_err *err)
{
    struct sn_err why = {0};
    struct verdict v = {0};
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
    SN_TRY(compare(&v, a, comm, st, err));
    a->is_shared = c->run.channels == SN_CHANNELS_HOST || v.why[0];
    a->is_one = v.is_one;
    if (c->run.channels != SN_CHANNELS_HOST && comm->size > 1)
        (void)snprintf(a->no_channels, sizeof(a->no_channels), "%s", v.why);
    if (v.having == 0 || v.having == comm->size)
        return SN_OK;
    if (!a->device)
        st = sn_fail(err, SN_EINPUT,
                     "run.backend: auto: %d of %d ranks have a device, this one has none (%s); set "
                     "cpu, or give every rank one",
                     v.having, comm->size, why.text);
    return comm->ops->agree(comm, st, err);
}
