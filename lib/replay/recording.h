/*
 * recording.h - what one step of one rank gave, operation by operation, as fingerprints: in memory,
 * and as OUTPUT/fingerprints/step-N/rank-R.
 *
 * A file is a head, and then the results in the order of the program, in this machine's byte order.
 * First, under entry SN_BEGIN, are those with which the step begins: weights, optimizer state and
 * tokens, by their buffers.
 */
#ifndef SN_RECORDING_H
#define SN_RECORDING_H

#include "lib/exec/results.h"
#include "lib/replay/fingerprint.h"

enum { SN_BEGIN = -1 }; /* of `entry`: op is a buffer */
/* Steps with fingerprints that are kept. */
enum { SN_RECORDINGS_KEPT = 64 };

struct sn_recorded {
    int32_t entry, op, micro, part; /* struct sn_result */
    int16_t round, out;
    uint32_t type; /* enum sn_dtype */
    struct sn_fingerprint print;
};

struct sn_recording_head {
    char magic[8];
    uint32_t version;
    int32_t ranks, rank;
    int32_t results_lost; /* for which there was no room */
    int64_t step, n;
    uint64_t program; /* sn_program_hash of the rank's */
    uint64_t hash;    /* of what follows the head */
    char kernels[24]; /* whose they were: other ones round otherwise */
};

struct sn_recording {
    struct sn_recording_head head;
    struct sn_recorded *t;
    int64_t room;
    struct sn_signs signs;
};

/* Room for a step of the job's train program, and as much again where rows may go beyond experts'
 * windows. Caller destroys. */
enum sn_status sn_recording_create(struct sn_recording **out, const struct sn_job *j,
                                   struct sn_err *err);
void sn_recording_destroy(struct sn_recording *r); /* NULL is allowed */
/* Begin step `step`, whose tokens are there, with what it begins with. */
void sn_recording_begin(struct sn_recording *r, struct sn_exec *x, const struct sn_job *j,
                        int64_t step);
/* sn_results_look, arg: the recording. */
void sn_recording_take(void *recording, const struct sn_result *x);
/* Into the run directory; that of SN_RECORDINGS_KEPT x `every` steps before goes. Allocates
 * nothing. SN_EIO: "PATH: cannot be written (why); what would help". */
enum sn_status sn_recording_save(struct sn_recording *r, const char *output, int64_t every,
                                 struct sn_err *err);
/* SN_EINPUT: there is none, or it is damaged. Caller destroys. */
enum sn_status sn_recording_load(struct sn_recording **out, const char *output, int64_t step,
                                 int rank, struct sn_err *err);
/* Is there one of rank 0? */
bool sn_recording_is_there(const char *output, int64_t step);

#endif
