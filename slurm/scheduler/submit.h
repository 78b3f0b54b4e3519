/*
 * submit.h - hand a batch script to sbatch or bsub.
 */
#ifndef SN_SUBMIT_H
#define SN_SUBMIT_H

#include "slurm/scheduler/scrub.h"

struct sn_submission {
    enum sn_scheduler scheduler;
    const char *script;             /* path, absolute */
    const struct sn_scrubbed *with; /* the environment */
    const char *after;              /* LSF: a job that has to end first; NULL: none */
};

/* Would the scheduler take the job? SN_EFAIL with its own words (those of a site's filter, too), or
 * that there is no such program. `words`, which the caller ends, is what it says of a job that it
 * takes: when it would start. LSF cannot be asked: SN_OK without words. */
enum sn_status sn_submit_test(struct sn_str *words, const struct sn_submission *s,
                              struct sn_err *err);
enum { SN_SUBMIT_JOB = 64 };
/* Submit it; the job's id. SN_EFAIL as above. */
enum sn_status sn_submit(char job[SN_SUBMIT_JOB], const struct sn_submission *s,
                         struct sn_err *err);
/* The id in what sbatch --parsable ("12", "12;cluster") or bsub ("Job <12> is ...") printed; false:
 * there is none. */
bool sn_submit_parse(char job[SN_SUBMIT_JOB], enum sn_scheduler scheduler, const char *text);

#endif
