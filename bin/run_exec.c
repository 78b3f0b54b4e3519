/*
 * run_exec.c - sennit-run exec: its command line. What it does is slurm/run's.
 */
#include "bin/common.h"
#include "bin/run_verbs.h"
#include "slurm/run/supervisor.h"
#include "slurm/supervisor/host_platform.h"

#include <getopt.h>
#include <stdio.h>

static const char usage[] =
    "usage: sennit-run exec RUN.yaml [options]\n"
    "\n"
    "In a batch script: launches the trainer on the nodes of the job, watches it, has it saved\n"
    "before the job's time ends or when it is preempted, starts it again where that helps, and\n"
    "requeues the job. Outside of a job: the same on this host, under mpirun.\n"
    "  --fresh          begin anew; checkpoints that exist are moved aside (not after a requeue)\n"
    "  --ranks N        ranks, where the layout leaves them open\n"
    "  --launcher NAME  srun, mpirun, jsrun, lrun, ibrun, bede-mpirun or mpiexec.hydra (default:\n"
    "                   the site's)\n"
    "  --site NAME      profile of the site, as submit writes it (default: slurm.site)\n"
    "  --stop-after N   leave after step N, saved; that counts as done\n"
    "  --help\n"
    "\n"
    "SIGTERM, SIGUSR1, SIGUSR2, SIGINT: the trainer saves and leaves; a second SIGINT ends it "
    "now.\n"
    "OUTPUT/journal.jsonl says what happened; sennit-run status and why read it.\n"
    "Exit 0: done, 2: bad usage or input, 75: somebody goes on, 93: nobody should, 1: exec "
    "failed.\n";

enum { FRESH = 256, RANKS, LAUNCHER, SITE, STOP_AFTER, HELP };

static enum sn_status parse_option(int code, char **argv, struct sn_supervisor_line *l,
                                   struct sn_err *err)
{
    switch (code) {
    case FRESH:
        l->fresh = true;
        return SN_OK;
    case RANKS:
        return sn_parse_number("--ranks", optarg, 1, 1 << 24, &l->ranks, err);
    case LAUNCHER:
        l->launcher = optarg;
        return SN_OK;
    case SITE:
        l->site = optarg;
        return SN_OK;
    case STOP_AFTER:
        return sn_parse_number("--stop-after", optarg, 1, INT64_MAX, &l->stop_after, err);
    case HELP:
        l->help = true;
        return SN_OK;
    default:
        return sn_refuse_option("sennit-run exec", code, argv, err);
    }
}

static enum sn_status parse_line(int argc, char **argv, struct sn_supervisor_line *l,
                                 struct sn_err *err)
{
    static const struct option options[] = {{"fresh", no_argument, NULL, FRESH},
                                            {"ranks", required_argument, NULL, RANKS},
                                            {"launcher", required_argument, NULL, LAUNCHER},
                                            {"site", required_argument, NULL, SITE},
                                            {"stop-after", required_argument, NULL, STOP_AFTER},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    *l = (struct sn_supervisor_line){.version = SN_VERSION};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;)
        SN_TRY(parse_option(code, argv, l, err));
    if (l->help)
        return SN_OK;
    return sn_parse_operand(&l->run_file, "sennit-run exec", "run file", argc, argv, err);
}

int sn_run_exec(int argc, char **argv)
{
    struct sn_err err = {0};
    struct sn_supervisor_line line;
    struct sn_host_platform platform;
    struct sn_supervisor x;
    enum sn_status st = parse_line(argc, argv, &line, &err);
    if (st != SN_OK)
        return sn_report(&err);
    if (line.help) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (sn_host_platform_open(&platform, &err) != SN_OK)
        return sn_report(&err);
    st = sn_supervisor_open(&x, &line, &platform.platform, &err);
    int code = 0;
    if (st == SN_OK)
        st = sn_supervisor_run(&x, &code, &err);
    if (st != SN_OK)
        code = sn_report(&err);
    sn_supervisor_close(&x);
    sn_host_platform_close(&platform);
    return code;
}
