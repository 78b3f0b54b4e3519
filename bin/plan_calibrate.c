#include "bin/plan_calibrate.h"

#include "bin/common.h"
#include "lib/search/planned.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/text_file.h"
#include "lib/exec/threads.h"
#include "lib/probe/calibrate_machine.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <time.h>

static const char usage[] =
    "usage: sennit-plan calibrate [RUN.yaml...] [options]   (links: mpirun -n N sennit-plan "
    "calibrate ...)\n"
    "\n"
    "Measures this machine and writes a machine file. With run files the kernels of their own\n"
    "compiled steps are measured, each shape once; without, shapes of common models. Several "
    "ranks\n"
    "under mpirun measure at the same time, as they will compute, and their links; one rank alone\n"
    "knows nothing of links. On a device (run.backend) its memory and its kernels are measured, by "
    "its\n"
    "own clock; links between devices that need no host are not.\n"
    "  -o FILE              where to (default: machine.yaml)\n"
    "  --seconds S          how long to measure, about (default 20; 0: each thing three times)\n"
    "  --ranks N            ranks of the runs, as for sennit-plan\n"
    "  --threads N          threads of a rank (default: run.threads of the runs, or this host's\n"
    "                       processors over its ranks)\n"
    "  --backend NAME       auto, cpu or cuda (default: run.backend of the first run; auto)\n"
    "  --help\n";

enum { SECONDS = 256, RANKS, THREADS, BACKEND, HELP };

struct calibrate_line {
    const char *output;
    long long seconds, ranks, threads; /* ranks, threads 0: not said */
    char **runs;
    int n_runs;
    int backend; /* enum sn_backend; -1: not said */
    bool help;
};

static enum sn_status parse_backend(int *out, const char *name, struct sn_err *err)
{
    static const char *const names[] = {"auto", "cpu", "cuda"}; /* as enum sn_backend */
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = i;
            return SN_OK;
        }
    return sn_fail(err, SN_EINPUT, "--backend: got '%s'; want auto, cpu or cuda", name);
}

static enum sn_status parse_line(int argc, char **argv, struct calibrate_line *l,
                                 struct sn_err *err)
{
    static const struct option options[] = {{"seconds", required_argument, NULL, SECONDS},
                                            {"ranks", required_argument, NULL, RANKS},
                                            {"threads", required_argument, NULL, THREADS},
                                            {"backend", required_argument, NULL, BACKEND},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    *l = (struct calibrate_line){.output = "machine.yaml", .seconds = 20, .backend = -1};
    for (int code; (code = getopt_long(argc, argv, ":o:", options, NULL)) != -1;)
        switch (code) {
        case 'o':
            l->output = optarg;
            break;
        case SECONDS:
            SN_TRY(sn_parse_number("--seconds", optarg, 0, 86400, &l->seconds, err));
            break;
        case RANKS:
            SN_TRY(sn_parse_number("--ranks", optarg, 1, 1 << 24, &l->ranks, err));
            break;
        case THREADS:
            SN_TRY(sn_parse_number("--threads", optarg, 1, 4096, &l->threads, err));
            break;
        case BACKEND:
            SN_TRY(parse_backend(&l->backend, optarg, err));
            break;
        case HELP:
            l->help = true;
            return SN_OK;
        default:
            return sn_refuse_option("sennit-plan calibrate", code, argv, err);
        }
    l->runs = argv + optind;
    l->n_runs = argc - optind;
    return SN_OK;
}

static enum sn_status load_run(struct sn_config *c, const char *path, long long ranks,
                               struct sn_err *err)
{
    SN_TRY(sn_planned_check_isa(err));
    SN_TRY(sn_config_load(c, path, NULL, err));
    return sn_config_resolve_ranks(c, ranks ? (int)ranks : sn_config_least_ranks(&c->layout), err);
}

/* Ranks of all runs must have as many threads: a machine file is of one kind of rank. */
static enum sn_status threads_of(int *out, const struct calibrate_line *l,
                                 const struct sn_config *runs, int ranks_here, struct sn_err *err)
{
    const struct sn_config any = {0};
    *out = l->threads ? (int)l->threads : sn_threads(l->n_runs ? &runs[0] : &any, ranks_here);
    for (int i = 1; i < l->n_runs && !l->threads; i++)
        if (sn_threads(&runs[i], ranks_here) != *out)
            return sn_fail(err, SN_EINPUT,
                           "%s: run.threads is %d, but ranks of %s have %d; a machine file is of "
                           "one kind of rank: calibrate them apart or say --threads",
                           runs[i].path, sn_threads(&runs[i], ranks_here), runs[0].path, *out);
    return SN_OK;
}

static void describe(char source[SN_MACHINE_SOURCE], const struct calibrate_line *l, int ranks,
                     int threads, bool has_links)
{
    char date[16] = "";
    time_t now = time(NULL);
    struct tm day;
    if (gmtime_r(&now, &day))
        (void)strftime(date, sizeof(date), "%Y-%m-%d", &day);
    (void)snprintf(source, SN_MACHINE_SOURCE,
                   "measured %s: sennit-plan calibrate --seconds %lld, %d run files, %d ranks x %d "
                   "threads at once%s",
                   date, l->seconds, l->n_runs, ranks, threads,
                   has_links ? "" : "; links are not measured but assumed");
}

/* The device that the runs, or the command line, ask for. All runs are measured on it. */
static enum sn_status open_device(struct sn_accelerator *a, const struct calibrate_line *l,
                                  const struct sn_config *runs, struct sn_comm *comm,
                                  struct sn_err *err)
{
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack; backend auto, fp32 */
    if (!c)
        return sn_fail(err, SN_ENOMEM, "calibrate: no memory");
    if (l->n_runs)
        *c = runs[0];
    if (l->backend >= 0)
        c->run.backend = (enum sn_backend)l->backend;
    for (int i = 0; i < l->n_runs; i++) /* the device is asked for all that will come */
        c->train.fp8 = runs[i].train.fp8 > c->train.fp8 ? runs[i].train.fp8 : c->train.fp8;
    enum sn_status st = sn_accelerator_open(a, c, false, comm, err);
    sn_free(c);
    return st;
}

static void say_links(const struct sn_comm *comm, const struct sn_accelerator *a)
{
    if (comm->size == 1)
        sn_log(SN_LOG_WARN, "calibrate: one rank alone knows nothing of links: they are assumed, "
                            "from the bandwidth of memory; start it under mpirun to measure them");
    else if (a->device && !a->is_shared)
        sn_log(SN_LOG_WARN, "calibrate: links between devices are not measured: they are assumed, "
                            "from the bandwidth of memory; take those of a machine that ships");
}

static enum sn_status measure(const struct calibrate_line *l, const struct sn_config *runs,
                              struct sn_comm *comm, struct sn_accelerator *a, struct sn_err *err)
{
    char source[SN_MACHINE_SOURCE];
    struct sn_machine m = {0};
    bool has_links = comm->size > 1 && (!a->device || a->is_shared);
    struct sn_calibrate_order o = {.comm = comm,
                                   .ops = sn_ops_cpu(),
                                   .accelerator = a,
                                   .runs = runs,
                                   .n_runs = l->n_runs,
                                   .seconds = (double)l->seconds,
                                   .source = source};
    enum sn_status st = threads_of(&o.threads, l, runs, comm->node_size, err);
    if (st == SN_OK && comm->rank == 0)
        st = sn_text_try(l->output, err);
    SN_TRY(comm->ops->agree(comm, st, err));
    describe(source, l, comm->size, o.threads, has_links);
    if (comm->rank == 0)
        sn_log(SN_LOG_INFO, "calibrate: %d rank%s x %d thread%s, %s", comm->size,
               comm->size == 1 ? "" : "s", o.threads, o.threads == 1 ? "" : "s",
               a->device ? a->info.name : sn_ops_cpu_describe(&(const char *){NULL}));
    if (comm->rank == 0)
        say_links(comm, a);
    SN_TRY(sn_calibrate_machine(&m, &o, err));
    if (comm->rank == 0)
        st = sn_machine_save(&m, l->output, err);
    if (comm->rank == 0 && st == SN_OK)
        sn_log(SN_LOG_INFO, "%s: %d shapes of kernels, %d of collectives", l->output,
               m.device.n_measured, m.level[0].measured.n);
    sn_machine_fini(&m);
    return comm->ops->agree(comm, st, err);
}

static enum sn_status work(const struct calibrate_line *l, const struct sn_config *runs,
                           struct sn_comm *comm, struct sn_err *err)
{
    struct sn_accelerator a = {0};
    enum sn_status st = open_device(&a, l, runs, comm, err);
    if (st == SN_OK && a.why[0] && comm->rank == 0)
        sn_log(SN_LOG_WARN, "run.backend: auto: on the processor, because %s", a.why);
    if (st == SN_OK)
        st = measure(l, runs, comm, &a, err);
    sn_accelerator_close(&a);
    return st;
}

static enum sn_status load_all(struct sn_config **out, const struct calibrate_line *l,
                               struct sn_err *err)
{
    *out = sn_alloc_n((size_t)l->n_runs + 1, sizeof(**out));
    if (!*out)
        return sn_fail(err, SN_ENOMEM, "calibrate: no memory for %d run files", l->n_runs);
    for (int i = 0; i < l->n_runs; i++)
        SN_TRY(load_run(&(*out)[i], l->runs[i], l->ranks, err));
    return SN_OK;
}

int sn_plan_calibrate(int argc, char **argv, const struct sn_ranks *ranks)
{
    struct sn_err err = {0};
    struct calibrate_line l;
    struct sn_config *runs = NULL;
    struct sn_comm *comm = NULL;
    enum sn_status st = parse_line(argc, argv, &l, &err);
    if (st == SN_OK && l.help) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (st == SN_OK)
        st = load_all(&runs, &l, &err);
    if (st != SN_OK) { /* the same on every rank: one says it, and MPI has not begun */
        sn_free(runs);
        return sn_comm_launched_rank() == 0 ? sn_report(&err) : sn_exit_code(st);
    }
    st = sn_ranks_create(&comm, ranks, &err);
    if (st == SN_OK)
        st = work(&l, runs, comm, &err);
    if (st != SN_OK && (!comm || comm->rank == 0 || !err.agreed))
        (void)sn_report(&err);
    if (st != SN_OK && comm && ranks && !err.agreed)
        ranks->abort(sn_exit_code(st));
    if (st == SN_ELOST) /* a device that hangs: handlers of the exit would wait for it */
        _exit(sn_exit_code(st));
    if (comm)
        comm->ops->destroy(comm);
    sn_free(runs);
    return st == SN_OK ? 0 : sn_exit_code(st);
}
