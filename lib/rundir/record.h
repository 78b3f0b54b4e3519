/*
 * record.h - what a run leaves in its directory so that it can be understood without its run file:
 * OUTPUT/run.resolved.yaml, every key with the value that it had, includes and defaults filled in.
 */
#ifndef SN_RECORD_H
#define SN_RECORD_H

#include "lib/config/config.h"

#define SN_RECORD_RUN_FILE "run.resolved.yaml"

/* Write it anew, whole or not at all, into run.output, which exists. SN_ENOMEM, SN_EIO. */
enum sn_status sn_record_run_file(const struct sn_config *c, struct sn_err *err);

#endif
