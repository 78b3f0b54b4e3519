/*
 * merge_adapters.c - a source whose adapters are in the weights that they adapt:
 *
 *   W' = W + scale B A        W[out, in], A[r, in], B[out, r]
 *
 * Of a box of W' are read that box of W, of A its columns and of B its rows, all r deep; so a box
 * costs r x (rows + columns) values beside its own. What else the inner source has stays as it is,
 * but for the adapters and their moments.
 */
#include "checkpoint/convert/several.h"
#include "checkpoint/hf/hfrules.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Numbers of inner tensors; -1: none. */
struct adapted {
    int weight, a, b;
    int64_t r;
};

struct merged {
    struct sn_several of;    /* aside: of a box A, then B */
    struct adapted *adapted; /* by tensor here */
    struct sn_source_tensor *tensors;
    int n;
};

/* --- reading ---------------------------------------------------------------------------------- */

static int parts_of(const void *arg, const struct sn_source_want *want,
                    struct sn_source_want *parts, int64_t *aside)
{
    const struct merged *m = arg;
    const struct adapted *x = &m->adapted[want->tensor];
    struct sn_box w = want->box;
    *aside = x->a < 0 ? 0 : x->r * (w.rows + w.cols);
    if (parts)
        parts[0] = (struct sn_source_want){x->weight, w};
    if (x->a < 0)
        return 1;
    if (parts) {
        parts[1] = (struct sn_source_want){x->a, {0, w.col, x->r, w.cols}};
        parts[2] = (struct sn_source_want){x->b, {w.row, 0, w.rows, x->r}};
    }
    return 3;
}

static enum sn_status begin(void *self, const struct sn_source_want *wants, int64_t n,
                            int64_t memory, struct sn_err *err)
{
    struct merged *m = self;
    return sn_several_begin(&m->of, wants, n, memory, parts_of, m, err);
}

static void add_product(const struct merged *m, const struct adapted *x, struct sn_box w,
                        float *out, int64_t ld)
{
    const float *a = m->of.aside, *b = m->of.aside + x->r * w.cols;
    float scale = m->of.inner.scalars.adapter_scale;
    for (int64_t i = 0; i < w.rows; i++)
        for (int64_t k = 0; k < x->r; k++) {
            float f = scale * b[i * x->r + k];
            for (int64_t c = 0; c < w.cols; c++)
                out[i * ld + c] += f * a[k * w.cols + c];
        }
}

static enum sn_status next(void *self, float *out, int64_t ld, struct sn_err *err)
{
    struct merged *m = self;
    struct sn_source *inner = &m->of.inner;
    const struct sn_source_want *want;
    SN_TRY(sn_several_next(&m->of, &want, err));
    const struct adapted *x = &m->adapted[want->tensor];
    struct sn_box w = want->box;
    SN_TRY(inner->next(inner->self, out, ld, err));
    if (x->a < 0)
        return SN_OK;
    SN_TRY(inner->next(inner->self, m->of.aside, w.cols, err));
    SN_TRY(inner->next(inner->self, m->of.aside + x->r * w.cols, x->r, err));
    add_product(m, x, w, out, ld);
    return SN_OK;
}

static void destroy(struct merged *m)
{
    sn_free(m->adapted);
    sn_free(m->tensors);
    sn_several_free(&m->of);
    sn_free(m);
}

static void close_both(void *self)
{
    struct merged *m = self;
    sn_source_close(&m->of.inner); /* it may still read what it was told */
    destroy(m);
}

/* --- what becomes of each tensor -------------------------------------------------------------- */

bool sn_source_has_adapters(const struct sn_source *s)
{
    for (int i = 0; i < s->n_tensors; i++)
        if (sn_hf_is_adapter(s->tensors[i].name))
            return true;
    return false;
}

bool sn_source_has_prompts(const struct sn_source *s)
{
    for (int i = 0; i < s->n_tensors; i++)
        if (sn_hf_is_prompt(s->tensors[i].name))
            return true;
    return false;
}

/* The tensor whose name has `end` in place of "weight"; -1: it is not there. */
static int beside(const struct sn_source *s, const char *weight, const char *end)
{
    static const char last[] = "weight";
    char name[sizeof(((struct sn_hf_name *)0)->text)];
    size_t len = strlen(weight), stem = len - (sizeof(last) - 1);
    if (len < sizeof(last) || strcmp(weight + stem, last) != 0)
        return -1;
    (void)snprintf(name, sizeof(name), "%.*s%s", (int)stem, weight, end);
    return sn_source_find(s, "model", name);
}

static enum sn_status find_adapter(struct adapted *out, const struct sn_source *s, int weight,
                                   struct sn_err *err)
{
    const struct sn_source_tensor *w = &s->tensors[weight];
    *out = (struct adapted){.weight = weight, .a = -1, .b = -1};
    if (strcmp(w->group, "model") != 0)
        return SN_OK;
    int a = beside(s, w->name, "lora_a"), b = beside(s, w->name, "lora_b");
    if (a < 0 && b < 0)
        return SN_OK;
    bool fits = a >= 0 && b >= 0 && s->tensors[a].cols == w->cols &&
                s->tensors[b].rows == w->rows && s->tensors[a].rows == s->tensors[b].cols;
    if (!fits)
        return sn_fail(err, SN_EINPUT,
                       "%s: the adapter of tensor %s lacks a half or has another shape; want "
                       "lora_a[r, %" PRId64 "] and lora_b[%" PRId64 ", r]",
                       s->name, w->name, w->cols, w->rows);
    out->a = a;
    out->b = b;
    out->r = s->tensors[a].rows;
    return SN_OK;
}

static enum sn_status list(struct merged *m, struct sn_err *err)
{
    int adapters = 0, used = 0;
    for (int i = 0; i < m->of.inner.n_tensors; i++) {
        const struct sn_source_tensor *t = &m->of.inner.tensors[i];
        if (sn_hf_is_adapter(t->name)) {
            adapters += strcmp(t->group, "model") == 0;
            continue;
        }
        SN_TRY(find_adapter(&m->adapted[m->n], &m->of.inner, i, err));
        used += m->adapted[m->n].a >= 0 ? 2 : 0;
        m->tensors[m->n++] = *t;
    }
    if (adapters == 0)
        return sn_fail(err, SN_EINPUT, "%s: has no adapters to merge; leave --merge out",
                       m->of.inner.name);
    if (used != adapters)
        return sn_fail(err, SN_EINPUT, "%s: %d of its %d tensors of adapters belong to no weight",
                       m->of.inner.name, adapters - used, adapters);
    if (m->of.inner.scalars.adapter_scale == 0)
        return sn_fail(err, SN_EINPUT, "%s: does not say what its adapters are multiplied by",
                       m->of.inner.name);
    return SN_OK;
}

enum sn_status sn_source_merge(struct sn_source *out, struct sn_source *inner, struct sn_err *err)
{
    struct merged *m = sn_alloc(sizeof(*m));
    size_t n = (size_t)inner->n_tensors + 1;
    if (!m)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list its tensors", inner->name);
    m->of.inner = *inner;
    m->adapted = sn_alloc_n(n, sizeof(*m->adapted));
    m->tensors = sn_alloc_n(n, sizeof(*m->tensors));
    enum sn_status st =
        m->adapted && m->tensors
            ? list(m, err)
            : sn_fail(err, SN_ENOMEM, "%s: no memory to list its tensors", inner->name);
    if (st != SN_OK) {
        destroy(m);
        return st;
    }
    uint64_t x[2] = {inner->identity, sn_hash64("merged", sizeof("merged"))};
    *out = *inner; /* name, scalars, model */
    out->self = m;
    out->n_tensors = m->n;
    out->tensors = m->tensors;
    out->scalars.adapter_scale = 0;
    out->identity = sn_hash64(x, sizeof(x));
    out->begin = begin;
    out->next = next;
    out->close = close_both;
    *inner = (struct sn_source){0};
    return SN_OK;
}
