/*
 * lr_schedule.h - what a schedule of the learning rate is: one row.
 *
 * All schedules warm up alike; a row says what comes after the warm-up. Its function of the step is
 * `rate_` and the row's word in lib/train/lr.c. Nobody else asks which schedule it is (tools/lint
 * schedules).
 */
#ifndef SN_LR_SCHEDULE_H
#define SN_LR_SCHEDULE_H

#include <stdbool.h>

/* clang-format off */
/* Id, what its function is called by, name, whether it reads train.schedule.decay. */
#define SN_LR_SCHEDULES(ROW)                                                                       \
    ROW(SN_LR_CONSTANT, constant, "constant", false)                                               \
    ROW(SN_LR_LINEAR, linear, "linear", false)                                                     \
    /* Loshchilov & Hutter 2017 (arXiv 1608.03983, equation 5), without restarts */                \
    ROW(SN_LR_COSINE, cosine, "cosine", false)                                                     \
    /* Vaswani et al. 2017 (arXiv 1706.03762, equation 3), scaled to lr at the end of the warm-up */ \
    ROW(SN_LR_RSQRT, rsqrt, "rsqrt", false)                                                        \
    /* Warm-up, stable, decay: Hu et al. 2024 (arXiv 2404.06395), with the linear decay that */     \
    /* Haegele et al. 2024 (arXiv 2405.18392) compare */                                           \
    ROW(SN_LR_WSD, wsd, "wsd", true)                                                               \
    /* The same with their other one, 1-sqrt */                                                    \
    ROW(SN_LR_WSD_SQRT, wsd_sqrt, "wsd-sqrt", true)                                                \
    /* The same with half a period of a cosine */                                                  \
    ROW(SN_LR_WSD_COSINE, wsd_cosine, "wsd-cosine", true)
/* clang-format on */

#define SN_LR_ID(id, ...) id,
enum sn_lr_kind { SN_LR_SCHEDULES(SN_LR_ID) SN_NLR_KINDS };
#undef SN_LR_ID
#define SN_LR_DEFAULT_NAME "cosine"

extern const char *const sn_lr_names[SN_NLR_KINDS + 1]; /* the last is NULL */

/* Do its last steps, of which train.schedule.decay says how many, have a shape of their own? */
bool sn_lr_has_decay(enum sn_lr_kind k);

#endif
