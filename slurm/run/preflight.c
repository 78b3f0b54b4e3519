#include "slurm/run/supervisor.h"

#include "lib/base/exit_code.h"
#include "lib/base/jsonl.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>

enum { NUMBER = 0, MOST_SECONDS = 240, WORDS = 400 };

/* Every node that may be used, the spares too: a spare that is not well is none. */
static enum sn_status format_command(struct sn_argv *out, const struct sn_supervisor *x,
                                     struct sn_err *err)
{
    const struct sn_hostlist *host = &x->allocation.host;
    const char *options[SN_FREEZE_MAX + 1] = {0};
    struct sn_nodes all;
    struct sn_argv names = {0};
    struct sn_str list = {0};
    SN_TRY(sn_nodes_choose(&all, host, x->nodes.health, &x->ledger, host->n, err));
    for (int i = 0; i < x->site.launch.flags.n && x->shape.is_sites; i++)
        options[i] = x->site.launch.flags.word[i];
    enum sn_status st = sn_nodes_names(&names, host, all.use, all.n_use, err);
    if (st == SN_OK && all.n_use < host->n)
        st = sn_nodes_list(&list, &names, err);
    struct sn_launch l = {.launcher = x->shape.launcher,
                          .program = x->shape.program,
                          .mpi = x->site.launch.mpi[0] ? x->site.launch.mpi : NULL,
                          .trainer = x->shape.trainer,
                          .run_file = x->line.run_file,
                          .preflight = true,
                          .nodes = all.n_use,
                          .ranks = all.n_use * x->shape.ranks_per_node,
                          .ranks_per_node = x->shape.ranks_per_node,
                          .cpus_per_rank = x->shape.cpus_per_rank,
                          .gpus_per_node = x->allocation.gpus_per_node,
                          .node_list = list.p,
                          .slurm_version = x->shape.slurm_version,
                          .may_lose_nodes = true,
                          .options = options};
    if (st == SN_OK)
        st = sn_launch_format(out, &l, err);
    sn_str_fini(&list);
    sn_argv_fini(&names);
    sn_nodes_fini(&all);
    return st;
}

static enum sn_status read_hosts(struct sn_supervisor *x, struct sn_json hosts, struct sn_err *err)
{
    struct sn_json name, entry;
    char host[256], why[256];
    bool pass = true;
    for (size_t at = 0; sn_json_next(hosts, &at, &name, &entry);) {
        if (!sn_json_bool(sn_json_get(entry, "pass"), &pass) || pass)
            continue;
        sn_json_get_text(entry, "host", host, sizeof(host));
        sn_json_get_text(entry, "why", why, sizeof(why));
        SN_TRY(sn_supervisor_blame(x, host, SN_NODE_BAD, why, err));
    }
    return SN_OK;
}

/* What OUTPUT/preflight.json says of hosts. */
static enum sn_status read_findings(struct sn_supervisor *x, struct sn_err *err)
{
    char path[SN_PATH_MAX + 32];
    struct sn_jsonl file;
    struct sn_json all;
    (void)snprintf(path, sizeof(path), "%s/preflight.json", x->rundir.output);
    SN_TRY(sn_jsonl_open(&file, path, err));
    enum sn_status st = SN_OK;
    if (file.text && sn_json_parse(&all, file.text, file.len))
        st = read_hosts(x, sn_json_get(all, "hosts"), err);
    sn_jsonl_close(&file);
    return st;
}

static enum sn_status fly(struct sn_supervisor *x, struct sn_watch_end *end,
                          const struct sn_argv *command, struct sn_err *err)
{
    struct sn_grid grid = {0}; /* nobody is judged by rings */
    struct sn_watch_want w = {.command = command,
                              .environment = &x->environment,
                              .ways = sn_launcher_ways(x->shape.launcher),
                              .rundir = &x->rundir,
                              .journal = &x->journal,
                              .platform = x->platform,
                              .limits = {.deadline = x->deadline.end,
                                         .most_seconds = MOST_SECONDS,
                                         .saves_nothing = true},
                              .grid = &grid,
                              .attempt = NUMBER,
                              .meanwhile = sn_supervisor_meanwhile,
                              .self = x};
    SN_TRY(sn_rundir_begin(&x->rundir, NUMBER, err));
    sn_log(SN_LOG_INFO, "preflight of %d nodes", x->allocation.host.n);
    return sn_watch_run(end, &w, err);
}

/* What it said last: what is wrong with all nodes alike is no node's fault. */
static const char *words_of(const struct sn_watch_end *end, char out[WORDS])
{
    const char *text = end->words.text, *said = strstr(text, "preflight: ");
    for (const char *p = said; p && (p = strstr(p + 1, "preflight: "));)
        said = p;
    if (!said)
        said = sn_tail_last_line(text);
    (void)snprintf(out, WORDS, "%.*s", said ? (int)strcspn(said, "\n") : 0, said ? said : "");
    return out;
}

enum sn_status sn_supervisor_preflight(struct sn_supervisor *x, unsigned *asked, struct sn_err *err)
{
    struct sn_argv command = {0};
    struct sn_str line;
    char words[WORDS];
    *asked = 0;
    bool is_done = !x->line.fresh && sn_rundir_saved_step(&x->rundir) >= x->config->train.steps;
    if (!x->config->slurm.preflight || x->allocation.host.n == 0 || is_done ||
        sn_supervisor_good_nodes(x) == 0)
        return SN_OK; /* a job of a chain behind the end has nothing that nodes could spoil */
    struct sn_watch_end *end = sn_alloc(sizeof(*end)); /* large for a stack */
    if (!end)
        return sn_fail(err, SN_ENOMEM, "preflight: no memory for its words");
    enum sn_status st = format_command(&command, x, err);
    if (st == SN_OK)
        st = fly(x, end, &command, err);
    if (st == SN_OK) {
        sn_journal_line(&x->journal, &line, "preflight");
        sn_jsonl_int(&line, "exit_code", end->exit_code);
        sn_jsonl_real(&line, "seconds", end->seconds);
        sn_jsonl_text(&line, "says", end->exit_code ? words_of(end, words) : "");
        st = sn_journal_write(&x->journal, &line, err);
        *asked = end->asked;
    }
    if (st == SN_OK && end->exit_code == SN_EXIT_LOST)
        st = read_findings(x, err);
    else if (st == SN_OK && end->exit_code != 0)
        sn_log(SN_LOG_WARN, "preflight: ended with %d; the run begins without it", end->exit_code);
    sn_argv_fini(&command);
    sn_free(end);
    return st;
}
