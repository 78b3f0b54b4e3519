/*
 * codings.c - codecs for a budget of the loss: candidates, combinations, the best.
 */
#include "lib/search/codings.h"

#include "kernels/codec.h"
#include "lib/base/mem.h"
#include "lib/machine/named.h"
#include "lib/search/estimate_cache.h"
#include "lib/sim/sim.h"
#include "lib/sim/stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 64, SAMPLE = 1 << 20 /* values that tell how fast they are */ };

struct candidate {
    struct sn_coding z;
    double rise, bytes, encode, decode;
};

struct combination {
    int pick[SN_NCODED];
    double bound, sum;
    int number;
};

struct chooser {
    struct sn_config *c; /* with the combination at hand */
    const struct sn_machine *m;
    const struct sn_software *s;
    const struct sn_losses *losses;
    struct sn_estimator *e;
    struct sn_model *model;
    struct sn_grid grid;
    double budget;
    struct candidate of[SN_NCODED][CANDIDATES];
    int n[SN_NCODED];
    struct combination *all;
    int n_all, room;
};

/* --- candidates ------------------------------------------------------------------------------- */

/* Is anything of this kind sent? Then there are ranks that send it. */
static bool is_sent(const struct chooser *x, enum sn_coded kind)
{
    const struct sn_grid *g = &x->grid;
    struct sn_mesh mesh = sn_mesh_of_grid(g);
    switch (kind) {
    case SN_CODED_DATA:
        return sn_group_size(g, 0, SN_GROUP_REPLICA) > 1;
    case SN_CODED_ZERO:
        return sn_updates_are_slices(sn_config_holding(x->c));
    case SN_CODED_TENSOR:
        return sn_mesh_ranks(&mesh) > 1;
    case SN_CODED_PIPELINE:
        return sn_group_size(g, 0, SN_GROUP_PIPELINE) > 1;
    default:
        return sn_group_size(g, 0, SN_GROUP_EXPERT) > 1;
    }
}

static enum sn_dtype type_of(const struct sn_config *c, enum sn_coded kind)
{
    return kind == SN_CODED_DATA ? SN_F32 : c->train.precision;
}

/* What the rules of the run file refuse (lib/config/rules_compress.c). */
static bool may(const struct chooser *x, enum sn_coded kind, const struct sn_coding *z)
{
    const struct sn_config *c = x->c;
    bool loses = sn_coding_loses(z);
    if (z->on && !loses && kind == SN_CODED_EXPERT)
        return false;
    if (kind == SN_CODED_ZERO && c->train.sparse.n_targets > 0 && !sn_coding_keeps_zeros(z))
        return false;
    if (z->feedback && (kind != SN_CODED_DATA || !loses || c->train.precision == SN_F16))
        return false;
    if (kind == SN_CODED_DATA && c->layout.compress.feedback && loses && !z->feedback)
        return false;
    if (z->diff &&
        (kind != SN_CODED_ZERO || !loses || sn_weights_are_slices(sn_zero_holding(c->layout.zero))))
        return false;
    return !z->on || !sn_codec_missing(&z->codec);
}

static bool dominated(const struct candidate *a, const struct candidate *by)
{
    return by->rise <= a->rise && by->bytes <= a->bytes && by->encode <= a->encode &&
           by->decode <= a->decode;
}

/* Keep what is better than all others in something. */
static void consider(struct chooser *x, enum sn_coded kind, const struct sn_coding *z)
{
    struct candidate a = {.z = *z};
    bool measured;
    enum sn_dtype t = type_of(x->c, kind);
    if (!may(x, kind, z) || !sn_losses_find(&a.rise, &measured, x->losses, kind, z) ||
        a.rise > x->budget)
        return;
    a.bytes = SAMPLE * (double)sn_dtype_size(t);
    if (z->on) {
        a.bytes = (double)sn_coded_likely(&z->codec, t, SAMPLE);
        sn_coded_speed(&a.encode, &a.decode, x->e, z, t, SAMPLE);
    }
    for (int i = 0; i < x->n[kind]; i++)
        if (dominated(&a, &x->of[kind][i]))
            return;
    int kept = 0;
    for (int i = 0; i < x->n[kind]; i++)
        if (!dominated(&x->of[kind][i], &a))
            x->of[kind][kept++] = x->of[kind][i];
    if (kept < CANDIDATES)
        x->of[kind][kept++] = a;
    x->n[kind] = kept;
}

/* None, lossless, and every codec of the table in all ways. */
static void list(struct chooser *x, enum sn_coded kind)
{
    struct sn_coding z;
    memset(&z, 0, sizeof(z));
    consider(x, kind, &z);
    z.on = true;
    z.codec = z.between = (struct sn_codec){.kind = SN_CODEC_MPC, .dim = 1};
    consider(x, kind, &z);
    for (int i = 0; i < x->losses->n; i++) {
        z.codec = z.between = x->losses->row[i].codec;
        for (int way = 0; way < 3; way++) {
            z.feedback = way == 1;
            z.diff = way == 2;
            consider(x, kind, &z);
        }
    }
}

/* What the run file names stands, whatever it costs; what is not sent has nothing. */
static void list_all(struct chooser *x)
{
    struct sn_compress_config *z = &x->c->layout.compress;
    for (int k = 0; k < SN_NCODED; k++) {
        bool named = z->name[k][0], measured;
        if (named || !is_sent(x, (enum sn_coded)k)) {
            struct candidate *only = &x->of[k][x->n[k]++];
            if (named)
                only->z = z->coding[k];
            if (is_sent(x, (enum sn_coded)k))
                (void)sn_losses_find(&only->rise, &measured, x->losses, (enum sn_coded)k, &only->z);
            x->budget -= only->rise;
        }
    }
    x->budget = fmax(x->budget, 0); /* what loses nothing is always allowed */
    for (int k = 0; k < SN_NCODED; k++)
        if (x->n[k] == 0)
            list(x, (enum sn_coded)k);
        else
            x->of[k][0].rise = 0; /* taken off already */
}

/* --- combinations ----------------------------------------------------------------------------- */

static void set(struct chooser *x, const struct combination *b)
{
    for (int k = 0; k < SN_NCODED; k++)
        x->c->layout.compress.coding[k] = x->of[k][b->pick[k]].z;
}

static enum sn_status bound(struct chooser *x, struct combination *b, struct sn_err *err)
{
    struct sn_estimate got;
    set(x, b);
    SN_TRY(sn_estimate(&got, x->e, &x->c->layout, SN_ESTIMATE_PLAYED, err));
    b->bound = got.seconds;
    b->number = x->n_all;
    if (!sn_grow((void **)&x->all, x->n_all, &x->room, sizeof(*x->all)))
        return sn_fail(err, SN_ENOMEM, "layout.compress: no memory for %d combinations",
                       x->n_all + 1);
    x->all[x->n_all++] = *b;
    return SN_OK;
}

static enum sn_status combine(struct chooser *x, struct combination *b, int kind,
                              struct sn_err *err)
{
    if (kind == SN_NCODED)
        return bound(x, b, err);
    double before = b->sum;
    for (int i = 0; i < x->n[kind]; i++) {
        b->pick[kind] = i;
        b->sum = before + x->of[kind][i].rise;
        if (b->sum <= x->budget * (1 + 1e-12))
            SN_TRY(combine(x, b, kind + 1, err));
    }
    b->sum = before;
    return SN_OK;
}

static int order(const void *left, const void *right)
{
    const struct combination *a = left, *b = right;
    if (a->bound != b->bound)
        return a->bound < b->bound ? -1 : 1;
    return a->number - b->number;
}

static enum sn_status play(double *seconds, const struct chooser *x, struct sn_err *err)
{
    struct sn_job_env env = {.config = x->c, .model = x->model, .ops = sn_ops_cpu(), .threads = 1};
    struct sn_stages stages = {0};
    struct sn_pricer p;
    struct sn_sim sim = {0};
    enum sn_status st = sn_stages_create_text(&stages, &env, err);
    if (st == SN_OK) {
        sn_pricer_init(&p, x->m, x->s, stages.job[0]);
        st = sn_sim_run(&sim, &stages, &p, false, err);
    }
    *seconds = sim.step;
    sn_sim_fini(&sim);
    sn_stages_fini(&stages);
    return st;
}

static enum sn_status best_of_all(struct sn_codings *out, struct chooser *x, struct sn_err *err)
{
    const struct combination *best = NULL;
    qsort(x->all, (size_t)x->n_all, sizeof(*x->all), order);
    for (int i = 0; i < x->n_all && (!best || x->all[i].bound < out->seconds); i++) {
        double seconds;
        set(x, &x->all[i]);
        SN_TRY(play(&seconds, x, err));
        out->compiled++;
        bool first = best && seconds == out->seconds && x->all[i].number < best->number;
        if (!best || seconds < out->seconds || first) {
            best = &x->all[i];
            out->seconds = seconds;
        }
    }
    set(x, best);
    out->combined = x->n_all;
    for (int k = 0; k < SN_NCODED; k++) {
        bool measured;
        out->coding[k] = x->c->layout.compress.coding[k];
        if (is_sent(x, (enum sn_coded)k))
            (void)sn_losses_find(&out->rise[k], &measured, x->losses, (enum sn_coded)k,
                                 &out->coding[k]);
        out->sum += out->rise[k];
    }
    memset(x->c->layout.compress.coding, 0, sizeof(x->c->layout.compress.coding));
    return play(&out->plain, x, err);
}

/* --- all -------------------------------------------------------------------------------------- */

static enum sn_status choose(struct sn_codings *out, struct chooser *x, struct sn_err *err)
{
    struct combination b;
    memset(&b, 0, sizeof(b));
    SN_TRY(sn_job_grid(&x->grid, x->c, err));
    SN_TRY(sn_model_create(&x->model, &x->c->model, &x->c->train, err));
    SN_TRY(sn_estimator_create(&x->e, x->c, x->m, x->s, sn_ops_cpu(), 1, err));
    list_all(x);
    SN_TRY(combine(x, &b, 0, err));
    return best_of_all(out, x, err);
}

enum sn_status sn_codings_choose(struct sn_codings *out, const struct sn_config *c,
                                 const struct sn_machine *m, const struct sn_software *s,
                                 const struct sn_losses *l, struct sn_err *err)
{
    struct chooser *x = sn_alloc(sizeof(*x)); /* large for a stack */
    struct sn_config *work = sn_alloc(sizeof(*work));
    struct sn_codings found = {.sum = 0};
    enum sn_status st = SN_OK;
    if (!x || !work)
        st = sn_fail(err, SN_ENOMEM, "layout.compress: no memory to choose codecs");
    if (st == SN_OK) {
        *work = *c;
        work->checkpoint.snapshot_every = 0;
        *x = (struct chooser){
            .c = work, .m = m, .s = s, .losses = l, .budget = c->layout.compress.budget};
        st = choose(&found, x, err);
        sn_estimator_destroy(x->e);
        sn_model_destroy(x->model);
        sn_free(x->all);
    }
    sn_free(work);
    sn_free(x);
    if (st == SN_OK)
        *out = found;
    return st;
}

void sn_codings_put(struct sn_layout_config *l, const struct sn_codings *found)
{
    struct sn_compress_config *z = &l->compress;
    z->scheme = SN_SCHEME_NONE;
    z->budget = 0;
    z->feedback = found->coding[SN_CODED_DATA].feedback;
    for (int k = 0; k < SN_NCODED; k++) {
        z->coding[k] = found->coding[k];
        sn_coding_format(&z->coding[k], z->name[k]);
    }
}

enum sn_status sn_codings_resolve(struct sn_config *c, struct sn_err *err)
{
    struct sn_machine m = {0};
    struct sn_software s;
    struct sn_losses l = {.n = 0};
    struct sn_codings found;
    if (c->layout.compress.scheme != SN_SCHEME_AUTO)
        return SN_OK;
    if (!sn_names_machine(c))
        return sn_fail(err, SN_EINPUT,
                       "%s: layout.compress.scheme: auto wants to know what links cost; use "
                       "machine.preset or machine.file, or name a scheme",
                       c->path);
    SN_TRY(sn_machine_of(&m, c, NULL, err)); /* its own sentence names the file */
    enum sn_status st = sn_software_of(&s, c, NULL, err);
    if (st == SN_OK)
        st = sn_losses_load(&l, NULL, err);
    if (st == SN_OK)
        st = sn_codings_choose(&found, c, &m, &s, &l, err);
    sn_losses_fini(&l);
    sn_machine_fini(&m);
    if (st != SN_OK)
        return sn_err_prefix(err, "layout.compress.scheme: auto");
    sn_codings_put(&c->layout, &found);
    return SN_OK;
}
