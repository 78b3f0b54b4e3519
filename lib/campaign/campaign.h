/*
 * campaign.h - what a whole run costs: days, node-hours, jobs, energy, money, disks.
 *
 * Times of steps are the plan's (with those of train.ramp), failures and saves goodput.h's, with
 * checkpoint.every where the run file has it and the best interval where it does not; what comes of
 * them is held.h's. Nodes draw for all the time that they are held what the machine file says, which
 * is what they draw at most.
 */
#ifndef SN_CAMPAIGN_H
#define SN_CAMPAIGN_H

#include "lib/campaign/drawn.h"
#include "lib/config/config.h"
#include "lib/machine/software.h"
#include "lib/sim/plan.h"

/* The terms of a run beside its file and its machine. */
struct sn_campaign_want {
    const struct sn_ops *ops;
    int threads;
    double queue;        /* seconds that a job waits */
    struct sn_slow slow; /* `every`: of one node */
    /* Seconds before its limit at which a job is asked to save (slurm.signal_before: auto), of a step, a
     * save and a job of so many. */
    double (*notice)(double step, double save, double limit);
    uint64_t seed;
    int trials; /* 0: nothing is drawn */
};

struct sn_campaign {
    struct sn_plan plan;
    struct sn_goodput goodput;
    struct sn_terms terms;
    struct sn_held_time held;
    struct sn_drawn drawn; /* trials 0: nothing was drawn */
    int64_t parameters, steps;
    double tokens;
    double job;                        /* seconds of slurm.time; 0: none */
    int nodes, spares;                 /* that train; beside them */
    double days;                       /* held, and in queues */
    double node_hours;                 /* spares included */
    double device_hours;               /* of all devices of these nodes */
    double device_joules, node_joules; /* 0: the machine does not say */
    double dollars;                    /* 0: likewise */
    int64_t interval;                  /* steps between saves */
    double saves;                      /* what is made again after failures apart */
    int64_t keep;                      /* checkpoints that stay */
    int64_t limit;                     /* bytes that a rank may fill; 0: not known */
    double step[SN_RAMP_MAX + 1];      /* seconds of a step of each size of batch */
};

/* Steps until `tokens` are read, whole ones (train.ramp counts); SN_EINPUT where they are too many. */
enum sn_status sn_campaign_steps(int64_t *steps, const struct sn_config *c, double tokens,
                                 struct sn_err *err);
/* For the layout of *c, which is resolved, on *m. SN_EINPUT where it cannot end (sn_held_find). */
enum sn_status sn_campaign_find(struct sn_campaign *out, const struct sn_config *c,
                                const struct sn_machine *m, const struct sn_software *s,
                                const struct sn_campaign_want *want, struct sn_err *err);

/* The same layout for another number of steps; nothing is drawn. */
enum sn_status sn_campaign_set_steps(struct sn_campaign *k, const struct sn_config *c,
                                     const struct sn_machine *m, int64_t steps, struct sn_err *err);
/* For as many as are done in so many node-hours; SN_EINPUT where it is not one. */
enum sn_status sn_campaign_within(struct sn_campaign *k, const struct sn_config *c,
                                  const struct sn_machine *m, double node_hours,
                                  struct sn_err *err);

/* Which run that is, in which layout, and how fast. */
void sn_campaign_head_text(struct sn_str *out, const struct sn_config *c,
                           const struct sn_campaign *k, const struct sn_machine *m,
                           const struct sn_software *s);
/* Lines, and a value of JSON ($defs/campaign of docs/plan.schema.json). */
void sn_campaign_text(struct sn_str *out, const struct sn_campaign *c, const struct sn_machine *m);
void sn_campaign_json(struct sn_str *out, const struct sn_campaign *c);
/* "1.6e12", "31.4 M", "982 k", "12.5": three digits; buf of at least 24 bytes; returns buf. */
const char *sn_campaign_number(char buf[24], double n);

#endif
