/*
 * script.h - texts for a batch script, so that no value can be more than a value.
 *
 * What a shell reads is a word in single quotes wherever it is not plain; what a scheduler reads in
 * its #SBATCH or #BSUB lines has its own escapes. No value may hold a control character: a line of
 * a script ends where we end it.
 */
#ifndef SN_SCRIPT_H
#define SN_SCRIPT_H

#include "lib/base/err.h"
#include "lib/base/str.h"

/* SN_EINPUT "WHAT: ..." if the text has a control character. */
enum sn_status sn_script_check(const char *what, const char *text, struct sn_err *err);

/* One word of POSIX shell with exactly this value. The text has passed sn_script_check. */
void sn_script_word(struct sn_str *out, const char *text);
/* A comment line "# text"; bytes that are control characters become spaces. */
void sn_script_comment(struct sn_str *out, const char *text);

/* A line "#SBATCH OPTION=VALUE" (value NULL: the option alone). A value with blanks, quotes, '#' or
 * backslashes is quoted as sbatch reads it. */
void sn_script_sbatch(struct sn_str *out, const char *option, const char *value);
/* SN_EINPUT "WHAT: ..." if lines hold a word by which sbatch divides them among jobs. */
enum sn_status sn_script_check_sbatch(const char *what, const char *lines, struct sn_err *err);
/* A line "#BSUB OPTION VALUE", the value in double quotes where it has to be. It must not hold one
 * itself, nor a backslash: sn_script_check_bsub. */
void sn_script_bsub(struct sn_str *out, const char *option, const char *value);
enum sn_status sn_script_check_bsub(const char *what, const char *text, struct sn_err *err);

/* A path as sbatch's file name patterns want it: '%' doubled. SN_EINPUT for a backslash, which
 * would turn patterns off. Appended to *out. */
enum sn_status sn_script_pattern(struct sn_str *out, const char *what, const char *path,
                                 struct sn_err *err);

/* The name of a job: letters, digits, '.', '_' and '-'; others become '_'. Returns buf. */
enum { SN_JOB_NAME = 64 };
const char *sn_script_job_name(char buf[SN_JOB_NAME], const char *name);

#endif
