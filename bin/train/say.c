/*
 * say.c - see say.h.
 */
#include "bin/train/say.h"

#include "lib/base/log.h"
#include "lib/base/str.h"

void sn_train_say_backend(const struct sn_config *c, const struct sn_comm *comm,
                          const struct sn_accelerator *a, int threads)
{
    const char *warning;
    const char *processor = sn_ops_cpu_describe(&warning);
    if (comm->rank != 0)
        return;
    char how[SN_OPS_TEXT];
    (void)sn_ops_arithmetic(sn_ops_cpu(), c->train.precision, how);
    sn_log(SN_LOG_INFO, "%s: %d rank%s x %d thread%s, %s%s%s%s", c->run.name, comm->size,
           comm->size == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
           a->device ? a->info.name : processor, a->device ? "" : how,
           a->device && a->is_shared && comm->size > 1 ? ", ranks talk through the host" : "",
           a->device && !c->run.deterministic ? ", some sums in any order" : "");
    if (a->device && a->info.libraries[0])
        sn_log(SN_LOG_INFO, "libraries: %s", a->info.libraries);
    if (a->device && a->no_channels[0])
        sn_log(SN_LOG_WARN, "ranks talk through the host, which is slow: %s", a->no_channels);
    if (a->device && a->info.lacks[0])
        sn_log(SN_LOG_WARN, "%s", a->info.lacks);
    if (comm->size > 1)
        sn_log(SN_LOG_INFO, "layout: %s", sn_config_axes((char[SN_AXES_SIZE]){0}, &c->layout));
    if (a->why[0])
        sn_log(SN_LOG_WARN, "on the processor (run.backend: auto): %s", a->why);
    if (warning && !a->device)
        sn_log(SN_LOG_WARN, "%s", warning);
}

void sn_train_say_memory(const struct sn_comm *comm, const struct sn_accelerator *a,
                         const struct sn_exec *x)
{
    struct sn_device_info now;
    char planned[16], taken[16];
    if (!a->device || comm->rank != 0)
        return;
    a->ops->describe(a->device, &now);
    sn_log(SN_LOG_INFO, "device memory: %s planned and mapped, %s less is free",
           sn_str_bytes(planned, sn_exec_arena_bytes(x)),
           sn_str_bytes(taken, a->info.free_bytes - now.free_bytes));
}
