/*
 * fill.c - any boxes from any pieces: the plan of a load.
 *
 * Pieces are read whole, because that is what their hashes are of; each once, shard by shard.
 */
#include "checkpoint/store.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A box to fill. */
struct want {
    const struct sn_state_tensor *box;
    const struct sn_manifest_tensor *of;
};

/* A piece to read, and the boxes of its tensor. */
struct source {
    const struct sn_manifest_piece *piece;
    const struct sn_manifest_tensor *of;
    const struct want *wants;
    int n_wants;
};

struct plan {
    struct want *wants;     /* sorted by tensor */
    struct source *sources; /* sorted by shard, then by tensor and place */
    int n_wants, n_sources;
    float *buffer; /* for the largest piece that is not read straight into its box */
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

/* --- the plan -------------------------------------------------------------------------------- */

static int by_tensor(const void *pa, const void *pb)
{
    const struct want *a = pa, *b = pb;
    return (a->of > b->of) - (a->of < b->of);
}

static int by_shard(const void *pa, const void *pb)
{
    const struct source *a = pa, *b = pb;
    if (a->piece->shard != b->piece->shard)
        return a->piece->shard > b->piece->shard ? 1 : -1;
    return (a->piece > b->piece) - (a->piece < b->piece); /* they lie tensor by tensor */
}

static enum sn_status list_wants(struct plan *p, const struct sn_reader *r,
                                 const struct sn_state *s, const char *group, struct sn_err *err)
{
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        struct sn_state_shape shape = {t->group, t->name, t->rows, t->cols};
        struct want *w = &p->wants[p->n_wants];
        if (!in_group(t->group, group))
            continue;
        SN_TRY(find_tensor(r, &w->of, &shape, err));
        w->box = t;
        p->n_wants += sn_box_size(sn_state_box(t)) > 0;
    }
    if (p->n_wants > 1)
        qsort(p->wants, (size_t)p->n_wants, sizeof(*p->wants), by_tensor);
    return SN_OK;
}

/* How many of the boxes have a part of the piece; *last is one of them. */
static int count_users(const struct source *x, const struct want **last)
{
    int n = 0;
    for (int i = 0; i < x->n_wants; i++)
        if (sn_box_size(sn_box_common(x->piece->box, sn_state_box(x->wants[i].box))) > 0) {
            *last = &x->wants[i];
            n++;
        }
    return n;
}

/* Where a piece of one box goes without a detour: it lies in the box as it lies in the file. NULL
 * for all others. */
static float *straight(const struct source *x)
{
    const struct want *only = NULL;
    if (count_users(x, &only) != 1)
        return NULL;
    const struct sn_state_tensor *t = only->box;
    struct sn_box p = x->piece->box, common = sn_box_common(p, sn_state_box(t));
    if (sn_box_size(common) != sn_box_size(p) || (t->ld != p.cols && p.rows > 1))
        return NULL;
    return t->p + (p.row - t->row) * t->ld + p.col - t->col;
}

static void list_sources(struct plan *p)
{
    int n = 0;
    for (int i = 0; i < p->n_wants; i += n) {
        const struct sn_manifest_tensor *t = p->wants[i].of;
        for (n = 1; i + n < p->n_wants && p->wants[i + n].of == t;)
            n++;
        for (int k = 0; k < t->n_pieces; k++) {
            const struct want *any = NULL;
            struct source x = {&t->pieces[k], t, &p->wants[i], n};
            if (count_users(&x, &any) > 0)
                p->sources[p->n_sources++] = x;
        }
    }
    if (p->n_sources > 1)
        qsort(p->sources, (size_t)p->n_sources, sizeof(*p->sources), by_shard);
}

/* A lost or cut shard is found before anything is overwritten. */
static enum sn_status check_shards(const struct plan *p, const struct sn_reader *r,
                                   struct sn_err *err)
{
    struct sn_err why;
    for (int i = 0, checked = -1; i < p->n_sources; i++) {
        const struct source *x = &p->sources[i];
        if (x->piece->shard == checked)
            continue;
        checked = x->piece->shard;
        enum sn_status st = sn_shard_check(r->dir, &r->manifest.shards[checked], &why);
        if (st != SN_OK)
            return sn_fail(err, st, "%s (reading tensor %s %s)", why.text, x->of->group,
                           x->of->name);
    }
    return SN_OK;
}

static enum sn_status make_buffer(struct plan *p, const struct sn_reader *r, struct sn_err *err)
{
    int64_t most = 0;
    for (int i = 0; i < p->n_sources; i++) {
        int64_t size = sn_box_size(p->sources[i].piece->box);
        if (size > most && !straight(&p->sources[i]))
            most = size;
    }
    p->buffer = sn_alloc_n((size_t)most, sizeof(*p->buffer));
    if (!p->buffer)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a piece of %" PRId64 " values", r->dir,
                       most);
    return SN_OK;
}

/* --- reading --------------------------------------------------------------------------------- */

static void copy_common(const struct sn_manifest_piece *p, const float *from,
                        const struct sn_state_tensor *t)
{
    struct sn_box c = sn_box_common(p->box, sn_state_box(t));
    for (int64_t r = 0; r < c.rows && c.cols > 0; r++)
        memcpy(t->p + (c.row - t->row + r) * t->ld + c.col - t->col,
               from + (c.row - p->box.row + r) * p->box.cols + c.col - p->box.col,
               (size_t)c.cols * sizeof(float));
}

static enum sn_status read_source(const struct plan *p, struct sn_reader *r, const struct source *x,
                                  struct sn_err *err)
{
    float *to = straight(x);
    if (to)
        return sn_reader_read(r, x->of, x->piece, to, err);
    SN_TRY(sn_reader_read(r, x->of, x->piece, p->buffer, err));
    for (int i = 0; i < x->n_wants; i++)
        copy_common(x->piece, p->buffer, x->wants[i].box);
    return SN_OK;
}

enum sn_status sn_reader_fill(struct sn_reader *r, const struct sn_state *s, const char *group,
                              struct sn_err *err)
{
    SN_TRY(sn_state_check_boxes(s, err));
    struct plan p = {.wants = sn_alloc_n((size_t)s->n_tensors + 1, sizeof(*p.wants)),
                     .sources = sn_alloc_n((size_t)r->manifest.n_pieces, sizeof(*p.sources))};
    enum sn_status st = SN_OK;
    if (!p.wants || !p.sources)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to plan its %d pieces", r->dir,
                     r->manifest.n_pieces);
    if (st == SN_OK)
        st = list_wants(&p, r, s, group, err);
    if (st == SN_OK) {
        list_sources(&p);
        st = check_shards(&p, r, err);
    }
    if (st == SN_OK)
        st = make_buffer(&p, r, err);
    for (int i = 0; i < p.n_sources && st == SN_OK; i++)
        st = read_source(&p, r, &p.sources[i], err);
    sn_free(p.wants);
    sn_free(p.sources);
    sn_free(p.buffer);
    return st;
}
