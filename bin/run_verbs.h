/*
 * run_verbs.h - the commands of sennit-run, one file each: bin/run_NAME.c. Each takes its own
 * argv (argv[0] is the command's name), prints, and returns the exit code.
 */
#ifndef SN_BIN_RUN_VERBS_H
#define SN_BIN_RUN_VERBS_H

struct sn_verb {
    const char *name, *arguments, *what; /* what: a line of --help */
    int (*run)(int argc, char **argv);
};

int sn_run_submit(int argc, char **argv); /* a batch script from run file and site */
int sn_run_exec(int argc, char **argv);
int sn_run_trial(int argc, char **argv); /* the best layouts, some steps of each */
int sn_run_map(int argc, char **argv); /* which rank is where */
int sn_run_status(int argc, char **argv);
int sn_run_why(int argc, char **argv);

#endif
