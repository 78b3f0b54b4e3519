/*
 * look.h - what lies where a run will read it, told by names, shapes and manifests alone.
 *
 * For planning and submission, which must not need HDF5 (the libraries of a compute node may not be
 * those of a login node): no tensor is read, no shard is opened.
 */
#ifndef SN_LOOK_H
#define SN_LOOK_H

#include "checkpoint/format/manifest.h"
#include "lib/config/config.h"

/* What a run would go on from. */
struct sn_look {
    int64_t step;   /* -1: nothing */
    bool is_read;   /* else its manifest is damaged, and this is not known: */
    uint64_t blend; /* sn_state_scalars */
    struct sn_tokenizer_id tokenizer;
};

/* The newest checkpoint in `dir` that COMMIT stands for; none where there is no directory. SN_EINPUT
 * when it is of another model than `model_text` (sn_config_format_model). A damaged one is not
 * judged: which one a run goes on from is found at its start. */
enum sn_status sn_look_resume(struct sn_look *out, const char *dir, const char *model_text,
                              struct sn_err *err);
/* The same of train.continue_from, a checkpoint or a directory of some. SN_EINPUT, too, when it
 * holds none. */
enum sn_status sn_look_continue(struct sn_look *out, const char *path, const char *model_text,
                                struct sn_err *err);
/* Does train.init_from name files that the model's weights can come from? SN_EINPUT where there is
 * nothing, a tensor is missing, over, or of another shape, or the model that comes with them is
 * another one (checkpoint/store/init_model.h). */
enum sn_status sn_look_weights(const struct sn_config *c, struct sn_err *err);

/* Is the manifest's model the one of this text? SN_EINPUT with the first line that differs. */
enum sn_status sn_look_model(const struct sn_manifest *m, const char *dir, const char *want,
                             struct sn_err *err);

/* The next line of *p without its indentation, and its length; moves *p behind it. */
int sn_look_line(const char **p, const char **line);

#endif
