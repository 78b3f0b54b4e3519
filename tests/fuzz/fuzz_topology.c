/*
 * fuzz_topology.c - a file of switches of any bytes is refused by its line, or every host of it
 * that can be asked for has a path that fits. The first line, cut at its first blank, is tried as
 * an address with the rest as its pattern.
 */
#include "lib/base/mem.h"
#include "slurm/topology/topology.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void require(int good)
{
    if (!good)
        abort();
}

static void file(const char *text)
{
    struct sn_topology *t = NULL;
    struct sn_err err = {0};
    if (sn_topology_parse(&t, text, "switches", &err) != SN_OK) {
        require(err.status == SN_EINPUT && err.text[0]);
        return;
    }
    const char *path = sn_topology_find(t, "n0");
    require(!path || (*path && strlen(path) < SN_TOPOLOGY_PATH));
    sn_topology_destroy(t);
}

static void address(char *text)
{
    char path[SN_TOPOLOGY_PATH];
    struct sn_err err = {0};
    char *blank = strchr(text, ' ');
    if (blank)
        *blank = '\0';
    if (sn_topology_path(path, text, blank ? blank + 1 : NULL, &err) != SN_OK)
        require(err.status == SN_EINPUT);
    else
        require(strlen(path) < SN_TOPOLOGY_PATH && strncmp(path, text, strlen(path)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char *text = sn_strndup((const char *)bytes, len);
    if (!text)
        return 0;
    file(text);
    address(text);
    sn_free(text);
    return 0;
}
