/*
 * replay_test.h - runs of tests/lib/layout_test.h whose second step is recorded, with a wrong operand
 * of one rank where one is wanted.
 */
#ifndef REPLAY_TEST_H
#define REPLAY_TEST_H

#include "lib/config/config.h"
#include "lib/replay/compare.h"

enum { REPLAY_RANKS = 32 };

struct replay_test {
    struct sn_recording *of[REPLAY_RANKS];
    struct sn_results *results[REPLAY_RANKS];
    const char *output;            /* in: where they are saved; NULL: nowhere */
    const struct replay_test *was; /* in: a run that this is compared with, or NULL */
    struct sn_replay_finding found[REPLAY_RANKS]; /* that comes of it */
    int fault_rank; /* in: who takes a wrong operand in the second step; -1: nobody */
    uint64_t draw;  /* in: which one */
    int op;         /* whose operand it is; -1: none could be altered */
};

/* False: it ended before, or ranks' copies differ in the end. */
bool replay_test_train(struct replay_test *s, const struct sn_config *c);
void replay_test_forget(struct replay_test *s);

#endif
