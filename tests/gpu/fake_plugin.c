/*
 * fake_plugin.c - tests/lib/fake_device.c as a plugin, for sennit-train under SN_PLUGIN. The
 * environment sets its habits: FAKE_DEVICE="devices=0 seed=3 fail_at=100 refuse_at=100 hang_at=100
 * lose_at=100 scratch=4096 head=65536 no_pin=1 abi=7".
 */
#include "tests/lib/fake_device.h"

#include <stdlib.h>
#include <string.h>

static long habit(const char *name, long otherwise)
{
    const char *text = getenv("FAKE_DEVICE");
    const char *at = text ? strstr(text, name) : NULL;
    return at ? strtol(at + strlen(name) + 1, NULL, 10) : otherwise;
}

/* As a maker's runtime does at the end of a process. */
__attribute__((destructor)) static void leave(void)
{
    fake_device_wait();
}

sn_device_plugin_fn sn_device_plugin;

const struct sn_device_ops *sn_device_plugin(int abi, const struct sn_ops *cpu)
{
    struct fake_device_habits *h = fake_device_habits();
    h->devices = (int)habit("devices", 1);
    h->seed = (uint64_t)habit("seed", 1);
    h->fail_at = habit("fail_at", 0);
    h->refuse_at = habit("refuse_at", 0);
    h->hang_at = habit("hang_at", 0);
    h->lose_at = habit("lose_at", 0);
    h->scratch = habit("scratch", 0);
    h->head = habit("head", 0);
    h->refuses_pin = habit("no_pin", 0);
    h->has_no_channels = true; /* processes do not share memory */
    return abi == habit("abi", SN_DEVICE_ABI) ? fake_device_ops(cpu) : NULL;
}
