/*
 * sennit_train.c - the command line of sennit-train: one rank of a training run.
 */
#include "bin/common.h"
#include "bin/train_end.h"
#include "bin/train_files.h"
#include "bin/train_generate.h"
#include "bin/train_map.h"
#include "bin/train_preflight.h"
#include "bin/train_say.h"
#include "bin/train_trace.h"
#include "bin/train_tune.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/text_file.h"
#include "lib/exec/accelerator.h"
#include "lib/exec/products.h"
#include "lib/exec/profile.h"
#include "lib/exec/threads.h"
#include "lib/layout/axes.h"
#include "lib/machine/machine.h"
#include "lib/machine/named.h"
#include "lib/rundir/attempt.h"
#include "lib/rundir/leftover.h"
#include "lib/search/planned.h"
#include "lib/search/resolve.h"
#include "lib/train/trainer.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: sennit-train RUN.yaml [options]        (several ranks: mpirun -n N sennit-train ...)\n"
    "\n"
    "Trains the model of RUN.yaml, continuing from the newest valid checkpoint.\n"
    "  --fresh              begin anew; checkpoints that exist are moved aside, not deleted\n"
    "  --stop-after N       leave after step N, saved; the schedule stays that of train.steps\n"
    "  --places FILE        where the processes are, \"PROCESS SWITCH.NODE\" a line, instead of "
    "what\n"
    "                       they see\n"
    "  --attempt N          number of this attempt's record (default: the first that is free)\n"
    "  --supervisor NAME    who has OUTPUT/supervisor.lock for this attempt (sennit-run exec says "
    "it)\n"
    "  --certificate HEX    refuse other programs than those that sennit-plan --verify has proven\n"
    "  --pace MACHINE.yaml  communicate for real, but spend each compute operation's planned time "
    "on\n"
    "                       that machine asleep: for measuring; learns, evaluates and saves "
    "nothing\n"
    "  --preflight          train nothing: check that every node computes, remembers, sends and "
    "stores as the\n"
    "                       others do, write OUTPUT/preflight.json, exit 77 if one does not\n"
    "  --tune MACHINE.yaml  measure, in one step that nobody keeps, which of its libraries' "
    "algorithms\n"
    "                       the device is fastest with, and write the run's machine with them\n"
    "  --profile            at the end, print the time spent in each kind of operation\n"
    "  --trace FILE         draw the fourth step of this start for Perfetto: when each operation "
    "ran, "
    "on\n"
    "                       all ranks, beside the planned step\n"
    "  --generate TEXT      write a continuation of TEXT from the newest checkpoint (one rank); "
    "with "
    "a\n"
    "                       vocabulary other than 256 TEXT is token ids, such as \"72 101\"\n"
    "  --tokens N           how many tokens of it (default 200)\n"
    "  --temperature X      0 takes the most likely token (default 0.8)\n"
    "  --top-k N            draw from the N most likely tokens, 0 from all (default 40)\n"
    "  --seed N             draw others (default run.seed: the same text every time)\n"
    "  --help, --version\n"
    "\n"
    "SIGINT, SIGUSR1, SIGUSR2 or the file OUTPUT/save-and-exit: save, exit 75. SIGTERM, SIGHUP: "
    "save,\n"
    "exit 76. Before the first step there is nothing to save.\n"
    "Exit 0: done, 1: the work failed, 2: bad usage or input, 77: a rank is gone or stuck\n"
    "(run.hang_timeout), 79: diverged.\n";

enum {
    FRESH = 256,
    STOP_AFTER,
    ATTEMPT,
    SUPERVISOR,
    CERTIFICATE,
    PACE,
    PREFLIGHT,
    PROFILE,
    TRACE,
    TUNE,
    PLACES,
    GENERATE,
    TOKENS,
    TEMPERATURE,
    TOP_K,
    SEED,
    HELP,
    VERSION
};

struct line {
    const char *run_file, *machine_file, *places, *tune, *supervisor;
    struct sn_train_generate generate;
    struct sn_train_map map;
    struct sn_train_trace trace;
    struct sn_machine machine;
    struct sn_trainer_options train;
    bool preflight, profile, help, version;
    long long attempt;    /* 0: the first that is free */
    uint64_t certificate; /* 0: none is given */
};

static enum sn_status parse_option(int code, char **argv, struct line *l, struct sn_err *err)
{
    long long n;
    char *end;
    switch (code) {
    case FRESH:
        l->train.fresh = true;
        return SN_OK;
    case STOP_AFTER:
        SN_TRY(sn_parse_number("--stop-after", optarg, 1, INT64_MAX, &n, err));
        l->train.stop_after = n;
        return SN_OK;
    case ATTEMPT:
        return sn_parse_number("--attempt", optarg, 1, INT32_MAX, &l->attempt, err);
    case SUPERVISOR:
        l->supervisor = optarg;
        return SN_OK;
    case CERTIFICATE:
        l->certificate = strtoull(optarg, NULL, 16);
        if (strlen(optarg) != 16 || strspn(optarg, "0123456789abcdef") != 16 || l->certificate == 0)
            return sn_fail(
                err, SN_EINPUT,
                "--certificate: '%s' is none; want the 16 digits that sennit-plan --verify "
                "prints",
                optarg);
        return SN_OK;
    case PACE:
        l->machine_file = optarg;
        return SN_OK;
    case PREFLIGHT:
        l->preflight = true;
        return SN_OK;
    case PROFILE:
        l->profile = true;
        return SN_OK;
    case TRACE:
        l->trace.path = optarg;
        return SN_OK;
    case TUNE:
        l->tune = optarg;
        return SN_OK;
    case PLACES:
        l->places = optarg;
        return SN_OK;
    case GENERATE:
        l->generate.text = optarg;
        return SN_OK;
    case TOKENS:
        l->generate.option = "--tokens";
        return sn_parse_number("--tokens", optarg, 1, 1 << 24, &l->generate.tokens, err);
    case TOP_K:
        l->generate.option = "--top-k";
        return sn_parse_number("--top-k", optarg, 0, 1 << 24, &l->generate.top_k, err);
    case SEED:
        l->generate.option = "--seed";
        return sn_parse_number("--seed", optarg, 0, INT64_MAX, &l->generate.seed, err);
    case TEMPERATURE:
        l->generate.option = "--temperature";
        l->generate.temperature = strtod(optarg, &end);
        if (end == optarg || *end ||
            !(l->generate.temperature >= 0 && l->generate.temperature <= 100))
            return sn_fail(err, SN_EINPUT, "--temperature: '%s' is no number from 0 to 100",
                           optarg);
        return SN_OK;
    case HELP:
        l->help = true;
        return SN_OK;
    case VERSION:
        l->version = true;
        return SN_OK;
    default:
        return sn_refuse_option("sennit-train", code, argv, err);
    }
}

static enum sn_status parse_line(int argc, char **argv, struct line *l, struct sn_err *err)
{
    static const struct option options[] = {{"fresh", no_argument, NULL, FRESH},
                                            {"stop-after", required_argument, NULL, STOP_AFTER},
                                            {"attempt", required_argument, NULL, ATTEMPT},
                                            {"supervisor", required_argument, NULL, SUPERVISOR},
                                            {"certificate", required_argument, NULL, CERTIFICATE},
                                            {"pace", required_argument, NULL, PACE},
                                            {"preflight", no_argument, NULL, PREFLIGHT},
                                            {"profile", no_argument, NULL, PROFILE},
                                            {"trace", required_argument, NULL, TRACE},
                                            {"tune", required_argument, NULL, TUNE},
                                            {"places", required_argument, NULL, PLACES},
                                            {"generate", required_argument, NULL, GENERATE},
                                            {"tokens", required_argument, NULL, TOKENS},
                                            {"temperature", required_argument, NULL, TEMPERATURE},
                                            {"top-k", required_argument, NULL, TOP_K},
                                            {"seed", required_argument, NULL, SEED},
                                            {"help", no_argument, NULL, HELP},
                                            {"version", no_argument, NULL, VERSION},
                                            {0}};
    *l = (struct line){0};
    sn_train_generate_init(&l->generate);
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;)
        SN_TRY(parse_option(code, argv, l, err));
    if (l->help || l->version)
        return SN_OK;
    SN_TRY(sn_parse_operand(&l->run_file, "sennit-train", "run file", argc, argv, err));
    if (l->generate.option && !l->generate.text)
        return sn_fail(err, SN_EINPUT, "%s: is for --generate%s", l->generate.option,
                       strcmp(l->generate.option, "--seed") == 0 ? "; a run's seed is run.seed"
                                                                 : ", which is not asked for");
    if (l->machine_file && (l->generate.text || l->train.fresh))
        return sn_fail(err, SN_EINPUT,
                       "--pace: learns nothing and touches no checkpoint; leave %s out",
                       l->generate.text ? "--generate" : "--fresh");
    if (l->preflight && (l->generate.text || l->machine_file || l->train.fresh))
        return sn_fail(err, SN_EINPUT, "--preflight: trains nothing; leave %s out",
                       l->generate.text  ? "--generate"
                       : l->machine_file ? "--pace"
                                         : "--fresh");
    if (l->trace.path && (l->generate.text || l->preflight || l->tune || l->profile))
        return sn_fail(err, SN_EINPUT, "--trace: draws a step as it is trained; leave %s out",
                       l->generate.text ? "--generate"
                       : l->preflight   ? "--preflight"
                       : l->tune        ? "--tune"
                                        : "--profile");
    if (l->tune && (l->generate.text || l->machine_file || l->train.fresh || l->preflight))
        return sn_fail(err, SN_EINPUT, "--tune: keeps nothing of its step; leave %s out",
                       l->generate.text  ? "--generate"
                       : l->machine_file ? "--pace"
                       : l->preflight    ? "--preflight"
                                         : "--fresh");
    return SN_OK;
}

/* What has a rank's number in its name is opened once that is known. */
static enum sn_status begin(struct line *l, struct sn_config *c, struct sn_comm *comm,
                            const struct sn_train_lock_want *w, struct sn_train_files *f,
                            struct sn_err *err)
{
    struct sn_err lost = {0};
    enum sn_status all = sn_train_map_handshake(comm, c, &lost);
    if (l->generate.text) { /* one rank, which only reads */
        *err = lost;
        return all;
    }
    if (all == SN_OK)
        SN_TRY(sn_train_lock_open(&f->lock, w, err));
    enum sn_status st = sn_attempt_begin(&f->attempt, c, comm->rank, (int)l->attempt, err);
    if (all != SN_OK) { /* which the attempt's record says */
        *err = lost;
        return all;
    }
    return sn_train_map_make(&l->map, comm, c, l->places, st, err);
}

/* A step that measures; what it finds goes to a file. */
static enum sn_status tune(struct sn_trainer *t, const struct sn_accelerator *a,
                           const struct sn_config *c, struct sn_comm *comm, const char *path,
                           struct sn_err *err)
{
    int found = 0;
    SN_TRY(sn_trainer_rehearse(t, err));
    SN_TRY(sn_train_tune_save(a, c, comm, path, &found, err));
    if (comm->rank == 0)
        sn_log(SN_LOG_INFO,
               "%s: %d measured algorithms; name it in the run file: machine: {file: "
               "%s}",
               path, found, path);
    return SN_OK;
}

/* The device that the run asks for, and what was measured for it. */
static enum sn_status open_device(struct sn_accelerator *a, const struct line *l,
                                  const struct sn_config *c, struct sn_comm *comm,
                                  struct sn_err *err)
{
    SN_TRY(sn_accelerator_open(a, c, l->tune != NULL, comm, err));
    enum sn_status st = sn_accelerator_check_channels(a, c, err);
    if (st != SN_OK) /* the same on all ranks, which agree below */
        return comm->ops->agree(comm, st, err);
    if (l->tune && !a->device)
        st = sn_fail(err, SN_EINPUT,
                     "--tune: measures a device, and this run is on the processor; set "
                     "run.backend: cuda");
    else if (l->tune && comm->rank == 0)
        st = sn_text_try(l->tune, err);
    else if (!l->tune)
        st = sn_train_tune_take(a, c, comm->rank, err);
    return comm->ops->agree(comm, st, err); /* mostly all say the same: once is enough */
}

/* Everything that needs the communicator; the others wait for no rank that has failed. */
static enum sn_status work(struct line *l, struct sn_config *c, struct sn_comm *comm,
                           struct sn_signals *signals, int *exit_code, struct sn_err *err)
{
    struct sn_accelerator accelerator = {.give_up = sn_train_device_hangs};
    struct sn_train_files files = {0};
    struct sn_attempt *attempt = &files.attempt;
    struct sn_train_leaving leaving = {comm, attempt, &files.lock};
    accelerator.self = &leaving;
    struct sn_train_lock_want lock = {c, &l->map.allocation, l->supervisor, signals, &leaving};
    sn_signals_set_early(signals, sn_train_leave_early, &leaving);
    enum sn_status st = begin(l, c, comm, &lock, &files, err);
    if (st == SN_OK) {
        bool trains = !l->machine_file && !l->generate.text;
        st = sn_train_map_save(&l->map, c, err); /* on rank 0 */
        if (st == SN_OK)
            st = sn_train_files_open(&files, c, comm, trains, err);
        st = comm->ops->agree(comm, st, err);
    }
    if (st != SN_OK) {
        sn_attempt_end(attempt, sn_exit_code(st), err);
        sn_signals_set_early(signals, NULL, NULL);
        sn_train_files_close(&files);
        return st;
    }
    sn_comm_set_watch(comm, files.recorder, c->run.hang_timeout);
    st = l->machine_file ? SN_OK : open_device(&accelerator, l, c, comm, err);
    bool on_device = accelerator.device != NULL;
    char switches[SN_TOPOLOGY_PATH] = "";
    sn_train_map_switches(&l->map, switches);
    struct sn_trainer_env env = {.config = c,
                                 .comm = comm,
                                 .ops = on_device ? accelerator.ops->ops : sn_ops_cpu(),
                                 .accelerator = on_device ? &accelerator : NULL,
                                 .saver = &files.saver,
                                 .signals = signals,
                                 .recorder = files.recorder,
                                 .attempt = attempt,
                                 .switches = switches,
                                 .certificate = l->certificate,
                                 .give_up = sn_train_give_up,
                                 .self = &leaving,
                                 .threads = sn_threads(c, comm->node_size),
                                 .pace = l->machine_file ? &l->machine : NULL};
    struct sn_trainer *t = NULL;
    l->trace.comm = comm;
    if (st == SN_OK) {
        sn_train_say_backend(c, comm, &accelerator, env.threads);
        st = sn_trainer_create(&t, &env, err);
    }
    if (st == SN_OK) {
        struct sn_memory_plan plan;
        if (l->profile)
            sn_exec_set_timed(sn_trainer_exec(t));
        sn_train_say_memory(comm, &accelerator, sn_trainer_exec(t));
        sn_job_memory(sn_trainer_job(t), &plan);
        attempt->planned = plan.total;
    }
    if (st == SN_OK && l->generate.text)
        st = sn_train_generate(t, c, &l->generate, err);
    else if (st == SN_OK && l->tune)
        st = tune(t, &accelerator, c, comm, l->tune, err);
    else if (st == SN_OK)
        st = sn_train_traced(t, &l->train, &l->trace, env.pace, exit_code, err);
    if (st == SN_OK && l->profile && comm->rank == 0)
        sn_profile_print(stdout, sn_exec_times(sn_trainer_exec(t)));
    attempt->stepping = t ? sn_trainer_stepping(t) : 0;
    sn_signals_set_early(signals, NULL, NULL);
    if (st == SN_OK) /* else not all ranks may come */
        st = comm->ops->barrier(comm, err);
    sn_attempt_end(attempt, st == SN_OK ? *exit_code : sn_exit_code(st), st == SN_OK ? NULL : err);
    if (st == SN_ELOST) /* threads may use all this for good: it goes with the process */
        return st;
    sn_trainer_destroy(t);
    sn_accelerator_close(&accelerator);
    sn_comm_set_watch(comm, NULL, 0);
    sn_train_files_close(&files);
    return st;
}

/* One sample on one rank, whatever layout the run has. */
static void set_one_rank(struct sn_layout_config *l)
{
    int size[SN_NGRID_AXES];
    for (int a = 0; a < SN_NGRID_AXES; a++)
        size[a] = 1;
    sn_axes_set_sizes(l, size);
    l->micro_batch = l->virtual_stages = 1;
    l->schedule = SN_SCHEDULE_DEFAULT;
    l->n_split = l->zero = 0;
}

static enum sn_status load_config(struct line *l, struct sn_config *c, int ranks,
                                  struct sn_err *err)
{
    SN_TRY(sn_planned_check_isa(err));
    SN_TRY(sn_products_check(sn_ops_cpu(), err));
    SN_TRY(sn_config_load(c, l->run_file, NULL, err));
    if (l->preflight)
        return SN_OK; /* of any number of ranks: the layout does not matter */
    if (l->machine_file)
        SN_TRY(sn_machine_load(&l->machine, l->machine_file, err));
    if (l->machine_file)
        SN_TRY(sn_machine_check_precision(&l->machine, c->train.precision, err));
    if (!l->generate.text)
        SN_TRY(sn_resolve_auto(c, ranks, NULL, err));
    if (l->generate.text)
        set_one_rank(&c->layout);
    if (l->generate.text || l->tune) { /* nothing is saved */
        c->checkpoint.async = false;
        c->checkpoint.snapshot_every = 0;
    }
    if (l->generate.text && ranks > 1)
        return sn_fail(err, SN_EINPUT, "--generate: started with %d ranks; start one", ranks);
    return sn_resolve_layout(c, ranks, err);
}

/* Memory and devices of this host are this attempt's now. One rank of a host sees to it; the others
 * meet it in MPI_Init. */
static void end_leftovers(const struct line *l)
{
    enum { SECONDS = 5 };
    int left = 0;
    const char *local = getenv("SLURM_LOCALID");
    int n =
        !local || strcmp(local, "0") == 0 ? sn_leftover_end((int)l->attempt, SECONDS, &left) : 0;
    if (n > 0)
        sn_log(SN_LOG_WARN, "%d processes of an earlier attempt were still on this host; %s", n,
               left ? "some cannot be ended and keep their memory" : "they have ended");
}

int main(int argc, char **argv)
{
    struct sn_err err = {0};
    struct line l;
    struct sn_config config;
    struct sn_comm *comm = NULL;
    struct sn_signals *signals = NULL;
    int exit_code = 0;
    struct sn_train_leaving leaving = {0};
    sn_mem_share_heap();
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN); /* a run goes on when nobody reads what it prints */
    sn_signals_hold();
    enum sn_status st = parse_line(argc, argv, &l, &err);
    if (st == SN_OK && (l.help || l.version)) {
        (void)fputs(l.help ? usage : "sennit-train " SN_VERSION "\n", stdout);
        return 0;
    }
    int ranks = sn_comm_launched_ranks();
    if (st == SN_OK)
        st = sn_signals_create(&signals, &err);
    if (st == SN_OK)
        sn_signals_set_early(signals, sn_train_leave_early, &leaving);
    if (l.generate.text)
        (void)signal(SIGPIPE, SIG_DFL); /* nothing else is to be done */
    if (st == SN_OK)
        st = load_config(&l, &config, ranks, &err);
    if (st != SN_OK) /* the same on every rank: one says it, and MPI has not begun */
        return sn_comm_launched_rank() == 0 ? sn_report(&err) : sn_exit_code(st);
    end_leftovers(&l);
    sn_train_map_open(&l.map); /* hwloc comes before MPI */
    st = ranks > 1 ? sn_comm_create_mpi(&comm, &err) : sn_comm_create_self(&comm, &err);
    if (st != SN_OK)
        return sn_report(&err);
    st = l.preflight ? sn_train_preflight(&config, comm, &exit_code, &err)
                     : work(&l, &config, comm, signals, &exit_code, &err);
    sn_machine_fini(&l.machine);
    sn_train_map_close(&l.map);
    if (st != SN_OK) {
        exit_code = sn_exit_code(st);
        if (!err.agreed && comm->size > 1) {
            char host[64] = "unknown host";
            (void)gethostname(host, sizeof(host) - 1);
            (void)sn_err_prefix(&err, "rank %d (%s)", comm->rank, host);
        }
        if (!err.agreed || comm->rank == 0)
            (void)sn_report(&err);
        if (st == SN_ELOST && comm->rank != 0)
            (void)sleep(3); /* rank 0 notices too, and writes the cause down */
        bool in_order = err.agreed && st != SN_ELOST;
        if (!in_order && comm->size > 1) /* others know nothing of it, or do not answer */
            sn_comm_abort_mpi(exit_code);
    }
    if (st == SN_ELOST) /* a device that hangs: handlers of the exit would wait for it */
        _exit(exit_code);
    sn_train_end(comm, config.run.hang_timeout);
    sn_signals_destroy(signals);
    return exit_code;
}
