/*
 * snapshot_files.h - snapshot shards as files in memory that outlives a process: /dev/shm.
 *
 * A run has a directory of its own on every host, ROOT/sennit-UID-HASH, by the user and the path of
 * its output. Knows neither ranks nor communication.
 */
#ifndef SN_SNAPSHOT_FILES_H
#define SN_SNAPSHOT_FILES_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define SN_SNAPSHOT_ROOT "/dev/shm"

/* A file, mapped; zeroed memory is none. */
struct sn_snapshot_file {
    char *path;
    void *p;
    int64_t bytes;
};

/* What a name says: SERIES-RANK-own0, SERIES-RANK-kept1. */
struct sn_snapshot_name {
    uint64_t series;
    int rank;     /* whose snapshot shard it is */
    bool is_kept; /* for another rank, by its partner */
    int generation;
};

/* The directory of a run with this output, which exists; caller frees *out. */
enum sn_status sn_snapshot_dir(char **out, const char *root, const char *output,
                               struct sn_err *err);
/* Make it, for this user alone; it may be there. */
enum sn_status sn_snapshot_dir_make(const char *dir, struct sn_err *err);

/* Make a file of so many bytes that are there already, touched, and 0. Caller closes. */
enum sn_status sn_snapshot_file_create(struct sn_snapshot_file *out, const char *dir,
                                       const struct sn_snapshot_name *name, int64_t bytes,
                                       struct sn_err *err);
/* Map one that is there, to be read. */
enum sn_status sn_snapshot_file_open(struct sn_snapshot_file *out, const char *dir,
                                     const struct sn_snapshot_name *name, struct sn_err *err);
void sn_snapshot_file_close(struct sn_snapshot_file *f); /* the file stays */

/* What is not there is fine. */
enum sn_status sn_snapshot_file_remove(const char *dir, const struct sn_snapshot_name *name,
                                       struct sn_err *err);

/* The snapshot shards in a directory that is there or not, in the order of names; caller frees
 * *out. */
enum sn_status sn_snapshot_list(struct sn_snapshot_name **out, int *n, const char *dir,
                                struct sn_err *err);
/* Remove all snapshot shards but those of `series`, or with series 0 all, and then the directory if
 * nothing is left in it. What is not there is fine. */
enum sn_status sn_snapshot_remove(const char *dir, uint64_t series, struct sn_err *err);
/* Bytes free where `dir` is, and those of the snapshot shards in it. */
enum sn_status sn_snapshot_space(const char *dir, int64_t *is_free, int64_t *taken,
                                 struct sn_err *err);

#endif
