#include "lib/search/planned.h"

#include "lib/base/log.h"

#include <stdio.h>

const struct sn_ops *sn_planned_ops(struct sn_accelerator *a, const struct sn_config *c)
{
    struct sn_err err = {0};
    *a = (struct sn_accelerator){0};
    if (c->run.backend != SN_BACKEND_CUDA)
        return sn_ops_cpu();
    if (sn_accelerator_load(a, &err) == SN_OK)
        return a->ops->ops;
    (void)snprintf(a->why, sizeof(a->why), "%.255s", err.text);
    return sn_ops_cpu();
}

enum sn_status sn_planned_check_isa(struct sn_err *err)
{
    char why[256];
    return sn_ops_cpu_check(why, sizeof(why)) ? SN_OK : sn_fail(err, SN_EINPUT, "%s", why);
}

void sn_planned_say(const struct sn_accelerator *a)
{
    if (a->why[0])
        sn_log(SN_LOG_WARN,
               "memory: workspace and blocks of logits are those of the processor, because %s",
               a->why);
}
