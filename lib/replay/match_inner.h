/*
 * match_inner.h - what a match knows of two layouts. Internal to lib/replay.
 *
 *   match.c         compiles, holds a step against what was recorded
 *   match_pieces.c  which own results give which parts of recorded ones
 */
#ifndef SN_MATCH_INNER_H
#define SN_MATCH_INNER_H

#include "lib/base/mem.h"
#include "lib/meaning/meaning.h"
#include "lib/meaning/slabs.h"
#include "lib/program/opinfo.h"
#include "lib/replay/match.h"

/* A result, by where it is in its program. */
struct sn_match_at {
    int entry, op, out;
};

/* A part of a logical tensor in a result. */
struct sn_match_piece {
    struct sn_slab slab;
    int64_t cols; /* of the operand */
    int target;   /* of a recorded one: number of its result; of an own one its number in the
                     program's order */
    struct sn_match_at at;
};

struct sn_match_pieces {
    struct sn_match_piece *t;
    int n, cap;
};

/* Elements that an own result gives for a recorded one. */
struct sn_match_item {
    struct sn_match_at at;
    int target;
    int64_t rows, cols;
    int64_t mine, mine_ld, mine_cols;     /* where they begin in the own operand, */
    int64_t theirs, their_ld, their_cols; /* and in the recorded one */
};

/* A result of a recorded rank. */
struct sn_match_target {
    struct sn_match_at at;
    int rank;
    bool is_whole;              /* all of it is made here, too */
    struct sn_fingerprint made; /* of this step so far */
};

struct sn_match {
    const struct sn_job *mine;
    struct sn_model *model;
    struct sn_job **jobs;
    int ranks;
    struct sn_match_pieces theirs, own;
    struct sn_match_target *targets; /* by rank, each in the order of its program */
    int n_targets, cap_targets;
    int *first_target;           /* by rank, and the end */
    struct sn_match_item *items; /* by `at` */
    int n_items, cap_items;
    struct sn_recording **was;
    struct sn_signs signs;
    bool failed; /* an allocation */
};

/* By entry, operation, operand. */
int sn_match_compare_at(const struct sn_match_at *a, const struct sn_match_at *b);
enum sn_status sn_match_no_memory(struct sn_err *err);
/* sn_meaning_look, arg: the match. World 0 is recorded, world 1 is the own one. */
void sn_match_follow(void *match, const struct sn_meaning_result *r);
/* All has been followed: m->targets by rank, each in the order of its program, and m->items. */
enum sn_status sn_match_join(struct sn_match *m, struct sn_err *err);

#endif
