/*
 * data_verbs.h - sennit-data merge, split, shuffle, dedup, stats and check: their command lines.
 */
#ifndef SN_BIN_DATA_VERBS_H
#define SN_BIN_DATA_VERBS_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>

/* Is it one of these? */
bool sn_data_is_verb(const char *name);
/* argv[0] is the verb. The work ends when stop_fd becomes readable. */
enum sn_status sn_data_verb(int argc, char **argv, int stop_fd, struct sn_str *out,
                            struct sn_err *err);

#endif
