/*
 * plan_pictures.h - sennit-plan --svg, --trace, --timeline and --report: the step played once more, recorded.
 */
#ifndef SN_BIN_PLAN_PICTURES_H
#define SN_BIN_PLAN_PICTURES_H

#include "lib/page/page.h"

struct sn_pictures {
    const char *svg, *trace, *report; /* files; NULL: not asked for */
    bool timeline;                    /* on stdout, as wide as the terminal, else 100 columns */
};

/* `p`: the plan, and what its page has beside it but for the picture. Does nothing where nothing is asked
 * for. SN_EIO: "--svg FILE: why it cannot be written". */
enum sn_status sn_plan_pictures(const struct sn_pictures *want, const struct sn_page *p,
                                struct sn_err *err);
/* Can the page be written? SN_EINPUT: "--report FILE: why not". */
enum sn_status sn_plan_pictures_check(const struct sn_pictures *want, struct sn_err *err);

#endif
