/*
 * culprit.h - who is to blame for an attempt that stood still or ended: from the ranks' flight recorders, from
 * the trainer's own sentence, from the launcher's words.
 *
 * Flight recorders say for each rank what it communicates (lib/comm/flight_recorder.h). Ranks that wait for others
 * point at those; whoever is pointed at in the end and waits for nobody is the culprit. Who waits
 * itself, and whose heartbeat goes on, is a victim, even at the end of a chain: then a rank whose record
 * stands still (slurm/supervisor/vigil.h) is to blame, or nobody. Clocks of different hosts are never
 * compared.
 */
#ifndef SN_CULPRIT_H
#define SN_CULPRIT_H

#include "lib/comm/flight_recorder.h"
#include "lib/layout/grid.h"

#include <stddef.h>

enum sn_suspicion {
    SN_SUSPECT_NONE,
    SN_SUSPECT_HANG,      /* others wait for it */
    SN_SUSPECT_STRAGGLER, /* others wait for it again and again */
    SN_SUSPECT_SILENT     /* its process is gone, or all wait and nobody is behind */
};
const char *sn_suspicion_name(enum sn_suspicion s); /* "hang" */

struct sn_culprit {
    enum sn_suspicion kind;
    int rank;           /* -1: not one of them */
    bool is_still;      /* its record was seen to stand still while others moved */
    bool is_host;       /* so did those of all ranks of its host */
    bool host_died;     /* a launcher says so: it is no process of that host alone */
    char host[64];      /* "" if unknown */
    char axis[32];      /* of the group in which others wait for it */
    char operation[80]; /* that they wait in: "all_reduce l0.ffn.down" */
    int64_t behind;     /* collectives of that group that it has not come to */
    double seconds;     /* since it did anything; straggler: that it costs in a step */
};

/* From the records of all ranks: v[i] is that of rank i, one with n < 0 is missing. still[i]: it
 * stands still; NULL: not known. `now` is of the clock of their events. False: nobody stands still for sure. A process that is gone
 * explains nothing once a rank has given up, since then they end each other. */
bool sn_culprit_find(struct sn_culprit *out, const struct sn_flight_view *v, int ranks,
                     const struct sn_grid *g, const bool *still, double now);
/* As words that stand alone: "rank 3 (n1) stands still; others wait for it in tensor all_reduce
 * l0.w", "which rank is behind is not known". */
void sn_culprit_say(char *out, size_t room, const struct sn_culprit *c);

/* Whom do the others wait for again and again? Whoever comes last to a collective waits least in
 * it, and the others' longer waits are what it cost them: so each waits by its own clock. Groups
 * whose members do the same work are looked at, over what the records still hold. A rank
 * that is stopped while it waits blames the one that it waited for: one finding alone says little.
 * *out is the rank that cost most, out->seconds what it cost of a second. False: less than
 * SN_STRAGGLER_LEAST of it.
 */
#define SN_STRAGGLER_LEAST 0.2
bool sn_straggler_find(struct sn_culprit *out, const struct sn_flight_view *v, int ranks,
                       const struct sn_grid *g);

/* From the sentence of a trainer that noticed (OUTPUT/attempt-N.json, stderr): "... has waited 3 s;
 * rank 2 (tensor 0) is behind ...; it waits for rank 5 (...) in the end, last seen in 'x'". Nobody
 * is named, rank -1, where it ends with SN_FLIGHT_WAITS_ITSELF. */
bool sn_culprit_from_sentence(struct sn_culprit *out, const char *text);
/* From any other sentence of a trainer, which begins with the rank that failed:
 * "rank 2 (n1): ...". */
bool sn_culprit_from_failure(struct sn_culprit *out, const char *text);

/* From what srun, slurmstepd or mpirun wrote about a task that died. `rank` is the launcher's
 * number of the process (sn_rundir_rank_of knows the logical one), -1 when only a host is named
 * (Hydra names a process on it, which as often as not is one that it killed itself).
 * Of several the first counts: the others were ended because of it. */
bool sn_culprit_from_words(struct sn_culprit *out, const char *words);
/* The signal that ended a rank, where the launcher's exit code does not tell (Hydra); 0: none. */
int sn_culprit_signal(const char *words);

#endif
