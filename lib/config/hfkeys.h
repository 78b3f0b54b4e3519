/*
 * hfkeys.h - what each key of a Hugging Face config.json is to us.
 *
 * One table, from which such files are read and written, and docs/HUGGINGFACE.md is printed. A key
 * of a supported class is used, must have a value that we compute, or is inert for a reason that
 * stands there; one that is in no list is refused. Knows no JSON.
 *
 * A further family is a row of `types` and a list of what is its own.
 */
#ifndef SN_HFKEYS_H
#define SN_HFKEYS_H

#include "lib/base/str.h"
#include "lib/config/config.h"

enum sn_hf_class {
    SN_HF_USED,   /* becomes model.`ours` */
    SN_HF_FIXED,  /* decides what is computed: one of `values`, or the model is refused */
    SN_HF_REPEAT, /* says again what the key `ours` says (over the key `per`), or is refused */
    SN_HF_EVERY, /* a list with 0 for every n-th layer and 1 for others, n that of key `ours`; or null */
    SN_HF_LAYERS, /* for each layer, "sliding_attention" or "full_attention": becomes model.window_from and
                   * model.global_every; null: as `layers` says */
    SN_HF_DENSE, /* a list of the layers without experts beside those by the key `ours`: becomes
                  * model.experts.from, if it is the first ones; or null */
    SN_HF_GROUPED, /* how experts are chosen: the first of `values` of all, which wants one group or null at the key
                    * `ours`, or the second of groups */
    SN_HF_CODE, /* names classes of code beside the weights, which must be called as the type's own: transformers takes its
                 * own then, unless it is told to trust that code; null: there is none */
    SN_HF_PART, /* read by the key `ours`, which is of class LAYERS */
    SN_HF_OBJECT, /* holds keys that have rows of their own, "OBJECT.key"; null: none */
    SN_HF_ALIAS,  /* another name of the key `ours`: both may stand there if they agree */
    SN_HF_INERT   /* changes nothing that is computed here */
};

/* What a number is multiplied with on its way to ours, and divided by on its way back. */
enum sn_hf_scale {
    SN_HF_AS_IT_IS,
    /* transformers' load-balancing loss is E sum_e f_e P_e over all tokens of all layers together,
     * where f counts each of a token's top_k choices: top_k when balanced. Ours is 1 for each layer
     * that is balanced. They are the same where all layers have the same f and P. */
    SN_HF_TOP_K_OVER_LAYERS,
    SN_HF_INVERSE_ROOT /* one over its root, a whole number theirs */
};

enum { SN_HF_VALUES = 6, SN_HF_WORDS = 6, SN_HF_LISTS = 11, SN_HF_TYPES_MOST = 24 };

/* A value of theirs that has another word here. */
struct sn_hf_word {
    const char *theirs, *ours;
};

/* Which layers have a window: all but every n-th, a number or the key that says it; or those from one on,
 * by a key, of a length by another one, if a third one is true. */
struct sn_hf_layers {
    const char *every;
    const char *from, *window, *on;
};

struct sn_hf_key {
    const char *name;
    enum sn_hf_class class;
    const char *ours, *per;
    const char *as; /* of USED: its name in files of ours, where it is another one; NULL: `name` */
    const char *value; /* of USED: when left out, as in transformers; NULL: required. Of REPEAT: when left out,
                        * at least what `ours` says, or it is refused; NULL: that */
    const char *values[SN_HF_VALUES]; /* of FIXED: the first is transformers' own and is written, unless
                                       * model.`ours` says what is */
    const char *why;                  /* of FIXED and INERT */
    struct sn_hf_layers layers;
    enum sn_hf_scale scale;
    /* Of USED: what is no number is one of these, up to one without words, or is refused; none:
     * texts are the same here. The first that means a word of ours is written for it. */
    struct sn_hf_word words[SN_HF_WORDS + 1];
    bool is_written;  /* into files of ours; of REPEAT: what `ours` says */
    bool may_be_null; /* USED: with another default: as if we were to decide */
    bool is_list;     /* FIXED: may be a list, each of it one of `values` */
};

struct sn_hf_type {
    const char *name; /* model_type */
    enum sn_family family;
    const char *architecture; /* the class that a written file asks for */
    const struct sn_hf_key *const lists[SN_HF_LISTS + 1]; /* each ends with a row without name */
};

/* hfkeys_table.c */
extern const struct sn_hf_type sn_hf_types[];
extern const int sn_hf_n_types;

/* Does a row become model.`ours`? */
bool sn_hf_type_has(const struct sn_hf_type *t, const char *ours);
/* Is "REPOSITORY--module.Class" one of the type's own classes, by its name? */
bool sn_hf_type_has_class(const struct sn_hf_type *t, const char *name);
/* NULL for a model_type that is not supported. */
const struct sn_hf_type *sn_hf_type_find(const char *name);
/* The type that a model is written as: the first of its family that knows all of its keys. NULL: none, and
 * *alien is a key that none knows beside others of it. */
const struct sn_hf_type *sn_hf_type_of(const struct sn_model_config *m, const char **alien);
/* "gpt2, gpt_neox, ... or mixtral"; returns buf. */
enum { SN_HF_NAMES_SIZE = 384 };
const char *sn_hf_type_names(char buf[SN_HF_NAMES_SIZE]);

/* Row i of a type, its lists one after the other; NULL behind the last. */
const struct sn_hf_key *sn_hf_key_at(const struct sn_hf_type *t, int i);
/* The row of a name, "OBJECT.key" for a key in an object; NULL: unknown. */
const struct sn_hf_key *sn_hf_key_find(const struct sn_hf_type *t, const char *name);
/* Their word in ours, or our word in theirs; a text that is a number, or of a row without words,
 * itself; NULL: no such word. */
const char *sn_hf_word_ours(const struct sn_hf_key *k, const char *theirs);
const char *sn_hf_word_theirs(const struct sn_hf_key *k, const char *ours);
/* "null, gelu or relu": their words; returns buf. */
const char *sn_hf_words(const struct sn_hf_key *k, char buf[SN_HF_NAMES_SIZE]);
/* Layers from `from` on have a window but for every `every`-th (0: all of them). */
struct sn_hf_windows {
    int from, every;
};
/* Of n layers; false: they are not of this form. */
bool sn_hf_windows_of(struct sn_hf_windows *out, const bool *is_local, int n);
/* The row that an alias stands for; any other row itself. */
const struct sn_hf_key *sn_hf_key_of(const struct sn_hf_type *t, const struct sn_hf_key *k);

/* List i of all, each once, and the types that have it; NULL behind the last. */
const struct sn_hf_key *sn_hf_list_at(int i, char types[SN_HF_NAMES_SIZE]);
/* The table as a page (docs/HUGGINGFACE.md). */
void sn_hf_help(struct sn_str *out);

#endif
