#include "bin/planned.h"

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

void sn_planned_say(const struct sn_accelerator *a)
{
    if (a->why[0])
        sn_log(SN_LOG_WARN,
               "memory: workspace and blocks of logits are those of the processor, because %s",
               a->why);
}
