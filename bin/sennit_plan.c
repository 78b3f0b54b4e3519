/*
 * sennit_plan.c - the command line of sennit-plan: check a run file, show what it compiles to.
 */
#include "bin/common.h"
#include "lib/base/mem.h"
#include "lib/base/log.h"
#include "lib/program/verify.h"
#include "lib/run/metrics.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: sennit-plan RUN.yaml [options]\n"
    "\n"
    "Checks the run file, compiles its step and prints the memory and traffic of one rank.\n"
    "  --ranks N            plan for N ranks (default: layout.data, or 1)\n"
    "  --json               one JSON object\n"
    "  --verify             prove that no rank waits for ever\n"
    "  --explain RANK       print the program of this rank\n"
    "  --program NAME       which: train (default), evaluate or generate\n"
    "  --help-keys[=markdown]  every key of the run file with its default and meaning\n"
    "  --help, --version\n"
    "\n"
    "Step time and MFU are null until the cost model is built. Exit 0: done, 1: --verify "
    "refutes the\nlayout, 2: bad usage or input.\n";

enum { RANKS = 256, JSON, VERIFY, EXPLAIN, PROGRAM, HELP_KEYS, HELP, VERSION };

struct line {
    const char *run_file, *program;
    long long ranks, explain; /* 0, -1: not asked */
    bool json, verify, help, version, keys, markdown;
};

static enum sn_status parse_option(int code, char **argv, struct line *l, struct sn_err *err)
{
    switch (code) {
    case RANKS:
        return sn_parse_number("--ranks", optarg, 1, 1 << 24, &l->ranks, err);
    case EXPLAIN:
        return sn_parse_number("--explain", optarg, 0, 1 << 24, &l->explain, err);
    case JSON:
        l->json = true;
        return SN_OK;
    case VERIFY:
        l->verify = true;
        return SN_OK;
    case PROGRAM:
        l->program = optarg;
        return SN_OK;
    case HELP_KEYS:
        l->keys = true;
        l->markdown = optarg && strcmp(optarg, "markdown") == 0;
        if (optarg && !l->markdown)
            return sn_fail(err, SN_EINPUT,
                           "--help-keys: '%s' is no format; want markdown or nothing", optarg);
        return SN_OK;
    case HELP:
        l->help = true;
        return SN_OK;
    case VERSION:
        l->version = true;
        return SN_OK;
    default:
        return sn_fail(err, SN_EINPUT, "sennit-plan: %s %s; see sennit-plan --help",
                       code == ':' ? "no value after" : "unknown option", argv[optind - 1]);
    }
}

static enum sn_status parse_line(int argc, char **argv, struct line *l, struct sn_err *err)
{
    static const struct option options[] = {{"ranks", required_argument, NULL, RANKS},
                                            {"json", no_argument, NULL, JSON},
                                            {"verify", no_argument, NULL, VERIFY},
                                            {"explain", required_argument, NULL, EXPLAIN},
                                            {"program", required_argument, NULL, PROGRAM},
                                            {"help-keys", optional_argument, NULL, HELP_KEYS},
                                            {"help", no_argument, NULL, HELP},
                                            {"version", no_argument, NULL, VERSION},
                                            {0}};
    *l = (struct line){.explain = -1, .program = "train"};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;)
        SN_TRY(parse_option(code, argv, l, err));
    if (l->help || l->version || l->keys)
        return SN_OK;
    if (argc - optind != 1)
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan: want one run file, got %d; see sennit-plan --help",
                       argc - optind);
    if (l->verify && l->explain >= 0)
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan: --explain prints a program and --verify a verdict; want one "
                       "of them");
    l->run_file = argv[optind];
    return SN_OK;
}

struct plan {
    struct sn_memory_plan memory;
    int64_t traffic[SN_NAXES]; /* summed over ranks */
    int64_t limit;             /* of one rank, if all of them run on this host */
    int ranks, micros;
    bool verify, verified;
    int played; /* ranks of the grid that was verified */
    struct sn_err fault;
};

/* The job of the first rank of a pipeline stage: all ranks of a stage have the same text. */
static enum sn_status stage_job(struct sn_job **job, const struct sn_config *c,
                                const struct sn_model *model, int rank, struct sn_err *err)
{
    struct sn_job_env env = {.config = c,
                             .model = model,
                             .ops = sn_ops_cpu(),
                             .threads = sn_threads(c, sn_config_ranks(c)),
                             .rank = rank};
    return sn_job_create(job, &env, err);
}

/* Memory of the stage that needs most, traffic of all. */
static enum sn_status make_plan(struct plan *p, const struct sn_config *c,
                                const struct sn_model *model, struct sn_err *err)
{
    *p = (struct plan){.ranks = sn_config_ranks(c)};
    for (int stage = 0; stage < c->layout.pipeline; stage++) {
        struct sn_job *j;
        struct sn_memory_plan m;
        int64_t bytes[SN_NAXES];
        SN_TRY(stage_job(&j, c, model, 0, err));
        int rank = stage * j->grid.stride[SN_AXIS_PIPELINE];
        sn_job_destroy(j);
        SN_TRY(stage_job(&j, c, model, rank, err));
        sn_job_memory(j, &m);
        sn_job_traffic_of_stage(j, bytes);
        p->micros = j->train.micros;
        sn_job_destroy(j);
        if (m.total > p->memory.total)
            p->memory = m;
        for (int a = 0; a < SN_NAXES; a++)
            p->traffic[a] += bytes[a];
    }
    p->limit = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / p->ranks;
    return SN_OK;
}

/* A job per pipeline stage stands for all ranks of the stage. */
static enum sn_status stage_jobs(struct sn_job **stage, const struct sn_config *c,
                                 const struct sn_model *model, struct sn_err *err)
{
    SN_TRY(stage_job(&stage[0], c, model, 0, err));
    for (int s = 1; s < c->layout.pipeline; s++)
        SN_TRY(stage_job(&stage[s], c, model, s * stage[0]->grid.stride[SN_AXIS_PIPELINE], err));
    return SN_OK;
}

static enum sn_status play(struct plan *p, struct sn_job *const *stage, struct sn_err *err)
{
    struct sn_grid grid = sn_verify_grid(&stage[0]->grid);
    p->played = sn_grid_ranks(&grid);
    const struct sn_job **jobs = sn_alloc_n((size_t)p->played, sizeof(*jobs));
    if (!jobs)
        return sn_fail(err, SN_ENOMEM, "--verify: no memory for %d ranks", p->played);
    for (int i = 0; i < p->played; i++)
        jobs[i] = stage[sn_grid_coord(&grid, i, SN_AXIS_PIPELINE)];
    enum sn_status st = sn_verify(&(struct sn_verify_world){&grid, jobs}, NULL, err);
    sn_free(jobs);
    return st;
}

/* A refuted layout is a result, not a failure. */
static enum sn_status verify_plan(struct plan *p, const struct sn_config *c,
                                  const struct sn_model *model, struct sn_err *err)
{
    struct sn_job **stage = sn_alloc_n((size_t)c->layout.pipeline, sizeof(*stage));
    if (!stage)
        return sn_fail(err, SN_ENOMEM, "--verify: no memory for %d stages", c->layout.pipeline);
    enum sn_status st = stage_jobs(stage, c, model, err);
    if (st == SN_OK) {
        st = play(p, stage, &p->fault);
        p->verified = st == SN_OK;
        if (st == SN_EFAIL)
            st = SN_OK;
        else if (st != SN_OK)
            *err = p->fault;
    }
    for (int s = 0; s < c->layout.pipeline; s++)
        sn_job_destroy(stage[s]);
    sn_free(stage);
    return st;
}

static enum sn_status print_fault_json(const struct plan *p, struct sn_err *err)
{
    struct sn_str text = {0};
    sn_str_add_json(&text, p->fault.text);
    enum sn_status st =
        text.failed ? sn_fail(err, SN_ENOMEM, "--verify: no memory for the text") : SN_OK;
    if (st == SN_OK && p->verified)
        (void)printf(", \"verified\": true, \"fault\": null");
    else if (st == SN_OK)
        (void)printf(", \"verified\": false, \"fault\": %s", text.p);
    sn_str_fini(&text);
    return st;
}

static void print_verdict(const struct plan *p)
{
    if (!p->verified)
        (void)printf("refuted: %s\n", p->fault.text);
    else
        (void)printf("verified: no rank waits for ever, no memory is used while it is sent or "
                     "received (%d rank%s)\n",
                     p->played, p->played == 1 ? "" : "s");
    if (p->played != p->ranks)
        (void)printf("  %d ranks stand for %d: a program does not depend on the places on the "
                     "axes that were shrunk\n",
                     p->played, p->ranks);
}

static enum sn_status print_json(const struct sn_config *c, const struct sn_model *model,
                                 const struct plan *p, struct sn_err *err)
{
    (void)printf("{\"layout\": {\"data\": %d, \"tensor\": %d, \"pipeline\": %d, \"expert\": %d, "
                 "\"context\": %d, \"micro_batch\": %d, \"zero\": %d, \"bucket\": %lld}, ",
                 c->layout.data, c->layout.tensor, c->layout.pipeline, c->layout.expert,
                 c->layout.context, c->layout.micro_batch, c->layout.zero,
                 (long long)c->layout.bucket);
    (void)printf("\"parameters\": %lld, \"step_time_s\": null, \"mfu\": null, "
                 "\"tokens_per_s\": null, \"fits\": %s, ",
                 (long long)sn_model_param_count(model),
                 p->memory.total <= p->limit ? "true" : "false");
    sn_metrics_json_memory(stdout, &p->memory);
    (void)printf(", \"memory_limit_bytes\": %lld, \"bubble_fraction\": 0, ", (long long)p->limit);
    sn_metrics_json_traffic(stdout, p->traffic);
    (void)printf(", \"traffic_by_level\": null, \"exposed_comm_s\": null");
    enum sn_status st = p->verify ? print_fault_json(p, err) : SN_OK;
    (void)printf("}\n");
    return st;
}

static void row(const char *name, int64_t bytes)
{
    char size[16];
    (void)printf("  %-12s %16lld  %s\n", name, (long long)bytes, sn_str_bytes(size, bytes));
}

static void print_text(const struct sn_config *c, const struct sn_model *model,
                       const struct plan *p)
{
    const struct sn_memory_plan *m = &p->memory;
    (void)printf("%s: %s, %lld parameters, %s\n", c->run.name, sn_family_name(c->model.family),
                 (long long)sn_model_param_count(model), sn_dtype_name(c->train.precision));
    (void)printf("layout: data %d x tensor %d x context %d x pipeline %d, micro_batch %d, %d "
                 "micro-batches a step\n",
                 c->layout.data, c->layout.tensor, c->layout.context, c->layout.pipeline,
                 c->layout.micro_batch, p->micros);
    (void)printf("memory of the worst rank, bytes\n");
    row("params", m->params);
    row("grads", m->grads);
    row("optimizer", m->optimizer);
    row("activations", m->activations);
    row("workspace", m->workspace);
    row("comm", m->comm);
    row("library", m->library);
    row("total", m->total);
    (void)printf("traffic of one step over all ranks, bytes\n");
    for (int a = 0; a < SN_NAXES; a++)
        if (p->traffic[a])
            row(sn_axis_name((enum sn_axis)a), p->traffic[a]);
    if (p->ranks == 1)
        (void)printf("  none: one rank\n");
    char total[16], limit[16];
    (void)printf("%s: a rank needs %s of %s (this host's memory over %d ranks)\n",
                 m->total <= p->limit ? "fits" : "does not fit", sn_str_bytes(total, m->total),
                 sn_str_bytes(limit, p->limit), p->ranks);
    if (p->verify)
        print_verdict(p);
}

static enum sn_status explain(const struct sn_config *c, const struct sn_model *model,
                              const struct line *l, struct sn_err *err)
{
    struct sn_job *j;
    int ranks = sn_config_ranks(c);
    if (l->explain >= ranks)
        return sn_fail(err, SN_EINPUT, "--explain: there is no rank %lld; the layout has 0..%d",
                       l->explain, ranks - 1);
    SN_TRY(stage_job(&j, c, model, (int)l->explain, err));
    const struct sn_program *set[] = {&j->train, &j->evaluate, &j->generate}, *p = NULL;
    for (int i = 0; i < 3; i++)
        if (strcmp(set[i]->name, l->program) == 0 && set[i]->n_ops > 0)
            p = set[i];
    enum sn_status st = SN_OK;
    struct sn_str text = {0};
    if (p)
        sn_program_print(&text, j, p);
    if (!p)
        st = sn_fail(err, SN_EINPUT,
                     "--program: '%s' is none; want train, evaluate or, for a job of one rank, "
                     "generate",
                     l->program);
    else if (text.failed)
        st = sn_fail(err, SN_ENOMEM, "--explain: no memory for the text");
    else
        (void)fputs(text.p, stdout);
    sn_str_fini(&text);
    sn_job_destroy(j);
    return st;
}

static enum sn_status report_plan(const struct sn_config *c, const struct sn_model *model,
                                  const struct line *l, bool *refuted, struct sn_err *err)
{
    struct plan p;
    SN_TRY(make_plan(&p, c, model, err));
    p.verify = l->verify;
    if (p.verify)
        SN_TRY(verify_plan(&p, c, model, err));
    *refuted = p.verify && !p.verified;
    if (l->json)
        return print_json(c, model, &p, err);
    print_text(c, model, &p);
    return SN_OK;
}

static enum sn_status report(const struct sn_config *c, const struct line *l, bool *refuted,
                             struct sn_err *err)
{
    struct sn_model *model = NULL;
    SN_TRY(sn_model_create(&model, &c->model, &c->train, err));
    enum sn_status st =
        l->explain >= 0 ? explain(c, model, l, err) : report_plan(c, model, l, refuted, err);
    sn_model_destroy(model);
    return st;
}

static enum sn_status print_keys(bool markdown, struct sn_err *err)
{
    struct sn_str text = {0};
    sn_config_help(&text, markdown);
    bool failed = text.failed;
    if (!failed)
        (void)fputs(text.p, stdout);
    sn_str_fini(&text);
    return failed ? sn_fail(err, SN_ENOMEM, "--help-keys: no memory for the text") : SN_OK;
}

int main(int argc, char **argv)
{
    struct sn_err err = {0};
    struct sn_config config;
    struct line l;
    bool refuted = false;
    enum sn_status st = parse_line(argc, argv, &l, &err);
    if (st == SN_OK && (l.help || l.version)) {
        (void)fputs(l.help ? usage : "sennit-plan " SN_VERSION "\n", stdout);
        return 0;
    }
    if (st == SN_OK && l.keys) {
        st = print_keys(l.markdown, &err);
        return st == SN_OK ? 0 : sn_report(&err);
    }
    if (st == SN_OK)
        st = sn_config_load(&config, l.run_file, NULL, &err);
    if (st == SN_OK) {
        int copy = config.layout.tensor * config.layout.context * config.layout.pipeline;
        int ranks = l.ranks ? (int)l.ranks : config.layout.data ? copy * config.layout.data : copy;
        st = sn_config_resolve_ranks(&config, ranks, &err);
    }
    if (st == SN_OK)
        st = report(&config, &l, &refuted, &err);
    return st != SN_OK ? sn_report(&err) : refuted ? sn_exit_code(SN_EFAIL) : 0;
}
