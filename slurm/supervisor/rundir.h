/*
 * rundir.h - what the run directory tells the supervisor, and what it keeps there of an attempt.
 *
 * Everything is read from files that the trainer writes for people too; a file that is missing, cut
 * off or damaged is "not known".
 */
#ifndef SN_RUNDIR_H
#define SN_RUNDIR_H

#include "lib/config/config.h"
#include "slurm/site/launch.h"

struct sn_rundir {
    char output[SN_PATH_MAX];
    char checkpoints[2 * SN_PATH_MAX + 2]; /* the directory of them */
};
/* Make run.output and OUTPUT/attempts. SN_EIO. */
enum sn_status sn_rundir_open(struct sn_rundir *out, const struct sn_config *c, struct sn_err *err);

/* The first number without a record of the trainer's or a folder of ours. */
int sn_rundir_next_attempt(const struct sn_rundir *r);
/* The newest checkpoint that has been committed, by its name; -1: none. Whether it is whole is for
 * the trainer to say. */
int64_t sn_rundir_saved_step(const struct sn_rundir *r);
/* Is a checkpoint being written? */
bool sn_rundir_is_saving(const struct sn_rundir *r);

struct sn_rundir_progress {
    int64_t step;          /* the last in metrics.jsonl; -1: none */
    int64_t snapshot_step; /* the last that is kept in memory; -1: none */
    double step_seconds;   /* that it took; 0: unknown */
    double save_seconds;   /* the last save, from the copy to its commit; 0: unknown */
    uint64_t motion; /* another number whenever one of the files has grown or was begun anew */
};
void sn_rundir_progress(struct sn_rundir_progress *out, const struct sn_rundir *r);

/* OUTPUT/attempt-N.json as its trainer left it. */
struct sn_rundir_record {
    bool has_ended;
    int exit_code;
    char says[768];
};
void sn_rundir_record(struct sn_rundir_record *out, const struct sn_rundir *r, int attempt);

/* The logical rank of a process of the launcher, by OUTPUT/map.json;
 * the same number without one. */
int sn_rundir_rank_of(const struct sn_rundir *r, int process);
/* The host of a logical rank, by the same file; "" if it does not say. */
void sn_rundir_host_of(char *out, size_t room, const struct sn_rundir *r, int rank);

/* "OUTPUT/attempts/N/NAME". */
void sn_rundir_path(char *out, size_t room, const struct sn_rundir *r, int attempt,
                    const char *name);
/* Make OUTPUT/attempts/N. SN_EIO. */
enum sn_status sn_rundir_begin(const struct sn_rundir *r, int attempt, struct sn_err *err);
/* Write a file of the attempt, readable by its owner alone. SN_EIO, SN_ENOMEM (text->failed). */
enum sn_status sn_rundir_keep(const struct sn_rundir *r, int attempt, const char *name,
                              const struct sn_str *text, struct sn_err *err);

#endif
