#include "lib/search/kept.h"

#include "lib/base/mem.h"
#include "lib/program/program.h"

#include <string.h>

/* Number `stage` of `stages` of a small model: how many layers each has. */
struct stage {
    int stages, stage, layers[3];
};

struct bytes {
    int64_t slot, late;
};

void sn_kept_models_fini(struct sn_kept_models *m)
{
    for (int i = 0; i <= SN_KEPT_LAYERS; i++)
        sn_model_destroy(m->of[i]);
    *m = (struct sn_kept_models){{NULL}};
}

static struct bytes bytes_of(const struct sn_job *j)
{
    struct bytes sum = {0, 0};
    const struct sn_program *p = &j->train;
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) {
        const struct sn_buffer *x = &p->bufs[b];
        if (x->place != b || (x->cls != SN_CLASS_SLOT && x->cls != SN_CLASS_LATE))
            continue;
        int64_t bytes = x->bytes;
        if (x->bucket >= 0)
            bytes = sn_layer_profile_raw(j, x) * (int64_t)sn_dtype_size(x->dtype);
        *(x->cls == SN_CLASS_SLOT ? &sum.slot : &sum.late) += bytes;
    }
    return sum;
}

static enum sn_status compile(struct bytes *out, struct sn_kept_models *models,
                              const struct sn_layer_profile_env *env, const struct sn_config *c,
                              int stage, struct sn_err *err)
{
    struct sn_model **model = &models->of[c->model.layers];
    if (!*model)
        SN_TRY(sn_model_create(model, &c->model, &c->train, err));
    struct sn_job_env job = {
        .config = c, .model = *model, .ops = env->ops, .threads = env->threads};
    struct sn_grid grid;
    SN_TRY(sn_job_grid(&grid, c, err));
    job.rank = sn_grid_rank(&grid, (int[SN_NGRID_AXES]){[SN_AXIS_PIPELINE] = stage});
    struct sn_job *j = NULL;
    SN_TRY(sn_job_create_text(&j, &job, err));
    *out = bytes_of(j);
    sn_job_destroy(j);
    return SN_OK;
}

static enum sn_status kept_by(struct bytes *out, struct sn_kept_models *models,
                              const struct sn_layer_profile_env *env,
                              const struct sn_layer_profile_key *key, const struct stage *s,
                              struct sn_err *err)
{
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    if (!c)
        return sn_fail(err, SN_ENOMEM, "search: no memory to compile a stage");
    sn_layer_profile_config(c, env->config, key);
    c->model.layers = 0;
    c->layout.pipeline = c->layout.n_split = s->stages;
    for (int i = 0; i < s->stages; i++) {
        c->layout.split[i] = s->layers[i];
        c->model.layers += s->layers[i];
    }
    enum sn_status st = compile(out, models, env, c, s->stage, err);
    sn_free(c);
    return st;
}

static struct bytes less(struct bytes a, struct bytes b)
{
    return (struct bytes){a.slot - b.slot, a.late - b.late};
}

/* Layers of both kinds in turn, or all of one? */
static bool has_both(const struct sn_layer_profile_env *env)
{
    return sn_model_mixes_layers(&env->config->model);
}

/* Of a stage between others: what one more layer makes of it. Where both kinds alternate its first
 * layer is without experts. */
enum sn_status sn_kept_by_layers(struct sn_kept_pair *out, struct sn_kept_models *models,
                                 const struct sn_layer_profile_env *env,
                                 const struct sn_layer_profile_key *key, struct sn_err *err)
{
    bool both = has_both(env);
    struct bytes of[4];
    for (int n = 1; n <= (both ? 3 : 2); n++)
        SN_TRY(kept_by(&of[n], models, env, key, &(struct stage){3, 1, {both ? 2 : 1, n, 1}}, err));
    struct bytes second = less(of[2], of[1]), plain = both ? less(of[3], of[2]) : second;
    struct bytes end = less(of[1], plain);
    out->slot = (struct sn_kept_bytes){end.slot, plain.slot, second.slot};
    out->late = (struct sn_kept_bytes){end.late, plain.late, second.late};
    return SN_OK;
}

enum sn_status sn_kept_by_ends(struct sn_kept_pair *out, struct sn_kept_models *models,
                               const struct sn_layer_profile_env *env,
                               const struct sn_layer_profile_key *key, const bool end[2],
                               struct sn_err *err)
{
    if (!end[0] && !end[1])
        return SN_OK; /* known */
    int each = has_both(env) ? 2 : 1;
    struct stage s = {.stages = end[0] && end[1] ? 1 : 2, .stage = !end[0], .layers = {each, each}};
    struct bytes all;
    SN_TRY(kept_by(&all, models, env, key, &s, err));
    out->slot.end = all.slot - out->slot.experts - (each == 2 ? out->slot.layer : 0);
    out->late.end = all.late - out->late.experts - (each == 2 ? out->late.layer : 0);
    return SN_OK;
}

/* --- by micro-batch --------------------------------------------------------------------------- */

enum { NUMBERS = 6 };

static void numbers_of(int64_t n[NUMBERS], const struct sn_kept_pair *p)
{
    const int64_t of[] = {p->slot.end, p->slot.layer, p->slot.experts,
                          p->late.end, p->late.layer, p->late.experts};
    for (int i = 0; i < NUMBERS; i++)
        n[i] = of[i];
}

/* False: where the line passes there is no whole number of bytes. */
static bool place_on(struct sn_kept_pair *out, const struct sn_kept_line *l, int micro)
{
    int64_t a[NUMBERS], b[NUMBERS], at[NUMBERS], step = l->micro[1] - l->micro[0];
    numbers_of(a, &l->of[0]);
    numbers_of(b, &l->of[1]);
    for (int i = 0; i < NUMBERS; i++) {
        if ((b[i] - a[i]) % step)
            return false;
        at[i] = a[i] + (b[i] - a[i]) / step * (micro - l->micro[0]);
    }
    *out = (struct sn_kept_pair){{at[0], at[1], at[2]}, {at[3], at[4], at[5]}};
    return true;
}

bool sn_kept_on_line(struct sn_kept_pair *out, const struct sn_kept_line *l, int micro)
{
    return l->holds && place_on(out, l, micro);
}

void sn_kept_tell_line(struct sn_kept_line *l, int micro, const struct sn_kept_pair *is)
{
    struct sn_kept_pair due;
    if (l->n < 2) {
        l->micro[l->n] = micro;
        l->of[l->n++] = *is;
        return;
    }
    bool on = place_on(&due, l, micro) && memcmp(&due, is, sizeof(due)) == 0;
    l->bends = l->bends || !on;
    l->holds = on && !l->bends;
}
