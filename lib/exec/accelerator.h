/*
 * accelerator.h - the device that this rank computes on, and the plugin that it comes from.
 *
 * A plugin is a shared library that exports kernels/device.h; it is opened at run time, so that the
 * same binaries run where there is no device, no driver and no library of the maker's. Nothing
 * falls back in silence: with run.backend: cuda whatever is missing is an error, with auto a device
 * is used where all ranks have one, and not where none has.
 */
#ifndef SN_ACCELERATOR_H
#define SN_ACCELERATOR_H

#include "kernels/device.h"
#include "lib/comm/comm.h"
#include "lib/config/config.h"

struct sn_accelerator {
    const struct sn_device_ops *ops; /* NULL: operations run on this processor */
    struct sn_device *device;
    struct sn_device_info info;
    char why[512]; /* with auto: why a plugin that is there gave no device; else empty */
    /* It does not come back: nothing of it may be released, which would wait for it as well. */
    bool is_hung;
    int patience_s; /* run.hang_timeout; 0: for ever */
    /* Set before it is opened: ends the process at once when it hangs; NULL:
     * SN_ELOST is passed on. */
    void (*give_up)(void *self, const struct sn_err *why);
    void *self;
    bool is_shared; /* ranks share a device, or have no channels: they talk through the host, */
    char no_channels[512]; /* because of this; empty: run.channels says so */
    bool is_one;           /* all ranks have the same device */
};

/* The plugin alone, for those who plan: a->ops, and no device. SN_EINPUT says where it was looked
 * for. */
enum sn_status sn_accelerator_load(struct sn_accelerator *a, struct sn_err *err);
/* The device that run.backend asks for, if any; collective. Ranks of a host take devices in turn.
 * `tune`: as in struct sn_device_options. */
enum sn_status sn_accelerator_open(struct sn_accelerator *a, const struct sn_config *c, bool tune,
                                   struct sn_comm *comm, struct sn_err *err);
/* Refuses ranks that have devices of their own and no channels, unless run.channels or run.backend:
 * auto lets them talk through the host; the same on all ranks. For who trains: measuring does
 * without. */
enum sn_status sn_accelerator_check_channels(const struct sn_accelerator *a,
                                             const struct sn_config *c, struct sn_err *err);
/* Until all that was enqueued on stream 0 is done: for those who measure, and whose name the
 * sentence begins with. SN_ELOST: it takes longer than a->patience_s. */
enum sn_status sn_accelerator_wait(struct sn_accelerator *a, const char *who, struct sn_err *err);
/* Memory of the device; not where it hangs. */
void sn_accelerator_release(struct sn_accelerator *a, void *p);
/* It hangs, as *err says: ends the process, or returns the status of *err. */
enum sn_status sn_accelerator_hangs(struct sn_accelerator *a, const struct sn_err *err);
void sn_accelerator_close(struct sn_accelerator *a); /* also what was never opened, zeroed */

#endif
