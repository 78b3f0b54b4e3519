/*
 * study.h - what each choice of a layout is worth: the best layout with each value of one or two keys,
 * all other keys searched. The tables of the study of layouts (Hagemann, Weinbach, Dobler, Schall and de
 * Melo, "Efficient Parallelization Layouts for Large-Scale Distributed Model Training", arXiv 2311.05610,
 * section 4) for any model and machine.
 *
 *   micro-batch x recomputation      layout.micro_batch 1, 2, 4 ..., layout.recompute
 *   tensor x pipeline ranks          the divisors of a node's devices; 1, 2, 4 ...
 *   sequence parallelism x tensor    layout.sequence_parallel false and true
 *   ZeRO x tensor ranks              layout.zero 0 .. 3
 *   attention kernel x norm          machine.software; of a trainer of others, whose kernels a profile tells
 *                                    apart
 *
 * A key that the run file names stands, but for the keys of a table.
 */
#ifndef SN_STUDY_H
#define SN_STUDY_H

#include "lib/base/str.h"
#include "lib/search/search.h"

enum { SN_STUDY_ROWS = 6, SN_STUDY_COLUMNS = 6, SN_STUDY_TABLES = 5 };

struct sn_study_cell {
    bool valid; /* a layout has these values; where none is found it does not fit */
    bool found; /* else `why` there is none, and nothing below */
    char why[sizeof(((struct sn_err *)0)->text)];
    struct sn_layout_config layout;
    struct sn_plan plan;
    int64_t limit; /* bytes that a rank may fill */
};

struct sn_study_table {
    const char *down, *across; /* what rows and columns are */
    int rows, columns;
    char row[SN_STUDY_ROWS][16], column[SN_STUDY_COLUMNS][16];
    struct sn_study_cell cell[SN_STUDY_ROWS][SN_STUDY_COLUMNS];
};

struct sn_study {
    int ranks, n;
    struct sn_study_table *table; /* [n] */
};

struct sn_study_want {
    const struct sn_config *config;
    const struct sn_machine *machine;
    const struct sn_ops *ops;
    int threads, ranks;
};

/* SN_EINPUT where no cell of any table has a layout that is valid. The caller ends with
 * sn_study_fini. */
enum sn_status sn_study_run(struct sn_study *out, const struct sn_study_want *w,
                            struct sn_err *err);
void sn_study_fini(struct sn_study *s); /* a zeroed one is allowed */

/* The cell of a table, or of all, with the shortest step; NULL: nothing fits. */
const struct sn_study_cell *sn_study_best_of(const struct sn_study_table *t);
const struct sn_study_cell *sn_study_best(const struct sn_study *s);
/* Each table: MFU and grid of each cell, the best with a star. */
void sn_study_text(struct sn_str *out, const struct sn_study *s, const struct sn_study_want *w);

#endif
