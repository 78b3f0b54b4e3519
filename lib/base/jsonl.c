#include "lib/base/jsonl.h"

#include "lib/base/input.h"
#include "lib/base/mem.h"
#include "lib/base/output.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- writing --------------------------------------------------------------------------------- */

static void begin_member(struct sn_str *line, const char *name)
{
    sn_str_add(line, line->len ? ", " : "{");
    sn_str_add_json(line, name);
    sn_str_add(line, ": ");
}

void sn_jsonl_raw(struct sn_str *line, const char *name, const char *value)
{
    begin_member(line, name);
    sn_str_add(line, "%s", value);
}

void sn_jsonl_text(struct sn_str *line, const char *name, const char *value)
{
    begin_member(line, name);
    if (value)
        sn_str_add_json(line, value);
    else
        sn_str_add(line, "null");
}

void sn_jsonl_text_n(struct sn_str *line, const char *name, const char *value, size_t len)
{
    begin_member(line, name);
    sn_str_add_json_n(line, value, len);
}

void sn_jsonl_int(struct sn_str *line, const char *name, int64_t value)
{
    begin_member(line, name);
    sn_str_add(line, "%lld", (long long)value);
}

void sn_jsonl_real(struct sn_str *line, const char *name, double value)
{
    begin_member(line, name);
    if (isfinite(value))
        sn_str_add(line, "%.17g", value);
    else
        sn_str_add(line, "null");
}

void sn_jsonl_bool(struct sn_str *line, const char *name, bool value)
{
    sn_jsonl_raw(line, name, value ? "true" : "false");
}

void sn_jsonl_texts(struct sn_str *line, const char *name, const char *const *values, int n)
{
    begin_member(line, name);
    sn_str_add(line, "[");
    for (int i = 0; i < n; i++) {
        sn_str_add(line, i ? ", " : "");
        sn_str_add_json(line, values[i]);
    }
    sn_str_add(line, "]");
}

/* Does the file end within a line? */
static bool ends_cut(int fd)
{
    struct stat id;
    char last;
    return fstat(fd, &id) == 0 && id.st_size > 0 && pread(fd, &last, 1, id.st_size - 1) == 1 &&
           last != '\n';
}

static bool write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        text += n;
        len -= (size_t)n;
    }
    return true;
}

static bool append(const char *path, const struct sn_str *line)
{
    int fd = sn_output_open(path, O_RDWR | O_APPEND, 0666);
    if (fd < 0)
        return false;
    bool good = !ends_cut(fd) || write_all(fd, "\n", 1);
    good = good && write_all(fd, line->p, line->len) && fsync(fd) == 0;
    int why = errno;
    good = close(fd) == 0 && good;
    errno = why;
    return good;
}

enum sn_status sn_jsonl_append(const char *path, struct sn_str *line, struct sn_err *err)
{
    enum sn_status st = SN_OK;
    sn_str_add(line, line->len ? "}\n" : "{}\n");
    if (line->failed)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory for a line", path);
    else if (!append(path, line))
        st = sn_fail(err, SN_EIO, "%s: cannot be appended to: %s", path, sn_output_why(errno));
    sn_str_fini(line);
    *line = (struct sn_str){0};
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { MOST = 1 << 30 }; /* bytes that are read of a file */

static enum sn_status load(struct sn_jsonl *out, int fd, const char *path, struct sn_err *err)
{
    size_t room = 0;
    for (ssize_t n = 1; n != 0; out->len += n > 0 ? (size_t)n : 0) {
        if (out->len > MOST)
            return sn_fail(err, SN_EINPUT, "%s: more than %d bytes; move it away", path, MOST);
        if (out->len == room) {
            room = room ? 2 * room : 65536;
            char *grown = sn_realloc(out->text, room);
            if (!grown)
                return sn_fail(err, SN_ENOMEM, "%s: no memory for its lines", path);
            out->text = grown;
        }
        n = read(fd, out->text + out->len, room - out->len);
        if (n < 0 && errno != EINTR)
            return sn_fail(err, SN_EIO, "%s: cannot be read: %s", path, strerror(errno));
    }
    return SN_OK;
}

enum sn_status sn_jsonl_open(struct sn_jsonl *out, const char *path, struct sn_err *err)
{
    struct sn_jsonl file = {0};
    struct stat id;
    int fd = sn_input_open(path, &id);
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
        return sn_fail(err, sn_input_is_odd(errno) ? SN_EINPUT : SN_EIO, "%s: cannot be read: %s",
                       path, sn_input_why(errno));
    enum sn_status st = fd >= 0 ? load(&file, fd, path, err) : SN_OK;
    if (fd >= 0)
        (void)close(fd); /* only read */
    if (st == SN_OK)
        *out = file;
    else
        sn_jsonl_close(&file);
    return st;
}

bool sn_jsonl_next(struct sn_jsonl *f, struct sn_json *object)
{
    while (f->at < f->len) {
        const char *line = f->text + f->at;
        const char *stop = memchr(line, '\n', f->len - f->at);
        size_t len = stop ? (size_t)(stop - line) : f->len - f->at;
        f->at += len + (stop ? 1 : 0);
        if (len == 0)
            continue;
        if (sn_json_parse(object, line, len) && *object->at == '{')
            return true;
        f->damaged++;
    }
    return false;
}

void sn_jsonl_close(struct sn_jsonl *f)
{
    sn_free(f->text);
    *f = (struct sn_jsonl){0};
}

/* ---- a text that people wrote ---------------------------------------------------------------- */

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isspace((unsigned char)line[i]))
            return false;
    return true;
}

bool sn_jsonl_line(struct sn_jsonl_lines *l, const char **line, size_t *len)
{
    while (l->at < l->len) {
        const char *from = l->text + l->at, *end = memchr(from, '\n', l->len - l->at);
        *line = from;
        *len = end ? (size_t)(end - from) : l->len - l->at;
        l->at += *len + 1;
        l->number++;
        if (!is_blank(*line, *len))
            return true;
    }
    return false;
}

enum sn_status sn_jsonl_members(struct sn_json object, const char *const *known, int n,
                                struct sn_json *const *value, const char *want, struct sn_err *err)
{
    struct sn_json name, found;
    for (size_t at = 0; sn_json_next(object, &at, &name, &found);) {
        char text[64] = "";
        int k = 0;
        (void)sn_json_text(name, text, sizeof(text));
        while (k < n && strcmp(text, known[k]) != 0)
            k++;
        if (k == n)
            return sn_fail(err, SN_EINPUT, "unknown member '%s'; want %s", text, want);
        if (value[k]->at)
            return sn_fail(err, SN_EINPUT, "has '%s' twice; want it once", text);
        *value[k] = found;
    }
    return SN_OK;
}
