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
 *   --write FOLDER   and write the profiles there; with --split they say how good they are
 *   --rows           each row as CSV
 *   --without NAME   leave this constant at its prior; --split then leaves out no pairs
 *   --leave GROUP    do not fit to this group's rows
 *   --only-memory    fit the constants of memory alone
 *   --split          fit without each group of rows in turn, and without each two, and score what was
 *                    not seen; a group is a model, of the sweep at a number of devices and a length
 */
#include "tests/bench/foreign/bench.h"

#include "lib/base/mem.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

struct line {
    const char *layouts, *folder, *source, *without, *leave;
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

enum { MOST_GROUPS = 16 };

/* All rows but those of these groups; or those alone. */
static void use_without(struct bench *b, const char *const left[2], bool alone)
{
    for (int i = 0; i < b->rows.n; i++) {
        bool is_left = false;
        for (int k = 0; k < 2; k++)
            is_left = is_left || (left[k] && strcmp(b->rows.row[i].group, left[k]) == 0);
        b->used[i] = is_left == alone;
    }
}

static enum sn_status fit(struct bench *b, const struct source *s, const struct line *l,
                          struct sn_err *err)
{
    b->without = l->without;
    SN_TRY(bench_fit(b, s, OF_MEMORY, err)); /* first: how full a device is makes steps longer */
    return l->only_memory ? SN_OK : bench_fit(b, s, OF_TIME, err);
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

/* Names of groups, in the order of rows; how many. */
static int groups(const char **name, int room, const struct bench *b)
{
    int n = 0;
    for (int i = 0; i < b->rows.n; i++) {
        bool seen = false;
        for (int k = 0; k < n; k++)
            seen = seen || strcmp(b->rows.row[i].group, name[k]) == 0;
        if (!seen && n < room)
            name[n++] = b->rows.row[i].group;
    }
    return n;
}

/* What is said of rows that the fit has not seen: those of one group or of two. */
static enum sn_status leave(struct bench *b, const struct source *s, const struct line *l,
                            const char *const left[2], struct sn_err *err)
{
    use_without(b, left, false);
    SN_TRY(fit(b, s, l, err));
    use_without(b, left, true);
    SN_TRY(bench_price(b, err));
    bench_memory(b);
    return SN_OK;
}

/* Every group in turn, and their rows in one table. */
static enum sn_status leave_each(struct bench *b, const struct source *s, const struct line *l,
                                 struct sn_software *accuracy, struct sn_err *err)
{
    const char *name[MOST_GROUPS];
    int n = groups(name, MOST_GROUPS, b);
    struct bench kept = *b;
    enum sn_status st = bench_keep(&kept, b, err);
    for (int g = 0; g < n && st == SN_OK; g++) {
        st = leave(b, s, l, (const char *const[2]){name[g], NULL}, err);
        bench_keep_used(&kept, b);
    }
    if (st == SN_OK) {
        use_without(&kept, (const char *const[2]){NULL, NULL}, false);
        bench_print_times(&kept, "each group left out in turn: the left out");
        if (has_oom(b))
            bench_print_memory(&kept, "each group left out in turn: the left out");
        bench_print_interval(&kept);
        st = bench_accuracy(accuracy, &kept, err);
    }
    bench_kept_fini(&kept);
    return st;
}

static enum sn_status leave_pairs(struct bench *b, const struct source *s, const struct line *l,
                                  struct sn_err *err)
{
    const char *name[MOST_GROUPS];
    int n = groups(name, MOST_GROUPS, b);
    if (n < 3)
        return SN_OK;
    printf("| two groups left out | rows | median, %% | p90, %% | max, %% | bias, %% |\n"
           "|---|---|---|---|---|---|\n");
    for (int g = 0; g < n; g++)
        for (int k = g + 1; k < n; k++) {
            SN_TRY(leave(b, s, l, (const char *const[2]){name[g], name[k]}, err));
            struct score x = bench_score(b, NULL);
            printf("| %s; %s | %d | %.2f | %.2f | %.1f | %+.2f |\n", name[g], name[k], x.rows,
                   100 * x.median, 100 * x.p90, 100 * x.most, 100 * x.bias);
        }
    printf("\n");
    return SN_OK;
}

/* The profiles are then what they were; they know how good the left-out rows were foretold. */
static enum sn_status split(struct bench *b, const struct source *s, const struct line *l,
                            struct sn_err *err)
{
    struct sn_software kept[BENCH_PROFILES], accuracy = {.low = 0};
    memcpy(kept, b->profile, sizeof(kept));
    enum sn_status st = leave_each(b, s, l, &accuracy, err);
    if (st == SN_OK && !l->without)
        st = leave_pairs(b, s, l, err);
    memcpy(b->profile, kept, sizeof(kept));
    for (int p = 0; p < b->n_profiles; p++) {
        struct sn_software *to = &b->profile[p];
        to->low = accuracy.low;
        to->high = accuracy.high;
        to->devices_least = accuracy.devices_least;
        to->devices_most = accuracy.devices_most;
        to->hidden_least = accuracy.hidden_least;
        to->hidden_most = accuracy.hidden_most;
        to->seq_least = accuracy.seq_least;
        to->seq_most = accuracy.seq_most;
    }
    use_without(b, (const char *const[2]){NULL, NULL}, false);
    return st;
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

static enum sn_status check_group(const struct bench *b, const char *group, struct sn_err *err)
{
    for (int i = 0; group && i < b->rows.n; i++)
        if (strcmp(b->rows.row[i].group, group) == 0)
            return SN_OK;
    return group ? sn_fail(err, SN_EINPUT, "--leave %s: no group has this name; the first is '%s'",
                           group, b->rows.n > 0 ? b->rows.row[0].group : "")
                 : SN_OK;
}

static enum sn_status run(struct bench *b, const struct source *s, const struct line *l,
                          struct sn_err *err)
{
    SN_TRY(check_constant(s, l->without, err));
    SN_TRY(bench_open(b, s, l->layouts, err));
    SN_TRY(check_group(b, l->leave, err));
    use_without(b, (const char *const[2]){l->leave, NULL}, false);
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
    if (l->split)
        SN_TRY(split(b, s, l, err));
    return l->folder ? write_profiles(b, l->folder, err) : SN_OK;
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
    static const struct option options[] = {{"fit", no_argument, NULL, 'f'},
                                            {"write", required_argument, NULL, 'w'},
                                            {"rows", no_argument, NULL, 'r'},
                                            {"split", no_argument, NULL, 's'},
                                            {"only-memory", no_argument, NULL, 'm'},
                                            {"without", required_argument, NULL, 'h'},
                                            {"source", required_argument, NULL, 'o'},
                                            {"leave", required_argument, NULL, 'l'},
                                            {0}};
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
        l.leave = code == 'l' ? optarg : l.leave;
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
