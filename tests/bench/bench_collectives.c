/*
 * bench_collectives.c - published times of collectives against what the presets say.
 *
 *   build/tests/bench/bench_collectives [FOLDER]        default: tests/bench/layouts
 *
 * Prints a Markdown table: errors |planned / measured - 1| of each series of message sizes (32 KiB
 * to 16 GiB), marked by whether templates/machines was fitted on it. Single figures (peaks) make
 * one series a machine. No preset describes the other devices of these files.
 */
#include "lib/cost/price.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 64, MAX_SERIES = 40, COLUMNS = 12 };

struct series {
    char name[96];
    const char *machine;
    bool fitted;
    int n;
    double error[MAX_POINTS];
};

struct table {
    struct series series[MAX_SERIES];
    int n;
};

/* One measurement: a row of either file. */
struct point {
    const char *op, *gpu, *note;
    int ranks;
    double bytes, seconds;
};

static const struct {
    const char *gpu, *machine;
} machines[] = {{"a100", "dgx-a100-80"},  {"A100-SXM", "dgx-a100-80"}, {"A100", "dgx-a100-80"},
                {"H100-SXM", "dgx-h100"}, {"H100", "dgx-h100"},        {"H200-SXM", "dgx-h200"}};

static const char *machine_of(const char *gpu)
{
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
        if (strcmp(machines[i].gpu, gpu) == 0)
            return machines[i].machine;
    return NULL;
}

/* What the constants of the presets were fitted on; the rest checks them. */
static bool was_fitted(const struct point *p)
{
    int n = p->ranks;
    if (strcmp(p->gpu, "a100") == 0)
        return n == 2 || n == 4 || n == 8;
    return (strcmp(p->gpu, "A100-SXM") == 0 && n == 8) ||
           (strcmp(p->gpu, "H100-SXM") == 0 && (n == 32 || n == 128 || n == 512 || n == 2048)) ||
           (strcmp(p->gpu, "H200-SXM") == 0 && n == 8);
}

static enum sn_collective kind_of(const char *op)
{
    enum sn_collective k = SN_ALL_REDUCE;
    while (k < SN_SEND && strcmp(op, sn_collective_name(k)) != 0)
        k++;
    return k;
}

static double planned(const struct sn_machine *m, const struct point *p)
{
    static const enum sn_axis order[] = {SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT,
                                         SN_AXIS_DATA, SN_AXIS_PIPELINE};
    const int size[SN_NGRID_AXES] = {p->ranks, 1, 1, 1, 1};
    struct sn_software s;
    sn_software_default(&s);
    struct sn_pricer pricer = {.machine = m, .software = &s, .precision = SN_F32};
    (void)sn_grid_init(&pricer.grid, p->ranks, size, order, NULL);
    sn_span_of(&pricer.span[SN_GROUP_TENSOR], m, &pricer.grid, SN_GROUP_TENSOR);
    enum sn_collective kind = kind_of(p->op);
    double n = p->bytes / 4 / (kind == SN_ALL_REDUCE ? 1 : p->ranks);
    return sn_price_collective(&pricer, kind, (int64_t)n, SN_F32, SN_GROUP_TENSOR);
}

static struct series *series_of(struct table *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->series[i].name, name) == 0)
            return &t->series[i];
    if (t->n == MAX_SERIES)
        return NULL;
    struct series *s = &t->series[t->n++];
    (void)snprintf(s->name, sizeof(s->name), "%s", name);
    return s;
}

static int add(struct table *t, const char *folder, const struct point *p, const char *name)
{
    struct sn_machine m = {0};
    struct sn_err err = {0};
    char path[256];
    struct series *s = series_of(t, name);
    s = s && s->n < MAX_POINTS ? s : NULL;
    (void)snprintf(path, sizeof(path), "%s/../../../templates/machines/%s.yaml", folder,
                   machine_of(p->gpu));
    if (!s || sn_machine_load(&m, path, &err) != SN_OK) {
        (void)fprintf(stderr, "%s\n", s ? err.text : "bench_collectives: too many rows");
        return 1;
    }
    s->machine = machine_of(p->gpu);
    s->fitted = was_fitted(p);
    s->error[s->n++] = fabs(planned(&m, p) / p->seconds - 1);
    sn_machine_fini(&m);
    return 0;
}

/* Cut a line at its commas, but not within quotes; fields that are empty stay. */
static void cut_line(char *line, char *field[COLUMNS])
{
    bool quoted = false;
    int n = 0;
    line[strcspn(line, "\n")] = 0;
    for (int i = 0; i < COLUMNS; i++)
        field[i] = line + strlen(line);
    field[n++] = line;
    for (char *at = line; *at && n < COLUMNS; at++) {
        quoted = quoted != (*at == '"');
        if (*at == ',' && !quoted) {
            *at = 0;
            field[n++] = at + 1;
        }
    }
}

/* gpu, ranks, bytes, nanoseconds: one NVLink node */
static int add_lookup(struct table *t, const char *folder, char *f[COLUMNS])
{
    struct point p = {.op = "all_reduce", .gpu = f[0], .ranks = atoi(f[1])};
    p.bytes = atof(f[2]);
    p.seconds = atof(f[3]) * 1e-9;
    char name[96];
    (void)snprintf(name, sizeof(name), "all_reduce, %d in a node (vTrain)", p.ranks);
    return machine_of(p.gpu) ? add(t, folder, &p, name) : 0;
}

/* op, gpu, ranks, nodes, network, algorithm, bytes, bus bandwidth, time, tool, source. A peak
 * without size is that of 16 GiB. Left out: rows without ranks, means over sizes, other fabrics
 * than the presets', and node rings where the preset's switches sum. */
static int add_bandwidth(struct table *t, const char *folder, char *f[COLUMNS])
{
    struct point p = {.op = f[0], .gpu = f[1], .note = f[5], .ranks = atoi(f[2])};
    bool other = strcmp(p.note, "mean") == 0 || strstr(f[4], "EFA") || strstr(p.note, "NVLS off");
    if (p.ranks == 0 || other || !machine_of(p.gpu))
        return 0;
    p.bytes = f[6][0] ? atof(f[6]) : 0x1p34;
    double factor = (p.ranks - 1.0) / p.ranks * (kind_of(p.op) == SN_ALL_REDUCE ? 2 : 1);
    p.seconds = p.bytes * factor / (atof(f[7]) * 1e9);
    char name[96];
    if (f[6][0] && strcmp(f[9], "nccl-tests") != 0)
        (void)snprintf(name, sizeof(name), "%s, %d ranks", p.op, p.ranks);
    else if (strcmp(p.gpu, "A100-SXM") == 0)
        (void)snprintf(name, sizeof(name), "%s, %d ranks (ml-engineering)", p.op, p.ranks);
    else
        (void)snprintf(name, sizeof(name), "single large messages, %s", machine_of(p.gpu));
    return add(t, folder, &p, name);
}

static int read_file(struct table *t, const char *folder, const char *file,
                     int (*take)(struct table *t, const char *folder, char *f[COLUMNS]))
{
    char path[256], line[512], *field[COLUMNS];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, file);
    FILE *in = fopen(path, "r");
    if (!in) {
        (void)fprintf(stderr, "%s: cannot be opened\n", path);
        return 1;
    }
    int bad = 0;
    bool names = true; /* the first line that is no comment */
    while (!bad && fgets(line, sizeof(line), in)) {
        if (line[0] == '#')
            continue;
        cut_line(line, field);
        bad = names ? 0 : take(t, folder, field);
        names = false;
    }
    (void)fclose(in);
    return bad;
}

static void print_row(const char *name, const char *use, double *error, int n)
{
    qsort(error, (size_t)n, sizeof(error[0]), bench_by_value);
    printf("| %s | %s | %d | %.1f | %.1f | %.1f |\n", name, use, n, 100 * error[n / 2],
           100 * error[(n * 9 - 1) / 10], 100 * error[n - 1]);
}

int main(int argc, char **argv)
{
    bench_head();
    struct table t = {.n = 0};
    const char *folder = argc > 1 ? argv[1] : "tests/bench/layouts";
    if (read_file(&t, folder, "collective_bandwidth.csv", add_bandwidth) ||
        read_file(&t, folder, "nccl_allreduce_lut.csv", add_lookup))
        return 1;
    double all[2][MAX_SERIES * MAX_POINTS];
    int n[2] = {0, 0};
    puts("| series | used to | sizes | median % | p90 % | largest % |\n|---|---|---|---|---|---|");
    for (int i = 0; i < t.n; i++) {
        struct series *s = &t.series[i];
        char name[192];
        for (int k = 0; k < s->n; k++)
            all[s->fitted][n[s->fitted]++] = s->error[k];
        (void)snprintf(name, sizeof(name), "%s: %s", s->machine, s->name);
        print_row(name, s->fitted ? "fit" : "check", s->error, s->n);
    }
    print_row("**all that were fitted**", "fit", all[1], n[1]);
    print_row("**all that check**", "check", all[0], n[0]);
    return 0;
}
