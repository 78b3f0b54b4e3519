#include "bin/plan_campaign.h"

#include "bin/common.h"
#include "bin/plan_json.h"
#include "lib/base/mem.h"
#include "lib/base/text_file.h"
#include "lib/campaign/budget.h"
#include "lib/config/files.h"
#include "lib/exec/threads.h"
#include "lib/machine/named.h"
#include "lib/search/planned.h"
#include "lib/search/resolve.h"
#include "lib/search/search.h"
#include "slurm/supervisor/supervise.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: sennit-plan campaign RUN.yaml [options]\n"
    "\n"
    "What all steps of the run cost, with failures, saves, jobs of slurm.time and their queue: "
    "days,\n"
    "node-hours, energy, money, checkpoints.\n"
    "  --ranks N            plan for N ranks (default: layout.data, or 1)\n"
    "  --gpus N[,N...]      the best layout of each number of ranks: a table, days as bars\n"
    "  --machines all|A,B   the same on machines that ship, each with as many ranks\n"
    "  --budget H           what H node-hours buy: tokens of this model, and the largest of its "
    "shape\n"
    "  --law NAME           by which that one is trained: epoch-2024 (default), hoffmann-2022 or "
    "20\n"
    "  --tokens T           train on T tokens, such as 1.5e12, instead of train.steps\n"
    "  --queue-hours H      each job waits so long (default 0)\n"
    "  --mtbf-hours N       mean time between failures of a node\n"
    "  --storage RATE       bytes a second that all nodes write together, such as 50GB\n"
    "  --price DOLLARS      of a device-hour, in place of the machine's price\n"
    "  --slow H,M,F         a node is slow every H hours, for M minutes, in which steps take F "
    "times as long\n"
    "  --trials N           play N runs with failures and slow nodes at random\n"
    "  --seed N             of these (default 1)\n"
    "  --svg FILE           draw the curve of --gpus N,N... or --budget\n"
    "  --json               one JSON object\n"
    "  --help\n"
    "\n"
    "Exit 0: done, 1: the layout does not fit, or none does, 2: bad usage or input.\n";

enum {
    RANKS = 256,
    GPUS,
    MACHINES,
    BUDGET,
    LAW,
    TOKENS,
    QUEUE,
    MTBF,
    STORAGE,
    PRICE,
    SLOW,
    TRIALS,
    SEED,
    SVG,
    JSON,
    HELP
};

struct line {
    const char *run_file, *svg, *machines; /* NULL: none; its own */
    struct sn_plan_ranks gpus;
    long long ranks, trials, seed;
    const struct sn_law *law;                              /* NULL: not said */
    double tokens, budget, queue_hours, mtbf_hours, price; /* 0: not said */
    int64_t storage;
    struct sn_slow slow;
    bool json, help, is_seeded;
};

/* "H,M,F" */
static enum sn_status parse_slow(struct sn_slow *out, const char *text, struct sn_err *err)
{
    double v[3];
    const char *at = text;
    for (int i = 0; i < 3; i++) {
        char *end;
        v[i] = strtod(at, &end);
        if (end == at || *end != (i < 2 ? ',' : '\0') || !(v[i] > (i < 2 ? 0 : 1) && v[i] < 1e9))
            return sn_fail(err, SN_EINPUT,
                           "--slow: '%s' is no HOURS,MINUTES,FACTOR such as 2000,60,1.5: two "
                           "numbers above 0 and one above 1",
                           text);
        at = end + 1;
    }
    *out = (struct sn_slow){.every = v[0] * 3600, .lasts = v[1] * 60, .factor = v[2]};
    return SN_OK;
}

static enum sn_status parse_option(int code, char **argv, struct line *l, struct sn_err *err)
{
    switch (code) {
    case RANKS:
        return sn_parse_number("--ranks", optarg, 1, 1 << 24, &l->ranks, err);
    case GPUS:
        return sn_plan_parse_ranks(&l->gpus, optarg, err);
    case MACHINES:
        l->machines = optarg;
        return SN_OK;
    case BUDGET:
        return sn_parse_real("--budget", optarg, 1e-3, 1e12, &l->budget, err);
    case LAW:
        return sn_law_find(&l->law, optarg, err);
    case TOKENS:
        return sn_parse_real("--tokens", optarg, 1, 1e18, &l->tokens, err);
    case QUEUE:
        return sn_parse_real("--queue-hours", optarg, 0, 1e5, &l->queue_hours, err);
    case MTBF:
        return sn_parse_real("--mtbf-hours", optarg, 1e-3, 1e9, &l->mtbf_hours, err);
    case STORAGE:
        return sn_parse_bytes("--storage", optarg, 1, &l->storage, err);
    case PRICE:
        return sn_parse_real("--price", optarg, 0, 1e6, &l->price, err);
    case SLOW:
        return parse_slow(&l->slow, optarg, err);
    case TRIALS:
        return sn_parse_number("--trials", optarg, 2, 1000000, &l->trials, err);
    case SEED:
        l->is_seeded = true;
        return sn_parse_number("--seed", optarg, 0, 1LL << 62, &l->seed, err);
    case SVG:
        l->svg = optarg;
        return SN_OK;
    case JSON:
        l->json = true;
        return SN_OK;
    case HELP:
        l->help = true;
        return SN_OK;
    default:
        return sn_refuse_option("sennit-plan campaign", code, argv, err);
    }
}

/* What does not go together. */
static enum sn_status check_line(const struct line *l, struct sn_err *err)
{
    if ((l->machines || l->budget > 0) && l->gpus.n > 1)
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan campaign: %s wants one number of ranks, got %d; want --gpus N",
                       l->machines ? "--machines" : "--budget", l->gpus.n);
    if (l->budget > 0 && (l->machines || l->tokens > 0 || l->trials))
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan campaign: --budget says itself how many tokens there are, on "
                       "one machine; want it without %s",
                       l->machines     ? "--machines"
                       : l->tokens > 0 ? "--tokens"
                                       : "--trials");
    if (l->svg && l->budget <= 0 && (l->gpus.n < 2 || l->machines))
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan campaign: --svg draws a curve over ranks or of a budget; want "
                       "--gpus N,N... or --budget H");
    if (l->is_seeded && !l->trials)
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan campaign: --seed is of runs played at random; want --trials N");
    if (l->law && l->budget <= 0)
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan campaign: --law says how a budget is spent; want --budget H");
    if (l->ranks && l->gpus.n)
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan campaign: --ranks plans the run file's layout and --gpus "
                       "searches one; want one of them");
    return SN_OK;
}

static enum sn_status parse_line(int argc, char **argv, struct line *l, struct sn_err *err)
{
    static const struct option options[] = {{"ranks", required_argument, NULL, RANKS},
                                            {"gpus", required_argument, NULL, GPUS},
                                            {"machines", required_argument, NULL, MACHINES},
                                            {"budget", required_argument, NULL, BUDGET},
                                            {"law", required_argument, NULL, LAW},
                                            {"tokens", required_argument, NULL, TOKENS},
                                            {"queue-hours", required_argument, NULL, QUEUE},
                                            {"mtbf-hours", required_argument, NULL, MTBF},
                                            {"storage", required_argument, NULL, STORAGE},
                                            {"price", required_argument, NULL, PRICE},
                                            {"slow", required_argument, NULL, SLOW},
                                            {"trials", required_argument, NULL, TRIALS},
                                            {"seed", required_argument, NULL, SEED},
                                            {"svg", required_argument, NULL, SVG},
                                            {"json", no_argument, NULL, JSON},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    *l = (struct line){.seed = 1};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;)
        SN_TRY(parse_option(code, argv, l, err));
    if (l->help)
        return SN_OK;
    SN_TRY(check_line(l, err));
    return sn_parse_operand(&l->run_file, "sennit-plan campaign", "run file", argc, argv, err);
}

/* --- what is known of the machine and the terms ------------------------------------------------ */

static void say_machine(struct sn_machine *m, const struct line *l)
{
    if (l->mtbf_hours > 0)
        m->mtbf_hours = l->mtbf_hours;
    if (l->storage) {
        m->storage_write = (double)l->storage;
        m->storage_node = 0;
    }
    if (l->price > 0) {
        m->price_device = l->price;
        m->price_node = 0;
    }
}

static struct sn_campaign_want want_of(const struct line *l, const struct sn_config *c,
                                       const struct sn_ops *ops, int ranks)
{
    return (struct sn_campaign_want){.ops = ops,
                                     .threads = sn_threads(c, ranks),
                                     .queue = l->queue_hours * 3600,
                                     .slow = l->slow,
                                     .notice = sn_supervise_margin,
                                     .seed = (uint64_t)l->seed,
                                     .trials = (int)l->trials};
}

/* --- one layout -------------------------------------------------------------------------------- */

static enum sn_status print_text(struct sn_str *text, struct sn_err *err)
{
    bool failed = text->failed;
    if (!failed)
        (void)fputs(text->p, stdout);
    sn_str_fini(text);
    return failed ? sn_fail(err, SN_ENOMEM, "campaign: no memory for the text") : SN_OK;
}

static enum sn_status one(struct sn_config *c, const struct line *l, const struct sn_machine *m,
                          const struct sn_software *s, int *exit_code, struct sn_err *err)
{
    struct sn_accelerator plugin;
    struct sn_str text = {0};
    struct sn_campaign k;
    int ranks = sn_config_ranks(c);
    struct sn_campaign_want want = want_of(l, c, sn_planned_ops(&plugin, c), ranks);
    sn_planned_say(&plugin);
    enum sn_status st = sn_campaign_find(&k, c, m, s, &want, err);
    sn_accelerator_close(&plugin);
    SN_TRY(st);
    bool said = sn_names_machine(c) && k.limit; /* else this host's memory is a hint, no verdict */
    if (!said)
        k.limit = sn_host_limit(ranks);
    if (l->json) {
        sn_str_add(&text, "{");
        sn_plan_campaign_json(&text, &c->model, &c->layout, &k, m, s);
        sn_str_add(&text, "\n");
    } else {
        sn_campaign_head_text(&text, c, &k, m, s);
        sn_campaign_text(&text, &k, m);
    }
    *exit_code = said && k.plan.memory.total > k.limit ? sn_exit_code(SN_EFAIL) : 0;
    return print_text(&text, err);
}

/* --- several ----------------------------------------------------------------------------------- */

/* What is looked at, and what was found so far. */
struct several {
    const struct line *line;
    struct sn_config *config;
    struct sn_software software;
    struct sn_campaign_want want;
    struct sn_points points;
    const char *note; /* of MFU, on one of the machines at least; NULL: none */
    struct sn_str json, svg;
};

static void note(struct several *x, const struct sn_machine *m)
{
    const char *of = sn_software_mfu_note(&x->software, m);
    x->note = of ? of : x->note;
}

static enum sn_status add(struct several *x, const struct sn_machine *m, int ranks,
                          struct sn_err *err)
{
    struct sn_points_want w = {.config = x->config,
                               .machine = m,
                               .software = &x->software,
                               .campaign = x->want,
                               .ranks = ranks};
    note(x, m);
    return sn_points_add(&x->points, &w, err);
}

static void add_json(struct several *x, const struct sn_machine *m, const struct sn_point *p)
{
    sn_str_add(&x->json, "%s", x->json.len ? ",\n " : "{\"points\": [");
    sn_plan_point_json(&x->json, &x->config->model, p, m, &x->software);
}

/* Of --gpus, or those of the layout. */
static enum sn_status one_number(int *ranks, const struct several *x, struct sn_err *err)
{
    *ranks = x->line->gpus.n ? x->line->gpus.v[0] : 0;
    if (*ranks == 0 && x->config->layout.data)
        *ranks = sn_config_ranks(x->config);
    if (*ranks > 0)
        return SN_OK;
    return sn_fail(err, SN_EINPUT, "%s: nothing says on how many ranks; use --gpus or layout.data",
                   x->config->path);
}

static void budget_json(struct several *x, const struct sn_budget *b, const struct sn_machine *m)
{
    sn_str_add(&x->json, "{\"budget\": ");
    sn_budget_json(&x->json, b);
    sn_str_add(&x->json, ", \"points\": [");
    sn_plan_point_json(&x->json, &x->config->model, &b->run, m, &x->software);
    if (b->largest.found) {
        sn_str_add(&x->json, ",\n ");
        sn_plan_point_json(&x->json, &b->model, &b->largest, m, &x->software);
    }
}

static enum sn_status on_budget(struct several *x, struct sn_str *text, bool *any,
                                struct sn_err *err)
{
    struct sn_machine m = {0};
    struct sn_budget b = {0};
    struct sn_points_want w = {
        .config = x->config, .machine = &m, .software = &x->software, .campaign = x->want};
    SN_TRY(one_number(&w.ranks, x, err));
    SN_TRY(sn_machine_of(&m, x->config, NULL, err));
    say_machine(&m, x->line);
    enum sn_status st =
        sn_budget_find(&b, &w, x->line->budget, x->line->law ? x->line->law : &sn_laws[0], err);
    note(x, &m);
    if (st == SN_OK) {
        sn_budget_text(text, &b);
        if (x->line->svg)
            st = sn_budget_svg(&x->svg, &b, x->config->run.name, err);
        budget_json(x, &b, &m);
        *any = b.run.found || b.largest.found;
    }
    sn_machine_fini(&m);
    return st;
}

static enum sn_status on_numbers(struct several *x, struct sn_err *err)
{
    struct sn_machine m = {0};
    SN_TRY(sn_machine_of(&m, x->config, NULL, err));
    say_machine(&m, x->line);
    enum sn_status st = SN_OK;
    for (int i = 0; i < x->line->gpus.n && st == SN_OK; i++)
        st = add(x, &m, x->line->gpus.v[i], err);
    if (st == SN_OK)
        sn_points_compare(&x->points);
    for (int i = 0; i < x->points.n; i++)
        add_json(x, &m, &x->points.point[i]);
    sn_machine_fini(&m);
    return st;
}

static enum sn_status on_machine(struct several *x, const char *name, int ranks, struct sn_err *err)
{
    struct sn_machine_config *named = &x->config->machine;
    struct sn_machine m = {0};
    struct sn_err why = {0};
    if (sn_machine_preset(&m, name, NULL, err) != SN_OK)
        return sn_err_prefix(err, "--machines");
    (void)snprintf(named->preset, sizeof(named->preset), "%s", name);
    named->file[0] = '\0';
    say_machine(&m, x->line);
    enum sn_status st = SN_OK;
    if (sn_machine_check_precision(&m, x->config->train.precision, &why) == SN_OK)
        st = add(x, &m, ranks, err);
    else
        st = sn_points_skip(&x->points, name, ranks, why.text, err);
    if (st == SN_OK)
        add_json(x, &m, &x->points.point[x->points.n - 1]);
    sn_machine_fini(&m);
    return st;
}

static enum sn_status on_machines(struct several *x, struct sn_err *err)
{
    struct sn_str names = {0};
    enum sn_status st = SN_OK;
    int ranks = 0;
    SN_TRY(one_number(&ranks, x, err));
    if (strcmp(x->line->machines, "all") == 0)
        st = sn_presets_list(&names, "machines", err);
    else
        sn_str_add(&names, "%s", x->line->machines);
    char *rest = names.p;
    for (char *name; st == SN_OK && (name = strtok_r(rest, ",\n", &rest));)
        st = on_machine(x, name, ranks, err);
    sn_str_fini(&names);
    if (st == SN_OK && x->points.n == 0)
        st = sn_fail(err, SN_EINPUT,
                     "--machines: '%s' names none; want all or names such as "
                     "dgx-h100,perlmutter-80",
                     x->line->machines);
    return st;
}

static enum sn_status several(struct sn_config *c, const struct line *l, int *exit_code,
                              struct sn_err *err)
{
    struct sn_accelerator plugin;
    struct sn_str text = {0};
    struct several x = {.line = l, .config = c};
    SN_TRY(sn_search_check_machine(c, NULL, err));
    SN_TRY(sn_software_of(&x.software, c, NULL, err));
    x.want = want_of(l, c, sn_planned_ops(&plugin, c), l->gpus.n ? l->gpus.v[0] : 1);
    sn_planned_say(&plugin);
    bool any = false;
    enum sn_status st = l->budget > 0 ? on_budget(&x, &text, &any, err)
                        : l->machines ? on_machines(&x, err)
                                      : on_numbers(&x, err);
    sn_accelerator_close(&plugin);
    for (int i = 0; i < x.points.n; i++)
        any = any || x.points.point[i].found;
    *exit_code = any ? 0 : sn_exit_code(SN_EFAIL);
    if (l->budget <= 0)
        sn_points_text(&text, &x.points);
    if (x.note)
        sn_str_add(&text, "MFU: %s\n", x.note);
    sn_str_add(&x.json, "]}\n");
    if (st == SN_OK && l->svg && l->budget <= 0)
        st = sn_points_svg(&x.svg, &x.points, c->run.name, err);
    if (st == SN_OK && l->svg)
        st = sn_text_save(&x.svg, l->svg, err);
    if (st == SN_OK)
        st = print_text(l->json ? &x.json : &text, err);
    sn_str_fini(&text);
    sn_str_fini(&x.json);
    sn_str_fini(&x.svg);
    sn_points_fini(&x.points);
    return st;
}

enum sn_status sn_plan_points(struct sn_config *c, const struct sn_plan_ranks *ranks, bool json,
                              int *exit_code, struct sn_err *err)
{
    return several(c, &(struct line){.gpus = *ranks, .json = json}, exit_code, err);
}

/* --- all --------------------------------------------------------------------------------------- */

static enum sn_status resolved(struct sn_config *c, const struct line *l, int *exit_code,
                               struct sn_err *err)
{
    struct sn_machine m = {0};
    struct sn_software s;
    SN_TRY(sn_resolve_auto(c, (int)l->ranks, NULL, err));
    int ranks = l->ranks ? (int)l->ranks : sn_config_least_ranks(&c->layout);
    SN_TRY(sn_resolve_layout(c, ranks, err));
    SN_TRY(sn_software_of(&s, c, NULL, err));
    SN_TRY(sn_machine_of(&m, c, NULL, err));
    say_machine(&m, l);
    enum sn_status st = one(c, l, &m, &s, exit_code, err);
    sn_machine_fini(&m);
    return st;
}

enum sn_status sn_plan_campaign(int argc, char **argv, int *exit_code, struct sn_err *err)
{
    struct line l;
    SN_TRY(parse_line(argc, argv, &l, err));
    if (l.help) {
        (void)fputs(usage, stdout);
        return SN_OK;
    }
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    if (!c)
        return sn_fail(err, SN_ENOMEM, "campaign: no memory");
    enum sn_status st = sn_planned_check_isa(err);
    if (st == SN_OK)
        st = sn_config_load(c, l.run_file, NULL, err);
    if (st == SN_OK && l.tokens > 0)
        st = sn_campaign_steps(&c->train.steps, c, l.tokens, err);
    if (st == SN_OK)
        st = l.gpus.n || l.machines || l.budget > 0 ? several(c, &l, exit_code, err)
                                                    : resolved(c, &l, exit_code, err);
    sn_free(c);
    return st;
}
