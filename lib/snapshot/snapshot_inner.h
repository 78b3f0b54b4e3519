/*
 * snapshot_inner.h - shared by snapshot.c, snapshot_find.c and snapshot_load.c.
 */
#ifndef SN_SNAPSHOT_INNER_H
#define SN_SNAPSHOT_INNER_H

#include "lib/snapshot/snapshot.h"
#include "lib/snapshot/snapshot_files.h"

enum { SN_SNAPSHOT_PIECES = 32, SN_SNAPSHOT_TAG = 7 };

/* A snapshot shard that some process has found; travels as 8-byte words. */
struct sn_snapshot_shard_record {
    uint64_t series;
    int64_t step, n_boxes;
    int32_t rank, world;    /* whose snapshot shard it is, and of how many */
    int32_t holder, number; /* the process that has it, and its number there */
    int32_t is_kept, is_bad;
};

struct sn_snapshot_choice {
    int64_t step, partly;
    int lacks, world;
    uint64_t series;
    int *of; /* caller's, with room for one a record: the record of each rank's snapshot shard */
};

/* The newest step after `after` of which all snapshot shards are there, none of them bad; false:
 * there is none. Of several copies it takes that of the process that has the snapshot shard's rank.
 * Sorts records. */
bool sn_snapshot_choose(struct sn_snapshot_choice *out, struct sn_snapshot_shard_record *r, int n,
                        int64_t after);

/* A file that this process has looked at. */
struct sn_held {
    struct sn_snapshot_name name;
    struct sn_snapshot_file file;
    struct sn_snapshot_shard_head head;
    bool is_shard, is_checked;
};

struct sn_snapshot {
    struct sn_snapshot_env env;
    char *dir;
    uint64_t run, series, model;
    int64_t *tensor;           /* sn_state_index */
    int *host_of;              /* by rank: the lowest rank of its host */
    int to, from;              /* partners */
    int64_t from_bytes, total; /* of the snapshot shard of `from`, and of all ranks */
    int exposed;
    /* found */
    struct sn_held *held;
    int n_held;
    struct sn_snapshot_shard_record *record;
    int n_records;
    struct sn_snapshot_choice choice;
    /* taken */
    struct sn_snapshot_file own[2], kept[2];
    void *head; /* that comes from the partner */
    sn_request request[2 * SN_SNAPSHOT_PIECES + 2];
    int n_requests;
    bool is_under_way;
    int generation; /* of the next */
    struct sn_snapshot_times times;
};

/* `words` 8-byte words of each rank to all of them. */
enum sn_status sn_snapshot_gather(struct sn_snapshot *s, const void *mine, void *all, int64_t words,
                                  struct sn_err *err);
enum sn_status sn_snapshot_agree(struct sn_snapshot *s, enum sn_status mine, struct sn_err *err);
/* The same around work that takes its time: begins before it, ends with the agreement. */
void sn_snapshot_work(struct sn_snapshot *s, const char *what);
enum sn_status sn_snapshot_worked(struct sn_snapshot *s, enum sn_status mine, struct sn_err *err);
/* Send `bytes` to a rank or receive them from it; the request to wait for. */
sn_request sn_snapshot_post(struct sn_snapshot *s, enum sn_collective kind, int peer, void *p,
                            int64_t bytes);
/* Is this the process that speaks for its host? How many ranks has it? */
bool sn_snapshot_leads(const struct sn_snapshot *s);
int sn_snapshot_ranks_here(const struct sn_snapshot *s);
/* Close, and with `removes` remove, what this process has looked at and was not chosen, or all. */
enum sn_status sn_snapshot_discard(struct sn_snapshot *s, bool all, bool removes,
                                   struct sn_err *err);

#endif
