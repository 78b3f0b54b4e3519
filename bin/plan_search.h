/*
 * plan_search.h - `sennit-plan search`, and what sennit-plan says of a layout that does not fit.
 */
#ifndef SN_PLAN_SEARCH_H
#define SN_PLAN_SEARCH_H

#include "lib/base/err.h"
#include "lib/config/config.h"
#include "lib/machine/software.h"

/* The command line after `search`. *exit_code is 1 where nothing fits. */
enum sn_status sn_plan_search(int argc, char **argv, int *exit_code, struct sn_err *err);
/* A layout that does not fit: three that do on as many ranks, best first, on stderr. Says nothing
 * where there is none. */
void sn_plan_hint(const struct sn_config *c, const struct sn_machine *m,
                  const struct sn_software *s, int64_t limit);

#endif
