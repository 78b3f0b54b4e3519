/*
 * options.h - options of sbatch by name: short and long forms, abbreviations, and who says them.
 */
#ifndef SN_OPTIONS_H
#define SN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { SN_OPTION_NAME = 64 };

/* The long name of the option in a text such as "--mem=4G", "-w n1" or "-wn1": "--nodelist". What
 * is not known stays as it is written. Returns buf. */
const char *sn_option_name(char buf[SN_OPTION_NAME], const char *text);
/* Is it this one, or an abbreviation of it that getopt_long would take? `name` is a long name. */
bool sn_option_is(const char *text, const char *name);
/* The key of the run file that says what the option says, or a word in its place: "slurm.time".
 * NULL: sennit-run submit has nothing to do with the option. */
const char *sn_option_owner(const char *text);
/* The long name of the option that an environment variable of sbatch stands for; NULL: none that
 * sennit-run submit sets. */
const char *sn_option_of_variable(const char *variable);

#endif
