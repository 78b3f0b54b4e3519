/*
 * named.h - the machine and the trainer that a run file names, read.
 */
#ifndef SN_NAMED_H
#define SN_NAMED_H

#include "lib/config/config.h"
#include "lib/machine/machine.h"
#include "lib/machine/software.h"

/* Does the run file name a machine? Else the shipped laptop-cpu stands for one. */
bool sn_names_machine(const struct sn_config *c);

/* The machine of a run: SN_EINPUT where it is unknown, has not the run's precision, or has fewer
 * devices in machine.nodes than a resolved layout has ranks. `share_dir` holds machines/NAME.yaml;
 * NULL means the installed or in-tree one. The caller ends with sn_machine_fini. */
enum sn_status sn_machine_of(struct sn_machine *out, const struct sn_config *c,
                             const char *share_dir, struct sn_err *err);
/* The trainer: the default without machine.software. */
enum sn_status sn_software_of(struct sn_software *out, const struct sn_config *c,
                              const char *share_dir, struct sn_err *err);
/* A shipped machine by its name alone. */
enum sn_status sn_machine_preset(struct sn_machine *out, const char *name, const char *share_dir,
                                 struct sn_err *err);

/* SN_EINPUT, which names what would work, where the device does not compute in this precision. */
enum sn_status sn_machine_check_precision(const struct sn_machine *m, enum sn_dtype precision,
                                          struct sn_err *err);

/* Bytes that a rank may fill: the device's memory times machine.memory_fraction; 0: not known. */
int64_t sn_memory_limit(const struct sn_machine *m, const struct sn_config *c);
/* Ranks that machine.nodes hold; 0: not said. */
int64_t sn_machine_ranks(const struct sn_machine *m, const struct sn_config *c);

#endif
