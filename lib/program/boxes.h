/*
 * boxes.h - which parts of which logical tensors a rank holds, and where in its state buffers.
 *
 * Geometry alone: no memory, no pointers. The trainer turns it into addresses, the planner into
 * bytes, the converter into the pieces that a trainer of this layout would write.
 */
#ifndef SN_BOXES_H
#define SN_BOXES_H

#include "lib/program/program.h"

enum sn_state_kind {
    SN_STATE_MODEL,
    SN_STATE_MOMENT, /* the first of the optimizer's (lib/config/optimizer.h) */
    SN_NSTATE_PLAIN = SN_STATE_MOMENT + SN_MAX_KEPT, /* and with train.ema an average behind them;
                                                        with layout.compress: */
    SN_STATE_REPLICA = SN_NSTATE_PLAIN, /* weights that differ from the rounded masters */
    SN_STATE_FEEDBACK,                  /* what codecs lost of gradients, by holder */
    SN_NSTATE_KINDS
};
/* "model", those of moments, "ema", "replica", "feedback": the groups of a checkpoint; NULL of a moment
 * that the optimizer lacks. */
const char *sn_state_kind_name(const struct sn_config *c, enum sn_state_kind k);
/* The kinds below this number are what every run with this optimizer and train.ema has. */
int sn_state_plain(const struct sn_config *c);
/* The kind of the weights' average, which there is with train.ema alone, and the name of its group. */
int sn_state_average(const struct sn_config *c);
#define SN_STATE_EMA "ema"
/* The buffer that has this kind of a bucket's values; -1: none. */
int sn_state_buffer(const struct sn_job *j, const struct sn_bucket *b, enum sn_state_kind k);
/* Has any bucket of this rank values of this kind? */
bool sn_job_has_state(const struct sn_job *j, enum sn_state_kind k);
/* Bit g: all members of group g hold the same values of this kind. */
unsigned sn_state_copies(const struct sn_bucket *b, enum sn_state_kind k);

/* Who holds feedback of a bucket's elements: each replica its own, for it encodes gradients of its
 * own; and where those are summed over another group afterwards (sn_bucket.sum), each member of
 * that. The number of this rank among them, and in *of how many they are. */
int sn_feedback_holder(const struct sn_job *j, const struct sn_bucket *b, int *of);

/* What there is of a logical tensor of a parameter beyond weights and moments, on whatever rank. */
struct sn_state_extra {
    bool has_replica;
    int holders; /* of feedback; 0: none */
};
/* Of all logical tensors of all parameters, in their order; NULL: no rank has any such state.
 * Caller frees
 * *out. */
enum sn_status sn_job_extras(struct sn_state_extra **out, const struct sn_job *j,
                             struct sn_err *err);

/* A rectangle of logical tensor `tensor` of parameter `param`: rows row .. row + n_rows - 1 of the
 * logical tensor, columns col .. col + n_cols - 1. Element (r, c) of the box is element
 * at + r x ld + c of buffer `buf` (fp32; of replicas and of frozen weights in its own type, or as codes,
 * of which boxes have whole blocks). Never empty. */
struct sn_job_box {
    enum sn_state_kind kind;
    int holder, holders; /* of feedback; else 0 */
    int param, tensor, buf;
    int64_t row, col, n_rows, n_cols;
    int64_t at, ld;
    bool owned; /* this rank writes it; over all ranks, each element is owned exactly once */
};

/* Tensors of at most this many elements (a page of fp32) are not shared out between replicas. */
enum { SN_BOX_UNCUT = 1024 };

/* All boxes of this rank. Replicas (data x context) that hold the same values own equal shares of
 * them, cut between rows, so that all of them write a checkpoint together: the shares of one kind
 * differ by at most two rows of the widest tensor, or 2 x SN_BOX_UNCUT elements if that is more.
 * Under ZeRO 1 to 3 the slice is the share. Feedback is each holder's own, whole. Copies
 * (b->copies) belong to member 0 of their group. Frozen parameters have no moments. Caller frees
 * *out. */
enum sn_status sn_job_boxes(struct sn_job_box **out, int *n, const struct sn_job *j,
                            struct sn_err *err);

/* Memory into which an asynchronous save copies what a rank owns, each box rounded up to pages of
 * 4096: enough for every rank of this job's pipeline stage, and the same number on all of them. */
int64_t sn_job_snapshot_bytes(const struct sn_job *j);

/* --- snapshot shards (lib/snapshot/shard.h, docs/SNAPSHOTS.md) -----------------------------------
 * What a rank owns as one block: a head, a table of its boxes, a hash for each block of the values,
 * the values without gaps. */
enum {
    SN_SNAPSHOT_SHARD_HEAD = 4096,
    SN_SNAPSHOT_SHARD_BOX = 48,
    SN_SNAPSHOT_SHARD_BLOCK = 1 << 20, /* bytes of values that share one hash */
    SN_SNAPSHOT_SHARD_COPIES =
        4 /* that a rank holds: its own and a partner's, two generations each */
};

/* The most that a rank owns: boxes, and fp32 values in them. The same on all ranks of a stage. */
struct sn_snapshot_shard_room {
    int64_t boxes, floats;
};
void sn_job_snapshot_shard_room(const struct sn_job *j, struct sn_snapshot_shard_room *out);
/* Hashes in a snapshot shard, the byte at which its values begin, and its size. */
int64_t sn_snapshot_shard_blocks(const struct sn_snapshot_shard_room *r);
int64_t sn_snapshot_shard_values_at(const struct sn_snapshot_shard_room *r);
int64_t sn_snapshot_shard_bytes(const struct sn_snapshot_shard_room *r);
/* That of the stage with the largest: a rank may hold any rank's. `env` as of sn_job_create. */
enum sn_status sn_job_snapshot_shard_most(int64_t *out, const struct sn_job_env *env,
                                          struct sn_err *err);

#endif
