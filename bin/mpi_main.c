/*
 * mpi_main.c - sennit-mpi: what sennit-plan and sennit-convert become under mpirun or srun
 * (bin/ranks.h).
 */
#include "bin/convert.h"
#include "bin/plan_calibrate.h"

#include <stdio.h>
#include <string.h>

static const char usage[] = "usage: sennit-mpi calibrate|convert ...\n"
                            "\n"
                            "Not to be started by hand: ranks of sennit-plan calibrate and of "
                            "sennit-convert go on as this.\n";

int main(int argc, char **argv)
{
    static const struct sn_ranks mpi = {sn_comm_create_mpi, sn_comm_abort_mpi};
    if (argc > 1 && strcmp(argv[1], "calibrate") == 0)
        return sn_plan_calibrate(argc - 1, argv + 1, &mpi);
    if (argc > 1 && strcmp(argv[1], "convert") == 0)
        return sn_convert_main(argc - 1, argv + 1, &mpi);
    (void)fputs(usage, stderr);
    return 2;
}
