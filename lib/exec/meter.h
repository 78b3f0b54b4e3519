/*
 * meter.h - what a run of the train program takes on this rank, for lib/monitor: the seconds of each
 * kind of work, and when some of its transfers were carried out.
 *
 * Of each operation the processor's executor knows the time anyway; a sum more is all that this
 * adds. Transfers are those that all members of a group, or both ends of a pair, choose alike from
 * their texts: of those on a path that are planned to take at least half of the longest, up to
 * SN_MONITOR_OF_PATH, spread over the step. Left out is what routing decides: products of experts,
 * their exchanges. A device runs ahead of this process, so its operations have no times here.
 */
#ifndef SN_METER_H
#define SN_METER_H

#include "lib/cost/price.h"
#include "lib/monitor/record.h"

struct sn_exec;
struct sn_meter;

/* Of x's train program, priced by `pricer`, which is used here alone. Allocates all it needs. Caller
 * destroys, after the last run with it. */
enum sn_status sn_meter_create(struct sn_meter **out, struct sn_exec *x,
                               const struct sn_pricer *pricer, struct sn_err *err);
void sn_meter_destroy(struct sn_meter *m); /* NULL is allowed */
/* From now on x's runs of the train program are metered (borrowed); NULL: no more. */
void sn_exec_set_meter(struct sn_exec *x, struct sn_meter *m);
/* Are times of operations known without waiting for them? Not on a device. */
bool sn_exec_has_times(const struct sn_exec *x);

/* What is planned: all but host and leaf. */
void sn_meter_plan(const struct sn_meter *m, struct sn_monitor_plan *out);
/* What the last run took: all but the step. */
void sn_meter_read(const struct sn_meter *m, struct sn_monitor_record *out);

#endif
