/*
 * checkpoint.h - checkpoints of a run in one directory, as a struct sn_saver.
 *
 *   DIR/step-00000100/  shard-00000.h5 ...  master.h5  manifest.json  COMMIT
 *   DIR/LATEST          a hint for people; never trusted
 *
 * Every rank that owns something writes it into a shard of its own, with a list of its pieces;
 * rank 0 proves that the pieces of all cover every tensor exactly once, and joins the lists into
 * the manifest. That happens under step-00000100.tmp.TAG, which is synced and renamed: a failed or
 * killed save leaves the one before it untouched. One run at a time may save into a directory, and
 * its ranks must see one file system. Formats and reasons: docs/FORMAT.md.
 *
 * For the caller: ignore SIGXFSZ, or a file size limit kills the process instead of failing the
 * save.
 */
#ifndef SN_CHECKPOINT_H
#define SN_CHECKPOINT_H

#include "lib/base/err.h"
#include "lib/state/state.h"

struct sn_checkpoint_options {
    int keep; /* the newest checkpoints that stay after a save; 0 keeps all */
    /* All ranks write into one file, master.h5, which holds the logical tensors themselves: for
     * sites that limit the number of files. What one rank has written, the others must see at once,
     * also beside it in the same page: local disks, Lustre and GPFS do that, NFS does not. */
    bool single_file;
};

/* Make `dir` when it is missing.
 *
 * find: damaged is one whose COMMIT and manifest do not agree, or whose name is that of another
 *       step; one of a later format is an error of its own.
 * save: a checkpoint of the same step is replaced, unless it was passed over: the commit renames it
 *       to step-N.damaged.PID first. Those of later steps belong to a course of
 *       training that was left (an older one was resumed, or --fresh): they are renamed to
 *       step-N.aside.PID, never found again and never removed.
 * load: names, shapes, coverage and the sizes of the shards needed are checked before the first
 *       box is touched; an altered shard may leave boxes partly overwritten, never the scalars.
 *       Each piece is read once, with memory for the largest of them.
 * init: sn_init_from of checkpoint/hf/hfnames.h.
 * set_aside: as save does with later steps, for all of them. */
enum sn_status sn_checkpoint_open(struct sn_saver *out, const char *dir,
                                  const struct sn_checkpoint_options *o, struct sn_err *err);
/* Waits for a phase under way, and for what the last save removes. */
void sn_checkpoint_close(struct sn_saver *s);

/* Steps of the commit, in order. */
enum sn_checkpoint_stage {
    SN_STAGE_NONE,
    SN_STAGE_DIRECTORY, /* the temporary directory exists */
    SN_STAGE_LAYOUT,    /* the shard is laid out, nothing is in it; a single file in PREPARE */
    SN_STAGE_HALF,      /* half of the boxes are on their way to it */
    SN_STAGE_COPIED,    /* all of them are; the state may change */
    SN_STAGE_SHARD,     /* the shard is synced */
    SN_STAGE_LIST,      /* so is the list of its pieces */
    SN_STAGE_MASTER,
    SN_STAGE_MANIFEST,
    SN_STAGE_COMMIT,
    SN_STAGE_SYNCED,  /* the temporary directory is synced */
    SN_STAGE_VISIBLE, /* renamed, and the parent synced */
    SN_STAGE_LATEST,
    SN_STAGE_ROTATED,
    SN_NSTAGES
};
/* Old checkpoints are removed behind the back of who saves; with no phase under way,
 * wait for it. */
void sn_checkpoint_wait_swept(struct sn_saver *s);
/* Test hook: the next save, in whatever phase, kills this process with SIGKILL
 * right after `stage`. */
void sn_checkpoint_die_at(struct sn_saver *s, enum sn_checkpoint_stage stage);

#endif
