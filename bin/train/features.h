/*
 * features.h - sennit-train --features: what train.prompt reads of each text that is written or scored, from a file
 * as those beside token files are (lib/data/features.h).
 */
#ifndef SN_TRAIN_FEATURES_H
#define SN_TRAIN_FEATURES_H

#include "lib/config/config.h"
#include "lib/data/features.h"

struct sn_train_features {
    struct sn_features *file; /* NULL: the run reads none */
    float *entry;             /* room for one */
    int64_t n;
};

/* SN_EINPUT: `option` needs a file, or has one that the run does not read. PATH NULL: none is named. */
enum sn_status sn_train_features_check(const struct sn_config *c, const char *option,
                                       const char *path, struct sn_err *err);
/* PREFIX.npy, named with or without its ending; all its entries are looked at. Nothing without a path. The caller
 * closes, also after a failure. */
enum sn_status sn_train_features_open(struct sn_train_features *f, const struct sn_config *c,
                                      const char *path, struct sn_err *err);
void sn_train_features_close(struct sn_train_features *f); /* a zeroed one is allowed */
/* SN_EINPUT: there are not as many entries as `what` of a file, such as lines. */
enum sn_status sn_train_features_count(const struct sn_train_features *f, const char *file,
                                       int64_t n, const char *what, struct sn_err *err);

#endif
