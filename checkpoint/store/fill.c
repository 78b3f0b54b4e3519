/*
 * fill.c - any boxes from any pieces: what a load asks a feed for.
 */
#include "checkpoint/store/store.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEED_BYTES = 8 << 20, /* of blocks in the feed: enough to read ahead, few enough to stay in a
                             CPU's cache */
    PART = 1 << 18        /* values that are read aside at once */
};

/* A box to fill, or rows of one whose values are not read straight into their place. */
struct target {
    struct sn_want want;
    const struct sn_state_tensor *box;
    int shard; /* that its first piece is in */
};

struct targets {
    const struct sn_reader *r;
    struct target *list;
    int n, room;
};

static bool in_group(const char *of, const char *group)
{
    return !group || strcmp(of, group) == 0;
}

enum sn_status sn_reader_match(const struct sn_reader *r, const struct sn_state *s,
                               const char *group, bool *used, struct sn_err *err)
{
    for (int i = 0; i < s->n_all; i++) {
        const struct sn_manifest_tensor *t = NULL;
        if (!in_group(s->all[i].group, group) || sn_state_may_lack(s->all[i].group))
            continue;
        SN_TRY(sn_manifest_want(&r->manifest, r->dir, &s->all[i], &t, err));
        used[t - r->manifest.tensors] = true;
    }
    return SN_OK;
}

/* --- the order of reading -------------------------------------------------------------------- */

static int first_shard(const struct sn_want *w)
{
    for (int i = 0; i < w->tensor->n_pieces; i++)
        if (sn_box_size(sn_box_common(w->tensor->pieces[i].box, w->box)) > 0)
            return w->tensor->pieces[i].shard;
    return 0;
}

static enum sn_status add(struct targets *v, struct target x, struct sn_err *err)
{
    if (!sn_grow((void **)&v->list, v->n, &v->room, sizeof(*v->list)))
        return sn_fail(err, SN_ENOMEM, "%s: no memory to plan %d boxes", v->r->dir, v->n);
    x.shard = first_shard(&x.want);
    v->list[v->n++] = x;
    return SN_OK;
}

/* Are values put into the box one by one? */
static bool is_put(const struct sn_state_tensor *t)
{
    return t->folds > 0 || t->dtype != SN_F32;
}

/* From `group`: the box, or rows of it at a time. */
static enum sn_status add_box(struct targets *v, const struct sn_state_tensor *t, const char *group,
                              struct sn_err *err)
{
    struct sn_state_shape shape = {group, t->name, t->rows, t->cols};
    struct target x = {.want.box = sn_state_box(t), .box = t};
    SN_TRY(sn_manifest_want(&v->r->manifest, v->r->dir, &shape, &x.want.tensor, err));
    if (!is_put(t))
        return add(v, x, err);
    int64_t rows = t->n_cols > 0 && t->n_cols < PART ? PART / t->n_cols : 1;
    for (int64_t r = 0; r < t->n_rows; r += rows) {
        x.want.box.row = t->row + r;
        x.want.box.rows = t->n_rows - r < rows ? t->n_rows - r : rows;
        SN_TRY(add(v, x, err));
    }
    return SN_OK;
}

/* All that is folded into the holder. */
static enum sn_status add_feedback(struct targets *v, const struct sn_state_tensor *t,
                                   struct sn_err *err)
{
    char group[32];
    for (int64_t h = sn_state_holder(t->group);; h += t->folds) {
        (void)snprintf(group, sizeof(group), "feedback.%" PRId64, h);
        if (!sn_manifest_find(&v->r->manifest, group, t->name))
            return SN_OK;
        SN_TRY(add_box(v, t, group, err));
    }
}

static enum sn_status list_targets(struct targets *v, const struct sn_state *s, const char *group,
                                   struct sn_err *err)
{
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        bool may_lack = sn_state_may_lack(t->group);
        if (!in_group(t->group, group))
            continue;
        if (t->folds > 0)
            SN_TRY(add_feedback(v, t, err));
        else if (may_lack && !sn_manifest_find(&v->r->manifest, t->group, t->name))
            SN_TRY(add_box(v, t, "model", err)); /* as it would be computed anew */
        else
            SN_TRY(add_box(v, t, t->group, err));
    }
    return SN_OK;
}

/* Shard by shard, and in each as the datasets lie there. */
static int in_file_order(const void *pa, const void *pb)
{
    const struct target *a = pa, *b = pb;
    if (a->shard != b->shard)
        return a->shard > b->shard ? 1 : -1;
    if (a->want.tensor != b->want.tensor)
        return a->want.tensor > b->want.tensor ? 1 : -1;
    return sn_box_order(a->want.box, b->want.box);
}

static enum sn_status read_one(struct sn_feed *feed, const struct target *x, float *aside,
                               struct sn_err *err)
{
    const struct sn_state_tensor *t = x->box;
    int64_t first = x->want.box.row - t->row;
    if (!is_put(t))
        return sn_feed_next(feed, t->p, t->ld, err);
    SN_TRY(sn_feed_next(feed, aside, t->n_cols, err));
    for (int64_t r = 0; r < x->want.box.rows; r++)
        sn_state_put(t, first + r, 0, t->n_cols, aside + r * t->n_cols);
    return SN_OK;
}

static enum sn_status read_targets(struct sn_reader *r, const struct targets *v,
                                   struct sn_want *wants, float *aside, struct sn_err *err)
{
    struct sn_feed *feed = NULL;
    for (int i = 0; i < v->n; i++)
        wants[i] = v->list[i].want;
    enum sn_status st = sn_feed_open(&feed, r, wants, v->n, FEED_BYTES, err);
    for (int i = 0; i < v->n && st == SN_OK; i++)
        st = read_one(feed, &v->list[i], aside, err);
    sn_feed_close(feed);
    return st;
}

/* Values of the largest target that is read aside. */
static int64_t most_aside(const struct targets *v)
{
    int64_t most = 0;
    for (int i = 0; i < v->n; i++) {
        int64_t size = is_put(v->list[i].box) ? sn_box_size(v->list[i].want.box) : 0;
        most = size > most ? size : most;
    }
    return most;
}

static enum sn_status fill(struct sn_reader *r, struct targets *v, struct sn_err *err)
{
    struct sn_want *wants = sn_alloc_n((size_t)v->n + 1, sizeof(*wants));
    float *aside = sn_alloc_n((size_t)most_aside(v) + 1, sizeof(*aside));
    enum sn_status st = SN_OK;
    if (!wants || !aside)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to plan %d boxes", r->dir, v->n);
    if (st == SN_OK && v->n > 1)
        qsort(v->list, (size_t)v->n, sizeof(*v->list), in_file_order);
    if (st == SN_OK)
        st = read_targets(r, v, wants, aside, err);
    sn_free(wants);
    sn_free(aside);
    return st;
}

enum sn_status sn_reader_fill(struct sn_reader *r, const struct sn_state *s, const char *group,
                              struct sn_err *err)
{
    struct targets v = {.r = r};
    SN_TRY(sn_state_check_boxes(s, err));
    enum sn_status st = list_targets(&v, s, group, err);
    if (st == SN_OK) {
        sn_state_clear_feedback(s);
        st = fill(r, &v, err);
    }
    sn_free(v.list);
    return st;
}
