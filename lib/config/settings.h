/*
 * settings.h - from the trees of a run file and what it includes to one setting per key.
 */
#ifndef SN_SETTINGS_H
#define SN_SETTINGS_H

#include "lib/config/keys.h"

#include <sys/stat.h>

enum { SN_INCLUDES_MAX = 4 };

struct sn_settings {
    const char *path;                            /* the run file, for messages */
    const struct sn_yaml_node *set[SN_KEYS_MAX]; /* by row: the setting that stands, or NULL */
    bool own[SN_KEYS_MAX];                       /* it is of the run file, not of what that includes */
    struct sn_yaml_doc *docs;                    /* what the settings point into */
    const char *share_dir;                       /* as given by the caller; may be NULL */
    int depth;                                   /* files being read now */
    struct stat open[SN_INCLUDES_MAX + 1];
};

/* Read the run file's text; `id` is its identity where it is a file (to refuse cycles), or NULL.
 * The caller calls sn_settings_fini in any case. */
enum sn_status sn_settings_read(struct sn_settings *s, const char *text, size_t len,
                                const struct stat *id, struct sn_err *err);
void sn_settings_fini(struct sn_settings *s);

/* The setting of a key, NULL when it was left out. */
const struct sn_yaml_node *sn_settings_get(const struct sn_settings *s, const char *key);
/* The same, NULL also when a preset or another file that the run file names brought it. */
const struct sn_yaml_node *sn_settings_own(const struct sn_settings *s, const char *key);
/* z of layout.tensor: {x, y, z}, whose key is layout.zero_node; NULL when it was left out. */
const struct sn_yaml_node *sn_settings_grid_z(const struct sn_settings *s);

/* SN_EINPUT with the place where `key` was set (or its section), and "KEY:
 * " before the sentence. */
enum sn_status sn_settings_fail(const struct sn_settings *s, const char *key, struct sn_err *err,
                                const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* One rule between keys: SN_OK, or its sentence. */
typedef enum sn_status sn_rule(const struct sn_config *c, const struct sn_settings *s,
                               struct sn_err *err);
/* Derived defaults and the rules between keys (rules.c). */
enum sn_status sn_rules_apply(struct sn_config *c, const struct sn_settings *s, struct sn_err *err);
/* "8 or 12": the divisors, the multiples (> 0) of `of` nearest to n; returns buf. */
enum { SN_NEAR_SIZE = 48 };
const char *sn_near_divisors(char buf[SN_NEAR_SIZE], int64_t of, int64_t n);
const char *sn_near_multiples(char buf[SN_NEAR_SIZE], int64_t of, int64_t n);
/* "2 or 4": the values in 1..most nearest to n that fit; 1 is taken to do so (rules_tensor.c). */
typedef bool sn_fits(const struct sn_config *c, int n);
const char *sn_near_that_fit(char buf[SN_NEAR_SIZE], const struct sn_config *c, sn_fits *f, int n,
                             int most);
sn_rule sn_rule_tensor_x, sn_rule_tensor_pieces;
/* The rules of the layout (rules_layout.c); sn_rules_apply calls it. */
sn_rule sn_rules_layout;
/* What layout.compress means, and its rules (rules_compress.c). */
enum sn_status sn_compress_derive(struct sn_config *c, const struct sn_settings *s,
                                  struct sn_err *err);
sn_rule sn_rule_feedback, sn_rule_difference, sn_rule_rows, sn_rule_replica_node, sn_rule_zero_node,
    sn_rule_zero_cache;
sn_rule sn_rule_low_rank;
/* What run.bits goes with (rules_bits.c). */
sn_rule sn_rule_bits;
/* What attention of latents, and the rotary embedding, go with (rules_rope.c). */
sn_rule sn_rule_latents, sn_rule_rotary, sn_rule_rope_scaling, sn_rule_mtp;
/* rules_experts.c */
enum sn_status sn_experts_derive(struct sn_model_config *m, const struct sn_settings *s,
                                 struct sn_err *err);
sn_rule sn_rule_experts_family, sn_rule_experts;
/* When the batches of train.ramp end, and what they go with (rules_ramp.c). */
enum sn_status sn_ramp_derive(struct sn_config *c, const struct sn_settings *s, struct sn_err *err);
/* What train.mup makes of the model (rules_mup.c). */
enum sn_status sn_mup_derive(struct sn_config *c, const struct sn_settings *s, struct sn_err *err);
/* What train.groups says of each of its names (rules_patterns.c). */
sn_rule sn_rule_groups;
/* What zeros that stay go with (rules_patterns.c). */
sn_rule sn_rule_sparse;
/* What adapters need, and do not go with yet (rules_lora.c). */
sn_rule sn_rule_lora;
sn_rule sn_rule_prompts;
/* Over which ranks blocks of train.lora.base can be cut (the same). */
sn_rule sn_rule_codes;
/* What sets of data and phases of their weights say of each other (rules_data.c). */
sn_rule sn_rule_data;
/* Those of the batch script (rules_slurm.c), which also derive what its texts say. */
enum sn_status sn_rules_slurm(struct sn_config *c, const struct sn_settings *s, struct sn_err *err);

#endif
