/*
 * launcher.h - the programs that start ranks, and in what they differ once they run.
 *
 * Their command lines are slurm/site/launch.h's. Where the same name is another program from MPI to MPI,
 * as mpirun is, the program itself says which.
 */
#ifndef SN_LAUNCHER_H
#define SN_LAUNCHER_H

#include "lib/base/err.h"
#include "slurm/scheduler/allocation.h"

#include <stdbool.h>

enum sn_launcher {
    SN_LAUNCH_SRUN,
    SN_LAUNCH_MPIRUN, /* Open MPI's */
    SN_LAUNCH_JSRUN,
    SN_LAUNCH_LRUN,
    SN_LAUNCH_IBRUN,
    SN_LAUNCH_BEDE_MPIRUN,
    SN_LAUNCH_HYDRA, /* of MPICH, MVAPICH and Intel MPI; their mpirun, too */
    SN_LAUNCHERS
};
/* Their names, as of --launcher and launch.with; NULL-terminated. */
extern const char *const sn_launcher_names[SN_LAUNCHERS + 1];
const char *sn_launcher_name(enum sn_launcher l); /* "srun": the program, too */
/* SN_EINPUT. */
enum sn_status sn_launcher_parse(enum sn_launcher *out, const char *name, struct sn_err *err);

/* Is this program on PATH? SN_EINPUT, before an attempt is begun that nothing could start. */
enum sn_status sn_launcher_look_up(const struct sn_environment *e, const char *program,
                                   struct sn_err *err);

/* How it passes things on. */
struct sn_launcher_ways {
    int save; /* the signal that every rank gets, and then saves and leaves */
    int end;  /* the signal on which it ends them all; others it may pass on, to ranks that hang */
    bool mixes_codes;    /* its exit code is the bits of those of all ranks, or of signals */
    bool ends_at_once;   /* when one dies all others, before they can tell whom they miss */
    bool says_on_stdout; /* what became of them */
};
const struct sn_launcher_ways *sn_launcher_ways(enum sn_launcher l);

/* Whose mpirun says this of itself? */
enum sn_launcher sn_launcher_of_version(const char *text);
/* The same of the mpirun on PATH; Open MPI's where there is none, or it does not answer. */
enum sn_launcher sn_launcher_ask_mpirun(void);

#endif
