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
#include "lib/config/config.h"
#include "lib/run/comm.h"

struct sn_accelerator {
    void *library;
    const struct sn_device_ops *ops; /* NULL: operations run on this processor */
    struct sn_device *device;
    struct sn_device_info info;
    char why[512];  /* with auto: why a plugin that is there gave no device; else empty */
    bool is_shared; /* ranks share a device, or have no channels: they talk through the host */
};

/* The plugin alone, for those who plan: a->ops, and no device. SN_EINPUT says where it was looked
 * for. */
enum sn_status sn_accelerator_load(struct sn_accelerator *a, struct sn_err *err);
/* The device that run.backend asks for, if any; collective. Ranks of a host take devices in turn.
 * `tune`: as in struct sn_device_options. */
enum sn_status sn_accelerator_open(struct sn_accelerator *a, const struct sn_config *c, bool tune,
                                   struct sn_comm *comm, struct sn_err *err);
void sn_accelerator_close(struct sn_accelerator *a); /* also what was never opened, zeroed */

#endif
