/*
 * sennit_train.c - the command line of sennit-train: one rank of a training run.
 */
#include "bin/common.h"
#include "bin/train/end.h"
#include "bin/train/features.h"
#include "bin/train/files.h"
#include "bin/train/answer.h"
#include "bin/train/generate.h"
#include "bin/train/line.h"
#include "bin/train/preflight.h"
#include "bin/train/replay.h"
#include "bin/train/say.h"
#include "bin/train/trace.h"
#include "bin/train/tune.h"
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

/* What has a rank's number in its name is opened once that is known. */
static enum sn_status begin(struct sn_train_line *l, struct sn_config *c, struct sn_comm *comm,
                            const struct sn_train_lock_want *w, struct sn_train_files *f,
                            struct sn_err *err)
{
    struct sn_err lost = {0};
    enum sn_status all = sn_train_map_handshake(comm, c, &lost);
    if (sn_train_line_only_reads(l)) {
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
static enum sn_status open_device(struct sn_accelerator *a, const struct sn_train_line *l,
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

static enum sn_status do_what_is_asked(struct sn_trainer *t, struct sn_train_line *l,
                                       struct sn_config *c, struct sn_accelerator *accelerator,
                                       const struct sn_machine *pace, int *exit_code,
                                       struct sn_err *err)
{
    struct sn_comm *comm = l->trace.comm;
    if (l->generate.answer)
        return sn_train_answer(t, c, comm, &l->generate, err);
    if (sn_train_generate_wanted(&l->generate))
        return sn_train_generate(t, c, comm, &l->generate, err);
    if (l->score.file)
        return sn_train_score(t, c, comm, &l->score, err);
    if (l->replay.step > 0)
        return sn_train_replay(t, c, comm, &l->replay, exit_code, err);
    if (l->tune)
        return tune(t, accelerator, c, comm, l->tune, err);
    return sn_train_traced(t, &l->train, &l->trace, pace, exit_code, err);
}

/* Everything that needs the communicator; the others wait for no rank that has failed. */
static enum sn_status work(struct sn_train_line *l, struct sn_config *c, struct sn_comm *comm,
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
        st = sn_train_map_save(&l->map, c, err); /* on rank 0 */
        if (st == SN_OK)
            st = sn_train_files_open(&files, c, comm, sn_train_line_files(l), err);
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
                                 .scores = l->score.file != NULL,
                                 .generates = sn_train_generate_wanted(&l->generate),
                                 .keeps_past =
                                     sn_train_generate_wanted(&l->generate) && !l->generate.whole,
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
    if (st == SN_OK)
        st = do_what_is_asked(t, l, c, &accelerator, env.pace, exit_code, err);
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

/* One sample over so many tensor ranks and pipeline stages; false: the model does not take them, and
 * *why says why not. */
static bool set_one_sample_over(struct sn_config *c, int tensor, int pipeline, struct sn_err *why)
{
    struct sn_layout_config *l = &c->layout;
    sn_axes_set_one(l);
    sn_compress_nothing(l);
    l->tensor = tensor;
    l->pipeline = pipeline;
    l->sequence_parallel = l->split_backward = false;
    l->micro_batch = l->virtual_stages = l->tensor_pieces = 1;
    l->schedule = SN_SCHEDULE_DEFAULT;
    l->expert = l->expert_chunks = 1;
    l->n_split = l->zero = l->zero_node = l->zero_cache = l->expert_node = l->expert_tensor = 0;
    return tensor * pipeline == 1 || sn_config_check_layout(c, tensor * pipeline, why) == SN_OK;
}

/* One sample, whatever layout the run has: over its tensor ranks, if their number divides that of the
 * ranks, else over as many as the model takes; pipeline stages have the rest. More than two cannot share the map
 * of train.prompt. */
static enum sn_status set_one_sample(struct sn_config *c, int ranks, const char *option,
                                     struct sn_err *err)
{
    int run = c->layout.tensor;
    struct sn_err why, last;
    bool any = c->train.prompt.rows == 0 || ranks / run <= 2;
    if (run > 1 && ranks % run == 0 && any && set_one_sample_over(c, run, ranks / run, &why))
        return SN_OK;
    for (int tensor = ranks; tensor > 0; tensor--)
        if (ranks % tensor == 0 && set_one_sample_over(c, tensor, ranks / tensor, &last))
            return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: %d heads and %d layers are not shared out over %d ranks (%s); start "
                   "one, or a number that divides one of the two",
                   option, c->model.heads, c->model.layers, ranks, last.text);
}

/* Requests share samples, and do not see each other. */
static enum sn_status set_score(struct sn_config *c, const struct sn_train_score *s,
                                struct sn_err *err)
{
    c->data.documents = SN_DOCUMENTS_APART;
    if (s->begin && sn_prompt_positions(&c->train.prompt) > 0)
        return sn_fail(err, SN_EINPUT,
                       "--begin: with train.prompt a text begins behind its prompt; leave it out");
    SN_TRY(sn_train_features_check(c, "--score", s->features, err));
    if (c->model.experts.capacity_factor <= 0)
        return SN_OK;
    return sn_fail(
        err, SN_EINPUT,
        "%s: --score: with model.experts.capacity_factor: %g which experts a token visits "
        "depends on other requests; want 0, in a run file with train.init_from: CHECKPOINT "
        "and train.init_changes: [capacity_factor]",
        c->path, c->model.experts.capacity_factor);
}

static enum sn_status load_config(struct sn_train_line *l, struct sn_config *c, int ranks,
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
    if (!sn_train_generate_wanted(&l->generate))
        SN_TRY(sn_resolve_auto(c, ranks, NULL, err));
    if (sn_train_generate_wanted(&l->generate))
        SN_TRY(set_one_sample(c, ranks, sn_train_generate_option(&l->generate), err));
    if (sn_train_generate_wanted(&l->generate))
        SN_TRY(sn_train_features_check(c, sn_train_generate_option(&l->generate),
                                       l->generate.features, err));
    if (l->score.file)
        SN_TRY(set_score(c, &l->score, err));
    if (sn_train_generate_wanted(&l->generate) || l->score.file || l->tune ||
        l->replay.step > 0) { /* nothing is saved */
        c->checkpoint.async = false;
        c->checkpoint.snapshot_every = 0;
    }
    if (l->replay.step > 0) /* nor is anything passed over, which is written down */
        c->checkpoint.damaged = SN_DAMAGED_STOP;
    if (l->replay.step > c->train.steps)
        return sn_fail(err, SN_EINPUT, "--replay: step %lld; the run has %lld (train.steps)",
                       l->replay.step, (long long)c->train.steps);
    return sn_resolve_layout(c, ranks, err);
}

/* Memory and devices of this host are this attempt's now. One rank of a host sees to it; the others
 * meet it in MPI_Init. */
static void end_leftovers(const struct sn_train_line *l)
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
    struct sn_train_line l;
    struct sn_config config;
    struct sn_comm *comm = NULL;
    struct sn_signals *signals = NULL;
    int exit_code = 0;
    struct sn_train_leaving leaving = {0};
    sn_mem_share_heap();
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN); /* a run goes on when nobody reads what it prints */
    sn_signals_hold();
    enum sn_status st = sn_train_line_parse(argc, argv, &l, &err);
    if (st == SN_OK && !sn_mem_reserve_stack())
        st = sn_fail(&err, SN_ENOMEM, "no memory for a stack of %d KiB; want more (ulimit -v)",
                     SN_STACK_RESERVE >> 10);
    if (st == SN_OK && (l.help || l.version)) {
        (void)fputs(l.help ? sn_train_usage() : "sennit-train " SN_VERSION "\n", stdout);
        return 0;
    }
    int ranks = sn_comm_launched_ranks();
    if (st == SN_OK)
        st = sn_signals_create(&signals, &err);
    if (st == SN_OK)
        sn_signals_set_early(signals, sn_train_leave_early, &leaving);
    if (sn_train_generate_wanted(&l.generate))
        (void)signal(SIGPIPE, SIG_DFL); /* nothing else is to be done */
    if (st == SN_OK)
        st = load_config(&l, &config, ranks, &err);
    if (st != SN_OK) { /* the same on every rank: one says it, and MPI has not begun */
        if (sn_comm_launched_rank() == 0)
            return sn_report(&err);
        (void)sleep(1); /* a launcher ends all when the first one ends */
        return sn_exit_code(st);
    }
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
