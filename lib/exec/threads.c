#include "lib/exec/threads.h"

#include "lib/base/thread.h"

int sn_threads(const struct sn_config *c, int ranks_on_node)
{
    if (c->run.threads > 0)
        return c->run.threads;
    int cores = sn_cores();
    /* A launcher that binds gives each rank its own cores; one that does not gives all to all. */
    int online = ranks_on_node > 1 ? cores / ranks_on_node : cores;
    return online > 0 ? online : 1;
}
