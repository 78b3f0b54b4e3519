/*
 * fuzz_hostlist.c - a list of any bytes is refused, or what is written of it reads the same.
 */
#include "lib/base/mem.h"
#include "slurm/scheduler/hostlist.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void require(int good)
{
    if (!good)
        abort();
}

static void hosts(const char *text)
{
    struct sn_hostlist h = {0}, again = {0};
    struct sn_str written = {0};
    struct sn_err err = {0};
    if (sn_hostlist_parse(&h, text, "hosts", &err) != SN_OK) {
        require(err.status == SN_EINPUT && strncmp(err.text, "hosts: ", 7) == 0);
        return;
    }
    sn_hostlist_format(&written, &h);
    require(sn_hostlist_parse(&again, written.p ? written.p : "", "hosts", &err) == SN_OK);
    require(again.n == h.n);
    for (int i = 0; i < h.n; i++)
        require(strcmp(sn_hostlist_name(&h, i), sn_hostlist_name(&again, i)) == 0);
    sn_str_fini(&written);
    sn_hostlist_fini(&h);
    sn_hostlist_fini(&again);
}

static void counts(const char *text)
{
    int *c, n;
    struct sn_err err = {0};
    if (sn_counts_parse(&c, &n, text, "tasks", &err) != SN_OK) {
        require(err.status == SN_EINPUT);
        return;
    }
    require(n > 0 && c[0] > 0 && c[n - 1] > 0);
    sn_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char *text = sn_strndup((const char *)bytes, len);
    if (!text)
        return 0;
    hosts(text);
    counts(text);
    sn_free(text);
    return 0;
}
