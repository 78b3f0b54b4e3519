#include "lib/snapshot/shard.h"

#include "lib/base/hash.h"

#include <stdatomic.h>
#include <string.h>

static const char magic[16] = "sennit image 2";

enum { BLOCK = SN_SNAPSHOT_SHARD_BLOCK / (int)sizeof(float) };

_Static_assert(sizeof(struct sn_snapshot_shard_head) <= SN_SNAPSHOT_SHARD_HEAD,
               "the head has a page");

/* --- tensors by number ------------------------------------------------------------------------ */

static uint64_t mix(uint64_t h, uint64_t x)
{
    uint64_t pair[2] = {h, x};
    return sn_hash64(pair, sizeof(pair));
}

uint64_t sn_state_hash(const struct sn_state *s)
{
    uint64_t h = sn_hash64(s->model_text, strlen(s->model_text));
    if (s->base) /* whose boxes are whole blocks */
        h = mix(h, (uint64_t)s->base->kind);
    for (int i = 0; i < s->n_all; i++) {
        const struct sn_state_shape *a = &s->all[i];
        if (sn_state_is_extra(a->group))
            continue;
        h = mix(h, sn_hash64(a->group, strlen(a->group)));
        h = mix(h, sn_hash64(a->name, strlen(a->name)));
        h = mix(mix(h, (uint64_t)a->rows), (uint64_t)a->cols);
    }
    return h;
}

static bool is_of(const struct sn_state_tensor *t, const struct sn_state_shape *a)
{
    const char *group = sn_state_is_extra(t->group) ? "model" : t->group;
    return strcmp(group, a->group) == 0 && strcmp(t->name, a->name) == 0;
}

static int64_t kind_of(const char *group)
{
    int holder = sn_state_holder(group);
    if (holder >= 0)
        return SN_SNAPSHOT_SHARD_FEEDBACK + holder;
    return sn_state_is_extra(group) ? SN_SNAPSHOT_SHARD_REPLICA : SN_SNAPSHOT_SHARD_PLAIN;
}

/* Boxes are in about the order of tensors, so that each search ends soon. */
enum sn_status sn_state_index(const struct sn_state *s, int64_t *out, struct sn_err *err)
{
    int at = 0;
    for (int i = 0; i < s->n_tensors; i++) {
        int looked = 0;
        for (; looked < s->n_all && !is_of(&s->tensors[i], &s->all[at]); looked++)
            at = (at + 1) % s->n_all;
        if (looked == s->n_all)
            return sn_fail(err, SN_EFAIL, "snapshot shard: tensor %s %s is none of the model's",
                           s->tensors[i].group, s->tensors[i].name);
        out[i] = kind_of(s->tensors[i].group) << 32 | at;
    }
    return SN_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

struct writer {
    struct sn_snapshot_shard_box *boxes;
    uint64_t *hashes;
    float *values;
    int64_t n_boxes, n_floats;
};

static char *place(void *shard, int64_t at)
{
    return (char *)shard + at;
}

static struct writer writer_of(void *shard, const struct sn_snapshot_shard_room *r)
{
    char *boxes = place(shard, SN_SNAPSHOT_SHARD_HEAD);
    return (struct writer){.boxes = (struct sn_snapshot_shard_box *)(void *)boxes,
                           .hashes = (uint64_t *)(void *)(boxes + r->boxes * SN_SNAPSHOT_SHARD_BOX),
                           .values = (float *)(void *)place(shard, sn_snapshot_shard_values_at(r))};
}

/* Values that follow; a block is hashed while it is still in the cache. */
static void put(struct writer *w, const float *from, int64_t n)
{
    while (n > 0) {
        int64_t left = BLOCK - w->n_floats % BLOCK, part = n < left ? n : left;
        memcpy(w->values + w->n_floats, from, (size_t)part * sizeof(float));
        w->n_floats += part;
        if (part == left)
            w->hashes[w->n_floats / BLOCK - 1] =
                sn_hash64(w->values + w->n_floats - BLOCK, SN_SNAPSHOT_SHARD_BLOCK);
        from += part;
        n -= part;
    }
}

static void put_rest(struct writer *w)
{
    int64_t n = w->n_floats % BLOCK;
    if (n)
        w->hashes[w->n_floats / BLOCK] =
            sn_hash64(w->values + w->n_floats - n, (size_t)n * sizeof(float));
}

static void put_row(struct writer *w, const struct sn_state_tensor *t, int64_t row)
{
    float wide[256];
    if (t->dtype == SN_F32) {
        put(w, t->p + row * t->ld, t->n_cols);
        return;
    }
    for (int64_t c = 0, n; c < t->n_cols; c += n) {
        n = t->n_cols - c < 256 ? t->n_cols - c : 256;
        sn_state_get(t, row, c, n, wide);
        put(w, wide, n);
    }
}

static void put_box(struct writer *w, const struct sn_state_tensor *t, int64_t tensor)
{
    w->boxes[w->n_boxes++] =
        (struct sn_snapshot_shard_box){tensor, t->row, t->col, t->n_rows, t->n_cols, w->n_floats};
    if (t->ld == t->n_cols && t->dtype == SN_F32) {
        put(w, t->p, t->n_rows * t->n_cols);
        return;
    }
    for (int64_t r = 0; r < t->n_rows; r++)
        put_row(w, t, r);
}

static uint64_t table_hash(const void *shard, const struct sn_snapshot_shard_head *h)
{
    struct sn_snapshot_shard_room used = {h->n_boxes, h->n_floats};
    const char *boxes = (const char *)shard + SN_SNAPSHOT_SHARD_HEAD;
    uint64_t hash = sn_hash64(boxes, (size_t)(h->n_boxes * SN_SNAPSHOT_SHARD_BOX));
    return mix(hash, sn_hash64(boxes + h->room.boxes * SN_SNAPSHOT_SHARD_BOX,
                               (size_t)sn_snapshot_shard_blocks(&used) * sizeof(uint64_t)));
}

static uint64_t seal_of(const struct sn_snapshot_shard_head *h)
{
    struct sn_snapshot_shard_head copy;
    memcpy(&copy, h, sizeof(copy)); /* padding too */
    copy.seal = 0;
    return sn_hash64(&copy, sizeof(copy));
}

void sn_snapshot_shard_break(void *shard)
{
    memset(shard, 0, sizeof(struct sn_snapshot_shard_head));
    atomic_thread_fence(memory_order_seq_cst); /* before anything that is written from now on */
}

void sn_snapshot_shard_seal(void *shard, const void *head)
{
    atomic_thread_fence(memory_order_seq_cst); /* behind everything that was written */
    memcpy(shard, head, sizeof(struct sn_snapshot_shard_head));
    atomic_thread_fence(memory_order_seq_cst);
}

static void write_head(void *shard, const struct sn_snapshot_shard_source *s,
                       const struct writer *w)
{
    struct sn_snapshot_shard_head h;
    memset(&h, 0, sizeof(h));
    memcpy(h.magic, magic, sizeof(h.magic));
    h.tag = s->tag;
    h.room = s->room;
    h.n_boxes = w->n_boxes;
    h.n_floats = w->n_floats;
    h.scalars = s->state->scalars;
    h.table = table_hash(shard, &h);
    h.seal = seal_of(&h);
    sn_snapshot_shard_seal(shard, &h);
}

enum sn_status sn_snapshot_shard_write(void *shard, const struct sn_snapshot_shard_source *s,
                                       struct sn_err *err)
{
    struct writer w = writer_of(shard, &s->room);
    sn_snapshot_shard_break(shard);
    for (int i = 0; i < s->state->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->state->tensors[i];
        if (!t->owned || t->n_rows * t->n_cols == 0)
            continue;
        if (w.n_boxes == s->room.boxes || w.n_floats + t->n_rows * t->n_cols > s->room.floats)
            return sn_fail(
                err, SN_EFAIL,
                "snapshot shard: rank %d owns more than the %lld boxes of %lld values that are "
                "planned; this is a defect of sennit, please report it with the run "
                "file",
                s->tag.rank, (long long)s->room.boxes, (long long)s->room.floats);
        put_box(&w, t, s->tensor[i]);
    }
    put_rest(&w);
    write_head(shard, s, &w);
    return SN_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* No size in it can overflow what follows from them. */
static bool sizes_fit(const struct sn_snapshot_shard_head *h, int64_t bytes)
{
    const struct sn_snapshot_shard_room *r = &h->room;
    return r->boxes >= 0 && r->floats >= 0 && r->boxes <= bytes / SN_SNAPSHOT_SHARD_BOX &&
           r->floats <= bytes / (int64_t)sizeof(float) && sn_snapshot_shard_bytes(r) <= bytes &&
           h->n_boxes >= 0 && h->n_boxes <= r->boxes && h->n_floats >= 0 &&
           h->n_floats <= r->floats;
}

bool sn_snapshot_shard_look(struct sn_snapshot_shard_head *out, const void *shard, int64_t bytes)
{
    struct sn_snapshot_shard_head h;
    if (bytes < SN_SNAPSHOT_SHARD_HEAD)
        return false;
    memcpy(&h, shard, sizeof(h));
    if (memcmp(h.magic, magic, sizeof(magic)) != 0 || seal_of(&h) != h.seal ||
        !sizes_fit(&h, bytes) || h.tag.world < 1 || h.tag.rank < 0 || h.tag.rank >= h.tag.world)
        return false;
    *out = h;
    return true;
}

static enum sn_status check_boxes(const void *shard, const struct sn_snapshot_shard_head *h,
                                  struct sn_err *err)
{
    const struct sn_snapshot_shard_box *b = sn_snapshot_shard_boxes(shard);
    int64_t at = 0;
    for (int64_t i = 0; i < h->n_boxes; at += b[i].n_rows * b[i].n_cols, i++)
        if (b[i].tensor < 0 || b[i].row < 0 || b[i].col < 0 || b[i].n_rows < 1 || b[i].n_cols < 1 ||
            b[i].at != at || b[i].n_rows > (h->n_floats - at) / b[i].n_cols)
            return sn_fail(err, SN_EIO, "snapshot shard of rank %d, step %lld: box %lld is none",
                           h->tag.rank, (long long)h->scalars.step, (long long)i);
    return SN_OK;
}

enum sn_status sn_snapshot_shard_check(const void *shard, const struct sn_snapshot_shard_head *h,
                                       struct sn_err *err)
{
    struct writer w = writer_of((void *)(uintptr_t)shard, &h->room); /* only read */
    if (table_hash(shard, h) != h->table)
        return sn_fail(err, SN_EIO, "snapshot shard of rank %d, step %lld: its table has changed",
                       h->tag.rank, (long long)h->scalars.step);
    SN_TRY(check_boxes(shard, h, err));
    for (int64_t at = 0; at < h->n_floats; at += BLOCK) {
        int64_t n = h->n_floats - at < BLOCK ? h->n_floats - at : BLOCK;
        if (sn_hash64(w.values + at, (size_t)n * sizeof(float)) != w.hashes[at / BLOCK])
            return sn_fail(err, SN_EIO,
                           "snapshot shard of rank %d, step %lld: values %lld to %lld have changed",
                           h->tag.rank, (long long)h->scalars.step, (long long)at,
                           (long long)(at + n - 1));
    }
    return SN_OK;
}
