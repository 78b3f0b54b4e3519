/*
 * rewrite_inner.h - the kinds of rewriting, each in its file; for rewrite.c alone.
 */
#ifndef SN_DATA_REWRITE_INNER_H
#define SN_DATA_REWRITE_INNER_H

#include "lib/data/rewrite.h"
#include "lib/data/sources.h"

struct sn_rewriting {
    const struct sn_rewrite *want;
    struct sn_sources sources;
    struct sn_data_writer *writers[SN_REWRITE_PARTS];
    char *names[SN_REWRITE_PARTS]; /* prefixes */
    int parts;
};
/* Has the work to end? Asked for each document, looks now and then. SN_EFAIL. */
enum sn_status sn_rewrite_go_on(const struct sn_rewriting *r, int64_t document, struct sn_err *err);

enum sn_status sn_rewrite_dedup(struct sn_rewriting *r, struct sn_err *err);
enum sn_status sn_rewrite_shuffle(struct sn_rewriting *r, struct sn_err *err);

#endif
