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

struct sn_data_set {
    int path, valid, name; /* where in the text; 0: "" */
    double weight, epochs; /* 0: not said; no limit */
};

/* data.train or data.valid. */
struct sn_data_sets {
    int n;        /* 0: none */
    bool is_list; /* else one set, whose name is "" */
    int bytes;    /* of the text; text[0] is the end of "" */
    struct sn_data_set set[SN_SETS_MAX];
    char text[SN_SETS_TEXT];
};

/* data.phases: from a step on other weights. */
struct sn_data_part {
    int phase, name; /* which of them; the set's name, where in the text */
    double weight;
};
struct sn_data_phases {
    int n, n_parts, bytes;
    int64_t from_step[SN_PHASES_MAX];       /* rising */
    struct sn_data_part part[SN_PARTS_MAX]; /* in the order of phases */
    char text[SN_SETS_TEXT];
};

#endif
