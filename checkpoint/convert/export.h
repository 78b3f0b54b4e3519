/*
 * export.h - a source as the field's files: model.safetensors (or numbered shards and their index)
 * and config.json, for gpt2, gpt-neox and llama.
 */
#ifndef SN_EXPORT_H
#define SN_EXPORT_H

#include "checkpoint/convert/convert.h"

struct sn_export_options {
    const char *dst;     /* a new directory */
    int64_t memory;      /* bytes of buffers in this process */
    int64_t shard_bytes; /* the most of one file; 5 GB is the field's habit */
    enum sn_dtype dtype;
    bool later_names; /* those of the field's later versions: mixtral's experts as two tensors */
    const char *beside; /* a directory of the field's, whose tokenizer goes along (beside.h); or NULL */
    struct sn_comm *comm; /* files are divided among the ranks */
};

/* Written aside, synced and renamed. Only group "model" is written; names, order, transpositions
 * and fusions as the field expects them (facts of each family: hfnames.c). */
enum sn_status sn_export_run(struct sn_source *s, const struct sn_model_config *m,
                             const struct sn_export_options *o, struct sn_convert_report *report,
                             struct sn_err *err);

#endif
