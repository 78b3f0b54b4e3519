/*
 * fuzz_yaml.c - a run file of any bytes is accepted or explained; what is accepted survives being
 * written out and read again.
 */
#include "lib/config/config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void require(int good)
{
    if (!good)
        abort();
}

static void check_round_trip(const struct sn_config *c)
{
    struct sn_config again;
    struct sn_err err = {0};
    struct sn_str text = {0};
    sn_config_format(&text, c);
    require(!text.failed);
    require(sn_config_parse(&again, text.p, text.len, "f.yaml", "templates", &err) == SN_OK);
    again.layout_auto = c->layout_auto; /* what is written out names every key of the layout */
    again.layout_named = c->layout_named;
    again.machine.preset_at = c->machine.preset_at; /* and has places of its own */
    again.slurm.site_at = c->slurm.site_at;
    require(memcmp(c, &again, sizeof(again)) == 0);
    require(sn_config_hash(c) == sn_config_hash(&again));
    sn_str_fini(&text);
}

static void check_ranks(const struct sn_config *c)
{
    static const int ranks[] = {1, 2, 3, 7, 64, 1 << 30};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        struct sn_config mine = *c;
        struct sn_err err = {0};
        enum sn_status st = sn_config_resolve_ranks(&mine, ranks[i], &err);
        require(st == SN_OK ? mine.layout.data > 0 : st == SN_EINPUT && err.text[0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct sn_config c;
    struct sn_err err = {0};
    enum sn_status st = sn_config_parse(&c, (const char *)bytes, len, "f.yaml", "templates", &err);
    if (st != SN_OK) {
        require(st == SN_EINPUT && err.status == st && strchr(err.text, ':'));
        return 0;
    }
    check_round_trip(&c);
    check_ranks(&c);
    return 0;
}
