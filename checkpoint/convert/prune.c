/*
 * prune.c - a source whose matrices are sparse: of each row the values of the largest magnitude stay, or
 * two of each four neighbours (2:4), and the others are 0. So are their moments, and what else
 * belongs to them: a weight that is 0 is to stay so (train.sparse).
 *
 * Of a box are read the box and the whole rows of the weight that say what stays.
 */
#include "checkpoint/convert/several.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/select.h"
#include "lib/base/str.h"

#include <string.h>

struct pruned {
    struct sn_several of; /* aside: whole rows of the weight */
    struct sn_prune how;
    int *weight;      /* by tensor: the one whose magnitudes decide; -1: all of it stays */
    uint64_t *order;  /* of a row's values */
    bool *stays;      /* of a row */
};

/* --- which values stay ------------------------------------------------------------------------ */

/* Numbers that are ordered as magnitudes are; NaN above all, so that who looks will find it. */
static uint64_t order_of(float w)
{
    uint32_t bits;
    memcpy(&bits, &w, sizeof(bits));
    return bits & 0x7fffffffu;
}

/* Of n neighbours the k with the largest magnitude; of equal ones the first. */
static void largest(struct pruned *p, bool *stays, const float *w, int64_t n, int64_t k)
{
    int64_t above = 0;
    for (int64_t i = 0; i < n; i++)
        p->order[i] = order_of(w[i]);
    uint64_t least = sn_select_largest(p->order, n, k);
    for (int64_t i = 0; i < n; i++)
        above += order_of(w[i]) > least;
    for (int64_t i = 0; i < n; i++) {
        bool is_tie = order_of(w[i]) == least;
        stays[i] = order_of(w[i]) > least || (is_tie && above < k);
        above += is_tie && stays[i];
    }
}

static void row_stays(struct pruned *p, const float *w, int64_t cols)
{
    if (!p->how.is_2_4) {
        int64_t k = (int64_t)(p->how.density * (double)cols + 0.5);
        largest(p, p->stays, w, cols, k > 0 ? k : 1);
        return;
    }
    for (int64_t at = 0; at < cols; at += 4) {
        int64_t n = cols - at < 4 ? cols - at : 4;
        largest(p, p->stays + at, w + at, n, (n + 1) / 2);
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

static int parts_of(const void *arg, const struct sn_source_want *want,
                    struct sn_source_want *parts, int64_t *aside)
{
    const struct pruned *p = arg;
    int weight = p->weight[want->tensor];
    int64_t cols = p->of.inner.tensors[want->tensor].cols;
    *aside = weight < 0 ? 0 : want->box.rows * cols;
    if (parts)
        parts[0] = *want;
    if (weight < 0)
        return 1;
    if (parts)
        parts[1] = (struct sn_source_want){weight, {want->box.row, 0, want->box.rows, cols}};
    return 2;
}

static enum sn_status begin(void *self, const struct sn_source_want *wants, int64_t n,
                            int64_t memory, struct sn_err *err)
{
    struct pruned *p = self;
    return sn_several_begin(&p->of, wants, n, memory, parts_of, p, err);
}

static enum sn_status next(void *self, float *out, int64_t ld, struct sn_err *err)
{
    struct pruned *p = self;
    struct sn_source *inner = &p->of.inner;
    const struct sn_source_want *want;
    SN_TRY(sn_several_next(&p->of, &want, err));
    int64_t cols = inner->tensors[want->tensor].cols;
    SN_TRY(inner->next(inner->self, out, ld, err));
    if (p->weight[want->tensor] < 0)
        return SN_OK;
    SN_TRY(inner->next(inner->self, p->of.aside, cols, err));
    for (int64_t r = 0; r < want->box.rows; r++) {
        row_stays(p, p->of.aside + r * cols, cols);
        for (int64_t c = 0; c < want->box.cols; c++)
            if (!p->stays[want->box.col + c])
                out[r * ld + c] = 0;
    }
    return SN_OK;
}

static void destroy(struct pruned *p)
{
    sn_free(p->weight);
    sn_free(p->order);
    sn_free(p->stays);
    sn_several_free(&p->of);
    sn_free(p);
}

static void close_both(void *self)
{
    struct pruned *p = self;
    sn_source_close(&p->of.inner); /* it may still read what it was told */
    destroy(p);
}

/* --- what becomes of each tensor -------------------------------------------------------------- */

static bool is_matrix_of(const struct sn_source_tensor *t, const char *pattern)
{
    return strcmp(t->group, "model") == 0 && t->cols > 1 && sn_str_glob(pattern, t->name);
}

static enum sn_status check_patterns(const struct sn_source *s, const struct sn_prune *how,
                                     struct sn_err *err)
{
    for (int i = 0; i < how->n_targets; i++) {
        bool used = false;
        for (int k = 0; k < s->n_tensors && !used; k++)
            used = is_matrix_of(&s->tensors[k], how->target[i]);
        if (!used)
            return sn_fail(err, SN_EINPUT,
                           "--targets: '%s' matches no matrix of %s; names look like "
                           "'layers.0.attn.q.weight'",
                           how->target[i], s->name);
    }
    return SN_OK;
}

static enum sn_status list(struct pruned *p, struct sn_err *err)
{
    const struct sn_source *s = &p->of.inner;
    int64_t widest = 1;
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_source_tensor *t = &s->tensors[i];
        int weight = sn_source_find(s, "model", t->name);
        if (weight >= 0 &&
            (s->tensors[weight].rows != t->rows || s->tensors[weight].cols != t->cols))
            return sn_fail(err, SN_EINPUT, "%s: %s of group %s has another shape than the weight",
                           s->name, t->name, t->group);
        bool is_target = false;
        for (int k = 0; k < p->how.n_targets && weight >= 0; k++)
            is_target = is_target || is_matrix_of(&s->tensors[weight], p->how.target[k]);
        p->weight[i] = is_target ? weight : -1;
        widest = is_target && t->cols > widest ? t->cols : widest;
    }
    p->order = sn_alloc_n((size_t)widest, sizeof(*p->order));
    p->stays = sn_alloc_n((size_t)widest, sizeof(*p->stays));
    if (!p->order || !p->stays)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a row", s->name);
    return SN_OK;
}

static uint64_t identity(const struct sn_source *s, const struct sn_prune *how)
{
    struct {
        uint64_t inner, density, is_2_4, names;
    } x = {.inner = s->identity, .is_2_4 = how->is_2_4};
    memcpy(&x.density, &how->density, sizeof(x.density));
    for (int i = 0; i < how->n_targets; i++)
        x.names = x.names * 31 + sn_hash64(how->target[i], strlen(how->target[i]));
    return sn_hash64(&x, sizeof(x));
}

enum sn_status sn_source_prune(struct sn_source *out, struct sn_source *inner,
                               const struct sn_prune *how, struct sn_err *err)
{
    SN_TRY(check_patterns(inner, how, err));
    struct pruned *p = sn_alloc(sizeof(*p));
    if (!p)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list its tensors", inner->name);
    p->of.inner = *inner;
    p->how = *how;
    p->weight = sn_alloc_n((size_t)inner->n_tensors + 1, sizeof(*p->weight));
    enum sn_status st =
        p->weight ? list(p, err)
                  : sn_fail(err, SN_ENOMEM, "%s: no memory to list its tensors", inner->name);
    if (st != SN_OK) {
        destroy(p);
        return st;
    }
    *out = *inner; /* name, tensors, scalars, model */
    out->self = p;
    out->identity = identity(inner, how);
    out->begin = begin;
    out->next = next;
    out->close = close_both;
    *inner = (struct sn_source){0};
    return SN_OK;
}
