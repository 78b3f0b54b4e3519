/*
 * goodput.h - how often to save, and how much of its time a job that is now and then killed gets
 * on.
 *
 * Failures come at random with a mean time M between them (exponential). A job works for tau,
 * stands for a pause delta in which the state is written (or, asynchronously, only copied: then it
 * is written beside the work and counts w seconds later), and so on. A failure costs the work since
 * the last checkpoint that counts, and the restart R, in which it may fail again.
 *
 *   Young 1974   tau = sqrt(2 delta M)
 *   Daly 2006    tau = sqrt(2 delta M) (1 + sqrt(delta / 2M) / 3 + (delta / 2M) / 9) - delta
 *                if delta < 2M, else M ("A higher order estimate of the optimum checkpoint interval
 *                for restart dumps", FGCS 22, equation 37)
 *   goodput      tau exp(-(R + w) / M) / (M (exp((tau + delta) / M) - 1)): useful over all time.
 *                For w = 0 it is the inverse of Daly's equation 20. w shifts the moments at which
 *                work is safe, as R does, so that the best tau does not depend on either.
 */
#ifndef SN_GOODPUT_H
#define SN_GOODPUT_H

#include "lib/base/str.h"
#include "lib/machine/machine.h"
#include "lib/sim/stages.h"

/* Seconds. */
struct sn_failures {
    double mtbf;    /* M, of the job: of a node over the number of nodes */
    double pause;   /* delta: training stands for a checkpoint */
    double write;   /* w: from the end of the pause until the checkpoint counts; 0: at once */
    double restart; /* R: from a failure to the first step again */
};

double sn_young_interval(const struct sn_failures *f);
double sn_daly_interval(const struct sn_failures *f);
/* Part of all time that is useful, if a checkpoint follows every `work` seconds of work. */
double sn_goodput_fraction(const struct sn_failures *f, double work);

struct sn_goodput {
    struct sn_failures failures;
    bool mtbf_assumed, storage_assumed; /* the machine does not say; as below */
    int64_t bytes;                      /* of a checkpoint */
    int64_t steps;                      /* between two checkpoints */
    double interval;                    /* seconds: steps x step time */
    double fraction;                    /* of time that is useful then */
    double as_it_was; /* the same with the run file's checkpoint.every; 0: it never saves */
};

/* Hours of one device between failures: Llama 3's 419 on 16,384 devices in 54 days (arXiv
 * 2407.21783, section 3.3.4). */
#define SN_MTBF_DEVICE_HOURS (16384 * 54 * 24 / 419.0)
/* Bytes a second of one node: the 2.3 TB that BLOOM's 48 nodes saved in 40 s
 * (bigscience-workshop/bigscience, tr11-176B-ml/chronicles.md). */
#define SN_STORAGE_NODE (2.3e12 / 40 / 48)
/* Seconds in which a failure is noticed and the job begins anew, without reading the checkpoint:
 * an estimate, of a scheduler that starts the job again at once. */
#define SN_RESTART_SECONDS 300.0

/* For a layout whose step takes `step` seconds on the machine. */
void sn_goodput_find(struct sn_goodput *out, const struct sn_stages *s, const struct sn_machine *m,
                     double step);
/* The same as two lines of text, or as a value of JSON (NULL: null). */
void sn_goodput_text(struct sn_str *out, const struct sn_goodput *g);
void sn_goodput_json(struct sn_str *out, const struct sn_goodput *g);

#endif
