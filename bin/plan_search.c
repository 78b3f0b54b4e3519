#include "bin/plan_search.h"

#include "bin/common.h"
#include "bin/plan_campaign.h"
#include "bin/plan_json.h"
#include "bin/plan_print.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/exec/threads.h"
#include "lib/layout/axes.h"
#include "lib/search/planned.h"
#include "lib/search/resolve.h"
#include "lib/search/search.h"
#include "lib/search/words.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: sennit-plan search RUN.yaml [options]\n"
    "\n"
    "Enumerates every valid layout, bounds them all, compiles and simulates those that may be "
    "best, "
    "and\nprints the best layout of each grid. Layout keys that the run file names stand.\n"
    "  --gpus N       ranks (default: the machine's nodes, or the run file's layout)\n"
    "  --gpus N,N...  the best of each number of ranks, and what the whole run costs there\n"
    "  --top K        grids in the table (default 10)\n"
    "  --free         search the keys that the layout names, too\n"
    "  --json         an array of plans\n"
    "  --write FILE   save the run file with the best layout\n"
    "  --help\n"
    "\n"
    "Exit 0: done, 1: nothing fits, 2: bad usage or input.\n";

enum { TOP_ROWS = 10, GPUS = 256, TOP, FREE, JSON, WRITE, HELP };

struct line {
    const char *run_file, *write;
    struct sn_plan_ranks gpus;
    long long top; /* 0: not said */
    bool free, json, help;
};

static enum sn_status parse_option(int code, char **argv, struct line *l, struct sn_err *err)
{
    switch (code) {
    case GPUS:
        return sn_plan_parse_ranks(&l->gpus, optarg, err);
    case TOP:
        return sn_parse_number("--top", optarg, 1, 1000, &l->top, err);
    case FREE:
        l->free = true;
        return SN_OK;
    case JSON:
        l->json = true;
        return SN_OK;
    case WRITE:
        l->write = optarg;
        return SN_OK;
    case HELP:
        l->help = true;
        return SN_OK;
    default:
        return sn_refuse_option("sennit-plan search", code, argv, err);
    }
}

static enum sn_status parse_line(int argc, char **argv, struct line *l, struct sn_err *err)
{
    static const struct option options[] = {{"gpus", required_argument, NULL, GPUS},
                                            {"top", required_argument, NULL, TOP},
                                            {"free", no_argument, NULL, FREE},
                                            {"json", no_argument, NULL, JSON},
                                            {"write", required_argument, NULL, WRITE},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    *l = (struct line){0};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;)
        SN_TRY(parse_option(code, argv, l, err));
    if (l->help)
        return SN_OK;
    if (l->gpus.n > 1 && (l->top || l->write))
        return sn_fail(err, SN_EINPUT,
                       "sennit-plan search: %s wants one number of ranks, got %d of --gpus",
                       l->top ? "--top" : "--write", l->gpus.n);
    return sn_parse_operand(&l->run_file, "sennit-plan search", "run file", argc, argv, err);
}

/* --- the table -------------------------------------------------------------------------------- */

/* A rare axis has one where a row has it. */
static bool has_column(const struct sn_search *s, enum sn_axis a)
{
    int size[SN_NGRID_AXES];
    bool has = false;
    for (int i = 0; i < s->n && !has; i++) {
        sn_axes_sizes(size, &s->found[i].layout);
        has = sn_axis_is_told(a, size[a]);
    }
    return has;
}

static void add_row(struct sn_str *out, const struct sn_search *s, int i)
{
    const struct sn_found *f = &s->found[i];
    const struct sn_layout_config *l = &f->layout;
    char bytes[16];
    int size[SN_NGRID_AXES];
    sn_axes_sizes(size, l);
    sn_str_add(out, "%3d  ", i + 1);
    for (int x = 0; x < SN_NGRID_AXES; x++)
        if (has_column(s, sn_axis_told(x)))
            sn_str_add(out, " %4d", size[sn_axis_told(x)]);
    sn_str_add(out, "  %9.4g s %5.1f %% %10s  ", f->plan.step_time, 100 * f->plan.mfu,
               sn_str_bytes(bytes, f->plan.memory.total));
    sn_search_describe(out, l);
    sn_str_add(out, "; ");
    if (i == 0)
        sn_search_breakdown(out, &f->plan);
    else
        sn_search_loses(out, &f->plan, &s->found[0].plan);
    sn_str_add(out, "\n");
}

static void table(struct sn_str *out, const struct sn_search *s, const struct sn_search_want *w)
{
    char limit[16];
    sn_str_add(
        out,
        "%lld layouts of %d ranks (orders of axes apart): %lld are known not to fit %s, %lld were "
        "compiled, the others are\nprovably not better than the best of their grid or than "
        "this table\n",
        (long long)s->valid, w->ranks, (long long)s->too_big, sn_str_bytes(limit, w->limit),
        (long long)s->exact);
    if (w->config->layout.compress.scheme == SN_SCHEME_AUTO)
        sn_str_add(out,
                   "without codecs; those of each row were then chosen for it, and rows ranked "
                   "with them\n");
    sn_str_add(out, "rank ");
    for (int i = 0; i < SN_NGRID_AXES; i++)
        if (has_column(s, sn_axis_told(i)))
            sn_str_add(out, " %4s", sn_axis_row(sn_axis_told(i))->heading);
    sn_str_add(out, "       step      MFU     memory  layout; why\n");
    for (int i = 0; i < s->n; i++)
        add_row(out, s, i);
    const char *note = sn_software_mfu_note(w->software, w->machine);
    if (note)
        sn_str_add(out, "MFU: %s\n", note);
}

/* --- JSON, the file --------------------------------------------------------------------------- */

static void json_row(struct sn_str *out, const struct sn_search_want *w, const struct sn_found *f,
                     const struct sn_plan *best, int64_t parameters)
{
    struct sn_str why = {0};
    if (&f->plan == best)
        sn_search_breakdown(&why, best);
    else
        sn_search_loses(&why, &f->plan, best);
    sn_plan_json(out, &(struct sn_plan_row){.plan = &f->plan,
                                            .layout = &f->layout,
                                            .model = &w->config->model,
                                            .machine = w->machine,
                                            .software = w->software,
                                            .parameters = parameters,
                                            .limit = w->limit,
                                            .why = why.p ? why.p : ""});
    out->failed |= why.failed;
    sn_str_fini(&why);
}

static enum sn_status json_table(struct sn_str *out, const struct sn_search *s,
                                 const struct sn_search_want *w, struct sn_err *err)
{
    struct sn_model *model = NULL;
    SN_TRY(sn_model_create(&model, &w->config->model, &w->config->train, err));
    int64_t parameters = sn_model_param_count(model);
    sn_model_destroy(model);
    sn_str_add(out, "[");
    for (int i = 0; i < s->n; i++) {
        sn_str_add(out, i ? ",\n " : "");
        json_row(out, w, &s->found[i], &s->found[0].plan, parameters);
    }
    sn_str_add(out, "]\n");
    return SN_OK;
}

static enum sn_status write_best(const char *path, struct sn_config *c, const struct sn_search *s,
                                 struct sn_err *err)
{
    c->layout = s->found[0].layout;
    return sn_config_save(c, path, err);
}

/* A layout and its memory; where there is a limit, by how much it is over it. */
static void near_line(const struct sn_found *f, int64_t limit)
{
    const struct sn_layout_config *l = &f->layout;
    struct sn_str text = {0};
    char need[16], miss[16];
    int size[SN_NGRID_AXES];
    sn_axes_sizes(size, l);
    for (int i = 0; i < SN_NGRID_AXES; i++)
        if (sn_axis_is_told(sn_axis_told(i), size[sn_axis_told(i)]))
            sn_str_add(&text, "%s %d, ", sn_axis_name(sn_axis_told(i)), size[sn_axis_told(i)]);
    sn_search_describe(&text, l);
    (void)fprintf(stderr, "  %s: %s", text.p ? text.p : "",
                  sn_str_bytes(need, f->plan.memory.total));
    if (limit)
        (void)fprintf(stderr, ", %s too much\n", sn_str_bytes(miss, f->plan.memory.total - limit));
    else
        (void)fprintf(stderr, ", %.4g s a step\n", f->plan.step_time);
    sn_str_fini(&text);
}

static enum sn_status nothing_fits(const struct sn_search *s, int64_t limit)
{
    char have[16];
    (void)fprintf(stderr, "sennit-plan: none of %lld layouts fits %s a rank; nearest:\n",
                  (long long)s->valid, sn_str_bytes(have, limit));
    for (int i = 0; i < s->n_near; i++)
        near_line(&s->near[i], limit);
    return SN_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

static enum sn_status print_found(const struct sn_search *s, const struct sn_search_want *w,
                                  const struct line *l, struct sn_err *err)
{
    struct sn_str text = {0};
    enum sn_status st = SN_OK;
    if (l->json)
        st = json_table(&text, s, w, err);
    else
        table(&text, s, w);
    bool failed = text.failed;
    if (st == SN_OK && !failed)
        (void)fputs(text.p, stdout);
    sn_str_fini(&text);
    if (st != SN_OK)
        return st;
    return failed ? sn_fail(err, SN_ENOMEM, "search: no memory for the table") : SN_OK;
}

static enum sn_status search(struct sn_config *c, const struct line *l, struct sn_machine *m,
                             int *exit_code, struct sn_err *err)
{
    struct sn_software software;
    struct sn_accelerator plugin;
    struct sn_search s = {0};
    int ranks = 0;
    SN_TRY(sn_search_check_machine(c, NULL, err));
    SN_TRY(sn_machine_of(m, c, NULL, err));
    SN_TRY(sn_software_of(&software, c, NULL, err));
    SN_TRY(sn_search_ranks(&ranks, l->gpus.n ? l->gpus.v[0] : 0, c, m, err));
    struct sn_search_want w = {.config = c,
                               .machine = m,
                               .software = &software,
                               .ops = sn_planned_ops(&plugin, c),
                               .threads = sn_threads(c, ranks),
                               .ranks = ranks,
                               .top = l->top ? (int)l->top : TOP_ROWS,
                               .limit = sn_names_machine(c) ? sn_memory_limit(m, c)
                                                            : sn_host_limit(ranks)};
    sn_planned_say(&plugin);
    enum sn_status st = sn_search_run(&s, &w, err);
    sn_accelerator_close(&plugin);
    SN_TRY(st);
    if (s.n == 0) {
        *exit_code = sn_exit_code(SN_EFAIL);
        st = nothing_fits(&s, w.limit);
    }
    if (s.n > 0 || l->json)
        st = print_found(&s, &w, l, err);
    if (st == SN_OK && s.n > 0 && l->write)
        st = write_best(l->write, c, &s, err);
    sn_search_fini(&s);
    return st;
}

enum sn_status sn_plan_search(int argc, char **argv, int *exit_code, struct sn_err *err)
{
    struct line l;
    struct sn_machine machine = {0};
    SN_TRY(parse_line(argc, argv, &l, err));
    if (l.help) {
        (void)fputs(usage, stdout);
        return SN_OK;
    }
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    if (!c)
        return sn_fail(err, SN_ENOMEM, "search: no memory");
    enum sn_status st = sn_planned_check_isa(err);
    if (st == SN_OK)
        st = sn_config_load(c, l.run_file, NULL, err);
    if (st == SN_OK && l.free)
        sn_search_free(c);
    if (st == SN_OK)
        st = l.gpus.n > 1 ? sn_plan_points(c, &l.gpus, l.json, exit_code, err)
                          : search(c, &l, &machine, exit_code, err);
    sn_machine_fini(&machine);
    sn_free(c);
    return st;
}

/* --- for sennit-plan RUN.yaml ---------------------------------------------------------------- */

void sn_plan_hint(const struct sn_config *c, const struct sn_machine *m,
                  const struct sn_software *s, int64_t limit)
{
    struct sn_search found = {0};
    struct sn_accelerator plugin;
    struct sn_err err;
    struct sn_config *free = sn_alloc(sizeof(*free));
    int ranks = sn_config_ranks(c);
    if (!free)
        return;
    *free = *c;
    sn_search_free(free);
    struct sn_search_want w = {.config = free,
                               .machine = m,
                               .software = s,
                               .ops = sn_planned_ops(&plugin, c),
                               .threads = sn_threads(c, ranks),
                               .ranks = ranks,
                               .top = 3,
                               .limit = limit};
    if (sn_search_run(&found, &w, &err) == SN_OK && found.n > 0) {
        (void)fprintf(stderr, "layouts of %d ranks that fit, best first:\n", ranks);
        for (int i = 0; i < found.n; i++)
            near_line(&found.found[i], 0);
    }
    sn_search_fini(&found);
    sn_accelerator_close(&plugin);
    sn_free(free);
}
