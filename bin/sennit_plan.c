/*
 * sennit_plan.c - the command line of sennit-plan: check a run file, show what it compiles to.
 */
#include "bin/common.h"
#include "bin/inputs.h"
#include "bin/plan_calibrate.h"
#include "bin/plan_campaign.h"
#include "bin/plan_list.h"
#include "bin/plan_pictures.h"
#include "bin/plan_print.h"
#include "bin/plan_search.h"
#include "bin/plan_study.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/plain.h"
#include "lib/config/batch.h"
#include "lib/exec/threads.h"
#include "lib/machine/named.h"
#include "lib/search/planned.h"
#include "lib/search/resolve.h"
#include "slurm/supervisor/supervise.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: sennit-plan RUN.yaml [options]\n"
    "       sennit-plan search RUN.yaml [options]    the best layouts; see search --help\n"
    "       sennit-plan campaign RUN.yaml [options]  what the whole run costs; see campaign "
    "--help\n"
    "       sennit-plan study RUN.yaml [options]     what each choice of a layout is worth; see "
    "study --help\n"
    "       sennit-plan calibrate [RUN.yaml...] [-o MACHINE.yaml]    (see calibrate --help)\n"
    "\n"
    "Checks the run file, compiles its step, plays it on the machine that the file names and "
    "prints\n"
    "its time, memory and traffic; looks at the token files, checkpoints and weights that are "
    "here.\n"
    "  --ranks N            plan for N ranks (default: layout.data, or 1)\n"
    "  --json               one JSON object\n"
    "  --verify             prove that no rank waits for ever\n"
    "  --activations        what each pipeline stage keeps for backward, tensor by tensor\n"
    "  --explain RANK       print the program of this rank\n"
    "  --operations[=RANK]  each operation of its program: shape, bytes, FLOPs (default: rank 0)\n"
    "  --program NAME       which: train (default), evaluate, generate or\n"
    "                       generate_row (a token of it, over keys and values that are kept)\n"
    "  --svg FILE           draw the pipeline, memory over time and where time goes\n"
    "  --report FILE        all of it as one page of HTML: rivals of the layout, and what-ifs, "
    "too\n"
    "  --trace FILE         the simulated step for Perfetto (Chrome's trace format)\n"
    "  --timeline           the pipeline as text\n"
    "  --mtbf-hours N       mean time between failures of a node, for the checkpoint interval\n"
    "  --storage RATE       bytes a second that all nodes write together, such as 50GB\n"
    "  --help-keys[=markdown]  every key of the run file with its default and meaning\n"
    "  --help-keys=machines the same of machine files and software profiles, as a page\n"
    "  --help-keys=sites    the same of site profiles, as a page\n"
    "  --help-keys=huggingface what a Hugging Face config.json's keys are here, as a page\n"
    "  --list WHAT          names of what ships: models, machines, sites, software or runs\n"
    "  --help, --version\n"
    "\n"
    "Exit 0: done, 1: the layout does not fit, or --verify refutes it, 2: bad usage or input, or "
    "files\n"
    "that the run cannot use.\n";

enum {
    RANKS = 256,
    JSON,
    VERIFY,
    ACTIVATIONS,
    EXPLAIN,
    OPERATIONS,
    PROGRAM,
    SVG,
    REPORT,
    TRACE,
    TIMELINE,
    MTBF,
    STORAGE,
    HELP_KEYS,
    LIST,
    HELP,
    VERSION
};

struct line {
    const char *run_file, *program; /* program NULL: train */
    long long ranks, explain;       /* 0, -1: not asked */
    double mtbf_hours;              /* 0: as the machine says */
    int64_t storage;                /* bytes a second; 0: as the machine says */
    struct sn_pictures pictures;
    struct sn_plan_lists lists;
    bool json, verify, activations, explained, operations, help, version;
    bool is_searched;        /* layout: auto, whose search has said what it was made with */
    struct sn_config *asked; /* for a report: before open keys are resolved */
    char command[1024];
};

static enum sn_status parse_option(int code, char **argv, struct line *l, struct sn_err *err)
{
    switch (code) {
    case RANKS:
        return sn_parse_number("--ranks", optarg, 1, 1 << 24, &l->ranks, err);
    case EXPLAIN:
        l->explained = true;
        return sn_parse_number("--explain", optarg, 0, 1 << 24, &l->explain, err);
    case OPERATIONS:
        l->operations = true;
        l->explain = 0;
        return optarg ? sn_parse_number("--operations", optarg, 0, 1 << 24, &l->explain, err)
                      : SN_OK;
    case JSON:
        l->json = true;
        return SN_OK;
    case VERIFY:
        l->verify = true;
        return SN_OK;
    case ACTIVATIONS:
        l->activations = true;
        return SN_OK;
    case PROGRAM:
        l->program = optarg;
        return SN_OK;
    case SVG:
        l->pictures.svg = optarg;
        return SN_OK;
    case REPORT:
        l->pictures.report = optarg;
        return sn_plan_pictures_check(&l->pictures, err);
    case TRACE:
        l->pictures.trace = optarg;
        return SN_OK;
    case TIMELINE:
        l->pictures.timeline = true;
        return SN_OK;
    case MTBF:
        return sn_parse_real("--mtbf-hours", optarg, 1e-3, 1e9, &l->mtbf_hours, err);
    case STORAGE:
        return sn_parse_bytes("--storage", optarg, 1, &l->storage, err);
    case HELP_KEYS:
        return sn_plan_parse_keys(&l->lists, optarg, err);
    case LIST:
        return sn_plan_parse_list(&l->lists, optarg, err);
    case HELP:
        l->help = true;
        return SN_OK;
    case VERSION:
        l->version = true;
        return SN_OK;
    default:
        return sn_refuse_option("sennit-plan", code, argv, err);
    }
}

/* Of the options that a plan alone has, one that is asked for; NULL: none. */
static const char *of_the_plan(const struct line *l)
{
    return l->pictures.report     ? "--report"
           : l->pictures.svg      ? "--svg"
           : l->pictures.trace    ? "--trace"
           : l->pictures.timeline ? "--timeline"
           : l->verify            ? "--verify"
           : l->mtbf_hours > 0    ? "--mtbf-hours"
           : l->storage           ? "--storage"
                                  : NULL;
}

/* What does not go together. */
static enum sn_status check_line(const struct line *l, struct sn_err *err)
{
    const char *program = l->operations ? "--operations" : l->explained ? "--explain" : NULL;
    const char *printed = program ? program : l->activations ? "--activations" : NULL;
    if (l->operations && l->explained)
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan: --explain and --operations both print a program; want one of "
                       "them, such as --operations=RANK");
    if (program && l->activations)
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan: %s prints a program and --activations what is kept; want one "
                       "of them",
                       program);
    if (printed && of_the_plan(l))
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan: %s is of the plan, %s prints something else; want one of them",
                       of_the_plan(l), printed);
    if (l->program && !program)
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan: --program says which program is printed; want --explain RANK "
                       "or --operations, too");
    if (l->json && (program || l->pictures.timeline))
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan: %s prints text and --json an object; want one of them",
                       program ? program : "--timeline");
    return SN_OK;
}

static enum sn_status parse_line(int argc, char **argv, struct line *l, struct sn_err *err)
{
    static const struct option options[] = {{"ranks", required_argument, NULL, RANKS},
                                            {"json", no_argument, NULL, JSON},
                                            {"verify", no_argument, NULL, VERIFY},
                                            {"activations", no_argument, NULL, ACTIVATIONS},
                                            {"explain", required_argument, NULL, EXPLAIN},
                                            {"operations", optional_argument, NULL, OPERATIONS},
                                            {"program", required_argument, NULL, PROGRAM},
                                            {"svg", required_argument, NULL, SVG},
                                            {"report", required_argument, NULL, REPORT},
                                            {"trace", required_argument, NULL, TRACE},
                                            {"timeline", no_argument, NULL, TIMELINE},
                                            {"mtbf-hours", required_argument, NULL, MTBF},
                                            {"storage", required_argument, NULL, STORAGE},
                                            {"help-keys", optional_argument, NULL, HELP_KEYS},
                                            {"list", required_argument, NULL, LIST},
                                            {"help", no_argument, NULL, HELP},
                                            {"version", no_argument, NULL, VERSION},
                                            {0}};
    *l = (struct line){.explain = -1};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;)
        SN_TRY(parse_option(code, argv, l, err));
    if (l->help || l->version)
        return SN_OK;
    if (l->lists.keys || l->lists.list)
        return sn_plan_check_list(&l->lists, argc, argv, err);
    SN_TRY(sn_parse_operand(&l->run_file, "sennit-plan", "run file", argc, argv, err));
    SN_TRY(check_line(l, err));
    if (!l->program)
        l->program = "train";
    return SN_OK;
}

/* What the run costs on a machine. */
struct costs {
    struct sn_machine machine;
    struct sn_software software;
    struct sn_pricer pricer;
};

static enum sn_status costs_init(struct costs *c, const struct sn_job *j, const struct line *l,
                                 struct sn_err *err)
{
    SN_TRY(sn_machine_of(&c->machine, j->config, NULL, err));
    if (l->mtbf_hours > 0)
        c->machine.mtbf_hours = l->mtbf_hours;
    if (l->storage) {
        c->machine.storage_write = (double)l->storage;
        c->machine.storage_node = 0;
    }
    SN_TRY(sn_software_of(&c->software, j->config, NULL, err));
    sn_pricer_init(&c->pricer, &c->machine, &c->software, j);
    return SN_OK;
}

/* What the rank's stage waits for, where a machine says how long that takes. */
static enum sn_status explain_waits(const struct sn_job_env *env, const struct line *l, int stage,
                                    struct sn_err *err)
{
    struct sn_stages stages;
    struct costs costs = {0};
    struct sn_waits waits = {0};
    SN_TRY(sn_stages_create(&stages, env, err));
    enum sn_status st = costs_init(&costs, stages.job[0], l, err);
    if (st == SN_OK)
        st = sn_waits_find(&waits, &stages, &costs.pricer, stage, err);
    if (st == SN_OK)
        st = sn_plan_print_waits(&waits, err);
    sn_waits_fini(&waits);
    sn_machine_fini(&costs.machine);
    sn_stages_fini(&stages);
    return st;
}

/* Has it tensor and pipeline ranks alone, with whole rows, as sennit-train --generate has? */
static bool writes_text(const struct sn_layout_config *l)
{
    return l->data == 1 && l->context == 1 && l->tensor_x == 1 && l->expert <= 1 &&
           l->virtual_stages <= 1 && !l->sequence_parallel;
}

static enum sn_status explain(const struct sn_job_env *env, const struct line *l,
                              struct sn_err *err)
{
    struct sn_job *j;
    struct sn_job_env e = *env;
    int ranks = sn_config_ranks(env->config);
    if (l->explain >= ranks)
        return sn_fail(err, SN_EINPUT, "%s: there is no rank %lld; the layout has 0..%d",
                       l->operations ? "--operations" : "--explain", l->explain, ranks - 1);
    e.rank = (int)l->explain;
    e.keeps_past = strncmp(l->program, "generate", strlen("generate")) == 0;
    e.generates = e.keeps_past && writes_text(&env->config->layout);
    SN_TRY(sn_job_create(&j, &e, err));
    struct costs costs = {0};
    enum sn_status st = SN_OK;
    if (l->operations)
        st = costs_init(&costs, j, l, err);
    if (st == SN_OK)
        st = l->operations ? sn_plan_print_operations(j, &costs.pricer, l->program, err)
                           : sn_plan_print_program(j, l->program, err);
    if (st == SN_OK && !l->operations && strcmp(l->program, j->train.name) == 0 &&
        sn_names_machine(env->config))
        st = explain_waits(env, l, j->stage, err);
    sn_machine_fini(&costs.machine);
    sn_job_destroy(j);
    return st;
}

/* With steps of smaller batches, where there are some, and what each stage does. */
static enum sn_status print_plan(struct sn_plan_report *r, struct sn_page *page,
                                 const struct line *l, struct sn_stages *s, struct sn_err *err)
{
    int n = sn_batch_sizes(&s->job[0]->config->train) - 1;
    struct sn_plan *ramp = n > 0 ? sn_alloc_n((size_t)n, sizeof(*ramp)) : NULL;
    struct sn_plan_stage *stage = sn_alloc_n((size_t)s->n, sizeof(*stage));
    enum sn_status st = (n > 0 && !ramp) || !stage
                            ? sn_fail(err, SN_ENOMEM, "no memory for a plan of %d stages", s->n)
                            : sn_plan_stages(stage, s, r->pricer, err);
    for (int k = 0; k < n && st == SN_OK; k++)
        st = sn_plan_of_batch(&ramp[k], s, r->pricer, k, err);
    r->ramp = ramp;
    page->stage = r->stage = stage;
    if (st == SN_OK)
        st = sn_plan_print(r, err);
    if (st == SN_OK && r->plan->memory.total > r->limit && !r->json && !l->pictures.report)
        sn_plan_hint(s->job[0]->config, r->pricer->machine, r->pricer->software, r->limit);
    if (st == SN_OK)
        st = sn_plan_pictures(&l->pictures, page, err);
    sn_free(stage);
    sn_free(ramp);
    return st;
}

static enum sn_status plan(struct sn_stages *s, const struct sn_job_env *env,
                           const struct costs *costs, const struct line *l, bool *good,
                           struct sn_err *err)
{
    const struct sn_config *c = s->job[0]->config;
    struct sn_plan p;
    struct sn_goodput g;
    struct sn_proof proof = {0};
    struct sn_meaning_proof meaning = {0};
    if (l->verify) /* before a clock plays what may not end */
        SN_TRY(sn_stages_prove_all(&proof, s, err));
    if (l->verify && proof.holds)
        SN_TRY(sn_meaning_prove(&meaning, env, err));
    if (meaning.holds)
        SN_TRY(sn_stages_certificate(&meaning.certificate, s, err));
    SN_TRY(sn_plan_make(&p, s, &costs->pricer, err));
    p.proof = proof;
    p.meaning = meaning;
    SN_TRY(sn_plan_without_codecs(&p, env, &costs->machine, &costs->software, err));
    int64_t said = sn_names_machine(c) ? sn_memory_limit(&costs->machine, c) : 0;
    int64_t limit = said ? said : sn_host_limit(p.ranks);
    /* A machine that is not named may be any: this host's memory is a hint, no verdict. */
    *good = (!said || p.memory.total <= said) && (!proof.is_asked || proof.holds) &&
            (!meaning.is_asked || meaning.gap || meaning.holds);
    sn_goodput_find(&g, s, &costs->machine, p.step_time);
    struct sn_page page = {.asked = l->asked,
                           .is_searched = l->is_searched,
                           .plan = &p,
                           .stages = s,
                           .pricer = &costs->pricer,
                           .goodput = &g,
                           .limit = limit,
                           .is_hosts = said == 0,
                           .ops = env->ops,
                           .threads = env->threads,
                           .command = l->command,
                           .version = SN_VERSION,
                           .notice = sn_supervise_margin};
    struct sn_plan_report report = {.plan = &p,
                                    .stages = s,
                                    .pricer = &costs->pricer,
                                    .goodput = &g,
                                    .limit = limit,
                                    .is_hosts = said == 0,
                                    .json = l->json};
    return print_plan(&report, &page, l, s, err);
}

/* What is asked for of the compiled stages. */
static enum sn_status report_all(const struct sn_job_env *env, const struct line *l, bool *good,
                                 struct sn_err *err)
{
    struct sn_stages stages;
    struct costs costs = {0};
    SN_TRY(sn_stages_create(&stages, env, err));
    enum sn_status st = SN_OK;
    if (l->activations)
        st = sn_plan_print_activations(&stages, l->json, err);
    else
        st = costs_init(&costs, stages.job[0], l, err);
    if (st == SN_OK && !l->activations)
        st = plan(&stages, env, &costs, l, good, err);
    sn_machine_fini(&costs.machine);
    sn_stages_fini(&stages);
    return st;
}

/* The files that the run will read, as far as they are on this host. */
static enum sn_status look(const struct sn_config *c, const struct line *l, struct sn_err *err)
{
    struct sn_inputs in;
    struct sn_str text = {0}, warnings = {0};
    SN_TRY(sn_inputs_look(&in, c, err));
    sn_inputs_text(&text, &in, c);
    sn_inputs_warn(&warnings, &in, c);
    bool failed = text.failed || warnings.failed;
    sn_plain_lines(text.p);
    if (!failed && text.p && !l->json)
        (void)fputs(text.p, stdout);
    if (!failed)
        sn_log_lines(SN_LOG_WARN, warnings.p);
    sn_str_fini(&text);
    sn_str_fini(&warnings);
    return failed ? sn_fail(err, SN_ENOMEM, "%s: no memory to look at its files", c->path) : SN_OK;
}

static enum sn_status report(const struct sn_config *c, const struct line *l, bool *good,
                             struct sn_err *err)
{
    struct sn_model *model = NULL;
    struct sn_accelerator plugin;
    SN_TRY(sn_model_create(&model, &c->model, &c->train, err));
    struct sn_job_env env = {.config = c,
                             .model = model,
                             .ops = sn_planned_ops(&plugin, c),
                             .threads = sn_threads(c, sn_config_ranks(c))};
    if (!l->is_searched)
        sn_planned_say(&plugin);
    enum sn_status st = l->explain >= 0 ? explain(&env, l, err) : report_all(&env, l, good, err);
    if (st == SN_OK && l->explain < 0 && !l->activations)
        st = look(c, l, err);
    sn_accelerator_close(&plugin);
    sn_model_destroy(model);
    return st;
}

/* The layout that is planned. */
static enum sn_status resolve(struct sn_config *c, struct line *l, char **argv, struct sn_err *err)
{
    size_t n = 0;
    l->is_searched = c->layout_auto;
    SN_TRY(sn_resolve_auto(c, (int)l->ranks, NULL, err));
    if (l->pictures.report) {
        if (!(l->asked = sn_alloc(sizeof(*c)))) /* large for a stack */
            return sn_fail(err, SN_ENOMEM, "--report: no memory");
        *l->asked = *c;
        for (int i = 0; argv[i] && n < sizeof(l->command); i++)
            n +=
                (size_t)snprintf(l->command + n, sizeof(l->command) - n, i ? " %s" : "%s", argv[i]);
    }
    int ranks = l->ranks ? (int)l->ranks : sn_config_least_ranks(&c->layout);
    return sn_resolve_layout(c, ranks, err);
}

int main(int argc, char **argv)
{
    struct sn_err err = {0};
    struct sn_config config;
    struct line l;
    bool good = true;
    if (argc > 1 && strcmp(argv[1], "calibrate") == 0)
        return sn_ranks_are_launched() ? sn_ranks_exec("calibrate", argv + 1)
                                       : sn_plan_calibrate(argc - 1, argv + 1, NULL);
    if (argc > 1 && strcmp(argv[1], "search") == 0) {
        int code = 0;
        return sn_plan_search(argc - 1, argv + 1, &code, &err) == SN_OK ? code : sn_report(&err);
    }
    if (argc > 1 && strcmp(argv[1], "campaign") == 0) {
        int code = 0;
        return sn_plan_campaign(argc - 1, argv + 1, &code, &err) == SN_OK ? code : sn_report(&err);
    }
    if (argc > 1 && strcmp(argv[1], "study") == 0) {
        int code = 0;
        return sn_plan_study(argc - 1, argv + 1, &code, &err) == SN_OK ? code : sn_report(&err);
    }
    enum sn_status st = parse_line(argc, argv, &l, &err);
    if (st == SN_OK && (l.help || l.version)) {
        (void)fputs(l.help ? usage : "sennit-plan " SN_VERSION "\n", stdout);
        return 0;
    }
    if (st == SN_OK && (l.lists.keys || l.lists.list)) {
        st = sn_plan_print_lists(&l.lists, &err);
        return st == SN_OK ? 0 : sn_report(&err);
    }
    if (st == SN_OK)
        st = sn_planned_check_isa(&err);
    if (st == SN_OK)
        st = sn_config_load(&config, l.run_file, NULL, &err);
    if (st == SN_OK)
        st = resolve(&config, &l, argv, &err);
    if (st == SN_OK)
        st = report(&config, &l, &good, &err);
    sn_free(l.asked);
    return st != SN_OK ? sn_report(&err) : good ? 0 : sn_exit_code(SN_EFAIL);
}
