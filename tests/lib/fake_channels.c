/*
 * fake_channels.c - channels between devices of host memory: all members come, the last one moves
 * everything.
 */
#include "kernels/half.h"
#include "tests/lib/fake_device_inner.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool hangs; /* some device of this process */

void fake_device_hang(void)
{
    hangs = true;
}

void fake_device_wait(void)
{
    while (hangs)
        (void)pause();
}

const char *fake_device_no_channels(void)
{
    return "processes share no memory";
}

int fake_device_look(struct sn_device *d)
{
    if (d->habits.lose_at == 0 || d->counts.kernels < d->habits.lose_at)
        return 0;
    fake_device_hang();
    return fake_device_fail(d, "a peer is gone");
}

void fake_device_abort(struct sn_device *d)
{
    d->is_aborted = true;
    fake_device_wait();
}

static struct hub *new_hub(void)
{
    struct hub *h = calloc(1, sizeof(*h)); /* who leaves last frees it */
    if (!h)
        abort();
    (void)pthread_mutex_init(&h->lock, NULL);
    return h;
}

int fake_device_channel_id(struct sn_device *d, char id[SN_DEVICE_ID])
{
    (void)d;
    struct hub *h = new_hub();
    memset(id, 0, SN_DEVICE_ID);
    memcpy(id, &h, sizeof(struct hub *));
    return 0;
}

int fake_device_join(struct sn_device *d, int channel, const char id[SN_DEVICE_ID], int size,
                     int index)
{
    struct channel *c = &d->channel[channel];
    if (fake_device_not_now(d, "joining a channel") != 0)
        return -1;
    memcpy(&c->hub, id, sizeof(struct hub *));
    c->hub->size = size;
    c->size = size;
    c->index = index;
    return 0;
}

/* Who comes first makes the hub. Members that differ in its size have been told wrongly. */
int fake_device_split(struct sn_device *d, int channel, int whole, int part, int size, int index)
{
    struct hub *h = d->channel[whole].hub;
    if (!h || size > d->channel[whole].size || part < 0)
        return fake_device_fail(d, "channel %d has no part %d of %d members", whole, part, size);
    (void)pthread_mutex_lock(&h->lock);
    struct part *p = h->parts;
    while (p && (p->channel != channel || p->number != part))
        p = p->next;
    if (!p) {
        p = calloc(1, sizeof(*p));
        if (!p)
            abort();
        *p = (struct part){.channel = channel, .number = part, .hub = new_hub(), .next = h->parts};
        p->hub->size = size;
        h->parts = p;
    }
    bool fits = p->hub->size == size && index >= 0 && index < size;
    d->channel[channel] = (struct channel){.hub = p->hub, .size = size, .index = index};
    (void)pthread_mutex_unlock(&h->lock);
    d->counts.splits++;
    return fits ? 0 : fake_device_fail(d, "part %d of channel %d has other members", part, whole);
}

void fake_device_leave(struct sn_device *d)
{
    for (int i = 0; i < SN_DEVICE_CHANNELS; i++) {
        struct hub *h = d->channel[i].hub;
        if (!h)
            continue;
        (void)pthread_mutex_lock(&h->lock);
        bool is_last = ++h->left == h->size;
        (void)pthread_mutex_unlock(&h->lock);
        if (!is_last)
            continue;
        for (struct part *p = h->parts, *next; p; p = next) {
            next = p->next;
            free(p);
        }
        (void)pthread_mutex_destroy(&h->lock);
        free(h);
    }
}

int fake_device_transfer(struct sn_device *d, int stream, int channel,
                         const struct sn_device_transfer *t)
{
    const struct channel *c = &d->channel[channel];
    if (!c->hub)
        return fake_device_fail(d, "nobody has joined channel %d", channel);
    struct item i = {.kind = TRANSFER, .stream = stream, .event = channel, .transfer = *t};
    if (t->kind == SN_DEVICE_ROWS) {
        i.rows = calloc(2 * (size_t)c->size, sizeof(*i.rows));
        if (!i.rows)
            abort();
        memcpy(i.rows, t->to, (size_t)c->size * sizeof(*i.rows));
        memcpy(i.rows + c->size, t->from, (size_t)c->size * sizeof(*i.rows));
    }
    return fake_device_enqueue(d, &i);
}

static const char *in_of(const struct item *i)
{
    return i->transfer.in ? i->transfer.in : i->transfer.out;
}

static float load(const char *p, enum sn_dtype t)
{
    uint16_t half;
    memcpy(&half, p, sizeof(half));
    return t == SN_F32    ? *(const float *)(const void *)p
           : t == SN_BF16 ? sn_bf16_to_f32(half)
                          : sn_f16_to_f32(half);
}

static void store(char *p, enum sn_dtype t, float f)
{
    uint16_t half = t == SN_BF16 ? sn_f32_to_bf16(f) : sn_f32_to_f16(f);
    if (t == SN_F32)
        memcpy(p, &f, sizeof(f));
    else
        memcpy(p, &half, sizeof(half));
}

/* Sums in member order, in fp32, rounded once, as lib/comm/comm.h asks of the processes'. */
static void sum_to(const struct hub *h, int64_t at, char *to, int64_t n, enum sn_dtype t)
{
    int64_t width = (int64_t)sn_dtype_size(t);
    for (int64_t e = 0; e < n; e++) {
        float f = load(in_of(&h->item[0]) + (at + e) * width, t);
        for (int m = 1; m < h->size; m++)
            f += load(in_of(&h->item[m]) + (at + e) * width, t);
        store(to + e * width, t, f);
    }
}

static void move_rows(const struct hub *h)
{
    for (int r = 0; r < h->size; r++)
        for (int s = 0; s < h->size; s++) {
            const struct item *a = &h->item[s], *b = &h->item[r];
            int64_t row = a->transfer.n * (int64_t)sn_dtype_size(a->transfer.dtype);
            struct sn_device_rows from = a->rows[r], to = b->rows[h->size + s];
            if (from.n != to.n)
                abort();
            memcpy((char *)b->transfer.out + to.at * row,
                   (const char *)a->transfer.in + from.at * row, (size_t)(to.n * row));
        }
}

static void add_into(const struct item *i, const char *sum)
{
    for (int64_t e = 0; e < i->transfer.n; e++)
        ((float *)i->transfer.out)[e] += ((const float *)(const void *)sum)[e];
}

/* All have come: move everything at once. */
static void meet(struct hub *h)
{
    const struct sn_device_transfer *t = &h->item[0].transfer;
    int64_t width = (int64_t)sn_dtype_size(t->dtype), n = t->n;
    char *all = malloc((size_t)(n * h->size * width) + 1);
    if (!all)
        abort();
    for (int m = 0; m < h->size; m++)
        if (t->kind == SN_DEVICE_ALL_GATHER)
            memcpy(all + m * n * width, in_of(&h->item[m]), (size_t)(n * width));
    if (t->kind == SN_DEVICE_ALL_REDUCE)
        sum_to(h, 0, all, n, t->dtype);
    if (t->kind == SN_DEVICE_REDUCE_SCATTER)
        for (int m = 0; m < h->size; m++)
            sum_to(h, m * n, all + m * n * width, n, t->dtype);
    for (int m = 0; m < h->size; m++) {
        const struct item *i = &h->item[m];
        char *out = i->transfer.out;
        if (t->kind == SN_DEVICE_ALL_GATHER)
            memcpy(out, all, (size_t)(n * h->size * width));
        else if (t->kind == SN_DEVICE_ALL_REDUCE)
            memcpy(out, all, (size_t)(n * width));
        else if (t->kind == SN_DEVICE_REDUCE_SCATTER && i->transfer.add)
            add_into(i, all + m * n * width);
        else if (t->kind == SN_DEVICE_REDUCE_SCATTER)
            memcpy(out, all + m * n * width, (size_t)(n * width));
        for (int s = 0; t->kind == SN_DEVICE_ALL_TO_ALL && s < h->size; s++)
            memcpy(out + s * n * width, (const char *)h->item[s].transfer.in + m * n * width,
                   (size_t)(n * width));
        if (i->transfer.kind == SN_DEVICE_RECV)
            memcpy(out, h->item[i->transfer.peer].transfer.in, (size_t)(n * width));
    }
    if (t->kind == SN_DEVICE_ROWS)
        move_rows(h);
    free(all);
}

/* Is it over here? */
bool fake_device_try_transfer(struct sn_device *d, struct item *i)
{
    struct channel *c = &d->channel[i->event];
    struct hub *h = c->hub;
    (void)pthread_mutex_lock(&h->lock);
    if (!i->has_come && h->round == c->round) {
        i->has_come = true;
        h->item[c->index] = *i;
        if (++h->came == h->size) {
            meet(h);
            h->came = 0;
            h->round++;
        }
    }
    bool over = i->has_come && h->round > c->round;
    (void)pthread_mutex_unlock(&h->lock);
    if (over)
        c->round++;
    return over;
}
