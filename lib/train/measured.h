/*
 * measured.h - the timelines of all ranks in one trace, on the clock of rank 0's host.
 *
 * How clocks are aligned. The ranks pass SN_CLOCK_ROUNDS barriers, and each notes when it comes to
 * one (e) and when it has passed it (l), by its own clock. Nobody passes before all have come. So
 * with o = clock of rank r minus clock of rank 0, each barrier says e_r - l_0 <= o <= l_r - e_0:
 * two bounds, of which all barriers' tightest are kept. The offset is the middle between them, and
 * half of what lies between is what it may be off; that is in the name of the rank's process. Ranks
 * of rank 0's host have its clock: 0.
 */
#ifndef SN_MEASURED_H
#define SN_MEASURED_H

#include "lib/cost/price.h"
#include "lib/exec/timeline.h"
#include "lib/sim/stages.h"

#include <stdio.h>

enum { SN_CLOCK_ROUNDS = 16 };

/* When a rank came to the barriers, and when it had passed them. */
struct sn_clock_notes {
    double came[SN_CLOCK_ROUNDS], left[SN_CLOCK_ROUNDS];
};
struct sn_clock_offset {
    double seconds; /* to be taken from a time of the rank: then it is one of rank 0 */
    double unsure;
};
void sn_clock_offset_find(struct sn_clock_offset *out, const struct sn_clock_notes *zero,
                          const struct sn_clock_notes *other);

/* What rank 0 knows of the step beside its times. */
struct sn_measured_env {
    const struct sn_stages *stages; /* the text of every stage */
    const struct sn_pricer *pricer; /* what each operation was planned to take; NULL: not known */
    int first_pid;                  /* rank r is process first_pid + r of the trace */
};

/* Add the measured step of every rank to a trace that is open, on rank 0, where `f` and `env` are
 * not NULL; times count from when the first rank began. Collective. A file that cannot be written
 * is SN_EIO on rank 0 alone, when all have been heard. */
enum sn_status sn_measured_write(FILE *f, const struct sn_measured_env *env,
                                 const struct sn_timeline *t, struct sn_comm *comm,
                                 struct sn_err *err);

#endif
