/*
 * solo.h - ranks that work each for itself keep an eye on each other.
 *
 * A watch over communications (sn_comm_set_watch) sees nothing of a rank that reads, writes or
 * compiles: it may take any time, and the others wait in the agreement that follows. So between
 * begin and end a thread beside the caller's meets those of the other ranks every fraction of a
 * second, in a collective of two words that stands under the watch:
 *
 *   "I work"                the rank's process lives; all meet again
 *   "I have ended so"       when all say that, it is the agreement, and the solo is over
 *   "my work has not moved" for as long as a communication may stand still: all give up, and the
 *                           sentence names the rank and what it was at
 *
 * A rank that does not come to a meeting (its process is stopped or gone, its host or the network
 * is down) is accused by the watch. What moves is for the work to say: lib/base/progress.h. Slow is
 * not stuck: a save that writes a block now and then goes on for days.
 */
#ifndef SN_SOLO_H
#define SN_SOLO_H

#include "lib/base/progress.h"
#include "lib/comm/comm.h"

struct sn_solo;

struct sn_solo_env {
    struct sn_comm *comm; /* under a watch of timeout_s */
    int timeout_s;        /* 0: work may stand still for ever */
    /* Ends the process with this sentence, when the caller's thread does not come back from work in
     * vain, or from work that is another rank's no more. On the thread beside it; does not return.
     */
    void (*give_up)(void *self, const struct sn_err *why);
    void *self;
};

/* Borrows what it is given; the caller destroys *out, with no work under way. With one rank there
 * is nobody to wait, and nothing happens. */
enum sn_status sn_solo_create(struct sn_solo **out, const struct sn_solo_env *env,
                              struct sn_err *err);
void sn_solo_destroy(struct sn_solo *v); /* NULL is allowed */
/* Marks of the work that must move. */
struct sn_progress *sn_solo_progress(struct sn_solo *v);

/* From here on the caller works and posts nothing on the communicator. `what` names the work for
 * people ("save: shard"; borrowed until the end). Work without marks `moves` not: only its process
 * is looked after. Collective, but waits for nobody. */
void sn_solo_begin(struct sn_solo *v, const char *what, bool moves);
/* The work has ended so: what comm->ops->agree returns and writes, once it has on all ranks.
 * SN_ELOST: a rank is gone or stuck; threads of this process may still be at work with what it was
 * given, so nothing of that may be freed. */
enum sn_status sn_solo_end(struct sn_solo *v, enum sn_status mine, struct sn_err *err);

#endif
