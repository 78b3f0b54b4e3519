#include "lib/rundir/record.h"

#include "lib/base/text_file.h"

#include <stdio.h>

enum sn_status sn_record_run_file(const struct sn_config *c, struct sn_err *err)
{
    char path[SN_PATH_MAX + 32];
    struct sn_str text = {0};
    (void)snprintf(path, sizeof(path), "%s/" SN_RECORD_RUN_FILE, c->run.output);
    sn_config_format(&text, c);
    enum sn_status st = sn_text_keep(&text, path, err);
    sn_str_fini(&text);
    return st;
}
