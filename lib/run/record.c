#include "lib/run/record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool save(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    bool good = f && fputs(text, f) >= 0;
    if (f && fclose(f) != 0)
        good = false;
    return good;
}

enum sn_status sn_record_run_file(const struct sn_config *c, struct sn_err *err)
{
    char path[SN_PATH_MAX + 32], aside[SN_PATH_MAX + 64];
    struct sn_str text = {0};
    enum sn_status st = SN_OK;
    (void)snprintf(path, sizeof(path), "%s/" SN_RECORD_RUN_FILE, c->run.output);
    (void)snprintf(aside, sizeof(aside), "%s.tmp", path);
    sn_config_format(&text, c);
    if (text.failed)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to write it", path);
    else if (!save(aside, text.p) || rename(aside, path) != 0)
        st = sn_fail(err, SN_EIO, "%s: cannot be written: %s", path, strerror(errno));
    sn_str_fini(&text);
    return st;
}
