/*
 * snapshot.h - the state of a run kept in memory that outlives its processes: each rank's snapshot
 * shard (lib/snapshot/shard.h) on its own host and, sent over the communicator, on a partner's.
 *
 * Two generations of each, so that whatever ends the run, one is whole on all hosts. When a host is
 * lost, partners have its snapshot shards: the next attempt goes on from the last step but one at
 * the latest, in any layout. docs/SNAPSHOTS.md says how, and what it costs.
 *
 * Partners: ranks in the order of hosts; rank number p of them keeps its second snapshot shard with
 * number p + shift, where shift is the most ranks that a host has. So it is on another host, unless
 * one host has more than half of the ranks.
 */
#ifndef SN_SNAPSHOT_H
#define SN_SNAPSHOT_H

#include "lib/comm/comm.h"
#include "lib/comm/solo.h"
#include "lib/snapshot/shard.h"

struct sn_snapshot;

/* Everything is borrowed until close. */
struct sn_snapshot_env {
    struct sn_comm *comm;               /* with a grid */
    void *staging;                      /* as of struct sn_transfer */
    const struct sn_state *state;       /* its boxes and texts; rank and ranks are comm's */
    struct sn_snapshot_shard_room room; /* of this rank's snapshot shards */
    int64_t capacity;     /* bytes of the largest rank's snapshot shard; the same on all ranks */
    const char *output;   /* the run's directory, the same for all ranks */
    const char *root;     /* SN_SNAPSHOT_ROOT */
    const char *host;     /* the name of this one */
    struct sn_solo *solo; /* of the long work between communications; NULL: none */
    bool fresh;           /* what is in memory is another run's, and is removed */
};

/* Meet: who is whose partner. Collective, like all that follows but begin; needs two ranks. Caller
 * closes. */
enum sn_status sn_snapshot_create(struct sn_snapshot **out, const struct sn_snapshot_env *env,
                                  struct sn_err *err);
/* Files stay. NULL is allowed; not collective; what is under way is the communicator's. */
void sn_snapshot_close(struct sn_snapshot *s);
/* How many ranks have their second snapshot shard on their own host. */
int sn_snapshot_exposed(const struct sn_snapshot *s);
/* Sum over all ranks of the bytes that a snapshot sends, and those of this rank. */
int64_t sn_snapshot_traffic(const struct sn_snapshot *s);
int64_t sn_snapshot_sent(const struct sn_snapshot *s);

/* --- before step 1 ---------------------------------------------------------------------------- */

/* What was found in memory. */
struct sn_snapshot_found {
    int64_t
        step; /* the newest after `after` that is whole: each rank's snapshot shard is somewhere,
               * and
                       is what was written; -1: none */
    int64_t partly; /* a newer one that lacks a snapshot shard; -1: none */
    int lacks;      /* the first rank whose snapshot shard that is */
    int world;      /* ranks that took it */
    int hosts;      /* that it is on */
    int kept;       /* snapshot shards of it that are partners' copies */
};
/* May be asked again, for a smaller `after`: what is in memory is looked at once. */
enum sn_status sn_snapshot_find(struct sn_snapshot *s, int64_t after, struct sn_snapshot_found *out,
                                struct sn_err *err);
/* Fill every box of `state` and its scalars from what was found, whatever layout took it. Where it
 * does not cover this model, *loaded is false on all ranks and nothing was touched. */
enum sn_status sn_snapshot_load(struct sn_snapshot *s, struct sn_state *state, bool *loaded,
                                struct sn_err *err);
/* Remove all snapshot shards of this run, here and on all hosts of this job. */
enum sn_status sn_snapshot_forget(struct sn_snapshot *s, struct sn_err *err);
/* Map the memory of four snapshot shards, touched. With `retake` the state was loaded by
 * sn_snapshot_load: it is taken once more before the snapshot shards that it came from go. */
enum sn_status sn_snapshot_open(struct sn_snapshot *s, bool retake, struct sn_err *err);

/* --- between steps: nothing allocates --------------------------------------------------------- */

/* Copy the state, whose scalars are of the step just done, and begin to exchange. From the return
 * on the state may change. */
enum sn_status sn_snapshot_begin(struct sn_snapshot *s, struct sn_err *err);
/* Until this rank has its partner's snapshot shard, sealed; nothing where nothing is under way.
 * When all ranks have returned, the snapshot is whole, and the next may begin. */
enum sn_status sn_snapshot_wait(struct sn_snapshot *s, struct sn_err *err);
bool sn_snapshot_is_under_way(const struct sn_snapshot *s);

/* What the last one took here, seconds. */
struct sn_snapshot_times {
    int64_t step;  /* 0: there was none */
    double copy;   /* into this host's memory, with hashes */
    double waited; /* in sn_snapshot_wait: of the exchange, what nothing hid */
};
void sn_snapshot_get_times(const struct sn_snapshot *s, struct sn_snapshot_times *out);

#endif
