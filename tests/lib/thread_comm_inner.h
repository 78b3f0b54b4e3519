/*
 * thread_comm_inner.h - for the files thread_*.c alone.
 */
#ifndef THREAD_COMM_INNER_H
#define THREAD_COMM_INNER_H

#include "lib/comm/comm.h"

#include <pthread.h>

struct meeting {     /* of a group's members, at one collective */
    const void **of; /* by member: what each brings */
    void **result;   /* by member: what each takes along, if the last to come makes it */
    int64_t *n;      /* its elements */
    int arrived, left;
    unsigned long round;
    pthread_mutex_t lock;
    pthread_cond_t whole, empty; /* all are here; all have left */
};

void *thread_need(void *p); /* aborts where there is no memory */
/* The transfer that a member has brought. */
const struct sn_transfer *thread_brought(const struct meeting *m, int member);
/* What member `me` gets, into fresh memory; `n` elements of its output. */
void *thread_result(const struct meeting *m, int size, int me, int64_t *n);

#endif
