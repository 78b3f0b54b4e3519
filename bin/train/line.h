/*
 * line.h - the command line of sennit-train.
 */
#ifndef SN_BIN_TRAIN_LINE_H
#define SN_BIN_TRAIN_LINE_H

#include "bin/train/files.h"
#include "bin/train/generate.h"
#include "bin/train/map.h"
#include "bin/train/replay.h"
#include "bin/train/score.h"
#include "bin/train/trace.h"
#include "lib/machine/machine.h"
#include "lib/train/trainer.h"

struct sn_train_line {
    const char *run_file, *machine_file, *places, *tune, *supervisor;
    struct sn_train_generate generate;
    struct sn_train_score score;
    struct sn_train_map map;
    struct sn_train_trace trace;
    struct sn_machine machine;
    struct sn_trainer_options train;
    bool preflight, profile, help, version;
    long long attempt;    /* 0: the first that is free */
    uint64_t certificate; /* 0: none is given */
    struct sn_train_replay replay;
};

/* What --help prints. */
const char *sn_train_usage(void);
enum sn_status sn_train_line_parse(int argc, char **argv, struct sn_train_line *l,
                                   struct sn_err *err);
/* Is there nothing that this start trains? Then it keeps no record, and leaves the run's files as
 * they are. */
static inline bool sn_train_line_only_reads(const struct sn_train_line *l)
{
    return sn_train_generate_wanted(&l->generate) || l->score.file || l->replay.step > 0;
}
static inline enum sn_train_files_of sn_train_line_files(const struct sn_train_line *l)
{
    return sn_train_line_only_reads(l) ? SN_FILES_READ
           : l->machine_file           ? SN_FILES_PACED
                                       : SN_FILES_TRAINED;
}

#endif
