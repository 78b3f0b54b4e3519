/*
 * common.h - what the binaries share: the last word on errors, threads of a rank.
 */
#ifndef SN_BIN_COMMON_H
#define SN_BIN_COMMON_H

#include "lib/base/err.h"
#include "lib/config/config.h"

/* Print the sentence on stderr; returns the exit code that belongs to it. */
int sn_report(const struct sn_err *err);
/* run.threads, or the processors this process may use over the ranks that share them. */
int sn_threads(const struct sn_config *c, int ranks_on_node);
/* A decimal number of an option within bounds. */
enum sn_status sn_parse_number(const char *option, const char *text, long long least,
                               long long most, long long *out, struct sn_err *err);
/* A size such as 4GiB, 512MiB, 5GB or 4096, at least `least`. */
enum sn_status sn_parse_bytes(const char *option, const char *text, int64_t least, int64_t *out,
                              struct sn_err *err);

#endif
