/*
 * sennit_run.c - the command line of sennit-run: which of its commands is meant.
 */
#include "bin/common.h"
#include "bin/run_verbs.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const struct sn_verb verbs[] = {
    {"submit", "RUN.yaml", "write the batch script of a run and submit it", sn_run_submit},
    {"exec", "RUN.yaml", "run it on the nodes of this job, or on this host", sn_run_exec},
    {"trial", "RUN.yaml", "train some steps in each of the best layouts", sn_run_trial},
    {"map", "RUN.yaml", "which rank is on which node, GPU and switch", sn_run_map},
    {"status", "DIR", "where a run stands, from its directory", sn_run_status},
    {"why", "DIR", "what ended each attempt of a run", sn_run_why},
    {0},
};

static void print_usage(void)
{
    (void)printf("usage: sennit-run COMMAND ...        (sennit-run COMMAND --help says more)\n\n");
    for (const struct sn_verb *v = verbs; v->name; v++)
        (void)printf("  sennit-run %-7s %-22s %s\n", v->name, v->arguments, v->what);
    (void)printf("  --help, --version\n\n"
                 "Exit 0: done, 1: the work failed, 2: bad usage or input.\n");
}

int main(int argc, char **argv)
{
    struct sn_err err = {0};
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_usage();
        return 0;
    }
    if (strcmp(name, "--version") == 0) {
        (void)puts("sennit-run " SN_VERSION);
        return 0;
    }
    for (const struct sn_verb *v = verbs; v->name; v++) {
        if (strcmp(name, v->name) == 0)
            return v->run(argc - 1, argv + 1);
    }
    (void)sn_fail(&err, SN_EINPUT, "sennit-run: %s%s%s; see sennit-run --help",
                  *name ? "no command '" : "want a command", name, *name ? "'" : "");
    return sn_report(&err);
}
