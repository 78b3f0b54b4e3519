/*
 * profile.h - where the time of a run went, by kind of operation.
 */
#ifndef SN_PROFILE_H
#define SN_PROFILE_H

#include "lib/exec/exec.h"

#include <stdio.h>

void sn_profile_print(FILE *f, const struct sn_exec_time *times);

#endif
