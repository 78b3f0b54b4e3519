#include "lib/texts/encoders.h"

#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"

#include <assert.h>
#include <stdio.h>

struct encoder_thread {
    struct sn_encoders *all;
    struct sn_encoder *encoder;
    struct sn_bytes text; /* a field of JSON, unescaped */
    struct sn_chat_work chat;
    pthread_t thread;
    bool runs;
};

struct sn_encoders {
    struct sn_encoding how;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stops;
    struct sn_document_batch *ring;
    int n_ring, fill, take, put; /* put: how many are between take and fill */
    struct encoder_thread *threads;
    int n_threads;
};

/* --- one document ----------------------------------------------------------------------------- */

/* What a line is that is no object. */
static enum sn_status no_object(const char *p, size_t len, struct sn_err *err)
{
    if (len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        return sn_fail(err, SN_EINPUT,
                       "begins with a byte order mark (EF BB BF), which is no JSON; take it off "
                       "(tail -c +4)");
    if (len > 0 && *p == '[')
        return sn_fail(
            err, SN_EINPUT,
            "is a list, and not an object on a line of its own (jq -c '.[]' makes these)");
    return sn_fail(err, SN_EINPUT, "is no JSON object, or it is cut short");
}

static enum sn_status find_text(struct encoder_thread *t, const char **p, size_t *len,
                                struct sn_err *err)
{
    struct sn_json line;
    const char *field = t->all->how.field;
    if (!field)
        return SN_OK;
    if (!sn_json_parse(&line, *p, *len) || *line.at != '{')
        return no_object(*p, *len, err);
    struct sn_json value = sn_json_get(line, field);
    if (!value.at || *value.at != '"')
        return sn_fail(err, SN_EINPUT, "has no text '%s'; name the member with --field", field);
    t->text.len = 0;
    if (!sn_bytes_room(&t->text, value.len))
        return sn_fail(err, SN_ENOMEM, "no memory for a line of %zu bytes", *len);
    *len = (size_t)sn_json_unescape(value, t->text.p);
    *p = t->text.p;
    return SN_OK;
}

static enum sn_status see(struct encoder_thread *t, const char *p, size_t len, struct sn_err *err)
{
    const struct sn_encoding *how = &t->all->how;
    SN_TRY(sn_encode_check(p, len, err));
    return how->see(how->states[t - t->all->threads], p, len, err);
}

/* A conversation: its tokens, and which of them count. A token that is put around it does not. */
static enum sn_status encode_chat(struct encoder_thread *t, const char *p, size_t len,
                                  struct sn_document_batch *b, struct sn_err *err)
{
    const struct sn_encoding *how = &t->all->how;
    const struct sn_chat_work *w = &t->chat;
    SN_TRY(sn_chat_render(how->chat, &t->chat, p, len, err));
    if (w->text.len == 0)
        return SN_OK;
    bool good = how->begin < 0 || (sn_ids_push(&b->ids, how->begin) && sn_bytes_add(&b->counts, "", 1));
    SN_TRY(sn_encode_spans(t->encoder, w->text.p, w->text.len, &w->counts, &b->ids,
                           &b->counts, err));
    good = good &&
           (how->end < 0 || (sn_ids_push(&b->ids, how->end) && sn_bytes_add(&b->counts, "", 1)));
    return good ? SN_OK : sn_fail(err, SN_ENOMEM, "no memory for tokens");
}

static enum sn_status encode(struct encoder_thread *t, const char *p, size_t len,
                             struct sn_document_batch *b, struct sn_err *err)
{
    const struct sn_encoding *how = &t->all->how;
    struct sn_ids *out = &b->ids;
    if (how->chat)
        return encode_chat(t, p, len, b, err);
    bool good = how->begin < 0 || sn_ids_push(out, how->begin);
    SN_TRY(find_text(t, &p, &len, err));
    if (len == 0) {
        out->len -= how->begin >= 0 && good;
        return SN_OK;
    }
    if (how->see)
        return see(t, p, len, err);
    SN_TRY(sn_encode(t->encoder, p, len, how->special, out, err));
    good = good && (how->end < 0 || sn_ids_push(out, how->end));
    return good ? SN_OK : sn_fail(err, SN_ENOMEM, "no memory for tokens");
}

static bool note_bad(struct sn_document_batch *b, struct sn_document *d, const struct sn_err *err)
{
    if (!sn_grow((void **)&b->bad, b->n_bad, &b->bad_cap, sizeof(*b->bad)))
        return false;
    struct sn_bad_document *bad = &b->bad[b->n_bad++];
    bad->line = d->line;
    (void)snprintf(bad->why, sizeof(bad->why), "%.199s", err->text);
    d->is_bad = true;
    return true;
}

static void encode_batch(struct encoder_thread *t, struct sn_document_batch *b)
{
    const struct sn_encoding *how = &t->all->how;
    for (int i = 0; i < b->n; i++) {
        struct sn_document *d = &b->documents[i];
        struct sn_err err = {0};
        size_t before = b->ids.len;
        enum sn_status st = encode(t, b->text.p + d->from, d->to - d->from, b, &err);
        if (st != SN_OK)
            b->ids.len = before;
        if (how->chat && st != SN_OK)
            b->counts.len = before;
        d->tokens = b->ids.len;
        if (st == SN_EINPUT && !note_bad(b, d, &err))
            st = sn_fail(&err, SN_ENOMEM, "no memory for what is wrong with documents");
        if (st != SN_OK && st != SN_EINPUT) {
            b->err = err;
            return;
        }
    }
}

/* --- threads ---------------------------------------------------------------------------------- */

static struct sn_document_batch *next_full(struct sn_encoders *e)
{
    for (int i = 0; i < e->put; i++) {
        struct sn_document_batch *b = &e->ring[(e->take + i) % e->n_ring];
        if (b->state == SN_BATCH_FULL)
            return b;
    }
    return NULL;
}

static void *run(void *arg)
{
    struct encoder_thread *t = arg;
    struct sn_encoders *e = t->all;
    (void)pthread_mutex_lock(&e->lock);
    while (!e->stops) {
        struct sn_document_batch *b = next_full(e);
        if (!b) {
            (void)pthread_cond_wait(&e->changed, &e->lock);
            continue;
        }
        b->state = SN_BATCH_TAKEN;
        (void)pthread_mutex_unlock(&e->lock);
        encode_batch(t, b);
        (void)pthread_mutex_lock(&e->lock);
        b->state = SN_BATCH_DONE;
        (void)pthread_cond_broadcast(&e->changed);
    }
    (void)pthread_mutex_unlock(&e->lock);
    return NULL;
}

enum sn_status sn_encoders_create(struct sn_encoders **out, const struct sn_encoding *how,
                                  int threads, struct sn_err *err)
{
    struct sn_encoders *e = sn_alloc(sizeof(*e));
    if (!e)
        return sn_fail(err, SN_ENOMEM, "no memory for encoders");
    (void)pthread_mutex_init(&e->lock, NULL);
    (void)pthread_cond_init(&e->changed, NULL);
    e->how = *how;
    e->n_ring = threads * 2 + 2;
    e->ring = sn_alloc_n((size_t)e->n_ring, sizeof(*e->ring));
    e->threads = sn_alloc_n((size_t)threads, sizeof(*e->threads));
    enum sn_status st =
        e->ring && e->threads ? SN_OK : sn_fail(err, SN_ENOMEM, "no memory for encoders");
    for (int i = 0; i < threads && st == SN_OK; i++) {
        struct encoder_thread *t = &e->threads[e->n_threads++];
        t->all = e;
        if (how->tokenizer)
            st = sn_encoder_create(&t->encoder, how->tokenizer, err);
        int rc = st == SN_OK ? sn_thread_start(&t->thread, 0, run, t) : 0;
        t->runs = st == SN_OK && rc == 0;
        if (rc)
            st = sn_fail(err, SN_ENOMEM, "no memory for thread %d (%s); take fewer --workers", i,
                         strerror(rc));
    }
    if (st != SN_OK) {
        sn_encoders_destroy(e);
        return st;
    }
    *out = e;
    return SN_OK;
}

void sn_encoders_destroy(struct sn_encoders *e)
{
    if (!e)
        return;
    (void)pthread_mutex_lock(&e->lock);
    e->stops = true;
    (void)pthread_cond_broadcast(&e->changed);
    (void)pthread_mutex_unlock(&e->lock);
    for (int i = 0; i < e->n_threads; i++) {
        if (e->threads[i].runs)
            (void)pthread_join(e->threads[i].thread, NULL);
        sn_encoder_destroy(e->threads[i].encoder);
        sn_bytes_fini(&e->threads[i].text);
        sn_chat_work_fini(&e->threads[i].chat);
    }
    for (int i = 0; e->ring && i < e->n_ring; i++) {
        sn_bytes_fini(&e->ring[i].text);
        sn_ids_fini(&e->ring[i].ids);
        sn_bytes_fini(&e->ring[i].counts);
        sn_free(e->ring[i].documents);
        sn_free(e->ring[i].bad);
    }
    (void)pthread_cond_destroy(&e->changed);
    (void)pthread_mutex_destroy(&e->lock);
    sn_free(e->ring);
    sn_free(e->threads);
    sn_free(e);
}

void sn_encoders_field(struct sn_encoders *e, const char *field)
{
    assert(e->put == 0);
    e->how.field = field;
}

/* --- the ring --------------------------------------------------------------------------------- */

struct sn_document_batch *sn_encoders_fill(struct sn_encoders *e)
{
    struct sn_document_batch *b = &e->ring[e->fill];
    return e->put < e->n_ring && b->state == SN_BATCH_FREE ? b : NULL;
}

void sn_encoders_put(struct sn_encoders *e)
{
    (void)pthread_mutex_lock(&e->lock);
    e->ring[e->fill].state = SN_BATCH_FULL;
    e->fill = (e->fill + 1) % e->n_ring;
    e->put++;
    (void)pthread_cond_broadcast(&e->changed);
    (void)pthread_mutex_unlock(&e->lock);
}

struct sn_document_batch *sn_encoders_take(struct sn_encoders *e)
{
    struct sn_document_batch *b = &e->ring[e->take];
    if (e->put == 0)
        return NULL;
    (void)pthread_mutex_lock(&e->lock);
    while (b->state != SN_BATCH_DONE)
        (void)pthread_cond_wait(&e->changed, &e->lock);
    (void)pthread_mutex_unlock(&e->lock);
    return b;
}

void sn_encoders_free(struct sn_encoders *e)
{
    (void)pthread_mutex_lock(&e->lock);
    struct sn_document_batch *b = &e->ring[e->take];
    b->text.len = b->ids.len = b->counts.len = 0;
    b->n = b->n_bad = 0;
    b->state = SN_BATCH_FREE;
    e->take = (e->take + 1) % e->n_ring;
    e->put--;
    (void)pthread_mutex_unlock(&e->lock);
}
