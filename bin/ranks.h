/*
 * ranks.h - how a program that may run alone becomes one of several ranks.
 *
 * sennit-plan and sennit-convert are used on login nodes, where no MPI may be, so they are not
 * linked with one. A process of theirs that a launcher started among others goes on as
 * libexec/sennit/sennit-mpi, which is, and which calls the same functions of ours.
 */
#ifndef SN_BIN_RANKS_H
#define SN_BIN_RANKS_H

#include "lib/comm/comm.h"

/* What sennit-mpi hands to them. Programs without MPI hand NULL: their process is alone. */
struct sn_ranks {
    enum sn_status (*create)(struct sn_comm **out, struct sn_err *err);
    void (*abort)(int exit_code); /* does not return */
};

/* The communicator of all ranks, or of this process. The caller destroys it. */
enum sn_status sn_ranks_create(struct sn_comm **out, const struct sn_ranks *r, struct sn_err *err);

/* Was this process, which has no MPI, started among others? */
bool sn_ranks_are_launched(void);
/* Go on as sennit-mpi: its first word is `verb`, then come those of argv behind argv[0]. Returns,
 * with the exit code, where there is none; one rank says so. */
int sn_ranks_exec(const char *verb, char **argv);

#endif
