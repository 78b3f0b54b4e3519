/*
 * threads.h - how many threads a rank computes with.
 */
#ifndef SN_THREADS_H
#define SN_THREADS_H

#include "lib/config/config.h"

/* run.threads, or the processors this process may use over the ranks that share them. */
int sn_threads(const struct sn_config *c, int ranks_on_node);

#endif
