/*
 * deadline.h - when the job's time ends, asked again now and then: `scontrol update TimeLimit`, a
 * preemption with grace and a suspension move it.
 *
 * The nearer the end, the oftener: after an eighth of what is left, 5 seconds at least and 300 at
 * most; where nobody answers, twice as long after each silence, up to 16 times. All but the
 * question itself (sn_ask_end) is arithmetic on times that are given.
 */
#ifndef SN_DEADLINE_H
#define SN_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

struct sn_deadline {
    int64_t end; /* seconds since 1970; 0: none known */
    double next; /* of a clock that never goes back: when to ask again */
    int silent;  /* questions in a row without an answer */
};

/* Seconds from one question to the next, with `left` until the end; left < 0: no end is known. */
double sn_deadline_pause(int64_t left, int silent);
/* Note an answer, 0: there was none, which changes nothing. True if the end has moved. */
bool sn_deadline_take(struct sn_deadline *d, int64_t answer, double now, int64_t wall);

#endif
