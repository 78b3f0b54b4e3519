/*
 * fold.c - a source with what layout.compress adds as another layout has it (lib/state/state.h):
 * feedback of holders that are no more is added to that of those that stay, and what nobody wants
 * any more is left out. Everything else is the inner source's.
 */
#include "checkpoint/store/source.h"

#include "checkpoint/format/manifest.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/program/boxes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct folded {
    struct sn_source inner;
    int *to;      /* by inner tensor: the inner tensor to which it is added, itself, or -1 */
    int *outer;   /* by inner tensor that stays: its number here */
    int *first;   /* by tensor: members first[t] .. first[t + 1] - 1, the first being the tensor */
    int *members; /* inner tensors */
    struct sn_source_tensor *tensors;
    int n;
    const struct sn_source_want *wants; /* the caller's */
    int64_t n_wants, at;
    struct sn_source_want *parts;  /* what the inner source was told */
    struct sn_source_want *before; /* the time before, until it is told again */
    float *aside;                  /* a box */
};

/* --- reading ---------------------------------------------------------------------------------- */

static int members_of(const struct folded *f, int tensor)
{
    return f->first[tensor + 1] - f->first[tensor];
}

/* Boxes of all members, and room for one that is added. */
static enum sn_status announce(struct folded *f, const struct sn_source_want *wants, int64_t n,
                               int64_t *n_parts, int64_t *most)
{
    *n_parts = *most = 0;
    for (int64_t i = 0; i < n; i++) {
        int k = members_of(f, wants[i].tensor);
        int64_t size = sn_box_size(wants[i].box);
        *n_parts += k;
        *most = k > 1 && size > *most ? size : *most;
    }
    f->parts = sn_alloc_n((size_t)*n_parts + 1, sizeof(*f->parts));
    f->aside = sn_alloc_n((size_t)*most + 1, sizeof(*f->aside));
    if (!f->parts || !f->aside)
        return SN_ENOMEM;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++)
        for (int m = f->first[wants[i].tensor]; m < f->first[wants[i].tensor + 1]; m++)
            f->parts[at++] = (struct sn_source_want){f->members[m], wants[i].box};
    return SN_OK;
}

static enum sn_status begin(void *self, const struct sn_source_want *wants, int64_t n,
                            int64_t memory, struct sn_err *err)
{
    struct folded *f = self;
    struct sn_source_want *before = f->parts;
    int64_t n_parts, most;
    sn_free(f->aside);
    f->parts = NULL;
    f->aside = NULL;
    f->n_wants = f->at = 0;
    enum sn_status st = announce(f, wants, n, &n_parts, &most);
    if (st != SN_OK)
        st = sn_fail(err, st, "%s: no memory to list %" PRId64 " boxes", f->inner.name, n);
    int64_t taken = most * (int64_t)sizeof(*f->aside);
    if (st == SN_OK)
        st = f->inner.begin(f->inner.self, f->parts, n_parts, memory > taken ? memory - taken : 0,
                            err);
    sn_free(f->before); /* the inner source has let go of it */
    f->before = before;
    f->wants = wants;
    f->n_wants = st == SN_OK ? n : 0;
    return st;
}

static enum sn_status next(void *self, float *out, int64_t ld, struct sn_err *err)
{
    struct folded *f = self;
    if (f->at == f->n_wants)
        return sn_fail(err, SN_EFAIL, "%s: a box was asked for that was not announced",
                       f->inner.name);
    const struct sn_source_want *w = &f->wants[f->at++];
    SN_TRY(f->inner.next(f->inner.self, out, ld, err));
    struct sn_state_tensor to = {.p = out, .ld = ld, .folds = 1};
    for (int k = 1; k < members_of(f, w->tensor); k++) {
        SN_TRY(f->inner.next(f->inner.self, f->aside, w->box.cols, err));
        for (int64_t r = 0; r < w->box.rows; r++)
            sn_state_put(&to, r, 0, w->box.cols, f->aside + r * w->box.cols);
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
    sn_free(f->parts);
    sn_free(f->before);
    sn_free(f->aside);
    sn_free(f);
}

static void close_both(void *self)
{
    struct folded *f = self;
    sn_source_close(&f->inner); /* it may still read what it was told */
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
    const struct sn_source_tensor *t = &f->inner.tensors[i];
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
    int to = sn_source_find(&f->inner, group, t->name);
    if (to < 0 || f->inner.tensors[to].rows != t->rows || f->inner.tensors[to].cols != t->cols)
        return sn_fail(err, SN_EINPUT, "%s: has tensor %s %s, but no %s of its shape to add it to",
                       f->inner.name, t->group, t->name, group);
    f->to[i] = to;
    return SN_OK;
}

/* Tensors that stay, in their order, each before what is added to it. */
static void list(struct folded *f)
{
    int n = f->inner.n_tensors;
    for (int i = 0; i < n; i++)
        if (f->to[i] == i) {
            f->outer[i] = f->n;
            f->tensors[f->n++] = f->inner.tensors[i];
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
    for (int i = 0; i < f->inner.n_tensors && st == SN_OK; i++) {
        const char *name = f->inner.tensors[i].name;
        bool asks = model && sn_state_is_extra(f->inner.tensors[i].group);
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
    f->inner = *inner;
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
    uint64_t x[2] = {f->inner.identity,
                     sn_hash64(f->to, (size_t)f->inner.n_tensors * sizeof(*f->to))};
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
