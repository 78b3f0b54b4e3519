/*
 * shard.h - one rank's snapshot shard: the boxes that it would write into a checkpoint and the
 * scalars, as one block of memory that can be sent, kept, and trusted or not.
 *
 *   head    SN_SNAPSHOT_SHARD_HEAD bytes, sealed by its own hash: whose snapshot shard, of which
 *           step
 *   table   a struct sn_snapshot_shard_box for each box, then a hash for each
 *           SN_SNAPSHOT_SHARD_BLOCK of the values
 *   values  fp32, without gaps
 *
 * The head is written last, so that whatever ends a process in between leaves no snapshot shard
 * rather than half of one. Values lie in the byte order of the machine: snapshot shards live no
 * longer than an allocation. docs/SNAPSHOTS.md has the format. Knows neither files nor
 * communication.
 */
#ifndef SN_SNAPSHOT_SHARD_H
#define SN_SNAPSHOT_SHARD_H

#include "lib/program/boxes.h"
#include "lib/state/state.h"

/* Whose snapshot shard it is. Snapshot shards of one step belong together if everything but `rank`
 * is equal. */
struct sn_snapshot_shard_tag {
    uint64_t run; /* of OUTPUT/snapshots.id: another one after a start from anything but memory */
    uint64_t series; /* of the attempt that took it */
    uint64_t model;  /* sn_state_hash */
    int32_t rank, world;
};

struct sn_snapshot_shard_head {
    char magic[16];
    uint64_t seal;  /* hash of the head with 0 here */
    uint64_t table; /* hash of the boxes and of the values' hashes */
    struct sn_snapshot_shard_tag tag;
    struct sn_snapshot_shard_room room; /* which decides where what lies */
    int64_t n_boxes, n_floats;          /* in use */
    struct sn_state_scalars scalars;
};

/* Rows and columns of tensor number `tensor` of sn_state.all; its first value is number `at`, rows
 * follow one another. What only layout.compress brings about has the number of its weight, and
 * which it is in the high half: so numbers are the same in every layout. */
struct sn_snapshot_shard_box {
    int64_t tensor, row, col, n_rows, n_cols, at;
};
_Static_assert(sizeof(struct sn_snapshot_shard_box) == SN_SNAPSHOT_SHARD_BOX, "planned in boxes.h");

/* A number in parts: of the weight, and SN_SNAPSHOT_SHARD_PLAIN, SN_SNAPSHOT_SHARD_REPLICA, or
 * SN_SNAPSHOT_SHARD_FEEDBACK plus the holder. */
enum { SN_SNAPSHOT_SHARD_PLAIN, SN_SNAPSHOT_SHARD_REPLICA, SN_SNAPSHOT_SHARD_FEEDBACK };
static inline int64_t sn_snapshot_shard_weight(int64_t tensor)
{
    return tensor & INT32_MAX;
}
static inline int64_t sn_snapshot_shard_kind(int64_t tensor)
{
    return tensor >> 32;
}

/* Hash of the model section and of every tensor that a checkpoint of it holds whatever the layout:
 * snapshot shards of one model fit any layout of it, with the same train.lora.base. */
uint64_t sn_state_hash(const struct sn_state *s);
/* The number of each of s->tensors as in struct sn_snapshot_shard_box; SN_EFAIL when one is not
 * there. */
enum sn_status sn_state_index(const struct sn_state *s, int64_t *out, struct sn_err *err);

/* What is copied: borrowed. */
struct sn_snapshot_shard_source {
    const struct sn_state *state;
    const int64_t *tensor; /* sn_state_index */
    struct sn_snapshot_shard_tag tag;
    struct sn_snapshot_shard_room room;
};
/* Fill sn_snapshot_shard_bytes(room) bytes. SN_EFAIL when the state owns more than there is room
 * for. Allocates nothing. */
enum sn_status sn_snapshot_shard_write(void *shard, const struct sn_snapshot_shard_source *s,
                                       struct sn_err *err);

/* From here on there is no snapshot shard; and, by a head that came another way, there is one. */
void sn_snapshot_shard_break(void *shard);
void sn_snapshot_shard_seal(void *shard, const void *head);

/* Is there a sealed head whose snapshot shard fits into `bytes` bytes? Then a copy of it in
 * *out. */
bool sn_snapshot_shard_look(struct sn_snapshot_shard_head *out, const void *shard, int64_t bytes);
/* Is all of it, behind such a head, what was written? SN_EIO names the first part that is not. */
enum sn_status sn_snapshot_shard_check(const void *shard, const struct sn_snapshot_shard_head *h,
                                       struct sn_err *err);

static inline const struct sn_snapshot_shard_box *sn_snapshot_shard_boxes(const void *shard)
{
    return (const struct sn_snapshot_shard_box *)(const void *)((const char *)shard +
                                                                SN_SNAPSHOT_SHARD_HEAD);
}
static inline const float *sn_snapshot_shard_values(const void *shard,
                                                    const struct sn_snapshot_shard_head *h)
{
    const char *at = (const char *)shard + sn_snapshot_shard_values_at(&h->room);
    return (const float *)(const void *)at;
}

#endif
