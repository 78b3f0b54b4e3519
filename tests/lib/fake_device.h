/*
 * fake_device.h - a device of host memory, for tests: what is enqueued is done later, streams in
 * any order that events allow, by dice. A dependency that is missing gives wrong numbers, a pointer
 * of the wrong side is refused. Kernels are the CPU's. Channels join devices of one process.
 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include "kernels/device.h"

/* For the plugin's `open`, and of devices that are opened from now on in this process. */
struct fake_device_habits {
    uint64_t seed;
    int devices;    /* that count() sees; 0: says why there is none */
    long fail_at;   /* the n-th kernel fails when it is run, 0: none */
    long refuse_at; /* the n-th kernel refuses a stream, as a DECODE does */
    long hang_at;   /* the n-th kernel never ends, and whoever releases something waits for it */
    long lose_at;   /* after the n-th kernel a peer is gone */
    long scratch;   /* bytes that each kernel wants beside what the CPU's wants */
    long head;      /* bytes of logits that exist at once; 0: as many as on the CPU */
    bool has_no_channels; /* ranks talk through the host */
    bool splits_none;     /* each channel is joined */
    bool refuses_pin;     /* memory of this process cannot be page-locked */
    bool shares_uuid;     /* all devices say that they are the same */
};
struct fake_device_habits *fake_device_habits(void);

/* Comes back only where no device of this process hangs. */
void fake_device_wait(void);

const struct sn_device_ops *fake_device_ops(const struct sn_ops *cpu);

/* Of a device: kernels that were run, and those from graphs; marks that graphs keep, and kernels;
 * graphs that were launched; ranges of this process that are page-locked now; channels that are
 * parts of others. */
struct fake_device_counts {
    long kernels, in_graphs, kept_marks, kept_kernels, launches, graphs, allocations, pins, splits;
};
struct fake_device_counts fake_device_counts(const struct sn_device *d);

#endif
