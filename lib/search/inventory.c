#include "lib/search/inventory.h"

#include "kernels/round.h"
#include "lib/base/mem.h"

/* Kinds twice: tied tables are a kind of their own. */
enum { KINDS = 2 * SN_SHAPE_SHARDS, ALIGN = 32 };

struct dealer {
    struct sn_inventory *out;
    const struct sn_layer_profile *s;
    int64_t full;                 /* elements from which on a bucket takes no more */
    int64_t open[KINDS];          /* elements of the bucket that is being filled; 0: none */
    int unit[KINDS], part[KINDS]; /* its last part */
    bool apart, failed;
};

/* One more of `size` bytes fits in what *items points to. */
static bool has_room(struct dealer *d, void **items, int n, int *cap, size_t size)
{
    bool good = sn_grow(items, n, cap, size);
    d->failed = d->failed || !good;
    return good;
}

static int class_of(struct dealer *d, int64_t raw, int k)
{
    struct sn_inventory *o = d->out;
    int i = 0, kind = k % SN_SHAPE_SHARDS;
    bool tied = k >= SN_SHAPE_SHARDS;
    while (i < o->n && (o->cls[i].raw != raw || o->cls[i].kind != kind || o->cls[i].tied != tied))
        i++;
    void *items = o->cls;
    if (i < o->n || !has_room(d, &items, o->n, &o->cap, sizeof(*o->cls)))
        return i < o->n ? i : -1;
    o->cls = items;
    o->cls[o->n++] = (struct sn_inventory_class){raw, kind, 0, tied};
    return i;
}

static void close_bucket(struct dealer *d, int k)
{
    struct sn_inventory *o = d->out;
    int c = class_of(d, d->open[k], k);
    void *events = o->event;
    d->open[k] = 0;
    if (c < 0 || !has_room(d, &events, o->n_events, &o->cap_events, sizeof(*o->event)))
        return;
    o->event = events;
    o->event[o->n_events++] =
        (struct sn_inventory_event){(short)d->unit[k], (short)d->part[k], (short)c};
    o->cls[c].count++;
}

/* All that are open, or those that may not cross layers. */
static void close_all(struct dealer *d, bool layer)
{
    for (int k = 0; k < KINDS; k++)
        if (d->open[k] && !(layer && d->s->bucket[k % SN_SHAPE_SHARDS].is_bias))
            close_bucket(d, k);
}

static void add(struct dealer *d, const struct sn_layer_profile_shard *part, int unit)
{
    int k = part->kind + (part->tied && d->apart ? SN_SHAPE_SHARDS : 0);
    d->open[k] += part->elements;
    d->unit[k] = unit;
    d->part[k] = (int)(part - d->s->part);
    if (d->open[k] >= d->full)
        close_bucket(d, k);
}

static void deal(struct dealer *d, enum sn_layer_place place)
{
    for (int q = 0; q < d->s->n_parts; q++)
        if (d->s->part[q].place == place)
            add(d, &d->s->part[q], d->out->units);
    if (d->s->key.zero) /* buckets do not cross layers */
        close_all(d, true);
    d->out->units++;
}

enum sn_status sn_inventory_deal(struct sn_inventory *out, const struct sn_layer_profile *s,
                                 int64_t bucket_bytes, const struct sn_inventory_stage *stage,
                                 struct sn_err *err)
{
    const struct sn_extent *x = &stage->x;
    enum sn_layer_place only = x->experts ? SN_PLACE_EXPERTS : SN_PLACE_BLOCK;
    *out = (struct sn_inventory){0};
    struct dealer d = {.out = out, .s = s, .full = (bucket_bytes + 3) / 4, .apart = stage->apart};
    if (x->last)
        deal(&d, SN_PLACE_HEAD);
    for (int i = 0; i < x->layers; i++)
        deal(&d, stage->kinds ? (enum sn_layer_place)stage->kinds[i] : only);
    if (x->first)
        deal(&d, SN_PLACE_EMBED);
    for (int q = 0; x->last && !x->first && q < s->n_parts; q++)
        if (s->part[q].tied) /* the head's copy of the table */
            add(&d, &s->part[q], 0);
    close_all(&d, false);
    if (!d.failed)
        return SN_OK;
    sn_inventory_fini(out);
    return sn_fail(err, SN_ENOMEM, "search: no memory for the buckets of %d layers", x->layers);
}

void sn_inventory_fini(struct sn_inventory *s)
{
    sn_free(s->cls);
    sn_free(s->event);
    *s = (struct sn_inventory){0};
}

struct sn_inventory_size sn_inventory_size(int64_t raw, int zero, int members)
{
    int64_t unit = ALIGN * (int64_t)(zero ? members : 1), n = (raw + unit - 1) / unit * unit;
    return (struct sn_inventory_size){n, zero ? n / members : n};
}

int sn_inventory_members_of(const struct sn_bucket *b, const struct sn_inventory_members *m)
{
    return b->replicas == SN_GROUP_EXPERT_DATA ? m->copies : m->replicas;
}

int sn_inventory_zero(const struct sn_bucket *b, int zero)
{
    return b->is_bias ? 0 : zero;
}

static int moments_of(const struct sn_bucket *b)
{
    int n = 0;
    for (int k = 0; k < SN_MAX_MOMENTS; k++)
        n += b->moment[k] >= 0;
    return n;
}

struct sn_inventory_bytes sn_inventory_bytes(const struct sn_inventory *s,
                                             const struct sn_layer_profile *shape,
                                             enum sn_dtype dtype, int zero,
                                             const struct sn_inventory_members *members)
{
    struct sn_inventory_bytes b = {0, 0, 0};
    for (int i = 0; i < s->n; i++) {
        const struct sn_inventory_class *c = &s->cls[i];
        const struct sn_bucket *k = &shape->bucket[c->kind];
        enum sn_dtype own = k->is_bias ? SN_F32 : dtype;
        int stage = sn_inventory_zero(k, zero);
        int sharing = sn_inventory_members_of(k, members);
        bool shared = sharing > 1 && k->trains;
        bool masters = members->masters && shared && (stage == 1 || stage == 2);
        struct sn_inventory_size e = sn_inventory_size(c->raw, stage, sharing);
        int64_t size = (int64_t)sn_dtype_size(own), part = sn_round_up(e.slice * 4, 64);
        bool has_grad = k->trains || k->counts;
        b.params += c->count * sn_round_up((stage == 3 ? e.slice : e.n) * size, 64);
        int64_t grad = (stage >= 2 ? e.slice : e.n) * (int64_t)sn_dtype_size(k->grad_type);
        b.grads += has_grad ? c->count * sn_round_up(grad, 64) : 0;
        b.optimizer += c->count * ((own != SN_F32 || masters) + moments_of(k)) * part;
        b.optimizer += members->feedback && shared ? c->count * sn_round_up(e.n * 4, 64) : 0;
    }
    return b;
}
