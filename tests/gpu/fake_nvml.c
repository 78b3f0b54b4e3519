/*
 * fake_nvml.c - libnvidia-ml.so.1 as the plugin asks it: FAKE_NVML="sm=1980 memory=2619 mw=650000
 * celsius=61 throttle=4 ecc=3 uncorrected=0 xid=0" is what it says; uncorrected errors are
 * there, and an xid comes, from the second question on. rc=N: it does not begin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int asked, told_xid;

static long habit(const char *name, long otherwise)
{
    const char *text = getenv("FAKE_NVML");
    const char *at = text ? strstr(text, name) : NULL;
    return at ? strtol(at + strlen(name) + 1, NULL, 10) : otherwise;
}

int nvmlInit_v2(void);
const char *nvmlErrorString(int rc);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out);
int nvmlDeviceGetClockInfo(void *d, int kind, unsigned *mhz);
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw);
int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *celsius);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *bits);
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, unsigned long long *n);
int nvmlDeviceGetMemoryInfo(void *d, void *out);
int nvmlEventSetCreate(void **set);
int nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *set);
int nvmlEventSetWait_v2(void *set, void *out, unsigned ms);

int nvmlInit_v2(void)
{
    return (int)habit("rc", 0);
}

const char *nvmlErrorString(int rc)
{
    return rc == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out)
{
    static int device;
    unsigned domain, number, unit;
    *out = &device;
    return sscanf(bus, "%8x:%2x:%2x.0", &domain, &number, &unit) == 3 ? 0 : 6;
}

int nvmlDeviceGetClockInfo(void *d, int kind, unsigned *mhz)
{
    (void)d;
    *mhz = (unsigned)(kind == 1 ? habit("sm", 1980) : habit("memory", 2619));
    return kind == 1 || kind == 2 ? 0 : 2;
}

int nvmlDeviceGetPowerUsage(void *d, unsigned *mw)
{
    (void)d;
    *mw = (unsigned)habit("mw", 650000);
    return 0;
}

int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *celsius)
{
    (void)d;
    *celsius = (unsigned)habit("celsius", 61);
    return sensor == 0 ? 0 : 2;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *bits)
{
    (void)d;
    *bits = (unsigned long long)habit("throttle", 4);
    return 0;
}

int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, unsigned long long *n)
{
    (void)d;
    asked += kind == 1;
    *n = (unsigned long long)(kind == 0   ? habit("ecc", 3)
                              : asked > 1 ? habit("uncorrected", 0)
                                          : 0);
    return counter == 0 ? 0 : 3; /* Not Supported */
}

int nvmlDeviceGetMemoryInfo(void *d, void *out)
{
    const unsigned long long m[3] = {80ull << 30, 30ull << 30, 50ull << 30};
    (void)d;
    memcpy(out, m, sizeof(m));
    return 0;
}

int nvmlEventSetCreate(void **set)
{
    static int it;
    *set = &it;
    return 0;
}

int nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *set)
{
    (void)d, (void)set;
    return types == 8 ? 0 : 2;
}

int nvmlEventSetWait_v2(void *set, void *out, unsigned ms)
{
    struct {
        void *device;
        unsigned long long type, data;
        unsigned instance[2];
    } e = {NULL, 8, (unsigned long long)habit("xid", 0), {0, 0}};
    (void)set;
    if (asked < 2 || told_xid || e.data == 0 || ms != 0)
        return 10; /* Timeout */
    told_xid = 1;
    memcpy(out, &e, sizeof(e));
    return 0;
}
