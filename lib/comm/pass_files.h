/*
 * pass_files.h - the first rank of a host passes the files that it has opened on to the others.
 *
 * They go as descriptors through a socket (SCM_RIGHTS) that is named after the job and the first
 * rank, in Linux's abstract namespace, so that it leaves nothing behind; both ends look whose process
 * the other one is. Ranks of a host that do not reach each other (containers with networks of their
 * own) open for themselves.
 */
#ifndef SN_PASS_FILES_H
#define SN_PASS_FILES_H

#include "lib/base/err.h"
#include "lib/base/open_files.h"
#include "lib/comm/comm.h"

struct sn_pass_socket {
    int fd; /* of the socket; -1: none */
};

/* On the first rank of a host: from here on others may come. Elsewhere, and alone on a host, nothing.
 * Before an agreement that all ranks come to. */
void sn_pass_open(struct sn_pass_socket *p, const struct sn_comm *c);
/* After it, where a host has several ranks. The first passes what is in f, and empties it; the others
 * get it into an empty f, which `is_given` then, and stays empty where nothing comes within `seconds`.
 * Returns how many went without: on the first rank of all, elsewhere of this one. */
int sn_pass_files(struct sn_pass_socket *p, const struct sn_comm *c, struct sn_open_files *f,
                  int seconds);
void sn_pass_close(struct sn_pass_socket *p); /* in any case */

#endif
