/*
 * record.h - what a rank says of itself: once, what its text plans; after each step, what that took.
 *
 * The same machine, the same binary: records travel as they lie in memory.
 *
 * Transfers are sampled, the same ones at all members of a group: a path is a group, or a sender and
 * its receiver, and of what goes over it in a step up to SN_MONITOR_OF_PATH of the largest ones are
 * watched, by their number in the order of posting.
 */
#ifndef SN_MONITOR_RECORD_H
#define SN_MONITOR_RECORD_H

#include <stdbool.h>
#include <stdint.h>

/* What computing is for. */
enum sn_work {
    SN_WORK_FORWARD,
    SN_WORK_BACKWARD,    /* gradients of inputs, or of both */
    SN_WORK_WEIGHT_GRAD, /* where they are apart */
    SN_WORK_UPDATE,
    SN_NWORKS
};
const char *sn_work_name(enum sn_work w); /* "weight gradients" */

enum { SN_MONITOR_SAMPLES = 48, SN_MONITOR_OF_PATH = 6, SN_MONITOR_NAME = 64 };

struct sn_path {
    int32_t group; /* enum sn_group */
    int32_t from;  /* lowest rank of the group; the sender */
    int32_t to;    /* -1; the receiver */
};
static inline bool sn_path_is(const struct sn_path *a, const struct sn_path *b)
{
    return a->group == b->group && a->from == b->from && a->to == b->to;
}

struct sn_monitor_plan {
    uint64_t text;          /* ranks with the same do the same work */
    double work[SN_NWORKS]; /* planned seconds of a step; 0: none */
    char host[SN_MONITOR_NAME];
    char leaf[SN_MONITOR_NAME]; /* the switch that the host hangs on; "": not known */
    int32_t n;                  /* samples, those of a path together, in the order of posting */
    struct sn_monitor_sample {
        struct sn_path path;
        int32_t members; /* of the group; 2 */
        float seconds;   /* planned, from when all are there */
    } sample[SN_MONITOR_SAMPLES];
};

struct sn_monitor_record {
    int64_t step;
    double began; /* seconds of the rank's clock; times of samples count from it */
    double left;  /* when it had passed the agreement of all ranks in this step */
    double ran;   /* seconds of a core that the computing thread had in the step */
    float work[SN_NWORKS];
    int32_t core; /* that it runs on; -1: not known */
    struct {
        float begin, end; /* from when this rank was there; end 0: not measured */
        int32_t last;     /* the rank whose part came last; -1: not known */
    } sample[SN_MONITOR_SAMPLES];
};

#endif
