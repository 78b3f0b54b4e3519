/*
 * nvml.c - what the driver says of the device: clocks, power, temperature, errors. Its library is
 * opened with the first question; the toolkit's header is not needed, because NVML keeps its
 * functions, whose names, types and numbers stand below as its manual has them (NVML API
 * reference, "Device Queries", "Event Handling Methods").
 */
#include "kernels/cuda/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum {
    CLOCK_SM = 1,
    CLOCK_MEMORY = 2,
    SENSOR_GPU = 0,
    CORRECTED = 0,
    UNCORRECTED = 1,
    VOLATILE = 0
};
#define EVENT_XID 0x8ull

struct memory {
    unsigned long long total, free, used;
};
struct event {
    void *device;
    unsigned long long type, data;
    unsigned instance[2]; /* of MIG */
};

/* The bits of nvmlDeviceGetCurrentClocksThrottleReasons that slow the device down. */
static const struct {
    unsigned long long theirs;
    unsigned ours;
} reason[] = {{0x4, SN_THROTTLE_POWER_CAP},    {0x8, SN_THROTTLE_HW_SLOWDOWN},
              {0x20, SN_THROTTLE_SW_THERMAL},  {0x40, SN_THROTTLE_HW_THERMAL},
              {0x80, SN_THROTTLE_POWER_BRAKE}, {0x10, SN_THROTTLE_SYNC_BOOST}};

static void find(const struct sn_cuda_nvml *n, void *to, const char *name)
{
    void *symbol = dlsym(n->library, name);
    memcpy(to, &symbol, sizeof(symbol)); /* as POSIX asks: no cast of a data pointer */
}

static int say(char *why, size_t room, const char *what, const struct sn_cuda_nvml *n, int rc)
{
    (void)snprintf(why, room, "NVML: %s: %s", what, n->text ? n->text(rc) : "no reason given");
    return 1;
}

static int open_library(struct sn_cuda_nvml *n, char *why, size_t room)
{
    int (*begin)(void);
    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library) {
        const char *reason_is = dlerror();
        (void)snprintf(why, room, "NVML does not open: %s",
                       reason_is ? reason_is : "no reason given");
        return 1;
    }
    find(n, (void *)&begin, "nvmlInit_v2");
    find(n, (void *)&n->text, "nvmlErrorString");
    find(n, (void *)&n->by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
    find(n, (void *)&n->clock, "nvmlDeviceGetClockInfo");
    find(n, (void *)&n->power, "nvmlDeviceGetPowerUsage");
    find(n, (void *)&n->temperature, "nvmlDeviceGetTemperature");
    find(n, (void *)&n->throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    find(n, (void *)&n->ecc, "nvmlDeviceGetTotalEccErrors");
    find(n, (void *)&n->memory, "nvmlDeviceGetMemoryInfo");
    find(n, (void *)&n->make_set, "nvmlEventSetCreate");
    find(n, (void *)&n->listen, "nvmlDeviceRegisterEvents");
    find(n, (void *)&n->next_event, "nvmlEventSetWait_v2");
    if (!begin || !n->by_bus) {
        (void)snprintf(why, room, "NVML: libnvidia-ml.so.1 has not the functions of NVML 11");
        return 1;
    }
    int rc = begin();
    return rc == 0 ? 0 : say(why, room, "it does not begin", n, rc);
}

/* The device of this CUDA device, by its place on the bus: numbers of the two differ. */
static int open_device(struct sn_device *d, char *why, size_t room)
{
    struct sn_cuda_nvml *n = &d->nvml;
    char bus[32];
    if (open_library(n, why, room) != 0)
        return 1;
    (void)snprintf(bus, sizeof(bus), "%08x:%02x:%02x.0", (unsigned)d->properties.pciDomainID,
                   (unsigned)d->properties.pciBusID, (unsigned)d->properties.pciDeviceID);
    int rc = n->by_bus(bus, &n->device);
    if (rc != 0)
        return say(why, room, "the device is not known", n, rc);
    bool listens = n->make_set && n->listen && n->next_event && n->make_set(&n->events) == 0 &&
                   n->listen(n->device, EVENT_XID, n->events) == 0;
    n->events = listens ? n->events : NULL;
    return 0;
}

static void take_xids(struct sn_cuda_nvml *n)
{
    struct event e;
    for (int i = 0; n->events && i < 16 && n->next_event(n->events, &e, 0) == 0; i++)
        if (e.type == EVENT_XID)
            n->xid = (int64_t)e.data;
}

static void take_throttle(const struct sn_cuda_nvml *n, struct sn_device_health *out)
{
    unsigned long long bits = 0;
    if (!n->throttle || n->throttle(n->device, &bits) != 0)
        return;
    out->knows_throttle = true;
    for (size_t i = 0; i < sizeof(reason) / sizeof(reason[0]); i++)
        if (bits & reason[i].theirs)
            out->throttle |= 1u << reason[i].ours;
}

static int64_t errors(const struct sn_cuda_nvml *n, int kind)
{
    unsigned long long count = 0;
    return n->ecc && n->ecc(n->device, kind, VOLATILE, &count) == 0 ? (int64_t)count : -1;
}

int sn_cuda_health(struct sn_device *d, struct sn_device_health *out, char *why, size_t room)
{
    struct sn_cuda_nvml *n = &d->nvml;
    unsigned v;
    struct memory m;
    if (n->is_missing || (!n->device && open_device(d, why, room) != 0)) {
        n->is_missing = true;
        return 1;
    }
    *out = (struct sn_device_health){.sm_mhz = -1,
                                     .memory_mhz = -1,
                                     .watts = -1,
                                     .celsius = -1,
                                     .memory_used = -1,
                                     .ecc_corrected = errors(n, CORRECTED),
                                     .ecc_uncorrected = errors(n, UNCORRECTED)};
    if (n->clock && n->clock(n->device, CLOCK_SM, &v) == 0)
        out->sm_mhz = v;
    if (n->clock && n->clock(n->device, CLOCK_MEMORY, &v) == 0)
        out->memory_mhz = v;
    if (n->power && n->power(n->device, &v) == 0)
        out->watts = 1e-3 * v;
    if (n->temperature && n->temperature(n->device, SENSOR_GPU, &v) == 0)
        out->celsius = v;
    if (n->memory && n->memory(n->device, &m) == 0)
        out->memory_used = (int64_t)m.used;
    take_throttle(n, out);
    take_xids(n);
    out->xid = n->events ? n->xid : -1;
    return 0;
}
