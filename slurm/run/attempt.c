#include "slurm/run/supervisor.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/exec/threads.h"
#include "lib/program/program.h"
#include "lib/search/planned.h"
#include "lib/search/relayout.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- nodes and layout ------------------------------------------------------------------------ */

int sn_supervisor_good_nodes(const struct sn_supervisor *x)
{
    struct sn_nodes n;
    int all = x->allocation.host.n;
    if (all == 0)
        return 1;
    if (sn_nodes_choose(&n, &x->allocation.host, x->nodes.health, &x->ledger, all, NULL) != SN_OK)
        return all;
    int good = n.n_use;
    sn_nodes_fini(&n);
    return good;
}

int sn_supervisor_relayout(struct sn_supervisor *x, int most)
{
    struct sn_err err;
    int nodes = 0, ranks = x->shape.ranks_per_node;
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    struct sn_accelerator plugin;
    struct sn_relayout_want w = {.config = x->config,
                                 .most_nodes = most,
                                 .ranks_per_node = ranks,
                                 .node_memory = memory,
                                 .machine = sn_site_machine(&x->site, x->config),
                                 .ops = sn_planned_ops(&plugin, x->config),
                                 .threads = sn_threads(x->config, ranks)};
    enum sn_status st = most < 1 ? SN_EFAIL : sn_relayout(x->current, &nodes, &w, &err);
    if (most >= 1 && st != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
    sn_accelerator_close(&plugin);
    return st == SN_OK ? nodes : 0;
}

/* Which nodes, and the layout for them: s->nodes of them, 0: too few. */
static enum sn_status choose_nodes(struct sn_supervisor_attempt *s, struct sn_supervisor *x,
                                   struct sn_nodes *chosen, struct sn_err *err)
{
    const struct sn_hostlist *host = &x->allocation.host;
    sn_supervisor_look_at_nodes(x, false); /* what was true a minute ago may not be */
    int good = sn_supervisor_good_nodes(x);
    *chosen = (struct sn_nodes){0};
    *x->current = *x->config;
    s->nodes = x->shape.nodes;
    if (host->n == 0)
        return SN_OK;
    if (good < s->nodes)
        s->nodes = x->config->slurm.shrink ? sn_supervisor_relayout(x, good) : 0;
    s->few = s->nodes == 0;
    if (s->few)
        return SN_OK;
    SN_TRY(sn_nodes_choose(chosen, host, x->nodes.health, &x->ledger, s->nodes, err));
    return sn_nodes_names(&s->names, host, chosen->use, chosen->n_use, err);
}

/* ---- the command ----------------------------------------------------------------------------- */

static enum sn_status keep_environment(const struct sn_supervisor *x, int attempt,
                                       struct sn_err *err)
{
    struct sn_str text = {0};
    sn_launch_record(&text, &x->environment);
    enum sn_status st = sn_rundir_keep(&x->rundir, attempt, "environment", &text, err);
    sn_str_fini(&text);
    return st;
}

static bool is_relaid(const struct sn_supervisor *x, const struct sn_supervisor_attempt *s)
{
    return s->nodes != x->shape.nodes;
}

static int ranks_of(const struct sn_supervisor *x, const struct sn_supervisor_attempt *s)
{
    return is_relaid(x, s) ? s->nodes * x->shape.ranks_per_node : x->shape.ranks;
}

/* The run file, or one of the attempt's own where a search has chosen the layout. */
static enum sn_status choose_run_file(char *path, size_t room, const struct sn_supervisor *x,
                                      const struct sn_supervisor_attempt *s, struct sn_err *err)
{
    if (!is_relaid(x, s) && !x->shape.is_searched) {
        (void)snprintf(path, room, "%s", x->line.run_file);
        return SN_OK;
    }
    sn_rundir_path(path, room, &x->rundir, s->number, "run.yaml");
    return sn_config_save(x->current, path, err);
}

/* The first start alone: a requeued job runs the same script again. */
static bool is_fresh(const struct sn_supervisor *x)
{
    return x->line.fresh && x->started == 0 && x->allocation.restarts == 0;
}

static enum sn_status format_command(struct sn_argv *out, const struct sn_supervisor *x,
                                     const struct sn_supervisor_attempt *s, struct sn_err *err)
{
    const struct sn_words *flags = &x->site.launch.flags;
    const char *options[SN_FREEZE_MAX + 1] = {0};
    char path[SN_PATH_MAX + 64], name[SN_RUNLOCK_NAME];
    struct sn_str list = {0};
    bool some = s->names.n < x->allocation.host.n && s->names.n > 0;
    for (int i = 0; i < flags->n && x->shape.is_sites; i++)
        options[i] = flags->word[i];
    SN_TRY(choose_run_file(path, sizeof(path), x, s, err));
    if (some)
        SN_TRY(sn_nodes_list(&list, &s->names, err));
    struct sn_launch l = {.launcher = x->shape.launcher,
                          .program = x->shape.program,
                          .mpi = x->site.launch.mpi[0] ? x->site.launch.mpi : NULL,
                          .trainer = x->shape.trainer,
                          .run_file = path,
                          .supervisor = sn_runlock_name(name, &x->lock),
                          .attempt = s->number,
                          .fresh = is_fresh(x),
                          .stop_after = x->line.stop_after,
                          .trial = x->line.trial,
                          .nodes = s->nodes,
                          .ranks = ranks_of(x, s),
                          .ranks_per_node = x->shape.ranks_per_node,
                          .cpus_per_rank = x->shape.cpus_per_rank,
                          .gpus_per_node = x->allocation.gpus_per_node,
                          .node_list = list.p,
                          .slurm_version = x->shape.slurm_version,
                          .may_lose_nodes = some,
                          .beside_others = x->started > 0,
                          .options = options};
    enum sn_status st = sn_launch_format(out, &l, err);
    sn_str_fini(&list);
    return st;
}

static enum sn_status write_launch(const struct sn_supervisor *x,
                                   const struct sn_supervisor_attempt *s,
                                   const struct sn_nodes *chosen, const struct sn_argv *command,
                                   struct sn_err *err)
{
    struct sn_argv spares = {0};
    SN_TRY(sn_nodes_names(&spares, &x->allocation.host, chosen->spare, chosen->n_spare, err));
    struct sn_journal_launch l = {.attempt = s->number,
                                  .nodes = (const char *const *)s->names.word,
                                  .n_nodes = s->names.n,
                                  .spares = (const char *const *)spares.word,
                                  .n_spares = spares.n,
                                  .ranks = ranks_of(x, s),
                                  .threads = x->config->run.threads,
                                  .layout = &x->current->layout,
                                  .relaid = is_relaid(x, s),
                                  .from_step = s->from_step,
                                  .command = (const char *const *)command->word,
                                  .n_command = command->n};
    enum sn_status st = sn_journal_launch(&x->journal, &l, err);
    sn_argv_fini(&spares);
    return st;
}

/* Steps of the job that Slurm still has in its books. */
static int steps_of(const struct sn_supervisor *x)
{
    return x->platform->scheduler->steps(x->platform->self, x->allocation.job);
}

/* The pause, which a disk that has room again ends. */
static unsigned rest_for_pause(struct sn_supervisor *x, double begun)
{
    unsigned asked = sn_platform_wait(x->platform, 0);
    while (!asked && sn_supervisor_now(x) - begun < x->pause && !sn_supervisor_has_room(x)) {
        asked = sn_platform_wait(x->platform, 1); /* an old child's end wakes it, too */
        sn_runlock_heartbeat(&x->lock);
    }
    return asked;
}

unsigned sn_supervisor_rest(struct sn_supervisor *x)
{
    enum { MOST = 60, ASK_EVERY = 2 };
    bool steps = x->started > 0 && x->allocation.scheduler == SN_SCHED_SLURM && !x->has_lost_node;
    unsigned asked = rest_for_pause(x, sn_supervisor_now(x));
    for (double until = sn_supervisor_now(x) + MOST;
         !asked && steps && sn_supervisor_now(x) < until && steps_of(x) > x->old_steps;) {
        asked = sn_platform_wait(x->platform, ASK_EVERY);
        sn_runlock_heartbeat(&x->lock);
    }
    return asked;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum sn_status watch(struct sn_supervisor_attempt *s, struct sn_supervisor *x,
                            const struct sn_argv *command, struct sn_err *err)
{
    const struct sn_layout_config *l = &x->current->layout;
    struct sn_grid grid;
    int ranks = ranks_of(x, s);
    SN_TRY(sn_job_grid(&grid, x->current, err));
    struct sn_watch_want w = {.command = command,
                              .environment = &x->environment,
                              .ways = sn_launcher_ways(x->shape.launcher),
                              .rundir = &x->rundir,
                              .journal = &x->journal,
                              .platform = x->platform,
                              .limits = {.deadline = x->deadline.end,
                                         .margin = x->config->slurm.signal_before,
                                         .hang_timeout = x->config->run.hang_timeout,
                                         .has_recorders = ranks > 1},
                              .grid = &grid,
                              .attempt = s->number,
                              .ranks = ranks,
                              .on_this_host = x->allocation.host.n == 0,
                              .meanwhile = sn_supervisor_meanwhile,
                              .has_lost_node = sn_supervisor_has_lost_node,
                              .self = x};
    sn_log(SN_LOG_INFO, "attempt %d: %d ranks, %s, %s", s->number, ranks,
           sn_config_axes((char[SN_AXES_SIZE]){0}, l),
           s->from_step < 0 ? "from the beginning" : "from a checkpoint");
    if (x->has_lost_node) /* that of a dead node; otherwise there are those that there were */
        x->old_steps = steps_of(x);
    x->has_lost_node = false;
    x->step = s;
    enum sn_status st = sn_watch_run(&s->end, &w, err);
    x->step = NULL;
    x->started++;
    return st;
}

enum sn_status sn_supervisor_attempt(struct sn_supervisor_attempt *s, struct sn_supervisor *x,
                                     struct sn_err *err)
{
    struct sn_nodes chosen;
    struct sn_argv command = {0};
    *s = (struct sn_supervisor_attempt){.number = sn_rundir_next_attempt(&x->rundir),
                                        .from_step = sn_rundir_saved_step(&x->rundir)};
    if (is_fresh(x))
        s->from_step = -1;
    enum sn_status st = choose_nodes(s, x, &chosen, err);
    if (st == SN_OK)
        st = sn_rundir_begin(&x->rundir, s->number, err);
    if (st == SN_OK && !s->few) {
        st = keep_environment(x, s->number, err);
        if (st == SN_OK)
            st = format_command(&command, x, s, err);
        if (st == SN_OK)
            st = write_launch(x, s, &chosen, &command, err);
        if (st == SN_OK)
            st = watch(s, x, &command, err);
    }
    sn_argv_fini(&command);
    sn_nodes_fini(&chosen);
    return st;
}

void sn_supervisor_attempt_fini(struct sn_supervisor_attempt *s)
{
    sn_argv_fini(&s->names);
}
