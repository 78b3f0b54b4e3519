/*
 * hfconfig_inner.h - what the files that read a config.json share. Internal to lib/config.
 */
#ifndef SN_HFCONFIG_INNER_H
#define SN_HFCONFIG_INNER_H

#include "lib/config/hfconfig.h"
#include "lib/config/hfkeys.h"

#include <jansson.h>

enum { SN_HF_TEXT = 128 };

/* A key of the file, in an object or not. */
struct sn_hf_entry {
    char name[96];
    const json_t *value;
    const struct sn_hf_key *row; /* never an alias: what the name stands for */
};

/* What is being translated, and where to. */
struct sn_hf_job {
    const struct sn_hf_type *type;
    const char *path;
    struct sn_hf_entry *entries;
    int n;
    struct sn_yaml_doc *doc;
    struct sn_err *err;
};

/* What the file says of a key, NULL for nothing; under several names the same. */
enum sn_status sn_hf_entry_find(const struct sn_hf_job *j, const struct sn_hf_key *row,
                                const struct sn_hf_entry **out);
/* The same as text, or what transformers takes where it says nothing. */
enum sn_status sn_hf_text_of(const struct sn_hf_job *j, const char *name, char text[SN_HF_TEXT]);
/* A key that counts something, as a number; 0 where the file has no such number. */
enum sn_status sn_hf_count_of(const struct sn_hf_job *j, const char *name, double *out);
/* Of our key; refused if it has another value already. */
enum sn_status sn_hf_set(const struct sn_hf_job *j, const char *ours, const char *theirs,
                         const char *text, bool quoted);
/* hfconfig_layers.c: a row of class LAYERS. */
enum sn_status sn_hf_use_layers(const struct sn_hf_job *j, const struct sn_hf_key *row);

/* A row of class DENSE. */
enum sn_status sn_hf_use_dense(const struct sn_hf_job *j, const struct sn_hf_key *row);
/* An entry of class CODE. */
enum sn_status sn_hf_check_code(const struct sn_hf_job *j, const struct sn_hf_entry *e);
/* Of a row of class GROUPED, also of one that the file leaves out. */
enum sn_status sn_hf_check_grouped(const struct sn_hf_job *j, const struct sn_hf_key *row);
/* Layers that have experts, as a type's keys say; 0: none, or no number of layers. */
enum sn_status sn_hf_layers_with_experts(const struct sn_hf_job *j, double *out);

#endif
