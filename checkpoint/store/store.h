/*
 * store.h - the directory that holds the checkpoints of a run; internal to checkpoint/.
 */
#ifndef SN_STORE_H
#define SN_STORE_H

#include "checkpoint/format/hdf5.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/store/checkpoint.h"
#include "checkpoint/store/phase.h"
#include "checkpoint/store/reader.h"

#include <stdbool.h>

struct sn_store {
    char *dir;
    struct sn_checkpoint_options options;
    enum sn_checkpoint_stage die_at;
    struct sn_background_phase phase;
    struct sn_progress *progress; /* of the state that is being saved; NULL: nobody asks */
    pthread_t sweeper;            /* removes what a save has made superfluous, */
    struct sn_progress swept;     /* and marks here: it may outlive the state */
    bool is_sweeping;
    struct sn_save_times times; /* written by the phase's thread */
    void *arena;                /* staging for asynchronous saves; NULL: none */
    size_t arena_bytes;
    int64_t *passed_over; /* steps whose checkpoints are damaged: the next commit moves them away */
    int n_passed_over, room_passed_over;
};

/* "DIR/step-00000100SUFFIX"; caller frees; NULL without memory. */
char *sn_store_path(const struct sn_store *s, int64_t step, const char *suffix);

/* Step of a name such as "step-00000100"; -1 for any other. *rest is what follows the number. */
int64_t sn_store_step_of(const char *name, const char **rest);
/* Steps of the directories named step-N, newest first; caller frees *steps. */
enum sn_status sn_store_list(int64_t **steps, int *n, const char *dir, struct sn_err *err);
/* The newest checkpoint before step `before`, -1 for none. SN_EIO with its number in *step: its
 * COMMIT, its manifest or its name is damaged. */
enum sn_status sn_store_before(const char *dir, int64_t before, int64_t *step, struct sn_err *err);
/* The newest whole one, -1 for none; a damaged newer one is passed over with a warning. Only
 * damaged ones, or one of a later format, is an error. */
enum sn_status sn_store_newest(int64_t *step, const char *dir, struct sn_err *err);
/* What a path of the command line means: one checkpoint, or a directory of them. SN_EINPUT when it
 * is neither. The newest whole one; caller frees *step_dir. */
enum sn_status sn_store_find(char **step_dir, const char *path, struct sn_err *err);
/* All of them, whole or not, newest first; caller frees with sn_store_free_list. */
enum sn_status sn_store_find_all(char ***step_dirs, int *n, const char *path, struct sn_err *err);
void sn_store_free_list(char **step_dirs, int n); /* NULL is allowed */
/* A part of a save or a load is done. */
static inline void sn_store_mark(const struct sn_store *s)
{
    sn_progress_mark(s->progress);
}
/* Before a save: remove what killed saves left, and begin to sweep. Failures are only warned of. */
void sn_store_tidy(struct sn_store *s);
/* Remove, in a thread, the checkpoints that are renamed to step-N.del.PID: that can take longer
 * than writing one. */
void sn_store_begin_sweep(struct sn_store *s);
void sn_store_wait_sweep(struct sn_store *s);
/* After the save of `step`: set later steps aside, leave all but the newest `keep` to the sweep.
 * Only warns. */
void sn_store_rotate(const struct sn_store *s, int64_t step);
/* Rename those that were passed over to step-N.damaged.PID, so that nothing is written in their
 * place, and nobody counts them. An error only where that of `step`, which is about to be
 * committed, cannot be renamed. */
enum sn_status sn_store_move_damaged(struct sn_store *s, int64_t step, struct sn_err *err);
/* Rename every checkpoint to step-N.aside.PID. */
enum sn_status sn_store_set_aside(const struct sn_store *s, struct sn_err *err);

/* A phase of a save from begin to end, and a load, behind struct sn_saver. */
enum sn_status sn_store_save(struct sn_store *store, const struct sn_state *s,
                             enum sn_save_phase phase, struct sn_err *err);
/* From a checkpoint anywhere, or the newest of a directory of some. */
enum sn_status sn_store_load_from(const char *path, struct sn_state *s, struct sn_err *err);
enum sn_status sn_store_load(const struct sn_store *store, int64_t step, struct sn_state *s,
                             struct sn_err *err);

/* Make the shards in `dir` a checkpoint: master.h5, the manifest,
 * COMMIT, the directory itself, each synced. `hook`: a store whose test hook is asked; may be NULL.
 */
enum sn_status sn_commit_write(const char *dir, const struct sn_manifest *m,
                               const struct sn_store *hook, struct sn_err *err);

/* For the test hook. */
void sn_store_stage(const struct sn_store *s, enum sn_checkpoint_stage done);
/* Write and sync the file DIR/NAME. */
enum sn_status sn_store_put(const char *dir, const char *name, const char *text, size_t len,
                            struct sn_err *err);

struct sn_box sn_state_box(const struct sn_state_tensor *t);
/* Boxes outside their tensors are our own mistake: SN_EFAIL. */
enum sn_status sn_state_check_boxes(const struct sn_state *s, struct sn_err *err);

/* --- one writer's part ----------------------------------------------------------------------- */

enum { SN_SHARD_NAME_MAX = 32 };
const char *sn_shard_name(char buf[SN_SHARD_NAME_MAX], int rank);      /* "shard-00003.h5" */
const char *sn_shard_list_name(char buf[SN_SHARD_NAME_MAX], int rank); /* "pieces-00003.json" */
/* sn_h5_layout with all space reserved: a full disk is met here, and not by HDF5. */
enum sn_status sn_shard_layout(const char *path, int n, struct sn_h5_slot *slots,
                               struct sn_err *err);
/* Lay out in `dir` the one file for all tensors of the model, before any rank writes. */
enum sn_status sn_shard_layout_single(const struct sn_store *store, const struct sn_state *s,
                                      const char *dir, struct sn_err *err);
/* Write what the state's rank owns into `dir`: its shard or its part of the single file, and the
 * list of its pieces as a manifest. Without anything to own, nothing. */
enum sn_status sn_shard_write(struct sn_store *store, const struct sn_state *s, const char *dir,
                              struct sn_err *err);
/* Is the shard in `dir`, and of its listed size? */
enum sn_status sn_shard_check(const char *dir, const struct sn_manifest_shard *shard,
                              struct sn_err *err);

/* --- one committed checkpoint, read for a state ---------------------------------------------- */

/* Compare with all the model's tensors, or those of `group` when it is not NULL: one that is
 * missing or has another shape is SN_EINPUT. used[i] becomes true for tensor i of the manifest that
 * the model has. */
enum sn_status sn_reader_match(const struct sn_reader *r, const struct sn_state *s,
                               const char *group, bool *used, struct sn_err *err);
/* Fill all boxes of s, or those of `group` when it is not NULL, from whatever pieces there are. */
enum sn_status sn_reader_fill(struct sn_reader *r, const struct sn_state *s, const char *group,
                              struct sn_err *err);

/* The text of COMMIT that belongs to a manifest of that many shards; before schema 3 they were not
 * counted: -1. */
enum { SN_COMMIT_MAX = 96 };
void sn_commit_format(char buf[SN_COMMIT_MAX], const char *manifest, size_t len, int n_shards);

#endif
