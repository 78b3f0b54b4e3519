/*
 * exec.h - the executor: runs compiled programs on a backend and a communicator.
 *
 * It maps the arenas of the job once; afterwards nothing allocates. It knows operations, views
 * and segments, and neither models nor layouts.
 *
 * On a device the arenas are its memory, and this process has a mirror of the state: whoever fills
 * weights here pushes them, whoever saves them pulls them before. Scalars and the batch go there
 * and back by themselves around each run.
 */
#ifndef SN_EXEC_H
#define SN_EXEC_H

#include "lib/comm/comm.h"
#include "lib/machine/machine.h"
#include "lib/program/program.h"

struct sn_accelerator; /* lib/exec/accelerator.h */
struct sn_exec;        /* arenas, requests and clocks of one rank */

/* Map the arenas of the job and fill nothing. `job` and `comm` are borrowed. Caller destroys. */
enum sn_status sn_exec_create(struct sn_exec **out, const struct sn_job *job, struct sn_comm *comm,
                              struct sn_err *err);
/* The same on a device (borrowed; NULL: this processor). */
enum sn_status sn_exec_create_on(struct sn_exec **out, const struct sn_job *job,
                                 struct sn_comm *comm, struct sn_accelerator *a,
                                 struct sn_err *err);
void sn_exec_destroy(struct sn_exec *x); /* NULL is allowed */
/* Join the channels of devices, where there are any; collective, after the communicator has its
 * grid. */
enum sn_status sn_exec_connect(struct sn_exec *x, struct sn_err *err);
/* From now on communicate for real, but spend each compute operation's planned time on `machine`
 * (borrowed) asleep and compute nothing. On the thread that will run. */
void sn_exec_set_pace(struct sn_exec *x, const struct sn_machine *machine);

/* From now on call fence(arg) in each run of the train program, before the first operation that
 * changes weights, masters or moments. From one update to the next they are immutable, so a
 * snapshot may be taken meanwhile, and ends here. Where the ranks agree before they update, the
 * fence stands before that: when a rank updates, all have passed it. Scalars change before. NULL:
 * no fence. */
void sn_exec_set_fence(struct sn_exec *x, void (*fence)(void *arg), void *arg);

/* Does this process wait while its operations run? On a device; on this processor it runs them. */
bool sn_exec_has_idle(const struct sn_exec *x);
/* Then, from now on call idle(arg) in each run of the train program, when there is work under way
 * and this process would wait for it. The batch of the run must stay as it is: its copy may not
 * have begun. NULL: no more. */
void sn_exec_set_idle(struct sn_exec *x, void (*idle)(void *arg), void *arg);

/* From now on tell(arg, op, seconds) after each operation of any program: calibration measures the
 * kernels of a run where they stand. On a device by its own clock, of kernels alone, at the end of
 * the run, which is then in no graph. */
typedef void sn_exec_report(void *arg, const struct sn_op *op, double seconds);
enum sn_status sn_exec_set_report(struct sn_exec *x, sn_exec_report *report, void *arg,
                                  struct sn_err *err);

/* From now on keep when the operations of each run of the train program ran (lib/exec/timeline.h;
 * borrowed): it is that of the last run. NULL: keep nothing. Not together with set_tell. */
struct sn_timeline;
void sn_exec_set_timeline(struct sn_exec *x, struct sn_timeline *t);

struct sn_scalars *sn_exec_scalars(struct sn_exec *x);
/* What each expert got of the last step's tokens, of all ranks: layers with experts x experts.
 * Only of a model that has some. */
const double *sn_exec_load(struct sn_exec *x);
/* Address of a state buffer in this process; without a device also of a scratch buffer of `p` in
 * slot 0. */
void *sn_exec_address(struct sn_exec *x, const struct sn_program *p, int buf);
/* Is the state in this process a mirror of what operations work on? Else it is the same memory. */
bool sn_exec_has_mirror(const struct sn_exec *x);
/* What a device holds of weights, masters and moments, into the mirror; and the mirror to the
 * device. Nothing without one. Between two pulls the mirror stays as it is. */
enum sn_status sn_exec_pull(struct sn_exec *x, struct sn_err *err);
/* The same in two parts, between which a run may go on: the copy is done beside it, and before the
 * next update in any case. The mirror is not read in between. */
enum sn_status sn_exec_pull_begin(struct sn_exec *x, struct sn_err *err);
enum sn_status sn_exec_pull_wait(struct sn_exec *x, struct sn_err *err);
enum sn_status sn_exec_push(struct sn_exec *x, struct sn_err *err);
/* The values of any buffer as they are now, in slot 0, until the next call or run. */
enum sn_status sn_exec_fetch(struct sn_exec *x, const struct sn_program *p, int buf,
                             const void **out, struct sn_err *err);
/* On a device: from now on wait for each operation, so that sn_exec_times has what it takes. */
void sn_exec_set_timed(struct sn_exec *x);

/* Run the whole schedule of a program once. first_sample[m] is the global number of the first
 * sample of micro-batch m (random counters). */
enum sn_status sn_exec_run(struct sn_exec *x, const struct sn_program *p,
                           const int64_t *first_sample, struct sn_err *err);
/* Run one segment for micro-batch `micro` of `micros`; `row` is what SN_AT_ROW views read. */
struct sn_at {
    int micro, micros, slot, late;
    int64_t row;
    int round; /* of rows beyond the experts' window; 0: those within */
};
enum sn_status sn_exec_segment(struct sn_exec *x, const struct sn_program *p, int segment,
                               struct sn_at at, struct sn_err *err);
/* Run all segments of a program, one after the other, and wait until what they send has arrived: of
 * one that has no schedule for all of them (generate, generate_row). */
enum sn_status sn_exec_segments(struct sn_exec *x, const struct sn_program *p, struct sn_at at,
                                struct sn_err *err);

/* Add to bytes[] what this rank sent in posted operations since the last call, by axis; through
 * channels of devices, which do not say, what their formulas give. */
void sn_exec_take_sent(struct sn_exec *x, int64_t bytes[SN_NAXES]);
/* Bytes that this rank's EXCHANGE operations sent, and its GATHER_ROWS, by what routing decided. */
struct sn_routed {
    int64_t exchanged, gathered;
};
/* Since the last call. */
struct sn_routed sn_exec_take_routed(struct sn_exec *x);

/* Add what this rank sent beside the plan since the last call: streams of lossless codecs are as
 * long as their values let them, those of a milder codec (scalars.codec_level) longer. */
void sn_exec_take_off_plan(struct sn_exec *x, int64_t bytes[SN_NAXES]);

/* Seconds spent in each kind of operation since creation, and how often it ran. */
struct sn_exec_time {
    double seconds;
    int64_t runs;
    double flops;
};
const struct sn_exec_time *sn_exec_times(const struct sn_exec *x); /* SN_NKINDS entries */

/* Bytes really mapped: the plan's total without `library`, `snapshot` and the shared memory. */
int64_t sn_exec_arena_bytes(const struct sn_exec *x);

#endif
