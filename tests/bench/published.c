/*
 * published.c - how well published step times and memory limits are foretold.
 *
 * usage: build/tests/bench/published [--fit] [--write FOLDER] [--rows] [--split] [--source NAME]
 *                                    [LAYOUTS]
 *
 * Reads the tables in LAYOUTS (tests/bench/layouts), compiles the program of each row's layout and
 * prices it on the row's machine under its trainer's profile. Prints Markdown.
 *   --source NAME    sweep (default), vtrain, vtrain_many, bigscience, sc21, foundry,
 *                    nemo, sailor, internevo
 *   --fit            first fit the profiles' constants to all rows
 *   --write FOLDER   and write the profiles there
 *   --rows           each row as CSV
 *   --without NAME   leave this constant at its prior
 *   --only-memory    fit the constants of memory alone
 *   --split          fit without each model in turn, and score it on what it has not seen
 */
#include "tests/bench/foreign/bench.h"

#include "lib/base/mem.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

struct line {
    const char *layouts, *folder, *source, *without;
    bool fit, rows, split, only_memory;
};

static enum sn_status write_profiles(const struct bench *b, const char *folder, struct sn_err *err)
{
    char path[SN_PATH_MAX];
    for (int p = 0; p < b->n_profiles; p++) {
        struct sn_str text = {0};
        (void)snprintf(path, sizeof(path), "%s/%s.yaml", folder, b->profile_name[p]);
        sn_str_add(&text, "# Fitted by build/tests/bench/published --fit --write FOLDER.\n");
        sn_software_format(&text, &b->profile[p]);
        FILE *f = text.failed ? NULL : fopen(path, "w");
        bool good = f && fputs(text.p, f) >= 0;
        good = f && fclose(f) == 0 && good;
        sn_str_fini(&text);
        if (!good)
            return sn_fail(err, SN_EIO, "%s: cannot be written", path);
    }
    return SN_OK;
}

/* All rows but those of one model; or those alone. */
static void use(struct bench *b, const char *group, bool alone)
{
    for (int i = 0; i < b->rows.n; i++)
        b->used[i] = !group || (strcmp(b->rows.row[i].group, group) == 0) == alone;
}

static enum sn_status fit(struct bench *b, const struct source *s, const struct line *l,
                          struct sn_err *err)
{
    b->without = l->without;
    if (!l->only_memory)
        SN_TRY(bench_fit(b, s, OF_TIME, err));
    return bench_fit(b, s, OF_MEMORY, err);
}

static bool has_oom(const struct bench *b)
{
    for (int i = 0; i < b->rows.n; i++) {
        if (b->rows.row[i].outcome == ROW_OOM)
            return true;
    }
    return false;
}

static void print_memory(struct bench *b, const char *title)
{
    if (!has_oom(b))
        return;
    bench_memory(b);
    bench_print_memory(b, title);
}

static enum sn_status split(struct bench *b, const struct source *s, const struct line *l,
                            struct sn_err *err)
{
    char title[96];
    for (int i = 0; i < b->rows.n; i++) {
        const char *group = b->rows.row[i].group;
        bool seen = false;
        for (int k = 0; k < i; k++)
            seen = seen || strcmp(b->rows.row[k].group, group) == 0;
        if (seen)
            continue;
        use(b, group, false);
        SN_TRY(fit(b, s, l, err));
        (void)snprintf(title, sizeof(title), "fitted without %s: the others", group);
        bench_print_times(b, title);
        print_memory(b, title);
        use(b, group, true);
        SN_TRY(bench_price(b, err));
        (void)snprintf(title, sizeof(title), "fitted without %s: %s", group, group);
        bench_print_times(b, title);
        print_memory(b, title);
    }
    use(b, NULL, true);
    return SN_OK;
}

static enum sn_status check_constant(const struct source *s, const char *name, struct sn_err *err)
{
    for (int k = 0; name && k < s->n_constants; k++) {
        if (strcmp(s->constant[k].name, name) == 0)
            return SN_OK;
    }
    return name ? sn_fail(err, SN_EINPUT, "--without %s: no constant of %s has this name", name,
                          s->name)
                : SN_OK;
}

static enum sn_status run(struct bench *b, const struct source *s, const struct line *l,
                          struct sn_err *err)
{
    SN_TRY(check_constant(s, l->without, err));
    SN_TRY(bench_open(b, s, l->layouts, err));
    SN_TRY(l->fit ? fit(b, s, l, err) : bench_price(b, err));
    if (l->rows)
        bench_print_rows(b);
    else {
        printf("%d rows; %d more are neither timed nor out of memory, or no layout of ours.\n\n",
               b->rows.n, b->rows.unused);
        bench_print_times(b, l->fit ? "fitted to all" : "as shipped");
        bench_print_constants(b, s);
        print_memory(b, "memory");
    }
    if (l->folder)
        SN_TRY(write_profiles(b, l->folder, err));
    return l->split ? split(b, s, l, err) : SN_OK;
}

static const struct source *find_source(const char *name, struct sn_err *err)
{
    static const struct source *const all[] = {
        &source_sweep,   &source_vtrain, &source_vtrain_many, &source_bigscience, &source_sc21,
        &source_foundry, &source_nemo,   &source_sailor,      &source_internevo};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    (void)sn_fail(err, SN_EINPUT,
                  "--source %s: no such source; the head of "
                  "tests/bench/published.c names them",
                  name);
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"fit", no_argument, NULL, 'f'},          {"write", required_argument, NULL, 'w'},
        {"rows", no_argument, NULL, 'r'},         {"split", no_argument, NULL, 's'},
        {"only-memory", no_argument, NULL, 'm'},  {"without", required_argument, NULL, 'h'},
        {"source", required_argument, NULL, 'o'}, {0}};
    struct line l = {.layouts = "tests/bench/layouts", .source = "sweep"};
    static struct bench b;
    struct sn_err err = {0};
    for (int code; (code = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        l.fit = l.fit || code == 'f';
        l.rows = l.rows || code == 'r';
        l.without = code == 'h' ? optarg : l.without;
        l.only_memory = l.only_memory || code == 'm';
        l.split = l.split || code == 's';
        l.folder = code == 'w' ? optarg : l.folder;
        l.source = code == 'o' ? optarg : l.source;
        if (code == '?')
            return 2;
    }
    l.layouts = optind < argc ? argv[optind] : l.layouts;
    const struct source *source = find_source(l.source, &err);
    enum sn_status st = source ? run(&b, source, &l, &err) : SN_EINPUT;
    if (st != SN_OK)
        (void)fprintf(stderr, "published: %s\n", err.text);
    bench_close(&b);
    return sn_exit_code(st);
}
