/*
 * open_files.h - files that one process opens and others of its host get from it, opened.
 *
 * To open a file is a request to the metadata server of a parallel file system, and at the start of a
 * job all ranks make it at once. Descriptors can be passed on (lib/comm/pass_files.h), so one of a
 * host is enough. Who passes and who is given open the same files in the same order.
 */
#ifndef SN_OPEN_FILES_H
#define SN_OPEN_FILES_H

#include <stdbool.h>
#include <sys/stat.h>

enum { SN_OPEN_FILES_MAX = 512 };

struct sn_open_files {
    int fd[SN_OPEN_FILES_MAX]; /* of `n` files, in the order of opening */
    int n;
    bool is_given; /* they came from another process */
    int used;      /* of those that were given */
};

/* As sn_input_open (lib/base/input.h), which it is where f is NULL. Else the next of those that were
 * given; or it opens the file and keeps a second descriptor in f. */
int sn_open_files_get(struct sn_open_files *f, const char *path, struct stat *id);
/* Close those that are still in f, which is empty then. */
void sn_open_files_close(struct sn_open_files *f);

#endif
