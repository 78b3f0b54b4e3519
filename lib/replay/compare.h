/*
 * compare.h - two recordings of a step, of the same rank with the same program: where they part; and
 * what the ranks' findings say together.
 *
 * On kernels that round alike the first result with other bits counts. Otherwise results that are
 * close are taken for the same, as far as the precision of their type goes.
 */
#ifndef SN_REPLAY_COMPARE_H
#define SN_REPLAY_COMPARE_H

#include "lib/base/str.h"
#include "lib/replay/recording.h"

enum sn_parting {
    SN_PARTS_NOWHERE,
    SN_PARTS_BEFORE,    /* the step begins with something else */
    SN_PARTS_COMPUTING, /* an operation gave something else, of what was the same */
    SN_PARTS_RECEIVING, /* a message brought something else */
    SN_PARTS_ROUTING    /* other operations ran: other rows went to experts */
};

/* Of one rank. */
struct sn_replay_finding {
    int64_t results, same, near; /* that were compared; with the same bits; close ones */
    double nearest;              /* how far those are off, at most */
    int32_t parting;             /* enum sn_parting */
    int32_t is_exact;            /* every bit counts */
    int32_t is_other_layout;     /* that the step was made in again: */
    int32_t doubt;               /* SN_PARTS_COMPUTING: it may follow from what another rank
                                    computes with less doubt */
    int64_t apart;               /* results that only the recorded layout has */
    double off;                  /* of the first one that counts */
    char what[240];              /* it, with its operation and operand; "" for none */
};

/* How far results are off at most, when they differ by rounding alone, of a run that computes in
 * `precision`. (tests/unit/replay/test_replay_layouts.c, over all layouts of tests/equiv: 1.5e-3 in fp32, in OLMo 2's
 * attention, whose gradients nearly cancel, and 3e-4 elsewhere; 0.12 in bf16, 8e-3 in fp16. With a
 * bound of 1e-3 one rank alone noticed 1,407 wrong operands in fp32, of which 21 were off by less than 2e-3 and
 * 34 by 2e-3 to 5e-3.) */
double sn_replay_rounding(enum sn_dtype precision);
/* Of the rank whose job this is. */
void sn_replay_compare(struct sn_replay_finding *out, const struct sn_job *j,
                       const struct sn_recording *was, const struct sn_recording *is);
/* Result r is the first one that differs. */
void sn_replay_part(struct sn_replay_finding *f, const struct sn_job *j,
                    const struct sn_recorded *r);
/* What an operation and its result are called: "gemm 'l1.ffn.down' (operation 33, micro-batch 2): out
 * 'l1.ffn.down.y', 128 x 64". */
void sn_replay_name(struct sn_str *out, const struct sn_job *j, const struct sn_recorded *r);
/* What all ranks' findings say, in sentences, a line each. False: nothing differs. */
bool sn_replay_judge(struct sn_str *out, const struct sn_replay_finding *f, int ranks);

#endif
