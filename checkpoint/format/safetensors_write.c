#include "checkpoint/format/safetensors_write.h"

#include "checkpoint/io/files.h"
#include "lib/base/mem.h"
#include "lib/base/output.h"
#include "lib/base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sn_st_writer {
    char *path;
    int fd;
    uint64_t at, end; /* bytes of the file */
};

const char *sn_st_dtype_name(enum sn_dtype t)
{
    return t == SN_F32 ? "F32" : t == SN_BF16 ? "BF16" : "F16";
}

/* The field's order of types is that of its enumeration, backwards: F32 before BF16 before F16. */
static int type_rank(enum sn_dtype t)
{
    return t == SN_F32 ? 0 : t == SN_BF16 ? 1 : 2;
}

static int by_place(const void *pa, const void *pb)
{
    const struct sn_st_entry *a = pa, *b = pb;
    int order = type_rank(a->dtype) - type_rank(b->dtype);
    return order ? order : strcmp(a->name, b->name);
}

static void add_entry(struct sn_str *s, const struct sn_st_entry *e, int64_t at)
{
    sn_str_add(s, ",");
    sn_str_add_json(s, e->name);
    sn_str_add(s, ":{\"dtype\":\"%s\",\"shape\":[%" PRId64, sn_st_dtype_name(e->dtype),
               e->shape[0]);
    for (int d = 1; d < e->rank; d++)
        sn_str_add(s, ",%" PRId64, e->shape[d]);
    sn_str_add(s, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", at, at + e->bytes);
}

/* 8 bytes for its length, the header; *data is what follows, in bytes. */
static void format_header(struct sn_str *s, struct sn_st_entry *list, int n, int64_t *data)
{
    *data = 0;
    sn_str_add(s, "01234567{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < n; i++) {
        struct sn_st_entry *e = &list[i];
        e->bytes = e->shape[0] * (e->rank >= 2 ? e->shape[1] : 1) *
                   (e->rank == 3 ? e->shape[2] : 1) * (int64_t)sn_dtype_size(e->dtype);
        add_entry(s, e, *data);
        *data += e->bytes;
    }
    sn_str_add(s, "}");
    sn_str_add(s, "%*s", (int)(-s->len & 7), "");
    if (s->failed)
        return;
    uint64_t len = s->len - 8;
    for (int i = 0; i < 8; i++)
        s->p[i] = (char)(len >> 8 * i & 255);
}

/* A disk without room is met here, not after an hour; some file systems cannot promise it. */
static enum sn_status reserve(const struct sn_st_writer *w, struct sn_err *err)
{
    int rc;
    do
        rc = fallocate(w->fd, 0, 0, (off_t)w->end);
    while (rc != 0 && errno == EINTR);
    if (rc == 0 || errno == EOPNOTSUPP || errno == ENOSYS)
        return SN_OK;
    return sn_file_fail(err, w->path, "make room for it");
}

static enum sn_status begin_file(struct sn_st_writer *w, const struct sn_str *header, int64_t data,
                                 struct sn_err *err)
{
    w->fd = sn_output_open(w->path, O_WRONLY | O_EXCL, 0666);
    if (w->fd < 0)
        return sn_file_fail(err, w->path, "create");
    w->end = header->len + (uint64_t)data;
    SN_TRY(reserve(w, err));
    w->at = header->len;
    return sn_file_put(w->fd, header->p, header->len, 0, w->path, "its header", err);
}

enum sn_status sn_st_create(struct sn_st_writer **out, const char *path, struct sn_st_entry *list,
                            int n, struct sn_err *err)
{
    struct sn_str header = {0};
    int64_t data;
    if (n > 1)
        qsort(list, (size_t)n, sizeof(*list), by_place);
    format_header(&header, list, n, &data);
    struct sn_st_writer *w = sn_alloc(sizeof(*w));
    char *copy = sn_strdup(path);
    if (header.failed || !w || !copy) {
        sn_str_fini(&header);
        sn_free(copy);
        sn_free(w);
        return sn_fail(err, SN_ENOMEM, "%s: no memory for the header of %d tensors", path, n);
    }
    *w = (struct sn_st_writer){.path = copy, .fd = -1};
    enum sn_status st = begin_file(w, &header, data, err);
    sn_str_fini(&header);
    if (st != SN_OK)
        sn_st_abandon(w);
    else
        *out = w;
    return st;
}

enum sn_status sn_st_put(struct sn_st_writer *w, const void *p, size_t bytes, struct sn_err *err)
{
    if (bytes > w->end - w->at)
        return sn_fail(err, SN_EFAIL, "%s: %zu bytes more than its %" PRIu64 " are written",
                       w->path, bytes - (size_t)(w->end - w->at), w->end);
    SN_TRY(sn_file_put(w->fd, p, bytes, w->at, w->path, "its values", err));
    w->at += bytes;
    return SN_OK;
}

enum sn_status sn_st_finish(struct sn_st_writer *w, int64_t *bytes, struct sn_err *err)
{
    enum sn_status st = SN_OK;
    if (w->at != w->end)
        st = sn_fail(err, SN_EFAIL, "%s: %" PRIu64 " of %" PRIu64 " bytes are written", w->path,
                     w->at, w->end);
    if (st == SN_OK && fsync(w->fd) != 0)
        st = sn_file_fail(err, w->path, "sync");
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 && st == SN_OK)
        st = sn_file_fail(err, w->path, "close");
    *bytes = (int64_t)w->end;
    sn_st_abandon(w);
    return st;
}

void sn_st_abandon(struct sn_st_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        (void)close(w->fd); /* what it holds is given up */
    sn_free(w->path);
    sn_free(w);
}
