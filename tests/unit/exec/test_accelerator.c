/*
 * The plugin of devices: opened, closed, and still there, because its maker's runtime has handlers
 * of the process's exit. It is the device of host memory (tests/gpu/fake_plugin.c).
 */
#include "lib/exec/accelerator.h"
#include "tests/lib/tap.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void plugin_outlives_its_user(const char *path)
{
    struct sn_accelerator a = {0};
    struct sn_err err = {0};
    tap_ok(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL, "before anybody asks it is not loaded");
    if (!tap_ok(sn_accelerator_load(&a, &err) == SN_OK, "it opens"))
        printf("# %s\n", err.text);
    sn_accelerator_close(&a);
    tap_ok(a.ops == NULL, "closed, it is nobody's");
    tap_ok(dlopen(path, RTLD_NOW | RTLD_NOLOAD) != NULL, "and its code stays where it is");
}

int main(void)
{
    char path[1024];
    const char *build = getenv("BUILD");
    (void)snprintf(path, sizeof(path), "%s/tests/gpu/libfake_device.so", build ? build : "build");
    if (access(path, R_OK) != 0) {
        tap_skip("the plugin outlives its user", "the device of host memory is not built");
        return tap_done();
    }
    if (setenv("SN_PLUGIN", path, 1) != 0)
        return 1;
    plugin_outlives_its_user(path);
    return tap_done();
}
