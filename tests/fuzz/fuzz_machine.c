/*
 * fuzz_machine.c - a machine file or software profile of any bytes is accepted or explained; what
 * is accepted survives being written out and read again.
 */
#include "lib/machine/machine.h"
#include "lib/machine/software.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void require(int good)
{
    if (!good)
        abort();
}

static void require_sentence(enum sn_status st, const struct sn_err *err)
{
    require(st == SN_EINPUT && err->status == st && strchr(err->text, ':'));
}

static int same(const struct sn_machine *a, const struct sn_machine *b)
{
    struct sn_machine x = *a, y = *b;
    size_t shapes = (size_t)a->device.n_measured * sizeof(*a->device.measured);
    x.device.measured = y.device.measured = NULL;
    return memcmp(&x, &y, sizeof(x)) == 0 &&
           (!shapes || memcmp(a->device.measured, b->device.measured, shapes) == 0);
}

static void check_machine(const char *text, size_t len)
{
    struct sn_machine m, again;
    struct sn_err err = {0};
    struct sn_str out = {0};
    enum sn_status st = sn_machine_parse(&m, text, len, "f.yaml", &err);
    if (st != SN_OK) {
        require_sentence(st, &err);
        return;
    }
    sn_machine_format(&out, &m);
    require(!out.failed && sn_machine_parse(&again, out.p, out.len, "f.yaml", &err) == SN_OK);
    require(same(&m, &again));
    sn_str_fini(&out);
    sn_machine_fini(&again);
    sn_machine_fini(&m);
}

static void check_software(const char *text, size_t len)
{
    struct sn_software s, again;
    struct sn_err err = {0};
    struct sn_str out = {0};
    enum sn_status st = sn_software_parse(&s, text, len, "f.yaml", &err);
    if (st != SN_OK) {
        require_sentence(st, &err);
        return;
    }
    sn_software_format(&out, &s);
    require(!out.failed && sn_software_parse(&again, out.p, out.len, "f.yaml", &err) == SN_OK);
    require(memcmp(&s, &again, sizeof(s)) == 0);
    sn_str_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    check_machine((const char *)bytes, len);
    check_software((const char *)bytes, len);
    return 0;
}
