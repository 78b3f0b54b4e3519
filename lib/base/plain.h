/*
 * plain.h - text from outside made fit for a terminal and for one line of a record.
 *
 * Names of files, keys, tensors and what a file says may hold bytes that a terminal obeys: they
 * could set its title, hide what was printed, or look like a line of their own. Such bytes are
 * shown (\x1b), a newline as \n and a tab as \t; text, ASCII or not, stays as it is. sn_fail and
 * sn_log do this to all that they are given; what is printed otherwise asks for it here.
 */
#ifndef SN_PLAIN_H
#define SN_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character of UTF-8 at s, which ends with NUL, and the character; 0: there is none. */
int sn_plain_decode(const char *s, unsigned *out);
/* Does a terminal obey it? C0, C1 and what moves, mirrors or hides what stands beside it. */
bool sn_plain_is_obeyed(unsigned character);

/* What does not fit is cut off behind a whole character. `to` and `from` do not overlap. */
void sn_plain(char *to, size_t room, const char *from);

/* The same of lines that are printed, in place: `?` for each such byte but ends of lines and tabs.
 * NULL is allowed. */
void sn_plain_lines(char *text);

#endif
