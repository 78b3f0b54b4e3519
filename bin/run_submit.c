/*
 * run_submit.c - sennit-run submit: a batch script from run file and site, tested, submitted.
 */
#include "bin/common.h"
#include "bin/run_verbs.h"
#include "bin/submit_check.h"
#include "checkpoint/io/files.h"
#include "lib/base/directory.h"
#include "lib/base/duration.h"
#include "lib/base/jsonl.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/machine/named.h"
#include "lib/search/resolve.h"
#include "slurm/scheduler/submit.h"
#include "slurm/site/render.h"
#include "slurm/supervisor/preempt.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: sennit-run submit RUN.yaml [options]\n"
    "\n"
    "Writes the batch script that the run file and the site's profile ask for, asks the scheduler\n"
    "whether it would take the job, and submits it. Nodes and ranks follow from the layout.\n"
    "  --site NAME      profile of the site (default: slurm.site, or generic); with a '/': a file\n"
    "  --print          print the script, and submit nothing\n"
    "  --test-only      ask the scheduler, and submit nothing\n"
    "  --time T         instead of slurm.time\n"
    "  --nodes N        instead of slurm.nodes; a layout that is fixed is replanned for them\n"
    "  --chain K        submit K jobs that follow each other, instead of slurm.chain\n"
    "  --force          submit also what does not fit, or whose files are missing or wrong\n"
    "  --help\n"
    "\n"
    "Before, it looks whether the token files go with the run file, whether the layout fits the\n"
    "machine, and how many jobs the run takes; --print and --test-only say what they find, too.\n"
    "Exit 0: submitted, 1: the scheduler did not take it, 2: bad usage or input, or a job that "
    "would\n"
    "fail.\n";

enum { SITE = 256, PRINT, TEST_ONLY, TIME, NODES, CHAIN, FORCE, HELP };
enum { LEAST_NOTICE = 300 /* seconds, until a save was measured */ };

struct line {
    const char *run_file, *site, *time;
    long long nodes, chain; /* 0: as the run file says */
    bool print, test_only, force, help;
};

/* The whole of it: what is asked for, and what comes of it. */
struct submit {
    struct line line;
    struct sn_config config;
    struct sn_site site;
    struct sn_batch batch;
    struct sn_batch_machine machine; /* name NULL: none is named */
    char machine_name[SN_MACHINE_NAME];
    struct sn_submit_plan plan;
    struct sn_submit_findings findings;
    char detected[SN_SITE_NAME]; /* the site that the environment tells of; "": none */
    char directory[PATH_MAX], program[PATH_MAX], output[PATH_MAX + SN_PATH_MAX], run_file[PATH_MAX];
    struct sn_str script;
    struct sn_environment own;
    struct sn_scrubbed with;
};

static enum sn_status parse_option(int code, char **argv, struct line *l, struct sn_err *err)
{
    switch (code) {
    case SITE:
        l->site = optarg;
        return SN_OK;
    case PRINT:
        l->print = true;
        return SN_OK;
    case TEST_ONLY:
        l->test_only = true;
        return SN_OK;
    case TIME:
        l->time = optarg;
        return SN_OK;
    case NODES:
        return sn_parse_number("--nodes", optarg, 1, 1 << 20, &l->nodes, err);
    case CHAIN:
        return sn_parse_number("--chain", optarg, 1, 1000, &l->chain, err);
    case FORCE:
        l->force = true;
        return SN_OK;
    case HELP:
        l->help = true;
        return SN_OK;
    default:
        return sn_refuse_option("sennit-run submit", code, argv, err);
    }
}

static enum sn_status parse_line(int argc, char **argv, struct line *l, struct sn_err *err)
{
    static const struct option options[] = {{"site", required_argument, NULL, SITE},
                                            {"print", no_argument, NULL, PRINT},
                                            {"test-only", no_argument, NULL, TEST_ONLY},
                                            {"time", required_argument, NULL, TIME},
                                            {"nodes", required_argument, NULL, NODES},
                                            {"chain", required_argument, NULL, CHAIN},
                                            {"force", no_argument, NULL, FORCE},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;)
        SN_TRY(parse_option(code, argv, l, err));
    if (l->help)
        return SN_OK;
    if (l->print && l->test_only)
        return sn_fail(err, SN_EINPUT,
                       "sennit-run submit: --print asks nobody and --test-only the scheduler; want "
                       "one of them");
    return sn_parse_operand(&l->run_file, "sennit-run submit", "run file", argc, argv, err);
}

/* --- what is asked for ------------------------------------------------------------------------ */

static enum sn_status take_line(struct submit *s, struct sn_err *err)
{
    struct sn_slurm_config *l = &s->config.slurm;
    if (s->line.time) {
        if (strlen(s->line.time) >= sizeof(l->time) ||
            !sn_duration_parse(s->line.time, &l->seconds))
            return sn_fail(err, SN_EINPUT,
                           "--time: '%.40s' is no time limit; want minutes, H:MM:SS or D-HH:MM:SS",
                           s->line.time);
        (void)snprintf(l->time, sizeof(l->time), "%s", s->line.time);
        if (l->signal_before >= l->seconds)
            return sn_fail(err, SN_EINPUT,
                           "--time: %s is not more than slurm.signal_before (%d s); want a longer "
                           "time",
                           s->line.time, l->signal_before);
    }
    if (s->line.chain)
        l->chain = (int)s->line.chain;
    return SN_OK;
}

/* What the site's nodes have to be; left as it is where the run file names no machine. */
static enum sn_status find_machine(struct submit *s, struct sn_err *err)
{
    struct sn_machine m = {0};
    if (!sn_names_machine(&s->config))
        return SN_OK;
    SN_TRY(sn_machine_of(&m, &s->config, NULL, err));
    (void)snprintf(s->machine_name, sizeof(s->machine_name), "%s", m.name);
    s->machine = (struct sn_batch_machine){s->machine_name, m.devices, m.device.memory};
    sn_machine_fini(&m);
    return SN_OK;
}

/* How many ranks there are: the layout's, or what the nodes hold where it is open. */
static enum sn_status resolve_layout(struct submit *s, int each, struct sn_err *err)
{
    struct sn_config *c = &s->config;
    const struct sn_layout_config *l = &c->layout;
    int nodes = s->line.nodes ? (int)s->line.nodes : c->slurm.nodes;
    if (nodes && nodes > (1 << 24) / each)
        return sn_fail(err, SN_EINPUT, "slurm.nodes: %d nodes of %d ranks are too many; want fewer",
                       nodes, each);
    SN_TRY(sn_resolve_auto(c, nodes * each, sn_site_machine(&s->site, c), err));
    int copy = sn_config_copy_ranks(l);
    int ranks = l->data ? copy * l->data : nodes ? nodes * each : copy;
    return sn_resolve_layout(c, ranks, err);
}

static enum sn_status take_nodes(struct submit *s, struct sn_err *err)
{
    struct sn_batch *b = &s->batch;
    int said = s->config.slurm.nodes, each = b->ranks_per_node;
    if (s->line.nodes && s->line.nodes != b->nodes) {
        sn_log(SN_LOG_INFO,
               "the layout has %d ranks, which are %d nodes of %d: sennit-run exec will replan for "
               "%lld",
               b->ranks, b->nodes, each, s->line.nodes);
        b->nodes = (int)s->line.nodes;
        return SN_OK;
    }
    if (!s->line.nodes && said && said != b->nodes)
        return sn_fail(err, SN_EINPUT,
                       "%s: slurm.nodes: %d nodes of %d ranks, but the layout has %d ranks; want "
                       "%d nodes, or layout.data: auto",
                       s->config.path, said, each, b->ranks, b->nodes);
    return SN_OK;
}

static enum sn_status take_paths(struct submit *s, struct sn_err *err)
{
    const char *output = s->config.run.output;
    ssize_t n = readlink("/proc/self/exe", s->program, sizeof(s->program) - 1);
    if (n <= 0 || !getcwd(s->directory, sizeof(s->directory)))
        return sn_fail(err, SN_EIO,
                       "sennit-run submit: cannot tell where it runs; change to a "
                       "directory that exists");
    s->program[n] = '\0';
    (void)snprintf(s->output, sizeof(s->output), "%s%s%s", output[0] == '/' ? "" : s->directory,
                   output[0] == '/' ? "" : "/", output);
    s->batch.directory = s->directory;
    s->batch.program = s->program;
    (void)snprintf(s->run_file, sizeof(s->run_file), "%s%s", *s->line.run_file == '-' ? "./" : "",
                   s->line.run_file); /* "--" is not needed then */
    s->batch.run_file = s->run_file;
    s->batch.site_name = s->line.site              ? s->line.site
                         : s->config.slurm.site[0] ? s->config.slurm.site
                                                   : s->site.name; /* detected, or generic */
    s->batch.output = s->output;
    return SN_OK;
}

/* Nodes that failed this run, or others that share its ledger. */
static enum sn_status avoid_nodes(struct submit *s, struct sn_err *err)
{
    struct sn_ledger ledger = {0};
    struct sn_str words = {0};
    const char *shared = s->config.slurm.ledger;
    char *path = *shared ? sn_strdup(shared) : sn_format("%s/nodes.jsonl", s->output);
    enum sn_status st = path ? sn_ledger_load(&ledger, path, (int64_t)time(NULL), err)
                             : sn_fail(err, SN_ENOMEM, "%s: no memory for a path", s->output);
    if (st == SN_OK)
        sn_batch_avoid(&s->config, &s->site, &ledger, &words);
    if (words.len && !words.failed)
        sn_log_lines(SN_LOG_INFO, words.p);
    sn_str_fini(&words);
    sn_ledger_fini(&ledger);
    sn_free(path);
    return st;
}

/* The site that is named, or the one that the environment tells of. */
static enum sn_status find_site(struct submit *s, struct sn_err *err)
{
    char by[SN_SITE_TEXT];
    const char *name = s->line.site;
    if (!name && !s->config.slurm.site[0] && sn_site_detect(s->detected, by, NULL)) {
        name = s->detected;
        sn_log(SN_LOG_INFO, "site: %s, by %s; slurm.site or --site names another", name, by);
    }
    return sn_site_of(&s->site, &s->config, name, NULL, err);
}

/* Seconds before the limit. Storage on a busy day takes many times what is planned: until the run
 * has measured a save, there are five minutes, but in a short job half of it at most. */
static int notice(const struct submit *s)
{
    const struct sn_slurm_config *l = &s->config.slurm;
    const struct sn_save_time *t = &s->plan.times;
    int64_t half = l->seconds / 2;
    int least = half && half < LEAST_NOTICE ? (int)half : LEAST_NOTICE;
    int want = t->save > 0 ? sn_save_notice(t, l->seconds) : least;
    return l->signal_before ? l->signal_before : t->is_measured || want > least ? want : least;
}

static enum sn_status ask_for(struct submit *s, struct sn_err *err)
{
    struct sn_config *c = &s->config;
    int each;
    SN_TRY(sn_config_load(c, s->line.run_file, NULL, err));
    SN_TRY(take_line(s, err));
    SN_TRY(find_site(s, err));
    SN_TRY(find_machine(s, err));
    const struct sn_batch_machine *machine = s->machine.name ? &s->machine : NULL;
    SN_TRY(sn_batch_ranks_per_node(&each, c, &s->site, machine, err));
    SN_TRY(resolve_layout(s, each, err));
    sn_batch_init(&s->batch, c, &s->site, machine, each);
    SN_TRY(take_nodes(s, err));
    SN_TRY(take_paths(s, err));
    SN_TRY(avoid_nodes(s, err));
    SN_TRY(sn_batch_check(&s->batch, err));
    SN_TRY(sn_submit_plan(&s->plan, c, &s->site, s->output, err));
    s->batch.signal_before = notice(s);
    return SN_OK;
}

/* --- what is said, and done ------------------------------------------------------------------- */

/* Plain Slurm, devices that may well be GPUs, and nothing that asks for them. */
static bool asks_for_no_gpus(const struct submit *s)
{
    const struct sn_slurm_config *l = &s->config.slurm;
    bool said = s->line.site || l->site[0] || s->detected[0];
    for (int i = 0; i < l->n_extra; i++)
        said = said || strstr(l->extra[i], "gpu");
    return !said && s->machine.name && s->config.run.backend != SN_BACKEND_CPU;
}

static void note(const struct submit *s)
{
    const struct sn_site_queue *q[] = {s->batch.partition, s->batch.qos};
    for (int i = 0; i < 2; i++)
        if (q[i] && q[i]->note[0])
            sn_log(SN_LOG_INFO, "%s: %s", q[i]->name, q[i]->note);
    if (s->site.status)
        sn_log(SN_LOG_WARN, "%s has retired; its profile is there for machines like it",
               s->site.name);
    if (asks_for_no_gpus(s))
        sn_log(SN_LOG_WARN,
               "no site is named, so the job asks for no GPUs, though a node of %s has %d "
               "devices; want slurm.site, or slurm.extra: [--gres=gpu:%d], or run.backend: cpu",
               s->machine.name, s->machine.devices, s->machine.devices);
}

static enum sn_status warn(const struct submit *s, struct sn_err *err)
{
    struct sn_preemption p;
    struct sn_str facts = {0}, warnings = {0};
    sn_preemption_init(&p);
    note(s);
    if (s->site.scheduler != SN_SCHED_SLURM)
        return SN_OK;
    SN_TRY(sn_preemption_ask(&p, s->batch.partition_name, err));
    sn_preemption_of_site(&p, &s->batch);
    sn_preemption_text(&facts, &p);
    sn_preemption_warn(&warnings, &p, &s->batch, &s->plan.times);
    if (!facts.failed && !warnings.failed) {
        sn_log_lines(SN_LOG_INFO, facts.p);
        sn_log_lines(SN_LOG_WARN, warnings.p);
    }
    sn_str_fini(&facts);
    sn_str_fini(&warnings);
    return SN_OK;
}

static enum sn_status make_script(struct submit *s, struct sn_err *err)
{
    SN_TRY(sn_render_shipped(&s->script, &s->batch, NULL, err));
    SN_TRY(sn_environment_own(&s->own, err));
    SN_TRY(sn_scrub(&s->with, &s->own, s->script.p, err));
    for (int i = 0; i < s->with.n_removed; i++)
        sn_log(SN_LOG_INFO, "not passed on: %s", s->with.removed[i]);
    return SN_OK;
}

static enum sn_status record(const struct submit *s, const char *job, int k, struct sn_err *err)
{
    struct sn_str line = {0};
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail */
    char *path = sn_format("%s/submitted.jsonl", s->output);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a path", s->output);
    sn_jsonl_real(&line, "time", (double)now.tv_sec);
    sn_jsonl_text(&line, "job", job);
    sn_jsonl_text(&line, "site", s->site.name);
    sn_jsonl_text(&line, "run_file", s->line.run_file);
    sn_jsonl_int(&line, "nodes", s->batch.nodes + s->config.slurm.spares);
    sn_jsonl_int(&line, "ranks", s->batch.ranks);
    sn_jsonl_int(&line, "chain", k + 1);
    sn_jsonl_text(&line, "version", SN_VERSION);
    enum sn_status st = sn_jsonl_append(path, &line, err);
    sn_free(path);
    return st;
}

static enum sn_status submit_all(const struct submit *s, const char *path, struct sn_err *err)
{
    struct sn_submission x = {.scheduler = s->site.scheduler, .script = path, .with = &s->with};
    char job[SN_SUBMIT_JOB];
    for (int k = 0; k < s->config.slurm.chain; k++) {
        SN_TRY(sn_submit(job, &x, err));
        (void)printf("%s\n", job);
        (void)fflush(stdout);
        x.after = job;
        SN_TRY(record(s, job, k, err));
    }
    sn_log(SN_LOG_INFO, "submitted for %s: %d node%s, %d ranks; script: %s", s->site.name,
           s->batch.nodes + s->config.slurm.spares,
           s->batch.nodes + s->config.slurm.spares == 1 ? "" : "s", s->batch.ranks, path);
    return SN_OK;
}

static enum sn_status test(const struct submit *s, const char *path, struct sn_err *err)
{
    const struct sn_submission x = {
        .scheduler = s->site.scheduler, .script = path, .with = &s->with};
    struct sn_str words = {0};
    enum sn_status st = sn_submit_test(&words, &x, err);
    if (st == SN_OK && words.len)
        sn_log_lines(SN_LOG_INFO, words.p);
    else if (st == SN_OK)
        sn_log(SN_LOG_INFO, "%s cannot say beforehand whether it takes a job",
               sn_scheduler_name(x.scheduler));
    sn_str_fini(&words);
    return st;
}

static enum sn_status write_and_submit(struct submit *s, struct sn_err *err)
{
    char temporary[] = "/tmp/sennit-batch-XXXXXX";
    char *path = NULL;
    if (s->line.test_only) {
        int fd = mkstemp(temporary);
        if (fd < 0)
            return sn_fail(err, SN_EIO, "%s: cannot be made; want room in /tmp", temporary);
        (void)close(fd); /* nothing was written yet */
    } else {
        SN_TRY(sn_directory_make(s->output, "run.output", err));
    }
    path = s->line.test_only ? sn_strdup(temporary) : sn_format("%s/batch.sh", s->output);
    enum sn_status st = path ? sn_file_save(path, s->script.p, s->script.len, err)
                             : sn_fail(err, SN_ENOMEM, "%s: no memory for a path", s->output);
    if (st == SN_OK)
        st = test(s, path, err);
    if (st == SN_OK && !s->line.test_only)
        st = submit_all(s, path, err);
    if (s->line.test_only)
        (void)unlink(temporary);
    sn_free(path);
    return st;
}

/* What was looked at, and whether it may be submitted. */
static enum sn_status judge(struct submit *s, struct sn_err *err)
{
    const struct sn_submit_findings *f = &s->findings;
    SN_TRY(sn_submit_look(&s->findings, &s->batch, &s->plan, err));
    for (const char *at = f->good.p; at && *at; at += strcspn(at, "\n") + 1) /* lines end all */
        sn_log(SN_LOG_INFO, "ok: %.*s", (int)strcspn(at, "\n"), at);
    sn_log_lines(SN_LOG_WARN, f->doubtful.p);
    sn_log_lines(SN_LOG_WARN, f->bad.p);
    if (!f->bad.len || s->line.force)
        return SN_OK;
    if (!s->line.print)
        return sn_fail(err, SN_EINPUT,
                       "%s: not submitted, for what is said above; mend it, or "
                       "submit with --force",
                       s->config.path);
    sn_log(SN_LOG_WARN, "%s: would not be submitted, for what is said above", s->config.path);
    return SN_OK;
}

static enum sn_status submit(struct submit *s, struct sn_err *err)
{
    SN_TRY(ask_for(s, err));
    SN_TRY(make_script(s, err));
    SN_TRY(judge(s, err));
    SN_TRY(warn(s, err));
    if (!s->line.print)
        return write_and_submit(s, err);
    (void)fputs(s->script.p, stdout);
    return SN_OK;
}

int sn_run_submit(int argc, char **argv)
{
    struct sn_err err = {0};
    struct submit *s = sn_alloc(sizeof(*s)); /* large for a stack */
    enum sn_status st =
        s ? parse_line(argc, argv, &s->line, &err)
          : sn_fail(&err, SN_ENOMEM, "sennit-run submit: no memory for a configuration");
    bool help = s && st == SN_OK && s->line.help;
    if (help)
        (void)fputs(usage, stdout);
    else if (st == SN_OK)
        st = submit(s, &err);
    if (s) {
        sn_scrubbed_fini(&s->with);
        sn_environment_fini(&s->own);
        sn_str_fini(&s->script);
        sn_submit_findings_fini(&s->findings);
        sn_site_fini(&s->site);
    }
    sn_free(s);
    return st == SN_OK ? 0 : sn_report(&err);
}
