/*
 * timeline.h - when each operation of one step ran on this rank.
 *
 * On the processor by this host's clock; what travels meanwhile, by the thread that moves it. On a
 * device by the device's clock, between two stamps on the stream of the operation and with no wait
 * in between: such a step is enqueued piece by piece, in no graph, so that it may be slower than
 * its neighbours by what launching takes. The results have the same bits.
 *
 * Room for everything is made before the step.
 */
#ifndef SN_TIMELINE_H
#define SN_TIMELINE_H

#include "lib/comm/comm.h"
#include "lib/program/program.h"

struct sn_exec;

enum { SN_TIMED_SEGMENT = -1, SN_TIMED_COMPUTING = -1 };

struct sn_timed {
    struct sn_transfer_times at; /* seconds of sn_clock() on this host */
    int32_t op;                  /* of the train program; SN_TIMED_SEGMENT: all of `sched` */
    int32_t sched;               /* entry of the schedule */
    int16_t round;               /* of rows beyond the experts' window */
    int16_t axis; /* SN_TIMED_COMPUTING, or that of a communication of several ranks: from its begin
                   * to its end, which includes the wait for those who are late */
};

struct sn_timeline {
    struct sn_timed *event; /* first n_sched of segments, then operations in order of posting */
    int64_t n, room;
    int64_t n_sched;
    int64_t lost;      /* operations for which there was no room: of rounds that nobody can count */
    double begin, end; /* of the step, on this host */
    double unsure;     /* seconds by which a device's clock may be off this host's; 0: no device */
    struct sn_timed *now; /* the operation under way; NULL: none */
    int sched;
};

/* Room for a step of x's train program; on a device clocks, too. Caller destroys. */
enum sn_status sn_timeline_create(struct sn_timeline **out, struct sn_exec *x, struct sn_err *err);
void sn_timeline_destroy(struct sn_timeline *t); /* NULL is allowed */

#endif
