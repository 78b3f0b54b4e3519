#include "lib/texts/texts.h"

#include "lib/base/input.h"
#include "lib/base/mem.h"
#include "lib/data/data_kind.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 18, DEPTH = 32 };

/* --- which files ------------------------------------------------------------------------------ */

void sn_texts_list_fini(struct sn_texts_list *l)
{
    for (int i = 0; i < l->n; i++)
        sn_free(l->list[i].path);
    sn_free(l->list);
    *l = (struct sn_texts_list){0};
}

static bool ends_with(const char *name, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len > n && memcmp(name + len - n, end, n) == 0;
}

/* Does a name end as a text's, and as that of JSON lines? */
static bool is_text_name(const char *name, bool *is_json)
{
    size_t len = strlen(name);
    if (ends_with(name, len, ".gz"))
        len -= 3;
    else if (ends_with(name, len, ".zst"))
        len -= 4;
    *is_json = ends_with(name, len, ".jsonl") || ends_with(name, len, ".json") ||
               ends_with(name, len, ".ndjson") || ends_with(name, strlen(name), ".parquet");
    return *is_json || ends_with(name, len, ".txt") || ends_with(name, len, ".md");
}

/* Does it hold texts that are not read? Left out in silence they would be missed. */
static bool is_other_name(const char *name)
{
    return ends_with(name, strlen(name), ".arrow");
}

static enum sn_status no_memory(const char *path, struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "%s: no memory for its name", path);
}

static enum sn_status add_file(struct sn_texts_list *l, const char *path, int64_t bytes,
                               struct sn_err *err)
{
    struct sn_texts_file file = {.path = sn_strdup(path), .bytes = bytes};
    (void)is_text_name(path, &file.is_json);
    if (!file.path || !sn_grow((void **)&l->list, l->n, &l->cap, sizeof(*l->list))) {
        sn_free(file.path);
        return no_memory(path, err);
    }
    l->list[l->n++] = file;
    return SN_OK;
}

static enum sn_status add_path(struct sn_texts_list *l, const char *path, int depth, bool named,
                               struct sn_err *err);

static enum sn_status add_entries(struct sn_texts_list *l, const char *path, DIR *folder,
                                  int depth, struct sn_err *err)
{
    enum sn_status st = SN_OK;
    for (struct dirent *e; st == SN_OK && (e = readdir(folder));) {
        if (e->d_name[0] == '.')
            continue;
        char *inner = sn_format("%s/%s", path, e->d_name);
        st = inner ? add_path(l, inner, depth + 1, false, err) : no_memory(path, err);
        sn_free(inner);
    }
    return st;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct sn_texts_file *)a)->path,
                  ((const struct sn_texts_file *)b)->path);
}

/* `named`: by the user, not found in a directory. */
static enum sn_status add_path(struct sn_texts_list *l, const char *path, int depth, bool named,
                               struct sn_err *err)
{
    struct stat id;
    bool is_json;
    if (stat(path, &id) != 0)
        return sn_fail(err, SN_EINPUT, "%s: cannot be read (%s)", path, strerror(errno));
    if (!S_ISDIR(id.st_mode) && !named && is_other_name(path))
        return sn_fail(err, SN_EINPUT,
                       "%s: such files are not read; write it as JSON lines, or name the files of the "
                       "directory that are meant",
                       path);
    if (!S_ISDIR(id.st_mode))
        return named || is_text_name(path, &is_json) ? add_file(l, path, id.st_size, err) : SN_OK;
    if (depth > DEPTH)
        return sn_fail(err, SN_EINPUT, "%s: more than %d directories deep; is a link a circle?",
                       path, DEPTH);
    DIR *folder = opendir(path);
    if (!folder)
        return sn_fail(err, SN_EINPUT, "%s: cannot be read (%s)", path, strerror(errno));
    int first = l->n;
    enum sn_status st = add_entries(l, path, folder, depth, err);
    (void)closedir(folder);
    if (st == SN_OK && l->n > first)
        qsort(l->list + first, (size_t)(l->n - first), sizeof(*l->list), by_path);
    if (st == SN_OK && named && l->n == first)
        return sn_fail(err, SN_EINPUT,
                       "%s: holds no texts; want .txt, .md, .jsonl, .json or .ndjson, perhaps with "
                       ".gz or .zst behind, or .parquet",
                       path);
    return st;
}

static enum sn_status add_pattern(struct sn_texts_list *l, const char *pattern, struct sn_err *err)
{
    glob_t found = {0};
    int rc = glob(pattern, 0, NULL, &found);
    enum sn_status st = rc == GLOB_NOSPACE ? no_memory(pattern, err)
                        : rc               ? sn_fail(err, SN_EINPUT, "%s: fits no file", pattern)
                                           : SN_OK;
    for (size_t i = 0; st == SN_OK && i < found.gl_pathc; i++)
        st = add_path(l, found.gl_pathv[i], 0, true, err);
    globfree(&found);
    return st;
}

enum sn_status sn_texts_find(struct sn_texts_list *out, char *const *names, int n,
                              struct sn_err *err)
{
    for (int i = 0; i < n; i++) {
        bool is_there = access(names[i], F_OK) == 0;
        SN_TRY(!is_there && strpbrk(names[i], "*?[") ? add_pattern(out, names[i], err)
                                                     : add_path(out, names[i], 0, true, err));
    }
    return SN_OK;
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* Read more from the file, behind what is there. */
static enum sn_status fill(struct sn_texts *s, struct sn_err *err)
{
    if (s->from == s->to)
        s->from = s->to = 0;
    while (s->to < BUFFER && !s->ended) {
        ssize_t n = read(s->fd, s->buffer + s->to, BUFFER - s->to);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sn_fail(err, SN_EIO, "%s: byte %lld cannot be read (%s)", s->name,
                           (long long)s->offset, strerror(errno));
        s->ended = n == 0;
        s->to += (size_t)n;
        s->offset += n;
    }
    return SN_OK;
}

enum sn_status sn_texts_open(struct sn_texts *s, const char *name,
                             const struct sn_parquet_want *want, struct sn_err *err)
{
    *s = (struct sn_texts){.name = name};
    s->fd = sn_input_open(name, NULL);
    if (s->fd < 0)
        return sn_fail(err, SN_EINPUT, "%s: cannot be read (%s)", name, sn_input_why(errno));
    s->buffer = sn_alloc(BUFFER);
    if (!s->buffer)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to read it", name);
    SN_TRY(fill(s, err));
    if (s->to >= 3 && memcmp(s->buffer, "\x1f\x8b\x08", 3) == 0)
        return sn_gzip_open(&s->unpacker, name, err);
    if (s->to >= 4 && memcmp(s->buffer, "\x28\xb5\x2f\xfd", 4) == 0)
        return sn_zstd_open(&s->unpacker, name, err);
    if (s->to >= 4 && memcmp(s->buffer, "PAR1", 4) == 0) {
        s->from = s->to = 0;
        return sn_parquet_open(&s->rows, s->fd, name, want, err);
    }
    return sn_data_kind_check(name, (const unsigned char *)s->buffer, s->to, false, err);
}

void sn_texts_close(struct sn_texts *s)
{
    if (s->fd >= 0)
        (void)close(s->fd); /* only read from */
    if (s->unpacker.state)
        s->unpacker.destroy(s->unpacker.state);
    sn_parquet_close(s->rows);
    sn_bytes_fini(&s->lines);
    sn_free(s->buffer);
    *s = (struct sn_texts){.fd = -1};
}

static enum sn_status unpack(struct sn_texts *s, char *out, size_t room, size_t *got,
                             struct sn_err *err)
{
    for (*got = 0; *got == 0;) {
        size_t in = s->to - s->from;
        *got = room;
        if (in == 0 && s->ended && !s->mid_stream) {
            *got = 0;
            return SN_OK;
        }
        enum sn_unpacked done =
            s->unpacker.step(s->unpacker.state, s->buffer + s->from, &in, out, got);
        s->from += in;
        s->mid_stream = done == SN_UNPACK_MORE;
        if (done == SN_UNPACK_NO_MEMORY)
            return sn_fail(err, SN_ENOMEM, "%s: no memory to unpack it", s->name);
        bool is_stuck = *got == 0 && in == 0 && s->ended && s->from == s->to;
        if (done == SN_UNPACK_DAMAGED || (done == SN_UNPACK_MORE && is_stuck))
            return sn_fail(err, SN_EINPUT,
                           "%s: the packed stream is %s near byte %lld; copy it anew", s->name,
                           done == SN_UNPACK_MORE ? "cut short" : "damaged",
                           (long long)(s->offset - (int64_t)(s->to - s->from)));
        if (s->from == s->to)
            SN_TRY(fill(s, err));
    }
    return SN_OK;
}

static enum sn_status fill_rows(struct sn_texts *s, struct sn_err *err)
{
    s->lines.len = s->from = s->to = 0;
    SN_TRY(sn_parquet_read(s->rows, &s->lines, BUFFER, err));
    s->to = s->lines.len;
    return SN_OK;
}

enum sn_status sn_texts_read(struct sn_texts *s, char *out, size_t room, size_t *got,
                              struct sn_err *err)
{
    if (s->unpacker.state)
        return unpack(s, out, room, got, err);
    if (s->from == s->to)
        SN_TRY(s->rows ? fill_rows(s, err) : fill(s, err));
    *got = s->to - s->from < room ? s->to - s->from : room;
    if (*got > 0)
        memcpy(out, (s->rows ? s->lines.p : s->buffer) + s->from, *got);
    s->from += *got;
    return SN_OK;
}
