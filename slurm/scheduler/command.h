/*
 * command.h - run another program and read what it prints: scontrol, sbatch, squeue, bsub.
 *
 * No shell: arguments are passed as they are. Nothing waits for ever: after `seconds` the program
 * and what it started are killed. A program that does not exist is told apart, because in a
 * container there is none of Slurm's.
 */
#ifndef SN_COMMAND_H
#define SN_COMMAND_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>

enum { SN_COMMAND_MAX_OUTPUT = 16 << 20 }; /* bytes kept of each stream */

struct sn_command {
    const char *const *argv;  /* NULL-terminated; argv[0] is looked for on PATH */
    char *const *environment; /* NULL-terminated NAME=VALUE; NULL: this process' own */
    const char *input;        /* path that is its stdin; NULL: nothing to read */
    double seconds;           /* > 0 */
};

enum sn_command_end {
    SN_COMMAND_EXITED,
    SN_COMMAND_KILLED,  /* by a signal that was not ours */
    SN_COMMAND_TIMEOUT, /* killed by us, after `seconds` */
    SN_COMMAND_ABSENT   /* no such program, or none that may be run */
};

struct sn_command_result {
    enum sn_command_end end;
    int code;               /* exit code; 128 + n of a signal; 127 where there is no such program */
    bool cut;               /* it printed more than is kept */
    struct sn_str out, err; /* .p is NULL if nothing was printed */
};

/* SN_OK whatever the program's fate was, which *out tells; SN_EIO and SN_ENOMEM if it could not be
 * tried, SN_EINPUT if `input` cannot be opened. The caller ends with sn_command_fini in any case.
 */
enum sn_status sn_command_run(struct sn_command_result *out, const struct sn_command *c,
                              struct sn_err *err);
void sn_command_fini(struct sn_command_result *r); /* a zeroed one is allowed */

/* Did it run, exit with 0, and say all it had to? */
bool sn_command_succeeded(const struct sn_command_result *r);
/* Why not, in words: "scontrol is not on PATH", "sbatch: error: invalid account" (the last line
 * that it wrote on stderr), "squeue did not answer in 10 s"; returns buf. */
enum { SN_COMMAND_WHY = 320 };
const char *sn_command_why(char buf[SN_COMMAND_WHY], const struct sn_command *c,
                           const struct sn_command_result *r);

/* What argv prints on stdout, for the caller to free; .p is NULL where it printed nothing. `why`
 * tells why it did not succeed, which leaves nothing in *out: "" if it did. SN_EIO and SN_ENOMEM as
 * sn_command_run. */
enum sn_status sn_command_ask(struct sn_str *out, char why[SN_COMMAND_WHY], const char *const *argv,
                              double seconds, struct sn_err *err);

#endif
