/*
 * output.h - making files of our own in directories that others may write to.
 *
 * A run's folder may be a project's, which a whole group writes to: who puts a link where a run will
 * write would choose what the run overwrites. So the last name of a path that we write is never a
 * link that is followed; the folders before it may be (a run.output on scratch is often a link).
 */
#ifndef SN_OUTPUT_H
#define SN_OUTPUT_H

#include <fcntl.h>
#include <sys/types.h>

/* A descriptor of a plain file at `path`, made where it lacks. `flags`: O_WRONLY or O_RDWR, and of
 * O_APPEND, O_TRUNC, O_EXCL. With O_EXCL the file is a fresh one: what had its name, be it a link, is
 * removed first, and its target is untouched. `mode` as of open(). -1: errno says why, in the words
 * of sn_output_why. */
int sn_output_open(const char *path, int flags, mode_t mode);
/* As strerror, also of links, pipes, devices and directories. */
const char *sn_output_why(int errnum);

#endif
