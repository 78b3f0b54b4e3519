#include "bin/plan_study.h"

#include "bin/common.h"
#include "bin/plan_json.h"
#include "lib/base/mem.h"
#include "lib/exec/threads.h"
#include "lib/machine/named.h"
#include "lib/search/planned.h"
#include "lib/study/study.h"

#include <getopt.h>
#include <stdio.h>

static const char usage[] =
    "usage: sennit-plan study RUN.yaml [options]\n"
    "\n"
    "What each choice of a layout is worth: tables of the best layout with each micro-batch and "
    "recomputation,\n"
    "tensor and pipeline ranks, sequence parallelism, ZeRO stage and, of another trainer's "
    "profile, "
    "kernel; all\n"
    "other keys are searched. Layout keys that the run file names stand, but in their own table.\n"
    "  --gpus N   ranks (default: the machine's nodes, or the run file's layout)\n"
    "  --json     an object: the tables, each cell a plan or why there is none\n"
    "  --help\n"
    "\n"
    "Exit 0: done, 1: nothing fits, 2: bad usage or input.\n";

enum { GPUS = 256, JSON, HELP };

struct line {
    const char *run_file;
    long long gpus;
    bool json, help;
};

static enum sn_status parse_line(int argc, char **argv, struct line *l, struct sn_err *err)
{
    static const struct option options[] = {{"gpus", required_argument, NULL, GPUS},
                                            {"json", no_argument, NULL, JSON},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    *l = (struct line){0};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (code == GPUS)
            SN_TRY(sn_parse_number("--gpus", optarg, 1, 1 << 24, &l->gpus, err));
        else if (code == JSON)
            l->json = true;
        else if (code == HELP)
            l->help = true;
        else
            return sn_refuse_option("sennit-plan study", code, argv, err);
    }
    return l->help
               ? SN_OK
               : sn_parse_operand(&l->run_file, "sennit-plan study", "run file", argc, argv, err);
}

/* --- JSON -------------------------------------------------------------------------------------- */

static void json_cell(struct sn_str *out, const struct sn_study_cell *x,
                      const struct sn_study_want *w, const struct sn_software *software,
                      int64_t parameters)
{
    sn_str_add(out, "{\"why\": ");
    if (x->found)
        sn_str_add(out, "null");
    else
        sn_str_add_json(out, x->why);
    sn_str_add(out, ", \"plan\": ");
    if (!x->found) {
        sn_str_add(out, "null}");
        return;
    }
    sn_plan_json(out, &(struct sn_plan_row){.plan = &x->plan,
                                            .layout = &x->layout,
                                            .model = &w->config->model,
                                            .machine = w->machine,
                                            .software = software,
                                            .parameters = parameters,
                                            .limit = x->limit});
    sn_str_add(out, "}");
}

static void json_labels(struct sn_str *out, const char *key, int n, const char label[][16])
{
    sn_str_add(out, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        sn_str_add(out, i ? ", " : "");
        sn_str_add_json(out, label[i]);
    }
    sn_str_add(out, "]");
}

static void json_table(struct sn_str *out, const struct sn_study_table *t,
                       const struct sn_study_want *w, const struct sn_software *software,
                       int64_t parameters)
{
    sn_str_add(out, "{\"down\": ");
    sn_str_add_json(out, t->down);
    sn_str_add(out, ", \"across\": ");
    sn_str_add_json(out, t->across);
    json_labels(out, "rows", t->rows, t->row);
    json_labels(out, "columns", t->columns, t->column);
    sn_str_add(out, ", \"cells\": [");
    for (int r = 0; r < t->rows; r++) {
        sn_str_add(out, r ? ",\n [" : "[");
        for (int k = 0; k < t->columns; k++) {
            sn_str_add(out, k ? ",\n  " : "");
            json_cell(out, &t->cell[r][k], w, software, parameters);
        }
        sn_str_add(out, "]");
    }
    sn_str_add(out, "]}");
}

static enum sn_status json(struct sn_str *out, const struct sn_study *s,
                           const struct sn_study_want *w, const struct sn_software *software,
                           struct sn_err *err)
{
    struct sn_model *model = NULL;
    SN_TRY(sn_model_create(&model, &w->config->model, &w->config->train, err));
    int64_t parameters = sn_model_param_count(model);
    sn_model_destroy(model);
    sn_str_add(out, "{\"ranks\": %d, \"tables\": [", s->ranks);
    for (int i = 0; i < s->n; i++) {
        sn_str_add(out, i ? ",\n" : "");
        json_table(out, &s->table[i], w, software, parameters);
    }
    sn_str_add(out, "]}\n");
    return SN_OK;
}

/* --- all --------------------------------------------------------------------------------------- */

static enum sn_status print(const struct sn_study *s, const struct sn_study_want *w,
                            const struct line *l, struct sn_err *err)
{
    struct sn_str text = {0};
    struct sn_software software;
    SN_TRY(sn_software_of(&software, w->config, NULL, err));
    const char *note = sn_software_mfu_note(&software, w->machine);
    enum sn_status st = SN_OK;
    if (l->json)
        st = json(&text, s, w, &software, err);
    else
        sn_study_text(&text, s, w);
    if (note && !l->json)
        sn_str_add(&text, "MFU: %s\n", note);
    if (st == SN_OK && text.failed)
        st = sn_fail(err, SN_ENOMEM, "study: no memory for the text");
    if (st == SN_OK)
        (void)fputs(text.p, stdout);
    sn_str_fini(&text);
    return st;
}

static enum sn_status study(struct sn_config *c, const struct line *l, struct sn_machine *m,
                            int *exit_code, struct sn_err *err)
{
    struct sn_accelerator plugin;
    struct sn_study s = {0};
    int ranks = 0;
    SN_TRY(sn_search_check_machine(c, NULL, err));
    SN_TRY(sn_machine_of(m, c, NULL, err));
    SN_TRY(sn_search_ranks(&ranks, l->gpus, c, m, err));
    struct sn_study_want w = {.config = c,
                              .machine = m,
                              .ops = sn_planned_ops(&plugin, c),
                              .threads = sn_threads(c, ranks),
                              .ranks = ranks};
    sn_planned_say(&plugin);
    enum sn_status st = sn_study_run(&s, &w, err);
    sn_accelerator_close(&plugin);
    if (st == SN_OK)
        st = print(&s, &w, l, err);
    *exit_code = st == SN_OK && !sn_study_best(&s) ? sn_exit_code(SN_EFAIL) : 0;
    sn_study_fini(&s);
    return st;
}

enum sn_status sn_plan_study(int argc, char **argv, int *exit_code, struct sn_err *err)
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
        return sn_fail(err, SN_ENOMEM, "study: no memory");
    enum sn_status st = sn_planned_check_isa(err);
    if (st == SN_OK)
        st = sn_config_load(c, l.run_file, NULL, err);
    if (st == SN_OK)
        st = study(c, &l, &machine, exit_code, err);
    sn_machine_fini(&machine);
    sn_free(c);
    return st;
}
