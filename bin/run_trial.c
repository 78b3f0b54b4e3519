/*
 * run_trial.c - sennit-run trial: the planner's best layouts, tried on the nodes of this job.
 */
#include "bin/common.h"
#include "bin/run_verbs.h"
#include "lib/base/exit_code.h"
#include "lib/base/mem.h"
#include "slurm/run/trial.h"
#include "slurm/supervisor/host_platform.h"

#include <getopt.h>
#include <stdio.h>

static const char usage[] =
    "usage: sennit-run trial RUN.yaml [options]\n"
    "\n"
    "Trains some steps in each of the layouts that the planner finds best, on the nodes of this "
    "job or,\n"
    "outside of one, on this host, and says how long a step took in each. Nothing of the run "
    "changes:\n"
    "trials have files of their own in OUTPUT/trial, and save no checkpoint. Layout keys that the "
    "run file\n"
    "names stand.\n"
    "  --top K          layouts to try (default 3)\n"
    "  --steps N        steps of each, of which the first two are not counted (default 12)\n"
    "  --write FILE     save the run file with the fastest layout\n"
    "  --ranks N, --launcher NAME, --site NAME   as of exec\n"
    "  --help\n"
    "\n"
    "Exit 0: done, 1: no layout trained, 2: bad usage or input, 75: asked to leave before all were "
    "tried.\n";

enum { TOP = 256, STEPS, WRITE, RANKS, LAUNCHER, SITE, HELP };

struct line {
    struct sn_supervisor_line run;
    long long top, steps;
    const char *write;
};

static enum sn_status parse_option(int code, char **argv, struct line *l, struct sn_err *err)
{
    switch (code) {
    case TOP:
        return sn_parse_number("--top", optarg, 1, SN_TRIAL_MOST, &l->top, err);
    case STEPS:
        return sn_parse_number("--steps", optarg, SN_TRIAL_PASSED_OVER + 1, 1000000, &l->steps,
                               err);
    case WRITE:
        l->write = optarg;
        return SN_OK;
    case RANKS:
        return sn_parse_number("--ranks", optarg, 1, 1 << 24, &l->run.ranks, err);
    case LAUNCHER:
        l->run.launcher = optarg;
        return SN_OK;
    case SITE:
        l->run.site = optarg;
        return SN_OK;
    case HELP:
        l->run.help = true;
        return SN_OK;
    default:
        return sn_refuse_option("sennit-run trial", code, argv, err);
    }
}

static enum sn_status parse_line(int argc, char **argv, struct line *l, struct sn_err *err)
{
    static const struct option options[] = {{"top", required_argument, NULL, TOP},
                                            {"steps", required_argument, NULL, STEPS},
                                            {"write", required_argument, NULL, WRITE},
                                            {"ranks", required_argument, NULL, RANKS},
                                            {"launcher", required_argument, NULL, LAUNCHER},
                                            {"site", required_argument, NULL, SITE},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    *l = (struct line){.run = {.version = SN_VERSION}, .top = 3, .steps = 12};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;)
        SN_TRY(parse_option(code, argv, l, err));
    if (l->run.help)
        return SN_OK;
    return sn_parse_operand(&l->run.run_file, "sennit-run trial", "run file", argc, argv, err);
}

static void print(const struct sn_trial *t, const struct line *l)
{
    char axes[SN_AXES_SIZE];
    (void)printf("%d of the best layouts of %d ranks, %lld steps each\nrank    planned   measured  "
                 "layout\n",
                 t->n, t->ranks, l->steps);
    for (int k = 0; k < t->n; k++) {
        const struct sn_trial_row *r = &t->row[k];
        (void)printf("%3d  %8.4g s", k + 1, r->planned);
        if (r->measured > 0)
            (void)printf("  %8.4g s%s", r->measured, k == t->best ? "*" : " ");
        else
            (void)printf("  %10s ", "-");
        (void)printf(" %s, micro-batch %d, zero %d", sn_config_axes(axes, &r->layout),
                     r->layout.micro_batch, r->layout.zero);
        (void)printf("%s%s\n", r->why[0] ? "; " : "", r->why);
    }
}

static enum sn_status trial(const struct line *l, const struct sn_platform *platform, int *code,
                            struct sn_err *err)
{
    struct sn_trial *t = sn_alloc(sizeof(*t)); /* large for a stack */
    if (!t)
        return sn_fail(err, SN_ENOMEM, "trial: no memory for its layouts");
    struct sn_trial_want w = {.line = l->run, .top = (int)l->top, .steps = (int)l->steps};
    enum sn_status st = sn_trial_run(t, &w, platform, err);
    if (st == SN_OK) {
        print(t, l);
        *code = t->was_stopped ? SN_EXIT_SAVED : sn_exit_code(t->best < 0 ? SN_EFAIL : SN_OK);
        if (t->best >= 0 && l->write)
            st = sn_config_save(t->config, l->write, err);
    }
    sn_trial_fini(t);
    sn_free(t);
    return st;
}

int sn_run_trial(int argc, char **argv)
{
    struct sn_err err = {0};
    struct line line;
    struct sn_host_platform platform;
    enum sn_status st = parse_line(argc, argv, &line, &err);
    if (st != SN_OK)
        return sn_report(&err);
    if (line.run.help) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (sn_host_platform_open(&platform, &err) != SN_OK)
        return sn_report(&err);
    int code = 0;
    st = trial(&line, &platform.platform, &code, &err);
    if (st != SN_OK)
        code = sn_report(&err);
    sn_host_platform_close(&platform);
    return code;
}
