/*
 * input.h - opening files that somebody else wrote.
 *
 * A pipe in the place of a file lets open() wait for good, /dev/zero has no end, and a directory
 * opens but cannot be read. So whoever reads files goes through here: only a plain file is opened, and
 * never waited for.
 */
#ifndef SN_INPUT_H
#define SN_INPUT_H

#include <stdbool.h>
#include <sys/stat.h>

/* A descriptor for reading; *id (may be NULL) is what it is. -1: errno says why not, in the words of
 * sn_input_why. Links are followed. */
int sn_input_open(const char *path, struct stat *id);
/* Is there something of that name, but a directory, a pipe, a device or a socket? */
bool sn_input_is_odd(int errnum);
/* As strerror, also of what sn_input_open says of pipes, devices and directories. */
const char *sn_input_why(int errnum);

#endif
