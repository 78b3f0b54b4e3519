#include "lib/search/kept.h"

#include "lib/base/mem.h"
#include "lib/program/program.h"

#include <string.h>

/* Number `stage` of `stages` of a small model: how many layers each has. `kinds`: of each of train.prompt, a letter
 * of those below; NULL: there are no prompts. */
struct stage {
    int stages, stage, layers[3];
    const char *kinds;
};

struct bytes {
    int64_t slot, late;
};

/* Kinds of layers: without prompts, behind prompts, behind the first ones, below those. */
enum { PLAIN = 'n', PROMPT = 'p', FIRST = 'f', STILL = 's' };

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

static enum sn_status compile(struct bytes *out, const struct sn_model *model,
                              const struct sn_layer_profile_env *env, const struct sn_config *c,
                              int stage, struct sn_err *err)
{
    struct sn_job_env job = {.config = c, .model = model, .ops = env->ops, .threads = env->threads};
    struct sn_grid grid;
    SN_TRY(sn_job_grid(&grid, c, err));
    job.rank = sn_grid_rank(&grid, (int[SN_NGRID_AXES]){[SN_AXIS_PIPELINE] = stage});
    struct sn_job *j = NULL;
    SN_TRY(sn_job_create_text(&j, &job, err));
    *out = bytes_of(j);
    sn_job_destroy(j);
    return SN_OK;
}

/* Layers behind prompts among those of a small model. */
static void list_prompts(struct sn_prompt_config *p, const char *kinds)
{
    p->n_layers = 0;
    for (int i = 0; kinds[i]; i++)
        if (kinds[i] == PROMPT || kinds[i] == FIRST)
            p->layers[p->n_layers++] = i;
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
    struct sn_model *own = NULL, **model = s->kinds ? &own : &models->of[c->model.layers];
    if (s->kinds)
        list_prompts(&c->train.prompt, s->kinds);
    enum sn_status st = *model ? SN_OK : sn_model_create(model, &c->model, &c->train, err);
    if (st == SN_OK)
        st = compile(out, *model, env, c, s->stage, err);
    sn_model_destroy(own);
    sn_free(c);
    return st;
}

static struct bytes less(struct bytes a, struct bytes b)
{
    return (struct bytes){a.slot - b.slot, a.late - b.late};
}

/* --- layers of train.prompt ------------------------------------------------------------------- */

/* Of a stage module with these layers: behind `before`, in front of `behind` ("": they hold that end). */
static enum sn_status kept_as(struct bytes *out, struct sn_kept_models *models,
                              const struct sn_layer_profile_env *env,
                              const struct sn_layer_profile_key *key, const char *const part[3],
                              struct sn_err *err)
{
    char kinds[3 * 4] = "";
    struct stage s = {.stage = part[0][0] != 0, .kinds = kinds};
    for (int i = 0; i < 3; i++)
        if (part[i][0]) {
            s.layers[s.stages++] = (int)strlen(part[i]);
            (void)strncat(kinds, part[i], 3);
        }
    return kept_by(out, models, env, key, &s, err);
}

/* What layers keep that train.prompt makes differ: what one more makes of a first stage, which alone may have the map
 * of all. Of those behind the first prompts a model has one, which keeps what those behind others do, but for what
 * its stage's ends are told. */
static enum sn_status by_prompts(struct bytes of[SN_NPLACES], struct sn_kept_models *models,
                                 const struct sn_layer_profile_env *env,
                                 const struct sn_layer_profile_key *key, struct sn_err *err)
{
    struct sn_kinds kinds = sn_kinds_of(env->config);
    struct bytes one, more, prompt, still;
    SN_TRY(kept_as(&one, models, env, key, (const char *[]){"", "f", "n"}, err));
    SN_TRY(kept_as(&more, models, env, key, (const char *[]){"", "fn", "n"}, err));
    SN_TRY(kept_as(&prompt, models, env, key, (const char *[]){"", "fp", "n"}, err));
    of[SN_PLACE_BLOCK] = of[SN_PLACE_EXPERTS] = less(more, one);
    of[SN_PLACE_PROMPT] = of[SN_PLACE_FIRST_PROMPT] = less(prompt, one);
    if (kinds.still == 0)
        return SN_OK;
    SN_TRY(kept_as(&still, models, env, key, (const char *[]){"", "s", "f"}, err));
    SN_TRY(kept_as(&more, models, env, key, (const char *[]){"", "ss", "f"}, err));
    of[SN_PLACE_STILL] = less(more, still);
    return SN_OK;
}

enum sn_kept_begin sn_kept_begin_of(struct sn_kinds k, const struct sn_extent *x)
{
    enum sn_layer_place at = k.prompt ? sn_extent_place(x, k, 0) : SN_PLACE_BLOCK;
    if (at == SN_PLACE_STILL)
        return x->of[at] == x->layers ? SN_BEGIN_STILL : SN_BEGIN_STILL_THEN;
    return at == SN_PLACE_PROMPT         ? SN_BEGIN_PROMPT
           : at == SN_PLACE_FIRST_PROMPT ? SN_BEGIN_FIRST_PROMPT
                                         : SN_BEGIN_ANY;
}

/* The layers of a stage module that begins so, of those in front of it and behind; "": it holds that end. */
static void list_parts(const char *part[3], struct sn_kinds kinds, const bool end[2],
                       enum sn_kept_begin begin)
{
    static const char *const module[] = {[SN_BEGIN_ANY] = "n",
                                         [SN_BEGIN_PROMPT] = "p",
                                         [SN_BEGIN_FIRST_PROMPT] = "f",
                                         [SN_BEGIN_STILL] = "s",
                                         [SN_BEGIN_STILL_THEN] = "sf"};
    bool alone = end[0] && end[1] && begin == SN_BEGIN_ANY; /* the first prompts are in it, too */
    part[0] = part[2] = "";
    part[1] = alone ? "nf" : module[begin];
    if (!end[0])
        part[0] = begin <= SN_BEGIN_PROMPT ? "f" : kinds.still > 0 ? "s" : "n";
    if (!end[1])
        part[2] = part[0][0] == FIRST || strchr(part[1], FIRST) ? "n" : "f";
}

static void take_layers(struct bytes *all, const char *layers, const struct sn_kept_pair *of)
{
    for (const char *c = layers; *c; c++) {
        int at = *c == PLAIN    ? SN_PLACE_BLOCK
                 : *c == PROMPT ? SN_PLACE_PROMPT
                 : *c == FIRST  ? SN_PLACE_FIRST_PROMPT
                                : SN_PLACE_STILL;
        *all = less(*all, (struct bytes){of->slot.of[at], of->late.of[at]});
    }
}

/* --- all -------------------------------------------------------------------------------------- */

/* Layers of both kinds in turn, or all of one? */
static bool has_both(const struct sn_layer_profile_env *env)
{
    return sn_model_mixes_layers(&env->config->model);
}

static void put(struct sn_kept_pair *out, struct bytes end, const struct bytes of[SN_NPLACES])
{
    *out = (struct sn_kept_pair){.slot = {.end = end.slot}, .late = {.end = end.late}};
    for (int at = 0; at < SN_NPLACES; at++) {
        out->slot.of[at] = of[at].slot;
        out->late.of[at] = of[at].late;
    }
}

/* Of a stage between others: what one more layer makes of it. Where both kinds alternate its first
 * layer is without experts. */
enum sn_status sn_kept_by_layers(struct sn_kept_pair *out, struct sn_kept_models *models,
                                 const struct sn_layer_profile_env *env,
                                 const struct sn_layer_profile_key *key, struct sn_err *err)
{
    bool both = has_both(env);
    struct bytes of[4], each[SN_NPLACES] = {0};
    if (sn_prompt_positions(&env->config->train.prompt) > 0) {
        SN_TRY(by_prompts(each, models, env, key, err));
        put(out, (struct bytes){0, 0}, each);
        return SN_OK;
    }
    for (int n = 1; n <= (both ? 3 : 2); n++)
        SN_TRY(kept_by(&of[n], models, env, key,
                       &(struct stage){.stages = 3, .stage = 1, .layers = {both ? 2 : 1, n, 1}},
                       err));
    each[SN_PLACE_EXPERTS] = less(of[2], of[1]);
    each[SN_PLACE_BLOCK] = both ? less(of[3], of[2]) : each[SN_PLACE_EXPERTS];
    put(out, less(of[1], each[SN_PLACE_BLOCK]), each);
    return SN_OK;
}

enum sn_status sn_kept_by_ends(struct sn_kept_pair *out, struct sn_kept_models *models,
                               const struct sn_layer_profile_env *env,
                               const struct sn_layer_profile_key *key, const bool end[2],
                               enum sn_kept_begin begin, struct sn_err *err)
{
    struct bytes all;
    if (sn_prompt_positions(&env->config->train.prompt) > 0) {
        const char *part[3];
        list_parts(part, sn_kinds_of(env->config), end, begin);
        SN_TRY(kept_as(&all, models, env, key, part, err));
        take_layers(&all, part[1], out);
    } else if (!end[0] && !end[1]) {
        return SN_OK; /* known */
    } else {
        int each = has_both(env) ? 2 : 1;
        struct stage s = {
            .stages = end[0] && end[1] ? 1 : 2, .stage = !end[0], .layers = {each, each}};
        SN_TRY(kept_by(&all, models, env, key, &s, err));
        for (int at = SN_PLACE_EXPERTS; at >= (each == 2 ? SN_PLACE_BLOCK : SN_PLACE_EXPERTS); at--)
            all = less(all, (struct bytes){out->slot.of[at], out->late.of[at]});
    }
    out->slot.end = all.slot;
    out->late.end = all.late;
    return SN_OK;
}

/* --- by micro-batch --------------------------------------------------------------------------- */

/* A pair is a row of numbers of bytes. */
enum { NUMBERS = sizeof(struct sn_kept_pair) / sizeof(int64_t) };

/* False: where the line passes there is no whole number of bytes. */
static bool place_on(struct sn_kept_pair *out, const struct sn_kept_line *l, int micro)
{
    int64_t a[NUMBERS], b[NUMBERS], at[NUMBERS], step = l->micro[1] - l->micro[0];
    memcpy(a, &l->of[0], sizeof(a));
    memcpy(b, &l->of[1], sizeof(b));
    for (int i = 0; i < NUMBERS; i++) {
        if ((b[i] - a[i]) % step)
            return false;
        at[i] = a[i] + (b[i] - a[i]) / step * (micro - l->micro[0]);
    }
    memcpy(out, at, sizeof(at));
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
