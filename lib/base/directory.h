/*
 * directory.h - making directories.
 */
#ifndef SN_DIRECTORY_H
#define SN_DIRECTORY_H

#include "lib/base/err.h"

/* Make a directory and its missing parents; one that is there is fine. `what` names it in the
 * sentence ("run.output"). SN_EIO. */
enum sn_status sn_directory_make(const char *path, const char *what, struct sn_err *err);

#endif
