/*
 * verify.h - proof that compiled programs neither wait for ever nor use memory that is on its way.
 *
 * The programs of all ranks are played through without data. Every rank has a compute thread, which
 * runs its schedule as the executor does, and a queue of collectives for each axis (sn_group_queue), in
 * which they run strictly one after another, while queues know nothing of each other; a send is complete when its receive has been posted, as in the strictest backend
 * (rendezvous), and a post waits while SN_VERIFY_IN_FLIGHT operations are under way. Where ranks
 * agree on the end of a step, each waits first for all that it has posted, as devices do. The
 * outcome does not depend on which rank is faster: what may go on may do so whatever else happens.
 * Refuted are
 *
 *   - collectives that differ between members: kind, elements, type, micro-batch, label;
 *   - sends and receives that differ, or that the other side never posts;
 *   - ranks that wait for each other;
 *   - operations that write what a posted operation still reads or writes, or read what it writes,
 *     before its wait (`only` and ZeRO slices are not looked into: each counts as all of them);
 *   - operations that read what nothing has written before them, that lack an operand of their
 *   kind,
 *     or that add to one that is only written;
 *   - waits for operations that do not exist, and segments or slots outside the program.
 *
 * It knows no model and no backend, computes nothing and needs no other process.
 */
#ifndef SN_VERIFY_H
#define SN_VERIFY_H

#include "lib/program/program.h"

enum {
    SN_VERIFY_IN_FLIGHT = 256, /* operations, as lib/comm/comm.h says */
    SN_VERIFY_RANKS = 4096     /* more are shrunk by sn_verify_grid */
};

struct sn_verify_world {
    const struct sn_grid *grid;
    /* By rank. Ranks that share a text may share the pointer, because a rank's place in its groups
     * comes from the grid. Borrowed. */
    const struct sn_job *const *jobs;
};

/* SN_OK: proven. SN_EFAIL: refuted, the sentence names the operations and ranks of the first fault.
 * SN_ENOMEM: no memory to tell. Checks all programs that the jobs have, or, if `override` is not NULL,
 * the program that it has for each rank. */
enum sn_status sn_verify(const struct sn_verify_world *w, const struct sn_program *const *override,
                         struct sn_err *err);

/* The grid to verify in place of `g`: itself up to SN_VERIFY_RANKS ranks; else with 2 in place of
 * larger sizes of data, then tensor, then context, until it is as small. Text depends on the
 * pipeline stage alone, so that two ranks that differ in another coordinate stand for all. */
struct sn_grid sn_verify_grid(const struct sn_grid *g);

#endif
