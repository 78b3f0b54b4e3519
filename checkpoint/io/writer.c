#include "checkpoint/io/writer.h"

#include "lib/base/mem.h"

#include <assert.h>

/* A block on its way. */
struct record {
    struct sn_aio_request request;
    size_t at, room; /* its part of the arena */
};

struct sn_writer {
    struct sn_aio *aio;
    char *arena;
    size_t bytes;
    struct record *records; /* a ring: n of them from `first` on are under way, oldest first */
    int64_t most, first, n;
    size_t taken_at, taken_room; /* what the caller fills */
    enum sn_status st;           /* of the first failure, and its sentence */
    struct sn_err err;
};

enum sn_status sn_writer_create(struct sn_writer **out, struct sn_aio *aio, void *arena,
                                size_t bytes, int64_t most, struct sn_err *err)
{
    struct sn_writer *w = sn_alloc(sizeof(*w));
    struct record *records = sn_alloc_n((size_t)most, sizeof(*records));
    if (!w || !records) {
        sn_free(records);
        sn_free(w);
        return sn_fail(err, SN_ENOMEM, "writer: no memory for a list of %lld blocks",
                       (long long)most);
    }
    *w = (struct sn_writer){
        .aio = aio, .arena = arena, .bytes = bytes, .records = records, .most = most};
    *out = w;
    return SN_OK;
}

/* Wait for the oldest block; its room is free then. */
static void retire(struct sn_writer *w)
{
    struct sn_err err;
    enum sn_status st = sn_aio_wait(w->aio, &w->records[w->first].request, &err);
    if (st != SN_OK && w->st == SN_OK) {
        w->st = st;
        w->err = err;
    }
    w->first = (w->first + 1) % w->most;
    w->n--;
}

/* Where `room` bytes are free without a gap: behind the newest block, or at the start again. */
static bool find_room(const struct sn_writer *w, size_t room, size_t *at)
{
    if (w->n == 0) {
        *at = 0;
        return room <= w->bytes;
    }
    const struct record *newest = &w->records[(w->first + w->n - 1) % w->most];
    size_t head = newest->at + newest->room, tail = w->records[w->first].at;
    bool is_wrapped = newest->at < tail;
    *at = !is_wrapped && w->bytes - head < room ? 0 : head;
    size_t limit = is_wrapped || *at == 0 ? tail : w->bytes;
    return w->n < w->most && *at + room <= limit;
}

void *sn_writer_take(struct sn_writer *w, size_t bytes)
{
    size_t room = (bytes + SN_AIO_ALIGN - 1) / SN_AIO_ALIGN * SN_AIO_ALIGN, at = 0;
    assert(room <= w->bytes);
    while (w->n > 0 && sn_aio_is_done(w->aio, &w->records[w->first].request))
        retire(w); /* so that a failure is known early */
    while (w->st == SN_OK && !find_room(w, room, &at) && w->n > 0)
        retire(w);
    if (w->st != SN_OK)
        return NULL;
    w->taken_at = at;
    w->taken_room = room;
    return w->arena + at;
}

void sn_writer_put(struct sn_writer *w, const struct sn_aio_request *where)
{
    struct record *r = &w->records[(w->first + w->n++) % w->most];
    *r = (struct record){*where, w->taken_at, w->taken_room};
    r->request.is_write = true;
    r->request.buf = w->arena + r->at;
    sn_aio_submit(w->aio, &r->request);
}

enum sn_status sn_writer_drain(struct sn_writer *w, struct sn_err *err)
{
    while (w->n > 0)
        retire(w);
    return w->st == SN_OK ? SN_OK : sn_fail(err, w->st, "%s", w->err.text);
}

void sn_writer_destroy(struct sn_writer *w)
{
    if (!w)
        return;
    while (w->n > 0)
        retire(w);
    sn_free(w->records);
    sn_free(w);
}
