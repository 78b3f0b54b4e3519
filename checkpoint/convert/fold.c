/*
 * fold.c - a source with what layout.compress adds as another layout has it (lib/state/state.h):
 * feedback of holders that are no more is added to that of those that stay, and what nobody wants
 * any more is left out. Everything else is the inner source's.
 */
#include "checkpoint/convert/several.h"

#include "checkpoint/format/manifest.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/program/boxes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct folded {
    struct sn_several of;
    int *to;      /* by inner tensor: the inner tensor to which it is added, itself, or -1 */
    int *outer;   /* by inner tensor that stays: its number here */
    int *first;   /* by tensor: members first[t] .. first[t + 1] - 1, the first being the tensor */
    int *members; /* inner tensors */
    struct sn_source_tensor *tensors;
    int n;
};

/* --- reading ---------------------------------------------------------------------------------- */

static int members_of(const struct folded *f, int tensor)
{
    return f->first[tensor + 1] - f->first[tensor];
}

/* Boxes of all members, and room for one that is added. */
static int parts_of(const void *arg, const struct sn_source_want *want,
                    struct sn_source_want *parts, int64_t *aside)
{
    const struct folded *f = arg;
    int n = members_of(f, want->tensor);
    *aside = n > 1 ? sn_box_size(want->box) : 0;
    for (int k = 0; parts && k < n; k++)
        parts[k] = (struct sn_source_want){f->members[f->first[want->tensor] + k], want->box};
    return n;
}

static enum sn_status begin(void *self, const struct sn_source_want *wants, int64_t n,
                            int64_t memory, struct sn_err *err)
{
    struct folded *f = self;
    return sn_several_begin(&f->of, wants, n, memory, parts_of, f, err);
}

static enum sn_status next(void *self, float *out, int64_t ld, struct sn_err *err)
{
    struct folded *f = self;
    struct sn_source *inner = &f->of.inner;
    const struct sn_source_want *w;
    SN_TRY(sn_several_next(&f->of, &w, err));
    SN_TRY(inner->next(inner->self, out, ld, err));
    struct sn_state_tensor to = {.p = out, .ld = ld, .folds = 1};
    for (int k = 1; k < members_of(f, w->tensor); k++) {
        SN_TRY(inner->next(inner->self, f->of.aside, w->box.cols, err));
        for (int64_t r = 0; r < w->box.rows; r++)
            sn_state_put(&to, r, 0, w->box.cols, f->of.aside + r * w->box.cols);
    }
    return SN_OK;
}

static void destroy(struct folded *f)
{
    sn_free(f->to);
    sn_free(f->outer);
    sn_free(f->first);
    sn_free(f->members);
    sn_free(f->tensors);
    sn_several_free(&f->of);
    sn_free(f);
}

static void close_both(void *self)
{
    struct folded *f = self;
    sn_source_close(&f->of.inner); /* it may still read what it was told */
    destroy(f);
}

/* --- what becomes of each tensor -------------------------------------------------------------- */

/* Of the piece of that name; nothing of one that the model lacks. */
static struct sn_state_extra extra_of(const struct sn_model *m, const struct sn_state_extra *extra,
                                      const char *name)
{
    for (int i = 0; extra && i < m->n_params; extra += m->params[i++].n_tensors)
        for (int k = 0; k < m->params[i].n_tensors; k++)
            if (strcmp(m->params[i].tensor[k].name, name) == 0)
                return extra[k];
    return (struct sn_state_extra){0};
}

static enum sn_status place(struct folded *f, int i, struct sn_state_extra wanted,
                            struct sn_err *err)
{
    const struct sn_source_tensor *t = &f->of.inner.tensors[i];
    int holder = sn_state_holder(t->group);
    char group[32];
    f->to[i] = i;
    if (!sn_state_is_extra(t->group))
        return SN_OK;
    if (holder < 0 ? !wanted.has_replica : wanted.holders == 0) {
        f->to[i] = -1;
        return SN_OK;
    }
    if (holder < wanted.holders || holder < 0)
        return SN_OK;
    (void)snprintf(group, sizeof(group), "feedback.%d", holder % wanted.holders);
    int to = sn_source_find(&f->of.inner, group, t->name);
    if (to < 0 || f->of.inner.tensors[to].rows != t->rows ||
        f->of.inner.tensors[to].cols != t->cols)
        return sn_fail(err, SN_EINPUT, "%s: has tensor %s %s, but no %s of its shape to add it to",
                       f->of.inner.name, t->group, t->name, group);
    f->to[i] = to;
    return SN_OK;
}

/* Tensors that stay, in their order, each before what is added to it. */
static void list(struct folded *f)
{
    int n = f->of.inner.n_tensors;
    for (int i = 0; i < n; i++)
        if (f->to[i] == i) {
            f->outer[i] = f->n;
            f->tensors[f->n++] = f->of.inner.tensors[i];
        }
    for (int i = 0; i < n; i++)
        if (f->to[i] >= 0)
            f->first[f->outer[f->to[i]] + 1]++;
    for (int t = 0; t < f->n; t++)
        f->first[t + 1] += f->first[t];
    int *at = f->outer; /* from here on: where the next member goes */
    for (int i = 0; i < n; i++)
        if (f->to[i] == i) {
            at[i] = f->first[at[i]];
            f->members[at[i]++] = i;
        }
    for (int i = 0; i < n; i++)
        if (f->to[i] >= 0 && f->to[i] != i)
            f->members[at[f->to[i]]++] = i;
}

static enum sn_status extras_for(struct sn_model **model, struct sn_state_extra **extra,
                                 const struct sn_config *c, struct sn_err *err)
{
    struct sn_job *j = NULL;
    SN_TRY(sn_model_create(model, &c->model, &c->train, err));
    struct sn_job_env env = {.config = c, .model = *model, .ops = sn_ops_cpu(), .threads = 1};
    SN_TRY(sn_job_create_shards(&j, &env, err));
    enum sn_status st = sn_job_extras(extra, j, err);
    sn_job_destroy(j);
    return st;
}

static enum sn_status place_all(struct folded *f, const struct sn_config *c, int *dropped,
                                struct sn_err *err)
{
    struct sn_model *model = NULL;
    struct sn_state_extra *extra = NULL;
    enum sn_status st = c ? extras_for(&model, &extra, c, err) : SN_OK;
    *dropped = 0;
    for (int i = 0; i < f->of.inner.n_tensors && st == SN_OK; i++) {
        const char *name = f->of.inner.tensors[i].name;
        bool asks = model && sn_state_is_extra(f->of.inner.tensors[i].group);
        st = place(f, i, asks ? extra_of(model, extra, name) : (struct sn_state_extra){0}, err);
        *dropped += f->to[i] < 0;
    }
    sn_free(extra);
    sn_model_destroy(model);
    return st;
}

static struct folded *create(const struct sn_source *inner)
{
    struct folded *f = sn_alloc(sizeof(*f));
    size_t n = (size_t)inner->n_tensors + 2;
    if (!f)
        return NULL;
    f->of.inner = *inner;
    f->to = sn_alloc_n(n, sizeof(*f->to));
    f->outer = sn_alloc_n(n, sizeof(*f->outer));
    f->first = sn_alloc_n(n, sizeof(*f->first));
    f->members = sn_alloc_n(n, sizeof(*f->members));
    f->tensors = sn_alloc_n(n, sizeof(*f->tensors));
    if (f->to && f->outer && f->first && f->members && f->tensors)
        return f;
    destroy(f);
    return NULL;
}

static uint64_t identity_of(const struct folded *f)
{
    uint64_t x[2] = {f->of.inner.identity,
                     sn_hash64(f->to, (size_t)f->of.inner.n_tensors * sizeof(*f->to))};
    return sn_hash64(x, sizeof(x));
}

static bool has_extras(const struct sn_source *s)
{
    for (int i = 0; i < s->n_tensors; i++)
        if (sn_state_is_extra(s->tensors[i].group))
            return true;
    return false;
}

enum sn_status sn_source_fold(struct sn_source *out, struct sn_source *inner,
                              const struct sn_config *c, int *dropped, struct sn_err *err)
{
    *dropped = 0;
    if (!has_extras(inner)) {
        *out = *inner;
        *inner = (struct sn_source){0};
        return SN_OK;
    }
    struct folded *f = create(inner);
    if (!f)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list its tensors", inner->name);
    enum sn_status st = place_all(f, c, dropped, err);
    if (st != SN_OK) {
        destroy(f);
        return st;
    }
    list(f);
    *out = *inner; /* name, scalars, model */
    out->self = f;
    out->n_tensors = f->n;
    out->tensors = f->tensors;
    out->identity = identity_of(f);
    out->least = inner->least + SN_BLOCK_BYTES; /* aside */
    out->begin = begin;
    out->next = next;
    out->close = close_both;
    *inner = (struct sn_source){0};
    return SN_OK;
}
