/*
 * state.h - everything that a run must carry to the next process, and who writes it down.
 *
 * The step loop knows no file format: it hands a struct sn_state to the functions of a struct
 * sn_saver, which bin/ fills from checkpoint/. Neither communicates: the trainer lets the ranks
 * agree between the phases of a save and after a load.
 *
 * Every rank describes the boxes (rectangles) of logical tensors that it holds: slices of tensor
 * parallelism, the layers of its pipeline stage, a flat ZeRO slice cut into at most three boxes
 * (part of a row, whole rows, part of a row). A checkpoint stores the boxes of all ranks, and
 * loading fills any boxes from them: a run resumes in another layout without conversion.
 *
 * Beside weights and moments there are two groups that only layout.compress brings about. A
 * checkpoint may lack them, and a run may leave them:
 *   "replica"      what all ranks compute with where it is not the rounded masters, because weights
 *                  were gathered with a lossy codec. What a checkpoint lacks of it is its "model"
 *   "feedback.R"   what codecs lost of the gradients of holder R and will add to the next ones
 *                  (holders are numbered by sn_feedback_holder). Mathematics knows their sum alone:
 *                  with n holders, holder R takes the sum of "feedback.K" over K = R, R + n, ...
 */
#ifndef SN_STATE_H
#define SN_STATE_H

#include "kernels/codec_kind.h"
#include "kernels/tensor.h"
#include "lib/base/err.h"
#include "lib/base/progress.h"
#include "lib/base/tokenizer_id.h"

#include <stdbool.h>
#include <stdint.h>

/* One box of a logical tensor in this process's memory: element (r, c) of the tensor, with
 * row <= r < row + n_rows and col <= c < col + n_cols, is p[(r - row) * ld + c - col]. A vector has
 * one column. Several boxes of one tensor may be listed; empty ones are fine. */
struct sn_state_tensor {
    const char *group;      /* "model" (fp32 master weights), a moment's, or above */
    const char *name;       /* "layers.3.attn.q.weight" */
    int param, tensor;      /* of a rank's own state: their numbers in the model */
    int64_t rows, cols;     /* of the whole logical tensor */
    int64_t row, col;       /* where the box begins in it */
    int64_t n_rows, n_cols; /* the box's size */
    int64_t ld;             /* values from one row of the box to the next, at least n_cols */
    float *p;               /* borrowed; of another type, see below */
    bool owned;             /* this rank writes it; exactly one rank owns each element */
    enum sn_dtype dtype;    /* of what p points to: fp32, of "replica" and of frozen weights also
                               bf16 or fp16. Files and snapshot shards have fp32 */
    /* p points to codes (SN_U8; kernels/frozen.h), of which the box, and what is put into it at once,
     * has whole blocks of columns; NULL: to values */
    const struct sn_codec *codec;
    int folds;              /* of "feedback.R": how many holders there are; else 0 */
};

/* A logical tensor of the model, whoever holds it. */
struct sn_state_shape {
    const char *group, *name;
    int64_t rows, cols;
};

struct sn_state_scalars {
    int64_t step;   /* steps finished */
    int64_t tokens; /* tokens seen */
    int64_t adam_count, scale_age, skipped;
    float loss_scale;
    int32_t codec_level[SN_NCODED]; /* kernels/scalars.h */
    float adapter_scale; /* alpha / rank of the adapters (train.lora); 0: there are none */
    uint64_t blend;      /* what its samples were taken from; 0: one set (sn_blend_past) */
};

struct sn_state {
    struct sn_state_scalars scalars; /* equal on all ranks */
    const char *model_text;  /* the model section, resolved, as YAML: another model is refused */
    const char *layout_text; /* the layout section, as YAML: for people */
    uint64_t config_hash;    /* 0: a load compares none */
    /* Of the run's data, on rank 0. Where nobody knows it, a load takes the checkpoint's; a checkpoint
     * of another one is refused. */
    struct sn_tokenizer_id tokenizer;
    int rank, ranks;
    int64_t tag; /* the same on all ranks of this run, another in other runs on the same directory:
                    names what is being written */
    int n_tensors;
    struct sn_state_tensor *tensors; /* the boxes here */
    int n_all;
    struct sn_state_shape *all; /* every tensor that a checkpoint of this model holds; the same on
                                   all ranks, each (group, name) once */
    char *groups;               /* the names of groups with numbers */
    const struct sn_codec *base; /* of frozen weights that are codes (train.lora.base), here or on
                                    other ranks; NULL: there are none */
    struct sn_progress
        *progress; /* whoever saves or loads it says here that it moves; may be NULL */
};

/* A whole tensor that one rank holds and owns. */
static inline struct sn_state_tensor sn_state_whole(const struct sn_state_shape *s, float *p)
{
    return (struct sn_state_tensor){.group = s->group,
                                    .name = s->name,
                                    .rows = s->rows,
                                    .cols = s->cols,
                                    .n_rows = s->rows,
                                    .n_cols = s->cols,
                                    .ld = s->cols,
                                    .p = p,
                                    .owned = true};
}

/* Is any codec milder than the run file's? Else nobody writes the levels down. */
bool sn_state_has_levels(const struct sn_state_scalars *s);
/* Is it one of the groups that a checkpoint may lack? */
bool sn_state_is_extra(const char *group);
/* Or one that begins as the weights where a checkpoint has none of it: an average of weights, too. */
bool sn_state_may_lack(const char *group);
/* R of "feedback.R", -1 of another group. */
int sn_state_holder(const char *group);
/* n values of a row of the box, from (row, col) of the box on, as fp32 ... */
void sn_state_get(const struct sn_state_tensor *t, int64_t row, int64_t col, int64_t n, float *out);
/* ... and back; of feedback they are added to what is there. */
void sn_state_put(const struct sn_state_tensor *t, int64_t row, int64_t col, int64_t n,
                  const float *in);
/* Zeros in all boxes of feedback: before a load adds to them. */
void sn_state_clear_feedback(const struct sn_state *s);

/* A save is three phases in this order, each begun only after the one before has succeeded on every
 * rank that took part. When one fails on any rank, rank 0 abandons the save after all have ended.
 */
enum sn_save_phase {
    SN_SAVE_PREPARE, /* rank 0: remove what killed saves left, see that there is room, make the
                        temporary directory */
    SN_SAVE_WRITE,   /* every rank: write what it owns, synced; nothing for a rank without */
    SN_SAVE_COMMIT,  /* rank 0: check that what was written covers every tensor of `all` exactly
                        once, make it durable and visible, remove old checkpoints */
    SN_SAVE_ABANDON  /* rank 0: remove the temporary directory */
};

/* What the last save of this rank took, seconds. */
struct sn_save_times {
    int64_t bytes; /* that this rank wrote */
    double layout; /* making the files and reserving their space */
    double copy;   /* until the state was free again: the copy aside, with hashes */
    double write;  /* from the first byte to synced, the copy included */
    double commit; /* rank 0: joining, renaming, rotating */
};

struct sn_config;

struct sn_saver {
    void *self;
    /* Memory for saves, made and touched before step 1. With room for all boxes that this rank owns
     * (sn_job_snapshot_bytes) a save is asynchronous: `copied` waits for a copy, not for the disk.
     * Without this call saves go through a few MiB that are freed after each. */
    enum sn_status (*reserve)(void *self, int64_t bytes, struct sn_err *err);
    /* Begin a phase in the background; the one before has ended. The scalars of `s` are copied
     * here, what else it points to stays as it is until the phase has ended. Checkpoints from
     * before stay untouched until the commit has succeeded. */
    enum sn_status (*begin)(void *self, const struct sn_state *s, enum sn_save_phase phase,
                            struct sn_err *err);
    /* Block until the values in the boxes may change: WRITE has read them, or failed, or nothing is
     * under way. */
    void (*copied)(void *self);
    /* Has the phase ended? With `wait`, block until it has. *ended is true when nothing is under
     * way; the phase's own status is returned once, by the call that finds its end. */
    enum sn_status (*finish)(void *self, bool wait, bool *ended, struct sn_err *err);
    void (*times)(void *self, struct sn_save_times *out); /* of the last save, when it has ended */
    /* Number of the newest checkpoint before step `before` in *step, or -1 when there is none.
     * SN_EIO with a number in *step: there is that one, but it is damaged. */
    enum sn_status (*find)(void *self, int64_t before, int64_t *step, struct sn_err *err);
    /* That one is damaged, as find or load has told, and the run goes on from an older one: nothing
     * may be lost of it. Rank 0 only. */
    enum sn_status (*pass_over)(void *self, int64_t step, struct sn_err *err);
    /* Where checkpoint `step` lies, for sentences; caller frees; NULL without memory. */
    char *(*path)(void *self, int64_t step);
    /* Fill every box and the scalars from checkpoint `step`, whatever layout wrote it. Another
     * model is SN_EINPUT, damage SN_EIO; a missing, altered or wrong-shaped tensor is an error that
     * names it. */
    enum sn_status (*load)(void *self, int64_t step, struct sn_state *s, struct sn_err *err);
    /* Fill the "model" boxes of s from config->train.init_from: a safetensors file or directory, or
     * a checkpoint of ours; or every box and the scalars from config->train.continue_from, as load
     * does. Weights of another model than config's are SN_EINPUT. */
    enum sn_status (*init)(void *self, const struct sn_config *config, struct sn_state *s,
                           struct sn_err *err);
    /* Put the tokenizer's files beside the checkpoints that will name it. Rank 0 only; NULL: they
     * name it alone. */
    enum sn_status (*keep)(void *self, const struct sn_tokenizer_id *t, struct sn_err *err);
    /* Move what is there out of the way, losing nothing (--fresh). Rank 0 only. */
    enum sn_status (*set_aside)(void *self, struct sn_err *err);
};

/* One whole phase: begin, and wait for its end. */
static inline enum sn_status sn_saver_phase(const struct sn_saver *v, const struct sn_state *s,
                                            enum sn_save_phase phase, struct sn_err *err)
{
    bool ended;
    enum sn_status st = v->begin(v->self, s, phase, err);
    return st == SN_OK ? v->finish(v->self, true, &ended, err) : st;
}

#endif
