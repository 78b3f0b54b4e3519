/* Any bytes as a checkpoint's manifest: refused with a sentence, or written and read again alike. */
#include "checkpoint/format/manifest.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_and_read(const struct sn_manifest *m)
{
    struct sn_str once = {0}, twice = {0};
    struct sn_manifest again;
    sn_manifest_format(&once, m);
    if (sn_manifest_parse(&again, once.p, once.len, "again", NULL) != SN_OK)
        abort();
    sn_manifest_format(&twice, &again);
    if (once.len != twice.len || memcmp(once.p, twice.p, once.len) != 0)
        abort();
    sn_manifest_fini(&again);
    sn_str_fini(&once);
    sn_str_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sn_manifest m;
    struct sn_err err = {.text = ""};
    if (sn_manifest_parse(&m, (const char *)data, size, "fuzz", &err) != SN_OK) {
        if (!err.text[0])
            abort();
        return 0;
    }
    if (m.block != INT64_MAX) /* hashes of whole pieces are not written any more */
        write_and_read(&m);
    sn_manifest_fini(&m);
    return 0;
}
