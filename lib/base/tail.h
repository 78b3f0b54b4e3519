/*
 * tail.h - the last lines of a stream or of a file, in a fixed size.
 */
#ifndef SN_TAIL_H
#define SN_TAIL_H

#include <stddef.h>

enum { SN_TAIL_MAX = 8192 };

/* Of a stream that passes by. Begins zeroed. */
struct sn_tail {
    char text[SN_TAIL_MAX]; /* with a NUL; begins at the beginning of a line unless one line is
                               longer than all of it */
    size_t len;
};
/* Bytes that are NUL become blanks. */
void sn_tail_add(struct sn_tail *t, const char *bytes, size_t n);

/* The last whole lines of a file that fit into `room` bytes with a NUL; "" when there are none, or
 * no such file. A last line without its end counts as not there. */
void sn_tail_read(char *out, size_t room, const char *path);
/* Where the last line of a text begins; NULL when it has none. */
const char *sn_tail_last_line(const char *text);

#endif
