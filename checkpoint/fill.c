/*
 * fill.c - any boxes from any pieces: what a load asks a feed for.
 */
#include "checkpoint/store.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Of blocks in the feed: enough to read ahead, few enough to stay in a CPU's cache. */
enum { FEED_BYTES = 8 << 20 };

/* A box to fill. */
struct target {
    struct sn_want want;
    const struct sn_state_tensor *box;
    int shard; /* that its first piece is in */
};

static enum sn_status find_tensor(const struct sn_reader *r, const struct sn_manifest_tensor **out,
                                  const struct sn_state_shape *t, struct sn_err *err)
{
    const struct sn_manifest_tensor *have = sn_manifest_find(&r->manifest, t->group, t->name);
    if (!have)
        return sn_fail(err, SN_EINPUT, "%s/manifest.json: has no tensor %s %s; the model needs it",
                       r->dir, t->group, t->name);
    if (have->rows != t->rows || have->cols != t->cols)
        return sn_fail(err, SN_EINPUT,
                       "%s/manifest.json: tensor %s %s is %" PRId64 " x %" PRId64
                       ", but the model's is %" PRId64 " x %" PRId64,
                       r->dir, t->group, t->name, have->rows, have->cols, t->rows, t->cols);
    *out = have;
    return SN_OK;
}

static bool in_group(const char *of, const char *group)
{
    return !group || strcmp(of, group) == 0;
}

enum sn_status sn_reader_match(const struct sn_reader *r, const struct sn_state *s,
                               const char *group, bool *used, struct sn_err *err)
{
    for (int i = 0; i < s->n_all; i++) {
        const struct sn_manifest_tensor *t = NULL;
        if (!in_group(s->all[i].group, group))
            continue;
        SN_TRY(find_tensor(r, &t, &s->all[i], err));
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

static enum sn_status list_targets(struct target *list, int *n, const struct sn_reader *r,
                                   const struct sn_state *s, const char *group, struct sn_err *err)
{
    *n = 0;
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        struct sn_state_shape shape = {t->group, t->name, t->rows, t->cols};
        struct target x = {.want.box = sn_state_box(t), .box = t};
        if (!in_group(t->group, group))
            continue;
        SN_TRY(find_tensor(r, &x.want.tensor, &shape, err));
        x.shard = first_shard(&x.want);
        list[(*n)++] = x;
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

static enum sn_status read_targets(struct sn_reader *r, const struct target *list,
                                   struct sn_want *wants, int n, struct sn_err *err)
{
    struct sn_feed *feed = NULL;
    for (int i = 0; i < n; i++)
        wants[i] = list[i].want;
    enum sn_status st = sn_feed_open(&feed, r, wants, n, FEED_BYTES, err);
    for (int i = 0; i < n && st == SN_OK; i++)
        st = sn_feed_next(feed, list[i].box->p, list[i].box->ld, err);
    sn_feed_close(feed);
    return st;
}

enum sn_status sn_reader_fill(struct sn_reader *r, const struct sn_state *s, const char *group,
                              struct sn_err *err)
{
    int n = 0;
    SN_TRY(sn_state_check_boxes(s, err));
    struct target *list = sn_alloc_n((size_t)s->n_tensors, sizeof(*list));
    struct sn_want *wants = sn_alloc_n((size_t)s->n_tensors, sizeof(*wants));
    enum sn_status st = SN_OK;
    if (!list || !wants)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to plan %d boxes", r->dir, s->n_tensors);
    if (st == SN_OK)
        st = list_targets(list, &n, r, s, group, err);
    if (st == SN_OK) {
        qsort(list, (size_t)n, sizeof(*list), in_file_order);
        st = read_targets(r, list, wants, n, err);
    }
    sn_free(list);
    sn_free(wants);
    return st;
}
