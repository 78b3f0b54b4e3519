/*
 * rewrite_shuffle.c - documents in another order, with a bound on what is in memory.
 *
 * The places of the output are cut into windows, each of about want->memory bytes of documents. The
 * input is read once, from its beginning to its end, and each document goes to the file of its window;
 * then each window is put in order. So a disk sees long reads and writes alone: the input twice, where
 * it is larger than the memory. More windows than files may be open take several rounds, each of which
 * reads the input again. What has one window is taken from the input itself. The place of a document
 * hangs on the seed alone, so that the bytes do not hang on the memory.
 */
#include "lib/data/rewrite_inner.h"

#include "lib/base/mem.h"
#include "lib/base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CELLS = 1 << 16, FILES = 128, HEADER = 8 };

struct place {
    int64_t at;       /* in the window's file, of a document's tokens */
    int64_t document; /* -1: none */
};
struct window {
    int64_t first, end; /* places of the output */
    int64_t bytes;
    struct sn_data_file file;
};
struct shuffle {
    struct sn_rewriting *r;
    uint64_t key;
    int64_t documents;
    struct window *windows;
    int n, cap;
    struct place *places; /* of the window that is being put in order */
    int64_t n_places;
};

static enum sn_status no_memory(const struct shuffle *s, struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "%s: no memory to shuffle; say a smaller --memory",
                   s->r->want->out);
}

static int64_t place_of(const struct shuffle *s, int64_t document)
{
    return (int64_t)sn_rng_permute(s->key, (uint64_t)s->documents, (uint64_t)document);
}

/* --- windows ---------------------------------------------------------------------------------- */

/* Cells are equal runs of places: cell c begins with the first place p of p * CELLS / n = c. */
static int64_t cell_of(const struct shuffle *s, int64_t place)
{
    __extension__ unsigned __int128 wide = (unsigned __int128)place * CELLS;
    return (int64_t)(wide / (uint64_t)s->documents);
}

static int64_t cell_begin(const struct shuffle *s, int64_t cell)
{
    __extension__ unsigned __int128 wide = (unsigned __int128)cell * (uint64_t)s->documents;
    return (int64_t)((wide + CELLS - 1) / CELLS);
}

static enum sn_status cut_windows(struct shuffle *s, const int64_t *bytes, struct sn_err *err)
{
    for (int64_t c = 0; c < CELLS; c++) {
        int64_t first = cell_begin(s, c), end = cell_begin(s, c + 1);
        struct window *w = s->n > 0 ? &s->windows[s->n - 1] : NULL;
        if (first == end)
            continue;
        if (w && w->bytes + bytes[c] <= s->r->want->memory) {
            w->bytes += bytes[c];
            w->end = end;
            continue;
        }
        if (!sn_grow((void **)&s->windows, s->n, &s->cap, sizeof(*s->windows)))
            return no_memory(s, err);
        s->windows[s->n++] =
            (struct window){.first = first, .end = end, .bytes = bytes[c], .file = {.fd = -1}};
    }
    return SN_OK;
}

static enum sn_status find_windows(struct shuffle *s, struct sn_err *err)
{
    int64_t *bytes = sn_alloc_n(CELLS, sizeof(*bytes));
    enum sn_status st = bytes ? SN_OK : no_memory(s, err);
    for (int64_t i = 0; i < s->documents && st == SN_OK; i++) {
        struct sn_source_document d = sn_sources_get(&s->r->sources, i);
        bytes[cell_of(s, place_of(s, i))] += (int64_t)(d.bytes + sizeof(struct place));
        st = sn_rewrite_go_on(s->r, i, err);
    }
    if (st == SN_OK)
        st = cut_windows(s, bytes, err);
    sn_free(bytes);
    return st;
}

/* Which of the windows first .. end - 1 a place is in; NULL: none. */
static struct window *find_window(struct shuffle *s, int first, int end, int64_t place)
{
    if (place < s->windows[first].first || place >= s->windows[end - 1].end)
        return NULL;
    while (end - first > 1) {
        int middle = (first + end) / 2;
        if (place < s->windows[middle].first)
            end = middle;
        else
            first = middle;
    }
    return &s->windows[first];
}

/* --- the file of a window --------------------------------------------------------------------- */

/* Nothing of it stays when the work is killed. */
static enum sn_status open_window(struct shuffle *s, int i, struct sn_err *err)
{
    char suffix[40];
    struct window *w = &s->windows[i];
    (void)snprintf(suffix, sizeof(suffix), "window-%d", i);
    SN_TRY(sn_data_file_create(&w->file, s->r->want->out, suffix, err));
    (void)unlink(w->file.temporary); /* else it goes at the end */
    w->file.unpublished = false;
    return SN_OK;
}

static void close_window(struct window *w)
{
    sn_data_file_destroy(&w->file);
    w->file = (struct sn_data_file){.fd = -1};
}

/* A document behind what is there: its number, then its tokens as the input has them. */
static enum sn_status put(struct window *w, int64_t document, const struct sn_source_document *d,
                          struct sn_err *err)
{
    SN_TRY(sn_data_file_put(&w->file, &document, HEADER, err));
    return sn_data_file_put(&w->file, d->p, d->bytes, err);
}

static enum sn_status fill(struct shuffle *s, int first, int end, struct sn_err *err)
{
    for (int i = first; i < end; i++)
        SN_TRY(open_window(s, i, err));
    for (int64_t i = 0; i < s->documents; i++) {
        struct window *w = find_window(s, first, end, place_of(s, i));
        struct sn_source_document d = sn_sources_get(&s->r->sources, i);
        SN_TRY(sn_rewrite_go_on(s->r, i, err));
        if (w)
            SN_TRY(put(w, i, &d, err));
    }
    for (int i = first; i < end; i++)
        SN_TRY(sn_data_file_flush(&s->windows[i].file, err));
    return SN_OK;
}

/* --- putting a window in order ---------------------------------------------------------------- */

static enum sn_status clear_places(struct shuffle *s, const struct window *w, struct sn_err *err)
{
    int64_t n = w->end - w->first;
    if (n > s->n_places) {
        struct place *grown = sn_realloc(s->places, (size_t)n * sizeof(*grown));
        if (!grown)
            return no_memory(s, err);
        s->places = grown;
        s->n_places = n;
    }
    return SN_OK;
}

/* Write the documents of places, whose tokens lie in the window's file, or (NULL) in the input. */
static enum sn_status write_places(struct shuffle *s, const struct window *w,
                                   const unsigned char *file, struct sn_err *err)
{
    struct sn_rewriting *r = s->r;
    for (int64_t i = 0; i < w->end - w->first; i++) {
        const struct place *p = &s->places[i];
        SN_TRY(sn_rewrite_go_on(r, i, err));
        SN_TRY(sn_sources_copy(&r->sources, p->document, file ? file + p->at : NULL, r->writers[0],
                               err));
    }
    return SN_OK;
}

static enum sn_status order_window(struct shuffle *s, const struct window *w, struct sn_err *err)
{
    size_t len = (size_t)w->file.written;
    SN_TRY(clear_places(s, w, err));
    unsigned char *file = mmap(NULL, len, PROT_READ, MAP_SHARED, w->file.fd, 0);
    if (file == MAP_FAILED)
        return sn_data_read_fail(err, w->file.temporary, errno);
    for (size_t at = 0; at < len;) {
        int64_t document;
        memcpy(&document, file + at, HEADER);
        at += HEADER;
        s->places[place_of(s, document) - w->first] =
            (struct place){.at = (int64_t)at, .document = document};
        at += sn_sources_get(&s->r->sources, document).bytes;
    }
    enum sn_status st = write_places(s, w, file, err);
    (void)munmap(file, len); /* our own mapping: cannot fail */
    return st;
}

static enum sn_status order_all(struct shuffle *s, struct sn_err *err)
{
    const struct window *w = &s->windows[0];
    SN_TRY(clear_places(s, w, err));
    for (int64_t i = 0; i < s->documents; i++)
        s->places[place_of(s, i)] = (struct place){.document = i};
    return write_places(s, w, NULL, err);
}

static enum sn_status run(struct shuffle *s, struct sn_err *err)
{
    SN_TRY(find_windows(s, err));
    if (s->n == 1)
        return order_all(s, err);
    for (int first = 0; first < s->n; first += FILES) {
        int end = first + FILES < s->n ? first + FILES : s->n;
        SN_TRY(fill(s, first, end, err));
        for (int i = first; i < end; i++) {
            SN_TRY(order_window(s, &s->windows[i], err));
            close_window(&s->windows[i]);
        }
    }
    return SN_OK;
}

enum sn_status sn_rewrite_shuffle(struct sn_rewriting *r, struct sn_err *err)
{
    struct shuffle s = {.r = r, .documents = r->sources.info.documents};
    s.key = sn_rng_key(r->want->seed, "data.shuffle");
    enum sn_status st = s.documents > 0 ? run(&s, err) : SN_OK;
    for (int i = 0; i < s.n; i++)
        close_window(&s.windows[i]);
    sn_free(s.windows);
    sn_free(s.places);
    return st;
}
