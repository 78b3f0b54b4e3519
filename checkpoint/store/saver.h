/*
 * saver.h - joins the step loop (lib/state/state.h) to the checkpoint format (checkpoint/).
 */
#ifndef SN_SAVER_H
#define SN_SAVER_H

#include "lib/config/config.h"
#include "lib/state/state.h"

/* A saver for run.output / checkpoint.dir. */
enum sn_status sn_saver_open(struct sn_saver *out, const struct sn_config *c, struct sn_err *err);
void sn_saver_close(struct sn_saver *s);

#endif
