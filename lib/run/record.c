#include "lib/run/record.h"

#include <stdio.h>

enum sn_status sn_record_run_file(const struct sn_config *c, struct sn_err *err)
{
    char path[SN_PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/" SN_RECORD_RUN_FILE, c->run.output);
    return sn_config_save(c, path, err);
}
