/*
 * duration.h - time limits as schedulers write them.
 */
#ifndef SN_DURATION_H
#define SN_DURATION_H

#include <stdbool.h>
#include <stdint.h>

enum { SN_DURATION_SIZE = 32 };

/* Slurm's forms: M, M:S, H:M:S, D-H, D-H:M and D-H:M:S. False for anything else, for no time at all
 * and for more than 10 years. *seconds is set only then. */
bool sn_duration_parse(const char *text, int64_t *seconds);
/* "H:MM:SS", or "D-HH:MM:SS" from a day on; returns buf. */
const char *sn_duration_format(char buf[SN_DURATION_SIZE], int64_t seconds);

#endif
