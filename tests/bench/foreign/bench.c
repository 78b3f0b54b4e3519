/*
 * bench.c - rows priced by the program that prices ours.
 */
#include "tests/bench/foreign/bench.h"

#include "lib/base/mem.h"
#include "lib/config/files.h"
#include "lib/sim/sim.h"
#include "tests/bench/foreign/linear.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- open and close --------------------------------------------------------------------------- */

static int find(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    return -1;
}

/* One that ships, or one that only published rows need: tests/bench/machines. */
static enum sn_status load_machine(struct bench *b, const char *share, const char *name,
                                   struct sn_err *err)
{
    char path[SN_PATH_MAX + 96];
    if (find(b->machine_name, b->n_machines, name) >= 0)
        return SN_OK;
    if (b->n_machines == BENCH_MACHINES)
        return sn_fail(err, SN_EFAIL, "more than %d machines", BENCH_MACHINES);
    (void)snprintf(path, sizeof(path), "tests/bench/machines/%s.yaml", name);
    if (access(path, R_OK) != 0)
        (void)snprintf(path, sizeof(path), "%s/machines/%s.yaml", share, name);
    SN_TRY(sn_machine_load(&b->machine[b->n_machines], path, err));
    b->machine_name[b->n_machines++] = name;
    return SN_OK;
}

static enum sn_status load_profiles(struct bench *b, const char *share, const struct source *s,
                                    struct sn_err *err)
{
    char path[SN_PATH_MAX + 96];
    for (; s->profiles[b->n_profiles]; b->n_profiles++) {
        (void)snprintf(path, sizeof(path), "%s/software/%s.yaml", share,
                       s->profiles[b->n_profiles]);
        SN_TRY(sn_software_load(&b->profile[b->n_profiles], path, err));
        b->profile_name[b->n_profiles] = s->profiles[b->n_profiles];
    }
    return SN_OK;
}

enum sn_status bench_open(struct bench *b, const struct source *s, const char *folder,
                          struct sn_err *err)
{
    char share[SN_PATH_MAX];
    SN_TRY(sn_share_find(share, sizeof(share), err));
    SN_TRY(s->read(&b->rows, folder, err));
    SN_TRY(load_profiles(b, share, s, err));
    for (int i = 0; i < b->rows.n; i++)
        SN_TRY(load_machine(b, share, b->rows.row[i].machine, err));
    b->seconds = sn_alloc_n((size_t)b->rows.n + 1, sizeof(*b->seconds));
    b->used = sn_alloc_n((size_t)b->rows.n + 1, sizeof(*b->used));
    b->filled = sn_alloc_n((size_t)b->rows.n + 1, sizeof(*b->filled));
    b->fits = sn_alloc_n((size_t)b->rows.n + 1, sizeof(*b->fits));
    if (!b->seconds || !b->used || !b->filled || !b->fits)
        return sn_fail(err, SN_ENOMEM, "no memory for %d rows", b->rows.n);
    for (int i = 0; i < b->rows.n; i++)
        b->used[i] = true;
    return rows_compile(&b->rows, err);
}

void bench_close(struct bench *b)
{
    rows_fini(&b->rows);
    for (int i = 0; i < b->n_machines; i++)
        sn_machine_fini(&b->machine[i]);
    plane_fini(&b->plane);
    sn_free(b->seconds);
    sn_free(b->used);
    sn_free(b->filled);
    sn_free(b->fits);
}

/* --- keep ------------------------------------------------------------------------------------- */

enum sn_status bench_keep(struct bench *out, const struct bench *b, struct sn_err *err)
{
    size_t n = (size_t)b->rows.n + 1;
    *out = *b;
    out->seconds = sn_alloc_n(n, sizeof(*out->seconds));
    out->filled = sn_alloc_n(n, sizeof(*out->filled));
    out->fits = sn_alloc_n(n, sizeof(*out->fits));
    out->used = sn_alloc_n(n, sizeof(*out->used));
    return out->seconds && out->filled && out->fits && out->used
               ? SN_OK
               : sn_fail(err, SN_ENOMEM, "no memory for %d rows", b->rows.n);
}

void bench_keep_used(struct bench *kept, const struct bench *b)
{
    for (int i = 0; i < b->rows.n; i++)
        if (b->used[i]) {
            kept->seconds[i] = b->seconds[i];
            kept->filled[i] = b->filled[i];
            kept->fits[i] = b->fits[i];
        }
}

void bench_kept_fini(struct bench *kept)
{
    sn_free(kept->seconds);
    sn_free(kept->filled);
    sn_free(kept->fits);
    sn_free(kept->used);
}

/* --- prices ----------------------------------------------------------------------------------- */

/* What prices a row; its profile is *s. */
static void pricer_of(struct sn_pricer *out, struct sn_software *s, const struct bench *b,
                      const struct row *r)
{
    int machine = find(b->machine_name, b->n_machines, r->machine);
    *s = b->profile[find(b->profile_name, b->n_profiles, r->software)];
    s->attention = r->attention;
    s->fused_norm = r->fused_norm;
    sn_pricer_init(out, &b->machine[machine], s, b->rows.row[r->twin].stages.job[0]);
}

static enum sn_status price_row(double *seconds, const struct bench *b, const struct row *r,
                                struct sn_err *err)
{
    const struct row *twin = &b->rows.row[r->twin];
    struct sn_software software;
    struct sn_pricer pricer;
    struct sn_sim sim = {0};
    pricer_of(&pricer, &software, b, r);
    SN_TRY(sn_sim_run(&sim, &twin->stages, &pricer, false, err));
    *seconds = sim.step;
    sn_sim_fini(&sim);
    return SN_OK;
}

enum sn_status bench_price(struct bench *b, struct sn_err *err)
{
    for (int i = 0; i < b->rows.n; i++) {
        if (b->used[i] && b->rows.row[i].outcome == ROW_TIMED)
            SN_TRY(price_row(&b->seconds[i], b, &b->rows.row[i], err));
    }
    return SN_OK;
}

void bench_memory(struct bench *b)
{
    for (int i = 0; i < b->rows.n; i++) {
        const struct row *r = &b->rows.row[i];
        struct sn_software software;
        struct sn_pricer pricer;
        struct sn_memory_plan memory;
        pricer_of(&pricer, &software, b, r);
        sn_plan_memory(&memory, &b->rows.row[r->twin].stages, &pricer);
        b->filled[i] = (double)memory.total / (double)pricer.machine->device.memory;
        b->fits[i] = b->filled[i] <= software.memory_cutoff;
    }
}

/* --- fit -------------------------------------------------------------------------------------- */

struct fitting {
    struct bench *b;
    const struct source *s;
    enum fitted what;
    const struct constant *constant[FIT_MAX]; /* of this kind */
    bool is_factor[FIT_MAX];
    int n;
    double *seconds; /* of all rows, on the plane */
};

static void put(const struct fitting *f, const double *x)
{
    struct bench *b = f->b;
    for (int k = 0; k < f->n; k++) {
        const struct constant *c = f->constant[k];
        for (int p = 0; p < b->n_profiles; p++) {
            if (c->profiles >> p & 1u)
                *(double *)((char *)&b->profile[p] + c->at) = c->is_factor ? exp(x[k]) : x[k];
        }
    }
}

/* A row that ran out of memory is right when it is full, one that ran when it is not; by a margin,
 * so that there is something to descend. */
static double memory_residual(const struct bench *b, int i)
{
    static const double margin = 0.01;
    double over = log(b->filled[i]);
    return b->rows.row[i].outcome == ROW_OOM ? fmax(0, margin - over) : fmax(0, over + margin);
}

static bool counts(const struct fitting *f, int i)
{
    return f->b->used[i] && (f->what == OF_MEMORY || f->b->rows.row[i].outcome == ROW_TIMED);
}

/* What fit.h minimises: of memory as it is, of times on the plane. */
static enum sn_status residuals(void *arg, const double *x, double *r, struct sn_err *err)
{
    struct fitting *f = arg;
    struct bench *b = f->b;
    int n = 0;
    (void)err;
    if (f->what == OF_MEMORY) {
        put(f, x);
        bench_memory(b);
    } else
        plane_read(&b->plane, x, f->seconds);
    for (int i = 0; i < b->rows.n; i++) {
        if (counts(f, i))
            r[n++] = f->what == OF_MEMORY ? memory_residual(b, i)
                                          : log(f->seconds[i] / b->rows.row[i].seconds);
    }
    return SN_OK;
}

/* The times of all rows, used or not, as plane_seconds has it. */
static enum sn_status all_seconds(void *arg, const double *x, double *seconds, struct sn_err *err)
{
    struct fitting *f = arg;
    struct bench *b = f->b;
    put(f, x);
    for (int i = 0; i < b->rows.n; i++) {
        seconds[i] = 1;
        if (b->rows.row[i].outcome == ROW_TIMED)
            SN_TRY(price_row(&seconds[i], b, &b->rows.row[i], err));
    }
    return SN_OK;
}

/* How far the plane is from the times at x, at worst. */
static enum sn_status misses(double *worst, struct fitting *f, const double *x, struct sn_err *err)
{
    struct bench *b = f->b;
    plane_read(&b->plane, x, f->seconds);
    put(f, x);
    SN_TRY(bench_price(b, err));
    *worst = 0;
    for (int i = 0; i < b->rows.n; i++)
        if (counts(f, i))
            *worst = fmax(*worst, fabs(f->seconds[i] / b->seconds[i] - 1));
    return SN_OK;
}

/* From a wide view, in which all rows count, to a narrow one: it has few minima of its own. */
static enum sn_status narrow(struct fitting *f, struct fit *fit, double *x, double scale,
                             struct sn_err *err)
{
    double cost;
    for (double wide = 16; f->n > 0 && fit->rows > 0 && wide >= 1; wide /= 4) {
        fit->scale = wide * scale;
        SN_TRY(fit_run(fit, x, &cost, err));
    }
    put(f, x);
    return SN_OK;
}

/* On planes, each laid where the last one led, until one is right where it leads; from the prior
 * each time. */
static enum sn_status fit_times(struct fitting *f, struct fit *fit, const double *prior, double *x,
                                struct sn_err *err)
{
    static const double RIGHT = 5e-3;
    struct plane *p = &f->b->plane;
    if (p->n == 0) {
        SN_TRY(plane_create(p, f->n, f->b->rows.n, err));
        SN_TRY(plane_lay(p, prior, f->is_factor, all_seconds, f, err));
    }
    double worst = 1;
    for (int round = 0; round < 5; round++) {
        memcpy(x, prior, (size_t)f->n * sizeof(*x));
        SN_TRY(narrow(f, fit, x, 0.02, err));
        SN_TRY(misses(&worst, f, x, err));
        if (worst < RIGHT)
            return SN_OK;
        SN_TRY(plane_lay(p, x, f->is_factor, all_seconds, f, err));
    }
    return SN_OK;
}

static enum sn_status fit_kind(struct fitting *f, struct sn_err *err)
{
    struct fit fit = {.residuals = residuals, .arg = f};
    double x[FIT_MAX], prior[FIT_MAX];
    for (int k = 0; k < f->s->n_constants; k++) {
        const struct constant *c = &f->s->constant[k];
        if (c->what != f->what)
            continue;
        if (f->n == FIT_MAX)
            return sn_fail(err, SN_EFAIL, "fit: more than %d constants", FIT_MAX);
        fit.c[f->n] = c->is_factor ? (struct fit_constant){log(c->prior), c->spread, log(c->least),
                                                           log(c->most)}
                                   : (struct fit_constant){c->prior, c->spread, c->least, c->most};
        x[f->n] = prior[f->n] = fit.c[f->n].prior;
        f->is_factor[f->n] = c->is_factor;
        if (f->b->without && strcmp(c->name, f->b->without) == 0)
            fit.c[f->n].spread = 1e-9; /* it stays where it is */
        f->constant[f->n++] = c;
    }
    for (int i = 0; i < f->b->rows.n; i++)
        fit.rows += counts(f, i);
    fit.n = f->n;
    return f->what == OF_TIME ? fit_times(f, &fit, prior, x, err) : narrow(f, &fit, x, 0.01, err);
}

enum sn_status bench_fit(struct bench *b, const struct source *s, enum fitted what,
                         struct sn_err *err)
{
    struct fitting f = {.b = b, .s = s, .what = what};
    f.seconds = sn_alloc_n((size_t)b->rows.n + 1, sizeof(*f.seconds));
    enum sn_status st =
        f.seconds ? fit_kind(&f, err) : sn_fail(err, SN_ENOMEM, "no memory for %d rows", b->rows.n);
    sn_free(f.seconds);
    return st == SN_OK ? bench_price(b, err) : st;
}

void bench_print_constants(const struct bench *b, const struct source *s)
{
    printf("| constant | prior |");
    for (int p = 0; p < b->n_profiles; p++)
        printf(" %s |", b->profile_name[p]);
    printf("\n|---|---|");
    for (int p = 0; p < b->n_profiles; p++)
        printf("---|");
    for (int k = 0; k < s->n_constants; k++) {
        const struct constant *c = &s->constant[k];
        printf("\n| %s | %.3g |", c->name, c->prior);
        for (int p = 0; p < b->n_profiles; p++) {
            if (c->profiles >> p & 1u)
                printf(" %.4g |", *(const double *)((const char *)&b->profile[p] + c->at));
            else
                printf(" |");
        }
    }
    printf("\n\n");
}
