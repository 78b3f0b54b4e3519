/*
 * data_sets.h - the sets of token files that a run reads, and by which weights in which steps.
 *
 * Texts lie one behind the other in a block, so that a configuration stays one piece of memory.
 */
#ifndef SN_DATA_SETS_H
#define SN_DATA_SETS_H

#include <stdbool.h>
#include <stdint.h>

enum { SN_SETS_MAX = 64, SN_PHASES_MAX = 16, SN_PARTS_MAX = 256, SN_SETS_TEXT = 8192 };
enum { SN_SET_NAME_MAX = 64 }; /* bytes, with the end */

/* Texts; at 0 is "". */
struct sn_set_texts {
    int bytes;
    char text[SN_SETS_TEXT];
};

struct sn_data_set {
    int path, valid, name; /* where in the texts; 0: not said */
    double weight, epochs; /* 0: not said; no limit */
};

/* data.train or data.valid. */
struct sn_data_sets {
    int n;        /* 0: none */
    bool is_list; /* else one set, without a name */
    struct sn_data_set set[SN_SETS_MAX];
    struct sn_set_texts texts;
};

/* data.phases: from some steps on, other weights. */
struct sn_data_part {
    int phase, name; /* which phase; the set's, where in the texts */
    double weight;
};
struct sn_data_phases {
    int n, n_parts;
    int64_t from_step[SN_PHASES_MAX];       /* rising */
    struct sn_data_part part[SN_PARTS_MAX]; /* in the order of phases */
    struct sn_set_texts texts;
};

/* Prefixes of .bin and .idx; "": not said. */
const char *sn_set_path(const struct sn_data_sets *s, int i);
const char *sn_set_valid(const struct sn_data_sets *s, int i);
const char *sn_set_name(const struct sn_data_sets *s, int i);
/* -1: there is none of that name. */
int sn_set_find(const struct sn_data_sets *s, const char *name);
/* One set, as by `data.train: PREFIX`; "": none. */
void sn_sets_take(struct sn_data_sets *s, const char *prefix);
/* Where the text lies now; -1: no room. */
int sn_set_texts_add(struct sn_set_texts *t, const char *text);

/* What is validated on: data.valid, then what sets of data.train have. The name of a prefix in data.valid
 * is "" where it is all, else "valid". */
struct sn_data_config;
struct sn_valid_set {
    const char *name, *path;
};
int sn_valid_sets(const struct sn_data_config *d);
struct sn_valid_set sn_valid_set(const struct sn_data_config *d, int i);

/* Sets of data.train whose losses are told one by one: 0 where there is one. */
int sn_told_sets(const struct sn_data_config *d);
/* Into weight[] of each set those of a phase of data.phases, or with -1 data.train's own; 0: it has no
 * part. False: none is said, which is by size. */
bool sn_phase_weights(const struct sn_data_config *d, int phase, double weight[]);

#endif
