/*
 * common.h - what the binaries share: the last word on errors, command lines.
 */
#ifndef SN_BIN_COMMON_H
#define SN_BIN_COMMON_H

#include "lib/base/err.h"
#include "lib/config/config.h"

/* Print the sentence on stderr; returns the exit code that belongs to it. */
int sn_report(const struct sn_err *err);
/* A decimal number of an option within bounds. */
enum sn_status sn_parse_number(const char *option, const char *text, long long least,
                               long long most, long long *out, struct sn_err *err);
/* A number of an option within bounds, such as 0.5 or 1.5e12. */
enum sn_status sn_parse_real(const char *option, const char *text, double least, double most,
                             double *out, struct sn_err *err);
enum { SN_PLAN_MOST_RANKS = 32 };
/* "64" or "64,128,256", in order. */
struct sn_plan_ranks {
    int v[SN_PLAN_MOST_RANKS], n;
};
enum sn_status sn_plan_parse_ranks(struct sn_plan_ranks *out, const char *text, struct sn_err *err);
/* A size such as 4GiB, 512MiB, 5GB or 4096, at least `least`. */
enum sn_status sn_parse_bytes(const char *option, const char *text, int64_t least, int64_t *out,
                              struct sn_err *err);

/* What getopt_long refuses, code '?' or ':': "PROGRAM: unknown option --x; see PROGRAM --help".
 * SN_EINPUT, always. */
enum sn_status sn_refuse_option(const char *program, int code, char **argv, struct sn_err *err);
/* The one word behind the options, borrowed; SN_EINPUT if there is none, or more. `what` is what it
 * should be: "run file". */
enum sn_status sn_parse_operand(const char **out, const char *program, const char *what, int argc,
                                char **argv, struct sn_err *err);

#endif
