#include "lib/base/tail.h"

#include "lib/base/input.h"

#include <string.h>
#include <unistd.h>

/* Drop whole lines from the front until `n` more bytes fit, half of all where
 * a line is too long. */
static void make_room(struct sn_tail *t, size_t n)
{
    while (t->len + n >= SN_TAIL_MAX) {
        size_t over = t->len + n - SN_TAIL_MAX + 1;
        char *end = over < t->len ? memchr(t->text + over, '\n', t->len - over) : NULL;
        size_t drop = end ? (size_t)(end - t->text) + 1 : over < t->len ? over : t->len;
        memmove(t->text, t->text + drop, t->len - drop);
        t->len -= drop;
    }
}

void sn_tail_add(struct sn_tail *t, const char *bytes, size_t n)
{
    if (n >= SN_TAIL_MAX) {
        bytes += n - (SN_TAIL_MAX - 1);
        n = SN_TAIL_MAX - 1;
        t->len = 0;
    }
    make_room(t, n);
    for (size_t i = 0; i < n; i++)
        t->text[t->len++] = bytes[i] ? bytes[i] : ' ';
    t->text[t->len] = '\0';
}

void sn_tail_read(char *out, size_t room, const char *path)
{
    struct stat id;
    out[0] = '\0';
    int fd = sn_input_open(path, &id);
    if (fd < 0)
        return;
    off_t from = id.st_size >= (off_t)room ? id.st_size - (off_t)room + 1 : 0;
    ssize_t n = pread(fd, out, room - 1, from);
    (void)close(fd); /* only read */
    size_t len = n > 0 ? (size_t)n : 0;
    while (len > 0 && out[len - 1] != '\n')
        len--; /* a line that is being written */
    out[len] = '\0';
    char *begin = from > 0 ? memchr(out, '\n', len) : NULL;
    if (from > 0)
        memmove(out, begin ? begin + 1 : out + len, begin ? len - (size_t)(begin - out) : 1);
}

const char *sn_tail_last_line(const char *text)
{
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    if (len == 0)
        return NULL;
    while (len > 0 && text[len - 1] != '\n')
        len--;
    return text + len;
}
