/*
 * match.h - a step that was recorded in one layout, held against the same step of one rank in
 * another.
 *
 * lib/meaning says of each result of every recorded rank, and of each of this one, which parts of
 * which logical tensors it is. Where this rank's operations give all parts of a recorded result, the
 * fingerprint of that result is made again from them: its projection is a sum over elements, so that
 * parts may come from several operations. It cannot have the same bits; how far they are off says
 * whether rounding is all that differs. Not compared is what only the recorded layout has: sums over
 * some of the ranks' shares, rows on their way to experts, streams of codecs.
 */
#ifndef SN_REPLAY_MATCH_H
#define SN_REPLAY_MATCH_H

#include "lib/replay/compare.h"

struct sn_match;

/* Why the results of a run cannot be held against another layout's; NULL: they can. */
const char *sn_match_gap(const struct sn_config *recorded);

/* Compile all ranks of `recorded`, the run's resolved configuration, and follow a step of theirs and
 * of `mine`, a job of one rank. `recorded` is borrowed, and so is mine. SN_EINPUT: it has no proof
 * of meaning, and why. Caller destroys. */
enum sn_status sn_match_create(struct sn_match **out, const struct sn_config *recorded,
                               const struct sn_job *mine, struct sn_err *err);
void sn_match_destroy(struct sn_match *m); /* NULL is allowed */
/* Ranks of the recorded run. */
int sn_match_ranks(const struct sn_match *m);
/* Load what was recorded of a step; rank: of whom, -1: of all. SN_EINPUT: it cannot be read, or is
 * of other programs. */
enum sn_status sn_match_begin(struct sn_match *m, const char *output, int64_t step, int rank,
                              struct sn_err *err);
/* sn_results_look, arg: the match. */
void sn_match_take(void *match, const struct sn_result *r);
/* What comes of it, by recorded rank. An operation that differs, and reads what could not be
 * compared, counts as one that gets it (SN_PARTS_RECEIVING). */
enum sn_status sn_match_find(const struct sn_match *m, struct sn_replay_finding *out,
                             struct sn_err *err);

#endif
