/*
 * pipeline_schedule.h - what a pipeline schedule is: one row of traits.
 *
 * A schedule says in which order a stage computes its micro-batches. Who checks, lowers, bounds or
 * prices one reads the traits and never asks which schedule it is (tools/lint schedules). How many
 * forwards a stage is ahead and how late its weight gradients are, as functions of the sizes of a
 * pipeline, is one line of each row in lib/layout/schedule.c.
 */
#ifndef SN_PIPELINE_SCHEDULE_H
#define SN_PIPELINE_SCHEDULE_H

#include <stdbool.h>

struct sn_schedule_traits {
    bool virtual_stages; /* a stage may hold several parts of the model; with one it is 1f1b */
    bool whole_groups;   /* micro-batches come in groups of as many as there are stages */
    bool sweeps;         /* all forwards of a stage, then all its backwards */
    bool turns;          /* stage s of p begins micro-batch i + p - s when micro-batch i is back */
    bool delays_weights; /* weight gradients are tasks of their own, later than input gradients */
    bool takes_turns; /* a forward and the backward behind it need not wait for each other, so that
                         their operations may take turns (lib/program/turns.c) */
};

/* clang-format off */
/* Id, what its functions are called by, name, traits. */
#define SN_SCHEDULES(ROW)                                                                          \
    /* Huang et al. 2019 (arXiv 1811.06965) */                                                     \
    ROW(SN_GPIPE, gpipe, "gpipe", .sweeps = true)                                                  \
    /* Narayanan et al. 2021 (arXiv 2104.04473, 2.2.1) */                                          \
    ROW(SN_1F1B, 1f1b, "1f1b", .turns = true)                                                      \
    /* 2.2.2 there */                                                                              \
    ROW(SN_INTERLEAVED, interleaved, "interleaved", .virtual_stages = true, .whole_groups = true)  \
    /* ZB-H1 (Qi et al. 2023, arXiv 2401.10241) */                                                 \
    ROW(SN_ZERO_BUBBLE, zero_bubble, "zero-bubble", .delays_weights = true)               \
    /* Combined 1F1B of Megatron-LM; DualPipe's overlap (DeepSeek-V3, arXiv 2412.19437, 3.2.1) */  \
    ROW(SN_COMBINED, combined, "combined", .virtual_stages = true, .whole_groups = true,           \
        .takes_turns = true)
/* clang-format on */

#define SN_SCHEDULE_ID(id, ...) id,
enum sn_schedule {
    SN_SCHEDULES(SN_SCHEDULE_ID) SN_NSCHEDULES,
    /* Where the run file names none, and where there is no pipeline so that any would do. */
    SN_SCHEDULE_DEFAULT = SN_1F1B
};
#undef SN_SCHEDULE_ID
#define SN_SCHEDULE_DEFAULT_NAME "1f1b"

extern const char *const sn_schedule_names[SN_NSCHEDULES + 1]; /* the last is NULL */

const struct sn_schedule_traits *sn_schedule_traits(enum sn_schedule s);
/* Those that have virtual stages, for a sentence: "interleaved"; returns buf. */
enum { SN_SCHEDULES_SIZE = 64 };
const char *sn_schedules_with_virtual_stages(char buf[SN_SCHEDULES_SIZE]);

#endif
