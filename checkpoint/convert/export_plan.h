/*
 * export_plan.h - which of the field's tensors a model becomes, in which files, and which boxes of
 * ours they are made of. Touches no file. Internal to checkpoint/.
 */
#ifndef SN_EXPORT_PLAN_H
#define SN_EXPORT_PLAN_H

#include "checkpoint/hf/hfrules.h"
#include "checkpoint/store/source.h"

/* One tensor of theirs. */
struct sn_export_tensor {
    struct sn_hf_name name;
    enum sn_hf_form form;
    int *source;        /* ours, in the order of the parts: numbers in the source */
    int n_source;       /* parts, of each expert */
    int64_t experts;    /* of a stack; else 1 */
    int64_t rows, cols; /* of each part, of q | k | v of the first */
    int64_t kv_rows;    /* of k and of v side by side with q in rows; else as many as rows */
    int64_t heads;      /* that the rows of a part are */
    int file;
};

struct sn_export_plan {
    int n, n_files;
    struct sn_export_tensor *tensors; /* in the order of the model: files are runs of them */
    int *sources;                     /* of all tensors */
    enum sn_dtype dtype;
    int64_t bytes;   /* of all tensors */
    int64_t longest; /* row of a tensor of theirs, elements */
    int64_t largest; /* tensor, elements */
};

/* All experts of a stack one under the other. */
struct sn_hf_size sn_export_size(const struct sn_export_tensor *t);

/* What is written, beside the model. */
struct sn_export_want {
    enum sn_dtype dtype;
    int64_t shard_bytes;
    bool later; /* by the names of later versions, where there are any */
};

/* Refuses a source that lacks a tensor of the model, or has one more or another shape. A file takes
 * tensors until the next one would exceed shard_bytes, and at least one. Caller runs fini. */
enum sn_status sn_export_plan_init(struct sn_export_plan *out, const struct sn_source *s,
                                   const struct sn_model_config *m,
                                   const struct sn_export_want *want, struct sn_err *err);
void sn_export_plan_fini(struct sn_export_plan *p);

/* "model.safetensors", or "model-00001-of-00003.safetensors"; returns buf. */
enum { SN_EXPORT_NAME_MAX = 64 };
const char *sn_export_file_name(char buf[SN_EXPORT_NAME_MAX], const struct sn_export_plan *p,
                                int file);

/* A box of ours on its way into a band (some rows) of a tensor of theirs: its element (r, c) is
 * element at + r x row_step + c x col_step of the band. */
struct sn_export_move {
    int64_t at, row_step, col_step;
    int64_t ends; /* elements of the band, where this is its last box; else 0 */
};
struct sn_export_moves {
    int64_t n, cap;
    struct sn_source_want *wants; /* n of each, side by side */
    struct sn_export_move *moves;
};
/* Append the boxes of a tensor, in bands of at most `room` elements: at least plan->longest. */
enum sn_status sn_export_moves_add(struct sn_export_moves *l, const struct sn_export_tensor *t,
                                   int64_t room, struct sn_err *err);
void sn_export_moves_fini(struct sn_export_moves *l);

#endif
