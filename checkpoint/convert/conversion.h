/*
 * conversion.h - one conversion under way; internal to checkpoint/convert/convert*.c.
 */
#ifndef SN_CONVERSION_H
#define SN_CONVERSION_H

#include "checkpoint/convert/convert.h"
#include "checkpoint/io/aio.h"

struct sn_conversion {
    struct sn_source *source;
    struct sn_manifest *plan; /* hashes are filled in */
    const struct sn_convert_options *o;
    char *tmp;         /* DST.tmp.convert */
    char *parent;      /* the directory of both */
    bool made_parent;  /* by us; rank 0 */
    uint64_t *offsets; /* by piece: where its dataset begins in its shard */
    bool *done;        /* by tensor: written and synced */
    uint64_t id;       /* of source and plan */
};

static inline int64_t sn_conversion_tensor_bytes(const struct sn_manifest_tensor *t)
{
    return t->rows * t->cols * (int64_t)sn_dtype_size(t->dtype);
}

/* --- shards (convert_shards.c) --------------------------------------------------------------- */

/* Lay out this rank's share of the shards, their space reserved, or find them again; fill offsets
 * of all pieces. Collective; the caller agrees on the result. */
enum sn_status sn_conversion_shards(struct sn_conversion *v, bool again, struct sn_err *err);
/* Fill the shards' sizes in the plan. */
enum sn_status sn_conversion_sizes(struct sn_conversion *v, struct sn_err *err);

/* --- the journal (convert_journal.c) --------------------------------------------------------- */

/* What a killed conversion left: take over its finished tensors and their hashes. *found: there is
 * a journal. One of another source or plan is SN_EINPUT. */
enum sn_status sn_journal_read(struct sn_conversion *v, bool *found, struct sn_err *err);
/* Remove all of them. */
enum sn_status sn_journal_remove(struct sn_conversion *v, struct sn_err *err);

struct sn_conversion_journal; /* this rank's, open for records */
enum sn_status sn_journal_open(struct sn_conversion_journal **out, struct sn_conversion *v,
                               struct sn_err *err);
/* The tensor is written and synced, and its hashes are in the plan. */
enum sn_status sn_journal_add(struct sn_conversion_journal *j, int tensor, struct sn_err *err);
/* What was added is on the disk. */
enum sn_status sn_journal_sync(struct sn_conversion_journal *j, struct sn_err *err);
void sn_journal_close(struct sn_conversion_journal *j); /* NULL is allowed */

/* --- the blocks (convert_blocks.c) ----------------------------------------------------------- */

/* Write every tensor i with mine[i]. */
enum sn_status sn_conversion_write(struct sn_conversion *v, const bool *mine,
                                   struct sn_conversion_journal *journal, int64_t *peak,
                                   struct sn_err *err);
/* The least of options.memory for this source and plan. */
int64_t sn_conversion_least(const struct sn_conversion *v);

#endif
