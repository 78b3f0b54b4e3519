/*
 * source.c - one of our checkpoints as a source: its manifest and a feed of its blocks.
 */
#include "checkpoint/store/source.h"

#include "checkpoint/format/hdf5.h"
#include "checkpoint/io/files.h"
#include "checkpoint/store/reader.h"
#include "checkpoint/store/store.h"
#include "checkpoint/store/tokenizer_files.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct ours {
    struct sn_reader reader;
    struct sn_source_tensor *tensors;
    struct sn_want *wants;
    struct sn_feed *feed; /* NULL before the first begin */
};

int sn_source_layer(const char *name, const char **rest)
{
    static const char prefix[] = "layers.";
    size_t before = sizeof(prefix) - 1;
    if (strncmp(name, prefix, before) != 0)
        return -1;
    size_t digits = strspn(name + before, "0123456789");
    if (digits < 1 || digits > 6)
        return -1;
    *rest = name + before + digits;
    return (int)strtol(name + before, NULL, 10);
}

int sn_source_find(const struct sn_source *s, const char *group, const char *name)
{
    int lo = 0, hi = s->n_tensors;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        int order = sn_manifest_order(s->tensors[mid].group, s->tensors[mid].name, group, name);
        if (order == 0)
            return mid;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

/* --- reading --------------------------------------------------------------------------------- */

static void end(struct ours *o)
{
    sn_feed_close(o->feed);
    sn_free(o->wants);
    o->feed = NULL;
    o->wants = NULL;
}

static enum sn_status begin(void *self, const struct sn_source_want *wants, int64_t n,
                            int64_t memory, struct sn_err *err)
{
    struct ours *o = self;
    end(o);
    o->wants = sn_alloc_n((size_t)n + 1, sizeof(*o->wants));
    if (!o->wants)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list %" PRId64 " boxes", o->reader.dir, n);
    for (int64_t i = 0; i < n; i++)
        o->wants[i] = (struct sn_want){&o->reader.manifest.tensors[wants[i].tensor], wants[i].box};
    return sn_feed_open(&o->feed, &o->reader, o->wants, n, memory, err);
}

static enum sn_status next(void *self, float *out, int64_t ld, struct sn_err *err)
{
    struct ours *o = self;
    return sn_feed_next(o->feed, out, ld, err);
}

static void close_ours(void *self)
{
    struct ours *o = self;
    end(o);
    sn_reader_close(&o->reader);
    sn_free(o->tensors);
    sn_free(o);
}

/* --- opening --------------------------------------------------------------------------------- */

/* COMMIT holds the hash of the manifest, and that the hashes of everything else. */
static enum sn_status identify(uint64_t *out, const char *dir, struct sn_err *err)
{
    char *text = NULL, *path = sn_format("%s/COMMIT", dir);
    size_t len = 0;
    enum sn_status st = path ? sn_file_load(&text, &len, path, err)
                             : sn_fail(err, SN_ENOMEM, "%s: no memory to open it", dir);
    if (st == SN_OK)
        *out = sn_hash64(text, len);
    sn_free(text);
    sn_free(path);
    return st;
}

static enum sn_status list_tensors(struct ours *o, struct sn_err *err)
{
    const struct sn_manifest *m = &o->reader.manifest;
    o->tensors = sn_alloc_n((size_t)m->n_tensors + 1, sizeof(*o->tensors));
    if (!o->tensors)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list its tensors", o->reader.dir);
    for (int i = 0; i < m->n_tensors; i++) {
        const struct sn_manifest_tensor *t = &m->tensors[i];
        o->tensors[i] = (struct sn_source_tensor){t->group, t->name, t->rows, t->cols, t->dtype};
    }
    return SN_OK;
}

static enum sn_status open_ours(struct sn_source *out, const char *dir, struct sn_err *err)
{
    uint64_t identity = 0;
    struct ours *o = sn_alloc(sizeof(*o));
    if (!o)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", dir);
    sn_h5_setup();
    enum sn_status st = sn_reader_open(&o->reader, dir, err);
    if (st != SN_OK) {
        sn_free(o);
        return st;
    }
    st = identify(&identity, dir, err);
    if (st == SN_OK)
        st = list_tensors(o, err);
    if (st != SN_OK) {
        close_ours(o);
        return st;
    }
    const struct sn_manifest *m = &o->reader.manifest;
    *out = (struct sn_source){.self = o,
                              .name = o->reader.dir,
                              .n_tensors = m->n_tensors,
                              .tensors = o->tensors,
                              .scalars = m->scalars,
                              .model_text = m->model_text,
                              .identity = identity,
                              .least = sn_feed_least(&o->reader),
                              .begin = begin,
                              .next = next,
                              .close = close_ours};
    return sn_tokenizer_files_of(&out->tokenizer, &m->tokenizer, o->reader.dir, err);
}

enum sn_status sn_source_open_checkpoint(struct sn_source *out, const char *path,
                                         struct sn_err *err)
{
    char *dir;
    SN_TRY(sn_store_find(&dir, path, err));
    enum sn_status st = open_ours(out, dir, err);
    sn_free(dir);
    return st;
}
