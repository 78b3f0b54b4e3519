/*
 * flight_recorder.h - what a rank communicated last, in a file that survives it: OUTPUT/ranks/rank-00012.ring.
 *
 * A file of fixed size, mapped and shared: what is written is there for others at once (on the same
 * host; on a network file system after some seconds), also when the process is killed. It holds the
 * last 64 communications and, for each group, how far this rank has come. One thread writes.
 */
#ifndef SN_FLIGHT_RECORDER_H
#define SN_FLIGHT_RECORDER_H

#include "lib/base/err.h"
#include "lib/layout/grid.h"

#include <stdbool.h>
#include <stdint.h>

enum { SN_FLIGHT_EVENTS = 64, SN_FLIGHT_LABEL = 48, SN_FLIGHT_GROUPS = 16 };

enum sn_flight_state {
    SN_FLIGHT_POSTED = 1,
    SN_FLIGHT_BEGUN,
    SN_FLIGHT_DONE,
    SN_FLIGHT_AWAITED /* what is under way, and the rank waits for it or for what stands behind it */
};

struct sn_flight_event {
    uint64_t id;     /* 1, 2, ... in the order of posting; 0: never written */
    uint64_t number; /* in its group: collectives and, apart from them, sends and receives */
    int64_t bytes;
    double time;   /* seconds of the host's monotonic clock, of the last change of state */
    double came;   /* of the posting */
    int32_t group; /* enum sn_group */
    int32_t peer;  /* rank, of a send or receive; else -1 */
    int32_t state; /* enum sn_flight_state */
    char kind[16]; /* "all_reduce", "barrier", ... */
    char label[SN_FLIGHT_LABEL]; /* the operation's name, cut short */
};

/* What is read of a rank. */
struct sn_flight_view {
    int rank, pid;
    char host[64];
    bool is_here, is_alive;            /* is its process on this host, and does it exist? */
    uint64_t posted[SN_FLIGHT_GROUPS]; /* number of the last collective of each group */
    uint64_t heartbeats;               /* grows while its process is there and runs */
    int n;                             /* events, oldest first */
    struct sn_flight_event event[SN_FLIGHT_EVENTS];
};

struct sn_flight_recorder;

/* Create or begin anew the file of `rank` in `output`/ranks, which is made where it lacks. */
enum sn_status sn_flight_open(struct sn_flight_recorder **out, const char *output, int rank,
                              struct sn_err *err);
void sn_flight_close(struct sn_flight_recorder *r); /* NULL is allowed; the file stays */
/* The folder of the files. */
const char *sn_flight_folder(const struct sn_flight_recorder *r);

/* Record a communication that was posted: all but id, state and time are the caller's. Returns its
 * id. */
uint64_t sn_flight_post(struct sn_flight_recorder *r, const struct sn_flight_event *event);
/* It has begun or is done; nothing if 64 newer ones have taken its place. */
void sn_flight_mark(struct sn_flight_recorder *r, uint64_t id, enum sn_flight_state state);

/* The rank is there and runs: twice a second while it has nothing to communicate, oftener while it
 * waits. */
void sn_flight_heartbeat(struct sn_flight_recorder *r);
/* The rank has given up waiting and heartbeats no more, which says nothing: heartbeats is SN_FLIGHT_GAVE_UP. */
#define SN_FLIGHT_GAVE_UP UINT64_MAX
/* What a rank that gives up says of one that it waits for and that is not the last of the chain. */
#define SN_FLIGHT_WAITS_ITSELF "which itself waits, for whom is not known"
void sn_flight_give_up(struct sn_flight_recorder *r);

/* What a rank wrote, of a folder as sn_flight_folder gives it. SN_EIO: no such file, or no flight recorder. */
enum sn_status sn_flight_read(struct sn_flight_view *out, const char *folder, int rank,
                              struct sn_err *err);
enum { SN_FLIGHT_ANY = -1 };
/* What the rank waits for: the collective that it is in, in the queue of an axis (sn_group_queue), if
 * others are known to wait for it there. Else, and of SN_FLIGHT_ANY: what its computing awaits: a
 * collective, or the oldest receive, or the oldest send; or else the oldest collective that it is
 * in. NULL: nothing. */
const struct sn_flight_event *sn_flight_waits_in(const struct sn_flight_view *v, int queue);
/* A collective of a group, as the rank has it; NULL: it has not posted it, or long ago. */
const struct sn_flight_event *sn_flight_collective(const struct sn_flight_view *v, int group,
                                                   uint64_t number);
/* Has it posted that collective and is in another one that stands before it in its queue? */
bool sn_flight_is_held_up(const struct sn_flight_view *v, int group, uint64_t number);
/* Of the last change of a state; 0: none. */
double sn_flight_last_time(const struct sn_flight_view *v);

#endif
