/*
 * health.h - how this rank's device fares: asked between steps, at most once in SN_HEALTH_EVERY
 * seconds, since an answer takes milliseconds. What explains a slow or failed attempt is written
 * down once by the rank that saw it, for sennit-run why:
 * OUTPUT/ranks/rank-N.health.jsonl, a line for each reason (members: sn_health_note).
 */
#ifndef SN_HEALTH_H
#define SN_HEALTH_H

#include "kernels/device.h"
#include "lib/exec/accelerator.h"
#include "lib/monitor/monitor.h"

#include <stdbool.h>
#include <stdio.h>

#define SN_HEALTH_EVERY 1.0

struct sn_health {
    const struct sn_accelerator *accelerator; /* NULL: there is none, or it says nothing */
    const char *output;                       /* run.output; borrowed */
    int rank;
    double asked; /* seconds of sn_clock(); 0: never */
    struct sn_device_health now;
    int64_t uncorrected; /* when it was asked first, -1: not yet; then what has been written */
    int64_t xid;         /* written */
    unsigned throttle;   /* reasons that have been written */
};

void sn_health_init(struct sn_health *h, const struct sn_accelerator *a, const char *output,
                    int rank);
/* Ask after step `step`, and write down what is new. NULL: not now. A device that does not answer
 * is said once, by rank 0, and what cannot be written is logged. */
const struct sn_device_health *sn_health_ask(struct sn_health *h, int64_t step);

/* What departs from the plan by step `step` (rank 0 has found it), the same way: as of the rank that
 * it is about, with a sentence. */
void sn_health_note_finding(const struct sn_health *h, int64_t step, const struct sn_finding *f);

/* "hw_thermal" */
const char *sn_throttle_name(enum sn_device_throttle t);
/* Of metrics.jsonl: "gpu": {...} without outer braces, of what is known. */
void sn_health_json(FILE *f, const struct sn_device_health *h);

#endif
